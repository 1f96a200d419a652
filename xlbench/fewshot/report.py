r"""Makes the tables and figures of arXiv:2012.15682 from few-shot sweeps.

  python -m xlbench.fewshot report WORKDIR [WORKDIR ...] [--output=FOLDER] [--searched WORKDIR ...]

Without --output the tables go to the screen, as Markdown. With --output, report.md with figures,
report.tex and all scores as CSV (report.csv) are written into that folder, which must be new, or
hold an earlier report. A sweep need not be finished. Sweeps that adapt the same source-trained
model to the same task share their tables, so methods and starts may be run in separate sweeps. In
place of a table or figure that cannot be made, one line says why.

--searched names workdirs of xlbench.train that have trained other source models for these tasks,
such as with other learning rates: table 7 shows them beside the one that is adapted.

Tables 3 and 14 and some figures need the prepared data of the sweeps.
"""

import pathlib
import statistics
import sys
from collections.abc import Iterable, Sequence

from xlbench.benchmarks import FEWSHOT
from xlbench.fewshot.analysis import systems as systems_lib, tables
from xlbench.fewshot.analysis.figure_data import Drawn
from xlbench.fewshot.analysis.sweeps import Sweep
from xlbench.fewshot.analysis.systems import System
from xlbench.fewshot.results import ZERO_SHOT, Group
from xlbench.reporting import notes, render
from xlbench.reporting.tables import Table
from xlbench.system import command_line, errors, files, locks
from xlbench.system.command_line import CommandLine, flag

_OURS = 'xlbench report: made by python -m xlbench.fewshot'
_MARK = f'{_OURS} report, may be overwritten'
_CSV_FIELDS = (
    'system', 'data', 'task', 'language', 'shots', 'method', 'start', 'learning_rate', 'seed',
    'metric', 'buckets', 'empty', 'mean', 'standard_deviation', 'population_standard_deviation',
    'min', 'max', 'paper_mean', 'paper_standard_deviation',
)  # fmt: skip
FLAGS = (
    flag('workdir', 'folder of a sweep', nargs='+'),
    flag('--output', 'folder to write the report into'),
    flag('--searched', 'workdirs of other source models, for table 7', [], nargs='+'),
)


def table(workdir: str) -> str:
    """Returns the tables of one sweep that need nothing but its results."""
    [system] = systems_lib.systems([Sweep(workdir)])
    return '\n\n'.join(map(render.screen, tables.of_results(system)))


def markdown(made: Sequence[tuple[System, Sequence[Table]]], figures: str = '') -> str:
    """Returns the tables of each system as Markdown, then the figures."""
    title = f'# {render.markdown_text(FEWSHOT.title)} (arXiv:{FEWSHOT.arxiv})'
    parts = [f'<!-- {_MARK} -->', title]
    for system, tables_of in made:
        parts.append(f'## {render.markdown_text(system.title)}')
        parts += [render.markdown_text(system.about_data), _provenance(system)]
        parts += map(render.markdown, tables_of)
    return '\n\n'.join([*parts, *([figures] if figures else [])]) + '\n'


def write(sweeps: Sequence[Sweep], output: str, searched: Sequence[str] = ()) -> list[str]:
    """Writes the whole report into a folder; returns lines on what was written, and what was not.

    `searched` are workdirs of further source training, for table 7.

    Raises:
      UserError: the folder is somebody's.
    """
    folder = pathlib.Path(output)
    _refuse_foreign(folder)
    systems = systems_lib.systems(sweeps, searched)
    made = [(system, tables.all_tables(system)) for system in systems]
    lines = [
        f'no "{one.title}" of {system.title}: {one.missing}'
        for system, tables_of in made
        for one in tables_of
        if one.missing
    ]
    # It loads matplotlib, which nothing else here needs.
    from xlbench.fewshot.analysis import figures

    try:
        with locks.folder(folder):
            _refuse_foreign(folder)
            files.remove_leftovers(folder)
            # First, so that a folder with anything of ours in it is known as ours.
            files.write(folder / 'report.md', markdown(made))
            drawn = figures.draw_all(systems, folder)
            lines += [f'no "{one.caption}": {one.note}' for one in drawn if not one.file]
            every = (render.latex(one) for _, tables_of in made for one in tables_of)
            contents = {
                'report.md': markdown(made, '\n\n'.join(['## Figures', *map(_figure, drawn)])),
                'report.tex': render.latex_document(every, _MARK),
                'report.csv': comma_separated(systems),
            }
            for name, text in contents.items():
                files.write(folder / name, text)
    except OSError as error:
        raise errors.UserError(f'cannot write into {output}: {error.strerror}') from None
    return [*lines, *(f'wrote {folder / name}' for name in contents)]


def comma_separated(systems: Iterable[System]) -> str:
    """Writes every group of every system as one line: tidy, for other tools."""
    rows: list[tuple[object, ...]] = []
    for system in systems:
        of_group: dict[Group, tuple[object, ...]] = {}
        for group, stats in sorted(system.groups.items()):
            counts = (len(stats.scores), len(stats.empty)) if group.shots else ('', '')
            numbers: tuple[object, ...] = (stats.mean, '', '', '', '') if stats.rows else ('',) * 5
            if group.shots and stats.rows:
                scores = stats.scores.tolist()
                spread = (stats.deviation, statistics.pstdev(scores))
                numbers = (stats.mean, *spread, min(scores), max(scores))
            of_group[group] = (stats.learning_rate, stats.seed, system.metric, *counts, *numbers)
        if not isinstance(score := system.source_score, str):
            group = Group(system.source_language, 0, ZERO_SHOT)
            of_group.setdefault(group, (None, None, system.metric, '', '', score[0], *[''] * 4))
        for group, values in of_group.items():
            about = (system.name or system.sweeps[0].name, system.data, system.task)
            rows.append((*about, *group, *values, *(system.paper(group) or ('', ''))))
    return render.comma_separated(_CSV_FIELDS, rows)


def main(argv: Sequence[str]) -> int:
    """Runs a command line, the program's name first."""
    args = CommandLine('fewshot report', __doc__, FLAGS).parse(argv[1:])
    sweeps = [Sweep(workdir) for workdir in dict.fromkeys(args.workdir)]
    if args.output:
        print('\n'.join(write(sweeps, args.output, args.searched)))
    else:
        systems = systems_lib.systems(sweeps, args.searched)
        print(markdown([(system, tables.all_tables(system)) for system in systems]), end='')
    return 0


def _figure(drawn: Drawn) -> str:
    """Returns a figure in Markdown."""
    caption, note = map(render.markdown_text, (drawn.caption, drawn.note))
    if not drawn.file:
        return f'{_sentence(caption)} Left out: {_sentence(note)}'
    image = pathlib.PurePath(drawn.file).with_suffix('.png')
    said = ' '.join(map(_sentence, filter(None, (caption, note))))
    return f'![{caption}]({image})\n\n{said}'


def _sentence(text: str) -> str:
    first = text.split(' ')[0]
    # The name of a task or file stays as it is.
    text = text if '_' in first or '/' in first else text[:1].upper() + text[1:]
    return text.rstrip('.') + '.'


def _provenance(system: System) -> str:
    """Says where the numbers of a system come from, a line a sweep."""
    lines = []
    for sweep in system.sweeps:
        about = sweep.about
        facts = {
            'workdir': sweep.workdir,
            'adaptations': sum(row.status == 'done' and row.shots > 0 for row in sweep.rows),
            'git': about.git,
            'devices': about.devices,
            'dtype': notes.number_types(about.dtype, sweep.source_config),
            'versions': about.versions,
            'dev set': about.config.adapt.dev,
            'source model': sweep.source[:12],
        }
        known = [f'{k} {notes.plain_fact(v)}' for k, v in facts.items() if v is not None]
        lines.append('; '.join(known))
    return render.items(lines)


def _refuse_foreign(folder: pathlib.Path) -> None:
    """Raises unless the folder is new, empty, or one that a report was written into."""
    if folder.exists() and not folder.is_dir():
        raise errors.UserError(f'--output={folder} is a file; give a folder')
    if not folder.is_dir() or files.is_free(folder):
        return
    page = folder / 'report.md'
    if not page.is_file() or _OURS not in page.read_text(encoding='utf-8', errors='replace')[:300]:
        raise errors.UserError(
            f'{folder} is not empty and does not hold a report of xlbench; choose another --output'
        )


if __name__ == '__main__':
    command_line.former('fewshot.report', sys.argv[1:])
