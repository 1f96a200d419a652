"""Tests of tasks/mrs.py."""

import gzip
import shutil

import mtg_files
import numpy as np
import pytest
import reply_files
import seqio
import task_records
import tokenizer_files
from task_records import examples

from xlbench import pipeline
from xlbench.benchmarks import MRS
from xlbench.data import prepared, readers
from xlbench.prepare import examples as examples_lib, mixtures
from xlbench.system import errors

SIZES = dict.fromkeys(reply_files.FOLDERS, (4, 3)) | {'valid': (2,)}
LENGTHS = {'inputs': 24, 'targets': 12}


@pytest.fixture(scope='module')
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp('made')
    reply_files.write_mrs(folder, SIZES)
    mtg_files.write_vocabulary(folder)
    return folder


@pytest.fixture
def own_root(made, tmp_path):
    """A root whose files a test may change."""
    reply_files.write_mrs(tmp_path, SIZES, ('de', 'fr'))
    shutil.copy(made / 'sample.model', tmp_path)
    with pipeline.bound('sample', str(tmp_path)):
        yield tmp_path


def texts(found, name):
    return [example[name].decode() for example in found]


def test_every_task_works_with_seqio(root):
    names = MRS.task_names()
    assert len(names) == 30
    converter = seqio.EncDecFeatureConverter(pack=False)
    for number, name in enumerate(sorted(names)[::4]):  # Both views, every split.
        task = pipeline.get(name)
        assert set(task.splits) == {
            'train', 'validation', 'test', 'mt_train', 'mt_validation', 'gmr_validation',
            'responses',
        }  # fmt: skip
        split = task.splits[number % len(task.splits)]
        dataset = seqio.get_dataset(name, LENGTHS, converter, split)
        assert next(iter(dataset))['encoder_input_tokens'].shape == (24,)


def test_two_views_of_the_same_pairs(root):
    tokenizer = pipeline.tokenizer()
    views = {view: examples(f'mrs_{view}_de_de', 'train') for view in ('retrieval', 'generation')}
    pairs = [reply_files.pair('de', 'train', number) for number in range(7)]  # Of both files.
    for view, tag in (('retrieval', ''), ('generation', '<de> ')):
        found = views[view]
        assert list(zip(texts(found, 'message'), texts(found, 'reply'), strict=True)) == pairs
        for example, (message, reply) in zip(found, pairs, strict=True):
            assert example['inputs'].tolist() == [*tokenizer.encode(tag + message), 1]
            assert example['targets'].tolist() == [*tokenizer.encode(reply), 1]
            assert example['inputs_pretokenized'].decode() == tag + message
            assert example['targets_pretokenized'].decode() == reply
            assert {example[name] for name in ('lm_score', 'cluster', 'display')} == {b''}
    found = examples('mrs_reverse_de_de', 'train')
    for example, (message, reply) in zip(found, pairs, strict=True):
        assert example['inputs_pretokenized'].decode() == f'<de> {reply}'
        assert example['targets_pretokenized'].decode() == message


@pytest.mark.parametrize('family', ['bert-cased', 'xlm-roberta', 'bart', 'mt5'])
def test_both_sides_are_inputs_of_an_encoder(root, tmp_path, family):
    """[CLS] ... [SEP], <s> ... </s> or ... </s>, without a language."""
    tokenizer = pipeline.use_vocabulary(tokenizer_files.write(tmp_path / family, family), str(root))
    begin = [] if family == 'mt5' else [tokenizer.bos_id]
    for example in examples('mrs_retrieval_fr_fr', 'validation'):
        for side, text in (('inputs', 'message'), ('targets', 'reply')):
            ids = tokenizer.encode(example[text].decode()).tolist()
            assert example[side].tolist() == [*begin, *ids, tokenizer.eos_id]
            assert tokenizer.prefix_ids(None, None)[0].tolist() == begin
    # Cut to a length, the first and the last token stay.
    converter = seqio.EncDecFeatureConverter(pack=False)
    lengths = {'inputs': 5, 'targets': 4}
    cut = seqio.get_dataset('mrs_retrieval_fr_fr', lengths, converter, 'validation')
    row = next(cut.as_numpy_iterator())
    assert row['encoder_input_tokens'][-1] == row['decoder_target_tokens'][-1] == tokenizer.eos_id
    assert row['decoder_target_tokens'].tolist()[: len(begin)] == begin


@pytest.mark.parametrize('family', ['mbart50', 'marian-multilingual'])
def test_translation_models_are_no_encoders_for_retrieval(root, tmp_path, family):
    pipeline.use_vocabulary(tokenizer_files.write(tmp_path / family, family), str(root))
    with pytest.raises(errors.UserError, match='not a vocabulary for retrieval; take one of BERT'):
        examples('mrs_retrieval_fr_fr', 'validation')


def test_responses(root):
    """Message and reply are the text; another text to show only where there is a mapping."""
    for lang, view, mark in (('de', 'retrieval', '!'), ('ja', 'generation', None)):
        wanted = reply_files.responses(lang)
        task = pipeline.get(f'mrs_{view}_{lang}_{lang}')
        found = examples(task.name, 'responses')
        assert texts(found, 'message') == texts(found, 'reply') == wanted
        assert texts(found, 'lm_score') == [str(-1.5 - number) for number in range(5)]
        assert texts(found, 'cluster') == ['c0', 'c0', 'c1', 'c1', 'c2']
        assert texts(found, 'display') == [text + mark if mark else '' for text in wanted]
        assert task.num_input_examples('responses') == 5


@pytest.mark.parametrize('family', ['sample', 'bert-cased'])
@pytest.mark.parametrize('split', ['train', 'responses'])
def test_what_is_prepared_equals_seqio(own_root, monkeypatch, family, split):
    vocabulary = family
    if family != 'sample':
        vocabulary = tokenizer_files.write(own_root / family, family)
    monkeypatch.setattr(pipeline.sources, 'CHUNK', 3)
    monkeypatch.setattr(examples_lib, '_seqio_examples', None)  # The fast path is what runs.
    names = ['mrs_retrieval_de_de', 'mrs_generation_de_de']
    pipeline.use_vocabulary(vocabulary, str(own_root))
    for done in mixtures.prepare(names, split, root=str(own_root), vocabulary=vocabulary):
        found = prepared.open_task(str(own_root), vocabulary, done.job.task, split)
        assert found.manifest['view'] == done.job.task.split('_')[1]
        wanted = examples(done.job.task, split)
        assert len(found) == len(wanted)
        for number, example in enumerate(wanted):
            record = found[number]
            assert record.keys() == example.keys()
            for name, value in example.items():
                same = value.decode() if isinstance(value, bytes) else value.tolist()
                np.testing.assert_array_equal(record[name], same)


def test_mixtures(root):
    rates = pipeline.mixture_rates(pipeline.get('mrs_mt_generation_de'), 'mt_train')
    assert rates == {'mrs_generation_de_de': 7}
    rates = pipeline.mixture_rates(pipeline.get('mrs_multi_retrieval.equal'), 'train')
    assert rates == {f'mrs_retrieval_{lang}_{lang}': 1 for lang in ('de', 'en', 'es', 'fr', 'pt')}
    mixture, converter = 'mrs_multi_retrieval.equal', seqio.EncDecFeatureConverter(pack=False)
    dataset = seqio.get_dataset(
        pipeline.get(mixture), LENGTHS, converter, 'train', num_epochs=None
    )
    assert next(iter(dataset))['decoder_target_tokens'].shape == (12,)


def test_files_of_a_split(own_root):
    """Any number, packed or not, in the order of their names; a copy that is packed counts once."""
    task = pipeline.get('mrs_retrieval_de_de')
    folder = own_root / 'mrs' / 'train' / 'de'
    before = texts(examples(task.name, 'train'), 'message')
    packed = gzip.compress((folder / 'part0.tsv').read_bytes())
    (folder / 'part0.tsv.gz').write_bytes(packed)
    (folder / '.part9.tsv').write_text('left by an editor')
    assert texts(examples(task.name, 'train'), 'message') == before
    (folder / 'part0.tsv').unlink()
    assert texts(examples(task.name, 'train'), 'message') == before
    (folder / 'part2.tsv-00').write_text('neu\tja\t\t\n')
    assert texts(examples(task.name, 'train'), 'message') == [*before, 'neu']
    assert task.num_input_examples('train') == 8


def test_a_further_file_makes_what_is_prepared_stale(own_root):
    arguments = dict(root=str(own_root), vocabulary='sample')
    names = ['mrs_retrieval_de_de', 'mrs_retrieval_fr_fr']
    mixtures.prepare(names, 'train,responses', **arguments)
    assert all(d.fresh for d in mixtures.prepare(names, 'train,responses', **arguments))
    (own_root / 'mrs/train/de/part2.tsv').write_text('neu\tja\t\t\n')
    folder = own_root / 'mrs/rsp_map/fr'
    folder.mkdir()
    lines = (f'{text}\toui\n' for text in reply_files.responses('fr'))
    (folder / 'response.mapping.txt').write_text(''.join(lines))
    with pytest.raises(prepared.NotPrepared, match=r'a further input .*part2\.tsv'):
        prepared.open_task(str(own_root), 'sample', 'mrs_retrieval_de_de', 'train')
    done = mixtures.prepare(names, 'train,responses', **arguments)
    new = {str(d.job) for d in done if not d.fresh}
    assert new == {'mrs_retrieval_de_de/train', 'mrs_retrieval_fr_fr/responses'}
    found = prepared.open_task(str(own_root), 'sample', 'mrs_retrieval_fr_fr', 'responses')
    assert {found[number]['display'] for number in range(len(found))} == {'oui'}


@pytest.mark.parametrize(
    ('path', 'line', 'message'),
    [
        ('train/de/part1.tsv', 'a\tb\tc', r'part1\.tsv:1: 3 TAB-separated columns instead of 4'),
        ('train/de/part0.tsv', 'a\t \tc\td', r'part0\.tsv:1: reply is empty'),
        ('rsp_set/de/response_lm_cluster.txt', '-1\tja', r'txt:1: 2 TAB-separated columns'),
        ('rsp_map/de/response.mapping.txt', 'x\ty', r"txt:1: maps 'x', but this line of"),
    ],
)
def test_bad_lines_stop_with_their_place(own_root, path, line, message):
    file = own_root / 'mrs' / path
    lines = file.read_text().splitlines()
    file.write_text('\n'.join([line, *lines[1:]]) + '\n')
    split = 'train' if 'train' in path else 'responses'
    with pytest.raises(errors.UserError, match=message) as caught:
        mixtures.prepare('mrs_retrieval_de_de', split, root=str(own_root), vocabulary='sample')
    assert '\n' not in str(caught.value)


def test_an_unreadable_record_is_told_from_a_missing_one(own_root):
    file = own_root / 'mrs/valid/de/part0.tsv'
    file.write_bytes(b'gut\tja\t\t\n\xff\tnein\t\t\n')
    found = task_records.read('mrs_retrieval_de_de', 'validation')
    assert found[0] == pipeline.PAIR | {'message': 'gut', 'reply': 'ja'}
    assert found[1] == readers.BadRecord(str(file), 2, 'not UTF-8: byte 0xff at byte 0')
