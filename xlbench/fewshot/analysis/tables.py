"""The tables of arXiv:2012.15682 from sweeps, and the paper's numbers where they may be compared.

In place of a table that cannot be made, one line says why. Tables 3 and 14 are in factors.py.

  about        table 1: the task, its metric, labels and languages
  source       table 7: source training in English, and the search of its learning rate
  scores       tables 2, 12 and 13: mean and standard deviation by language and shots K
  scripts      section 5.2: mean gains of languages in Latin script, and of the others
  starts       tables 4 and 11: adaptation of a model without source training
  methods      table 6: what is trained
"""

import statistics
from collections.abc import Callable, Iterable, Mapping

from xlbench.benchmarks import languages, topics
from xlbench.fewshot.analysis import factors, groups, paper
from xlbench.fewshot.analysis.sweeps import read_source
from xlbench.fewshot.analysis.systems import METHODS, System, about_gaps, about_groups, gains
from xlbench.fewshot.results import ZERO_SHOT, Group
from xlbench.metrics import tagging
from xlbench.reporting import render
from xlbench.reporting.tables import Cell, Column, Row, Table, clean

_CSV_FIELDS = (
    'system', 'data', 'task', 'language', 'shots', 'method', 'start', 'learning_rate', 'seed',
    'metric', 'buckets', 'empty', 'mean', 'standard_deviation', 'population_standard_deviation',
    'min', 'max', 'paper_mean', 'paper_standard_deviation',
)  # fmt: skip
_LATIN = 'latin'  # The script of the paper's source, English.


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
        len({*sweep.test_set(system.task, lang).labels} - {tagging.PAD})
        for sweep in system.sweeps
        for lang in system.languages
    }
    train = [lang in topics.train_languages(system.task) for lang in system.languages]
    facts = {
        'metric': system.metric,
        'labels': str(max(labels)) if max(labels, default=0) else '-',
        'target_training_sets': 'Yes' if all(train) else 'No',
        'languages': f'{len({*system.languages, system.source_language})}',
    }
    names = {
        'target_training_sets': 'training sets in target languages',
        'languages': f'languages, {system.source_name} among them',
    }
    columns, sources = [Column('', 'here')], [facts]
    if system.data == 'official':
        columns.append(Column('', 'paper'))
        sources.append(paper.tasks()[(system.task,)])
    rows = [
        Row(names.get(key, key), 'fact', tuple(groups.text(source[key]) for source in sources))
        for key in facts
    ]
    return system.table(title, columns, rows, [], 'property', metric=False)


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
        cells = [Cell() if number is None else groups.text(f'{number:.4g}') for number in numbers]
        cells += [groups.number(None if isinstance(x, str) else x[0]) for x in (run.dev, run.test)]
        name = clean(path).removesuffix('/source')
        rows.append(Row(name, 'run', (*cells, groups.text('yes' if path == mine else 'no'))))
    if system.data == 'official':
        dev, rate = paper.source()[(system.task,)]
        printed = (rate, '128', '10', dev, '-', 'yes')
        rows.append(Row('paper', 'paper', tuple(map(groups.text, printed))))
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
    if from_source and isinstance(system.source_score, str):
        notes.append(f'Without {system.source_name}: {system.source_score}.')
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
        columns[head] = [groups.score(system.stats(lang, k)) for lang in names]
        if names != system.every_language and not k:
            columns[head][0] = groups.number(system.source_score[0])
        if has_paper:
            columns[f'K={k}', 'paper'] = [groups.printed(system.paper(group)) for group in of_k]
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
        why = f'all languages that are adapted to are {what}' if is_latin else groups.UNFINISHED
        return Table(title, missing=why)
    columns: dict[tuple[str, str], list[Cell]] = {}
    for k, of_k in every.items():
        halves = [[gain for lang, gain in of_k.items() if is_latin[lang] == x] for x in (1, 0)]
        columns[f'K={k}', 'gain'] = [
            groups.number(statistics.fmean(half), '+') if half else Cell() for half in halves
        ]
        columns[f'K={k}', 'languages'] = [groups.text(len(half)) for half in halves]
        if system.data == 'official' and (system.task, k) in paper.scripts():
            printed = paper.scripts()[system.task, k]
            columns[f'K={k}', 'paper'] = [groups.text(f'+{gain}') for gain in printed]
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
        none, source = (
            [system.stats(lang, k, 'full', start) for lang in langs] for start in ('none', 'source')
        )
        columns[f'K={k}', 'none'] = [*map(groups.score, none)]
        columns[f'K={k}', 'source'] = [*map(groups.score, source)]
        columns[f'K={k}', 'difference'] = [
            groups.number(one.mean - other.mean if one and other else None, '+')
            for one, other in zip(none, source, strict=True)
        ]
        gaps = [
            paper.gaps().get((system.task, lang, k))
            if all(system.compares(Group(lang, k, 'full', start)) for start in ('none', 'source'))
            else None
            for lang in langs
        ]
        if any(gaps):
            columns[f'K={k}', 'paper'] = [groups.text(gap or '-') for gap in gaps]
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
    columns = {('zero-shot', 'K=0'): [groups.score(system.stats(lang, 0)) for lang in langs]}
    for name in names:
        for k in system.shots(method=name, start='source'):
            of_k = [Group(lang, k, name) for lang in langs]
            columns[METHODS[name], f'K={k}'] = [groups.score(system.stats(*g)) for g in of_k]
            # Table 6 alone has other methods; for the full model it repeats table 2.
            if any(map(system.paper, of_k)):
                printed = [groups.printed(system.paper(group)) for group in of_k]
                columns[METHODS[name], f'K={k} paper'] = printed
    return system.pivot(title, columns, about_groups(system, start='source'), langs)


# By the names in `PaperTable.made_by`.
MAKERS: Mapping[str, Callable[[System], Table]] = {
    'about': about,
    'source': source,
    'scores': scores,
    'scripts': scripts,
    'starts': starts,
    'methods': methods,
    'correlations': factors.table,
    'overlap': factors.overlap_table,
}


def comma_separated(systems: Iterable[System]) -> str:
    """Writes every group of every system as one line: tidy, for other tools."""
    rows = []
    for system in systems:
        for group, stats in sorted(system.groups.items()):
            printed = system.paper(group) or ('', '')
            numbers = (stats.mean, '', '', '', '') if stats.rows else ('',) * 5
            if group.shots and stats.rows:
                spread = (stats.deviation, stats.population)
                numbers = (stats.mean, *spread, min(stats.scores), max(stats.scores))
            counts = (len(stats.scores), len(stats.empty)) if group.shots else ('', '')
            rows.append((
                system.label, system.data, system.task, *group, stats.learning_rate, stats.seed,
                system.metric, *counts, *numbers, *printed,
            ))  # fmt: skip
        group = Group(system.source_language, 0, ZERO_SHOT)
        if group not in system.groups and not isinstance(system.source_score, str):
            rows.append((
                system.label, system.data, system.task, *group, None, None, system.metric, '', '',
                system.source_score[0], '', '', '', '', *(system.paper(group) or ('', '')),
            ))  # fmt: skip
    return render.comma_separated(_CSV_FIELDS, rows)
