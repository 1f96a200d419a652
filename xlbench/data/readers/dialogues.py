"""Readers of dialogues, messages and replies, interviews with summaries, and OpenIE's triples."""

import itertools
import math
from collections.abc import Collection, Iterable, Iterator

from xlbench.data.readers import json_files, text_lines
from xlbench.data.readers.json_files import Json, check_keys, items, kind_of, text_field
from xlbench.data.readers.parallel import beside, check_aligned, fields, read_tsv
from xlbench.data.readers.text_lines import BadRecord, Item, Record, Records, convert, numbered
from xlbench.system.errors import shortened


def read_dialogues(path: str, separator: str = '__eou__') -> Records:
    """Reads a dialogue on each line, with `separator` between utterances.

    Utterances are stripped, and the last may have a separator, too. Text behind a TAB (topics and
    acts) is ignored, unless the TAB is the separator. A dialogue with an empty utterance, or with
    only one, is a BadRecord.

    Example: 'Hi . __eou__ Hello ! __eou__ Bye . __eou__\\t1\\t1 1 1' ->
      {'dialogue': '0', 'message': 'Hi .', 'reply': 'Hello !'},
      {'dialogue': '0', 'message': 'Hello !', 'reply': 'Bye .'}; dialogue counts from 0.
    """

    def pairs(number: int, line: str) -> Iterator[Record]:
        utterances = _utterances(line, separator)
        if len(utterances) == 1:
            raise ValueError(f'has no {separator!r} with something on both sides: no reply')
        for message, reply in itertools.pairwise(utterances):
            yield {'dialogue': str(number - 1), 'message': message, 'reply': reply}

    return convert(path, numbered(path), pairs)


def _utterances(line: str, separator: str) -> list[str]:
    """Splits a line into utterances; ValueError for an empty one."""
    text = line if '\t' in separator else line.partition('\t')[0]
    utterances = [utterance.strip() for utterance in text.split(separator)]
    if len(utterances) > 1 and not utterances[-1]:
        utterances.pop()
    if '' in utterances:
        raise ValueError(f'utterance {utterances.index("") + 1} is empty')
    return utterances


def read_parallel_dialogues(
    source_path: str, target_path: str, separator: str = '__eou__'
) -> Records:
    """Reads the utterances of dialogues in two languages from files that are aligned line by line.

    A dialogue with an empty utterance, or with unequal numbers of utterances, is a BadRecord as a
    whole. Lines are as for `read_dialogues`.

    Example: 'Hi . __eou__ Bye .' and 'Hallo. __eou__ Tschüss.' ->
      {'dialogue': '0', 'source': 'Hi .', 'target': 'Hallo.'},
      {'dialogue': '0', 'source': 'Bye .', 'target': 'Tschüss.'}; dialogue counts from 0.
    """
    check_aligned(source_path, target_path)

    def said(_: int, line: str) -> Iterator[list[str]]:
        yield _utterances(line, separator)

    sides = (convert(path, numbered(path), said) for path in (source_path, target_path))

    def pairs(number: int, both: tuple[list[str], list[str]]) -> Iterator[Record]:
        if len(both[0]) != len(both[1]):
            raise ValueError(f'{len(both[1])} utterances, and {len(both[0])} in {source_path}')
        for source, target in zip(*both, strict=True):
            yield {'dialogue': str(number - 1), 'source': source, 'target': target}

    yield from convert(target_path, beside(*sides), pairs)


def read_dialogues_json(
    path: str, key: str = 'dialogue', words: str = 'text', by_line: bool = False
) -> Records:
    """Reads a JSON list of objects, each with a dialogue: a list of turns, or of [message, reply].

    A dialogue with any fault is a BadRecord as a whole. `words` is the key of the utterance in a
    turn that is an object; other turns are texts. With `by_line` each line has an object (.jsonl).

    Example: [{"persona": ["I like tea ."], "dialogue": [["hello !", "hi , tea ?"]]}] ->
      {'dialogue': '0', 'message': 'hello !', 'reply': 'hi , tea ?'}; dialogue counts from 0.
    """

    def pairs(number: int, dialogue: Json) -> Iterator[Record]:
        place = f'dialogue {number}'
        for message, reply in _turn_pairs(items(dialogue, key, place), place, words):
            yield {'dialogue': str(number - 1), 'message': message, 'reply': reply}

    if by_line:
        return convert(path, json_files.json_lines(path), pairs)
    return convert(path, json_files.json_items(path), pairs, '')


def _turn_pairs(turns: list[Json], place: str, words: str) -> Iterator[tuple[str, str]]:
    """Yields the messages and replies of a dialogue; ValueError names the place."""
    paired = any(isinstance(turn, list) for turn in turns)
    if not paired and len(turns) < 2:
        raise ValueError(f'{place} has {len(turns)} utterances, no reply')
    texts = []
    for number, turn in enumerate(turns, 1):
        inner = f'turn {number} of {place}'
        if paired and not (isinstance(turn, list) and len(turn) == 2):
            raise ValueError(f'{inner} is not a list of message and reply')
        if isinstance(turn, dict):
            if words not in turn:
                there = ', '.join(map(shortened, list(turn)[:20]))
                raise ValueError(f'{inner} has no {words!r}; it has {there}')
            turn = turn[words]
        texts.append([text_field(t, inner).strip() for t in (turn if paired else [turn])])
    if paired:
        yield from map(tuple, texts)
    else:
        yield from itertools.pairwise(text for (text,) in texts)


def read_pairs(path: str) -> Records:
    """Reads MRS's pairs: TAB-separated message, reply and two unused columns.

    microsoft/MRS skips pairs with an empty text and lines with another number of columns; here they
    are BadRecords.

    Example: 'Hast du Zeit?\\tJa, um drei.\\t1\\t2' -> {'message': 'Hast du Zeit?', 'reply': 'Ja, um
      drei.'}
    """
    return read_tsv(path, ('message', 'reply'), unused=2, strip=True)


def read_responses(path: str, mapping: str | None = None) -> Records:
    """Reads MRS's response set: TAB-separated language-model score, text, cluster, maybe more.

    The texts of response_lm_cluster.txt must differ. Each line of response.mapping.txt, `mapping`,
    has the text of the same line, a TAB, and the text to display.

    Example: '-3.5\\tOkay!\\t17', mapping 'Okay!\\tOK' ->
      {'lm_score': '-3.5', 'reply': 'Okay!', 'cluster': '17', 'display': 'OK'}; without a mapping
      display is ''.
    """
    if mapping:
        check_aligned(path, mapping)
    first: dict[str, int] = {}
    responses: Records = convert(path, numbered(path), _response)
    shown: Iterable[Record | BadRecord] = itertools.repeat({'display': ''})
    if mapping:
        shown = read_tsv(mapping, ('response', 'display'), strip=True)

    def response(number: int, both: tuple[Record, Record]) -> Iterator[Record]:
        (record, other), text = both, both[0]['reply']
        if mapping and other['response'] != text:
            reason = f'maps {other["response"]!r}, but this line of the response set has {text!r}'
            raise text_lines.broken_file(mapping, number, reason)
        if (line := first.setdefault(text, number)) != number:
            raise ValueError(f'{text!r} is on line {line} already; responses must differ')
        yield record | {'display': other['display']}

    yield from convert(path, beside(responses, shown), response)


def _response(_: int, line: str) -> Iterator[Record]:
    columns = ('lm_score', 'reply', 'cluster')
    unused = max(line.count('\t') + 1 - len(columns), 0)
    record = fields(line, columns, unused=unused, strip=True)
    try:
        finite = math.isfinite(float(record['lm_score']))
    except ValueError:
        finite = False
    if not finite:
        raise ValueError(f'lm_score is {shortened(record["lm_score"])}, not a number')
    yield record


def read_interviews(path: str, others: Collection[str] = ()) -> Iterator[Item]:
    """Reads MediaSum's JSON array of interviews, which may have any size.

    Turns without words are dropped, and repeated ids are BadRecords. Interviews with ids of
    `others` are LeftOut; each of them must be there.

    Example: [{"id": "NPR-1", "summary": "A plant.", "utt": ["Hello.", "Hi."],
      "speaker": ["ANN, host", "BEN"], ...}] ->
      {'id': 'NPR-1', 'dialogue': 'ANN, host: Hello.\\nBEN: Hi.', 'summary': 'A plant.'}
    """
    others, seen = frozenset(others), set()

    def interview(_: int, value: Json) -> Iterator[Record | text_lines.LeftOut]:
        check_keys(value, ('id', 'utt', 'speaker', 'summary'))
        name = text_field(value['id'], 'id')
        if name in seen:
            raise ValueError(f'id {name} was there before')
        seen.add(name)
        if name in others:
            yield text_lines.LeftOut('that another corpus has')
            return
        summary = text_field(value['summary'], 'summary')
        yield {'id': name, 'dialogue': _dialogue(value), 'summary': summary}

    yield from convert(path, json_files.json_items(path), interview, 'object')
    if missing := sorted(others - seen):
        reason = f'{len(missing)} interviews of the list of ids are not there, such as {missing[0]}'
        raise text_lines.broken_file(path, 0, reason)


def read_split_ids(path: str) -> frozenset[str]:
    """Reads the ids in a JSON object of lists, {"train": ["NPR-1", ...], ...}."""
    splits = json_files.json_document(path)
    try:
        if not isinstance(splits, dict):
            raise ValueError(f'the file is {kind_of(splits)}, not an object of lists of ids')
        return frozenset(
            text_field(value, f'id {number} of {split}')
            for split in splits
            for number, value in enumerate(items(splits, split, 'the file'), 1)
        )
    except ValueError as error:
        raise text_lines.broken_file(path, 0, str(error)) from None


def read_translations(path: str) -> Records:
    """Reads a translated summary, with the id of its interview, as JSON on each line.

    Empty summaries, which xlbench.translate writes if a translation failed, are skipped.

    Example: {"id": "NPR-1", "summary": "Eine Pflanze."} ->
      {'id': 'NPR-1', 'summary': 'Eine Pflanze.'}
    """
    fields = {'id': 'id', 'summary': 'summary'}
    for record in json_files.read_jsonl(path, fields, may_be_empty=['summary']):
        if isinstance(record, BadRecord) or record['summary']:
            yield record


def _dialogue(interview: dict[str, Json]) -> str:
    """Returns the turns of an interview, one on each line; ValueError if they are not right."""
    words, speakers = (items(interview, key, 'the object') for key in ('utt', 'speaker'))
    if len(words) != len(speakers):
        raise ValueError(f'{len(words)} texts in utt and {len(speakers)} in speaker')
    lines = []
    for number, (said, speaker) in enumerate(zip(words, speakers, strict=True), 1):
        if isinstance(said, str) and not said.strip():
            continue
        parts = text_field(speaker, f'speaker {number}'), text_field(said, f'text {number} of utt')
        lines.append(': '.join(' '.join(part.split()) for part in parts))
    if not lines:
        raise ValueError('nobody says anything')
    return '\n'.join(lines)


# Numbers of columns of `-format reverb`, from 0.
_COLUMNS = {'subject': 2, 'relation': 3, 'object': 4, 'sentence': 12}
_NUM_COLUMNS = 17
_NUMBERS = (1, *range(5, 11))  # The sentence's number; begin and end of the three phrases.


def read_triples(path: str) -> Records:
    """Reads a triple and its sentence on each line.

    `java edu.stanford.nlp.naturalli.OpenIE -format reverb FILE` prints them
    (stanfordnlp.github.io/CoreNLP/openie.html): document, sentence number, subject, relation,
    object, begin and end of each of the three, confidence, the sentence's tokens and tags, and the
    lemmas of the three.

    Example, first columns, | for TAB: f|0|I|send|it|2|3|4|5|5|6|1.0|Sure , I will send it ->
      {'subject': 'I', 'relation': 'send', 'object': 'it', 'sentence': 'Sure , I will send it'}
    """

    def of_line(_: int, line: str) -> Iterator[Record]:
        parts = line.split('\t')
        if len(parts) != _NUM_COLUMNS:
            raise ValueError(
                f'{len(parts)} TAB-separated columns instead of {_NUM_COLUMNS}; OpenIE prints them '
                'with -format reverb'
            )
        for place in _NUMBERS:
            if not parts[place].removeprefix('-').isdecimal():
                raise ValueError(f'column {place + 1} is {parts[place]!r}, not a whole number')
        if not parts[_COLUMNS['sentence']].strip():
            raise ValueError('the sentence (column 13) is empty')
        yield {name: parts[place] for name, place in _COLUMNS.items()}

    return convert(path, numbered(path), of_line)
