"""Generation and retrieval of replies side by side, with what people prefer: MRS's figure 2."""

import statistics
from collections.abc import Sequence

from xlbench.benchmarks import Exhibit
from xlbench.reporting.exhibits import plots
from xlbench.reporting.exhibits.ratings import RatedText
from xlbench.reporting.figures import Figure
from xlbench.reporting.notes import SAMPLE_DATA
from xlbench.reporting.sections import Section
from xlbench.reporting.systems import Pick
from xlbench.reporting.tables import Cell, Column, Row, Table

_PREFERRED = 'preferred'
_DECIMALS = 2


def preference(
    sections: Sequence[Section], exhibit: Exhibit, rated: Sequence[RatedText]
) -> Figure | Table:
    """Bars of a generator and a retriever in English (arXiv:2106.02017, figure 2).

    Args:
        sections: Those of the benchmark.
        exhibit: With the tasks that are compared.
        rated: Sets of replies, of which judges have chosen the best: 1 for the best, -1 for the
            worst, and the mean over judges; systems are named after the folders of runs.
    """
    chosen = {task: _english(sections, task) for task in exhibit.tasks}
    if not any(chosen.values()):
        return Table(exhibit.name, missing='no run was scored in English')
    rows = []
    for task, pick in chosen.items():
        if pick is None:
            rows.append(Row(f'{task} (no run)', 'run', (Cell(),) * (len(exhibit.scores) + 1)))
            continue
        (result,) = (r for name, r in pick.results.items() if _is_english(sections, name, task))
        folder = pick.run.workdir.resolve().name
        values = (result.scores.get(score) for score in exhibit.scores)
        cells = (Cell(value, None, _DECIMALS) for value in values)
        rows.append(Row(f'{task} ({folder})', 'run', (*cells, _preferred(rated, folder))))
    columns = tuple(Column('', name) for name in (*exhibit.scores, _PREFERRED))
    said = [f'{_PREFERRED} is the share of judgements in %, where two sets of replies are shown.']
    if not rated:
        said = ['What people prefer is made of --ratings=FILE, see xlbench.annotate --sets.']
    if any(section.data == 'sample' for section in sections):
        said.insert(0, SAMPLE_DATA)
    title = f'{exhibit.name}: {exhibit.title}'
    numbers = Table(title, columns, tuple(rows), 'model', tuple(said))
    return plots.side_by_side(exhibit, numbers)


def _english(sections: Sequence[Section], task: str) -> Pick | None:
    """The first run that was scored in English on a task, as its config says."""
    for section in sections:
        for pick in section.picks:
            if not pick.variant and any(_is_english(sections, n, task) for n in pick.results):
                return pick
    return None


def _is_english(sections: Sequence[Section], name: str, task: str) -> bool:
    benchmark = sections[0].benchmark
    return name == benchmark.task_name(task, benchmark.pivot)


def _preferred(rated: Sequence[RatedText], system: str) -> Cell:
    """How often the sets of a system are preferred, in %."""
    points = [statistics.fmean(t.ratings.values()) for t in rated if t.system == system]
    return Cell(50 * (1 + statistics.fmean(points)), None, _DECIMALS) if points else Cell()
