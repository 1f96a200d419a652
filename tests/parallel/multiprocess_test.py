"""Any number of processes and any mesh: the same examples, losses, scores and predictions."""

import pathlib

import children
import pytest
import tiny

from xlbench import train

pytestmark = pytest.mark.outside

# {name: (processes, fake devices of each, mesh)}. In 'four' two processes share the same rows.
SETTINGS = {
    'one': (1, 1, {}),
    'eight': (1, 8, tiny.ALL_AXES),
    'two': (2, 4, tiny.ALL_AXES),
    'four': (4, 2, dict(data=2, sequence=2, tensor=2)),
}


@pytest.fixture(scope='module')
def folders(tiny_root, tmp_path_factory):
    """A function from a name of SETTINGS to the folder of its finished run.

    It has the workdir as run/, and in examples/ what was trained on.
    """
    root, finished = tmp_path_factory.mktemp('settings'), set()

    def run(name: str) -> pathlib.Path:
        folder = root / name
        if name in finished:
            return folder
        processes, devices, mesh = SETTINGS[name]
        config = tiny.brief_config(tiny_root, mesh=mesh)
        if processes > 1:
            with children.start(
                children.flags(folder, config),
                processes=processes,
                devices=devices,
                record=folder / 'examples',
            ) as started:
                assert started.wait() == [0] * processes, started.output(0)
        else:
            with children.recording(folder / 'examples'), children.on_devices(devices):
                train.train(config, str(folder / 'run'))
        finished.add(name)
        return folder

    return run


@pytest.mark.parametrize('name', ['eight', 'two', 'four'])
def test_every_loss_score_and_prediction_is_that_of_one_device(folders, name):
    children.same_run(folders('one') / 'run', folders(name) / 'run', rtol=1e-4)


def test_each_process_trains_on_its_own_rows(folders):
    [one] = children.recorded(folders('one') / 'examples')
    first, second = children.recorded(folders('two') / 'examples')
    assert len(one) == len(first) == len(second) == 6
    for whole, upper, lower in zip(one, first, second, strict=True):
        assert whole['examples'] == upper['examples'] == lower['examples']
        assert whole['rows'] == upper['rows'] + lower['rows']
    assert len({str(batch['examples']) for batch in one}) == 6


def test_processes_that_share_a_row_both_read_it(folders):
    [one] = children.recorded(folders('one') / 'examples')
    four = children.recorded(folders('four') / 'examples')
    for whole, *parts in zip(one, *four, strict=True):
        assert parts[0] == parts[1] and parts[2] == parts[3]
        assert whole['rows'] == parts[0]['rows'] + parts[2]['rows']
