"""Buckets: both published forms, sampling; made-up texts."""

import collections
import itertools
import json
import os
import pathlib
import random
import shutil

import bucket_files
import pytest
from hypothesis import given, settings, strategies as st
from put_files import put

from xlbench.data import buckets, conllu, labelled, readers
from xlbench.system import errors
from xlbench.system.errors import UserError


def shot(number, label, split='val', **other):
    """One published example of classification."""
    example = {'uid': f'german-{number}-{split}', 'text_a': f'Satz {number} .', 'label': label}
    return example | {'portion_identifier': -1, 'text_b': f'Noch ein Satz {number} .'} | other


THREE = 'contradiction', 'entailment', 'neutral'
XNLI = {label: [shot(4980 + 7 * i, label)] for i, label in enumerate(THREE)}
FIELDS = ['uid', 'text_a', 'text_b', 'label']
TAGGED = 'Im\tADP\nHaus\tNOUN\n\n#\tSYM\n'


def put_bucket(root, bucket):
    place, data = buckets.encode(bucket)
    return pathlib.Path(put(root, place, data.decode()))


def lines(*contents, file='sampled.json'):
    return '\n'.join(
        json.dumps({'bucket': i, 'file': file, 'data': data}) for i, data in enumerate(contents)
    )


def run(*argv):
    return errors.run_main(buckets.main, ['buckets', *argv])


# Reading and writing.


def test_one_file_for_each_bucket(tmp_path):
    path = put(tmp_path, 'xnli/1-shots/german/0-th/sampled.json', XNLI)
    [bucket] = buckets.read(path)
    assert (bucket.task, bucket.shots, bucket.lang, bucket.index) == ('xnli', 1, 'de', 0)
    assert bucket.name == 'xnli/1-shots/german/0-th'
    assert [e['label'] for e in bucket.examples] == list(THREE)
    values = 'german-4987-val', 'Satz 4987 .', 'Noch ein Satz 4987 .', 'entailment'
    assert bucket.examples[1] == dict(zip(FIELDS, values, strict=True))
    path = put(tmp_path, 'udpos/2-shots/de/11-th/train.tsv', TAGGED)
    [bucket] = buckets.read(path)
    assert (bucket.lang, bucket.index, bucket.name) == ('de', 11, 'udpos/2-shots/de/11-th')
    # No comments here: # is a word.
    expected = {'words': 'Im Haus', 'tags': 'ADP NOUN'}, {'words': '#', 'tags': 'SYM'}
    assert bucket.examples == expected


@pytest.mark.parametrize('ending', ['', '.gz'])
def test_a_file_of_all_buckets(tmp_path, ending):
    put(tmp_path, f'xnli/1-shots/german.jsonl{ending}', lines(XNLI, {}))
    put(tmp_path, f'udpos/1-shots/de.jsonl{ending}', lines(TAGGED, '', file='train.tsv'))
    for task in ('xnli', 'udpos'):
        got = bucket_files.load(str(tmp_path), task, 'de', 1)
        assert [bucket.index for bucket in got] == [0, 1]
        assert got[0].examples and not got[1].examples


def test_buckets_come_in_order_of_their_numbers(tmp_path):
    for index in (10, 9, 0):
        put(tmp_path, f'udpos/1-shots/de/{index}-th/train.tsv', TAGGED)
    put(tmp_path, 'udpos/1-shots/de/notes.txt', 'not a bucket')
    assert [b.index for b in bucket_files.load(str(tmp_path), 'udpos', 'de', 1)] == [0, 9, 10]


def test_a_file_without_bytes_is_an_empty_bucket(tmp_path):
    for name in ('panx/1-shots/my/0-th/train.tsv', 'xnli/1-shots/german/0-th/sampled.json'):
        [bucket] = buckets.read(put(tmp_path, name, ''))
        assert bucket.examples == ()
        assert os.path.getsize(put(tmp_path, name, '')) == 0


@pytest.mark.parametrize(
    ('task', 'labels', 'fields'),
    [
        ('marc', [1, 2, 3, 4, 5], {}),  # Numbers in files, and texts here.
        ('mldoc', labelled.LABELS['mldoc'], {'text_b': None}),
    ],
)
def test_labelled_buckets_are_written_as_they_were(tmp_path, task, labels, fields):
    place = f'{task}/1-shots/german/3-th/sampled.json'
    data = {str(x): [shot(i, x, split='trn', **fields)] for i, x in enumerate(labels)}
    [bucket] = buckets.read(put(tmp_path, place, data))
    assert [example['label'] for example in bucket.examples] == list(data)
    assert all((example['text_b'] == '') == bool(fields) for example in bucket.examples)
    written = put_bucket(tmp_path / 'out', bucket)
    assert written == tmp_path / 'out' / place
    assert json.loads(written.read_text(encoding='utf-8')) == data


def test_tagged_buckets_are_written_as_they_were(tmp_path):
    for text in (TAGGED, ''):
        [bucket] = buckets.read(put(tmp_path, 'udpos/1-shots/de/0-th/train.tsv', text))
        written = put_bucket(tmp_path / 'out', bucket)
        assert written.read_text(encoding='utf-8') == text


TSV, JSONL = 'udpos/1-shots/de/0-th/train.tsv', 'udpos/1-shots/de.jsonl'
JSON = 'xnli/1-shots/german/0-th/sampled.json'
TWICE = [shot(1, 'neutral'), shot(1, 'neutral', text_b='c')]


@pytest.mark.parametrize(
    'name, content, message',
    [
        (TSV, 'Haus\tNOUN\nist\n', r'train.tsv:2: 1 TAB-sep'),
        (TSV, '\tNOUN\n', 'the word is empty'),
        (TSV, 'a\tX\rb\tX\r', r'train.tsv:1: has a \\r'),
        (JSONL, lines('a\tX\n', 'b'), r'de.jsonl:2:1: 1 TAB-separated'),
        (JSONL, '{"bucket": 0}', 'missing required field `data`'),
        *((JSONL, f'{{"bucket": {n}, "data": ""}}', 'de.jsonl:1: Expected `int`')
          for n in (-1, 10**6, 10**30, '"x"', 0.5)),
        (JSONL, '{"bucket": 3, "data": ""}\n' * 2, 'de.jsonl:2: bucket 3 is on an earlier line'),
        (JSONL, lines('a\tX\rb\tX'), r'de.jsonl:1: the data has a \\r inside'),
        (JSONL, '{"bucket": 3, "data": "\\ud800"}', 'de.jsonl:1: '),
        (JSONL, '[' * 100_000, r'de.jsonl:1'),
        (JSON, '{"neutral"', 'sampled.json: not JSON: '),
        (JSON, '[]', 'Expected `object`, got `array`'),
        (JSON, {'neutrall': []}, "unknown label .*'neutrall'"),
        (JSON, {'neutral': TWICE}, "'german-1-val' is there twice, with different texts or labels"),
        *((JSON, {'neutral': [shot(1, 'neutral') | change]}, message) for change, message in (
            ({'label': 'entailment'}, "'german-1-val' is 'entailment', not 'neutral'"),
            ({'text_a': 3}, r'Expected `str`, got `int` - at .*text_a'),
            ({'text_a': ' '}, "'german-1-val': text_a is empty"),
            ({'text_b': None}, "'german-1-val': text_b is empty"),
            ({'text_a': 'a\0b'}, "'german-1-val': text_a has a NUL"),
            ({'uid': 'german-1'}, "'german-1' is not a uid"),
            ({'uid': f'german-{"1" * 5000}-val'}, 'is not a uid'),
            ({'uid': 3}, r'Expected `str`, got `int`'),
            ({'label': True}, r'Expected `int \| str`, got `bool`'),
        )),
        ('xnli/1-shots/german/00-th/sampled.json', XNLI, 'not named like a file of buckets'),
        (f'xnli/1-shots/german/{"9" * 200}-th/sampled.json', XNLI, 'not named like a file'),
        (f'xnli/{"9" * 200}-shots/german/0-th/sampled.json', XNLI, 'not named like a file'),
        ('xnli/1-shots/germann/0-th/sampled.json', XNLI, "unknown language 'germann'"),
        ('xnly/1-shots/german/0-th/sampled.json', XNLI, "unknown task of buckets 'xnly'"),
        ('xnli/german/sampled.json', XNLI, 'not named like a file of buckets'),
    ],
)  # fmt: skip
def test_what_is_no_bucket(tmp_path, name, content, message):
    with pytest.raises(UserError, match=message):
        buckets.read(put(tmp_path, name, content))


def test_which_buckets_are_there(tmp_path):
    """A packed one beside its unpacked self is not read twice."""
    put(tmp_path, JSON, XNLI)
    put(tmp_path, f'{JSON}.gz', XNLI)
    assert len(bucket_files.load(str(tmp_path), 'xnli', 'de', 1)) == 1
    with pytest.raises(UserError, match=r'there is no .*nowhere'):
        buckets.find(str(tmp_path / 'nowhere'))


# Rows of dev sets.


@pytest.mark.parametrize(
    'task, uid, row',
    [
        ('xnli', 'arabic-0-val', 0),
        ('xnli', 'german-4980-val', 0),  # Behind 2490 rows of ar and of bg.
        ('xnli', 'chinese-37349-val', 2489),
        ('pawsx', 'german-1-val', 0),  # Counts from 1.
        ('marc', 'german-0-trn', 0),  # Counts from 0.
    ],
)
def test_rows_of_uids(task, uid, row):
    parsed = labelled.Uid.parse(uid)
    assert parsed.row(task) == row and str(parsed) == uid
    assert labelled.Uid.of_row(task, parsed.lang, row) == parsed


@pytest.mark.parametrize(
    'task, uid, message',
    [
        ('xnli', 'german-4979-val', 'not a row of de'),
        ('xnli', 'german-7470-val', 'not a row of de'),
        ('xnli', 'korean-1-val', "unknown language of xnli 'ko'"),
        ('pawsx', 'german-0-val', 'not a row of de'),
        ('marc', 'german-1', 'is not a uid'),
        ('marc', 'germann-1-trn', "unknown language 'germann'"),
    ],
)
def test_uids_of_no_row(task, uid, message):
    with pytest.raises(UserError, match=message):
        labelled.Uid.parse(uid).row(task)


# Sampling.


def sentences(*tags):
    return [
        {'words': ' '.join(f'w{i}.{j}' for j in range(len(row.split()))), 'tags': row}
        for i, row in enumerate(tags)
    ]


def pool(count=60):
    draw = random.Random(0)
    tags = ('X', 'X', 'X', 'Y', 'Y', 'Z', 'W')
    return sentences(
        *(' '.join(draw.choice(tags) for _ in range(draw.randint(1, 6))) for _ in range(count))
    )


def tags_of(examples):
    return [collections.Counter(example['tags'].split(' ')) for example in examples]


def meets_both_criteria(bucket, examples):
    """Whether each tag of the examples is on K words, and not without any one of the sentences."""
    each, there = tags_of(bucket.examples), sum(tags_of(examples), collections.Counter())

    def enough(counts):
        total = sum(counts, collections.Counter())
        return all(total[tag] >= min(bucket.shots, count) for tag, count in there.items())

    return enough(each) and not any(enough(each[:i] + each[i + 1 :]) for i in range(len(each)))


def test_tagging_buckets_satisfy_both_criteria():
    examples = pool()
    for shots in (1, 2, 4):
        made = buckets.sample('udpos', 'de', examples, shots)
        assert len(made) == 40 and [bucket.index for bucket in made] == list(range(40))
        assert all(meets_both_criteria(bucket, examples) for bucket in made)
        # Not forty times the same.
        assert len({tuple(e['words'] for e in bucket.examples) for bucket in made}) > 10


def test_a_seed_gives_the_same_buckets_whatever_else_is_sampled():
    examples = pool()
    first = buckets.sample('udpos', 'de', examples, 2, count=5, seed=1)
    buckets.sample('udpos', 'de', examples, 4)
    assert buckets.sample('udpos', 'de', examples, 2, count=5, seed=1) == first
    assert buckets.sample('udpos', 'de', examples, 2, count=3, seed=1) == first[:3]
    assert buckets.sample('udpos', 'de', examples, 2, count=5, seed=2) != first


def test_a_rare_tag_is_taken_as_often_as_it_is_there():
    examples = sentences('X X', 'Y X', 'X', 'X X X')
    for bucket in buckets.sample('udpos', 'de', examples, 2):
        tags = [example['tags'].split() for example in bucket.examples]
        assert sum(row.count('Y') for row in tags) == 1
        assert sum(row.count('X') for row in tags) >= 2
    assert buckets.shortages('udpos', examples, 2) == ['Y is on 1 words only, fewer than 2']


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.lists(st.sampled_from('ABC'), min_size=1, max_size=4), min_size=1, max_size=12),
    st.integers(1, 3),
    st.integers(0, 5),
)
def test_minimum_including_on_anything(tags, shots, seed):
    chosen = buckets.MinimumIncluding(tags, shots).sample(random.Random(seed))
    assert len(set(chosen)) == len(chosen)
    total = collections.Counter(itertools.chain.from_iterable(tags))
    needed = {label: min(shots, count) for label, count in total.items()}

    def enough(numbers):
        have = collections.Counter(itertools.chain.from_iterable(tags[i] for i in numbers))
        return all(have[label] >= count for label, count in needed.items())

    assert enough(chosen)
    assert not any(enough([i for i in chosen if i != left_out]) for left_out in chosen)


def labelled_examples(count, labels=('0', '1')):
    return [
        {'uid': f'german-{i + 1}-val', 'text_a': f'a{i}', 'text_b': f'b{i}', 'label': label}
        for i, label in enumerate(itertools.islice(itertools.cycle(labels), count))
    ]


def test_classification_buckets_are_disjoint():
    examples = labelled_examples(400)
    made = buckets.sample('pawsx', 'de', examples, 4)
    assert len(made) == 40
    assert len({example['uid'] for b in made for example in b.examples}) == 40 * 2 * 4
    assert [example['label'] for example in made[0].examples] == ['0'] * 4 + ['1'] * 4
    assert made == buckets.sample('pawsx', 'de', examples, 4)
    assert made != buckets.sample('pawsx', 'de', examples, 4, seed=1)


def test_a_rare_label_runs_out():
    examples = labelled_examples(9, ('0', '0', '1'))
    made = buckets.sample('pawsx', 'de', examples, 1, count=4)
    counts = [[e['label'] for e in bucket.examples] for bucket in made]
    assert counts == [['0', '1']] * 3 + [['0']]
    assert buckets.shortages('pawsx', examples, 1, count=4) == [
        '1 has 3 examples; buckets from 3 on have fewer than 1'
    ]
    with pytest.raises(UserError, match='nothing to sample pawsx buckets in de from'):
        buckets.sample('pawsx', 'de', [], 1)


def test_sample_command(tmp_path, capsys):
    source = put(tmp_path, 'train-de.tsv.gz', conllu.write_tagged(pool()))
    out = str(tmp_path / 'out')
    options = ['--task=udpos', '--lang=de', f'--output={out}', '--count=3']
    assert run('sample', *options, '--shots=1,2', source) == 0
    said = capsys.readouterr().out
    assert 'udpos/2-shots/de: 3 buckets of' in said and 'from 60' in said
    sampled = buckets.sample('udpos', 'de', pool(), 2, count=3)
    assert bucket_files.load(out, 'udpos', 'de', 2) == sampled
    before = {path: path.read_bytes() for path in pathlib.Path(out).rglob('*.tsv')}
    shutil.rmtree(f'{out}/udpos/2-shots')  # As a kill between the two leaves it.
    assert run('sample', *options, '--shots=1,2', source) == 0
    assert before == {path: path.read_bytes() for path in pathlib.Path(out).rglob('*.tsv')}
    capsys.readouterr()
    assert run('sample', *options, '--seed=1', source) == 2
    assert 'is there already; remove it' in capsys.readouterr().err
    assert before == {path: path.read_bytes() for path in pathlib.Path(out).rglob('*.tsv')}
    assert run('sample', *options, '--shots=0', source) == 2
    assert 'not a whole number of 1 or more' in capsys.readouterr().err
    # By default the numbers of shots of the paper, which has no 8 for tagging.
    other = [option.replace(out, f'{out}2') for option in options]
    assert run('sample', *other, source) == 0
    assert sorted(os.listdir(f'{out}2/udpos')) == ['1-shots', '2-shots', '4-shots']


def test_sample_command_skips_bad_records_if_told(tmp_path, capsys):
    source = put(tmp_path, 'dev_2k.tsv', 'id\ta\tb\tlabel\n1\tx\ty\t0\n2\tx\ty\t7\n3\tx\ty\t1\n')
    options = ['--task=pawsx', '--lang=de', '--count=1', '--shots=1', source]
    assert run('sample', f'--output={tmp_path}/a', *options) == 2
    assert "the label is '7'" in capsys.readouterr().err
    assert run('sample', f'--output={tmp_path}/a', '--skip_bad=1', *options) == 0
    assert 'skipped' in capsys.readouterr().out
    [bucket] = bucket_files.load(f'{tmp_path}/a', 'pawsx', 'de', 1)
    # The bad row keeps its number.
    assert [example['uid'] for example in bucket.examples] == ['german-1-val', 'german-3-val']


# Readers of what buckets are sampled from.


def test_conllu(tmp_path):
    rows = [
        '# sent_id = 1', '# text = Im 10 000er', '1-2\tIm' + '\t_' * 8,
        '1\tIn\tin\tADP' + '\t_' * 6, '2\tdem\tder\tDET' + '\t_' * 6,
        '2.1\tnix\tnix\tVERB' + '\t_' * 6, '3\t10 000er\t_\tNUM' + '\t_' * 6, '',
        '# no tags', '1\ta' + '\t_' * 8, '',
        '# only a comment', '', '',
        '1\tمی\u200cروم\t_\tVERB' + '\t_' * 6,
    ]  # fmt: skip
    path = put(tmp_path, 'x.conllu.gz', '\n'.join(rows))
    first, no_tags, last = conllu.read_conllu(path)
    assert first == {'words': 'In dem 10000er', 'tags': 'ADP DET NUM'}
    assert conllu.words_of(first)[2] == ('10000er', 'NUM')
    assert isinstance(no_tags, readers.LeftOut)
    assert last == {'words': 'میروم', 'tags': 'VERB'}


@pytest.mark.parametrize(
    'line, reason',
    [
        ('2\tist\tADP', '3 TAB-separated columns instead of 10'),
        ('3\tist\t_\tAUX' + '\t_' * 6, "the word is numbered '3', not 2"),
        ('x\tist\t_\tAUX' + '\t_' * 6, "the word is numbered 'x', not 2"),
        ('2\t\t_\tAUX' + '\t_' * 6, 'the word is empty'),
        ('2\tist\t_\t' + '\t_' * 6, "'' is not a tag"),
        ('2\tist\t_\tAUX VERB' + '\t_' * 6, "'AUX VERB' is not a tag"),
    ],
)
def test_a_bad_line_costs_its_sentence_only(tmp_path, line, reason):
    word = '1\tHaus\t_\tNOUN' + '\t_' * 6
    bad, good = conllu.read_conllu(put(tmp_path, 'x', f'{word}\n{line}\n\n{word}\n'))
    assert (bad.line, bad.reason) == (2, reason)
    assert good == {'words': 'Haus', 'tags': 'NOUN'}


def test_iob2_and_broken_text(tmp_path):
    path = put(tmp_path, 'x.iob2', '# text\n1\tBerlin\tB-LOC\t-\tx\n2\tist\tO\t-\t-\n')
    assert list(conllu.read_iob2(path)) == [{'words': 'Berlin ist', 'tags': 'B-LOC O'}]
    (tmp_path / 'y').write_bytes(b'a\tX\n\xff\tX\n\nb\xc2\xa0c\tY\n')
    bad, good = conllu.read_tagged(str(tmp_path / 'y'))
    assert bad.line == 2 and 'not UTF-8' in bad.reason
    # A space of another kind is part of the word.
    assert conllu.words_of(good) == [('b\xa0c', 'Y')]
    assert conllu.write_tagged([good]) == 'b\xa0c\tY\n'


def test_official_xnli(tmp_path):
    def row(lang, number):
        tokens = [f'{lang} a {number} .', f'{lang} b {number} .']
        columns = [lang, 'neutral', *['?'] * 14, *tokens, 'x']
        return '\t'.join(columns)

    header = '\t'.join(['language', 'gold_label', *['column'] * 17])
    # Bulgarian is second: its row 0 is row 2490 of the file.
    rows = [row('ar', i) for i in range(2490)] + [row('bg', 0), row('bg', 1)]
    path = put(tmp_path, 'xnli.dev.tsv', '\n'.join([header, *rows]))
    got = list(labelled.read_xnli(path, 'bg'))
    assert [record['uid'] for record in got] == ['bulgarian-2490-val', 'bulgarian-2491-val']
    values = 'bulgarian-2490-val', 'bg a 0 .', 'bg b 0 .', 'neutral'
    assert got[0] == dict(zip(FIELDS, values, strict=True))
    # A file of another order would give the uids of other rows.
    path = put(tmp_path, 'other.tsv', '\n'.join([header, row('bg', 0)]))
    [bad] = labelled.read_xnli(path, 'bg')
    assert 'cannot be numbered' in bad.reason


def test_files_of_one_language_without_a_header(tmp_path):
    path = put(tmp_path, 'dev-de.tsv', 'a\tb\tneutral\r\nc\td\tentailment\r\n')
    got = list(labelled.read_xnli(path, 'de'))
    assert [record['uid'] for record in got] == ['german-4980-val', 'german-4981-val']
    path = put(tmp_path, 'dev-de.tsv', 'a\tb\t0\r\nc\td\t1\r\n')
    got = list(labelled.read_pawsx(path, 'de'))
    assert [record['uid'] for record in got] == ['german-1-val', 'german-2-val']
    [bad] = labelled.read_pawsx(put(tmp_path, 'x.tsv', 'a\t0'), 'de')
    assert bad.reason == '2 TAB-separated columns instead of 3'


def test_two_rows_of_one_id_shift_the_numbers_of_shots(tmp_path):
    rows = ['id\ta\tb\tlabel', '1\tx\ty\t0', '1\tx\ty\t0', '2\tx\tz\t1']
    path = put(tmp_path, 'dev_2k.tsv', '\n'.join(rows))
    _, twice, other = labelled.read_pawsx(path, 'de')
    assert twice == readers.BadRecord(path, 3, "another row has the id '1'")
    assert other['uid'] == 'german-3-val'
    assert len(list(labelled.read_pawsx(path, 'de', 'trn'))) == 3


def test_mldoc(tmp_path):
    path = put(tmp_path, 'de.train.1000', 'CCAT\tEin Text .\tmehr\nXCAT\tText\nGCAT\n')
    good, unknown, short = labelled.read_mldoc(path, 'de')
    assert good == {'uid': 'german-0-trn', 'text_a': 'Ein Text .', 'text_b': '', 'label': 'CCAT'}
    assert "the label is 'XCAT'" in unknown.reason and 'no TAB' in short.reason


def test_marc(tmp_path):
    review = {
        'stars': '4', 'review_title': ' Gut ', 'review_body': 'Ganz gut. ',
        'product_category': 'home', 'language': 'de',
    }  # fmt: skip
    bad = ['{"stars": 1}', '[]', '{', json.dumps(review | {'review_body': ' '})]
    path = put(tmp_path, 'x.json', '\n'.join([json.dumps(review), *bad]))
    good, *rest = labelled.read_marc(path, 'de')
    values = 'german-0-trn', 'Ganz gut.', 'Gut . home', '4'
    assert good == dict(zip(FIELDS, values, strict=True))
    assert [record.line for record in rest] == [2, 3, 4, 5]
    assert rest[3].reason == 'text_a is empty'


def test_golden_marc(golden, tmp_path):
    for case in golden('fsxlt_marc_format/'):
        path = put(tmp_path, 'x.json', case['inputs'] | {'stars': 1})
        [record] = labelled.read_marc(path, 'de')
        assert {key: record[key] for key in ('text_a', 'text_b')} == case['expected']


# Real data.


@pytest.fixture(scope='module')
def published(dev_data):
    root = dev_data / 'fsxlt_buckets'
    return {path: buckets.read(path) for path in buckets.find(str(root))}


def test_every_published_bucket_loads(published):
    assert len(published) == 241
    everything = [bucket for several in published.values() for bucket in several]
    assert len(everything) == 241 * 30
    count = collections.Counter()
    for bucket in everything:
        count[bucket.task] += len(bucket.examples)
    assert count == {'xnli': 10800, 'pawsx': 5400, 'marc': 11250, 'panx': 22270, 'udpos': 20037}


def test_published_buckets_are_written_as_they_were(published, tmp_path):
    for path, several in published.items():
        with readers.open_binary(path) as file:
            contents = [json.loads(line) for line in itertools.islice(file, 2)]
        for bucket, content in zip(several[:2], contents, strict=False):
            written = put_bucket(tmp_path, bucket)
            assert written.name == content['file']
            text = written.read_text(encoding='utf-8')
            if bucket.task in buckets.TAGGING:
                assert text == content['data']
            else:
                data = json.loads(text)
                assert data == content['data'] and list(data) == list(content['data'])
            assert buckets.read(str(written)) == [bucket]


@pytest.mark.parametrize('task, langs', [('xnli', 'de es sw zh'), ('pawsx', 'de ja zh')])
def test_uids_find_the_texts_of_dev_rows(dev_data, task, langs):
    """A base that is off by one would find no text at all."""

    def letters(text):  # The few shots of XNLI are tokenised, these files are not.
        return ''.join(filter(str.isalnum, text))

    sides = ('text_a', 'text_b')
    for lang in langs.split():
        rows = list(labelled.READERS[task](str(dev_data / task / f'dev-{lang}.tsv.gz'), lang))
        labels = len(labelled.LABELS[task])
        for shots in (1, 8):
            several = bucket_files.load(dev_data / 'fsxlt_buckets', task, lang, shots)
            examples = [example for bucket in several for example in bucket.examples]
            same = 0
            for example in examples:
                row = rows[labelled.Uid.parse(example['uid']).row(task)]
                assert row['uid'] == example['uid'] and row['label'] == example['label']
                same += all(letters(row[side]) == letters(example[side]) for side in sides)
            assert same == len(examples), (lang, shots)
            assert len({example['uid'] for example in examples}) == len(several) * labels * shots


def test_real_treebanks_give_buckets_that_satisfy_both_criteria(dev_data):
    [path] = (dev_data / 'ud').glob('*/mr_ufal-ud-train.conllu.gz')
    examples = buckets.read_examples('udpos', 'mr', [str(path)])
    assert len(examples) == 373
    for shots in (1, 4):
        made = buckets.sample('udpos', 'mr', examples, shots, count=10)
        assert all(meets_both_criteria(bucket, examples) for bucket in made)
