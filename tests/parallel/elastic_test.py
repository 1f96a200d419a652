"""A run that goes on with other meshes and other numbers of processes than it was begun with."""

import signal

import children
import pytest
import tiny

from xlbench import train
from xlbench.system import logs
from xlbench.training import checkpoints


class _Stopped(Exception):
    pass


def test_other_devices_change_neither_the_examples_nor_the_result(tiny_root, tmp_path, monkeypatch):
    def config(**mesh):
        return tiny.brief_config(tiny_root, mesh=mesh)

    with children.recording(tmp_path / 'whole'), children.on_devices(1):
        train.train(config(), str(tmp_path / 'undisturbed'))
    workdir = tmp_path / 'run'
    write = logs.Log.write

    def write_until_step_3(log, step, *rest):
        write(log, step, *rest)
        if step == 3:
            raise _Stopped

    # On one device, to step 3.
    monkeypatch.setattr(logs.Log, 'write', write_until_step_3)
    recording, one_device = children.recording(tmp_path / 'first'), children.on_devices(1)
    with recording, one_device, pytest.raises(_Stopped):
        train.train(config(), str(workdir))
    monkeypatch.undo()
    starts = [0, checkpoints.steps(workdir)[-1]]
    # On two processes that share all rows, killed in step 5.
    with children.start(
        children.flags(tmp_path, config(tensor=2)),
        processes=2,
        record=tmp_path / 'second',
        signal_at='1:train:5:KILL',
    ) as run:
        assert run.wait(numbers=[1]) == [-signal.SIGKILL], run.output(1)
        run.kill(0)
        run.wait()
    starts.append(checkpoints.steps(workdir)[-1])
    assert starts[1] == 2 and starts[2] in (2, 3, 4)  # The newest may not have become whole.
    # On eight devices, to the end.
    with children.recording(tmp_path / 'third'):
        train.train(config(**tiny.ALL_AXES), str(workdir))

    children.same_run(tmp_path / 'undisturbed', workdir, rtol=1e-4)
    [whole] = children.recorded(tmp_path / 'whole')
    ends = (3, 5, 6)
    for folder, start, end in zip(('first', 'second', 'third'), starts, ends, strict=True):
        for batches in children.recorded(tmp_path / folder):
            assert batches[: end - start] == whole[start:end], folder
