"""JSON lines and documents as records."""

import json
from collections.abc import Container, Iterable, Iterator, Mapping

from xlbench import errors, limits
from xlbench.data.readers.records import BadRecord, Record
from xlbench.data.readers.text_lines import BOM, BROKEN, UTF16, broken, lines, open_binary

# What is in a JSON file.
Json = None | bool | int | float | str | list['Json'] | dict[str, 'Json']


def text_field(value: Json, name: str, *, may_be_empty: bool = False) -> str:
    """A JSON value that must be a text with something in it; ValueError says what it is.

    Args:
      value: the JSON value.
      name: of the field, for messages.
      may_be_empty: whether '' is a text, too; one of spaces alone is none.
    """
    if not isinstance(value, str):
        raise ValueError(f'{name} is {kind_of(value)}, not a text')
    if may_be_empty and not value:
        return value
    if not value.strip():
        raise ValueError(f'{name} is empty')
    try:
        value.encode()
    except UnicodeEncodeError:
        # JSON can spell half of a surrogate pair, which no UTF-8 file can hold.
        raise ValueError(f'{name} has a lone surrogate (\\ud800 to \\udfff)') from None
    if '\0' in value:
        raise ValueError(f'{name} has a NUL (\\u0000)')
    return value


def kind_of(value: Json) -> str:
    """Names the type of a JSON value, for messages."""
    names = {dict: 'an object', list: 'a list', bool: 'a boolean', type(None): 'null'}
    return names.get(type(value), 'a number' if isinstance(value, int | float) else 'a text')


def parse_json(text: str) -> Json:
    """json.loads of which every failure is a ValueError, a limit on depth included."""
    try:
        try:
            value = json.loads(text)
        except RecursionError:
            raise limits.too_deep('the JSON') from None
        if text.count('[') + text.count('{') > limits.JSON_DEPTH.value:
            limits.check_depth(value, 'the JSON')
        return value
    except limits.Exceeded as error:
        raise ValueError(str(error)) from None


def json_lines(path: str) -> Iterator[tuple[int, dict[str, Json]] | BadRecord]:
    """The JSON object on each line, with the line's number; a BadRecord where there is none."""
    for number, line in enumerate(lines(path), 1):
        if isinstance(line, BadRecord):
            yield line
            continue
        try:
            if not line.strip():
                raise ValueError('the line is empty')
            value = parse_json(line)
            if not isinstance(value, dict):
                raise ValueError(f'{kind_of(value)}, not an object')
        except json.JSONDecodeError as error:
            is_array = number == 1 and line.lstrip().startswith('[')
            hint = '; a file that is one JSON array has to end in .json' if is_array else ''
            said = f'not JSON: {error.msg} at column {error.colno}{hint}'
            yield BadRecord(path, number, said, fatal=is_array)
        except ValueError as error:
            yield BadRecord(path, number, str(error))
        else:
            yield number, value


def check_keys(value: Mapping[str, Json], keys: Iterable[str]) -> None:
    """Raises ValueError for an object that lacks one of the keys."""
    missing = [key for key in keys if key not in value]
    if missing:
        there = ', '.join(errors.shortened(key) for key in list(value)[:20])
        raise ValueError(f'no key {missing[0]!r}; it has {there}')


def read_jsonl(
    path: str, fields: Mapping[str, str], may_be_empty: Container[str] = ()
) -> Iterator[Record | BadRecord]:
    """A JSON object on each line.

    Args:
      path: the file.
      fields: record field -> key of the object. Other keys are left out.
      may_be_empty: the record fields whose text may be ''; any other empty one is a BadRecord.

    Example: {"src": "Der Zug hielt.", "tgt": "Halt"}, fields {'inputs': 'src', 'targets': 'tgt'} ->
      {'inputs': 'Der Zug hielt.', 'targets': 'Halt'}
    """
    for line in json_lines(path):
        if isinstance(line, BadRecord):
            yield line
            continue
        number, value = line
        try:
            check_keys(value, fields.values())
            yield {
                name: text_field(value[key], key, may_be_empty=name in may_be_empty)
                for name, key in fields.items()
            }
        except ValueError as error:
            yield BadRecord(path, number, str(error))


def json_document(path: str) -> Json:
    """The content of a JSON file; `as_bad_record` makes what is wrong with it a BadRecord."""
    try:
        with open_binary(path) as file:
            data = limits.read_all(file, 'the file', limits.JSON_BYTES)
    except BROKEN as error:
        raise ValueError(broken(error)) from error
    if data.startswith(UTF16):
        raise ValueError('begins as UTF-16 does; save it as UTF-8')
    return parse_json(data.removeprefix(BOM).decode())


def items(value: Json, key: str, place: str) -> list[Json]:
    """`value[key]`, which must be a list; ValueError names the place."""
    if not isinstance(value, dict):
        raise ValueError(f'{place} is {kind_of(value)}, not an object')
    if key not in value:
        raise ValueError(f'{place} has no {key!r}')
    if not isinstance(value[key], list):
        raise ValueError(f'{key!r} of {place} is {kind_of(value[key])}, not a list')
    return value[key]
