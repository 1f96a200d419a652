"""Tests of corpora whose splits are ours: tasks/xquad.py, and tasks/masakhanews.py."""

import csv
import gzip
import json

import mtg_files
import pytest
import task_records
from task_records import examples

from xlbench import pipeline
from xlbench.benchmarks import MASAKHANEWS, languages
from xlbench.data import readers
from xlbench.tasks import xquad

SPLITS = ('train', 'validation', 'test')
CODES = 'amh eng fra hau ibo lin lug orm pcm run sna som swa tir xho yor'  # Folders of the corpus.
COLUMNS = ('category', 'headline', 'text', 'url')


def write(root, lang, part, articles):
    """A table as the corpus has them: quoted cells with quotes and line breaks in them."""
    path = root / 'masakhanews' / lang / f'{part}.tsv'
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open('w', encoding='utf-8', newline='') as file:
        table = csv.writer(file, delimiter='\t', lineterminator='\n')
        table.writerow(COLUMNS)
        for i in range(articles):
            text = f'Die  "alte" Brücke {part} {i}.\n\nLeute gehen heim.'
            table.writerow(('sports', f'{lang} Titel {i}', text, f'https://example.org/{i}'))
    return path


@pytest.fixture(scope='module')
def made(tmp_path_factory):
    root = tmp_path_factory.mktemp('made')
    for lang in CODES.split():
        for part, articles in (('train', 5), ('dev', 23), ('test', 3)):
            write(root, lang, part, articles)
    mtg_files.write_xquad(root)
    mtg_files.write_vocabulary(root)
    return root


# --- Questions.


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
        found = {s: [record['id'] for record in task_records.read(name, s)] for s in SPLITS}
        articles[name] = {s: {i.split('-')[0] for i in ids} for s, ids in found.items()}
        assert sum(map(len, found.values())) == 20 * 2 * 2
        counted = {s: pipeline.get(name).num_input_examples(s) for s in SPLITS}
        assert counted == {s: len(ids) for s, ids in found.items()}
    assert articles['xquad_qg_en_en'] == articles['xquad_qg_de_es']
    train, validation, test = (articles['xquad_qg_en_en'][s] for s in SPLITS)
    assert (len(train), len(validation), len(test)) == (16, 2, 2)
    assert not train & validation | train & test | validation & test


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
    found = list(xquad.read('', 'en', 'de', 'train', str(paths['en']), str(paths['de'])))
    bad = [str(record) for record in found if isinstance(record, readers.BadRecord)]
    assert bad[0].startswith(str(paths[lang])) and 'has the id' in bad[0]
    pairs = {record['id']: record for record in found if not isinstance(record, readers.BadRecord)}
    _, first = question(root, 'de', 0, 0, 0)
    assert pairs[first['id']]['question'] == first['question']


# --- Titles.


def test_articles_and_headlines_of_each_split(root):
    for part, split, articles in (('train', 'train', 5), ('dev', 'validation', 23)):
        found = examples('masakhanews_tg_fr_fr', split)
        assert len(found) == articles
        text = f'<fr> Die "alte" Brücke {part} 1. Leute gehen heim.'
        assert found[1]['inputs_pretokenized'].decode() == text
        assert found[1]['targets_pretokenized'] == b'fra Titel 1'
    task = pipeline.get('masakhanews_tg_en_en')
    assert [task.num_input_examples(split) for split in SPLITS] == [5, 23, 3]


def test_splits_of_the_dev_file_alone(root):
    name = 'masakhanews_tgdev_en_en'
    titles = {s: [record['headline'] for record in task_records.read(name, s)] for s in SPLITS}
    assert titles['validation'] == ['eng Titel 8', 'eng Titel 18']
    assert titles['test'] == ['eng Titel 9', 'eng Titel 19']
    assert len(titles['train']) == 19 and len({*titles['train'], *titles['test']}) == 21
    counted = [pipeline.get(name).num_input_examples(split) for split in SPLITS]
    assert counted == [19, 2, 2]


def test_scenarios():
    assert len(MASAKHANEWS.task_names()) == 2 * 16
    zero_shot = MASAKHANEWS.scenario('zero_shot', 'tg')
    assert zero_shot.train == ('masakhanews_tg_en_en',)
    assert zero_shot.evaluate[:2] == ('masakhanews_tg_fr_fr', 'masakhanews_tg_am_am')
    assert len(zero_shot.evaluate) == 15
    assert len(MASAKHANEWS.scenario('multi', 'tg').evaluate) == 16


def test_every_language_reads_its_folder(root):
    assert sorted(languages.get(lang).alpha3 for lang in MASAKHANEWS.languages) == CODES.split()
    for lang in MASAKHANEWS.languages:
        source = pipeline.get(f'masakhanews_tg_{lang}_{lang}').source
        [record, *others] = source.read('test', *source.paths('test'))
        assert record['headline'] == f'{languages.get(lang).alpha3} Titel 0' and len(others) == 2


def test_packed_tables_and_an_article_without_a_headline(root, tmp_path):
    path = write(tmp_path, 'eng', 'dev', 3)
    text = path.read_text(encoding='utf-8').replace('eng Titel 1', ' ')
    path.unlink()
    path.with_name('dev.tsv.gz').write_bytes(gzip.compress(text.encode()))
    pipeline.use_root(str(tmp_path))
    source = pipeline.get('masakhanews_tg_en_en').source
    records = list(source.read('validation', *source.paths('validation')))
    assert [isinstance(record, dict) for record in records] == [True, False, True]
    # The line on which its quoted cells begin; the cells before it have line breaks, too.
    assert 'headline' in str(records[1]) and ':5' in str(records[1])
