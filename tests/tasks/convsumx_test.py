"""Tests of tasks/convsumx.py and tasks/dialogsum.py, and of the benchmarks that they read."""

import json

import mtg_files
import pytest
import task_records
from put_files import put

from xlbench import metrics, pipeline, score
from xlbench.data import __main__ as data_main, postprocess, prepared
from xlbench.evaluators import baselines
from xlbench.prepare import mixtures
from xlbench.system import errors

LANGUAGES = ('en', 'zh', 'fr', 'uk')
BUS = {'en': 'Ann misses a bus.', 'zh': '安没赶上车。', 'fr': 'Ann rate un bus.', 'uk': 'Анна.'}


def talk(name):
    summaries = {f'{lang}_summary': f' {text}' for lang, text in BUS.items()}
    return {'fname': name, 'en_dialogue': '#Person1#: Hi.\n#Person2#: Bye. ', **summaries}


def meeting(name):
    keys = {lang: 'ukr' if lang == 'uk' else lang for lang in LANGUAGES}
    queries = {f'{key}_query': f'Query in {lang}' for lang, key in keys.items()}
    summaries = {f'{key}_summary': BUS[lang] for lang, key in keys.items()}
    return {'fname': name, 'dialogue': 'grad a: OK.', **queries, **summaries}


def chat(name, **more):
    return {'fname': name, 'dialogue': f'#Person1#: Hello, {name}!', **more}


def trial(name):
    """A dialogue of the test split: three summaries and topics."""
    summaries = {f'summary{i}': f'They greet {i}.' for i in (1, 2, 3)}
    return chat(name, **summaries, **{f'topic{i}': f'greeting {i}' for i in (1, 2, 3)})


FILES = {
    'convsumx/DialogSumX/dialogsumx.train.jsonl': [talk('dev_1'), talk('dev_2'), talk('dev_3')],
    'convsumx/DialogSumX/dialogsumx.dev.jsonl': [talk('dev_4')],
    'convsumx/DialogSumX/dialogsumx.test.jsonl': [talk('test_0'), talk('test_1')],
    'convsumx/QMSumX/qmsumx.dev.jsonl': [meeting('a_1'), meeting('a_2')],
    'dialogsum/dialogsum.train.jsonl': [
        chat(f'train_{i}', summary=f'They greet {i}.', topic='tea') for i in range(4)
    ],
    'dialogsum/dialogsum.dev.jsonl': [chat('dev_0', summary='Ann.', topic='tea')],
    'dialogsum/dialogsum.test.jsonl': [trial('test_0'), trial('test_1')],
    'dialogsum/dialogsum.hiddentest.dialogue.jsonl': [chat('hidden_0'), chat('hidden_1')],
    'dialogsum/dialogsum.hiddentest.topic.jsonl': [
        {'fname': 'hidden_1', 'topic': 'the sea'}, {'fname': 'hidden_0', 'topic': 'a dog'},
    ],
}  # fmt: skip


def write(root, path, objects):
    return put(root, path, ''.join(json.dumps(o, ensure_ascii=False) + '\n' for o in objects))


@pytest.fixture(scope='module')
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp('convsumx')
    for path, objects in FILES.items():
        write(folder, path, objects)
    mtg_files.write_vocabulary(folder)
    return folder


@pytest.mark.parametrize(
    ('name', 'split', 'expected'),
    [
        ('convsumx_dialogsumx_en_zh', 'train',
         {'id': 'dev_1', 'inputs': '#Person1#: Hi.\n#Person2#: Bye.', 'targets': BUS['zh']}),
        ('convsumx_qmsumx_en_uk', 'validation',
         {'id': 'a_1', 'inputs': 'Query in en\ngrad a: OK.', 'targets': BUS['uk']}),
        ('convsumx_qmsumxsummary_en_fr', 'validation',
         {'id': 'a_1', 'inputs': BUS['en'], 'targets': BUS['fr']}),
        ('dialogsum_summary_en_en', 'validation',
         {'id': 'dev_0', 'inputs': '#Person1#: Hello, dev_0!', 'targets': 'Ann.',
          'references': '["Ann."]'}),
        ('dialogsum_topic_en_en', 'test',
         {'id': 'test_0', 'inputs': '#Person1#: Hello, test_0!', 'targets': 'greeting 1',
          'references': '["greeting 1", "greeting 2", "greeting 3"]'}),
        ('dialogsum_topic_en_en', 'hidden',
         {'id': 'hidden_0', 'inputs': '#Person1#: Hello, hidden_0!', 'targets': 'a dog',
          'references': '["a dog"]'}),
    ],
)  # fmt: skip
def test_what_is_read_and_written(root, name, split, expected):
    first, *others = task_records.read(name, split)
    assert first == expected
    source = pipeline.get(name).source
    assert source.num_input_examples(split) == 1 + len(others)
    example = next(iter(pipeline.get(name).get_dataset(None, split, shuffle=False)))
    tag = f'<{name[-2:]}> '
    assert example['inputs_pretokenized'].numpy().decode() == tag + expected['inputs']


@pytest.mark.parametrize(
    ('name', 'split', 'path', 'objects', 'line', 'reason'),
    [
        ('convsumx_dialogsumx_en_zh', 'validation', 'convsumx/DialogSumX/dialogsumx.dev.jsonl',
         [talk('a'), talk('a')], 2, "fname 'a' is there twice"),
        ('convsumx_dialogsumx_en_fr', 'validation', 'convsumx/DialogSumX/dialogsumx.dev.jsonl',
         [talk('a'), talk('b') | {'fr_summary': ' '}], 2, 'fr_summary is empty'),
        ('convsumx_qmsumx_en_uk', 'validation', 'convsumx/QMSumX/qmsumx.dev.jsonl',
         [{**meeting('a'), 'ukr_summary': 3}], 1, 'ukr_summary is a number, not a text'),
        ('dialogsum_summary_en_en', 'test', 'dialogsum/dialogsum.test.jsonl',
         [trial('a'), chat('b', summary='One.', topic='x')], 2, "no key 'summary1'"),
        ('dialogsum_summary_en_en', 'test', 'dialogsum/dialogsum.test.jsonl',
         [trial('a'), trial('a')], 2, "fname 'a' is there twice"),
        ('dialogsum_topic_en_en', 'hidden', 'dialogsum/dialogsum.hiddentest.dialogue.jsonl',
         [chat('hidden_0'), chat('b')], 2, "fname 'b' is not in "),
        ('dialogsum_topic_en_en', 'hidden', 'dialogsum/dialogsum.hiddentest.topic.jsonl',
         [*FILES['dialogsum/dialogsum.hiddentest.topic.jsonl'], {'fname': 'x'}], 3,
         "no key 'topic'"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_its_place(
    root, tmp_path, name, split, path, objects, line, reason
):
    for other, known in FILES.items():
        write(tmp_path, other, objects if other == path else known)
    with pipeline.bound(None, str(tmp_path)):
        (bad,) = task_records.bad(name, split)
    assert bad.startswith(str(tmp_path)) and f':{line}: ' in bad and reason in bad


def test_all_references_are_scored(made, tmp_path, capsys):
    """As SeqIO calls a postprocessor, by baselines and by xlbench.score."""
    name = 'dialogsum_summary_en_en'
    mixtures.prepare(name, 'train,test', root=str(made), vocabulary='sample')
    task, train = (prepared.open_task(str(made), 'sample', name, s) for s in ('test', 'train'))
    assert task.manifest['postprocessor'] == 'all_references'
    rows = list(task)
    with pipeline.bound('sample', str(made)):
        theirs = next(iter(pipeline.get(name).get_dataset(None, 'test', shuffle=False)))
        compared = pipeline.get(name).postprocess_fn(
            'They greet 1.', example={k: v.numpy() for k, v in theirs.items()}, is_target=True
        )
    assert compared == [f'They greet {i}.' for i in (1, 2, 3)]
    process = postprocess.Postprocess(task)
    assert process(rows, [['x'], ['y']]) == ([compared] * 2, [['x'], ['y']])
    baselines.score(str(tmp_path / 'run'), ['most_frequent'], task, train)
    place = f'baselines/most_frequent/test/{name}/metrics.json'
    about = json.loads((tmp_path / 'run' / 'eval' / place).read_text())
    # 'They greet 0.', of which two words of three are in each reference.
    assert about['scores']['rouge_1'] == pytest.approx(100 * 2 / 3)
    assert 'nrefs:3|refs:best-f1' in about['signatures']['MultilingualRouge']

    (tmp_path / 'out.txt').write_text('They greet 2.\nThey greet.\n')
    capsys.readouterr()
    arguments = [str(tmp_path / 'out.txt'), f'--task={name}', f'--root={made}']
    assert score.main([*arguments, '--vocabulary=sample', f'--workdir={tmp_path}/system']) == 0
    printed = dict(line.split() for line in capsys.readouterr().out.splitlines()[:7])
    best, mean = (100 + 80) / 2, (100 * (1 + 2 / 3 + 2 / 3) / 3 + 80) / 2
    assert float(printed['rouge_1']) == pytest.approx(best, abs=0.01)
    assert float(printed['rouge_1_mean']) == pytest.approx(mean, abs=0.01)
    lines = (tmp_path / 'system' / 'eval/0/test' / name / 'predictions.jsonl').read_text()
    assert json.loads(lines.splitlines()[0])['references'] == compared
    with pytest.raises(errors.UserError, match='references of a record of dialogsum_summary'):
        postprocess.references(task, [rows[0] | {'references': '["a", 1]'}])


def test_the_mean_over_references():
    metric = metrics.MeanRouge('en')
    names = 'rouge_1_mean', 'rouge_2_mean', 'rouge_l_mean'
    assert metric([['a b', 'c']], ['a b']) == dict.fromkeys(names, 50.0)
    assert metric(['a b'], ['a b'])['rouge_1_mean'] == 100.0
    assert 'nrefs:2|refs:mean|' in metric.signature_of([2]) and 'refs' not in metric.signature


def test_lengths_as_a_table(made, tmp_path, capsys):
    """Turns, speakers, words, of Chinese characters, tokens; of several references the mean."""
    names = 'convsumx_dialogsumx_en_zh', 'dialogsum_topic_en_en'
    flags = [f'--root={made}', '--splits=test', '--vocabulary=bytes', '--format=csv']
    assert data_main.main(['data', 'statistics', *names, *flags]) == 0
    lines = [line.split(',') for line in capsys.readouterr().out.splitlines()[-3:]]
    assert lines[1] == [
        'convsumx_dialogsumx_en_zh test', 'en', 'zh', '2', '2.0', '2.0', '4.0', '6.0', '30.0',
        '18.0',
    ]  # fmt: skip
    assert lines[2][4:8] == ['1.0', '1.0', '3.0', '2.0']
    rows = [{'d': ['Ann: Hi!', 'Oh: no'], 's': 'x y'}, {'d': 'a', 's': 'b'}]
    own = write(tmp_path, 'own.jsonl', rows)
    keys = '--inputs=d', '--targets=s', '--lang=en'
    assert data_main.main(['data', 'statistics', own, *keys]) == 0
    row = capsys.readouterr().out.splitlines()[4]
    assert row.endswith('| 2 | 1.5 | 1.0 | 2.5 | 1.5 |')
    for arguments, message in (
        ([own], "own.jsonl:1: no key 'dialogue'"),
        ([names[0], flags[0], '--splits=tset'], "unknown split of convsumx.*'tset'; nearest: test"),
        ([names[0], f'--root={tmp_path}'], 'no file of task convsumx_dialogsumx_en_zh is in'),
    ):
        with pytest.raises(errors.UserError, match=message):
            data_main.main(['data', 'statistics', *arguments])
