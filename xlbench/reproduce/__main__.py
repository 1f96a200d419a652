r"""Runs the experiments of a paper's table, and prints the table.

  python -m xlbench.reproduce mrs --list
  python -m xlbench.reproduce clidsum --table=4 --paper --format=latex
  python -m xlbench.reproduce mrs --table=3 --steps=0.1 --examples=50
  python -m xlbench.reproduce mtg --table=11 --models=mT5 --size=paper --topology=h100:8 --dry_run
  python -m xlbench.reproduce mtg --figure=4 --size=paper --launch=slurm
  python -m xlbench.reproduce mtg --table=14 --add=Mine=configs/mtg_mt5.py --bundle=mine.zip
  python -m xlbench.reproduce --check mine.zip
  python -m xlbench.reproduce --board=board.html mine.zip other.zip

The benchmarks are mtg, mrs, clidsum and fewshot. Every command that a table needs is an ordinary
one (a training, a chain, a translation, a sweep), with its own folder below --workdir. The commands
run one after another. A finished command is not run again, even if another table has started it. An
interrupted command continues, and one whose config has changed is refused. If a command fails,
those that do not need it still run. At the end the table is printed, and written to
WORKDIR/reproduce/tables. If runs are missing, notes name them with the reasons, and the exit code
is 1. Before, scores that the table shows and a finished run lacks are added to the run, as
`xlbench.score RUN --metrics` does it; if a metric needs a model or a table that is not on this
machine, a line below the table says how to get it.

An engine is one as for xlbench.translate. With the name of a translator of the paper, it is that
one: --engine='Google Trans.=file:google.{lang}.tsv'. With another name, such as NLLB, it stands in
for all that have no engine, in rows of its own name. Without --tagger one is trained. --metrics may
name what nobody publishes, such as fitted_rating=rating.json.

--add runs the table's experiments for a system of yours, three seeds each (--seeds=5: five;
--seeds=1,7: these two), and prints its cells beside the paper's, with the differences that are
significant. NAME=CONFIG[:VARIANT] is a config like those of the models, whose keys (scenario, task,
...) it takes; NAME=chain.py defines get_stages(source_lang, target_lang), the stages of `xlbench
translate chain`; NAME=FOLDER has predictions, TASK.txt or TASK.jsonl. A folder with the name of a
row of the paper has the released outputs of that row. --bundle writes predictions, signatures,
configs, hashes and the table into a file. --check scores such a file again, without the models, and
says line by line what agrees; its exit code is 1 if something does not. --board is a page of
bundles, with the result of each check.

With --steps and --examples, a table of the sample takes minutes instead of hours. It shows that
everything works; its scores are meaningless.
"""

import argparse
import collections
import dataclasses
import json
import os
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence

from ml_collections import ConfigDict

from xlbench import benchmarks, config as config_lib
from xlbench.benchmarks import BENCHMARKS, RECIPES, recipe as recipe_lib
from xlbench.benchmarks.paper import PaperTable
from xlbench.benchmarks.recipe import SIZES, Recipe, slug
from xlbench.reporting import render
from xlbench.reporting.paper_tables import making, material
from xlbench.reproduce import added, beside, launching, running, steps as steps_lib
from xlbench.reproduce.outcome import Outcome
from xlbench.reproduce.running import State
from xlbench.reproduce.steps import Settings, Step
from xlbench.system import errors, files, locks
from xlbench.system.command_line import CommandLine, flag, say, words
from xlbench.system.errors import UserError

FLAGS = (
    flag('benchmark', ', '.join(RECIPES), '', nargs='?'),
    flag('bundles', 'files of --bundle, for --check and --board', nargs='*', metavar='FILE.zip'),
    flag('--check', 'score bundles again, and say what agrees', False),
    flag('--board', 'PAGE.html: write a leaderboard of bundles', ''),
    flag('--add', 'NAME=CONFIG[:VARIANT], NAME=chain.py or NAME=FOLDER', [], action='append'),
    flag('--bundle', 'FILE.zip: write what others check', ''),
    flag('--table', 'tables of the paper: 3,5 or all', ''),
    flag('--figure', 'figures of the paper: 2,7 or all', ''),
    flag('--paper', "print the paper's own numbers, without any run", False),
    flag('--format', f'{", ".join(render.FORMATS)}: of tables', 'markdown'),
    flag('--list', 'list what each table of the paper needs', False),
    flag('--dry_run', 'list the commands: which are finished, and the steps of the others', False),
    flag('--models', 'A,B: models of the table; for few-shot, tasks', (), type=words),
    flag('--size', 'sample: embedded corpora, small models; paper: its settings, data', 'sample'),
    flag('--workdir', 'folder of all commands (default: RUNS/BENCHMARK-SIZE)', ''),
    flag('--seeds', '1,2,3: a run for each; tables have means and deviations', (), type=words),
    flag('--root', 'folder of the data', ''),
    flag('--topology', 'GPUs, such as h100:8: --dry_run estimates hours, as xlbench.plan does', ''),
    flag('--launch', 'write jobs for slurm, or jobset (Kubernetes), and run nothing', ''),
    flag('--engine', 'NAME=ENGINE: of a translator; see below', [], action='append'),
    flag('--tagger', "tagger with universal parts of speech, for ClidSum's action infilling", ''),
    flag('--ratings', 'ratings.jsonl of xlbench.annotate score, or its folder', ''),
    flag('--metrics', "A,B: columns of the table, in place of its own", (), type=words),
    flag('--steps', "fraction of a sample's training steps", 1.0),
    flag('--examples', 'test examples that are scored for each task of a sample', 0),
    flag('--config.KEY', 'a config key of all trainings', metavar='VALUE'),
)


def main(argv: Sequence[str]) -> int:
    """The command line, without the program's name."""
    args, rest = CommandLine('reproduce', __doc__, FLAGS).parser().parse_known_args(argv)
    if args.check or args.board:
        return _bundles(args, rest)
    _check(args, rest)
    workdir = args.workdir or os.path.join('RUNS', f'{args.benchmark}-{args.size}')
    recipe, engines = _translators(args.engine, RECIPES[args.benchmark], args.size)
    settings = Settings(
        workdir, args.size, tuple(map(int, args.seeds)), args.root, args.steps, args.examples,
        engines, tuple(rest), args.tagger, _rated(args.ratings),
    )  # fmt: skip
    if args.paper:
        papers = making.of_paper(BENCHMARKS[args.benchmark], args.table)
        print(render.FORMATS[args.format][1](papers), end='')
        return 0
    if args.list:
        print('\n'.join(list_paper(recipe, args.size)))
        return 0
    if bool(args.table) == bool(args.figure):
        raise UserError('give --table=N or --figure=N (or --list, which shows them all)')
    kind, numbers = ('table', args.table) if args.table else ('figure', args.figure)
    lack = f'of {recipe.benchmark} is not in its paper'
    tables = making.chosen(recipe.tables, kind, numbers, lack)
    systems = added.parse(args.add)
    if systems:
        recipe, tables = _with_added(recipe, tables, systems, args)
    experiments = steps_lib.chosen(recipe, tables, args.models)
    steps = steps_lib.steps(recipe, experiments, settings)
    state = State(settings.workdir, steps)
    if args.dry_run:
        lines = list_steps(steps, state, args.topology)
        others = (f'{t.name} is not made here: {t.instead}' for t in tables if not t.experiments)
        print('\n'.join([*lines, *others]))
        return 0
    if args.launch:
        title = f'{recipe.benchmark} {args.table or f"figure {args.figure}"}'
        again = f'python -m xlbench.reproduce {shlex.join(_without(argv, "--launch"))}'
        folder = state.folder / 'launch'
        for path in launching.write(args.launch, _left(steps, state), folder, title, again):
            print(f'wrote {path}')
        return 0
    with locks.folder(state.folder):
        files.remove_leftovers(state.folder)
        gaps = running.run(steps, state, say)
        outcome = Outcome(recipe, experiments, settings, state, gaps)
        for table in tables:
            if systems:
                names = [system.name for system in systems]
                made, text, said = beside.written(outcome, table, names, args.metrics, args.bundle)
            else:
                made, text, said = outcome.written(table, args.metrics)
            if made and args.format != 'markdown':
                for line in said:
                    say(line)
                text = render.FORMATS[args.format][1](made)
            print(text, end='')
    return 1 if gaps else 0


def _check(args: argparse.Namespace, rest: Sequence[str]) -> None:
    """Raises UserError for a value that is not allowed; counts the seeds of new systems."""
    if args.add:
        args.seeds = _seeds(args.seeds)
    strange = [text for text in rest if not text.startswith('--config.') or '=' not in text]
    texts = ','.join(args.seeds)
    are_seeds = all(seed.isdecimal() and int(seed) < 2**32 for seed in args.seeds)
    if args.bundles:
        raise UserError(f'unknown argument {args.bundles[0]!r}; --check and --board take bundles')
    errors.check_known('benchmark', args.benchmark, RECIPES)
    for name, allowed in (('size', SIZES), ('launch', launching.KINDS), ('format', render.FORMATS)):
        if value := getattr(args, name):
            errors.check_known(name, value, allowed)
    if args.metrics:
        # It loads for half a second, which a slip in other flags need not wait for.
        from xlbench.metrics import suite

        for name in args.metrics:
            suite.check_name(name)
    for is_wrong, message in (
        (args.bundle and not args.add, '--bundle is of systems that --add names'),
        (args.paper and not args.table, '--paper prints tables; give --table=N or --table=all'),
        (strange, f'unknown argument {"".join(strange[:1])!r}; see xlbench reproduce --help'),
        (not are_seeds, f'--seeds={texts} are not whole numbers with commas'),
        (len(set(args.seeds)) < len(args.seeds), f'--seeds={texts} has one seed twice'),
        (not 0 < args.steps <= 1, f'--steps={args.steps} is not a fraction above 0, up to 1'),
        (args.examples < 0, f'--examples={args.examples} is below 0'),
        (
            args.size == 'paper' and (args.steps != 1 or args.examples),
            '--steps and --examples are for --size=sample; leave them out',
        ),
        (
            args.topology and args.size != 'paper',
            '--topology is for --size=paper; a sample runs on a laptop',
        ),
    ):
        if is_wrong:
            raise UserError(message)


def _seeds(texts: Sequence[str]) -> tuple[str, ...]:
    """The seeds of new systems: 1 to 3, as many as one number says, or those of a list."""
    count = (texts or (str(added.SEEDS),))[0]
    if len(texts) > 1 or not count.isdecimal() or not 0 < int(count) <= added.MOST_SEEDS:
        return tuple(texts)
    return tuple(str(number) for number in range(1, int(count) + 1))


def _bundles(args: argparse.Namespace, rest: Sequence[str]) -> int:
    """Checks bundles, and writes a page of them."""
    paths = [*filter(None, [args.benchmark]), *args.bundles]
    if rest or not paths:
        raise UserError(
            f'unknown argument {rest[0]!r}; see xlbench reproduce --help' if rest
            else 'name bundles: python -m xlbench.reproduce --check FILE.zip'
        )  # fmt: skip
    from xlbench.reproduce import checking  # With metrics, which load for half a second.

    if args.board:
        files.check_own(args.board, 'a leaderboard of xlbench', [checking.MARK])
    checked = [checking.check(path) for path in paths]
    if args.board:
        checking.write_board(args.board, paths, checked)
        say(f'wrote {args.board}')
    for path, one in zip(paths, checked, strict=True) if args.check else ():
        print('\n'.join([f'{path}:', *map(str, one.lines)]))
    return 0 if all(one.agrees for one in checked) else 1


def _with_added(
    recipe: Recipe,
    tables: Sequence[PaperTable],
    systems: Sequence[added.AddedSystem],
    args: argparse.Namespace,
) -> tuple[Recipe, list[PaperTable]]:
    """The recipe with the systems of --add, and the table with their experiments alone."""
    if len(tables) != 1 or not args.table or args.models or args.ratings:
        raise UserError('--add is for one table: --table=N, without --models and --ratings')
    (table,) = tables
    if args.bundle:
        files.check_new(args.bundle)
    mine: list[str] = []
    for system in systems:
        before = recipe
        recipe = added.experiments(recipe, table, system, args.size)
        mine += [name for name in recipe.experiments if name not in before.experiments]
    return recipe, [dataclasses.replace(table, experiments=tuple(mine))]


def _left(steps: Sequence[Step], state: State) -> list[Step]:
    """The steps that can be run and are not done; UserError if the workdir of one is refused."""
    gaps: dict[str, str] = {}
    found = [(step, *running.standing(step, state, gaps)) for step in steps]
    if refused := [reason for _, kind, reason in found if kind == 'refused']:
        raise UserError(refused[0])
    return [step for step, kind, _ in found if kind == 'to do']


def _translators(texts: Sequence[str], recipe: Recipe, size: str) -> tuple[Recipe, dict[str, str]]:
    """Translator -> engine, and the recipe with the one that stands in for others."""
    engines = {}
    for text in texts:
        name, _, engine = text.partition('=')
        if not engine or not slug(name) or not name.isprintable() or set('{}') & set(name):
            raise UserError(f"--engine={text} is not NAME=ENGINE, such as 'NLLB=models/nllb'")
        engines[name] = engine
    others = [name for name in engines if name not in recipe.engines]
    if not others:
        return recipe, engines
    if len(others) > 1:
        raise UserError(f'--engine: {", ".join(others)} cannot all stand in; name one of them')
    lacking = [n for n, of in recipe.engines.items() if n not in engines and not of.get(size)]
    lacking = lacking or [n for n in recipe.engines if n in recipe.stand_ins]
    if not lacking:
        known = ', '.join(recipe.engines) or 'none'
        raise UserError(
            f'--engine={others[0]}: {recipe.benchmark} has no translator without an engine at size '
            f'{size}; its translators: {known}'
        )
    if any(slug(others[0]) in slug(name) for name in recipe.experiments):
        raise UserError(f'--engine={others[0]} has the name of another system; choose a new name')
    stood_in = recipe_lib.read(BENCHMARKS[recipe.benchmark], lacking, others[0])
    return stood_in, engines


def _rated(path: str) -> tuple[material.RatedText, ...]:
    """Reads the texts that judges rated, from a file or its folder; none for ''."""
    if not path:
        return ()
    file = os.path.join(path, 'ratings.jsonl') if os.path.isdir(path) else path
    if not os.path.isfile(file):
        raise UserError(f'--ratings={path}: there is no {file}; xlbench.annotate score writes it')
    return tuple(material.read_texts([file])[0])


def _without(argv: Sequence[str], flag: str) -> list[str]:
    """Leaves out a flag, written as --flag=VALUE or as --flag VALUE."""
    pairs = zip(['', *argv], argv, strict=False)
    return [a for before, a in pairs if flag not in (a.partition('=')[0], before)]


# --------------------------------------------------------------------------------------- lists

# What a step of training depends on: all but how many steps there are, and on which texts.
_DECISIVE = ('model', 'batches', 'objective', 'mesh', 'accumulate', 'trainable', 'lora')


def list_paper(recipe: Recipe, size: str) -> Iterator[str]:
    """Lists the tables and figures of a paper, a line each."""
    benchmark = benchmarks.get(recipe.benchmark)
    yield f'{benchmark.title} (arXiv:{benchmark.arxiv}), at the size {size}'
    for table in recipe.tables:
        needs = [_counted(recipe, table.experiments, size)] if table.experiments else []
        needs += [table.instead] if table.instead else []
        yield f'{table.name:<9} {table.title}: {"; then ".join(needs)}'
    yield f'all       {_counted(recipe, tuple(recipe.experiments), size)}'
    yield from (f'note: {note}' for note in recipe.notes.values())


def _counted(recipe: Recipe, experiments: Sequence[str], size: str) -> str:
    """Example: 48 experiments, 12 of each of M-BERT, XLM, mBART, mT5 = 48 train."""
    models = collections.Counter(recipe.experiments[name].model for name in experiments)
    counts = set(models.values())
    of_each = ''
    if len(models) > 1 and len(counts) == 1 and counts != {1}:
        of_each = f', {counts.pop()} of each of {", ".join(models)}'
    steps = steps_lib.steps(recipe, experiments, Settings('.', size))
    programs = collections.Counter(step.command.program for step in steps)
    missing = sum(bool(step.missing) for step in steps)
    kinds = ', '.join(f'{count} {name}' for name, count in programs.items())
    lost = f'; {missing} cannot run at size {size}' if missing else ''
    return f'{_plural(len(experiments), "experiment")}{of_each} = {kinds}{lost}'


def _plural(count: int, noun: str) -> str:
    return f'{count} {noun}' + ('' if count == 1 else 's')


def list_steps(steps: Sequence[Step], state: State, topology: str) -> Iterator[str]:
    """Lists which steps are done, and what the others would cost on the GPUs of a topology."""
    trained = [step for step in steps if step.command.program == 'train' and not step.missing]
    # A key that no config has ends it here.
    configs = {step.name: steps_lib.config_of(step.arguments) for step in trained}
    planned = _hours(configs, topology) if topology else {}
    gaps: dict[str, str] = {}
    total = 0.0
    done = 0
    for step in steps:
        words, reason = running.standing(step, state, gaps)
        if words == 'to do' and (reason := state.record(step).failed):
            words = 'failed'
        words += f': {reason}' if reason else ''
        done += words == 'done'
        if step.name in planned:
            total += 0.0 if words == 'done' else planned[step.name]
            words += f', {planned[step.name]:.1f} hours on {topology}'
        elif words.startswith(('to do', 'failed')) and step.name in configs:
            words += f', {_num_steps(configs[step.name]):,} steps'
        needs = f' (after {", ".join(step.needs)})' if step.needs and step.name not in gaps else ''
        yield f'{step.name:<36} {step.command.program:<15} {words}{needs}'
    left = f'; the remaining trainings take about {total:.0f} hours on {topology} (40 % MFU)'
    yield f'{done} of {_plural(len(steps), "command")} done{left if total else ""}'


def _num_steps(config: ConfigDict) -> int:
    return sum(stage.num_steps for stage in config.stages.values())


def _hours(configs: Mapping[str, ConfigDict], topology: str) -> dict[str, float]:
    """Estimates the hours of trainings by the names of steps, as python -m xlbench.plan does.

    Configs that differ in their data and their lengths alone are planned once. UserError if the
    topology, such as h100:8, is not one of GPUs, or a config cannot be planned.
    """
    # They load jax, which nothing else here needs.
    from xlbench.plan import devices
    from xlbench.plan.__main__ import make_plan

    if not devices.is_gpu(topology):
        raise UserError(
            f'--topology={topology} is not one of a100:N, h100:N, h200:N; python -m xlbench.plan '
            'compiles a config for TPUs, one at a time'
        )
    seconds: dict[str, float] = {}
    planned: dict[str, float] = {}
    for name, config in configs.items():
        known = config_lib.to_dict(config)
        key = json.dumps([known.get(part) for part in _DECISIVE], sort_keys=True, default=str)
        if key not in seconds:
            estimate = make_plan(config, topology, with_decoding=False, tries=0)['hours']
            seconds[key] = estimate['step_seconds'] if estimate else 0.0
        planned[name] = seconds[key] * _num_steps(config) / 3600
    return planned


if __name__ == '__main__':
    sys.exit(errors.run_main(main, sys.argv[1:]))
