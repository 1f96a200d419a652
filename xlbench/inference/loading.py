"""Loads a trained model from disk: its module, parameters, vocabulary and languages.

A workdir of a run or of xlbench.convert, a folder in the form of Hugging Face, or a hub name.
"""

import dataclasses
import pathlib
from collections.abc import Mapping

import flax.linen as nn
import jax
from ml_collections import ConfigDict

from xlbench import config as config_lib, decoding, models, runs
from xlbench.benchmarks import languages
from xlbench.data import features, tokenizers, vocabularies
from xlbench.evaluators import generation
from xlbench.huggingface import checkpoint as hf_checkpoint, hub, sentence_files, tensors
from xlbench.inference import exported
from xlbench.inference.exported import TaskNote
from xlbench.models import lora
from xlbench.models.generator import Generator
from xlbench.system import untrusted
from xlbench.system.errors import UserError
from xlbench.system.files import Json
from xlbench.training import checkpoints, objectives, train_step
from xlbench.training.objectives.contract import Objective
from xlbench.trees import Params

# Inputs of a checkpoint that no run of ours has trained, in tokens; less where it holds less.
MAX_INPUT_LENGTH = 512


@dataclasses.dataclass(frozen=True)
class Languages:
    """The target languages that a model can be asked for.

    Attributes:
      allowed: ISO codes; none where nothing tells the model a language.
      default: the one that is meant when none is named, if there is only one.
      why: how the model comes to know several, for messages.
      sources: target -> the source language that training had for it, where that is one.
    """

    allowed: tuple[str, ...] = ()
    default: str | None = None
    why: str = ''
    sources: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @classmethod
    def of(cls, tokenizer: tokenizers.Tokenizer, tasks: Mapping[str, TaskNote]) -> 'Languages':
        """From the vocabulary and what a run's config.json says about its tasks.

        Args:
          tokenizer: the model's.
          tasks: {name: {'source_lang', 'target_lang', 'trained'}}; empty without a run.
        """
        trained = [task for task in tasks.values() if task['trained']]
        targets = list(dict.fromkeys(t['target_lang'] for t in trained if t['target_lang']))
        sources = {}
        for lang in targets:
            of_lang = {t['source_lang'] for t in trained if t['target_lang'] == lang}
            if len(of_lang) == 1:
                sources[lang] = of_lang.pop()
        tokens = tokenizer.languages()
        if tokens and vocabularies.FAMILIES[tokenizer.family].needs_languages:
            why = f'its vocabulary has tokens of {len(tokens)} languages'
            return cls(tokens, None, why, sources)
        # One that it was not trained on is asked for where transfer to it is evaluated.
        others = [task['target_lang'] for task in tasks.values()]
        allowed = tuple(dict.fromkeys(lang for lang in [*targets, *others] if lang))
        default = targets[0] if len(targets) == 1 else None
        return cls(allowed, default, f'it was trained on {", ".join(targets)}', sources)

    def choose(self, name: str, lang: str | None) -> str | None:
        """The language that is meant by `lang`; None where none is named and none is known.

        Args:
          name: of the model, for messages.
          lang: ISO code.

        Raises:
          UserError: it is missing, or unknown to the model.
        """
        lang = lang or self.default
        if lang is None and self.allowed:
            raise UserError(
                f'{name} needs a target language: {self.why}. Set target_lang to one of '
                f'{", ".join(self.allowed)}'
            )
        if lang is not None and self.allowed and lang not in self.allowed:
            raise UserError(
                f'{name} does not know the target language {lang!r}; '
                f'allowed: {", ".join(self.allowed)}'
            )
        return lang


@dataclasses.dataclass(frozen=True)
class LoadedModel:
    """A model with all that its folder says of it.

    Attributes:
      model: the module.
      params: its parameters, on the mesh.
      tokenizer: the vocabulary.
      objective: what it was trained for.
      lengths: most tokens of 'inputs' and 'targets' as the final evaluation has them, otherwise
        what the model holds.
      known: languages that a model that writes texts can be asked for.
      options: how such a model decodes in the final evaluation.
      workdir: of the run; None for a checkpoint that no run of ours has trained.
      config: of the run.
      tasks: what the run's config.json says about each task, see Languages.of.
      labels: of a classifier or tagger, in the order of their ids.
      continues: whether answers go on in the middle of a text, so that no end is put behind it.
      forces_first: whether answers have to begin as targets do, see Tokenizer.forced_first.
    """

    model: nn.Module
    params: Params
    tokenizer: tokenizers.Tokenizer
    objective: Objective
    lengths: Mapping[str, int]
    known: Languages
    options: decoding.Options
    workdir: pathlib.Path | None = None
    config: ConfigDict | None = None
    tasks: Mapping[str, TaskNote] = dataclasses.field(default_factory=dict)
    labels: tuple[str, ...] = ()
    continues: bool = False
    forces_first: bool = True


def open_model(spec: str, mesh: jax.sharding.Mesh, fields: Mapping[str, str]) -> LoadedModel:
    """Reads the model that a user names.

    Args:
      spec: see the top of xlbench/predict.py.
      mesh: where its parameters go.
      fields: of the model's config that are not to be as they were in training.

    Raises:
      UserError: there is no such model, or it cannot answer texts.
    """
    folder, step = config_lib.split_step(spec)
    if (folder / 'checkpoints').is_dir():
        return _open_workdir(folder, step or 'best', mesh, fields)
    if untrusted.file(folder, 'config.json'):
        config_lib.refuse_sweep(str(folder))
    return _open_checkpoint(str(folder) if step else spec, mesh, fields)  # @REVISION is the hub's.


def eval_blocks(config: ConfigDict) -> list[dict[str, Json]]:
    """The blocks of config.evals, the final evaluation first; xlbench.convert writes none."""
    return sorted(config.evals.to_dict().values(), key=lambda block: bool(block.get('every')))


def _open_workdir(
    workdir: pathlib.Path, step: str, mesh: jax.sharding.Mesh, fields: Mapping[str, str]
) -> LoadedModel:
    about = config_lib.read_run(str(workdir), config_lib.RUN_KEYS)
    config = ConfigDict(about['config'])
    config_lib.check_blocks(config, 'model', 'objective', 'lora', file=f'{workdir}/config.json')
    tokenizer = tokenizers.of_workdir(workdir, about)
    objective = objectives.build(**config.objective)
    gives_labels = bool(features.VIEWS[objective.view].labels)
    labels = _labels(workdir, about) if gives_labels else ()
    model = runs.build_model(config.model.to_dict() | fields, tokenizer.vocab_size, labels)
    _check(str(workdir), model, objective)
    adapters = lora.Lora(**config.lora)
    shapes, shardings = train_step.params_like(model, objective, mesh, adapters)
    number = checkpoints.find_step(str(workdir), step)
    params = checkpoints.load_params(str(workdir), number, shapes, shardings)
    if adapters.rank:
        _, plain = train_step.params_like(model, objective, mesh)
        params = jax.jit(lora.merge, out_shardings=plain)(params)
    # What xlbench.convert writes has neither evals nor tasks.
    block = next(iter(eval_blocks(config)), {})
    lengths = {'inputs': _input_limit(model), 'targets': 128} | block.get('lengths', {})
    opened = LoadedModel(
        model=model,
        params=params,
        tokenizer=tokenizer,
        objective=objective,
        lengths=lengths,
        known=Languages.of(tokenizer, about.get('tasks', {})),
        options=generation.options(lengths, block.get('decoding')),
        workdir=workdir,
        config=config,
        tasks=about.get('tasks', {}),
        labels=labels,
        continues=not config.stages and _continues(model, _public_config(workdir)),
    )
    if config.stages and 'tasks' not in about and not opened.known.allowed:
        why = 'its config.json, of an earlier version, does not say what it was trained on'
        known = Languages(tuple(languages.LANGUAGES), None, why)
        return dataclasses.replace(opened, known=known)
    return opened


def _labels(workdir: pathlib.Path, about: Mapping[str, Json]) -> tuple[str, ...]:
    """The labels that a classifier or tagger was trained with; UserError if nothing says them."""
    labels = about.get('labels')
    if not (isinstance(labels, list) and labels and all(isinstance(x, str) for x in labels)):
        raise UserError(f'{workdir}/config.json does not list the labels of the model as "labels"')
    return tuple(labels)


def _open_checkpoint(spec: str, mesh: jax.sharding.Mesh, fields: Mapping[str, str]) -> LoadedModel:
    folder = hub.local_folder(spec)
    notes = exported.Notes.read(folder)
    sentences = None if notes else sentence_files.read(folder)
    place = sentences.encoder if sentences else folder
    # First, as a folder without config.json is not a model, whatever its vocabulary.
    source = hf_checkpoint.open(str(place), notes and notes.model)
    tokenizer = tokenizers.load(str(place), '')
    if sentences and isinstance(source, hf_checkpoint.Checkpoint):
        source = hf_checkpoint.Pair(place, _of_sentences(sentences, tokenizer), source)
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
        options = generation.options(lengths, notes.decoding)
        evals = {'final': notes.evaluation} if notes.evaluation else {}
        run = {'workdir': folder, 'config': ConfigDict({'evals': evals})}
    else:
        options = decoding.Options(banned=said.get('bad_words_ids') or ())
        longest, tasks = _input_limit(model), {}
        lengths = {'inputs': longest, 'targets': options.max_length}
        run = {'continues': _continues(model, source.config)}
        if tokenizer.family == 'bart':  # Whose first token is forced in some checkpoints alone.
            run['forces_first'] = said.get('forced_bos_token_id') is not None
        if sentences:  # It has no response sets of its own.
            lengths['targets'] = longest
            run = {'workdir': folder, 'config': ConfigDict({'evals': {}})}
    return LoadedModel(
        model=model,
        params=params,
        tokenizer=tokenizer,
        objective=objective,
        lengths=lengths,
        known=Languages.of(tokenizer, tasks),
        options=options,
        tasks=tasks,
        labels=labels,
        **run,
    )


def _of_sentences(
    sentences: sentence_files.Sentences, tokenizer: tokenizers.Tokenizer
) -> dict[str, Json]:
    """The fields of a dual encoder with one encoder for both sides."""
    prompts = {'left': sentences.left_prompt, 'right': sentences.right_prompt}
    prefixes = {f'{s}_prefix': tokenizer.prompt_ids(p) for s, p in prompts.items() if p}
    return {'shared': True, **sentences.fields(), **prefixes}


def _public_config(workdir: pathlib.Path) -> dict[str, Json]:
    """The config.json of the checkpoint that xlbench.convert made a workdir of."""
    file = untrusted.file(workdir, f'{tokenizers.CONVERTED}/{hub.CONFIG}')
    return tensors.read_json(file) if file else {}


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
