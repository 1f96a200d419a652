"""Engines that lie or stay, and caches that somebody has written into.

tests/fuzz/partners_test.py has servers and programs that hang, drip and overflow.
"""

import pathlib
import shlex
import sqlite3
import time

import partners
import pytest

from xlbench.system.errors import UserError
from xlbench.translate import engines, external, jobs
from xlbench.translate.jobs import Memory

TEXTS = ['one', 'two', 'three']


def test_a_program_that_writes_nothing_has_translated_nothing(tmp_path):
    cache = str(tmp_path)
    silent = external.Program("sed 's/.*//'")
    with pytest.raises(UserError, match='none of the first 3 texts: sed gave an empty translation'):
        jobs.translate(TEXTS, silent, 'en', 'de', cache=cache)
    with Memory(cache, silent.identity('en', 'de')) as kept:
        assert kept.get(TEXTS) == {}
    some = jobs.translate(TEXTS, external.Program("sed 's/^two$//'"), 'en', 'de')
    assert some[::2] == ['one', 'three'] and isinstance(some[1], engines.Failure)


def test_a_program_that_hangs_is_given_up(monkeypatch):
    monkeypatch.setattr(engines, '_LEAST_SECONDS', 0.05)
    begin = time.monotonic()
    with pytest.raises(UserError, match=r'failed 20 times in a row; .* took more than 0\.05 s'):
        external.Program('sleep 1000', timeout=1.0).translate([*map(str, range(256))], 'en', 'de')
    assert time.monotonic() - begin < 12


def test_batches_that_all_fail_end_a_job():
    texts = [f'text {n}' for n in range(64)]
    once = external.Program("sed 's/^text [4-9].*$\\|^text [1-6][0-9]$//'")
    once.batch_size = 4
    with pytest.raises(UserError, match='none of the last 3 batches'):
        jobs.translate(texts, once, 'en', 'de')


@pytest.mark.parametrize('rest', ['', 'wait'])
def test_nothing_that_a_program_has_started_stays(tmp_path, rest):
    """Neither behind its answer nor where it hangs."""
    note = tmp_path / 'pid'
    command = shlex.quote(f'cat; sleep 1000 & echo $! > {note}; {rest}')
    engine = external.Program(f'/bin/sh -c {command}', timeout=0.3 if rest else 1.0)
    answers = engine.translate(TEXTS, 'en', 'de')
    assert (answers == TEXTS) == (not rest)
    stat = pathlib.Path('/proc', note.read_text().strip(), 'stat')
    deadline = time.monotonic() + 60
    while stat.exists() and ') Z ' not in stat.read_text():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_server_with_empty_translations():
    said = {'translatedText': ['', 'zwei', ' ']}
    with partners.serving(lambda request: request.send(said)) as address:
        answers = external.LibreTranslate(address).translate(TEXTS, 'en', 'de')
    assert answers[1] == 'zwei'
    assert all(isinstance(answers[n], engines.Failure) for n in (0, 2))


# ---------------------------------------------------------------------------------------- the cache


@pytest.fixture
def cache(tmp_path):
    with Memory(str(tmp_path), 'engine') as kept:
        kept.add({'one': 'eins', 'two': 'zwei'})
    return tmp_path


def change(folder, *statements):
    connection = sqlite3.connect(folder / jobs.FILE)
    with connection:
        for statement in statements:
            connection.execute(statement)
    connection.close()


@pytest.mark.parametrize(
    'statement',
    [
        "UPDATE kept SET translation = 'ein' WHERE source = 'one'",
        "UPDATE kept SET translation = NULL WHERE source = 'one'",
        "UPDATE kept SET translation = x'ff00' WHERE source = 'one'",
        "UPDATE kept SET translation = CAST(x'ff' AS TEXT) WHERE source = 'one'",
        "UPDATE kept SET translation = 7 WHERE source = 'one'",
        "UPDATE kept SET checksum = NULL WHERE source = 'one'",
        "UPDATE kept SET translation = NULL, checksum = NULL WHERE source = 'one'",
        "UPDATE kept SET checksum = 'text' WHERE source = 'one'",
    ],
)
def test_a_row_that_was_altered_is_as_good_as_none(cache, statement):
    change(cache, statement)
    with Memory(str(cache), 'engine') as kept:
        assert kept.get(TEXTS) == {'two': 'zwei'}
        kept.add({'one': 'EINS'})
        assert kept.get(TEXTS) == {'one': 'EINS', 'two': 'zwei'}


def test_no_text_with_its_right_checksum_is_as_good_as_none(cache):
    connection = sqlite3.connect(cache / jobs.FILE)
    with connection, Memory(str(cache), 'engine') as kept:
        row = (jobs._checksum(kept._key('one'), b'\xff'),)
        connection.execute(
            "UPDATE kept SET translation = x'ff', checksum = ? WHERE source = 'one'", row
        )
        connection.commit()
        assert kept.get(TEXTS) == {'two': 'zwei'}
    connection.close()


def test_no_flipped_bit_is_another_translation(tmp_path):
    with Memory(str(tmp_path), 'engine') as kept:
        kept.add({'one': 'eins und noch mehr davon'})
    file = tmp_path / jobs.FILE
    whole = file.read_bytes()
    place = whole.index(b'eins und')
    for at in range(place - 60, min(place + 60, len(whole))):
        file.write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])
        try:
            with Memory(str(tmp_path), 'engine') as kept:
                assert kept.get(['one']) in ({}, {'one': 'eins und noch mehr davon'})
        except UserError as error:
            assert '\n' not in str(error)


ENDLESS = (
    'WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n) '
    "SELECT x'00' key, '' engine, '' source, i translation, NULL checksum FROM n"
)


@pytest.mark.parametrize(
    'statements',
    [
        ['DROP TABLE kept', f'CREATE VIEW kept AS {ENDLESS}'],
        [f'CREATE VIEW translations AS {ENDLESS}'],
        ['CREATE TRIGGER t AFTER INSERT ON kept BEGIN DELETE FROM kept; END'],
        ['DROP TABLE kept', 'CREATE TABLE kept (key)'],
        ['DROP TABLE kept', 'CREATE TABLE kept (key BLOB, a AS (zeroblob(999999999)))'],
    ],
)
def test_a_schema_of_somebody_else_is_one_line(cache, statements):
    change(cache, *statements)
    with pytest.raises(UserError, match=r'has another form .* or remove it') as caught:
        Memory(str(cache), 'engine')
    assert '\n' not in str(caught.value)


def test_a_question_without_end_is_given_up(cache, monkeypatch):
    monkeypatch.setattr(jobs, '_PATIENCE', 0.2)
    kept = Memory(str(cache), 'engine')
    with pytest.raises(UserError, match='interrupted'), kept._said():
        kept._connection.execute(f'SELECT count(*) FROM ({ENDLESS})').fetchall()
