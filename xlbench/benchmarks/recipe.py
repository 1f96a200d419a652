"""Recipes of a paper's tables and figures: commands, and experiments that need them.

The flags of a command may hold placeholders, which are filled when all folders are known:

  {NAME}              the folder of another command, which has to be finished before
  {root}              the root of the data
  {runs}              the folder that the folders of all commands are in
  {engine NAME LANG}  an engine that translates into a language, as xlbench.translate takes it

papers/BENCHMARK.toml has those of a benchmark. An entry of `commands` has the fields of `Command`,
with one `config`; an entry of `experiments` those of `Experiment`. A command with a `key` is an
experiment, too, by the same name. `each` is as in `paper`. [A|B] is A at the size `sample` and B at
the size `paper`; an argument that becomes empty is left out.
"""

import dataclasses
import functools
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from xlbench.benchmarks import paper
from xlbench.benchmarks.benchmark import Benchmark
from xlbench.benchmarks.paper import Key, PaperTable

SIZES = ('sample', 'paper')


@dataclasses.dataclass(frozen=True)
class Command:
    """A command of xlbench that a table needs, directly or because another command does.

    Attributes:
      name: that of its folder.
      program: what stands behind `python -m xlbench.`.
      configs: what stands behind --config= at each size; nothing for programs without a config.
      flags: further ones, and arguments, at every size.
      sized: further ones at one size.
      after: names of commands that have to be finished before, besides those in its flags.
      folder: the folder that it writes into, where several commands share one.
      missing: size -> why it cannot be run there.
      sizes: those at which it is needed at all.
      seeded: whether each seed has a run of its own.
      limited: whether --num_examples makes it short, for a sample that is scored on few examples;
        of programs without a config.
    """

    name: str
    program: str = 'train'
    configs: Mapping[str, str] = dataclasses.field(default_factory=dict)
    flags: tuple[str, ...] = ()
    sized: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    after: tuple[str, ...] = ()
    folder: str = ''
    missing: Mapping[str, str] = dataclasses.field(default_factory=dict)
    sizes: tuple[str, ...] = SIZES
    seeded: bool = True
    limited: bool = False


@dataclasses.dataclass(frozen=True)
class Experiment:
    """One experiment, as a paper counts them: a model in one setting, or a system.

    Attributes:
      name: of the experiment.
      model: the paper's model, or what else --models chooses by.
      commands: those whose results it has.
      key: of which results of the paper it is, such as {'scenario': 'multi', 'task': 'qg'}: the
        tables with cells of such a key show it.
      mixture: the scenario that its results are shown in, by the name of its mixture, where the
        command's config is of another one that trains on the same examples. Only what this one
        evaluates is shown.
    """

    name: str
    model: str
    commands: tuple[str, ...]
    key: Key = dataclasses.field(default_factory=dict)
    mixture: str = ''


@dataclasses.dataclass(frozen=True)
class Recipe:
    """All that a paper's tables need.

    Attributes:
      benchmark: name of the benchmark.
      commands: by name.
      experiments: by name.
      tables: in the order of the paper, tables before figures.
      engines: translator -> size -> engine, in which {lang} is the target language; for those
        that are no command. What is missing there has to be named on the command line.
      notes: model -> what has to be known of it.
      stand_ins: translator -> the translator of the paper that it replaces.
    """

    benchmark: str
    commands: Mapping[str, Command]
    experiments: Mapping[str, Experiment]
    tables: tuple[PaperTable, ...]
    engines: Mapping[str, Mapping[str, str]] = dataclasses.field(default_factory=dict)
    notes: Mapping[str, str] = dataclasses.field(default_factory=dict)
    stand_ins: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @classmethod
    def of(
        cls,
        benchmark: Benchmark,
        commands: Iterable[Command],
        experiments: Iterable[Experiment],
        tables: Iterable[PaperTable] | None = None,
        **more: Mapping,
    ) -> 'Recipe':
        """The recipe of a paper's tables, by default those of a benchmark.

        A table shows the experiments whose keys agree with that of a cell: they share entries, and
        have equal values there.
        """
        named = {one.name: one for one in experiments}

        def shown(table: PaperTable) -> tuple[str, ...]:
            # No experiment is of a single score.
            cells = {frozenset(key.items() - {('score', key.get('score'))}) for key in table.keys}
            keys = [dict(cell) for cell in cells]
            return tuple(n for n, one in named.items() if any(_agree(one.key, k) for k in keys))

        whole = tuple(
            dataclasses.replace(table, experiments=table.experiments or shown(table))
            for table in (benchmark.paper_tables if tables is None else tables)
        )
        return cls(benchmark.name, {c.name: c for c in commands}, named, whole, **more)


def _agree(first: Key, second: Key) -> bool:
    shared = first.keys() & second.keys()
    return bool(shared) and all(first[name] == second[name] for name in shared)


def slug(name: str) -> str:
    """A name as a part of a folder's name. Example: Google Trans. -> google_trans"""
    return re.sub('[^a-z0-9]+', '_', name.lower()).strip('_')


# ------------------------------------------------------------------------------------- the files

_BY_SIZE = re.compile(r'\[([^][|]*)\|([^][|]*)\]')
_SHOWN = {'model': '', 'key': {}, 'mixture': ''}  # Of an experiment, if not given.


def read(benchmark: Benchmark, replaced: Sequence[str] = (), stand_in: str = '') -> Recipe:
    """The recipe of a benchmark, from the file of its paper.

    One translator may stand in for others, whose names are `replaced`; rows and commands that
    differ in these alone become one.
    """
    given, tables = paper.declared(benchmark.name), benchmark.paper_tables
    stand_ins = given.get('stand_ins', {})
    if replaced:
        names = [(form(one), form(stand_in)) for one in replaced for form in (str, slug)]

        def renamed(text: str) -> str:
            return functools.reduce(lambda text, pair: text.replace(*pair), names, text)

        whom = ', '.join(stand_ins.get(one, one) for one in replaced)
        given, stand_ins = paper.mapped(given, renamed), {**stand_ins, stand_in: whom}
        tables = tuple(table.renamed(renamed) for table in tables)
    axes, shown, commands = given['axes'], list[Experiment](), list[Command]()
    for entry in given['commands']:
        for one, words in paper.copies(_SHOWN | entry, axes):
            about = {name: one.pop(name) for name in _SHOWN}
            commands.append(_command(**one))
            if about['key']:
                name = one['name']
                shown.append(_experiment(words, name=name, commands=(name,), **about))
    for entry in given.get('experiments', ()):
        shown += [_experiment(words, **one) for one, words in paper.copies(_SHOWN | entry, axes)]
    models = list(dict.fromkeys(one.model for one in shown))
    shown.sort(key=lambda one: models.index(one.model))
    more = {name: given.get(name, {}) for name in ('engines', 'notes')}
    return Recipe.of(benchmark, commands, shown, tables, stand_ins=stand_ins, **more)


def _experiment(words: Key, *, name: str, model: str, key: Key, **more: Any) -> Experiment:
    """An experiment of a file: its model is by default the word of that name, or itself."""
    model = model or words.get('model', name)
    return Experiment(name, model, key={'model': model, **key}, **more)


def _command(*, config: str = '', flags: tuple[str, ...] = (), **more: Any) -> Command:
    """A command of a file, each size with what is its own."""
    by_size = [flag for flag in flags if _BY_SIZE.search(flag)]

    def of(number: int, texts: Iterable[str]) -> tuple[str, ...]:
        return tuple(filter(None, (_BY_SIZE.sub(rf'\{number}', text) for text in texts)))

    numbers = {size: number for number, size in enumerate(SIZES, 1)}
    return Command(
        configs={size: of(n, [config])[0] for size, n in numbers.items()} if config else {},
        flags=tuple(flag for flag in flags if flag and flag not in by_size),
        sized={size: of(n, by_size) for size, n in numbers.items()},
        **more,
    )
