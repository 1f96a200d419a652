"""Sorts runs into sections, one for each benchmark and split, with all that is shown of it."""

import dataclasses
import pathlib
import re
from collections.abc import Mapping, Sequence

from xlbench import benchmarks
from xlbench.benchmarks import languages
from xlbench.reporting import notes as notes_lib, systems as systems_lib
from xlbench.reporting.results import LOSSES, Run
from xlbench.reporting.systems import Pick, System
from xlbench.reporting.tables import Cell, Column, Figure, Table, clean

# Scores that are best at 100, those that have no such end, and error rates. Of a user's own score
# nobody knows which it is.
_HIGHER = re.compile(
    r'(rouge|bleu|chrf|chrfpp|meteor|bertscore|distinct|dist|mrs|accuracy|macro_f1|chunk|'
    r'tag_accuracy|mrr|p_at|recall|set|macro_mrr)(_.*)?'
)
_UNBOUNDED = re.compile(r'bleurt(_.*)?')
_LOWER = re.compile('|'.join([*LOSSES, 'ter(_.*)?']))


@dataclasses.dataclass(frozen=True)
class Section:
    """The tables of one benchmark and split.

    Attributes:
      title: name of the benchmark, and its paper.
      columns: task and language pairs with their averages.
      systems: runs, then baselines, then the paper's systems.
      scores: scores to show, the main one first.
      counts: the numbers of examples of each column, with whose they are: one line called 'n'
        where all systems agree, else a line for those that do.
      notes: sentences that belong beside the tables, about the data first.
      data_note: the one about the data, which stands first; '' for a user's own.
      paper_notes: those of them that belong to the paper's scores.
      data: 'sample', 'official' or 'other'.
      tables: scores that share a table with a row a language; none: a table a score.
      loss_unit: of the losses that were logged.
      model: what the systems are settings of, where the section is about one model.
      benchmark: of the tasks; None for those of a user's own.
      besides: tables that follow those of the scores.
      figures: of a paper, whose numbers are among those tables.
    """

    title: str
    split: str
    systems: tuple[System, ...]
    notes: tuple[str, ...]
    data: str
    columns: tuple[Column, ...] = ()
    scores: tuple[str, ...] = ()
    counts: Sequence[tuple[str, list[str]]] = ()
    paper_notes: tuple[str, ...] = ()
    tables: tuple[tuple[str, ...], ...] = ()
    loss_unit: str = 'nats per token'
    model: str = ''
    benchmark: benchmarks.Benchmark | None = None
    besides: tuple[Table, ...] = ()
    figures: tuple[Figure, ...] = ()
    data_note: str = ''

    def decimals_of(self, score: str) -> int:
        """Decimals of a score's cells: of a loss more, as it is a small number."""
        usual = self.benchmark.decimals if self.benchmark else 1
        return {'loss': 3, 'perplexity': 2}.get(score, usual)

    @property
    def runs(self) -> list[System]:
        """The systems that are runs."""
        return [system for system in self.systems if system.kind == 'run']

    @property
    def picks(self) -> tuple[Pick, ...]:
        """The runs of all systems."""
        return tuple(pick for system in self.systems for pick in system.picks)

    def with_intervals(self) -> 'Section':
        """The section with intervals in place of deviations."""
        systems = (dataclasses.replace(system, has_intervals=True) for system in self.systems)
        note = '± is half of the 95 % interval of the mean over seeds (Student).'
        return dataclasses.replace(self, systems=tuple(systems), notes=(*self.notes, note))


def sections(
    runs: Sequence[Run], step: str | int = 'last', split: str | None = None, variants: bool = False
) -> list[Section]:
    """Sorts runs into sections; those that differ in the seed only become one row.

    Args:
      runs: in any order.
      step: 'last', 'best', the name of a stage, or a step.
      split: the split to report; by default each run's test split, else validation.
      variants: whether what was evaluated in other ways, and filed as SPLIT-WORDS, stands beside
        it as systems of its own, and so do adapters beside the run that they are of.
    """
    by_name = {run.workdir.resolve().name: run for run in runs}
    groups: dict[tuple[str, str, str, str], list[Pick]] = {}
    for run in runs:
        shown = split or run.splits()[0]
        others = [name for name in run.splits() if name.startswith(f'{shown}-')]
        adapted = _adapted(run, by_name) if variants else None
        for filed in (shown, *(others if variants else ())):
            chosen = run.choose_step(step, filed)
            results = run.at(chosen, filed)
            words = ['adapters' if adapted else '', filed.removeprefix(shown).removeprefix('-')]
            variant = ', '.join(filter(None, words))
            topics = {task: _topic(adapted or run, task) for task in results}
            for topic in dict.fromkeys(topics.values()):
                of_topic = {task: r for task, r in results.items() if topics[task] == topic}
                pick = Pick(run, chosen, shown, of_topic, variant)
                groups.setdefault((*topic, shown), []).append(pick)
    _join_systems(groups)
    return [_section(*key, picks, step) for key, picks in groups.items()]


def _adapted(run: Run, by_name: Mapping[str, Run]) -> Run | None:
    """The run whose parameters a run began from and kept, beside LoRA's; None for others."""
    lora, start = (run.config.get(key) for key in ('lora', 'init_from'))
    if not (isinstance(lora, dict) and lora.get('rank') and isinstance(start, str)):
        return None
    base = by_name.get(pathlib.PurePath(start).name.partition('@')[0])
    return None if base is run else base


def _join_systems(groups: dict[tuple[str, str, str, str], list[Pick]]) -> None:
    """Puts systems that are no runs, and so of no model, into the sections of all models."""
    for key in [key for key in groups if key[1] and not key[2]]:
        word, task, _, split = key
        others = [k for k in groups if (*k[:2], k[3]) == (word, task, split) and k[2]]
        for other in others:
            groups[other] += groups[key]
        if others:
            del groups[key]


def _topic(run: Run, task: str) -> tuple[str, str, str]:
    """The topic of a table: a benchmark, and where settings are its columns a task and a model."""
    word = task.partition('_')[0]
    benchmark = benchmarks.BENCHMARKS.get(word)
    if benchmark and benchmark.tables and task in benchmark.task_names():
        return word, benchmarks.parse_task(task).task, systems_lib.model_name(run)
    return word, '', ''


def _section(
    word: str, task: str, model: str, split: str, picks: list[Pick], step: str | int
) -> Section:
    benchmark = benchmarks.BENCHMARKS.get(word)
    title = f'{benchmark.name}, {benchmark.title}' if benchmark else word
    title += f' (arXiv:{benchmark.arxiv})' if benchmark and benchmark.arxiv else ''
    data, notes = notes_lib.about_data(benchmark, split, picks)
    data_note = clean(notes[0]) if notes else ''
    if benchmark and task:
        title += f', {benchmark.task_titles[task]}' + (f', {model}' if model else '')
        systems, mixed = systems_lib.settings(picks)
        notes += [*mixed, *notes_lib.about_candidates(picks)]
    else:
        systems = systems_lib.runs(picks)
    systems += systems_lib.baselines(split, picks)
    if benchmark and len(benchmark.tasks) > 1 and not task:
        known = benchmark.task_names()
        scored = {benchmarks.parse_task(t).task for p in picks for t in p.results if t in known}
        shown = [f'{t} is {benchmark.task_titles[t]}' for t in benchmark.tasks if t in scored]
        notes += [f'Tasks: {", ".join(shown)}.'] if shown else []
    paper_notes: list[str] = []
    if benchmark and data == 'official' and split == 'test':
        papers, paper_notes = (
            systems_lib.paper_settings(benchmark, model, picks)
            if task
            else systems_lib.papers(benchmark, picks)
        )
        systems += papers
        notes += paper_notes
    notes += notes_lib.about_runs(picks, step)
    names = {name for pick in picks for r in pick.results.values() for name in r.scores}
    order = tuple(benchmark.scores if benchmark else ()) or _order(picks)
    scores = tuple(score for score in order if score in names) or _order(picks)
    columns, unequal = _columns(benchmark, picks, systems)
    notes += unequal
    counts = _counts(systems, columns)
    if len(counts) > 1:
        notes.append(_not_comparable(counts))
    return Section(
        title=clean(title), split=clean(split), systems=tuple(systems), columns=columns,
        scores=scores, counts=counts, notes=tuple(map(clean, notes)), data=data, model=model,
        paper_notes=tuple(map(clean, paper_notes)), data_note=data_note, benchmark=benchmark,
        tables=benchmark.tables if benchmark and task else (),
        loss_unit='nats per example' if task == 'retrieval' else 'nats per token',
    )  # fmt: skip


def _columns(
    benchmark: benchmarks.Benchmark | None, picks: Sequence[Pick], systems: Sequence[System]
) -> tuple[tuple[Column, ...], list[str]]:
    """A column per task and language pair, an average per task, one over all; and notes on them."""
    tasks = {task for pick in picks for task in pick.results}
    known = benchmark.task_names() if benchmark else ()
    order = [task for task in known if task in tasks]
    groups: dict[str, list[tuple[str, str]]] = {}
    for name in order:
        _, task, source, target = benchmarks.parse_task(name)
        label = source if source == target else f'{source}-{target}'
        groups.setdefault(task, []).append((label, name))
    for name in sorted(tasks - set(order)):  # Tasks of a user's own.
        group, _, lang = name.rpartition('_')
        if group and lang in languages.LANGUAGES:
            groups.setdefault(clean(group), []).append((lang, name))
        else:
            groups.setdefault(clean(name), []).append(('score', name))
    columns: list[Column] = []
    averaged: list[str] = []
    notes = []
    for group, members in groups.items():
        every = tuple(name for _, name in members)
        columns += [Column(group, label, (name,)) for label, name in members]
        averaged += (shared := _averaged(every, systems))
        if len(members) > 1:
            columns.append(Column(group, 'avg', shared))
        if left := [label for label, name in members if name not in shared]:
            said = f'The average of {group} is without {", ".join(left)}'
            notes.append(f'{said}, as no run was scored on all of its columns.')
    if len(groups) > 1:
        columns.append(Column('', 'avg', tuple(averaged)))
    return tuple(columns), notes


def _averaged(tasks: tuple[str, ...], systems: Sequence[System]) -> tuple[str, ...]:
    """The tasks that an average is over: all, or if no run has all, those that most runs share.

    So a system that was scored on a further pair of languages takes the average from nobody else.
    """
    scored = [[set(run) & set(tasks) for run in s.results] for s in systems if s.kind == 'run']
    parts = [part for of_system in scored for part in of_system]
    if not parts or any(len(part) == len(tasks) for part in parts):
        return tasks

    def worth(part: set[str]) -> tuple[int, int]:
        return sum(any(part <= has for has in of_system) for of_system in scored), len(part)

    best = max((part for part in parts if len(part) > 1), key=worth, default=set(tasks))
    return tuple(task for task in tasks if task in best)


def _order(picks: Sequence[Pick]) -> tuple[str, ...]:
    """Scores of tasks that are no benchmark's: what stands for them first, the loss last."""
    results = [result for pick in picks for result in pick.results.values()]
    first = [result.main_score for result in results]
    others = [name for result in results for name in result.scores]
    names = [name for name in dict.fromkeys((*first, *others)) if name not in LOSSES]
    return tuple(names + [name for name in LOSSES if name in others])


def _counts(systems: Sequence[System], columns: Sequence[Column]) -> list[tuple[str, list[str]]]:
    lines: list[tuple[list[System], list[str]]] = []
    for system in systems:
        counts = [system.count(column.tasks) for column in columns]
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


def _not_comparable(counts: Sequence[tuple[str, Sequence[str]]]) -> str:
    """Example: 'Not comparable: scored on 10 and 300 examples.'"""
    for column in zip(*(numbers for _, numbers in counts), strict=True):
        if len(different := set(column) - {'-'}) > 1:
            shown = sorted(different, key=lambda text: int(text.partition('-')[0]))
            return f'Not comparable: scored on {" and ".join(shown)} examples.'
    return 'Not comparable: scored on different numbers of examples.'


def _together(systems: Sequence[System]) -> str:
    """'the runs', 'the baselines', or their names."""
    kinds = {system.kind for system in systems}
    if len(systems) > 1 and len(kinds) == 1:
        return f'the {kinds.pop()}s'
    return ', '.join(system.name for system in systems)


def ends_at_100(score: str) -> bool:
    """Returns whether a score is best at 100, so that what lacks to it is an error."""
    return _HIGHER.fullmatch(score) is not None


def direction(score: str) -> int:
    """-1 where a lower score is better, else 1; of a user's own nobody knows."""
    return -1 if _LOWER.fullmatch(score) else 1


def cells(systems: Sequence[System], score: str, tasks: Sequence[str], decimals: int) -> list[Cell]:
    """The cell of each system in a column, the best one of runs and baselines marked.

    There is none where fewer than two have the score, where they were scored on different numbers
    of examples, or where the score is a user's own.
    """
    made = [system.cell(score, tasks, decimals) for system in systems]
    values = {
        place: round(cell.value, decimals)
        for place, (system, cell) in enumerate(zip(systems, made, strict=True))
        if system.kind != 'paper' and cell.value is not None
    }
    is_known = any(kind.fullmatch(score) for kind in (_HIGHER, _UNBOUNDED, _LOWER))
    counts = {systems[place].count(tasks) for place in values}
    if not is_known or len(values) < 2 or len(counts) > 1:
        return made
    top = max(values.values(), key=lambda value: direction(score) * value)
    return [cell._replace(best=values.get(place) == top) for place, cell in enumerate(made)]
