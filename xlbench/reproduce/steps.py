"""Lists the command lines that a table needs, each once and behind those it builds on."""

import dataclasses
import pathlib
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ml_collections import ConfigDict

from xlbench import config as config_lib
from xlbench.benchmarks.paper import PaperTable
from xlbench.benchmarks.recipe import Command, Recipe
from xlbench.reporting.paper_tables.material import RatedText
from xlbench.system import errors
from xlbench.system.errors import UserError

CONFIGURED = ('train', 'fewshot')  # Programs with a config, whose workdir says whether it is done.
_ROOTS = {'sample': 'data/sample', 'paper': 'data'}
_PLACE = re.compile(r'\{(engine )?([^{}]+)\}')


@dataclasses.dataclass(frozen=True)
class Settings:
    """The flags that all commands of a table share."""

    workdir: str  # The folder of all of them.
    size: str = 'sample'  # Or 'paper'.
    seeds: tuple[int, ...] = ()  # Of trainings; none: each config's own.
    root: str = ''  # Of the data; '': each config's own.
    steps: float = 1.0  # Share of the steps of the sample's trainings.
    examples: int = 0  # Of each test task, to be scored; 0: as many as the config has.
    # Translator -> engine, for those that the user names.
    engines: Mapping[str, str] = dataclasses.field(default_factory=dict)
    overrides: tuple[str, ...] = ()  # Flags --config.KEY=VALUE of all trainings.
    tagger: str = ''  # The user's, a folder or a hub name, in place of the one trained here.
    rated: tuple[RatedText, ...] = ()  # Texts with the ratings of judges.

    @property
    def places(self) -> dict[str, str]:
        """Maps placeholders of flags, other than steps, to their values."""
        places = {'root': self.root or _ROOTS[self.size], 'runs': self.workdir}
        return places | ({'tagger': self.tagger} if self.tagger else {})


@dataclasses.dataclass(frozen=True)
class Step:
    """A command line with all of its places filled."""

    name: str  # Of the command, and its seed.
    command: Command
    folder: pathlib.Path  # The workdir that it writes.
    arguments: tuple[str, ...]  # What stands behind `python -m xlbench.PROGRAM`.
    needs: tuple[str, ...]  # Names of the steps that have to be finished before.
    missing: str = ''  # Why it cannot be run; '' if it can.

    @property
    def module(self) -> str:
        """The program, as `python -m` takes it."""
        return f'xlbench.{self.command.program.split()[0]}'

    @property
    def output(self) -> pathlib.Path | None:
        """The file that is its result, of programs that write one."""
        written = [a.partition('=')[2] for a in self.arguments if a.startswith('--output=')]
        return pathlib.Path(written[0]) if written else None


def chosen(recipe: Recipe, tables: Iterable[PaperTable], models: Iterable[str]) -> list[str]:
    """Names the experiments of tables, of some models or of all; each once.

    Raises:
      UserError: no table has such a model.
    """
    tables, models = list(tables), tuple(models)
    every = dict.fromkeys(name for table in tables for name in table.experiments)
    known = dict.fromkeys(recipe.experiments[name].model for name in every)
    for model in models:
        errors.check_known('model in --models', model, known)
    return [n for n in every if not models or recipe.experiments[n].model in models]


def steps(recipe: Recipe, experiments: Iterable[str], settings: Settings) -> list[Step]:
    """Lists the steps that experiments need, in an order in which they can be run."""
    made: dict[str, Step] = {}
    for experiment in experiments:
        for name in recipe.experiments[experiment].commands:
            for seed in settings.seeds or (None,):
                _add(recipe, name, seed, settings, made)
    return list(made.values())


def step_names(recipe: Recipe, command: str, settings: Settings) -> list[str]:
    """Names the steps of a command, one for each seed that it has."""
    seeds = settings.seeds or (None,)
    return list(dict.fromkeys(_step_name(recipe.commands[command], seed) for seed in seeds))


def _step_name(command: Command, seed: int | None) -> str:
    has_own = seed is not None and command.seeded and command.program != 'fewshot'
    return f'{command.name}-seed{seed}' if has_own else command.name


def _add(
    recipe: Recipe, name: str, seed: int | None, settings: Settings, made: dict[str, Step]
) -> Step:
    """Puts a command and all that it needs into `made`."""
    command = recipe.commands[name]
    step_name = _step_name(command, seed)
    if step_name in made:
        return made[step_name]
    if not command.seeded:  # Whatever it needs of those that are has the first seed.
        seed = settings.seeds[0] if settings.seeds else None
    flags = (*command.flags, *command.sized.get(settings.size, ()))
    places = [match for flag in flags for match in _PLACE.finditer(flag)]
    before = [m[2] for m in places if not m[1] and m[2] not in settings.places]
    # That of the step, or what several commands share, with its seed.
    own = (command.folder or command.name) + step_name.removeprefix(command.name)
    folder = pathlib.Path(settings.workdir) / own
    needs: dict[str, Step] = {}
    for flag in flags:  # A file that is there already is used, and nothing is run to make it.
        written = _fill(flag, recipe, settings, {}, False) if flag.startswith('--output=') else ''
        if written and pathlib.Path(written.partition('=')[2]).exists():
            made[step_name] = Step(step_name, command, folder, (written,), ())
            return made[step_name]
    for other in (*before, *command.after):
        if settings.size in recipe.commands[other].sizes:
            needs[other] = _add(recipe, other, seed, settings, made)
    missing = command.missing.get(settings.size, '')
    is_chain = command.program == 'translate chain'
    try:
        filled = tuple(
            _fill(flag, recipe, settings, needs, is_chain and not flag.startswith('--'))
            for flag in flags
        )
    except UserError as error:
        filled, missing = (), missing or str(error)
    arguments = () if missing else _arguments(command, filled, folder, seed, settings)
    if not missing:  # The word of a command of a program: `data triples`.
        arguments = (*command.program.split()[1:], *arguments)
    needed = tuple(step.name for step in needs.values())
    made[step_name] = Step(step_name, command, folder, arguments, needed, missing)
    return made[step_name]


def _fill(
    flag: str, recipe: Recipe, settings: Settings, needs: Mapping[str, Step], is_stage: bool
) -> str:
    """A flag with its places filled; UserError for an engine that nobody has named."""

    def fill(match: re.Match) -> str:
        if not match[1]:
            place = settings.places.get(match[2]) or str(needs[match[2]].folder)
            return shlex.quote(place) if is_stage else place  # A stage is split at spaces.
        name, _, lang = match[2].rpartition(' ')
        engine = settings.engines.get(name) or recipe.engines[name].get(settings.size)
        if not engine:
            raise UserError(
                f"{name} has no engine at size {settings.size}; give its own with --engine='{name}="
                "ENGINE', or another translator under its own name, such as --engine='NLLB=ENGINE'"
            )
        return engine.replace('{lang}', lang)

    return _PLACE.sub(fill, flag)


def _arguments(
    command: Command,
    flags: tuple[str, ...],
    folder: pathlib.Path,
    seed: int | None,
    settings: Settings,
) -> tuple[str, ...]:
    """The command line behind the program's name."""
    root = settings.root
    few = [f'--num_examples={settings.examples}'] if settings.examples and command.limited else []
    if command.program in ('translate chain', 'prompt'):
        has_root = any(flag.startswith('--root=') for flag in flags)
        given = [f'--root={root}'] if root and not has_root else []
        given += [f'--seed={seed}'] if seed is not None else []
        return (*flags, *given, *few, f'--workdir={folder}')
    if command.program not in CONFIGURED:
        return (*flags, *few)
    head = f'--config={command.configs[settings.size]}'
    where = 'config.source' if command.program == 'fewshot' else 'config'
    given = [f'--{where}.data.root={root}'] if root else []
    given += [f'--{where}{flag.removeprefix("--config")}' for flag in settings.overrides]
    if command.program == 'fewshot':
        if settings.seeds and '--config.adapt.seeds' not in ' '.join(flags):
            given.append(f'--config.adapt.seeds=({",".join(map(str, settings.seeds))},)')
    elif seed is not None:
        given.append(f'--config.seed={seed}')
    line = [head, *given, *flags]
    return (*line, *_smaller(line, command.program, settings), f'--workdir={folder}')


def config_of(arguments: Iterable[str]) -> ConfigDict:
    """The config of a command line, its names checked; UserError if it cannot be."""
    line = ['xlbench', *(a for a in arguments if not a.startswith('--workdir='))]
    config, *_ = config_lib.parse_command(line)
    config_lib.check_names(config)
    return config


def _smaller(line: list[str], program: str, settings: Settings) -> Iterator[str]:
    """Flags of a sample that is trained for a share of its steps, or scored on few examples."""
    if settings.steps == 1 and not settings.examples:
        return
    config = config_of(line)
    if program == 'fewshot':
        if settings.steps != 1:
            adapt, share = config.adapt, settings.steps
            yield f'--config.adapt.epochs={len(_share(range(adapt.epochs), share, 1))}'
            yield f'--config.adapt.shots=({",".join(map(str, _share(adapt.shots, share, 1)))},)'
            if not any(flag.startswith('--config.adapt.buckets=') for flag in line):
                buckets = _share(range(*adapt.buckets), share, 2)  # Two have a deviation.
                yield f'--config.adapt.buckets=({buckets[0]},{buckets[-1] + 1})'
        return
    if settings.steps != 1:
        for name, stage in config.stages.items():
            few = max(1, round(stage.num_steps * settings.steps))
            yield f'--config.stages.{name}.num_steps={few}'
    if settings.examples and 'test' in config.evals:
        yield f'--config.evals.test.num_examples={settings.examples}'


def _share(items: Sequence[int], share: float, fewest: int) -> Sequence[int]:
    """The first part of items that has a share of them, and no fewer than `fewest`."""
    return items[: max(fewest, round(len(items) * share))]
