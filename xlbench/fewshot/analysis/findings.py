"""The findings of arXiv:2012.15682, and whether the results of sweeps agree with each.

A finding claims that some estimates are above 0, mostly differences of means over buckets, averaged
over languages. It holds if every estimate is more than two standard errors above 0, and does not
hold if one is as far below 0. In between, and if results are missing, it is "not shown". Errors
come from the spread over buckets: they are about other buckets of the same languages and test sets.
"""

import itertools
import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from xlbench.benchmarks import languages, topics
from xlbench.fewshot.analysis import factors, figure_data, groups
from xlbench.fewshot.analysis.groups import Adaptations
from xlbench.fewshot.analysis.systems import FULL, System, about_gaps, gains
from xlbench.fewshot.results import Group
from xlbench.reporting.tables import Column, Row, Table
from xlbench.system.errors import UserError

HOLDS, FAILS, OPEN = 'holds', 'does not hold', 'not shown'
_ERRORS = 2.0  # Standard errors that an estimate is away from 0.
_EARLY = 0.1  # Share of adaptations that are best after the first epoch; the paper has 0.25, 0.32.
_TWO_SHOTS = 'it needs two numbers of shots'
_TWO_BUCKETS = 'it needs two buckets of each group'
_SEPARATE = ('full', 'fc_pooler', 'fc', 'fc_reset_pooler', 'cos_pooler')  # Best first: table 6.


class Estimate(NamedTuple):
    """A number that a finding says is above 0, and its standard error."""

    name: str
    value: float
    error: float
    decimals: int = 2

    def __str__(self) -> str:
        return f'{self.name} {self.value:+.{self.decimals}f} ±{self.error:.{self.decimals}f}'


_Estimates = Callable[[System], Iterable[Estimate]]
_CLAIMS: list[tuple[str, _Estimates, str, str]] = []


def _claim(text: str, needs: str = groups.UNFINISHED, only: str = '') -> Callable[..., _Estimates]:
    """Registers estimates that a finding claims to be above 0.

    Args:
      text: the claim, and where the paper has it.
      needs: why there are no estimates, if there are none.
      only: the kind of task that it is about; '' for both.
    """

    def register(estimates: _Estimates) -> _Estimates:
        _CLAIMS.append((text, estimates, needs, only))
        return estimates

    return register


def outcome(estimates: Sequence[Estimate]) -> str:
    """Judges estimates by the rule above: HOLDS, FAILS or OPEN."""
    if any(one.value < -_ERRORS * one.error for one in estimates):
        return FAILS
    holds = estimates and all(one.value > _ERRORS * one.error for one in estimates)
    return HOLDS if holds else OPEN


def table(system: System) -> Table:
    """Judges every finding, in the paper's order: a row each."""
    title = "Whether the paper's findings hold here"
    if not system.shots():
        return Table(title, missing='no adaptation is finished')
    if system.way != FULL:
        return Table(title, missing=groups.UNFINISHED)
    kind = 'tagging' if topics.is_tagging(system.task) else 'classification'
    rows = []
    for claim, estimates_of, needs, only in _CLAIMS:
        if only not in ('', kind):
            continue
        try:
            if not (estimates := list(estimates_of(system))):
                raise UserError(needs)
            found = outcome(estimates), '; '.join(map(str, estimates))
        except UserError as error:
            found = OPEN, str(error)
        rows.append(Row(claim, 'finding', tuple(map(groups.text, found))))
    notes = [
        'The figures estimate what a finding claims to be above 0, mostly differences of means '
        'over buckets, averaged over languages; ± is the standard error, from the spread over '
        'buckets.',
        f'A finding holds if each figure is more than {_ERRORS:g} standard errors above 0, does '
        'not hold if one is as far below 0, and is otherwise not shown.',
        *about_gaps(system, method='full', start='source'),
    ]
    columns = [Column('', 'here'), Column('', 'figures')]
    return system.table(title, columns, rows, notes, 'finding')


# ---------------------------------------------------------------------------------------------
# Estimates.


def _differences(
    system: System,
    named: Iterable[tuple[str, tuple, tuple]],
    languages: Sequence[str] | None = None,
) -> Iterator[Estimate]:
    """Estimates by how much one score is above another, the mean over the languages with both.

    Args:
      system: whose scores.
      named: the name of each estimate, the lower and the higher score, as `System.stats` takes
        them behind a language: K, or K, method and start.
      languages: all target languages by default.
    """
    for name, *scores in named:
        every = (
            [system.stats(lang, *score) for score in scores]
            for lang in (system.languages if languages is None else languages)
        )
        if both := [pair for pair in every if all(pair)]:
            value = statistics.fmean(high.mean - low.mean for low, high in both)
            squares = sum(_mean_error(group) ** 2 for pair in both for group in pair)
            yield Estimate(name, value, math.sqrt(squares) / len(both))


def _mean_error(group: Adaptations) -> float:
    """Returns the standard error of a mean over buckets; 0 of a score without adaptation."""
    if not group.shots:
        return 0.0
    if group.deviation is None:
        raise UserError(_TWO_BUCKETS)
    return group.deviation / math.sqrt(len(group.scores))


def _less(one: Estimate, other: Estimate) -> Estimate:
    """Subtracts an estimate from another, which does not depend on it."""
    name = f'{one.name} minus {other.name}'
    return Estimate(name, one.value - other.value, math.hypot(one.error, other.error))


def _steps(system: System) -> list[Estimate]:
    """Estimates the gain of each K over the K before, over the languages that have all."""
    every = (0, *system.way_shots)
    known = [lang for lang in system.languages if all(system.stats(lang, k) for k in every)]
    named = ((f'K={low} to {high}', (low,), (high,)) for low, high in itertools.pairwise(every))
    steps = list(_differences(system, named, known))
    if len(steps) < 2:
        raise UserError(_TWO_SHOTS if steps else groups.UNFINISHED)
    return steps


def _log_ratio(name: str, pairs: Iterable[Sequence[Sequence[float]]]) -> Estimate:
    """Estimates the mean logarithm of the ratio of two samples' deviations, as of normal values."""
    logs, variances = [], []
    for pair_of in pairs:
        above, below = map(statistics.stdev, pair_of)
        if above and below:  # Where one does not vary there is no ratio.
            logs.append(math.log(above / below))
            variances.append(sum(1 / (2 * (len(values) - 1)) for values in pair_of))
    if not logs:
        raise UserError('it needs two buckets of each group, with different scores')
    error = math.sqrt(sum(variances)) / len(logs)
    return Estimate(f'log of the ratio of deviations, {name}:', statistics.fmean(logs), error)


# ---------------------------------------------------------------------------------------------
# The claims, in the paper's order.


@_claim('few shots improve on zero-shot transfer (5.2)')
def _gain(system: System) -> Iterator[Estimate]:
    return _differences(system, ((f'K={k}', (0,), (k,)) for k in system.way_shots))


@_claim('the first shot brings the largest improvement (5.2)')
def _first_step(system: System) -> list[Estimate]:
    first, *others = _steps(system)
    return [_less(first, max(others, key=lambda step: step.value))]


@_claim('scores grow with K (5.2)')
def _growth(system: System) -> list[Estimate]:
    return _steps(system)[1:]


@_claim('with diminishing returns (5.2)')
def _diminishing(system: System) -> Iterator[Estimate]:
    return itertools.starmap(_less, itertools.pairwise(_steps(system)))


@_claim('the spread over buckets shrinks as K grows (5.2)', _TWO_SHOTS)
def _spread(system: System) -> list[Estimate]:
    if len(system.way_shots) < 2:
        return []
    ends = system.way_shots[0], system.way_shots[-1]
    pairs = [[system.stats(lang, k) for k in ends] for lang in system.languages]
    scores = [[group.scores.tolist() for group in pair] for pair in pairs if all(pair)]
    known = [both for both in scores if min(map(len, both)) > 1]
    return [_log_ratio('K={} by K={}'.format(*ends), known)]


@_claim('buckets move scores more than seeds do (5.2, figure 1)', figure_data.HALVES)
def _seeds(system: System) -> list[Estimate]:
    halves = [figure_data.distributions(system.by_sweep[Group(*key)]) for key in system.adapted]
    scores = [
        ([row.dev_score for row in buckets.by_bucket], [row.dev_score for row in seeds.by_seed])
        for seeds, buckets in filter(None, halves)
    ]
    return [_log_ratio('buckets by seeds', scores)] if scores else []


@_claim('some adaptations to the fewest shots are best after one epoch (5.2)')
def _early(system: System) -> Iterator[Estimate]:
    if not system.adapted:
        return
    rows = [row for group in figure_data.fewest_shots(system) for row in group.by_bucket]
    if any(row.dev_score is None for row in rows):
        raise UserError('it needs dev scores')
    share = statistics.fmean(row.best_epoch == 1 for row in rows)
    error = math.sqrt(max(share * (1 - share), 0.25 / len(rows)) / len(rows))
    yield Estimate(f'{share:.0%} of {len(rows)}, less {_EARLY:.0%}:', share - _EARLY, error)


@_claim(
    'languages in non-Latin scripts gain more (5.2)',
    'it needs languages in Latin script and in others',
    'tagging',
)
def _scripts(system: System) -> Iterator[Estimate]:
    for k in system.way_shots:
        halves: list[list[str]] = [[], []]
        for lang in gains(system, k):
            halves[languages.get(lang).script == 'latin'].append(lang)
        if all(halves):
            named = [(f'K={k}', (0,), (k,))]
            [other], [latin] = (_differences(system, named, half) for half in halves)
            yield _less(other, latin)._replace(name=f'K={k}')


@_claim('languages that are more like English gain less (table 3)', only='tagging')
def _factors(system: System) -> Iterator[Estimate]:
    """Estimates negative correlations by Fisher's transformation, whose error is known."""
    first = system.way_shots[:1]
    wanted = [factors.Factor('features'), *(factors.Factor('wordpiece', k) for k in first)]
    found = [x for k, *x in factors.correlations(system) if k is None and x[0] in wanted]
    known = [x for x in found if not isinstance(x[1], str) and x[1].languages > 3]
    for factor, value in known:
        negative = -min(max(value.spearman, -0.999), 0.999)
        name = f'{factor}: rank correlation {value.spearman:+.2f} of {value.languages} languages,'
        error = 1 / math.sqrt(value.languages - 3)
        yield Estimate(f'{name} transformed', math.atanh(negative), error)
    if found and not known:
        why = found[0][1]
        raise UserError(why if isinstance(why, str) else 'it needs four languages')


@_claim(
    'without source training scores are lower (5.3, table 4)',
    "no adaptation with the start 'none' is finished that can be compared",
)
def _source_training(system: System) -> Iterator[Estimate]:
    shots = system.shots(method='full', start='none')
    named = ((f'K={k}', (k, 'full', 'none'), (k, 'full', 'source')) for k in shots)
    return _differences(system, named)


@_claim('improved words are those of the same bucket (5.4, figure 3)', only='tagging')
def _words(system: System) -> list[Estimate]:
    """Compares the Jaccard indices of figure 3 on the diagonal with the others of their row."""
    means, squares = [], []
    for words in figure_data.with_words(system)[0].values() if system.adapted else ():
        square = words.overlaps(figure_data.FIRST)
        if (size := len(square)) > 1:
            own = np.diag(square)
            ahead = own - (square.sum(1) - own) / (size - 1)
            means.append(float(ahead.mean()))
            squares.append(float(ahead.var(ddof=1)) / size)
    if not means:
        raise UserError(_TWO_BUCKETS if system.adapted else groups.UNFINISHED)
    error = math.sqrt(sum(squares)) / len(means)
    name = 'Jaccard index with the same bucket minus that with others'
    return [Estimate(name, statistics.fmean(means), error, decimals=3)]


@_claim(
    'methods rank as full, FC+Pooler, FC, FC(reset)+Pooler, COS+Pooler (table 6)',
    'it needs two methods',
)
def _methods(system: System) -> Iterator[Estimate]:
    """Compares each method with the next better one, at the largest K that both have."""
    shots = {name: {*system.shots(method=name, start='source')} for name in _SEPARATE}
    named = (
        (f'{better} over {worse}, K={k}', (k, worse), (k, better))
        for better, worse in itertools.pairwise(name for name in _SEPARATE if shots[name])
        for k in sorted(shots[better] & shots[worse])[-1:]
    )
    return _differences(system, named)
