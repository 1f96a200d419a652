"""Interviews of MediaSum (arXiv:2103.06410), and the lists of ids that divide them."""

from collections.abc import Collection, Iterator

from xlbench.data.readers.json_arrays import json_items
from xlbench.data.readers.json_records import (
    Json,
    check_keys,
    items,
    json_document,
    kind_of,
    read_jsonl,
    text_field,
)
from xlbench.data.readers.records import BadRecord, Item, LeftOut, Record


def read_interviews(path: str, others: Collection[str] = ()) -> Iterator[Item]:
    """A JSON array of interviews: who speaks, what is said, and a summary.

    Turns without words are left out. An id that occurs twice is a BadRecord.

    Args:
      path: news_dialogue.json, of any size.
      others: ids of interviews that are to be left out; each must be there.

    Example: [{"id": "NPR-1", "summary": "A plant.", "utt": ["Hello.", "Hi."],
      "speaker": ["ANN, host", "BEN"], ...}] ->
      {'id': 'NPR-1', 'dialogue': 'ANN, host: Hello.\\nBEN: Hi.', 'summary': 'A plant.'}
    """
    others, seen = frozenset(others), set()
    for item in json_items(path):
        if isinstance(item, BadRecord):
            yield item
            if item.fatal:
                return
            continue
        number, value = item
        try:
            if not isinstance(value, dict):
                raise ValueError(f'{kind_of(value)}, not an object')
            check_keys(value, ('id', 'utt', 'speaker', 'summary'))
            name = text_field(value['id'], 'id')
            if name in seen:
                raise ValueError(f'id {name} was there before')
            seen.add(name)
            if name in others:
                yield LeftOut('that another corpus has')
                continue
            summary = text_field(value['summary'], 'summary')
            yield {'id': name, 'dialogue': _dialogue(value), 'summary': summary}
        except ValueError as error:
            yield BadRecord(path, 0, f'object {number}: {error}')
    if missing := sorted(others - seen):
        reason = f'{len(missing)} interviews of the list of ids are not there, such as {missing[0]}'
        yield BadRecord(path, 0, reason, fatal=True)


def read_split_ids(path: str) -> frozenset[str]:
    """The ids in all splits of a JSON object of lists, {"train": ["NPR-1", ...], ...}.

    Raises:
      ValueError: the file is something else.
      UserError: there is no such file.
    """
    splits = json_document(path)
    if not isinstance(splits, dict):
        raise ValueError(f'the file is {kind_of(splits)}, not an object of lists of ids')
    return frozenset(
        text_field(value, f'id {number} of {split}')
        for split in splits
        for number, value in enumerate(items(splits, split, 'the file'), 1)
    )


def read_translations(path: str) -> Iterator[Record | BadRecord]:
    """A translated summary on each line, with the id of its interview, as JSON.

    An empty one, which xlbench.translate writes where a translation failed, is left out.

    Args:
      path: the file.

    Example: {"id": "NPR-1", "summary": "Eine Pflanze."} ->
      {'id': 'NPR-1', 'summary': 'Eine Pflanze.'}
    """
    fields = {'id': 'id', 'summary': 'summary'}
    for record in read_jsonl(path, fields, may_be_empty=['summary']):
        if isinstance(record, BadRecord) or record['summary']:
            yield record


def _dialogue(interview: dict[str, Json]) -> str:
    """The turns of an interview, a line each; ValueError says what is wrong with them."""
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
