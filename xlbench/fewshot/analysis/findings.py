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
from xlbench.fewshot.analysis.systems import System, about_gaps, gains, pair
from xlbench.fewshot.results import Group
from xlbench.reporting.tables import Column, Row, Table
from xlbench.system.errors import UserError

HOLDS, FAILS, OPEN = 'holds', 'does not hold', 'not shown'
_ERRORS = 2.0  # Standard errors that an estimate is away from 0.
_EARLY = 0.1  # Share of adaptations that are best after the first epoch; the paper has 0.25, 0.32.
_FIRST = 10  # Buckets whose words are compared, as in figure 3.
_SEPARATE = ('full', 'fc_pooler', 'fc', 'fc_reset_pooler', 'cos_pooler')  # Best first: table 6.


class Estimate(NamedTuple):
    """A number that a finding says is above 0, and its standard error."""

    name: str
    value: float
    error: float
    decimals: int = 2

    def __str__(self) -> str:
        return f'{self.name} {self.value:+.{self.decimals}f} ±{self.error:.{self.decimals}f}'


class Finding(NamedTuple):
    """A claim of the paper, HOLDS, FAILS or OPEN, and the estimates or why there are none."""

    claim: str
    outcome: str
    figures: str


def findings(system: System) -> list[Finding]:
    """Judges every finding, in the paper's order."""
    made = []
    for claim, estimate, only in _CLAIMS:
        is_tagging = topics.is_tagging(system.task)
        if only and is_tagging != (only == 'tagging'):
            continue
        try:
            estimates = list(estimate(system))
            made.append(Finding(claim, outcome(estimates), '; '.join(map(str, estimates))))
        except UserError as error:
            made.append(Finding(claim, OPEN, str(error)))
    return made


def outcome(estimates: Sequence[Estimate]) -> str:
    """Judges estimates by the rule above: HOLDS, FAILS or OPEN."""
    if any(one.value < -_ERRORS * one.error for one in estimates):
        return FAILS
    holds = estimates and all(one.value > _ERRORS * one.error for one in estimates)
    return HOLDS if holds else OPEN


def table(system: System) -> Table:
    """Makes a table of the findings: a row each."""
    title = "Whether the paper's findings hold here"
    if not system.shots():
        return Table(title, missing='no adaptation is finished')
    rows = [
        Row(one.claim, 'finding', (groups.text(one.outcome), groups.text(one.figures)))
        for one in findings(system)
    ]
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


def _known(estimates: Iterable[Estimate], otherwise: str) -> list[Estimate]:
    """Lists estimates; UserError that says `otherwise` if there are none."""
    if made := list(estimates):
        return made
    raise UserError(otherwise)


# ---------------------------------------------------------------------------------------------
# Estimates of differences of means.


_Pair = tuple[Adaptations | None, Adaptations | None]


def _mean_error(group: Adaptations) -> float:
    """Returns the standard error of a mean over buckets; 0 of a score without adaptation."""
    if not group.shots:
        return 0.0
    if group.deviation is None:
        raise UserError('it needs two buckets of each group')
    return group.deviation / math.sqrt(len(group.scores))


def _differences(named: Iterable[tuple[str, Iterable[_Pair]]]) -> Iterator[Estimate]:
    """Estimates the mean difference, second less first, of the pairs of each name."""
    for name, pairs in named:
        both = [pair for pair in pairs if all(group and group.rows for group in pair)]
        if both:
            value = statistics.fmean(high.mean - low.mean for low, high in both)
            squares = sum(_mean_error(group) ** 2 for pair in both for group in pair)
            yield Estimate(name, value, math.sqrt(squares) / len(both))


def _less(one: Estimate, other: Estimate) -> Estimate:
    """Subtracts an estimate from another, which does not depend on it."""
    name = f'{one.name} minus {other.name}'
    return Estimate(name, one.value - other.value, math.hypot(one.error, other.error))


def _of_each(system: System, *groups: tuple[int, str, str]) -> list[_Pair]:
    """Pairs the adaptations with two (K, method, start) in each language."""
    return [tuple(system.groups.get(Group(lang, *g)) for g in groups) for lang in system.languages]


def _gain(system: System) -> list[Estimate]:
    named = (
        (f'K={k}', [pair(system, lang, 0, k) for lang in system.languages])
        for k in system.full_shots
    )
    return _known(_differences(named), groups.UNFINISHED)


def _steps(system: System) -> list[Estimate]:
    """Estimates the gain of each K over the K before, over the languages that have all."""
    every = (0, *system.full_shots)
    known = [
        lang for lang in system.languages if all(all(pair(system, lang, 0, k)) for k in every[1:])
    ]
    named = (
        (f'K={low} to {high}', [pair(system, lang, low, high) for lang in known])
        for low, high in itertools.pairwise(every)
    )
    steps = _known(_differences(named), groups.UNFINISHED)
    if len(steps) < 2:
        raise UserError('it needs two numbers of shots')
    return steps


def _first_step(system: System) -> list[Estimate]:
    first, *others = _steps(system)
    return [_less(first, max(others, key=lambda step: step.value))]


def _scripts(system: System) -> list[Estimate]:
    made = []
    for k in system.full_shots:
        halves: list[list[_Pair]] = [[], []]
        for lang in gains(system, k):
            halves[languages.get(lang).script == 'latin'].append(pair(system, lang, 0, k))
        if all(halves):
            other, latin = _differences(('', half) for half in halves)
            made.append(_less(other, latin)._replace(name=f'K={k}'))
    return _known(made, 'it needs languages in Latin script and in others')


def _source_training(system: System) -> list[Estimate]:
    named = (
        (f'K={k}', _of_each(system, (k, 'full', 'none'), (k, 'full', 'source')))
        for k in system.shots(method='full', start='none')
    )
    why = "no adaptation with the start 'none' is finished that can be compared"
    return _known(_differences(named), why)


def _methods(system: System) -> list[Estimate]:
    """Compares each method with the next better one, at the largest K that both have."""
    shots = {name: {*system.shots(method=name, start='source')} for name in _SEPARATE}
    named = [
        (
            f'{better} over {worse}, K={k}',
            _of_each(system, (k, worse, 'source'), (k, better, 'source')),
        )
        for better, worse in itertools.pairwise(name for name in _SEPARATE if shots[name])
        for k in sorted(shots[better] & shots[worse])[-1:]
    ]
    return _known(_differences(named), 'it needs two methods')


# ---------------------------------------------------------------------------------------------
# Estimates of other kinds.


def _log_ratio(name: str, pairs: Iterable[tuple[Sequence[float], Sequence[float]]]) -> Estimate:
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


def _spread(system: System) -> list[Estimate]:
    shots = system.full_shots
    if len(shots) < 2:
        raise UserError('it needs two numbers of shots')
    pairs = [pair(system, lang, shots[0], shots[-1]) for lang in system.languages]
    scores = [(low.scores.tolist(), high.scores.tolist()) for low, high in pairs if low and high]
    known = [both for both in scores if min(map(len, both)) > 1]
    return [_log_ratio(f'K={shots[0]} by K={shots[-1]}', known)]


def _seeds(system: System) -> list[Estimate]:
    halves = [figure_data.distributions(system.by_sweep[Group(*key)]) for key in system.adapted]
    scores = [
        ([row.dev_score for row in buckets.by_bucket], [row.dev_score for row in seeds.by_seed])
        for seeds, buckets in filter(None, halves)
    ]
    if not scores:
        raise UserError('it needs dev scores of two seeds on one bucket, and of two buckets')
    return [_log_ratio('buckets by seeds', scores)]


def _early(system: System) -> list[Estimate]:
    if not system.adapted:
        raise UserError(groups.UNFINISHED)
    rows = [row for group in figure_data.fewest_shots(system) for row in group.by_bucket]
    if any(row.dev_score is None for row in rows):
        raise UserError('it needs dev scores')
    share = statistics.fmean(row.best_epoch == 1 for row in rows)
    error = math.sqrt(max(share * (1 - share), 0.25 / len(rows)) / len(rows))
    return [Estimate(f'{share:.0%} of {len(rows)}, less {_EARLY:.0%}:', share - _EARLY, error)]


def _factors(system: System) -> list[Estimate]:
    """Estimates negative correlations by Fisher's transformation, whose error is known."""
    first = system.full_shots[:1]
    wanted = [factors.Factor('features'), *(factors.Factor('wordpiece', k) for k in first)]
    made, reasons = [], []
    for k, factor, value in factors.correlations(system):
        if k is not None or factor not in wanted:
            continue
        if isinstance(value, str) or value.languages < 4:
            reasons.append(value if isinstance(value, str) else 'it needs four languages')
            continue
        negative = -min(max(value.spearman, -0.999), 0.999)
        name = f'{factor}: rank correlation {value.spearman:+.2f} of {value.languages} languages,'
        error = 1 / math.sqrt(value.languages - 3)
        made.append(Estimate(f'{name} transformed', math.atanh(negative), error))
    return _known(made, next(iter(reasons), groups.UNFINISHED))


def _words(system: System) -> list[Estimate]:
    """Compares the Jaccard indices of figure 3 on the diagonal with the others of their row."""
    if not system.adapted:
        raise UserError(groups.UNFINISHED)
    means, squares = [], []
    for group in figure_data.with_words(system)[0]:
        words = figure_data.read_words(group)
        square = figure_data.overlaps(words.words, words.better[:_FIRST], words.buckets[:_FIRST])
        if (size := len(square)) > 1:
            own = np.diag(square)
            ahead = own - (square.sum(1) - own) / (size - 1)
            means.append(float(ahead.mean()))
            squares.append(float(ahead.var(ddof=1)) / size)
    if not means:
        raise UserError('it needs two buckets of each group')
    error = math.sqrt(sum(squares)) / len(means)
    name = 'Jaccard index with the same bucket minus that with others'
    return [Estimate(name, statistics.fmean(means), error, decimals=3)]


# Claim, its estimates, and the kind of task that it is about; '' for both.
_CLAIMS: tuple[tuple[str, Callable[[System], Sequence[Estimate]], str], ...] = (
    ('few shots improve on zero-shot transfer (5.2)', _gain, ''),
    ('the first shot brings the largest improvement (5.2)', _first_step, ''),
    ('scores grow with K (5.2)', lambda system: _steps(system)[1:], ''),
    (
        'with diminishing returns (5.2)',
        lambda system: [_less(*both) for both in itertools.pairwise(_steps(system))],
        '',
    ),
    ('the spread over buckets shrinks as K grows (5.2)', _spread, ''),
    ('buckets move scores more than seeds do (5.2, figure 1)', _seeds, ''),
    ('some adaptations to the fewest shots are best after one epoch (5.2)', _early, ''),
    ('languages in non-Latin scripts gain more (5.2)', _scripts, 'tagging'),
    ('languages that are more like English gain less (table 3)', _factors, 'tagging'),
    ('without source training scores are lower (5.3, table 4)', _source_training, ''),
    ('improved words are those of the same bucket (5.4, figure 3)', _words, 'tagging'),
    ('methods rank as full, FC+Pooler, FC, FC(reset)+Pooler, COS+Pooler (table 6)', _methods, ''),
)
