"""Makes the tables and figures of a paper that are asked for by their numbers, and their files.

A `Material` is what they are made of: finished runs, and for some of them ratings by judges,
regressors that are fitted to these, or counts of a build. What lacks its material says so.
"""

import dataclasses
import functools
import pathlib
from collections.abc import Callable, Iterable, Mapping, Sequence

from xlbench.benchmarks import Benchmark, PaperTable, ParallelBenchmark
from xlbench.reporting import layout, notes as notes_lib, sections as sections_lib
from xlbench.reporting.paper_tables import board as board_lib, form, judged, scores
from xlbench.reporting.paper_tables.board import Board
from xlbench.reporting.paper_tables.judged import Fits, RatedText
from xlbench.reporting.paper_tables.scores import Staged
from xlbench.reporting.results import Run
from xlbench.reporting.sections import Section
from xlbench.reporting.tables import FIGURE_KINDS, Figure, Table
from xlbench.system import errors, files

Made = Table | Figure
# What shows scores of runs, by model, scenario and task, so that they fill a paper's form.
_OF_SCORES = ('', 'scores', 'by_language')


@dataclasses.dataclass(frozen=True)
class Material:
    """The inputs of a paper's tables and figures.

    Attributes:
      benchmark: whose paper has them.
      runs: finished runs, and chains that were scored. Those that have a `place` in the paper's
        tables fill these in the paper's own form.
      step: the one that is shown: 'last', 'best', the name of a stage, or a number.
      split: that is shown; by default the test split where it was scored.
      rating: file of a fitted rating, which is predicted for every text; '' for none.
      rated: texts with the ratings of judges.
      fits: how regressors and scores correlate with ratings.
      rough: data root of rough data that was built; '' for none.
      tasks: those whose stages are compared; none: all.
    """

    benchmark: Benchmark
    runs: Sequence[Run]
    step: str | int = 'last'
    split: str | None = None
    rating: str = ''
    rated: Sequence[RatedText] = ()
    fits: Fits = dataclasses.field(default_factory=Fits)
    rough: str = ''
    tasks: tuple[str, ...] = ()

    @functools.cached_property
    def sections(self) -> list[Section]:
        """The sections of the benchmark, as a report of the runs has them."""
        return self._sections(self.runs, self.step, self.split)

    def _sections(self, runs: Sequence[Run], step: str | int, split: str | None) -> list[Section]:
        every = sections_lib.sections(runs, step, split)
        return [section for section in every if section.benchmark is self.benchmark]

    @functools.cached_property
    def board(self) -> Board:
        """The runs by setting and model."""
        if not isinstance(self.benchmark, ParallelBenchmark):
            raise errors.UserError(f'{self.benchmark.name} has no settings of parallel languages')
        return board_lib.read(self.sections, self.benchmark, self.rating)

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
        return board_lib.read(self._sections(runs, stage, split), self.board.benchmark, self.rating)

    def staged(self, paper_table: PaperTable) -> dict[tuple[str, str], Staged]:
        """The main score after the first stage and after the last."""
        tasks = self.tasks or self.benchmark.tasks
        return scores.staged(self.board, paper_table, self.first, tasks)


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
MAKERS: Mapping[str, Callable[[Material, PaperTable], Made]] = {
    'by_language': _by_language,
    'correlations': lambda m, e: scores.correlations(e, judged.correlations(e, m.fits)),
    'matrices': lambda m, e: scores.matrices(m.board, e),
    'preference': lambda m, e: judged.preference(m.benchmark, m.sections, e, m.rated),
    'ratings': lambda m, e: judged.ratings(m.board, e, m.rated),
    'regressors': lambda m, e: judged.regressors(m.board, e, m.fits),
    'scores': lambda m, e: scores.scores(m.board, e),
    'settings': lambda m, e: scores.settings(m.board, e),
    'stage_bars': lambda m, e: scores.stage_bars(m.board, e, m.staged(e), m.stages),
    'stages': lambda m, e: scores.stages(m.board, e, m.staged(e), m.stages),
    'thresholds': lambda m, e: judged.thresholds(m.board, e, m.rough),
    'translation': lambda m, e: scores.translation(m.board, e),
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


def make(material: Material, paper_table: PaperTable) -> Sequence[Made]:
    """The tables and figures that one of the paper becomes; where material lacks, one says so."""
    given = {'correlations': material.fits.scores, 'regressors': material.fits.regressors}
    if not (given | {'ratings': material.rated}).get(paper_table.shows, True):
        return [Table(paper_table.short, missing='it is made of --ratings=FILE')]
    benchmark, runs = material.benchmark, material.runs
    has_places = paper_table.rows and any(run.place for run in runs)
    if has_places and paper_table.shows in _OF_SCORES:
        return form.of_runs(benchmark, paper_table, runs)
    if paper_table.shows == 'judged':
        return [judged.means(benchmark, paper_table, runs, material.rated)]
    if paper_table.shows == 'replies':
        return [form.replies(benchmark, paper_table, runs)]
    if paper_table.shows in MAKERS:
        return [MAKERS[paper_table.shows](material, paper_table)]
    every = sections_lib.sections(runs, variants=paper_table.variants)
    return [table for section in every for table in layout.tables(section)]


def parted(made: Iterable[Made]) -> tuple[list[Table], list[Figure]]:
    """All tables, with those of the numbers of figures; and the figures that can be drawn."""
    every = list(made)
    tables = [one.numbers if isinstance(one, Figure) else one for one in every]
    return tables, [one for one in every if isinstance(one, Figure) and not one.numbers.missing]


def section(material: Material, paper_tables: Sequence[PaperTable]) -> Section:
    """A section of a report that has these tables and figures, and nothing else."""
    tables, drawn = parted(one for table in paper_tables for one in make(material, table))
    benchmark = material.benchmark
    if isinstance(benchmark, ParallelBenchmark):
        board = material.board
        data, split, said = board.data, board.split, list(board.notes)
        systems = (*board.systems.values(), *board.chains.values())
    else:
        systems = tuple(system for one in material.sections for system in one.systems)
        picks = [pick for one in material.sections for pick in one.picks]
        split = material.sections[0].split if material.sections else 'test'
        data, said = notes_lib.about_data(benchmark, split, picks)
    return Section(
        title=f'{benchmark.name}, {benchmark.title} (arXiv:{benchmark.arxiv})',
        split=split,
        systems=systems,
        notes=tuple(said),
        data=data,
        besides=tuple(tables),
        figures=tuple(drawn),
    )


def write_figures(drawn: Iterable[Figure], folder: pathlib.Path) -> list[pathlib.Path]:
    """Draws figures into a folder, which is made for them if it is missing; gives the files."""
    paths = []
    for figure in drawn:
        folder.mkdir(parents=True, exist_ok=True)
        for kind, content in figure.draw(FIGURE_KINDS).items():
            paths.append(folder / f'{figure.name}.{kind}')
            files.write(paths[-1], content)
    return paths
