"""What a task file says of its files, read without TensorFlow; and the labels of a run."""

import json
import sys

import pytest

from xlbench import config as config_lib, pipeline
from xlbench.pipeline import declarations, late
from xlbench.system import errors


@pytest.fixture(autouse=True)
def root(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = declarations.names()
    with pipeline.bound(None, str(tmp_path)):
        yield tmp_path
    declarations.remove(declarations.names() - before)


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
        'chat',
        'en',
        files={'train': 'chat.json', 'test': 'chat.jsonl'},
        dialogue='turns',
        text='said',
        drop_seen=False,
    )
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
    with pytest.raises(errors.UserError, match="task table_de: where is 'en'; give texts by name"):
        pipeline.register_classification_task('table_de', files=files, where='en')


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


@pytest.mark.parametrize('function', [late.seqio, late.tensorflow])
def test_an_installation_without_tensorflow_says_it_in_one_line(function, monkeypatch):
    for name in ('tensorflow', 'seqio'):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(errors.UserError, match=r'which is not installed here \(requirements-core'):
        function()
