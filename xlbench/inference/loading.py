"""Opens any trained model that answers, see `load`, and encoders of sentences.

A workdir of a run or of xlbench.convert, a folder in the form of Hugging Face, or a hub name.
"""

import functools
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import flax.linen as nn
import jax
import numpy as np
from ml_collections import ConfigDict

from xlbench import config as config_lib, decoding, models, runs
from xlbench.benchmarks import languages
from xlbench.config.commands import BATCH_SIZE
from xlbench.data import features, tokenizers
from xlbench.huggingface import checkpoint as hf_checkpoint, hub, sentence_files, tensors
from xlbench.inference import exported
from xlbench.inference.answering import Languages, LoadedModel, digest_of, eval_blocks
from xlbench.inference.generator import LanguageModel, Model
from xlbench.inference.labeller import KINDS, Classifier, Tagger
from xlbench.inference.retriever import Retriever
from xlbench.models import lora
from xlbench.models.generator import Generator
from xlbench.parallel import partitioning
from xlbench.retrieval.text_encoder import TextEncoder
from xlbench.settings import decoding as decoding_settings
from xlbench.system import untrusted
from xlbench.system.errors import UserError
from xlbench.system.files import Json
from xlbench.training import checkpoints, objectives, train_step
from xlbench.training.objectives.contract import Objective

Answering: TypeAlias = Model | Retriever | Classifier | Tagger
# Inputs of a checkpoint that no run of ours has trained, in tokens; less where it holds less.
MAX_INPUT_LENGTH = 512
MAX_SENTENCE = 128  # Tokens of a text, its end included; as Sentence-BERT's models have it.


def load(
    spec: str,
    *,
    mesh: Mapping[str, int] | None = None,
    batch_size: int = BATCH_SIZE,
    max_input_length: int = 0,
    dtype: str = '',
    responses: str = '',
    lm_weight: float | None = None,
) -> Answering:
    """The model in a workdir, a folder of Hugging Face's form or behind a hub name.

    It is a Retriever, Classifier or Tagger where it was trained for that, otherwise a Model; one
    without an encoder is a LanguageModel.

    Args:
      spec: see the top of xlbench/predict.py.
      mesh: sizes of its axes, as in a config; default: every device has its own rows.
      batch_size: texts that are answered together.
      max_input_length: tokens; default: that of the run's final evaluation, else 512 or what the
        model holds.
      dtype: of activations: 'float32' or 'bfloat16'; default: the model's own.
      responses, lm_weight: of a retriever, see Retriever.

    Raises:
      UserError: there is no such model, or it cannot be run like this.
    """
    devices = partitioning.make_mesh(devices=None, **mesh or {})
    shards = partitioning.batch_shards(devices)
    if batch_size < 1 or batch_size % shards:
        several = f'a multiple of {shards}, the devices (replica x data x fsdp) that share rows'
        needed = several if shards > 1 else '1 or more'
        raise UserError(f'batch_size is {batch_size}; it must be {needed}')
    if max_input_length and max_input_length < 2:
        raise UserError(f'max_input_length is {max_input_length}; 2 or more tokens are allowed')
    opened = open_model(spec, devices, {'dtype': dtype} if dtype else {})
    most = max_inputs(opened.model)
    if most and max_input_length > most:
        raise UserError(
            f'max_input_length is {max_input_length}, but {spec} has positions for {most} tokens; '
            f'set it to {most} or less'
        )
    max_input_length = max_input_length or opened.lengths['inputs']
    sizes = dict(batch_size=batch_size, max_input_length=max_input_length)
    if opened.objective.view == 'retrieval':
        return Retriever(spec, opened, devices, responses=responses, lm_weight=lm_weight, **sizes)
    for name, value in (('responses', responses or None), ('lm_weight', lm_weight)):
        if value is not None:
            does = 'gives labels' if opened.labels else 'writes its answers'
            raise UserError(f'{name} is for retrievers, and {spec} {does}; leave it out')
    kind: type[Model | Classifier | Tagger] = KINDS.get(type(opened.objective).view) or (
        LanguageModel if opened.model.decoder_only else Model
    )
    return kind(spec, opened, devices, **sizes)


def open_model(spec: str, mesh: jax.sharding.Mesh, fields: Mapping[str, str]) -> LoadedModel:
    """Reads the model that a user names, see the top of xlbench/predict.py, onto a mesh.

    Some `fields` of the model's config are not to be as they were in training.

    Raises:
      UserError: there is no such model, or it cannot answer texts.
    """
    folder, step = config_lib.split_step(spec)
    if (folder / 'checkpoints').is_dir():
        return _open_workdir(folder, step or 'best', mesh, fields)
    if untrusted.file(folder, 'config.json'):
        config_lib.refuse_sweep(str(folder))
    return _open_checkpoint(str(folder) if step else spec, mesh, fields)  # @REVISION is the hub's.


def _open_workdir(
    workdir: pathlib.Path, step: str, mesh: jax.sharding.Mesh, fields: Mapping[str, str]
) -> LoadedModel:
    about = config_lib.read_run(str(workdir), config_lib.RUN_KEYS)
    config = ConfigDict(about['config'])
    config_lib.check_blocks(config, 'model', 'objective', 'lora', file=f'{workdir}/config.json')
    tokenizer = tokenizers.of_workdir(workdir, about)
    objective = objectives.build(**config.objective)
    labels: tuple[str, ...] = ()
    if features.VIEWS[objective.view].labels:
        given = about.get('labels')
        if not (isinstance(given, list) and given and all(isinstance(x, str) for x in given)):
            raise UserError(
                f'{workdir}/config.json does not list the labels of the model as "labels"'
            )
        labels = tuple(given)
    model = runs.build_model(config.model.to_dict() | fields, tokenizer.vocab_size, labels)
    _check(str(workdir), model, objective)
    adapters = lora.Lora(**config.lora)
    step, _, lang = step.partition(':')
    place = adapters.named(str(workdir), lang)
    shapes, shardings = train_step.params_like(model, objective, mesh, adapters)
    number = checkpoints.find_step(str(workdir), step or 'best')
    params = checkpoints.load_params(str(workdir), number, shapes, shardings)
    if adapters.rank:
        _, plain = train_step.params_like(model, objective, mesh)
        merged = jax.jit(lambda x: lora.merge(adapters.of(x, place)), out_shardings=plain)
        params = merged(params)
    # A workdir of xlbench.convert has neither evals nor tasks.
    evals, tasks = eval_blocks(config), about.get('tasks', {})
    block = evals[0] if evals else {}
    lengths = {'inputs': _input_limit(model), 'targets': 128} | block.get('lengths', {})
    known = Languages.of(tokenizer, tasks)
    if config.stages and 'tasks' not in about and not known.allowed:
        why = 'its config.json, of an earlier version, does not say what it was trained on'
        known = Languages(tuple(languages.LANGUAGES), None, why)
    # The config.json of the checkpoint that xlbench.convert made a workdir of.
    public = not config.stages and untrusted.file(workdir, f'{tokenizers.CONVERTED}/{hub.CONFIG}')
    said = tensors.read_json(public) if public else {}
    return LoadedModel(
        model=model,
        params=params,
        tokenizer=tokenizer,
        objective=objective,
        lengths=lengths,
        known=known,
        options=decoding_settings.make(block.get('decoding'), lengths['targets']),
        workdir=workdir,
        evals=evals,
        tasks=tasks,
        labels=labels,
        continues=not config.stages and _continues(model, said),
    )


def _open_checkpoint(spec: str, mesh: jax.sharding.Mesh, fields: Mapping[str, str]) -> LoadedModel:
    folder = hub.local_folder(spec)
    notes = exported.Notes.read(folder)
    place, sentences = (None if notes else sentence_files.read(folder)) or (folder, {})
    # First, as a folder without config.json is not a model, whatever its vocabulary.
    source = hf_checkpoint.open(str(place), notes.model if notes else None)
    tokenizer = tokenizers.load(str(place), '')
    if sentences and not isinstance(source, hf_checkpoint.Pair):
        prompts = {side: sentences[f'{side}_prompt'] for side in ('left', 'right')}
        prefixes = {f'{s}_prefix': tokenizer.prompt_ids(p) for s, p in prompts.items() if p}
        both = {'shared': True, **sentences, **prefixes}  # One encoder is for both sides.
        source = hf_checkpoint.Pair(place, both, source)
    model = models.build(**{**source.model, **fields})
    kind = exported.objective(folder, source.family)
    # Marian says so of its padding; newer versions of transformers put it into the second file.
    second = untrusted.file(source.folder, hub.GENERATION_CONFIG)
    said = source.config | (tensors.read_json(second) if second else {})
    if not notes and said.get('decoder_start_token_id') in tokenizer.first_languages():
        kind['decoder_start'] = 'language'
    objective = objectives.build(**kind)
    _check(spec, model, objective)
    labels = hf_checkpoint.labels(source)
    _, shardings = train_step.params_like(model, objective, mesh)
    params = jax.device_put(hf_checkpoint.load_params(source), shardings)
    if notes:
        lengths, tasks = notes.lengths, notes.tasks
        options = decoding_settings.make(notes.decoding, lengths['targets'])
        run: dict[str, Any] = {'evals': [notes.evaluation] if notes.evaluation else []}
    else:
        options = decoding.Options(banned=said.get('bad_words_ids') or ())
        longest, tasks = _input_limit(model), {}
        lengths = {'inputs': longest, 'targets': options.max_length}
        run = {'continues': _continues(model, source.config)}
        if tokenizer.family == 'bart':  # Whose first token is forced in some checkpoints alone.
            run['forces_first'] = said.get('forced_bos_token_id') is not None
        if objective.view == 'retrieval':  # It has no response sets of its own.
            lengths['targets'] = longest
    return LoadedModel(
        model=model,
        params=params,
        tokenizer=tokenizer,
        objective=objective,
        lengths=lengths,
        known=Languages.of(tokenizer, tasks),
        options=options,
        workdir=folder,
        tasks=tasks,
        labels=labels,
        **run,
    )


def _continues(model: nn.Module, config: Mapping[str, Json]) -> bool:
    """Returns whether a model that no run of ours has trained goes on in the middle of a text.

    GPT-2 does. DialoGPT, whose config.json names that task, answers a text that has ended.
    """
    answers = 'conversational' in (config.get('task_specific_params') or {})
    return isinstance(model, Generator) and model.decoder_only and not answers


def _check(spec: str, model: nn.Module, objective: Objective) -> None:
    """Raises UserError for what answers no texts."""
    if objective.writes_text and not isinstance(model, Generator):
        raise UserError(f'{spec} holds a {type(model).__name__}, which writes no texts')


def max_inputs(model: nn.Module) -> int | None:
    """Tokens of an input that a model has positions for; None where they have no end."""
    config = model.config
    prefix = max(len(getattr(config, f'{side}_prefix', ())) for side in ('left', 'right'))
    most = getattr(config, 'max_inputs', getattr(config, 'max_positions', None))
    return most and most - prefix


def _input_limit(model: nn.Module) -> int:
    most = max_inputs(model) or MAX_INPUT_LENGTH
    # Where answers are the rest of the text, they need positions, too.
    shared = isinstance(model, Generator) and model.decoder_only
    return min(MAX_INPUT_LENGTH, most // 2 if shared else most)


class SentenceEncoder:
    """An encoder of texts as vectors.

    It is the messages' side of a run whose objective is retrieval; or a BERT, RoBERTa or XLM-R as a
    folder in the form of Hugging Face or a hub name, whose vectors are means of the tokens'
    (arXiv:1908.10084, section 3). It encodes `batch_size` texts together.

    Raises:
      UserError: it is not an encoder.
    """

    def __init__(self, spec: str, batch_size: int = 64):
        mesh = partitioning.make_mesh()
        folder = pathlib.Path(os.path.expanduser(spec))
        if (folder / 'checkpoints').is_dir():
            opened = open_model(spec, mesh, {})
            if (view := opened.objective.view) != 'retrieval':
                raise UserError(
                    f'{spec} is a run for {view}, which has no vectors of texts; name one for '
                    'retrieval, or a public encoder'
                )
            model, self._tokenizer = opened.model, opened.tokenizer
            self._params: Any = opened.params
        else:
            place = str(hub.local_folder(spec))
            fields = dict(shared=True, pooling='mean', projection_dim=0, normalize=False)
            source = hf_checkpoint.open(place, fields)
            self._tokenizer = tokenizers.load(place, '')
            model, self._params = models.build(**source.model), hf_checkpoint.load_params(source)
        known = features.Conventions.of_tokenizer(self._tokenizer, model.config.vocab_size)
        longest = min(MAX_SENTENCE, max_inputs(model) or MAX_SENTENCE)
        sizes = dict(batch_size=batch_size, max_length=longest)
        self._encode = TextEncoder(model, mesh, 'left', conventions=known, **sizes)

    @functools.cached_property
    def digest(self) -> str:
        """The hash of the encoder, see digest_of."""
        return digest_of(self._params, self._tokenizer)

    def __call__(self, texts: Sequence[str]) -> np.ndarray:
        """The vectors of texts, [len(texts), dimensions] float32."""
        return self._encode(self._params, self._tokenizer.encode_inputs(texts))
