r"""Compares finished runs with each other, the baselines and the paper's systems.

  python -m xlbench.report WORKDIR [WORKDIR ...] [--output=FOLDER]
  python -m xlbench.report WORKDIR [WORKDIR ...] --table=7 --figure=4,5 [--output=FOLDER]

Without --output the report goes to the screen, as Markdown unless --format says otherwise. With
--output, report.md, report.csv, report.tex and report.html are written into that folder; if such a
file is not a report of xlbench, it is left alone, and the command fails. Runs that differ only in
the seed become one row: mean and standard deviation, or with --intervals the mean and half of its
95 % interval (Student's t over seeds; the CSV keeps the deviation). The best score of a column
among runs and baselines is in bold (not on the screen), if all were scored on the same number of
examples. A cell that no run fills has a '-', and a note below the table names it.

--variants shows beside each run the results that xlbench.evaluate has stored as test-WORDS (other
decoding, reranked texts, fewer examples), and adapters (LoRA) that started from one of the runs. A
run with several stages is shown after its last stage; --step=stage1 shows it after stage1, with the
test scores of that stage's best checkpoint. --plots also writes the page's plots into the folder.

--significance adds a table of the main score's differences between every two runs, or with
--against between each run and the same run at another step or stage, and says which of them are
significant: by a paired t-test over examples, which needs a mean over examples, or by paired
bootstrap or approximate randomization, which test any metric of targets and predictions. The
p-values of a table are corrected for the number of its comparisons.

--table=7 or --table=all makes the tables with these numbers in the benchmark's paper instead of the
usual ones, and --figure=4 its figures: files (SVG, PNG, PDF), parts of report.html, and a table of
its numbers. Your runs take the places of the paper's systems, by the setting of a run and the model
that it started from. On the official data, the paper's numbers are shown beside yours. A chain of
`xlbench translate chain` counts as generation followed by translation (MTG's figure 6). Some tables
need --ratings (MTG's tables 3, 5, 8 to 10, figures 2 and 7), --rough (MTG's table 6) or
--fitted_rating, which is then shown in place of the main score.

--format=mtg writes the files that MTG's leaderboard takes, QG-NAME.json and so on: the texts of
each language, in the order of the test set. A run that lacks predictions is refused.
"""

import argparse
import sys
from collections.abc import Sequence

from xlbench.config import commands

if __name__ == '__main__':  # A slip is answered before the imports below, which take a second.
    commands.check_first(commands.REPORT.parse, sys.argv[1:])

from xlbench import benchmarks
from xlbench.reporting import comparisons, documents, leaderboard, sections as sections_lib
from xlbench.reporting.paper_tables import making
from xlbench.reporting.paper_tables.material import Fits, Material, read_texts
from xlbench.reporting.results import Run, read_run
from xlbench.reporting.sections import Section
from xlbench.system import errors


def main(argv: Sequence[str]) -> int:
    """The command line, without the program's name."""
    args = commands.REPORT.parse(argv)
    usual = list(documents.FORMATS) if args.output else ['markdown']
    formats = list(args.format) or usual
    known = (*documents.FORMATS, leaderboard.NAME)
    for name in formats:
        errors.check_known('format', name, known)
    if len(formats) > 1 and not args.output:
        raise errors.UserError('several formats need --output=FOLDER; without it give one')
    if args.plots and not args.output:
        raise errors.UserError('--plots needs --output=FOLDER')
    runs = [read_run(folder) for folder in dict.fromkeys(args.workdir)]
    if leaderboard.NAME in formats:
        formats.remove(leaderboard.NAME)
        if not args.output:
            raise errors.UserError('--format=mtg needs --output=FOLDER')
        contents = leaderboard.submissions(runs, args.step, args.split)
        what, heads = 'a file for the leaderboard', [leaderboard.HEAD]
        for path in documents.write_texts(contents, args.output, what, heads=heads):
            print(f'wrote {path}')
        if not formats:
            return 0
    sections = _of_paper(args, runs) if args.table or args.figure else _usual(args, runs)
    if args.output:
        for path in documents.write(sections, args.output, formats, with_plots=args.plots):
            print(f'wrote {path}')
    else:
        print(documents.FORMATS[formats[0]][1](sections), end='')
    return 0


def _usual(args: argparse.Namespace, runs: Sequence[Run]) -> list[Section]:
    """All tables of the scores of runs."""
    sections = sections_lib.sections(runs, args.step, args.split, args.variants)
    for name in ('against', 'scores'):
        if getattr(args, name) and not args.significance:
            raise errors.UserError(
                f'--{name} needs --significance: t-test, bootstrap or randomization'
            )
    if args.intervals:
        sections = [section.with_intervals() for section in sections]
    if args.significance:
        earlier = sections_lib.sections(runs, args.against, args.split) if args.against else []
        sections = comparisons.beside(
            sections, args.significance, earlier, args.against, args.scores
        )
    return sections


def _of_paper(args: argparse.Namespace, runs: Sequence[Run]) -> list[Section]:
    """The tables and figures of papers that are asked for."""
    if args.significance or args.intervals:
        raise errors.UserError(
            '--table and --figure have their own tests; leave --significance and --intervals away'
        )
    scored = (places for run in runs for places in run.evaluations.values())
    names = {task.partition('_')[0] for places in scored for task, _ in places}
    named = [b for name, b in benchmarks.BENCHMARKS.items() if name in names and making.made(b)]
    if not named:
        raise errors.UserError(
            'xlbench.report makes no paper tables for these runs; see python -m xlbench.reproduce'
        )
    rated = read_texts(args.ratings)[0] if args.ratings else ()
    sections = []
    for benchmark in named:
        known, lack = making.made(benchmark), f'of {benchmark.name} is not made from runs'
        chosen = making.chosen(known, 'table', args.table, lack)
        chosen += making.chosen(known, 'figure', args.figure, lack)
        needs_fits = args.ratings and any(t.shows in ('regressors', 'correlations') for t in chosen)
        fits = _fits(args.ratings, args.metrics) if needs_fits else Fits()
        material = Material(
            benchmark, runs, args.step, args.split, args.fitted_rating, rated, fits, args.rough
        )
        sections.append(making.section(material, chosen))
    return sections


def _fits(paths: Sequence[str], metrics: Sequence[str]) -> Fits:
    """Correlates scores, and regressors that are fitted to ratings, with the ratings."""
    from xlbench.judgement import fitting  # It loads what scores texts.

    return fitting.correlations(fitting.read(paths, metrics or list(fitting.METRICS), ''), 0)


if __name__ == '__main__':
    sys.exit(errors.run_main(main, sys.argv[1:]))
