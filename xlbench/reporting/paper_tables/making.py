"""Makes the tables and figures of a paper that are asked for by their numbers, and their files.

Their `Material` is finished runs, and for some ratings by judges, regressors that are fitted to
these, or counts of a build.
"""

import dataclasses
import pathlib
from collections.abc import Callable, Iterable, Mapping, Sequence

from xlbench.benchmarks import Benchmark, PaperTable, ParallelBenchmark
from xlbench.reporting import layout, notes as notes_lib, sections as sections_lib
from xlbench.reporting.paper_tables import form, judged, scores
from xlbench.reporting.paper_tables.material import Material
from xlbench.reporting.sections import Section
from xlbench.reporting.tables import FIGURE_KINDS, Figure, Table
from xlbench.system import files

Made = Table | Figure
# What shows scores of runs, by model, scenario and task, so that they fill a paper's form.
_OF_SCORES = ('', 'scores', 'by_language')


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
    'correlations': judged.correlations,
    'matrices': scores.matrices,
    'preference': judged.preference,
    'ratings': judged.ratings,
    'regressors': judged.regressors,
    'scores': scores.scores,
    'settings': scores.settings,
    'stage_bars': scores.stage_bars,
    'stages': scores.stages,
    'thresholds': judged.thresholds,
    'translation': scores.translation,
}


def made(benchmark: Benchmark) -> list[PaperTable]:
    """The tables and figures of a benchmark's paper that are made from runs."""
    return [table for table in benchmark.paper_tables if table.shows in MAKERS]


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
        return [judged.means(material, paper_table)]
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
        data, split = material.section.data, material.section.split
        said, systems = list(material.notes), tuple(material.systems.values())
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
