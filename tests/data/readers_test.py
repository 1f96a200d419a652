"""Tests of xlbench/data/readers."""

import errno
import functools
import gzip
import json
import os
import pathlib
import random
import re
import time
import tracemalloc

import pytest
from put_files import broken, put

from xlbench.data import readers
from xlbench.data.readers import BadRecord, LeftOut, json_files
from xlbench.system import errors


def parallel(tmp_path, source, target, **kwargs):
    paths = put(tmp_path, 's', source), put(tmp_path, 't', target)
    return list(readers.read_parallel(*paths, **kwargs))


def test_parallel_lines_keep_their_text(tmp_path):
    # Other line separators and a TAB in a single column are text; \r\n is a line end.
    found = parallel(tmp_path, 'a\u2028b\x0cc \r\n\td\te', 'x\r\ny\n')
    first = {'source': 'a\u2028b\x0cc ', 'target': 'x'}
    assert found == [first, {'source': '\td\te', 'target': 'y'}]


def test_parallel_columns(tmp_path):
    lines = 'Rome is old.\tRome\nno answer\n\tRome\na\tb\tc\n'
    found = parallel(tmp_path, lines, 'What?\n' * 4, source_columns=('passage', 'answer'))
    path = str(tmp_path / 's')
    assert found == [
        {'passage': 'Rome is old.', 'answer': 'Rome', 'target': 'What?'},
        BadRecord(path, 2, '1 TAB-separated columns instead of 2 (passage, answer)'),
        BadRecord(path, 3, 'passage is empty'),
        BadRecord(path, 4, '3 TAB-separated columns instead of 2 (passage, answer)'),
    ]


def test_parallel_bad_bytes_and_empty_lines(tmp_path):
    found = parallel(tmp_path, b'ok\ngr\xfc\xdf\nok\nok\n', b'ok\nok\n\xff\n  \n')
    assert found == [
        {'source': 'ok', 'target': 'ok'},
        BadRecord(str(tmp_path / 's'), 2, 'not UTF-8: byte 0xfc at byte 2'),
        BadRecord(str(tmp_path / 't'), 3, 'not UTF-8: byte 0xff at byte 0'),
        BadRecord(str(tmp_path / 't'), 4, 'target is empty'),
    ]


@pytest.mark.parametrize(
    ('source', 'target', 'name', 'line', 'counts'),
    [('a\nb\nc\n', 'a\nb\n', 't', 3, ('2', '3')), ('', 'a', 's', 1, ('0', '1'))],
)
def test_unequal_counts_are_found_before_any_pair(tmp_path, source, target, name, line, counts):
    paths = put(tmp_path, 's', source), put(tmp_path, 't', target)
    found, said = broken(readers.read_parallel(*paths))
    assert not found and said.startswith(f'{tmp_path / name}:{line}: ')
    assert all(f'has {count}' in said for count in counts)


def test_a_last_line_without_an_end_counts(tmp_path):
    for text, count in (('', 0), ('a', 1), ('a\n', 1), ('a\n\n', 2), ('a\nb', 2)):
        assert readers.count_lines(put(tmp_path, 'x', text)) == count


def test_a_field_may_be_empty_where_that_is_asked_for(tmp_path):
    lines = [{'a': '', 'b': 'c'}, {'a': ' ', 'b': 'c'}, {'a': 'd', 'b': ''}]
    path = put(tmp_path, 'x', ''.join(json.dumps(line) + '\n' for line in lines))
    found = list(readers.read_jsonl(path, {'inputs': 'a', 'targets': 'b'}, ['inputs']))
    assert found[0] == {'inputs': '', 'targets': 'c'}
    assert [(bad.line, bad.reason) for bad in found[1:]] == [(2, 'a is empty'), (3, 'b is empty')]


def test_byte_order_mark_and_gzip(tmp_path):
    path = put(tmp_path, 'x.jsonl.gz', b'\xef\xbb\xbf{"a": "b"}\n')
    assert list(readers.read_jsonl(path, {'inputs': 'a'})) == [{'inputs': 'b'}]
    cut = gzip.compress(b'{"a": "b"}\n' * 5000)[:-20]
    pathlib.Path(path).write_bytes(cut)
    assert 'cannot be read' in broken(readers.read_jsonl(path, {'inputs': 'a'}))[1]


CR = 'has a \\r (carriage return) inside; lines end with \\n or \\r\\n, and not with \\r alone'


@pytest.mark.parametrize(
    ('data', 'reason', 'whole'),
    [
        (b'a\rb\rc\r', CR, True),  # Three records became one.
        (b'ok\nb\rc\n', CR, False),
        ('ü\n'.encode('utf-16'), 'no text: it begins as UTF-16 does; if it is UTF-16, save', True),
        ('ok\n'.encode('utf-16-le'), 'no text: it has a NUL byte; if it is UTF-16, save', False),
        (b'ok\n\0\n', 'no text: it has a NUL byte', False),
    ],
)
def test_what_is_no_line_of_text(tmp_path, data, reason, whole):
    path = put(tmp_path, 'x', data)
    lines = readers.numbered(path)
    said = broken(lines)[1] if whole else str(next(line for line in lines if line != (1, 'ok')))
    assert said.startswith(f'{path}:{1 + data.startswith(b"ok")}: {reason}')


def test_separators_of_unicode_and_later_byte_order_marks_are_text(tmp_path):
    lines = ['a\u2028b\u2029c\x85d\x0ce', '\ufefff', 'g\ufeffh']
    path = put(tmp_path, 'x', '\ufeff' + '\r\n'.join(lines) + '\r\n')
    assert list(readers.numbered(path)) == list(enumerate(lines, 1))
    assert readers.count_lines(path) == 3


def test_a_bomb_ends_at_once(tmp_path):
    path = tmp_path / 'x.json.gz'
    bomb = b'[' + b'[],' * 35_000_000 + b'[]]'
    path.write_bytes(gzip.compress(bomb, 9))
    assert path.stat().st_size < 110_000 and len(bomb) > 100_000_000
    started = time.monotonic()
    tracemalloc.start()
    first = next(readers.read_dialogues_json(str(path)))  # Of an array, a part is in memory.
    assert first.reason == 'dialogue 1 is a list, not an object'
    of_lines = functools.partial(readers.read_jsonl, fields={'inputs': 'a'})
    for read in (readers.read_squad, of_lines, readers.read_pairs):
        found, said = broken(read(str(path)))
        assert not found and 'XLBENCH_MAX_EXPANSION' in said
        assert 'the file expands too far' in said
    with pytest.raises(errors.UserError, match='XLBENCH_MAX_EXPANSION'):
        readers.count_lines(str(path))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 64 << 20 and time.monotonic() - started < 60


def test_missing_file_is_named(tmp_path):
    path = str(tmp_path / 'gone')
    for name, *more in (
        ('parallel', path), ('jsonl', {}), ('tsv', ['a']), ('squad',), ('pairs',), ('responses',),
        ('dialogues',), ('dialogues_json',), ('split_ids',),
    ):  # fmt: skip
        with pytest.raises(errors.UserError, match=r'there is no file .*/gone'):
            list(getattr(readers, f'read_{name}')(path, *more))


DEEP = (
    'the JSON is nested too deeply: at most 64 levels are allowed; if you trust the file, set '
    'XLBENCH_MAX_JSON_DEPTH to more'
)


@pytest.mark.parametrize(
    ('line', 'reason'),
    [
        ('{"src": "x"', "not JSON: Expecting ',' delimiter at column 12"),
        ('', 'the line is empty'),
        ('["src", "tgt"]', 'a list, not an object'),
        ('{"src": "x"}', "no key 'tgt'; it has 'src'"),
        ('{"src": 3, "tgt": "y"}', 'src is a number, not a text'),
        ('{"src": "x", "tgt": null}', 'tgt is null, not a text'),
        ('{"src": "x", "tgt": " "}', 'tgt is empty'),
        ('{"src": "\\ud800", "tgt": "y"}', 'src has a lone surrogate (\\ud800 to \\udfff)'),
        ('{"src": "a\\u0000b", "tgt": "y"}', 'src has a NUL (\\u0000)'),
        ('[' * 100_000, DEEP),
        ('{"src": ' + '[' * 64 + ']' * 64 + '}', DEEP),
    ],
)
def test_jsonl_bad_lines(tmp_path, line, reason):
    path = put(tmp_path, 'x', '{"src": "ü", "tgt": "y", "more": 1}\n' + line + '\n')
    found = list(readers.read_jsonl(path, {'inputs': 'src', 'targets': 'tgt'}))
    assert found == [{'inputs': 'ü', 'targets': 'y'}, BadRecord(path, 2, reason)]
    assert str(found[1]) == f'{path}:2: {reason}'


def test_tsv(tmp_path):
    path = put(tmp_path, 'x', 'a\tb\n"c\td"\ne\n\tf\n')
    assert list(readers.read_tsv(path, ['inputs', 'targets'])) == [
        {'inputs': 'a', 'targets': 'b'},
        {'inputs': '"c', 'targets': 'd"'},
        BadRecord(path, 3, '1 TAB-separated columns instead of 2 (inputs, targets)'),
        BadRecord(path, 4, 'inputs is empty'),
    ]


def squad(**changes):
    answers = [{'text': 'Rome', 'answer_start': 2}]
    question = {'id': 'q1', 'question': 'What is old?', 'answers': answers} | changes
    paragraphs = [{'context': '\U0001f600 Rome is old.', 'qas': [question]}]
    return {'data': [{'title': 'Italy', 'paragraphs': paragraphs}]}


def test_squad(tmp_path):
    # answer_start counts code points: the emoji is one.
    path = put(tmp_path, 'x', squad())
    place = {'id': 'q1', 'title': 'Italy', 'article': '0', 'paragraph': '0'}
    text = {'context': '\U0001f600 Rome is old.', 'question': 'What is old?', 'answer': 'Rome'}
    assert list(readers.read_squad(path)) == [place | text]


def test_two_questions_of_the_same_id_are_told_apart(tmp_path):
    content = squad()
    content['data'] += squad(question='Who is old?')['data']
    path = put(tmp_path, 'x', content)
    first, second = readers.read_squad(path)
    assert first['question'] == 'What is old?'
    assert str(second) == (
        f"{path}: article 2 'Italy', paragraph 1, question 1 has the id 'q1' of article 1 'Italy', "
        'paragraph 1, question 1'
    )


@pytest.mark.parametrize(
    ('content', 'reason'),
    [
        (squad(answers=[{'text': 'Rome', 'answer_start': 3}]), 'where the context has another'),
        (squad(answers=[{'text': 'Rome', 'answer_start': -4}]), 'is -4, not a position'),
        (squad(answers=[{'text': 'Rome', 'answer_start': '2'}]), "is '2', not a position"),
        (squad(answers=[]), 'has no answer'),
        (squad(answers={}), 'is an object, not a list'),
        (squad(id=7), 'is a number, not a text'),
        (squad(question=' '), 'is empty'),
        ({'data': [{'title': 'Italy', 'paragraphs': [{'qas': []}]}]}, 'is null, not a text'),
        ({'data': [{'title': 'Italy', 'paragraphs': [[]]}]}, 'is a list, not an object'),
    ],
)
def test_squad_bad_structure_names_its_place(tmp_path, content, reason):
    path = put(tmp_path, 'x', content)
    (found,) = readers.read_squad(path)
    assert "article 1 'Italy', paragraph 1" in found.reason
    assert reason in found.reason


@pytest.mark.parametrize(
    ('read', 'content', 'line', 'reason'),
    [
        ('squad', '{"data": [\n}', 2, 'not JSON'),
        ('squad', '[]', 0, 'the file is a list, not an object'),
        ('squad', '{"data": {}}', 0, 'is an object, not a list'),
        ('squad', b'{"data":\n "\xff"}', 2, 'not UTF-8: byte 0xff'),
        ('squad', '[' * 100_000, 0, 'nested too deeply'),
        ('dialogues_json', '{"dialogue": []}', 1, 'the file is not a list of objects'),
        ('dialogues_json', '[{]', 1, 'not JSON'),
        ('dialogues_json', b'[\n"\xff"]', 0, 'not UTF-8'),
        ('items', '{"a": 1}', 1, 'the file is not a list of objects'),
        ('items', '', 1, 'not a list'),
        ('items', '[{"a": 1},\n {"a" 2}]', 2, "not JSON: Expecting ':' delimiter, after object 1"),
        ('items', '[{"a": 1}, ]', 1, 'not JSON: Expecting value, after object 1'),
        ('items', '[{"a": 1} {"a": 2}]', 1, 'no comma, after object 1'),
        ('items', '[{"a": 1}, {"a": 2', 1, "not JSON: Expecting ',' delimiter, after object 1"),
        ('items', '[{"a": 1}', 1, 'the file ends inside the list, after object 1'),
        ('items', '[{"a": 1}]\n\nx', 3, 'something follows the list, after object 1'),
        ('items', '[{"a": "x', 1, 'not JSON: Unterminated string'),
        ('items', b'[{"a": 1}, "\xff"]', 0, 'not UTF-8: byte 0xff'),
        ('items', '[1]'.encode('utf-16'), 0, 'begins as UTF-16 does'),
        ('items', '[' + '[' * 5000 + ']' * 5000 + ']', 0, 'nested too deeply'),
        ('items', '[' + '[' * 70 + ']' * 70 + ']', 0, 'nested too deeply'),
    ],
)
def test_a_file_of_json_that_is_wrong_as_a_whole(tmp_path, read, content, line, reason):
    reader = readers.json_items if read == 'items' else getattr(readers, f'read_{read}')
    path = put(tmp_path, 'x', content)
    found, said = broken(reader(path))
    assert len(found) == reason.endswith('object 1')
    assert said.startswith(f'{path}:{line}: ' if line else f'{path}: ') and reason in said


def test_pairs(tmp_path):
    path = put(
        tmp_path, 'x.tsv', b' a b\t c\x0c \t\t\r\nd\te\tf\n\xa0\t\t\t\ng\t \th\ti\nj\tk\t1\t2\t3\n'
    )
    assert list(readers.read_pairs(path)) == [
        {'message': 'a b', 'reply': 'c'},
        BadRecord(path, 2, '3 TAB-separated columns instead of 4 (message, reply, unused, unused)'),
        BadRecord(path, 3, 'not UTF-8: byte 0xa0 at byte 0'),
        BadRecord(path, 4, 'reply is empty'),
        BadRecord(path, 5, '5 TAB-separated columns instead of 4 (message, reply, unused, unused)'),
    ]


def test_responses(tmp_path):
    path = put(tmp_path, 'x', '-2.5\tOkay! \t17\n-1e1\tJa\tc\tmore\t\n')
    found = [
        {'lm_score': '-2.5', 'reply': 'Okay!', 'cluster': '17', 'display': ''},
        {'lm_score': '-1e1', 'reply': 'Ja', 'cluster': 'c', 'display': ''},
    ]
    assert list(readers.read_responses(path)) == found
    mapping = put(tmp_path, 'm', 'Okay!\tOK\nJa\tJa.\n')
    shown = [found[0] | {'display': 'OK'}, found[1] | {'display': 'Ja.'}]
    assert list(readers.read_responses(path, mapping)) == shown


@pytest.mark.parametrize(
    ('line', 'reason'),
    [
        ('-1\tOkay!\t3', "'Okay!' is on line 1 already; responses must differ"),
        ('-1\tJa', '2 TAB-separated columns instead of 3 (lm_score, reply, cluster)'),
        ('x\tJa\t3', "lm_score is 'x', not a number"),
        ('nan\tJa\t3', "lm_score is 'nan', not a number"),
        ('9' * 3000 + '\tJa\t3', f"lm_score is '{'9' * 76}..., not a number"),
        ('-1\t \t3', 'reply is empty'),
        ('-1\tJa\t', 'cluster is empty'),
    ],
)
def test_bad_responses(tmp_path, line, reason):
    path = put(tmp_path, 'x', f'-2\tOkay!\t1\n{line}\n-2\tNein\t1\n')
    found = list(readers.read_responses(path))
    assert found[1] == BadRecord(path, 2, reason)
    assert [record['reply'] for record in (found[0], found[2])] == ['Okay!', 'Nein']


@pytest.mark.parametrize(
    ('mapping', 'line', 'whole', 'reason'),
    [
        ('Okay!\tOK\n', 2, True, 'has 1 lines but .* has 2'),
        ('Ja\tJa.\nOkay!\tOK\n', 1, True, "maps 'Ja', but .* has 'Okay!'"),
        ('Okay!\tOK\nJa\n', 2, False, '1 TAB-separated columns instead of 2'),
        (b'Okay!\tOK\nJa\t\xff\n', 2, False, 'not UTF-8'),
    ],
)
def test_bad_mappings(tmp_path, mapping, line, whole, reason):
    path = put(tmp_path, 'x', '-2\tOkay!\t1\n-3\tJa\t1\n')
    other = put(tmp_path, 'm', mapping)
    found = readers.read_responses(path, other)
    said = broken(found)[1] if whole else str(next(r for r in found if isinstance(r, BadRecord)))
    assert re.match(f'{other}:{line}: .*{reason}', said)


def pairs(records):
    return [
        str(r) if isinstance(r, BadRecord) else (r['dialogue'], r['message'], r['reply'])
        for r in records
    ]


def test_dialogues(tmp_path):
    path = put(
        tmp_path, 'x',
        'Hi .__eou__ Hello !  __eou__Bye . __eou__\t1\t2 1 1\n'
        'one __eou__ two\n'
        'alone __eou__\n'
        'a __eou__ __eou__ b\n'
        '\n'
        'x __eou__ y\n',
    )
    assert pairs(readers.read_dialogues(path)) == [
        ('0', 'Hi .', 'Hello !'),
        ('0', 'Hello !', 'Bye .'),
        ('1', 'one', 'two'),
        f"{path}:3: has no '__eou__' with something on both sides: no reply",
        f'{path}:4: utterance 2 is empty',
        f'{path}:5: utterance 1 is empty',
        ('5', 'x', 'y'),
    ]
    # Another separator.
    path = put(tmp_path, 'x', 'a\tb\tc\n')
    assert pairs(readers.read_dialogues(path, '\t')) == [('0', 'a', 'b'), ('0', 'b', 'c')]
    (bad,) = pairs(readers.read_dialogues(path, '|'))
    assert "has no '|' with" in bad


def test_json_dialogues(tmp_path):
    content = [
        {'persona': ['p'], 'dialogue': [[' hello !', 'hi'], ['and you ?', 'well ']]},
        {'dialogue': ['a', ' b ', 'c']},
    ]
    path = put(tmp_path, 'x', content)
    found = [('0', 'hello !', 'hi'), ('0', 'and you ?', 'well'), ('1', 'a', 'b'), ('1', 'b', 'c')]
    assert pairs(readers.read_dialogues_json(path)) == found


@pytest.mark.parametrize(
    ('dialogue', 'reason'),
    [
        ({}, "dialogue 2 has no 'dialogue'"),
        ([], 'dialogue 2 is a list, not an object'),
        ({'dialogue': 'a b'}, "'dialogue' of dialogue 2 is a text, not a list"),
        ({'dialogue': ['a']}, 'dialogue 2 has 1 utterances, no reply'),
        ({'dialogue': ['a', ' ']}, 'turn 2 of dialogue 2 is empty'),
        ({'dialogue': ['a', 3]}, 'turn 2 of dialogue 2 is a number, not a text'),
        ({'dialogue': [['a', 'b'], 'c']}, 'turn 2 of dialogue 2 is not a list of message and'),
        ({'dialogue': [['a', 'b'], ['c']]}, 'turn 2 of dialogue 2 is not a list of message and'),
        ({'dialogue': [['a', '\ud800']]}, 'turn 1 of dialogue 2 has a lone surrogate'),
    ],
)
def test_bad_json_dialogues(tmp_path, dialogue, reason):
    content = [{'dialogue': ['a', 'b']}, dialogue, {'dialogue': ['c', 'd']}]
    path = put(tmp_path, 'x', content)
    first, bad, last = readers.read_dialogues_json(path)
    assert (first['reply'], last['reply'], last['dialogue']) == ('b', 'd', '2')
    assert reason in bad.reason


def test_find(tmp_path):
    for name in ('b.tsv', 'a.tsv.gz', 'b.tsv.gz', 'c.tsv-00', '.d.tsv', 'e.txt.gz', 'f[1].tsv'):
        put(tmp_path, name, '')
    (tmp_path / 'folder.tsv').mkdir()

    def find(name):
        return [os.path.basename(path) for path in readers.find(str(tmp_path / name))]

    assert find('*.tsv*') == ['a.tsv.gz', 'b.tsv', 'c.tsv-00', 'f[1].tsv']
    assert find('b.tsv') == ['b.tsv']
    assert find('e.txt') == ['e.txt.gz']  # Packed.
    assert find('f[1].tsv') == ['f[1].tsv']  # A name goes before a pattern.
    assert find('g*') == find('folder.tsv') == find('gone/*') == []
    assert readers.find('readers_no_such_*') == []


def test_a_long_file_is_not_held_in_memory(tmp_path):
    path = put(tmp_path, 'x', ('some text of a long line ' * 80 + '\n') * 6000)
    assert os.path.getsize(path) > 10 * 2**20
    tracemalloc.start()
    count = sum(1 for _ in readers.read_parallel(path, path))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 6000
    assert peak < 3 * 2**20  # Counting reads blocks of 1 MiB.


def test_a_line_without_end_is_not_held_in_memory(tmp_path, monkeypatch):
    monkeypatch.setenv('XLBENCH_MAX_LINE_BYTES', '1000')
    path = put(tmp_path, 'x', b'ok\n' + b'a' * 5000)
    found, said = broken(readers.read_tsv(path, ['text']))
    assert found == [{'text': 'ok'}]
    assert f'{path}:2: the line is too long: at most 1,000 bytes are allowed; if' in said


def test_bad_records_policy(tmp_path):
    left = iter([True, True, False])
    policy = readers.BadRecords(lambda: next(left))
    bad = BadRecord('f', 3, 'why')
    policy.add(bad)
    policy.add(bad)
    with pytest.raises(errors.UserError, match=r'f:3: why.*--skip_bad'):
        policy.add(bad)
    assert policy.skipped == [bad, bad]


# --- Large JSON arrays, and MediaSum's interviews.

SAID = {'utt': ['Hello.', ' ', 'Hi\nyou.'], 'speaker': ['ANN', '', 'BEN']}
TALK = {'id': 'a', **SAID, 'summary': 'S'}


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


def test_what_a_disk_says_while_an_array_is_read_is_known(monkeypatch):
    def fail(path):
        raise OSError(errno.EIO, os.strerror(errno.EIO), path)

    monkeypatch.setattr(json_files.text_lines, 'open_binary', fail)
    with pytest.raises(errors.UserError, match='cannot be read') as caught:
        list(readers.json_items('a.json'))
    trouble = errors.storage_trouble(caught.value)
    assert trouble is not None and trouble.advice == 'check the disk'


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
