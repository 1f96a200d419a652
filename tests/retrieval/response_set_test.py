"""Response sets, from preparations and from files, and suggestions that are chosen together."""

import itertools
import json
import math
import random
from unittest import mock

import numpy as np
import pytest
import tiny

from xlbench.data import prepared, tokenizers
from xlbench.metrics.mrs import MrsRouge
from xlbench.retrieval.response_set import Consensus, ResponseSet
from xlbench.system.errors import UserError


@pytest.fixture(scope='module')
def tokenizer(tiny_root):
    return tokenizers.load('sample', str(tiny_root))


def write(folder, tokenizer, rows):
    """A preparation of records {'targets_pretokenized': ..., 'lm_score': ...}."""
    manifest = {'task': 'mrs_retrieval_en_en', 'split': 'responses'}
    manifest['vocabulary'] = tokenizer.manifest()
    ids = tokenizer.encode_inputs([row['text'] for row in rows])
    records = [
        {'inputs': row_ids, 'targets': row_ids, 'targets_pretokenized': row['text']}
        | {key: value for key, value in row.items() if key != 'text'}
        for row, row_ids in zip(rows, ids, strict=True)
    ]
    with (
        mock.patch.object(prepared.freshness, 'code_fingerprint', lambda name: None),
        prepared.Writer(str(folder), manifest=manifest, shard_examples=3) as writer,
    ):
        writer.write_batch(records)
    return prepared.Prepared(str(folder), json.loads((folder / 'manifest.json').read_text()))


def test_the_fields_of_a_preparation(tokenizer, tmp_path):
    rows = [
        {'text': 'many people', 'lm_score': '-1.5', 'cluster': 'c1', 'display': 'Many people!'},
        {'text': 'a market', 'lm_score': '-2', 'cluster': 'c1', 'display': ''},
    ]
    found = ResponseSet.of_prepared(write(tmp_path / 'set', tokenizer, rows))
    assert found.texts == ['many people', 'a market']
    assert found.lm_scores.tolist() == [-1.5, -2.0]
    assert found.clusters == ['c1', 'c1']
    assert found.display == ['Many people!', 'a market']
    assert found.ids[1].tolist() == [*tokenizer.encode('a market').tolist(), 1]
    assert len(found) == 2
    task = write(tmp_path / 'broken', tokenizer, [{'text': 'no', 'lm_score': 'low'}])
    with pytest.raises(UserError, match="response 'no' has the log-likelihood 'low'"):
        ResponseSet.of_prepared(task)


@pytest.mark.parametrize('fields', [{}, {'lm_score': '', 'cluster': '', 'display': ''}])
def test_the_replies_of_pairs(tokenizer, tmp_path, fields):
    """Different ones by first sight, with their relative frequency."""
    texts = ['Yes', 'no', 'Yes', 'yes', 'Yes', 'no', 'maybe', 'Yes']
    rows = [{'text': text} | fields for text in texts]
    found = ResponseSet.of_prepared(write(tmp_path / 'set', tokenizer, rows))
    assert found.texts == found.display == ['Yes', 'no', 'yes', 'maybe']
    expected = [math.log(count / 8) for count in (4, 2, 1, 1)]
    np.testing.assert_allclose(found.lm_scores, expected, rtol=1e-6)
    assert found.clusters == ['yes', 'no', 'yes', 'maybe']


def test_files_of_official_and_of_plain_form(tokenizer, tmp_path):
    path = tmp_path / 'response_lm_cluster.txt'
    path.write_bytes(
        b'-1.5\tthe market \tc1\r\n-2\tlight rain\tc1\textra\n\n-1.5\tthe market\tc1\n'
    )
    found = ResponseSet.of_file(path, tokenizer)
    assert found.texts == found.display == ['the market', 'light rain']
    assert found.lm_scores.tolist() == [-1.5, -2.0]
    assert found.clusters == ['c1', 'c1']
    assert found.ids[1].tolist() == [*tokenizer.encode('light rain').tolist(), 1]
    assert found.ids[1].dtype == np.int32
    # Plain text.
    path.write_text('Die Brücke\n  DIE BRÜCKE  \nein Markt', encoding='utf-8')
    found = ResponseSet.of_file(path, tokenizer)
    assert found.texts == ['Die Brücke', 'DIE BRÜCKE', 'ein Markt']
    assert found.clusters == ['die brücke', 'die brücke', 'ein markt']
    assert found.lm_scores.tolist() == [0, 0, 0]


def test_a_copy_has_the_same_texts(tokenizer, tmp_path):
    """Whatever characters they hold that Unicode takes for ends of lines."""
    texts = ['two\u2028lines', 'a\x85b', 'plain']
    ids = tokenizer.encode_inputs(texts)
    responses = ResponseSet(texts, np.array([-1.5, 0.0, -2.0], np.float32), list('aab'), texts, ids)
    responses.save(tmp_path / 'copy.jsonl')
    copy = ResponseSet.of_copy(tmp_path / 'copy.jsonl', tokenizer)
    assert list(copy.texts) == texts and list(copy.display) == texts
    assert copy.lm_scores.tolist() == [-1.5, 0.0, -2.0] and list(copy.clusters) == list('aab')


def test_ids_are_those_of_preparation(tiny_root, tokenizer, tmp_path):
    pairs = tiny.examples(tiny.QUESTIONS[0], 'test')
    path = tmp_path / 'replies.txt'
    path.write_text('\n'.join(target for _, target in pairs), encoding='utf-8')
    from_file = ResponseSet.of_file(path, tokenizer)
    task = prepared.open_task(str(tiny_root), 'sample', tiny.QUESTIONS[0], 'test')
    from_task = ResponseSet.of_prepared(task)
    assert from_file.texts == from_task.texts
    for one, other in zip(from_file.ids, from_task.ids, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    'content, message',
    [
        (b'a\tb\n', 'replies.txt:1 has 2 columns; a line is a text, or log-likelihood'),
        (b'ok\nx\ty\tz\n', "replies.txt:2 has the log-likelihood 'x', which is not a number"),
        (b'nan\ty\tz\n', "has the log-likelihood 'nan', which is not a number"),
        (b'\n \n', 'replies.txt has no responses'),
        (b'\xff\xfe', 'replies.txt:1: no text: it begins as UTF-16 does'),
        (b'a\rb\rc', 'replies.txt:1: has a \\r (carriage return) inside'),
        (b'-1\tok\tc1\n-2\tok\tc1\n', 'log-likelihood or cluster on line 1; responses must'),
        (b'-1\tok\tc1\nok\n', "replies.txt:2: 'ok' has another log-likelihood or cluster"),
        (b'1e300\ty\tz\n', "has the log-likelihood '1e300', which is not a number"),
    ],
)
def test_broken_files(tokenizer, tmp_path, content, message):
    path = tmp_path / 'replies.txt'
    path.write_bytes(content)
    with pytest.raises(UserError) as error:
        ResponseSet.of_file(path, tokenizer)
    assert message in str(error.value)


@pytest.mark.parametrize('read', [ResponseSet.of_file, ResponseSet.of_copy])
def test_a_missing_file(tokenizer, tmp_path, read):
    with pytest.raises(UserError, match=r'there is no file .*none\.txt'):
        read(tmp_path / 'none.txt', tokenizer)
    with pytest.raises(UserError, match='cannot be read: Is a directory'):
        read(tmp_path, tokenizer)


@pytest.mark.parametrize(
    'change, message',
    [
        ({'text': 3}, 'line 2: Expected `str`, got `int`'),
        ({'text': ' '}, 'line 2: the text is empty'),
        ({'text': 'first'}, "line 2: 'first' occurs twice"),
        ({'text': '\ud800'}, 'line 2: not JSON'),
        ({'lm_score': [1, 2]}, 'line 2: Expected `float`, got `array`'),
        ({'lm_score': 1e300}, 'line 2 has the log-likelihood 1e+300, which is not a number'),
        ({'lm_score': float('nan')}, 'line 2: not JSON'),
        ({'cluster': None}, 'line 2: Expected `str`, got `null`'),
    ],
)
def test_a_strange_copy_is_one_line(tokenizer, tmp_path, change, message):
    row = {'text': 'first', 'lm_score': -1.5, 'cluster': 'a', 'display': 'First'}
    path = tmp_path / 'copy.jsonl'
    path.write_text(f'{json.dumps(row)}\n{json.dumps(row | {"text": "second"} | change)}\n')
    with pytest.raises(UserError) as error:
        ResponseSet.of_copy(path, tokenizer)
    assert message in str(error.value) and '\n' not in str(error.value)


@pytest.mark.parametrize(
    'ids, count, chosen',
    [
        ([5, 4, 3, 2, 1, 0], 3, [5, 4, 3]),
        ([0, 1, 2, 3], 3, [0, 2, 3]),
        ([1, 0], 3, [1]),
        ([1, 0, 2, 3], 2, [1, 2]),
        ([], 3, []),
    ],
)
def test_one_of_each_cluster(ids, count, chosen):
    texts = list('abcdef')
    clusters = ['c0', 'c0', 'c1', 'c2', 'c3', 'c4']
    responses = ResponseSet(texts, np.zeros(6, np.float32), clusters, texts, [])
    assert responses.choose(np.array(ids, np.int32), count) == chosen
    assert all(type(i) is int for i in responses.choose(np.array(ids, np.int32), count))


# ------------------------------------------------------ against exhaustive search, and the metric

TEXTS = [
    'see you at the station', 'see you at the old station', 'see you there', 'i have no idea',
    'i have no time today', 'what a pity', 'no',
]  # fmt: skip


def expected_best(chosen, texts, p, metric):
    """The mean mrs_rouge of the best of the chosen, if text j is the reply with probability p_j."""
    values = [
        metric.choose([text], [[texts[i] for i in chosen]])[0].rouge['rouge-weighted'].f
        for text in texts
    ]
    return float(np.dot(p, values))


@pytest.mark.parametrize('seed', range(5))
def test_the_choice_is_nearly_the_best_of_all_sets(seed):
    generator = random.Random(seed)
    scores = [generator.gauss(0, 2) for _ in TEXTS]
    temperature = 1.5
    p = np.exp(np.array(scores) / temperature)
    p /= p.sum()
    metric = MrsRouge('en')
    chosen = Consensus(TEXTS, 'en', temperature).choose(range(len(TEXTS)), scores, 3)
    sets = itertools.combinations(range(len(TEXTS)), 3)
    best = max(expected_best(s, TEXTS, p, metric) for s in sets)
    assert len(set(chosen)) == 3
    assert expected_best(chosen, TEXTS, p, metric) >= (1 - 1 / np.e) * best


def test_choices_that_are_known():
    # A low temperature puts the highest score first.
    chosen = Consensus(TEXTS, 'en', 0.01).choose([6, 3, 0], [1.0, 3.0, 2.0], 2)
    assert chosen[0] == 3
    # Wordings of one thing are not repeated.
    chosen = Consensus(TEXTS, 'en', 1.0).choose([0, 1, 5, 6], [5.0, 4.9, 4.8, 1.0], 2)
    assert chosen[0] in (0, 1) and chosen[1] == 5
    # Only candidates are chosen, and no more than there are; texts without words are no error.
    assert sorted(Consensus(TEXTS, 'en', 1.0).choose([4, 5], [0.0, 1.0], 3)) == [4, 5]
    assert Consensus(['...', 'yes', ''], 'en', 1.0).choose([0, 1, 2], [0.0, 0.0, 0.0], 1) == [1]
