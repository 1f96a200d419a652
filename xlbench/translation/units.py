"""The units of translation: a whole text, or each turn of a dialogue.

  'Anna: Hi!\\nBen: Bye.'  ->  'Hi!', 'Bye.'  ->  'Anna: Hallo!\\nBen: Tschüss.'
"""

import re
from collections.abc import Iterator, Sequence

from xlbench.translation.engines import Failure
from xlbench.translation.jobs import Job

UNITS = ('text', 'turn')
# What would end a line or a column.
BREAKS = re.compile('[\t\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]+')
_LINE_END = re.compile('(\r?\n)')
# A speaker's name, its longest length in characters, a colon and the utterance.
_TURN = re.compile(r'([^:：]{1,80}(?::[ \xa0]+|：))?(.*)', re.DOTALL)


def translated(job: Job, texts: Sequence[str], unit: str = 'text') -> Iterator[str | Failure]:
    """The translation of each text, in order.

    Args:
      job: what translates.
      texts: in the job's source language.
      unit: 'text' translates a text as a whole. 'turn' takes a text of several lines for a
        dialogue: each line is translated by itself, and stays a line, and the name at its beginning
        stays as it is. A text of one line has no turns.

    A text of which a turn was not translated is a Failure.
    """
    if unit == 'text':
        yield from job.run(texts)
        return
    divided = [_pieces(text) for text in texts]
    answers = job.run(piece for pieces in divided for piece in pieces[1::2])
    for pieces in divided:
        parts = [next(answers) if i % 2 else piece for i, piece in enumerate(pieces)]
        failures = [part for part in parts if isinstance(part, Failure)]
        if failures:
            yield failures[0]
        elif parts[::2] == ['', '']:  # One line, whose translation stays as the engine wrote it.
            yield parts[1]
        else:
            yield ''.join(BREAKS.sub(' ', x) if i % 2 else x for i, x in enumerate(parts))


def _pieces(text: str) -> list[str]:
    """Returns what stays and what is translated, in turns, and first and last what stays.

    Example: 'Anna: Hi!\\nBen: Bye!' -> ['Anna: ', 'Hi!', '\\nBen: ', 'Bye!', '']
    """
    lines = _LINE_END.split(text)
    if len(lines) == 1:
        return ['', text, '']
    pieces = ['']
    for line in lines:
        if _LINE_END.fullmatch(line):
            pieces[-1] += line
            continue
        name, words = _TURN.fullmatch(line).groups(default='')
        pieces[-1] += name
        if words.strip():
            pieces += [words, '']
        else:
            pieces[-1] += words
    return pieces
