"""Writes tests/goldens/mvbart.npz: a tiny random BART that reads two views, as in make_bart.py.

    pip install torch==2.13.0 transformers==5.23.0
    python tools/goldens/make_mvbart.py

The reference follows what github.com/SALT-NLP/Multi-View-Seq2Seq computes (e92f1b2,
fairseq_multi_view/fairseq/models/bart/model.py and modules/multihead_attention.py), for one example
at a time: there the LSTM goes over the padding of a batch, too. Parameters of BART are those that
make_bart.py draws; the names of the new ones are the official ones.
"""

import golden
import make_bart
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

SIZE, HEADS = make_bart.SIZES['d_model'], make_bart.SIZES['encoder_attention_heads']
TEMPERATURE = 0.2
PAD, EOS = 1, 2
MARKS = (7, 8)  # Ids that begin a segment.
GRADIENTS = (
    'section.weight_ih_l0', 'section.weight_hh_l0', 'section.bias_ih_l0', 'w_proj.weight',
    'w_proj_layer_norm.weight', 'w_context_vector.weight', 'model.shared.weight',
    'model.encoder.embed_positions.weight', 'model.encoder.layers.1.fc1.bias',
    'model.encoder.layers.0.self_attn.v_proj.weight',
    'model.decoder.layers.1.encoder_attn.k_proj.weight',
    'model.decoder.layers.0.encoder_attn.out_proj.bias',
)  # fmt: skip


class MultiView(nn.Module):
    """The parts that MV-BART has beside BART's, and the pass through all of them."""

    def __init__(self, bart: nn.Module):
        super().__init__()
        self.bart = bart
        self.section = nn.LSTM(SIZE, SIZE)
        self.w_proj = nn.Linear(SIZE, SIZE)
        self.w_proj_layer_norm = nn.LayerNorm(SIZE)
        self.w_context_vector = nn.Linear(SIZE, 1, bias=False)

    def summary(self, ids: torch.Tensor, states: torch.Tensor) -> torch.Tensor:
        """The last state of the LSTM over the encoder's states [length, SIZE] at the marks."""
        sections = states[torch.isin(ids, torch.tensor(MARKS))]
        return self.section(sections[:, None])[0][-1, 0]

    def weights(self, summaries: torch.Tensor) -> torch.Tensor:
        """Of summaries [2, SIZE], the sharpened weights [2]."""
        hidden = torch.tanh(self.w_proj_layer_norm(self.w_proj(summaries)))
        weights = torch.softmax(self.w_context_vector(hidden)[:, 0], 0) ** (1 / TEMPERATURE)
        return weights / weights.sum()

    def forward(self, views: list[torch.Tensor], decoder_ids: torch.Tensor):
        """Views and decoder inputs of one example, each [length] -> logits, weights."""
        encoder, decoder = self.bart.model.encoder, self.bart.model.decoder
        states = [encoder(input_ids=view[None]).last_hidden_state[0] for view in views]
        weights = self.weights(
            torch.stack([self.summary(*pair) for pair in zip(views, states, strict=True)])
        )
        x = decoder.embed_tokens(decoder_ids)
        x = x + decoder.embed_positions.weight[2 : 2 + len(decoder_ids)]
        x = decoder.layernorm_embedding(x)
        future = torch.triu(torch.full((len(x), len(x)), -torch.inf), 1)
        for layer in decoder.layers:
            x = layer.self_attn_layer_norm(x + attend(layer.self_attn, x, x, future))
            seen = [attend(layer.encoder_attn, x, state) for state in states]
            y = weights[0] * seen[0] + weights[1] * seen[1]
            x = layer.encoder_attn_layer_norm(x + y)
            y = layer.fc2(F.gelu(layer.fc1(x)))
            x = layer.final_layer_norm(x + y)
        return x @ self.bart.model.shared.weight.T, weights


def attend(
    layer: nn.Module, x: torch.Tensor, source: torch.Tensor, mask: torch.Tensor | float = 0.0
) -> torch.Tensor:
    """Attention of x [length, SIZE] over a source, with the parameters of a layer."""

    def heads(y: torch.Tensor) -> torch.Tensor:
        return y.reshape(len(y), HEADS, -1).transpose(0, 1)

    q, k, v = heads(layer.q_proj(x)), heads(layer.k_proj(source)), heads(layer.v_proj(source))
    weights = torch.softmax(q @ k.transpose(1, 2) * q.shape[-1] ** -0.5 + mask, -1)
    return layer.out_proj((weights @ v).transpose(0, 1).reshape(len(x), -1))


def build() -> MultiView:
    """The model; all numbers are float16 ones, and the new ones large enough to weigh views."""
    model = MultiView(make_bart.build('bart'))
    torch.manual_seed(5)
    with torch.no_grad():
        for name, value in model.named_parameters():
            if not name.startswith('bart.'):
                draw = torch.randn_like(value)
                draw = 1 + 0.2 * draw if name == 'w_proj_layer_norm.weight' else 0.18 * draw
                value.copy_(draw.half())
    return model.eval()


def examples() -> tuple[list[list[np.ndarray]], list[np.ndarray]]:
    """Three examples of two views, of other lengths and numbers of segments, and their targets."""
    rng = np.random.default_rng(4)
    views = []
    for lengths, counts in (((18, 20), (3, 2)), ((9, 7), (1, 4)), ((12, 12), (2, 2))):
        pair = []
        for length, count in zip(lengths, counts, strict=True):
            ids = rng.integers(9, 59, length)
            ids[rng.choice(np.arange(1, length - 1), count, replace=False)] = rng.choice(
                MARKS, count
            )
            ids[-1] = EOS
            pair.append(ids.astype(np.int64))
        views.append(pair)
    targets = [rng.integers(9, 59, n) for n in (10, 4, 7)]
    for row in targets:
        row[-1] = EOS
    return views, targets


def greedy(model: MultiView, views: list[torch.Tensor], steps: int) -> list[int]:
    """The likeliest next token, again and again."""
    ids = [EOS]
    for _ in range(steps):
        ids.append(int(model(views, torch.tensor(ids))[0][-1].argmax()))
        if ids[-1] == EOS:
            break
    return ids[1:]


def padded(rows: list[np.ndarray], width: int, fill: int = PAD) -> np.ndarray:
    """Rows of ids as one array, [rows, width]."""
    result = np.full((len(rows), width), fill, np.int32)
    for row, ids in zip(result, rows, strict=True):
        row[: len(ids)] = ids
    return result


def main():
    model = build()
    views, targets = examples()
    tensors = [[torch.tensor(view) for view in pair] for pair in views]
    losses, logits, weights = [], np.zeros((3, 10, make_bart.SIZES['vocab_size']), np.float32), []
    for number, (pair, target) in enumerate(zip(tensors, targets, strict=True)):
        out, weight = model(pair, torch.tensor([EOS, *target[:-1]]))
        losses.append(F.cross_entropy(out, torch.tensor(target), reduction='sum'))
        logits[number, : len(target)] = out.detach().numpy()
        weights.append(weight.detach().numpy())
    loss = sum(losses) / sum(map(len, targets))
    loss.backward()
    with torch.no_grad():
        decoded = [greedy(model, pair, 12) for pair in tensors]
    parameters = {
        key.removeprefix('bart.'): value
        for key, value in model.named_parameters()
        if 'embed_tokens' not in key
    }
    values = {
        'views_1': padded([pair[0] for pair in views], 20),
        'views_2': padded([pair[1] for pair in views], 20),
        'targets': padded(targets, 10),
        'logits': logits,
        'view_weights': np.array(weights),
        'loss': loss,
        'greedy': padded([np.array(row) for row in decoded], 12),
        'marks': np.array(MARKS, np.int32),
        **{f'weights/{key}': value.half() for key, value in parameters.items()},
        **{f'gradients/{key}': parameters[key].grad for key in GRADIENTS},
    }
    golden.save('mvbart', values, loss.item(), values['view_weights'].tolist(), decoded)


if __name__ == '__main__':
    main()
