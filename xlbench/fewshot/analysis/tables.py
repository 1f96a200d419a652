"""The tables of arXiv:2012.15682 from sweeps, and the paper's numbers where they may be compared.

Whatever cannot be made is a line that says why.

  about        table 1: the task, its metric, labels and languages
  source       table 7: source training in English, and the search of its learning rate
  scores       tables 2, 12 and 13: mean and standard deviation by language and shots K
  ranges       smallest and largest score, and the number of buckets
  growth       section 5.2: whether the mean grows with K, and the spread shrinks
  scripts      section 5.2: mean gains of languages in Latin script, and of the others
  starts       tables 4 and 11: adaptation of a model without source training
  methods      table 6: what is trained
  factors      table 3: gains against lexical overlap and common features of word order
  overlaps     table 14: lexical overlap
"""

import statistics
from collections.abc import Iterable, Sequence

from xlbench.benchmarks import FEWSHOT, languages, topics
from xlbench.fewshot.analysis import factors as factors_lib, lexical, paper
from xlbench.fewshot.analysis.factors import Factor, Overlaps
from xlbench.fewshot.analysis.groups import Adaptations, Group
from xlbench.fewshot.analysis.systems import System, about_gaps, about_groups, folder, gains, pair
from xlbench.fewshot.results import ZERO_SHOT
from xlbench.reporting import render
from xlbench.reporting.tables import Cell, Column, Row, Table, clean

_DECIMALS = 2
_CSV_FIELDS = (
    'system', 'data', 'task', 'language', 'shots', 'method', 'start', 'learning_rate', 'seed',
    'metric', 'buckets', 'empty', 'mean', 'standard_deviation', 'population_standard_deviation',
    'min', 'max', 'paper_mean', 'paper_standard_deviation',
)  # fmt: skip
_LATIN = 'latin'  # The script of English.
Columns = dict[tuple[str, str], list[Cell]]  # By group and label, a cell for each row.
_UNFINISHED = 'no adaptation of the whole model is finished'
_METHODS = {
    'full': 'full model',
    'fc': 'FC only',
    'fc_pooler': 'FC+Pooler',
    'cos_pooler': 'COS+Pooler',
    'fc_reset_pooler': 'FC(reset)+Pooler',
}


def all_tables(system: System, overlaps: Overlaps | None = None) -> list[Table]:
    """Every table of one system; those that cannot be made say why."""
    overlaps = overlaps or Overlaps(system)
    makers = (about, source, scores, ranges, growth, scripts, starts, methods)
    made = [make(system) for make in makers]
    return [*made, factors(system, overlaps), overlap_table(system, overlaps)]


def about(system: System) -> Table:
    """Table 1: the task, its metric, labels and languages."""
    title = 'The task (paper: table 1)'
    labels = {
        len(sweep.test_set(system.task, lang).labels)
        for sweep in system.sweeps
        for lang in system.languages
    }
    train = [lang in topics.train_languages(system.task) for lang in system.languages]
    facts = {
        'metric': system.metric,
        'labels': str(max(labels)) if max(labels, default=0) else '-',
        'target_training_sets': 'Yes' if all(train) else 'No',
        'languages': f'{len({*system.languages} | {FEWSHOT.pivot})}',
    }
    names = {
        'target_training_sets': 'training sets in target languages',
        'languages': 'languages, English among them',
    }
    columns, sources = [Column('', 'here')], [facts]
    if system.data == 'official':
        columns.append(Column('', 'paper'))
        sources.append(paper.tasks()[system.task])
    rows = [
        Row(names.get(key, key), 'fact', tuple(_text(source[key]) for source in sources))
        for key in facts
    ]
    return _finished(title, system, columns, rows, [], 'property', metric=False)


def source(system: System) -> Table:
    """Table 7: the English dev score of the source model, and the search of its learning rate."""
    title = 'Source training in English (paper: table 7)'
    if isinstance(system.source, str):
        return Table(title, missing=system.source)
    mine = system.source.workdir
    read = {path: system.read_source(path) for path in (mine, *system.searched)}
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
        dev, rate = paper.source()[system.task]
        printed = (rate, '128', '10', dev, '-', 'yes')
        rows.append(Row('paper', 'paper', tuple(map(_text, printed))))
    notes = [f'Without {path}: {why}.' for path, why in read.items() if isinstance(why, str)]
    missing = [run.dev for run in runs.values() if isinstance(run.dev, str)]
    notes += [f'No dev score: {why}.' for why in missing]
    rates = {run.learning_rate for run in runs.values()}
    notes.append(
        f'{len(rates)} learning rates were tried; the highest dev score chooses.'
        if len(rates) > 1
        else f'One learning rate was tried; {paper.LEARNING_RATES}. '
        'Others that were tried are shown with --searched WORKDIR.'
    )
    return _finished(title, system, columns, rows, notes, 'source training')


def scores(system: System) -> Table:
    """Tables 2, 12 and 13: a row a language, English first; zero-shot, and each K."""
    title = f'Scores by language and shots (paper: {paper.SCORES_IN.get(system.task, "table 2")})'
    shots = system.shots(method='full', start='source')
    columns, notes = {}, []
    names = system.languages
    if isinstance(system.english, str):
        notes.append(f'Without English: {system.english}.')
    elif system.groups:
        names = (FEWSHOT.pivot, *names)
        notes.append(
            'English is the language of source training: its score with K=0 is no transfer.'
        )
    for k in (0, *shots):
        of_k = [Group(lang, k, 'full' if k else ZERO_SHOT) for lang in names]
        has_paper = any(map(system.paper, of_k))
        head = (f'K={k}', 'ours') if has_paper else (system.metric, f'K={k}')
        columns[head] = [_score(system.groups.get(group)) for group in of_k]
        if names != system.languages and not k:
            columns[head][0] = _number(system.english[0])
        if has_paper:
            columns[f'K={k}', 'paper'] = [_printed(system.paper(group)) for group in of_k]
    notes += about_groups(system, method='full', start='source')
    return _table(title, system, columns, notes, _languages(names))


def ranges(system: System) -> Table:
    """Smallest and largest score and the number of buckets, by language and K."""
    title = 'Smallest and largest score, and number of buckets'
    shots = system.shots(method='full', start='source')
    if not shots:
        return Table(title, missing=_UNFINISHED)
    columns: Columns = {}
    for k in shots:
        stats = [system.groups.get(Group(lang, k)) for lang in system.languages]
        for name, least_or_most in (('min', min), ('max', max)):
            columns[f'K={k}', name] = [
                _number(least_or_most(s.scores) if s and s.rows else None) for s in stats
            ]
        columns[f'K={k}', 'buckets'] = [_text(len(s.scores)) if s else Cell() for s in stats]
    return _table(title, system, columns, about_groups(system, method='full', start='source'))


def growth(system: System) -> Table:
    """Section 5.2: whether the mean grows from K to K, and the standard deviation shrinks."""
    title = 'Whether the mean grows with K and the spread shrinks (paper: section 5.2)'
    shots = system.shots(method='full', start='source')
    if not shots:
        return Table(title, missing=_UNFINISHED)
    columns = {}
    steps = [*zip((0, *shots), shots, strict=False)]
    for group, value, of in (
        ('mean grows', lambda stats: stats.mean, steps),
        ('spread shrinks', lambda stats: _negative(stats.deviation), steps[1:]),
    ):
        for low, high in of:
            pairs = [pair(system, lang, low, high) for lang in system.languages]
            answers = [_grows(*map(value, both)) if all(both) else None for both in pairs]
            known = [answer for answer in answers if answer is not None]
            columns[group, f'K={low} to {high}'] = [
                *(_text({True: 'yes', False: 'no', None: '-'}[answer]) for answer in answers),
                _text(f'{sum(known)} of {len(known)}'),
            ]
    notes = [
        'The spread is the standard deviation over buckets, of the sample.',
        *about_gaps(system, method='full', start='source'),
    ]
    return _table(title, system, columns, notes, _languages((*system.languages, 'yes in')))


def scripts(system: System) -> Table:
    """Section 5.2: mean gains over zero-shot of languages in Latin script, and of the others."""
    title = 'Mean gains by script (paper: section 5.2)'
    shots = system.shots(method='full', start='source')
    every = {k: gains(system, k) for k in shots}
    is_latin = {
        lang: languages.get(lang).script == _LATIN for of_k in every.values() for lang in of_k
    }
    if len({*is_latin.values()}) < 2:
        what = 'in Latin script' if any(is_latin.values()) else 'in other scripts'
        why = f'all languages that are adapted to are {what}' if is_latin else _UNFINISHED
        return Table(title, missing=why)
    columns: Columns = {}
    for k in shots:
        halves = [[gain for lang, gain in every[k].items() if is_latin[lang] == x] for x in (1, 0)]
        columns[f'K={k}', 'gain'] = [
            _number(statistics.fmean(half), '+') if half else Cell() for half in halves
        ]
        columns[f'K={k}', 'languages'] = [_text(len(half)) for half in halves]
        if system.data == 'official' and (system.task, k) in paper.scripts():
            printed = paper.scripts()[system.task, k]
            columns[f'K={k}', 'paper'] = [_text(f'+{gain}') for gain in printed]
    notes = [
        'Gain: mean score with K shots less the zero-shot score, averaged over languages.',
        *about_gaps(system, method='full', start='source'),
    ]
    if system.data == 'official' and system.task == 'panx':
        notes.append(paper.SCRIPTS_OF_PANX)
    names = [('Latin script', 'count'), ('other scripts', 'count')]
    return _table(title, system, columns, notes, names)


def starts(system: System) -> Table:
    """Tables 4 and 11: adapted without source training, and how much worse that is."""
    title = 'Without source training, and the difference it makes (paper: tables 11 and 4)'
    shots = system.shots(method='full', start='none')
    if not shots:
        return Table(title, missing="no adaptation with the start 'none' is finished")
    known = [g.language for g in system.groups if (g.start, g.method) == ('none', 'full')]
    langs = [lang for lang in system.languages if lang in known]
    columns = {}
    for k in shots:
        none = [system.groups.get(Group(lang, k, 'full', 'none')) for lang in langs]
        source = [system.groups.get(Group(lang, k)) for lang in langs]
        columns[f'K={k}', 'none'] = [*map(_score, none)]
        columns[f'K={k}', 'source'] = [*map(_score, source)]
        columns[f'K={k}', 'difference'] = [*map(_difference, none, source)]
        gaps = [
            paper.gaps().get((system.task, lang, k))
            if all(system.compares(Group(lang, k, 'full', start)) for start in ('none', 'source'))
            else None
            for lang in langs
        ]
        if any(gaps):
            columns[f'K={k}', 'paper'] = [_text(gap or '-') for gap in gaps]
    notes = ['Difference: the mean without source training less that with it.']
    if any(cell.text.endswith('?') for cells in columns.values() for cell in cells):
        notes.append(paper.DOUBTFUL_GAPS)
    notes += about_groups(system, method='full')
    return _table(title, system, columns, notes, _languages(langs))


def methods(system: System) -> Table:
    """Table 6: what is trained in adaptation."""
    title = 'Methods of adaptation (paper: table 6)'
    names = [name for name in _METHODS if system.shots(method=name, start='source')]
    if len(names) < 2:
        only = f'only {names[0]} is' if names else 'none is'
        return Table(title, missing=f'it needs two methods, and {only} finished')
    langs = [
        lang
        for lang in system.languages
        if any(g.language == lang and g.method in names for g in system.groups)
    ]
    columns = {('zero-shot', 'K=0'): [_score(system.zero_shot(lang)) for lang in langs]}
    for name in names:
        for k in system.shots(method=name, start='source'):
            of_k = [Group(lang, k, name) for lang in langs]
            cells = [_score(system.groups.get(group)) for group in of_k]
            columns[_METHODS[name], f'K={k}'] = cells
            # Table 6 alone has other methods; for the full model it repeats table 2.
            if any(map(system.paper, of_k)):
                printed = [_printed(system.paper(group)) for group in of_k]
                columns[_METHODS[name], f'K={k} paper'] = printed
    notes = about_groups(system, start='source')
    return _table(title, system, columns, notes, _languages(langs))


def factors(system: System, overlaps: Overlaps) -> Table:
    """Table 3: correlations of the gains, averaged over K, with overlap and common features.

    The paper does not say which K its gains and overlaps are of. Gains averaged over K, and those
    features alone that are known, make its figures for features of its own tables 9, 12 and 13; the
    overlap with K=2 makes those for named entities. For parts of speech no K does: it gives -0.67
    and -0.54 where -0.63 and -0.50 are printed, and table 14 lacks a language.
    """
    title = 'What mean gains over zero-shot transfer go with (paper: table 3)'
    every = factors_lib.correlations(system, overlaps)
    of_means = [(factor, value) for k, factor, value in every if k is None]
    left_out: dict[str, list[Factor]] = {}
    for factor, value in of_means:
        if isinstance(value, str):
            left_out.setdefault(value, []).append(factor)
    reasons = [f'No correlation with {_joined(of)}: {why}.' for why, of in left_out.items()]
    made = {factor: value for factor, value in of_means if not isinstance(value, str)}
    shots = system.shots(method='full', start='source')
    if not shots:
        return Table(title, missing=_UNFINISHED)
    if not made:
        return Table(title, missing=' '.join(reasons).removesuffix('.'))
    columns = {
        ('', 'Spearman'): [Cell(value.spearman, decimals=2) for value in made.values()],
        ('', 'Pearson'): [Cell(value.pearson, decimals=2) for value in made.values()],
        ('', 'languages'): [_text(value.languages) for value in made.values()],
    }
    notes = [
        f'Gain: mean score with K shots less the zero-shot score, averaged over '
        f'K={", ".join(map(str, shots))}; a point a language.'
    ]
    if system.data == 'official' and system.task in FEWSHOT.tagging:
        printed = {
            Factor('features'): paper.correlations()[system.task, 'features'],
            Factor('wordpiece', 2): paper.correlations()[system.task, 'overlap'],
        }
        for i, name in enumerate(('Spearman', 'Pearson')):
            columns['paper', name] = [_text(printed.get(factor, ('-', '-'))[i]) for factor in made]
        notes.append(paper.CORRELATIONS_K)
    unknown = [lang for lang in system.languages if languages.shared_features(lang) is None]
    if unknown:
        notes.append(
            f'Left out of common features, as none of the six is known: {", ".join(unknown)}.'
        )
    notes += [*reasons, *about_gaps(system, method='full', start='source')]
    names = [(str(factor), 'factor') for factor in made]
    return _table(title, system, columns, notes, names, 'factor')


def overlap_table(system: System, overlaps: Overlaps) -> Table:
    """Table 14: the overlap of a language's buckets with the English training examples."""
    title = 'Lexical overlap with English in percent (paper: table 14)'
    if not overlaps.percent:
        why = next(iter(overlaps.missing.values()), 'no adaptation is finished')
        return Table(title, missing=why)
    shots = sorted({k for _, _, k in overlaps.percent})
    columns = {}
    for unit in lexical.UNITS:
        for k in shots:
            of_unit = [overlaps.percent.get((unit, lang, k)) for lang in system.languages]
            columns[f'{unit}s', f'K={k}'] = [*map(_number, of_unit)]
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
        'Of the different words, or wordpieces, of the English training examples, those that are '
        "in a language's buckets of K shots, all of them together.",
        'Words are what stands between spaces, so languages without spaces have long ones.',
        *(f'Without {lang}: {why}.' for lang, why in overlaps.missing.items()),
    ]
    return _table(title, system, columns, notes, metric=False)


def comma_separated(systems: Iterable[System]) -> str:
    """Every group of every system as one line: tidy, for other tools."""
    rows = []
    for system in systems:
        name = system.name or folder(system.sweeps[0])
        for group, stats in sorted(system.groups.items()):
            printed = system.paper(group) or ('', '')
            numbers = (stats.mean, '', '', '', '') if stats.rows else ('',) * 5
            if group.shots and stats.rows:
                spread = (stats.deviation, stats.population)
                numbers = (stats.mean, *spread, min(stats.scores), max(stats.scores))
            counts = (len(stats.scores), len(stats.empty)) if group.shots else ('', '')
            rows.append((
                name, system.data, system.task, *group, stats.learning_rate, stats.seed,
                system.metric, *counts, *numbers, *printed,
            ))  # fmt: skip
        if not isinstance(system.english, str):
            group = Group(FEWSHOT.pivot, 0, ZERO_SHOT)
            rows.append((
                name, system.data, system.task, *group, None, None, system.metric, '', '',
                system.english[0], '', '', '', '', *(system.paper(group) or ('', '')),
            ))  # fmt: skip
    return render.comma_separated(_CSV_FIELDS, rows)


def _table(
    title: str,
    system: System,
    columns: Columns,
    notes: Iterable[str],
    names: Sequence[tuple[str, str]] = (),
    head: str = 'language',
    metric: bool = True,
) -> Table:
    """A table of columns, a row for each (name, kind); without rows that miss every cell."""
    cells = zip(*columns.values(), strict=True)
    named = zip(names or _languages(system.languages), cells, strict=True)
    rows = [row for name, of_row in named if not (row := Row(*name, of_row)).is_missing]
    if not rows:
        return Table(title, missing='nothing of it is finished but empty buckets')
    heads = [Column(group, label) for group, label in columns]
    return _finished(title, system, heads, rows, notes, head, metric)


def _finished(
    title: str,
    system: System,
    columns: Sequence[Column],
    rows: Sequence[Row],
    notes: Iterable[str],
    head: str,
    metric: bool = True,
) -> Table:
    dropped = [f'{folder(sweep)}: {sweep.dropped}' for sweep in system.sweeps if sweep.dropped]
    signature = [f'Score: {system.signature}'] if metric else []
    return Table(
        title,
        tuple(columns),
        tuple(rows),
        head,
        notes=(system.about_data, *notes, *dropped, *signature),
        about=f'{system.title}. {title}',
    )


def _languages(names: Iterable[str]) -> list[tuple[str, str]]:
    """Rows of languages; another name is that of a count."""
    return [(name, 'language' if name in languages.LANGUAGES else 'count') for name in names]


def _joined(factors: Sequence[Factor]) -> str:
    """'common features of word order; lexical overlap with K=1, 2, words'"""
    by_name: dict[str, list[Factor]] = {}
    for factor in factors:
        by_name.setdefault(factor.name, []).append(factor)
    texts = []
    for of in by_name.values():
        shots = ', '.join(str(factor.shots) for factor in of)
        texts.append(str(of[0]).replace(f'K={of[0].shots}', f'K={shots}'))
    return '; '.join(texts)


def _score(stats: Adaptations | None) -> Cell:
    if stats is None or not stats.rows:
        return Cell()
    return Cell(stats.mean, stats.deviation, _DECIMALS)


def _printed(printed: tuple[str, str] | None) -> Cell:
    """A mean and a standard deviation of the paper."""
    return Cell() if printed is None else _text(' ±'.join(filter(None, printed)))


def _number(value: float | None, sign: str = '') -> Cell:
    return Cell(value, decimals=_DECIMALS, sign=sign)


def _text(value: object) -> Cell:
    return Cell(text=str(value))


def _difference(one: Adaptations | None, other: Adaptations | None) -> Cell:
    known = one and other and one.rows and other.rows
    return _number(one.mean - other.mean if known else None, '+')


def _grows(before: float | None, after: float | None) -> bool | None:
    return None if before is None or after is None else after > before


def _negative(value: float | None) -> float | None:
    return None if value is None else -value
