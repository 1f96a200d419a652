"""Tests of xlbench/prepare/__main__.py and xlbench/prepare."""

import contextlib
import functools
import glob
import itertools
import json
import os
import pathlib
import shutil
import subprocess
import sys
import threading
import time
import types
from concurrent import futures

import mtg_files
import numpy as np
import own_task_file
import pytest
import reply_files
import seqio
import tensorflow as tf
import tokenizer_files
import worker_jobs
from nightly import nightly
from put_files import damage, tree

from xlbench import pipeline
from xlbench.data import features, prepared, tokenizers
from xlbench.pipeline import registry
from xlbench.prepare import (
    __main__ as command,
    examples as examples_lib,
    jobs as jobs_lib,
    mixtures,
)
from xlbench.settings.blocks import Data
from xlbench.system import errors
from xlbench.system.work import Pool

SIZES = {'train': 7, 'validation': 5}


@pytest.fixture(scope='module')
def vocabulary_file(tmp_path_factory):
    return mtg_files.write_vocabulary(tmp_path_factory.mktemp('vocabulary'))


@pytest.fixture
def root(tmp_path, vocabulary_file):
    folder = tmp_path / 'root'
    mtg_files.write_mtg(folder, SIZES, tasks=('qg',))
    shutil.copy(vocabulary_file, folder / 'sample.model')
    yield folder
    pipeline.use_root(None)


def run(root, *names, splits='train', **kwargs):
    return mixtures.prepare(names, splits, root=str(root), vocabulary='sample', **kwargs)


def main(*argv):
    return errors.run_main(command.main, ['prepare', *map(str, argv)])


def flat(batches):
    return [record for batch in batches for record in batch]


def assert_same_records(found, expected):
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.keys() == theirs.keys()
        for name, value in theirs.items():
            value = value.decode() if isinstance(value, bytes) else value
            np.testing.assert_array_equal(ours[name], value)


def seqio_examples(task, split):
    dataset = task.get_dataset(sequence_length=None, split=split, shuffle=False)
    return list(dataset.as_numpy_iterator())


# --- Records.


@pytest.mark.parametrize('name', ['mtg_qg_en_de', 'xquad_qg_de_zh'])
def test_fast_path_equals_seqio(root, monkeypatch, name):
    mtg_files.write_xquad(root)
    monkeypatch.setattr(pipeline.sources, 'CHUNK', 3)
    pipeline.use_vocabulary('sample', str(root))
    task = pipeline.get(name)
    monkeypatch.setattr(examples_lib, '_seqio_examples', None)  # The fast path is what runs.
    assert_same_records(flat(examples_lib.examples(task, 'train')), seqio_examples(task, 'train'))


@pytest.mark.parametrize(
    'family',
    ['mbart50', 'bert-cased', 'bart', *nightly('marian-multilingual', 'xlm-roberta', 'pegasus')],
)
def test_tokens_of_the_model_on_both_paths(root, tmp_path, monkeypatch, family):
    """Prefix, ids of each side, end: written alike by the fast path, by SeqIO's, and when cut."""
    monkeypatch.setattr(pipeline.sources, 'CHUNK', 3)
    folder = tokenizer_files.write(tmp_path / family, family)
    tokenizer = pipeline.use_vocabulary(folder, str(root))
    task = pipeline.get('mtg_qg_en_de')
    found = seqio_examples(task, 'train')
    monkeypatch.setattr(examples_lib, '_seqio_examples', None)  # The fast path is what runs.
    assert_same_records(flat(examples_lib.examples(task, 'train')), found)
    before = dict(zip(('inputs', 'targets'), tokenizer.prefix_ids('en', 'de'), strict=True))
    for name, prefix in before.items():
        text = found[0][f'{name}_pretokenized'].decode()
        assert text.startswith('<de> ') == (
            name == 'inputs' and tokenizer.tags == 'target_in_source'
        )
        ids = tokenizer.encode(text, target=name == 'targets')
        np.testing.assert_array_equal(found[0][name], [*prefix, *ids, tokenizer.eos_id])
    # So short that some passages are cut, and so long that prefix and answer have room.
    mark = tokenizer.answer_mark()
    rest = [
        len(mark) + len(tokenizer.encode(e['inputs_pretokenized'].decode().split()[-1]))
        for e in found
    ]
    lengths = {'inputs': max(rest) + len(before['inputs']) + 4, 'targets': 4}
    assert all(len(example['inputs']) > lengths['inputs'] for example in found)
    converter = seqio.EncDecFeatureConverter(pack=False)
    cut = seqio.get_dataset(
        'mtg_qg_en_de', lengths, converter, dataset_split='train', shuffle=False
    )
    names = {'inputs': 'encoder_input_tokens', 'targets': 'decoder_target_tokens'}
    for example, whole in zip(cut.as_numpy_iterator(), found, strict=True):
        for name, length in lengths.items():
            kept = mark if name == 'inputs' else ()
            ids = features.trim_passage(whole[name], length, tokenizer.eos_id, kept)
            assert ids[: len(before[name])].tolist() == before[name].tolist()
            assert ids[-1] == tokenizer.eos_id
            np.testing.assert_array_equal(example[names[name]][: len(ids)], ids)
        passage, answer = whole['inputs_pretokenized'].decode().rsplit(' <answer> ', 1)
        shown = tokenizer.decode(
            features.trim_passage(whole['inputs'], lengths['inputs'], tokenizer.eos_id, mark)
        )
        expected = tokenizer.decode(tokenizer.encode(f'x <answer> {answer}'))[1:]
        assert shown.endswith(expected) and len(shown) < len(passage)


def test_preparing_with_language_tokens(root, tmp_path):
    folder = tokenizer_files.write(tmp_path / 'mbart', 'mbart50')
    (done,) = mixtures.prepare('mtg_qg_en_de', 'train', root=str(root), vocabulary=folder)
    tokenizer = tokenizers.load(folder, str(root))
    found = prepared.open_task(str(root), folder, 'mtg_qg_en_de', 'train')
    assert found[0]['inputs'][0] == tokenizer.forced_first('en')
    assert found[0]['targets'][0] == tokenizer.forced_first('de')
    assert tokenizer.decode(found[0]['inputs']) == tokenizer.decode(
        tokenizer.encode(found[0]['inputs_pretokenized'])
    )
    assert done.manifest['vocabulary'] == tokenizer.manifest()
    # The loss covers the language token: [lang] X eos, behind the start.
    conventions = features.Conventions.of(found.manifest)
    batch = features.generation(
        [found[0]], features.Layout({'inputs': 99, 'targets': 99}, conventions)
    )
    assert batch['decoder_input_tokens'][0, :2].tolist() == [2, tokenizer.forced_first('de')]
    assert batch['decoder_target_tokens'][0, 0] == tokenizer.forced_first('de')
    assert batch['decoder_loss_weights'][0, 0] == 1

    # Other ids for the same files: what was prepared is not up to date.
    config = {'tokenizer_class': 'XLMRobertaTokenizer'}
    pathlib.Path(folder, 'config.json').write_text(json.dumps({'model_type': 'xlm-roberta'}))
    pathlib.Path(folder, 'tokenizer_config.json').write_text(json.dumps(config))
    tokenizers.loading._read.cache_clear()
    (again,) = mixtures.prepare('mtg_qg_en_de', 'train', root=str(root), vocabulary=folder)
    assert not again.fresh


def test_a_language_that_the_model_has_no_token_for(root, tmp_path, capsys):
    folder = tokenizer_files.write(tmp_path / 'marian', 'marian-multilingual')
    assert main('--mixture=mtg_qg_de_en', '--split=train', f'--root={root}',
                f'--vocabulary={folder}') == 2  # fmt: skip
    error = capsys.readouterr().err
    assert "has no token for language 'en' (english); of the germanic ones it has de" in error
    assert len(error.strip().splitlines()) == 1


def upper(dataset):
    return dataset.map(lambda e: e | {'inputs': tf.strings.upper(e['inputs'])})


def drop_last_id(dataset):
    return dataset.map(lambda e: e | {'inputs': e['inputs'][:-1]})


def add_number(dataset):
    return dataset.map(lambda e: e | {'number': 7})


@pytest.mark.parametrize(
    ('step', 'at', 'fast'),
    [(upper, 2, True), (add_number, 2, False), (drop_last_id, 3, False), (drop_last_id, 6, False)],
)
def test_other_pipelines_equal_seqio(root, monkeypatch, step, at, fast):
    """A step that is not for batches, one that adds a number, and steps on ids."""
    monkeypatch.setattr(examples_lib, 'BATCH', 2)
    pipeline.use_vocabulary('sample', str(root))
    task = pipeline.get('mtg_qg_en_de')
    steps = [*task.preprocessors[:at], step, *task.preprocessors[at:]]
    changed = task.replace(name='changed', preprocessors=steps)
    used = []
    for name in ('_pack_beside', '_seqio_examples'):
        original = getattr(examples_lib, name)

        def spy(*args, name=name, original=original):
            used.append(name)
            return original(*args)

        monkeypatch.setattr(examples_lib, name, spy)
    found = flat(examples_lib.examples(changed, 'train'))
    assert used == ['_pack_beside' if fast else '_seqio_examples']
    expected = seqio_examples(changed, 'train')
    number = {'number': '7'} if step is add_number else {}
    assert_same_records(found, [example | number for example in expected])


# --- Preparing.


def test_what_is_on_disk(root, capsys):
    pipeline.use_vocabulary('sample', str(root))
    (done,) = run(root, 'mtg_qg_en_de')
    assert not done.fresh
    found = prepared.open_task(str(root), 'sample', 'mtg_qg_en_de', 'train')
    assert_same_records(
        [found[i] for i in range(len(found))],
        seqio_examples(pipeline.get('mtg_qg_en_de'), 'train'),
    )
    manifest = found.manifest
    assert manifest['num_examples'] == 7
    assert (manifest['source_lang'], manifest['target_lang']) == ('en', 'de')
    files = ['mtg/qg/en/train.src', 'mtg/qg/de/train.trg']
    assert [entry['path'] for entry in manifest['inputs']] == manifest['patterns'] == files
    assert manifest['vocabulary'] == pipeline.tokenizer().manifest()
    assert manifest['features']['targets'] == {'pad_id': 0, 'eos_id': 1}
    assert (manifest['data'], manifest['view']) == ('files', 'generation')
    assert (manifest['skipped'], manifest['left_out']) == ([], {})
    assert manifest['code'] == prepared.freshness.code_fingerprint('mtg_qg_en_de')
    names = {metric['metric'].rpartition(':')[2] for metric in manifest['metrics']}
    assert names == {'MultilingualRouge', 'SacreBleu', 'ChrF', 'Distinct'}
    assert str(root) not in json.dumps(manifest)
    assert 'mtg_qg_en_de/train: 7 examples' in capsys.readouterr().out


def test_a_mixture_and_what_is_up_to_date(root, capsys):
    (root / 'SAMPLE.json').write_text('{}')
    splits = 'train,validation'
    first = run(root, 'mtg_multi_qg', 'mtg_multi_qg.equal', 'mtg_qg_en_de', splits=splits)
    assert len(first) == 10  # The two mixtures have the same four tasks.
    assert first[0].manifest['data'] == 'sample'
    tasks, rates = prepared.open_mixture(str(root), 'sample', 'mtg_multi_qg', 'validation')
    assert [t.name for t in tasks] == sorted(t.name for t in tasks)
    assert rates == [5.0] * 4
    assert prepared.open_mixture(str(root), 'sample', 'mtg_multi_qg.equal', 'train')[1] == [1.0] * 4
    before = tree(root / 'prepared')
    times = {p: os.stat(root / 'prepared' / p).st_mtime_ns for p in before if 'array_record' in p}

    # One input changes: what is made from it is made again, nothing else.
    path = root / 'mtg' / 'qg' / 'de' / 'train.trg'
    path.write_text(path.read_text().replace('alte', 'neue'))
    capsys.readouterr()
    again = run(root, 'mtg_multi_qg', 'mtg_qg_en_de', splits=splits)
    new = {str(d.job) for d in again if not d.fresh}
    assert new == {'mtg_qg_de_de/train', 'mtg_qg_en_de/train'}
    assert '2 prepared, 8 were up to date' in capsys.readouterr().out
    kept = [p for p in times if 'mtg_qg_en_en' in p or 'validation' in p]
    assert kept
    for p in kept:
        assert os.stat(root / 'prepared' / p).st_mtime_ns == times[p]

    # Anew, everything: the same bytes.
    now = tree(root / 'prepared')
    assert not any(d.fresh for d in run(root, 'mtg_multi_qg', splits='train', force=True))
    assert tree(root / 'prepared') == now
    assert run(root, 'mtg_multi_qg:validation', splits='test')[0].job.split == 'validation'


def test_a_mixture_is_described_in_splits_that_all_of_its_tasks_have(root, monkeypatch):
    pipeline.use_root(str(root))
    jobs, whole = mixtures.resolve('mtg_multi_qg:train?', 'test')
    assert [(mixture.name, split) for mixture, split in whole] == [('mtg_multi_qg', 'train')]
    members = registry.members
    without = types.SimpleNamespace(splits=())
    monkeypatch.setattr(registry, 'members', lambda entry: [*members(entry), without])
    assert mixtures.resolve('mtg_multi_qg:train?', 'test') == (jobs, [])


def test_another_vocabulary_of_the_same_name(root):
    run(root, 'mtg_qg_en_en')
    mtg_files.write_vocabulary(root, vocab_size=340)
    (done,) = run(root, 'mtg_qg_en_en')
    assert not done.fresh
    assert done.manifest['vocabulary'] == tokenizers.load('sample', str(root)).manifest()


# --- Mistakes.


def test_bad_input_stops_with_its_place(root, capsys):
    damage(root / 'mtg/qg/en/train.src', 3, b'no answer')
    arguments = ('--mixture=mtg_qg_en_de', '--split=train', f'--root={root}')
    assert main(*arguments) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith('error: ') and captured.err.count('\n') == 1
    assert f'{root}/mtg/qg/en/train.src:3: 1 TAB-separated columns instead of 2' in captured.err
    assert '--skip_bad' in captured.err
    assert not [p for p in tree(root) if 'manifest' in p or 'part' in p]
    assert main(*arguments, '--skip_bad=1') == 0
    assert 'skipped mtg/qg/en/train.src:3' in capsys.readouterr().out
    manifest = prepared.open_task(str(root), 'sample', 'mtg_qg_en_de', 'train').manifest
    assert manifest['num_examples'] == 6
    reason = '1 TAB-separated columns instead of 2 (passage, answer)'
    assert manifest['skipped'] == [{'path': 'mtg/qg/en/train.src', 'line': 3, 'reason': reason}]


@pytest.mark.parametrize(
    ('arguments', 'message'),
    [
        ('--mixture=mtg_multi_qgg', 'nearest: mtg_multi_qg'),
        ('--split=dev', 'mtg_qg_de_de (in mixture mtg_multi_qg) has no'),
        ('--split=test', 'there is no file'),
        ('--new_vocabulary=x.model --vocabulary_size=-5', '--vocabulary_size is -5; give a number'),
        ('--new_vocabulary=x.model --vocabulary_size=50', '50 pieces is too small for the charac'),
        ('--texts=mtg_qg_en_de:train', '--texts goes with --new_vocab'),
        ('--texts=mtg --new_vocabulary=x.model --vocabulary=y.model',
         "is prepared with the --new_vocabulary 'x.model'; leave --vocabulary out"),
        ('', 'no mixture is named'),
        ('--split=', 'no split is named'),
        ('--mixtur=x', 'unrecognized arguments: --mixtur=x'),
        ('--skip_bad=many', "invalid int value: 'many'"),
        ('--skip_bad=-1', '--skip_bad must be 0 or more'),
        ('--vocabulary=sampl', 'nearest: sample'),
    ],
)  # fmt: skip
def test_mistakes_on_the_command_line(root, capsys, arguments, message):
    given = ['--mixture=mtg_multi_qg', *arguments.split()] if arguments else []
    assert main(f'--root={root}', *given) == 2
    error = capsys.readouterr().err
    assert message in error and error.startswith('error: ') and error.count('\n') == 1


def test_input_that_changes_while_it_is_read(root, monkeypatch):
    original = examples_lib.encoded_texts

    def encoded_texts(task, split):
        encoding, texts = original(task, split)
        return encoding, and_then_change(texts)

    def and_then_change(texts):
        yield from texts
        path = root / 'mtg' / 'qg' / 'de' / 'train.trg'
        path.write_text(path.read_text() + 'more\n')

    monkeypatch.setattr(examples_lib, 'encoded_texts', encoded_texts)
    with pytest.raises(errors.UserError, match='changed while they were read'):
        run(root, 'mtg_qg_en_de')
    assert not [p for p in tree(root) if 'manifest' in p]


def test_a_task_file_that_is_edited_during_preparation_is_one_line(root, tmp_path, monkeypatch):
    (root / 'mine.jsonl').write_text('{"a": "x", "b": "y"}\n')
    with own_task_file.used(tmp_path / 'own') as path:
        original = path.read_text()
        pipeline.get('mine_x')
        path.write_text(original + '# Edited between its import and the first record.\n')
        with pytest.raises(errors.UserError, match=r'own/mine\.py was edited after this program'):
            run(root, 'mine_x')
        assert not [p for p in tree(root) if 'manifest' in p]
        path.write_text(original)
        complete = jobs_lib.complete

        def edited(*arguments):
            complete(*arguments)
            path.write_text(original + '# Edited after the last record.\n')

        monkeypatch.setattr(jobs_lib, 'complete', edited)
        with pytest.raises(errors.UserError, match='has changed, although it has just been'):
            run(root, 'mine_x')


def test_any_run_of_records_is_encoded_as_all_of_them(root, monkeypatch):
    """Which makes it possible to divide a task among workers."""
    monkeypatch.setattr(examples_lib, 'BATCH', 2)
    reply_files.write_mrs(root, {'train': (4, 3)}, langs=('de',))
    (root / 'fewshot' / 'mldoc').mkdir(parents=True)
    lines = [f'MCAT\t{mtg_files.sentence("de", seed, 8)}\n' for seed in range(7)]
    (root / 'fewshot' / 'mldoc' / 'german.train.10000').write_text(''.join(lines))
    pipeline.use_vocabulary('sample', str(root))
    for name in ('mtg_qg_en_de', 'mrs_retrieval_de_de', 'fewshot_mldoc_de_de'):
        task = pipeline.get(name)
        encode = examples_lib.encoder(task)
        rows = flat(examples_lib.source_records(task, 'train'))
        found = flat(encode(rows[:5])) + flat(encode(rows[5:6])) + flat(encode(rows[6:]))
        assert_same_records(found, flat(examples_lib.examples(task, 'train')))
    # A step on ids, or one that may look at several records: only SeqIO's own pipeline.
    task = pipeline.get('mtg_qg_en_de')
    for step, at in ((drop_last_id, 3), (upper, 2)):
        steps = [*task.preprocessors[:at], step, *task.preprocessors[at:]]
        assert examples_lib.encoder(task.replace(name='other', preprocessors=steps)) is None


def test_processes_that_tokenise_write_the_same_bytes(root, monkeypatch, tmp_path):
    arguments = {'root': str(root), 'vocabulary': 'sample'}
    job, place = jobs_lib.Job('mtg_qg_en_de', 'train'), root / 'prepared'
    monkeypatch.setattr(pipeline.sources, 'CHUNK', 2)
    jobs_lib.prepare_one(job, jobs_lib.Shared.make(), **arguments)
    expected = tree(place)
    monkeypatch.setattr(jobs_lib, 'ENCODERS_FROM_BYTES', 0)
    monkeypatch.setattr(tokenizers.SentencePieceTokenizer, 'uses_cores', False)
    started = []
    original = examples_lib._pack_elsewhere
    monkeypatch.setattr(
        examples_lib, '_pack_elsewhere', lambda *args: started.append(args[2]) or original(*args)
    )
    again = {'force': True, 'encoders': 2, **arguments}
    assert jobs_lib.prepare_one(job, jobs_lib.Shared.make(), **again).manifest['num_examples'] == 7
    assert tree(place) == expected and started == [2]
    damage(root / 'mtg/qg/en/train.src', 7, b'no answer')
    with pytest.raises(errors.UserError, match=r'train\.src:7: 1 TAB-separated columns'):
        jobs_lib.prepare_one(job, jobs_lib.Shared.make(), **again)
    assert tree(place) == expected


TEMPLATES = ('{a}', '{b}', 'x: {a}', '{a} <answer> {b}', '{{{a}}}{b}.')


def test_steps_do_the_same_with_texts_and_tensors(root):
    records = {'a': ['Rom', 'Häuser \u2603', ''], 'b': ['eins', '', 'drei'], 'id': ['1', '2', '3']}
    dataset = tf.data.Dataset.from_tensors(records)
    pipeline.use_vocabulary('sample', str(root))
    steps = [
        functools.partial(pipeline.format_text, inputs=one, targets=other, keep=('id',))
        for one, other in itertools.product(TEMPLATES, repeat=2)
    ]
    on_texts = pipeline.preprocessors.on_texts
    made = [(step, on_texts(step)(records), step(dataset)) for step in steps]
    tag = functools.partial(pipeline.tag_target_language, lang='de')
    made += [(tag, on_texts(tag)(texts), tag(tensors)) for _, texts, tensors in made]
    for step, texts, tensors in made:
        (expected,) = tensors.as_numpy_iterator()
        assert {k: [x.encode() for x in v] for k, v in texts.items()} == {
            k: v.tolist() for k, v in expected.items()
        }, step
    assert texts['inputs'][0].startswith('<de> ')
    assert pipeline.preprocessors.on_texts(upper) is None


def test_one_process_prepares_and_another_waits_for_it(root):
    needed = [('mtg_multi_qg', 'train'), ('mtg_qg_en_de', 'validation')]
    data = Data(root=str(root), vocabulary='sample', sample=False)
    with futures.ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(prepared.wait_for, needed, data, seconds=0.05)
        prepared.ensure(needed, data)
        waiting.result(60)
    found = tree(root / 'prepared')
    assert {os.path.dirname(name) for name in found if name.endswith('manifest.json')} == {
        f'sample/mtg_qg_{lang}_{lang}/train' for lang in ('de', 'en', 'es', 'fr')
    } | {'sample/mtg_qg_en_de/validation'}


# --- Samples and own tasks.


@pytest.mark.parametrize(
    ('names', 'vocabulary', 'samples'),
    [
        ([], 'sample', command.SAMPLES),
        (['mtg_multi_qg', 'mtg_qg_en_en'], 'sample', ('mtg',)),
        (['fewshot_udpos_en_en'], 'sample_fewshot', ('labels',)),
        (['mrs_multi_retrieval'], 'google/mt5-base', ('mrs',)),
        (['clidsum_xsamsum_en_de'], 'sample', ('mtg', 'clidsum')),
        (['mtg_qg_en_en', 'news_title_de'], 'sample', command.SAMPLES),  # Whatever that reads.
    ],
)
def test_the_sample_corpora_that_are_read_are_made(names, vocabulary, samples):
    assert command._samples_of(names, vocabulary) == list(samples)


def test_sample_makes_the_corpora_once(tmp_path, vocabulary_file, monkeypatch, capsys):
    def write_mtg(root):
        if is_new := not os.path.exists(f'{root}/SAMPLE.json'):
            mtg_files.write_mtg(root, SIZES, tasks=('sg',))
            shutil.copy(vocabulary_file, f'{root}/sample.model')
            pathlib.Path(root, 'SAMPLE.json').write_text('{}')
        return is_new

    def write_mrs(root):
        if is_new := not os.path.exists(f'{root}/mrs'):
            reply_files.write_mrs(root, langs=('de',))
        return is_new

    monkeypatch.setattr(command, 'SAMPLES', ('mtg', 'mrs'))
    for name, write in (('mtg', write_mtg), ('mrs', write_mrs)):
        module = types.ModuleType(f'xlbench.tasks.samples.{name}')
        module.write = write
        monkeypatch.setitem(sys.modules, module.__name__, module)
    root = tmp_path / 'sample'
    assert main('--sample', f'--root={root}') == 0
    assert capsys.readouterr().out == f'wrote the sample corpora into {root}\n'
    assert main('--sample', f'--root={root}', '--mixture=mtg_sg_en_en', '--split=train') == 0
    assert 'wrote' not in capsys.readouterr().out
    found = prepared.open_task(str(root), 'sample', 'mtg_sg_en_en', 'train')
    assert (len(found), found.manifest['data']) == (7, 'sample')
    assert main('--sample', f'--root={root}', '--mixture=mrs_retrieval_de_de:responses') == 0
    found = prepared.open_task(str(root), 'sample', 'mrs_retrieval_de_de', 'responses')
    assert (len(found), found[1]['cluster']) == (5, 'c0')
    pipeline.use_root(None)


def test_a_task_file_of_ones_own_counts_as_input(root, tmp_path):
    (root / 'mine.jsonl').write_text('{"a": "the river", "b": "old"}\n')
    with own_task_file.used(tmp_path / 'own') as path:
        (done,) = run(root, 'mine_x')
        assert [entry['path'] for entry in done.manifest['inputs']] == ['mine.jsonl', str(path)]
        assert run(root, 'mine_x')[0].fresh
        path.write_text(path.read_text() + '# changed\n')
        own_task_file.forget()
        assert not run(root, 'mine_x')[0].fresh


def test_splits_that_are_the_same_are_pointed_out(root, capsys):
    """Loudly, once; whatever their files are called, and whichever was prepared first."""
    for name in ('src', 'trg'):
        folder = root / 'mtg' / 'qg' / 'en'
        shutil.copy(folder / f'train.{name}', folder / f'validation.{name}')
    run(root, 'mtg_qg_en_en')
    assert 'WARNING' not in capsys.readouterr().out
    run(root, 'mtg_qg_en_en', 'mtg_qg_de_de', splits='train,validation')
    said = [line for line in capsys.readouterr().out.splitlines() if 'WARNING' in line]
    assert said == [
        'WARNING: mtg_qg_en_en has the very same examples in train and validation; a model is '
        'scored on validation with what it was trained on'
    ]
    run(root, 'mtg_qg_en_en', 'mtg_qg_de_de', splits='train,validation')
    assert 'WARNING' not in capsys.readouterr().out


def test_real_xquad(dev_data, tmp_path, vocabulary_file):
    os.symlink(dev_data / 'xquad', tmp_path / 'xquad')
    shutil.copy(vocabulary_file, tmp_path / 'sample.model')
    names = [f'xquad_qg_{lang}_{lang}' for lang in ('en', 'de', 'es', 'zh')]
    done = run(tmp_path, *names, 'xquad_qg_en_zh', splits='train,validation,test')
    total = sum(d.manifest['num_examples'] for d in done if d.job.task == 'xquad_qg_en_zh')
    assert total == 1190
    tasks = [prepared.open_task(str(tmp_path), 'sample', name, 'test') for name in names]
    ids = [{task[i]['id'] for i in range(len(task))} for task in tasks]
    assert all(found == ids[0] for found in ids)
    pipeline.use_root(None)


# --- Processes.


def wait_for(condition, seconds=90):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, 'waited in vain'
        time.sleep(0.02)


def start(command, **environment):
    """A process in the repository, so that `python -m xlbench...` finds it."""
    streams = dict.fromkeys(('stdout', 'stderr'), subprocess.DEVNULL)
    place = pathlib.Path(__file__).parents[2]
    return subprocess.Popen(command, cwd=place, env=os.environ | environment, **streams)


def is_running(pid):
    try:
        with open(f'/proc/{pid}/stat') as file:
            return file.read().rpartition(')')[2].split()[0] != 'Z'
    except OSError:
        return False


def test_kill_leaves_nothing_that_opens_and_a_rerun_gives_the_same_bytes(root):
    mtg_files.write_mtg(root, {'train': 12_000}, tasks=('qg',))
    command = [sys.executable, '-m', 'xlbench.prepare', '--mixture=mtg_cross_qg_en']
    command += ['--split=train', f'--root={root}']
    process = start(command)
    try:
        wait_for(lambda: glob.glob(f'{root}/prepared/sample/*/.train.*.tmp/parts/*'))
    finally:
        process.kill()
        process.wait()
    opened = []
    for lang in ('de', 'fr', 'es'):
        with contextlib.suppress(prepared.NotPrepared):
            opened.append(prepared.open_task(str(root), 'sample', f'mtg_qg_en_{lang}', 'train'))
    assert len(opened) < 3  # It was killed in the middle, ...
    for found in opened:  # ... and what was complete by then is whole.
        found.read(range(len(found)))
    with pytest.raises(prepared.NotPrepared):
        prepared.open_mixture(str(root), 'sample', 'mtg_cross_qg_en', 'train')
    other = start(command)  # Two at once share the work.
    try:
        wait_for(lambda: glob.glob(f'{root}/prepared/sample/*/.train.*-{other.pid}.tmp/parts/*'))
        done = run(root, 'mtg_cross_qg_en')
        assert other.wait() == 0
    finally:
        other.kill()
        other.wait()
    assert len(done) == 3 and any(one.fresh for one in done)
    rerun = tree(root / 'prepared')
    assert not [path for path in rerun if '/.' in path]  # What was half written is gone.
    shutil.rmtree(root / 'prepared')
    run(root, 'mtg_cross_qg_en')
    assert tree(root / 'prepared') == rerun


@pytest.mark.parametrize('force', [False, True])
def test_what_another_process_prepares_is_waited_for_and_used(root, monkeypatch, force):
    run(root, 'mtg_qg_en_de')
    place = prepared.folder(str(root), 'sample', 'mtg_qg_en_de', 'train')
    before = tree(place)
    os.rename(place, root / 'aside')
    holds, waits, read = threading.Event(), threading.Event(), []

    def prepare_elsewhere():
        with prepared.alone(place):
            holds.set()
            waits.wait()
            os.rename(root / 'aside', place)

    said = []
    monkeypatch.setattr(prepared.writer, '_say', lambda line: (said.append(line), waits.set()))
    texts = examples_lib.encoded_texts
    spy = lambda task, split: read.append(task.name) or texts(task, split)  # noqa: E731
    monkeypatch.setattr(examples_lib, 'encoded_texts', spy)
    thread = threading.Thread(target=prepare_elsewhere)
    thread.start()
    holds.wait()
    [done] = run(root, 'mtg_qg_en_de', force=force)
    thread.join()
    [line] = said
    assert f'waiting for {place}, in use by process {os.getpid()} on ' in line
    assert (done.fresh, read) == (not force, ['mtg_qg_en_de'] * force)
    assert tree(place) == before


def test_a_vocabulary_that_is_there_may_be_kept(tmp_path, capsys):
    path = tmp_path / 'x.model'
    path.write_bytes(b'old')
    arguments = ['--mixture=mtg_multi_qg', f'--new_vocabulary={path}', f'--root={tmp_path}']
    assert main(*arguments) == 2
    assert main(*arguments, '--if_missing') == 0
    assert capsys.readouterr().out == f'{path} is there already\n'
    assert path.read_bytes() == b'old' and os.listdir(tmp_path) == ['x.model']


def test_one_command_trains_a_vocabulary_and_prepares_with_it(root):
    """With the result of two commands."""
    shared = [f'--root={root}', '--mixture=mtg_qg_en_de:train']
    one, two = root / 'one.model', root / 'two.model'
    sizes = ['--vocabulary_size=300', '--vocabulary_type=bpe']
    assert main(*shared, '--texts=mtg_multi_qg:train', f'--new_vocabulary={one}', *sizes) == 0
    texts = [f'--root={root}', '--mixture=mtg_multi_qg:train', f'--new_vocabulary={two}']
    assert main(*texts, *sizes) == 0
    assert main(*shared, f'--vocabulary={two}') == 0
    assert one.read_bytes() == two.read_bytes()
    places = [prepared.folder(str(root), str(path), 'mtg_qg_en_de', 'train') for path in (one, two)]
    assert places[0] != places[1]
    files = [sorted(pathlib.Path(place).glob('*.array_record')) for place in places]
    first, second = ([path.read_bytes() for path in of_one] for of_one in files)
    assert first and first == second


@pytest.mark.skipif(sys.platform != 'linux', reason='looks into /proc')
def test_workers_end_with_their_parent():
    code = (
        'import time, worker_jobs\n'
        'from xlbench.system.work import Pool\n'
        'if __name__ == "__main__":\n'
        '    with Pool(2) as pool:\n'
        '        list(pool.run(worker_jobs.wait, [(60,), (60,)]))\n'
    )
    path = pathlib.Path(worker_jobs.__file__).parent
    process = start([sys.executable, '-c', code], PYTHONPATH=str(path))
    children = pathlib.Path(f'/proc/{process.pid}/task/{process.pid}/children')
    try:
        # Two workers and multiprocessing's resource tracker.
        wait_for(lambda: len(children.read_text().split()) == 3)
        time.sleep(0.5)
        found = [int(pid) for pid in children.read_text().split()]
    finally:
        process.kill()
        process.wait()
    wait_for(lambda: not any(map(is_running, found)), seconds=30)


def test_number_of_workers(monkeypatch):
    jobs = [jobs_lib.Job('a', str(i)) for i in range(5)]
    monkeypatch.setattr(mixtures.tokenizers, 'num_threads', lambda: 8)
    small = dict.fromkeys(jobs, mixtures.Size(1000, 10))
    large = dict.fromkeys(jobs, mixtures.Size(2**28, 10**6))
    assert mixtures.num_workers(None, jobs, small) == 1
    assert mixtures.num_workers(None, jobs, large) == 5
    assert mixtures.num_workers(3, jobs, small) == 3
    assert mixtures.num_workers(3, [], small) == 1
    assert mixtures.num_processes(None) == 8 and mixtures.num_processes(3) == 3


def test_an_error_in_a_worker_comes_out():
    shared, done = jobs_lib.Shared.make(), []
    with (
        pytest.raises(errors.UserError, match='job 2 is bad'),
        Pool(2, jobs_lib.start_worker, shared, 1) as pool,
    ):
        # At most four are under way, so that three have ended before the last one begins.
        for number in pool.run(worker_jobs.job, ((n,) for n in (1, 3, 4, 5, 6, 7, 2))):
            done.append(number)
    assert len(done) >= 3 and set(done) <= {1, 3, 4, 5, 6, 7}
    assert shared.examples.value >= 4


def test_skips_are_shared():
    shared = jobs_lib.Shared.make(2)
    assert [shared.allow_skip() for _ in range(4)] == [True, True, False, False]
