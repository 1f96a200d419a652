"""Tests of the readers of large JSON arrays and of MediaSum's interviews."""

import json
import random
import tracemalloc

import pytest
from put_files import broken, put

from xlbench.data import readers
from xlbench.data.readers import BadRecord, LeftOut, json_files
from xlbench.system import errors

TALK = {
    'id': 'a',
    'utt': ['Hello.', ' ', 'Hi\nyou.'],
    'speaker': ['ANN', '', 'BEN'],
    'summary': 'S',
}


def test_items_of_arrays_are_what_json_says(tmp_path, monkeypatch):
    """Whatever the blocks are, and wherever spaces, escapes and long characters fall in them."""
    rng = random.Random(0)
    texts = [''.join(rng.choices('ab"\\\n 橋\U0001f600é', k=rng.randrange(40))) for _ in range(60)]
    values = [
        *({'text': text, 'n': [i, -1.5e3]} for i, text in enumerate(texts)),
        12, -3.25, 1e-9, 1234567890123456789012, True, None, [], {}, '', 'x',
    ]  # fmt: skip
    for block in (16, 17, 64, 1 << 20):
        monkeypatch.setattr(json_files, '_BLOCK', block)
        for indent, ascii_only in ((None, True), (2, False)):
            text = json.dumps(values, indent=indent, ensure_ascii=ascii_only)
            for data in (text.encode(), b'\xef\xbb\xbf\n ' + text.encode() + b'\n\n'):
                found = readers.json_items(put(tmp_path, 'a.json', data))
                assert list(found) == list(enumerate(values, 1))
    assert list(readers.json_items(put(tmp_path, 'a.json', '[ ]'))) == []
    assert len(list(readers.json_items(put(tmp_path, 'a.json.gz', values)))) == len(values)


def test_large_arrays_are_read_in_little_memory(tmp_path, monkeypatch):
    """40 MB in objects of 4 kB; what is wrong is found where it is, not at the end of a limit."""
    lines = ',\n'.join([json.dumps({'a': 'x' * 4000})] * 10_000)
    path = put(tmp_path, 'a.json', f'[{lines}]')
    tracemalloc.start()
    assert sum(1 for _ in readers.json_items(path)) == 10_000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 12e6
    path = put(tmp_path, 'b.json', f'[{{"a" 1}}, {lines}]')
    assert "Expecting ':' delimiter" in broken(readers.json_items(path))[1]
    monkeypatch.setenv('XLBENCH_MAX_LINE_BYTES', '2000000')
    path = put(tmp_path, 'c.json', json.dumps(['x' * 4_000_000]))
    _, said = broken(readers.json_items(path))
    assert 'an object is too long' in said and 'XLBENCH_MAX_LINE_BYTES' in said


def test_interviews(tmp_path):
    talks = [{**TALK, 'id': name, 'title': 3} for name in 'abc']
    path = put(tmp_path, 'a.json', talks)
    record = {'id': 'a', 'dialogue': 'ANN: Hello.\nBEN: Hi you.', 'summary': 'S'}
    others = [{**record, 'id': name} for name in 'bc']
    assert list(readers.read_interviews(path)) == [record, *others]
    left = LeftOut('that another corpus has')
    assert list(readers.read_interviews(path, {'b'})) == [record, left, others[1]]
    _, said = broken(readers.read_interviews(path, {'b', 'x', 'y'}))
    assert '2 interviews of the list of ids are not there, such as x' in said


@pytest.mark.parametrize(
    ('talk', 'reason'),
    [
        ({**TALK, 'speaker': ['ANN']}, '3 texts in utt and 1 in speaker'),
        ({**TALK, 'utt': ['Hello.', 'x', 'y']}, 'speaker 2 is empty'),
        ({**TALK, 'utt': ['Hello.', ' ', 7]}, 'text 3 of utt is a number, not a text'),
        ({**TALK, 'utt': [' ', '', ' ']}, 'nobody says anything'),
        ({**TALK, 'utt': 'Hello.'}, "'utt' of the object is a text, not a list"),
        ({**TALK, 'summary': ''}, 'summary is empty'),
        ({**TALK, 'id': 3}, 'id is a number, not a text'),
        ({'id': 'x'}, "no key 'utt'; it has 'id'"),
        ([], 'a list, not an object'),
    ],
)
def test_an_interview_that_is_wrong_is_named(tmp_path, talk, reason):
    path = put(tmp_path, 'a.json', [{**TALK, 'id': 'b'}, talk, {**TALK, 'id': 'b'}])
    good, bad, twice = readers.read_interviews(path)
    assert good['id'] == 'b' and bad == BadRecord(path, 0, f'object 2: {reason}')
    assert twice == BadRecord(path, 0, 'object 3: id b was there before')


def test_ids_of_splits(tmp_path):
    splits = put(tmp_path, 'ids.json', {'train': ['a', 'b'], 'val': []})
    assert readers.read_split_ids(splits) == {'a', 'b'}
    for content, reason in [
        (['a'], 'a list, not an object of lists of ids'),
        ({'train': 'a'}, "'train' of the file is a text, not a list"),
        ({'train': ['a', 3]}, 'id 2 of train is a number'),
        ('{', 'Expecting property name'),
    ]:
        with pytest.raises(errors.UserError, match=reason):
            readers.read_split_ids(put(tmp_path, 'ids.json', content))
    with pytest.raises(errors.UserError, match='there is no file'):
        readers.read_split_ids(str(tmp_path / 'none'))
