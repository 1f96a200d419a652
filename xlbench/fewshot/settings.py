"""The settings of a sweep: the block config.adapt, and the groups of lanes that follow from it."""

import dataclasses
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Literal

import numpy as np

from xlbench.benchmarks import topics
from xlbench.fewshot.results import ZERO_SHOT, Row, bucket_numbers
from xlbench.metrics import tagging
from xlbench.system.errors import UserError, check_known
from xlbench.system.ranges import Block, Meta, check_keys

STARTS = ('source', 'none')
_MAY_BE_EMPTY = ('head_learning_rates', 'lora_learning_rates', 'source_learning_rates')
_HEAD = 'classifier/'
# BERT's pooler, or that of a head over an encoder without one.
_WITH_POOLER = f'{_HEAD}|encoder/pooler/|dense/'


@dataclasses.dataclass(frozen=True)
class Method:
    """A method of adaptation: the parts of a model that it trains."""

    trains: str  # Matches the names of those parameters, from their beginning.
    encoder: bool = False  # Everything below the head is among them.
    pooler: bool = False  # The layer between encoder and classifier is.
    fresh: bool = False  # The classifier starts anew, drawn with the lane's seed.
    cosine: bool = False  # The classifier compares directions, see HeadConfig.
    lora: bool = False  # Thin matrices beside kernels of the encoder are trained, see models.lora.

    @property
    def runs_encoder(self) -> bool:
        """Returns whether predictions need the encoder, which is another one in each lane."""
        return self.encoder or self.lora


METHODS = {
    'full': Method('', encoder=True, pooler=True),
    'fc': Method(_HEAD),
    'fc_pooler': Method(_WITH_POOLER, pooler=True),
    'cos_pooler': Method(_WITH_POOLER, pooler=True, fresh=True, cosine=True),
    'fc_reset_pooler': Method(_WITH_POOLER, pooler=True, fresh=True),
    'lora': Method(f'{_HEAD}|.*/lora_[ab]$', lora=True),
}
TAGGING_METHODS = ('full', 'fc', 'lora')  # Taggers have no pooler.
TORCH_ADAM = {'b1': 0.9, 'b2': 0.999, 'eps': 1e-8}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Adapt(Block, where='config.adapt'):
    """The block config.adapt: what is adapted, and how; each language with each of the others.

    Attributes:
      languages: ISO codes.
      shots: numbers of shots, K.
      buckets: of each K: a number n, for the first n; or a range (FIRST, END), so that (30, 40) are
        the ten buckets from 30 to 39.
      learning_rates: of Adam, without a schedule.
      head_learning_rates: likewise, of methods that freeze the encoder, which bear higher ones; ()
        stands for the same.
      lora_learning_rates: likewise, of the method 'lora', which needs higher ones, too.
      lora: rank, alpha and targets of that method, see models.lora; the head is trained as well.
      starts: 'source', the source-trained model; 'none', what source training began with.
      source_learning_rates: of source training, which is done once with each; what is adapted is
        the model with the best score by config.source.best. () takes what config.source says.
      methods: see settings.METHODS.
      seeds: of dropout, of the order of examples and of fresh heads.
      epochs: at most.
      patience: epochs without a higher dev score after which an adaptation ends.
      batch_size: examples of a step; 0 is the whole bucket.
      adam: b1, b2 and eps.
      dev: what adaptations are stopped by, see corpus.DEV_SETS.
      dev_examples: examples used of a larger dev set; 0: all.
      test_examples: examples used of a larger test set, always the same ones; 0: all.
      lengths: most tokens of 'inputs'.
      eval_batch_size: rows of a batch of dev and test sets.
      at_once: adaptations that run at once; 0 chooses as many as memory and cores are good for.
      keep_params: number of first buckets of each group whose adapted parameters are kept.
      frozen_dropout: drops out inside frozen encoders, too, as fsxlt/code does. An encoder then
        reads the shots anew at every step.
    """

    languages: Sequence[str]
    shots: Sequence[int]
    buckets: int | Sequence[int]
    learning_rates: Sequence[Annotated[float, Meta(gt=0)]]
    head_learning_rates: Sequence[Annotated[float, Meta(gt=0)]] = ()
    lora_learning_rates: Sequence[Annotated[float, Meta(gt=0)]] = (3e-4, 1e-3, 3e-3)
    lora: Mapping[str, float | Sequence[str]] = dataclasses.field(
        default_factory=lambda: dict(rank=8, alpha=16.0)
    )
    starts: Sequence[str] = ('source',)
    source_learning_rates: Sequence[Annotated[float, Meta(gt=0)]] = ()
    methods: Sequence[str] = ('full',)
    seeds: Sequence[Annotated[int, Meta(ge=0, lt=2**32)]] = (42,)
    epochs: Annotated[int, Meta(ge=1)] = 50
    patience: Annotated[int, Meta(ge=1)] = 10
    batch_size: Annotated[int, Meta(ge=0)] = 0
    adam: Mapping[str, float] = dataclasses.field(default_factory=TORCH_ADAM.copy)
    dev: Literal['validation', 'other_shots', 'none'] = 'validation'
    dev_examples: Annotated[int, Meta(ge=0)] = 0
    test_examples: Annotated[int, Meta(ge=0)] = 0
    lengths: Mapping[str, Annotated[int, Meta(ge=1, le=2**20)]] = dataclasses.field(
        default_factory=lambda: dict(inputs=128)
    )
    eval_batch_size: Annotated[int, Meta(ge=1)] = 512
    at_once: Annotated[int, Meta(ge=0)] = 0
    keep_params: Annotated[int, Meta(ge=0)] = 0
    frozen_dropout: bool = False

    def check(self, task: str) -> None:
        """Raises UserError for a value that is not allowed, or not for this task.

        The annotations say what each value may be by itself.
        """
        allowed = {
            'languages': topics.languages(task),
            'shots': topics.shots(task) or self.shots,
            'starts': STARTS,
            'methods': TAGGING_METHODS if topics.is_tagging(task) else METHODS,
        }
        for key in (*allowed, 'learning_rates', *_MAY_BE_EMPTY, 'seeds'):
            values = getattr(self, key)
            if not values and key not in _MAY_BE_EMPTY:
                raise UserError(f'config.adapt.{key} is {values!r}; give one or more, as (A, B)')
            if len(set(values)) < len(values):
                raise UserError(f'config.adapt.{key} is {tuple(values)}; it has one value twice')
            for value in values if key in allowed else ():
                known = [*map(str, allowed[key])]
                check_known(f'value for {task} in config.adapt.{key}', f'{value}', known)
        if not self.numbers:
            buckets = tuple(self.buckets) if isinstance(self.buckets, list) else self.buckets
            raise UserError(
                f'config.adapt.buckets is {buckets}; give a number N, for the first N buckets, '
                'or a range (FIRST, END), such as (30, 40) for those from 30 to 39'
            )
        check_keys(self.adam, ('b1', 'b2', 'eps'), 'config.adapt.adam')
        check_keys(self.lora, ('rank', 'alpha'), 'config.adapt.lora', ('targets',))
        check_keys(self.lengths, ('inputs',), 'config.adapt.lengths')

    @property
    def numbers(self) -> range:
        """Returns the numbers of the buckets."""
        return bucket_numbers(self.buckets)

    def rates(self, method: str) -> Sequence[float]:
        """Returns the learning rates of a method."""
        own = self.head_learning_rates
        if METHODS[method].runs_encoder:
            own = self.lora_learning_rates if METHODS[method].lora else ()
        return own or self.learning_rates


def score(of_words: bool, labels: Sequence[str], gold: np.ndarray, predicted: np.ndarray) -> float:
    """Scores labels of words by chunk F1, and of texts by accuracy, 0 to 100, as metrics do.

    `gold` and `predicted` are [W] numbers of labels, -1 between sentences.
    """
    if not of_words:
        return 100.0 * int((gold == predicted).sum()) / len(gold)
    counts = (where.sum() for where in tagging.Chunks(labels).compare(gold, predicted))
    return 100.0 * float(tagging.f1(*counts)[0])


def planned(
    task: str, adapt: Adapt, languages: Sequence[str] = (), starts: Sequence[str] = ()
) -> list[Row]:
    """Lists every row that there will be, without its result, group after group.

    They are of some languages and starts, by default of all that `adapt` names.
    """
    rows, metric = [], topics.main_score(task)
    for lang, start in itertools.product(languages or adapt.languages, starts or adapt.starts):
        rows.append(Row(task, lang, 0, None, ZERO_SHOT, start, None, None, metric=metric))
        rows += [
            Row(task, lang, shots, bucket, method, start, float(rate), seed, metric=metric)
            for method in adapt.methods
            for shots in adapt.shots
            for rate in adapt.rates(method)
            for bucket in adapt.numbers
            for seed in adapt.seeds
        ]
    return rows


def in_order(rows: Iterable[Row]) -> list[Row]:
    """Sorts rows as results.csv has them, which is the same however a sweep came about."""
    methods = (ZERO_SHOT, *METHODS)

    def place(row: Row) -> tuple:
        named = (
            (row.language, topics.languages(row.task)),
            (row.start, STARTS),
            (row.method, methods),
        )
        numbers = (row.shots, row.learning_rate, row.bucket, row.seed)
        return (
            # Names of other versions come last.
            *(names.index(name) if name in names else len(names) for name, names in named),
            *((number is not None, number or 0) for number in numbers),
        )

    return sorted(rows, key=place)
