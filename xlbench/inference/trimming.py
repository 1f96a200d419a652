"""Writes a checkpoint with only the part of its vocabulary that some data needs.

A multilingual encoder may have 250,000 rows of embeddings, of which texts in a few languages use a
tenth; in a decoder, each row also costs a logit for every token. The pieces that occur in the data,
special tokens, bytes, and all pieces of one character are kept. Therefore texts of the data keep
their pieces, and the model computes the same states for them. No text gets an unknown token that it
did not have before, but it may be split into shorter pieces. The rest of the checkpoint stays the
same.
"""

import dataclasses
import functools
import json
import pathlib
import re
import shutil
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np
from flax import traverse_util

from xlbench import models
from xlbench.data import tokenizers, vocabularies
from xlbench.data.prepared import ensure, open_mixture
from xlbench.huggingface import checkpoint as hf_checkpoint, hub, sentence_files, tensors
from xlbench.inference import exporting
from xlbench.system import untrusted
from xlbench.system.errors import UserError
from xlbench.system.files import Json
from xlbench.system.progress import quantity
from xlbench.training import experiment

# '▁' opens a word of SentencePiece's, '##' goes on with one of WordPiece's.
_SHORT = re.compile(r'(##)?.|<0x[0-9A-F]{2}>', re.DOTALL)


def trim(source: str, target: pathlib.Path, mixtures: Sequence[str], root: str) -> list[str]:
    """Writes a checkpoint's folder with the tokens that occur in the training data of mixtures.

    Args:
      source: a folder in the form of Hugging Face with a tokenizer.json, or a name of its hub.
      target: does not exist yet.
      mixtures: or tasks, whose split 'train' is read; it is prepared first where it is not yet.
      root: of their data.

    Returns:
      What there is to say.

    Raises:
      UserError: the folder holds no single model, or its tokenizer is of a kind whose pieces depend
        on others.
    """
    checkpoint = hf_checkpoint.open(source)
    if not isinstance(checkpoint, hf_checkpoint.Checkpoint):
        raise UserError(f'{source} holds two encoders; trim the folder that they were made from')
    checkpoint.check()
    tokenizers.load(source, '')  # Whatever is wrong with its files it says in one line.
    content = _tokenizer_json(checkpoint.folder)
    pieces = _pieces(content)
    needed = [(name, 'train') for name in mixtures]
    ensure(needed, root=root, vocabulary=source)
    opened = [task for pair in needed for task in open_mixture(root, source, *pair)[0]]
    tasks = {task.name: task for task in opened}
    seen = experiment.ids_seen(list(tasks.values()), ('inputs', 'targets'))
    kept = _kept(pieces, np.flatnonzero(seen), content)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        _write_tokenizer(checkpoint.folder, folder, content, kept)
        _write(checkpoint, folder, target, kept)
    rows, before = len(kept), checkpoint.model['vocab_size']
    left = (before - rows) * checkpoint.model['emb_dim']
    numbers = sum(int(np.prod(shape)) for shape in checkpoint.shapes.values())
    return [
        f'{rows:,} of {before:,} rows stay: {int(seen.sum()):,} occur in '
        f'{", ".join(tasks)}, the others are special tokens and single characters',
        f'{quantity(numbers - left)} of {quantity(numbers)} parameters',
    ]


def _tokenizer_json(folder: pathlib.Path) -> dict[str, Json]:
    path = untrusted.file(folder, vocabularies.TOKENIZER_FILE)
    if not path:
        raise UserError(f'{folder} has no {vocabularies.TOKENIZER_FILE}, which is trimmed')
    return tensors.read_json(path)


def _pieces(content: Mapping[str, Json]) -> dict[int, str]:
    """The pieces of a tokenizer.json by id, added tokens among them."""
    model = content.get('model') or {}
    kind, vocabulary = model.get('type'), model.get('vocab')
    if kind == 'Unigram' and isinstance(vocabulary, list):
        pieces = {number: entry[0] for number, entry in enumerate(vocabulary)}
    elif kind == 'WordPiece' and isinstance(vocabulary, dict):
        pieces = {number: piece for piece, number in vocabulary.items()}
    else:
        raise UserError(
            f'tokenizer.json has a {kind} model; xlbench trims Unigram and WordPiece ones, where a '
            'piece does not need another one'
        )
    return pieces | {token['id']: token['content'] for token in content.get('added_tokens') or []}


def _kept(
    pieces: Mapping[int, str], seen: Collection[int], content: Mapping[str, Json]
) -> dict[int, int]:
    """The ids that stay -> their new ones, in the same order."""
    named = _named(content)
    model = content['model']
    named |= {number for number, piece in pieces.items() if piece == model.get('unk_token')}
    if strange := named - pieces.keys():
        raise UserError(f'tokenizer.json names the id {min(strange)}, which no piece of it has')
    short = {number for number, piece in pieces.items() if _SHORT.fullmatch(piece)}
    kept = named | short | {int(number) for number in seen if int(number) in pieces}
    return {old: new for new, old in enumerate(sorted(kept))}


def _named(content: Mapping[str, Json]) -> set[int]:
    """The ids that a tokenizer.json names beside its pieces: special and added tokens."""
    named = {token['id'] for token in content.get('added_tokens') or []}
    for value in (content['model'].get('unk_id'), (content.get('padding') or {}).get('pad_id')):
        named |= set() if value is None else {value}

    def note(number: int) -> int:
        named.add(number)
        return number

    _renumber(content.get('post_processor'), note)
    return named


def _write_tokenizer(
    source: pathlib.Path, folder: pathlib.Path, content: dict[str, Json], kept: Mapping[int, int]
) -> None:
    content = json.loads(json.dumps(content))
    model = content['model']
    if isinstance(model['vocab'], list):
        model['vocab'] = [entry for old, entry in enumerate(model['vocab']) if old in kept]
    else:
        model['vocab'] = {p: kept[old] for p, old in model['vocab'].items() if old in kept}
        lines = sorted(model['vocab'], key=model['vocab'].get)
        text = ''.join(f'{piece}\n' for piece in lines)
        (folder / 'vocab.txt').write_text(text, encoding='utf-8')
    if model.get('unk_id') is not None:
        model['unk_id'] = kept[model['unk_id']]
    for token in content.get('added_tokens') or []:
        token['id'] = kept[token['id']]
    _renumber(content.get('post_processor'), kept.__getitem__)
    if content.get('padding'):
        content['padding']['pad_id'] = kept[content['padding']['pad_id']]
    tensors.write_json(folder / vocabularies.TOKENIZER_FILE, content)
    for name in (vocabularies.TOKENIZER_CONFIG, vocabularies.SPECIAL_TOKENS):
        if path := untrusted.file(source, name):
            about = tensors.read_json(path)
            if added := about.get('added_tokens_decoder'):
                about['added_tokens_decoder'] = {
                    str(kept[int(n)]): token for n, token in added.items() if int(n) in kept
                }
            tensors.write_json(folder / name, about)
    for name in sentence_files.NAMES:
        if path := untrusted.file(source, name):
            (folder / name).parent.mkdir(exist_ok=True)
            shutil.copyfile(path, folder / name)


def _renumber(processor: Json, new_id: Callable[[int], int]) -> None:
    """Gives the special tokens of a post-processor, or of those in it, their new ids."""
    if not isinstance(processor, dict):
        return
    for inner in processor.get('processors') or []:
        _renumber(inner, new_id)
    for token in (processor.get('special_tokens') or {}).values():
        token['ids'] = [new_id(number) for number in token['ids']]
    for side in ('sep', 'cls'):  # Of those that are called BertProcessing and RobertaProcessing.
        if isinstance(pair := processor.get(side), list):
            processor[side] = [pair[0], new_id(pair[1])]


def _write(
    checkpoint: hf_checkpoint.Checkpoint,
    folder: pathlib.Path,
    target: pathlib.Path,
    kept: Mapping[int, int],
) -> None:
    config = dataclasses.replace(models.config(**checkpoint.model), vocab_size=len(kept))
    tensors.write_json(folder / hub.CONFIG, checkpoint.config | {'vocab_size': len(kept)})
    tokenizer = tokenizers.load(str(folder), '')
    if tokenizer.num_pieces != len(kept):
        raise UserError(f'{checkpoint.folder}: its tokenizer has ids that tokenizer.json lacks')
    (folder / hub.CONFIG).unlink()
    ids = {ours: getattr(tokenizer, ours, None) for ours in exporting.IDS.values()}
    boxes = hf_checkpoint.boxed_params(models.build(**checkpoint.model))
    rows = np.array(list(kept))
    params = {
        path: exporting.Later(
            functools.partial(checkpoint.read_param, path), shape, boxes[path].names, rows
        )
        for path, shape in checkpoint.shapes.items()
    }
    hf_checkpoint.save(
        target,
        checkpoint.family,
        config,
        traverse_util.unflatten_dict(params, sep='/'),
        ids | {'labels': hf_checkpoint.labels(checkpoint)},
        sorted(folder.iterdir()),
    )
