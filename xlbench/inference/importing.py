"""Makes a workdir of a Hugging Face checkpoint: parameters, config.json, the tokenizer's files."""

import json
import math
import pathlib
import shutil
from collections.abc import Sequence

import jax.numpy as jnp
import msgspec
import numpy as np
from flax import traverse_util

from xlbench import config as config_lib, models
from xlbench.data import tokenizers
from xlbench.huggingface import checkpoint as hf_checkpoint, hub, marian_files, tensors
from xlbench.inference import exported
from xlbench.system import locks
from xlbench.system.errors import UserError
from xlbench.system.files import Json
from xlbench.system.progress import Progress, quantity
from xlbench.training import checkpoints


def to_workdir(source: str, target: pathlib.Path, extra_tokens: Sequence[str] = ()) -> list[str]:
    """Reads a folder or hub name, writes a workdir `target`; returns lines for the user.

    Args:
      source: see huggingface/hub.py.
      target: does not exist yet.
      extra_tokens: words that become one token each.

    Raises:
      UserError: before anything is written, if the checkpoint is not whole.
    """
    checkpoint = hf_checkpoint.open(source)
    checkpoint.check()
    count = sum(int(np.prod(shape)) for shape in checkpoint.shapes.values())
    said = [f'{source}: {checkpoint.family}, {quantity(count)} parameters']
    with locks.atomic_folder(target) as temporary:
        vocabulary = temporary / 'tokenizer'
        vocabulary.mkdir()
        tensors.write_json(vocabulary / hub.CONFIG, checkpoint.config)
        for file in hub.tokenizer_files(checkpoint.folder):
            shutil.copyfile(file, vocabulary / file.name)
        if marian_files.find(checkpoint.folder):
            if extra_tokens:
                raise UserError(f'{source} is a translator of Marian, which takes no extra tokens')
            pieces = marian_files.vocabulary(checkpoint.folder)
            shutil.copyfile(pieces, vocabulary / tokenizers.PAIR_COPY)
        add = None
        if extra_tokens:
            first = add_tokens(checkpoint.folder, vocabulary, extra_tokens)
            add = first, first + len(extra_tokens)
            rows = max(checkpoint.model['vocab_size'], add[1])
            said.append(
                f'{", ".join(extra_tokens)}: ids {first} to {add[1] - 1}, their rows are the mean '
                f'of the {first} before them; {rows} rows in all'
            )
            checkpoint.model['vocab_size'] = rows
            _set_vocab_size(vocabulary / hub.CONFIG, rows)
        boxes = hf_checkpoint.boxed_params(models.build(**checkpoint.model))
        flat = {}
        sizes = {path: 4 * math.prod(shape) for path, shape in checkpoint.shapes.items()}
        with Progress('read', sum(sizes.values()), 'B') as progress:
            for path, size in sizes.items():
                value = checkpoint.read_param(path)
                if add and 'vocab' in boxes[path].names:
                    value = _with_rows(value, boxes[path].names.index('vocab'), *add)
                flat[path] = jnp.asarray(value)
                progress.add(size)
        config = _config(checkpoint, source, target)
        if piece := config['objective'].get('word_piece'):
            said.append(
                f'the tag of a word is read from its pieces by the rule {piece!r}; see '
                'config.objective.word_piece in its config.json'
            )
        about = {'config': config, **config_lib.facts()}
        if labels := hf_checkpoint.labels(checkpoint):
            about['labels'] = labels
        (temporary / 'config.json').write_text(json.dumps(about, indent=1) + '\n', encoding='utf-8')
        checkpoints.save_params(str(temporary), 0, traverse_util.unflatten_dict(flat, sep='/'))
    return said


def _config(
    checkpoint: hf_checkpoint.Checkpoint, source: str, target: pathlib.Path
) -> dict[str, Json]:
    """The config that a run with these parameters would have been started with."""
    return {
        'seed': 0,
        'data': {'root': '', 'vocabulary': str(target.absolute() / 'tokenizer'), 'sample': False},
        'model': checkpoint.model,
        'init_from': source,
        'lora': {'rank': 0},
        'objective': exported.objective(checkpoint.folder, checkpoint.family),
        'trainable': ['.*'],
        'mesh': {'data': -1, 'fsdp': 1, 'tensor': 1},
        'stages': {},
        'evals': {},
        'baselines': [],
    }


def add_tokens(source: pathlib.Path, folder: pathlib.Path, words: Sequence[str]) -> int:
    """Adds words to a folder's copy of the tokenizer's files in `source`; returns the first's id.

    Raises:
      UserError: the words are not new, or the tokenizer cannot take them.
    """
    first = tokenizers.load(str(source), '').num_pieces
    ids = {word: first + index for index, word in enumerate(words)}
    if (file := folder / 'tokenizer.json').is_file():
        content = tensors.read_json(file)
        added = [msgspec.to_builtins(tokenizers.token(word, special=True)) for word in words]
        content.setdefault('added_tokens', []).extend(
            {'id': first + index} | token for index, token in enumerate(added)
        )
        tensors.write_json(file, content)
    tokenizers.write_words(folder, ids, special=True)
    after = tokenizers.load(str(folder), '')
    for word, number in ids.items():
        if after.num_pieces != first + len(ids) or after.encode(word).tolist() != [number]:
            raise UserError(
                f'{word!r} cannot be added: with it the tokenizer gives '
                f'{after.encode(word).tolist()} in place of [{number}]; is it there already?'
            )
    return first


def _with_rows(value: np.ndarray, axis: int, first: int, end: int) -> np.ndarray:
    """Rows `first` to `end` of the vocabulary become the mean of those before; more if need be."""
    value = np.moveaxis(value, axis, 0)
    mean = value[:first].mean(axis=0, dtype=np.float64).astype(value.dtype)
    lacking = max(end - len(value), 0)
    value = np.concatenate([value, np.broadcast_to(mean, (lacking, *mean.shape))])
    value[first:end] = mean
    return np.moveaxis(value, 0, axis)


def _set_vocab_size(file: pathlib.Path, rows: int) -> None:
    """In config.json: of the model, and of the halves of one that is made of two."""
    content = tensors.read_json(file)
    for part in (content, content.get('encoder', {}), content.get('decoder', {})):
        if 'vocab_size' in part:
            part['vocab_size'] = rows
    tensors.write_json(file, content)
