"""Makes tables of a paper, and the file that a regressor is fitted on, from judges' answers.

Ratings are shown as table 5 of arXiv:2108.07140 has them, means from 1 to 5; choices as table 6 of
arXiv:2202.05599, the share of times best minus worst, -1 to 1. An interval is over the items, each
with the mean of its judges: judges who disagree make no item more certain than it is. An agreement
that the answers do not define, as of judges who all gave one and the same rating, is NaN.
"""

import collections
import itertools
import json
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

import krippendorff
import numpy as np

from xlbench.judgement.answers import Judged
from xlbench.judgement.studies import Study
from xlbench.reporting import statistics as tests
from xlbench.reporting.notes import SAMPLE_DATA
from xlbench.reporting.statistics import half_width
from xlbench.reporting.tables import Cell, Column, Row, Table

# (system, aspect) -> number of the item -> the mean over its judges.
Values = Mapping[tuple[str, str], Mapping[int, float]]
_MEAN = 'mean'  # Of the aspects.
_Level = Literal['nominal', 'ordinal', 'interval', 'ratio']


def tables(study: Study, judged: Judged) -> list[Table]:
    """Makes the tables of ratings, agreement and significance."""
    values = _values(study, judged)
    notes = ([SAMPLE_DATA] if study.data == 'sample' else []) + list(judged.notes)
    made = [_scores(study, values, notes)]
    if study.scale.kind == 'best_worst':
        made.append(_counts(study, judged))
    made.append(_agreement(study, judged))
    if len(study.systems) > 1:
        made.append(_differences(study, values))
    return made


def rated_texts(study: Study, judged: Judged) -> str:
    """A line of JSON for each text that was judged: what `python -m xlbench.annotate fit` reads."""
    values = _values(study, judged)
    lines = []
    for index, item in enumerate(study.items):
        for system in item.shown:
            rated = {
                aspect.name: values[system, aspect.name][index]
                for aspect in study.scale.aspects
                if index in values.get((system, aspect.name), {})
            }
            if len(rated) == len(study.scale.aspects):
                line = {
                    'study': f'{study.title} {study.id}', 'data': study.data, 'task': item.task,
                    'id': item.id, 'lang': item.lang, 'system': system,
                    'references': item.references, 'prediction': item.texts[system],
                    'ratings': rated, 'judges': len(judged.judges),
                }  # fmt: skip
                lines.append(json.dumps(line, ensure_ascii=False))
    return ''.join(f'{line}\n' for line in lines)


def _values(study: Study, judged: Judged) -> dict[tuple[str, str], dict[int, float]]:
    """The mean over judges of each text; of choices 1 for the best, -1 for the worst, else 0."""
    values: dict[tuple[str, str], dict[int, float]] = collections.defaultdict(dict)
    for (index, system, aspect), of_judges in judged.ratings.items():
        values[system, aspect][index] = statistics.fmean(of_judges.values())
    for (index, aspect), pairs in judged.choices.items():
        for system in study.items[index].shown:
            points = [(best == system) - (worst == system) for best, worst in pairs.values()]
            values[system, aspect][index] = statistics.fmean(points)
    return dict(values)


def _scores(study: Study, values: Values, notes: Sequence[str]) -> Table:
    """A row a system; the aspects of each task, and over all tasks if there are several."""
    tasks = list(dict.fromkeys(item.task for item in study.items))
    groups = [(task, {task}) for task in tasks]
    groups += [('', set(tasks))] if len(tasks) > 1 else []
    aspects = [aspect.name for aspect in study.scale.aspects]
    is_rating = study.scale.kind == 'ratings'
    shown = [*aspects, *([_MEAN] if len(aspects) > 1 else [])]
    columns = {}
    for group, of_group in groups:
        for aspect in shown:
            of_aspects = aspects if aspect == _MEAN else [aspect]
            numbers = [_of_items(study, values, s, of_aspects, of_group) for s in study.systems]
            columns[Column(group, aspect, tuple(of_group))] = _cells(numbers, 2 if is_rating else 3)
    top = len(study.scale.aspects[0].levels)
    title = f'Ratings, 1 to {top}' if is_rating else 'Best-worst scores, -1 to 1'
    about = f'{len(study.items)} items; ± is half of the 95 % interval over items (Student).'
    if not is_rating:
        about = f'Share of times best minus share of times worst. {about}'
    return _by_system(title, study, columns, (*notes, about))


def _by_system(
    title: str, study: Study, columns: Mapping[Column, Sequence[Cell]], notes: Sequence[str] = ()
) -> Table:
    """Makes a table with a row a system."""
    cells = zip(*columns.values(), strict=True)
    rows = (Row(*row) for row in zip(study.systems, itertools.repeat('run'), cells))
    return Table(title, tuple(columns), tuple(rows), 'written by', tuple(notes))


def _of_items(
    study: Study, values: Values, system: str, aspects: Sequence[str], tasks: set[str]
) -> list[float]:
    """A number for each item of some tasks: the mean of its aspects, if all were judged."""
    of_aspects = [values.get((system, aspect), {}) for aspect in aspects]
    return [
        statistics.fmean(of_aspect[index] for of_aspect in of_aspects)
        for index, item in enumerate(study.items)
        if item.task in tasks and all(index in of_aspect for of_aspect in of_aspects)
    ]


def _cells(column: Sequence[Sequence[float]], decimals: int) -> list[Cell]:
    """A column of means with their intervals; the best of several is marked."""
    cells = [Cell.of(of, decimals)._replace(spread=half_width(of)) for of in column]
    known = [cell.value for cell in cells if cell.value is not None]
    return [cell._replace(best=len(known) > 1 and cell.value == max(known)) for cell in cells]


def _counts(study: Study, judged: Judged) -> Table:
    """Counts how often each system was shown, and chosen for each aspect."""
    columns = {}
    for aspect in (aspect.name for aspect in study.scale.aspects):
        counts = best_worst(
            (study.items[index].shown, best, worst)
            for (index, name), of_judges in judged.choices.items()
            if name == aspect
            for best, worst in of_judges.values()
        )
        for field in BestWorst._fields:
            columns[Column(aspect, field)] = [
                Cell(text=str(getattr(counts[system], field))) if system in counts else Cell()
                for system in study.systems
            ]
    return _by_system('Choices', study, columns)


def _agreement(study: Study, judged: Judged) -> Table:
    """Fleiss' kappa, Randolph's kappa and Krippendorff's alpha of each aspect."""
    aspects = [aspect.name for aspect in study.scale.aspects]
    level: _Level
    units: dict[str, Sequence[Mapping[str, int | str]]]
    if study.scale.kind == 'ratings':
        what, level, categories = 'texts', 'ordinal', len(study.scale.aspects[0].levels)
        about = (
            'kappa takes ratings as categories, and the texts that all judges rated; alpha '
            'takes them as ranks (ordinal), and all that two judges or more rated'
        )
        units = {
            aspect: [given for (_, _, name), given in judged.ratings.items() if name == aspect]
            for aspect in aspects
        }
    else:
        what, level, categories = 'choices', 'nominal', len(study.items[0].shown)
        about = (
            'kappa takes the choices that all judges made, and alpha (nominal) all that two '
            'judges or more made; best and worst together have each item twice'
        )
        units = {}
        for aspect in aspects:
            given = [pairs for (_, name), pairs in judged.choices.items() if name == aspect]
            best, worst = (
                [{judge: pair[i] for judge, pair in pairs.items()} for pairs in given]
                for i in (0, 1)
            )
            units |= {f'{aspect}, best': best, f'{aspect}, worst': worst}
            units[f'{aspect}, both'] = best + worst
    rows = (_agreement_row(*item, judged.judges, level, categories) for item in units.items())
    labels = ("Fleiss' kappa", "Randolph's kappa", "Krippendorff's alpha", what, 'of all judges')
    judges = f'{len(judged.judges)} judges: {", ".join(judged.judges)}.'
    said = (judges, f'Agreement: {about}.')
    return Table('Agreement', Column.named(labels), tuple(rows), 'aspect', said)


def _agreement_row(
    name: str,
    units: Sequence[Mapping[str, int | str]],
    judges: Sequence[str],
    level: _Level,
    categories: int,
) -> Row:
    """The agreement of judges on units, each {judge: answer}; an answer is one of `categories`."""
    labels = sorted({value for unit in units for value in unit.values()})
    number = {label: i for i, label in enumerate(labels)}
    whole = [unit for unit in units if len(unit) == len(judges)]
    counts = [[list(unit.values()).count(label) for label in labels] for unit in whole]
    kappas = (math.nan, math.nan)
    if counts and len(judges) > 1:
        kappas = fleiss_kappa(counts), randolph_kappa(counts, categories)
    # Categories have no values: their numbers stand for them.
    value = number.get if level == 'nominal' else lambda rating: rating
    table = [[value(unit[j]) if j in unit else None for unit in units] for j in judges]
    alpha = krippendorff_alpha(table, level) if units else math.nan
    numbers = (Cell(text=str(len(some))) for some in (units, whole))
    return Row(name, 'aspect', (*map(tests.coefficient, (*kappas, alpha)), *numbers))


def _differences(study: Study, values: Values) -> Table:
    aspects = [aspect.name for aspect in study.scale.aspects]
    rows = {
        f'{system} minus {other}': [
            tests.t_test(*(
                {str(i): value for i, value in values.get((name, aspect), {}).items()}
                for name in (system, other)
            ))
            for aspect in aspects
        ]
        for other, system in itertools.combinations(study.systems, 2)
    }  # fmt: skip
    decimals = 2 if study.scale.kind == 'ratings' else 3
    return tests.table('Differences', Column.named(aspects), rows, 't-test', decimals)


def fleiss_kappa(counts: Sequence[Sequence[int]]) -> float:
    """Agreement beyond chance on categories (Fleiss 1971), at most 1; 0 is chance.

    Args:
      counts: [unit, category], how many judges chose it; equally many judged every unit.
    """
    table = np.asarray(counts, float)
    return _beyond(_observed(table), np.square(table.sum(axis=0) / table.sum()).sum())


def randolph_kappa(counts: Sequence[Sequence[int]], categories: int = 0) -> float:
    """Agreement beyond chance where each category is as likely (Randolph 2005, eq. 6), at most 1.

    Args:
      counts: [unit, category], as for `fleiss_kappa`.
      categories: that a judge can choose from; 0 takes those of the table.
    """
    table = np.asarray(counts, float)
    return _beyond(_observed(table), 1 / (categories or table.shape[1]))


def _observed(table: np.ndarray) -> float:
    """The share of pairs of judges that agree, the mean over units."""
    judges = table.sum(axis=1)
    if not table.size or judges[0] < 2 or (judges != judges[0]).any():
        raise ValueError('every unit needs the same number of judges, two or more')
    judges = judges[0]
    return np.mean((np.square(table).sum(axis=1) - judges) / (judges * (judges - 1)))


def _beyond(observed: float, expected: float) -> float:
    return math.nan if expected == 1 else float((observed - expected) / (1 - expected))


def krippendorff_alpha(ratings: Sequence[Sequence[float | None]], level: _Level) -> float:
    """Agreement beyond chance for any number of judges, with gaps (Krippendorff 2011).

    Args:
      ratings: [judge, unit]; None where a judge did not rate.
      level: 'nominal' for categories, 'ordinal' for ratings on a scale, 'interval' or 'ratio'.
    """
    table = np.array(ratings, float)  # None becomes NaN, which is a gap.
    pairable = table[:, np.isfinite(table).sum(axis=0) > 1]
    if len(np.unique(pairable[np.isfinite(pairable)])) < 2:
        return math.nan
    return float(krippendorff.alpha(reliability_data=table, level_of_measurement=level))


class BestWorst(NamedTuple):
    """Counts of choices as best and as worst."""

    best: int
    worst: int
    shown: int

    @property
    def score(self) -> float:
        """-1 (always the worst) to 1 (always the best)."""
        return (self.best - self.worst) / self.shown


def best_worst(choices: Iterable[tuple[Iterable[str], str, str]]) -> dict[str, BestWorst]:
    """Counts choices (Kiritchenko and Mohammad 2017), as table 6 of arXiv:2202.05599 scores them.

    Args:
      choices: (what was shown, the best of it, the worst).

    Example: [('AB', 'A', 'B'), ('AB', 'A', 'B')] -> A: 2, 0, 2, score 1; B: 0, 2, 2, score -1
    """
    best, worst, shown = (collections.Counter[str]() for _ in range(3))
    for names, first, last in choices:
        shown.update(names)
        best[first] += 1
        worst[last] += 1
    return {name: BestWorst(best[name], worst[name], count) for name, count in shown.items()}
