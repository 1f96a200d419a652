"""Everything in a folder of Hugging Face: weights, their index, configs, vocabularies."""

import collections
import functools
import io
import json
import pathlib
import random
import shutil
import struct
import zipfile
from typing import Any

import bin_files
import encoder_folders
import numpy as np
import pytest
import safetensors
import safetensors.numpy
import sentencepiece
import tokenizer_files
import tokenizers as library
from flax import traverse_util
from sentencepiece import sentencepiece_model_pb2

from xlbench import convert, models
from xlbench.data import tokenizers
from xlbench.huggingface import (
    checkpoint,
    hub,
    sentence_files,
    sentencepiece_models,
    tensors,
)
from xlbench.inference import exported, loading
from xlbench.parallel import partitioning

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
    for case in cases.each('safetensors', 40):
        data = case.write(path, whole, harmed_safetensors)
        with case.run():
            found = {name: stored.read() for name, stored in tensors.find(tmp_path).items()}
        if not case.accepted:
            continue
        try:
            official = safetensors.numpy.load(data)
        except Exception as error:  # Whatever it says of what it refuses.
            case.fail(f'accepted, and the library says {error}')
            continue
        same = found.keys() == official.keys() and all(
            found[name].tobytes() == official[name].tobytes() for name in found
        )
        if not same:
            case.fail('other numbers than the library reads')


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
    for case in cases.each('bin, legacy' if legacy else 'bin', 15):
        case.write(path, whole, harmed_bin)
        with case.run():
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
    for case in cases.each('index of shards', 15):
        case.write(index, whole)
        with case.run():
            found = tensors.find(tmp_path)
            assert {stored.file.name for stored in found.values()} <= set(files)


# ------------------------------------------------------------------------------------- the folders


@functools.cache
def saved(family: str, rows: int = 40) -> tuple[Any, dict[str, Any]]:
    """The config and parameters of a tiny checkpoint."""
    sizes = dict(emb_dim=8, num_heads=2, head_dim=4, mlp_dim=8, vocab_size=rows)
    if family.endswith('classifier'):
        sizes['num_labels'] = 3
    model = models.build(family, 'sample', **sizes)
    flat = {
        path: np.zeros(box.value.shape, np.float32)
        for path, box in checkpoint.boxed_params(model).items()
    }
    return model.config, traverse_util.unflatten_dict(flat, sep='/')


FAMILIES = ('mt5', 'bart', 'marian', 'gpt2', 'bert', 'encoder_decoder', 'sequence_classifier')


def test_configs(tmp_path):
    """config.json of every kind, with weights that fit the whole one."""
    folders = []
    ids = dict(pad_id=0, eos_id=1, bos_id=2, decoder_start_id=0, labels=('a', 'b', 'c'))
    for family in FAMILIES:
        config, params = saved(family)
        checkpoint.save(tmp_path / family, family, config, params, ids, ())
        folders.append((tmp_path / family, (tmp_path / family / hub.CONFIG).read_bytes()))
    for case in cases.each('config.json', 20):
        folder, whole = case.rng.choice(folders)
        case.write(folder / hub.CONFIG, whole)
        with case.run(folder.name):
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
    for case in cases.each('xlbench.json', 10):
        case.write(tmp_path / exported.NOTES, whole)
        with case.run():
            exported.Notes.read(tmp_path)


# -------------------------------------------------------------------------------- the vocabularies

VOCABULARIES = ('t5', 'pegasus', 'mbart50', 'xlm-roberta', 'bert-cased', 'bart', 'marian')


def use(tokenizer: tokenizers.Tokenizer) -> None:
    """Texts to ids and back."""
    for ids in tokenizer.encode_batch(list(TEXTS)):
        assert ids.size == 0 or (ids.min() >= 0 and ids.max() < tokenizer.vocab_size)
        tokenizer.decode(ids)
    tokenizer.languages()
    tokenizer.decode(range(min(tokenizer.num_pieces, 60)))


def test_vocabulary_folders(tmp_path):
    """One file of a folder is harmed, gone, a folder or a link."""
    whole = {}
    for family in VOCABULARIES:
        whole[family] = tmp_path / 'whole' / family
        tokenizer_files.write(whole[family], family)
    for case in cases.each('vocabulary folders', 35):
        family = case.rng.choice(VOCABULARIES)
        folder = tmp_path / 'harmed'
        mutate.restore(whole[family], folder)
        case.said = mutate.folder(folder, case.rng, lambda name: True)
        tokenizers.loading._read.cache_clear()
        with case.run(family):
            use(tokenizers.load(str(folder), ''))


def test_tokenizer_json(tmp_path):
    """Of a unigram model with its table of characters, and of a WordPiece model."""
    whole = []
    for family in ('xlm-roberta', 'bert-cased'):
        loaded = tokenizers.load(tokenizer_files.write(tmp_path / family, family), '')
        whole.append(small(loaded.with_ends()))
    path = tmp_path / 'x' / 'tokenizer.json'
    path.parent.mkdir()
    for case in cases.each('tokenizer.json', 20):
        case.write(path, case.rng.choice(whole))
        tokenizers.loading._read.cache_clear()
        with case.run():
            use(tokenizers.load(str(path), ''))
        if case.accepted:
            library.Tokenizer.from_file(str(path))


def test_folders_of_sentence_transformers(tmp_path):
    """modules.json, pooling and prompts, in both of their forms; the encoder is not opened."""
    whole = {}
    for name, pooling in (('old', {}), ('new', {'pooling_mode': 'mean', 'include_prompt': True})):
        whole[name] = tmp_path / name
        whole[name].mkdir()
        (whole[name] / 'config.json').write_text('{}')
        encoder_folders.make_sentences(str(whole[name]), **pooling)
    for case in cases.each('folders of sentence-transformers', 60):
        name, folder = case.rng.choice(list(whole)), tmp_path / 'harmed'
        mutate.restore(whole[name], folder)
        case.said = mutate.folder(folder, case.rng, lambda name: True)
        with case.run(name):
            if about := sentence_files.read(folder):
                assert about[0].resolve().is_relative_to(folder.resolve())


def small(text: str) -> bytes:
    """With few pieces, so that harm meets the rest as well."""
    content = json.loads(text)
    vocab = content['model']['vocab']
    if isinstance(vocab, list):
        content['model']['vocab'] = vocab[:60]
        content['added_tokens'] = [t for t in content['added_tokens'] if t['id'] < 60]
    else:
        content['model']['vocab'] = dict(list(vocab.items())[:200])
        content['added_tokens'] = [t for t in content['added_tokens'] if t['id'] < 200]
    return json.dumps(content).encode()


def harmed_sentencepiece(whole: bytes, rng: random.Random) -> tuple[str, bytes]:
    """Of the bytes, or of one field, so that the rest is read."""
    kind = rng.randrange(8)
    if kind == 0:
        return mutate.harmed(whole, rng)
    proto = sentencepiece_model_pb2.ModelProto.FromString(whole)
    if kind <= 3:
        rules = proto.normalizer_spec if rng.random() < 0.8 else proto.denormalizer_spec
        said, rules.precompiled_charsmap = harmed_table(
            bytes(proto.normalizer_spec.precompiled_charsmap), rng
        )
        return f'charsmap: {said}', proto.SerializeToString()
    piece = rng.choice(proto.pieces)
    if kind == 4:
        piece.piece = rng.choice(['', '▁', proto.pieces[5].piece, 'x' * 5000, '\0', '<0x41>'])
        return f'a piece becomes {piece.piece[:20]!r}', proto.SerializeToString()
    if kind == 5:
        piece.score = rng.choice([float('nan'), float('inf'), float('-inf'), 1e38, -1e38, 0.0])
        return f'a score becomes {piece.score}', proto.SerializeToString()
    if kind == 6:
        piece.type = rng.choice([1, 2, 3, 4, 5, 6])
        return f'the piece {piece.piece!r} is of type {piece.type}', proto.SerializeToString()
    field = rng.choice(['unk_id', 'bos_id', 'eos_id', 'pad_id', 'model_type'])
    number = rng.choice([1, 2, 3, 4] if field == 'model_type' else [-1, 0, 2**31 - 1, 5, -(2**31)])
    setattr(proto.trainer_spec, field, number)
    return f'{field} is {number}', proto.SerializeToString()


def harmed_table(table: bytes, rng: random.Random) -> tuple[str, bytes]:
    """Of the table of characters: its bytes, its length, some of its units."""
    if rng.random() < 0.3 or len(table) < 64:
        return rng.choice(mutate.BYTES)(table, rng)
    if rng.random() < 0.2:
        size = rng.choice([0, 1, 3, 2**32 - 1, len(table), len(table) - 4, len(table) - 5, 1024])
        return f'its length is {size}', struct.pack('<I', size) + table[4:]
    changed = bytearray(table)
    for _ in range(rng.choice([1, 10, 1000])):
        at = 4 + 4 * rng.randrange(min((len(table) - 8) // 4, rng.choice([4, 400, 1 << 20])))
        changed[at : at + 4] = rng.randbytes(4)
    return 'some of its units', bytes(changed)


def test_sentencepiece(tmp_path):
    """As each class that reads a model does."""
    whole = [
        tokenizer_files.sentencepiece_model(kind, normalizer, ('en', 'de', 'ko'), 400, fallback)
        for kind, normalizer, fallback in (
            ('t5', 'nmt_nfkc', False), ('fairseq', 'nfkc', False), ('t5', 'identity', True),
            ('pegasus', 'identity', False),
        )
    ]  # fmt: skip
    with_table = (0, 1)
    path = tmp_path / 'x.model'
    for case in cases.each('SentencePiece models', 20):
        kind = case.rng.randrange(len(whole))
        case.write(path, whole[kind], harmed_sentencepiece)
        tokenizers.loading._read.cache_clear()
        with case.run():
            use(tokenizers.load(str(path), ''))
        if case.accepted:
            sentencepiece.SentencePieceProcessor(model_file=str(path))
        if kind in with_table and case.seed % 40:
            continue  # Its table takes seconds.
        with case.run('as tokenizer.json'):
            fast = sentencepiece_models.fast_tokenizer(sentencepiece_models.read(path))
            for text in TEXTS if fast else ():
                fast.decode(fast.encode(text).ids)


# ------------------------------------------------------------------------------- the whole of them


def test_whole_folders(tmp_path):
    """A folder of which anything is harmed is opened, used and converted."""
    whole = []
    for family, vocabulary in (
        ('mt5', 'mt5'),
        ('bart', 'bart'),
        ('sequence_classifier', 'bert-cased'),
    ):
        folder = pathlib.Path(tokenizer_files.write(tmp_path / vocabulary, vocabulary))
        rows = tokenizers.load(str(folder), '').vocab_size
        (folder / hub.CONFIG).unlink()
        config, params = saved(family, rows)
        ids = dict(pad_id=0, eos_id=1, bos_id=2, decoder_start_id=0, labels=('a', 'b', 'c'))
        target = tmp_path / 'whole' / family
        checkpoint.save(target, family, config, params, ids, sorted(folder.iterdir()))
        whole.append(target)
    harmed, workdir = tmp_path / 'harmed', tmp_path / 'workdir'
    mesh = partitioning.make_mesh()
    for case in cases.each('checkpoint folders', 10):
        source = case.rng.choice(whole)
        mutate.restore(source, harmed)
        case.said = mutate.folder(harmed, case.rng, lambda name: True)
        tokenizers.loading._read.cache_clear()
        with case.run(source.name):
            found = loading.open_model(str(harmed), mesh, {})
            use(found.tokenizer)
            if case.seed % 4 == 0:
                convert.to_workdir(str(harmed), workdir)
        shutil.rmtree(workdir, ignore_errors=True)
        left = [path.name for path in tmp_path.glob('.*')]
        if left:
            case.fail(f'leaves {left}')
