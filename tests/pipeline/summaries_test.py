"""Dialogues and summaries of a user's own: pipeline.register_summarisation_tasks."""

import json

import mtg_files
import own_task_file
import pytest
import tensorflow as tf
from task_records import examples

from xlbench import pipeline
from xlbench.prepare import mixtures

MEETING = {
    'id': 'm1',
    'dialogue': [
        {'speaker': 'Anna', 'text': 'Hi Ben!\nDo you have the key?', 'act': 'question'},
        {'speaker': 'Ben', 'text': 'Yes.'},
        'Anna: Good.',
    ],
    'short': 'Ben has the key.',
    'short_de': 'Ben hat den Schlüssel.',
}
CHAT = {'id': 'm2', 'dialogue': 'A: Hi!\r\nB: No.', 'short': 'No.', 'short_de': 'Nein.'}
LINES = 'Anna: Hi Ben! Do you have the key?\nBen: Yes.\nAnna: Good.'


@pytest.fixture
def root(tmp_path):
    mtg_files.write_vocabulary(tmp_path)
    with own_task_file.forgotten(), pipeline.bound('sample', str(tmp_path)):
        yield tmp_path


def register(**options):
    files = {'train': 'train.jsonl', 'test': 'test.json'}
    options = {'summaries': {'en': 'short', 'de': 'short_de'}} | options
    return pipeline.register_summarisation_tasks('meetings', 'en', files=files, **options)


def texts(task, split, *names):
    names = (*names, 'inputs_pretokenized', 'targets_pretokenized')
    return [tuple(e[name].decode() for name in names) for e in examples(task.name, split)]


def test_a_call_registers_summaries_and_their_translation(root):
    (root / 'train.jsonl').write_text(json.dumps(MEETING) + '\n' + json.dumps(CHAT) + '\n')
    (root / 'test.json').write_text(json.dumps([CHAT]))
    tasks = {task.name: task for task in register(keep=['id'])}
    kinds = 'summary_en_en', 'summary_en_de', 'translation_en_de'
    assert list(tasks) == [f'meetings_{kind}' for kind in kinds]
    german = tasks['meetings_summary_en_de']
    assert texts(german, 'train', 'id') == [
        ('m1', f'<de> {LINES}', 'Ben hat den Schlüssel.'),
        ('m2', '<de> A: Hi!\r\nB: No.', 'Nein.'),
    ]
    assert texts(tasks['meetings_summary_en_en'], 'train')[0][1] == 'Ben has the key.'
    assert texts(tasks['meetings_translation_en_de'], 'test') == [('<de> No.', 'Nein.')]
    assert german.num_input_examples('train') == 2
    assert (german.source.source_lang, german.source.target_lang) == ('en', 'de')
    assert pipeline.headline(german) == 'rouge_l'
    assert [metric.lang for metric in german.metric_fns[:1]] == ['de']
    # What is prepared is what SeqIO reads.
    (done,) = mixtures.prepare(german.name, ['test'], root=str(root), vocabulary='sample')
    assert done.manifest['num_examples'] == 1


def test_autograph_reads_what_preprocessors_call():
    """Else every preparation of texts prints a warning of four lines."""
    assert callable(tf.autograph.to_graph(pipeline.tokenizer))


def test_without_a_summary_in_the_dialogue_s_language_nothing_is_translated(root):
    names = [task.name for task in register(summaries={'de': 'short_de', 'zh': 'short_zh'})]
    assert names == ['meetings_summary_en_de', 'meetings_summary_en_zh']


@pytest.mark.parametrize(
    ('turns', 'reason'),
    [
        ([], 'dialogue has no turns'),
        (7, 'dialogue is a number, not a text'),
        ([{'speaker': 'Anna'}], "turn 1 of dialogue: no key 'text'; it has 'speaker'"),
        (['A: Hi', {'speaker': 'B', 'text': ' '}], 'text of turn 2 of dialogue is empty'),
        ([['Anna', 'Hi']], 'turn 1 of dialogue is a list, not a text'),
    ],
)
def test_a_malformed_dialogue_is_named_with_its_line(root, turns, reason):
    (root / 'train.jsonl').write_text(json.dumps(MEETING | {'dialogue': turns}) + '\n')
    task = register()[0]
    (record,) = task.source.read('train', *task.source.paths('train'))
    assert reason in str(record) and 'train.jsonl:1' in str(record)
