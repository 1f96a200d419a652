"""Which checkpoint is scored on what, and that no other result than the run's own replaces it."""

import json
import os
import pathlib
import re
import shutil
import signal
import sys
from unittest import mock

import children
import pytest
import tiny
import tiny_labels
import tiny_replies
from edits import edited, refused
from nightly import nightly

from xlbench import evaluate, predict, report, runs, train
from xlbench.evaluators import base
from xlbench.reporting import layout
from xlbench.system.errors import UserError

TASK = tiny.QUESTIONS[0]


@pytest.fixture
def run(tiny_run, tmp_path):
    """A copy of the tiny run that may be changed; its best checkpoint, 13, is not its last, 20."""
    copy = pathlib.Path(shutil.copytree(tiny_run, tmp_path / 'run'))
    shutil.copytree(copy / 'checkpoints' / '13', copy / 'checkpoints' / '20')
    return copy


def call(workdir, *arguments: str) -> None:
    evaluate.main(['evaluate', f'--workdir={workdir}', *arguments])


def new_results(workdir, before: dict[str, str]) -> dict[str, dict]:
    """{'STEP/SPLIT/TASK': content of metrics.json} of what was added; nothing else may change."""
    after = tiny.results(workdir)
    assert {name: after[name] for name in before} == before
    return {
        str(pathlib.Path(name).parent): json.loads(text)
        for name, text in after.items()
        if name not in before and name.endswith('metrics.json')
    }


def test_the_final_evaluation_repeats(run, capsys):
    """Without further words it is what the run did at its end, on the same checkpoint."""
    before = tiny.results(run)
    text = layout.screen(str(run))
    shutil.rmtree(run / 'eval' / '13' / 'test')
    call(run)
    after = tiny.results(run)
    assert list(after) == list(before)
    for name, content in before.items():
        if name.endswith('predictions.jsonl'):
            assert after[name] == content
        else:
            found, expected = json.loads(after[name]), json.loads(content)
            assert found['scores'] == pytest.approx(expected['scores'], rel=1e-5), name
    said = capsys.readouterr().out
    assert f'step 13 of {run} on 2 tasks, test' in said
    assert text.partition('\nrun')[0] in said


def test_a_step_a_split_and_other_tasks(run, capsys):
    before = tiny.results(run)
    call(run, '--step=20', '--split=train', f'--tasks={tiny.TITLES[0]}', '--batch_size=16')
    (place, result), *others = new_results(run, before).items()
    assert (place, others) == (f'20/train/{tiny.TITLES[0]}', [])
    assert (result['step'], result['num_examples']) == (20, tiny.SIZES['train'])
    assert (result['stage'], result['split']) == ('evaluate', 'train')
    assert result['decoding'] == {'method': 'greedy', 'max_length': 8}


def test_texts_are_ranked_anew_as_predict_does_it(run, retriever_run, tmp_path, capsys):
    """By a retriever, and by a model of the other direction; a report shows them beside the run."""
    before = tiny.results(run)
    reverse = shutil.copytree(run, tmp_path / 'reverse')  # The same weights, of other tasks.
    with edited(reverse / 'config.json') as about:
        about['tasks'] = {f'reverse_{name}': task for name, task in about['tasks'].items()}
    flags = [f'--tasks={TASK}', '--num_examples=9', '--num_beams=3', '--num_return=2']
    call(run, *flags, f'--rerank={retriever_run}', '--rerank_weight=0.5')
    call(run, *flags, f'--mmi_model={reverse}')
    with refused(r'is trained on mtg_qg_de_de, as .* is, and writes'):
        call(run, *flags, f'--mmi_model={run}')
    found = new_results(run, before)
    ways = [f'rerank-{retriever_run.name}-weight0.5', 'mmi-reverse']
    split = 'test-first9-beam-num_beams3-num_return2'
    assert list(found) == [f'13/{split}-{way}/{TASK}' for way in sorted(ways)]
    model, retriever = predict.load(str(run)), predict.load(str(retriever_run))
    rankers = predict.Relevance(retriever, 0.5), predict.Mmi(model)
    for way, ranks in zip(ways, rankers, strict=True):
        folder = run / 'eval' / '13' / f'{split}-{way}' / TASK
        rows = [json.loads(line) for line in (folder / 'predictions.jsonl').open()]
        texts = [row['input'].removeprefix('<en> ') for row in rows]
        langs = dict(source_lang='en', target_lang='en')
        answers = model.generate(texts, num_return=2, num_beams=3, reranker=ranks, **langs)
        assert len(rows) == 9
        for row, expected in zip(rows, answers, strict=True):
            assert [one['prediction'] for one in row['n_best']] == [one.text for one in expected]
            scores = [one['score'] for one in row['n_best']]
            assert scores == pytest.approx([one.score for one in expected], rel=1e-3, abs=1e-3)
    decoding = found[f'13/{split}-{ways[0]}/{TASK}']['decoding']
    assert decoding['rerank'] == str(retriever_run) and decoding['weight'] == 0.5
    assert (decoding['num_beams'], decoding['num_return']) == (3, 2)
    capsys.readouterr()
    assert report.main([str(run), '--step=13', '--variants']) == 0
    said = capsys.readouterr().out
    assert all(f'| run, first9-beam-num_beams3-num_return2-{way} |' in said for way in ways)
    with pytest.raises(UserError, match='a single answer cannot be ranked again'):
        call(run, f'--rerank={retriever_run}')
    with pytest.raises(UserError, match='--rerank ranks texts that a model writes'):
        call(retriever_run, f'--rerank={retriever_run}', f'--output={run.parent / "other"}')


def test_a_part_is_filed_apart(run, capsys):
    """Fewer examples than the run's own result has, or more, never replace or join it."""
    before = tiny.results(run)
    shown = layout.screen(str(run))
    call(run, f'--tasks={TASK}', '--num_examples=5')
    call(run, '--like=dev', f'--tasks={TASK}', '--step=last', '--num_examples=0')
    found = new_results(run, before)
    assert set(found) == {f'13/test-first5/{TASK}', f'20/validation-all/{TASK}'}
    numbers = {result['split']: result['num_examples'] for result in found.values()}
    assert numbers == {'test-first5': 5, 'validation-all': tiny.SIZES['validation']}
    assert layout.screen(str(run)) == shown
    assert 'test-first5 split' in layout.screen(str(run), split='test-first5')
    assert 'on 1 tasks, test-first5' in capsys.readouterr().out


def test_a_workdir_that_is_only_read(run, tmp_path, capsys):
    """The results go to another folder, which reports read and which is of one run."""
    before = {path: path.stat().st_mtime_ns for path in run.rglob('*')}
    output = tmp_path / 'elsewhere'
    for _ in range(2):  # The same command may be given again.
        call(run, f'--tasks={TASK}', '--num_examples=5', f'--output={output}')
        assert {path: path.stat().st_mtime_ns for path in run.rglob('*')} == before
    result = json.loads((output / f'eval/13/test-first5/{TASK}/metrics.json').read_text())
    assert result['num_examples'] == 5
    assert 'test-first5 split, step 13' in layout.screen(str(output), split='test-first5')
    assert 'test-first5 split, step 13' in capsys.readouterr().out
    (output / 'config.json').write_text('{}')
    with pytest.raises(UserError, match=r'elsewhere holds results of another run than .*; name'):
        call(run, f'--tasks={TASK}', f'--output={output}')


def test_another_decoding_is_filed_apart(run):
    before = tiny.results(run)
    call(run, f'--tasks={TASK}', '--num_examples=5', '--num_beams=2', '--length_penalty=0.6')
    ((place, result),) = new_results(run, before).items()
    assert place == f'13/test-first5-beam-num_beams2-length_penalty0.6/{TASK}'
    assert result['decoding'] == {
        'method': 'beam', 'max_length': 8, 'num_beams': 2, 'length_penalty': 0.6,
    }  # fmt: skip


def test_the_configs_own_decoding_needs_no_words(run):
    """A config that decodes with beams is evaluated with beams, and filed as its own."""
    with edited(run / 'config.json') as about:
        about['config']['evals']['test']['decoding'] = {'method': 'beam', 'num_beams': 2}
    call(run, f'--tasks={TASK}')
    result = json.loads((run / f'eval/13/test/{TASK}/metrics.json').read_text())
    assert result['decoding'] == {'method': 'beam', 'max_length': 8, 'num_beams': 2}
    assert result['num_examples'] == tiny.SIZES['test']


@pytest.mark.parametrize(
    'arguments, message',
    [
        (['--step=5'], "has no checkpoint '5'; it has best, last, 7, 13"),
        (['--step=latest'], "has no checkpoint 'latest'; it has best, last, 7, 13"),
        (['--like=tets'], "unknown evaluation of the config 'tets'; nearest: test"),
        (['--num_beams=0'], 'num_beams is 0; it must be 1 to 2'),
        (['--method=bean'], "unknown --method 'bean'; nearest: beam"),
        (['--top_k=3', '--num_beams=2'], 'top_k is for sample'),
        (['--num_beans=2'], 'unrecognized arguments: --num_beans=2'),
        (['--split=../test'], "split '../test' is not a plain name"),
        (['--tasks=mtg_qg_en_xx'], "unknown task in --tasks 'mtg_qg_en_xx'; nearest: mtg_qg"),
    ],
)
def test_mistakes(tiny_run, arguments, message):
    before = tiny.results(tiny_run)
    with refused(re.escape(message)):
        call(tiny_run, *arguments)
    assert tiny.results(tiny_run) == before


def test_a_split_that_may_be_missing_and_is(run):
    with edited(run / 'config.json') as about:
        evals = about['config']['evals']
        evals['dev2'] = evals['test'] | {'split': 'missing', 'optional': True}
    message = "no task of the run has the split 'missing'"
    with mock.patch.object(runs, 'ensure'), refused(message):
        call(run, '--like=dev2')


def test_an_unknown_split_is_one_line(tiny_run, tmp_path, monkeypatch):
    """The child that prepares says which; here it only has to be asked for the right thing."""
    asked = tmp_path / 'asked'
    child = tmp_path / 'child.sh'
    child.write_text(f'#!/bin/sh\necho "$@" > {asked}\nexit 2\n')
    child.chmod(0o755)
    monkeypatch.setattr(sys, 'executable', str(child))
    with pytest.raises(SystemExit) as stopped:
        call(tiny_run, '--tasks=mtg_qg_en_de', '--split=tset')
    assert stopped.value.code == 2
    assert '--mixture=mtg_qg_en_de:tset' in asked.read_text()


def test_no_workdir(tmp_path):
    with pytest.raises(UserError, match=r'has no config.json, so it is not a workdir'):
        call(tmp_path)


def test_a_retriever(retriever_run, tmp_path, capsys):
    """With the settings of the block, on another task, split and number of examples."""
    run = pathlib.Path(shutil.copytree(retriever_run, tmp_path / 'run'))
    task = tiny_replies.TASKS[1]
    call(run, f'--tasks={task}', '--split=validation', '--num_examples=9', '--like=test')
    ((place, result),) = new_results(run, {}).items()
    assert place == f'0/validation-first9/{task}'
    assert (result['num_examples'], result['candidates']) == (9, 20)
    assert result['decoding']['method'] == 'retrieval'
    assert {'mrr', 'mrs_rouge', 'set_mrr'} <= result['scores'].keys()
    assert 'on 1 tasks, validation-first9' in capsys.readouterr().out
    with pytest.raises(UserError, match='--num_beams is for models that write texts, and this is'):
        call(run, '--num_beams=2')


@pytest.fixture
def tagger_run(tmp_path) -> pathlib.Path:
    """The workdir of a tagger that was trained for two steps."""
    tiny_labels.write_root(tmp_path)
    config = tiny_labels.tiny_config(tmp_path, 'tagging', stages__source__num_steps=2)
    train.train(config, str(tmp_path / 'run'))
    return tmp_path / 'run'


@pytest.mark.parametrize('kind', ['retriever_run', *nightly('tagger_run')])
def test_two_processes_score_what_one_scores(kind, tmp_path, request):
    """A generator's evaluation is in processes_test.py."""
    one, two = tmp_path / 'one', tmp_path / 'two'
    for workdir in (one, two):
        shutil.copytree(request.getfixturevalue(kind), workdir)
        shutil.rmtree(workdir / 'eval', ignore_errors=True)
    with children.on_devices(1):
        call(one)
    with children.start(
        [f'--workdir={two}'], module='xlbench.evaluate', processes=2, devices=2
    ) as run:
        assert run.wait() == [0, 0], run.output(0)
        assert 'SAMPLE DATA' in run.output(0) and 'SAMPLE DATA' not in run.output(1)
    children.same_run(one, two, rtol=1e-4)


def test_on_another_mesh_than_the_run_had(run, capsys):
    before = tiny.results(run)
    with edited(run / 'config.json') as about:
        about['config']['mesh'] = {'data': 3}
    for flags, message in (
        ([], r'mesh data=3 .* --mesh=data=-1 replaces it'),
        (['--mesh=dat=2'], "unknown axis in --mesh 'dat'"),
        (['--mesh=2'], '--mesh=2 is not sizes of axes'),
    ):
        with pytest.raises(UserError, match=message):
            call(run, *flags)
    call(run, '--mesh=fsdp=4,tensor=2,data=1', '--num_examples=9')
    assert len(new_results(run, before)) == 2


def test_told_to_end(run, monkeypatch):
    """After the first task, which keeps its scores."""
    before = tiny.results(run)
    write = base.write_result

    def write_then_end(*args):
        write(*args)
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(base, 'write_result', write_then_end)
    handler = signal.getsignal(signal.SIGTERM)
    with pytest.raises(UserError, match='complete keep their scores') as caught:
        call(run, '--num_examples=9')
    assert caught.value.exit_code == 75
    assert signal.getsignal(signal.SIGTERM) is handler
    assert len(new_results(run, before)) == 1
