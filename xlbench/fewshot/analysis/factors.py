"""Factors that gains of few-shot transfer go with: lexical overlap, and features of word order.

Tables 3 and 14 of arXiv:2012.15682.

  overlap    of the vocabulary V of all buckets of a language L and number of shots with that of the
             source language's training examples, in percent (section 5.2):
             |V_L and V_EN| / |V_EN| * 100
  features   of word order that L shares with it (languages.WALS; table 9)

A vocabulary has wordpieces, without the special ones. The paper does not say so, but some overlaps
of its table 14 are larger than all words of the published buckets could give.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence, Set

from xlbench.benchmarks import FEWSHOT, languages as languages_lib, topics
from xlbench.data import prepared
from xlbench.data.features import Example
from xlbench.fewshot.analysis import groups, paper
from xlbench.fewshot.analysis.systems import System, about_gaps, gains
from xlbench.fewshot.results import Group
from xlbench.reporting.statistics import Correlation, correlation
from xlbench.reporting.tables import Cell, Table
from xlbench.system import errors

MIN_LANGUAGES = 3  # Two points always lie on a line.
_CHUNK = 10_000  # Examples that are read at once.
_FEATURES = 'common features of word order'


def pieces(examples: Iterable[Example]) -> set[int]:
    """Returns the different wordpieces of prepared examples, without the special ones."""
    different: set[int] = set()
    for example in examples:
        ids, counts = example['inputs'].tolist(), example['piece_counts']
        # The last id is an end, the first may be a start; between two texts there is an end, too.
        is_pair = '\t' in example['inputs_pretokenized']
        specials = len(ids) - int(counts.sum())
        special = {ids[-1], ids[0]} if specials > (2 if is_pair else 1) else {ids[-1]}
        different |= set(ids) - special
    return different


def overlap(target: Set, source: Set) -> float:
    """Returns the share of the source language's vocabulary in the target's, 0 to 100."""
    return 100.0 * len(target & source) / len(source) if source else 0.0


# Keyed by `Prepared.content`, since sweeps of several languages or source models share much of it.
_kept: dict[str, frozenset[int]] = {}


def overlaps(
    open_prepared: Callable[[str, str], prepared.Prepared],
    task: str,
    source: str,
    languages: Sequence[str],
    shots: Sequence[int],
) -> dict[tuple[str, int], float]:
    """Returns (language, K) -> the overlap with the source language's training examples.

    Args:
      open_prepared: from the name of a SeqIO task and a split to its prepared examples.
      task: of the benchmark.
      source: ISO code of the language of source training.
      languages: ISO codes.
      shots: values of K.

    Raises:
      prepared.NotPrepared: some of it is not there.
    """

    def vocabulary(lang: str, split: str) -> frozenset[int]:
        examples = open_prepared(topics.task_name(task, lang), split)
        if examples.content not in _kept:
            seen: set[int] = set()
            for start in range(0, len(examples), _CHUNK):
                seen |= pieces(examples.read(range(start, min(start + _CHUNK, len(examples)))))
            _kept[examples.content] = frozenset(seen)
        return _kept[examples.content]

    of_source = vocabulary(source, 'train')
    return {
        (lang, k): overlap(vocabulary(lang, f'shots_{k}'), of_source)
        for lang in languages
        for k in shots
    }


def overlaps_of(system: System) -> tuple[dict[tuple[str, int], float], dict[str, str]]:
    """Returns `overlaps` of the languages whose buckets are at hand, and why others have none."""
    percent: dict[tuple[str, int], float] = {}
    missing: dict[str, str] = {}
    for sweep in system.sweeps:
        adapted = [row for row in sweep.rows if row.task == system.task and row.shots]
        for lang in dict.fromkeys(row.language for row in adapted):
            shots = sorted({row.shots for row in adapted if row.language == lang})
            try:
                percent |= overlaps(
                    sweep.open_prepared, system.task, system.source_language, [lang], shots
                )
            except (errors.UserError, OSError) as error:
                missing[lang] = str(error)
    known = {lang for lang, _ in percent}
    return percent, {lang: why for lang, why in missing.items() if lang not in known}


def correlate(
    gains: Mapping[str, float], factor: Mapping[str, float | None]
) -> tuple[Correlation, int]:
    """Returns correlations over the languages that have both, and how many; None is unknown.

    Raises:
      UserError: there are too few languages, or one side is the same for all of them.
    """
    known = [lang for lang in sorted(gains) if factor.get(lang) is not None]
    if len(known) < MIN_LANGUAGES:
        raise errors.UserError(
            f'it needs {MIN_LANGUAGES} languages whose factor is known, and there are '
            + (f'{len(known)} ({", ".join(known)})' if known else 'none')
        )
    x, y = [factor[lang] for lang in known], [gains[lang] for lang in known]
    if len(set(x)) == 1 or len(set(y)) == 1:
        raise errors.UserError(
            f'{", ".join(known)} have the same {"factor" if len(set(x)) == 1 else "gain"}, so '
            'there is no correlation'
        )
    return correlation(x, y), len(known)


def table(system: System) -> Table:
    """Makes table 3: correlations of the gains, averaged over K, with overlap and common features.

    The paper does not say which K its gains and overlaps are of. Gains averaged over K, and those
    features alone that are known, make its figures for features of its own tables 9, 12 and 13; the
    overlap with K=2 makes those for named entities. For parts of speech no K does: it gives -0.67
    and -0.54 where -0.63 and -0.50 are printed, and table 14 lacks a language.
    """
    title = 'Correlations of mean gains over zero-shot transfer (paper: table 3)'
    shots, langs = system.way_shots, system.languages
    if not shots:
        return Table(title, missing=groups.UNFINISHED)
    percent, _ = overlaps_of(system)
    features = {lang: languages_lib.shared_features(lang) for lang in langs}
    factors: dict[str, Mapping[str, float | None]] = {_FEATURES: features} | {
        _of_overlap(k): {lang: percent.get((lang, k)) for lang in langs} for k in shots
    }
    gained, made, left_out = gains(system, None), {}, {}
    for name, values in factors.items():
        try:
            made[name] = correlate(gained, values)
        except errors.UserError as error:
            left_out.setdefault(str(error), []).append(name)
    reasons = [f'No correlation with {"; ".join(of)}: {why}.' for why, of in left_out.items()]
    if not made:
        return Table(title, missing=' '.join(reasons).removesuffix('.'))
    columns = {
        ('', 'Spearman'): [Cell(found.spearman, decimals=2) for found, _ in made.values()],
        ('', 'Pearson'): [Cell(found.pearson, decimals=2) for found, _ in made.values()],
        ('', 'languages'): [groups.text(number) for _, number in made.values()],
    }
    notes = [
        f'Gain: mean score with K shots minus the zero-shot score, averaged over '
        f'K={", ".join(map(str, shots))}; one point per language.'
    ]
    if system.data == 'official' and system.task in FEWSHOT.tagging:
        printed = {
            _FEATURES: paper.correlations()[system.task, 'features'],
            _of_overlap(2): paper.correlations()[system.task, 'overlap'],
        }
        for i, name in enumerate(('Spearman', 'Pearson')):
            both = [printed.get(factor, ('-', '-')) for factor in made]
            columns['paper', name] = [groups.text(numbers[i]) for numbers in both]
        notes.append(paper.CORRELATIONS_K)
    if unknown := [lang for lang in langs if features[lang] is None]:
        notes.append(f'No common features, because none of the six is known: {", ".join(unknown)}.')
    notes += [*reasons, *about_gaps(system, **system.way._asdict())]
    return system.pivot(title, columns, notes, list(made), 'factor')


def _of_overlap(shots: int) -> str:
    return f'lexical overlap with K={shots}, wordpieces'


def overlap_table(system: System) -> Table:
    """Makes table 14: the overlap of a language's buckets with the source training examples."""
    title = f'Lexical overlap with {system.source_name} in percent (paper: table 14)'
    percent, missing = overlaps_of(system)
    if not percent:
        return Table(title, missing=next(iter(missing.values()), 'no adaptation is finished'))
    shots = sorted({k for _, k in percent})
    columns = {
        ('wordpieces', f'K={k}'): [
            groups.number(percent.get((lang, k))) for lang in system.languages
        ]
        for k in shots
    }
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
        f'Share of the distinct wordpieces of the training examples in {system.source_name} that '
        "occur in any of a language's buckets of K shots.",
        *(f'Without {lang}: {why}.' for lang, why in missing.items()),
    ]
    return system.pivot(title, columns, notes, metric=False)
