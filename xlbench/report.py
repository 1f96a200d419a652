r"""Tables of finished runs, beside the baselines and, on the official data, the paper's systems.

  python -m xlbench.report WORKDIR [WORKDIR ...] [--output=FOLDER] [--step=last|best|STAGE|N]
                           [--format=markdown,csv,latex,html,mtg] [--split=test]
                           [--significance=t-test|bootstrap|randomization] [--against=STEP]
                           [--scores=NAME,NAME] [--intervals]
  python -m xlbench.report WORKDIR [WORKDIR ...] --table=7 --figure=4,5 [--output=FOLDER]

Without --output the report goes to the screen, as Markdown unless --format says otherwise. With
--output, report.md, report.csv, report.tex and report.html are written into that folder; a file of
that name which is no report of ours is left alone, and the command fails. Runs that differ in the
seed only become one row: mean and standard deviation, or with --intervals mean and half of its 95 %
interval (Student's t over seeds; the CSV keeps the deviation). In bold (not on the screen) is the
best score of a column among runs and baselines, where these were scored on as many examples.

A run with several stages is shown as its last one left it; --step=stage1 shows it after stage1,
whose test scores are those of that stage's best checkpoint.

--significance adds a table of the main score's differences between every two runs, or with
--against between each run and the same run at another step or stage, and says which of them are
significant: by a paired t-test over examples, or, for BLEU and chrF too, by paired bootstrap or
approximate randomization. --scores=rouge_1,bleu compares these scores in place of the main one, a
table for each. The p-values of a table are corrected for the number of its comparisons.

--table=7 or --table=all gives the tables of the benchmark's paper with these numbers in place of
the usual ones, and --figure=4 its figures: in place of the paper's systems ours, by the setting
that a run follows and the model that it begins from. On the official data the paper's numbers
stand beside ours. A place that no run fills is a '-', and named below the table. With --output,
figures are files (SVG, PNG, PDF) and parts of report.html; their numbers are tables. A chain of
xlbench.chain stands for generation with translation behind it (MTG's figure 6). Some need more:

  --ratings=FILE,FILE        rated texts of xlbench.annotate score (MTG's tables 3, 5, 8 to 10,
                             figures 2 and 7); --metrics=NAME,NAME are the scores compared to them
  --fitted_rating=FILE       of xlbench.annotate fit: predicted for every text, and shown in place
                             of the main score, as the paper shows its ensemble metric
  --rough=DATA               data root of rough data that tasks.mtg_build has built (MTG's table 6)

--format=mtg writes the files that MTG's leaderboard takes, QG-NAME.json and so on: the texts of
each language, in the order of the test set. A run that lacks predictions is refused.

The tables of reply suggestion have a row a language and a column a training setting, as the paper's
(arXiv:2106.02017): there the ten monolingual runs of one model are one column, and a cell that no
run fills is '-'.
"""

import argparse
import contextlib
import dataclasses
import pathlib
import sys
from collections.abc import Callable, Iterator, Sequence

from xlbench import benchmarks, errors, files, locks
from xlbench.reporting import (
    latex as latex_lib,
    layout,
    leaderboard,
    notes,
    render,
    sections as sections_lib,
)
from xlbench.reporting.exhibits import making, output as output_lib, ratings as ratings_lib
from xlbench.reporting.exhibits.judged import Fits
from xlbench.reporting.results import Run, read_run
from xlbench.reporting.sections import Section
from xlbench.reporting.systems import System
from xlbench.reporting.tables import Cell

# A file that begins like this is a report and may be written again.
_MARK = 'xlbench report: made by python -m xlbench.report, may be overwritten'

_CSV_FIELDS = (
    'benchmark', 'split', 'data', 'system', 'kind', 'task', 'source', 'target', 'score', 'mean',
    'standard_deviation', 'examples', 'runs', 'seeds', 'steps', 'stages', 'config', 'workdirs',
)  # fmt: skip


def markdown(sections: Sequence[Section]) -> str:
    """Sets all tables as Markdown."""
    parts = [f'<!-- {_MARK} -->', '# Results']
    for section in sections:
        title, split = map(render.markdown_text, (section.title, section.split))
        parts.append(f'## {title}: {split} split')
        parts += [render.markdown_text(note) for note in section.notes]
        for table in layout.tables(section):
            parts.append(render.markdown(table))
            parts += [output_lib.markdown(one) for one in section.figures if one.numbers is table]
        parts.append('### Provenance')
        for pick in section.picks:
            facts = notes.provenance(pick).items()
            parts.append('\n'.join(f'- {key}: {render.markdown_text(fact)}' for key, fact in facts))
    return '\n\n'.join(part for part in parts if part) + '\n'


def comma_separated(sections: Sequence[Section]) -> str:
    """Every number as one line: tidy, for other tools; also scores that the tables leave out."""
    if not any(section.columns for section in sections):
        return output_lib.comma_separated(sections)  # Of tables and figures of a paper.
    rows = []
    for section in sections:
        for system in section.systems:
            system = dataclasses.replace(system, has_intervals=False)
            names = sorted({name for run in system.scores for t in run.values() for name in t})
            for column in (c for c in section.columns if len(c.tasks) == 1):
                for score in names:
                    cell = system.cell(score, column.tasks)
                    if cell.value is not None:
                        rows.append(_csv_row(section, system, column.tasks[0], score, cell))
    return render.comma_separated(_CSV_FIELDS, rows)


def latex(sections: Sequence[Section]) -> str:
    """Sets all tables for a paper; needs \\usepackage{booktabs}."""
    parts = []
    for section in sections:
        parts += map(latex_lib.table, layout.tables(section))
        for pick in section.picks:
            parts += [f'% {key}: {value}' for key, value in notes.provenance(pick).items()]
    return latex_lib.document(parts, _MARK)


def html(sections: Sequence[Section]) -> str:
    """One self-contained page with plots."""
    # It loads matplotlib, which nothing else here needs.
    from xlbench.reporting import html as html_lib

    return html_lib.document(sections, _MARK)


_FORMATS: dict[str, tuple[str, Callable[[Sequence[Section]], str]]] = {
    'markdown': ('report.md', markdown),
    'csv': ('report.csv', comma_separated),
    'latex': ('report.tex', latex),
    'html': ('report.html', html),
}


def write(sections: Sequence[Section], output: str, formats: Sequence[str]) -> list[str]:
    """Writes the report into a folder, each file whole or not at all.

    Returns:
        The paths. Raises UserError, before anything is written, if one of them is another's file.
    """
    folder = pathlib.Path(output)
    for name in formats:
        _refuse_foreign(folder / _FORMATS[name][0])
    texts = {_FORMATS[name][0]: _FORMATS[name][1](sections) for name in formats}
    has_report = any((folder / name).is_file() for name, _ in _FORMATS.values())
    pictures = output_lib.picture_names(sections)
    if not has_report and (taken := [name for name in pictures if (folder / name).exists()]):
        raise errors.UserError(
            f'{folder / taken[0]} exists and is no part of a report of xlbench; move it away or '
            'choose another --output'
        )
    with _writing(folder):
        for name, text in texts.items():
            files.remove_leftovers_of(folder / name)
            files.write(folder / name, text)
        output_lib.write_figures(sections, folder)
    return [str(folder / name) for name in (*texts, *pictures)]


def main(argv: Sequence[str]) -> int:
    """The command line, without the program's name."""
    args = _parse(argv)
    formats = (
        args.format.split(',') if args.format else list(_FORMATS if args.output else ['markdown'])
    )
    for name in formats:
        if name not in (*_FORMATS, leaderboard.NAME):
            raise errors.unknown('format', name, (*_FORMATS, leaderboard.NAME))
    if len(formats) > 1 and not args.output:
        raise errors.UserError('several formats need --output=FOLDER; without it give one')
    runs = [read_run(folder) for folder in dict.fromkeys(args.workdir)]
    if leaderboard.NAME in formats:
        formats.remove(leaderboard.NAME)
        for path in _write_submissions(runs, args):
            print(f'wrote {path}')
        if not formats:
            return 0
    sections = _of_paper(args, runs) if args.table or args.figure else _usual(args, runs)
    if args.output:
        for path in write(sections, args.output, formats):
            print(f'wrote {path}')
    else:
        print(_FORMATS[formats[0]][1](sections), end='')
    return 0


def _write_submissions(runs: Sequence[Run], args: argparse.Namespace) -> list[str]:
    """Writes the files that MTG's leaderboard takes; gives their paths."""
    if not args.output:
        raise errors.UserError('--format=mtg needs --output=FOLDER')
    folder = pathlib.Path(args.output)
    contents = leaderboard.submissions(runs, args.step, args.split)
    with _writing(folder):
        for name in contents:
            leaderboard.check_free(folder / name)
        for name, text in contents.items():
            files.write(folder / name, text)
    return [str(folder / name) for name in contents]


@contextlib.contextmanager
def _writing(folder: pathlib.Path) -> Iterator[None]:
    """Holds the folder of --output, and says what is in the way in one line."""
    if folder.exists() and not folder.is_dir():
        raise errors.UserError(f'--output={folder} is a file; give a folder')
    try:
        with locks.folder(folder):
            yield
    except OSError as error:
        raise errors.UserError(f'cannot write into {folder}: {error.strerror}') from None


def _usual(args: argparse.Namespace, runs: Sequence[Run]) -> list[Section]:
    """All tables of the scores of runs."""
    sections = sections_lib.sections(runs, args.step, args.split)
    if args.against and not args.significance:
        raise errors.UserError('--against needs --significance: t-test, bootstrap or randomization')
    if args.scores and not args.significance:
        raise errors.UserError('--scores needs --significance: t-test, bootstrap or randomization')
    if args.intervals:
        sections = [section.with_intervals() for section in sections]
    if args.significance:
        from xlbench.reporting import comparisons  # It loads scipy, which nothing else here needs.

        earlier = sections_lib.sections(runs, args.against, args.split) if args.against else []
        scores = [name for name in args.scores.split(',') if name]
        sections = comparisons.beside(sections, args.significance, earlier, args.against, scores)
    return sections


def _of_paper(args: argparse.Namespace, runs: Sequence[Run]) -> list[Section]:
    """The tables and figures of papers that are asked for."""
    if args.significance or args.intervals:
        raise errors.UserError(
            '--table and --figure have their own tests; leave --significance and --intervals away'
        )
    names = {task.partition('_')[0] for run in runs for _, task, _ in _scored(run)}
    named = [b for name, b in benchmarks.BENCHMARKS.items() if name in names and b.exhibits]
    if not named:
        raise errors.UserError('the runs are of no benchmark whose paper has tables of such runs')
    rated, fits = (_ratings(args.ratings, args.metrics)) if args.ratings else ((), None)
    sections = []
    for benchmark in named:
        kinds = (('Table', args.table), ('Figure', args.figure))
        chosen = [e for kind, numbers in kinds for e in making.chosen(benchmark, kind, numbers)]
        material = making.Material(
            benchmark, runs, args.step, args.split, args.fitted_rating, rated, fits, args.rough
        )
        sections.append(output_lib.section(material, chosen))
    return sections


def _ratings(paths: str, metrics: str) -> tuple[Sequence[ratings_lib.RatedText], Fits]:
    """Texts with the ratings of judges, and what correlates with these."""
    from xlbench.judgement import fitting  # It loads what scores texts.

    files_of = [path for path in paths.split(',') if path]
    rated, _ = ratings_lib.read_texts(files_of)
    names = [name for name in metrics.split(',') if name] or list(fitting.METRICS)
    return rated, fitting.correlations(fitting.read(files_of, names, ''), 0)


def _scored(run: Run) -> list[tuple[int, str, str]]:
    """The step, task and split of every result of a run."""
    return [(step, *place) for step, places in run.evaluations.items() for place in places]


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = errors.ArgumentParser('python -m xlbench.report', __doc__)
    parser.add_argument('workdir', nargs='+', help='folder of a training run')
    parser.add_argument('--output', help='folder to write the report into')
    parser.add_argument('--format', help='markdown, csv, latex, html, mtg; with commas')
    parser.add_argument('--step', default='last', help='last, best, the name of a stage, or a step')
    parser.add_argument('--split', help='by default test if it was scored, else validation')
    parser.add_argument('--intervals', action='store_true', help='of means over seeds')
    tests = ('t-test', 'bootstrap', 'randomization')
    parser.add_argument('--significance', choices=tests, help='of differences between runs')
    parser.add_argument('--scores', default='', help='what is compared; default: the main score')
    parser.add_argument('--against', default='', help='compare each run with itself at this step')
    parser.add_argument('--table', default='', help="of the benchmark's paper: numbers, or all")
    parser.add_argument('--figure', default='', help="of the benchmark's paper: numbers, or all")
    parser.add_argument('--ratings', default='', help='files of rated texts, with commas')
    parser.add_argument('--metrics', default='', help='that are compared to ratings')
    parser.add_argument('--fitted_rating', default='', help='file that predicts ratings')
    parser.add_argument('--rough', default='', help='data root of built rough data')
    return parser.parse_args(argv)


def _refuse_foreign(path: pathlib.Path) -> None:
    """Raises unless the path is free or holds a report of ours."""
    if not (path.exists() or path.is_symlink()):
        return
    start = ''
    if path.is_file() and not path.is_symlink():
        with path.open(encoding='utf-8', errors='replace') as file:
            start = file.read(300)
    heads = (','.join(_CSV_FIELDS[:10]), ','.join(output_lib.CSV_FIELDS))
    if _MARK not in start and not start.startswith(heads):
        raise errors.UserError(
            f'{path} exists and is not a report of xlbench; move it away or choose another --output'
        )


def _csv_row(
    section: Section, system: System, task: str, score: str, cell: Cell
) -> tuple[object, ...]:
    """A line, in the order of _CSV_FIELDS."""
    try:
        name = benchmarks.parse_task(task)
    except errors.UserError:  # A task of the user's own.
        name = benchmarks.TaskName('', task, '', '')
    picks = [pick for pick in system.picks if task in pick.results]
    is_setting = system.kind == 'run' and section.model and not system.picks[0].run.system
    return (
        name.benchmark or section.title,
        section.split,
        section.data,
        f'{system.name}, {section.model}' if is_setting else system.name,
        system.kind,
        name.task,
        name.source,
        name.target,
        score,
        cell.value,
        cell.spread,
        '' if (count := system.count([task])) == '-' else count.replace('-', ' to '),
        len(picks) or len(system.scores),
        ' '.join(str(pick.run.seed) for pick in picks),
        ' '.join(str(pick.step) for pick in picks),
        ' '.join(pick.run.stage_of(pick.step) for pick in picks),
        picks[0].run.config_hash if picks else '',
        ' '.join(str(pick.run.workdir) for pick in picks),
    )


if __name__ == '__main__':
    sys.exit(errors.run_main(main, sys.argv[1:]))
