"""The order of an evaluation: task after task, batch after batch, rows together, files written.

Each task leaves two files, written whole or not at all:

  <workdir>/eval/<step>/<split>/<task>/metrics.json       scores, signatures, what was scored
  <workdir>/eval/<step>/<split>/<task>/predictions.jsonl  id, input, target, prediction, scores
"""

import contextlib
import dataclasses
import functools
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Annotated, ClassVar, Generic, TypeVar, cast

import flax.linen as nn
import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh

from xlbench import metrics
from xlbench.data import batches as batches_lib, features, postprocess
from xlbench.data.batches import Batch, EvalBatches
from xlbench.data.prepared import Prepared
from xlbench.data.tokenizers import Tokenizer
from xlbench.metrics import contract, distinct
from xlbench.metrics.contract import Spec
from xlbench.parallel import partitioning, programs
from xlbench.reporting import results, scored
from xlbench.system import errors
from xlbench.system.files import Json, Setting
from xlbench.system.ranges import Block, Meta
from xlbench.system.trees import Params
from xlbench.system.work import in_flight
from xlbench.training.objectives.contract import Objective

# Lines of predictions.jsonl of each task that config.tracked_samples chooses from.
MOST_SAMPLES = 100
# Batches that may be in flight: enough to keep a device busy, few enough that `check` is asked, and
# memory given back, at the pace of the device.
BATCHES_AHEAD = 2


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(Block):
    """The part of a block of config.evals that all evaluators of this package have.

    Attributes:
      batch_size: rows over all processes.
      lengths: most tokens of 'inputs' and 'targets'; longer examples are cut, and counted.
      num_examples: number of first examples of each task to take; 0: all.
    """

    batch_size: Annotated[int, Meta(ge=1, le=2**24)]
    lengths: Mapping[str, Annotated[int, Meta(ge=1, le=2**20)]]
    num_examples: Annotated[int, Meta(ge=0)] = 0

    def further_metrics(self, task: Prepared) -> list[Spec]:
        """The metrics of a task beside those of its manifest."""
        del task
        return []


@dataclasses.dataclass(frozen=True)
class Task:
    """A prepared task with what evaluating it needs."""

    prepared: Prepared
    batches: EvalBatches  # This process's rows.
    metrics: metrics.Suite  # Of its manifest.

    @property
    def numbers(self) -> np.ndarray:
        """[n], the examples that are scored."""
        return np.arange(self.batches.num_examples)


TaskT = TypeVar('TaskT', bound=Task)
Shared = TypeVar('Shared')  # What all tasks need of some parameters.
Rows = TypeVar('Rows')  # What the model says of a task.
Check = Callable[[], None]
Result = dict[str, Json]  # What metrics.json says of a task.
Lines = Sequence[Mapping[str, Json]]  # Those of predictions.jsonl.


class Evaluator(Generic[TaskT, Shared, Rows]):
    """Says how a task is scored; the order of things is the same for all evaluators.

    The constructor takes the tasks of one split, a model with its objective, mesh and tokenizer,
    and what a block of config.evals holds: batch_size, lengths and options of its own by name.

    Attributes:
      views: of the objectives whose models it can score, see data.features.VIEWS.
      options_type: the class of its options.
      fits_targets: whether batches of short targets are narrower.
      options: the block.
      tasks: what is scored, each with its preparation as `prepared`.
      adapted: the parameters for targets in a language, where languages have adapters of their own.
      own_scores: the scores beside those of the tasks' metrics.
      samples: {task: the first lines of its predictions.jsonl} of the last `run`, on process 0.
      collapsed: a sentence for each task of the last `run` that few texts answer, on process 0.
    """

    views: ClassVar[tuple[str, ...]] = ()
    options_type = Options
    fits_targets = False
    tasks: Sequence[TaskT]
    adapted: Callable[[Params, str | None], Params] | None = None
    own_scores: Collection[str] = ('loss',)
    samples: Mapping[str, Lines] = {}  # Each `run` makes a new one.
    collapsed: Sequence[str] = ()

    def __init__(
        self,
        prepared: Sequence[Prepared],
        model: nn.Module,
        objective: Objective,
        mesh: Mesh,
        tokenizer: Tokenizer,
        **block: Setting,
    ):
        self.options = options = self.options_type(**block)
        self._model, self._objective, self._mesh = model, objective, mesh
        self._tokenizer = tokenizer
        partitioning.check_batch_size(options.batch_size, mesh)
        share, shares = partitioning.row_share(mesh)
        lengths, number = dict(options.lengths), options.num_examples or None
        allowed = batches_lib.best_shapes(prepared, lengths, number) if self.fits_targets else ()
        tasks = []
        for task in prepared:
            batches = batches_lib.EvalBatches(
                task,
                batch_size=options.batch_size,
                lengths=lengths,
                num_examples=number,
                view=objective.view,
                process_index=share,
                process_count=shares,
                allowed=allowed,
            )
            further = options.further_metrics(task)
            suite = metrics.Suite(task.name, task.manifest.get('metrics'), further)
            tasks.append(Task(task, batches, suite))
        self.tasks = cast('Sequence[TaskT]', tasks)  # Who needs more of a task adds it.

    @functools.cached_property
    def notes(self) -> dict[str, str]:
        """Warnings about tasks, by their names: targets that seem to be placeholders."""
        notes = {}
        for task in self.tasks:
            if note := _only_target(task.prepared, task.numbers):
                notes[task.prepared.name] = note
        return notes

    def examples(self, name: str) -> np.ndarray:
        """The numbers of the examples of a task that are scored, as others are to be."""
        (task,) = (task for task in self.tasks if task.prepared.name == name)
        return task.numbers

    def begin(self, params: Params, check: Check) -> Shared:
        """Computes what all tasks need of these parameters."""
        del check
        return cast('Shared', params)  # What they are where nothing else is computed.

    def rows(self, task: TaskT, shared: Shared, check: Check) -> Rows:
        """Asks the model about the examples of a task, with what `begin` has returned.

        `check` is to be called after every batch.
        """
        raise NotImplementedError

    def summarise(self, task: TaskT, rows: Rows) -> tuple[Result, Lines]:
        """The content of metrics.json, with 'scores', and the lines of predictions.jsonl."""
        raise NotImplementedError

    def run(
        self,
        params: Params,
        step: int,
        workdir: str,
        stage: str,
        split: str = '',
        check: Check = lambda: None,
        scoring: Callable[[], contextlib.AbstractContextManager] = contextlib.nullcontext,
    ) -> dict[str, dict[str, float]]:
        """The scores of each task, and under 'mean' their averages; process 0 writes the files.

        They are filed under `split`, by default the one that is scored. `check` is called after
        every batch, equally often in every process; what it raises ends the evaluation, and files
        of tasks that were complete stay. `scoring` is entered while predictions are scored, which
        may take long.
        """
        scores, samples, collapsed = {}, {}, []
        for task, shared, shared_seconds in self._in_turn(params, check):
            started = time.monotonic()
            rows = self.rows(task, shared, check)
            with scoring():
                result, predictions = self.summarise(task, rows)
            scores[task.prepared.name] = result['scores']
            if jax.process_index() == 0:
                seconds = shared_seconds + time.monotonic() - started
                result |= {'step': step, 'stage': stage, 'seconds': round(seconds, 3)}
                name = task.prepared.name
                collapsed.append(_collapse(name, predictions))
                if note := ' '.join(filter(None, (self.notes.get(name), collapsed[-1]))):
                    result['note'] = note
                write_result(workdir, str(step), task.prepared, result, predictions, split)
                samples[task.prepared.name] = predictions[:MOST_SAMPLES]
        self.samples, self.collapsed = samples, tuple(filter(None, collapsed))
        return scores | {'mean': means(scores)}

    def _in_turn(self, params: Params, check: Check) -> Iterator[tuple[TaskT, Shared, float]]:
        """Each task with what its adapter's tasks share, and its part of the seconds for that."""
        by_language: dict[str | None, list[TaskT]] = {}
        for task in self.tasks:
            lang = task.prepared.manifest.get('target_lang') if self.adapted else None
            by_language.setdefault(lang, []).append(task)
        for lang, tasks in by_language.items():
            started = time.monotonic()
            shared = self.begin(self.adapted(params, lang) if self.adapted else params, check)
            seconds = (time.monotonic() - started) / len(tasks)
            yield from ((task, shared, seconds) for task in tasks)

    def score_names(self, task: str) -> set[str]:
        """The scores that `run` gives of a task, or of any for 'mean', found without the model.

        The metrics are asked about two targets as if they were predicted. None at all where one
        of them cannot say.
        """
        given = set(self.own_scores)
        for one in self.tasks:
            if not self.has_texts(one) or task not in (one.prepared.name, 'mean'):
                continue
            records, right = _first(one.prepared, 2)
            compared = postprocess.Postprocess(one.prepared)(records, [[text] for text in right])
            try:
                given |= one.metrics.score(*compared, given)[0].keys()
            except errors.UserError:  # It needs more examples.
                return set()
        return given

    def has_texts(self, task: TaskT) -> bool:
        """True if the task has predictions for its metrics."""
        del task
        return True

    def headline(self, scores: Mapping[str, Mapping[str, float]], task: str) -> float:
        """The score that stands for a task, see pipeline.headline; of 'mean' their average."""
        named = {t.prepared.name: t.prepared.manifest.get('headline') for t in self.tasks}
        values = []
        for name in named if task == 'mean' else [task]:
            key = named[name] or results.main_score('', scores[name])
            errors.check_known(f'headline score of {name}', key, scores[name])
            values.append(scores[name][key])
        return float(np.mean(values))


def score_examples(
    task: Task,
    predict: Callable[[dict[str, jax.Array]], Mapping[str, jax.Array]],
    mesh: Mesh,
    check: Check,
    more: Callable[[Batch], Batch] = lambda batch: {},
) -> dict[str, np.ndarray]:
    """Runs `predict` on all batches of a task, with the features that `more` adds to them.

    `predict` makes arrays [rows, ...] of a batch on the devices. The result has arrays
    [examples, ...] in the order of the examples, without padding, on every process; 'index' among
    them.
    """

    def begin(local: Batch) -> dict[str, jax.Array]:
        batch = partitioning.put_batch({**local, **more(local)}, mesh)
        return {'index': batch['example_index'], **predict(batch)}

    results = []
    with partitioning.activate(mesh):
        for _, result in in_flight(task.batches, begin, BATCHES_AHEAD):
            results.append(jax.block_until_ready(result))
            programs.keep_freed_by_peak(mesh)
            check()
    rows = {key: np.concatenate([_fetch(r[key]) for r in results]) for key in results[0]}
    real = rows['index'] >= 0
    order = np.argsort(rows['index'][real], kind='stable')
    rows = {key: value[real][order] for key, value in rows.items()}
    if not np.array_equal(rows['index'], np.arange(task.batches.num_examples)):
        raise RuntimeError(
            f'{task.prepared.name}: {len(rows["index"])} rows were scored, not each of '
            f'{task.batches.num_examples} examples once'
        )
    return rows


def _fetch(value: jax.Array) -> np.ndarray:
    """The whole array on every process."""
    if jax.process_count() == 1:
        return np.asarray(value)
    return np.asarray(multihost_utils.process_allgather(value, tiled=True))


def check_metrics(
    task: Task, num_predictions: int, taken: Sequence[str], any_text: bool = False
) -> None:
    """Scores two examples of a task with its metrics; UserError if one cannot. See Suite.check."""
    task.metrics.require()
    if process := postprocess.Postprocess(task.prepared):
        records, right = _first(task.prepared, 2)
        for texts in (right, *([text] * len(right) for text in ('', '?!') if any_text)):
            compared = process(records, [[text] * num_predictions for text in texts])
            try:
                task.metrics.score(*compared, taken)
            except errors.UserError:
                raise
            except Exception as error:  # A metric of texts gets what the postprocessor returns.
                raise errors.UserError(
                    f'the metrics of task {task.prepared.name} cannot score what its postprocessor '
                    f'makes of {texts[0][:40]!r}: {errors.located(error)}'
                ) from error
        return

    task.metrics.check(
        lambda count: _first(task.prepared, count)[1], num_predictions, taken, any_text
    )


def _first(prepared: Prepared, count: int) -> tuple[list[dict[str, Json]], list[str]]:
    """The first records of a task, and their targets."""
    records = prepared.read(range(min(count, len(prepared))))
    return records, [record['targets_pretokenized'] for record in records]


def _only_target(prepared: Prepared, numbers: np.ndarray) -> str:
    """Says in a line that all examples have one and the same target; '' where they have several."""
    view = features.VIEWS[prepared.manifest.get('view', 'generation')]
    seen: set[str] = set()
    start, count = 0, 4
    while start < len(numbers):
        for record in prepared.read(numbers[start : start + count]):
            target = record['targets_pretokenized']
            seen.update(target.split() if view.labels == 'word' else [target])
        if len(seen) > 1:  # As a rule after the first few.
            return ''
        start, count = start + count, 256
    return contract.about_targets(f'{prepared.name}/{prepared.split}', len(numbers), seen)


def line(
    number: int,
    record: Mapping[str, Json],
    prediction: str,
    scores: Mapping[str, float],
    **more: Json,
) -> dict[str, Json]:
    """A line of predictions.jsonl of an example."""
    return {
        'id': number,
        'input': record['inputs_pretokenized'],
        'target': record['targets_pretokenized'],
        'prediction': prediction,
        'scores': dict(scores),
        **more,
    }


def _collapse(task: str, lines: Lines) -> str:
    """See `distinct.collapse`; of the lines of predictions.jsonl that have texts."""
    pairs = [(line['target'], line['prediction']) for line in lines if 'prediction' in line]
    return distinct.collapse(task, *map(list, zip(*pairs, strict=True))) if pairs else ''


def means(scores: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """The average of each score over the tasks that have it."""
    names = {name for values in scores.values() for name in values}
    return {
        name: float(np.mean([v[name] for v in scores.values() if name in v]))
        for name in sorted(names)
    }


def write_result(
    workdir: str,
    step: str,
    prepared: Prepared,
    result: Mapping[str, Json],
    predictions: Lines,
    split: str = '',
) -> None:
    """Writes metrics.json, and predictions.jsonl if there are any."""
    facts = {
        **result,
        'headline': prepared.manifest.get('headline') or '',
        'data': prepared.manifest['data'],
        'manifest': prepared.sha256,
    }
    scored.write_result(workdir, step, prepared.name, split or prepared.split, facts, predictions)
