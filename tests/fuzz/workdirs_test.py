"""Everything in a workdir: all commands that read one, while one of its files is harmed."""

import contextlib
import io
import json
import shutil
import unittest.mock

import harm
import pytest
import tiny
import tiny_labels
import tiny_sweep
from ml_collections import ConfigDict

from xlbench import convert, evaluate, predict, report, train
from xlbench.fewshot import report as fewshot_report, results, runner, settings
from xlbench.system import errors

from . import cases, mutate

# Of a run of 4 steps with a checkpoint each 2.
SECONDS = 100  # A command on a busy machine; what it reads takes none of that.
CONFIG = dict(
    stages__source__num_steps=4, evals__dev__every=2, checkpoints__every=2, checkpoints__keep=2
)


@pytest.fixture(scope='module')
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp('labels')
    tiny_labels.write_root(root)
    return root


@pytest.fixture(scope='module')
def finished(root, tmp_path_factory):
    """The workdir of a small classifier, trained to its end."""
    workdir = tmp_path_factory.mktemp('finished') / 'run'
    with contextlib.redirect_stdout(io.StringIO()):
        train.train(tiny_labels.tiny_config(root, 'classification', **CONFIG), str(workdir))
    return workdir


@pytest.fixture(scope='module')
def texts(tmp_path_factory):
    """What `predict` is asked."""
    path = tmp_path_factory.mktemp('texts') / 'texts.txt'
    path.write_text('the ids of words\nare made up\n')
    return path


def harm_run(case, finished, workdir, is_read) -> None:
    """Makes a copy of the run, with one of the files harmed that a command reads."""
    mutate.restore(finished, workdir)
    if case.rng.random() < 0.5:
        case.said = mutate.file(workdir / 'config.json', case.rng)
    else:
        case.said = mutate.folder(workdir, case.rng, is_read)


def is_result(name: str) -> bool:
    return name == 'metrics.jsonl' or name.startswith('eval/')


def is_of_the_model(name: str) -> bool:
    """Not the arrays, of which any harm looks alike."""
    return name.startswith(('checkpoints/4/', 'vocabulary/')) and '/d/' not in name


def is_of_the_run(name: str) -> bool:
    return name in ('metrics.jsonl', 'log.txt', 'checkpoints/4/checkpoint.json')


def is_tried(name, cases_of_suite, finished, workdir, is_read, command, *arguments) -> None:
    """Runs a command on harmed copies of a run."""
    mutate.restore(finished, workdir)
    with cases.as_a_program():
        command(*arguments)  # It succeeds: what it refuses below is the harm.
    for case in cases.each(name, cases_of_suite, seconds=SECONDS):
        harm_run(case, finished, workdir, is_read)
        with case.run(), cases.as_a_program():
            command(*arguments)


def test_report(finished, tmp_path):
    workdir, output = tmp_path / 'run', tmp_path / 'report'
    arguments = [str(workdir), f'--output={output}', '--format=csv,html']
    is_tried('a run, in a report', 10, finished, workdir, is_result, report.main, arguments)


def test_evaluate(finished, tmp_path):
    workdir = tmp_path / 'run'
    arguments = ['evaluate', f'--workdir={workdir}', '--step=last', '--split=validation']
    is_tried(
        'a run, to evaluate', 8, finished, workdir, is_of_the_model, evaluate.main, arguments
    )  # fmt: skip


def test_every_block_of_a_config_has_its_type(finished, tmp_path):
    """Those that another evaluation reads; nothing else is a value of theirs than is written."""
    workdir = tmp_path / 'run'
    mutate.restore(finished, workdir)
    path = workdir / 'config.json'
    about = json.loads(path.read_text())
    places = [(key,) for key in ('batches', 'best', 'evals', 'lora', 'mesh', 'model', 'trainable')]
    places += [('objective', 'name'), ('mesh', 'data'), ('batches', 'batch_size')]
    places += [('evals', 'test'), ('evals', 'test', 'lengths'), ('best', 'score')]
    for place in places:
        for value in (None, 0.5, [[1]], {'x': {}}):
            changed = json.loads(json.dumps(about))
            block = changed['config']
            for key in place[:-1]:
                block = block[key]
            block[place[-1]] = value
            path.write_text(json.dumps(changed))
            with pytest.raises(errors.UserError) as caught, cases.as_a_program():
                evaluate.main(['evaluate', f'--workdir={workdir}', '--step=last'])
            assert '\n' not in str(caught.value), (place, value)


def test_predict(finished, tmp_path, texts):
    workdir = tmp_path / 'run'
    output = tmp_path / 'answers.txt'

    def command():
        output.unlink(missing_ok=True)
        predict.main(['predict', str(workdir), f'--input={texts}', f'--output={output}'])

    is_tried('a run, to predict', 8, finished, workdir, is_of_the_model, command)


def test_convert(finished, tmp_path):
    workdir, target = tmp_path / 'run', tmp_path / 'folder'

    def command():
        shutil.rmtree(target, ignore_errors=True)
        convert.main(['convert', str(workdir), str(target)])

    is_tried('a run, to convert', 6, finished, workdir, is_of_the_model, command)


def test_sweep(tmp_path):
    """Of a sweep, what it goes on from and what its report reads."""
    rows = tiny_sweep.group('de', 1, [50.0, 60.0, None]) + tiny_sweep.group('fr', 1, [40.0, 45.0])
    whole, workdir = tiny_sweep.write(tmp_path / 'whole', rows), tmp_path / 'sweep'
    (whole / 'plan.json').write_text('{"de-1-full-source": 2, "fr-1-full-source": 2}')
    adapt = settings.Adapt(languages=('de',), shots=(1,), buckets=3, learning_rates=(1e-5,))
    config, source = ConfigDict({'task': 'udpos', 'trackers': ()}), unittest.mock.Mock()

    def command():
        journal = results.Journal(workdir)
        runner.Runner(config, adapt, workdir, source, None, journal, lambda: None).log.close()
        fewshot_report.table(str(workdir))

    def is_of_the_sweep(name):
        return name in ('plan.json', 'results.jsonl')

    is_tried('a sweep', 30, whole, workdir, is_of_the_sweep, command)


def test_resume(finished, root, tmp_path):
    """What goes on ends with the very results of the run that nobody harmed."""
    workdir = tmp_path / 'run'
    config = tiny_labels.tiny_config(root, 'classification', **CONFIG)
    results = tiny.results(finished)
    for case in cases.each('a run, to go on', 6, seconds=SECONDS):
        harm_run(case, finished, workdir, is_of_the_run)
        (workdir / 'DONE').unlink()
        with case.run(), cases.as_a_program():
            train.train(config, str(workdir))
        if case.accepted and tiny.results(workdir) != results:
            case.fail('it went on to other results')


def test_forged_progress(finished, root, tmp_path):
    """Somebody has edited the progress of a checkpoint, and its checksum."""
    workdir = tmp_path / 'run'
    config = tiny_labels.tiny_config(root, 'classification', **CONFIG)
    for case in cases.each('a forged progress', 3, seconds=SECONDS):
        mutate.restore(finished, workdir)
        path = workdir / 'checkpoints' / '4' / harm.RECORD
        content = json.loads(path.read_bytes())
        case.said, content['progress'] = mutate.value(content['progress'], case.rng)
        harm.sign(path, content)
        (workdir / 'DONE').unlink()
        with case.run(), cases.as_a_program():
            train.train(config, str(workdir))
