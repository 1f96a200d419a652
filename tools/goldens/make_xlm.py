"""Writes tests/goldens/xlm.npz: a tiny random XLM (arXiv:1901.07291), as in make_bert.py.

    pip install torch==2.13.0 transformers==5.23.0
    python tools/goldens/make_xlm.py

The file holds weights (`weights/NAME`), padded inputs, a language for each token, and the states
that transformers makes of them with languages and without.
"""

import golden
import numpy as np
import torch
from transformers import XLMConfig, XLMModel

PAD, END = 2, 1


def main() -> None:
    torch.manual_seed(5)
    config = XLMConfig(
        vocab_size=61, emb_dim=24, n_layers=2, n_heads=4, dropout=0.0, attention_dropout=0.0,
        n_langs=3, max_position_embeddings=40, pad_token_id=PAD,
    )  # fmt: skip
    model = XLMModel(config).eval()
    with torch.no_grad():
        for key, value in model.named_parameters():
            noise = torch.randn_like(value)
            if key.endswith('bias'):
                noise = 0.2 * noise
            elif 'norm' in key:
                noise = 1.0 + 0.2 * noise
            elif 'embeddings' not in key:
                noise = 1.4 * noise / value.shape[-1] ** 0.5
            value.copy_(noise.half().float())
    rng = np.random.default_rng(3)
    inputs, languages = rng.integers(14, 61, (3, 40)), np.zeros((3, 40), np.int64)
    for row, length in enumerate((40, 17, 5)):
        inputs[row, 0], inputs[row, length - 1], inputs[row, length:] = 0, END, PAD
        languages[row] = row
    ids, langs = torch.tensor(inputs), torch.tensor(languages)
    mask = (ids != PAD).long()
    with torch.no_grad():
        plain = model(input_ids=ids, attention_mask=mask).last_hidden_state
        named = model(input_ids=ids, attention_mask=mask, langs=langs).last_hidden_state
    values = {f'weights/{key}': value.half() for key, value in model.state_dict().items()}
    values |= {'inputs': inputs, 'languages': languages}
    values |= {'states': plain[:, ::3], 'states_of_languages': named[:, ::3]}
    golden.save('xlm', values)


if __name__ == '__main__':
    main()
