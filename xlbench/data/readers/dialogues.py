"""Dialogues as pairs of a turn and the next one, or of an utterance and its translation."""

import itertools
from collections.abc import Iterator

from xlbench.data.readers.json_records import Json, items, json_document, kind_of, text_field
from xlbench.data.readers.parallel import unequal_lines
from xlbench.data.readers.records import BadRecord, Record, as_bad_record
from xlbench.data.readers.text_lines import lines


def read_dialogues(path: str, separator: str = '__eou__') -> Iterator[Record | BadRecord]:
    """A dialogue on each line.

    Spaces around an utterance are stripped and a separator behind the last one is accepted. What
    follows a TAB, such as topics and acts, is left out, unless the TAB is the separator. A dialogue
    that has an empty utterance, or a single one, is a BadRecord.

    Args:
      path: the file.
      separator: what stands between two utterances.

    Example: 'Hi . __eou__ Hello ! __eou__ Bye . __eou__\\t1\\t1 1 1' ->
      {'dialogue': '0', 'message': 'Hi .', 'reply': 'Hello !'},
      {'dialogue': '0', 'message': 'Hello !', 'reply': 'Bye .'}; dialogue counts from 0.
    """
    for number, line in enumerate(lines(path), 1):
        if isinstance(line, BadRecord):
            yield line
            continue
        utterances = _utterances(line, separator)
        if '' in utterances:
            yield BadRecord(path, number, f'utterance {utterances.index("") + 1} is empty')
        elif len(utterances) == 1:
            reason = f'has no {separator!r} with something on both sides: no reply'
            yield BadRecord(path, number, reason)
        else:
            for message, reply in itertools.pairwise(utterances):
                yield {'dialogue': str(number - 1), 'message': message, 'reply': reply}


def _utterances(line: str, separator: str) -> list[str]:
    """The utterances of a line without what follows a TAB; an empty one is ''."""
    text = line if '\t' in separator else line.partition('\t')[0]
    utterances = [utterance.strip() for utterance in text.split(separator)]
    if len(utterances) > 1 and not utterances[-1]:
        utterances.pop()
    return utterances


def read_parallel_dialogues(
    source_path: str, target_path: str, separator: str = '__eou__'
) -> Iterator[Record | BadRecord]:
    """The utterances of dialogues in two languages, of which line n is the same dialogue.

    A dialogue with an empty utterance, or with another number of them in the other language, is a
    BadRecord as a whole. Spaces and TABs are as for `read_dialogues`.

    Args:
      source_path, target_path: the files.
      separator: what stands between two utterances.

    Example: 'Hi . __eou__ Bye .' and 'Hallo. __eou__ Tschüss.' ->
      {'dialogue': '0', 'source': 'Hi .', 'target': 'Hallo.'},
      {'dialogue': '0', 'source': 'Bye .', 'target': 'Tschüss.'}; dialogue counts from 0.
    """
    if unequal := unequal_lines(source_path, target_path):
        yield unequal
        return
    # Not strict: a line that cannot be read ends its side early, after a fatal BadRecord.
    both = zip(lines(source_path), lines(target_path), strict=False)
    for number, (source, target) in enumerate(both, 1):
        if bad := next((side for side in (source, target) if isinstance(side, BadRecord)), None):
            yield bad
            continue
        sources, targets = (_utterances(side, separator) for side in (source, target))
        if len(sources) != len(targets):
            reason = f'{len(targets)} utterances, and {len(sources)} in {source_path}'
            yield BadRecord(target_path, number, reason)
            continue
        for path, texts in ((source_path, sources), (target_path, targets)):
            if '' in texts:
                yield BadRecord(path, number, f'utterance {texts.index("") + 1} is empty')
                break
        else:
            for pair in zip(sources, targets, strict=True):
                yield {'dialogue': str(number - 1), 'source': pair[0], 'target': pair[1]}


def read_dialogues_json(path: str) -> Iterator[Record | BadRecord]:
    """A JSON list of objects whose `dialogue` is a list of utterances, or of [message, reply].

    Other keys are left out. A dialogue with anything else in it is a BadRecord, as a whole; the
    reason names it and the turn, counted from 1.

    Example: [{"persona": ["I like tea ."], "dialogue": [["hello !", "hi , tea ?"]]}] ->
      {'dialogue': '0', 'message': 'hello !', 'reply': 'hi , tea ?'}; dialogue counts from 0.
    """
    try:
        dialogues = json_document(path)
        if not isinstance(dialogues, list):
            raise ValueError(f'the file is {kind_of(dialogues)}, not a list of dialogues')
    except ValueError as error:
        yield as_bad_record(path, error)
        return
    for number, dialogue in enumerate(dialogues):
        place = f'dialogue {number + 1}'
        try:
            turns = items(dialogue, 'dialogue', place)
            pairs = list(_turn_pairs(turns, place))
        except ValueError as error:
            yield BadRecord(path, 0, str(error))
            continue
        for message, reply in pairs:
            yield {'dialogue': str(number), 'message': message, 'reply': reply}


def _turn_pairs(turns: list[Json], place: str) -> Iterator[tuple[str, str]]:
    """Messages and replies of one dialogue; ValueError names the place."""
    paired = any(isinstance(turn, list) for turn in turns)
    if not paired and len(turns) < 2:
        raise ValueError(f'{place} has {len(turns)} utterances, no reply')
    texts = []
    for number, turn in enumerate(turns, 1):
        inner = f'turn {number} of {place}'
        if paired and not (isinstance(turn, list) and len(turn) == 2):
            raise ValueError(f'{inner} is not a list of message and reply')
        texts.append([text_field(t, inner).strip() for t in (turn if paired else [turn])])
    if paired:
        yield from map(tuple, texts)
    else:
        yield from itertools.pairwise(text for (text,) in texts)
