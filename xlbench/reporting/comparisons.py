"""Tests which differences between the systems of a section are significant.

A score that is a mean over examples is tested by what predictions.jsonl has of each. Of BLEU, chrF
and TER the counts are resampled, and any other score is computed again from the texts of every
resample by the metric that metrics.json names.
"""

import contextlib
import dataclasses
import itertools
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from sacrebleu.metrics.base import Metric

from xlbench import metrics
from xlbench.metrics import bleu, specs
from xlbench.metrics.contract import Targets
from xlbench.reporting import predictions, statistics as tests
from xlbench.reporting.predictions import Prediction
from xlbench.reporting.results import LOSSES, Result
from xlbench.reporting.sections import Section
from xlbench.reporting.statistics import Difference, Resamples, Scorer
from xlbench.reporting.systems import System
from xlbench.reporting.tables import Cell, Column, Table
from xlbench.system import errors

_CLOSE = 1e-3  # Scores in metrics.json may be rounded.
_OF_EVALUATIONS = (*LOSSES, 'log_probability')  # Scores that no metric gives.


# The most scorings of examples for a table, and the fewest and most resamples of a difference. With
# many differences a significant p-value is smaller, and more resamples decide it.
_Limit = tuple[int, int, int]
_MEANS: _Limit = (2_000_000_000, 1000, 20_000)
_COUNTS: _Limit = (1_000_000_000, 1000, 10_000)
_FUNCTIONS: _Limit = (2_000_000, 200, 1000)  # Some milliseconds each.


class _Untested(Exception):
    """Says why a difference has no test, as the end of a sentence."""


@dataclasses.dataclass(frozen=True)
class _Texts:
    """The results of all runs of a system for one task, and the predictions of each by id."""

    results: Sequence[Result]
    rows: Sequence[Mapping[str, Prediction]]

    def values(self, score: str) -> dict[str, float] | None:
        """The score of each example, the mean over seeds; None if it is no mean of examples."""
        of_runs: list[dict[str, float]] = []
        for result, rows in zip(self.results, self.rows, strict=True):
            known = ((key, row.scores.get(score)) for key, row in rows.items())
            of_runs.append(numbers := {key: value for key, value in known if value is not None})
            if len(numbers) < len(rows):
                return None
            if abs(statistics.fmean(numbers.values()) - result.scores[score]) > _CLOSE:
                return None
        return {key: statistics.fmean(n[key] for n in of_runs) for key in of_runs[0]}


def beside(
    sections: Sequence[Section],
    test: str,
    earlier: Sequence[Section] = (),
    label: str = '',
    scores: Sequence[str] = (),
) -> list[Section]:
    """The sections, each with a table of differences for each of some scores, else the main score.

    The test is one of `statistics.TESTS`. With `earlier`, the same runs at a step that is called
    `label`, each run is compared with itself.

    Raises:
      UserError: no section has one of the scores.
    """
    known = dict.fromkeys(score for section in sections for score in scores_of(section))
    for score in scores:
        errors.check_known('score in --scores', score, known)
    by_title = {section.title: section for section in earlier}
    compared = []
    for section in sections:
        chosen = [s for s in scores if s in scores_of(section)] if scores else section.scores[:1]
        before = by_title.get(section.title)
        made = (table(section, score, test, before, label) for score in chosen)
        compared.append(dataclasses.replace(section, besides=(*section.besides, *made)))
    return compared


def scores_of(section: Section) -> list[str]:
    """The scores that runs of a section have, those of its tables first."""
    of_runs = (name for run in section.runs for name in run.scores)
    return list(dict.fromkeys([*section.scores, *of_runs]))


def table(
    section: Section, score: str, test: str, other: Section | None = None, label: str = ''
) -> Table:
    """The differences of a score between every two runs, or of each run to itself; see `beside`."""
    if other is None:
        pairs = [
            (f'{second.name} minus {first.name}', second, first)
            for first, second in itertools.combinations(section.runs, 2)
        ]
    else:
        before = {system.name: system for system in other.runs}
        pairs = [
            (f'{system.name} minus {label}', system, before[system.name])
            for system in section.runs
            if system.name in before
        ]
    decimals = section.decimals_of(score)
    return of_pairs(f'Differences of {score}', score, test, pairs, section.columns, decimals)


def of_pairs(
    title: str,
    score: str,
    test: str,
    pairs: Sequence[tuple[str, System, System]],
    columns: Sequence[Column],
    decimals: int = 1,
) -> Table:
    """The differences of a score in named pairs of systems, whose second one is subtracted."""
    tested = _Pairs(score, test, len(pairs) * len(columns))
    rows = {
        name: [tested.difference(first, second, column.tasks) for column in columns]
        for name, first, second in pairs
    }
    return tests.table(title, columns, rows, test, decimals)


def pooled(
    pairs: Sequence[tuple[System | None, System | None, Sequence[str]]], score: str
) -> list[Cell]:
    """Tests a first and a last system over the pooled examples of some tasks, by t-tests.

    Returns:
      The p-values, corrected for all pairs; '-' if one lacks the examples. Significant ones have
      the mark *.
    """
    differences = []
    for first, last, tasks in pairs:
        found = first and last and _Pairs(score, 't-test', 1).difference(last, first, tasks)
        differences.append(found if isinstance(found, Difference) else None)
    p_values = tests.holm([one.p_value if one else math.nan for one in differences])
    return [
        Cell(text=tests.p_text(p, difference), mark='*' * (p < tests.LEVEL))
        for difference, p in zip(differences, p_values, strict=True)
    ]


class _Pairs:
    """Tests differences of one score; what was read and drawn for a task is kept for averages."""

    def __init__(self, score: str, test: str, number: int):
        self._score, self._test, self._number = score, test, number
        self._texts: dict[tuple[int, str], _Texts] = {}
        self._tested: dict[tuple[int, int, str], tuple[float, Resamples]] = {}

    def difference(
        self, first: System, second: System, tasks: Sequence[str]
    ) -> Difference | str | None:
        """First minus second, the mean over tasks; or why there is no test, see `tests.table`."""
        try:
            if self._test == 't-test':
                return self._t_test(first, second, tasks)
            of_tasks = [self._resampled(first, second, task) for task in tasks]
        except _Untested as reason:
            return str(reason)
        values, every = zip(*of_tasks, strict=True)
        # Tasks of one size were drawn alike, and count as independent: each is moved by one place.
        count = min(len(drawn.system) for drawn in every)
        drawn = (
            np.mean([np.roll(scores[:count], i) for i, scores in enumerate(of_field)], axis=0)
            for of_field in zip(*every, strict=True)
        )
        return tests.resampled(statistics.fmean(values), Resamples(*drawn), self._test)

    def _sides(self, first: System, second: System, task: str) -> tuple[_Texts, _Texts]:
        """Returns what both wrote for a task: the same examples."""
        for system in (first, second):
            if (id(system), task) not in self._texts:
                results = [pick.results[task] for pick in system.picks if task in pick.results]
                texts = _Texts(results, [predictions.of_result(result) for result in results])
                self._texts[id(system), task] = texts
        sides = self._texts[id(first), task], self._texts[id(second), task]
        for system, side in zip((first, second), sides, strict=True):
            if not side.results or any(self._score not in r.scores for r in side.results):
                raise _Untested(f'{system.name} has no {self._score} of {task}')
            if not all(side.rows):
                raise _Untested(f'{system.name} has no predictions.jsonl of {task}')
        seeds = [rows for side in sides for rows in side.rows]
        if any(rows.keys() != seeds[0].keys() for rows in seeds):
            raise _Untested(f'the runs were scored on different examples of {task}')
        if len(seeds[0]) < 2:
            raise _Untested(f'{task} has one example')
        return sides

    def _t_test(self, first: System, second: System, tasks: Sequence[str]) -> Difference | None:
        """Tests the pooled examples of all tasks, which must have equally many examples."""
        pooled: tuple[dict[str, float], dict[str, float]] = ({}, {})
        counts = set()
        for task in tasks:
            for of_all, side in zip(pooled, self._sides(first, second, task), strict=True):
                if (values := side.values(self._score)) is None:
                    raise _Untested(
                        f'{self._score} of {task} is no mean over examples; '
                        '--significance=bootstrap or randomization can test it'
                    )
                counts.add(len(values))
                of_all |= {f'{task} {key}': value for key, value in values.items()}
        if len(counts) > 1:
            raise _Untested(
                'the tasks have different numbers of examples; --significance=bootstrap or '
                'randomization can test their mean'
            )
        return tests.t_test(*pooled)

    def _resampled(self, first: System, second: System, task: str) -> tuple[float, Resamples]:
        """The difference of two systems in one task, and their resamples."""
        place = id(first), id(second), task
        if place not in self._tested:
            system, baseline = sides = self._sides(first, second, task)
            ours, theirs = (side.values(self._score) for side in sides)
            if ours is not None and theirs is not None:
                scorer = tests.of_means([theirs[key] for key in ours], list(ours.values()))
                limit = _MEANS
            else:
                scorer, limit = _of_corpus(baseline, system, self._score, self._test)
            means = (statistics.fmean(r.scores[self._score] for r in s.results) for s in sides)
            value = next(means) - next(means)
            count, (examples, fewest, most) = len(system.rows[0]), limit
            samples = min(max(examples // (count * self._number), fewest), most)
            drawn = tests.resamples(scorer, count, self._test, samples, min(samples, 1000))
            if not all(np.isfinite(scores).all() for scores in drawn):
                raise _Untested(f'{self._score} is not defined for some resamples of {task}')
            self._tested[place] = value, drawn
        return self._tested[place]


def _of_corpus(baseline: _Texts, system: _Texts, score: str, test: str) -> tuple[Scorer, _Limit]:
    """Resamples a score of all examples together: the mean over seeds; and how often at most."""
    sides, keys = (baseline, system), list(system.rows[0])
    if test == 'randomization' and len(baseline.rows) != len(system.rows):
        raise _Untested('randomization exchanges texts between equally many seeds')
    references = [row.references or [row.target] for row in system.rows[0].values()]
    for rows in (*baseline.rows, *system.rows):
        if references != [rows[key].references or [rows[key].target] for key in keys]:
            raise _Untested('the references of the runs are not the same')
    result = system.results[0]
    streams = list(map(list, itertools.zip_longest(*references)))
    texts = [row.prediction or '' for row in system.rows[0].values()]
    if metric := _scorer(result, score, texts, streams):
        limit = _COUNTS

        def parts(rows: Mapping[str, Prediction]) -> np.ndarray:
            texts = [rows[key].prediction or '' for key in keys]
            return np.array(metric._extract_corpus_statistics(texts, streams), float)

        def score_of(chosen: np.ndarray, index: np.ndarray) -> float:
            return metric._compute_score_from_stats(chosen.sum(axis=0)).score
    else:
        listed = [row if len(row) > 1 else row[0] for row in references]
        targets = np.empty(len(keys), object)
        targets[:] = listed
        function, count = _function(result, score, listed, [system.rows[0][k] for k in keys])
        limit = _FUNCTIONS

        def parts(rows: Mapping[str, Prediction]) -> np.ndarray:
            texts = np.empty(len(keys), object)
            texts[:] = [rows[key].texts(count) for key in keys]
            return texts

        def score_of(chosen: np.ndarray, index: np.ndarray) -> float:
            return function(targets[index].tolist(), chosen.tolist())

    of_sides = [[parts(rows) for rows in side.rows] for side in sides]
    every = np.arange(len(keys))
    for side, of_seeds in zip(sides, of_sides, strict=True):
        for of_seed, stored in zip(of_seeds, side.results, strict=True):
            if not abs((again := score_of(of_seed, every)) - stored.scores[score]) <= _CLOSE:
                raise _Untested(
                    f'predictions.jsonl of {stored.folder} gives {score} {again:.3f}, and its '
                    f'metrics.json has {stored.scores[score]:.3f}'
                )
    if len(of_sides[0]) == len(of_sides[1]):
        pairs = list(map(np.stack, zip(*of_sides, strict=True)))
        seeds_of = [pairs, pairs]
    else:  # A bootstrap takes all texts of a resample from one side.
        seeds_of = [[np.stack([seed, seed]) for seed in of_seeds] for of_seeds in of_sides]

    def scorer(which: np.ndarray, index: np.ndarray) -> np.ndarray:
        return np.array([
            statistics.fmean(score_of(seed[w, i], i) for seed in seeds_of[w[0]])
            for w, i in zip(np.broadcast_to(which, index.shape).astype(int), index, strict=True)
        ])  # fmt: skip

    return scorer, limit


def _function(
    result: Result, score: str, targets: Targets, rows: Sequence[Prediction]
) -> tuple[Callable[[Targets, Sequence[Sequence[str]]], float], int]:
    """Finds the metric that gave a score, and how many texts of an example it takes."""
    if not result.metrics:
        raise _Untested(
            f'{score} has no scores of single examples, and metrics.json of {result.folder} does '
            'not name its metrics; evaluate again'
        )
    try:
        suite = metrics.Suite(result.task, result.metrics)
        n_best = [row.texts(suite.num_predictions) for row in rows]
        function = suite.function(score, targets, n_best, _OF_EVALUATIONS)
    except (errors.UserError, KeyError, TypeError) as error:  # Anybody may have written it.
        raise _Untested(f'{score} cannot be computed again: {error}') from None
    if function is None:
        raise _Untested(f'no metric of {result.task} computes {score} from texts')

    def checked(targets: Targets, n_best: Sequence[Sequence[str]]) -> float:
        try:
            return function(targets, n_best)
        except (errors.UserError, KeyError) as error:
            raise _Untested(f'{score} cannot be computed again: {error}') from None

    return checked, suite.num_predictions


def _scorer(
    result: Result, score: str, texts: Sequence[str], streams: Sequence[Sequence[str]]
) -> Metric | None:
    """The metric of sacreBLEU that gave a score of these texts; None if another one did."""
    for spec in result.metrics:
        if str(spec.get('metric')).startswith(f'{bleu.__name__}:'):
            # Anybody may have written it.
            with contextlib.suppress(errors.UserError, AttributeError, TypeError, ValueError):
                metric: Any = specs.from_spec(spec)
                found = metric.corpus_scorer().corpus_score(texts, streams).score
                is_near = abs(found - result.scores[score]) <= _CLOSE
                if is_near and metric.score_name == score.partition('_')[0]:
                    return metric.corpus_scorer()
    return None
