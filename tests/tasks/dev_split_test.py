"""Tests of tasks/dev_split on made-up dev sets."""

import json

import pytest
from put_files import put

from xlbench import pipeline
from xlbench.data import labelled
from xlbench.system import errors
from xlbench.tasks import dev_split

LABELS = labelled.LABELS['xnli']
ROWS = 12  # Three of each first text.


@pytest.fixture
def root(tmp_path):
    """The same pairs in English, German and Swahili; two German ones are shots."""
    folder = tmp_path / 'data' / 'fewshot'
    for lang in ('en', 'de', 'sw'):
        pairs = ((f'{lang} {n // 3}', f'{lang} then {n}', LABELS[n % 3]) for n in range(ROWS))
        lines = ('\t'.join(pair) for pair in pairs)
        put(folder, f'xnli/dev-{lang}.tsv', ''.join(f'{line}\n' for line in lines))
    shots = {
        LABELS[n % 3]: [
            {
                'uid': str(labelled.Uid.of_row('xnli', 'de', n)), 'text_a': 'x', 'text_b': 'y',
                'label': LABELS[n % 3],
            }
        ]
        for n in (0, 4, 11)
    }  # fmt: skip
    bucket = {'bucket': 0, 'file': 'sampled.json', 'data': shots}
    put(folder, 'buckets/xnli/1-shots/german.jsonl', json.dumps(bucket) + '\n')
    with pipeline.bound(None, str(tmp_path / 'data')):
        yield tmp_path


def read(folder, name):
    """{row: (text_a, text_b, label)} of a file that was made."""
    lines = (folder / 'out/fewshot/xnli' / name).read_text().splitlines()
    return {int(line.split('\t')[1].split()[-1]): tuple(line.split('\t')) for line in lines}


def test_pairs_are_trained_on_or_tested_in_every_language_and_shots_in_neither(root):
    said = dev_split.split('xnli', root / 'out')
    files = ('train-en.tsv', 'test-en.tsv', 'test-de.tsv', 'test-sw.tsv')
    train, english, german, swahili = (read(root, name) for name in files)
    assert {pair[0].split()[0] for pair in train.values()} == {'en'}
    assert len(train) == 9 and train.keys() | english.keys() == {*range(ROWS)}
    # Whatever shares a first text is on one side.
    assert not {row // 3 for row in train} & {row // 3 for row in english}
    assert swahili.keys() == english.keys() and german.keys() == english.keys() - {0, 4, 11}
    assert all(pair[0].startswith('de') for pair in german.values())
    assert len(said) == 4 and said[0].endswith('train-en.tsv: 9 pairs')
    place = 'fewshot/buckets/xnli/1-shots/german.jsonl'
    assert (root / 'out' / place).read_bytes() == (root / 'data' / place).read_bytes()
    before = {path: path.read_bytes() for path in (root / 'out').rglob('*.tsv')}
    dev_split.split('xnli', root / 'out')
    assert before == {path: path.read_bytes() for path in (root / 'out').rglob('*.tsv')}


@pytest.mark.parametrize(
    'task, spoil, message',
    [
        ('marc', None, 'unknown task with dev sets of the same pairs'),
        ('pawsx', None, 'has no English dev set of pawsx'),
        ('xnli', ('dev-sw.tsv', 'a\tb\tmaybe\n'), r"dev-sw.tsv:1: the label is 'maybe'"),
        ('xnli', ('dev-de.tsv', 'a\tb\tneutral\n'), 'has no row 4, which a bucket of 1 shots has'),
    ],
)
def test_what_cannot_be_cut_is_a_line(root, task, spoil, message):
    if spoil:
        (root / 'data/fewshot/xnli' / spoil[0]).write_text(spoil[1])
    with pytest.raises(errors.UserError, match=message):
        dev_split.split(task, root / 'out')


def test_the_data_root_is_left_alone(root):
    with pytest.raises(errors.UserError, match='is the data root'):
        dev_split.main(['x', f'--root={root}/data', '--task=xnli', f'--output={root}/data/'])
