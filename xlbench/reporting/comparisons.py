"""Which differences between the systems of a section are significant.

A score that is a mean over examples is tested by what predictions.jsonl has of each. BLEU, chrF and
TER are no means: the counts behind them are resampled, as their signature says how they are made.
"""

import dataclasses
import itertools
import math
import statistics
from collections.abc import Callable, Mapping, Sequence

from sacrebleu.metrics import BLEU, CHRF, TER
from sacrebleu.metrics.base import Metric

from xlbench import errors
from xlbench.metrics.bleu import TOKENIZERS
from xlbench.reporting import predictions, significance
from xlbench.reporting.predictions import Prediction
from xlbench.reporting.results import Result
from xlbench.reporting.sections import Section
from xlbench.reporting.significance import Difference
from xlbench.reporting.statistics import paired_resampling
from xlbench.reporting.systems import System
from xlbench.reporting.tables import Table

_CLOSE = 1e-3  # Scores in metrics.json may be rounded.
_LABELS = {'bleu': 'SacreBleu', 'chrf': 'ChrF', 'ter': 'Ter'}  # Score -> how labels begin.


@dataclasses.dataclass(frozen=True)
class Texts:
    """What all runs of a system wrote for one task.

    Attributes:
        results: One for each seed.
        rows: For each seed the predictions by id.
    """

    results: Sequence[Result]
    rows: Sequence[Mapping[str, Prediction]]

    def values(self, score: str) -> dict[str, float] | None:
        """The score of each example, the mean over seeds; None if it is no mean of examples."""
        of_runs = []
        for result, rows in zip(self.results, self.rows, strict=True):
            numbers = {key: row.scores.get(score) for key, row in rows.items()}
            if None in numbers.values() or not numbers or score not in result.scores:
                return None
            if abs(statistics.fmean(numbers.values()) - result.scores[score]) > _CLOSE:
                return None
            of_runs.append(numbers)
        if not of_runs or any(numbers.keys() != of_runs[0].keys() for numbers in of_runs):
            return None
        return {key: statistics.fmean(n[key] for n in of_runs) for key in of_runs[0]}


def beside(
    sections: Sequence[Section],
    test: str,
    earlier: Sequence[Section] = (),
    label: str = '',
    scores: Sequence[str] = (),
) -> list[Section]:
    """The sections, each with a table of differences for each score that is compared.

    Args:
        sections: What is shown.
        test: One of `significance.TESTS`.
        earlier: The same runs at another step, to compare each run with itself.
        label: Of that step.
        scores: What is compared; none: of each section the main score.

    Raises:
        UserError: No section has one of the scores.
    """
    known = dict.fromkeys(score for section in sections for score in scores_of(section))
    for score in scores:
        if score not in known:
            raise errors.unknown('score in --scores', score, known)
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
    runs = [system for system in section.systems if system.kind == 'run']
    scored = [values for run in runs for of_seed in run.scores for values in of_seed.values()]
    return list(dict.fromkeys([*section.scores, *(name for values in scored for name in values)]))


def table(
    section: Section, score: str, test: str, other: Section | None = None, label: str = ''
) -> Table:
    """The differences of a score between the runs of a section.

    Args:
        section: What is shown.
        score: What is compared.
        test: One of `significance.TESTS`.
        other: The same runs at another step, to compare each run with itself; else every two runs
            are compared.
        label: Of that step.
    """
    runs = [system for system in section.systems if system.kind == 'run']
    if other is None:
        pairs = [
            (f'{second.name} minus {first.name}', second, first)
            for first, second in itertools.combinations(runs, 2)
        ]
    else:
        before = {system.name: system for system in other.systems if system.kind == 'run'}
        pairs = [
            (f'{system.name} minus {label}', system, before[system.name])
            for system in runs
            if system.name in before
        ]
    read: dict[tuple[int, str], Texts] = {}

    def texts(system: System, task: str) -> Texts:
        place = id(system), task
        if place not in read:
            read[place] = texts_of(system, task)
        return read[place]

    rows = {
        name: [_difference(texts, *pair, column.tasks, score, test) for column in section.columns]
        for name, *pair in pairs
    }
    notes = ()
    if any(cell is None for row in rows.values() for cell in row):
        notes = (
            'A - has no test: the runs were not scored on the same examples, have no scores of '
            'single examples, or (BLEU, chrF and TER) were averaged over seeds or tasks, or need '
            '--significance=bootstrap or randomization.',
        )
    title = f'Differences of {score}'
    return significance.table(title, section.columns, rows, test, section.decimals, notes)


def texts_of(system: System, task: str) -> Texts:
    """What all runs of a system wrote for one task."""
    results = [pick.results[task] for pick in system.picks if task in pick.results]
    return Texts(results, [predictions.of_result(result) for result in results])


def _difference(
    texts: Callable[[System, str], Texts],
    first: System,
    second: System,
    tasks: Sequence[str],
    score: str,
    test: str,
) -> Difference | None:
    """Of a column; several tasks count alike, so they need equally many examples."""
    sides = [[texts(system, task) for task in tasks] for system in (first, second)]
    of_tasks: tuple[dict[str, float], dict[str, float]] = ({}, {})
    counts = set()
    for task, *pair in zip(tasks, *sides, strict=True):
        values = [side.values(score) for side in pair]
        if None in values:
            return _of_corpus(*pair, score, test) if len(tasks) == 1 else None
        if values[0].keys() != values[1].keys():
            return None
        counts.add(len(values[0]))
        for pooled, of_task in zip(of_tasks, values, strict=True):
            pooled |= {f'{task} {key}': value for key, value in of_task.items()}
    return significance.of_means(*of_tasks, test) if len(counts) == 1 else None


def _of_corpus(first: Texts, second: Texts, score: str, test: str) -> Difference | None:
    """Of a score of sacreBLEU, for one run of each system."""
    if test == 't-test' or len(first.rows) != 1 or len(second.rows) != 1:
        return None
    metric = _scorer(first.results[0], score)
    (rows,), (others,) = first.rows, second.rows
    if metric is None or any(score not in side.results[0].scores for side in (first, second)):
        return None
    if not rows or rows.keys() != others.keys():
        return None
    references = [row.references or [row.target] for row in rows.values()]
    if references != [others[key].references or [others[key].target] for key in rows]:
        return None
    texts = [[side[key].prediction or '' for key in rows] for side in (others, rows)]
    streams = list(map(list, itertools.zip_longest(*references)))
    baseline, system = paired_resampling(*texts, streams, {score: metric}, test)[score]
    for side, resampled in ((second, baseline), (first, system)):
        if abs(side.results[0].scores[score] - resampled.score) > _CLOSE:
            return None  # Their metrics had other options, or the texts have changed.
    difference = system.score - baseline.score
    return difference, math.nan if texts[0] == texts[1] else system.p_value


def _scorer(result: Result, score: str) -> Metric | None:
    """What made a score, by its signature; None if sacreBLEU did not."""
    word = score.partition('_')[0].removesuffix('pp')  # chrF++ is chrF with other options.
    for name, signature in result.signatures.items():
        if name.startswith(_LABELS.get(word, '?')):
            parts = dict(part.split(':', 1) for part in signature.split('|') if ':' in part)
            try:
                return _of_signature(word, parts)
            except (KeyError, ValueError):  # It may be anybody's.
                return None
    return None


def _of_signature(word: str, parts: Mapping[str, str]) -> Metric:
    """sacreBLEU's metric with the options that its signature has.

    Example: 'bleu', {'case': 'mixed', 'tok': '13a', 'smooth': 'exp', ...} -> BLEU(tokenize='13a')
    """
    if word == 'bleu':
        if parts['tok'] not in TOKENIZERS:
            raise ValueError(parts['tok'])
        return BLEU(lowercase=parts['case'] == 'lc', tokenize=parts['tok'], force=True)
    if word == 'chrf':
        return CHRF(
            char_order=int(parts['nc']),
            word_order=int(parts['nw']),
            lowercase=parts['case'] == 'lc',
            whitespace=parts['space'] == 'yes',
        )
    return TER(
        normalized=parts['norm'] == 'yes',
        no_punct=parts['punct'] == 'no',
        asian_support=parts['asian'] == 'yes',
        case_sensitive=parts['case'] == 'mixed',
    )
