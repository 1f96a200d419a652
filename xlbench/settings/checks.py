"""Checks the keys of a config, and what they name of xlbench: families, objectives, evaluators.

Neither jax nor TensorFlow is imported, which would take seconds.
"""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from ml_collections import ConfigDict
from msgspec import Meta

from xlbench import models
from xlbench.benchmarks import task_files, topics
from xlbench.settings import blocks, decoding, epochs, source
from xlbench.settings.optimizer import OPTIMIZERS
from xlbench.system import errors
from xlbench.system.errors import UserError
from xlbench.system.files import Block
from xlbench.system.ranges import COMPUTED, Field, Fields, check, check_block, check_keys, fields_of

# The blocks of which there is one kind.
BLOCKS = {
    'data': blocks.Data, 'mesh': blocks.Mesh, 'batches': blocks.Batches, 'best': blocks.Best,
    'checkpoints': blocks.Checkpoints, 'nonfinite': blocks.Nonfinite,
}  # fmt: skip
_OBJECTIVES, _EVALUATORS = 'xlbench.training.objectives', 'xlbench.evaluators'
_BLOCK = Field(Mapping)
_NAME = {'name': Field(str, '')}  # Of what has kinds.
_RUN = fields_of(blocks.Run)
# A file names every key; only configs of earlier versions lack some.
_LATER = {key: field for key, field in _RUN.items() if key in blocks.LATER_KEYS}
CONFIG_KEYS: Fields = (
    dict.fromkeys((*BLOCKS, 'lora', 'model', 'objective', 'stages', 'evals'), _BLOCK)
    | {key: Field(field.type) for key, field in _RUN.items()}
    | _LATER
)
_SWEEP_KEYS: Fields = {'task': Field(str), 'source_workdir': Field(str)} | dict.fromkeys(
    ('source', 'mesh', 'adapt'), _BLOCK
)


def is_sweep(config: Block) -> bool:
    """Says whether a config is one of xlbench.fewshot, not of xlbench.train."""
    return 'adapt' in config and 'stages' not in config


def block_fields(config: Block, *path: str) -> Fields:
    """Gives the keys that a block of a run or a sweep may hold; none where that is not known.

    Example: block_fields(config, 'stages', 'stage1', 'optimizer'). Without a path they are those
    that a command line may add to the config itself, as its file is older than they are.

    Raises:
      UserError: what decides it (a family, an objective, an optimizer) does not exist.
    """
    if is_sweep(config):
        if path[:1] == ('source',) and isinstance(config.get('source'), Mapping | ConfigDict):
            return block_fields(config['source'], *path[1:])
        if path == ('adapt',):
            return source.fields('xlbench.fewshot.settings', 'Adapt')
        return fields_of(blocks.Mesh) if path == ('mesh',) else {}
    match path:
        case ():
            return _LATER
        case (key,) if key in BLOCKS:
            return fields_of(BLOCKS[key])
        case ('lora',):
            return source.fields('xlbench.models.lora', 'Lora')
        case ('model',):
            return _model(config['model'])
        case ('objective',):
            return _NAME | source.fields(f'{_OBJECTIVES}.{objective_name(config)}', 'Options')
        case ('stages', _):
            return fields_of(blocks.Stage)
        case ('stages', stage, 'optimizer'):
            block, where = config['stages'][stage]['optimizer'], f'config.{".".join(path)}'
            name = _kind(block, 'name', 'optimizer', where, OPTIMIZERS, default='adamw')
            return _NAME | fields_of(OPTIMIZERS[name])
        case ('stages', _, 'batches'):
            return fields_of(blocks.Batches)
        case ('stages', _, 'added', _):
            return fields_of(blocks.Added)
        case ('evals', name):
            return _evaluation(config, name)
        case ('evals', _, 'decoding'):
            return decoding.FIELDS
    return {}


def check_blocks(config: Block, *paths: Sequence[str] | str, file: str = '') -> None:
    """Raises UserError for a key or value that a block of a config does not take, or a lack.

    The blocks are named as 'model' or ('stages', 'stage1'), and messages name the `file`.
    """
    for path in paths:
        path = (path,) if isinstance(path, str) else path
        block, where = config, f'{file}: config' if file else 'config'
        for key in path:
            block, where = block[key], f'{where}.{key}'
        check(Mapping, block, where)
        is_own = path[0] == 'evals' and ':' in f'{block.get("type")}'  # Known when it is imported.
        check_block(block_fields(config, *path), block, where, open_ended=is_own)
        if path == ('model',):
            _check_sized(block)


def check_names(config: ConfigDict) -> None:
    """Raises UserError for a key, or a name of a part of xlbench, that is wrong or missing."""
    (check_sweep_names if is_sweep(config) else check_run_names)(config)


def check_run_names(config: ConfigDict) -> None:
    """Checks a config of xlbench.train; see `check_names`."""
    if is_sweep(config):
        raise UserError('this is the config of a sweep; run it with xlbench fewshot')
    check_block({**CONFIG_KEYS, 'log_every': Field(Any)}, config, 'config')
    config = epochs.as_steps(config)
    check_block(CONFIG_KEYS, config, 'config')
    check_blocks(config, 'data', 'best')
    for name in config.get('trackers') or ():
        known = source.catalog('xlbench.training.tracking', 'Tracker')
        if ':' not in name and name not in known:  # Else the user's own.
            hint = 'One of your own is written as tasks/FILE.py:NAME'
            raise errors.unknown('tracker in config.trackers', name, known, hint)
    if not config.trainable:
        raise UserError("config.trainable is empty, and nothing would be trained; ('.*',) is all")
    _check_objective(config)
    check_blocks(config, 'objective', 'model', *BLOCKS, 'lora')
    if not config.stages:
        raise UserError('config.stages is empty; a run has at least one stage')
    for name, stage in config.stages.items():
        check_blocks(config, ('stages', name), ('stages', name, 'optimizer'))
        if 'batches' in stage:
            merged = blocks.batches_of(config, name)
            check_block(fields_of(blocks.Batches), merged, f'config.stages.{name}.batches')
        _check_added(config, name)
    for name, block in config.evals.items():
        _check_evaluation(config, name)
        if not block.tasks:
            where = f'config.evals.{name}'
            raise UserError(f'{where}.tasks is empty; name a task, or remove {where}')
    _check_positions(config)
    _check_best(config)


def _check_objective(config: ConfigDict) -> None:
    """Raises UserError for a model, or a way to train, that the objective does not have."""
    kind, family = objective_name(config), config.model.get('family')
    if kind not in trainers(family):
        families = trained_families().items()
        pairs = ', '.join(f'{name} trains a {" or ".join(trained)}' for name, trained in families)
        raise UserError(
            f'config.model.family is {family!r} and config.objective.name {kind!r}; {pairs}, and '
            'no other objective does'
        )
    if config.get('embedding_rows') == 'occurring' and family not in models.ENCODERS:
        raise UserError(
            f"config.embedding_rows is 'occurring', which encoders take; every step moves all rows "
            f'of a {family} model, whose table gives its logits: leave it out'
        )
    objective = about_objective(kind)
    if config.baselines and not objective['text_baselines']:
        raise UserError(
            'config.baselines are texts, and do not have a tag for each word; set it to ()'
        )
    if config.lora.get('languages'):
        batches = (blocks.batches_of(config, name) for name in config.stages)
        if config.accumulate > 1 or not all(block.get('each_task') for block in batches):
            raise UserError(
                'config.lora.languages trains the adapters of a batch one after the other: set '
                'config.batches.each_task=True and config.accumulate=1'
            )
    if config.accumulate > 1 and not objective['accumulates']:
        raise UserError(
            f'config.accumulate is {config.accumulate}, but the parts of a batch would not be each '
            "other's negatives; set it to 1, and config.objective.chunk_rows to the rows that fit "
            'into memory'
        )


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
    added = stage.get('added') or {}
    check_blocks(config, *(('stages', name, 'added', part) for part in added))
    pairs = blocks.stage_pairs(stage)
    if added and stage.get('curriculum'):
        raise UserError(
            f'config.stages.{name} has both added, which is mixed with the other examples, and '
            'curriculum, whose parts come one after another; leave out one of them'
        )
    if len(set(pairs)) < len(pairs):
        raise UserError(f'config.stages.{name} names a mixture and split twice; raise its rate')


def _check_evaluation(config: ConfigDict, name: str) -> None:
    check_blocks(config, ('evals', name))
    block, where = config.evals[name], f'config.evals.{name}'
    for task in block.tasks:
        if list(block.tasks).count(task) > 1:
            raise UserError(f'{where}.tasks has {task} twice; name each task once')
    if block.get('decoding'):
        check_blocks(config, ('evals', name, 'decoding'))
        try:
            decoding.make(block.decoding, block.lengths.get('targets'))
        except UserError as error:
            raise UserError(f'{where}: {error}') from None


def _check_best(config: ConfigDict) -> None:
    """Raises UserError unless config.best names a score that some periodic evaluation gives."""
    score = config.best.score
    if not score:
        return
    periodic = {name: block for name, block in config.evals.items() if block.every}
    parts = score.split('/')
    if len(parts) != 3 or parts[0] not in periodic:
        names = ', '.join(periodic) or 'those with every > 0, of which there is none'
        raise UserError(
            f'config.best.score is {score!r}; it is EVAL/TASK/SCORE, such as dev/mean/loss, with '
            f'EVAL one of {names}'
        )
    allowed = [*periodic[parts[0]].tasks, 'mean']
    errors.check_known('task in config.best.score', parts[1], allowed)
    if parts[2] == 'headline' and periodic[parts[0]].get('decode') is False:
        raise UserError(
            f'config.best.score is {score!r}, but config.evals.{parts[0]} has the loss alone; set '
            f'config.evals.{parts[0]}.decode to True, or the score to {parts[0]}/{parts[1]}/loss'
        )


def check_evaluations(config: ConfigDict) -> None:
    """Raises UserError for what an evaluation cannot take of the config in a workdir."""
    needed = ('best', 'objective', 'model', 'lora', 'mesh', 'batches')
    check_keys(config, ('trainable', 'seed', *needed), 'the config of the run', config)
    check_block({k: _RUN[k] for k in _RUN if k in config}, config, 'config', open_ended=True)
    check_blocks(config, *needed)
    for name in config.evals:
        _check_evaluation(config, name)


def check_sweep_names(config: ConfigDict) -> None:
    """Checks a config of xlbench.fewshot; see `check_names`."""
    if not is_sweep(config):
        raise UserError('this is the config of a run, without adapt; run it with xlbench train')
    check_block(_SWEEP_KEYS, config, 'config')
    topics.add(config)
    theirs = topics.is_known(config.task) and task_files.of_user(config.task)
    if config.task not in topics.names() and not theirs:
        hint = 'A task of your own is named as its file is: mood of tasks/mood.py'
        raise errors.unknown('task in config.task', config.task, topics.names(), hint)
    try:
        check_run_names(config.source)
    except UserError as error:
        raise UserError(f'in config.source: {error}') from None
    check_blocks(config, 'mesh', 'adapt')


def objectives() -> Mapping[str, str]:
    """The objectives' names, and their classes'."""
    return source.catalog(_OBJECTIVES)


def about_objective(name: str) -> Block:
    """Gives the attributes of an objective, as view; see training/objectives/contract.py."""
    return source.attributes(f'{_OBJECTIVES}.{name}', objectives()[name])


@functools.cache
def trained_families() -> dict[str, tuple[str, ...]]:
    """The objectives that train models of one kind alone, and the families of that kind."""
    return {
        name: tuple(family for family, row in models.FAMILIES.items() if row.kind == kind)
        for name in objectives()
        if (kind := about_objective(name)['trains'])
    }


def trainers(family: str) -> list[str]:
    """The objectives that train a family: those of its kind, else those of any encoder-decoder."""
    families = trained_families()
    of_kind = [name for name, trained in families.items() if family in trained]
    return of_kind or [name for name in objectives() if name not in families]


def objective_name(config: Block) -> str:
    """The name of the objective of a run; UserError if there is none of that name."""
    return _kind(config['objective'], 'name', 'objective', 'config.objective', objectives())


def _kind(
    block: Block, key: str, what: str, where: str, known: Mapping[str, object], default: str = ''
) -> str:
    """The key of a block that says of which kind it is."""
    name = block.get(key, default)
    check(str, name, f'{where}.{key}')
    errors.check_known(f'{what} in {where}.{key}', name, known)
    return name


def _evaluation(config: Block, name: str) -> Fields:
    """The keys of a block of config.evals: ours, and the arguments of its evaluator."""
    objective = about_objective(objective_name(config))
    known = source.catalog(_EVALUATORS, 'Evaluator')
    block, where = config['evals'][name], f'config.evals.{name}.type'
    kind = block.get('type') or objective['evaluator']
    check(str, kind, where)
    if ':' in kind:  # The user's own.
        return fields_of(blocks.Evaluation)
    if kind not in known:
        hint = 'One of your own is written as tasks/FILE.py:NAME'
        raise errors.unknown(f'type of evaluator in {where}', kind, known, hint)
    views = source.attributes(f'{_EVALUATORS}.{kind}', known[kind])['views']
    if objective['view'] not in views:
        raise UserError(
            f'{where} is {kind!r}, which scores {" and ".join(views)}, and config.objective.name '
            f'is {objective_name(config)!r}; leave {where} out'
        )
    return fields_of(blocks.Evaluation) | source.fields(f'{_EVALUATORS}.{kind}', 'Options')


def _model(block: Block) -> Fields:
    """A family's own fields, beside family and size; see `_check_sized` for what a block needs."""
    family, size = block.get('family', ''), block.get('size', '')
    for key, name in (('family', family), ('size', size)):
        check(str, name, f'config.model.{key}')
    models.check_name(family, size)
    fields = dict(family_fields(family))
    if 'num_labels' in fields:  # 0: the data's.
        fields['num_labels'] = Field(Annotated[int, Meta(ge=0, le=2**20)], 0)
    return {'family': Field(str), 'size': Field(str, '')} | {
        key: field._replace(default=COMPUTED) if field.default is dataclasses.MISSING else field
        for key, field in fields.items()
    }


def _check_sized(block: Block) -> None:
    """Raises UserError for a model without a size that lacks what a size would give."""
    family, size = block['family'], block.get('size', '')
    known = models.fields_of(family, size)
    for key, field in family_fields(family).items():
        if field.default is dataclasses.MISSING and key not in block and key not in known:
            raise UserError(
                f'config.model lacks {key!r}, which a {family} model without a size needs; or '
                f'give one of the sizes {", ".join(models.SIZES[family])}'
            )


def family_fields(family: str) -> Fields:
    """The fields of the config of a family of models."""
    row = models.FAMILIES[family]
    return source.fields(f'xlbench.models.{row.module}', row.config)


def fields_to_set(config: ConfigDict, path: Sequence[str]) -> Fields:
    """The keys that a block may hold; see `block_fields`."""
    try:
        return block_fields(config, *path)
    except (UserError, KeyError, AttributeError):  # What `check_names` says better.
        return {}
