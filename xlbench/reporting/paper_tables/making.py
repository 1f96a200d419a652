"""Makes the tables and figures of a paper that are asked for by their numbers, and their files.

A `Material` is what they are made of: finished runs, and for some of them ratings by judges,
regressors that are fitted to these, or counts of a build. What lacks its material says so.
"""

import dataclasses
import functools
import pathlib
from collections.abc import Callable, Iterable, Mapping, Sequence

from xlbench.benchmarks import Benchmark, PaperTable, ParallelBenchmark
from xlbench.reporting import layout, notes as notes_lib, render, sections as sections_lib
from xlbench.reporting.paper_tables import board as board_lib, judged, plots, scores
from xlbench.reporting.paper_tables.board import Board
from xlbench.reporting.paper_tables.judged import Fits
from xlbench.reporting.paper_tables.ratings import RatedText
from xlbench.reporting.results import Run
from xlbench.reporting.sections import Section
from xlbench.reporting.tables import FIGURE_KINDS, Cell, Figure, Table
from xlbench.system import errors, files

Made = Table | Figure
CSV_FIELDS = ('benchmark', 'exhibit', 'row', 'kind', 'group', 'column', 'value')


@dataclasses.dataclass(frozen=True)
class Material:
    """Holds the inputs of a paper's tables and figures.

    Attributes:
      benchmark: whose paper has them.
      runs: finished runs, and chains that were scored.
      step: that is shown: 'last', 'best', the name of a stage, or a number.
      split: that is shown; by default the test split where it was scored.
      rating: file of a fitted rating, which is predicted for every text; '' for none.
      rated: texts with the ratings of judges.
      fits: how regressors and scores correlate with ratings.
      rough: data root of rough data that was built; '' for none.
      tasks: the benchmark's tasks that are shown; none: all.
    """

    benchmark: Benchmark
    runs: Sequence[Run]
    step: str | int = 'last'
    split: str | None = None
    rating: str = ''
    rated: Sequence[RatedText] = ()
    fits: Fits | None = None
    rough: str = ''
    tasks: tuple[str, ...] = ()

    @functools.cached_property
    def sections(self) -> list[Section]:
        """The sections of the benchmark, as a report of the runs has them."""
        every = sections_lib.sections(self.runs, self.step, self.split)
        return [section for section in every if section.benchmark is self.benchmark]

    @functools.cached_property
    def board(self) -> Board:
        """The runs by setting and model."""
        if not isinstance(self.benchmark, ParallelBenchmark):
            raise errors.UserError(f'{self.benchmark.name} has no settings of parallel languages')
        board = board_lib.read(self.runs, self.benchmark, self.step, self.split, self.rating)
        return dataclasses.replace(board, only=self.tasks)

    @functools.cached_property
    def stages(self) -> tuple[str, str]:
        """The names of the first stage and of the last, of the runs that have two."""
        names = [tuple(run.stages) for run in self.runs if len(run.stages) > 1]
        return (names[0][0], names[0][-1]) if names else ('stage1', 'stage2')

    @functools.cached_property
    def first(self) -> Board | None:
        """The runs after their first stage; None if none was scored then."""
        stage, split = self.stages[0], self.board.split
        runs = [
            run
            for run in self.runs
            if any(run.stage_of(step) == stage and run.at(step, split) for step in run.evaluations)
        ]
        if not runs:
            return None
        return board_lib.read(runs, self.benchmark, stage, split, self.rating)


def _by_language(material: Material, paper_table: PaperTable) -> Made:
    """A table with a row a language and a column a setting, of one task and one model."""
    languages, checkpoints = material.benchmark.languages, material.benchmark.paper_checkpoints
    (task,) = paper_table.values('task')
    tasks = {material.benchmark.task_name(task, lang) for lang in languages}
    for section in material.sections:
        others = (
            model
            for model, checkpoint in checkpoints.items()
            if model not in paper_table.models and checkpoint in section.model
        )
        scored = {task for column in section.columns for task in column.tasks}
        if section.tables and tasks & scored and not any(others):
            table = layout.by_language(section, paper_table.scores)
            return dataclasses.replace(table, title=paper_table.heading)
    return Table(paper_table.short, missing='no run belongs on it')


# What `PaperTable.shows` names.
MAKERS: Mapping[str, Callable[[Material], Made]] = {
    'by_language': _by_language,
    'correlations': lambda m, e: plots.correlations(e, judged.correlations(e, m.fits)),
    'matrices': lambda m, e: plots.matrices(m.board, e),
    'preference': lambda m, e: judged.preference(m.sections, e, m.rated),
    'ratings': lambda m, e: judged.ratings(m.board, e, m.rated),
    'regressors': lambda m, e: judged.regressors(m.board, e, m.fits),
    'scores': lambda m, e: scores.scores(m.board, e),
    'settings': lambda m, e: plots.settings(m.board, e),
    'stage_bars': lambda m, e: plots.stage_bars(m.board, e, m.first, m.stages),
    'stages': lambda m, e: scores.stages(m.board, e, m.first, m.stages),
    'thresholds': lambda m, e: judged.thresholds(m.board, e, m.rough),
    'translation': lambda m, e: plots.translation(m.board, e),
}


def made(benchmark: Benchmark) -> list[PaperTable]:
    """The tables and figures of a benchmark's paper that are made from runs."""
    return [table for table in benchmark.paper_tables if table.shows in MAKERS]


def chosen(benchmark: Benchmark, kind: str, numbers: str) -> list[PaperTable]:
    """The tables or figures (`kind`) of a benchmark's paper: 'all', or such as '4,7'.

    Raises:
      UserError: the paper has no such one, or reports do not make it.
    """
    known = {table.number: table for table in made(benchmark) if table.name.startswith(kind)}
    if numbers == 'all':
        return list(known.values())
    words = [word.strip() for word in numbers.split(',') if word.strip()]
    for word in words or [numbers] * bool(numbers):
        if word not in known:
            raise errors.UserError(
                f'{kind.capitalize()} {word} of {benchmark.name} is not made from runs; '
                f'{", ".join(known) or "none"} {"is" if len(known) < 2 else "are"} (or all)'
            )
    return [known[word] for word in dict.fromkeys(words)]


def make(material: Material, paper_table: PaperTable) -> Made:
    """One table or figure; a table that says why, where its material lacks."""
    is_fitted = paper_table.shows in ('correlations', 'regressors')
    if (is_fitted and not material.fits) or (paper_table.shows == 'ratings' and not material.rated):
        return Table(paper_table.short, missing='it is made of --ratings=FILE')
    return MAKERS[paper_table.shows](material, paper_table)


def section(material: Material, paper_tables: Sequence[PaperTable]) -> Section:
    """A section of a report that has these tables and figures, and nothing else."""
    made = [make(material, paper_table) for paper_table in paper_tables]
    drawn = tuple(one for one in made if isinstance(one, Figure) and not one.numbers.missing)
    tables = [one.numbers if isinstance(one, Figure) else one for one in made]
    benchmark = material.benchmark
    if isinstance(benchmark, ParallelBenchmark):
        board = material.board
        data, split, said = board.data, board.split, board.notes
        systems = (*board.systems.values(), *board.chains.values())
    else:
        systems = tuple(system for one in material.sections for system in one.systems)
        picks = [pick for one in material.sections for pick in one.picks]
        split = material.sections[0].split if material.sections else 'test'
        data, said = notes_lib.about_data(benchmark, split, picks)
    return Section(
        title=f'{benchmark.name}, {benchmark.title} (arXiv:{benchmark.arxiv})',
        split=split,
        columns=(),
        systems=systems,
        scores=(),
        counts=[],
        notes=tuple(said),
        paper_notes=(),
        data=data,
        besides=tuple(tables),
        figures=drawn,
    )


def comma_separated(sections: Sequence[Section]) -> str:
    """Every number of tables and figures as one line."""
    lines = (
        (
            *(one.title.partition(',')[0], table.title.partition(':')[0]),
            *(row.name, row.kind, column.group, column.label),
            _value(cell),
        )
        for one in sections
        for table in one.besides
        for row in table.rows
        for column, cell in zip(table.columns, row.cells, strict=True)
        if not cell.is_missing
    )
    return render.comma_separated(CSV_FIELDS, lines)


def _value(cell: Cell) -> str | float:
    """A number with all its digits; what is printed may be one, too."""
    if cell.value is not None:
        return cell.value
    try:
        return float(cell.text)
    except ValueError:
        return cell.text


def picture_names(drawn: Iterable[Figure]) -> list[str]:
    """The files that figures become. Example: figure4.svg"""
    return [f'{figure.name}.{kind}' for figure in drawn for kind in FIGURE_KINDS]


def write_figures(drawn: Iterable[Figure], folder: pathlib.Path) -> list[pathlib.Path]:
    """Draws figures into a folder, which is made if it is missing; gives the files."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for figure in drawn:
        for kind, content in figure.draw(FIGURE_KINDS).items():
            paths.append(folder / f'{figure.name}.{kind}')
            files.write(paths[-1], content)
    return paths

