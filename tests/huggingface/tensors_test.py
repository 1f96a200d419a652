import argparse
import collections
import json
import os
import pickle
import pickletools
import struct
import zipfile

import bin_files
import edits
import numpy as np
import pytest
import safetensors.numpy

from xlbench.huggingface import tensors
from xlbench.system import errors

ARRAYS = {
    'a.weight': np.arange(12, dtype=np.float32).reshape(3, 4),
    'b.half': np.array([1.5, -2.0], np.float16),
    'c.brain': bin_files.bfloat16([[0.1, 3.0]]),
    'd.ids': np.arange(5),
    'e.scalar': np.array(7.0, np.float32),
    'f.empty': np.zeros((0, 3), np.float32),
}


def assert_same(found, arrays):
    assert found.keys() == arrays.keys()
    for name, array in arrays.items():
        value = found[name].read()
        assert (value.dtype, value.shape) == (array.dtype, array.shape), name
        np.testing.assert_array_equal(value, array)


def refused(folder, words):
    with edits.refused(words):
        tensors.find(folder)


def specs(arrays):
    return {n: tensors.Spec(a.shape, lambda a=a: a) for n, a in arrays.items()}


def forge(folder, entries, size):
    """Writes a safetensors file of a head and so many bytes."""
    head = json.dumps(entries).encode()
    file = folder / 'model.safetensors'
    file.write_bytes(struct.pack('<Q', len(head)) + head + bytes(size))
    return file


# ------------------------------------------------------------------------------------- safetensors


def test_reads_what_the_library_writes(tmp_path):
    safetensors.numpy.save_file(ARRAYS, str(tmp_path / 'model.safetensors'))
    assert_same(tensors.find(tmp_path), ARRAYS)


def test_the_library_reads_what_we_write(tmp_path):
    arrays = {f'w{i}': np.random.default_rng(i).normal(size=(i, 3)).astype('f4') for i in range(4)}
    assert tensors.write(tmp_path, specs(arrays)) == ['model.safetensors']
    with safetensors.safe_open(str(tmp_path / 'model.safetensors'), 'numpy') as file:
        assert file.metadata() == {'format': 'pt'}
        for name, array in arrays.items():
            np.testing.assert_array_equal(file.get_tensor(name), array)
    assert_same(tensors.find(tmp_path), arrays)
    for dtype in ('bfloat16', 'float16'):
        tensors.write(tmp_path, specs(arrays), dtype)
        found = tensors.find(tmp_path)['w3'].read()
        assert found.dtype.name == dtype
        np.testing.assert_array_equal(found, arrays['w3'].astype(found.dtype))


def test_shards_and_their_index(tmp_path):
    arrays = {name: np.full((4, 5), i, np.float32) for i, name in enumerate('abcd')}
    files = tensors.write(tmp_path, specs(arrays), max_shard=170)  # Two of 80 bytes in each.
    assert files == ['model-00001-of-00002.safetensors', 'model-00002-of-00002.safetensors']
    index = json.loads((tmp_path / 'model.safetensors.index.json').read_text())
    assert index['metadata'] == {'total_size': 320}
    assert index['weight_map'] == {'a': files[0], 'b': files[0], 'c': files[1], 'd': files[1]}
    assert_same(tensors.find(tmp_path), arrays)
    assert not list(tmp_path.glob('.*'))
    (tmp_path / files[1]).unlink()
    refused(tmp_path, rf'names the shard {files[1]}, which is not')


@pytest.mark.parametrize(
    'file',
    [
        'x' * 5000 + '.bin', 'a\n.bin', '\x1b.bin', '../x.safetensors', '/x.bin', 'a/x.bin', '..',
        '', 'x.pkl', '.x.bin', '\\x.bin', 3,
    ],
)  # fmt: skip
def test_an_index_stays_in_its_folder(tmp_path, file):
    index = tmp_path / 'model.safetensors.index.json'
    index.write_text(json.dumps({'weight_map': {'a': file}}))
    refused(tmp_path, r'shards lie beside it|Expected `str`')


def test_an_index_that_lies(tmp_path):
    index = tmp_path / 'model.safetensors.index.json'
    safetensors.numpy.save_file({'a': np.ones(2)}, str(tmp_path / 'x.safetensors'))
    index.write_text(json.dumps({'weight_map': {'a': 'x.safetensors', 'b': 'x.safetensors'}}))
    refused(tmp_path, r'x.safetensors lacks the tensor b')
    for text in ('{', '[]', '{}', '{"weight_map": []}'):
        index.write_text(text)
        refused(tmp_path, r'index.json(: | has no)')


def test_truncated_safetensors(tmp_path):
    refused(tmp_path, 'has no weights')
    file = tmp_path / 'model.safetensors'
    arrays = {name: np.full((4, 5), i, np.float32) for i, name in enumerate('abc')}
    tensors.write(tmp_path, specs(arrays))
    whole = file.read_bytes()
    for cut, reason in (
        (len(whole) - 1, 'incomplete metadata, file not fully covered'),
        (len(whole) - 100, 'incomplete metadata, file not fully covered'),
        (40, 'invalid header length'),
        (3, 'header too small'),
        (0, 'header too small'),
    ):
        file.write_bytes(whole[:cut])
        refused(tmp_path, rf'^{file} is no whole safetensors file \({reason}\)')


@pytest.mark.parametrize(
    'entry, message',
    [
        ({'dtype': 'F32', 'shape': [2, 2], 'data_offsets': [0, 8]}, 'invalid shape, data type'),
        ({'dtype': 'F32', 'shape': [1 << 60], 'data_offsets': [0, 1 << 62]}, 'overflow computing'),
        ({'dtype': 'F32', 'shape': [-1], 'data_offsets': [0, -4]}, 'expected usize'),
        ({'dtype': 'F32', 'shape': [True], 'data_offsets': [0, 4]}, 'expected usize'),
        ({'dtype': 'F32', 'shape': 3, 'data_offsets': [0, 12]}, 'expected a sequence'),
        ({'dtype': 'F32', 'shape': [1]}, 'missing field `data_offsets`'),
        ([], 'invalid length 0'),
        ({'dtype': 'F8_E4M3', 'shape': [16], 'data_offsets': [0, 16]}, "is of type 'F8_E4M3'"),
        ({'dtype': 'F32', 'shape': [4] + [1] * 99_999, 'data_offsets': [0, 16]},
         'has 100000 axes; at most 64 are allowed'),
    ],
)  # fmt: skip
def test_forged_safetensors(tmp_path, entry, message):
    file = forge(tmp_path, {'t': entry}, 16)
    refused(tmp_path, f'^{file}.*{message}')
    file.write_bytes(struct.pack('<Q', 1 << 62) + file.read_bytes()[8:])
    refused(tmp_path, 'is no whole safetensors file')


@pytest.mark.parametrize('name', tensors.WEIGHT_FILES)
def test_a_file_that_is_cut_short_while_it_is_read(tmp_path, name):
    """One line; through a memory map, as the library reads, it would end the process."""
    arrays = {'a': np.zeros(5_000, np.float32), 'b': np.ones(5_000, np.float32)}
    file = tmp_path / name
    if name == tensors.SAFETENSORS:
        safetensors.numpy.save_file(arrays, str(file))
    else:
        bin_files.save(file, arrays)
    found = tensors.find(tmp_path)
    os.truncate(file, found['b'].start + 1_000)
    np.testing.assert_array_equal(found['a'].read(), arrays['a'])
    with pytest.raises(errors.UserError, match='tensor b is not whole; fetch or write the file'):
        found['b'].read()


def test_equal_tensors(tmp_path):
    table = np.arange(12, dtype=np.float32).reshape(4, 3)
    other = table.copy()
    other[3, 2] = -1
    arrays = {'a': table, 'b': table, 'c': other, 'd': table[:3], 'e': table.astype('f2')}
    safetensors.numpy.save_file(arrays, str(tmp_path / 'model.safetensors'))
    found = tensors.find(tmp_path)
    assert [found['a'].equals(found[name]) for name in 'abcde'] == [True, True, False, False, True]


# ------------------------------------------------------------------------------- pytorch_model.bin


@pytest.mark.parametrize('legacy', [False, True])
def test_reads_bin(tmp_path, legacy):
    arrays = {**ARRAYS, 't': ARRAYS['a.weight'].T}
    content = collections.OrderedDict(arrays)
    content._metadata = collections.OrderedDict({'': {'version': 1}})  # As in a state dict.
    bin_files.save(tmp_path / 'pytorch_model.bin', content, legacy)
    assert_same(tensors.find(tmp_path), arrays)


@pytest.mark.parametrize('legacy', [False, True])
def test_the_model_of_a_fairseq_checkpoint_is_taken(tmp_path, legacy):
    """Not its options, and not the optimizer's state, whose keys are numbers."""
    views = {name: bin_files.view(array, str(i)) for i, (name, array) in enumerate(ARRAYS.items())}
    moment = bin_files.view(np.ones(2, np.float32), '99')
    content = {
        'args': argparse.Namespace(arch='mbart_base', langs='de,en', lr=[1e-5]),
        'model': collections.OrderedDict(views),
        'extra_state': {'best': None, 'train_iterator': {'epoch': 3}},
        'last_optimizer_state': {'state': {0: {'step': 7, 'exp_avg': moment}}, 'groups': [[0]]},
    }
    bin_files.save(tmp_path / 'pytorch_model.bin', content, legacy)
    assert_same(tensors.find(tmp_path), ARRAYS)
    bin_files.save(tmp_path / 'pytorch_model.bin', content['last_optimizer_state']['state'], legacy)
    refused(tmp_path, '0 is not a name of a tensor')


def test_views_of_one_storage(tmp_path):
    storage = bin_files.Storage('0', np.arange(20, dtype=np.float32))
    content = {
        'all': bin_files.View(storage, (4, 5), (5, 1)),
        'rows': bin_files.View(storage, (2, 5), (5, 1), 10),
        'column': bin_files.View(storage, (4,), (5,), 2),
        'again': bin_files.View(storage, (4, 5), (5, 1)),
    }
    bin_files.save(tmp_path / 'pytorch_model.bin', content)
    found = tensors.find(tmp_path)
    table = np.arange(20, dtype=np.float32).reshape(4, 5)
    expected = {'all': table, 'rows': table[2:], 'column': table[:, 2], 'again': table}
    assert_same(found, expected)
    assert found['all'].equals(found['again']) and not found['all'].equals(found['rows'])


class Calls:
    """Pickles as a call of anything with anything."""

    def __init__(self, function, *arguments, state=None):
        self.result = (function, arguments) if state is None else (function, arguments, state)

    def __reduce__(self):
        return self.result


def touch(path):
    return f'import pathlib; pathlib.Path({str(path)!r}).touch()'


def hostile(proof):
    """{what: content that a plain unpickler would run}; running it makes the file `proof`."""
    view = bin_files.view(np.ones(2, np.float32))
    return {
        'os.system': Calls(os.system, f'touch {proof}'),
        'builtins.exec': Calls(exec, touch(proof)),
        'builtins.eval': Calls(eval, f'open({str(proof)!r}, "w")'),
        'builtins.open': Calls(open, str(proof), 'w'),
        'builtins.getattr': Calls(getattr, [], 'sort'),
        'nested': {'a': [{'b': (Calls(os.system, f'touch {proof}'),)}]},
        'beside a tensor': {'w': view, 'x': Calls(os.system, f'touch {proof}')},
        'as a key': {Calls(exec, touch(proof)): view},
        'in a state': Calls(collections.OrderedDict, state={'x': Calls(exec, touch(proof))}),
        'an object': {'x': object()},
    }


@pytest.mark.parametrize('legacy', [False, True])
@pytest.mark.parametrize('what', hostile(''))
def test_hostile_pickles_run_nothing(tmp_path, what, legacy):
    proof = tmp_path / 'proof'
    content = hostile(proof)[what]
    file = tmp_path / 'pytorch_model.bin'
    if legacy:
        bin_files.save(file, content, legacy)
    else:
        bin_files.write_zip(file, *bin_files.dumps(content))
    refused(tmp_path, f'{file} is refused; none of its code was run')
    assert not proof.exists()


def test_the_hostile_pickles_are_hostile(tmp_path):
    """A plain unpickler runs them, so that the test above means something."""
    proof = tmp_path / 'proof'
    for what in ('os.system', 'builtins.exec', 'builtins.eval', 'nested', 'in a state'):
        pickle.loads(bin_files.dumps(hostile(proof)[what])[0])
        assert proof.exists(), what
        proof.unlink()


REBUILD = b'ctorch._utils\n_rebuild_tensor_v2\n'
ORDERED = b'ccollections\nOrderedDict\n'
STORAGE = (
    b'(X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpuK\x02tQ'
)


@pytest.mark.parametrize(
    'data, match',
    [
        (b'cos\nsystem\n(X\x02\x00\x00\x00lstR.', "asks for 'os.system'"),
        (b'\x80\x04\x8c\x02os\x8c\x06system\x93.', 'opcode SHORT_BINUNICODE'),
        (b'(ios\nsystem\n.', 'opcode INST'),
        (b'(' + ORDERED + b'o.', 'opcode OBJ'),
        (ORDERED + b')\x81.', 'opcode NEWOBJ'),
        (b'\x82\x01.', 'opcode EXT1'),
        (b'Pevil\n.', 'opcode PERSID'),
        (b'S"x"\n.', 'opcode STRING'),
        # Allowed names with hostile arguments, and out of their place.
        (REBUILD + b')R.', 'is cut short, or is not'),
        (REBUILD + b'(K\x01K\x02K\x03K\x04tR.', 'treats a int as a Storage'),
        (ORDERED + b'(X\x01\x00\x00\x00xtR.', 'treats a str as a list'),
        (b'ctorch\nFloatStorage\n(K\x08tR.', 'calls what builds no tensor'),
        (b'X\x01\x00\x00\x00x(tR.', 'treats a str as a Global'),
        (b'ctorch._utils\n_rebuild_parameter\n(K\x01tR.', 'treats a int as a View'),
        (REBUILD + b'}X\x0c\x00\x00\x00__defaults__NsbK\x01.', 'treats a _Global as a dict'),
        (b'}K\x01K\x02s.', '1 is not a name of a tensor'),
        (b'K\x01K\x02K\x03s.', 'treats a int as a dict'),
        (b'K\x01K\x02a.', 'treats a int as a list'),
        (b'X\x01\x00\x00\x00xQ.', 'treats a str as a tuple'),
        (STORAGE.replace(b'storage', b'modules') + b'.', 'no plain storage'),
        (STORAGE.replace(b'torch\nFloatStorage', b'collections\nOrderedDict') + b'.', 'stores'),
        # Broken ones.
        *((data, 'is cut short') for data in (
            b'', b'\xff', b'}', b's.', b't.', b'h\x07.', b'X\xff\xff\xff\x7fx.',
        )),
        (b']r\xff\xff\xff\xff.', 'holds a list, not a dict'),
        (b'}X\x01\x00\x00\x00xK\x01s.', "'x' is not a tensor"),
    ],
)  # fmt: skip
def test_forged_opcodes(tmp_path, data, match):
    bin_files.write_zip(tmp_path / 'pytorch_model.bin', data)
    refused(tmp_path, f'pytorch_model.bin.*{match}')


def test_every_opcode_is_known_or_refused(tmp_path):
    """An opcode that a later Python adds is refused, not passed over."""
    for opcode in pickletools.opcodes:
        if opcode.name not in ('PROTO', 'NONE', 'STOP', 'MARK'):
            data = opcode.code.encode('latin-1') + bytes(8) + b'.'
            bin_files.write_zip(tmp_path / 'pytorch_model.bin', data)
            with pytest.raises(errors.UserError):
                tensors.find(tmp_path)


@pytest.mark.parametrize(
    'shape, strides, offset',
    [
        ((3,), (1,), 0), ((2,), (1,), 1), ((2,), (1 << 62,), 0), ((1 << 40,), (0,), 0),
        ((1 << 40, 1 << 40), (1, 1), 0), ((2,), (-1,), 1), ((-1,), (1,), 0), ((2,), (1,), -1),
        ((2, 1), (1,), 0), ((2.0,), (1,), 0), ((2,), (True,), 0),
    ],
)  # fmt: skip
def test_views_stay_in_their_storage(tmp_path, shape, strides, offset):
    storage = bin_files.Storage('0', np.ones(2, np.float32))
    content = {'w': bin_files.View(storage, shape, strides, offset)}
    bin_files.save(tmp_path / 'pytorch_model.bin', content)
    refused(tmp_path, 'pytorch_model.bin: tensor w ')


def test_storages_are_what_the_file_holds(tmp_path):
    """A size in the pickle is not believed."""
    data, storages = bin_files.dumps({'w': bin_files.view(np.ones(8, np.float32))})
    storages['0'].values = np.ones(4, np.float32)
    file = tmp_path / 'pytorch_model.bin'
    bin_files.write_zip(file, data, storages)
    refused(tmp_path, r'tensor w of shape \[8\] does not fit')
    bin_files.write_zip(file, data)
    refused(tmp_path, 'tensor w has no numbers')


def test_zip_members(tmp_path):
    data, storages = bin_files.dumps({'w': bin_files.view(np.ones(8, np.float32))})
    file = tmp_path / 'pytorch_model.bin'
    for name in ('archive/../../x', '../x', 'other/data/1', 'archive/data/..'):
        bin_files.write_zip(file, data, storages, **{name: b'x'})
        refused(tmp_path, 'lies outside of archive/')
    bin_files.write_zip(file, data, storages, root='a/b')
    refused(tmp_path, 'has not exactly one')
    with zipfile.ZipFile(file, 'w', zipfile.ZIP_DEFLATED) as archive:
        archive.writestr('archive/data.pkl', data)
    refused(tmp_path, 'is compressed')
    with pytest.warns(UserWarning, match='Duplicate'):
        bin_files.write_zip(file, data, storages, **{'archive/data/0': b'x'})
    refused(tmp_path, 'two members')


@pytest.mark.parametrize(
    'offsets, size, message',
    [
        (([0, 8], [4, 12]), 12, 'invalid offset for tensor `b`'),
        (([0, 8], [12, 20]), 20, 'invalid offset for tensor `b`'),
        (([4, 12], [12, 20]), 20, 'invalid offset for tensor `a`'),
        (([0, 8], [8, 16]), 17, 'file not fully covered'),
        (([0, 8], [8, 16]), 16, ''),
    ],
)
def test_tensors_fill_a_safetensors_file(tmp_path, offsets, size, message):
    """None shares bytes with another, and no bytes are hidden between them."""
    entries = {
        name: {'dtype': 'F32', 'shape': [2], 'data_offsets': place}
        for name, place in zip('ab', offsets, strict=True)
    }
    file = forge(tmp_path, entries, size)
    if not message:
        assert len(tensors.find(tmp_path)) == len(safetensors.numpy.load_file(str(file))) == 2
        return
    refused(tmp_path, message)
    with pytest.raises(safetensors.SafetensorError):
        safetensors.numpy.load_file(str(file))


@pytest.mark.parametrize('legacy', [False, True])
def test_truncated_bin(tmp_path, legacy):
    file = tmp_path / 'pytorch_model.bin'
    bin_files.save(file, {'w': np.ones(64, np.float32)}, legacy)
    whole = file.read_bytes()
    for cut in (len(whole) - 1, len(whole) - 70, 100, 10, 1, 0):
        file.write_bytes(whole[:cut])
        refused(tmp_path, 'pytorch_model.bin')
