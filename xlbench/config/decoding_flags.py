"""The fields of `Options` as flags of a command line, made from the fields themselves."""

import argparse
import dataclasses
import inspect
import re
from collections.abc import Callable, Mapping

from xlbench.config.decoding import Options, check_value
from xlbench.system import errors
from xlbench.system.command_line import flag
from xlbench.system.files import Setting

# What every method reads.
_SHARED = (
    'max_length', 'min_length', 'no_repeat_ngram', 'repetition_penalty', 'banned', 'forced_last',
)  # fmt: skip


def given(args: argparse.Namespace) -> dict[str, Setting]:
    """The fields of `Options` that the command line names."""
    return {f.name: getattr(args, f.name) for f in dataclasses.fields(Options) if f.name in args}


def check(args: argparse.Namespace) -> None:
    """Raises UserError for a value that no method takes."""
    for name, value in given(args).items():
        check_value(name, value)


def changed(options: Options, changes: Mapping[str, Setting]) -> Options:
    """`options` with some fields changed; the method follows from them where it is not named.

    Example: Options(max_length=64), {'num_beams': 4} -> Options('beam', max_length=64, num_beams=4)

    Another method starts from the defaults, but keeps the lengths and rules that every method has.
    """
    known = [field.name for field in dataclasses.fields(Options)]
    for name in changes:
        if name not in known:
            raise errors.unknown('decoding option', name, known)
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
    lines = re.split(r'\n  (?=\w+: )', inspect.getdoc(Options).partition('Attributes:')[2])
    pairs = (line.partition(': ') for line in lines[1:])
    return {name: ' '.join(text.split()) for name, _, text in pairs}


def _parser_of(field: dataclasses.Field) -> Callable[[str], Setting]:
    """Text -> value of a field, of its default's type."""
    special = {'early_stopping': _early_stopping, 'banned': _ids}
    if field.name in special:
        return special[field.name]
    return _boolean if isinstance(field.default, bool) else type(field.default)


def _boolean(text: str) -> bool:
    if text not in ('True', 'False'):
        raise argparse.ArgumentTypeError(f'{text!r} is not True or False')
    return text == 'True'


def _early_stopping(text: str) -> bool | str:
    return text if text == 'never' else _boolean(text)


def _ids(text: str) -> tuple[tuple[int, ...], ...]:
    """Token ids, with + between those of a sequence. Example: '7,8+9' -> ((7,), (8, 9))."""
    if not re.fullmatch(r'\d+([,+]\d+)*', text):
        raise argparse.ArgumentTypeError(f'{text!r} is not ids like 7,8+9')
    return tuple(tuple(int(i) for i in part.split('+')) for part in text.split(','))


# One for each field of `Options`, with the field's own description.
FLAGS = tuple(
    flag(
        f'--{field.name}', described.replace('%', '%%'), argparse.SUPPRESS, type=_parser_of(field),
        metavar=field.name.upper(), group='decoding',
    )
    for field, described in zip(dataclasses.fields(Options), _descriptions().values(), strict=True)
)  # fmt: skip
