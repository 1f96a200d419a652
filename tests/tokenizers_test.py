"""Tests of xlbench/tokenizers.py."""

import json
import shutil
import subprocess
import sys

import mtg_files
import numpy as np
import pytest
import tokenizers as hf

from xlbench import errors, tokenizers

TEXTS = ['die alte Brücke', 'el río', '老桥横跨', '<de> Leute <answer> Regen', 'x', 'Ω≈ \U0001f600']


@pytest.fixture(scope='module')
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp('root')
    mtg_files.write_vocabulary(folder)
    return str(folder)


def write_hugging_face(folder, **config):
    """A tokenizer.json with its two configuration files."""
    tokenizer = hf.Tokenizer(hf.models.BPE(unk_token='<unk>', byte_fallback=False))
    tokenizer.pre_tokenizer = hf.pre_tokenizers.Metaspace()
    tokenizer.decoder = hf.decoders.Metaspace()
    lines = [mtg_files.sentence(lang, i, 12) for lang in ('en', 'de') for i in range(60)]
    trainer = hf.trainers.BpeTrainer(
        vocab_size=150, special_tokens=['<s>', '<pad>', '</s>', '<unk>', '<de>']
    )
    tokenizer.train_from_iterator(lines, trainer)
    tokenizer.post_processor = hf.processors.TemplateProcessing(
        single='<s> $A </s>', special_tokens=[('<s>', 0), ('</s>', 2)]
    )
    tokenizer.enable_truncation(4)
    folder.mkdir(exist_ok=True)
    tokenizer.save(str(folder / 'tokenizer.json'))
    config = {'pad_token': '<pad>', 'eos_token': {'content': '</s>', 'lstrip': False}} | config
    (folder / 'special_tokens_map.json').write_text(json.dumps(config))
    return folder


def test_sample(root):
    tokenizer = tokenizers.load('sample', root)
    assert (tokenizer.name, tokenizer.pad_id, tokenizer.eos_id, tokenizer.unk_id) == (
        'sample',
        0,
        1,
        2,
    )
    assert tokenizer.decoder_start_id == 0
    assert tokenizer.tags == 'target_in_source'
    assert tokenizer.vocab_size == tokenizer.num_pieces
    assert tokenizers.load('sample', root) is tokenizer
    assert len(tokenizer.sha256) == 64


def test_sentencepiece_round_trip(root):
    tokenizer = tokenizers.load('sample', root)
    ids = tokenizer.encode_batch(TEXTS)
    assert all(row.dtype == np.int32 and row.ndim == 1 for row in ids)
    assert all(1 not in row for row in ids)  # eos is for the pipeline.
    assert tokenizer.decode_batch(ids) == TEXTS
    for text, row in zip(TEXTS, ids, strict=True):
        np.testing.assert_array_equal(tokenizer.encode(text), row)
        assert tokenizer.decode(row) == text
    assert tokenizer.encode_batch([]) == []
    assert tokenizer.encode_batch([''])[0].shape == (0,)
    # A tag is one piece.
    assert tokenizer._processor.id_to_piece(int(tokenizer.encode('<de> a')[1])) == '<de>'


def test_decode_stops_at_eos_and_drops_what_is_no_text(root):
    tokenizer = tokenizers.load('sample', root)
    ids = tokenizer.encode('die alte Brücke').tolist()
    noisy = [0, *ids[:2], 0, tokenizer.vocab_size + 5, -1, *ids[2:], 1, *ids, 0]
    assert tokenizer.decode(noisy) == 'die alte Brücke'
    assert tokenizer.decode_batch([[1, *ids], [], np.array(ids)]) == ['', '', 'die alte Brücke']
    assert tokenizer.decode_batch([]) == []


def test_vocabularies_of_public_models(root, tmp_path):
    """Embeddings are padded beyond the pieces; config.json knows, else the number of pieces."""
    shutil.copy(f'{root}/sample.model', tmp_path / 'spiece.model')
    pieces = tokenizers.load('sample', root).vocab_size
    assert tokenizers.load(str(tmp_path), root).vocab_size == pieces
    config = {'model_type': 'mt5', 'vocab_size': 512, 'decoder_start_token_id': 0}
    (tmp_path / 'config.json').write_text(json.dumps(config))
    tokenizers._load.cache_clear()
    found = tokenizers.load(str(tmp_path), root)
    assert (found.vocab_size, found.num_pieces) == (512, pieces)
    assert tokenizers._vocab_size({}, 250_100) == 250_112
    assert tokenizers._vocab_size({'vocab_size': 32_100}, 32_100) == 32_100


def test_hugging_face(tmp_path, root):
    folder = write_hugging_face(tmp_path / 'bart', decoder_start_token_id=2, model_type='mbart')
    tokenizer = tokenizers.load(str(folder), root)
    assert isinstance(tokenizer, tokenizers.HuggingFaceTokenizer)
    assert (tokenizer.pad_id, tokenizer.eos_id, tokenizer.unk_id) == (1, 2, 3)
    assert tokenizer.decoder_start_id == 2
    assert tokenizer.tags == 'own'
    texts = ['die alte Brücke steht über dem Fluss', 'the old bridge']
    ids = tokenizer.encode_batch(texts)
    assert all(row.dtype == np.int32 for row in ids)
    assert all(0 not in row and 2 not in row for row in ids)  # No <s>, no </s>, ...
    assert len(ids[0]) > 4  # ... and the file's truncation is off.
    assert tokenizer.decode_batch([[*row, 2, 1, 1] for row in ids]) == texts


def test_hugging_face_without_special_tokens(tmp_path, root):
    folder = tmp_path / 'bare'
    folder.mkdir()
    hf.Tokenizer(hf.models.WordLevel({'a': 0}, unk_token='a')).save(str(folder / 'tokenizer.json'))
    with pytest.raises(errors.UserError, match='has no pad_token'):
        tokenizers.load(str(folder), root)


def test_unknown_names(tmp_path, root):
    with pytest.raises(errors.UserError, match=r'unknown vocabulary .samplee.; nearest: sample'):
        tokenizers.load('samplee', root)
    with pytest.raises(errors.UserError, match=r'there is no vocabulary file or folder .*x.model'):
        tokenizers.load(str(tmp_path / 'x.model'), root)
    with pytest.raises(errors.UserError, match='--sample'):
        tokenizers.load('sample', str(tmp_path))
    with pytest.raises(errors.UserError, match=r'has no spiece.model'):
        (tmp_path / 'empty').mkdir()
        tokenizers.load(str(tmp_path / 'empty'), root)
    (tmp_path / 'x.model').write_bytes(b'not a model')
    with pytest.raises(errors.UserError, match='is not a SentencePiece model'):
        tokenizers.load(str(tmp_path / 'x.model'), root)
    (tmp_path / 'x.json').write_text('{}')
    with pytest.raises(errors.UserError, match=r'is not a tokenizer.json'):
        tokenizers.load(str(tmp_path / 'x.json'), root)


class FakeHub:
    """The two functions of huggingface_hub that are used, over a folder."""

    def __init__(self, folder, present):
        self.folder, self.present, self.asked = folder, present, []

    def try_to_load_from_cache(self, repository, file, revision=None):
        del repository, file, revision
        return

    def hf_hub_download(self, repository, file, revision=None):
        from huggingface_hub import errors as hub_errors

        self.asked.append((repository, file, revision))
        if file in self.present:
            return str(self.folder / file)
        raise hub_errors.EntryNotFoundError(file)


def test_hub_fetches_named_files_only(tmp_path, root, monkeypatch):
    import huggingface_hub

    shutil.copy(f'{root}/sample.model', tmp_path / 'spiece.model')
    (tmp_path / 'config.json').write_text('{"model_type": "mt5", "vocab_size": 500}')
    hub = FakeHub(tmp_path, ('spiece.model', 'config.json', 'pytorch_model.bin'))
    for name in ('try_to_load_from_cache', 'hf_hub_download'):
        monkeypatch.setattr(huggingface_hub, name, getattr(hub, name))
    tokenizer = tokenizers.load('google/mt5-base@abc', root)
    assert (tokenizer.name, tokenizer.vocab_size) == ('google/mt5-base@abc', 500)
    assert {asked[1] for asked in hub.asked} == {
        'spiece.model',
        'sentencepiece.bpe.model',
        'tokenizer.json',
        'tokenizer_config.json',
        'special_tokens_map.json',
        'config.json',
    }
    assert {(asked[0], asked[2]) for asked in hub.asked} == {('google/mt5-base', 'abc')}


def test_hub_offline_is_a_plain_error(tmp_path):
    code = (
        'from xlbench import tokenizers, errors\n'
        'try: tokenizers.load("mt5", ".")\n'
        'except errors.UserError as error: print(error)\n'
    )
    result = subprocess.run(
        [sys.executable, '-c', code],
        capture_output=True,
        text=True,
        env={'HF_HUB_OFFLINE': '1', 'HF_HOME': str(tmp_path), 'PATH': ''},
        check=True,
    )
    assert "vocabulary 'mt5' is not in the Hugging Face cache" in result.stdout
    assert result.stderr == ''


def test_needs_neither_tensorflow_nor_transformers(root):
    code = (
        'import sys\n'
        'from xlbench import tokenizers, readers\n'
        f'tokenizers.load("sample", {root!r}).encode_batch(["a"])\n'
        'bad = {"tensorflow", "seqio", "jax", "transformers", "torch"} & set(sys.modules)\n'
        'assert not bad, bad\n'
    )
    subprocess.run([sys.executable, '-c', code], check=True)
