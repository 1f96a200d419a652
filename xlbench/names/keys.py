"""Checks the keys of a config, and what they name of xlbench: families, objectives, evaluators."""

import dataclasses
from collections.abc import Mapping, Sequence

from ml_collections import ConfigDict

from xlbench import benchmarks, config as config_lib, models
from xlbench.benchmarks import topics
from xlbench.config import blocks, check_keys, epochs, ranges, signatures
from xlbench.config.decoding import Options
from xlbench.config.optimizer import OPTIMIZERS
from xlbench.config.signatures import Signature
from xlbench.names.places import task_file
from xlbench.system import errors
from xlbench.system.errors import UserError
from xlbench.system.files import Block, Setting

CONFIG_KEYS = (
    'seed', 'data', 'model', 'init_from', 'lora', 'objective', 'trainable', 'mesh', 'batches',
    'accumulate', 'nonfinite', 'stages', 'evals', 'best', 'checkpoints', 'log_every',
    'baselines', 'baseline_split',
)  # fmt: skip
# Keys that a config may leave out, as those of earlier versions do.
RUN_OPTIONS = tuple(blocks.LATER_KEYS)
SWEEP_KEYS = ('task', 'source', 'source_workdir', 'mesh', 'adapt')
_OBJECTIVES, _EVALUATORS = 'xlbench.training.objectives', 'xlbench.evaluators'
_TRACKERS = 'xlbench.tracking'
EVAL_KEYS = ('tasks', 'split', 'every')  # Ours; the others are arguments of the evaluator.
# Ours, too; see blocks.Evaluation.
EVAL_OPTIONS = ('optional', 'type', 'max_share')


# The blocks of which there is one kind.
_BLOCKS = {
    'data': blocks.Data, 'mesh': blocks.Mesh, 'batches': blocks.Batches, 'best': blocks.Best,
    'checkpoints': blocks.Checkpoints, 'nonfinite': blocks.Nonfinite,
}  # fmt: skip
_NAME = Signature('name', {'name': 'str'}, frozenset())  # Of what has kinds.
_RUN, _STAGE, _EVAL = map(signatures.of_class, (blocks.Run, blocks.Stage, blocks.Evaluation))
_ADDED = signatures.of_class(blocks.Added)


def is_sweep(config: Block) -> bool:
    """Says whether a config is one of xlbench.fewshot, not of xlbench.train."""
    return 'adapt' in config and 'stages' not in config


def taken(config: Block, *path: str) -> Signature | None:
    """Gives the keys that a block of a config may hold; None where it has no function.

    Args:
      config: of a run or a sweep.
      *path: the block's keys: 'stages', 'stage1', 'optimizer'.

    Raises:
      UserError: what decides it (a family, an objective, an optimizer) does not exist.
    """
    if is_sweep(config):
        if path[:1] == ('source',) and isinstance(config.get('source'), Mapping | ConfigDict):
            return taken(config['source'], *path[1:])
        if path == ('adapt',):
            return signatures.of('xlbench.fewshot.settings', 'Adapt')
    if not path:  # What the command line may add to those that each config holds.
        types = {key: _RUN.types[key] for key in RUN_OPTIONS}
        return None if is_sweep(config) else Signature('a run', types, frozenset())
    if len(path) == 1 and path[0] in _BLOCKS:
        return signatures.of_class(_BLOCKS[path[0]])
    if path == ('lora',):
        return signatures.of('xlbench.models.lora', 'Lora')
    if path == ('model',):
        return _model(config['model'])
    if path == ('objective',):
        return _NAME | signatures.of(f'{_OBJECTIVES}.{objective_name(config)}', 'Options')
    if path[:1] == ('stages',) and len(path) == 2:
        return _STAGE
    if path[:1] == ('stages',) and path[2:] == ('optimizer',):
        return _optimizer(config['stages'][path[1]]['optimizer'], f'config.{".".join(path)}')
    if path[:1] == ('stages',) and path[2:] == ('batches',):
        return signatures.of_class(blocks.Batches)
    if path[:1] == ('stages',) and path[2:3] == ('added',) and len(path) == 4:
        return _ADDED
    if path[:1] == ('evals',) and len(path) == 2:
        return _evaluation(config, path[1])
    if path[:1] == ('evals',) and path[2:] == ('decoding',):
        return signatures.of_class(Options)
    return None


def check_config(config: ConfigDict) -> None:
    """Raises UserError for a key, or a name of a part of xlbench, that is wrong or missing."""
    if is_sweep(config):
        raise UserError(
            'this is the config of a sweep, which python -m xlbench.fewshot runs; xlbench.train '
            'takes configs with stages'
        )
    check_keys(config, CONFIG_KEYS, 'config', optional=RUN_OPTIONS)
    for key in (*_BLOCKS, 'lora', 'model', 'objective', 'stages', 'evals'):
        _check_is_block(config[key], f'config.{key}')
    config = epochs.as_steps(config)
    for key in ('data', 'best'):
        config_lib.check_arguments(taken(config, key), config[key], f'config.{key}')
    ranges.check_arguments(_RUN, config, 'config')
    for name in config.get('trackers') or ():
        known = signatures.catalog(_TRACKERS, 'Tracker')
        if ':' not in name and name not in known:  # Else the user's own.
            hint = 'One of your own is written as tasks/FILE.py:NAME'
            raise errors.unknown('tracker in config.trackers', name, known, hint)
    if not config.trainable:
        raise UserError("config.trainable is empty, and nothing would be trained; ('.*',) is all")
    kind, family = objective_name(config), config.model.get('family')
    if kind not in trainers(family):
        pairs = ', '.join(f'{name} trains a {" or ".join(f)}' for name, f in FAMILIES.items())
        raise UserError(
            f'config.model.family is {family!r} and config.objective.name {kind!r}; {pairs}, and '
            'no other objective does'
        )
    if config.get('embedding_rows') == 'occurring' and family not in models.ENCODERS:
        raise UserError(
            f"config.embedding_rows is 'occurring', which encoders take; every step moves all rows "
            f'of a {family} model, whose table gives its logits: leave it out'
        )
    for key in ('objective', 'model', *_BLOCKS, 'lora'):
        config_lib.check_arguments(taken(config, key), config[key], f'config.{key}')
    for name, stage in config.stages.items():
        where = f'config.stages.{name}'
        _check_is_block(stage, where)
        config_lib.check_arguments(_STAGE, stage, where)
        _check_is_block(stage.optimizer, f'{where}.optimizer')
        signature = taken(config, 'stages', name, 'optimizer')
        config_lib.check_arguments(signature, stage.optimizer, f'{where}.optimizer')
        if 'batches' in stage:
            _check_is_block(stage.batches, f'{where}.batches')
            merged = config_lib.batches_of(config, name)
            config_lib.check_arguments(taken(config, 'batches'), merged, f'{where}.batches')
        _check_added(config, name)
    for name in config.evals:
        _check_evaluation(config, name)
    _check_positions(config)


def _check_positions(config: ConfigDict) -> None:
    """Raises UserError for lengths of inputs or targets beyond a model's learned positions."""
    family, size = config.model.family, config.model.get('size')
    model = {**models.fields_of(family, size), **config.model}
    most = model.get('max_positions') if model.get('learned_positions', True) else None
    if most is None:
        return
    sides = {'inputs': 2 * most if family == 'mvbart' else most, 'targets': most}
    if family in ('sequence_classifier', 'token_classifier'):
        del sides['targets']  # Labels.
    blocks_of = {f'stages.{n}.batches': stage.get('batches') for n, stage in config.stages.items()}
    blocks_of |= {f'evals.{name}': block for name, block in config.evals.items()}
    for where, block in {'batches': config.batches, **blocks_of}.items():
        for side, length in ((block or {}).get('lengths') or {}).items():
            if length > sides.get(side, length):
                raise UserError(
                    f'config.{where}.lengths.{side} is {length}, and the model has positions for '
                    f'{sides[side]} tokens; set it to {sides[side]} or less'
                )


def _check_added(config: ConfigDict, name: str) -> None:
    """Checks the blocks `added` of a stage."""
    stage = config.stages[name]
    pairs = set()
    for part, block in (stage.get('added') or {}).items():
        where = f'config.stages.{name}.added.{part}'
        _check_is_block(block, where)
        config_lib.check_arguments(_ADDED, block, where)
        pairs.add((block.mixture, block.split))
    if pairs and stage.get('curriculum'):
        raise UserError(
            f'config.stages.{name} has both added, which is mixed with the other examples, and '
            'curriculum, whose parts come one after another; leave out one of them'
        )
    if len(pairs | {(stage.mixture, stage.split)}) <= len(stage.get('added') or {}):
        raise UserError(f'config.stages.{name} names a mixture and split twice; raise its rate')


def _check_evaluation(config: ConfigDict, name: str) -> None:
    block, where = config.evals[name], f'config.evals.{name}'
    _check_is_block(block, where)
    config_lib.check_arguments(taken(config, 'evals', name), block, where)
    for task in block.tasks:
        if list(block.tasks).count(task) > 1:
            raise UserError(f'{where}.tasks has {task} twice; name each task once')
    if block.get('decoding'):
        _check_is_block(block.decoding, f'{where}.decoding')
        signature = taken(config, 'evals', name, 'decoding')
        config_lib.check_arguments(signature, block.decoding, f'{where}.decoding')
        most = {'max_length': block.lengths['targets']} if 'targets' in block.lengths else {}
        try:
            Options(**most | dict(block.decoding))
        except UserError as error:
            raise UserError(f'{where}: {error}') from None


# What another evaluation of a run takes of its config, beside the blocks of config.evals.
_EVALUATED = ('objective', 'model', 'lora', 'mesh', 'batches')


def check_evaluations(config: ConfigDict) -> None:
    """Raises UserError for what an evaluation cannot take of a config that a workdir has given."""
    for key in ('best', 'trainable', 'seed', *_EVALUATED):
        if key not in config:
            raise UserError(f'the config of the run lacks {key!r}, which an evaluation needs')
    for key in _EVALUATED:
        _check_is_block(config[key], f'config.{key}')
        config_lib.check_arguments(taken(config, key), config[key], f'config.{key}')
    _check_is_block(config.best, 'config.best')
    config_lib.check_arguments(taken(config, 'best'), config.best, 'config.best')
    ranges.check_arguments(_RUN, config, 'config')
    for name in config.evals:
        _check_evaluation(config, name)


def check_sweep(config: ConfigDict) -> None:
    """Raises UserError for what is wrong in a config of xlbench.fewshot."""
    if not is_sweep(config):
        raise UserError(
            'this is the config of a run, which python -m xlbench.train runs; xlbench.fewshot '
            'takes configs with a block adapt, like configs/fewshot.py'
        )
    check_keys(config, SWEEP_KEYS, 'config')
    for key in ('source', 'mesh', 'adapt'):
        _check_is_block(config[key], f'config.{key}')
    topics.add(config)
    theirs = topics.is_known(config.task) and task_file(f'{config.task}_')
    if config.task not in benchmarks.FEWSHOT.tasks and not theirs:
        hint = 'A task of your own is named as its file is: mood of tasks/mood.py'
        raise errors.unknown('task in config.task', config.task, benchmarks.FEWSHOT.tasks, hint)
    try:
        check_config(config.source)
    except UserError as error:
        raise UserError(f'in config.source: {error}') from None
    for key in ('mesh', 'adapt'):
        config_lib.check_arguments(taken(config, key), config[key], f'config.{key}')


def _check_is_block(value: Setting, where: str) -> None:
    if not isinstance(value, Mapping | ConfigDict):
        raise UserError(f'{where} is {value!r}; it must be a block of keys, like dict(KEY=VALUE)')


def objectives() -> Mapping[str, str]:
    """The objectives' names, and their classes'."""
    return signatures.catalog(_OBJECTIVES)


def about_objective(name: str) -> Block:
    """Gives the attributes of an objective, as family; see training/objectives/contract.py."""
    return signatures.attributes(f'{_OBJECTIVES}.{name}', objectives()[name])


# The objectives that train models of one kind alone, and the families of that kind.
FAMILIES = {
    name: tuple(family for family, row in models.FAMILIES.items() if row.kind == kind)
    for name in objectives()
    if (kind := about_objective(name)['trains'])
}


def trainers(family: str) -> list[str]:
    """The objectives that train a family: those of its kind, else those of any encoder-decoder."""
    of_kind = [name for name, families in FAMILIES.items() if family in families]
    return of_kind or [name for name in objectives() if name not in FAMILIES]


def _evaluation(config: Block, name: str) -> Signature:
    """The keys of a block of config.evals: ours, and the arguments of its evaluator."""
    objective = about_objective(objective_name(config))
    known = signatures.catalog(_EVALUATORS, 'Evaluator')
    block, where = config['evals'][name], f'config.evals.{name}.type'
    kind = block.get('type') or objective['evaluator']
    ranges.check('str', kind, where)
    if ':' in kind:  # The user's own, whose options are known when it is imported.
        return Signature(kind, _EVAL.types, frozenset(EVAL_KEYS), open_ended=True)
    if kind not in known:
        hint = 'One of your own is written as tasks/FILE.py:NAME'
        raise errors.unknown(f'type of evaluator in {where}', kind, known, hint)
    views = signatures.attributes(f'{_EVALUATORS}.{kind}', known[kind])['views']
    if objective['view'] not in views:
        raise UserError(
            f'{where} is {kind!r}, which scores {" and ".join(views)}, and config.objective.name '
            f'is {objective_name(config)!r}; leave {where} out'
        )
    options = signatures.of(f'{_EVALUATORS}.{kind}', 'Options')
    return dataclasses.replace(_EVAL | options, name=known[kind])


def objective_name(config: Block) -> str:
    """The name of the objective of a run; UserError if there is none of that name."""
    known = objectives()
    name = config['objective'].get('name', '')
    ranges.check('str', name, 'config.objective.name')
    if name not in known:
        raise errors.unknown('objective in config.objective.name', name, known)
    return name


def _model(block: Block) -> Signature:
    """A family's own fields, beside family and size; without a size it needs some of them."""
    family, size = block.get('family', ''), block.get('size', '')
    for key, name in (('family', family), ('size', size)):
        ranges.check('str', name, f'config.model.{key}')
    models.check_name(family, size)
    fields = family_signature(family)
    types = {'family': 'str', 'size': 'str', **fields.types}
    if 'num_labels' in types:
        types['num_labels'] = f"Annotated[int, '0 to 0'] | {types['num_labels']}"  # 0: the data's.
    needed = frozenset({'family'}) | (fields.needed - models.fields_of(family, size).keys())
    return Signature(f'a {family} model without a size', types, needed)


def family_signature(family: str) -> Signature:
    """The fields of the config of a family of models."""
    row = models.FAMILIES[family]
    return signatures.of(f'xlbench.models.{row.module}', row.config)


def _optimizer(block: Block, where: str) -> Signature:
    name = block.get('name', 'adamw')
    ranges.check('str', name, f'{where}.name')
    if name not in OPTIMIZERS:
        raise errors.unknown(f'optimizer in {where}.name', name, OPTIMIZERS)
    return _NAME | signatures.of_class(OPTIMIZERS[name])


def fields(config: ConfigDict, path: Sequence[str]) -> Mapping[str, str]:
    """The keys that a block may hold, with their annotations; see `taken`."""
    try:
        signature = taken(config, *path)
    except (UserError, KeyError, AttributeError):  # What `check_config` says better.
        return {}
    return signature.types if signature else {}
