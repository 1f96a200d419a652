"""What the gains of few-shot transfer go with: lexical overlap, and features of word order."""

import functools
from collections.abc import Iterator
from typing import NamedTuple

from xlbench import errors
from xlbench.benchmarks import languages
from xlbench.data import prepared
from xlbench.fewshot.analysis import lexical
from xlbench.fewshot.analysis.systems import System, gains


class Overlaps:
    """Lexical overlap of a system's languages with English; read when it is first asked for."""

    def __init__(self, system: System):
        self._system = system

    @functools.cached_property
    def percent(self) -> dict[tuple[str, str, int], float]:
        """(unit, language, K) -> 0 to 100, of the languages whose buckets are at hand."""
        return self._read[0]

    @functools.cached_property
    def missing(self) -> dict[str, str]:
        """Language -> why there is no overlap."""
        return self._read[1]

    @functools.cached_property
    def _read(self) -> tuple[dict[tuple[str, str, int], float], dict[str, str]]:
        system, percent, missing = self._system, {}, {}
        for sweep in system.sweeps:
            groups = [row for row in sweep.rows if row.task == system.task and row.shots]
            for lang in dict.fromkeys(row.language for row in groups):
                shots = sorted({row.shots for row in groups if row.language == lang})
                try:
                    percent |= lexical.overlaps(sweep.open_prepared, system.task, [lang], shots)
                except (errors.UserError, prepared.NotPrepared, OSError) as error:
                    missing[lang] = str(error)
        known = {lang for _, lang, _ in percent}
        return percent, {lang: why for lang, why in missing.items() if lang not in known}


class Factor(NamedTuple):
    """What gains may go with.

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

    def of(self, lang: str, overlaps: Overlaps) -> float | None:
        """Its value for a language; None if it is unknown."""
        if self.shots is None:
            return languages.shared_features(lang)
        return overlaps.percent.get((self.name, lang, self.shots))


def correlations(
    system: System, overlaps: Overlaps
) -> Iterator[tuple[int | None, Factor, lexical.Correlation | str]]:
    """K of the gains, None for their mean over K; a factor; their correlation, or why none."""
    shots = system.shots(method='full', start='source')
    for k in (None, *shots):
        of_units = [Factor(unit, n) for unit in lexical.UNITS for n in shots if k in (None, n)]
        for factor in (Factor('features'), *of_units):
            values = {lang: factor.of(lang, overlaps) for lang in system.languages}
            try:
                yield k, factor, lexical.correlate(gains(system, k), values)
            except errors.UserError as error:
                yield k, factor, str(error)
