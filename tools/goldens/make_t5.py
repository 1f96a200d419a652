"""Writes tests/goldens/{t5,t5_1_1,mt5}.npz: tiny random models and what transformers makes of them.

    pip install torch==2.13.0 transformers==5.23.0
    python tools/goldens/make_t5.py

Kept apart from the tests because the project itself does not need PyTorch. Each file holds the
weights (`weights/NAME`), padded inputs, logits, loss, the gradients of some weights
(`gradients/NAME`) and what greedy generation gives.
"""

import golden
import numpy as np
import torch
from transformers import (
    MT5Config,
    MT5ForConditionalGeneration,
    T5Config,
    T5ForConditionalGeneration as T5,
)

SIZES = dict(
    vocab_size=61, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_decoder_layers=2, num_heads=4,
    dropout_rate=0.0, decoder_start_token_id=0, pad_token_id=0, eos_token_id=1,
)  # fmt: skip
# One of each kind of parameter.
GRADIENTS = (
    'shared.weight',
    'lm_head.weight',
    'encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight',
    'decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight',
    'encoder.block.1.layer.0.SelfAttention.q.weight',
    'encoder.block.0.layer.1.DenseReluDense.wo.weight',
    'decoder.block.1.layer.1.EncDecAttention.k.weight',
    'decoder.block.1.layer.1.EncDecAttention.v.weight',
    'decoder.block.0.layer.2.layer_norm.weight',
    'decoder.final_layer_norm.weight',
)


def build(name: str) -> torch.nn.Module:
    """A model of each family, with weights large enough for greedy decoding to vary."""
    torch.manual_seed({'t5': 16, 't5_1_1': 7, 'mt5': 8}[name])
    if name == 't5':
        model = T5(T5Config(**SIZES, feed_forward_proj='relu'))
    else:
        # transformers 5 sets tie_word_embeddings to True whatever it is given; T5Config remembers
        # the argument in scale_decoder_outputs.
        kinds = {'t5_1_1': (T5Config, T5), 'mt5': (MT5Config, MT5ForConditionalGeneration)}
        config_class, model_class = kinds[name]
        config = config_class(**SIZES, feed_forward_proj='gated-gelu', tie_word_embeddings=False)
        config.tie_word_embeddings = False
        model = model_class(config)
        # That also unties the two stacks' tables, which every public checkpoint shares.
        model.encoder.embed_tokens.weight = model.shared.weight
        model.decoder.embed_tokens.weight = model.shared.weight
        assert model.lm_head.weight is not model.shared.weight
    with torch.no_grad():
        for key, value in model.named_parameters():
            if 'layer_norm' in key:
                value.copy_(1.0 + 0.2 * torch.randn_like(value))
            elif 'relative' in key:
                value.copy_(torch.randn_like(value))
            elif key not in ('shared.weight', 'lm_head.weight'):
                value.copy_(torch.randn_like(value) * 1.2 / value.shape[-1] ** 0.5)
            elif key == 'lm_head.weight':
                value.copy_(torch.randn_like(value) * 0.3)
        # The end of a text has to come up in some rows.
        table = model.shared if name == 't5' else model.lm_head
        table.weight[1] *= 1.3 if name == 't5' else 2.0
    return model.eval()


def record(name: str, model: torch.nn.Module) -> dict[str, np.ndarray | torch.Tensor]:
    """Inputs of several lengths, and all that the tests compare."""
    rng = np.random.default_rng(3)
    # Long enough for relative distances beyond every exact bucket, and past the last one.
    inputs = rng.integers(2, SIZES['vocab_size'], (3, 150))
    targets = rng.integers(2, SIZES['vocab_size'], (3, 40))
    input_lengths, target_lengths = (150, 31, 7), (40, 12, 5)
    for row in range(3):
        inputs[row, input_lengths[row] :] = 0
        targets[row, target_lengths[row] :] = 0
    ids, labels = torch.tensor(inputs), torch.tensor(targets)
    mask = (ids != 0).long()
    out = model(input_ids=ids, attention_mask=mask, labels=labels.masked_fill(labels == 0, -100))
    out.loss.backward()
    weights = {key: value for key, value in model.state_dict().items() if 'embed_tokens' not in key}
    if name == 't5':
        del weights['lm_head.weight']
    return {
        'inputs': inputs,
        'targets': targets,
        'logits': out.logits[:, ::3],  # Every third position: the file is small.
        'loss': out.loss,
        'greedy': golden.greedy(model, ids, mask),
        **{f'weights/{key}': value for key, value in weights.items()},
        **golden.gradients(model, GRADIENTS),
    }


def main():
    for name in ('t5', 't5_1_1', 'mt5'):
        values = record(name, build(name))
        golden.save(name, values, values['loss'].item(), values['greedy'].tolist())


if __name__ == '__main__':
    main()
