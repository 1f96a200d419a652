"""Tests of tasks/masakhanews.py."""

import csv
import gzip
import os

import mtg_files
import pytest
import seqio
import task_records

from xlbench import pipeline
from xlbench.benchmarks import MASAKHANEWS, languages

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
    mtg_files.write_vocabulary(root)
    return root


def examples(name, split):
    return [
        (e['inputs_pretokenized'].decode(), e['targets_pretokenized'].decode())
        for e in task_records.examples(name, split)
    ]


def test_articles_and_headlines_of_each_split(root):
    for part, split, articles in (('train', 'train', 5), ('dev', 'validation', 23)):
        pairs = examples('masakhanews_tg_fr_fr', split)
        assert len(pairs) == articles
        text = f'<fr> Die "alte" Brücke {part} 1. Leute gehen heim.'
        assert pairs[1] == (text, 'fra Titel 1')
    task = pipeline.get('masakhanews_tg_en_en')
    assert [task.num_input_examples(split) for split in SPLITS] == [5, 23, 3]
    assert {type(m).__name__ for m in task.metric_fns} >= {'MultilingualRouge', 'SacreBleu'}


def test_splits_of_the_dev_file_alone(root):
    name = 'masakhanews_tgdev_en_en'
    titles = {split: [title for _, title in examples(name, split)] for split in SPLITS}
    assert titles['validation'] == ['eng Titel 8', 'eng Titel 18']
    assert titles['test'] == ['eng Titel 9', 'eng Titel 19']
    assert len(titles['train']) == 19 and len({*titles['train'], *titles['test']}) == 21
    counted = [pipeline.get(name).num_input_examples(split) for split in SPLITS]
    assert counted == [19, 2, 2]


def test_every_task_and_mixture(root):
    pipeline.get('masakhanews_tg_en_en')
    names = [n for n in seqio.TaskRegistry.names() if n.startswith('masakhanews_')]
    assert sorted(names) == sorted(MASAKHANEWS.task_names()) and len(names) == 2 * 16
    for scenario in MASAKHANEWS.scenarios():
        mixture = pipeline.get(scenario.mixture)
        assert sorted(task.name for task in mixture.tasks) == sorted(scenario.train)
    zero_shot = MASAKHANEWS.scenario('zero_shot', 'tg')
    assert zero_shot.train == ('masakhanews_tg_en_en',)
    assert zero_shot.evaluate[:2] == ('masakhanews_tg_fr_fr', 'masakhanews_tg_am_am')
    assert len(zero_shot.evaluate) == 15
    assert len(MASAKHANEWS.scenario('multi', 'tg').evaluate) == 16


def test_every_language_reads_its_folder(root):
    assert sorted(languages.get(lang).alpha3 for lang in MASAKHANEWS.languages) == CODES.split()
    for lang in MASAKHANEWS.languages:
        source = pipeline.get(f'masakhanews_tg_{lang}_{lang}').source
        [record, *others] = source._read('test', *source.paths('test'))
        assert record['headline'] == f'{languages.get(lang).alpha3} Titel 0' and len(others) == 2


def test_packed_files_and_an_article_without_a_headline(root, tmp_path):
    path = write(tmp_path, 'eng', 'dev', 3)
    text = path.read_text(encoding='utf-8').replace('eng Titel 1', ' ')
    path.unlink()
    path.with_name('dev.tsv.gz').write_bytes(gzip.compress(text.encode()))
    pipeline.use_root(str(tmp_path))
    source = pipeline.get('masakhanews_tg_en_en').source
    records = list(source._read('validation', *source.paths('validation')))
    assert [isinstance(record, dict) for record in records] == [True, False, True]
    # The line on which its quoted cells begin; the cells before it have line breaks, too.
    assert 'headline' in str(records[1]) and ':5' in str(records[1])


def test_real_files(dev_data, tmp_path, made):
    os.symlink(dev_data / 'masakhanews', tmp_path / 'masakhanews')
    os.symlink(made / 'sample.model', tmp_path / 'sample.model')
    pipeline.use_vocabulary('sample', str(tmp_path))
    for lang, articles in (('en', 472), ('fr', 211)):
        task = pipeline.get(f'masakhanews_tgdev_{lang}_{lang}')
        assert sum(task.num_input_examples(split) for split in SPLITS) == articles
    pairs = examples('masakhanews_tgdev_fr_fr', 'test')
    assert len(pairs) == 21 and all(len(text) > len(title) > 0 for text, title in pairs)
    pipeline.use_root(None)
