"""From runs to tables: which systems, which columns, and what has to be said beside them.

A `Section` is everything about one benchmark and split; `grids` are its tables as text cells that
report.py and page.py only have to set. Most benchmarks have a table a score: a row a system, a
column a language. Those that say so (`Benchmark.tables`) have, as in their paper, a row a language
and a few scores of each training setting side by side; there a run is one piece of a column, and a
section is about one model.
"""

import dataclasses
import itertools
import json
import pathlib
import re
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from xlbench import benchmarks, errors
from xlbench.data import baselines
from xlbench.reporting.results import LOSSES, Result, Run

_LANG = re.compile(r'\blang:(\w+)')
# Training settings as columns, in the order of the tables of arXiv:2106.02017.
_SETTINGS = {
    'mono': 'Monolingual',
    'zero_shot': 'Zero-Shot',
    'mt': 'MT',
    'multi': 'Multilingual',
}


# Scores that are best at 100; LOSSES are best where they are lowest. Of a user's own score nobody
# knows which it is.
_HIGHER = re.compile(
    r'(rouge|bleu|chrf|distinct|dist|mrs|accuracy|macro_f1|chunk|tag_accuracy|mrr|p_at|recall|set|'
    r'macro_mrr)(_.*)?'
)


class Cell(NamedTuple):
    """Mean over runs, and their sample standard deviation (None for a single run)."""

    mean: float
    deviation: float | None = None


@dataclasses.dataclass(frozen=True)
class Pick:
    """One run at the step that is reported."""

    run: Run
    step: int
    split: str
    results: Mapping[str, Result]  # By task.


@dataclasses.dataclass(frozen=True)
class System:
    """One row of a table, or one setting of a table with a row a language.

    Attributes:
        name: What it is called.
        kind: 'run', 'baseline' or 'paper'.
        scores: For each seed the scores by task: task -> score -> value.
        picks: The runs, for the kind 'run'.
        doubtful: (task, score) of what is printed in a paper but can hardly be meant.
        examples: Task -> the numbers of examples that its scores are of, one where all runs agree;
            nothing for a paper.
    """

    name: str
    kind: str
    scores: tuple[Mapping[str, Mapping[str, float]], ...]
    picks: tuple[Pick, ...] = ()
    doubtful: frozenset[tuple[str, str]] = frozenset()
    examples: Mapping[str, tuple[int, ...]] = dataclasses.field(default_factory=dict)

    def count(self, tasks: Sequence[str]) -> str:
        """How many examples the tasks have together; '-' if that is not known of one of them."""
        counts = [self.examples.get(task, (0,)) for task in tasks]
        if not all(min(numbers, default=0) for numbers in counts):
            return '-'
        low, high = (sum(map(choose, counts)) for choose in (min, max))
        return str(low) if low == high else f'{low}-{high}'

    def value(self, score: str, tasks: Sequence[str]) -> Cell | None:
        """The mean of a score over tasks; None if the system lacks one of them."""
        values = []
        for run in self.scores:
            if not all(task in run for task in tasks):
                continue  # Some languages of a column may have more seeds than others.
            found = [run[task].get(score) for task in tasks]
            if None in found:
                return None
            values.append(statistics.fmean(found))
        if not values:
            return None
        deviation = statistics.stdev(values) if len(values) > 1 else None
        return Cell(statistics.fmean(values), deviation)

    def show(self, score: str, tasks: Sequence[str], decimals: int) -> str:
        """The text of a cell: '-' for what is missing, a ? behind what is doubtful."""
        cell = self.value(score, tasks)
        if cell is None:
            return '-'
        mark = '?' if any((task, score) in self.doubtful for task in tasks) else ''
        spread = '' if cell.deviation is None else f' ±{cell.deviation:.{decimals}f}'
        return f'{cell.mean:.{decimals}f}{spread}{mark}'


class Column(NamedTuple):
    """One column: a task and language pair, or an average over several; or a setting's score."""

    group: str
    label: str
    tasks: tuple[str, ...]


class Grid(NamedTuple):
    """A table as text: rows of (name, kind, cells), one cell for each column.

    `head` is what the names of the rows are; `best` has the places (row, column) of the best scores
    among the runs and baselines that were scored on as many examples.
    """

    scores: tuple[str, ...]
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, str, tuple[str, ...]], ...]
    head: str = 'system'
    best: frozenset[tuple[int, int]] = frozenset()

    @property
    def title(self) -> str:
        """The scores that it shows."""
        return ', '.join(self.scores)


@dataclasses.dataclass(frozen=True)
class Section:
    """All tables of one benchmark and split.

    Attributes:
        title: Name of the benchmark, and its paper.
        split: The split that was scored.
        columns: Task and language pairs with their averages.
        systems: Runs, then baselines, then the paper's systems.
        scores: Scores to show, the main one first.
        notes: Sentences that belong beside the tables, about the data first.
        data: 'sample', 'official' or 'other'.
        tables: Scores that share a table with a row a language; none: a table a score.
        decimals: Of the cells.
        loss_unit: Of the losses that were logged.
        model: What the systems are settings of, where the section is about one model.
    """

    title: str
    split: str
    columns: tuple[Column, ...]
    systems: tuple[System, ...]
    scores: tuple[str, ...]
    notes: tuple[str, ...]
    data: str
    tables: tuple[tuple[str, ...], ...] = ()
    decimals: int = 1
    loss_unit: str = 'nats per token'
    model: str = ''

    @property
    def picks(self) -> tuple[Pick, ...]:
        """The runs of all systems."""
        return tuple(pick for system in self.systems for pick in system.picks)


def clean(text: Any) -> str:
    """One printable line: control characters, line ends included, become U+FFFD."""
    return ''.join(char if char.isprintable() else '\ufffd' for char in str(text))


def sections(
    runs: Sequence[Run], step: str | int = 'last', split: str | None = None
) -> list[Section]:
    """Sorts runs into sections.

    Args:
        runs: Any number of runs; those that differ in the seed only become one row.
        step: 'last', 'best', the name of a stage, or a step.
        split: The split to report; by default each run's test split, else validation.
    """
    groups: dict[tuple[str, ...], list[Pick]] = {}
    for run in runs:
        shown = split or run.splits()[0]
        chosen = run.choose_step(step, shown, _main_score(run))
        results = run.at(chosen, shown)
        for topic in dict.fromkeys(_topic(run, task) for task in results):
            own = {task: r for task, r in results.items() if _topic(run, task) == topic}
            groups.setdefault((*topic, shown), []).append(Pick(run, chosen, shown, own))
    _join_systems(groups)
    return [_section(*key, picks, step) for key, picks in groups.items()]


def _join_systems(groups: dict[tuple[str, ...], list[Pick]]) -> None:
    """Puts systems that are no runs, and so of no model, into the sections of all models."""
    for key in [key for key in groups if key[1] and not key[2]]:
        word, task, _, split = key
        others = [k for k in groups if (*k[:2], k[3]) == (word, task, split) and k[2]]
        for other in others:
            groups[other] += groups[key]
        if others:
            del groups[key]


def grids(section: Section) -> list[Grid]:
    """All tables of a section."""
    if not section.tables:
        return [grid(section, score) for score in section.scores]
    found = [by_language(section, scores) for scores in section.tables]
    # Runs that were evaluated by their loss alone have another score to show.
    return [table for table in found if table.columns] or [by_language(section, section.scores)]


def by_language(section: Section, scores: Sequence[str]) -> Grid:
    """Some scores as text cells: a row a language, and for each system a column a score."""
    shown = tuple(score for score in scores if score in section.scores)
    columns, of_system = [], []
    for number, system in enumerate(section.systems):
        own = [
            (
                Column(system.name, score, ()),
                [system.show(score, row.tasks, section.decimals) for row in section.columns],
            )
            for score in shown
        ]
        if any(set(cells) != {'-'} for _, cells in own):
            columns += own
            of_system += [(number, score) for score in shown]
    num_scores = len(columns)
    if columns:
        columns += [(Column('examples', whose, ()), counts) for whose, counts in _counts(section)]
    rows, best = [], set()
    for i, row in enumerate(section.columns):
        cells = tuple(column[i] for _, column in columns)
        if set(cells[:num_scores]) - {'-'}:
            winners = {score: _winners(section, score, row.tasks) for score in shown}
            best |= {
                (len(rows), place)
                for place, (number, score) in enumerate(of_system)
                if number in winners[score]
            }
            rows.append((row.label, 'average' if len(row.tasks) > 1 else 'language', cells))
    heads = tuple(column for column, _ in columns)
    return Grid(shown, heads, tuple(rows), 'language', frozenset(best))


def grid(section: Section, score: str) -> Grid:
    """One score of a section as text cells, and the numbers of examples.

    The main score gets the row of removed error.
    """
    rows, best = [], set()
    winners = [_winners(section, score, column.tasks) for column in section.columns]
    for number, system in enumerate(section.systems):
        cells = tuple(system.show(score, c.tasks, section.decimals) for c in section.columns)
        if set(cells) != {'-'}:
            best |= {(len(rows), i) for i, best_ones in enumerate(winners) if number in best_ones}
            rows.append((system.name, system.kind, cells))
    if score == section.scores[0] and _HIGHER.fullmatch(score):
        runs = [system for system in section.systems if system.kind == 'run']
        for system in runs:
            label = 'error removed' + (f' by {system.name}' if len(runs) > 1 else '')
            if any(cells := error_removed(section, system)):
                rows.append((label, 'error', cells))
    for whose, counts in _counts(section) if rows else ():
        rows.append((f'examples {whose}'.removesuffix(' n'), 'count', tuple(counts)))
    return Grid((score,), section.columns, tuple(rows), best=frozenset(best))


def _winners(section: Section, score: str, tasks: Sequence[str]) -> set[int]:
    """The places of the systems with the best score, as it is shown, of runs and baselines.

    There is none where fewer than two have it, where they were scored on different numbers of
    examples, or where the score is a user's own.
    """
    if score not in LOSSES and not _HIGHER.fullmatch(score):
        return set()
    values = {
        number: round(cell.mean, section.decimals)
        for number, system in enumerate(section.systems)
        if system.kind != 'paper' and (cell := system.value(score, tasks)) is not None
    }
    counts = {section.systems[number].count(tasks) for number in values}
    if len(values) < 2 or len(counts) > 1:
        return set()
    top = (min if score in LOSSES else max)(values.values())
    return {number for number, value in values.items() if value == top}


def _counts(section: Section) -> list[tuple[str, list[str]]]:
    """The numbers of examples of each column of a section, with whose they are.

    One line called 'n' where all systems agree; else a line for those that do.
    """
    lines: list[tuple[list[System], list[str]]] = []
    for system in section.systems:
        counts = [system.count(column.tasks) for column in section.columns]
        if set(counts) == {'-'}:
            continue
        for members, known in lines:
            if all('-' in pair or len(set(pair)) == 1 for pair in zip(known, counts, strict=True)):
                members.append(system)
                known[:] = [a if b == '-' else b for a, b in zip(known, counts, strict=True)]
                break
        else:
            lines.append(([system], counts))
    if len(lines) == 1:
        return [('n', lines[0][1])]
    return [(f'of {_together(members)}', counts) for members, counts in lines]


def _together(systems: Sequence[System]) -> str:
    """'the runs', 'the baselines', or their names."""
    kinds = {system.kind for system in systems}
    if len(systems) > 1 and len(kinds) == 1:
        return f'the {kinds.pop()}s'
    return ', '.join(system.name for system in systems)


def error_removed(section: Section, system: System) -> tuple[str, ...]:
    """How much of the best baseline's error a system removes, in percent, for each column.

    For one task, averaged over its languages: 100 * (b - m) / b with error = 100 - main score, b
    the smallest error of a baseline and m the system's. Overall: the mean over tasks. Columns of a
    single language that have an average beside them stay empty, and so do those of which the
    baselines were scored on other numbers of examples.
    """
    averages = {column.group: column for column in section.columns}  # The last one of each group.
    removed = {g: _removed(section, system, c.tasks) for g, c in averages.items() if g}
    known = [value for value in removed.values() if value is not None]
    removed[''] = statistics.fmean(known) if known and len(known) == len(removed) else None
    cells = []
    for column in section.columns:
        value = removed[column.group] if column is averages[column.group] else None
        cells.append('' if value is None else f'{value:.0f}%')
    return tuple(cells)


def signatures(section: Section, *scores: str) -> list[str]:
    """The signatures behind scores, a line each: which tasks, which metric, which variant.

    Signatures that differ in the language alone share a line: lang:{de,en}.
    """
    families = {score.split('_')[0] for score in scores}
    found: dict[tuple[str, str], set[str]] = {}
    langs: dict[tuple[str, str], set[str]] = {}
    for result in _all_results(section):
        own = {m: s for m, s in result.signatures.items() if any(f in m.lower() for f in families)}
        # Where scores share a table, those of no metric have no signature to show.
        for metric, signature in (own or ({} if section.tables else result.signatures)).items():
            lang = _LANG.search(signature)
            key = metric, _LANG.sub('lang:{}', signature, count=1)
            found.setdefault(key, set()).add(result.task)
            langs.setdefault(key, set()).update(lang.groups() if lang else ())
    everywhere = {result.task for result in _all_results(section)}
    lines = []
    for (metric, signature), tasks in sorted(found.items()):
        of = langs[metric, signature]
        named = '{' + ','.join(sorted(of)) + '}' if len(of) > 1 else ''.join(of)
        where = '' if tasks == everywhere else f' ({_where(tasks)})'
        line = signature.replace('lang:{}', f'lang:{named}') if of else signature
        lines.append(clean(f'{metric}{where}: {line}'))
    return lines


def beneath(section: Section, table: Grid) -> list[str]:
    """The lines under a table: where its data is from, and the metrics' signatures."""
    return [section.notes[0], *signatures(section, *table.scores)]


def provenance(pick: Pick) -> dict[str, str]:
    """Where a row comes from: everything needed to make it again."""
    info, run = pick.run.info, pick.run
    hashes = {task: result.manifest[:12] for task, result in sorted(pick.results.items())}
    facts = {
        'workdir': str(run.workdir),
        'step': pick.step,
        'stage': pick.run.stage_of(pick.step) or None,
        'split': pick.split,
        'examples': {task: result.num_examples for task, result in sorted(pick.results.items())},
        'trained on': run.scenario.mixture if run.scenario else None,
        'config': run.config_hash[:12],
        'seed': run.seed,
        'parameters': info.get('parameters'),
        'devices': info.get('devices'),
        'device count': info.get('device_count'),
        'dtype': info.get('dtype'),
        'git': info.get('git'),
        'versions': info.get('versions'),
        'data': info.get('data'),
        'manifests scored': hashes,
        'manifests of the run': _short_hashes(info.get('manifests')),
        'predictions from': info.get('scored'),
        'decoding': next((r.decoding for r in pick.results.values() if r.decoding), None),
    }
    return {
        key: clean(plain_fact(value)) for key, value in facts.items() if value not in (None, {})
    }


def _topic(run: Run, task: str) -> tuple[str, str, str]:
    """What a table is about: a benchmark, and where settings are its columns a task and a model."""
    word = _first_word(task)
    benchmark = benchmarks.BENCHMARKS.get(word)
    if benchmark and benchmark.tables and task in benchmark.task_names():
        return word, benchmarks.parse_task(task).task, _model_name(run)
    return word, '', ''


def _section(
    word: str, task: str, model: str, split: str, picks: list[Pick], step: str | int
) -> Section:
    benchmark = benchmarks.BENCHMARKS.get(word)
    title = f'{benchmark.name}, {benchmark.title}' if benchmark else word
    title += f' (arXiv:{benchmark.arxiv})' if benchmark and benchmark.arxiv else ''
    data, notes = _about_data(benchmark, split, picks)
    if task:
        title += f', {benchmark.task_titles[task]}' + (f', {model}' if model else '')
        systems, mixed = _settings(picks)
        notes += [*mixed, *_about_candidates(picks)]
    else:
        systems = _runs(picks)
    systems += _baselines(split, picks)
    if benchmark and len(benchmark.tasks) > 1 and not task:
        titles = ', '.join(f'{task} is {title}' for task, title in benchmark.task_titles.items())
        notes.append(f'Tasks: {titles}.')
    if data == 'official' and split == 'test':
        papers, paper_notes = (
            _paper_settings(benchmark, model, picks) if task else _papers(benchmark, picks)
        )
        systems += papers
        notes += paper_notes
    notes += _about_runs(picks, step)
    names = {name for pick in picks for r in pick.results.values() for name in r.scores}
    order = tuple(benchmark.scores if benchmark else ()) or _order(picks)
    scores = tuple(score for score in order if score in names) or _order(picks)
    columns = _columns(benchmark, {task for pick in picks for task in pick.results})
    if len(_counts(Section('', '', columns, tuple(systems), (), (), ''))) > 1:
        notes.append(
            'Systems were scored on different numbers of examples; such scores do not compare.'
        )
    return Section(
        title=clean(title),
        split=clean(split),
        columns=columns,
        systems=tuple(systems),
        scores=scores,
        notes=tuple(map(clean, notes)),
        data=data,
        tables=benchmark.tables if task else (),
        decimals=benchmark.decimals if benchmark else 1,
        loss_unit='nats per example' if task == 'retrieval' else 'nats per token',
        model=model,
    )


def _columns(benchmark: benchmarks.Benchmark | None, tasks: set[str]) -> tuple[Column, ...]:
    """A column per task and language pair, an average per task, and one over all."""
    known = benchmark.task_names() if benchmark else ()
    order = [task for task in known if task in tasks]
    groups: dict[str, list[tuple[str, str]]] = {}
    for name in order:
        _, task, source, target = benchmarks.parse_task(name)
        label = source if source == target else f'{source}-{target}'
        groups.setdefault(task, []).append((label, name))
    for name in sorted(tasks - set(order)):  # Tasks of a user's own.
        groups.setdefault(clean(name), []).append(('score', name))
    columns = []
    for group, members in groups.items():
        columns += [Column(group, label, (name,)) for label, name in members]
        if len(members) > 1:
            columns.append(Column(group, 'avg', tuple(name for _, name in members)))
    if len(groups) > 1:
        everything = tuple(name for members in groups.values() for _, name in members)
        columns.append(Column('', 'avg', everything))
    return tuple(columns)


def _runs(picks: list[Pick]) -> list[System]:
    """Rows of the runs; those with the same config and another seed together."""
    groups = _seeds(picks)
    systems = []
    for name, members in zip(_told_apart([m[0] for m in groups]), groups, strict=True):
        name += f' ({len(members)} seeds)' if len(members) > 1 else ''
        scores = tuple(_scores(pick.results) for pick in members)
        systems.append(System(name, 'run', scores, tuple(members), examples=_examples(members)))
    return systems


def _examples(picks: Sequence[Pick]) -> dict[str, tuple[int, ...]]:
    """Task -> the numbers of examples that runs were scored on."""
    counts: dict[str, set[int]] = {}
    for pick in picks:
        for task, result in pick.results.items():
            counts.setdefault(task, set()).add(result.num_examples)
    return {task: tuple(sorted(numbers)) for task, numbers in counts.items()}


def _settings(picks: list[Pick]) -> tuple[list[System], list[str]]:
    """Columns of the runs, a training setting each; and what has to be said about them.

    Runs of one setting share a column as long as they score different languages: a monolingual
    column takes a run a language. Others of that setting are a column of their own, each run put
    to the one that it shares most of its config with.
    """
    by_setting: dict[str, list[Pick]] = {}
    for pick in picks:
        for name, part in _with_setting(pick):
            by_setting.setdefault(name, []).append(part)
    order = list(_SETTINGS.values())
    systems, notes = [], []
    for name in sorted(by_setting, key=lambda n: order.index(n) if n in order else len(order)):
        columns = _share_columns(_seeds(by_setting[name]))
        folders = _told_apart([column[0][0] for column in columns])
        for folder, column in zip(folders, columns, strict=True):
            label = clean(f'{name} ({folder})' if len(columns) > 1 else name)
            scores = tuple(
                {t: s for pick in of_seed if pick for t, s in _scores(pick.results).items()}
                for of_seed in itertools.zip_longest(*column)
            )
            members = tuple(pick for run in column for pick in run)
            systems.append(System(label, 'run', scores, members, examples=_examples(members)))
            if differing := _differing(column):
                notes.append(f'The configs of the runs of {label} differ in {differing}.')
    return systems, notes


def _with_setting(pick: Pick) -> Iterator[tuple[str, Pick]]:
    """A run's setting with its results; apart those in languages that are no part of it.

    Example: a monolingual run in de that also scores ja -> 'Monolingual' (de), 'Monolingual de'
    (ja: transfer from de). Zero-shot runs may score the language that they were trained on.
    """
    scenario = pick.run.scenario
    if scenario is None:
        yield _folder(pick), pick
        return
    title = _SETTINGS.get(scenario.name, scenario.name)
    covered = {*scenario.train, *scenario.evaluate}
    own = {task: r for task, r in pick.results.items() if task in covered}
    other = {task: r for task, r in pick.results.items() if task not in covered}
    for name, results in ((title, own), (f'{title} {scenario.source}', other)):
        if results:
            yield name, dataclasses.replace(pick, results=results)


def _share_columns(runs: list[list[Pick]]) -> list[list[list[Pick]]]:
    """Runs (with their seeds) in as few columns as their languages allow."""
    columns: list[list[list[Pick]]] = []
    for members in runs:
        own = set(members[0].results)
        free = [c for c in columns if not any(own & set(other[0].results) for other in c)]
        if free:
            facts = _facts(members[0])
            max(free, key=lambda c: len(facts & _facts(c[0][0]))).append(members)
        else:
            columns.append([members])
    return columns


def _about_candidates(picks: list[Pick]) -> list[str]:
    """How many replies recall_10, mrr and p_at_1 choose from."""
    counts = sorted({r.candidates for pick in picks for r in pick.results.values()} - {0})
    if not counts:
        return []
    span = ' to '.join(str(count) for count in dict.fromkeys((counts[0], counts[-1])))
    return [f'recall_10, mrr and p_at_1 are of the own reply among {span} replies.']


def _seeds(picks: list[Pick]) -> list[list[Pick]]:
    """The runs; those with the same config and tasks, and another seed, together."""
    groups: dict[str, list[Pick]] = {}
    for pick in picks:
        # Runs with different tasks have no common mean.
        groups.setdefault(f'{pick.run.config_hash} {sorted(pick.results)}', []).append(pick)
    return list(groups.values())


def _facts(pick: Pick) -> set[tuple[str, str]]:
    """The leaves of a run's config, but for those that name its language: (key, value)."""
    language = {'seed', 'mixture', 'tasks'}
    return {
        (key, json.dumps(value, default=str))
        for key, value in _leaves(pick.run.config)
        if key.rpartition('.')[2] not in language
    }


def _leaves(block: Mapping[str, Any], prefix: str = '') -> Iterator[tuple[str, Any]]:
    for key, value in block.items():
        if isinstance(value, dict):
            yield from _leaves(value, f'{prefix}{key}.')
        else:
            yield f'{prefix}{key}', value


def _differing(column: list[list[Pick]]) -> str:
    """Keys in which the configs of a column's runs differ; '' if they do not."""
    facts = [_facts(members[0]) for members in column]
    keys = sorted({key for key, _ in set.union(*facts) - set.intersection(*facts)})
    return ', '.join(keys[:4]) + (f' and {len(keys) - 4} more keys' if len(keys) > 4 else '')


def _model_name(run: Run) -> str:
    """What a run's parameters come from: a checkpoint's own name, or family and size."""
    if run.system:
        return ''
    model = run.config.get('model')
    model = model if isinstance(model, dict) else {}
    fresh = f'{model.get("family", "")} {model.get("size", "")}'.strip() or 'unknown model'
    start = run.config.get('init_from')
    if not isinstance(start, str) or not start:
        return clean(fresh)
    return clean(pathlib.PurePath(start).name.partition('@')[0])  # Without the revision.


def _told_apart(picks: list[Pick]) -> list[str]:
    """The names of the runs' folders; of equal ones the folder above, too."""
    names = [_folder(pick) for pick in picks]
    return [
        clean(f'{pick.run.workdir.resolve().parent.name}/{name}') if names.count(name) > 1 else name
        for pick, name in zip(picks, names, strict=True)
    ]


def _folder(pick: Pick) -> str:
    if pick.run.system:
        return clean(pick.run.system)
    return clean(pick.run.workdir.resolve().name)


def _baselines(split: str, picks: list[Pick]) -> list[System]:
    """Rows of the baselines; a task's scores come from the first run that has them."""
    found: dict[str, dict[str, Result]] = {name: {} for name in baselines.NAMES}
    for pick in picks:
        for name, results in pick.run.baselines.items():
            for (task, s), result in results.items():
                if s == split and task in pick.results:
                    found.setdefault(name, {}).setdefault(task, result)
    return [
        System(
            clean(name),
            'baseline',
            (_scores(results),),
            examples={task: (result.num_examples,) for task, result in results.items()},
        )
        for name, results in found.items()
        if results
    ]


def _papers(benchmark: benchmarks.Benchmark, picks: list[Pick]) -> tuple[list[System], list[str]]:
    """Rows of the paper's models, for each scenario that the runs follow."""
    tasks = {task for pick in picks for task in pick.results}
    scenarios, notes = [], []
    for scenario in dict.fromkeys(p.run.scenario for p in picks if not p.run.system):
        if scenario is None:
            notes.append('A run follows no scenario of the benchmark: no scores of the paper.')
        elif scenario.name == 'cross' and scenario.target is not None:
            notes.append('The paper trains no model on one pair alone: no scores of the paper.')
        elif scenario.name == 'cross' and scenario.source is None:
            notes.append(
                'The paper trains one model per source language, this run one on all pairs: '
                'no scores of the paper. Narrow the scenario to a source to compare.'
            )
        elif scenario.name not in scenarios:
            scenarios.append(scenario.name)
    systems = []
    for scenario in scenarios:
        for model in benchmark.paper_models:
            scores = {}
            for task in tasks:
                parsed = benchmarks.parse_task(task)
                scores[task] = benchmark.paper_scores(model, scenario, *parsed[1:]) or {}
            systems.append(System(f'{model} (paper, {scenario})', 'paper', (scores,)))
    if systems:
        notes.append(
            f'Rows marked paper are printed in arXiv:{benchmark.arxiv}, which names neither the '
            'tools nor the versions that scored them.'
        )
    return systems, notes


def _paper_settings(
    benchmark: benchmarks.ReplyBenchmark, model: str, picks: list[Pick]
) -> tuple[list[System], list[str]]:
    """The paper's figures for the settings that the runs follow.

    Of the paper's models that which began like ours; all that it has for the task where none did.
    """
    settings = {pick.run.scenario.name for pick in picks if pick.run.scenario}
    same = [m for m in benchmark.paper_models if benchmark.paper_checkpoints.get(m) == model]
    tasks = {name: benchmarks.parse_task(name)[1:] for pick in picks for name in pick.results}
    systems = []
    for paper_model in same or benchmark.paper_models:
        for setting in (s for s in _SETTINGS if s in settings):
            key = (paper_model, setting)
            scores = {name: benchmark.paper_scores(*key, *parts) for name, parts in tasks.items()}
            scores = {name: found for name, found in scores.items() if found}
            doubtful = frozenset(
                (name, score)
                for name in scores
                for score in benchmark.paper_doubts(*key, *tasks[name])
            )
            if scores:
                name = f'{_SETTINGS[setting]} ({paper_model}, paper)'
                systems.append(System(name, 'paper', (scores,), doubtful=doubtful))
    notes = []
    if systems:
        notes.append(
            f'Columns marked paper are printed in arXiv:{benchmark.arxiv}. Its code pins no '
            'version of its rouge package and leaves undefined what dist_1 and dist_2 divide by.'
        )
    if any(system.doubtful for system in systems):
        notes.append(
            'Figures with a ? stand so in the paper, where dist_1 is near or above dist_2 for '
            'Japanese alone: two columns seem to have been swapped.'
        )
    return systems, notes


def _about_data(
    benchmark: benchmarks.Benchmark | None, split: str, picks: list[Pick]
) -> tuple[str, list[str]]:
    """The kind of the data, and the sentence that says so."""
    kinds = {pick.run.info.get('data') for pick in picks}
    kinds |= {result.data for pick in picks for result in pick.results.values()}
    if 'sample' in kinds:
        return 'sample', [
            'SAMPLE DATA: scored on the embedded sample corpora, which are generated. '
            'No number here compares with a published one.'
        ]
    reasons = [] if kinds == {'files'} else ['a run does not say where its data is from']
    if benchmark is None or not benchmark.paper_models:
        return 'other', ['No official sizes are known for this data: no published scores beside.']
    for pick in picks:
        reasons += _size_mismatches(benchmark, pick)
    if reasons:
        return 'other', [
            f'NOT THE OFFICIAL DATA: {reasons[0]}'
            + (f', and {len(reasons) - 1} more' if len(reasons) > 1 else '')
            + '. No number here compares with a published one.'
        ]
    scope = 'every split, scored or trained on'
    if not all(isinstance(pick.run.info.get('examples'), dict) for pick in picks):
        scope = 'every split that was scored; what was trained on is not recorded'
    official = 'the official number of examples'
    if isinstance(benchmark, benchmarks.ReplyBenchmark):
        official += ', up to 1 %,'
    notes = [f'The data has {official} in {scope}.']
    if split != 'test':
        notes.append(f'The paper reports the test split, not {split}: its scores are left out.')
    return 'official', notes


def _size_mismatches(benchmark: benchmarks.Benchmark, pick: Pick) -> list[str]:
    """Splits, scored or trained on, that do not have the official size."""
    recorded = pick.run.info.get('examples')
    counts = dict(recorded) if isinstance(recorded, dict) else {}
    # What was scored counts, also where it is only a part of what there is.
    counts |= {
        f'{task}/{pick.split}': r.num_examples + r.dropped for task, r in pick.results.items()
    }
    reasons = []
    for key, count in sorted(counts.items()):
        name, _, split = key.partition('/')
        try:
            parsed = benchmarks.parse_task(name)
        except errors.UserError:
            parsed = None
        if parsed is None or parsed.benchmark != benchmark.name:
            reasons.append(f'{name} is no task of {benchmark.name}')
        elif not benchmark.is_official(parsed.task, split, count, parsed.source):
            size = benchmark.official_size(parsed.task, split, parsed.source) or 'no such split'
            reasons.append(f'{key} has {count} examples (official: {size})')
    return reasons


def _about_runs(picks: list[Pick], step: str | int) -> list[str]:
    """What a reader must know before comparing the rows with each other."""
    notes = _about_stages(picks)
    if step == 'best':
        judged = {'validation' if 'validation' in p.run.splits() else p.split for p in picks}
        notes.append(f'Steps were chosen on the split {" and ".join(sorted(judged))}.')
        if any(pick.split in judged for pick in picks):
            notes.append('Choosing and reporting on the same examples flatters the best step.')
    said = (result.note for pick in picks for _, result in sorted(pick.results.items()))
    notes += filter(None, dict.fromkeys(said))
    manifests: dict[str, set[str]] = {}
    for pick in picks:
        for task, result in pick.results.items():
            manifests.setdefault(task, set()).add(result.manifest)
    if any(len(found) > 1 for found in manifests.values()):
        notes.append('The runs read different preparations (other files or another vocabulary).')
    seeds = [(p.run.config_hash, str(p.run.seed), *sorted(p.results)) for p in picks]
    if len(set(seeds)) < len(seeds):
        notes.append('Some runs have the same config and the same seed.')
    lost = sum(pick.run.bad_log_lines for pick in picks)
    if lost:
        notes.append(f'{lost} lines of metrics.jsonl could not be read and were left out.')
    return notes


def _about_stages(picks: list[Pick]) -> list[str]:
    """Of runs with several stages, which one the scores are of, and which others have scores."""
    staged = [pick for pick in picks if len(pick.run.stages) > 1]
    if not staged:
        return []
    shown = {pick.run.stage_of(pick.step) for pick in staged}
    scored = {
        pick.run.stage_of(step)
        for pick in staged
        for step in pick.run.evaluations
        if pick.run.at(step, pick.split)
    }
    line = f'Scores are those after {" and ".join(sorted(shown))}'
    others = sorted(scored - shown)
    options = ' or '.join(f'--step={name}' for name in others)
    return [f'{line}; {options} shows those after {" or ".join(others)}.' if others else f'{line}.']


def _removed(section: Section, system: System, tasks: Sequence[str]) -> float | None:
    score = section.scores[0]
    own = system.value(score, tasks)
    others = [
        s.value(score, tasks)
        for s in section.systems
        if s.kind == 'baseline' and s.count(tasks) == system.count(tasks)
    ]
    best = max((cell.mean for cell in others if cell is not None), default=None)
    if own is None or best is None or best >= 100:
        return None
    return 100 * (own.mean - best) / (100 - best)


def _scores(results: Mapping[str, Result]) -> dict[str, Mapping[str, float]]:
    return {task: result.scores for task, result in results.items()}


def _all_results(section: Section) -> list[Result]:
    return [result for pick in section.picks for result in pick.results.values()]


def _main_score(run: Run) -> str:
    results = [result for found in run.evaluations.values() for result in found.values()]
    task = results[0].task
    if benchmark := benchmarks.BENCHMARKS.get(_first_word(task)):
        return benchmark.main_score(task.split('_')[1])
    # An evaluation that decodes nothing has the loss alone, but knows what stands for its task.
    named = [result.headline for result in results if result.headline]
    scores = [result.main_score for result in results]
    return [*named, *(score for score in scores if score not in LOSSES), 'loss'][0]


def _order(picks: Sequence[Pick]) -> tuple[str, ...]:
    """Scores of tasks that are no benchmark's: what stands for them first, the loss last."""
    results = [result for pick in picks for result in pick.results.values()]
    first = [result.main_score for result in results]
    others = [name for result in results for name in result.scores]
    names = [name for name in dict.fromkeys((*first, *others)) if name not in LOSSES]
    return tuple(names + [name for name in LOSSES if name in others])


def _first_word(task: str) -> str:
    return task.partition('_')[0]


def _where(tasks: set[str]) -> str:
    """What tasks have in common that their metric depends on: the target language."""
    try:
        return ', '.join(sorted({benchmarks.parse_task(task).target for task in tasks}))
    except errors.UserError:
        return ', '.join(sorted(tasks))


def _short_hashes(manifests: Any) -> Any:
    if not isinstance(manifests, dict):
        return manifests
    return {name: str(value)[:12] for name, value in sorted(manifests.items())}


def plain_fact(value: Any) -> str:
    """A fact as one line of text: {'jax': '0.10', 'flax': '0.12'} -> jax 0.10, flax 0.12."""
    if isinstance(value, Mapping):
        return ', '.join(f'{key} {plain_fact(inner)}' for key, inner in value.items())
    return value if isinstance(value, str) else json.dumps(value, default=str)
