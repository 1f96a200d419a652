"""A paper's table in its own form, filled with the numbers that it prints or with those of runs."""

import dataclasses
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from xlbench.benchmarks import TRANSLATION, Benchmark, ParallelBenchmark, parse_task
from xlbench.benchmarks.paper import OUR_NAMES, Key, PaperTable
from xlbench.reporting import predictions, sections as sections_lib, tables
from xlbench.reporting.notes import signatures
from xlbench.reporting.results import Run
from xlbench.reporting.systems import System, joined
from xlbench.reporting.tables import Cell, Column, Row, Table
from xlbench.system import errors

Systems = Mapping[tuple[str, str], System]  # By model, and scenario or ''.
_MESSAGES = 4  # That table 2 of MRS shows.
_LANGUAGE = re.compile(r'^<\w+> ')  # What a generator reads before a message.


def fill(
    benchmark: Benchmark,
    form: PaperTable,
    value: Callable[[Key, str], str | None],  # Text of a score, by its cell's key and its name.
    whose: str,  # What the caption ends with: 'as printed in arXiv:2202.05599', say.
    notes: Sequence[str] = (),  # Behind the paper's own and those that name what is empty.
    *,
    models: Collection[str] | None = None,  # Whose rows are named where empty; None: all rows.
    lacking: Collection[str] = (),  # Scores that nothing has; named once for all rows.
) -> Table:
    """A table with the labels, heads and order of a paper's; a cell without a number has a '-'."""
    rows = []
    for line, texts in zip(form.rows, form.cells(value), strict=True):
        # A line of LaTeX separates the groups of a table with many labels.
        kind = line.section or (line.labels[0] if len(line.labels) > 2 else '')
        cells = tuple(Cell(text=text) for text in texts)
        name = ' '.join(filter(None, line.labels))
        rows.append(Row(name, kind, cells, line.labels, line.section))
    asked = [
        row
        for row, line in zip(rows, form.rows, strict=True)
        if models is None or line.key.get('model') in models
    ]
    said = [f'No run has {", ".join(lacking)}.'] if lacking else []
    if asked or models is None:
        empty = [[not cell.text.strip('- /') for cell in row.cells] for row in asked]
        known = [place for place, of in enumerate(form.columns) if set(of.scores) <= {*lacking}]
        labels = [[*filter(None, row.labels)] for row in asked]
        said += tables.gaps(labels, [column.path for column in form.columns], empty, known)
    columns = (Column(' '.join(head.path[:-1]), head.path[-1]) for head in form.columns)
    caption = f'{form.title} ({whose})'
    reference = f'{benchmark.name}-{form.name.replace(" ", "-")}'
    return Table(
        f'{form.short}: {caption}.', tuple(columns), tuple(rows), about=caption, labels=form.labels,
        notes=(*form.notes, *said, *notes), reference=reference,
    )  # fmt: skip


def chosen(tables: Iterable[PaperTable], kind: str, numbers: str, lack: str) -> list[PaperTable]:
    """The tables or figures (`kind`) of a paper that are asked for: 'all', or such as '4,7'.

    Raises:
      UserError: there is no such one; `lack` says so. Example: 'of mtg is not in its paper'.
    """
    known = {table.number: table for table in tables if table.name.startswith(kind)}
    if numbers == 'all':
        return list(known.values())
    words = [word.strip() for word in numbers.split(',') if word.strip()]
    for word in words or [numbers] * bool(numbers):
        if word not in known:
            allowed = ', '.join((*known, 'all')) if known else 'none'
            raise errors.UserError(f'{kind} {word} {lack}; allowed: {allowed}')
    return [known[word] for word in dict.fromkeys(words)]


def of_paper(benchmark: Benchmark, numbers: str) -> list[Table]:
    """Tables with the numbers that a paper prints, see `chosen`."""
    forms = (table for table in benchmark.paper_tables if table.printed and table.rows)
    printed = chosen(forms, 'table', numbers, f'of {benchmark.name} has no printed numbers')
    whose = f'as printed in arXiv:{benchmark.arxiv}'
    return [fill(benchmark, one, one.printed_value, whose, models=()) for one in printed]


def of_runs(benchmark: Benchmark, form: PaperTable, runs: Sequence[Run]) -> list[Table]:
    """The table of runs whose `place` is known, and on official data the paper's below it."""
    systems, notes, is_official = placed(form, runs)
    made = of_systems(benchmark, form, systems, notes)
    return [made, *(of_paper(benchmark, form.number) if is_official else [])]


def of_systems(
    benchmark: Benchmark,
    form: PaperTable,
    systems: Systems,
    notes: Sequence[str] = (),
    models: Collection[str] | None = None,
    whose: str = 'our runs',
) -> Table:
    """A table with the scores of systems, on the paper's scale and with its digits.

    With `models`, only their rows have scores of systems, and the others what the paper prints.
    """

    def value(key: Key, score: str) -> str | None:
        if models is not None and key.get('model') not in models:
            return form.printed_value(key, score)
        model = key['model']
        system = systems.get((model, key['scenario'])) or systems.get((model, ''))
        if system is None:
            return None
        home = TRANSLATION if key['task'] in TRANSLATION.tasks else benchmark
        same = [task for task, of in home.paper_tasks.items() if of == key['task']]
        for task in (key['task'], *same):
            if isinstance(home, ParallelBenchmark) and 'source' not in key:
                pairs = home.pairs(key['scenario'])  # A mean over all.
            else:
                pairs = ((key['source'], key['target']),)
            names = [home.task_name(task, *pair) for pair in pairs]
            cell = system.cell(OUR_NAMES.get(score, score), names)
            if cell.value is not None:
                scale = 100 if score in home.fractions else 1
                spread = None if cell.spread is None else cell.spread / scale
                digits = form.decimals(score)
                return str(Cell(cell.value / scale, spread, digits, mark=cell.mark))
        return None

    asked = dict.fromkeys(score for head in form.columns for score in head.scores)
    known = {score for one in systems.values() for score in one.scores}
    lacking = [score for score in asked if OUR_NAMES.get(score, score) not in known]
    return fill(benchmark, form, value, whose, notes, models=models, lacking=lacking)


def placed(
    form: PaperTable, runs: Sequence[Run]
) -> tuple[dict[tuple[str, str], System], tuple[str, ...], bool]:
    """The systems of runs, by model and scenario; notes; whether the data is the official test."""
    groups: dict[tuple[str, str], list[System]] = {}
    notes: dict[str, None] = {}
    is_official = False
    scores = [score for head in form.columns for score in head.scores]
    for section in sections_lib.sections(runs):
        for system in section.systems:
            run = system.picks[0].run if system.picks else None
            if run and run.place:
                scenario = ''  # Unless its experiment is of one; scored texts do not know theirs.
                if 'scenario' in run.place and run.scenario:
                    scenario = run.scenario.name
                elif run.system:
                    scenario = run.place.get('scenario', '')
                groups.setdefault((run.place['model'], scenario), []).append(system)
        notes |= dict.fromkeys(section.notes[:1])
        notes |= dict.fromkeys(signatures(section.picks, scores, shared=True))
        is_official |= section.data == 'official' and section.split == 'test'
    systems = {}
    for key, members in groups.items():  # What scores different tasks is one, seed by seed.
        of_seeds = joined(system.results for system in members)
        picks = tuple(pick for system in members for pick in system.picks)
        name = key[0] + (f' ({len(of_seeds)} seeds)' if len(of_seeds) > 1 else '')
        systems[key] = System(name, 'run', of_seeds, picks)
    return systems, tuple(notes), is_official


def replies(benchmark: Benchmark, form: PaperTable, runs: Sequence[Run]) -> Table:
    """Messages with the replies of both models: table 2 of arXiv:2106.02017, with our texts."""
    written: dict[str, dict[str, str]] = {'generation': {}, 'retrieval': {}}
    for run in runs:
        for (task, split), result in run.evaluations[max(run.evaluations)].items():
            kind = parse_task(task).task
            if split == 'test' and kind in written:
                found = predictions.of_result(result).values()
                written[kind] |= {_LANGUAGE.sub('', row.input): row.texts(1)[0] for row in found}
    both = [message for message in written['generation'] if message in written['retrieval']]
    rows = tuple(
        Row(label, '', (Cell(text=text),), (label,))
        for message in both[:_MESSAGES]
        for label, text in (
            ('Message:', message),
            *((f'{kind.capitalize()}:', of_kind[message]) for kind, of_kind in written.items()),
        )
    )
    said = () if both else ('No message has replies of both models.',)
    # The paper's has no rows of its own.
    made = fill(benchmark, form, form.printed_value, 'our runs', said, models=())
    return dataclasses.replace(made, columns=(Column('', ''),), rows=rows, labels=('',))
