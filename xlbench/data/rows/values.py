"""Values of a row, checked."""

import json

from xlbench.data import readers
from xlbench.data.readers import Json


def text(value: Json, key: str) -> str:
    """A value that must be a text with something in it; ValueError says what it is."""
    return readers.text_field(value, key)


def label(value: Json, key: str) -> str:
    """A value that must be the name of a label: a text, a whole number, true or false."""
    if isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, float):
        raise ValueError(f'{key} is {value}; a label is a text or a whole number')
    return str(value) if isinstance(value, int) else text(value, key).strip()


def texts(value: Json, key: str) -> list[Json]:
    """A value that must be a list with something in it; of csv and tsv, words between spaces."""
    if isinstance(value, str):
        value = value.split()
    if not isinstance(value, list) or not value:
        raise ValueError(f'{key} is not a list with something in it')
    return value
