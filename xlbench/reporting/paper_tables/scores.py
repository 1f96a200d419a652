"""Tables and figures of scores in the form of a paper: pairs of languages, averages, two stages.

A place that no run fills is a '-', and a note names it. Rows marked paper stand beside official
data alone. A figure is made from a table of its numbers, which stands under it, and drawn when it
is asked for. Models have their colours and hatches, or in matrices shades of one lightness scale,
so that the colour-blind and readers of grey prints tell them apart.
"""

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from xlbench.benchmarks import SCENARIO_TITLES, PaperTable
from xlbench.benchmarks.paper import RATING
from xlbench.reporting import comparisons, notes as notes_lib
from xlbench.reporting.paper_tables.material import Material, compared
from xlbench.reporting.statistics import LEVEL
from xlbench.reporting.tables import Cell, Column, Figure, Row, Table

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


def scores(material: Material, paper_table: PaperTable) -> Table:
    """A row for each task and model, and for each pair of languages where the paper has them apart.

    So are tables 11 to 19 of arXiv:2108.07140; in table 4 scores are averaged over the pairs.
    """
    (scenario,), sources = paper_table.values('scenario'), paper_table.values('source')
    benchmark, names = material.parallel, paper_table.scores
    pairs = benchmark.pairs(scenario, sources)
    places = [{'source': a, 'target': b} for a, b in pairs] if sources else [{}]
    rows = []
    for task, model, place in itertools.product(
        benchmark.tasks, material.models((scenario,)), places
    ):
        tasks = material.tasks_of(scenario, task)
        if place:
            tasks = (benchmark.task_name(task, **place),)
        ours = [material.cell((scenario, model), tasks, score) for score in names]
        key = {'scenario': scenario, 'task': task, 'model': model, **place}
        theirs = []
        for head in paper_table.columns if material.is_official else ():
            (score,) = head.scores
            scale = 100 if score in benchmark.fractions else 1  # On our scale.
            text = paper_table.printed_value(key, score)
            theirs.append(Cell(float(text) * scale, None, _DECIMALS) if text else Cell())
        rows.append(compared((task, model, '-'.join(place.values())), ours, theirs))
    averaged = f'Averaged over {", ".join(map("-".join, pairs))}; a mean needs all of them.'
    said = [] if sources else [averaged]
    said += [_ITS_RATING] if material.is_official else []
    said += notes_lib.signatures(material.picks, names, shared=True)
    about = f'{paper_table.title}, {material.section.split} split of {benchmark.name}'
    return material.table(paper_table, Column.named(names), rows, said, about=about, is_whole=True)


def stages(material: Material, paper_table: PaperTable) -> Table:
    """The main score after the first stage and after the last, and whether they differ: table 7."""
    return _of_stages(material, paper_table)[0]


def _of_stages(material: Material, paper_table: PaperTable) -> tuple[Table, list[list[Row]]]:
    """The table, and its rows, those without anything too."""
    score, scenarios = material.main_score, paper_table.values('scenario')
    tasks = material.tasks or material.benchmark.tasks
    missing = 'no run was scored after its first stage and its last'
    if (first := material.first) is None:
        return Table(paper_table.short, missing=missing), []
    rows = []
    for task, model in itertools.product(tasks, material.models(scenarios)):
        places = [((scenario, model), material.tasks_of(scenario, task)) for scenario in scenarios]
        before, after = ([m.cell(*place, score) for place in places] for m in (first, material))
        pairs = [(first.systems.get(key), material.systems.get(key), of) for key, of in places]
        tests = comparisons.pooled(pairs, score)
        p_values = [cell._replace(text=cell.text + cell.mark) for cell in tests]
        labels, ours = (*material.stages, _P_VALUE), (before, after, p_values)
        for label, cells, line in itertools.zip_longest(labels, ours, paper_table.rows):
            key, heads = {'task': task, 'model': model}, paper_table.columns if line else ()
            theirs = ((key | head.key, line.key['score']) for head in heads)
            printed = material.printed(paper_table, theirs)
            kind = 'p' if cells is p_values else 'run'
            rows.append(compared((task, model, label), cells, printed, kind))
    if all(row.is_missing for row, *_ in rows[::3]):
        return Table(paper_table.short, missing=missing), []
    said = [
        f'{score}, averaged over the pairs of languages of each setting; a mean needs all of them. '
        'A p-value is that of a two-sided paired t-test over the examples of all pairs, corrected '
        f'for the settings of one task and model (Holm); * marks those below {LEVEL}.'
    ]
    if material.is_official:
        said.append(f'Rows marked paper: its ensemble metric, not {score}.')
    columns = Column.named(SCENARIO_TITLES[name] for name in scenarios)
    return material.table(paper_table, columns, rows, said, 'task, model, stage'), rows


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


def settings(material: Material, paper_table: PaperTable) -> Figure:
    """Bars of each model in four settings, a panel a task: figure 3 of arXiv:2108.07140."""
    score, scenarios = material.main_score, paper_table.values('scenario')
    titles = [SCENARIO_TITLES[scenario] for scenario in scenarios]
    rows = []
    for task, model in itertools.product(material.benchmark.tasks, material.models(scenarios)):
        places = [((scenario, model), material.tasks_of(scenario, task)) for scenario in scenarios]
        rows.append(compared((task, model), *material.both(places, score)))
    said = [f'{score}, averaged over languages; a mean needs all of them.']
    table = material.table(paper_table, Column.named(titles), rows, said)
    shown = _models(material, scenarios)
    panels = _panels([of for of in rows if of[0].labels[1] in shown], titles, 1)
    return bars(paper_table, table, panels, ('setting', score), 3)


def matrices(material: Material, paper_table: PaperTable) -> Figure:
    """A matrix of languages for each task and model: figure 4."""
    score, scenarios = material.main_score, paper_table.values('scenario')
    decimals = 1 if score == material.benchmark.scores[0] else 2
    languages, shown = material.benchmark.languages, _models(material, scenarios)
    name = material.benchmark.task_name
    rows, panels = [], dict[str, list[list[Cell]]]()
    for task in material.benchmark.tasks:
        by_model: dict[str, list[tuple[list[Cell], list[Cell]]]] = {}
        for model, source in itertools.product(material.models(scenarios), languages):
            places = [
                (('mono' if source == to else 'cross', model), (name(task, source, to),))
                for to in languages
            ]
            both = material.both(places, score, decimals)
            rows.append(compared((task, model, source), *both))
            by_model.setdefault(model, []).append(both)
        for place, whose in enumerate(('', ' (paper)')):
            made = {model: [of[place] for of in by_model[model]] for model in shown}
            if not all(cell.is_missing for cells in made.values() for row in cells for cell in row):
                panels |= {f'{task.upper()} {model}{whose}': of for model, of in made.items()}
    said = [f'{score}. A row is the source language, a column the target.']
    table = material.table(paper_table, [Column('into', to) for to in languages], rows, said)
    across, side = max(1, len(shown)), 0.5 * len(languages) + 0.55
    size = side * across + 1.0, (side + 0.25) * -(-len(panels) // across)

    def paint(figure: 'Canvas') -> None:
        from xlbench.reporting import drawing

        values = [[numbers(row) for row in cells] for cells in panels.values()]
        known = [x for table in values for row in table for x in row if not math.isnan(x)]
        limits = (min(known), max(known)) if known else (0.0, 1.0)  # One scale of shades for all.
        axes = drawing.panels(figure, len(panels), across)
        for (title, cells), table, one in zip(panels.items(), values, axes, strict=True):
            texts = [list(map(str, row)) for row in cells]
            image = drawing.heat_map(one, table, texts, languages, languages, limits)
            one.set_aspect('equal')
            one.set_title(title, fontsize='medium')
        figure.supxlabel('target language', fontsize='medium')
        figure.supylabel('source language', fontsize='medium')
        figure.colorbar(image, ax=axes, label=score, shrink=0.6, aspect=30)

    return Figure(paper_table.name.replace(' ', ''), table, size, paint)


def stage_bars(material: Material, paper_table: PaperTable) -> Figure:
    """Bars after the first stage and after the second, a panel a task and model: figure 5."""
    table, rows = _of_stages(material, paper_table)
    panels = _panels(rows, [column.label for column in table.columns], 2)
    panels = [one for one in panels if not _is_empty(one.heights[material.stages[0]])]
    return bars(paper_table, table, panels, ('setting', material.main_score))


def translation(material: Material, paper_table: PaperTable) -> Figure:
    """Cross-lingual models beside chains that translate what they generate: figure 6."""
    score, benchmark = material.main_score, material.parallel
    chains = [model for scenario, model in material.systems if not scenario]
    pairs = benchmark.pairs('cross', paper_table.values('source'))
    titles = [f'{source}-{target}' for source, target in pairs]
    models = dict.fromkeys((*_models(material, ('cross',)), *chains))
    rows = []
    for task, model in itertools.product(benchmark.tasks, models):
        tasks = [(benchmark.task_name(task, *pair),) for pair in pairs]
        cross, chain = ('cross', model), ('', model)
        ours = material.both([(cross, of) for of in tasks], score)
        chained = [material.cell(chain, of, score) for of in tasks]
        pair = material.systems.get(chain), material.systems.get(cross)
        p_values = comparisons.pooled([(*pair, of) for of in tasks], score)
        rows.append(compared((task, model, 'cross-lingual'), *ours))
        rows.append(compared((task, model, 'generate, then translate'), chained))
        rows.append(compared((task, model, _P_VALUE), p_values, kind='p'))
    said = (
        f'{score}; p-values of two-sided paired t-tests over examples, corrected for the pairs of '
        'a task and model (Holm).',
        *([] if chains else ['There is no chain (xlbench translate chain) yet.']),
    )
    table = material.table(paper_table, Column.named(titles), rows, said)
    panels = _panels(rows, titles, 2)
    panels = [one for one in panels if not all(map(_is_empty, one.heights.values()))]
    return bars(paper_table, table, panels, ('languages', score))


def _models(material: Material, scenarios: Sequence[str]) -> list[str]:
    """The models that have a run in one of the settings, or numbers of the paper beside ours."""
    has = {model for scenario, model in material.systems if scenario in scenarios}
    has |= {*material.benchmark.paper_models} if material.is_official else set()
    return [model for model in material.models(scenarios) if model in has]


def numbers(cells: Iterable[Cell]) -> list[float]:
    """The values of cells, as they are drawn: NaN for none."""
    return [math.nan if cell.value is None else cell.value for cell in cells]


def _is_empty(heights: Sequence[float]) -> bool:
    return all(map(math.isnan, heights))


def _panels(rows: Iterable[list[Row]], groups: Sequence[str], depth: int) -> list[Bars]:
    """Panels of rows that `compared` made: as many first labels are the title, the next a series.

    Rows of p-values have the labels of the groups as their marks.
    """
    panels: dict[str, tuple[dict[str, list[float]], dict[str, list[float]], dict[str, str]]] = {}
    for ours, *paper in rows:
        title = ' '.join((ours.labels[0].upper(), *ours.labels[1:depth]))
        heights, marks, labels = panels.setdefault(title, ({}, {}, {}))
        if ours.kind == 'p':
            labels |= dict(zip(groups, (cell.mark for cell in ours.cells), strict=True))
        else:
            series = ours.labels[depth]
            heights[series] = numbers(ours.cells)
            if paper:
                marks[series] = numbers(paper[0].cells)
    return [Bars(title, groups, *of_panel) for title, of_panel in panels.items()]


def bars(
    paper_table: PaperTable,
    table: Table,
    panels: Sequence[Bars],
    labels: tuple[str, str],
    across: int = 0,
) -> Figure:
    """A figure of bars; `labels` are those of its axes, `across` the panels in a row.

    By default a row has the models of a task, or of one model its tasks.
    """
    across = across or len({panel.title.partition(' ')[2] for panel in panels})
    if across < 2:
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

    return Figure(paper_table.name.replace(' ', ''), table, size, paint)


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
