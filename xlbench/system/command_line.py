"""Command lines as data: a program declares its flags, and --help and the docs read them.

A flag is a row, such as `flag('--seed', 'seed of the draws', 0)`; groups of them are tuples, and
those that several programs share stand here, with types of values: a text -> a value, or an error
on the text. What was a program once, and is a command of another now, is in FORMER.
"""

import argparse
import ast
import contextlib
import dataclasses
import difflib
import importlib
import math
import os
import pathlib
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NoReturn, cast

import xlbench
from xlbench.system import errors

# Programs of version 0.1, which still start, and the commands that do their work.
FORMER = {
    'buckets': 'data buckets', 'chain': 'translate chain', 'fewshot.attention': 'fewshot attention',
    'fewshot.report': 'fewshot report', 'mark_dialogues': 'data mark', 'segment': 'data segment',
    'tasks.dev_split': 'data dev_split', 'tasks.mrs_build': 'data mrs_build',
    'tasks.mtg_build': 'data mtg_build', 'tasks.xtreme': 'data xtreme', 'triples': 'data triples',
}  # fmt: skip


Flag = tuple[str, dict[str, Any]]
Flags = Sequence['Flag | Flags']


def flag(name: str, help: str, default: object = None, **settings: object) -> Flag:
    """Declares a flag '--seed', or a word by its place, 'workdir'.

    Its type is that of its default, and False makes it a switch. `settings` are what argparse's
    add_argument takes besides; `group` is a heading of --help.
    """
    if default is False:
        return name, {'help': help, 'action': 'store_true', **settings}
    kind = {'type': type(default)} if type(default) in (int, float) else {}
    return name, {'help': help, 'default': default, **kind, **settings}


@dataclasses.dataclass(frozen=True)
class CommandLine:
    """The command line of a program, or of one of its commands.

    Attributes:
      name: what is typed behind `xlbench`: 'data segment'.
      doc: for --help: a line, an empty one, and more; None is that of the module of this name.
      flags: in the order of --help; one tuple may hold others.
      commands: by the words that select them. One is its description, its flags, and what does its
        work, given them, and returns an exit code; or it is a module, whose `main` takes a command
        line, the word first. Where there are flags besides, no word is needed.
    """

    name: str
    doc: str | None = None
    flags: Flags = ()
    commands: Mapping[str, tuple[str, Flags, Callable] | str] = dataclasses.field(
        default_factory=dict
    )

    def main(self, argv: Sequence[str]) -> int:
        """Runs the command that a command line selects, the program's name first."""
        chosen = self.commands.get(argv[1]) if argv[1:] else None
        if isinstance(chosen, str):
            return importlib.import_module(chosen).main(argv[1:]) or 0
        args = self.parse(argv[1:])
        return args.run(args) or 0

    def parse(self, argv: Sequence[str]) -> argparse.Namespace:
        """Reads a command line, without the program's name."""
        return self.parser().parse_args(argv)

    def parser(self) -> 'ArgumentParser':
        """Makes what reads it."""
        doc = about(f'xlbench.{self.name.replace(" ", ".")}') if self.doc is None else self.doc
        parser = _filled(ArgumentParser(f'xlbench {self.name}', doc), self.flags)
        if not self.commands:
            return parser
        commands = parser.add_subparsers(
            title='commands', metavar='COMMAND', required=not self.flags
        )
        for word, command in self.commands.items():
            doc, flags, run = (about(command), (), None) if isinstance(command, str) else command
            first = doc.partition('\n')[0].rstrip('.')
            inner = commands.add_parser(
                word,
                help=(first[0].lower() + first[1:]).replace('%', '%%'),
                prog=f'{parser.prog} {word}',
                description=doc,
            )
            _filled(inner, flags).set_defaults(run=run)
            inner.is_elsewhere = isinstance(command, str)
        return parser


def _filled(parser: 'ArgumentParser', flags: Flags) -> 'ArgumentParser':
    groups: dict[str, argparse._ActionsContainer] = {'': parser}
    for name, settings in _flat(flags):
        group = settings.get('group', '')
        if group not in groups:
            groups[group] = parser.add_argument_group(group)
        known = {key: value for key, value in settings.items() if key != 'group'}
        groups[group].add_argument(name, **known)
    return parser


def _flat(flags: Flags) -> Iterator[Flag]:
    for one in flags:
        yield from (cast(Flag, one),) if isinstance(one[0], str) else _flat(cast(Flags, one))


class _Help(argparse.RawDescriptionHelpFormatter):
    """Adds the default to the help of an option that has one, unless its text names it."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        value = action.default
        shown = isinstance(value, str | int | float) and value not in ('', False, argparse.SUPPRESS)
        if action.help and shown and 'default' not in action.help:
            return f'{action.help} (default: %(default)s)'
        return action.help


class ArgumentParser(argparse.ArgumentParser):
    """A command line whose mistakes are UserErrors: one line, without the whole usage."""

    is_elsewhere = False  # Whether it only lists a command, whose flags its own module has.
    _typed: Sequence[str] = ()  # What `error` looks for an unknown flag in.

    def __init__(self, prog: str, description: str):
        first, _, rest = description.strip().partition('\n\n')
        super().__init__(
            prog, description=first, epilog=rest, formatter_class=_Help, allow_abbrev=False
        )

    def format_help(self) -> str:
        """Gives usage, one sentence, the options, and then the rest of the description.

        The usage names what a command must have, and none of the other options.
        """
        needed = [
            f'{action.option_strings[-1]} {action.metavar or action.dest.upper()}'
            for action in self._actions
            if action.required and action.option_strings
        ]
        formatter = self._get_formatter()
        actions = [a for a in self._get_positional_actions() if a.required or a.nargs != 'A...']
        places = [f'{formatter._format_args(a, a.dest)}' for a in actions]
        self.usage = ' '.join(['%(prog)s', *places, *needed, '[options]'])
        return super().format_help()

    def error(self, message: str) -> NoReturn:
        """Raises it; of an unknown flag it names the nearest. argparse would print and exit."""
        typed = (text for text in self._typed if re.match(r'--(?!(no)?config\.)', text))
        flags = (text.partition('=')[0] for text in typed)
        if unknown := [name for name in flags if name not in ('--', *self._option_string_actions)]:
            near = difflib.get_close_matches(unknown[0], self._option_string_actions, 1)
            if 'required' in message:  # It may be the one that seems to be missing.
                message = f'unrecognized arguments: {unknown[0]}'
            message += f'; nearest: {near[0]}' if near else ''
        raise errors.UserError(f'{message}; see {self.prog} --help')

    def _check_value(self, action: argparse.Action, value: str) -> None:
        """Names the commands that are nearest to an unknown one."""
        if isinstance(action, argparse._SubParsersAction) and value not in action.choices:
            self.error(f'{errors.unknown("command", value, action.choices)}')
        super()._check_value(action, value)

    def parse_known_args(self, args=None, namespace=None):
        """Parses like argparse; refuses addresses (gs://bucket/run) as paths on this machine.

        An option whose name ends with `url` takes an address.
        """
        self._typed = args or ()
        parsed, rest = super().parse_known_args(args, namespace)
        for action in self._actions:
            value = getattr(parsed, action.dest, None)
            if action.type in (None, str, words) and not action.dest.endswith('url'):
                name = (action.option_strings or [str(action.metavar or action.dest)])[-1]
                values = value if isinstance(value, list | tuple) else [value]
                for text in values:
                    errors.check_path(name, text)
        return parsed, rest


def whole(least: int) -> Callable[[str], int]:
    """The type of a whole number that is not below `least`."""

    def parse(text: str) -> int:
        if not text.isascii() or not text.isdigit() or int(text) < least:
            raise argparse.ArgumentTypeError(f'{text!r} is not a whole number of {least} or more')
        return int(text)

    return parse


def words(text: str) -> tuple[str, ...]:
    """The words of a text with commas between them."""
    return tuple(word for part in text.split(',') if (word := part.strip()))


def share(text: str) -> float:
    """A number from 0 to 1."""
    return _number(text, 'from 0 to 1', lambda value: 0 <= value <= 1)


def positive(text: str) -> float:
    """A number above 0."""
    return _number(text, 'above 0', lambda value: 0 < value < math.inf)


def _number(text: str, wanted: str, fits: Callable[[float], bool]) -> float:
    with contextlib.suppress(ValueError):
        if fits(value := float(text)):
            return value
    raise argparse.ArgumentTypeError(f'{text!r} is not a number {wanted}')


def engine_name(text: str) -> str:
    """The name of an engine of translation or of prompts, which may be the address of a server."""
    if not text.removeprefix('chat+').startswith(('http://', 'https://')):
        errors.check_path('--engine', text)
    return text


ROOT = flag('--root', 'data root (default: XLBENCH_DATA, else data)', '')
# Where a task's data is; see `config.open_task`.
TASK_DATA = (
    flag('--like', 'workdir of a run; take its data', ''),
    ROOT,
    flag('--vocabulary', 'vocabulary to prepare a task with', ''),
)
CACHE = flag('--cache', 'cache of translations (default: DATA/translations)', '')
# What ranks the texts of a generator anew.
RERANKING = (
    flag('--mmi_model', 'reverse model that reranks the beams (arXiv:1510.03055)'),
    flag('--mmi_weight', 'its weight', 0.5),
    flag('--mmi_length_weight', 'bonus per token', 0.0),
    flag('--rerank', 'retriever that reranks the beams or samples'),
    flag('--rerank_weight', 'its weight', 1.0),
)
ENGINE_SETTINGS = (
    flag('--engine_version', 'version of your own program or server', ''),
    flag('--timeout', 'seconds for a batch', 600.0),
    flag('--prefix', 'text before each input, for a model that needs it', ''),
    flag('--batch_size', 'batch size of a model', 0, type=whole(0)),
)


def chosen_root(given: str | None) -> str:
    """The data root that a command line means: --root, else XLBENCH_DATA, else data."""
    return given or os.environ.get('XLBENCH_DATA') or 'data'


def engine_flags(*, required: bool) -> Flags:
    """--engine, and the flags of its settings but for decoding."""
    named = flag('--engine', 'see below', '', type=engine_name, required=required)
    return (named, ENGINE_SETTINGS)


def say(line: str) -> None:
    """Prints a line on standard error, apart from results."""
    print(line, file=sys.stderr, flush=True)


def former(name: str, arguments: Sequence[str]) -> NoReturn:
    """Becomes the command that does the work of a former program, one of FORMER, and names it."""
    program, *words = FORMER[name].split()
    say(f'xlbench {name} is now `xlbench {FORMER[name]}`')
    become(program, [*words, *arguments])


def renewed(command: Sequence[str]) -> list[str]:
    """A recorded command with the names of today.

    Example: ['xlbench.chain', 'RUNS/a'] -> ['xlbench.translate', 'chain', 'RUNS/a']
    """
    name = command[0].removeprefix('xlbench.') if command else ''
    if name not in FORMER:
        return [*command]
    return [*f'xlbench.{FORMER[name]}'.split(), *command[1:]]


def become(program: str, arguments: Sequence[str]) -> NoReturn:
    """Runs a program in place of this one: it starts as `python -m` starts it."""
    os.execv(sys.executable, [sys.executable, '-m', f'xlbench.{program}', *arguments])


def about(module: str) -> str:
    """The docstring of a program's module, without importing it."""
    parts = module.split('.')[1:]
    for folder in xlbench.__path__:  # Task files are beside the package in a checkout.
        path = pathlib.Path(folder, *parts)
        for file in (path / '__main__.py', path.with_suffix('.py')):
            if file.is_file():
                return ast.get_docstring(ast.parse(file.read_text('utf-8'))) or ''
    raise LookupError(f'{module} has no file')


if __name__ == '__main__':  # See `FormerPrograms` in xlbench/__init__.py.
    former(__spec__.name.removeprefix('xlbench.').removesuffix('.__main__'), sys.argv[1:])
