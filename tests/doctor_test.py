"""What the doctor says of a machine that works, and of machines that do not."""

import sys
from importlib import metadata

import jax
import partners
import pytest

from xlbench import doctor


@pytest.fixture(autouse=True)
def _calm_machine(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv('XLBENCH_DATA', raising=False)
    monkeypatch.setenv('HF_HUB_OFFLINE', '1')  # No test asks a network.
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


def _topics(found):
    return dict(found.lines)


def test_a_working_machine(capsys):
    assert doctor.main([]) == 0
    screen = capsys.readouterr().out
    assert 'default run (embedded sample) can run here' in screen
    assert 'problem:' not in screen
    assert f'jax {jax.__version__}' in screen
    assert len(screen.splitlines()) < 40  # One screen.


def test_every_declared_package_is_shown():
    facts = ' '.join(fact for _, fact in doctor.examine().lines)
    needed = doctor.requirements()
    assert {'jax', 'optax', 'sacrebleu'} <= set(needed)
    assert not {'libtpu', 'pytest'} & set(needed)  # Of extras.
    assert needed['flax'] == '0.12'
    assert all(f'{name} ' in facts for name in needed)


def test_a_source_tree_that_was_never_installed_is_a_note(monkeypatch):
    _without(monkeypatch, 'xlbench')
    assert doctor.requirements() == {}
    [note] = doctor.examine().notes
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
    problems = doctor.examine().problems
    assert len(problems) == 1
    assert 'Unable to initialize backend' in problems[0]
    assert '\n' not in problems[0]


def test_jax_that_cannot_be_imported_is_a_problem(monkeypatch):
    monkeypatch.setitem(sys.modules, 'jax', None)
    assert 'jax does not start' in doctor.examine().problems[0]


def test_the_installation_without_tensorflow_has_no_problem(monkeypatch, tmp_path):
    _without(monkeypatch, 'tensorflow', 'tensorflow-cpu', 'tf-nightly', 'seqio')
    sample = tmp_path / 'data' / 'sample'
    manifest = sample / 'prepared' / 'sample' / 'mtg_qg_de_de' / 'train' / 'manifest.json'
    manifest.parent.mkdir(parents=True)
    manifest.write_text('{}')
    (sample / 'SAMPLE.json').write_text('{}')
    found = doctor.examine()
    assert found.problems == []
    assert _topics(found)['sample'].endswith('sample, prepared')
    assert 'seqio missing' in _topics(found)['TensorFlow']


def test_an_unsupported_python_is_a_problem(monkeypatch):
    monkeypatch.setattr(doctor, '_PYTHON', ((3, 5), (3, 6)))
    assert 'make an environment with Python 3.5 to 3.5' in doctor.examine().problems[0]


def test_the_data_root_of_the_environment(monkeypatch, tmp_path):
    (tmp_path / 'corpora' / 'mtg').mkdir(parents=True)
    monkeypatch.setenv('XLBENCH_DATA', str(tmp_path / 'corpora'))
    assert _topics(doctor.examine())['data'] == f'{tmp_path / "corpora"} (XLBENCH_DATA): mtg'


def test_scarce_disk_and_memory_are_notes(monkeypatch):
    monkeypatch.setattr(doctor, '_LOW_DISK', 1 << 60)
    monkeypatch.setattr(doctor, '_LOW_MEMORY', 1 << 60)
    found = doctor.examine()
    assert found.problems == []
    assert any('of disk' in note for note in found.notes)
    assert any('memory' in note for note in found.notes)


def test_an_idle_accelerator_is_a_note(monkeypatch):
    monkeypatch.delenv('JAX_PLATFORMS', raising=False)
    monkeypatch.setattr(doctor.pathlib.Path, 'exists', lambda path: str(path) == '/dev/nvidia0')
    assert 'cuda' in doctor._unused_accelerator()
    monkeypatch.setenv('JAX_PLATFORMS', 'cpu')
    assert doctor._unused_accelerator() == ''


def test_the_hub_is_asked_and_not_guessed(monkeypatch):
    statuses = iter((200, 403))

    monkeypatch.delenv('HF_HUB_OFFLINE', raising=False)
    monkeypatch.delenv('TRANSFORMERS_OFFLINE', raising=False)
    with partners.serving(lambda request: request.send(status=next(statuses))) as address:
        monkeypatch.setenv('HF_ENDPOINT', address)
        for _ in range(2):
            assert doctor._hub_state() == f'{address} answers: public models can be fetched'
    assert doctor._hub_state().startswith(f'{address} does not answer (')
    monkeypatch.setenv('HF_ENDPOINT', 'no address')
    assert 'does not answer' in doctor._hub_state()
    monkeypatch.setenv('HF_HUB_OFFLINE', '1')
    assert doctor._hub_state() == 'offline by HF_HUB_OFFLINE: only models in the cache'


def test_versions_compare_as_numbers():
    assert doctor._numbers('0.12.8') > doctor._numbers('0.9')
    assert doctor._numbers('2.21.0rc1') == (2, 21, 0)
