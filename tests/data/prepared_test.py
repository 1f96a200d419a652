"""Prepared data: what is written is read back, and whatever is broken, stale or hostile is seen."""

import functools
import itertools
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import threading
import time
import types

import msgpack
import numpy as np
import pytest
from edits import edited
from put_files import tree

from xlbench.data import prepared, readers
from xlbench.settings.blocks import Data
from xlbench.system.errors import UserError

VOCABULARY = {'name': 'v', 'sha256': 'ab', 'size': 100, 'pad_id': 0, 'eos_id': 1, 'unk_id': 2}
VOCABULARY['decoder_start_id'] = 0


def make_records(count: int, seed: int = 0) -> list[dict]:
    rng = np.random.default_rng(seed)
    return [
        {
            'inputs': np.append(rng.integers(3, 100, rng.integers(1, 9)), 1),
            'targets': np.append(rng.integers(3, 100, rng.integers(0, 4)), 1),
            'inputs_pretokenized': f'Frage {i}: größer?',
            'targets_pretokenized': f'{i}',
        }
        for i in range(count)
    ]


def make_manifest(task: str = 'demo_a', split: str = 'train', **extra) -> dict:
    return {'task': task, 'split': split, 'vocabulary': VOCABULARY, 'inputs': [], **extra}


def write(root, records, task: str = 'demo_a', shard_examples: int = 4, **extra) -> str:
    place = prepared.folder(str(root), 'v', task, 'train')
    manifest = make_manifest(task, **extra)
    with prepared.Writer(place, manifest=manifest, shard_examples=shard_examples) as writer:
        writer.write_batch(records[:3])
        writer.write_batch(records[3:])
    return place


def open_demo(root) -> prepared.Prepared:
    return prepared.open_task(str(root), 'v', 'demo_a', 'train')


def edit_manifest(place: str, **changes) -> None:
    with edited(f'{place}/manifest.json') as manifest:
        manifest.update(changes)


def open_edited_mixture(root, rates):
    prepared.write_mixture(str(root), 'v', 'demo', 'train', {'demo_a': 1})
    with edited(root / 'prepared' / 'v' / 'demo.json') as content:
        content['train'] = rates
    return prepared.open_mixture(str(root), 'v', 'demo', 'train')


def assert_same(record: dict, expected: dict) -> None:
    assert record.keys() == expected.keys()
    for name, value in expected.items():
        if isinstance(value, str):
            assert record[name] == value
        else:
            assert record[name].dtype == np.int32
            np.testing.assert_array_equal(record[name], value)


def test_every_record_comes_back(tmp_path):
    records = make_records(11)
    place = write(tmp_path, records)
    task = open_demo(tmp_path)
    assert (len(task), task.name, task.split) == (11, 'demo_a', 'train')
    for index, expected in enumerate(records):
        assert_same(task[index], expected)
    for index, record in zip([9, 0, 9, 4], task.read([9, 0, 9, 4]), strict=True):
        assert_same(record, records[index])
    lengths = [[len(r['inputs']), len(r['targets'])] for r in records]
    np.testing.assert_array_equal(task.lengths(), lengths)
    totals, largest = np.sum(lengths, 0), np.max(lengths, 0)
    assert task.manifest['tokens'] == {
        'inputs': {'total': totals[0], 'max': largest[0]},
        'targets': {'total': totals[1], 'max': largest[1]},
    }
    shards = [f'0000{number}-of-00003.array_record' for number in range(3)]
    assert sorted(os.listdir(place)) == [*shards, 'lengths.npy', 'manifest.json']
    assert [shard['examples'] for shard in task.manifest['shards']] == [4, 4, 3]
    for entry in (*task.manifest['shards'], task.manifest['lengths']):
        assert readers.sha256(f'{place}/{entry["file"]}') == entry['sha256']
    with pytest.raises(IndexError):
        task[11]


def test_the_same_records_give_the_same_bytes(tmp_path):
    """Also in shards that others wrote in any order, one of them twice, one left by the dead."""
    records = make_records(11)
    place, again = (write(tmp_path / name, records) for name in 'ac')
    other = prepared.folder(str(tmp_path / 'b'), 'v', 'demo_a', 'train')
    with prepared.Writer(other, manifest=make_manifest(), shard_examples=4) as writer:
        entries = {}
        for index in (2, 0, 1, 0):
            packed, first = prepared.pack(records[4 * index : 4 * index + 4]), 4 * index
            entries[index] = prepared.write_shard(
                writer.temporary, index, [packed], first=first, vocabulary_size=VOCABULARY['size']
            )
        pathlib.Path(writer.temporary, 'parts', '00000-died-1-1').write_text('half')
        writer.adopt([entries[index] for index in range(3)])
    assert tree(place) == tree(again) == tree(other)


def test_a_shard_names_the_example_that_no_model_could_read(tmp_path):
    records = [*make_records(2), make_records(1)[0] | {'inputs': []}]
    with pytest.raises(ValueError, match='inputs of example 42 is empty'):
        packed = [prepared.pack(records)]
        prepared.write_shard(str(tmp_path), 4, packed, first=40, vocabulary_size=100)
    assert os.listdir(tmp_path) == ['parts']


def test_an_empty_preparation_is_valid(tmp_path):
    write(tmp_path, [])
    assert len(open_demo(tmp_path)) == 0
    assert open_demo(tmp_path).lengths().shape == (0, 2)


@pytest.mark.parametrize(
    'ids', [[], [100], [-1], [[1]], [0.5]], ids=['empty', 'large', 'negative', 'matrix', 'float']
)
def test_ids_that_no_model_could_read_are_refused(tmp_path, ids):
    record = make_records(1)[0] | {'inputs': np.array(ids)}
    with pytest.raises(ValueError):
        write(tmp_path, [record])
    assert not os.path.exists(prepared.folder(str(tmp_path), 'v', 'demo_a', 'train'))


def test_a_second_preparation_replaces_the_first_unless_it_fails(tmp_path):
    place = write(tmp_path, make_records(5))
    with (
        pytest.raises(RuntimeError, match='stop'),
        prepared.Writer(place, manifest=make_manifest()) as writer,
    ):
        writer.write_batch(make_records(2))
        raise RuntimeError('stop')
    assert len(open_demo(tmp_path)) == 5
    assert os.listdir(os.path.dirname(place)) == ['train']
    write(tmp_path, make_records(2))
    assert len(open_demo(tmp_path)) == 2
    assert os.listdir(os.path.dirname(place)) == ['train']
    assert len(os.listdir(place)) == 3


KILLED = """
import json, os, sys
from xlbench.data import prepared
for moment in ('writing', 'finishing'):
    if not os.fork():
        place = prepared.folder(f'{sys.argv[1]}/{moment}', 'v', 'demo_a', 'train')
        prepared.writer._swap_in = lambda *paths: os._exit(9)
        manifest = json.loads(sys.argv[2])
        with prepared.Writer(place, manifest=manifest, shard_examples=4) as writer:
            writer.write_batch([{'inputs': [5, 1], 'targets': [1]}] * 9)
            if moment == 'writing':
                os._exit(9)
    assert os.waitstatus_to_exitcode(os.wait()[1]) == 9
"""


def test_a_killed_writer_leaves_nothing_valid_and_is_cleaned_up_after(tmp_path):
    manifest = json.dumps(make_manifest())
    subprocess.run([sys.executable, '-c', KILLED, str(tmp_path), manifest], check=True)
    for root in (tmp_path / 'writing', tmp_path / 'finishing'):
        place = prepared.folder(str(root), 'v', 'demo_a', 'train')
        leftovers = os.listdir(os.path.dirname(place))
        assert len(leftovers) == 1 and re.fullmatch(r'\.train\.\w+-\d+\.tmp', leftovers[0])
        with pytest.raises(prepared.NotPrepared):
            open_demo(root)
        with prepared.alone(place) as waited:
            write(root, make_records(3))
        assert not waited and os.listdir(os.path.dirname(place)) == ['train']
        assert len(open_demo(root)) == 3


def test_what_is_left_goes_whoever_it_was(tmp_path):
    """On another machine, or with a number that another process has by now; other splits stay."""
    place = prepared.folder(str(tmp_path), 'v', 'demo_a', 'train')
    parent = os.path.dirname(place)
    for name in (f'.train.{prepared.writer._host()}-{os.getpid()}.tmp', '.train.old-gone-1.tmp'):
        os.makedirs(os.path.join(parent, name, 'part'))
    os.makedirs(os.path.join(parent, '.train_2.gone-1.tmp'))
    with prepared.alone(place):
        assert sorted(os.listdir(parent)) == ['.train.lock', '.train_2.gone-1.tmp']


def test_splits_of_a_mixture_that_are_written_at_once_are_all_there(tmp_path):
    """Each reads the file, adds its own, and writes it."""
    splits = [f'split{number}' for number in range(6)]
    together = threading.Barrier(len(splits))

    def write_one(split):
        together.wait()
        for task in ('demo_a', 'demo_b'):
            prepared.write_mixture(str(tmp_path), 'v', 'demo', split, {task: 1})

    for _ in range(3):
        threads = [threading.Thread(target=write_one, args=(split,)) for split in splits]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        path = tmp_path / 'prepared' / 'v' / 'demo.json'
        content = json.loads(path.read_text())
        assert [content[split] for split in splits] == [{'demo_b': 1}] * len(splits)
        assert os.listdir(path.parent) == ['demo.json']
        path.unlink()


@pytest.mark.parametrize('name', ['../demo_a', 'a/b', '.hidden', 'a..b', 'a\0b'])
def test_names_cannot_lead_elsewhere(tmp_path, name):
    with pytest.raises(UserError, match='plain name'):
        prepared.folder(str(tmp_path), 'v', name, 'train')
    with pytest.raises(UserError, match='plain name'):
        prepared.folder(str(tmp_path), 'v', 'demo_a', name)
    with pytest.raises(UserError, match='plain name'):
        open_edited_mixture(tmp_path, {name: 1.0})


def test_vocabulary_folders_stay_inside(tmp_path):
    assert prepared.vocabulary_folder('google/mt5-base') == 'google--mt5-base'
    for hostile in ('../..', '/etc', '..', 'a/../../b', '', '.x'):
        name = prepared.vocabulary_folder(hostile)
        assert '/' not in name and not name.startswith('.') and '..' not in name


def shard_of(place: str) -> pathlib.Path:
    return pathlib.Path(place, '00000-of-00001.array_record')


def test_damaged_bytes_are_named(tmp_path):
    place = write(tmp_path, make_records(30), shard_examples=100)
    path = shard_of(place)
    data = bytearray(path.read_bytes())
    for at in range(300, 1500):  # Inside the records; most of a small file is padding.
        data[at] ^= 0x5A
    path.write_bytes(data)
    task = open_demo(tmp_path)
    with pytest.raises(UserError, match=r'00000-of-00001\.array_record is broken'):
        task.read(range(30))
    path.write_bytes(data[:-100])
    with pytest.raises(prepared.NotPrepared, match='bytes'):
        open_demo(tmp_path)


def test_records_must_be_as_long_as_their_lengths(tmp_path):
    place = write(tmp_path, make_records(3))
    lengths = np.load(pathlib.Path(place, 'lengths.npy')) + 1
    np.save(pathlib.Path(place, 'lengths.npy'), lengths)
    with pytest.raises(UserError, match='inputs of example 1'):
        open_demo(tmp_path)[1]


def as_bytes(record):
    """A record as it stands in a file."""
    values = {
        name: x if isinstance(x, str) else np.asarray(x, '<i4').tobytes()
        for name, x in sorted(record.items())
    }
    return msgpack.packb(values)


def test_records_are_packed_alike_together_and_alone():
    """Also of a kind that needs a closer look."""
    records = make_records(9)
    alike = [
        {name: x if isinstance(x, str) else x.astype(np.int32) for name, x in record.items()}
        for record in records
    ]
    for given in (records, alike, [*records[:1], *alike[1:]], []):
        packed = prepared.pack(given)
        assert packed.data == list(map(as_bytes, given))
        lengths = [[len(record[side]) for side in ('inputs', 'targets')] for record in given]
        assert packed.lengths.tolist() == lengths
    for wrong in (np.array([-1], np.int32), np.ones((1, 1), np.int32), np.ones(1)):
        with pytest.raises(ValueError, match="'inputs'"):
            prepared.pack([*alike, {**alike[0], 'inputs': wrong}])
    with pytest.raises(ValueError, match='other features than inputs, targets'):
        prepared.pack([*alike, {**alike[0], 'lang': 'de'}])
    with pytest.raises(ValueError, match='inputs and targets have to be ids'):
        prepared.pack([{'inputs': 'a text', 'targets': [1]}])


def test_columns_hold_what_records_hold():
    rows = [np.arange(n, dtype=np.int32) for n in (3, 0, 2)]
    ids = prepared.Ids.joined(rows, before=[7, 8], behind=[1])
    expected = [[7, 8, 0, 1, 2, 1], [7, 8, 1], [7, 8, 0, 1, 1]]
    assert ids.sizes().tolist() == [6, 3, 5] and len(ids) == 3
    assert len(prepared.Ids.joined([], [7], [1])) == 0
    columns = {'inputs': ids, 'targets': ids, 'id': ['a', 'b', 'c']}
    packed = prepared.pack(columns)
    found = [(record['id'], record['inputs'].tolist()) for record in packed]
    assert found == list(zip('abc', expected, strict=True))
    assert packed.data == list(map(as_bytes, packed))
    assert packed.lengths.tolist() == [[6, 6], [3, 3], [5, 5]] and packed.largest == (8, 8)
    part = packed.part(1, 9)
    assert (part.data, part.lengths.tolist()) == (packed.data[1:], [[3, 3], [5, 5]])


def test_lengths_of_large_data_stay_in_their_file(tmp_path, monkeypatch):
    write(tmp_path, make_records(9))
    here = open_demo(tmp_path).lengths()
    monkeypatch.setattr(prepared.reader, '_LENGTHS_IN_MEMORY', 8)
    there = open_demo(tmp_path).lengths()
    assert not isinstance(here.base, np.memmap) and isinstance(there.base, np.memmap)
    np.testing.assert_array_equal(here, there)
    assert there.dtype == np.int32 and not there.flags.writeable


@pytest.mark.parametrize(
    'array',
    [
        np.zeros((3, 2), np.int32), np.ones((4, 2), np.int32), np.ones((3, 2), np.int64),
        np.array([[{}, {}]] * 3),
    ],
)  # fmt: skip
def test_other_lengths_are_not_prepared(tmp_path, array):
    place = write(tmp_path, make_records(3))
    np.save(pathlib.Path(place, 'lengths.npy'), array, allow_pickle=True)
    with pytest.raises(prepared.NotPrepared, match=r'lengths\.npy'):
        open_demo(tmp_path)


@pytest.mark.parametrize(
    'data',
    [
        b'', b'\xc1', b'\x81\xa1a\xdb\xff\xff\xff\xffx', b'\x81\xa1a\xa2\xff\xff',
        msgpack.packb({'text': b''}) + b'more',
        *map(msgpack.packb, (
            [1, 2], {1: b''}, {'inputs': 5}, {'inputs': b'\x01\x00\x00'}, {'inputs': ['a']},
            {'inputs': msgpack.ExtType(4, b'x')},
        )),
    ],
)  # fmt: skip
def test_only_maps_of_ids_and_text_are_decoded(data):
    with pytest.raises(ValueError):
        prepared.decode(data)


@pytest.mark.parametrize(
    'changes',
    [
        b'', b'{', b'[]', b'{"a": 1}', b'[' * 100_000, b'\xed\xa0\x80',  # Half a surrogate pair.
        {'num_examples': 4}, {'num_examples': True}, {'shards': {}}, {'split': 'test'},
        {'split': 'x' * 5000}, {'format': 0}, {'format': '1'}, {'vocabulary': {}},
        {'vocabulary': None}, {'vocabulary': VOCABULARY | {'size': -1}},
        {'vocabulary': VOCABULARY | {'size': 2**40}}, {'vocabulary': VOCABULARY | {'pad_id': 'x'}},
        {'vocabulary': VOCABULARY | {'eos_id': None}}, {'answer_mark': '<answer>'},
        {'vocabulary': VOCABULARY | {'closing_id': -1}},
        {'vocabulary': VOCABULARY | {'language_rows': {'de': 2**40}}},
        {'labels': 'ab'}, {'labels': ['a', 1]}, {'labels': ['a', 'a']}, {'view': 'tagging'},
        {'view': 3}, {'answer_mark': ['x']}, {'metrics': 'rouge'}, {'metrics': [3]},
        {'target_lang': 5}, {'headline': []}, {'data': None}, {'inputs': [{'path': 'a\0b'}]},
        {'inputs': [{'path': 3}]}, {'inputs': {'path': 'x'}}, {'patterns': [None]},
        {'left_out': [1]}, {'skipped': ['x']}, {'splits': 'train'}, {'lengths': []},
        {'tokens': {'inputs': 3}}, {'deep': functools.reduce(lambda x, _: [x], range(80), 1)},
    ],
    ids=lambda changes: repr(changes)[:99],
)  # fmt: skip
def test_a_manifest_must_be_whole_and_agree_with_itself(tmp_path, changes):
    place = write(tmp_path, make_records(3))
    if isinstance(changes, bytes):
        pathlib.Path(place, 'manifest.json').write_bytes(changes)
    else:
        edit_manifest(place, **changes)
    with pytest.raises(prepared.NotPrepared) as raised:
        open_demo(tmp_path)
    assert '\n' not in str(raised.value) and len(str(raised.value)) < 1000


@pytest.mark.parametrize(
    ('key', 'value'),
    [
        *itertools.product(['examples', 'bytes', 'sha256'], [None, -1, 2**60, True, 'gone']),
        *(('file', name) for name in (
            '../x.array_record', '/etc/passwd', 'a/b', '..', '', None, 7, 'x' * 5000, ['x'], 'gone',
        )),
    ],
)  # fmt: skip
def test_a_strange_shard_is_not_opened(tmp_path, key, value):
    """Nor one that lies outside of its folder, nor one that is listed twice."""
    place = write(tmp_path, make_records(3))
    (shard,) = json.loads(pathlib.Path(place, 'manifest.json').read_text())['shards']
    strange = {k: v for k, v in (shard | {key: value}).items() if v != 'gone'}
    edit_manifest(place, shards=[strange])
    outside = key == 'file' and value != 'gone'
    with pytest.raises(UserError if outside else (prepared.NotPrepared, UserError)) as raised:
        open_demo(tmp_path)
    assert not outside or 'plain name' in str(raised.value)
    edit_manifest(place, shards=[shard, shard], num_examples=6)
    with pytest.raises(prepared.NotPrepared, match='lists a shard twice'):
        open_demo(tmp_path)


def test_ids_beyond_the_vocabulary_are_named(tmp_path):
    place = write(tmp_path, make_records(3))
    edit_manifest(place, vocabulary=VOCABULARY | {'size': 4})
    with pytest.raises(UserError, match=r'example \d has ids beyond the vocabulary'):
        open_demo(tmp_path).read(range(3))


def test_a_file_in_place_of_a_folder_and_the_other_way_round(tmp_path):
    place = pathlib.Path(write(tmp_path, make_records(3)))
    for name in ('lengths.npy', 'manifest.json', shard_of(place).name):
        shutil.move(place / name, tmp_path / 'aside')
        (place / name).mkdir()
        with pytest.raises(prepared.NotPrepared):
            open_demo(tmp_path)
        (place / name).rmdir()
        os.mkfifo(place / name)  # Nothing waits for it.
        with pytest.raises((prepared.NotPrepared, UserError)):
            open_demo(tmp_path)
        (place / name).unlink()
        shutil.move(tmp_path / 'aside', place / name)
    open_demo(tmp_path)
    np.savez(tmp_path / 'x.npz', lengths=open_demo(tmp_path).lengths())
    shutil.copy(tmp_path / 'x.npz', place / 'lengths.npy')
    with pytest.raises(prepared.NotPrepared, match='lengths'):
        open_demo(tmp_path)
    shutil.rmtree(place)
    place.write_text('a file')
    with pytest.raises(prepared.NotPrepared):
        open_demo(tmp_path)


def input_entry(path: pathlib.Path) -> dict:
    about = path.stat()
    times = {'bytes': about.st_size, 'mtime_ns': about.st_mtime_ns}
    return {'path': path.name, 'sha256': readers.sha256(path), **times}


def test_changed_inputs_make_it_stale(tmp_path):
    files = [tmp_path / 'x.src', tmp_path / 'x.trg']
    for file in files:
        file.write_text('eins\nzwei\n')
    write(tmp_path, make_records(2), inputs=[input_entry(file) for file in files])
    open_demo(tmp_path)
    os.utime(files[0], ns=(1, 1))  # Other times, same bytes.
    open_demo(tmp_path)
    files[0].write_text('eins\nDREI\n')
    with pytest.raises(prepared.NotPrepared, match=r'x\.src has changed'):
        open_demo(tmp_path)
    files[0].unlink()
    with pytest.raises(prepared.NotPrepared, match=r'x\.src is gone'):
        open_demo(tmp_path)
    files[1].unlink()  # Copied here without its sources: nothing contradicts it.
    open_demo(tmp_path)


def test_a_further_input_makes_it_stale(tmp_path):
    first = tmp_path / 'a.tsv'
    first.write_text('eins\n')
    patterns = ['*.tsv', 'gone.txt']
    write(tmp_path, make_records(2), inputs=[input_entry(first)], patterns=patterns)
    open_demo(tmp_path)
    second = tmp_path / 'b.tsv'
    second.write_text('zwei\n')
    with pytest.raises(prepared.NotPrepared, match=r'a further input .*b\.tsv'):
        open_demo(tmp_path)
    second.unlink()
    (tmp_path / 'gone.txt').write_text('')
    with pytest.raises(prepared.NotPrepared, match=r'a further input .*gone\.txt'):
        open_demo(tmp_path)
    first.unlink()  # Copied here without its sources.
    open_demo(tmp_path)
    edit_manifest(prepared.folder(str(tmp_path), 'v', 'demo_a', 'train'), patterns=['a\0'])
    with pytest.raises(prepared.NotPrepared, match='the name of an input has a NUL'):
        open_demo(tmp_path)


def test_changed_code_makes_it_stale(tmp_path, monkeypatch):
    monkeypatch.setattr(prepared.freshness, 'code_fingerprint', lambda name: 'one')
    write(tmp_path, make_records(2))
    prepared.write_mixture(str(tmp_path), 'v', 'demo', 'train', {'demo_a': 1})
    prepared.open_mixture(str(tmp_path), 'v', 'demo', 'train')
    monkeypatch.setattr(prepared.freshness, 'code_fingerprint', lambda name: 'two')
    with pytest.raises(prepared.NotPrepared, match='code'):
        open_demo(tmp_path)
    with pytest.raises(prepared.NotPrepared, match='code'):
        prepared.open_mixture(str(tmp_path), 'v', 'demo', 'train')
    monkeypatch.setattr(prepared.freshness, 'code_fingerprint', lambda name: None)  # No code here.
    open_demo(tmp_path)


def test_mixtures(tmp_path):
    root = str(tmp_path)
    write(tmp_path, make_records(2), 'demo_a')
    write(tmp_path, make_records(3), 'demo_b')
    prepared.write_mixture(root, 'v', 'demo', 'train', {'demo_b': 3, 'demo_a': 0.5})
    prepared.write_mixture(root, 'v', 'demo', 'test', {'demo_a': 1})
    tasks, rates = prepared.open_mixture(root, 'v', 'demo', 'train')
    found = {task.name: rate for task, rate in zip(tasks, rates, strict=True)}
    assert found == {'demo_a': 0.5, 'demo_b': 3.0}
    tasks, rates = prepared.open_mixture(root, 'v', 'demo_b', 'train')
    assert ([task.name for task in tasks], rates) == (['demo_b'], [1.0])
    for name, split in (('demo', 'validation'), ('demo', 'test'), ('demo_c', 'train')):
        with pytest.raises(prepared.NotPrepared):
            prepared.open_mixture(root, 'v', name, split)


@pytest.mark.parametrize('rate', [0, -1, 'x', None, float('nan'), float('inf'), True])
def test_a_rate_is_a_positive_number(tmp_path, rate):
    write(tmp_path, make_records(2), 'demo_a')
    with pytest.raises(prepared.NotPrepared, match=r'positive number|not JSON'):
        open_edited_mixture(tmp_path, {'demo_a': rate})


def test_whoever_waits_sees_all_or_nothing(tmp_path):
    """Nothing, one task of two, both, and at last their rates: only then the waiting ends."""
    data = Data(root=str(tmp_path), vocabulary='v', sample=False)
    wait = functools.partial(prepared.wait_for, [('demo_both', 'train')], data, seconds=0.01)
    waiting = threading.Thread(target=wait, daemon=True)
    waiting.start()
    for task in ('demo_a', 'demo_b'):
        time.sleep(0.1)
        assert waiting.is_alive()
        write(tmp_path, make_records(5), task)
    time.sleep(0.1)
    assert waiting.is_alive()
    rates = {'demo_a': 1.0, 'demo_b': 2.0}
    prepared.write_mixture(str(tmp_path), 'v', 'demo_both', 'train', rates)
    waiting.join(60)
    assert not waiting.is_alive()
    tasks, found = prepared.open_mixture(str(tmp_path), 'v', 'demo_both', 'train')
    assert [len(task) for task in tasks] == [5, 5] and found == [1.0, 2.0]


def opens_what_was_prepared(commands):
    """An `open_mixture` for which all is there as soon as a command prepares it."""

    def open_mixture(root, vocabulary, name, split):
        made = {f'--mixture={name}:{split}', f'--vocabulary={vocabulary}'}
        if not any(made <= set(command) for command in commands):
            raise prepared.NotPrepared(f'{name} does not exist')
        return [], []

    return open_mixture


def test_a_task_file_that_is_edited_while_it_is_prepared_is_one_line(tmp_path, monkeypatch):
    def run(*_, **__):
        write(tmp_path, make_records(3))
        monkeypatch.setattr(prepared.reader.freshness, 'stale_reason', lambda *_: 'it was edited')
        return types.SimpleNamespace(returncode=0)

    monkeypatch.setattr(prepared.on_demand.subprocess, 'run', run)
    with pytest.raises(UserError, match='stale: it was edited, although') as error:
        data = Data(root=str(tmp_path), vocabulary='v', sample=False)
        prepared.ensure([('demo_a', 'train')], data)
    assert '\n' not in str(error.value) and 'start the same command again' in str(error.value)


def test_a_vocabulary_in_the_home_folder_is_trained_once(tmp_path, monkeypatch):
    commands = []

    def run(command, **_):
        commands.append(command)
        return types.SimpleNamespace(returncode=0)

    monkeypatch.setattr(prepared.on_demand.subprocess, 'run', run)
    monkeypatch.setattr(prepared.on_demand, 'open_mixture', opens_what_was_prepared(commands))
    monkeypatch.setenv('HOME', str(tmp_path))
    needed, root = [('news_title_de', 'train')], str(tmp_path / 'data')
    data = Data(root=root, vocabulary='~/news.model', sample=False, vocabulary_size=8)
    prepared.ensure(needed, data)
    (both,) = commands  # One process trains it, and prepares with it.
    assert f'--new_vocabulary={tmp_path}/news.model' in both
    assert {'--texts=news_title_de:train', '--vocabulary=~/news.model'} <= set(both)
    prepared.ensure(needed, data)
    trained = commands[1]  # The file has gone, and what was prepared with it is there.
    assert f'--new_vocabulary={tmp_path}/news.model' in trained
    assert '--mixture=news_title_de:train' in trained and len(trained) < len(both)
    commands.clear()
    (tmp_path / 'news.model').write_bytes(b'')
    prepared.ensure(needed, data)
    (made,) = commands
    assert '--vocabulary=~/news.model' in made
    assert not [part for part in made if part.startswith(('--new_vocabulary', '--texts'))]
