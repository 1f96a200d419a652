"""The fields of `Options` as flags of a command line, made from the fields themselves."""

import argparse
import dataclasses
import inspect
import re
from collections.abc import Callable, Mapping

from xlbench.settings import ranges
from xlbench.settings.decoding import FIELDS, Options
from xlbench.settings.ranges import check_keys
from xlbench.system.command_line import flag
from xlbench.system.files import Setting

# What every method reads.
_SHARED = (
    'max_length', 'min_length', 'no_repeat_ngram', 'repetition_penalty', 'banned', 'forced_last',
)  # fmt: skip


def given(args: argparse.Namespace) -> dict[str, Setting]:
    """The fields of `Options` that the command line names."""
    return {name: getattr(args, name) for name in FIELDS if name in args}


def changed(options: Options, changes: Mapping[str, Setting]) -> Options:
    """`options` with some fields changed; the method follows from them where it is not named.

    Example: Options(max_length=64), {'num_beams': 4} -> Options('beam', max_length=64, num_beams=4)

    Another method starts from the defaults, but keeps the lengths and rules that every method has.
    """
    check_keys(changes, (), 'decoding', FIELDS)
    changes = dict(changes)
    method = changes.setdefault('method', _method(options, changes))
    if method == options.method:
        return dataclasses.replace(options, **changes)
    return Options(**{name: getattr(options, name) for name in _SHARED} | changes)


def _method(options: Options, changes: Mapping[str, Setting]) -> str:
    """Returns the method that the changed fields are for."""
    if changes.get('num_groups', 1) > 1:
        return 'diverse_beam'
    if 'num_beams' in changes:
        if changes['num_beams'] == 1:
            return 'greedy'
        return options.method if options.method == 'diverse_beam' else 'beam'
    if options.method == 'greedy' and changes.keys() & {'temperature', 'top_k', 'top_p', 'seed'}:
        return 'sample'
    return options.method


def _descriptions() -> dict[str, str]:
    """{field: its lines in the docstring of `Options`}."""
    lines = re.split(r'\n  (?=\w+: )', (inspect.getdoc(Options) or '').partition('Attributes:')[2])
    pairs = (line.partition(': ') for line in lines[1:])
    return {name: ' '.join(text.split()) for name, _, text in pairs}


def _reader(name: str) -> Callable[[str], Setting]:
    """Text -> checked value of a field."""

    def read(text: str) -> Setting:
        kind = FIELDS[name].type
        value = ranges.read(text, ranges.alternatives(kind), f'--{name}')
        ranges.check(kind, value, f'--{name}')
        return value

    return _ids if name == 'banned' else read


def _ids(text: str) -> tuple[tuple[int, ...], ...]:
    """Token ids, with + between those of a sequence. Example: '7,8+9' -> ((7,), (8, 9))."""
    if not re.fullmatch(r'\d+([,+]\d+)*', text):
        raise argparse.ArgumentTypeError(f'{text!r} is not ids like 7,8+9')
    return tuple(tuple(int(i) for i in part.split('+')) for part in text.split(','))


# One for each field of `Options`, with the field's own description.
FLAGS = tuple(
    flag(
        f'--{field.name}', described.replace('%', '%%'), argparse.SUPPRESS,
        type=_reader(field.name), metavar=field.name.upper(), group='decoding',
    )
    for field, described in zip(dataclasses.fields(Options), _descriptions().values(), strict=True)
)  # fmt: skip
