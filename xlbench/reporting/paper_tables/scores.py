"""Tables and figures of scores in the form of a paper: pairs of languages, averages, two stages.

A place that no run fills is a '-', and a note names it. Rows marked paper stand beside official
data alone. A figure is made from a table of its numbers, which stands under it, and drawn when it
is asked for. Models have their colours and hatches, or in matrices shades of one lightness scale,
so that the colour-blind and readers of grey prints tell them apart.
"""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from xlbench.benchmarks import SCENARIO_TITLES, PaperTable
from xlbench.benchmarks.paper import RATING
from xlbench.reporting import comparisons, notes as notes_lib
from xlbench.reporting.paper_tables.board import Board, Compared
from xlbench.reporting.statistics import LEVEL, Difference, p_text
from xlbench.reporting.tables import Cell, Column, Figure, Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

_DECIMALS = 2
_P_VALUE = 'p-value'
_ITS_RATING = (
    f'In rows marked paper, {RATING} is its ensemble metric, whose data and settings are not '
    'published: it is on the scale of human ratings as ours is, and no more than that.'
)
_PANELS = 3  # Side by side, where a figure does not say.
_LETTER = 0.075  # Width in inches.


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
    """A score after the first stage and the last, by setting; tests are of last minus first."""

    first: list[Cell]
    last: list[Cell]
    tests: list[tuple[Difference | None, float]]

    @property
    def marks(self) -> list[str]:
        """Returns a * for each setting whose stages differ significantly, else ''."""
        return ['*' * (p < LEVEL) for _, p in self.tests]


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
        p_values = [Cell(text=p_text(p, d) + mark) for (d, p), mark in pairs]
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
        f'for the settings of one task and model (Holm); * marks those below {LEVEL}.',
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


# --------------------------------------------------------------------------------------- figures


class Bars(NamedTuple):
    """A panel of bars in groups, which are named from left to right.

    Each series has a height for each group, and a mark where the paper's number is; NaN is none.
    Labels stand above groups, such as * for a significant difference.
    """

    title: str
    groups: Sequence[str]
    heights: Mapping[str, Sequence[float]]
    marks: Mapping[str, Sequence[float]] = {}
    labels: Mapping[str, str] = {}


def settings(board: Board, paper_table: PaperTable) -> Figure:
    """Bars of each model in four settings, a panel a task: figure 3 of arXiv:2108.07140."""
    score, scenarios = board.main_score(), paper_table.values('scenario')
    titles = [SCENARIO_TITLES[scenario] for scenario in scenarios]
    shown = _models(board, scenarios)
    panels, rows = [], []
    for task in board.benchmark.tasks:
        heights, marks = {}, {}
        for model in board.models(scenarios):
            places = [((scenario, model), board.tasks(scenario, task)) for scenario in scenarios]
            ours = [board.cell(*place, score, 2) for place in places]
            theirs = [board.paper_cell(*place, score, 2) for place in places]
            rows.append(Compared((task, model), ours, theirs))
            if model in shown:
                heights[model], marks[model] = map(_numbers, (ours, theirs))
        panels.append(Bars(task.upper(), titles, heights, marks))
    said = [f'{score}, averaged over languages; a mean needs all of them.']
    table = board.table(paper_table, Column.named(titles), rows, said)
    return _bars(paper_table, table, panels, ('setting', score), 3)


def matrices(board: Board, paper_table: PaperTable) -> Figure:
    """A matrix of languages for each task and model: figure 4."""
    score, scenarios = board.main_score(), paper_table.values('scenario')
    decimals = 1 if score == board.benchmark.scores[0] else 2
    languages, shown = board.benchmark.languages, _models(board, scenarios)

    def cell_of(read: Callable[..., Cell], task: str, model: str, source: str, target: str) -> Cell:
        scenario = 'mono' if source == target else 'cross'
        tasks = (board.benchmark.task_name(task, source, target),)
        return read((scenario, model), tasks, score, decimals)

    panels: dict[str, list[list[Cell]]] = {}
    rows = []
    for task in board.benchmark.tasks:
        of_task = {
            model: [
                [[cell_of(read, task, model, a, b) for b in languages] for a in languages]
                for read in (board.cell, board.paper_cell)
            ]
            for model in board.models(scenarios)
        }
        for model, both in of_task.items():
            for source, ours, theirs in zip(languages, *both, strict=True):
                rows.append(Compared((task, model, source), ours, theirs))
        for place, whose in enumerate(('', ' (paper)')):
            made = {model: both[place] for model, both in of_task.items() if model in shown}
            if not all(cell.is_missing for cells in made.values() for row in cells for cell in row):
                panels |= {f'{task.upper()} {model}{whose}': of for model, of in made.items()}
    said = [f'{score}. A row is the source language, a column the target.']
    table = board.table(paper_table, [Column('into', to) for to in languages], rows, said)
    across, side = max(1, len(shown)), 0.5 * len(languages) + 0.55
    size = side * across + 1.0, (side + 0.25) * -(-len(panels) // across)

    def paint(figure: 'Canvas') -> None:
        from xlbench.reporting import drawing

        numbers = [[_numbers(row) for row in cells] for cells in panels.values()]
        known = [x for table in numbers for row in table for x in row if not math.isnan(x)]
        limits = (min(known), max(known)) if known else (0.0, 1.0)  # One scale of shades for all.
        axes = drawing.panels(figure, len(panels), across)
        for (title, cells), table, one in zip(panels.items(), numbers, axes, strict=True):
            texts = [list(map(str, row)) for row in cells]
            image = drawing.heat_map(one, table, texts, languages, languages, limits)
            one.set_aspect('equal')
            one.set_title(title, fontsize='medium')
        figure.supxlabel('target language', fontsize='medium')
        figure.supylabel('source language', fontsize='medium')
        figure.colorbar(image, ax=axes, label=score, shrink=0.6, aspect=30)

    return Figure(paper_table.name.replace(' ', ''), table, size, paint)


def stage_bars(
    board: Board,
    paper_table: PaperTable,
    made: Mapping[tuple[str, str], Staged],
    names: Sequence[str],
) -> Figure:
    """Bars after the first stage and after the second, a panel a task and model: figure 5."""
    table = stages(board, paper_table, made, names)
    titles = [SCENARIO_TITLES[scenario] for scenario in paper_table.values('scenario')]
    panels = []
    made = {key: of for key, of in made.items() if not all(cell.is_missing for cell in of.first)}
    for (task, model), one in made.items():
        heights = dict(zip(names, map(_numbers, (one.first, one.last)), strict=True))
        labels = dict(zip(titles, one.marks, strict=True))
        panels.append(Bars(f'{task.upper()} {model}', titles, heights, {}, labels))
    across = len({model for _, model in made})
    return _bars(paper_table, table, panels, ('setting', board.main_score()), across)


def translation(board: Board, paper_table: PaperTable) -> Figure:
    """Cross-lingual models beside chains that translate what they generate: figure 6."""
    score = board.main_score()
    pairs = board.benchmark.pairs('cross', paper_table.values('source'))
    ways = ('cross-lingual', 'generate, then translate')
    titles = [f'{source}-{target}' for source, target in pairs]
    panels, rows = [], []
    for task in board.benchmark.tasks:
        for model in dict.fromkeys((*_models(board, ('cross',)), *board.chains)):
            tasks = [(board.benchmark.task_name(task, *pair),) for pair in pairs]
            key, chain = ('cross', model), board.chains.get(model)
            cross = [board.cell(key, one, score, 2) for one in tasks]
            chained = [chain.cell(score, one, 2) if chain else Cell() for one in tasks]
            printed = [board.paper_cell(key, one, score, 2) for one in tasks]
            tests = comparisons.pooled([(chain, board.systems.get(key), t) for t in tasks], score)
            texts = [Cell(text=p_text(p, difference)) for difference, p in tests]
            rows.append(Compared((task, model, ways[0]), cross, printed))
            rows.append(Compared((task, model, ways[1]), chained))
            rows.append(Compared((task, model, 'p-value'), texts, kind='p'))
            if not all(cell.is_missing for cell in (*cross, *chained)):
                heights = dict(zip(ways, map(_numbers, (cross, chained)), strict=True))
                labels = dict(zip(titles, ('*' * (p < LEVEL) for _, p in tests), strict=True))
                marks = {ways[0]: _numbers(printed)}
                panels.append(Bars(f'{task.upper()} {model}', titles, heights, marks, labels))
    said = (
        f'{score}; p-values of two-sided paired t-tests over examples, corrected for the pairs of '
        'a task and model (Holm).',
        *([] if board.chains else ['There is no chain (xlbench translate chain) yet.']),
    )
    across = len({panel.title.partition(' ')[2] for panel in panels})
    table = board.table(paper_table, Column.named(titles), rows, said)
    return _bars(paper_table, table, panels, ('languages', score), across)


def correlations(paper_table: PaperTable, numbers: Table) -> Figure:
    """Bars of how each score correlates with ratings: figures 2 and 7."""
    groups = [column.label for column in numbers.columns]
    heights = {row.name: _numbers(row.cells) for row in numbers.rows}
    labels = ('rating', 'Pearson correlation')
    return _bars(paper_table, numbers, [Bars('', groups, heights)], labels, 1)


def side_by_side(paper_table: PaperTable, numbers: Table) -> Figure:
    """Bars of a few systems, a panel a score, as scores differ in size."""
    panels = [
        Bars(column.label, [''], {row.name: _numbers([row.cells[place]]) for row in numbers.rows})
        for place, column in enumerate(numbers.columns)
    ]
    return _bars(paper_table, numbers, panels, ('', ''), len(panels))


def _models(board: Board, scenarios: Sequence[str]) -> list[str]:
    """The models that have a run in one of the settings, or numbers of the paper beside ours."""
    has = {model for scenario, model in board.systems if scenario in scenarios}
    has |= {*board.benchmark.paper_models} if board.is_official else set()
    return [model for model in board.models(scenarios) if model in has]


def _numbers(cells: Sequence[Cell]) -> list[float]:
    return [math.nan if cell.value is None else cell.value for cell in cells]


def _bars(
    paper_table: PaperTable,
    numbers: Table,
    panels: Sequence[Bars],
    labels: tuple[str, str],
    across: int,
) -> Figure:
    """A figure of bars; `labels` are those of its axes, `across` the panels in a row."""
    if across < 2:  # Of one model: its tasks side by side.
        across = max(1, min(_PANELS, len(panels)))
    series = list(dict.fromkeys(s for panel in panels for s in panel.heights))
    wide = max((len(panel.groups) for panel in panels), default=0) * max(len(series), 2)
    size = across * max(2.6, 0.23 * wide + 0.9), 2.3 * -(-len(panels) // across) + 0.5

    def paint(figure: 'Canvas') -> None:
        from xlbench.reporting import drawing  # It loads matplotlib, which tables do not need.

        axes = drawing.panels(figure, len(panels), across)
        for panel, one in zip(panels, axes, strict=True):
            _draw_panel(one, panel, series)
        for one in axes[-across:]:
            one.set_xlabel(labels[0])  # A label of the whole figure would lie on the legend.
        figure.supylabel(labels[1], fontsize='medium')
        handles, names = axes[0].get_legend_handles_labels()
        needed = 0.6 + _LETTER * max(map(len, names))  # Of a name with its colour, in inches.
        per_row = max(1, int(figure.get_size_inches()[0] / needed))
        figure.legend(
            handles, names, loc='outside lower center', ncols=min(len(names), per_row),
            frameon=False,
        )  # fmt: skip

    return Figure(paper_table.name.replace(' ', ''), numbers, size, paint)


def _draw_panel(axes: 'Axes', panel: Bars, series: Sequence[str]) -> None:
    from xlbench.reporting import drawing

    width = 0.8 / max(len(series), 1)
    for number, name in enumerate(series):
        colour, hatch = drawing.bar(number)
        offset = (number - (len(series) - 1) / 2) * width
        places = [i + offset for i in range(len(panel.groups))]
        heights = panel.heights.get(name) or [math.nan] * len(places)
        # A space before the name: matplotlib hides labels that begin with an underscore.
        axes.bar(
            places, heights, width, label=f' {name}', color=colour, hatch=hatch,
            edgecolor='white', linewidth=0.5,
        )  # fmt: skip
        marks = panel.marks.get(name) or []
        if any(not math.isnan(mark) for mark in marks):
            axes.plot(
                places, marks, linestyle='none', marker='D', markersize=4,
                markerfacecolor='white', markeredgecolor=drawing.BLACK,
                label=' paper' if name == next(iter(panel.marks)) else None,
            )  # fmt: skip
    for i, group in enumerate(panel.groups):
        tops = [h[i] for h in panel.heights.values() if not math.isnan(h[i])]
        if panel.labels.get(group) and tops:
            axes.annotate(panel.labels[group], (i, max(tops)), ha='center', va='bottom')
    if panel.title:
        axes.set_title(panel.title, fontsize='medium')
    axes.set_xticks(range(len(panel.groups)), panel.groups)
    axes.tick_params(axis='x', labelsize='small')
    axes.grid(axis='y', alpha=0.3)
    axes.set_axisbelow(True)
    axes.margins(y=0.1)  # Room for marks above the bars.
