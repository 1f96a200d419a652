"""Checks a config and builds the parts it names, for training and for evaluation."""

import dataclasses
import itertools
import math
import os
import pathlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence

import flax.linen as nn
import jax
from jax.sharding import Mesh
from ml_collections import ConfigDict

from xlbench import config as config_lib, evaluators, models
from xlbench.benchmarks import languages
from xlbench.config import EVALUATION_KEYS, stage_pairs
from xlbench.data import baselines, features, tokenizers
from xlbench.data.prepared import Prepared, ensure, open_mixture, open_optional, wait_for
from xlbench.metrics import tagging
from xlbench.models.fused import choice
from xlbench.models.lora import Lora
from xlbench.parallel import partitioning
from xlbench.retrieval.response_set import ResponseSet
from xlbench.settings import blocks, epochs
from xlbench.system import errors
from xlbench.system.errors import UserError
from xlbench.system.files import Json, Setting
from xlbench.training import memory, objectives, optimizers
from xlbench.training.experiment import (
    Data,
    Evaluator,
    Experiment,
    adapter_places,
    data_facts,
    stage_batches,
    stage_data,
)
from xlbench.training.train_step import Initialiser


def build(config: ConfigDict, workdir: str = '') -> Experiment:
    """Builds all that a checked config names; makes missing preparations.

    The vocabulary of a run that was begun is read from the copy in its `workdir`.

    Raises:
      UserError: mesh, data, model or pattern cannot work.
    """
    mesh = partitioning.make_mesh(**config.mesh)
    partitioning.check_batch_size(config.batches.batch_size, mesh, config.accumulate)
    memory.check(config, mesh)
    if not workdir:  # What was begun goes on anywhere, also on devices without fused attention.
        check_attention(config, mesh)
    about = config_lib.read_about(workdir) if workdir else {}
    trained = [label for label in about.get('labels') or () if label != tagging.PAD]
    data = with_shared_labels(_open_data(config, bool(workdir)), trained)
    objective = objectives.build(**config.objective)
    if not data:  # Of a run that is scored again, on a split that is optional.
        splits = ' or '.join(sorted({repr(block.split) for block in config.evals.values()}))
        raise UserError(f'no task of the run has the split {splits}; name another one with --split')
    for tasks, _ in data.values():
        features.check_view(objective.view, tasks)
    if workdir:
        epochs.restore(config, about)
    given = resolve_epochs(config, data, mesh, objective.view)
    _check_batches(config, data, mesh, objective.view)
    vocabulary = next(iter(data.values()))[0][0].manifest['vocabulary']
    model = build_model(config.model, vocabulary['size'], labels_of(data, config.model))
    lora = Lora(**config.lora)
    _check_adapters(lora, config, data)
    initialise = Initialiser(model, objective, mesh, lora)
    if workdir:
        tokenizer = tokenizers.of_workdir(workdir, about)
    else:
        tokenizer = tokenizers.load(config.data.vocabulary, config.data.root)
    if tokenizer.sha256 != vocabulary['sha256']:
        raise UserError(
            f'the data was prepared with another vocabulary than {config.data.vocabulary!r} is '
            'now; run xlbench.prepare again with --force'
        )
    evals: dict[str, tuple[evaluators.Evaluator, int]] = {}
    for name, block in config.evals.items():
        if not (tasks := evaluated(block, data)):
            continue
        options = {key: value for key, value in block.items() if key not in EVALUATION_KEYS}
        type_name = block.get('type') or objective.evaluator
        kind: Callable[..., evaluators.Evaluator] = evaluators.find(type_name)
        if split := options.pop('responses', ''):
            others = {t.name: t for task in block.tasks for t in data[task, split][0]}
            options['responses'] = [others[task.name] for task in tasks]
        try:
            evaluator = kind(tasks, model, objective, mesh, tokenizer, **options)
        except TypeError as error:
            if ':' not in block.get('type', ''):  # The options of ours were checked before.
                raise
            wrong = f'config.evals.{name}: {block.type} cannot be made: {errors.located(error)}'
            raise UserError(wrong) from error
        if lora.languages:
            adapter_places(lora, tasks)
            evaluator.adapted = lambda params, lang: lora.of(params, lora.place(lang))
        evals[name] = (evaluator, block.every)
    _check_score(config.best.score, evals)
    mask = lora.restrict(optimizers.trainable_mask(initialise.shapes, tuple(config.trainable)))
    return Experiment(
        mesh, data, model, lora, objective, initialise, initialise.shapes, initialise.shardings,
        mask, tokenizer, evals, given,
    )  # fmt: skip


def resolve_epochs(config: ConfigDict, data: Data, mesh: Mesh, view: str) -> dict[str, str]:
    """Replaces the epochs in a checked config by steps, in place.

    An epoch has as many examples as the data of its stage; `view` is the objective's.

    Returns:
      The texts in place of which there are steps now: {'stages.train.num_steps': '3epochs'}.

    Raises:
      UserError: a warm-up is longer than its stage.
    """
    given = epochs.texts(config)
    of_epoch: dict[str, tuple[int, float]] = {}  # {stage: (examples, those of a step)}
    for key, stage, _ in epochs.keys(config):
        if key not in given:
            continue
        if stage not in of_epoch:
            tasks, _ = stage_data(data, config.stages[stage])
            with stage_batches(config, stage, data, mesh, view, prefetch=0) as feed:
                of_epoch[stage] = sum(task.pass_size for task in tasks), feed.examples_per_step
        examples, of_step = of_epoch[stage]
        steps = max(1, round((epochs.count(given[key]) or 0.0) * examples / of_step))
        evaluation = re.fullmatch(r'evals\.(.*)\.every', key)
        if evaluation:
            block = config.evals[evaluation[1]]
            most = block.get('num_examples') or math.inf
            scored = sum(min(len(task), most) for task in evaluated(block, data))
            share = block.get('max_share', 1.0)
            fewest = scored / 3 / of_step * (1 - share) / share  # Trained on between two of them.
            steps = min(steps * max(1, math.ceil(fewest / steps)), config.stages[stage].num_steps)
        epochs.put(config, key, steps)
    for stage in config.stages.values():
        optimizers.build(**stage.optimizer, num_steps=stage.num_steps)
    return given


def evaluated(block: Mapping[str, Setting], data: Data) -> list[Prepared]:
    """Returns the tasks of an evaluation, those of mixtures included, each once."""
    pairs = [(name, block['split']) for name in block['tasks']]
    tasks = (task for pair in pairs if pair in data for task in data[pair][0])
    return list({task.name: task for task in tasks}.values())


def _check_score(name: str, evals: Mapping[str, tuple[Evaluator, int]]) -> None:
    """Raises UserError for a config.best.score that its evaluation does not make."""
    chosen, _, rest = name.partition('/')
    if chosen not in evals or not evals[chosen][1]:  # Checked before, where a run is trained.
        return
    task, _, score = rest.partition('/')
    given = evals[chosen][0].score_names(task)
    if given and score not in (*given, 'headline'):
        raise errors.unknown('score in config.best.score', score, given)


def _check_batches(config: ConfigDict, data: Data, mesh: Mesh, view: str) -> None:
    """Raises UserError for batches that cannot be made, in whichever stage, before the first."""
    for name in config.stages:
        with stage_batches(config, name, data, mesh, view, prefetch=0) as feed:
            for rows, inputs, targets in feed.shapes:
                partitioning.check_batch_size(rows, mesh, config.accumulate)
                lengths = {'inputs': inputs, 'targets': targets}
                cut = {side: lengths[side] for side in features.VIEWS[view].sides}
                partitioning.check_lengths(cut, mesh)


def _check_adapters(lora: Lora, config: ConfigDict, data: Data) -> None:
    """Raises UserError unless each stage trains the adapters of all languages, and no others."""
    for name, stage in config.stages.items():
        trained = adapter_places(lora, stage_data(data, stage)[0])
        idle = [lang for place, lang in enumerate(lora.languages) if place not in trained]
        if idle:
            raise UserError(
                f'no task of config.stages.{name} has targets in {", ".join(idle)}; leave them out '
                'of config.lora.languages, or choose a mixture that has them'
            )


def with_shared_labels(data: Data, known: Iterable[str] = ()) -> Data:
    """Gives all tasks of labels the union of their labels, in the order of the first task.

    `known` labels, with which a model was trained, come before.
    """
    tasks = [task for tasks, _ in data.values() for task in tasks]
    own = (task.manifest.get('labels') or () for task in tasks)
    union = tuple(dict.fromkeys([*known, *itertools.chain.from_iterable(own)]))
    return {
        pair: ([dataclasses.replace(task, labels=union) for task in of_pair], rates)
        for pair, (of_pair, rates) in data.items()
    }


def labels_of(data: Data, model: Mapping[str, Setting]) -> list[str]:
    """The labels of classification or tagging, which all data must share; else none.

    The block config.model may have a further one, `pad_label`.
    """
    prepared = [task for tasks, _ in data.values() for task in tasks]
    labels = list(prepared[0].labels)
    for task in prepared:
        if list(task.labels) != labels:
            raise UserError(
                f'{task.name} has the labels {", ".join(task.labels)}, but {prepared[0].name} has '
                f'{", ".join(labels)}; give both tasks the same labels=[...]'
            )
    if not model.get('pad_label'):
        return labels
    if prepared[0].manifest.get('view') != 'tagging':
        raise UserError(
            f'config.model.pad_label gives a tagger the class {tagging.PAD}, and '
            f'{prepared[0].name} has no tags; leave it out'
        )
    return [*labels, tagging.PAD]


def build_model(
    block: Mapping[str, Setting], vocabulary_size: int, labels: Sequence[str] = ()
) -> nn.Module:
    """The model of a config.

    A vocab_size of 0 becomes the vocabulary's, rounded up to a multiple of 128; a num_labels of 0
    the number of the data's labels.
    """
    options = dict(block)
    if labels:
        options['num_labels'] = options.get('num_labels') or len(labels)
        if options['num_labels'] != len(labels):
            raise UserError(
                f'config.model.num_labels is {options["num_labels"]}, but the data has '
                f'{len(labels)} labels; set it to 0 or to {len(labels)}'
            )
    rounded = -(-vocabulary_size // 128) * 128
    options['vocab_size'] = options.get('vocab_size') or rounded
    if options['vocab_size'] < vocabulary_size:
        raise UserError(
            f'config.model.vocab_size {options["vocab_size"]} is smaller than the vocabulary, '
            f'{vocabulary_size}; set it to 0 or to {rounded}'
        )
    return models.build(**options)


def published_vocabulary(config: ConfigDict) -> tuple[int, str]:
    """Returns (rows of the vocabulary, where they are known from), without the data.

    Raises:
      UserError: neither config.model nor a published size says it.
    """
    if config.model.get('vocab_size'):
        return config.model.vocab_size, 'config.model.vocab_size'
    left = ('vocab_size', 'num_labels')  # To the data.
    block = {key: value for key, value in config.model.items() if key not in left}
    try:
        return models.config(**block).vocab_size, f'the published size of {block["family"]}'
    except UserError:
        raise UserError(
            'config.model.vocab_size is 0 and the model has no published size; set it, or prepare '
            'the data'
        ) from None


def _open_data(config: ConfigDict, has_copy: bool) -> Data:
    """Opens every preparation that the config names; process 0 makes what is missing first.

    `has_copy` says that there is a workdir, with a copy of the vocabulary.
    """
    needed, optional = config_lib.needed_splits(config), config_lib.optional_splits(config)
    block = blocks.Data(**config.data)
    root, vocabulary = block.root, block.vocabulary
    if jax.process_index() == 0:
        ensure(
            needed,
            block,
            optional=optional,
            texts=[p for stage in list(config.stages.values())[:1] for p in stage_pairs(stage)],
            has_copy=has_copy,
        )
    else:
        wait_for(needed, block, optional=optional)
    data = {pair: open_mixture(root, vocabulary, *pair) for pair in needed}
    for name, split in optional:
        if tasks := open_optional(root, vocabulary, name, split):
            data.setdefault((name, split), (tasks, [1.0] * len(tasks)))
        elif jax.process_index() == 0:
            print(f'{name} has no split {split!r}: its evaluation is left out', flush=True)
    return data


def copy_inputs(config: ConfigDict, experiment: Experiment, workdir: str) -> None:
    """Copies into a workdir what its model needs to answer texts, so that it can be moved.

    That is the vocabulary, and the response sets that a retriever is evaluated with. The training
    data stays where it is.
    """
    tokenizers.copy_files(config.data.vocabulary, config.data.root, workdir)
    for block in config.evals.values():
        split = block.get('responses', '')
        for task in evaluated({**block, 'split': split}, experiment.data) if split else ():
            path = response_set_path(workdir, task.name, split)
            if not path.is_file():
                path.parent.mkdir(exist_ok=True)
                ResponseSet.of_prepared(task).save(path)


def response_set_path(workdir: str | os.PathLike, task: str, split: str) -> pathlib.Path:
    """The path of a workdir's copy of a response set."""
    return pathlib.Path(workdir) / 'response_sets' / f'{task}-{split}.jsonl'


def facts(config: ConfigDict, experiment: Experiment) -> dict[str, Json]:
    """Describes the origin of a run's numbers for config.json."""
    splits = {f'{t.name}/{t.split}': t for tasks, _ in experiment.data.values() for t in tasks}
    trained = {
        task.name
        for stage in config.stages.values()
        for task in stage_data(experiment.data, stage)[0]
    }
    return config_lib.facts() | {
        # What the model can be asked for, known where the data is not.
        'tasks': {
            task.name: {key: task.manifest.get(key) for key in ('source_lang', 'target_lang')}
            | {'trained': task.name in trained}
            | num_texts(task)
            for task in sorted(splits.values(), key=lambda task: task.name)
        },
        'vocabulary': experiment.tokenizer.manifest(),
        # Those that the table of languages lacks.
        'languages': languages.registered(
            lang
            for manifest in (task.manifest for task in splits.values())
            for lang in (manifest.get('source_lang'), manifest.get('target_lang'))
        ),
        # Of a classifier or tagger: id = place.
        'labels': labels_of(experiment.data, config.model),
        **data_facts(experiment.data),
        'parameters': experiment.num_parameters,
        'devices': partitioning.describe(experiment.mesh),
        'dtype': config.model.get('dtype', 'float32'),
        'seed': config.seed,
        **({'given': experiment.given} if experiment.given else {}),
    }


def num_texts(task: Prepared) -> dict[str, int]:
    """Returns how many texts an example of a classification task has, 1 or 2: {'texts': 2}."""
    view = features.VIEWS[task.manifest.get('view', 'generation')]
    if view.labels != 'text' or not len(task):
        return {}
    return {'texts': len(task[0]['piece_counts'])}


# ---------------------------------------------------------------------------------------------
# Checks that need nothing built, so that a slip costs nothing.


def check_config(config: ConfigDict) -> None:
    """Raises UserError for a key or a value that cannot be right, in any block."""
    config_lib.check_run_names(config)
    Lora(**config.lora)
    objectives.build(**config.objective)
    memory.config_of(config.model)
    for name in config.baselines:
        errors.check_known('baseline in config.baselines', name, baselines.NAMES)
    for stage in epochs.as_steps(config).stages.values():
        optimizers.build(**stage.optimizer, num_steps=stage.num_steps)


def check_attention(config: ConfigDict, mesh: Mesh) -> None:
    """Raises UserError for an attention that the devices of the mesh cannot have."""
    with partitioning.activate(mesh):
        choice.check(memory.config_of(config.model))
