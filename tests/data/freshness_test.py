"""Tests of xlbench/data/prepared/freshness.py."""

import hashlib
import pathlib
import shutil

import pytest

from xlbench import tasks
from xlbench.data import prepared
from xlbench.data.prepared import freshness
from xlbench.prepare import mixtures
from xlbench.system import errors
from xlbench.tasks.samples import labels, mrs, mtg

TASKS = pathlib.Path(tasks.__file__).parent


@pytest.fixture
def copies(tmp_path):
    """A folder with the task files, to be edited."""
    return pathlib.Path(shutil.copytree(TASKS, tmp_path / 'tasks'))


def edit(path: pathlib.Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text, path
    path.write_text(text.replace(old, new, 1))


def of(folder: pathlib.Path, word: str) -> str:
    return freshness.of_task_file(folder / f'{word}.py')


def test_comments_docstrings_and_lines_change_nothing(copies):
    before = {path.stem: of(copies, path.stem) for path in copies.glob('*.py')}
    for path in copies.glob('*.py'):
        path.write_text(path.read_text().replace('"""', '"""More: ', 1) + '\n\n# A last word.\n')
    assert before == {path.stem: of(copies, path.stem) for path in copies.glob('*.py')}
    assert before['mtg'] == of(TASKS, 'mtg')


def test_a_statement_of_a_file_that_is_imported_counts(copies):
    """tasks/fewshot.py reads XNLI and PAWS-X as tasks/xtreme.py says; tasks/mtg.py does not."""
    before = {word: of(copies, word) for word in ('fewshot', 'mtg', 'xtreme')}
    path = copies / 'xtreme.py'
    path.write_text(path.read_text() + '\nSHARDS = 3\n')
    after = {word: of(copies, word) for word in before}
    assert [word for word in before if before[word] != after[word]] == ['fewshot', 'xtreme']


def test_a_task_file_that_is_half_written_is_one_line(copies):
    path = copies / 'xtreme.py'
    path.write_text(path.read_text() + '\ndef half(\n')
    with pytest.raises(errors.UserError, match='a task file that it imports, is no valid Python: '):
        of(copies, 'fewshot')


def test_an_edit_of_other_code_makes_nothing_stale(monkeypatch):
    """No file of xlbench/ is read: what prepares data has versions that are declared."""
    package = pathlib.Path(prepared.__file__).parents[2]
    read = []
    monkeypatch.setattr(
        pathlib.Path, 'read_bytes', lambda path: read.append(path) or b''.join(path.open('rb'))
    )
    freshness.of_task_file(TASKS / 'fewshot.py')
    assert {path.name for path in read} == {'fewshot.py', 'xtreme.py'}
    assert not [path for path in read if package in path.parents]


def test_a_raised_version_makes_all_stale(monkeypatch):
    before = of(TASKS, 'mtg')
    monkeypatch.setitem(freshness.VERSIONS, 'readers', freshness.VERSIONS['readers'] + 1)
    assert of(TASKS, 'mtg') != before


def test_what_other_statements_made_is_stale():
    own = of(TASKS, 'xquad')
    for name in ('xquad_qg_en_de', 'xquad_multi_qg'):
        assert not freshness.is_of_other_code(name, own)
        assert freshness.is_of_other_code(name, of(TASKS, 'mtg'))
    made = {'format': freshness.FORMAT, 'task': 'xquad_qg_en_de', 'code': own}
    assert freshness.stale_reason(made, '') is None
    assert freshness.stale_reason(made | {'code': 'of another file'}, '') == freshness.CHANGED


@pytest.mark.parametrize(
    'source, expected',
    [
        (b'def f():\n  "Doc."\n  return 1  # One.', 'def f ( ) : return 1'),
        (b'x = (1,\n     2)', 'x = ( 1 , 2 )'),
        (b'class A:\n  """Doc\n  of two lines."""\n  b = "text"', 'class A : b = "text"'),
        (b'"""Doc."""\nimport os', 'import os'),
    ],
)
def test_statements(source, expected):
    assert freshness.statements(source) == expected


def test_the_versions_make_these_bytes(tmp_path, capsys):
    """Where this fails and it was meant, raise the version of what has changed, and note the hash.

    One task of each kind of batch, of the sample corpora of seed 0.
    """
    for sample in (mtg, mrs, labels):
        sample.write(str(tmp_path), 0)
    expected = {
        ('sample', 'mtg_qg_en_de'): 'de449545e9883278',
        ('sample_mrs', 'mrs_retrieval_de_de'): 'af53ff1bd0d2a44f',
        ('sample_fewshot', 'fewshot_xnli_de_de'): '4fecee18f36c57ba',
        ('sample_fewshot', 'fewshot_udpos_de_de'): 'd060f1a5de8fa500',
    }
    made = {}
    for vocabulary, name in expected:
        mixtures.prepare(name, 'test', root=str(tmp_path), vocabulary=vocabulary)
        task = prepared.open_task(str(tmp_path), vocabulary, name, 'test')
        digest = hashlib.sha256(task.content.encode() + repr(task.manifest['view']).encode())
        made[vocabulary, name] = digest.hexdigest()[:16]
    capsys.readouterr()
    assert (freshness.VERSIONS, made) == (dict.fromkeys(freshness.VERSIONS, 1), expected)
