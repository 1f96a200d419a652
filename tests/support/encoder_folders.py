"""Small encoders of random weights, as folders in the form of Hugging Face."""

import json
import pathlib

import model_folders

SIZES = dict(emb_dim=16, num_heads=2, head_dim=8, mlp_dim=24, num_layers=2, max_positions=512)
PROMPTS = {'query': 'query: ', 'document': 'passage: '}


def write(folder: pathlib.Path, vocabulary: str = 'xlm-roberta', **fields) -> str:
    """Writes a BERT of 2 layers of 16 with a vocabulary, as multilingual E5 is one with XLM-R's."""
    fields = {**SIZES, 'has_pooler': False, **fields}
    return model_folders.write(folder, 'bert', vocabulary, seed=5, more_rows=3, **fields)


def make_sentences(folder: str, prompts=PROMPTS, steps=('Pooling', 'Normalize'), **pooling) -> str:
    """Adds what sentence-transformers says of a folder: mean pooling, the length 1, prompts."""
    kinds = ('Transformer', *steps)
    modules = [
        {'idx': i, 'name': str(i), 'path': f'{i}_{kind}' if i else '', 'type': f'models.{kind}'}
        for i, kind in enumerate(kinds)
    ]
    pooling = pooling or {'pooling_mode_mean_tokens': True, 'pooling_mode_cls_token': False}
    contents = {
        'modules': modules,
        'config_sentence_transformers': {'prompts': prompts},
        '1_Pooling/config': pooling,
    }
    for name, content in contents.items():
        path = pathlib.Path(folder, f'{name}.json')
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(content))
    return folder


def change(folder: str, **keys) -> str:
    """Sets keys of config.json."""
    path = pathlib.Path(folder, 'config.json')
    path.write_text(json.dumps(json.loads(path.read_text()) | keys))
    return folder
