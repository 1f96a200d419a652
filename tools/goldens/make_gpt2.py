"""Writes tests/goldens/gpt2.npz: a tiny random GPT-2, as in make_t5.py.

    pip install torch==2.13.0 transformers==5.23.0
    python tools/goldens/make_gpt2.py

The file holds the weights (`weights/NAME`), prompts padded on the right and what follows them,
logits and losses of the tokens of whole texts, the gradients of some weights (`gradients/NAME`),
and what generation writes after each prompt, greedily and with beams.
"""

import golden
import numpy as np
import torch
from transformers import GenerationConfig, GPT2Config, GPT2LMHeadModel

VOCAB, EOS, MAX_LENGTH = 61, 60, 20
LENGTHS = ((16, 10), (7, 12), (2, 4))  # Of prompt and continuation in each row.
# One of each kind of parameter.
GRADIENTS = (
    'transformer.wte.weight', 'transformer.wpe.weight', 'transformer.ln_f.weight',
    'transformer.h.0.ln_1.bias', 'transformer.h.1.ln_2.weight',
    'transformer.h.0.attn.c_attn.weight', 'transformer.h.1.attn.c_attn.bias',
    'transformer.h.1.attn.c_proj.weight', 'transformer.h.0.mlp.c_fc.weight',
    'transformer.h.1.mlp.c_proj.bias',
)  # fmt: skip
CASES = {
    'greedy': {},
    'beams': dict(num_beams=3, num_return_sequences=3),
    'eager': dict(num_beams=4, num_return_sequences=2, early_stopping=True, length_penalty=0.6),
}


def build() -> GPT2LMHeadModel:
    """A model with weights, float16 numbers, so large that texts vary and end."""
    torch.manual_seed(5)
    config = GPT2Config(
        vocab_size=VOCAB, n_positions=48, n_embd=32, n_layer=2, n_head=4, n_inner=40,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=EOS, eos_token_id=EOS,
    )  # fmt: skip
    model = GPT2LMHeadModel(config)
    assert model.lm_head.weight is model.transformer.wte.weight
    with torch.no_grad():
        for key, value in model.named_parameters():
            draw = torch.randn_like(value)
            if key.endswith(('ln_1.weight', 'ln_2.weight', 'ln_f.weight')):
                draw = (4.0 if 'ln_f' in key else 1.0) * (1.0 + 0.2 * draw)
            elif key.endswith('bias') or 'wte' in key:
                draw = 0.1 * draw
            elif 'wpe' in key:
                draw = 0.3 * draw
            else:
                large = 4.0 if key.endswith('mlp.c_proj.weight') else 2.0
                draw *= large / value.shape[0] ** 0.5
            value.copy_(draw.half())
        end = model.transformer.wte.weight[EOS]
        end.copy_((3.5 * end).half())
    model.generation_config = GenerationConfig(bos_token_id=EOS, eos_token_id=EOS, pad_token_id=EOS)
    return model.eval()


def main():
    model = build()
    rng = np.random.default_rng(3)
    texts = [rng.integers(0, EOS, sum(lengths)) for lengths in LENGTHS]
    for text, (prompt, _) in zip(texts, LENGTHS, strict=True):
        text[-1] = EOS
        text[prompt - 1] = EOS  # The end of a prompt, as between two turns of a dialogue.
    values = {'lengths': np.array(LENGTHS, np.int32)}
    total = 0.0
    for row, text in enumerate(texts):
        ids = torch.tensor(text)[None]
        logits = model(input_ids=ids).logits
        losses = torch.nn.functional.cross_entropy(logits[0, :-1], ids[0, 1:], reduction='none')
        total = total + losses.sum()
        values |= {f'text{row}': text, f'logits{row}': logits[0], f'losses{row}': losses}
        prompt = ids[:, : LENGTHS[row][0]]
        for name, case in CASES.items():
            options = dict(num_beams=1, do_sample=False, max_new_tokens=MAX_LENGTH) | case
            options |= dict(return_dict_in_generate=True, output_scores=True)
            out = model.generate(
                input_ids=prompt, attention_mask=torch.ones_like(prompt), **options
            )
            written = out.sequences[:, prompt.shape[1] :].numpy()
            padded = np.full((len(written), MAX_LENGTH), EOS, np.int32)
            padded[:, : written.shape[1]] = written
            values[f'{name}{row}'] = padded
            if options['num_beams'] > 1:
                values[f'{name}{row}/scores'] = out.sequences_scores.numpy()
    total.backward()
    values |= {f'weights/{key}': value.half() for key, value in model.named_parameters()}
    golden.save('gpt2', values | golden.gradients(model, GRADIENTS))
    for name in CASES:
        print(name, [values[f'{name}{row}'].tolist() for row in range(len(texts))])


if __name__ == '__main__':
    main()
