"""Whole sweeps of a tiny model: killed and resumed; and mistakes refused beforehand."""

import contextlib
import csv
import json
import pathlib
import re
import shutil
import signal
import subprocess
import threading

import children
import edits
import jax
import ml_collections
import numpy as np
import prepared_files
import pytest
import tiny
import tiny_labels
import warm
from nightly import nightly

from xlbench import config as config_lib, evaluate, metrics, predict, runs
from xlbench.benchmarks import FEWSHOT
from xlbench.data import prepared, tokenizers
from xlbench.fewshot import __main__ as fewshot, adaptation, command, results, runner, sweep
from xlbench.fewshot.analysis import systems, tables
from xlbench.fewshot.analysis.sweeps import Sweep
from xlbench.parallel import cluster, partitioning, preemption, watchdog
from xlbench.system import errors, locks, sessions
from xlbench.training import loop

PROJECT = pathlib.Path(__file__).parents[2]
TASKS = {'classification': 'mldoc', 'tagging': 'udpos'}
# Of source training: few enough that adaptation has something left to learn.
NUM_STEPS = {'classification': 24, 'tagging': 8}
# Several methods for one view, several numbers of shots for the other. Methods of a frozen encoder,
# whose programs are compiled soon; adaptation_test.py has all of them.
METHODS = {'classification': ('fc', 'fc_pooler'), 'tagging': ('fc',)}
EMPTY = tiny_labels.BUCKETS - 1  # The bucket of one shot that has no example.
SIZES = {'buckets': (0, 5), 'learning_rates': (0.003, 0.01), 'languages': ('de', 'fr')}
SHOTS = {'classification': (1,), 'tagging': (1, 2)}

# Runs a sweep again and again, and sends it a signal at one place each time. Every life is a child
# of this process, which has imported all and started nothing.
DRIVER = """
import os, signal, sys

from xlbench.system import errors
from xlbench.fewshot import __main__ as fewshot, results

counts = {'row': 0, 'predicted': 0}

def counted(name, function):
    def call(*args, **kwargs):
        function(*args, **kwargs)
        counts[name] += 1
        if place == name and counts[name] == int(at):
            os.kill(os.getpid(), number)
    return call

def hook(event, args):
    if place == 'rename' and event == 'os.rename' and os.path.basename(str(args[1])) == at:
        os.kill(os.getpid(), number)

results.Journal.add = counted('row', results.Journal.add)
results.Journal._write_predictions = counted('predicted', results.Journal._write_predictions)
sys.addaudithook(hook)
places = sys.argv.pop(1).split(',')
for text in places:
    place, at, name = text.split(':')
    number = getattr(signal, name)
    child = os.fork()
    if not child:
        os._exit(errors.run_main(fewshot.main, sys.argv))
    _, status = os.waitpid(child, 0)
    journal = os.path.join(sys.argv[-1].partition('=')[2], 'results.jsonl')
    rows = len(open(journal).readlines()) if os.path.exists(journal) else 0
    print('end:', text, os.waitstatus_to_exitcode(status), rows, flush=True)
"""


def tiny_sweep(root, view, **overrides) -> ml_collections.ConfigDict:
    """Two languages, numbers of shots or methods, and learning rates; five buckets."""
    half, tasks = NUM_STEPS[view] // 2, [FEWSHOT.task_name(TASKS[view], x) for x in ('de', 'fr')]
    c = ml_collections.ConfigDict(dict(task=TASKS[view], source_workdir=''))
    c.source = tiny_labels.tiny_config(
        root, view, stages__source__num_steps=2 * half, checkpoints__every=half,
        stages__source__optimizer__learning_rate=0.003, evals__dev__every=half,
        evals__test__tasks=tasks,
    )  # fmt: skip
    c.mesh = dict(data=-1, fsdp=1, tensor=1)
    c.adapt = dict(
        SIZES, shots=SHOTS[view], starts=('source',), methods=METHODS[view], seeds=(42,), epochs=4,
        patience=2, batch_size=0, adam=dict(b1=0.9, b2=0.999, eps=1e-8), dev='validation',
        lengths=dict(inputs=20), eval_batch_size=16, at_once=8, keep_params=0,
    )  # fmt: skip
    return prepared_files.changed(c, overrides)


@pytest.fixture(scope='module')
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp('labels')
    tiny_labels.write_root(root)
    for view, (_, german) in tiny_labels.TASKS.items():
        write_french(root, view, german)
    return root


def write_french(root, view, german) -> None:
    """The German task with every word replaced by another one of its tag; texts become pairs.

    All shapes are those of German, so that programs are compiled once.
    """
    french = german.replace('_de_de', '_fr_fr')
    others = np.arange(50)
    others[3:30] = np.roll(others[3:30], 3)
    vocabulary = tokenizers.load('sample', str(root)).manifest() | {'size': 50}
    for split in ('validation', 'test', *(f'shots_{k}' for k in SHOTS[view])):
        found = prepared.open_task(str(root), 'sample', german, split)
        rows = [record | {'inputs': others[record['inputs']].astype(np.int32)} for record in found]
        if view == 'classification':
            for row in rows:
                half = row['piece_counts'][0] // 2
                row['piece_counts'] = np.array([half, row['piece_counts'][0] - half], np.int32)
        left_out = found.manifest['left_out']
        tiny_labels.write_task(root, view, french, split, rows, vocabulary, left_out)


@pytest.fixture(scope='module', params=['tagging', *nightly('classification')])
def run(request, root, tmp_path_factory):
    """(view, workdir) of a whole sweep, its source training included."""
    workdir = tmp_path_factory.mktemp('run') / request.param
    config = tiny_sweep(root, request.param)
    sweep.sweep(config, str(workdir))
    return request.param, workdir


def rows_of(workdir) -> list[dict[str, str]]:
    with open(workdir / 'results.csv', encoding='utf-8', newline='') as file:
        return list(csv.DictReader(file))


# ---------------------------------------------------------------------------------- a whole sweep


def test_every_adaptation_has_a_row(run):
    view, workdir = run
    rows = rows_of(workdir)
    groups = len(SIZES['languages']) * len(SHOTS[view]) * len(METHODS[view])
    lanes = tiny_labels.BUCKETS * len(SIZES['learning_rates'])
    assert len(rows) == len(SIZES['languages']) + groups * lanes
    assert (workdir / 'DONE').read_text() == f'{len(rows)}\n'
    order = [(row['language'], row['method']) for row in rows]
    assert [r for i, r in enumerate(order) if r != order[i - 1]] == [
        (lang, method)
        for lang in SIZES['languages']
        for method in (results.ZERO_SHOT, *METHODS[view])
    ]
    empty = [row for row in rows if row['status'] == 'empty']
    assert {(row['shots'], row['bucket']) for row in empty} == {('1', f'{EMPTY}')}
    assert len(empty) == len(SIZES['languages']) * len(METHODS[view]) * 2
    assert all(row['score'] == '' and row['examples'] == '0' for row in empty)
    done = [row for row in rows if row['status'] == 'done']
    assert all(0 <= float(row['score']) <= 100 for row in done)
    assert {row['metric'] for row in done} == {FEWSHOT.main_score(TASKS[view])}
    adapted = [row for row in done if row['shots'] != '0']
    assert {int(row['epochs']) for row in adapted} <= {1, 2, 3, 4}
    assert any(row['score'] != adapted[0]['score'] for row in adapted)


def test_scores_are_those_of_the_predictions_on_disk(run):
    """By the metric that evaluates texts, from the labels' names."""
    view, workdir = run
    found = Sweep(workdir)
    metric = metrics.Classification() if view == 'classification' else metrics.ChunkF1()
    for row in found.rows:
        if row.status == 'done':
            test_set, gold = found.test_set(row.language), found.gold(row.language)
            gold, predicted = (texts(x, test_set.labels) for x in (gold, found.predicted(row)))
            assert row.score == pytest.approx(metric(gold, predicted)[row.metric], rel=1e-12)
            assert len(gold) == test_set.num_examples == tiny_labels.SIZES['test']


def texts(numbers, names) -> list[str]:
    """Labels, or for tagging a text of tags for each sentence."""
    if 255 not in numbers:
        return [names[number] for number in numbers]
    words = ' '.join('\n' if number == 255 else names[number] for number in numbers)
    return [line.strip() for line in words.split('\n')[:-1]]


def test_the_score_without_adaptation_is_that_of_the_source_training(run):
    _, workdir = run
    for row in rows_of(workdir):
        if row['shots'] == '0':
            task = f'fewshot_{row["task"]}_{row["language"]}_{row["language"]}'
            [path] = (workdir / 'source' / 'eval').glob(f'*/test/{task}/metrics.json')
            scores = json.loads(path.read_text())['scores']
            assert float(row['score']) == pytest.approx(scores[row['metric']], rel=1e-12)


def test_it_says_what_it_does(run):
    view, workdir = run
    log = (workdir / 'log.txt').read_text()
    groups = 2 * len(SHOTS[view]) * len(METHODS[view])
    assert f'{groups} groups of 10 adaptations = {groups * 10}; 2 languages' in log
    assert 'de: 45 test examples; 1 shots: 0 to' in log
    assert log.count(f'EMPTY of 1 shots: bucket {EMPTY}') == 2
    assert 'de, start source, without adaptation: ' in log and ' a minute | ' in log
    assert f'  {groups * 10 + 2}/{groups * 10 + 2} | ' in log
    about = json.loads((workdir / 'config.json').read_text())
    assert about['labels'] == tiny_labels.LABELS[view] and about['data'] == 'sample'
    assert len(json.loads((workdir / 'plan.json').read_text())) == groups
    whole, source = (sessions.read(folder)[0] for folder in (workdir, workdir / 'source'))
    assert whole.wall_seconds > source.wall_seconds > 0 and whole.devices == about['devices']


def test_a_finished_sweep_prints_its_tables_and_changes_nothing(run, root, capsys):
    view, workdir = run
    before = snapshot(workdir)
    capsys.readouterr()
    sweep.sweep(tiny_sweep(root, view), str(workdir))
    assert 'is finished already; its tables:' in capsys.readouterr().out
    assert snapshot(workdir) == before


def test_a_second_start_leaves_a_live_sweep_alone(run, root, tmp_path):
    view, workdir = run
    copy = pathlib.Path(shutil.copytree(workdir, tmp_path / 'run'))
    (copy / 'DONE').unlink()  # As a sweep that writes its last tables.
    before = snapshot(copy)
    with children.held(('folder', copy)) as holder:
        with pytest.raises(locks.InUse, match=f'{copy} is in use by process {holder.pid} on '):
            sweep.sweep(tiny_sweep(root, view), str(copy))
        after = snapshot(copy)
        assert after.pop('.lock') and after == before


def snapshot(folder: pathlib.Path) -> dict[str, tuple[int, bytes]]:
    """{path: (time of change, content)} of every file below a folder."""
    return {
        str(path.relative_to(folder)): (path.stat().st_mtime_ns, path.read_bytes())
        for path in sorted(folder.rglob('*'))
        if path.is_file()
    }


# ----------------------------------------------------------------------------------- interruption


def flags(tmp_path: pathlib.Path, config, workdir: pathlib.Path) -> list[str]:
    path = tiny.write_config(tmp_path / 'tiny_sweep.py', config)
    return [f'--config={path}', f'--workdir={workdir}']


@pytest.mark.parametrize('run', ['tagging'], indirect=True)
@pytest.mark.nightly
def test_stopped_at_every_awkward_place(run, root, tmp_path):
    """It ends with the bytes that a part of a whole sweep has, its source training included."""
    workdir, driver = tmp_path / 'run', tmp_path / 'driver.py'
    config = tiny_sweep(root, 'tagging', adapt__shots=(2,), adapt__languages=('de',))
    driver.write_text(DRIVER, encoding='utf-8')
    places = {
        # In the source training, before its first checkpoint is complete.
        'rename:4:SIGKILL': (-signal.SIGKILL, 0),
        # Predictions are on disk, and no line speaks of them.
        'predicted:4:SIGKILL': (-signal.SIGKILL, 3),
        'row:5:SIGTERM': (cluster.START_AGAIN, 8),
        'rename:results.csv:SIGKILL': (-signal.SIGKILL, 11),
    }
    command = [warm.python(), str(driver), ','.join(places), *flags(tmp_path, config, workdir)]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=True)
    ends = [line.split()[1:] for line in done.stdout.splitlines() if line.startswith('end:')]
    assert ends == [[at, f'{code}', f'{rows}'] for at, (code, rows) in places.items()]
    said = [line for line in done.stderr.splitlines() if line.startswith('error:')]
    assert said == [
        f'error: told to end (SIGTERM): 8 of 11 results are in {workdir}; the same command '
        'continues from there'
    ]
    assert not (workdir / 'DONE').exists()
    sweep.sweep(config, str(workdir))
    head, *rows = (run[1] / 'results.csv').read_text().splitlines(keepends=True)
    rows = [row for row in rows if row.startswith(('udpos,de,0,', 'udpos,de,2,'))]
    assert (workdir / 'results.csv').read_text() == ''.join([head, *rows])
    assert (workdir / 'DONE').read_text() == '11\n'
    found, wanted = predictions(workdir), predictions(run[1])
    assert sorted(found) == [
        'udpos-de-2-fc-source/0.003-42.npy', 'udpos-de-2-fc-source/0.01-42.npy',
        'udpos-de-gold.npy', 'udpos-de-zero_shot-source.npy', 'udpos-de.json',
    ]  # fmt: skip
    assert found == {name: wanted[name] for name in found}
    log = (workdir / 'log.txt').read_text()
    assert 'resumed with 3 of 11 results' in log and 'resumed with 8 of 11 results' in log
    assert log.count('de: 45 test examples') == 3  # The last life has nothing to read.


def predictions(workdir: pathlib.Path) -> dict[str, bytes]:
    """{name: content} of the files below predictions/."""
    folder = workdir / 'predictions'
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob('*')
        if path.is_file() and not path.name.startswith('.')
    }


# ------------------------------------------------------------------------------ a sweep that grows


@pytest.mark.parametrize('run', ['tagging'], indirect=True)
@pytest.mark.nightly
def test_a_sweep_grows_to_the_bytes_of_one_begun_with_everything(run, root, tmp_path, capsys):
    """By languages, shots, ranges of buckets and learning rates, in any order, data unchanged."""
    workdir, data = tmp_path / 'run', tmp_path / 'data'
    shutil.copytree(root, data)
    source = shutil.copytree(run[1] / 'source', tmp_path / 'source')
    steps = [
        dict(languages=('fr',), shots=(2,), buckets=(3, 5), learning_rates=(0.01,)),
        dict(languages=('de', 'fr'), shots=(2, 1), buckets=(2,), learning_rates=(0.01,)),
        dict(languages=('de', 'fr'), shots=(1, 2), buckets=(0, 5), learning_rates=(0.01, 0.003)),
    ]

    def config(asked, **overrides):
        adapt = {f'adapt__{key}': value for key, value in asked.items()}
        return tiny_sweep(data, 'tagging', **{'source_workdir': str(source), **adapt, **overrides})

    rows = []
    for asked in steps:
        if len(rows) == 2:  # Data and source model may move.
            data, source = (
                place.rename(tmp_path / f'moved_{place.name}') for place in (data, source)
            )
        command.read(['fewshot', *flags(tmp_path, config(asked), workdir)])
        sweep.sweep(config(asked), str(workdir))
        rows.append(len(rows_of(workdir)))
    assert rows == [1 + 2, 2 + 2 + 8, 2 + 2 * 2 * 5 * 2]
    assert (workdir / 'results.csv').read_bytes() == (run[1] / 'results.csv').read_bytes()
    assert predictions(workdir) == predictions(run[1])
    about = json.loads((workdir / 'config.json').read_text())
    assert [block['languages'] for block in about['asked']] == [['fr'], ['de', 'fr'], ['de', 'fr']]
    log = (workdir / 'log.txt').read_text()
    assert '2 other results, which this command does not need, are kept' in log
    for table in systems.systems([Sweep(workdir)])[0].groups.values():
        assert not table.missing

    # What has been asked for before is finished, also where it was less.
    before = snapshot(workdir)
    capsys.readouterr()
    for asked in (steps[0], steps[2]):
        sweep.sweep(config(asked), str(workdir))
        assert 'is finished already; its tables:' in capsys.readouterr().out
    assert snapshot(workdir) == before

    # Anything else stays as it was begun: the config, the data and the model that is adapted.
    more = steps[2] | {'learning_rates': (0.1,)}
    with pytest.raises(errors.UserError, match=r'adapt\.patience was 2, now 3'):
        sweep.sweep(config(more, adapt__patience=3), str(workdir))
    about = json.loads((source / 'config.json').read_text())
    (source / 'config.json').write_text(json.dumps(about | {'contents': {}}))
    with pytest.raises(
        errors.UserError, match=r'moved_source has another model than when .*run was started'
    ):
        sweep.sweep(config(more), str(workdir))
    (source / 'config.json').write_text(json.dumps(about))
    name = FEWSHOT.task_name('udpos', 'de')
    examples = prepared.open_task(str(data), 'sample', name, 'shots_1')
    records = examples.read(range(len(examples)))
    records[0] = records[0] | {'inputs': np.roll(records[0]['inputs'], 1)}
    vocabulary, left_out = (examples.manifest[key] for key in ('vocabulary', 'left_out'))
    tiny_labels.write_task(data, 'tagging', name, 'shots_1', records, vocabulary, left_out)
    with pytest.raises(errors.UserError, match=f'{name}/shots_1 holds other examples than when'):
        sweep.sweep(config(more), str(workdir))
    assert snapshot(workdir) == before


# ------------------------------------------------------------------------------ starts and sources


def small_sweep(run, root, **overrides) -> ml_collections.ConfigDict:
    """One group in German, from the source model of a whole sweep."""
    view, workdir = run
    small = dict(
        source_workdir=str(workdir / 'source'), adapt__languages=('de',), adapt__shots=(1,),
        adapt__methods=METHODS[view][-1:], adapt__learning_rates=(0.01,),
    )  # fmt: skip
    return tiny_sweep(root, view, **small | overrides)


@pytest.mark.parametrize('run', ['tagging'], indirect=True)
def test_the_next_group_s_programs_are_compiled_beside_this_one(run, root, tmp_path, monkeypatch):
    compiled = []

    def compile_(self, at_once, original=adaptation.Adapter.compile):
        here = threading.current_thread() is threading.main_thread()
        compiled.append((self._shots, at_once, here))
        original(self, at_once)

    monkeypatch.setattr(adaptation.Adapter, 'compile', compile_)
    monkeypatch.setattr(adaptation.Adapter, 'may_compile_beside', lambda *_: True)
    config = small_sweep(run, root, adapt__shots=(1, 2))
    sweep.sweep(config, str(tmp_path / 'run'))
    assert compiled == [(2, config.adapt.at_once, False)]
    rows = rows_of(tmp_path / 'run')
    assert [row['shots'] for row in rows] == ['0', *'1' * 5, *'2' * 5]
    assert all(row in rows_of(run[1]) for row in rows)


def test_the_best_learning_rate_of_source_training_is_adapted(root, tmp_path, capsys):
    """Of a tagger with the class of padding, whose frozen encoder drops out."""
    options = dict(
        adapt__source_learning_rates=(1e-7, 0.003), adapt__languages=('de',), adapt__shots=(2,),
        adapt__buckets=(0, 2), adapt__learning_rates=(0.01,), adapt__frozen_dropout=True,
        source__model__pad_label=True, source__evals__dev__every=8, source__checkpoints__every=8,
    )  # fmt: skip
    config, workdir = tiny_sweep(root, 'tagging', **options), tmp_path / 'run'
    del config.source.evals['test']  # Two more programs.
    for line in sweep.in_advance(config, str(workdir), 'alone'):
        if 'source model' in line:
            assert '1e-07, 0.003; the best one is adapted' in line
    sweep.sweep(config, str(workdir))
    pattern = r'source-1e-07 (.*), source-0.003 (.*); source-0.003 is adapted'
    said = re.search(pattern, capsys.readouterr().out)
    assert float(said[1]) < float(said[2])
    rates = {}
    for name in ('source', 'source-1e-07'):
        about = json.loads((workdir / name / 'config.json').read_text())
        rates[name] = about['config']['stages']['source']['optimizer']['learning_rate']
        assert about['labels'] == [*tiny_labels.LABELS['tagging'], '<PAD>']
    assert rates == {'source': 0.003, 'source-1e-07': 1e-7}
    found = Sweep(workdir)
    assert found.test_set('de').labels[-1] == '<PAD>' and len(found.rows) == 3
    [system] = systems.systems([found])
    table = tables.source(system)
    assert [row.cells[0].text for row in table.rows] == ['0.003', '1e-07']
    assert [row.cells[-1].text for row in table.rows] == ['yes', 'no']
    assert tables.about(system).rows[1].cells[0].text == f'{len(tiny_labels.LABELS["tagging"])}'
    before = snapshot(workdir)
    sweep.sweep(config, str(workdir))
    assert snapshot(workdir) == before


def test_what_a_search_of_learning_rates_needs(root, tmp_path):
    rates = dict(adapt__source_learning_rates=(0.1,))
    for options, message in (
        (dict(source_workdir=str(tmp_path)), 'leave out one of the two'),
        (dict(source__best__score=''), r'config\.source\.best\.score names none'),
        (dict(adapt__source_learning_rates=(0.1, 0.1)), 'it has one value twice'),
    ):
        config = tiny_sweep(root, 'tagging', **rates | options)
        with pytest.raises(errors.UserError, match=message):
            sweep.checked_adapt(config)


def test_a_finished_source_model_is_adapted_as_one_trained_here(run, root, tmp_path):
    """And a group's results depend neither on other groups nor on other learning rates."""
    workdir, still = tmp_path / 'run', 1e-12
    config = small_sweep(run, root, adapt__languages=('fr',), adapt__learning_rates=(still, 0.01))
    sweep.sweep(config, str(workdir))
    assert not (workdir / 'source').exists()
    own = rows_of(workdir)
    keys = ('language', 'shots', 'bucket', 'method', 'learning_rate')
    wanted = {tuple(row[key] for key in keys): row for row in rows_of(run[1])}
    moved = [row for row in own if row['learning_rate'] != f'{still}']
    assert len(own) == 1 + 2 * tiny_labels.BUCKETS and len(moved) == 1 + tiny_labels.BUCKETS
    assert all(row == wanted[tuple(row[key] for key in keys)] for row in moved)
    # Hidden states that are computed once are those of the whole model.
    found = Sweep(workdir)
    unmoved = [row for row in found.rows if row.learning_rate == still and row.status == 'done']
    for row in unmoved:
        predicted = found.predicted(row)
        np.testing.assert_array_equal(predicted, found.zero_shot(row.language))
    assert len(unmoved) == tiny_labels.BUCKETS - 1


def test_without_source_training_and_with_parameters_kept(run, root, tmp_path, capsys):
    """What is kept is evaluated by xlbench.evaluate with the very score of the sweep."""
    view, _ = run
    method = 'full' if view == 'tagging' else 'cos_pooler'
    options = dict(adapt__starts=('none',), adapt__keep_params=1, adapt__buckets=(0, 2))
    config = small_sweep(run, root, adapt__methods=(method,), **options)
    workdir = tmp_path / 'run'
    sweep.sweep(config, str(workdir))
    rows = {row['bucket']: row for row in rows_of(workdir)}
    assert all(row['start'] == 'none' for row in rows.values())
    task = FEWSHOT.task_name(config.task, 'de')
    [folder] = (workdir / 'adapted' / f'{config.task}-de-1-{method}-none').iterdir()
    assert folder.name == '0.01-0-42'
    evaluate.main(['evaluate', f'--workdir={folder}', f'--tasks={task}', '--split=test'])
    scores = json.loads((folder / 'eval/0/test' / task / 'metrics.json').read_text())['scores']
    assert float(rows['0']['score']) == pytest.approx(scores[rows['0']['metric']], rel=1e-12)
    with edits.edited(folder / 'config.json') as about:
        about['config']['data']['root'] = str(tmp_path / 'elsewhere')  # As if it had been moved.
    model = predict.load(str(folder))
    (answer,) = model.tag(['a']) if view == 'tagging' else model.classify(['a'])
    labels = set(answer.tags if view == 'tagging' else answer.probabilities)
    assert list(model.labels) == tiny_labels.LABELS[view] and labels <= set(model.labels)


@pytest.mark.parametrize('run', ['tagging'], indirect=True)
def test_no_source_training_is_what_source_training_begins_with(run, root, tmp_path):
    config = run_config(run).source
    parts = runs.build(config)
    told = preemption.Interruption(), watchdog.Watch(str(tmp_path))
    with contextlib.closing(loop.Trainer(config, str(tmp_path), parts, None, *told)) as trainer:
        first = trainer._params_for(next(iter(config.stages)))
    mesh = partitioning.make_mesh()
    source = runner.Source(str(run[1] / 'source'), config, parts.data, mesh)
    jax.tree.map(np.testing.assert_array_equal, first, source.params('none'))
    best = source.params('source')
    assert not all(map(np.array_equal, *map(jax.tree.leaves, (first, best))))


def run_config(run) -> ml_collections.ConfigDict:
    return ml_collections.ConfigDict(config_lib.read_about(str(run[1]))['config'])


# ----------------------------------------------------------------------------------- user mistakes


@pytest.fixture
def refuse(root, tmp_path, capfd):
    """Runs a command that must fail with one line and leave no trace; returns the line."""

    def run(config, *extra, workdir=None):
        target = workdir or tmp_path / 'refused'
        arguments = flags(tmp_path, config, target)
        before = snapshot(root), snapshot(target)
        existed = target.exists()
        capfd.readouterr()
        assert errors.run_main(fewshot.main, ['fewshot', *arguments, *extra]) == 2
        lines = capfd.readouterr().err.splitlines()
        assert len(lines) == 1 and lines[0].startswith('error: '), lines
        assert (snapshot(root), snapshot(target)) == before
        assert target.exists() == existed
        return lines[0]

    return run


@pytest.mark.parametrize(
    ('view', 'changes', 'message'),
    [
        ('tagging', {'adap': 1}, "unknown key in config 'adap'; nearest: adapt"),
        ('tagging', {'adapt__bucket': 1}, "unknown key in config.adapt 'bucket'; nearest: buckets"),
        ('tagging', {'adapt__adam__beta': 1}, "unknown key in config.adapt.adam 'beta'"),
        ('tagging', {'source__sed': 1}, "in config.source: unknown key in config 'sed'"),
        ('tagging', {'task': 'pos'}, "unknown task in config.task 'pos'; nearest: udpos"),
        ('tagging', {'adapt__languages': ('de', 'xx')}, "config.adapt.languages 'xx'; "),
        ('tagging', {'adapt__languages': ()}, 'config.adapt.languages is (); give one or more'),
        ('tagging', {'adapt__shots': (1, 8)}, "config.adapt.shots '8'; "),
        ('tagging', {'adapt__shots': (1, 1)}, 'it has one value twice'),
        ('tagging', {'adapt__methods': ('fc_pooler',)}, "methods 'fc_pooler'; allowed: fc, full"),
        ('classification', {'adapt__methods': ('ful',)}, "methods 'ful'; nearest: full"),
        ('tagging', {'adapt__starts': ('sauce',)}, "config.adapt.starts 'sauce'; nearest: source"),
        ('tagging', {'adapt__learning_rates': (0.0,)}, 'rates[0] is 0.0; it must be above 0'),
        ('tagging', {'adapt__seeds': (-1,)}, 'config.adapt.seeds[0] is -1; '),
        ('tagging', {'adapt__epochs': 0}, 'config.adapt.epochs is 0; it must be 1 or more'),
        ('tagging', {'adapt__dev': 'test'}, "config.adapt.dev 'test'; nearest: "),
        ('tagging', {'adapt__buckets': (6,)}, 'there are 5, counted from 0; request fewer'),
        ('tagging', {'adapt__buckets': (4, 2)}, 'config.adapt.buckets is (4, 2); give a number N'),
        ('tagging', {'adapt__at_once': 12}, 'config.adapt.at_once is 12, but 8 devices'),
        ('tagging', {'adapt__lengths__inputs': 33}, 'accepts at most 32 tokens; set it to 32'),
        ('tagging', {'mesh__tensor': 2}, 'config.mesh.tensor is 2, but every adaptation runs on'),
        ('tagging', {'source__lora__rank': 2}, 'trained with LoRA of rank 2'),
        ('tagging', {'task': 'mldoc'}, 'is trained for tagging, but mldoc is classif'),
        ('tagging', {'source_workdir': 'nowhere'}, 'there is no folder nowhere'),
    ],
)
def test_mistakes_in_a_config(refuse, root, view, changes, message):
    assert message in refuse(tiny_sweep(root, view, **changes))


def test_source_models_that_do_not_fit(refuse, run, root, tmp_path):
    _, workdir = run
    copy = tmp_path / 'source'
    (copy / 'checkpoints' / '24').mkdir(parents=True)
    about = json.loads((workdir / 'source' / 'config.json').read_text())
    config = small_sweep(run, root, source_workdir=str(copy))
    (copy / 'config.json').write_text(json.dumps(about))
    assert 'is an unfinished run' in refuse(config)
    (copy / 'DONE').touch()
    (copy / 'config.json').write_text(json.dumps(about | {'labels': ['A', 'B']}))
    assert 'was trained with the labels A, B, but ' in refuse(config)
    (copy / 'config.json').write_text(json.dumps(about | {'vocabulary': {'name': 'other'}}))
    assert "was trained with the vocabulary 'other'" in refuse(config)


@pytest.mark.parametrize('run', ['tagging'], indirect=True)
def test_a_workdir_of_another_sweep(run, root, refuse):
    config = tiny_sweep(root, run[0], adapt__patience=3)
    assert 'adapt.patience was 2, now 3' in refuse(config, workdir=run[1])


def test_several_processes(root, refuse, monkeypatch):
    monkeypatch.setattr(jax, 'process_count', lambda: 2)
    assert 'a sweep runs in one process' in refuse(tiny_sweep(root, 'tagging'))
