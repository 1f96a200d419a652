"""What the doctor says of a machine that works, and of machines that do not."""

import sys
from importlib import metadata

import jax
import pytest

from xlbench import doctor


@pytest.fixture(autouse=True)
def _calm_machine(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv('XLBENCH_DATA', raising=False)
    # The machine that runs the tests may be short of both.
    monkeypatch.setattr(doctor, '_LOW_DISK', 0)
    monkeypatch.setattr(doctor, '_LOW_MEMORY', 0)


def _without(monkeypatch, *missing, **versions):
    """Pretends that packages are missing or have other versions."""
    real = metadata.version

    def version(name):
        if name in missing:
            raise metadata.PackageNotFoundError(name)
        return versions.get(name) or real(name)

    monkeypatch.setattr(doctor.metadata, 'version', version)


def _said(topic):
    """What the doctor says of a topic: 'problem', 'note', or a fact."""
    return [text for name, text in doctor.examine() if name == topic]


def test_a_working_machine(capsys):
    assert doctor.main([]) == 0
    screen = capsys.readouterr().out
    assert 'default run (embedded sample) can run here' in screen
    assert 'problem:' not in screen
    assert f'jax {jax.__version__}' in screen
    assert len(screen.splitlines()) < 40  # One screen.


def test_every_declared_package_is_shown():
    [facts] = _said('packages')
    needed = doctor.requirements()
    assert {'jax', 'optax', 'sacrebleu'} <= set(needed)
    assert not {'libtpu', 'pytest'} & set(needed)  # Of extras.
    assert needed['flax'] == '0.12'
    assert all(f'{name} ' in facts for name in needed)


def test_a_source_tree_that_was_never_installed_is_a_note(monkeypatch):
    _without(monkeypatch, 'xlbench')
    assert doctor.requirements() == {}
    [note] = _said('note')
    assert note.startswith('xlbench is not installed, and its packages not checked; pip install')


def test_missing_and_old_packages_are_problems_that_come_first(monkeypatch, capsys):
    _without(monkeypatch, 'optax', flax='0.9.1')
    assert doctor.main([]) == 1
    first, *rest = capsys.readouterr().out.splitlines()
    assert first.startswith('problem: ')
    assert 'optax is missing' in first
    assert 'flax is 0.9.1, at least 0.12 is needed' in first
    assert 'pip install' in first
    assert 'cannot run here yet' in rest[0]


def test_jax_that_does_not_start_is_a_problem(monkeypatch):
    def devices():
        raise RuntimeError('Unable to initialize\nbackend')

    monkeypatch.setattr(jax, 'devices', devices)
    [problem] = _said('problem')
    assert 'Unable to initialize backend' in problem and '\n' not in problem


def test_jax_that_cannot_be_imported_is_a_problem(monkeypatch):
    monkeypatch.setitem(sys.modules, 'jax', None)
    assert 'jax does not start' in _said('problem')[0]


def test_the_installation_without_tensorflow_has_no_problem(monkeypatch):
    _without(monkeypatch, 'seqio', 'tensorflow-datasets')
    assert _said('problem') == []
    assert any(note.startswith('seqio is missing') for note in _said('note'))


def test_prepared_data_may_be_read_only(monkeypatch, tmp_path):
    monkeypatch.setattr(doctor.os, 'access', lambda path, mode: False)
    assert f'cannot write into {tmp_path}, where the sample' in _said('problem')[0]
    (tmp_path / 'data/sample/prepared/sample/mtg_qg_de_de/train').mkdir(parents=True)
    (tmp_path / 'data/sample/prepared/sample/mtg_qg_de_de/train/manifest.json').write_text('{}')
    assert _said('problem') == []


def test_an_unsupported_python_is_a_problem(monkeypatch):
    monkeypatch.setattr(doctor, '_PYTHON', ((3, 5), (3, 6)))
    assert 'make an environment with Python 3.5 to 3.5' in _said('problem')[0]


def test_the_data_root_of_the_environment(monkeypatch, tmp_path):
    (tmp_path / 'corpora' / 'mtg').mkdir(parents=True)
    monkeypatch.setenv('XLBENCH_DATA', str(tmp_path / 'corpora'))
    assert _said('data') == [f'{tmp_path / "corpora"} (XLBENCH_DATA): mtg']


def test_scarce_disk_and_memory_are_notes(monkeypatch):
    monkeypatch.setattr(doctor, '_LOW_DISK', 1 << 60)
    monkeypatch.setattr(doctor, '_LOW_MEMORY', 1 << 60)
    assert _said('problem') == []
    assert any('of disk' in note for note in _said('note'))
    assert any('memory' in note for note in _said('note'))


def test_an_idle_accelerator_is_a_note(monkeypatch):
    monkeypatch.delenv('JAX_PLATFORMS', raising=False)
    monkeypatch.setattr(doctor.pathlib.Path, 'exists', lambda path: str(path) == '/dev/nvidia0')
    assert any("pip install -e '.[cuda]'" in note for note in _said('note'))
    monkeypatch.setenv('JAX_PLATFORMS', 'cpu')
    assert not any('cuda' in note for note in _said('note'))


def test_versions_compare_as_numbers():
    assert doctor._numbers('0.12.8') > doctor._numbers('0.9')
    assert doctor._numbers('2.21.0rc1') == (2, 21, 0)
