"""From runs to tables: which systems, which columns, and what has to be said beside them.

A `Section` is everything about one benchmark and split; `grid` is one score of it as text cells
that report.py and page.py only have to set.
"""

import dataclasses
import json
import statistics
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from xlbench import baselines, benchmarks, errors
from xlbench.results import Result, Run

_DEFAULT_SCORE = 'rouge_l'


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
    """One row of a table.

    Attributes:
        name: What the row is called.
        kind: 'run', 'baseline' or 'paper'.
        scores: For each run (seed) the scores by task: task -> score -> value.
        picks: The runs, for the kind 'run'.
    """

    name: str
    kind: str
    scores: tuple[Mapping[str, Mapping[str, float]], ...]
    picks: tuple[Pick, ...] = ()

    def value(self, score: str, tasks: Sequence[str]) -> Cell | None:
        """The mean of a score over tasks; None if the system lacks one of them."""
        values = []
        for run in self.scores:
            found = [run.get(task, {}).get(score) for task in tasks]
            if None in found:
                return None
            values.append(statistics.fmean(found))
        deviation = statistics.stdev(values) if len(values) > 1 else None
        return Cell(statistics.fmean(values), deviation)


class Column(NamedTuple):
    """One column: a task and language pair, or an average over several."""

    group: str
    label: str
    tasks: tuple[str, ...]


class Grid(NamedTuple):
    """A table as text: rows of (name, kind, cells), one cell for each column."""

    score: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, str, tuple[str, ...]], ...]


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
    """

    title: str
    split: str
    columns: tuple[Column, ...]
    systems: tuple[System, ...]
    scores: tuple[str, ...]
    notes: tuple[str, ...]
    data: str

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
        step: 'last', 'best' or a step.
        split: The split to report; by default each run's test split, else validation.
    """
    groups: dict[tuple[str, str], list[Pick]] = {}
    for run in runs:
        shown = split or run.splits()[0]
        chosen = run.choose_step(step, shown, _main_score(run))
        results = run.at(chosen, shown)
        for word in dict.fromkeys(_first_word(task) for task in results):
            own = {task: r for task, r in results.items() if _first_word(task) == word}
            groups.setdefault((word, shown), []).append(Pick(run, chosen, shown, own))
    return [_section(word, shown, picks, step) for (word, shown), picks in groups.items()]


def grid(section: Section, score: str) -> Grid:
    """One score of a section as text cells; the main score gets the row of removed error."""
    rows = []
    for system in section.systems:
        cells = tuple(_show(system.value(score, c.tasks)) for c in section.columns)
        if set(cells) != {'-'}:
            rows.append((system.name, system.kind, cells))
    if score == section.scores[0] and any(s.kind == 'baseline' for s in section.systems):
        runs = [system for system in section.systems if system.kind == 'run']
        for system in runs:
            label = 'error removed' + (f' by {system.name}' if len(runs) > 1 else '')
            if any(cells := error_removed(section, system)):
                rows.append((label, 'error', cells))
    return Grid(score, section.columns, tuple(rows))


def error_removed(section: Section, system: System) -> tuple[str, ...]:
    """How much of the best baseline's error a system removes, in percent, for each column.

    For one task, averaged over its languages: 100 * (b - m) / b with error = 100 - main score, b
    the smallest error of a baseline and m the system's. Overall: the mean over tasks. Columns of a
    single language that have an average beside them stay empty.
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


def signatures(section: Section, score: str) -> list[str]:
    """The signatures behind a score, a line each: which tasks, which metric, which variant."""
    family = score.split('_')[0]
    found: dict[tuple[str, str], set[str]] = {}
    for result in _all_results(section):
        own = {m: s for m, s in result.signatures.items() if family in m.lower()}
        for metric, signature in (own or result.signatures).items():
            found.setdefault((metric, signature), set()).add(result.task)
    everywhere = {result.task for result in _all_results(section)}
    lines = []
    for (metric, signature), tasks in sorted(found.items()):
        where = '' if tasks == everywhere else f' ({_where(tasks)})'
        lines.append(clean(f'{metric}{where}: {signature}'))
    return lines


def beneath(section: Section, score: str) -> list[str]:
    """The lines under a table: where its data is from, and the metrics' signatures."""
    return [section.notes[0], *signatures(section, score)]


def provenance(pick: Pick) -> dict[str, str]:
    """Where a row comes from: everything needed to make it again."""
    info, run = pick.run.info, pick.run
    hashes = {task: result.manifest[:12] for task, result in sorted(pick.results.items())}
    facts = {
        'workdir': str(run.workdir),
        'step': pick.step,
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
        'decoding': next((r.decoding for r in pick.results.values() if r.decoding), None),
    }
    return {key: clean(_plain(value)) for key, value in facts.items() if value not in (None, {})}


def _section(word: str, split: str, picks: list[Pick], step: str | int) -> Section:
    benchmark = benchmarks.BENCHMARKS.get(word)
    data, notes = _about_data(benchmark, split, picks)
    systems = [*_runs(picks), *_baselines(split, picks)]
    if benchmark and len(benchmark.tasks) > 1:
        titles = ', '.join(f'{task} is {title}' for task, title in benchmark.task_titles.items())
        notes.append(f'Tasks: {titles}.')
    if data == 'official' and split == 'test':
        papers, paper_notes = _papers(benchmark, picks)
        systems += papers
        notes += paper_notes
    notes += _about_runs(picks, step)
    names = {name for pick in picks for r in pick.results.values() for name in r.scores}
    wanted = benchmark.scores if benchmark else sorted(names)
    scores = tuple(score for score in wanted if score in names) or tuple(sorted(names))
    return Section(
        title=f'{benchmark.name}, {benchmark.title} (arXiv:{benchmark.arxiv})'
        if benchmark
        else clean(word),
        split=clean(split),
        columns=_columns(benchmark, {task for pick in picks for task in pick.results}),
        systems=tuple(systems),
        scores=scores,
        notes=tuple(map(clean, notes)),
        data=data,
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
    groups: dict[str, list[Pick]] = {}
    for pick in picks:
        # Runs with different tasks have no common mean.
        key = f'{pick.run.config_hash} {sorted(pick.results)}'
        groups.setdefault(key, []).append(pick)
    names = [_run_name(members) for members in groups.values()]
    systems = []
    for name, members in zip(names, groups.values(), strict=True):
        if names.count(name) > 1:  # Equal folder names: say the folder above, too.
            name = clean(f'{members[0].run.workdir.resolve().parent.name}/{name}')
        scores = tuple(_scores(pick.results) for pick in members)
        systems.append(System(name, 'run', scores, tuple(members)))
    return systems


def _run_name(members: list[Pick]) -> str:
    name = clean(members[0].run.workdir.resolve().name)
    return f'{name} ({len(members)} seeds)' if len(members) > 1 else name


def _baselines(split: str, picks: list[Pick]) -> list[System]:
    """Rows of the baselines; a task's scores come from the first run that has them."""
    found: dict[str, dict[str, Result]] = {name: {} for name in baselines.NAMES}
    for pick in picks:
        for name, results in pick.run.baselines.items():
            for (task, s), result in results.items():
                if s == split and task in pick.results:
                    found.setdefault(name, {}).setdefault(task, result)
    return [
        System(clean(name), 'baseline', (_scores(results),))
        for name, results in found.items()
        if results
    ]


def _papers(benchmark: benchmarks.Benchmark, picks: list[Pick]) -> tuple[list[System], list[str]]:
    """Rows of the paper's models, for each scenario that the runs follow."""
    tasks = {task for pick in picks for task in pick.results}
    scenarios, notes = [], []
    for scenario in dict.fromkeys(pick.run.scenario for pick in picks):
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
    if benchmark is None or not benchmark.split_sizes:
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
    notes = [f'The data has the official number of examples in {scope}.']
    if split != 'test':
        notes.append(f'The paper reports the test split, not {split}: its scores are left out.')
    return 'official', notes


def _size_mismatches(benchmark: benchmarks.Benchmark, pick: Pick) -> list[str]:
    """Splits, scored or trained on, that do not have the official size."""
    counts = {f'{task}/{pick.split}': r.num_examples for task, r in pick.results.items()}
    recorded = pick.run.info.get('examples')
    counts |= recorded if isinstance(recorded, dict) else {}
    reasons = []
    for key, count in sorted(counts.items()):
        name, _, split = key.partition('/')
        try:
            parsed = benchmarks.parse_task(name)
        except errors.UserError:
            parsed = None
        if parsed is None or parsed.benchmark != benchmark.name:
            reasons.append(f'{name} is no task of {benchmark.name}')
        elif not benchmark.is_official(parsed.task, split, count):
            official = benchmark.split_sizes.get(parsed.task, {}).get(split, 'no such split')
            reasons.append(f'{key} has {count} examples (official: {official})')
    return reasons


def _about_runs(picks: list[Pick], step: str | int) -> list[str]:
    """What a reader must know before comparing the rows with each other."""
    notes = []
    if step == 'best':
        judged = {'validation' if 'validation' in p.run.splits() else p.split for p in picks}
        notes.append(f'Steps were chosen on the split {" and ".join(sorted(judged))}.')
        if any(pick.split in judged for pick in picks):
            notes.append('Choosing and reporting on the same examples flatters the best step.')
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


def _removed(section: Section, system: System, tasks: Sequence[str]) -> float | None:
    score = section.scores[0]
    own = system.value(score, tasks)
    others = [s.value(score, tasks) for s in section.systems if s.kind == 'baseline']
    best = max((cell.mean for cell in others if cell is not None), default=None)
    if own is None or best is None or best >= 100:
        return None
    return 100 * (own.mean - best) / (100 - best)


def _scores(results: Mapping[str, Result]) -> dict[str, Mapping[str, float]]:
    return {task: result.scores for task, result in results.items()}


def _all_results(section: Section) -> list[Result]:
    return [result for pick in section.picks for result in pick.results.values()]


def _main_score(run: Run) -> str:
    task = next(task for results in run.evaluations.values() for task, _ in results)
    benchmark = benchmarks.BENCHMARKS.get(_first_word(task))
    return benchmark.scores[0] if benchmark else _DEFAULT_SCORE


def _first_word(task: str) -> str:
    return task.partition('_')[0]


def _where(tasks: set[str]) -> str:
    """What tasks have in common that their metric depends on: the target language."""
    try:
        return ', '.join(sorted({benchmarks.parse_task(task).target for task in tasks}))
    except errors.UserError:
        return ', '.join(sorted(tasks))


def _show(cell: Cell | None) -> str:
    if cell is None:
        return '-'
    return f'{cell.mean:.1f}' + ('' if cell.deviation is None else f' ±{cell.deviation:.1f}')


def _short_hashes(manifests: Any) -> Any:
    if not isinstance(manifests, dict):
        return manifests
    return {name: str(value)[:12] for name, value in sorted(manifests.items())}


def _plain(value: Any) -> str:
    """A fact as one line of text: {'jax': '0.10', 'flax': '0.12'} -> jax 0.10, flax 0.12."""
    if isinstance(value, Mapping):
        return ', '.join(f'{key} {_plain(inner)}' for key, inner in value.items())
    return value if isinstance(value, str) else json.dumps(value, default=str)
