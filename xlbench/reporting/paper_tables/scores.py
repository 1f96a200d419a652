"""Tables of scores in the form of a paper: pairs of languages, averages, and two stages.

A place that no run fills is a '-', and a note names it. Rows marked paper stand beside official
data alone.
"""

import itertools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from xlbench.benchmarks import SCENARIO_TITLES, PaperTable
from xlbench.benchmarks.paper import RATING
from xlbench.reporting import comparisons, notes as notes_lib, statistics
from xlbench.reporting.paper_tables.board import Board, Compared
from xlbench.reporting.statistics import Difference
from xlbench.reporting.tables import Cell, Column, Table

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
    names, models = paper_table.scores, board.models((scenario,))
    pairs = board.benchmark.pairs(scenario, sources)
    places = [{'source': a, 'target': b} for a, b in pairs] if sources else [{}]
    rows = []
    for task, model, place in itertools.product(board.benchmark.tasks, models, places):
        tasks = board.tasks(scenario, task)
        if place:
            tasks = (board.benchmark.task_name(task, **place),)
        ours = [board.cell((scenario, model), tasks, score, _DECIMALS) for score in names]
        key = {'scenario': scenario, 'task': task, 'model': model, **place}
        theirs = []
        for head in paper_table.columns if board.is_official else ():
            (score,) = head.scores
            scale = 100 if score in board.benchmark.fractions else 1  # On our scale.
            text = paper_table.printed_value(key, score)
            theirs.append(Cell(float(text) * scale, None, _DECIMALS) if text else Cell())
        rows.append(Compared((task, model, '-'.join(place.values())), ours, theirs))
    averaged = f'Averaged over {", ".join(map("-".join, pairs))}; a mean needs all of them.'
    said = [] if sources else [averaged]
    said += [_ITS_RATING] if board.is_official else []
    said += notes_lib.signatures(board.picks, names, shared=True)
    about = f'{paper_table.title}, {board.split} split of {board.benchmark.name}'
    return board.table(paper_table, Column.named(names), rows, said, about=about, is_whole=True)


class Staged(NamedTuple):
    """A score after the first stage and after the last, for each setting.

    Attributes:
      first: after the first stage.
      last: after the last one.
      tests: of last minus first; see `comparisons.pooled`.
    """

    first: list[Cell]
    last: list[Cell]
    tests: list[tuple[Difference | None, float]]

    @property
    def marks(self) -> list[str]:
        """Returns a * for each setting whose stages differ significantly, else ''."""
        return ['*' * (p < statistics.LEVEL) for _, p in self.tests]


def stages(
    board: Board,
    paper_table: PaperTable,
    made: Mapping[tuple[str, str], Staged],
    names: Sequence[str],
) -> Table:
    """The main score after the first stage and after the last, and whether they differ: table 7."""
    score = board.main_score()
    if all(cell.is_missing for one in made.values() for cell in one.first):
        return Table(
            paper_table.short, missing='no run was scored after its first stage and its last'
        )
    rows = []
    for (task, model), one in made.items():
        pairs = zip(one.tests, one.marks, strict=True)
        p_values = [Cell(text=statistics.p_text(p, d) + mark) for (d, p), mark in pairs]
        ours = (one.first, one.last, p_values)
        labels, kinds = (*names, _P_VALUE), ('run', 'run', 'p')
        for label, cells, kind, line in itertools.zip_longest(
            labels, ours, kinds, paper_table.rows
        ):
            key, heads = {'task': task, 'model': model}, paper_table.columns if line else ()
            places = ((key | head.key, line.key['score']) for head in heads)
            printed = board.printed(paper_table, places)
            rows.append(Compared((task, model, label), cells, printed, kind))
    said = (
        f'{score}, averaged over the pairs of languages of each setting; a mean needs all of them. '
        'A p-value is that of a two-sided paired t-test over the examples of all pairs, corrected '
        f'for the settings of one task and model (Holm); * marks those below {statistics.LEVEL}.',
        *([f'Rows marked paper: its ensemble metric, not {score}.'] if board.is_official else []),
    )
    columns = Column.named(SCENARIO_TITLES[name] for name in paper_table.values('scenario'))
    return board.table(paper_table, columns, rows, said, 'task, model, stage')


def staged(
    board: Board, paper_table: PaperTable, first: Board | None, tasks: Sequence[str]
) -> dict[tuple[str, str], Staged]:
    """The main score after both stages by (task, model), in the settings of a paper table.

    `first` has the same runs after their first stage; it is None where no run has two stages.
    """
    if first is None:
        return {}
    score, scenarios, made = board.main_score(), paper_table.values('scenario'), {}
    for task, model in itertools.product(tasks, board.models(scenarios)):
        places = [((scenario, model), board.tasks(scenario, task)) for scenario in scenarios]
        before, after = (
            [b.cell(*place, score, _DECIMALS) for place in places] for b in (first, board)
        )
        pairs = [(first.systems.get(key), board.systems.get(key), tasks) for key, tasks in places]
        made[task, model] = Staged(before, after, comparisons.pooled(pairs, score))
    return made
