"""Tests of xlbench/readers.py."""

import gzip
import json
import os
import tracemalloc

import pytest

from xlbench import errors, readers
from xlbench.readers import BadRecord


def write(path, data):
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return str(path)


def parallel(tmp_path, source, target, **kwargs):
    return list(
        readers.read_parallel(
            write(tmp_path / 's', source), write(tmp_path / 't', target), **kwargs
        )
    )


def test_parallel_lines_keep_their_text(tmp_path):
    # Other line separators and a TAB in a single column are text; \r\n is a line end.
    found = parallel(tmp_path, 'a\u2028b\x0cc \r\n\td\te', 'x\r\ny\n')
    assert found == [
        {'source': 'a\u2028b\x0cc ', 'target': 'x'},
        {'source': '\td\te', 'target': 'y'},
    ]


def test_parallel_columns(tmp_path):
    found = parallel(
        tmp_path,
        'Rome is old.\tRome\nno answer\n\tRome\na\tb\tc\n',
        'What?\nWhat?\nWhat?\nWhat?\n',
        source_columns=('passage', 'answer'),
    )
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
    found = parallel(tmp_path, source, target)
    assert len(found) == 1
    assert found[0].fatal
    assert (found[0].path, found[0].line) == (str(tmp_path / name), line)
    assert all(f'has {count}' in found[0].reason for count in counts)


def test_a_last_line_without_an_end_counts(tmp_path):
    for text, count in (('', 0), ('a', 1), ('a\n', 1), ('a\n\n', 2), ('a\nb', 2)):
        assert readers.count_lines(write(tmp_path / 'x', text)) == count


def test_byte_order_mark_and_gzip(tmp_path):
    path = tmp_path / 'x.jsonl.gz'
    path.write_bytes(gzip.compress(b'\xef\xbb\xbf{"a": "b"}\n'))
    assert list(readers.read_jsonl(str(path), {'inputs': 'a'})) == [{'inputs': 'b'}]
    path.write_bytes(gzip.compress(b'{"a": "b"}\n' * 5000)[:-20])
    found = list(readers.read_jsonl(str(path), {'inputs': 'a'}))
    assert found[-1].fatal
    assert 'cannot be read' in found[-1].reason


def test_missing_file_is_named(tmp_path):
    for read in (
        lambda path: readers.read_parallel(path, path),
        lambda path: readers.read_jsonl(path, {}),
        lambda path: readers.read_tsv(path, ['a']),
        readers.read_squad,
    ):
        with pytest.raises(errors.UserError, match=r'there is no file .*/gone'):
            list(read(str(tmp_path / 'gone')))


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
        ('[' * 100_000, 'nested too deeply'),
    ],
)
def test_jsonl_bad_lines(tmp_path, line, reason):
    path = write(tmp_path / 'x', '{"src": "ü", "tgt": "y", "more": 1}\n' + line + '\n')
    found = list(readers.read_jsonl(path, {'inputs': 'src', 'targets': 'tgt'}))
    assert found == [{'inputs': 'ü', 'targets': 'y'}, BadRecord(path, 2, reason)]
    assert str(found[1]) == f'{path}:2: {reason}'


def test_tsv(tmp_path):
    path = write(tmp_path / 'x', 'a\tb\n"c\td"\ne\n\tf\n')
    assert list(readers.read_tsv(path, ['inputs', 'targets'])) == [
        {'inputs': 'a', 'targets': 'b'},
        {'inputs': '"c', 'targets': 'd"'},
        BadRecord(path, 3, '1 TAB-separated columns instead of 2'),
        BadRecord(path, 4, 'inputs is empty'),
    ]


def test_tsv_header(tmp_path):
    path = write(tmp_path / 'x', 'id\ttgt\tsrc\n1\tb\ta\n2\t\tc\n3\td\n')
    assert list(readers.read_tsv(path, ['src', 'tgt'], header=True)) == [
        {'src': 'a', 'tgt': 'b'},
        BadRecord(path, 3, 'tgt is empty'),
        BadRecord(path, 4, '2 TAB-separated columns instead of 3'),
    ]
    (found,) = readers.read_tsv(path, ['source'], header=True)
    assert (found.line, found.fatal) == (1, True)
    assert "no column 'source'" in found.reason


def squad(**changes):
    question = {
        'id': 'q1',
        'question': 'What is old?',
        'answers': [{'text': 'Rome', 'answer_start': 2}],
    } | changes
    paragraphs = [{'context': '\U0001f600 Rome is old.', 'qas': [question]}]
    return {'data': [{'title': 'Italy', 'paragraphs': paragraphs}]}


def test_squad(tmp_path):
    # answer_start counts code points: the emoji is one.
    path = write(tmp_path / 'x', json.dumps(squad()))
    assert list(readers.read_squad(path)) == [
        {
            'id': 'q1',
            'title': 'Italy',
            'article': '0',
            'paragraph': '0',
            'context': '\U0001f600 Rome is old.',
            'question': 'What is old?',
            'answer': 'Rome',
        }
    ]


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
    path = write(tmp_path / 'x', json.dumps(content))
    (found,) = readers.read_squad(path)
    assert "article 1 'Italy', paragraph 1" in found.reason
    assert reason in found.reason
    assert not found.fatal


@pytest.mark.parametrize(
    ('content', 'line', 'reason'),
    [
        ('{"data": [\n}', 2, 'not JSON'),
        ('[]', 0, 'the file is a list, not an object'),
        ('{"data": {}}', 0, 'is an object, not a list'),
        (b'{"data":\n "\xff"}', 2, 'not UTF-8: byte 0xff'),
        ('[' * 100_000, 0, 'nested too deeply'),
    ],
)
def test_squad_broken_file(tmp_path, content, line, reason):
    (found,) = readers.read_squad(write(tmp_path / 'x', content))
    assert found.fatal
    assert found.line == line
    assert reason in found.reason


def test_a_long_file_is_not_held_in_memory(tmp_path):
    path = write(tmp_path / 'x', ('some text of a long line ' * 80 + '\n') * 6000)
    assert os.path.getsize(path) > 10 * 2**20
    tracemalloc.start()
    count = sum(1 for _ in readers.read_parallel(path, path))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 6000
    assert peak < 3 * 2**20  # Counting reads blocks of 1 MiB.


def test_a_line_without_end_is_not_held_in_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(readers, 'MAX_LINE_BYTES', 1000)
    path = write(tmp_path / 'x', b'ok\n' + b'a' * 5000)
    found = list(readers.read_tsv(path, ['text']))
    assert found[0] == {'text': 'ok'}
    assert found[1].fatal
    assert 'longer than 1000 bytes' in found[1].reason


def test_bad_records_policy(tmp_path):
    left = iter([True, True, False])
    policy = readers.BadRecords(lambda: next(left))
    bad = BadRecord('f', 3, 'why')
    policy.add(bad)
    with pytest.raises(errors.UserError, match='misaligned'):  # Never skipped.
        policy.add(BadRecord('f', 9, 'misaligned', fatal=True))
    policy.add(bad)
    with pytest.raises(errors.UserError, match=r'f:3: why.*--skip_bad'):
        policy.add(bad)
    assert policy.skipped == [bad, bad]


def test_real_xquad(dev_data):
    counts = {}
    for lang in ('en', 'de', 'es', 'zh'):
        found = list(readers.read_squad(str(dev_data / 'xquad' / f'xquad.{lang}.json.gz')))
        assert not [record for record in found if isinstance(record, BadRecord)]
        counts[lang] = [record['id'] for record in found]
    assert len(counts['en']) == 1190
    assert all(ids == counts['en'] for ids in counts.values())
