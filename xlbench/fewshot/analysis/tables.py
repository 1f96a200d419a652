"""The tables of arXiv:2012.15682 from sweeps, and the paper's numbers where they may be compared.

In place of a table that cannot be made, one line says why. All of them are in `MAKERS`.
"""

import statistics
from collections.abc import Callable, Iterable, Mapping, Set

from xlbench.benchmarks import FEWSHOT, languages, topics
from xlbench.data import prepared
from xlbench.data.features import Example
from xlbench.fewshot.analysis import paper
from xlbench.fewshot.analysis.sweeps import Adaptations, read_source
from xlbench.fewshot.analysis.systems import METHODS, System, about_gaps, about_groups, gains
from xlbench.fewshot.results import Group
from xlbench.metrics import tagging
from xlbench.reporting.statistics import Correlation, correlation
from xlbench.reporting.tables import Cell, Column, Row, Table, clean
from xlbench.system.errors import UserError

MIN_LANGUAGES = 3  # Of a correlation: two points always lie on a line.
_CHUNK = 10_000  # Examples that are read at once.
_DECIMALS = 2
_FEATURES = 'common features of word order'
_LATIN = 'latin'  # The script of the paper's source, English.
_UNFINISHED = 'no adaptation of the whole model is finished'


def all_tables(system: System) -> list[Table]:
    """Makes every table of one system; those that cannot be made say why."""
    return [make(system) for make in MAKERS.values()]


def of_results(system: System) -> list[Table]:
    """Makes the tables that need nothing but the results, as far as they can be made."""
    made = (make(system) for make in (scores, starts, methods))
    return [table for table in made if not table.missing]


def about(system: System) -> Table:
    """Makes table 1: the task, its metric, labels and languages."""
    title = 'The task (paper: table 1)'
    labels = {
        len({*sweep.test_set(lang).labels} - {tagging.PAD})
        for sweep in system.sweeps
        for lang in system.languages
    }
    train = [lang in topics.train_languages(system.task) for lang in system.languages]
    facts: dict[str, str | int] = {
        'metric': system.metric,
        'labels': max(labels, default=0) or '-',
        'training sets in target languages': 'Yes' if all(train) else 'No',
        f'languages, {system.source_name} among them': len(
            {*system.languages, system.source_language}
        ),
    }
    columns = {'here': list(facts.values())}
    if system.data == 'official':
        printed = paper.tasks()[(system.task,)]
        keys = ('metric', 'labels', 'target_training_sets', 'languages')
        columns['paper'] = [printed[key] for key in keys]
    rows = [
        Row(name, 'fact', tuple(map(_text, values)))
        for name, *values in zip(facts, *columns.values(), strict=True)
    ]
    return system.table(title, Column.named(columns), rows, [], 'property', metric=False)


def source(system: System) -> Table:
    """Makes table 7: dev scores of source models, the search of the learning rate."""
    title = f'Source training in {system.source_name} (paper: table 7)'
    if isinstance(system.source, str):
        return Table(title, missing=system.source)
    mine = system.source.workdir
    language, paths = system.source_language, (mine, *system.searched)
    read = {path: read_source(path, system.task, language) for path in paths}
    runs = {path: run for path, run in read.items() if not isinstance(run, str)}
    labels = ('learning rate', 'batch size', 'epochs', f'dev {system.metric}')
    columns = [Column('', label) for label in (*labels, f'test {system.metric}', 'adapted')]
    rows = []
    for path, run in runs.items():
        numbers = (run.learning_rate, run.batch_size, run.epochs)
        cells = [Cell() if number is None else _text(f'{number:.4g}') for number in numbers]
        cells += [_number(None if isinstance(x, str) else x[0]) for x in (run.dev, run.test)]
        name = clean(path).removesuffix('/source')
        rows.append(Row(name, 'run', (*cells, _text('yes' if path == mine else 'no'))))
    if system.data == 'official':
        dev, rate = paper.source()[(system.task,)]
        printed = (rate, '128', '10', dev, '-', 'yes')
        rows.append(Row('paper', 'paper', tuple(map(_text, printed))))
    notes = [f'Without {path}: {why}.' for path, why in read.items() if isinstance(why, str)]
    missing = [run.dev for run in runs.values() if isinstance(run.dev, str)]
    notes += [f'No dev score: {why}.' for why in missing]
    rates = {run.learning_rate for run in runs.values()}
    notes.append(
        f'{len(rates)} learning rates were tried; the one with the highest dev score was selected.'
        if len(rates) > 1
        else f'One learning rate was tried; {paper.LEARNING_RATES}. '
        'config.adapt.source_learning_rates tries several; runs of xlbench.train are shown with '
        '--searched WORKDIR.'
    )
    return system.table(title, columns, rows, notes, 'source training')


def scores(system: System) -> Table:
    """Makes tables 2, 12 and 13: a row a language, the source first; zero-shot, and each K."""
    title = f'Scores by language and shots (paper: {paper.SCORES_IN.get(system.task, "table 2")})'
    columns, notes = {}, []
    names = system.every_language
    from_source = system.source_language not in names  # What source training says of it.
    trained = system.source_score
    if from_source and isinstance(trained, str):
        notes.append(f'Without {system.source_name}: {trained}.')
    elif system.groups:
        names = (system.source_language, *names) if from_source else names
        if from_source or system.source_language in system.source_languages:
            notes.append(
                f'{system.source_name} is the language of source training: its score with K=0 is '
                'not a transfer.'
            )
    for k in (0, *system.way_shots):
        of_k = [system.group(lang, k) for lang in names]
        has_paper = any(map(system.paper, of_k))
        head = (f'K={k}', 'ours') if has_paper else (system.metric, f'K={k}')
        columns[head] = [_score(system.stats(group)) for group in of_k]
        if names != system.every_language and not k and not isinstance(trained, str):
            columns[head][0] = _number(trained[0])
        if has_paper:
            columns[f'K={k}', 'paper'] = [_printed(system.paper(group)) for group in of_k]
    notes += about_groups(system, **system.way._asdict())
    return system.pivot(title, columns, notes, names)


def scripts(system: System) -> Table:
    """Compares mean gains of languages in Latin script with those of others: section 5.2."""
    title = 'Mean gains by script (paper: section 5.2)'
    every = {k: gains(system, k) for k in system.way_shots}
    is_latin = {
        lang: languages.get(lang).script == _LATIN for of_k in every.values() for lang in of_k
    }
    if len({*is_latin.values()}) < 2:
        what = 'in Latin script' if any(is_latin.values()) else 'in other scripts'
        why = f'all languages that are adapted to are {what}' if is_latin else _UNFINISHED
        return Table(title, missing=why)
    columns: dict[tuple[str, str], list[Cell]] = {}
    for k, of_k in every.items():
        halves = [[gain for lang, gain in of_k.items() if is_latin[lang] == x] for x in (1, 0)]
        columns[f'K={k}', 'gain'] = [
            _number(statistics.fmean(half), '+') if half else Cell() for half in halves
        ]
        columns[f'K={k}', 'languages'] = [_text(len(half)) for half in halves]
        if system.data == 'official' and (system.task, k) in paper.scripts():
            printed = paper.scripts()[system.task, k]
            columns[f'K={k}', 'paper'] = [_text(f'+{gain}') for gain in printed]
    notes = [
        'Gain: mean score with K shots minus the zero-shot score, averaged over languages.',
        *about_gaps(system, **system.way._asdict()),
    ]
    if system.data == 'official' and system.task == 'panx':
        notes.append(paper.SCRIPTS_OF_PANX)
    return system.pivot(title, columns, notes, ('Latin script', 'other scripts'))


def starts(system: System) -> Table:
    """Makes tables 4 and 11: adapted without source training, and how much worse that is."""
    title = 'Without source training, and the difference it makes (paper: tables 11 and 4)'
    shots = system.shots(method='full', start='none')
    if not shots:
        return Table(title, missing="no adaptation with the start 'none' is finished")
    known = [g.language for g in system.groups if (g.start, g.method) == ('none', 'full')]
    langs = [lang for lang in system.every_language if lang in known]
    columns = {}
    for k in shots:
        pairs = [(Group(lang, k, start='none'), Group(lang, k)) for lang in langs]
        none, source = (list(map(system.stats, groups)) for groups in zip(*pairs, strict=True))
        columns[f'K={k}', 'none'] = [*map(_score, none)]
        columns[f'K={k}', 'source'] = [*map(_score, source)]
        columns[f'K={k}', 'difference'] = [
            _number(one.mean - other.mean if one and other else None, '+')
            for one, other in zip(none, source, strict=True)
        ]
        gaps = [
            paper.gaps().get((system.task, lang, k)) if all(map(system.compares, pair)) else None
            for lang, pair in zip(langs, pairs, strict=True)
        ]
        if any(gaps):
            columns[f'K={k}', 'paper'] = [_text(gap or '-') for gap in gaps]
    notes = ['Difference: the mean without source training minus that with it.']
    if any(cell.text.endswith('?') for cells in columns.values() for cell in cells):
        notes.append(paper.DOUBTFUL_GAPS)
    notes += about_groups(system, method='full')
    return system.pivot(title, columns, notes, langs)


def methods(system: System) -> Table:
    """Makes table 6: what is trained in adaptation."""
    title = 'Methods of adaptation (paper: table 6)'
    names = [name for name in METHODS if system.shots(method=name, start='source')]
    if len(names) < 2:
        only = f'only {names[0]} is' if names else 'none is'
        return Table(title, missing=f'it needs two methods, and {only} finished')
    langs = [
        lang
        for lang in system.every_language
        if any(g.language == lang and g.method in names for g in system.groups)
    ]
    zero_shot = [_score(system.stats(system.group(lang, 0))) for lang in langs]
    columns = {('zero-shot', 'K=0'): zero_shot}
    for name in names:
        for k in system.shots(method=name, start='source'):
            of_k = [Group(lang, k, name) for lang in langs]
            columns[METHODS[name], f'K={k}'] = [_score(system.stats(group)) for group in of_k]
            # Table 6 alone has other methods; for the full model it repeats table 2.
            if any(map(system.paper, of_k)):
                printed = [_printed(system.paper(group)) for group in of_k]
                columns[METHODS[name], f'K={k} paper'] = printed
    return system.pivot(title, columns, about_groups(system, start='source'), langs)


# -----------------------------------------------------------------------------------------------
# What the gains go with.


def pieces(examples: Iterable[Example]) -> set[int]:
    """Returns the different wordpieces of prepared examples, without the special ones.

    The paper does not say that its vocabularies have wordpieces, but some overlaps of its table 14
    are larger than all words of the published buckets could give.
    """
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
    """Returns |target and source| / |source| of two vocabularies in percent (section 5.2)."""
    return 100.0 * len(target & source) / len(source) if source else 0.0


# Keyed by `Prepared.content`, since sweeps of several languages or source models share much of it.
_kept: dict[str, frozenset[int]] = {}


def vocabulary(examples: prepared.Prepared) -> frozenset[int]:
    """Returns the wordpieces of a split, such as that of all buckets of a number of shots."""
    if examples.content not in _kept:
        seen: set[int] = set()
        for start in range(0, len(examples), _CHUNK):
            seen |= pieces(examples.read(range(start, min(start + _CHUNK, len(examples)))))
        _kept[examples.content] = frozenset(seen)
    return _kept[examples.content]


def overlaps(system: System) -> tuple[dict[tuple[str, int], float], dict[str, str]]:
    """Returns (language, K) -> the overlap of its buckets with the source training examples.

    The second value says why a language has none: its prepared data is not at hand.
    """
    percent: dict[tuple[str, int], float] = {}
    missing: dict[str, str] = {}
    for sweep in system.sweeps:
        shots: dict[str, set[int]] = {}
        for row in sweep.rows:
            if row.shots:
                shots.setdefault(row.language, set()).add(row.shots)
        for lang, of_lang in shots.items():
            try:
                source = vocabulary(sweep.open_prepared(system.source_language, 'train'))
                words = {k: vocabulary(sweep.open_prepared(lang, f'shots_{k}')) for k in of_lang}
                percent |= {(lang, k): overlap(of_k, source) for k, of_k in words.items()}
            except (UserError, OSError) as error:
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
    known = {lang: value for lang in sorted(gains) if (value := factor.get(lang)) is not None}
    if len(known) < MIN_LANGUAGES:
        raise UserError(
            f'it needs {MIN_LANGUAGES} languages whose factor is known, and there are '
            + (f'{len(known)} ({", ".join(known)})' if known else 'none')
        )
    x, y = [*known.values()], [gains[lang] for lang in known]
    if len(set(x)) == 1 or len(set(y)) == 1:
        raise UserError(
            f'{", ".join(known)} have the same {"factor" if len(set(x)) == 1 else "gain"}, so '
            'there is no correlation'
        )
    return correlation(x, y), len(known)


def correlations(system: System) -> Table:
    """Makes table 3: correlations of the gains, averaged over K, with overlap and common features.

    The paper does not say which K its gains and overlaps are of. Gains averaged over K, and those
    features alone that are known, make its figures for features of its own tables 9, 12 and 13; the
    overlap with K=2 makes those for named entities. For parts of speech no K does: it gives -0.67
    and -0.54 where -0.63 and -0.50 are printed, and table 14 lacks a language.
    """
    title = 'Correlations of mean gains over zero-shot transfer (paper: table 3)'
    shots, langs = system.way_shots, system.languages
    if not shots:
        return Table(title, missing=_UNFINISHED)
    percent, _ = overlaps(system)
    features = {lang: languages.shared_features(lang) for lang in langs}  # languages.WALS; table 9.
    factors: dict[str, Mapping[str, float | None]] = {_FEATURES: features} | {
        _of_overlap(k): {lang: percent.get((lang, k)) for lang in langs} for k in shots
    }
    gained, made = gains(system, None), {}
    left_out: dict[str, list[str]] = {}
    for name, values in factors.items():
        try:
            made[name] = correlate(gained, values)
        except UserError as error:
            left_out.setdefault(str(error), []).append(name)
    reasons = [f'No correlation with {"; ".join(of)}: {why}.' for why, of in left_out.items()]
    if not made:
        return Table(title, missing=' '.join(reasons).removesuffix('.'))
    columns = {
        ('', 'Spearman'): [Cell(found.spearman, decimals=2) for found, _ in made.values()],
        ('', 'Pearson'): [Cell(found.pearson, decimals=2) for found, _ in made.values()],
        ('', 'languages'): [_text(number) for _, number in made.values()],
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
            columns['paper', name] = [_text(numbers[i]) for numbers in both]
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
    percent, missing = overlaps(system)
    if not percent:
        return Table(title, missing=next(iter(missing.values()), 'no adaptation is finished'))
    shots = sorted({k for _, k in percent})
    columns = {
        ('wordpieces', f'K={k}'): [_number(percent.get((lang, k))) for lang in system.languages]
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
            cells = [_text(printed.get((lang, k)) or '-') for lang in system.languages]
            columns['paper', f'K={k}'] = cells
    notes = [
        f'Share of the distinct wordpieces of the training examples in {system.source_name} that '
        "occur in any of a language's buckets of K shots.",
        *(f'Without {lang}: {why}.' for lang, why in missing.items()),
    ]
    return system.pivot(title, columns, notes, metric=False)


# By the names in `PaperTable.made_by`.
MAKERS: Mapping[str, Callable[[System], Table]] = {
    'about': about, 'source': source, 'scores': scores, 'scripts': scripts, 'starts': starts,
    'methods': methods, 'correlations': correlations, 'overlap': overlap_table,
}  # fmt: skip


# -----------------------------------------------------------------------------------------------
# Cells.


def _score(stats: Adaptations | None) -> Cell:
    """Returns mean and standard deviation over buckets."""
    return Cell.of(stats.scores.tolist() if stats else (), _DECIMALS)


def _printed(of_paper: tuple[str, str] | None) -> Cell:
    """Returns a mean and a standard deviation, as the paper prints them."""
    return Cell() if of_paper is None else _text(' ±'.join(filter(None, of_paper)))


def _number(value: float | None, sign: str = '') -> Cell:
    """Returns a number; '+' as the sign also writes that of positive ones."""
    return Cell(value, decimals=_DECIMALS, sign=sign)


def _text(value: str | int) -> Cell:
    """Returns a text, or a whole number."""
    return Cell(text=str(value))
