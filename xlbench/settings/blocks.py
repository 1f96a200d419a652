"""Blocks of a config: a frozen dataclass for each, with its defaults and what a field may be.

The blocks of models, objectives and evaluators, of which there are many kinds, stand beside what
takes them: the config class of a family, and the class `Options` of an objective or an evaluator.
"""

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Literal

from ml_collections import ConfigDict
from msgspec import Meta

from xlbench.system.files import Json, Setting
from xlbench.system.ranges import Block


@dataclasses.dataclass(frozen=True, kw_only=True)
class Run(Block, where='config'):
    """The keys of a config beside its blocks.

    Attributes:
      seed: seed for the initial parameters, dropout and the order of examples.
      init_from: what the parameters start from: '' for fresh ones, a workdir, a folder in the form
        of Hugging Face, or a name of its hub.
      trainable: regular expressions for whole names of parameters; all others stay as they are.
      accumulate: parts of a batch whose gradients are summed.
      log_every: steps between two lines of metrics.
      baselines: systems without a model that are scored beside the last evaluation.
      baseline_split: the split that they learn from.
      embedding_rows: rows of the token table that are trained: 'all', or those 'occurring' in the
        training data; see training/rows.py.
      trackers: where the numbers of the run go beside its own files: 'tensorboard', 'wandb',
        'mlflow', or a class of a task file; see training/tracking/.
      tracked_samples: answers of each evaluated task that the trackers get, too.
    """

    seed: Annotated[int, Meta(ge=0, lt=2**32)] = 0
    init_from: str = ''
    trainable: Sequence[str] = ('.*',)
    accumulate: Annotated[int, Meta(ge=1, lt=2**31)] = 1
    log_every: Annotated[int, Meta(ge=1)] = 100
    baselines: Sequence[str] = ()
    baseline_split: str = 'train'
    embedding_rows: Literal['all', 'occurring'] = 'all'
    trackers: Sequence[str] = ('tensorboard',)
    tracked_samples: Annotated[int, Meta(ge=0, le=100)] = 4


@dataclasses.dataclass(frozen=True, kw_only=True)
class Data(Block, where='config.data'):
    """The block config.data.

    Attributes:
      root: folder of the data.
      vocabulary: name of a vocabulary, its file, or a name of the hub.
      sample: whether the data is the embedded sample corpora, which are made if they are missing.
      vocabulary_size: pieces of a SentencePiece model that is trained on the training data where
        its file is missing; 0 trains none.
      vocabulary_type: of that model, 'unigram' (arXiv:1804.10959) or 'bpe' (arXiv:1508.07909).
    """

    root: str
    vocabulary: str
    sample: bool
    vocabulary_size: Annotated[int, Meta(ge=0, le=2**24)] = 0
    vocabulary_type: Literal['unigram', 'bpe'] = 'unigram'


@dataclasses.dataclass(frozen=True, kw_only=True)
class Mesh(Block, where='config.mesh'):
    """The block config.mesh: into how many parts the devices fall; see parallel.make_mesh.

    One of them may be -1: it takes the devices that are left.

    Attributes:
      data: copies of the model, each with its own rows of the batch.
      fsdp: parts that parameters and optimizer state are cut into; rows of the batch as well.
      tensor: parts that heads, feed-forward and vocabulary are cut into.
      sequence: parts that every text is cut into, for long ones: of a layer's activations a device
        holds its own positions, and only keys and values of all.
      replica: copies as `data` makes them, outermost: one for each slice, so that the slow network
        carries nothing but a step's gradients.
    """

    data: Annotated[int, Meta(ge=-1)] = -1
    fsdp: Annotated[int, Meta(ge=-1)] = 1
    tensor: Annotated[int, Meta(ge=-1)] = 1
    sequence: Annotated[int, Meta(ge=-1)] = 1
    replica: Annotated[int, Meta(ge=-1)] = 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class Batches(Block, where='config.batches'):
    """The block config.batches: what a batch of training holds.

    Attributes:
      batch_size: rows over all processes (of the largest shape, if there are several).
      lengths: dict(inputs=..., targets=...), widths in tokens; longer examples are trimmed.
      packing: several examples share a row.
      length_buckets: largest number of batch shapes, each compiled once. They are chosen from
        the lengths of the data, the same in every process.
      equal_rows: with buckets, every batch has batch_size rows. By default batches of smaller
        shapes have more, so that all have about equally many positions.
      row_multiple: with buckets of unequal rows, the rows of every batch are a multiple of it: of
        the devices that share a batch, times accumulation steps. Another value changes the
        order of examples. None: the largest divisor of batch_size up to an eighth of it.
      widths: of pairs, how many widths the rows of a batch may have: its shortest texts are encoded
        in narrow rows. Nothing that is computed depends on it, and each width is compiled. With
        length_buckets or config.objective.chunk_rows it has no effect.
      one_task: every batch has examples of one task only, as often each as the rates say. The last
        batch of each task in a window may have empty rows.
      each_task: every batch has equally many rows of each task of the mixture, whose rates then do
        not count, and the loss is the sum over the tasks of each one's mean over target tokens
        (arXiv:2202.05599, section 5.2). batch_size counts the rows of all tasks together.
      window: examples planned together; None: 64 batches' worth (of each task, if each has its
        own), less for small data.
      prefetch: batches made ahead by a thread; 0 makes each when it is asked for.
    """

    batch_size: Annotated[int, Meta(ge=1, le=2**24)]
    lengths: Mapping[str, Annotated[int, Meta(ge=1, le=2**20)]]
    packing: bool = True
    length_buckets: Annotated[int, Meta(ge=1, le=64)] = 1
    equal_rows: bool = False
    row_multiple: Annotated[int, Meta(ge=1, le=2**24)] | None = None
    widths: Annotated[int, Meta(ge=1, le=6)] = 1
    one_task: bool = False
    each_task: bool = False
    window: Annotated[int, Meta(ge=1, le=2**30)] | None = None
    prefetch: Annotated[int, Meta(ge=0, le=2**10)] = 8


@dataclasses.dataclass(frozen=True, kw_only=True)
class Checkpoints(Block, where='config.checkpoints'):
    """The block config.checkpoints.

    Attributes:
      every: steps between two checkpoints.
      keep: newest checkpoints that stay; the best one, and each stage's, stay as well.
    """

    every: Annotated[int, Meta(ge=1)] = 1000
    keep: Annotated[int, Meta(ge=1)] = 2


@dataclasses.dataclass(frozen=True, kw_only=True)
class Nonfinite(Block, where='config.nonfinite'):
    """The block config.nonfinite.

    Attributes:
      skip: number of steps with a loss or gradient norm that is not finite that a run may leave
        out; one more ends the run.
    """

    skip: Annotated[int, Meta(ge=0)] = 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Best(Block, where='config.best'):
    """The block config.best: what chooses the best checkpoint.

    Attributes:
      score: EVAL/TASK/SCORE, with the name of a task or 'mean'; '' takes the last step.
      mode: whether more or less of it is better.
      patience: evaluations without a better score after which a stage ends; 0 never ends it.
    """

    score: str
    mode: Literal['max', 'min']
    patience: Annotated[int, Meta(ge=0)]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Added(Block):
    """A block of `added` in a stage: further data that its batches have as well.

    Attributes:
      mixture: a mixture or task.
      split: the split of the mixture, which may differ from the stage's.
      rate: its examples for each example of the stage's own mixture.
    """

    mixture: str
    split: str
    rate: Annotated[float, Meta(gt=0, le=10**6)] = 1.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Stage(Block):
    """A block of config.stages.

    Attributes:
      mixture: the mixture or task to train on.
      split: the split of the mixture to train on.
      num_steps: length of the stage, in steps or epochs: '3epochs' has three times as many examples
        as the stage's data, at the mixture's rates. Warm-up, decay_steps, checkpoints.every,
        log_every and the `every` of evaluations may be epochs, too.
      optimizer: its block, see optimizer.py.
      start_from: the checkpoint of the stage before that it starts from.
      batches: keys of config.batches that have other values in this stage.
      curriculum: tasks or mixtures that make up `mixture`, in the order in which every epoch has
        them, each example once (arXiv:2202.05599, section 6.1); a batch has examples of one of
        them. By default examples of all tasks are mixed, at the mixture's rates.
      added: names of your choice -> further mixtures with a split and a rate of their own, whose
        examples are mixed with those of `mixture`: organic and translated pairs, for example.
    """

    mixture: str
    split: str
    num_steps: Annotated[int, Meta(ge=1, lt=2**31)]
    optimizer: Mapping
    start_from: Literal['last', 'best'] = 'last'
    batches: Mapping = dataclasses.field(default_factory=dict)
    curriculum: Sequence[str] = ()
    added: Mapping[str, Mapping] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Evaluation(Block):
    """The keys of a block of config.evals beside the options of its evaluator.

    Attributes:
      tasks: tasks or mixtures to score.
      split: of them.
      every: steps (or epochs) between two evaluations; 0 evaluates at the end.
      max_share: largest share of the work that evaluations may take where `every` is in epochs;
        they become rarer if they would take more. A scored example counts a third of a trained
        one, which has a backward pass, too.
      optional: whether tasks without this split are left out.
      type: of evaluator, see xlbench.evaluators; '' is the one of the objective.
    """

    tasks: Sequence[str]
    split: str
    every: Annotated[int, Meta(ge=0)]
    max_share: Annotated[float, Meta(gt=0, le=1)] = 1.0
    optional: bool = False
    type: str = ''


def defaults() -> ConfigDict:
    """Returns what a run's config holds unless its file says otherwise.

    A file adds data, model, objective, batches, stages and evals, and says what differs.
    """
    c = ConfigDict(dataclasses.asdict(Run()))
    c.lora = dict(rank=0, alpha=16.0)  # A rank above 0 trains LoRA's matrices only.
    c.best = dict(score='', mode='max', patience=0)
    for key, block in (('mesh', Mesh), ('nonfinite', Nonfinite), ('checkpoints', Checkpoints)):
        c[key] = dataclasses.asdict(block())
    return c


# Ours; the other keys of a block of config.evals are arguments of its evaluator.
EVALUATION_KEYS = tuple(field.name for field in dataclasses.fields(Evaluation))
# Keys that configs of earlier versions lack, with their defaults.
LATER_KEYS: Mapping[str, Setting] = {
    key: getattr(Run(), key) for key in ('embedding_rows', 'trackers', 'tracked_samples')
}
# Those that say who looks at a run, and nothing of what it computes.
TRACKING_KEYS = ('trackers', 'tracked_samples')


def for_hash(config: Mapping[str, Json]) -> dict[str, Json]:
    """The config of a run or a sweep without later keys at their defaults, and without trackers.

    A hash of it is the same for a run that was begun before there were such keys.
    """
    kept = {
        key: value
        for key, value in config.items()
        if key not in TRACKING_KEYS and (key not in LATER_KEYS or value != LATER_KEYS[key])
    }
    if isinstance(source := kept.get('source'), Mapping):
        kept['source'] = for_hash(source)
    return kept


def batches_of(config: ConfigDict, stage: str) -> dict[str, Setting]:
    """The block config.batches as it is in a stage."""
    return dict(config.batches) | dict(config.stages[stage].get('batches') or {})


def stage_pairs(stage: Mapping[str, Setting]) -> list[tuple[str, str]]:
    """(mixture or task, split) of what a stage trains on, its own mixture first."""
    added = (stage.get('added') or {}).values()
    return [(block['mixture'], block['split']) for block in (stage, *added)]


def to_dict(config: ConfigDict) -> dict[str, Json]:
    """Plain dicts, lists and scalars."""
    return json.loads(json.dumps(config.to_dict()))


def leaves(
    block: Mapping[str, Setting] | ConfigDict, prefix: str = ''
) -> Iterator[tuple[str, Setting]]:
    """Goes through all values of a block that are no blocks themselves.

    Example: {'seed': 1, 'model': {'size': 'small'}} -> ('seed', 1), ('model.size', 'small')
    """
    for key, value in block.items():
        if isinstance(value, Mapping | ConfigDict):
            yield from leaves(value, f'{prefix}{key}.')
        else:
            yield f'{prefix}{key}', value
