"""A system of the user's as new rows of a paper's table.

  NAME=CONFIG[:VARIANT]   a training for each experiment that the table has of a model like it
  NAME=chain.py           a file that defines get_stages(source_lang, target_lang): the stages of
                          `xlbench translate chain`, one chain for each task of the table
  NAME=prompt:ENGINE      a language model that `xlbench prompt` asks, without training
  NAME=FOLDER             predictions: TASK.txt or TASK.jsonl; SCENARIO/TASK.txt where the table has
                          scenarios side by side; all of it in seed1, seed2, ... for several seeds

A folder with the name of a row that the paper prints has the released outputs of that row: they are
scored, and differences to them are tested.
"""

import ast
import dataclasses
import hashlib
import itertools
import pathlib
import runpy
from collections.abc import Sequence
from typing import NamedTuple

from xlbench import benchmarks
from xlbench.benchmarks.paper import PaperTable
from xlbench.benchmarks.recipe import Command, Experiment, Recipe, slug
from xlbench.fewshot.results import bucket_numbers
from xlbench.reproduce.steps import CONFIGURED, config_of
from xlbench.system import errors
from xlbench.system.errors import UserError

SEEDS = 3  # Of a new system, unless the command line says otherwise.
MOST_SEEDS = 100
PREFIX = 'added-'  # Of the names of commands and experiments.
_CONFIG, _CHAIN, _FOLDER, _PROMPT = 'get_config', 'get_stages', '', 'prompt:'
_ENDINGS = ('.txt', '.jsonl')


class AddedSystem(NamedTuple):
    """A system as the command line names it."""

    name: str  # In the table.
    source: str  # A config with its variant, a file of a chain, or a folder.
    kind: str  # The function that the file defines; '' for a folder; 'prompt:' for an engine.

    @property
    def folder(self) -> str:
        """The beginning of the names of its commands."""
        return f'{PREFIX}{slug(self.name)}'


def parse(texts: Sequence[str]) -> list[AddedSystem]:
    """The systems of --add; UserError for what is none."""
    made: dict[str, AddedSystem] = {}
    for text in texts:
        name, _, source = text.partition('=')
        usable = slug(name) and name.isprintable() and not set('{}|') & set(text)
        if not usable or not source:
            raise UserError(
                f'--add={text} is not NAME=CONFIG[:VARIANT], NAME=chain.py, NAME=prompt:ENGINE or '
                "NAME=FOLDER, such as 'Mine=configs/mtg_mt5.py:base'"
            )
        if slug(name) in made:
            raise UserError(f'--add names {name} twice; give each system its own name')
        made[slug(name)] = AddedSystem(name, source, _kind(source))
    return list(made.values())


def _kind(source: str) -> str:
    if source.startswith(_PROMPT):
        return _PROMPT
    if pathlib.Path(source).is_dir():
        return _FOLDER
    path = pathlib.Path(source.partition(':')[0])
    if not path.is_file():  # Of the package, or a slip that parsing the config names.
        return _CONFIG
    try:
        body = ast.parse(path.read_bytes()).body
    except (SyntaxError, ValueError) as error:
        raise UserError(f'{path} is not a Python file: {error}') from None
    names = {one.name for one in body if isinstance(one, ast.FunctionDef)}
    for kind in (_CONFIG, _CHAIN):
        if kind in names:
            return kind
    raise UserError(
        f'{path} defines neither get_config(variant), as configs do, nor '
        'get_stages(source_lang, target_lang), which gives the stages of a chain'
    )


def experiments(recipe: Recipe, table: PaperTable, system: AddedSystem, size: str) -> Recipe:
    """A recipe with the commands and experiments of a system for a table; its model is its name.

    Raises:
      UserError: the table has no such experiments, or the system nothing for it.
    """
    if not table.rows or not table.printed or table.is_judged:
        raise UserError(f'{table.name} of {recipe.benchmark} has no rows of scores to add to')
    if system.kind in (_CHAIN, _FOLDER) and table.printed == 'fewshot_scores':
        raise UserError(
            'a system of few-shot transfer is trained, --add=NAME=CONFIG[:VARIANT], or prompted, '
            '--add=NAME=prompt:ENGINE'
        )
    if system.name in recipe.experiments and system.kind == _CONFIG:
        raise UserError(f'--add={system.name} has the name of another system; choose a new name')
    of_kind = {_CONFIG: _trained, _CHAIN: _chains, _FOLDER: _scored, _PROMPT: _prompted}
    commands, made = of_kind[system.kind](recipe, table, system, size)
    return dataclasses.replace(
        recipe,
        commands={**recipe.commands, **{one.name: one for one in commands}},
        experiments={**recipe.experiments, **{one.name: one for one in made}},
    )


def _trained(
    recipe: Recipe, table: PaperTable, system: AddedSystem, size: str
) -> tuple[list[Command], list[Experiment]]:
    config, _, own = system.source.partition(':')
    commands, made = {}, []

    def add(name: str) -> str:
        old = recipe.commands[name]
        first, _, keys = old.configs[size].partition(':')[2].partition(',')
        is_source = old.program == 'train' and recipe.benchmark == 'fewshot'
        mine = config
        if is_source:  # configs/fewshot.py adapts what configs/fewshot_source.py trains.
            mine = f'{config.removesuffix(".py")}_source.py'
        variant = ','.join(filter(None, (own or (first if size == 'sample' else ''), keys)))
        flags = old.flags
        for other in (n for n in recipe.commands if any(f'{{{n}}}' in f for f in flags)):
            flags = tuple(flag.replace(f'{{{other}}}', f'{{{add(other)}}}') for flag in flags)
        new = f'{system.folder}-{name}'
        configs = {size: f'{mine}:{variant}' if variant else mine}
        commands[new] = dataclasses.replace(old, name=new, configs=configs, flags=flags, sized={})
        return new

    for experiment in _template(recipe, table, config):
        key = {**experiment.key, 'model': system.name}
        names = tuple(map(add, experiment.commands))
        new = f'{system.folder}-{experiment.name}'
        made.append(
            dataclasses.replace(experiment, name=new, model=system.name, commands=names, key=key)
        )
    return list(commands.values()), made


def _template(recipe: Recipe, table: PaperTable, config: str = '') -> list[Experiment]:
    """The experiments of a model in a table that are trainings alone, if possible by a config."""
    of_table = [recipe.experiments[name] for name in table.experiments]
    if recipe.benchmark == 'fewshot':
        return of_table

    def is_plain(name: str) -> bool:
        command = recipe.commands[name]
        places = any('{' in flag for flag in command.flags)
        return command.program in CONFIGURED and not places and not command.after

    by_model: dict[str, list[Experiment]] = {}
    for one in of_table:
        by_model.setdefault(one.model, []).append(one)
    plain = [
        of_model
        for of_model in by_model.values()
        if all(is_plain(name) for one in of_model for name in one.commands)
    ]
    if not plain:
        raise UserError(
            f'{table.name} of {recipe.benchmark} has no model that is trained on its own; tables '
            'with one: ' + ', '.join(t.number for t in recipe.tables if t.printed and t.experiments)
        )
    stem = pathlib.PurePath(config).stem

    def is_like(of_model: Sequence[Experiment]) -> bool:
        command = recipe.commands[of_model[0].commands[0]]
        return pathlib.PurePath(command.configs['paper'].partition(':')[0]).stem == stem

    return max(plain, key=is_like)


def _tasks(recipe: Recipe, table: PaperTable) -> dict[str, tuple[str, str]]:
    """The tasks that cells of a table are of, by name: (source, target)."""
    benchmark = benchmarks.get(recipe.benchmark)
    made = {}
    for key in table.keys:
        if {'source', 'target'} <= key.keys() and key.get('task') in benchmark.tasks:
            key = {name: text.format_map(key) for name, text in key.items() if name != 'score'}
            pair = key['source'], key['target']
            made[benchmark.task_name(key['task'], *pair)] = pair
    if not made:
        raise UserError(f'{table.name} of {recipe.benchmark} has no cell of a single task')
    return made


def _data_flags(benchmark: str, size: str) -> tuple[str, ...]:
    """The flags by which a command other than training finds the data."""
    public = 'facebook/mbart-large-50-many-to-many-mmt'
    sample = 'sample' if benchmark == 'mtg' else f'sample_{benchmark}'
    vocabulary = sample if size == 'sample' else public
    return '--root={root}', f'--vocabulary={vocabulary}'


def _chains(
    recipe: Recipe, table: PaperTable, system: AddedSystem, size: str
) -> tuple[list[Command], list[Experiment]]:
    if any('scenario' in head.key for head in table.columns):
        raise UserError(f'{table.name} has several scenarios; add a config, or a folder with them')
    try:
        get_stages = runpy.run_path(system.source)[_CHAIN]
        stages = {task: get_stages(*pair) for task, pair in _tasks(recipe, table).items()}
    except UserError:
        raise
    except Exception as error:
        raise UserError(f'{system.source}: {errors.located(error)}') from error
    for task, of_task in stages.items():
        if not of_task or not all(isinstance(s, str) and not set('{}') & set(s) for s in of_task):
            raise UserError(f'{system.source}: get_stages gives no list of stages for {task}')
    commands = [
        Command(
            f'{system.folder}-{task}', 'translate chain', folder=system.folder, limited=True,
            flags=(
                *of_task, f'--task={task}', f'--system={system.name}',
                *_data_flags(recipe.benchmark, size),
            ),
        )
        for task, of_task in stages.items()
    ]  # fmt: skip
    return commands, [_of_texts(system, '', [one.name for one in commands])]


def _prompted(
    recipe: Recipe, table: PaperTable, system: AddedSystem, size: str
) -> tuple[list[Command], list[Experiment]]:
    engine, data = system.source.removeprefix(_PROMPT), _data_flags(recipe.benchmark, size)

    def command(name: str, *flags: str, folder: str = '') -> Command:
        flags = (engine, *flags, f'--system={system.name}', *data)
        return Command(
            f'{system.folder}-{name}', 'prompt', flags=flags, folder=folder, limited=True,
            seeded=bool(folder),
        )  # fmt: skip

    if recipe.benchmark != 'fewshot':
        tasks = _tasks(recipe, table)
        several = [command(task, f'--task={task}', folder=system.folder) for task in tasks]
        return several, [_of_texts(system, '', [one.name for one in several])]
    commands, experiments = [], []
    for experiment in _template(recipe, table):
        (sweep,) = (recipe.commands[name] for name in experiment.commands)
        config = config_of([f'--config={sweep.configs[size]}', *sweep.flags])
        adapt = config.adapt
        made = command(
            config.task, f'--task={config.task}', f'--languages={"+".join(adapt.languages)}',
            f'--shots={"+".join(map(str, (0, *adapt.shots)))}',
            f'--buckets={len(bucket_numbers(adapt.buckets))}',
        )  # fmt: skip
        name, model = f'{system.folder}-{experiment.name}', system.name
        key = {**experiment.key, 'model': model}
        experiments.append(Experiment(name, model, (made.name,), key, experiment.mixture))
        commands.append(made)
    return commands, experiments


def _scored(
    recipe: Recipe, table: PaperTable, system: AddedSystem, size: str
) -> tuple[list[Command], list[Experiment]]:
    """A command of xlbench.score for each file; its hash is in its name, so that others run."""
    root, tasks = pathlib.Path(system.source), _tasks(recipe, table)
    named = {head.key['scenario'] for head in table.columns if 'scenario' in head.key}
    commands, by_scenario = [], dict[str, list[str]]()
    seeds = sorted((p for p in root.glob('seed*') if p.name[4:].isdecimal()), key=lambda p: p.name)
    for place, scenario in itertools.product(seeds or [root], sorted(named) or ['']):
        seed = place.name[4:] if seeds else '0'
        for task in tasks:
            paths = [place / scenario / f'{task}{ending}' for ending in _ENDINGS]
            for path in filter(pathlib.Path.is_file, paths):
                folder = '-'.join(filter(None, (system.folder, scenario, f'seed{seed}')))
                mark = hashlib.sha256(path.read_bytes()).hexdigest()[:12]
                command = Command(
                    f'{folder}-{task}-{mark}', 'score', folder=folder, seeded=False,
                    flags=(
                        str(path), f'--task={task}', f'--system={system.name}', f'--seed={seed}',
                        *_data_flags(recipe.benchmark, size), f'--workdir={{runs}}/{folder}',
                    ),
                )  # fmt: skip
                commands.append(command)
                by_scenario.setdefault(scenario, []).append(command.name)
    if not commands:
        where = f'one of {", ".join(sorted(named))} in it' if named else 'it'
        raise UserError(
            f'{root} has no predictions of {table.name}: put TASK.txt or TASK.jsonl into {where}, '
            f'where TASK is one of {", ".join(tasks)}'
        )
    return commands, [_of_texts(system, *one) for one in by_scenario.items()]


def _of_texts(system: AddedSystem, scenario: str, commands: Sequence[str]) -> Experiment:
    key = {'model': system.name} | ({'scenario': scenario} if scenario else {})
    name = '-'.join(filter(None, (system.folder, scenario)))
    return Experiment(name, system.name, tuple(commands), key)
