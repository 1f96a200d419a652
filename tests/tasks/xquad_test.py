"""Tests of tasks/xquad.py."""

import gzip
import json
import os

import mtg_files
import pytest
import seqio
import task_records
from task_records import examples

from xlbench import pipeline
from xlbench.benchmarks import XQUAD
from xlbench.data import readers
from xlbench.tasks import xquad

SPLITS = ('train', 'validation', 'test')


@pytest.fixture(scope='module')
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp('made')
    mtg_files.write_xquad(folder)
    mtg_files.write_vocabulary(folder)
    return folder


def question(root, lang, article, paragraph, number):
    data = json.loads((root / 'xquad' / f'xquad.{lang}.json').read_text())['data']
    entry = data[article]['paragraphs'][paragraph]
    return entry['context'], entry['qas'][number]


def test_an_example_across_languages(root):
    example = examples('xquad_qg_zh_de', 'validation')[0]
    context, source = question(root, 'zh', 8, 0, 0)
    _, target = question(root, 'de', 8, 0, 0)
    answer = source['answers'][0]['text']
    assert example['id'].decode() == source['id'] == 'q8-0-0'
    assert example['inputs_pretokenized'].decode() == f'<de> {context} <answer> {answer}'
    assert example['targets_pretokenized'].decode() == target['question']
    assert example['targets'][-1] == 1


def test_splits_share_no_article_and_are_the_same_in_every_language(root):
    articles = {}
    for name in ('xquad_qg_en_en', 'xquad_qg_de_es'):
        found = {s: [e['id'].decode() for e in examples(name, s)] for s in SPLITS}
        articles[name] = {s: {i.split('-')[0] for i in ids} for s, ids in found.items()}
        assert sum(map(len, found.values())) == 20 * 2 * 2
        counted = {s: pipeline.get(name).num_input_examples(s) for s in SPLITS}
        assert counted == {s: len(ids) for s, ids in found.items()}
    assert articles['xquad_qg_en_en'] == articles['xquad_qg_de_es']
    train, validation, test = (articles['xquad_qg_en_en'][s] for s in SPLITS)
    assert (len(train), len(validation), len(test)) == (16, 2, 2)
    assert not train & validation | train & test | validation & test


def test_every_task_and_mixture(root):
    pipeline.get('xquad_qg_en_en')
    names = [n for n in seqio.TaskRegistry.names() if n.startswith('xquad_')]
    assert sorted(names) == sorted(XQUAD.task_names())
    converter = seqio.EncDecFeatureConverter(pack=False)
    lengths = {'inputs': 64, 'targets': 16}
    for name in names[::5]:
        dataset = seqio.get_dataset(name, lengths, converter, 'test')
        assert next(iter(dataset))['encoder_input_tokens'].shape == (64,)
    for scenario in XQUAD.scenarios():
        mixture = pipeline.get(scenario.mixture)
        assert sorted(task.name for task in mixture.tasks) == sorted(scenario.train)
    dataset = seqio.get_dataset(
        pipeline.get('xquad_cross_qg_en.equal'), lengths, converter, 'train', num_epochs=None
    )
    assert next(iter(dataset))['decoder_target_tokens'].shape == (16,)


def test_chinese_is_scored_by_character(root):
    metrics = {type(m).__name__: m for m in pipeline.get('xquad_qg_en_zh').metric_fns}
    assert metrics['SacreBleu'].tokenize == 'zh'
    assert metrics['MultilingualRouge'].lang == 'zh'


def test_a_question_without_its_translation(root, tmp_path):
    mtg_files.write_xquad(tmp_path, ('en', 'de'), articles=3)
    path = tmp_path / 'xquad' / 'xquad.de.json'
    content = json.loads(path.read_text())
    content['data'][1]['paragraphs'][0]['qas'].pop()
    path.write_text(json.dumps(content))
    pipeline.use_root(str(tmp_path))
    found = task_records.read('xquad_qg_en_de')
    bad = [record for record in found if isinstance(record, readers.BadRecord)]
    assert len(found) == 12
    assert len(bad) == 1
    assert "question q1-0-1 of article 'A1' is not in" in bad[0].reason


def test_packed_files(made, tmp_path):
    folder = tmp_path / 'xquad'
    folder.mkdir()
    for lang in XQUAD.languages:
        data = (made / 'xquad' / f'xquad.{lang}.json').read_bytes()
        (folder / f'xquad.{lang}.json.gz').write_bytes(gzip.compress(data))
    pipeline.use_root(str(tmp_path))
    assert pipeline.get('xquad_qg_es_es').num_input_examples('test') == 8
    pipeline.use_root(None)


def test_real_files(dev_data, tmp_path, made):
    os.symlink(dev_data / 'xquad', tmp_path / 'xquad')
    os.symlink(made / 'sample.model', tmp_path / 'sample.model')
    pipeline.use_vocabulary('sample', str(tmp_path))
    sizes = {
        name: [pipeline.get(name).num_input_examples(split) for split in SPLITS]
        for name in ('xquad_qg_en_en', 'xquad_qg_en_zh', 'xquad_qg_de_es')
    }
    assert len(set(map(tuple, sizes.values()))) == 1
    train, validation, test = sizes['xquad_qg_en_en']
    assert train + validation + test == 1190
    assert min(validation, test) > 60
    assert len(examples('xquad_qg_es_zh', 'test')) == test
    pipeline.use_root(None)


@pytest.mark.parametrize('lang', ['en', 'de'])
def test_a_repeated_id_pairs_no_question_with_another_answer(root, tmp_path, lang):
    paths = {}
    for name in ('en', 'de'):
        data = json.loads((root / 'xquad' / f'xquad.{name}.json').read_text())
        if name == lang:
            questions = data['data'][0]['paragraphs'][0]['qas']
            questions[1]['id'] = questions[0]['id']
        paths[name] = tmp_path / name
        paths[name].write_text(json.dumps(data))
    found = list(xquad.read('train', str(paths['en']), str(paths['de'])))
    bad = [str(record) for record in found if isinstance(record, readers.BadRecord)]
    assert bad[0].startswith(str(paths[lang])) and 'has the id' in bad[0]
    pairs = {record['id']: record for record in found if not isinstance(record, readers.BadRecord)}
    _, first = question(root, 'de', 0, 0, 0)
    assert pairs[first['id']]['question'] == first['question']
