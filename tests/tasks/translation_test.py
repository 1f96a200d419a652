"""Tests of tasks/translation.py and of its sample corpus."""

import dialogue_files
import pytest
from put_files import put

from xlbench import benchmarks, pipeline
from xlbench.benchmarks import TRANSLATION
from xlbench.data import readers, tokenizers
from xlbench.system import errors
from xlbench.tasks import translation
from xlbench.tasks.samples import clidsum, translation as sample


@pytest.fixture
def root(tmp_path):
    with pipeline.bound(None, str(tmp_path)):
        yield tmp_path


def pairs(name, split):
    """All pairs of a split, as many as the source counts."""
    source = pipeline.get(name).source
    chunks = source.chunks(split, source.paths(split))
    found = [pair for c in chunks for pair in zip(c['inputs'], c['targets'], strict=True)]
    assert source.num_input_examples(split) == len(found)
    return found


def test_names():
    assert TRANSLATION.task_names()[:4] == (
        'translation_wmt20_en_de', 'translation_wmt20_en_zh', 'translation_wmt20_de_en',
        'translation_wmt20_zh_en',
    )  # fmt: skip
    assert benchmarks.parse_mixture('translation_wmt20_de_en').source == 'de'


def test_the_papers_scores_are_for_the_official_test_set():
    assert TRANSLATION.paper_scores('Trans-WMT', 'cross', 'wmt20', 'de', 'en') is None
    assert TRANSLATION.is_official('wmt20', 'train', 12345, 'en')  # Which has no official size.


def test_pairs_of_wmt_in_both_directions(root):
    folder = root / 'translation' / 'wmt20' / 'en-de'
    put(folder, 'test.tsv', 'Good "morning.\tGuten Morgen.\nYes\tJa\n')
    forth, back = (pairs(f'translation_wmt20_{pair}', 'test') for pair in ('en_de', 'de_en'))
    assert forth == [('Good "morning.', 'Guten Morgen.'), ('Yes', 'Ja')]
    assert back == [pair[::-1] for pair in forth]
    put(folder, 'train.tsv', 'Good morning.\n')
    with pytest.raises(errors.UserError, match=r'train.tsv:1: 1 TAB-separated columns instead of'):
        pairs('translation_wmt20_en_de', 'train')


def test_utterances_of_dialogues(root, monkeypatch):
    dialogue_files.write_xdailydialog(root)
    monkeypatch.setattr(translation, 'HELD_OUT', 2)
    name = 'translation_xdailydialog_en_de'
    train, validation, test = (pairs(name, split) for split in translation.SPLITS)
    both = [
        [dialogue_files.utterances(lang, number) for number in (0, 1, 2, 10, 11, 20, 21)]
        for lang in ('en', 'de')
    ]
    known = [list(zip(en, de, strict=True)) for en, de in zip(*both, strict=True)]
    assert train[:12] == known[0] + known[1] + known[2]
    # The third dialogue of each held-out file; the first is one of training, in capitals.
    assert train[16:] == known[3] and validation == known[4] and test == known[5] + known[6]
    source = pipeline.get(name).source
    assert [source.num_input_examples(split) for split in translation.SPLITS] == [20, 4, 8]
    left_out = readers.BadRecords()
    with pipeline.bad_records(left_out):
        pairs(name, 'test')
    assert left_out.left_out == {'utterances that training has': 4}
    learnt = {readers.letters(pair[0]) for pair in train}
    assert not learnt & {readers.letters(pair[0]) for pair in validation + test}


def test_dialogues_that_do_not_match_are_named(root):
    dialogue_files.write_xdailydialog(root)
    folder = root / 'xdailydialog' / '1k_part_data'
    german = folder / 'dialogues_text_De.txt'
    lines = german.read_text().splitlines(keepends=True)
    cases = {
        r'De.txt:2: 1 utterances, and 4 in .*En.txt': [lines[0], 'Ja\n', lines[2]],
        r'De.txt:2: utterance 2 is empty': [lines[0], 'a__eou__ __eou__c__eou__d\n', lines[2]],
        r'De.txt:3: has 2 lines but .*En.txt has 3': lines[:2],
    }
    for message, content in cases.items():
        german.write_text(''.join(content))
        with pytest.raises(errors.UserError, match=message):
            pairs('translation_xdailydialog_en_de', 'train')


def test_the_sample_is_in_the_official_form(root, monkeypatch):
    monkeypatch.setattr(sample, 'SPLITS', {'train': 300, 'validation': 20, 'test': 30})
    assert tokenizers.SAMPLE_SIZES['sample_translation'] == sample._VOCABULARY_PIECES
    monkeypatch.setattr(sample, '_VOCABULARY_PIECES', 700)
    assert sample.write(str(root)) and not sample.write(str(root))
    for lang in clidsum.LANGUAGES[1:]:
        splits = [pairs(f'translation_wmt20_en_{lang}', split) for split in sample.SPLITS]
        assert list(map(len, splits)) == list(sample.SPLITS.values())
        sources = [source for split in splits for source, _ in split]
        assert len(set(sources)) == len(sources)
    vocabulary = tokenizers.load('sample_translation', str(root))
    chinese = '安娜，本（都）来。好！'
    assert vocabulary.decode(vocabulary.encode(chinese)) == chinese  # Full-width marks stay.
