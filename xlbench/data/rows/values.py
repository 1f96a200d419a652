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


def dialogue(value: Json, key: str, speaker: str = 'speaker', words: str = 'text') -> str:
    """A dialogue as one text, a line for each turn; ValueError says what is wrong with it.

    Args:
        value: A text, which stays as it is, or a list of turns. A turn is a text, such as
            'Anna: Hi!', or an object with who speaks and what is said. Line breaks inside a turn
            become spaces.
        key: The name of the value, for messages.
        speaker, words: The keys of a turn that is an object.

    Example: [{'speaker': 'Anna', 'text': 'Hi!'}, 'Ben: Hello.'] -> 'Anna: Hi!\nBen: Hello.'
    """
    if not isinstance(value, list):
        return text(value, key)
    if not value:
        raise ValueError(f'{key} has no turns')
    lines = []
    for number, turn in enumerate(value, 1):
        place = f'turn {number} of {key}'
        if isinstance(turn, dict):
            try:
                readers.check_keys(turn, (speaker, words))
            except ValueError as error:
                raise ValueError(f'{place}: {error}') from None
            parts = [text(turn[name], f'{name} of {place}') for name in (speaker, words)]
        else:
            parts = [text(turn, place)]
        lines.append(': '.join(' '.join(part.split()) for part in parts))
    return '\n'.join(lines)
