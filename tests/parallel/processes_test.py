"""Real runs of several processes: the same numbers as one, whatever happens to the processes."""

import signal

import children
import pytest
import tiny

from xlbench import train
from xlbench.training import checkpoints

pytestmark = pytest.mark.nightly

# Seconds that a process may take to end when it has lost another. Machines that test are busy.
SOON = 120


def brief(root, **mesh):
    return tiny.brief_config(root, mesh=mesh)


@pytest.fixture(scope='module')
def one_device(tiny_root, tmp_path_factory):
    """The folder of an undisturbed run on one device: the workdir run/, and examples/."""
    folder = tmp_path_factory.mktemp('one_device')
    with children.recording(folder / 'examples'), children.on_devices(1):
        train.train(brief(tiny_root), str(folder / 'run'))
    return folder


def error_of(output: str) -> str:
    """The one line in which a process says why it ends."""
    assert 'Traceback' not in output, output
    (line,) = (line for line in output.splitlines() if line.startswith('error: '))
    return line


def test_two_processes_compute_what_one_device_does(tiny_root, one_device, tmp_path):
    """Every loss, score and prediction; each process trains on its own rows."""
    arguments = children.flags(tmp_path, brief(tiny_root, **tiny.ALL_AXES))
    with children.start(arguments, processes=2, devices=4, record=tmp_path / 'examples') as run:
        assert run.wait() == [0, 0], run.output(0)
    children.same_run(one_device / 'run', tmp_path / 'run', rtol=1e-4)
    [one] = children.recorded(one_device / 'examples')
    first, second = children.recorded(tmp_path / 'examples')
    assert len(one) == len(first) == len(second) == 6
    for whole, upper, lower in zip(one, first, second, strict=True):
        assert whole['examples'] == upper['examples'] == lower['examples']
        assert whole['rows'] == upper['rows'] + lower['rows']
    assert len({str(batch['examples']) for batch in one}) == 6


def test_lost_processes_a_hang_and_other_devices_change_nothing(tiny_root, one_device, tmp_path):
    """On one device; on two processes that share all rows, twice; on eight devices, to the end."""
    workdir = tmp_path / 'run'
    with children.recording(tmp_path / 'leg-0'), children.on_devices(1):
        tiny.train_until(3, brief(tiny_root), workdir)
    starts = [newest(workdir)]
    arguments = children.flags(tmp_path, brief(tiny_root, tensor=2))
    # Process 0 is killed while it saves: the other one ends soon, and says why.
    with children.start(
        arguments, processes=2, record=tmp_path / 'leg-1', signal_at='0:save:4:KILL'
    ) as run:
        assert run.wait(numbers=[0]) == [-signal.SIGKILL], run.output(0)
        (code,) = run.wait(SOON, numbers=[1])
        # What comes first: an error of the network, or the end of jax's service.
        assert code in (75, -signal.SIGABRT), run.output(1)
        if code == 75:
            assert error_of(run.output(1)).startswith('error: process 1 of 2 lost another process')
        else:
            assert 'another task died' in run.output(1)
    starts.append(newest(workdir))
    # Process 1 is stopped in a step: the other one notices that it waits in vain.
    with children.start(
        arguments, processes=2, record=tmp_path / 'leg-2', signal_at='1:train:5:STOP',
        env={'XLBENCH_HANG': '20'},
    ) as run:  # fmt: skip
        assert run.wait(numbers=[0]) == [75], run.output(0)
        line = error_of(run.output(0))
    assert line.startswith('error: process 0 of 2: '), line
    stacks = workdir / 'hang-process-0.txt'
    assert line.endswith(
        f' has not ended for 20 s; the stacks of its threads are in {stacks}; exit code 75'
    )
    assert '/train.py' in stacks.read_text()
    starts.append(newest(workdir))
    assert starts[0] == 2 and starts[1] in (2, 3, 4) and starts[2] in (2, 3, 4, 5)

    with children.recording(tmp_path / 'leg-3'):
        train.train(brief(tiny_root, **tiny.ALL_AXES), str(workdir))
    children.same_run(one_device / 'run', workdir, rtol=1e-4)
    [whole] = children.recorded(one_device / 'examples')
    for leg, (start, end) in enumerate(zip([0, *starts], (3, 4, 5, 6), strict=True)):
        for batches in children.recorded(tmp_path / f'leg-{leg}'):
            assert batches[: end - start] == whole[start:end], leg


def newest(workdir) -> int:
    return checkpoints.steps(workdir)[-1]


def test_two_processes_of_which_one_is_told_to_end(tiny_root, tmp_path):
    """Both stop after the same step, and save it together; one process goes on."""
    config = tiny.tiny_config(tiny_root, baselines=(), checkpoints__every=1000)
    # The notice takes a second or two to reach the other process.
    config.stages.stage1.num_steps, config.stages.stage2.num_steps = 150, 1
    config.evals.dev.every = 1000
    with config.unlocked():
        del config.evals.test
    with children.start(children.flags(tmp_path, config), processes=2) as run:
        run.wait_for(0, 'mesh data 2')
        run.kill(1, signal.SIGINT)  # SIGTERM, which schedulers send, is what this becomes.
        assert run.wait() == [75, 75], run.output(0)
        said = [error_of(run.output(i)) for i in (0, 1)]
    [step] = checkpoints.steps(tmp_path / 'run')
    assert step < 150
    assert [line.partition(';')[0] for line in said] == [
        f'error: told to end (a signal to one of the processes): saved step {step}',
        f'error: told to end (Ctrl-C): saved step {step}',
    ]
    train.train(config, str(tmp_path / 'run'))
    assert f'resumed at step {step}, in stage stage1' in (tmp_path / 'run/log.txt').read_text()
    assert [row[0] for row in tiny.rows(tmp_path / 'run')] == list(range(1, 152))
