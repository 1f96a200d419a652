"""What a task file says of its files, read without TensorFlow; and the labels of a run."""

import json
import sys

import pytest

from xlbench import config as config_lib, pipeline
from xlbench.pipeline import late, registry
from xlbench.system import errors


@pytest.fixture(autouse=True)
def root(tmp_path, monkeypatch):
    pipeline.get('mtg_qg_en_en')  # It stays.
    monkeypatch.chdir(tmp_path)
    before = registry.names()
    with pipeline.bound(None, str(tmp_path)):
        yield tmp_path
    registry.remove(registry.names() - before)


def write(name, *objects):
    lines = (json.dumps(value) + '\n' for value in objects)
    with open(name, 'w', encoding='utf-8') as file:
        file.write(''.join(lines))


def rows(task, split='train'):
    source = task.source
    chunks = list(source.chunks(split, source.paths(split)))
    assert sum(len(next(iter(c.values()))) for c in chunks) == source.num_input_examples(split)
    return chunks[0]


def test_dialogues_as_they_are_published(root):
    """Objects of turns whose keys the user names; the ending of a file says how it is read."""
    said = [{'who': name, 'said': f'{name} said'} for name in ('Anna', 'Ben', 'Cem')]
    with open('chat.json', 'w', encoding='utf-8') as file:
        json.dump([{'turns': said}, {'turns': ['one', 'two']}], file)
    write('chat.jsonl', {'turns': said[:2]})
    tasks = pipeline.register_dialogue_tasks(
        'chat', 'en', files={'train': 'chat.json', 'test': 'chat.jsonl'}, dialogue='turns',
        text='said', drop_seen=False,
    )  # fmt: skip
    assert [task.name for task in tasks] == ['chat_retrieval_en_en', 'chat_generation_en_en']
    found = rows(tasks[0])
    assert found['message'] == ['Anna said', 'Ben said', 'one']
    assert found['reply'] == ['Ben said', 'Cem said', 'two']
    assert rows(tasks[0], 'test')['reply'] == ['Ben said']


@pytest.mark.parametrize(
    'arguments, message',
    [
        ({}, "dialogue 1 has no 'dialogue'; the file is read as json: format=, dialogue= and te"),
        ({'dialogue': 'turns'}, "turn 1 of dialogue 1 has no 'text'; it has 'who', 'said'; the fi"),
        ({'format': 'lines'}, 'the file is read as lines: format=, separator= of the task say how'),
    ],
)
def test_the_message_names_the_argument(root, arguments, message):
    with open('chat.json', 'w', encoding='utf-8') as file:
        json.dump([{'turns': [{'who': 'Anna', 'said': 'Hi.'}] * 2}], file)
    task, _ = pipeline.register_dialogue_tasks(
        'chats', 'en', files={'train': 'chat.json'}, **arguments
    )
    with pytest.raises(errors.UserError) as raised:
        rows(task)
    assert message in str(raised.value)


@pytest.mark.parametrize('beside', [True, False])
def test_a_table_with_a_column_of_languages(root, beside):
    """What is said of files stands in `Files`, or beside a plain mapping."""
    lines = [f'text {i};{"ab"[i % 2]};{"de" if i % 3 else "en"}' for i in range(9)]
    (root / 'all.csv').write_text('\n'.join(['text;label;language', *lines]))
    about = {'separator': ';', 'where': {'language': 'en'}}
    files = {'train': 'all.csv'}
    given = {'files': files, **about} if beside else {'files': pipeline.Files(files, **about)}
    task = pipeline.register_classification_task('table_en', lang='en', **given)
    assert rows(task) == {'text_a': ['text 0', 'text 3', 'text 6'], 'label': ['a', 'b', 'a']}
    assert pipeline.labels(task) == ('a', 'b')


def test_a_dry_run_knows_the_labels_of_all_languages(root, monkeypatch):
    """Three languages with unequal labels, none of them prepared."""
    for lang, labels in (('de', 'gut schlecht'), ('fr', 'gut neutral'), ('it', 'schlecht gut')):
        write(f'{lang}.jsonl', *({'text': 'a', 'label': label} for label in labels.split()))
        pipeline.register_classification_task(
            f'mood3_{lang}', files={'train': f'{lang}.jsonl'}, lang=lang
        )
    pipeline.add_mixture('mood3_all', [f'mood3_{lang}' for lang in ('de', 'fr', 'it')])
    monkeypatch.setattr(pipeline.registry.task_files, 'find', lambda word: None)
    found = config_lib.declared_labels(['mood3_all'], str(root))
    assert found == {
        'mood3_de': ('gut', 'schlecht'),
        'mood3_fr': ('gut', 'neutral'),
        'mood3_it': ('gut', 'schlecht'),
    }
    config_lib.check_splits([('mood3_all', 'train')])
    with pytest.raises(errors.UserError, match=r"\(in mixture mood3_all\) has no split 'x'"):
        config_lib.check_splits([('mood3_all', 'x')])


# What is right of each call.
CALLS = {
    'register_text_task': {'fields': {'inputs': 'a', 'targets': 'b'}},
    'register_classification_task': {},
    'register_tagging_task': {},
    'register_dialogue_tasks': {'name': 'kinds', 'lang': 'de'},
    'register_summarisation_tasks': {
        'name': 'kinds', 'lang': 'en', 'summaries': {'en': 'short', 'de': 'short_de'},
    },
    'register_translation_tasks': {'name': 'kinds', 'source_lang': 'en', 'target_lang': 'de'},
}  # fmt: skip


@pytest.mark.parametrize(
    ('call', 'change', 'message'),
    [
        ('text', {'format': 'tsw'}, r"unknown format 'tsw'; nearest: tsv"),
        ('text', {'fields': {'inputs': 'a'}}, "fields has no 'targets'"),
        ('text', {'columns': ('a', 'c')}, r"column 'b' is not in \['a', 'c'\]"),
        ('text', {'name': 'mtg_qg_en_en'}, 'is there already'),
        ('text', {'files': 'x.jsonl'}, "files is 'x.jsonl'; give a path for each split"),
        ('text', {'files': {'train': ['a.jsonl', 'b.jsonl']}}, 'a pattern of several files, such'),
        ('text', {'files': {}}, 'files is {}; give a path'),
        ('text', {'files': {'my split': 'x.jsonl'}}, "files is {'my split': 'x.jsonl'}; give"),
        ('text', {'fields': ('inputs', 'targets')}, 'give texts by name, such as'),
        ('text', {'fields': {'inputs': 'a', 'targets': ['b']}}, 'give texts by name'),
        ('text', {'columns': 'ab'}, "columns is 'ab'; give a list of texts"),
        ('text', {'columns': {'a', 'b'}}, 'columns is .*; give a list of texts'),
        ('text', {'lang': ['de']}, r"lang is \['de'\]; give a text"),
        ('text', {'quotes': 'no'}, "quotes is 'no'; give True or False"),
        ('text', {'metrics': 'rouge'}, "metrics is 'rouge'; give a list of metrics"),
        ('text', {'metrics': lambda targets, predictions: {}}, 'give a list of metrics'),
        ('text', {'headline': 'crf', 'lang': 'de'}, "unknown score in headline of .* 'crf'"),
        ('text', {'name': ['x']}, r"register_text_task: \['x'\] is not a name of a task"),
        ('text', {'name': 'kinds x'}, 'is not a name of a task'),
        ('text', {'filez': {}}, 'register_text_task: got an unexpected keyword argument .filez.'),
        ('classification', {'files': {'test': 'a.csv'}}, "no split 'train' to read its labels"),
        ('classification', {'labels': ('a', 'a')}, 'give two or more, each once'),
        ('classification', {'labels': 'ab'}, "labels is 'ab'; give a list of texts"),
        ('classification', {'labels': {'a', 'b'}}, 'labels is {.*; give a list'),
        ('classification', {'labels': [0, 1]}, r'labels is \[0, 1\]; give a'),
        ('classification', {'keep': 'id'}, "keep is 'id'; give a list"),
        ('classification', {'shots': 4}, r'shots is 4; give pipeline.Shots'),
        ('classification', {'text': ('a', 'b', 'c')}, 'names one column, or two'),
        ('classification', {'files': {'train': 'a.docx'}}, 'does not say its format'),
        ('classification', {'where': 'en'}, "task kinds_x: where is 'en'; give texts by name"),
        ('tagging', {'files': 'x.conll'}, "files is 'x.conll'; give a path"),
        ('tagging', {'word_column': '0'}, "is '0'; give a whole number"),
        ('tagging', {'format': 'xml'}, "unknown format 'xml'"),
        ('tagging', {'files': {'train': 'a.conll', 'test': 'a.conllu'}}, 'have the formats'),
        ('tagging', {'files': {'train': 'a.iob2'}, 'tag_column': 3}, 'columns of iob2'),
        ('tagging', {'files': {'train': 'a.conllu'}, 'tag_column': 10}, 'is 10; .* conllu has 10'),
        ('tagging', {'files': {'train': 'a.conll'}, 'word_column': -5}, 'word_column is -5; col'),
        (
            'tagging', {'files': {'test': 'a.conll'}, 'shots': pipeline.Shots()},
            "no split 'train' to draw shots from",
        ),
        ('dialogue', {'files': ['x']}, r"files is \['x'\]; give a path"),
        ('dialogue', {'separator': ['|']}, r"separator is \['|'\]; give"),
        ('dialogue', {'separator': ' '}, "separator ' ' would cut at spaces"),
        ('dialogue', {'format': 'jsom'}, "unknown format 'jsom'; nearest: json"),
        ('dialogue', {'name': 'my_chat'}, "'my_chat' has a _, where the name of a benchmark ends"),
        ('summarisation', {'name': 'my_meetings'}, "'my_meetings' has a _"),
        ('summarisation', {'summaries': {}}, r'summaries is \{\}; give each language its key'),
        ('summarisation', {'summaries': ['de']}, r"summaries is \['de'\]; give texts by name"),
        ('summarisation', {'keep': ['id', 'targets']}, "keep has 'targets'"),
        ('summarisation', {'lang': None}, 'lang is None; give a text'),
        ('translation', {'name': 'my_own'}, "'my_own' has a _"),
        ('translation', {'target_lang': 'en'}, "both languages are 'en'; name two"),
        ('translation', {'fields': {'en': 'a', 'fr': 'b'}}, 'fields has en, fr; it names the col'),
        ('translation', {'files': {'train': 'x.txt'}}, 'name of x.txt does not say its format'),
        ('translation', {'files': {'train': ('a', 'b', 'c')}}, r"files is \{.*or two paths, such"),
        ('translation', {'files': 'x.tmx'}, r"files is 'x.tmx'; give a path for each split"),
    ],
)  # fmt: skip
def test_mistakes_are_refused_in_one_line_when_a_task_is_registered(call, change, message):
    (name,) = (name for name in CALLS if name.startswith(f'register_{call}_'))
    arguments = {'name': 'kinds_x', 'files': {'train': 'x.jsonl'}} | CALLS[name]
    before = registry.names()
    with pytest.raises(errors.UserError, match=message) as caught:
        getattr(pipeline, name)(**(arguments | change))
    assert '\n' not in str(caught.value) and registry.names() == before


@pytest.mark.parametrize('function', [late.seqio, late.tensorflow])
def test_an_installation_without_tensorflow_says_it_in_one_line(function, monkeypatch):
    for name in ('tensorflow', 'seqio'):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(errors.UserError, match=r'which is not installed here \(requirements-core'):
        function()
