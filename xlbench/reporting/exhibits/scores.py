"""Tables of scores in the form of a paper: pairs of languages, averages, and two stages.

A place that no run fills is a '-', and a note names it. Rows marked paper stand beside official
data alone.
"""

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

from xlbench.benchmarks import SCENARIO_TITLES, Exhibit, paper
from xlbench.reporting import comparisons, notes as notes_lib, significance, statistics
from xlbench.reporting.exhibits.board import RATING, Board
from xlbench.reporting.significance import Difference
from xlbench.reporting.systems import System
from xlbench.reporting.tables import Cell, Column, Row, Table

_DECIMALS = 2
_P_VALUE = 'p-value'
_ITS_RATING = (
    f'In rows marked paper, {RATING} is its ensemble metric, whose data and settings are not '
    'published: it is on the scale of human ratings as ours is, and no more than that.'
)


def pairs(board: Board, exhibit: Exhibit) -> Table:
    """A row for each task, model and pair of languages: tables 11 to 19 of arXiv:2108.07140."""
    (scenario,) = exhibit.scenarios
    rows = []
    for task in exhibit.tasks or board.benchmark.tasks:
        for model in board.models((scenario,)):
            for source, target in board.benchmark.pairs(scenario, exhibit.sources):
                tasks = (board.benchmark.task_name(task, source, target),)
                name = f'{task} {model} {source}-{target}'
                rows += _rows(board, exhibit, (scenario, model), tasks, name)
    return _table(board, exhibit, rows, missing_runs(board, exhibit))


def averages(board: Board, exhibit: Exhibit) -> Table:
    """A row for each task and model, its scores averaged over languages: table 4."""
    (scenario,) = exhibit.scenarios
    printed = {(r['task'], r['model']): r for r in paper.printed_rows(exhibit.printed)}
    rows = []
    for task in exhibit.tasks or board.benchmark.tasks:
        for model in board.models((scenario,)):
            tasks = board.tasks(scenario, task, exhibit.sources)
            name = f'{task} {model}'
            ours, *_ = _rows(board, exhibit, (scenario, model), tasks, name)
            rows.append(ours)
            if board.is_official and (task, model) in printed:
                cells = (_printed(board, printed[task, model], s) for s in exhibit.scores)
                rows.append(Row(f'{name} (paper)', 'paper', tuple(cells)))
    targets = ', '.join(f'{s}-{t}' for s, t in board.benchmark.pairs(scenario, exhibit.sources))
    said = (f'Averaged over {targets}.', *missing_runs(board, exhibit))
    return _table(board, exhibit, rows, said)


class Staged(NamedTuple):
    """A setting after its first stage and after its last.

    Attributes:
        first: The score after the first stage.
        last: After the last one.
        difference: Last minus first, None where there is no test; NaN as the p-value of equal ones.
        p_value: Corrected for the settings of the same task and model.
    """

    first: Cell
    last: Cell
    difference: Difference | None
    p_value: float

    @property
    def is_significant(self) -> bool:
        """Whether the two stages differ by more than chance explains."""
        return self.p_value < statistics.LEVEL


def stages(board: Board, exhibit: Exhibit, first: Board | None, names: Sequence[str]) -> Table:
    """The main score after the first stage and after the last, and whether they differ: table 7.

    Args:
        board: The runs after their last stage.
        exhibit: What is asked for.
        first: The same runs after their first stage; None where no run has two stages.
        names: Of the two stages.
    """
    score = board.main_score()
    made = staged(board, exhibit, first, score) if first else {}
    if not made:
        return Table(exhibit.name, missing='no run was scored after its first stage and its last')
    rows = []
    for (task, model), of_model in made.items():
        name = f'{task} {model}'
        for i, stage in enumerate(names):
            rows.append(Row(f'{name} {stage}', 'run', tuple(one[i] for one in of_model)))
        texts = (
            significance.p_text(one.p_value, one.difference) + '*' * one.is_significant
            for one in of_model
        )
        rows.append(Row(f'{name} {_P_VALUE}', 'p', tuple(Cell(text=text) for text in texts)))
        if board.is_official:
            rows += _printed_stages(exhibit, task, model)
    said = (
        f'{score}, averaged over the pairs of languages of each setting. A p-value is that of a '
        'two-sided paired t-test over the examples of all pairs, corrected for the settings of '
        f'one task and model (Holm); * marks those below {statistics.LEVEL}.',
        *([f'Rows marked paper: its ensemble metric, not {score}.'] if board.is_official else []),
        *missing_runs(board, exhibit),
    )
    columns = tuple(Column('', SCENARIO_TITLES[scenario]) for scenario in exhibit.scenarios)
    title = f'{exhibit.name}: {exhibit.title}'
    return Table(title, columns, tuple(rows), 'task, model, stage', (*board.notes, *said))


def staged(
    board: Board, exhibit: Exhibit, first: Board, score: str
) -> dict[tuple[str, str], list[Staged]]:
    """A score after both stages by (task, model), for each setting of an exhibit."""
    made = {}
    for task in exhibit.tasks or board.benchmark.tasks:
        for model in board.models(exhibit.scenarios):
            cells, differences = [], []
            for scenario in exhibit.scenarios:
                tasks, key = board.tasks(scenario, task), (scenario, model)
                cells.append([b.cell(key, tasks, score, _DECIMALS) for b in (first, board)])
                systems = first.systems.get(key), board.systems.get(key)
                differences.append(difference(*systems, tasks, score))
            if all(before.is_missing for before, _ in cells):
                continue
            p_values = statistics.holm([d.p_value if d else math.nan for d in differences])
            made[task, model] = [
                Staged(*pair, difference, p)
                for pair, difference, p in zip(cells, differences, p_values, strict=True)
            ]
    return made


def missing_runs(board: Board, exhibit: Exhibit) -> list[str]:
    """Names the places of an exhibit that no run fills: what a '-' in it stands for."""
    models, tasks = board.models(exhibit.scenarios), exhibit.tasks or board.benchmark.tasks
    gaps = {
        place: [model for model in models if _lacks(board, exhibit, *place, model)]
        for place in itertools.product(exhibit.scenarios, tasks)
    }
    absent = [model for model in models if all(model in of_place for of_place in gaps.values())]
    said = [f'No run of {", ".join(absent)}.'] if absent else []
    places = []
    for scenario in exhibit.scenarios:
        of_tasks = {
            task: tuple(model for model in gaps[scenario, task] if model not in absent)
            for task in tasks
        }
        if len(set(of_tasks.values())) == 1:
            of_tasks = {'': of_tasks[tasks[0]]}
        for task, lacking in of_tasks.items():
            if lacking:
                places.append(f'{scenario} {task} '.replace('  ', ' ') + ', '.join(lacking))
    said += [f'No run, or not of every language: {"; ".join(places)}.'] if places else []
    if board.others:
        said.append(f'Left out, as they follow no setting: {", ".join(board.others)}.')
    return said


def _lacks(board: Board, exhibit: Exhibit, scenario: str, task: str, model: str) -> bool:
    """Returns whether a model has no run, or not of every language, on a task in a setting."""
    tasks = board.tasks(scenario, task, exhibit.sources)
    return board.cell((scenario, model), tasks, board.benchmark.scores[0]).is_missing


def _rows(
    board: Board, exhibit: Exhibit, key: tuple[str, str], tasks: Sequence[str], name: str
) -> list[Row]:
    """A model's row, and the paper's under it where it has one."""
    ours = tuple(board.cell(key, tasks, score, _DECIMALS) for score in exhibit.scores)
    rows = [Row(name, 'run', ours)]
    theirs = tuple(board.paper_cell(key, tasks, score, _DECIMALS) for score in exhibit.scores)
    if not all(cell.is_missing for cell in theirs):
        rows.append(Row(f'{name} (paper)', 'paper', theirs))
    return rows


def _table(board: Board, exhibit: Exhibit, rows: Sequence[Row], said: Sequence[str]) -> Table:
    if all(row.is_missing for row in rows if row.kind == 'run'):
        return Table(exhibit.name, missing=f'no run follows {" or ".join(exhibit.scenarios)}')
    signatures = notes_lib.signatures(board.picks, exhibit.scores, shared=True)
    lacking = [
        score
        for i, score in enumerate(exhibit.scores)
        if all(row.cells[i].is_missing for row in rows if row.kind == 'run')
    ]
    more = [f'No run has {", ".join(lacking)}.'] if lacking else []
    more += [_ITS_RATING] if any(row.kind == 'paper' for row in rows) else []
    return Table(
        f'{exhibit.name}: {exhibit.title}',
        tuple(Column('', score) for score in exhibit.scores),
        tuple(rows),
        'task, model',
        (*board.notes, *said, *more, *signatures),
        about=f'{exhibit.title}, {board.split} split of {board.benchmark.name}',
    )


def _printed(board: Board, row: dict[str, str], score: str) -> Cell:
    """A number of the paper, on our scale."""
    text = row.get('ensemble' if score == RATING else score)
    if not text:
        return Cell()
    is_fraction = score in board.benchmark.fractions
    return Cell(float(text) * (100 if is_fraction else 1), None, _DECIMALS)


def _printed_stages(exhibit: Exhibit, task: str, model: str) -> list[Row]:
    """The paper's rows for one task and model: after both stages, and the p-values."""
    printed = {
        row['scenario']: row
        for row in paper.printed_rows(exhibit.printed)
        if (row['task'], row['model']) == (task, model)
    }
    if not printed:
        return []
    rows = []
    for column, label in (('stage1', 'stage1'), ('stage2', 'stage2'), ('p_value', _P_VALUE)):
        cells = (Cell(text=printed[scenario][column]) for scenario in exhibit.scenarios)
        rows.append(Row(f'{task} {model} {label} (paper)', 'paper', tuple(cells)))
    return rows


def difference(
    first: System | None, last: System | None, tasks: Sequence[str], score: str
) -> Difference | None:
    """Last minus first over the examples of all tasks; None if one lacks them."""
    if first is None or last is None:
        return None
    pooled: list[dict[str, float]] = [{}, {}]
    for task in tasks:
        for side, system in zip(pooled, (last, first), strict=True):
            values = comparisons.texts_of(system, task).values(score)
            if values is None:
                return None
            side |= {f'{task} {key}': value for key, value in values.items()}
    if pooled[0].keys() != pooled[1].keys():
        return None
    return significance.t_test(*pooled)
