"""Reads what runs left in their workdirs. Files may be foreign or half-written: nothing is trusted.

workdir/config.json                            what was run, with which data and versions
workdir/metrics.jsonl                          one line per logged step
workdir/eval/<step>/<split>/<task>/metrics.json    scores, signatures, number of examples
workdir/eval/baselines/<name>/<split>/<task>/metrics.json
"""

import contextlib
import dataclasses
import functools
import hashlib
import json
import math
import os
import pathlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Annotated

import msgspec

from xlbench import benchmarks
from xlbench.reporting.tables import clean
from xlbench.settings import blocks
from xlbench.system import errors, files, untrusted
from xlbench.system.files import Json

_OWN = ('seed', 'workdir')  # Keys of a config in which repeated runs differ.
LOSSES = ('loss', 'perplexity')  # What is lower where a model is better, and no metric's.


def main_score(headline: str | None, scores: Iterable[str]) -> str:
    """The score that stands for a task: its headline, else the first one that is not a loss."""
    names = list(scores)
    others = [name for name in names if name not in LOSSES]
    return headline if headline in names else [*others, *names, 'loss'][0]


def task_name(name: str) -> benchmarks.TaskName:
    """The parts of a task's name; a user's own task has neither benchmark nor languages."""
    try:
        return benchmarks.parse_task(name)
    except errors.UserError:
        return benchmarks.TaskName('', name, '', '')


_Count = Annotated[int, msgspec.Meta(ge=0, lt=2**62)]


class LogLine(msgspec.Struct, frozen=True):
    """A line of metrics.jsonl.

    Its kind is 'train' or 'eval', its name that of the stage or task; a value that is not finite is
    None.
    """

    step: _Count
    kind: str
    name: str = ''
    values: dict[str, float | None] = {}


class _Info(msgspec.Struct):
    """The part of a config.json whose type counts; all else is text in a report."""

    data: str | None = None


class _Metrics(msgspec.Struct, frozen=True):
    """A metrics.json, see `Result`; a number that is not finite is null there."""

    task: str
    scores: Mapping[str, float | None]
    split: str = 'unknown'
    num_examples: _Count = 0
    signatures: dict[str, str] = {}
    metrics: list[dict] = []
    data: str = 'unknown'
    manifest: str = ''
    decoding: dict | None = None
    dropped: _Count = 0
    candidates: _Count = 0
    headline: str | None = None
    note: str | None = None


class Result(_Metrics, frozen=True, kw_only=True):
    """The scores of one system on one split of one task.

    Attributes:
      num_examples: scored ones.
      scores: score name to value, 0 to 100.
      signatures: metric name to the line that identifies its variant and version.
      data: 'sample' for the embedded corpora, 'files' for the user's.
      manifest: hash of the prepared data's manifest.
      decoding: of a model that writes texts.
      folder: where the metrics.json is; predictions.jsonl lies beside it.
      dropped: how many more there are, that were left out as the official code leaves them out.
      candidates: how many replies the own one was ranked among; 0 where nothing was ranked.
      headline: the score that stands for the task; '' if none was named.
      note: what has to be said beside the scores.
      metrics: the specs of what has scored; empty in results of earlier versions.
      added: scores of examples that predictions.jsonl lacks: score -> id -> value.
    """

    scores: Mapping[str, float]
    folder: pathlib.Path
    added: Mapping[str, Mapping[str, float]] = {}

    @property
    def main_score(self) -> str:
        """The headline, else the first score of the first metric; without any, the loss."""
        return main_score(self.headline, self.scores)


@dataclasses.dataclass(frozen=True)
class Run:
    """One workdir.

    Attributes:
      info: config.json as it is: config, versions, git, manifests, data, devices, seed, ...
      evaluations: results by step, then by (task, split).
      baselines: results by name of the baseline, then by (task, split).
      log: lines of metrics.jsonl, in order of steps, without repetitions.
      bad_log_lines: number of its lines that could not be read.
      model: that it stands for, if it begins from random parameters; '' for none.
      mixture: of the scenario that it is shown in; '' for that of its config.
      place: which cells of a paper's table it fills, and the `name` of its experiment; empty where
        nobody has said so.
    """

    workdir: pathlib.Path
    info: Mapping[str, Json]
    evaluations: Mapping[int, Mapping[tuple[str, str], Result]]
    baselines: Mapping[str, Mapping[tuple[str, str], Result]]
    log: tuple[LogLine, ...]
    bad_log_lines: int = 0
    model: str = ''
    mixture: str = ''
    place: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def config(self) -> Mapping[str, Json]:
        """The resolved config."""
        config = self.info.get('config')
        return config if isinstance(config, dict) else {}

    @property
    def seed(self) -> Json:
        """The seed the run was started with."""
        return self.info.get('seed', self.config.get('seed'))

    @property
    def system(self) -> str:
        """The owner's name of a system whose outputs xlbench.score scored; '' for a run."""
        return str(self.config.get('system') or '') if 'scored' in self.info else ''

    @property
    def name(self) -> str:
        """The owner's name of a system, else that of the folder, as one printable line."""
        return clean(self.system or self.workdir.resolve().name)

    @functools.cached_property
    def config_hash(self) -> str:
        """The hash of its config, see the function of that name."""
        return config_hash(self.config)

    @functools.cached_property
    def scenario(self) -> benchmarks.Scenario | None:
        """The benchmark scenario the config trains on; None if it is none of ours."""
        blocks = [self.config['stages'][name] for name in reversed(self.stages)]
        names = [str(block.get('mixture')) for block in blocks if isinstance(block, dict)]
        for name in [self.mixture] if self.mixture else names:
            with contextlib.suppress(errors.UserError):
                return benchmarks.parse_mixture(name)
        return None

    @functools.cached_property
    def stages(self) -> dict[str, int]:
        """{stage: the step that it begins after}, in the order they are trained in."""
        stages = self.config.get('stages')
        first, begins = 0, {}
        for name, block in sorted(stages.items()) if isinstance(stages, dict) else ():
            begins[name] = first
            steps = block.get('num_steps') if isinstance(block, dict) else 0
            first += steps if isinstance(steps, int) else 0
        return begins

    def stage_of(self, step: int) -> str:
        """The stage that a step is of; '' where the config does not say."""
        before = [name for name, first in self.stages.items() if first < step]
        return before[-1] if before else ''

    def splits(self) -> tuple[str, ...]:
        """The splits that were evaluated, the one to report first: test before all others."""
        scored = {split for results in self.evaluations.values() for _, split in results}
        order = ('test', 'validation')
        return tuple(sorted(scored, key=lambda s: (order.index(s) if s in order else 2, s)))

    def at(self, step: int, split: str) -> dict[str, Result]:
        """Results of one step and split, by task."""
        return {task: r for (task, s), r in self.evaluations.get(step, {}).items() if s == split}

    @property
    def main_score(self) -> str:
        """The score of the benchmark, or else the one that stands for the tasks."""
        results = [result for of_step in self.evaluations.values() for result in of_step.values()]
        word, *parts = results[0].task.split('_')
        if benchmark := benchmarks.BENCHMARKS.get(word):
            return benchmark.main_score(parts[0])
        # An evaluation that decodes nothing has the loss alone, but knows what stands for its task.
        named = [result.headline for result in results if result.headline]
        scores = [result.main_score for result in results]
        return [*named, *(score for score in scores if score not in LOSSES), 'loss'][0]

    def choose_step(self, step: str | int, split: str, score: str = '') -> int:
        """The step to report, of those with results on a split.

        Args:
          step: 'last', a step, the name of a stage (its last step), or 'best': of the last stage
            the highest mean of `score` (or, without it, the lowest loss) on the `judging_split`.
            Only steps with all tasks compete; of a benchmark's scenario, the tasks that may choose.
          split: the one to report.
          score: that 'best' compares; '' takes the main one.
        """
        steps = [number for number in sorted(self.evaluations) if self.at(number, split)]
        if not steps:
            raise errors.UserError(
                f'{self.workdir} has no results on the split {split!r}; it has '
                f'{", ".join(self.splits()) or "none"}'
            )
        if step == 'last':
            return steps[-1]
        if step in self.stages:
            within = [number for number in steps if self.stage_of(number) == step]
            if not within:
                raise errors.UserError(
                    f'{self.workdir} has no results of stage {step!r} on the split {split!r}'
                )
            return within[-1]
        if step == 'best':
            newest = self.stage_of(steps[-1])
            steps = [number for number in steps if self.stage_of(number) == newest]
            score = score or self.main_score
            return max(steps, key=lambda number: self._rank(number, split, score))
        if not files.is_step(str(step)) or int(step) not in steps:
            raise errors.UserError(
                f'{self.workdir} has no results at step {step!r}; allowed: best, last, '
                f'{", ".join(map(str, [*self.stages, *steps]))}'
            )
        return int(step)

    def judging_split(self, split: str) -> str:
        """The split whose scores tell the best step, where `split` is reported.

        It is the validation split, else that of the evaluation that chooses the run's best
        checkpoint, else the split that is reported.
        """
        best, evals = (self.config.get(key) for key in ('best', 'evals'))
        score = best.get('score') if isinstance(best, dict) else ''
        block = evals.get(str(score).partition('/')[0]) if isinstance(evals, dict) else None
        judging = ('validation', block.get('split') if isinstance(block, dict) else '')
        return next((str(name) for name in judging if name in self.splits()), split)

    def _rank(self, step: int, split: str, score: str) -> tuple[int, float]:
        judge = self.judging_split(split)
        results = self.at(step, judge)
        if judge == 'validation' and self.scenario:
            scored = {task for step in self.evaluations for task in self.at(step, judge)}
            # Others that were evaluated besides, as zero-shot's targets, choose nothing.
            if allowed := scored & set(self.scenario.select):
                results = {task: result for task, result in results.items() if task in allowed}
        # An evaluation that decodes nothing has the loss alone.
        values = [r.scores.get(score, -r.scores.get('loss', math.inf)) for r in results.values()]
        return len(values), (sum(values) / len(values) if values else -math.inf)


def config_hash(config: Mapping[str, Json]) -> str:
    """Hashes a config without its seed: equal for runs that differ in the seed only."""
    text = json.dumps(without(blocks.for_hash(config), _OWN), sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def read_run(workdir: str | os.PathLike) -> Run:
    """Reads one workdir; UserError if it is none, or if it has no results yet."""
    folder = pathlib.Path(workdir)
    if not folder.is_dir():
        raise errors.UserError(f'{workdir} is not a folder; give the workdir of a training run')
    if not untrusted.file(folder, 'config.json'):
        inner = sorted(path.parent.name for path in folder.glob('*/config.json'))
        hint = f'; did you mean its subfolder {inner[0]}?' if inner else ''
        raise errors.UserError(
            f'{workdir} has no config.json, so it is not a workdir of xlbench.train{hint}'
        )
    evaluations = {}
    for name in files.names(folder / 'eval'):
        if files.is_step(name) and (results := _read_results(folder, folder / 'eval' / name)):
            evaluations[int(name)] = results
    if not evaluations and (folder / 'results.jsonl').is_file():
        raise errors.UserError(
            f'{workdir} is the workdir of a sweep of xlbench.fewshot; '
            '`xlbench fewshot report` makes its tables'
        )
    if not evaluations:
        raise errors.UserError(
            f'{workdir} has no evaluation results (eval/STEP/SPLIT/TASK/metrics.json); let '
            'the training reach an evaluation, or run python -m xlbench.evaluate'
        )
    baselines = {
        name: results
        for name in files.names(folder / 'eval' / 'baselines')
        if (results := _read_results(folder, folder / 'eval' / 'baselines' / name))
    }
    log, bad = _read_log(untrusted.file(folder, 'metrics.jsonl'))
    info: dict[str, Json] = files.read_json(folder / 'config.json', dict)
    files.check_type(info, _Info, str(folder / 'config.json'))
    return Run(folder, info, evaluations, baselines, log, bad)


def read_lines(folder: pathlib.Path) -> list[dict[str, Json]]:
    """The lines of predictions.jsonl in the folder of a result."""
    path = folder / 'predictions.jsonl'
    with untrusted.open_regular(path) as file:
        return [files.parse_json(line, dict, str(path)) for line in file]


def texts(line: Mapping[str, Json]) -> list[str]:
    """The predictions of a line of predictions.jsonl, the best first."""
    several = [one['prediction'] for one in line.get('n_best', ())]
    return several or [one['text'] for one in line.get('suggestions', ())] or [line['prediction']]


def references(lines: Sequence[Mapping[str, Json]]) -> list:
    """The references of the lines: a text each, or lists where one has several."""
    if any('references' in line for line in lines):
        return [line.get('references', [line['target']]) for line in lines]
    return [line['target'] for line in lines]


def _read_results(workdir: pathlib.Path, folder: pathlib.Path) -> dict[tuple[str, str], Result]:
    outer = [folder / name for name in files.names(folder)]  # Splits, or tasks of earlier versions.
    inner = [place / name for place in outer for name in files.names(place)]
    paths = sorted(place / 'metrics.json' for place in (*outer, *inner))
    paths = [path for path in paths if untrusted.file(workdir, path.relative_to(workdir))]
    results = {}
    for path in paths:
        try:
            record = files.read_json(path, _Metrics)
        except errors.UserError as error:
            raise errors.UserError(f'{error}; remove that file and evaluate again') from None
        fields = msgspec.structs.asdict(record)
        fields |= {'headline': record.headline or '', 'note': record.note or ''}
        fields['scores'] = {name: x for name, x in record.scores.items() if x is not None}
        results[record.task, record.split] = Result(**fields, folder=path.parent)
    return results


def _read_log(path: pathlib.Path | None) -> tuple[tuple[LogLine, ...], int]:
    """Lines of metrics.jsonl by step, and how many could not be read.

    A run that was killed and resumed logs some steps twice: the later line holds. Its last line
    may be cut short.
    """
    latest: dict[tuple, LogLine] = {}
    bad = 0
    with untrusted.open_regular(path) if path else contextlib.nullcontext(()) as lines:
        for line in lines:
            try:
                row = files.parse_json(line, LogLine, 'metrics.jsonl')
                latest[row.step, row.kind, row.name] = row
            except errors.UserError:
                bad += 1
    return tuple(latest[key] for key in sorted(latest)), bad


def without(value: Json, keys: Collection[str]) -> Json:
    """A config, or a part of one, without the entries of some keys, as deep as it goes."""
    if isinstance(value, dict):
        return {key: without(inner, keys) for key, inner in value.items() if key not in keys}
    return [without(inner, keys) for inner in value] if isinstance(value, list | tuple) else value
