"""Tests of SIB-200, MasakhaNER 2.0 and CrossSum, on made-up files in their official form."""

import json
import subprocess

import pytest
import warm
from put_files import put
from task_records import bad, read

from xlbench import pipeline
from xlbench.benchmarks import CROSSSUM, MASAKHANER2, SIB200, languages, topics
from xlbench.configs import fewshot_any
from xlbench.data import corpora
from xlbench.tasks import masakhaner2, sib200


@pytest.fixture
def root(tmp_path):
    """Some languages of each corpus: two sentences a topic, three a tag, two articles."""
    for lang in ('eng_Latn', 'deu_Latn', 'amh_Ethi'):
        for part in ('train', 'dev', 'test'):
            rows = [
                f'{i}\t{sib200.TOPICS[i % 7]}\t"Text ""{i}"" of {lang}."\n' for i in range(14)
            ]
            text = ''.join(['index_id\tcategory\ttext\n', *rows])
            put(tmp_path, f'sib200/{lang}/{part}.tsv', text)
    text = ''.join(f'Musa{i} B-PER\nBello I-PER\nyana O\nKano B-LOC\n\n' for i in range(3))
    for lang in ('swa', 'bbj'):
        for part in ('train', 'dev', 'test'):
            put(tmp_path, f'masakhaner2/{lang}/{part}.txt', text)
    for pair in ('english-hausa', 'hausa-english', 'hausa-hausa'):
        source, target = pair.split('-')
        rows = [
            {'source_url': f'u{i}', 'target_url': f'v{i}', 'summary': f'{target} {i}',
             'text': f'{source} {i}. More.'}
            for i in range(2)
        ]  # fmt: skip
        text = ''.join(f'{json.dumps(row)}\n' for row in rows)
        for part in ('train', 'val', 'test'):
            put(tmp_path, f'crosssum/{pair}_{part}.jsonl', text)
    with pipeline.bound('bytes', str(tmp_path)):
        yield tmp_path


def test_a_sentence_and_its_topic(root):
    for lang, folder in (('de', 'deu_Latn'), ('am', 'amh_Ethi')):
        records = read(SIB200.task_name('topic', lang), 'test')
        assert len(records) == 14
        assert records[3] == {
            'text_a': f'Text "3" of {folder}.', 'index_id': '3', 'label': 'sports', 'bucket': '',
        }  # fmt: skip
    put(root, 'sib200/deu_Latn/dev.tsv', 'index_id\tcategory\ttext\n1\tnews\tText.\n')
    (wrong,) = bad('sib200_topic_de_de', 'validation')
    assert 'news' in wrong


def test_words_and_their_tags(root):
    records = read('masakhaner2_ner_bbj_bbj', 'test')
    assert [record['tags'] for record in records] == ['B-PER I-PER O B-LOC'] * 3
    assert records[2]['words'] == 'Musa2 Bello yana Kano'
    assert {*masakhaner2.TAGS} >= {'B-PER', 'I-PER', 'O', 'B-LOC'}


def test_an_article_and_its_summary_in_another_language(root):
    for source, target in (('en', 'ha'), ('ha', 'en'), ('ha', 'ha')):
        name = CROSSSUM.task_name('news', source, target)
        names = [languages.get(lang).name for lang in (source, target)]
        assert read(name, 'validation')[1] == {
            'inputs': f'{names[0]} 1. More.', 'targets': f'{names[1]} 1', 'id': 'u1',
        }  # fmt: skip


@pytest.mark.parametrize('name', ['sib200_topic_de_de', 'masakhaner2_ner_bbj_bbj'])
def test_shots_are_drawn_from_the_training_file(root, name):
    shots = [record for record in read(name, 'shots_1') if isinstance(record, dict)]
    assert {record['bucket'] for record in shots} >= {'0', '1'}
    assert shots == [record for record in read(name, 'shots_1') if isinstance(record, dict)]


@pytest.mark.parametrize(
    ('task', 'source', 'objective', 'mixture', 'shots'),
    [
        ('sib200', 'en', 'classification', 'sib200_topic_en_en', (1, 2, 4)),
        ('masakhaner2', 'sw', 'tagging', 'masakhaner2_ner_sw_sw', (1, 2, 4)),
    ],
)
def test_a_sweep_names_the_benchmark(task, source, objective, mixture, shots):
    variant = f'tiny,task={task},source={source},objective={objective},languages=ha+ig,shots=1'
    config = fewshot_any.get_config(variant)
    assert [config.task, config.source.stages.train.mixture] == [task, mixture]
    assert topics.shots(task) == shots
    assert topics.is_tagging(task) == (objective == 'tagging')
    assert topics.task_name(task, 'ha') == mixture.replace(f'_{source}', '_ha')


@pytest.mark.nightly
def test_a_sweep_whose_source_is_not_english_has_a_report(root):
    command = [warm.python(), '-m', 'xlbench.fewshot', '--workdir=NER', '--report=NER/tables']
    command += ['--config=fewshot_any:tiny,task=masakhaner2,objective=tagging,source=sw,'
                f'languages=bbj,shots=1,buckets=2,methods=fc,steps=2,root={root}']  # fmt: skip
    command += ['--config.adapt.learning_rates=(0.01,)', '--config.adapt.epochs=1']
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr[-2000:]
    report = (root / 'NER/tables/report.md').read_text()
    for words in (
        '### Source training in Swahili', '| languages, Swahili among them | 2 |', '\n| sw | ',
        'Swahili is the language of source training', '### Lexical overlap with Swahili',
    ):  # fmt: skip
        assert words in report
    assert 'English' not in report.replace('more like English', '')


def test_published_sizes():
    sizes = [MASAKHANER2.official_size('ner', 'train', lang) for lang in MASAKHANER2.languages]
    assert None not in sizes


def test_an_archive_of_each_pair():
    corpus = corpora.CORPORA['crosssum']
    addresses = [archive.address.rpartition('/')[2] for archive in corpus.archives]
    assert len({*addresses}) == len(addresses) == 3 * 37 - 2
    assert 'english-chinese_simplified_CrossSum.tar.bz2' in addresses
    assert 'pidgin-kirundi_CrossSum.tar.bz2' not in addresses
