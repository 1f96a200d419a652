"""Runs that are told to end: they save, end with code 75, and lose nothing."""

import os
import shutil
import signal
import subprocess
import threading
import time

import children
import pytest
import tiny
import warm

from xlbench import evaluate, train
from xlbench.evaluators import base
from xlbench.parallel import cluster
from xlbench.parallel.preemption import NAMES, Interrupted, Interruption
from xlbench.system import errors
from xlbench.training import checkpoints, tracking

pytestmark = pytest.mark.nightly

# ------------------------------------------------------------------------------- the signal itself


@pytest.fixture(autouse=True)
def heard():
    """Signals are not ignored, as they are where the tests run in the background."""
    numbers = {signal.SIGINT: signal.default_int_handler, signal.SIGHUP: signal.SIG_DFL}
    before = {number: signal.signal(number, handler) for number, handler in numbers.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def tell(number: int = signal.SIGTERM) -> None:
    os.kill(os.getpid(), number)


@pytest.mark.parametrize(
    'number, name', [(signal.SIGTERM, 'SIGTERM'), (signal.SIGINT, 'Ctrl-C')], ids=str
)
def test_it_is_told_by_the_first_signal_and_killed_by_a_second(number, name):
    with Interruption() as interruption:
        interruption.check()
        tell(number)
        assert signal.getsignal(number) is signal.SIG_DFL  # Which kills.
        tell(signal.SIGHUP)  # The first one is named.
        for _ in range(2):
            with pytest.raises(Interrupted, match=rf'^told to end \({name}\)$') as told:
                interruption.check()
        assert told.value.exit_code == 75


def test_a_terminal_that_is_closed_may_say_so_more_than_once():
    before = [signal.getsignal(number) for number in NAMES]
    with Interruption() as interruption:
        for _ in range(2):
            tell(signal.SIGHUP)
        with pytest.raises(Interrupted, match=r'^told to end \(SIGHUP\)$'):
            interruption.check()
    assert [signal.getsignal(number) for number in NAMES] == before


def test_signals_that_the_process_was_started_to_ignore_stay_ignored():
    """As nohup has it for SIGHUP, and a script's `&` for SIGINT."""
    before = {n: signal.signal(n, signal.SIG_IGN) for n in (signal.SIGHUP, signal.SIGINT)}
    try:
        with Interruption() as interruption:
            for number in before:
                tell(number)
            interruption.check()
        assert {signal.getsignal(number) for number in before} == {signal.SIG_IGN}
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_ctrl_c_is_a_line_and_code_130_where_there_is_nothing_to_save(capsys):
    def main(argv):
        tell(signal.SIGINT)
        raise AssertionError('Python raises KeyboardInterrupt before this')

    for run_main in (errors.run_main, cluster.run_main):
        assert run_main(main, []) == 130
        screen = capsys.readouterr()
        assert screen.out == ''
        assert screen.err == 'error: stopped by Ctrl-C; what was finished before stays\n'


def test_what_took_the_signal_before_has_it_again():
    def own(*_):
        raise AssertionError('not within the block')

    before = signal.signal(signal.SIGTERM, own)
    try:
        for raised in (None, KeyError):
            try:
                with Interruption():
                    tell()
                    if raised:
                        raise raised
            except KeyError:
                assert raised
            assert signal.getsignal(signal.SIGTERM) is own
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_child_process_that_was_told_as_well_is_no_failure():
    with pytest.raises(Interrupted, match='before the first step'), Interruption():
        tell()
        raise SystemExit(-15)
    with pytest.raises(SystemExit), Interruption():
        raise SystemExit(2)


def test_another_thread_takes_no_signal():
    before, seen = signal.getsignal(signal.SIGTERM), []

    def run():
        with Interruption() as interruption:
            interruption.check()
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert seen == [before]


# ----------------------------------------------------------------------------------- whole runs


@pytest.fixture(scope='module')
def config(tiny_root):
    """Two stages, and two evaluations at the same steps; the first of them chooses the best."""
    config = tiny.tiny_config(tiny_root, checkpoints__every=100, best__patience=3)
    config.stages.stage1.num_steps, config.stages.stage2.num_steps = 5, 3
    with config.unlocked():
        config.evals.more = config.evals.dev.copy_and_resolve_references()
    config.evals.more.update(tasks=tiny.TITLES, num_examples=9, batch_size=8)
    return config


@pytest.fixture(scope='module')
def undisturbed(config, tmp_path_factory):
    workdir = tmp_path_factory.mktemp('undisturbed') / 'run'
    train.train(config, str(workdir))
    return workdir


@pytest.fixture
def told_at(monkeypatch):
    """Sends SIGTERM when a place is reached for the first time.

    Places are the names of what is logged, as '3 train stage1', and 'batch N NAME STEP': the
    Nth batch of an evaluation.
    """
    places = []
    write, run = tracking.Log.write, base.Evaluator.run

    def reach(place):
        if places == [place]:
            places.clear()
            tell()

    def write_then_tell(log, step, kind, name, values):
        write(log, step, kind, name, values)
        reach(f'{step} {kind} {name}')

    def run_and_tell(evaluator, params, step, workdir, stage, check, **options):
        count = 0

        def check_later():
            nonlocal count
            count += 1
            reach(f'batch {count} {evaluator.tasks[0].prepared.name} {step}')
            check()

        return run(evaluator, params, step, workdir, stage, check=check_later, **options)

    monkeypatch.setattr(tracking.Log, 'write', write_then_tell)
    monkeypatch.setattr(base.Evaluator, 'run', run_and_tell)
    return places.append


def end(config, workdir) -> str:
    """Runs until it was told to end; what it says."""
    with pytest.raises(Interrupted) as told:
        train.train(config, str(workdir))
    assert told.value.exit_code == 75
    return str(told.value)


def test_told_at_every_place(config, undisturbed, told_at, tmp_path):
    """In a step, in each evaluation of a step, at the end of a stage and of the run."""
    workdir = tmp_path / 'run'
    question, title = tiny.QUESTIONS[0], tiny.TITLES[0]
    for place, step, due in (
        ('2 train stage1', 2, []),
        (f'batch 1 {question} 4', 4, ['dev', 'more']),
        # The first evaluation of this step is complete.
        (f'batch 2 {title} 4', 4, ['more']),
        (f'5 eval more/{title}', 5, []),
        ('6 train stage2', 6, []),
        (f'batch 3 {title} 8', 8, ['more']),  # At the last step.
        (f'batch 1 {question} 8', 8, []),  # In the evaluation of the end.
    ):
        told_at(place)
        line = end(config, workdir)
        assert line == (
            f'told to end (SIGTERM): saved step {step}; the same command continues from there'
        ), place
        assert checkpoints.steps(workdir)[-1] == step
        assert checkpoints.read_progress(workdir, step).due == due, place
        assert not (workdir / 'DONE').exists()
    train.train(config, str(workdir))
    children.same_run(workdir, undisturbed)
    newest = [checkpoints.read_progress(folder, 8) for folder in (workdir, undisturbed)]
    assert newest[0] == newest[1] and newest[0].best is not None
    log = (workdir / 'log.txt').read_text()
    assert [f'resumed at step {n},' in log for n in (2, 4, 5, 6, 8)] == [True] * 5


def test_told_while_it_prepares(config, tmp_path, monkeypatch, capsys):
    """Nothing was begun; the process that prepares in its place was told, too."""
    build = train.runs.build

    def build_and_be_told(config, workdir):
        tell()
        return build(config, workdir)

    monkeypatch.setattr(train.runs, 'build', build_and_be_told)
    workdir = tmp_path / 'run'
    assert end(config, workdir) == 'told to end (SIGTERM)'
    assert not workdir.exists()


def test_the_real_program(config, undisturbed, tmp_path):
    flags = children.flags(tmp_path, config)
    with children.start(flags, devices=8, signal_at='0:train:6:INT') as run:
        assert run.wait() == [75]
        output = run.output(0)
    assert output.splitlines()[-1] == (
        'error: told to end (Ctrl-C): saved step 6; the same command continues from there'
    )
    assert 'Traceback' not in output
    assert checkpoints.steps(tmp_path / 'run')[-1] == 6
    train.train(config, str(tmp_path / 'run'))
    children.same_run(tmp_path / 'run', undisturbed)


def test_a_second_start_leaves_a_live_run_alone(config, undisturbed, tmp_path, capsys):
    """Training, evaluating and sweeping into a workdir that is being written: one line each."""
    workdir, flags = tmp_path / 'run', children.flags(tmp_path, config)
    # It stands still in the middle of its work, so that its bytes can be compared.
    with children.start(flags, devices=8, signal_at='0:train:7:STOP') as run:
        run.wait_for(0, 'stage2 6/')
        while '"step": 7,' not in (workdir / 'metrics.jsonl').read_text():
            time.sleep(0.01)
        before = children.contents(workdir)
        for main, argv in (
            (train.main, flags),
            (train.main, flags),
            (evaluate.main, [f'--workdir={workdir}', '--step=last']),
        ):
            assert errors.run_main(main, ['xlbench', *argv]) == 2
            [line] = capsys.readouterr().err.splitlines()
            assert line.startswith(
                f'error: {workdir} is in use by process {run.processes[0].pid} on '
            )
            assert ' UTC (python ' in line and ' xlbench.train --config=' in line
        assert children.contents(workdir) == before
        run.kill(0, signal.SIGCONT)
        assert run.wait() == [0], run.output(0)
    children.same_run(workdir, undisturbed)
    assert not list(workdir.rglob('.*'))
    evaluate.main(['evaluate', f'--workdir={workdir}'])  # And now it may.


def test_ctrl_c_ends_other_programs_with_a_line(undisturbed, tmp_path):
    """An evaluation in its work, and a model that waits for the next text of a pipe."""
    workdir = tmp_path / 'run'
    shutil.copytree(undisturbed, workdir)
    line = 'error: stopped by Ctrl-C; what was finished before stays'
    with children.start([f'--workdir={workdir}'], devices=8, module='xlbench.evaluate') as run:
        run.wait_for(0, 'step 8 of')
        run.kill(0, signal.SIGINT)
        assert run.wait() == [130], run.output(0)
        assert run.output(0).splitlines()[1:] == [line]
    process = subprocess.Popen(
        [warm.python(), '-m', 'xlbench.predict', str(workdir), '--target_lang=de'],
        cwd=children.PROJECT, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    process.stdin.write('die alte Brücke\n')
    process.stdin.flush()
    assert process.stdout.readline()  # The answer; it waits for more.
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=60)[1]
    assert process.returncode == 130 and said.splitlines()[-1] == line
    assert 'Traceback' not in said and 'Fatal' not in said
