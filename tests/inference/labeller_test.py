"""Classifiers and taggers that answer new texts: what the evaluator wrote, formats, refusals."""

import csv
import functools
import io
import json
import pathlib
import random
import re
import shutil
from typing import NamedTuple
from unittest import mock

import edits
import fake_hub
import jax
import numpy as np
import pytest
import tiny_labels
import tokenizer_files

from xlbench import config as config_lib, convert, evaluate, pipeline, predict, runs
from xlbench.data import actions, readers
from xlbench.dialogues import triples
from xlbench.inference import answer_lines, exported
from xlbench.metrics.tagging import CUT
from xlbench.parallel import partitioning
from xlbench.system.errors import UserError
from xlbench.tasks.mrs_build import pairs, plugins
from xlbench.training import checkpoints, objectives, train_step

WORDS = [word for text in tokenizer_files.SENTENCES.values() for word in text.split()]
KINDS = {'texts': 'classification', 'pairs': 'classification', 'words': 'tagging'}


class Run(NamedTuple):
    """A workdir with fresh parameters, its task's test split, and what the evaluator wrote."""

    kind: str
    workdir: pathlib.Path
    records: list[dict]
    predictions: list[str]


def made_up(kind: str) -> list[dict]:
    """Records as readers give them; some are longer than the limit."""
    rng = random.Random(kind)

    def text() -> str:
        return ' '.join(rng.choices(WORDS, k=rng.choice([1, 2, 3, 5, 7])))

    labels = tiny_labels.LABELS[KINDS[kind]]
    if kind == 'words':
        sentences = [text() for _ in range(45)]
        return [
            {'words': words, 'tags': ' '.join(rng.choices(labels, k=len(words.split())))}
            for words in sentences
        ]
    keys = ['text_a'] if kind == 'texts' else ['text_a', 'text_b']
    return [{key: text() for key in keys} | {'label': rng.choice(labels)} for _ in range(45)]


def write_run(kind: str, folder: pathlib.Path) -> Run:
    """Encodes with the pipeline, saves fresh parameters, evaluates them."""
    view = KINDS[kind]
    vocabulary = tokenizer_files.write(folder / 'bert', 'bert-cased')
    labels, task = tiny_labels.LABELS[view], tiny_labels.TASKS[view][0]
    tokenizer = pipeline.use_vocabulary(vocabulary, str(folder))
    records = made_up(kind)
    if kind == 'words':
        encode = pipeline.preprocessors.tagging_encoder(labels)
    else:
        texts = [name for name in records[0] if name != 'label']
        encode = pipeline.preprocessors.classification_encoder(labels, texts)
    rows = list(map(encode, records))
    facts = dict(vocabulary=tokenizer.manifest(), name=vocabulary)
    prepared = tiny_labels.write_task(folder, view, task, 'test', rows, **facts)
    config = tiny_labels.tiny_config(folder, view, evals__test__tasks=(task,))
    config.data.vocabulary = vocabulary
    with config.unlocked():
        config.model.type_vocab_size = 2
        del config.evals['dev']
    about = {
        'tasks': {task: {'source_lang': 'en', 'target_lang': 'en', 'trained': True}
                  | runs.num_texts(prepared)},
        'vocabulary': tokenizer.manifest(),
        'labels': labels,
    }  # fmt: skip
    workdir = folder / 'run'
    config_lib.claim_workdir(str(workdir), config, about)
    model = runs.build_model(config.model, tokenizer.vocab_size, labels)
    mesh = partitioning.make_mesh(devices=jax.devices()[:1])
    objective = objectives.build(**config.objective)
    params = train_step.init_params(model, objective, mesh, jax.random.key(1))
    # As they are, all texts would have the same label.
    params = jax.tree.map(lambda x: 30 * x if x.ndim > 1 else x, jax.device_get(params))
    checkpoints.save_params(str(workdir), 0, params)
    evaluate.main(['evaluate', f'--workdir={workdir}', '--split=test', '--step=last'])
    lines = (workdir / 'eval' / '0' / 'test' / task / 'predictions.jsonl').read_text().splitlines()
    return Run(kind, workdir, records, [json.loads(line)['prediction'] for line in lines])


@pytest.fixture(scope='module')
def made(tmp_path_factory):
    return {kind: write_run(kind, tmp_path_factory.mktemp(kind)) for kind in KINDS}


@pytest.fixture(scope='module')
def models(made):
    return {kind: predict.load(str(run.workdir), batch_size=8) for kind, run in made.items()}


def sides(record: dict) -> tuple[str, ...]:
    return tuple(text for name, text in record.items() if name.startswith('text'))


@pytest.mark.filterwarnings('ignore:.* were longer than')
def test_answers_are_the_evaluators(made, models):
    for kind in ('texts', 'pairs'):
        model, run = models[kind], made[kind]
        inputs = [sides(record) for record in run.records]
        answers = model.classify([x if kind == 'pairs' else x[0] for x in inputs])
        assert [answer.label for answer in answers] == run.predictions
        assert len(set(run.predictions)) > 1 and model.num_cut > 0
        for answer in answers:
            assert sum(answer.probabilities.values()) == pytest.approx(1, abs=1e-5)
            assert next(iter(answer.probabilities)) == answer.label
            assert max(answer.probabilities.values()) == answer.probability
    model, run = models['words'], made['words']
    answers = model.tag([record['words'] for record in run.records])
    assert [' '.join(answer.tags) for answer in answers] == run.predictions
    assert any(CUT in answer.tags for answer in answers)
    assert answers == model.tag([record['words'].split() for record in run.records])
    for answer in answers:
        assert [p == 0 for p in answer.probabilities] == [tag == CUT for tag in answer.tags]


def test_answers_depend_on_the_text_alone(made, models):
    pair = [sides(record) for record in made['pairs'].records]
    alone = [models['pairs'].classify([x])[0] for x in pair[:3]]
    together = models['pairs'].classify(pair[:3])
    for one, other in zip(alone, together, strict=True):
        assert one.probabilities == pytest.approx(other.probabilities, abs=1e-5)


def test_a_space_inside_a_word_is_no_text_of_its_own(models):
    """Readers of treebanks delete it."""
    spaced, plain = models['words'].tag([['the words', 'are'], ['thewords', 'are']])
    assert (spaced.tags, spaced.words) == (plain.tags, ('the words', 'are'))


@pytest.mark.filterwarnings('ignore:.* were longer than')
def test_an_exported_folder_answers_alike(made, models, tmp_path):
    for kind in KINDS:
        folder = tmp_path / kind
        convert.main(['convert', str(made[kind].workdir), str(folder), '--step=last'])
        model = predict.load(str(folder), batch_size=8, max_input_length=20)
        assert list(model.labels) == tiny_labels.LABELS[KINDS[kind]]
        texts = [record.get('words') or sides(record) for record in made[kind].records[:9]]
        call = model.tag if kind == 'words' else model.classify
        own = models[kind].tag if kind == 'words' else models[kind].classify
        found, expected = (
            [a.tags if kind == 'words' else a.label for a in answers(texts)]
            for answers in (call, own)
        )
        assert found == expected
        convert.main(['convert', str(folder), str(tmp_path / f'{kind}_again')])
        again = predict.load(str(tmp_path / f'{kind}_again'), batch_size=8, max_input_length=20)
        assert again.labels == model.labels
        assert getattr(again, call.__name__)(texts[:1]) == call(texts[:1])
    config = json.loads((tmp_path / 'texts' / 'config.json').read_text())
    for changes, message in (
        ({'problem_type': 'regression'}, 'chooses no single label: its problem_type is regression'),
        ({'id2label': {'0': 'a', '2': 'b', 'x': 'c'}}, 'id2label is not an object with a text for'),
    ):
        (tmp_path / 'texts' / 'config.json').write_text(json.dumps(config | changes))
        with pytest.raises(UserError, match=message):
            predict.load(str(tmp_path / 'texts'))
    with pytest.raises(UserError, match=r'length is 600, but .* has positions for 32 tok'):
        predict.load(str(made['texts'].workdir), max_input_length=600)


def test_tags_of_another_program_are_read_from_first_pieces(made, tmp_path, capsys):
    ours, theirs = tmp_path / 'ours', tmp_path / 'theirs'
    convert.main(['convert', str(made['words'].workdir), str(ours), '--step=last'])
    shutil.copytree(ours, theirs)
    (theirs / exported.NOTES).unlink()
    words = [made['words'].records[i]['words'] for i in range(9)]
    probabilities = {}
    for folder, rule in ((ours, 'last'), (theirs, 'first')):
        convert.main(['convert', str(folder), f'{folder}_run'])
        said = f"the tag of a word is read from its pieces by the rule '{rule}'"
        assert (said in capsys.readouterr().out) == (rule == 'first')
        config = json.loads((tmp_path / f'{folder.name}_run' / 'config.json').read_text())
        assert config['config']['objective'].get('word_piece', 'last') == rule
        answers = predict.load(str(folder), batch_size=8, max_input_length=20).tag(words)
        probabilities[rule] = np.concatenate([answer.probabilities for answer in answers])
    assert np.abs(probabilities['last'] - probabilities['first']).max() > 1e-3


def test_a_model_that_diverged_is_said_to(models, monkeypatch):
    for model, call in ((models['texts'], 'classify'), (models['words'], 'tag')):
        monkeypatch.setattr(model, '_params', jax.tree.map(lambda x: x * np.nan, model._params))
        with pytest.raises(UserError, match=r'are not finite: the training .* has diverged'):
            getattr(model, call)(['the words'])


@pytest.mark.parametrize(
    'kind, inputs, message',
    [
        ('texts', 'one text', 'classify takes a list of texts, not one text'),
        ('texts', ['a', ('a', 'b')], r'texts\[1\]: the input is a pair of texts, and .* single'),
        ('pairs', ['a'], r'texts\[0\]: the input is a single text, and .* trained on pairs'),
        ('pairs', [('a', ' ')], r'texts\[0\]: the second text is empty'),
        ('texts', ['a', ''], r'texts\[1\]: the text is empty'),
        ('texts', [7], 'neither a text nor a pair of texts'),
        ('texts', ['\ud800'], 'half a character'),
        ('words', ['a', ' '], r'texts\[1\]: the sentence is empty; a tagger needs at least'),
        ('words', [['a', '']], r'texts\[0\]: word 2 is empty'),
        ('words', [['a', 5]], r'texts\[0\]: word 2 is 5, not a text'),
        ('words', [{'a': 1}], 'neither a text nor a list of words'),
    ],
)
def test_mistakes(models, kind, inputs, message):
    call = models[kind].tag if kind == 'words' else models[kind].classify
    with edits.refused(message):
        call(inputs)


# --------------------------------------------------------------------------------- the command line


@pytest.fixture
def call(models, monkeypatch, tmp_path, capsys):
    """Runs the command line on a loaded model: what it writes."""

    def main(kind, name, text, *arguments):
        monkeypatch.setattr(predict, 'load', lambda spec, **options: models[kind])
        (tmp_path / name).write_text(text)
        assert predict.main(['predict', 'RUN', f'--input={tmp_path / name}', *arguments]) == 0
        return capsys.readouterr().out

    return main


def lines(*rows) -> str:
    return ''.join(f'{row}\n' for row in rows)


def test_labels_of_lines_and_records(call, made, models):
    texts = [sides(record)[0] for record in made['texts'].records[:3]]
    found = models['texts'].classify(texts)
    assert call('texts', 'in.txt', lines(*texts)) == lines(*(a.label for a in found))
    scored = call('texts', 'in.txt', lines(*texts), '--scores').splitlines()
    for line, answer in zip(scored, found, strict=True):
        probability, label = line.split('\t')
        assert float(probability) == pytest.approx(answer.probability, abs=1e-4)
        assert label == answer.label
    best = call('texts', 'in.txt', lines(texts[0]), '--num_return=2').splitlines()
    assert best == [f'1\t{label}' for label in list(found[0].probabilities)[:2]]
    pairs = [sides(record) for record in made['pairs'].records[:3]]
    expected = [a.label for a in models['pairs'].classify(pairs)]
    assert call('pairs', 'in.tsv', lines(*('\t'.join(p) for p in pairs))) == lines(*expected)
    records = [{'id': i, 'premise': a, 'hypothesis': b} for i, (a, b) in enumerate(pairs)]
    flags = '--field=premise,hypothesis', '--scores'
    out = call('pairs', 'in.jsonl', lines(*map(json.dumps, records)), *flags)
    rows = [json.loads(line) for line in out.splitlines()]
    assert [row.pop('prediction') for row in rows] == expected
    assert all(0.3 < row.pop('score') <= 1 for row in rows) and rows == records


def test_tables_keep_their_columns(call, made, models, tmp_path):
    texts = [sides(record)[0] for record in made['texts'].records[:3]]
    found = models['texts'].classify(texts)
    rows = [{'id': f'{i}', 'review': t, 'note': 'a "b",\nc'} for i, t in enumerate(texts)]
    for name, flags in (('in.csv', ()), ('in.tsv', ()), ('in.any', ('--input_format=tsv',))):
        mark = ',' if name == 'in.csv' else '\t'
        text = io.StringIO()
        table = csv.DictWriter(text, rows[0], delimiter=mark, lineterminator='\n')
        table.writeheader(), table.writerows(rows)
        out = call('texts', name, text.getvalue(), '--field=review', '--scores', *flags)
        written = [*csv.DictReader(io.StringIO(out), delimiter=mark)]
        scores = [float(row.pop('score')) for row in written]
        assert scores == pytest.approx([a.probability for a in found], abs=1e-4)
        labels = [row.pop('prediction') for row in written]
        assert labels == [a.label for a in found] and written == rows
    best = call('texts', 'in.csv', 'text\n' + lines(*texts), '--num_return=2').splitlines()
    assert best[0] == 'text,prediction_1,prediction_2'
    assert best[1].endswith(','.join([*found[0].probabilities][:2]))
    assert call('texts', 'in.csv', 'text,x\n') == 'text,x,prediction\n'
    plain = call('texts', 'in.csv', 'text\n' + lines(*texts), '--format=text')
    assert plain == lines(*(a.label for a in found))
    sentences = ['the words', 'this is read']
    tags = [' '.join(answer.tags) for answer in models['words'].tag(sentences)]
    out = call('words', 'in.csv', 'tokens\n' + lines(*sentences))
    assert out == 'tokens,prediction\n' + lines(*map(','.join, zip(sentences, tags, strict=True)))


def test_parquet_is_read_and_written(call, made, models, tmp_path):
    import pyarrow
    from pyarrow import parquet

    texts = [sides(record)[0] for record in made['texts'].records[:3]]
    found = models['texts'].classify(texts)
    labels = [answer.label for answer in found]
    numbers, tags = [1, None, 3], [['a'], [], ['b', 'c']]
    columns = {'text': texts, 'n': pyarrow.array(numbers, pyarrow.int8()), 'tags': tags}
    parquet.write_table(pyarrow.table(columns), tmp_path / 'kept.parquet')
    # The fixture writes a text; the table is named by a flag that comes later.
    flags = f'--input={tmp_path / "kept.parquet"}'
    out = [json.loads(line) for line in call('texts', 'in.txt', '', flags).splitlines()]
    assert [row['prediction'] for row in out] == labels
    assert [row['n'] for row in out] == numbers and [row['tags'] for row in out] == tags
    out = call('texts', 'in.txt', '', flags, '--format=csv').splitlines()
    assert out[0] == 'text,n,tags,prediction' and out[2].endswith(f',,[],{labels[1]}')
    # As Parquet, where the name of the output says so.
    output = tmp_path / 'out.parquet'
    assert call('texts', 'in.txt', '', flags, f'--output={output}', '--scores') == ''
    table = parquet.read_table(output)
    assert table.schema.field('n').type == pyarrow.int8() and table['n'].to_pylist() == numbers
    assert table.column_names == ['text', 'n', 'tags', 'prediction', 'score']
    assert table['prediction'].to_pylist() == labels
    scores = [answer.probability for answer in found]
    assert table['score'].to_pylist() == pytest.approx(scores, abs=1e-4)
    # Of a CSV, whose cells are texts; tags are lists.
    output = tmp_path / 'tags.parquet'
    call('words', 'in.csv', 'id,tokens\n007,the words\n', '--scores', f'--output={output}')
    (row,) = parquet.read_table(output).to_pylist()
    (tagged,) = models['words'].tag(['the words'])
    assert row.pop('score') == pytest.approx(tagged.probabilities, abs=1e-4)
    assert row == {'id': '007', 'tokens': 'the words', 'prediction': list(tagged.tags)}


CONLLU = """# text = of words
1\tof\tof\tX\t_\t_\t0\troot\t_\t_
2-3\tarethe\t_\t_\t_\t_\t_\t_\t_\tSpaceAfter=No
2\tare\tare\tX\t_\t_\t0\troot\t_\tA=b
3\tthe\tthe\tX\t_\t_\t0\troot\t_\t_
3.1\tmade\t_\t_\t_\t_\t_\t_\t_\t_

"""


def test_tags_of_lines_records_and_conll(call, models):
    sentences = [['the', 'words'], ['this', 'is', 'read']]
    found = models['words'].tag(sentences)
    tags = [' '.join(answer.tags) for answer in found]
    plain = lines('the  words', ' this\tis read')
    assert call('words', 'in.txt', plain) == lines(*tags)
    first = call('words', 'in.txt', plain, '--scores').splitlines()[0]
    assert first.endswith(f'\t{tags[0]}') and len(first.split('\t')[0].split()) == 2
    records = [{'id': 1, 'tokens': s} for s in sentences]
    out = call('words', 'in.jsonl', lines(*map(json.dumps, records)), '--scores').splitlines()
    for row, record, answer in zip(map(json.loads, out), records, found, strict=True):
        assert row.pop('score') == pytest.approx(answer.probabilities, abs=1e-4)
        assert row == record | {'prediction': list(answer.tags)}
    (a, b), (c, d, e) = (answer.tags for answer in found)
    # One column, several with TABs, several with spaces; blank lines between and behind.
    conll = '\n\nthe\tX\tO\nwords\tY\tO\n\n\nthis X\nis Y\nread Z'
    expected = f'the\tX\tO\t{a}\nwords\tY\tO\t{b}\n\nthis X {c}\nis Y {d}\nread Z {e}\n\n'
    assert call('words', 'in.conll', conll) == expected
    document = '-DOCSTART- -X- O\n\n# id = 1\nthe X O\nwords Y O\n'
    expected = f'-DOCSTART- -X- O\n\n# id = 1\nthe X O {a}\nwords Y O {b}\n\n'
    assert call('words', 'in.conll', document) == expected
    assert call('words', 'in.conll', 'the\nwords\n') == f'the\t{a}\nwords\t{b}\n\n'
    assert call('words', 'in.txt', plain, '--format=conll').startswith(f'the\t{a}\nwords\t{b}\n\n')
    as_text = call('words', 'in.any', conll, '--input_format=conll', '--format=text')
    assert as_text == lines(*tags)
    (answer,) = models['words'].tag([['of', 'are', 'the']])
    rows = call('words', 'in.conllu', CONLLU).split('\n')
    old = CONLLU.split('\n')
    changed = dict(zip((1, 3, 4), answer.tags, strict=True))
    for place, row in enumerate(old):
        columns = row.split('\t')
        if place in changed:
            columns[3] = changed[place]
        assert rows[place] == '\t'.join(columns)
    scored = call('words', 'in.conllu', CONLLU, '--scores').split('\n')
    assert scored[3].split('\t')[9].startswith('A=b|TagProbability=0.')


@pytest.mark.parametrize(
    'kind, name, text, arguments, message',
    [
        ('texts', 'in.txt', 'a\nb\tc\n', (), r'in.txt:2: the input is a pair .* TAB can come as'),
        ('texts', 'in.txt', 'a\n\n', (), 'in.txt:2: the text is empty'),
        ('pairs', 'in.txt', 'a\n', (), r'in.txt:1: the input is a single text.* with a TAB betwee'),
        ('pairs', 'in.txt', 'a\tb\tc\n', (), 'in.txt:1: the line has 3 texts with TABs between'),
        ('pairs', 'in.jsonl', '{"text_a": "a"}', (), "in.jsonl:1: unknown field 'text_b'; nearest"),
        ('words', 'in.txt', 'a\n \n', (), 'in.txt:2: the sentence is empty'),
        ('words', 'in.jsonl', '{"words": ["a"]}', (), "unknown field 'tokens'.* Set --field"),
        ('words', 'in.conllu', '\n1\ta\n', (), 'in.conllu:2: line 1 of the sentence has 2 TAB-'),
        ('words', 'in.txt', 'a', ('--format=conllu',), '--format=conllu needs CoNLL-U as input'),
        ('texts', 'in.conll', 'a', (), 'conll is for taggers, and .* is not one; give text or'),
        ('texts', 'in.txt', 'a', ('--format=conll',), '--format=conll is for taggers'),
        ('texts', 'in.txt', 'a', ('--num_beams=2',), '--num_beams is for .* RUN is a classifier'),
        ('texts', 'in.txt', 'a', ('--target_lang=de',), '--target_lang is for models that write'),
        ('texts', 'in.txt', 'a', ('--num_return=4',), 'has 3 labels: 1 to 3 are allowed'),
        ('words', 'in.txt', 'a', ('--num_return=2',), '--num_return is for .* is a tagger; it tak'),
        ('words', 'in.txt', 'a', ('--rerank=other',), '--rerank is for models that write or find'),
        ('texts', 'in.csv', 'text,prediction\na,b\n', (), "has a column 'prediction', which the p"),
        ('texts', 'in.csv', 'text,text\na,b\n', (), "two columns are called 'text'"),
        ('texts', 'in.csv', 'review\na\n', (), "unknown field 'text'; nearest: review|unknown fi"),
        ('texts', 'in.csv', 'text,x\na\n', (), r'in\.csv:2: 1 column instead of 2'),
        ('texts', 'in.csv', '', (), 'the file is empty'),
        ('texts', 'in.csv', 'a\n', ('--format=parquet',), 'is written to a file: give --output'),
        ('texts', 'in.txt', 'a\n', ('--format=csv',), 'csv needs a table as input: csv, tsv'),
    ],
)
def test_a_wrong_kind_of_input_is_one_line(call, kind, name, text, arguments, message):
    with edits.refused(message):
        call(kind, name, text, *arguments)


def test_formats_by_name():
    endings = ('jsonl.gz', 'conll', 'conllu', 'tsv', 'csv.gz', 'parquet')
    assert [answer_lines.format_of(f'x.{s}') for s in endings] == [
        'jsonl', 'conll', 'conllu', 'text', 'csv', 'parquet'
    ]  # fmt: skip


@pytest.mark.parametrize(
    'place, value, message',
    [
        (('config',), 5, 'has no config, so .* is not a workdir of xlbench.train'),
        (('config', 'data'), [1], r'Expected `object`, got `array` - at `\$.config.data`'),
        (('config', 'data', 'root'), 7, r'Expected `str`, got `int` - at `\$.config.data.root`'),
        (('config', 'objective'), 'x', 'got `str`'),
        (('config', 'lora', 'rank'), '²', r'Expected `int`, got `str` - at `\$.config.lora.rank`'),
        (('config', 'evals', 'test', 'lengths', 'inputs'), 10**30, r'lengths.inputs'),
        (('tasks', 'fewshot_mldoc_en_en', 'texts'), {'a': 1}, '`int | null`, got `object`'),
        (('config', 'model', 'emb_dim'), ['x'], 'emb_dim is '),
        (('config', 'model', 'num_heads'), -1, 'num_heads is -1'),
        (('labels',), 'abc', 'Expected `array | null`'),
        (('vocabulary',), [1], 'Expected `object | null`, got `array`'),
        (('seed',), functools.reduce(lambda x, _: [x], range(80), 1), 'is nested too deeply'),
    ],
)  # fmt: skip
def test_a_strange_config_json_is_one_line(made, tmp_path, place, value, message):
    workdir = tmp_path / 'run'
    shutil.copytree(made['texts'].workdir, workdir, ignore=shutil.ignore_patterns('eval'))
    with edits.edited(workdir / 'config.json') as block:
        for key in place[:-1]:
            block = block[key]
        block[place[-1]] = value
    for call in (
        lambda: predict.load(str(workdir)),
        lambda: evaluate.main(['evaluate', f'--workdir={workdir}', '--step=last']),
        lambda: convert.main(['convert', str(workdir), str(tmp_path / 'out')]),
    ):
        with edits.refused(message.replace('|', r'\|')):
            call()


def test_triples_are_those_of_the_tagger_s_tags(made, models, tmp_path, capsys):
    texts = [' '.join(WORDS[start : start + 3]) + '.' for start in range(0, 24, 3)]
    path = tmp_path / 'talk.json'
    path.write_text(json.dumps([{'dialogue': '\n'.join(f'Anna: {text}' for text in texts)}]))
    assert triples.main(['triples', str(path), f'--tagger={made["words"].workdir}']) == 0
    tokens = [one for text in texts for one in actions.sentences(text)]
    answers = models['words'].tag(tokens)
    expected = [
        [' '.join(words[slice(*span)]) for span in triple[:3]]
        for words, answer in zip(tokens, answers, strict=True)
        for triple in actions.extract(words, answer.tags)
    ]
    written = list(readers.read_triples(str(tmp_path / 'talk.triples.tsv')))
    assert [[r['subject'], r['relation'], r['object']] for r in written] == expected
    assert f'{len(expected)} triples of {len(tokens)} sentences' in capsys.readouterr().out
    assert len(expected) > 1
    with pytest.raises(UserError, match='is not a tagger'):
        triples.main(['triples', str(path), f'--tagger={made["texts"].workdir}'])


@pytest.mark.filterwarnings('ignore:.* were longer than')
def test_a_classifier_says_what_is_too_toxic_for_a_build_of_mrs(made, models):
    """Its folder stands for a scorer: the probability of a label."""
    folder = str(made['texts'].workdir)
    texts = [record['text_a'] for record in made['texts'].records[:12]]
    expected = [answer.probabilities['bad'] for answer in models['texts'].classify(texts)]
    assert plugins.scorer(folder, 'bad')(texts, 'en') == pytest.approx(expected, rel=1e-4)
    limit = sorted(expected)[6] - 1e-6
    fields = dict(toxicity=folder, max_toxicity=limit, strict_toxicity='', toxic_label='bad')
    options = mock.Mock(**fields)
    kept = pairs.not_toxic(options, texts, 'en', [False] * 12)
    assert kept == [probability <= limit for probability in expected] and kept.count(False) == 6
    assert re.fullmatch('classifier [0-9a-f]{16}', plugins.scorer_identity(folder))
    with pytest.raises(UserError, match=r"unknown label in --toxic_label of .* 'toxic'"):
        plugins.scorer(folder, 'toxic')
    with pytest.raises(UserError, match='is not a classifier of texts'):
        plugins.scorer(str(made['words'].workdir), 'toxic')


@pytest.mark.filterwarnings('ignore:.* were longer than')
def test_what_is_too_toxic_is_said_by_a_classifier_of_the_hub(made, models, tmp_path, monkeypatch):
    folder = tmp_path / 'exported'
    convert.main(['convert', str(made['texts'].workdir), str(folder)])
    (folder / 'pytorch_model.bin').write_bytes(b'?')
    hub = fake_hub.FakeHub(folder, monkeypatch)
    texts = [record['text_a'] for record in made['texts'].records[:4]]
    expected = [answer.probabilities['bad'] for answer in models['texts'].classify(texts)]
    given = plugins.scorer('judges/tiny', 'bad')(texts, 'en')
    assert given == pytest.approx(expected, rel=1e-3)
    assert not list(hub.snapshot.glob('*.bin'))
    for place in (folder, hub.snapshot):
        (place / 'model.safetensors').unlink()
    with pytest.raises(UserError, match=r'judges/other has no model\.safetensors in the hub'):
        plugins.scorer_identity('judges/other')
