"""Makes the tables and figures of a paper that are asked for by their numbers, and their files.

A table in the paper's own form is filled with the numbers that it prints or with those of runs,
which know their places in it; others are made by the setting and the model of a run.
"""

import dataclasses
import pathlib
import re
import statistics
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from xlbench.benchmarks import TRANSLATION, Benchmark, ParallelBenchmark, parse_task
from xlbench.benchmarks.paper import OUR_NAMES, Key, PaperTable
from xlbench.reporting import (
    layout,
    notes as notes_lib,
    predictions,
    sections as sections_lib,
    tables as tables_lib,
)
from xlbench.reporting.paper_tables import judged, scores
from xlbench.reporting.paper_tables.material import Material
from xlbench.reporting.results import Run
from xlbench.reporting.sections import Section
from xlbench.reporting.systems import System, joined
from xlbench.reporting.tables import FIGURE_KINDS, Cell, Column, Figure, Row, Table
from xlbench.system import errors, files

Made = Table | Figure
# What shows scores of runs, by model, scenario and task, so that they fill a paper's form.
_OF_SCORES = ('', 'scores', 'by_language')
Systems = Mapping[tuple[str, str], System]  # By model, and scenario or ''.
_MESSAGES = 4  # That table 2 of MRS shows.
_LANGUAGE = re.compile(r'^<\w+> ')  # What a generator reads before a message.


def chosen(tables: Iterable[PaperTable], kind: str, numbers: str, lack: str) -> list[PaperTable]:
    """The tables or figures (`kind`) of a paper that are asked for: 'all', or such as '4,7'.

    Raises:
      UserError: there is no such one; `lack` says so. Example: 'of mtg is not in its paper'.
    """
    known = {table.number: table for table in tables if table.name.startswith(kind)}
    if numbers == 'all':
        return list(known.values())
    words = [word.strip() for word in numbers.split(',') if word.strip()]
    for word in words or [numbers] * bool(numbers):
        if word not in known:
            allowed = ', '.join((*known, 'all')) if known else 'none'
            raise errors.UserError(f'{kind} {word} {lack}; allowed: {allowed}')
    return [known[word] for word in dict.fromkeys(words)]


# ------------------------------------------------------------------------- in the paper's own form


def fill(
    benchmark: Benchmark,
    form: PaperTable,
    value: Callable[[Key, str], str | None],  # Text of a score, by its cell's key and its name.
    whose: str,  # What the caption ends with: 'as printed in arXiv:2202.05599', say.
    notes: Sequence[str] = (),  # Follow the paper's own notes and those that name empty rows.
    *,
    models: Collection[str] | None = None,  # Whose rows are named where empty; None: all rows.
    lacking: Collection[str] = (),  # Scores that nothing has; named once for all rows.
) -> Table:
    """A table with the labels, heads and order of a paper's; a cell without a number has a '-'."""
    rows = []
    for line, texts in zip(form.rows, form.cells(value), strict=True):
        # A line of LaTeX separates the groups of a table with many labels.
        kind = line.section or (line.labels[0] if len(line.labels) > 2 else '')
        cells = tuple(Cell(text=text) for text in texts)
        name = ' '.join(filter(None, line.labels))
        rows.append(Row(name, kind, cells, line.labels, line.section))
    asked = [
        row
        for row, line in zip(rows, form.rows, strict=True)
        if models is None or line.key.get('model') in models
    ]
    said = [f'No run has {", ".join(lacking)}.'] if lacking else []
    if asked or models is None:
        empty = [[not cell.text.strip('- /') for cell in row.cells] for row in asked]
        known = [place for place, of in enumerate(form.columns) if set(of.scores) <= {*lacking}]
        labels = [[*filter(None, row.labels)] for row in asked]
        said += tables_lib.gaps(labels, [column.path for column in form.columns], empty, known)
    columns = (Column(' '.join(head.path[:-1]), head.path[-1]) for head in form.columns)
    caption = f'{form.title} ({whose})'
    reference = f'{benchmark.name}-{form.name.replace(" ", "-")}'
    return Table(
        f'{form.short}: {caption}.', tuple(columns), tuple(rows), about=caption, labels=form.labels,
        notes=(*form.notes, *said, *notes), reference=reference,
    )  # fmt: skip


def of_paper(benchmark: Benchmark, numbers: str) -> list[Table]:
    """Tables with the numbers that a paper prints, see `chosen`."""
    forms = (table for table in benchmark.paper_tables if table.printed and table.rows)
    printed = chosen(forms, 'table', numbers, f'of {benchmark.name} has no printed numbers')
    whose = f'as printed in arXiv:{benchmark.arxiv}'
    return [fill(benchmark, one, one.printed_value, whose, models=()) for one in printed]


def of_systems(
    benchmark: Benchmark,
    form: PaperTable,
    systems: Systems,
    notes: Sequence[str] = (),
    models: Collection[str] | None = None,
    whose: str = 'our runs',
) -> Table:
    """A table with the scores of systems, on the paper's scale and with its digits.

    With `models`, only their rows have scores of systems, and the others what the paper prints.
    """

    def value(key: Key, score: str) -> str | None:
        if models is not None and key.get('model') not in models:
            return form.printed_value(key, score)
        model = key['model']
        system = systems.get((model, key['scenario'])) or systems.get((model, ''))
        if system is None:
            return None
        home = TRANSLATION if key['task'] in TRANSLATION.tasks else benchmark
        same = [task for task, of in home.paper_tasks.items() if of == key['task']]
        for task in (key['task'], *same):
            if isinstance(home, ParallelBenchmark) and 'source' not in key:
                pairs = home.pairs(key['scenario'])  # A mean over all.
            else:
                pairs = ((key['source'], key['target']),)
            names = [home.task_name(task, *pair) for pair in pairs]
            cell = system.cell(OUR_NAMES.get(score, score), names)
            if cell.value is not None:
                scale = 100 if score in home.fractions else 1
                spread = None if cell.spread is None else cell.spread / scale
                digits = form.decimals(score)
                return str(Cell(cell.value / scale, spread, digits, mark=cell.mark))
        return None

    asked = dict.fromkeys(score for head in form.columns for score in head.scores)
    known = {score for one in systems.values() for score in one.scores}
    lacking = [score for score in asked if OUR_NAMES.get(score, score) not in known]
    return fill(benchmark, form, value, whose, notes, models=models, lacking=lacking)


def placed(
    form: PaperTable, runs: Sequence[Run]
) -> tuple[dict[tuple[str, str], System], tuple[str, ...], bool]:
    """The systems of runs, by model and scenario; notes; whether the data is the official test."""
    groups: dict[tuple[str, str], list[System]] = {}
    notes: dict[str, None] = {}
    is_official = False
    scores = [score for head in form.columns for score in head.scores]
    for section in sections_lib.sections(runs):
        for system in section.systems:
            run = system.picks[0].run if system.picks else None
            if run and run.place:
                scenario = ''  # Unless its experiment is of one; scored texts do not know theirs.
                if 'scenario' in run.place and run.scenario:
                    scenario = run.scenario.name
                elif run.system:
                    scenario = run.place.get('scenario', '')
                groups.setdefault((run.place['model'], scenario), []).append(system)
        notes |= dict.fromkeys(section.notes[:1])
        notes |= dict.fromkeys(notes_lib.signatures(section.picks, scores, shared=True))
        is_official |= section.data == 'official' and section.split == 'test'
    systems = {}
    for key, members in groups.items():  # What scores different tasks is one, seed by seed.
        of_seeds = joined(system.results for system in members)
        picks = tuple(pick for system in members for pick in system.picks)
        name = key[0] + (f' ({len(of_seeds)} seeds)' if len(of_seeds) > 1 else '')
        systems[key] = System(name, 'run', of_seeds, picks)
    return systems, tuple(notes), is_official


def replies(material: Material, paper_table: PaperTable) -> Table:
    """Messages with the replies of both models: table 2 of arXiv:2106.02017, with our texts."""
    written: dict[str, dict[str, str]] = {'generation': {}, 'retrieval': {}}
    for run in material.runs:
        for (task, split), result in run.evaluations[max(run.evaluations)].items():
            kind = parse_task(task).task
            if split == 'test' and kind in written:
                found = predictions.of_result(result).values()
                written[kind] |= {_LANGUAGE.sub('', row.input): row.texts(1)[0] for row in found}
    both = [message for message in written['generation'] if message in written['retrieval']]
    rows = tuple(
        Row(label, '', (Cell(text=text),), (label,))
        for message in both[:_MESSAGES]
        for label, text in (
            ('Message:', message),
            *((f'{kind.capitalize()}:', of_kind[message]) for kind, of_kind in written.items()),
        )
    )
    said = () if both else ('No message has replies of both models.',)
    # The paper's has no rows of its own.
    value = paper_table.printed_value
    made = fill(material.benchmark, paper_table, value, 'our runs', said, models=())
    return dataclasses.replace(made, columns=(Column('', ''),), rows=rows, labels=('',))


def means(material: Material, paper_table: PaperTable) -> Table:
    """The mean of what judges say, by system; a system has the name of an experiment or a run.

    Best-worst scores are means: 1 for the best text, -1 for the worst (arXiv:2202.05599, 6.3). An
    aspect is known by the beginning of its name: Gram., or grammar.
    """
    rated, names = material.rated, dict[str, set[str]]()
    for run in material.runs:
        names.setdefault(run.place['model'], set()).update((run.place['name'], run.workdir.name))

    def value(key: Key, score: str) -> str | None:
        texts = [text for text in rated if text.system in names.get(key['model'], ())]
        aspects = texts[0].ratings if texts else ()
        known = [a for a in aspects if score.startswith(a.lower().rstrip('.'))]
        if not known:
            return None
        mean = statistics.fmean(text.ratings[known[0]] for text in texts)
        return f'{mean:.{paper_table.decimals(score)}f}'

    known = set().union(*names.values())
    unknown = dict.fromkeys(text.system for text in rated if text.system not in known)
    said = [f'{len(rated)} judged texts.']
    said += [f'Systems that the table does not have: {", ".join(unknown)}.'] if unknown else []
    said += [notes_lib.SAMPLE_DATA] if any(text.data == 'sample' for text in rated) else []
    without_notes = dataclasses.replace(paper_table, notes=())  # They are on the paper's judges.
    return fill(material.benchmark, without_notes, value, 'our judges', said)


# ----------------------------------------------------------------------------------------- by kinds


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
        systems, notes, is_official = placed(paper_table, runs)
        filled = of_systems(benchmark, paper_table, systems, notes)
        return [filled, *(of_paper(benchmark, paper_table.number) if is_official else [])]
    if paper_table.shows == 'judged':
        return [means(material, paper_table)]
    if paper_table.shows == 'replies':
        return [replies(material, paper_table)]
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
