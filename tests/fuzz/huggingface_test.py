"""Everything in a folder of Hugging Face: weights, their index, configs, vocabularies."""

import collections
import functools
import io
import random
import struct
import zipfile

import bin_files
import numpy as np
import pytest
import safetensors
import safetensors.numpy

from xlbench import models
from xlbench.huggingface import checkpoint, hub, tensors
from xlbench.inference import exported

from . import cases, mutate

ARRAYS = {
    'a.weight': np.arange(12, dtype=np.float32).reshape(3, 4),
    'b.half': np.array([1.5, -2.0], np.float16),
    'd.ids': np.arange(5),
    'e.scalar': np.array(7.0, np.float32),
}
TEXTS = ('', 'The old bridge', 'Brücke e\u0301 \u1100\u1161 ｶﾞ', '橋 <s> </s> \U0001f600 2 ﬁ')


# ------------------------------------------------------------------------------------- the weights


def harmed_safetensors(whole: bytes, rng: random.Random) -> tuple[str, bytes]:
    """Mostly of the header, whose length is put right, so that the harm is seen."""
    if rng.random() < 0.4:
        return mutate.harmed(whole, rng)
    length = int.from_bytes(whole[:8], 'little')
    said, head = mutate.harmed(whole[8 : 8 + length], rng)
    return said, struct.pack('<Q', len(head)) + head + whole[8 + length :]


def test_safetensors(tmp_path):
    path = tmp_path / 'model.safetensors'
    whole = safetensors.numpy.save(ARRAYS)
    with cases.reader('safetensors', 60) as reader:
        for seed in reader.seeds:
            said, data = harmed_safetensors(whole, random.Random(seed))
            path.write_bytes(data)
            with reader.case(seed, said) as case:
                found = {name: stored.read() for name, stored in tensors.find(tmp_path).items()}
            if not case.accepted:
                continue
            try:
                official = safetensors.numpy.load(data)
            except Exception as error:  # Whatever it says of what it refuses.
                reader.fail(seed, said, f'accepted, and the library says {error}')
                continue
            same = found.keys() == official.keys() and all(
                found[name].tobytes() == official[name].tobytes() for name in found
            )
            if not same:
                reader.fail(seed, said, 'other numbers than the library reads')


def harmed_bin(whole: bytes, rng: random.Random) -> tuple[str, bytes]:
    """Of the archive's bytes, or of one of its members with the sums that it then has."""
    if rng.random() < 0.4 or not zipfile.is_zipfile(io.BytesIO(whole)):
        return mutate.harmed(whole, rng)
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(whole)) as source, zipfile.ZipFile(out, 'w') as target:
        chosen = rng.choice(source.namelist())
        for name in source.namelist():
            data = source.read(name)
            if name == chosen:
                said, data = mutate.harmed(data, rng)
            target.writestr(name, data)
    return f'{chosen}: {said}', out.getvalue()


@pytest.mark.parametrize('legacy', [False, True], ids=['zip', 'legacy'])
def test_bin(tmp_path, legacy):
    path = tmp_path / 'pytorch_model.bin'
    content = collections.OrderedDict(
        (name, bin_files.view(array, str(index)))
        for index, (name, array) in enumerate(ARRAYS.items())
        if array.dtype.name in bin_files.STORAGES
    )
    bin_files.save(path, content, legacy)
    whole = path.read_bytes()
    with cases.reader('bin, legacy' if legacy else 'bin', 40) as reader:
        for seed in reader.seeds:
            said, data = harmed_bin(whole, random.Random(seed))
            path.write_bytes(data)
            with reader.case(seed, said):
                for stored in tensors.find(tmp_path).values():
                    assert stored.read().shape == stored.shape


def test_index(tmp_path):
    files = tensors.write(
        tmp_path,
        {name: tensors.Spec((4, 5), lambda: np.ones((4, 5), np.float32)) for name in 'abc'},
        max_shard=100,
    )
    index = tmp_path / f'{tensors.SAFETENSORS}.index.json'
    whole = index.read_bytes()
    with cases.reader('index of shards', 30) as reader:
        for seed in reader.seeds:
            said, data = mutate.harmed(whole, random.Random(seed))
            index.write_bytes(data)
            with reader.case(seed, said):
                found = tensors.find(tmp_path)
                assert {stored.file.name for stored in found.values()} <= set(files)


# ------------------------------------------------------------------------------------- the folders


@functools.cache
def saved(family: str) -> tuple[dict[str, bytes], dict]:
    """The files of a tiny checkpoint."""
    sizes = dict(emb_dim=8, num_heads=2, head_dim=4, mlp_dim=8, vocab_size=40)
    if family.endswith('classifier'):
        sizes['num_labels'] = 3
    model = models.build(family, 'sample', **sizes)
    flat = {
        path: np.zeros(box.value.shape, np.float32)
        for path, box in checkpoint.boxed_params(model).items()
    }
    from flax import traverse_util

    return model.config, traverse_util.unflatten_dict(flat, sep='/')


FAMILIES = ('mt5', 'bart', 'marian', 'bert', 'encoder_decoder', 'sequence_classifier')


def test_configs(tmp_path):
    """config.json of every kind, with weights that fit the whole one."""
    folders = []
    ids = dict(pad_id=0, eos_id=1, bos_id=2, decoder_start_id=0, labels=('a', 'b', 'c'))
    for family in FAMILIES:
        config, params = saved(family)
        checkpoint.save(tmp_path / family, family, config, params, ids, ())
        folders.append((tmp_path / family, (tmp_path / family / hub.CONFIG).read_bytes()))
    with cases.reader('config.json', 60) as reader:
        for seed in reader.seeds:
            rng = random.Random(seed)
            folder, whole = rng.choice(folders)
            said, data = mutate.harmed(whole, rng)
            (folder / hub.CONFIG).write_bytes(data)
            with reader.case(seed, f'{folder.name}: {said}'):
                opened = checkpoint.open(str(folder))
                checkpoint.load_params(opened)
                checkpoint.labels(opened)
            (folder / hub.CONFIG).write_bytes(whole)


def test_notes(tmp_path):
    notes = exported.Notes(
        {'name': 'generation'},
        {'inputs': 8, 'targets': 8},
        {'method': 'beam', 'num_beams': 2},
        {'mtg_qg_de_de': {'source_lang': 'de', 'target_lang': 'de', 'trained': True}},
    )
    notes.write(tmp_path)
    whole = (tmp_path / exported.NOTES).read_bytes()
    with cases.reader('xlbench.json', 20) as reader:
        for seed in reader.seeds:
            said, data = mutate.harmed(whole, random.Random(seed))
            (tmp_path / exported.NOTES).write_bytes(data)
            with reader.case(seed, said):
                exported.Notes.read(tmp_path)
