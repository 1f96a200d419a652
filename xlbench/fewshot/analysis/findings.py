"""The findings of arXiv:2012.15682, and whether the results of sweeps agree with each.

A finding claims that some estimates are above 0, mostly differences of means over buckets, averaged
over languages. It holds if every estimate is more than two standard errors above 0, and does not
hold if one is as far below 0. In between, and if results are missing, it is "not shown". Errors
come from the spread over buckets: they are about other buckets of the same languages and test sets.
"""

import itertools
import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from xlbench.benchmarks import languages, topics
from xlbench.errors import UserError
from xlbench.fewshot.analysis import factors, figure_data, parts
from xlbench.fewshot.analysis.groups import Adaptations, Group
from xlbench.fewshot.analysis.systems import System, about_gaps, gains, pair
from xlbench.reporting.tables import Column, Row, Table

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
    """A finding of the paper, and what the results say.

    Attributes:
        claim: The finding in a sentence.
        outcome: HOLDS, FAILS or OPEN.
        figures: The estimates; or why there are none.
    """

    claim: str
    outcome: str
    figures: str


def findings(system: System) -> list[Finding]:
    """Every finding, in the paper's order."""
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
    """HOLDS, FAILS or OPEN, by the rule above."""
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
        Row(one.claim, 'finding', (parts.text(one.outcome), parts.text(one.figures)))
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
    return parts.finish(title, system, columns, rows, notes, 'finding')


# ---------------------------------------------------------------------------------------------
# Estimates of differences.


def _mean_error(group: Adaptations) -> float:
    """The standard error of a mean over buckets; 0 of a score without adaptation."""
    if not group.shots:
        return 0.0
    if group.deviation is None:
        raise UserError('it needs two buckets of each group')
    return group.deviation / math.sqrt(len(group.scores))


def _difference(name: str, pairs: Iterable[tuple[Adaptations, Adaptations]]) -> Estimate:
    """Estimates the mean difference of pairs, second less first."""
    both = list(pairs)
    value = statistics.fmean(high.mean - low.mean for low, high in both)
    squares = sum(_mean_error(low) ** 2 + _mean_error(high) ** 2 for low, high in both)
    return Estimate(name, value, math.sqrt(squares) / len(both))


def _steps(system: System) -> list[Estimate]:
    """The mean gain of each number of shots over the one before, over the same languages."""
    every = (0, *system.shots(method='full', start='source'))
    known = [
        lang for lang in system.languages if all(all(pair(system, lang, 0, k)) for k in every[1:])
    ]
    if len(every) < 2 or not known:
        raise UserError(parts.UNFINISHED)
    return [
        _difference(f'K={low} to {high}', [pair(system, lang, low, high) for lang in known])
        for low, high in itertools.pairwise(every)
    ]


def _less(one: Estimate, other: Estimate) -> Estimate:
    name = f'{one.name} minus {other.name}'
    return Estimate(name, one.value - other.value, math.hypot(one.error, other.error))


def _gain(system: System) -> list[Estimate]:
    shots = system.shots(method='full', start='source')
    made = []
    for k in shots:
        pairs = [both for lang in system.languages if all(both := pair(system, lang, 0, k))]
        if pairs:
            made.append(_difference(f'K={k}', pairs))
    if not made:
        raise UserError(parts.UNFINISHED)
    return made


def _first_step(system: System) -> list[Estimate]:
    first, *others = _steps(system)
    if not others:
        raise UserError('it needs two numbers of shots')
    return [_less(first, max(others, key=lambda step: step.value))]


def _growth(system: System) -> list[Estimate]:
    steps = _steps(system)[1:]
    if not steps:
        raise UserError('it needs two numbers of shots')
    return steps


def _diminishing(system: System) -> list[Estimate]:
    steps = _steps(system)
    if len(steps) < 2:
        raise UserError('it needs two numbers of shots')
    return [_less(low, high) for low, high in itertools.pairwise(steps)]


def _scripts(system: System) -> list[Estimate]:
    made = []
    for k in system.shots(method='full', start='source'):
        halves: list[list[tuple[Adaptations, Adaptations]]] = [[], []]
        for lang in gains(system, k):
            halves[languages.get(lang).script == 'latin'].append(pair(system, lang, 0, k))
        if all(halves):
            other, latin = (_difference('', half) for half in halves)
            made.append(_less(other, latin)._replace(name=f'K={k}'))
    if not made:
        raise UserError('it needs languages in Latin script and in others')
    return made


def _source_training(system: System) -> list[Estimate]:
    made = []
    for k in system.shots(method='full', start='none'):
        pairs = []
        for lang in system.languages:
            groups = (system.groups.get(Group(lang, k, 'full', s)) for s in ('none', 'source'))
            none, source = groups
            if none and source and none.rows and source.rows:
                pairs.append((none, source))
        if pairs:
            made.append(_difference(f'K={k}', pairs))
    if not made:
        raise UserError("no adaptation with the start 'none' is finished that can be compared")
    return made


def _methods(system: System) -> list[Estimate]:
    """Each method against the next better one, with the most shots that both have."""
    there = [name for name in _SEPARATE if system.shots(method=name, start='source')]
    made = []
    for better, worse in itertools.pairwise(there):
        both = {*system.shots(method=better)} & {*system.shots(method=worse)}
        pairs = []
        for lang in system.languages:
            of_each = [system.groups.get(Group(lang, max(both), m)) for m in (worse, better)]
            if all(group and group.rows for group in of_each):
                pairs.append(tuple(of_each))
        if pairs:
            made.append(_difference(f'{better} over {worse}, K={max(both)}', pairs))
    if not made:
        raise UserError('it needs two methods')
    return made


# ---------------------------------------------------------------------------------------------
# Estimates of other kinds.


def _spread(system: System) -> list[Estimate]:
    shots = system.shots(method='full', start='source')
    if len(shots) < 2:
        raise UserError('it needs two numbers of shots')
    pairs = [pair(system, lang, shots[0], shots[-1]) for lang in system.languages]
    ratios = [
        _Ratio.of(low.scores.tolist(), high.scores.tolist())
        for low, high in pairs
        if low and high and min(len(low.scores), len(high.scores)) > 1
    ]
    return [_mean_ratio(f'K={shots[0]} by K={shots[-1]}', ratios)]


class _Ratio(NamedTuple):
    """The logarithm of the ratio of two deviations, and its variance were the values normal."""

    value: float
    variance: float

    @classmethod
    def of(cls, above: Sequence[float], below: Sequence[float]) -> '_Ratio | None':
        """None where one of the two does not vary."""
        deviations = [statistics.stdev(values) for values in (above, below)]
        if not all(deviations):
            return None
        variance = sum(1 / (2 * (len(values) - 1)) for values in (above, below))
        return cls(math.log(deviations[0] / deviations[1]), variance)


def _mean_ratio(name: str, ratios: Iterable[_Ratio | None]) -> Estimate:
    known = [ratio for ratio in ratios if ratio]
    if not known:
        raise UserError('it needs two buckets of each group, with different scores')
    error = math.sqrt(sum(ratio.variance for ratio in known)) / len(known)
    return Estimate(
        f'log of the ratio of deviations, {name}:',
        statistics.fmean(ratio.value for ratio in known),
        error,
    )


def _seeds(system: System) -> list[Estimate]:
    ratios = []
    for lang, shots in system.adapted:
        if halves := figure_data.distributions(system.by_sweep[Group(lang, shots)]):
            seeds, buckets = halves[0].by_seed, halves[1].by_bucket
            above, below = ([row.dev_score for row in rows] for rows in (buckets, seeds))
            ratios.append(_Ratio.of(above, below))
    if not ratios:
        raise UserError('it needs dev scores of two seeds on one bucket, and of two buckets')
    return [_mean_ratio('buckets by seeds', ratios)]


def _early(system: System) -> list[Estimate]:
    if not system.adapted:
        raise UserError(parts.UNFINISHED)
    rows = [row for group in figure_data.fewest_shots(system) for row in group.by_bucket]
    if any(row.dev_score is None for row in rows):
        raise UserError('it needs dev scores')
    share = statistics.fmean(row.best_epoch == 1 for row in rows)
    error = math.sqrt(max(share * (1 - share), 0.25 / len(rows)) / len(rows))
    return [Estimate(f'{share:.0%} of {len(rows)}, less {_EARLY:.0%}:', share - _EARLY, error)]


def _factors(system: System) -> list[Estimate]:
    """Negative correlations by Fisher's transformation, whose error is known."""
    shots, made = system.shots(method='full', start='source'), []
    wanted = [factors.Factor('features'), *(factors.Factor('wordpiece', k) for k in shots[:1])]
    reasons = []
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
    if not made:
        raise UserError(next(iter(reasons), parts.UNFINISHED))
    return made


def _words(system: System) -> list[Estimate]:
    """Jaccard indices of figure 3, those on the diagonal less the others of their row."""
    if not system.adapted:
        raise UserError(parts.UNFINISHED)
    having, _ = figure_data.with_words(system)
    means, squares = [], []
    for group in having:
        words = figure_data.read_words(group)
        square = figure_data.overlaps(words.words, words.better[:_FIRST], words.buckets[:_FIRST])
        size = len(square)
        if size < 2:
            continue
        own = np.diag(square)
        ahead = own - (square.sum(1) - own) / (size - 1)
        means.append(float(ahead.mean()))
        squares.append(float(ahead.var(ddof=1)) / size)
    if not means:
        raise UserError('it needs two buckets of each group')
    error = math.sqrt(sum(squares)) / len(means)
    return [Estimate('Jaccard index with the same bucket minus that with others',
                     statistics.fmean(means), error, decimals=3)]  # fmt: skip


_Estimates = Callable[[System], Sequence[Estimate]]
# Claim, its estimates, and the kind of task that it is about; '' for both.
_CLAIMS: tuple[tuple[str, _Estimates, str], ...] = (
    ('few shots improve on zero-shot transfer (5.2)', _gain, ''),
    ('the first shot brings the largest improvement (5.2)', _first_step, ''),
    ('scores grow with K (5.2)', _growth, ''),
    ('with diminishing returns (5.2)', _diminishing, ''),
    ('the spread over buckets shrinks as K grows (5.2)', _spread, ''),
    ('buckets move scores more than seeds do (5.2, figure 1)', _seeds, ''),
    ('some adaptations to the fewest shots are best after one epoch (5.2)', _early, ''),
    ('languages in non-Latin scripts gain more (5.2)', _scripts, 'tagging'),
    ('languages that are more like English gain less (table 3)', _factors, 'tagging'),
    ('without source training scores are lower (5.3, table 4)', _source_training, ''),
    ('improved words are those of the same bucket (5.4, figure 3)', _words, 'tagging'),
    ('methods rank as full, FC+Pooler, FC, FC(reset)+Pooler, COS+Pooler (table 6)', _methods, ''),
)
