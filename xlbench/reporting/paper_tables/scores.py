"""Tables of scores in the form of a paper: pairs of languages, averages, and two stages.

A place that no run fills is a '-', and a note names it. Rows marked paper stand beside official
data alone.
"""

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

from xlbench.benchmarks import SCENARIO_TITLES, PaperTable
from xlbench.benchmarks.paper import RATING
from xlbench.reporting import comparisons, notes as notes_lib, statistics
from xlbench.reporting.paper_tables import board as board_lib
from xlbench.reporting.paper_tables.board import Board
from xlbench.reporting.statistics import Difference
from xlbench.reporting.tables import Cell, Column, Row, Table

_DECIMALS = 2
_P_VALUE = 'p-value'
_ITS_RATING = (
    f'In rows marked paper, {RATING} is its ensemble metric, whose data and settings are not '
    'published: it is on the scale of human ratings as ours is, and no more than that.'
)


def scores(board: Board, paper_table: PaperTable) -> Table:
    """A row for each task and model, and for each pair of languages where the paper has them apart.

    So are tables 11 to 19 of arXiv:2108.07140; in table 4 scores are averaged over the pairs.
    """
    (scenario,), sources = paper_table.values('scenario'), paper_table.values('source')
    pairs = board.benchmark.pairs(scenario, sources)
    places = [{'source': a, 'target': b} for a, b in pairs] if sources else [{}]
    rows = []
    for task in board.benchmark.tasks:
        for model, place in itertools.product(board.models((scenario,)), places):
            tasks = board.tasks(scenario, task)
            if place:
                tasks = (board.benchmark.task_name(task, **place),)
            name = ' '.join(filter(None, (task, model, '-'.join(place.values()))))
            names = paper_table.scores
            ours = (board.cell((scenario, model), tasks, score, _DECIMALS) for score in names)
            key = {'scenario': scenario, 'task': task, 'model': model, **place}
            theirs = []
            for head in paper_table.columns if board.is_official else ():
                (score,) = head.scores
                scale = 100 if score in board.benchmark.fractions else 1  # On our scale.
                text = paper_table.printed_value(key, score)
                theirs.append(Cell(float(text) * scale, None, _DECIMALS) if text else Cell())
            rows += [Row(name, 'run', tuple(ours)), *board_lib.paper_row(name, theirs)]
    said = [] if sources else [f'Averaged over {", ".join(map("-".join, pairs))}.']
    return _table(board, paper_table, rows, [*said, *missing_runs(board, paper_table)])


class Staged(NamedTuple):
    """A setting after its first stage and after its last.

    Attributes:
      first: the score after the first stage.
      last: after the last one.
      difference: last minus first, None where there is no test; NaN as the p-value of equal ones.
      p_value: corrected for the settings of the same task and model.
    """

    first: Cell
    last: Cell
    difference: Difference | None
    p_value: float

    @property
    def is_significant(self) -> bool:
        """Returns True if the two stages differ significantly."""
        return self.p_value < statistics.LEVEL


def stages(
    board: Board, paper_table: PaperTable, first: Board | None, names: Sequence[str]
) -> Table:
    """The main score after the first stage and after the last, and whether they differ: table 7.

    `first` has the same runs after their first stage; it is None where no run has two stages.
    """
    score = board.main_score()
    made = staged(board, paper_table, first, score) if first else {}
    if not made:
        return Table(
            paper_table.short, missing='no run was scored after its first stage and its last'
        )
    rows = []
    for (task, model), of_model in made.items():
        name = f'{task} {model}'
        for i, stage in enumerate(names):
            rows.append(Row(f'{name} {stage}', 'run', tuple(one[i] for one in of_model)))
        texts = (
            statistics.p_text(one.p_value, one.difference) + '*' * one.is_significant
            for one in of_model
        )
        rows.append(Row(f'{name} {_P_VALUE}', 'p', tuple(Cell(text=text) for text in texts)))
        key = {'task': task, 'model': model}
        for line in paper_table.rows:
            places = ((key | head.key, line.key['score']) for head in paper_table.columns)
            rows += board.printed_row(paper_table, f'{name} {line.labels[0]}', places)
    said = (
        f'{score}, averaged over the pairs of languages of each setting. A p-value is that of a '
        'two-sided paired t-test over the examples of all pairs, corrected for the settings of '
        f'one task and model (Holm); * marks those below {statistics.LEVEL}.',
        *([f'Rows marked paper: its ensemble metric, not {score}.'] if board.is_official else []),
        *missing_runs(board, paper_table),
    )
    columns = tuple(
        Column('', SCENARIO_TITLES[scenario]) for scenario in paper_table.values('scenario')
    )
    title = paper_table.heading
    return Table(title, columns, tuple(rows), 'task, model, stage', (*board.notes, *said))


def staged(
    board: Board, paper_table: PaperTable, first: Board, score: str
) -> dict[tuple[str, str], list[Staged]]:
    """A score after both stages by (task, model), for each setting of a paper table."""
    made = {}
    for task in board.tasks_shown:
        for model in board.models(paper_table.values('scenario')):
            cells, differences = [], []
            for scenario in paper_table.values('scenario'):
                tasks, key = board.tasks(scenario, task), (scenario, model)
                cells.append([b.cell(key, tasks, score, _DECIMALS) for b in (first, board)])
                systems = first.systems.get(key), board.systems.get(key)
                differences.append(comparisons.pooled(*systems, tasks, score))
            if all(before.is_missing for before, _ in cells):
                continue
            p_values = statistics.holm([d.p_value if d else math.nan for d in differences])
            made[task, model] = [
                Staged(*pair, difference, p)
                for pair, difference, p in zip(cells, differences, p_values, strict=True)
            ]
    return made


def missing_runs(board: Board, paper_table: PaperTable) -> list[str]:
    """Names the places of a paper table that no run fills: what a '-' in it stands for."""
    scenarios = paper_table.values('scenario')
    models, tasks = board.models(scenarios), board.tasks_shown
    sources, score = paper_table.values('source'), board.benchmark.scores[0]
    gaps = {
        (scenario, task): [
            model
            for model in models
            if board.cell((scenario, model), board.tasks(scenario, task, sources), score).is_missing
        ]
        for scenario, task in itertools.product(scenarios, tasks)
    }
    absent = [model for model in models if all(model in of_place for of_place in gaps.values())]
    said = [f'No run of {", ".join(absent)}.'] if absent else []
    places = []
    for scenario in scenarios:
        of_tasks = {
            task: tuple(model for model in gaps[scenario, task] if model not in absent)
            for task in tasks
        }
        if len(set(of_tasks.values())) == 1:
            of_tasks = {'': of_tasks[tasks[0]]}
        for task, lacking in of_tasks.items():
            if lacking:
                places.append(f'{scenario} {task} '.replace('  ', ' ') + ', '.join(lacking))
    said += [f'No run, or only for some languages: {"; ".join(places)}.'] if places else []
    if board.others:
        said.append(f'Left out, as they follow no setting: {", ".join(board.others)}.')
    return said


def no_run(paper_table: PaperTable) -> str:
    """Says why a table of scores cannot be made without runs."""
    names = paper_table.values('scenario')
    return f'no run follows {" or ".join(names)}'


def _table(
    board: Board, paper_table: PaperTable, rows: Sequence[Row], said: Sequence[str]
) -> Table:
    if all(row.is_missing for row in rows if row.kind == 'run'):
        return Table(paper_table.short, missing=no_run(paper_table))
    signatures = notes_lib.signatures(board.picks, paper_table.scores, shared=True)
    lacking = [
        score
        for i, score in enumerate(paper_table.scores)
        if all(row.cells[i].is_missing for row in rows if row.kind == 'run')
    ]
    more = [f'No run has {", ".join(lacking)}.'] if lacking else []
    more += [_ITS_RATING] if any(row.kind == 'paper' for row in rows) else []
    return Table(
        paper_table.heading,
        tuple(Column('', score) for score in paper_table.scores),
        tuple(rows),
        'task, model',
        (*board.notes, *said, *more, *signatures),
        about=f'{paper_table.title}, {board.split} split of {board.benchmark.name}',
    )
