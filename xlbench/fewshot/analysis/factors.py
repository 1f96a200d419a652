"""Correlations of the gains of few-shot transfer: with lexical overlap and features of word order.

Tables 3 and 14 of arXiv:2012.15682.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from xlbench.benchmarks import FEWSHOT, languages
from xlbench.fewshot.analysis import groups, lexical, paper
from xlbench.fewshot.analysis.systems import System, about_gaps, gains
from xlbench.fewshot.results import Group
from xlbench.reporting.tables import Cell, Table
from xlbench.system import errors


class Factor(NamedTuple):
    """A quantity that gains may go with.

    Attributes:
      name: 'features', or a unit of lexical overlap.
      shots: K of the buckets that overlap; None for features.
    """

    name: str
    shots: int | None = None

    def __str__(self) -> str:
        if self.shots is None:
            return 'common features of word order'
        return f'lexical overlap with K={self.shots}, {self.name}s'

    def of(self, lang: str, system: System) -> float | None:
        """Returns the value of the factor for a language; None if it is unknown."""
        if self.shots is None:
            return languages.shared_features(lang)
        return system.overlaps.percent.get((self.name, lang, self.shots))


def correlations(
    system: System,
) -> Iterator[tuple[int | None, Factor, lexical.Correlation | str]]:
    """Yields K of the gains (None: their mean), a factor, their correlation or why none."""
    shots = system.way_shots
    for k in (None, *shots):
        of_units = [Factor(unit, n) for unit in lexical.UNITS for n in shots if k in (None, n)]
        for factor in (Factor('features'), *of_units):
            values = {lang: factor.of(lang, system) for lang in system.languages}
            try:
                yield k, factor, lexical.correlate(gains(system, k), values)
            except errors.UserError as error:
                yield k, factor, str(error)


def table(system: System) -> Table:
    """Makes table 3: correlations of the gains, averaged over K, with overlap and common features.

    The paper does not say which K its gains and overlaps are of. Gains averaged over K, and those
    features alone that are known, make its figures for features of its own tables 9, 12 and 13; the
    overlap with K=2 makes those for named entities. For parts of speech no K does: it gives -0.67
    and -0.54 where -0.63 and -0.50 are printed, and table 14 lacks a language.
    """
    title = 'Correlations of mean gains over zero-shot transfer (paper: table 3)'
    every = correlations(system)
    of_means = [(factor, value) for k, factor, value in every if k is None]
    left_out: dict[str, list[Factor]] = {}
    for factor, value in of_means:
        if isinstance(value, str):
            left_out.setdefault(value, []).append(factor)
    reasons = [f'No correlation with {_joined(of)}: {why}.' for why, of in left_out.items()]
    made = {factor: value for factor, value in of_means if not isinstance(value, str)}
    shots = system.way_shots
    if not shots:
        return Table(title, missing=groups.UNFINISHED)
    if not made:
        return Table(title, missing=' '.join(reasons).removesuffix('.'))
    columns = {
        ('', 'Spearman'): [Cell(value.spearman, decimals=2) for value in made.values()],
        ('', 'Pearson'): [Cell(value.pearson, decimals=2) for value in made.values()],
        ('', 'languages'): [groups.text(value.languages) for value in made.values()],
    }
    notes = [
        f'Gain: mean score with K shots minus the zero-shot score, averaged over '
        f'K={", ".join(map(str, shots))}; one point per language.'
    ]
    if system.data == 'official' and system.task in FEWSHOT.tagging:
        printed = {
            Factor('features'): paper.correlations()[system.task, 'features'],
            Factor('wordpiece', 2): paper.correlations()[system.task, 'overlap'],
        }
        for i, name in enumerate(('Spearman', 'Pearson')):
            both = [printed.get(factor, ('-', '-')) for factor in made]
            columns['paper', name] = [groups.text(numbers[i]) for numbers in both]
        notes.append(paper.CORRELATIONS_K)
    unknown = [lang for lang in system.languages if languages.shared_features(lang) is None]
    if unknown:
        notes.append(f'No common features, because none of the six is known: {", ".join(unknown)}.')
    notes += [*reasons, *about_gaps(system, **system.way._asdict())]
    return system.pivot(title, columns, notes, list(map(str, made)), 'factor')


def overlap_table(system: System) -> Table:
    """Makes table 14: the overlap of a language's buckets with the source training examples."""
    title = f'Lexical overlap with {system.source_name} in percent (paper: table 14)'
    overlaps = system.overlaps
    if not overlaps.percent:
        why = next(iter(overlaps.missing.values()), 'no adaptation is finished')
        return Table(title, missing=why)
    shots = sorted({k for _, _, k in overlaps.percent})
    columns = {}
    for unit in lexical.UNITS:
        for k in shots:
            of_unit = [overlaps.percent.get((unit, lang, k)) for lang in system.languages]
            columns[f'{unit}s', f'K={k}'] = [*map(groups.number, of_unit)]
    printed = {
        (lang, k): paper.overlaps().get((system.task, lang, k))
        for lang in system.languages
        for k in shots
        if system.compares(Group(lang, k))
    }
    if any(printed.values()):
        for k in shots:
            cells = [groups.text(printed.get((lang, k)) or '-') for lang in system.languages]
            columns['paper', f'K={k}'] = cells
    notes = [
        f'Share of the distinct words, or wordpieces, of the training examples in '
        f"{system.source_name} that occur in any of a language's buckets of K shots.",
        'Words are separated by spaces, so languages without spaces have long ones.',
        *(f'Without {lang}: {why}.' for lang, why in overlaps.missing.items()),
    ]
    return system.pivot(title, columns, notes, metric=False)


def _joined(factors: Sequence[Factor]) -> str:
    """Returns 'common features of word order; lexical overlap with K=1, 2, words'"""
    by_name: dict[str, list[Factor]] = {}
    for factor in factors:
        by_name.setdefault(factor.name, []).append(factor)
    texts = []
    for of in by_name.values():
        shots = ', '.join(str(factor.shots) for factor in of)
        texts.append(str(of[0]).replace(f'K={of[0].shots}', f'K={shots}'))
    return '; '.join(texts)
