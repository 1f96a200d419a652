"""Makes the tables and figures of a paper that are asked for by their numbers.

A `Material` is what they are made of: finished runs, and for some of them ratings by judges,
regressors that are fitted to these, or counts of a build. What lacks its material says so.
"""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence

from xlbench import errors
from xlbench.benchmarks import Benchmark, Exhibit, ParallelBenchmark
from xlbench.reporting import layout, sections as sections_lib
from xlbench.reporting.exhibits import board as board_lib, judged, plots, replies, scores
from xlbench.reporting.exhibits.board import Board
from xlbench.reporting.exhibits.judged import Fits
from xlbench.reporting.exhibits.ratings import RatedText
from xlbench.reporting.figures import Figure
from xlbench.reporting.results import Run
from xlbench.reporting.tables import Table

Made = Table | Figure


@dataclasses.dataclass(frozen=True)
class Material:
    """What exhibits are made of.

    Attributes:
        benchmark: Whose paper has them.
        runs: Finished runs, and chains that were scored.
        step: That is shown: 'last', 'best', the name of a stage, or a number.
        split: That is shown; by default the test split where it was scored.
        rating: File of a fitted rating, which is predicted for every text; '' for none.
        rated: Texts with the ratings of judges.
        fits: How regressors and scores correlate with ratings.
        rough: Data root of rough data that was built; '' for none.
    """

    benchmark: Benchmark
    runs: Sequence[Run]
    step: str | int = 'last'
    split: str | None = None
    rating: str = ''
    rated: Sequence[RatedText] = ()
    fits: Fits | None = None
    rough: str = ''

    @functools.cached_property
    def board(self) -> Board:
        """The runs by setting and model."""
        if not isinstance(self.benchmark, ParallelBenchmark):
            raise errors.UserError(f'{self.benchmark.name} has no settings of parallel languages')
        return board_lib.read(self.runs, self.benchmark, self.step, self.split, self.rating)

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


def _regressors(material: Material, exhibit: Exhibit) -> Made:
    if material.fits is None:
        return Table(exhibit.name, missing='it is made of --ratings=FILE')
    return judged.regressors(material.board, exhibit, material.fits)


def _correlations(material: Material, exhibit: Exhibit) -> Made:
    if material.fits is None:
        return Table(exhibit.name, missing='it is made of --ratings=FILE')
    return plots.correlations(exhibit, judged.correlations(exhibit, material.fits))


def _ratings(material: Material, exhibit: Exhibit) -> Made:
    if not material.rated:
        return Table(exhibit.name, missing='it is made of --ratings=FILE')
    return judged.ratings(material.board, exhibit, material.rated)


def _page(material: Material, exhibit: Exhibit) -> Made:
    """A table that the report of a benchmark has under its own name."""
    for section in _sections(material):
        for table in layout.tables(section):
            if table.title == exhibit.name:
                return table
    return Table(exhibit.name, missing='no run belongs on it')


def _by_language(material: Material, exhibit: Exhibit) -> Made:
    """A table with a row a language and a column a setting, of one task and one model."""
    languages, checkpoints = material.benchmark.languages, material.benchmark.paper_checkpoints
    tasks = {material.benchmark.task_name(t, lang) for t in exhibit.tasks for lang in languages}
    for section in _sections(material):
        others = (
            model
            for model, checkpoint in checkpoints.items()
            if model not in exhibit.models and checkpoint in section.model
        )
        scored = {task for column in section.columns for task in column.tasks}
        if section.tables and tasks & scored and not any(others):
            table = layout.by_language(section, exhibit.scores)
            return dataclasses.replace(table, title=f'{exhibit.name}: {exhibit.title}')
    return Table(exhibit.name, missing='no run belongs on it')


def _sections(material: Material) -> list[sections_lib.Section]:
    every = sections_lib.sections(material.runs, material.step, material.split)
    return [section for section in every if section.benchmark is material.benchmark]


# What `Exhibit.shows` names.
MAKERS: Mapping[str, Callable[[Material, Exhibit], Made]] = {
    'averages': lambda m, e: scores.averages(m.board, e),
    'by_language': _by_language,
    'correlations': _correlations,
    'matrices': lambda m, e: plots.matrices(m.board, e),
    'page': _page,
    'pairs': lambda m, e: scores.pairs(m.board, e),
    'preference': lambda m, e: replies.preference(_sections(m), e, m.rated),
    'ratings': _ratings,
    'regressors': _regressors,
    'settings': lambda m, e: plots.settings(m.board, e),
    'stage_bars': lambda m, e: plots.stage_bars(m.board, e, m.first, m.stages),
    'stages': lambda m, e: scores.stages(m.board, e, m.first, m.stages),
    'thresholds': lambda m, e: judged.thresholds(m.board, e, m.rough),
    'translation': lambda m, e: plots.translation(m.board, e),
}


def chosen(benchmark: Benchmark, kind: str, numbers: str) -> list[Exhibit]:
    """The tables or figures of a benchmark's paper with some numbers.

    Args:
        benchmark: Whose.
        kind: 'Table' or 'Figure'.
        numbers: 'all', or numbers with commas. Example: 4,7

    Raises:
        UserError: The paper has no such one, or nothing makes it from runs.
    """
    known = {e.name.partition(' ')[2]: e for e in benchmark.exhibits if e.name.startswith(kind)}
    if numbers == 'all':
        return list(known.values())
    words = [word.strip() for word in numbers.split(',') if word.strip()]
    for word in words or [numbers] * bool(numbers):
        if word not in known:
            raise errors.UserError(
                f'{kind} {word} of {benchmark.name} is not made from runs; '
                f'{", ".join(known) or "none"} {"is" if len(known) < 2 else "are"} (or all)'
            )
    return [known[word] for word in dict.fromkeys(words)]


def make(material: Material, exhibit: Exhibit) -> Made:
    """One table or figure; a table that says why, where its material lacks."""
    return MAKERS[exhibit.shows](material, exhibit)
