"""Writes public_encoders.npz: ids, states and vectors of two public encoders on made-up sentences.

  XLBENCH_DEV_MODELS=FOLDER TORCH_ENV/bin/python tools/goldens/make_public_encoders.py

FOLDER has all-minilm-l6-v2 and multilingual-e5-small-q4, ordinary Hugging Face folders. Needs
PyTorch and transformers (written with 2.13 and 5.23); tests/huggingface/public_encoders_test.py
reads the file.
"""

import os
import pathlib

import golden
import numpy as np
import torch
import transformers

NAMES = ('all-minilm-l6-v2', 'multilingual-e5-small-q4')
SENTENCES = (
    'Anna waters the plants before breakfast.',
    'Der Zug nach Ulm hält heute nicht in Plochingen.',
    'La panadería abre a las siete, pero hoy está cerrada.',
    'Le chat dort sous la table depuis midi.',
    '明天早上我们去湖边散步。',
    '電車が遅れたので、歩いて帰りました。',
    'Kitabu changu kiko mezani karibu na dirisha.',
    'நாளை மழை பெய்யும் என்று அம்மா சொன்னார்.',
    'Yarın sabah pazara gidip elma alacağız.',
    'Поезд опоздал на 3 минуты — ничего страшного!',
    'הספר מונח על השולחן ליד החלון.',
    'ฝนตกทั้งวัน เราจึงอยู่บ้าน',
)
PAIRS = ((SENTENCES[1], 'Er hält in Esslingen.'), (SENTENCES[0], 'Nobody waters the plants.'))


def main():
    arrays = {'sentences': np.array(SENTENCES), 'pairs': np.array(PAIRS)}
    for name in NAMES:
        folder = pathlib.Path(os.environ['XLBENCH_DEV_MODELS'], name)
        model = transformers.AutoModel.from_pretrained(folder).eval()
        file = str(folder / 'tokenizer.json')
        tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=file)
        tokenizer.backend_tokenizer.no_truncation()
        tokenizer.backend_tokenizer.no_padding()
        ids = [tokenizer(text)['input_ids'] for text in SENTENCES]
        pairs = [tokenizer(*pair)['input_ids'] for pair in PAIRS]
        means, lasts, pooled = [], [], []
        for row in ids:
            with torch.no_grad():
                out = model(input_ids=torch.tensor([row]))
            means.append(out.last_hidden_state[0].mean(0).numpy())
            lasts.append(out.last_hidden_state[0, -1].numpy())
            pooled.append(out.pooler_output[0].numpy())
        for kind, rows in (('ids', ids), ('pair_ids', pairs)):
            arrays[f'{name}/{kind}'] = np.array([i for row in rows for i in row], np.int32)
            arrays[f'{name}/{kind}_lengths'] = np.array([len(row) for row in rows], np.int32)
        arrays[f'{name}/means'], arrays[f'{name}/lasts'] = np.stack(means), np.stack(lasts)
        if 'minilm' in name:  # The other has no pooler.
            arrays[f'{name}/pooled'] = np.stack(pooled)
    golden.save('public_encoders', arrays)


if __name__ == '__main__':
    main()
