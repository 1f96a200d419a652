r"""Converts between Hugging Face checkpoints and workdirs; which way follows from SOURCE.

  python -m xlbench.convert google/mt5-base RUNS/mt5                # hub name or folder -> workdir
  python -m xlbench.convert google/mt5-base RUNS/mt5 --extra_tokens='[summarize]'
  python -m xlbench.convert RUNS/mtg exported --dtype=bfloat16      # workdir -> folder
  python -m xlbench.convert RUNS/adapted adapter --lora=separate    # LoRA alone, for PEFT

The workdir holds the parameters in float32 as checkpoint 0, config.json, and the tokenizer's files
in tokenizer/. The folder loads in transformers, with weights as safetensors, and gives the answers
of the run there: its README.md says how. xlbench.predict opens it as well.
"""

import contextlib
import dataclasses
import functools
import json
import math
import pathlib
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

from xlbench import commands

if __name__ == '__main__':  # A slip is answered before the imports below, which take seconds.
    commands.check_first(commands.convert, sys.argv, __doc__)

import jax.numpy as jnp
import numpy as np
from flax import traverse_util
from ml_collections import ConfigDict

from xlbench import config as config_lib, errors, files, foreign, locks, models, names, runs
from xlbench.data import tokenizers
from xlbench.errors import UserError
from xlbench.evaluators import generation as generation_evaluator
from xlbench.huggingface import checkpoint as hf_checkpoint, hub, peft, tensors
from xlbench.inference import exported, loading
from xlbench.models import bert, dual_encoder, lora as lora_lib
from xlbench.models.generator import Generator
from xlbench.progress import Progress, quantity
from xlbench.training import checkpoints, init_from

# The ids that config.json names -> what the families' `to_config` calls them.
IDS = {
    'pad_token_id': 'pad_id',
    'eos_token_id': 'eos_id',
    'bos_token_id': 'bos_id',
    'decoder_start_token_id': 'decoder_start_id',
    'forced_bos_token_id': 'forced_bos_id',
    'forced_eos_token_id': 'forced_eos_id',
}
_OBJECTIVES = {family: objective for objective, family in names.FAMILIES.items()}


def main(argv: Sequence[str]) -> None:
    """The command line, the program's name first."""
    args = commands.convert(argv, __doc__)
    target = pathlib.Path(args.target)
    if target.exists():
        raise UserError(f'{target} exists already; name a target that does not')
    target.parent.mkdir(parents=True, exist_ok=True)
    export = (pathlib.Path(args.source) / 'checkpoints').is_dir()
    misplaced = ('extra_tokens',) if export else ('step', 'dtype', 'vocab_size', 'lora')
    for name in misplaced:
        if getattr(args, name) is not None:
            kind = 'workdir' if export else 'Hugging Face checkpoint'
            raise UserError(f'--{name} has no meaning for {args.source}, which is a {kind}')
    if export:
        step = checkpoints.find_step(args.source, args.step or 'best')
        lines = to_folder(
            args.source, target, step, args.dtype or 'float32', args.vocab_size, args.lora
        )
    else:
        lines = to_workdir(args.source, target, (args.extra_tokens or '').split())
    for line in lines:
        print(line)
    there = []
    with contextlib.suppress(OSError):  # It is whole, even where it cannot be listed.
        there = files.names(target)
    print(f'wrote {target}: {", ".join(there)}')


# ------------------------------------------------------------------------- Hugging Face -> workdir


def to_workdir(source: str, target: pathlib.Path, extra_tokens: Sequence[str] = ()) -> list[str]:
    """Reads a folder or hub name, writes a workdir.

    Args:
      source: see huggingface/hub.py.
      target: does not exist yet.
      extra_tokens: words that become one token each.

    Returns:
      What there is to say.

    Raises:
      UserError: before anything is written, if the checkpoint is not whole.
    """
    checkpoint = hf_checkpoint.open(source)
    checkpoint.check()
    count = sum(int(np.prod(shape)) for shape in checkpoint.shapes.values())
    said = [f'{source}: {checkpoint.family}, {quantity(count)} parameters']
    with locks.appearing(target) as temporary:
        vocabulary = temporary / 'tokenizer'
        vocabulary.mkdir()
        tensors.write_json(vocabulary / hub.CONFIG, checkpoint.config)
        for file in hub.tokenizer_files(checkpoint.folder):
            shutil.copyfile(file, vocabulary / file.name)
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
        about = {'config': config, **config_lib.facts()}
        if labels := hf_checkpoint.labels(checkpoint):
            about['labels'] = labels
        (temporary / 'config.json').write_text(json.dumps(about, indent=1) + '\n', encoding='utf-8')
        checkpoints.save_params(str(temporary), 0, traverse_util.unflatten_dict(flat, sep='/'))
    return said


def _config(
    checkpoint: hf_checkpoint.Checkpoint, source: str, target: pathlib.Path
) -> dict[str, Any]:
    """What a run that ended with these parameters would have been started with."""
    return {
        'seed': 0,
        'data': {'root': '', 'vocabulary': str(target.absolute() / 'tokenizer'), 'sample': False},
        'model': checkpoint.model,
        'init_from': source,
        'lora': {'rank': 0},
        'objective': {'name': _OBJECTIVES.get(checkpoint.family, 'generation')},
        'trainable': ['.*'],
        'mesh': {'data': -1, 'fsdp': 1, 'tensor': 1},
        'stages': {},
        'evals': {},
        'baselines': [],
    }


def add_tokens(source: pathlib.Path, folder: pathlib.Path, words: Sequence[str]) -> int:
    """Adds words to a tokenizer's files; returns the id of the first.

    Args:
      source: with the tokenizer's files as they are.
      folder: with a copy of them, which is changed.
      words: new ones.

    Raises:
      UserError: the words are not new, or the tokenizer cannot take them.
    """
    first = tokenizers.load(str(source), '').num_pieces
    ids = {word: first + index for index, word in enumerate(words)}
    flags = {'single_word': False, 'lstrip': False, 'rstrip': False, 'normalized': False}
    added = {i: {'content': word, **flags, 'special': True} for word, i in ids.items()}
    if (file := folder / 'tokenizer.json').is_file():
        content = tensors.read_json(file)
        content.setdefault('added_tokens', []).extend({'id': i} | t for i, t in added.items())
        tensors.write_json(file, content)
    file = folder / 'tokenizer_config.json'
    content = tensors.read_json(file) if file.is_file() else {}
    if content.get('added_tokens_decoder'):
        content['added_tokens_decoder'] |= {str(i): token for i, token in added.items()}
        tensors.write_json(file, content)
    else:
        file = folder / 'added_tokens.json'
        tensors.write_json(file, (tensors.read_json(file) if file.is_file() else {}) | ids)
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


# ------------------------------------------------------------------------- workdir -> Hugging Face


def to_folder(
    workdir: str,
    target: pathlib.Path,
    step: int,
    dtype: str = 'float32',
    vocab_size: int | None = None,
    lora: str | None = None,
) -> list[str]:
    """Reads a checkpoint of a workdir, writes a folder that transformers loads.

    Args:
      workdir: of a run, or converted.
      target: does not exist yet.
      step: the checkpoint.
      dtype: of the weights in the files.
      vocab_size: rows of the vocabulary that are kept, None: all.
      lora: what becomes of LoRA: 'merged' into the weights (also None), or 'separate': the
        adapter alone is written.

    Returns:
      What there is to say.
    """
    about = config_lib.read_run(workdir)
    config, labels = ConfigDict(about['config']), about.get('labels') or ()
    vocabulary = Vocabulary(workdir, about)
    model = runs.build_model(config.model, vocabulary.size, labels)
    family, model_config = config.model.family, model.config
    source = init_from.open_workdir(workdir, str(step))
    adapted = source.is_adapted
    if lora is not None and not adapted:
        raise UserError(f'{workdir} was trained without LoRA; leave out --lora')
    said = [f'{source.name}: {family}, {quantity(source.num_parameters)} parameters']
    if lora == 'separate':
        _write_adapter(target, source, family, model_config, config.get('init_from', ''))
        return [*said, 'LoRA alone; the model that it was trained on is not in the folder']
    if adapted:
        source = init_from.without_lora(source)
        said.append('LoRA is merged into the weights')
    boxes = hf_checkpoint.boxed_params(model)
    cut = model_config.vocab_size if vocab_size is None else vocab_size
    if not vocabulary.pieces <= cut <= model_config.vocab_size:
        raise UserError(
            f'--vocab_size={vocab_size} is impossible: the vocabulary has {vocabulary.pieces} '
            f'tokens, and the model {model_config.vocab_size} rows for them'
        )
    params = {path: _Later(source, path, boxes[path], cut) for path in source.shapes}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        more, generation = _write_beside(workdir, about, vocabulary, model, folder)
        if notes := exported.Notes.read(folder):
            sentences = _vectors(model_config) if family == 'dual_encoder' else ()
            card = exported.card(
                target.name, vocabulary.tokenizer, notes, said[0], family, sentences
            )
            (folder / exported.CARD).write_text(card, encoding='utf-8')
        hf_checkpoint.save(
            target,
            family,
            dataclasses.replace(model_config, vocab_size=cut),
            traverse_util.unflatten_dict(params, sep='/'),
            vocabulary.ids | {'labels': labels},
            sorted(folder.iterdir()),
            dtype=dtype,
            generation=generation,
        )
    return [*said, *more]


def _write_beside(
    workdir: str,
    about: Mapping[str, Any],
    vocabulary: 'Vocabulary',
    model: Any,
    folder: pathlib.Path,
) -> tuple[list[str], dict[str, Any]]:
    """Writes the tokenizer and what a run knows of itself.

    Returns:
      What there is to say, and keys of generation_config.json.
    """
    if vocabulary.tokenizer is None:
        return [], {}
    config, tasks = ConfigDict(about['config']), about.get('tasks') or {}
    blocks = loading.eval_blocks(config) if 'evals' in config else []
    block = blocks[0] if blocks else {}
    lengths = block.get('lengths') or {}
    remarks = exported.write_tokenizer(
        vocabulary.path,
        vocabulary.tokenizer,
        folder,
        tasks=tasks,
        max_length=lengths.get('inputs'),
    )
    if not lengths:  # Of xlbench.convert, which has not trained it.
        return remarks, {}
    objective = config.objective.to_dict()
    fields, evaluation, decoding, generation = {}, {}, {}, {}
    if config.model.family == 'dual_encoder':
        kinds = (
            dataclasses.fields(dual_encoder.DualEncoderConfig),
            dataclasses.fields(bert.BertConfig),
        )
        names = {field.name for field in kinds[0]} - {field.name for field in kinds[1]}
        fields = {name: getattr(model.config, name) for name in sorted(names)}
        evaluation = _copy_responses(workdir, block, folder)
    elif isinstance(model, Generator):
        options = generation_evaluator.options(lengths, block.get('decoding'))
        decoding = dataclasses.asdict(options)
        generation = exported.generation(vocabulary.tokenizer, options, tasks)
    exported.Notes(objective, lengths, decoding, tasks, fields, evaluation).write(folder)
    return remarks, generation


def _copy_responses(workdir: str, block: Mapping[str, Any], folder: pathlib.Path) -> dict[str, Any]:
    """Copies the response sets that a workdir has; the block of the evaluation with these tasks."""
    split, tasks = block.get('responses', ''), []
    for task in block['tasks'] if split else ():
        place = runs.response_set_path('', task, split)
        if source := foreign.file(workdir, place):
            target = folder / place
            target.parent.mkdir(exist_ok=True)
            shutil.copyfile(source, target)
            tasks.append(task)
    return {**block, 'tasks': tasks, 'every': 0}


def _vectors(config: dual_encoder.DualEncoderConfig) -> list[str]:
    """The card's words about how states become a vector."""
    pool = {
        'mean': '(states * mask).sum(1) / mask.sum(1)',
        'first': 'states[:, 0]',
        'pooler': 'out.pooler_output',
    }[config.pooling]
    lines = [
        "A text's vector, with [transformers](https://github.com/huggingface/transformers); "
        + (
            'both sides share this encoder:'
            if config.shared
            else 'left/ is for messages, right/ for replies:'
        ),
        '',
        '```python',
        'from transformers import AutoModel, AutoTokenizer',
        '',
        f"folder = '{'.' if config.shared else './left'}'  # Started in this folder.",
        'tokenizer = AutoTokenizer.from_pretrained(folder)',
        'model = AutoModel.from_pretrained(folder)',
        "inputs = tokenizer(['A text.'], return_tensors='pt', padding=True, truncation=True)",
        'out = model(**inputs)',
        "states, mask = out.last_hidden_state, inputs['attention_mask'][..., None]",
        f'vectors = {pool}',
    ]
    if config.normalize:
        lines.append('vectors = vectors / vectors.norm(dim=-1, keepdim=True)')
    return [
        *lines,
        '```',
        '',
        'With xlbench:',
        '',
        '```sh',
        'python -m xlbench.predict . < messages.txt',
        '```',
    ]


class _Later:
    """A parameter that is read when its array is asked for, and not kept."""

    def __init__(self, source: init_from.Source, path: str, box: Any, rows: int):
        self._read = functools.partial(source.read, path)
        self._index = tuple(slice(rows if axis == 'vocab' else None) for axis in box.names)
        whole = np.broadcast_to(np.float32(0), source.shapes[path])
        self.shape = whole[self._index].shape

    def __array__(self, dtype=None, copy=None) -> np.ndarray:
        return np.asarray(self._read()[self._index], dtype)


def _write_adapter(
    target: pathlib.Path, source: init_from.Source, family: str, config: Any, base: str
) -> None:
    leaves = {
        name: source.read(name)
        for name in source.shapes
        if name.rpartition('/')[2] in lora_lib.LEAVES
    }
    _, adapters = lora_lib.split(traverse_util.unflatten_dict(leaves, sep='/'))
    entries = hf_checkpoint.names(family, config)
    arrays, content = peft.adapter(entries, adapters, base)
    with locks.appearing(target) as temporary:
        tensors.write_json(temporary / peft.CONFIG_FILE, content)
        specs = {n: tensors.Spec(a.shape, lambda a=a: a) for n, a in arrays.items()}
        tensors.write_file(temporary / peft.TENSORS_FILE, specs)


class Vocabulary:
    """What a folder for transformers says of the vocabulary that a workdir was trained with.

    Attributes:
      size: rows that a model needs for it.
      pieces: ids that stand for something.
      ids: special ids, for `to_config`.
      tokenizer: the same, loaded; None where there is none.
      path: its file or folder.
    """

    def __init__(self, workdir: str, about: Mapping[str, Any]):
        config = about['config']
        self.tokenizer = None
        own = pathlib.Path(workdir) / tokenizers.CONVERTED
        foreign.check_tree(workdir, own)
        if own.is_dir() and not hub.tokenizer_files(own):
            # Converted from a folder without a tokenizer: config.json is all there is.
            content = tensors.read_json(own / hub.CONFIG)
            self.size = self.pieces = config['model']['vocab_size']
            self.ids = {}
        else:
            tokenizer = tokenizers.of_workdir(workdir, about)
            self.tokenizer = tokenizer
            self.path = pathlib.Path(tokenizers.path_of_workdir(workdir, about))
            content = tensors.read_json(own / hub.CONFIG) if own.is_dir() else {}
            self.size, self.pieces = tokenizer.vocab_size, tokenizer.num_pieces
            self.ids = {key: getattr(tokenizer, key, None) for key in IDS.values()}
        self.ids |= {ours: content.get(key, self.ids.get(ours)) for key, ours in IDS.items()}
        if 'roberta' in (content.get('model_type'), getattr(self.tokenizer, 'family', '')):
            self.ids['model_type'] = 'roberta'  # Else it would be read as XLM-R.


# ------------------------------------------------------------------------------------------- pieces


if __name__ == '__main__':
    sys.exit(errors.run_main(main, sys.argv))
