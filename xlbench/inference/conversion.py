"""Converts Hugging Face checkpoints to workdirs, and workdirs to folders that transformers loads.

A workdir gets parameters, config.json and the tokenizer's files; `exported` has the files that lie
beside the weights of a folder.
"""

import dataclasses
import functools
import json
import math
import pathlib
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence

import jax.numpy as jnp
import msgspec
import numpy as np
from flax import traverse_util
from ml_collections import ConfigDict

from xlbench import config as config_lib, models, runs
from xlbench.data import tokenizers, vocabularies
from xlbench.huggingface import (
    checkpoint as hf_checkpoint,
    hub,
    marian_files,
    peft,
    sentence_files,
    tensors,
)
from xlbench.inference import cards, exported
from xlbench.inference.answering import eval_blocks
from xlbench.models import bert, dual_encoder, lora as lora_lib
from xlbench.models.families import MODEL_TYPES
from xlbench.models.generator import Generator
from xlbench.reporting.results import Result, config_hash, read_run
from xlbench.settings import decoding as decoding_settings
from xlbench.system import files, locks, untrusted
from xlbench.system.errors import UserError
from xlbench.system.files import Json
from xlbench.system.progress import Progress, quantity
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


def to_workdir(source: str, target: pathlib.Path, extra_tokens: Sequence[str] = ()) -> list[str]:
    """Reads a folder or hub name, writes a new workdir `target`; returns lines for the user.

    The extra tokens are words that become one token each.

    Raises:
      UserError: before anything is written, if the checkpoint is not whole.
    """
    checkpoint = hf_checkpoint.open(source)
    checkpoint.check()
    sizes = {path: math.prod(shape) for path, shape in checkpoint.shapes.items()}
    said = [f'{source}: {checkpoint.family}, {quantity(sum(sizes.values()))} parameters']
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
            content = tensors.read_json(vocabulary / hub.CONFIG)
            # That of the model, and of the halves of one that is made of two.
            for part in (content, content.get('encoder', {}), content.get('decoder', {})):
                if 'vocab_size' in part:
                    part['vocab_size'] = rows
            tensors.write_json(vocabulary / hub.CONFIG, content)
        boxes = hf_checkpoint.boxed_params(models.build(**checkpoint.model))
        flat = {}
        with Progress('read', 4 * sum(sizes.values()), 'B') as progress:
            for path, size in sizes.items():
                value = checkpoint.read_param(path)
                if add and 'vocab' in boxes[path].names:
                    value = _with_rows(value, boxes[path].names.index('vocab'), *add)
                flat[path] = jnp.asarray(value)
                progress.add(4 * size)
        objective = exported.objective(checkpoint.folder, checkpoint.family)
        # That a run with these parameters would have been started with.
        config = {
            'seed': 0,
            'data': {'root': '', 'vocabulary': f'{target.absolute()}/tokenizer', 'sample': False},
            'model': checkpoint.model,
            'init_from': source,
            'lora': {'rank': 0},
            'objective': objective,
            'trainable': ['.*'],
            'mesh': {'data': -1, 'fsdp': 1, 'tensor': 1},
            'stages': {},
            'evals': {},
            'baselines': [],
        }
        if piece := objective.get('word_piece'):
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


# -----------------------------------------------------------------------------------------------
# From a workdir to a folder.


def to_folder(
    workdir: str,  # Of a run, or converted.
    target: pathlib.Path,
    step: int,
    dtype: str = 'float32',  # Of the weights in the files.
    lora: str | None = None,  # 'separate' writes the adapter alone; else it is merged.
    adapter: str = '',  # The language of the one that is meant, where a run has several.
) -> list[str]:
    """Reads a checkpoint, writes a new folder that transformers loads; returns lines for the user.

    Raises:
      UserError: there is no such form of the model, or an option cannot be.
    """
    run = _Run(workdir)
    family, config = run.config.model.family, run.model.config
    hf_checkpoint.check_family(family)
    source = init_from.open_workdir(workdir, f'{step}:{adapter}')
    source.adapters.named(workdir, '')
    adapted = source.is_adapted
    if lora is not None and not adapted:
        raise UserError(f'{workdir} was trained without LoRA; leave out --lora')
    said = [f'{source.name}: {family}, {quantity(source.num_parameters)} parameters']
    if lora == 'separate':
        of_lora = [n for n in source.shapes if n.rpartition('/')[2] in lora_lib.LEAVES]
        leaves = {name: source.read(name) for name in of_lora}
        base = run.config.get('init_from', '')
        arrays, content = peft.adapter(hf_checkpoint.names(family, config), leaves, base)
        with locks.atomic_folder(target) as temporary:
            tensors.write_json(temporary / peft.CONFIG_FILE, content)
            specs = {n: tensors.Spec(a.shape, a.view) for n, a in arrays.items()}
            tensors.write_file(temporary / peft.TENSORS_FILE, specs)
        return [*said, 'LoRA alone; the model that it was trained on is not in the folder']
    if adapted:
        source = init_from.without_lora(source)
        said.append('LoRA is merged into the weights')
    boxes = hf_checkpoint.boxed_params(run.model)
    rows = config.vocab_size - config.vocab_padding
    params = {
        path: Later(functools.partial(source.read, path), shape, boxes[path].names, rows)
        for path, shape in source.shapes.items()
    }
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        more, generation, notes = run.write_beside(step, folder)
        if notes:
            card = run.card(target.name, said[0], step, notes, said)
            (folder / cards.NAME).write_text(card, encoding='utf-8')
        hf_checkpoint.save(
            target,
            family,
            dataclasses.replace(config, vocab_size=rows, vocab_padding=0),
            traverse_util.unflatten_dict(params, sep='/'),
            run.ids | {'labels': run.labels},
            sorted(folder.iterdir()),
            dtype=dtype,
            generation=generation,
        )
    return [*said, *more]


def card(workdir: str) -> str:
    """The model card of a run at the last step that was scored, without a copy of the model.

    Raises:
      UserError: it has no scores, or the model has no card.
    """
    run = _Run(workdir)
    step = max(read_run(workdir).evaluations)
    with tempfile.TemporaryDirectory() as name:
        *_, notes = run.write_beside(step, pathlib.Path(name))
    if notes is None:
        raise UserError(f'{workdir} says nothing of its training')
    name = pathlib.Path(workdir).name
    return run.card(name, f'{name} at step {step}', step, notes, [])


class _Run:
    """A workdir with its model, without parameters, and its vocabulary.

    Attributes:
      about: its config.json.
      ids: special ids, for `to_config`.
      tokenizer: None where there is none.
      path: its file or folder.
    """

    def __init__(self, workdir: str):
        self.workdir, self.about = workdir, config_lib.read_run(workdir)
        self.config, self.labels = ConfigDict(self.about['config']), self.about.get('labels') or ()
        self.tokenizer = None
        own = pathlib.Path(workdir) / tokenizers.CONVERTED
        untrusted.check_tree(workdir, own)
        if own.is_dir() and not hub.tokenizer_files(own):
            # Converted from a folder without a tokenizer: config.json is all there is.
            content = tensors.read_json(own / hub.CONFIG)
            size = self.config.model.vocab_size
            ids: Json = {}
        else:
            self.tokenizer = tokenizers.of_workdir(workdir, self.about)
            self.path = pathlib.Path(tokenizers.path_of_workdir(workdir, self.about))
            content = tensors.read_json(own / hub.CONFIG) if own.is_dir() else {}
            size = self.tokenizer.vocab_size
            ids = {key: getattr(self.tokenizer, key, None) for key in IDS.values()}
        self.ids = ids | {ours: content.get(key, ids.get(ours)) for key, ours in IDS.items()}
        if 'roberta' in (content.get('model_type'), getattr(self.tokenizer, 'family', '')):
            self.ids['model_type'] = 'roberta'  # Else it would be read as XLM-R.
        self.model = runs.build_model(self.config.model, size, self.labels)

    def card(
        self, name: str, source: str, step: int, notes: exported.Notes, said: list[str]
    ) -> str:
        """The model card of a checkpoint, see cards.text; `said` gets errors of its scores."""
        scored: list[Result] = []
        if files.names(pathlib.Path(self.workdir) / 'eval'):
            try:
                run = read_run(self.workdir)
                order, of_step = run.splits(), run.evaluations.get(step, {}).values()
                scored = sorted(of_step, key=lambda one: (order.index(one.split), one.task))
            except UserError as error:
                said.append(f'{cards.NAME} has no scores: {error}')
        family, config = self.config.model.family, self.model.config
        assert self.tokenizer is not None  # There are notes.
        return cards.text(name, source, family, config, self.tokenizer, notes, self.about, scored)

    def write_beside(
        self, step: int, folder: pathlib.Path
    ) -> tuple[list[str], dict[str, Json], exported.Notes | None]:
        """Writes the tokenizer and what a run knows of itself.

        Returns:
          Lines for the user, keys of generation_config.json, and the notes of a run.
        """
        if self.tokenizer is None:
            return [], {}, None
        config, tasks = self.model.config, self.about.get('tasks') or {}
        blocks = eval_blocks(self.config) if 'evals' in self.config else []
        block = blocks[0] if blocks else {}
        lengths = block.get('lengths') or {}
        remarks = exported.write_tokenizer(
            self.path, self.tokenizer, folder, tasks=tasks, max_length=lengths.get('inputs')
        )
        if not MODEL_TYPES[getattr(config, 'variant', 'bert')].types:
            file = folder / vocabularies.TOKENIZER_CONFIG
            content = tensors.read_json(file) if file.is_file() else {}
            content |= {'model_input_names': ['input_ids', 'attention_mask']}
            tensors.write_json(file, content)
        if not lengths:  # Of xlbench.convert, which has not trained it.
            return remarks, {}, None
        objective = self.config.objective.to_dict()
        fields, evaluation, decoding, generation = {}, {}, {}, {}
        if self.config.model.family == 'dual_encoder':
            kinds = dual_encoder.DualEncoderConfig, bert.BertConfig
            own, of_encoder = ({field.name for field in dataclasses.fields(x)} for x in kinds)
            fields = {name: getattr(config, name) for name in sorted(own - of_encoder)}
            remarks += _write_sentence_files(config, lengths, folder)
            evaluation = self._copy_responses(block, folder)
        elif isinstance(self.model, Generator):
            options = decoding_settings.make(block.get('decoding'), lengths['targets'])
            decoding = dataclasses.asdict(options)
            generation = exported.generation(self.tokenizer, options, tasks, objective)
        seed, of_run = self.config.get('seed', 0), config_hash(self.about['config'])
        origin = exported.Origin(config=of_run, seed=seed, step=step)
        notes = exported.Notes(objective, lengths, decoding, tasks, fields, evaluation, origin)
        notes.write(folder)
        return remarks, generation, notes

    def _copy_responses(self, block: Mapping[str, Json], folder: pathlib.Path) -> dict[str, Json]:
        """Copies the response sets that there are; the block of the evaluation with these tasks."""
        split, tasks = block.get('responses', ''), []
        for task in block['tasks'] if split else ():
            place = runs.response_set_path('', task, split)
            if source := untrusted.file(self.workdir, place):
                target = folder / place
                target.parent.mkdir(exist_ok=True)
                shutil.copyfile(source, target)
                tasks.append(task)
        return {**block, 'tasks': tasks, 'every': 0}


def _write_sentence_files(
    config: dual_encoder.DualEncoderConfig, lengths: Mapping[str, int], folder: pathlib.Path
) -> list[str]:
    """Writes what sentence-transformers reads, for each encoder; returns what there is to say."""
    if config.pooling == 'pooler':
        return ['sentence-transformers has no such pooling as pooler: no modules.json is written']
    query, document = {'query': config.left_prompt}, {'document': config.right_prompt}
    sizes = {
        side: min(lengths[of] + len(getattr(config, f'{side}_prefix')), config.max_positions)
        for side, of in (('left', 'inputs'), ('right', 'targets'))
    }
    places = {'left': (query, sizes['left']), 'right': (document, sizes['right'])}
    if config.shared:
        places = {'': (query | document, max(sizes.values()))}
    for place, (prompts, longest) in places.items():
        contents = sentence_files.contents(
            config.pooling, config.normalize, prompts, longest, config.emb_dim
        )
        for name, content in contents.items():
            path = folder / place / name
            path.parent.mkdir(parents=True, exist_ok=True)
            tensors.write_json(path, content)
    return []


class Later:
    """A parameter with the first `rows` of its axis 'vocab', read when its array is asked for.

    `read` gives the whole parameter, of this shape and with these logical axes.
    """

    def __init__(
        self,
        read: Callable[[], np.ndarray],
        shape: tuple[int, ...],
        axes: Sequence[str | None],
        rows: int,
    ):
        self._read = read
        self._index = tuple(slice(rows if axis == 'vocab' else None) for axis in axes)
        self.shape = np.broadcast_to(np.float32(0), shape)[self._index].shape

    def __array__(self, dtype=None, copy=None) -> np.ndarray:
        return np.asarray(self._read()[self._index], dtype)
