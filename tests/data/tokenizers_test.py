"""Tests of xlbench/data/tokenizers."""

import base64
import dataclasses
import functools
import itertools
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import warnings

import edits
import fake_hub
import msgspec
import mtg_files
import numpy as np
import pytest
import tokenizer_files
import tokenizers as hf
from nightly import by_day
from put_files import put
from sentencepiece import sentencepiece_model_pb2

from xlbench.benchmarks import languages
from xlbench.data import features, tokenizers, vocabularies
from xlbench.huggingface import charsmap
from xlbench.inference import exported
from xlbench.metrics import words
from xlbench.system import errors

TEXTS = ['die alte Brücke', 'el río', '老桥横跨', '<de> Leute <answer> Regen', 'x', 'Ω≈ \U0001f600']


@pytest.fixture(scope='module')
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp('root')
    mtg_files.write_vocabulary(folder)
    return str(folder)


@functools.cache
def reference(folder):
    """transformers' tokeniser of a folder."""
    from transformers import AutoTokenizer
    from transformers.utils import logging

    logging.set_verbosity_error()
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')  # That sacremoses, which it does not use, is not there.
        return AutoTokenizer.from_pretrained(folder, local_files_only=True)


def prefixes(tokenizer, source, target):
    return [ids.tolist() for ids in tokenizer.prefix_ids(source, target)]


def assert_equals_reference(folder, texts=tokenizer_files.TEXTS):
    """Same ids, for inputs and for targets; the tokenizer."""
    ours = tokenizers.load(str(folder), '')
    for side in ('text', 'text_target'):
        expected = reference(str(folder))(**{side: list(texts)}, add_special_tokens=False)
        found = ours.encode_batch(texts, target=side == 'text_target')
        for text, ids, wanted in zip(texts, found, expected['input_ids'], strict=True):
            assert ids.dtype == np.int32
            assert ids.tolist() == wanted, (side, text)
    return ours


@pytest.fixture(scope='module')
def folder_of(tmp_path_factory):
    """A function from a family to a folder of its files, written once."""
    base = tmp_path_factory.mktemp('families')
    return functools.cache(lambda name: tokenizer_files.write(base / name, name))


def test_the_vocabulary_of_the_samples(root):
    tokenizer = tokenizers.load('sample', root)
    ids = tokenizer.pad_id, tokenizer.eos_id, tokenizer.unk_id
    assert (tokenizer.name, ids) == ('sample', (0, 1, 2))
    assert (tokenizer.decoder_start_id, tokenizer.tags) == (0, 'target_in_source')
    assert tokenizer.vocab_size == tokenizer.num_pieces
    assert tokenizers.load('sample', root) is tokenizer
    assert len(tokenizer.sha256) == 64
    ids = tokenizer.encode_batch(TEXTS)
    assert all(row.dtype == np.int32 and row.ndim == 1 for row in ids)
    assert all(1 not in row for row in ids)  # eos is for the pipeline.
    assert tokenizer.decode_batch(ids) == TEXTS
    for text, row in zip(TEXTS, ids, strict=True):
        np.testing.assert_array_equal(tokenizer.encode(text), row)
        assert tokenizer.decode(row) == text
    assert tokenizer.encode_batch([]) == tokenizer.decode_batch([]) == []
    assert tokenizer.encode_batch([''])[0].shape == (0,)
    # A tag is one piece.
    assert tokenizer._processor.id_to_piece(int(tokenizer.encode('<de> a')[1])) == '<de>'
    # Decoding stops at eos, and drops what is no text.
    ids = ids[0].tolist()
    noisy = [0, *ids[:2], 0, tokenizer.vocab_size + 5, -1, *ids[2:], 1, *ids, 0]
    assert tokenizer.decode_batch([noisy, [1, *ids], []]) == [TEXTS[0], '', '']


def test_sizes_of_public_models(root, tmp_path):
    """Embeddings are padded beyond the pieces; config.json knows, else the number of pieces."""
    shutil.copy(f'{root}/sample.model', tmp_path / 'spiece.model')
    pieces = tokenizers.load('sample', root).vocab_size
    assert tokenizers.load(str(tmp_path), root).vocab_size == pieces + 100  # T5's sentinels.
    put(tmp_path, 'config.json', {'model_type': 'mt5', 'vocab_size': 448})
    tokenizers.loading._read.cache_clear()
    found = tokenizers.load(str(tmp_path), root)
    assert (found.vocab_size, found.num_pieces) == (448, pieces)  # No room for sentinels.
    for config, pieces, rows in (
        ('{}', 250_100, 250_112),
        ('{"vocab_size": 32100}', 32_100, 32_100),
        ('{"encoder": {"vocab_size": 99}}', 90, 99),
        ('{"vocab_size": 99}', 100, 100),
    ):
        settings = msgspec.json.decode(config, type=vocabularies.Settings)
        assert tokenizers.tokenizer.model_vocab_size(settings, pieces) == rows


# --- Equal to transformers.


@pytest.mark.parametrize('family', tokenizer_files.FAMILIES)
def test_ids_and_texts_equal_transformers(folder_of, family):
    ours = assert_equals_reference(folder_of(family))
    theirs = reference(folder_of(family))
    eos = theirs.eos_token_id if theirs.eos_token else theirs.sep_token_id
    assert (ours.pad_id, ours.eos_id, ours.unk_id) == (
        eos if family == 'gpt2' else theirs.pad_token_id,
        eos,
        theirs.unk_token_id,
    )
    assert ours.bos_id == (theirs.bos_token_id if theirs.bos_token else theirs.cls_token_id)
    further = 100 if family == 'm2m_100' else 0  # Its languages, which transformers counts apart.
    assert ours.num_pieces == len(theirs) + further
    # Something is known and something is not, else equal ids say little.
    ids = np.concatenate(ours.encode_batch(tokenizer_files.TEXTS))
    assert len(set(ids.tolist())) > (70 if 'marian' in family else 400)
    assert (ids == ours.unk_id).any() or family == 'gpt2'  # Which knows every byte.

    # What it writes.
    sentences = list(tokenizer_files.SENTENCES.values())
    rows = [row.tolist() for row in ours.encode_batch(sentences)]
    expected = [theirs.decode(row, skip_special_tokens=True) for row in rows]
    assert ours.decode_batch(rows) == expected
    # Special tokens and those of languages are no text; in XLM's texts marks are words.
    text = 'the old bridge .' if family == 'xlm' else 'the old bridge.'
    ids = ours.encode(text, target=True).tolist()
    noisy = [ours.decoder_start_id] * (ours.decoder_start_id != ours.eos_id)
    source, target = prefixes(ours, 'en', 'de')
    noisy += [*source, *target, *ids, ours.eos_id, *ids, ours.pad_id]
    assert ours.decode_batch([noisy, [], [ours.eos_id]]) == [text, '', '']


@pytest.mark.parametrize('family', ['t5', 'pegasus', 'mbart25', 'mbart50', 'xlm-roberta', 'marian'])
def test_ids_equal_transformers_without_normalisation(tmp_path, family):
    assert_equals_reference(tokenizer_files.write(tmp_path, family, 'identity'))


AS_JSON = 't5 pegasus mbart25 mbart50 nllb xlm-roberta bert-cased bert-uncased bart'


@pytest.mark.parametrize('family', AS_JSON.split())
def test_tokenizer_json_gives_the_same_ids(folder_of, tmp_path, family):
    """What transformers saves has a tokenizer.json and no ordinary files."""
    reference(folder_of(family)).save_pretrained(tmp_path)
    shutil.copy(f'{folder_of(family)}/config.json', tmp_path)
    assert not {'spiece.model', 'vocab.txt', 'merges.txt'} & {p.name for p in tmp_path.iterdir()}
    saved, built = assert_equals_reference(tmp_path), tokenizers.load(folder_of(family), '')
    texts = tokenizer_files.TEXTS
    for one, other in zip(saved.encode_batch(texts), built.encode_batch(texts), strict=True):
        np.testing.assert_array_equal(one, other)
    assert saved.family == built.family
    assert saved.languages() == built.languages()
    for lang in ('de', 'fr'):
        assert prefixes(saved, 'en', lang) == prefixes(built, 'en', lang)


def test_flags_in_a_tokenizer_json_stay(folder_of, tmp_path):
    """XLM-R's public file takes the space before the mask away, its ordinary files do not."""
    reference(folder_of('xlm-roberta')).save_pretrained(tmp_path)
    with edits.edited(tmp_path / 'tokenizer.json') as content:
        (mask,) = (token for token in content['added_tokens'] if token['content'] == '<mask>')
        mask['lstrip'] = True
    (tmp_path / 'tokenizer_config.json').write_text('{"tokenizer_class": "XLMRobertaTokenizer"}')
    ours = assert_equals_reference(tmp_path)
    plain = tokenizers.load(folder_of('xlm-roberta'), '')
    assert len(ours.encode('a  <mask>')) <= len(plain.encode('a  <mask>'))


SUMMARIZE = {'content': '[summarize]', 'special': True, 'normalized': False} | dict.fromkeys(
    ('lstrip', 'rstrip', 'single_word'), False
)


ADDING = ['t5', 'mbart50', 'bert-cased', 'bart', 'marian-multilingual']
PLACES = ['added_tokens', 'added_tokens_decoder', 'extra', 'map']
BY_DAY = [*zip(ADDING, PLACES, strict=False), (ADDING[4], PLACES[1]), (ADDING[4], PLACES[3])]


@pytest.mark.parametrize(('family', 'place'), by_day(BY_DAY, itertools.product(ADDING, PLACES)))
def test_added_tokens(folder_of, tmp_path, family, place):
    size = tokenizers.load(folder_of(family), '').num_pieces
    numbered = {'added_tokens': {'[summarize]': size}}
    files = {
        'added_tokens': numbered,
        'added_tokens_decoder': {'config': {'added_tokens_decoder': {str(size): SUMMARIZE}}},
        'extra': {'config': {'extra_special_tokens': ['[summarize]']}} | numbered,
        'map': {'special_tokens_map': {'additional_special_tokens': ['[summarize]']}} | numbered,
    }[place]
    ours = assert_equals_reference(tokenizer_files.write(tmp_path, family, **files))
    assert size in ours.encode('[summarize] the old bridge')
    assert ours.num_pieces == ours.vocab_size == size + 1


def test_pegasus_keeps_its_ids_whatever_names_its_masks(folder_of, tmp_path):
    """transformers 5.23 gives all pieces other ids when a mask is named, as public files do."""
    named = {'mask_token': '<mask_2>', 'additional_special_tokens': ['<mask_1>', '<unk_2>']}
    folder = tokenizer_files.write(tmp_path, 'pegasus', special_tokens_map=named)
    plain, named = tokenizers.load(folder_of('pegasus'), ''), tokenizers.load(folder, '')
    assert plain.unk_id == named.unk_id == 2 + 103
    for text in tokenizer_files.TEXTS:
        np.testing.assert_array_equal(plain.encode(text), named.encode(text))
    assert plain.encode('<mask_1><mask_2>').tolist() == [2, 3]


def test_a_model_file_alone_is_run_by_sentencepiece(folder_of):
    """Bytes are spelled, special tokens are text; and the folder's decoder reads the bytes."""
    folder = folder_of('mt5')
    model, whole = tokenizers.load(f'{folder}/spiece.model', ''), tokenizers.load(folder, '')
    text = 'die alte Brücke \U0001f600'
    ids = model.encode(text)
    assert model.unk_id not in ids
    assert whole.unk_id in whole.encode(text)
    assert model.decode(ids) == whole.decode(ids) == text
    assert 1 not in model.encode('a </s> b')
    assert 1 in whole.encode('a </s> b')


# --- Languages, prefixes, decoding.


@pytest.mark.parametrize(
    ('family', 'source', 'target', 'start', 'own'),
    [
        ('t5', [], [], '<pad>', False),
        ('pegasus', [], [], '<pad>', False),
        ('mbart25', ['en_XX'], ['de_DE'], '</s>', True),
        ('mbart50', ['en_XX'], ['de_DE'], '</s>', True),
        ('xlm-roberta', ['<s>'], [], '<s>', False),
        ('bert-cased', ['[CLS]', '[unused8]'], ['[unused8]'], '[CLS]', True),
        ('bart', ['<s>'], ['<s>'], '</s>', False),
        ('roberta', ['<s>'], [], '<s>', False),
        ('gpt2', [], [], '<|endoftext|>', False),
        ('marian', [], [], '<pad>', True),
        ('marian-multilingual', ['>>deu<<'], [], '<pad>', True),
    ],
)
def test_prefixes(folder_of, family, source, target, start, own):
    ours = tokenizers.load(folder_of(family), '')
    to_id = reference(folder_of(family)).convert_tokens_to_ids
    assert prefixes(ours, 'en', 'de') == [to_id(source), to_id(target)]
    assert all(ids.dtype == np.int32 for ids in ours.prefix_ids('en', 'de'))
    assert ours.forced_first('de') == (to_id(target)[0] if target else None)
    assert ours.decoder_start_id == to_id(start)
    assert ours.tags == ('own' if own else 'target_in_source')


def test_the_tags_of_a_bert_may_be_those_of_each_side(folder_of, tmp_path):
    folder = tokenizer_files.write(tmp_path, 'bert-cased', config={'language_tags': 'sides'})
    ours, plain = tokenizers.load(folder, ''), tokenizers.load(folder_of('bert-cased'), '')
    english, german = (plain.forced_first(lang) for lang in ('en', 'de'))
    assert prefixes(plain, 'en', 'de') == [[plain.bos_id, german], [german]]
    assert prefixes(ours, 'en', 'de') == [[plain.bos_id, english], [german]]
    assert prefixes(ours, None, None) == [[plain.bos_id], []]
    assert ours.sha256 != plain.sha256


def test_unicoder_has_tokens_behind_those_of_xlm_r(folder_of, tmp_path):
    """As fairseq's task adds them; a source ends with [EOS], and a decoder starts with [de]."""
    folder = tokenizer_files.write(tmp_path, 'unicoder')
    ours, plain = tokenizers.load(folder, ''), tokenizers.load(folder_of('xlm-roberta'), '')
    end = plain.num_pieces
    german = end + 1 + vocabularies.FAMILIES['unicoder'].languages.index('de')
    assert (ours.family, ours.num_pieces, ours.tags) == ('unicoder', end + 101, 'own')
    assert prefixes(ours, 'en', 'de') == [[end], [german]] and ours.forced_first('de') == german
    text = 'Der alte Fischer'
    np.testing.assert_array_equal(ours.encode(text), plain.encode(text))
    assert not {end, german} & set(ours.encode('[EOS] and [de]').tolist())  # Of a text.
    assert ours.decode([german, *ours.encode(text), ours.eos_id, end]) == text
    with pytest.raises(errors.UserError, match="has no token for language 'yo'"):
        ours.forced_first('yo')
    ids = ours.encode(text).tolist()
    stored = [np.array([*first, *ids, ours.eos_id]) for first in prefixes(ours, 'en', 'de')]
    record = dict(zip(('inputs', 'targets'), stored, strict=True))
    marks = {'answer_mark': ours.answer_mark(), 'segment_marks': ours.segment_marks()}
    known = features.Conventions.of({'task': 'x', 'vocabulary': ours.manifest()} | marks)
    assert known == features.Conventions.of_tokenizer(ours, ours.vocab_size)
    batch = features.generation([record], features.Layout({'inputs': 20, 'targets': 20}, known))
    arrays = {name: array[0].tolist() for name, array in batch.items()}
    length, ended = len(ids) + 2, [*ids, ours.eos_id, end]
    assert arrays['encoder_input_tokens'][:length] == ended
    assert arrays['decoder_target_tokens'][:length] == ended
    assert arrays['decoder_input_tokens'][:length] == [german, *ids, ours.eos_id]
    assert record['targets'][0] == german  # Which stays as it was.
    wrong = dataclasses.replace(known, closing_id=ours.vocab_size)
    with pytest.raises(errors.UserError, match='beyond a vocabulary of'):
        features.generation([record], features.Layout({'inputs': 20, 'targets': 20}, wrong))


def test_mbart_25_writes_what_transformers_writes(folder_of):
    ours, theirs = tokenizers.load(folder_of('mbart25'), ''), reference(folder_of('mbart25'))
    theirs.src_lang, theirs.tgt_lang = 'fr_XX', 'zh_CN'
    source, target = 'Le vieux pont', '河上的老桥'
    expected = theirs(source, text_target=target)
    ends = [ours.eos_id]
    pairs = zip(ours.prefix_ids('fr', 'zh'), (source, target), strict=True)
    stored = [np.concatenate([first, ours.encode(text), ends]) for first, text in pairs]
    record = dict(zip(('inputs', 'targets'), stored, strict=True))
    known = features.Conventions.of_tokenizer(ours, ours.vocab_size)
    batch = features.generation([record], features.Layout({'inputs': 20, 'targets': 20}, known))
    arrays = {name: array[0].tolist() for name, array in batch.items()}
    length = len(expected['input_ids'])
    assert arrays['encoder_input_tokens'][:length] == expected['input_ids']
    labels = expected['labels']
    assert arrays['decoder_target_tokens'][: len(labels)] == labels
    # As its model shifts the labels: the language first.
    fed = [labels[-1], *labels[:-1]]
    assert arrays['decoder_input_tokens'][: len(fed)] == fed
    assert known.begin('language', 'generation') == ('language', None)
    assert len(ours.languages()) == 25
    to_id = theirs.convert_tokens_to_ids
    assert (to_id('zh_CN'), to_id('<mask>')) == (ours.num_pieces - 2, ours.num_pieces - 1)


def test_mbart_50_writes_what_transformers_writes(folder_of):
    ours, theirs = tokenizers.load(folder_of('mbart50'), ''), reference(folder_of('mbart50'))
    theirs.src_lang, theirs.tgt_lang = 'fr_XX', 'zh_CN'
    text = 'Le vieux pont'
    expected = theirs(text, text_target=text)
    ids, eos = ours.encode(text).tolist(), [ours.eos_id]
    source, target = prefixes(ours, 'fr', 'zh')
    assert source + ids + eos == expected['input_ids']
    assert target + ids + eos == expected['labels']
    # fairseq's: four special tokens, the pieces one further, 52 languages in order, the mask.
    model = tokenizers.load(f'{folder_of("mbart50")}/sentencepiece.bpe.model', '')
    to_id = theirs.convert_tokens_to_ids
    assert to_id(['<s>', '<pad>', '</s>', '<unk>']) == [0, 1, 2, 3]
    assert (ours.encode('pont') == model.encode('pont') + 1).all()
    assert len(ours.languages()) == 52
    first, last = model.num_pieces + 1, model.num_pieces + 52
    assert (to_id('ar_AR'), to_id('sl_SI'), to_id('<mask>')) == (first, last, last + 1)
    assert ours.num_pieces == last + 2


def test_languages(folder_of):
    bert = tokenizers.load(folder_of('bert-cased'), '')
    assert bert.languages() == languages.TABLE
    assert bert.forced_first('zh') == 61  # [unused61] has id 61, in mBERT, too.
    assert prefixes(bert, None, None) == [[bert.bos_id], []]
    assert not set(range(1, 100)) & set(bert.encode('[unused3] [unused 8]').tolist())
    marian = tokenizers.load(folder_of('marian-multilingual'), '')
    assert set(marian.languages()) == {'de', 'fr', 'zh', 'es'}
    assert prefixes(marian, None, 'zh')[0] == marian.encode('>>cmn_Hans<<').tolist()
    assert tokenizers.load(folder_of('marian'), '').languages() == ()
    assert tokenizers.load(folder_of('xlm-roberta'), '').languages() == ()


@pytest.mark.parametrize(
    ('family', 'langs', 'message'),
    [
        ('mbart50', ('en', 'bg'), r"no token for language 'bg' \(bulgarian\); of the slavic ones"),
        ('mbart50', ('el', 'en'), r"no token for language 'el' \(greek\); it has af, ar, az"),
        ('mbart50', (None, 'en'), r'needs source_lang, for its language token; name it in the ta'),
        ('mbart50', ('english', 'en'), r"unknown language 'english'"),
        ('marian-multilingual', ('en', 'it'), r'of the romance ones it has es, fr'),
        ('marian-multilingual', ('en', None), r'needs target_lang'),
        ('bert-cased', ('en', 'xx'), r"unknown language 'xx'"),
    ],
)
def test_a_language_without_a_token(folder_of, family, langs, message):
    with edits.refused(message):
        tokenizers.load(folder_of(family), '').prefix_ids(*langs)


@pytest.mark.parametrize(
    ('family', 'yes', 'no'),
    [
        ('bert-cased', 'x', ','),
        ('mbart50', '▁l', '▁'),
        ('gpt2', 'x', 'Ã'),  # One of two bytes of a letter.
        ('mt5', '<0x41>', '<0xE4>'),  # Bytes: A, and a part of a letter.
    ],
)
def test_pieces_that_have_letters(folder_of, family, yes, no):
    tokenizer = tokenizers.load(folder_of(family), '')
    known = tokenizers.with_letters(tokenizer.sha256)
    has_letter = dict(zip(tokenizer.pieces(), known, strict=True))
    assert has_letter[yes] and not has_letter[no]


def test_manifests_tell_vocabularies_apart(folder_of, tmp_path):
    """The same vocabulary file with another setting, or in another family."""
    first = tokenizers.load(folder_of('bert-cased'), '')
    folder = shutil.copytree(folder_of('bert-cased'), tmp_path / 'lower')
    config = {'tokenizer_class': 'BertTokenizer', 'do_lower_case': True}
    (folder / 'tokenizer_config.json').write_text(json.dumps(config))
    second = tokenizers.load(str(folder), '')
    assert first.manifest()['sha256'] != second.manifest()['sha256']
    assert first.encode('Bridge').tolist() != second.encode('Bridge').tolist()
    again = shutil.copytree(folder_of('bert-cased'), tmp_path / 'again')
    assert tokenizers.load(str(again), '').sha256 == first.sha256
    digests = {tokenizers.load(folder_of(name), '').sha256 for name in tokenizer_files.FAMILIES}
    assert len(digests) == len(tokenizer_files.FAMILIES)
    assert (first.manifest()['bos_id'], first.manifest()['family']) == (101, 'bert')


def test_words_as_mrs_splits_them(tmp_path):
    """Before WordPiece: the words that its validation compares, with case and accents kept."""
    folder = tokenizer_files.write(tmp_path / 'mrs', 'bert-cased', config={'words': 'mrs'})
    ours = tokenizers.load(folder, '')
    plain = tokenizers.load(tokenizer_files.write(tmp_path / 'plain', 'bert-cased'), '')
    assert ours.sha256 != plain.sha256
    assert (ours.bos_id, ours.eos_id) == (plain.bos_id, plain.eos_id)
    steps = ours._tokenizer

    def split(text):
        found = steps.pre_tokenizer.pre_tokenize_str(steps.normalizer.normalize_str(text))
        return [word for word, _ in found]

    assert split('Zug 1234,\tここ。') == ['Zug', '0', ',', 'ここ', '。']
    for text in tokenizer_files.HARD:
        assert words.generic(' '.join(split(text))) == words.generic(text)
    for text in tokenizer_files.SENTENCES.values():
        assert [words.generic(word) for word in split(text)] == words.generic(text).split()
    # No spaces around the characters of Chinese: one word, of pieces or unknown as a whole.
    text = tokenizer_files.SENTENCES['zh'][:4]
    assert plain.encode(text).size == len(text)
    assert ours.encode(text).tolist() != plain.encode(text).tolist()
    assert ours.encode('x' * 150).size == 150
    assert plain.encode('x' * 150).tolist() == [plain.unk_id]


def test_families_are_told_by_their_files(folder_of, tmp_path):
    cases = {'bert-cased': 'bert', 't5': 't5', 'marian': 'marian'}
    for name, family in cases.items():
        folder = shutil.copytree(folder_of(name), tmp_path / name)
        (folder / 'config.json').unlink()
        (folder / 'tokenizer_config.json').unlink()
        assert tokenizers.load(str(folder), '').family == family
    config = {'model_type': 'encoder-decoder', 'encoder': {'model_type': 'xlm-roberta'}}
    folder = tokenizer_files.write(tmp_path / 'x', 'xlm-roberta', config={'tokenizer_class': None})
    (tmp_path / 'x' / 'config.json').write_text(json.dumps(config))
    assert tokenizers.load(folder, '').family == 'xlm-roberta'
    (tmp_path / 'x' / 'config.json').unlink()
    tokenizers.loading._read.cache_clear()
    with pytest.raises(errors.UserError, match=r'config.json beside the files would tell'):
        tokenizers.load(folder, '')


@pytest.mark.parametrize('name', ['XLMRobertaTokenizerFast', 'PreTrainedTokenizerFast', None])
def test_a_bert_with_the_vocabulary_of_xlmr(tmp_path, name):
    """Multilingual E5 and MiniLM: pairs have two ends between the texts, and one type."""
    special = {'cls_token': '<s>', 'sep_token': '</s>', 'bos_token': '<s>', 'eos_token': '</s>'}
    config = special | {'tokenizer_class': name}
    folder = tokenizer_files.write(tmp_path, 'xlm-roberta', config=config)
    plain = tokenizers.load(folder, '')
    (tmp_path / 'config.json').write_text(json.dumps({'model_type': 'bert', 'pad_token_id': 0}))
    tokenizers.loading._read.cache_clear()
    tokenizer = tokenizers.load(folder, '')
    assert (tokenizer.family, tokenizer.pad_id, tokenizer.bos_id) == ('xlm-roberta', 1, 0)
    pieces = tokenizer.encode_batch(['Ein Zug', 'Er fährt'])
    pair = tokenizer.join_texts(pieces)
    assert pair.tolist() == plain.join_texts(pieces).tolist()
    counts = [len(ids) for ids in pieces]
    assert len(pair) == sum(counts) + 4
    _, types = features.arrays.trim_pair(pair, counts, len(pair), tokenizer.eos_id)
    assert not types.any()


@pytest.mark.parametrize(
    ('family', 'file', 'content', 'message'),
    [
        ('t5', 'spiece.model', b'no', 'spiece.model is not a SentencePiece model'),
        ('bert-cased', 'vocab.txt', b'\xff\xfe', 'vocab.txt cannot be read as the vocabulary of a'),
        ('bart', 'merges.txt', b'a b c d\n', 'vocab.json and merges.txt cannot be read as'),
        ('marian', 'target.spm', b'no', 'target.spm is not a SentencePiece model'),
        ('marian', 'vocab.json', b'{', 'vocab.json: not JSON: Input data was trunc'),
        ('t5', 'added_tokens.json', b'[]', 'added_tokens.json: Expected `object`, got `array`'),
        ('mbart50', 'tokenizer.json', b'{}', 'is not a tokenizer.json'),
        ('marian', 'vocab.json', b'{"</s>": 0, "<unk>": 1000000000000}', 'from 0 without gaps'),
        ('t5', 'tokenizer_config.json', b'{"extra_ids": "x"}', 'got `str` - at `.*extra_ids'),
        ('bart', 'added_tokens.json', b'{"[summarize]": {}}', 'Expected `int`, got'),
        ('bert-cased', 'config.json', b'{"model_type": ["bert"]}', '`array` - at `.*model_type'),
        ('bert-cased', 'vocab.txt', b'[PAD]\n[CLS]\n[SEP]\na\n', 'no piece for unknown text'),
        ('bert-cased', 'added_tokens.json', b'{"[x]": 5000}', r"token '\[x\]' has id 5000"),
        *((family, 'tokenizer_config.json', text, message) for family, text, message in (
            ('bert-cased', b'{"do_lower_case": "no"}', 'Expected `bool | null`, got `str`'),
            ('bert-cased', b'{"unk_token": {"text": "x"}}', 'missing required field `content`'),
            ('bert-cased', b'{"added_tokens_decoder": {"x": {"content": "a"}}}', '`int`, got'),
            ('bert-cased', b'{"added_tokens_decoder": {"-3": {"content": "a"}}}', '`int` >= 0'),
            ('bert-cased', b'{"pad_token": "\\ud800"}', 'not JSON'),
            ('bert-cased', b'{"extra": ' + b'[' * 100_000, 'nested too deeply'),
            ('marian', b'{"separate_vocabs": true}', 'separate vocabularies'),
            ('bart', b'{"language_tags": "sides"}', "has language_tags 'sides' for a bart voc"),
            ('bert-cased', b'{"language_tags": "both"}', "for BERT write 'sides'"),
            ('bert-cased', b'{"words": "moses"}', "words 'moses' for a bert"),
            ('xlm-roberta', b'{"words": "mrs"}', "words 'mrs' for a xlm-"),
            ('t5', b'{"extra_ids": 1000000000}', 'Expected `int` <= 65536'),
        )),
    ],
)  # fmt: skip
def test_broken_files(tmp_path, family, file, content, message):
    folder = tokenizer_files.write(tmp_path, family)
    (tmp_path / file).write_bytes(content)
    with edits.refused(message.replace('|', r'\|')):
        tokenizers.load(folder, '')


@pytest.mark.parametrize(
    'change, message',
    [
        (lambda proto: setattr(proto.pieces[300], 'score', float('nan')), 'no finite score'),
        (lambda proto: setattr(proto.pieces[300], 'piece', 'a' * 9), ''),
        (lambda proto: setattr(proto.pieces[301], 'piece', proto.pieces[300].piece), ''),
        (lambda proto: setattr(proto.trainer_spec, 'unk_id', 10**6), 'its unk_id is 1000000'),
        (lambda proto: setattr(proto.trainer_spec, 'unk_id', -3), 'its unk_id is -3'),
        (lambda proto: setattr(proto.trainer_spec, 'eos_id', 2**31 - 1), 'its eos_id is 2147'),
        (lambda proto: setattr(proto.trainer_spec, 'unk_id', 5), 'unknown text as piece 5, where'),
        (lambda proto: setattr(proto.trainer_spec, 'model_type', 2), 'is not a unigram model'),
        (lambda proto: proto.ClearField('pieces'), 'is not a SentencePiece model'),
    ],
)
def test_strange_pieces(tmp_path, change, message):
    folder = pathlib.Path(tokenizer_files.write(tmp_path, 't5'))
    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString((folder / 'spiece.model').read_bytes())
    change(proto)
    (folder / 'spiece.model').write_bytes(proto.SerializeToString())
    if not message:
        assert tokenizers.load(str(folder), '/').encode('ein Text').size
        return
    of_folder = message in ('unknown text as piece 5, where', 'is not a unigram model')
    for path in (folder,) if of_folder else (folder, folder / 'spiece.model'):
        with pytest.raises(errors.UserError, match=message):
            tokenizers.load(str(path), '/')


def test_a_piece_that_is_there_twice_makes_no_id_beyond_the_vocabulary(tmp_path):
    folder = pathlib.Path(tokenizer_files.write(tmp_path, 'bert-cased'))
    lines = (folder / 'vocab.txt').read_text(encoding='utf-8').splitlines()
    (folder / 'vocab.txt').write_text('\n'.join([*lines[:-1], lines[-2], lines[-1]]))
    found = tokenizers.load(str(folder), '/')
    assert found.num_pieces == len(lines) + 1
    assert max(found._tokenizer.get_vocab().values()) < found.vocab_size


@pytest.mark.parametrize('family', ['t5', 'bart', 'marian'])
def test_vocabularies_keep_to_the_limit(tmp_path, monkeypatch, family):
    folder = tokenizer_files.write(tmp_path, family)
    monkeypatch.setenv('XLBENCH_MAX_CONFIG_BYTES', '1000')
    with pytest.raises(errors.UserError, match='XLBENCH_MAX_CONFIG_BYTES'):
        tokenizers.load(str(folder), '/')


def test_a_tokenizer_json_of_no_known_family(tmp_path, root):
    folder = tokenizer_files.write_hugging_face(
        tmp_path / 'x', config={'decoder_start_token_id': 2}
    )
    tokenizer = tokenizers.load(str(folder), root)
    assert isinstance(tokenizer, tokenizers.HuggingFaceTokenizer)
    assert (tokenizer.pad_id, tokenizer.eos_id, tokenizer.unk_id) == (1, 2, 3)
    assert (tokenizer.bos_id, tokenizer.decoder_start_id) == (0, 2)
    assert (tokenizer.family, tokenizer.tags) == ('other', 'target_in_source')
    assert prefixes(tokenizer, 'en', 'de') == [[], []]
    texts = ['die alte Brücke steht über dem Fluss', 'the old bridge']
    ids = tokenizer.encode_batch(texts)
    assert all(row.dtype == np.int32 for row in ids)
    assert all(0 not in row and 2 not in row for row in ids)  # No <s>, no </s>, ...
    assert len(ids[0]) > 4  # ... and the file's truncation is off.
    assert tokenizer.decode_batch([[*row, 2, 1, 1] for row in ids]) == texts
    path = tokenizers.load(str(folder / 'tokenizer.json'), root)
    assert path.encode(texts[0]).tolist() == ids[0].tolist()


@pytest.mark.parametrize(
    ('spec', 'message'),
    [
        ('samplee', 'unknown vocabulary .samplee.; nearest: sample'),
        ('byte', "unknown vocabulary 'byte'; nearest: bytes"),
        ('sample', '--sample'),
        ('./nowhere.model', r'there is no vocabulary file or folder .*nowhere\.model'),
        ('./empty', r'has no tokenizer\.json and no spiece\.model of T5'),
        ('./bare', 'has no pad_token'),
        ('./x.model', 'is not a SentencePiece model'),
        ('./x.json', r'is not a tokenizer\.json'),
        ('./x.json+[summarize]', 'adds words to a single file'),
    ],
)
def test_what_is_no_vocabulary(tmp_path, monkeypatch, spec, message):
    monkeypatch.chdir(tmp_path)
    for name in ('empty', 'bare'):
        (tmp_path / name).mkdir()
    words = hf.Tokenizer(hf.models.WordLevel({'a': 0}, unk_token='a'))  # No special tokens.
    words.save(str(tmp_path / 'bare' / 'tokenizer.json'))
    (tmp_path / 'x.model').write_bytes(b'not a model')
    (tmp_path / 'x.json').write_text('{}')
    with edits.refused(message):
        tokenizers.load(spec, str(tmp_path))


def test_hub_fetches_named_files_only(tmp_path, root, monkeypatch):
    folder = tmp_path / 'hub'
    folder.mkdir()
    shutil.copy(f'{root}/sample.model', folder / 'spiece.model')
    (folder / 'config.json').write_text('{"model_type": "mt5", "vocab_size": 500}')
    for name in ('pytorch_model.bin', 'tokenization.py', 'model.safetensors', 'x.model'):
        (folder / name).write_bytes(b'?')
    hub = fake_hub.FakeHub(folder, monkeypatch)
    tokenizer = tokenizers.load('google/mt5-base@abc', root)
    assert (tokenizer.name, tokenizer.vocab_size) == ('google/mt5-base@abc', 500)
    assert {path.name for path in hub.snapshot.iterdir()} == {'spiece.model', 'config.json'}
    assert hub.asked == [('google/mt5-base', 'abc')]
    tokenizers.loading._read.cache_clear()
    tokenizers.load('google/mt5-base@abc', root)
    assert len(hub.asked) == 1  # What is in the cache is not asked for.
    (folder / 'spiece.model').unlink()
    (hub.snapshot / 'spiece.model').unlink()
    with pytest.raises(errors.UserError, match=r'google/mt5-base has none of tokenizer.json, sp'):
        tokenizers.load('mt5', root)


ALONE = """
import sys
from xlbench.data import tokenizers, readers
from xlbench.system import errors
root, torch, *folders = sys.argv[1:]
tokenizers.load('sample', root).encode_batch(['a'])
try: tokenizers.load('mt5', root)
except errors.UserError as error: print(error)
bad = {'tensorflow', 'seqio', 'jax', 'transformers', 'torch'} & set(sys.modules)
assert not bad, bad
sys.path.insert(0, torch)
for folder in folders: tokenizers.load(folder, '')
import transformers
assert transformers.utils.is_torch_available()
bad = {'tensorflow', 'seqio', 'jax', 'torch'} & set(sys.modules)
assert not bad, bad
"""


def test_needs_no_tensorflow_no_pytorch_and_no_connection(root, folder_of, tmp_path):
    """transformers is for folders alone, says nothing, and does not load the installed PyTorch."""
    about = 'Metadata-Version: 2.1\nName: torch\nVersion: 2.13.0\n'
    put(tmp_path, 'torch-2.13.0.dist-info/METADATA', about)
    put(tmp_path, 'torch/__init__.py', 'raise AssertionError("PyTorch is imported")')
    folders = folder_of('bert-cased'), folder_of('t5')
    result = subprocess.run(
        [sys.executable, '-c', ALONE, root, str(tmp_path), *folders],
        capture_output=True,
        text=True,
        env=os.environ | {'HF_HUB_OFFLINE': '1', 'HF_HOME': str(tmp_path)},
    )
    assert (result.returncode, result.stderr, result.stdout.count('\n')) == (0, '', 1)
    assert "of 'google/mt5-base' is not in the Hugging Face cache" in result.stdout


def test_a_size_that_is_too_small_for_a_vocabulary_says_which_one_works():
    lines = ['die alte Brücke', 'el río', '老桥横跨']
    wanted = r'40 pieces is too small .*; (\d+) is the smallest'
    with pytest.raises(errors.UserError, match=wanted) as e:
        tokenizers.train_sentencepiece(lines, size=40, symbols=['<de>'])
    least = int(str(e.value).split('; ')[1].split()[0])
    assert tokenizers.train_sentencepiece(lines, size=least, symbols=['<de>'])
    with pytest.raises(errors.UserError, match=f'{least} is the smallest'):
        tokenizers.train_sentencepiece(lines, size=least - 1, symbols=['<de>'])
    for nothing in ([], ['', ''], ['  ']):
        with pytest.raises(errors.UserError, match='no text has a word'):
            tokenizers.train_sentencepiece(nothing, size=400)


def test_bytes_are_those_of_byt5(tmp_path):
    """Ids as transformers' ByT5Tokenizer and seqio.ByteVocabulary have them."""
    put(tmp_path, 'tokenizer_config.json', {'tokenizer_class': 'ByT5Tokenizer'})
    put(tmp_path, 'config.json', {'model_type': 't5', 'vocab_size': 384})
    folder, named = tokenizers.load(str(tmp_path), ''), tokenizers.load('bytes', '')
    assert folder.manifest() == named.manifest() | {'name': str(tmp_path)}
    assert named.encode('aß').tolist() == [100, 198, 162]
    (tmp_path / 'out').mkdir()
    exported.write_tokenizer(tmp_path, named, tmp_path / 'out', tasks={}, max_length=32)
    assert tokenizers.load(str(tmp_path / 'out'), '').sha256 == named.sha256
    assert named.vocab_size == 384
    for text in TEXTS:
        assert named.decode([*named.encode(text), 1, 100]) == text
    # Special ids, sentinels and bytes that are no text.
    assert named.decode([0, 100, 2, 3 + 0xC3, 101, 259, 383]) == 'ab'
    assert named.encode_inputs(['a'])[0].tolist() == [100, 1]
    assert named.answer_mark() == [byte + 3 for byte in b' <answer>']


# ------------------------------------------------------------------------------- damaged models


def _harmed_table(harm: str) -> bytes:
    """The table of a SentencePiece model, by which both libraries were led out of their memory."""
    proto = sentencepiece_model_pb2.ModelProto.FromString(tokenizer_files.sentencepiece_model('t5'))
    table = bytes(proto.normalizer_spec.precompiled_charsmap)
    size = int.from_bytes(table[:4], 'little')
    units = np.frombuffer(table[4 : 4 + size], '<u4').copy()
    texts = table[4 + size :]
    if harm == 'out':
        units[0] ^= 1 << 30  # Its children are far behind the end.
    elif harm == 'behind':
        leaves = (units >> 31).astype(bool)  # Values, not nodes.
        units[leaves] |= 0x7FFFFFFF
    elif harm == 'length':
        return b'\xff\xff\xff\xff' + table[4:]
    elif harm == 'end':
        texts = texts[:-1] + b'x'
    elif harm.isdecimal():  # Anything, from that byte on.
        start = int(harm)
        return table[:start] + random.Random(start).randbytes(4000) + table[start + 4000 :]
    return table[:4] + units.tobytes() + texts


@pytest.mark.parametrize(
    ('harm', 'message'),
    [
        ('out', 'leads out of itself'),
        ('behind', 'points behind the texts'),
        ('length', 'its trie has 4294967295 of'),
        ('end', 'its last text has no end'),
        *((start, '') for start in ('0', '4', '3000', '90000')),
    ],
)
def test_damaged_tables_of_characters(tmp_path, harm, message):
    """In a SentencePiece model, for each of its readers, and in a tokenizer.json."""
    table = _harmed_table(harm)
    folder = tmp_path / 'folder'
    tokenizer_files.write(folder, 't5')
    proto = sentencepiece_model_pb2.ModelProto.FromString((folder / 'spiece.model').read_bytes())
    json_file = tokenizers.load(str(folder), '').with_ends()
    whole = base64.b64encode(proto.normalizer_spec.precompiled_charsmap).decode()
    proto.normalizer_spec.precompiled_charsmap = table
    (folder / 'spiece.model').write_bytes(proto.SerializeToString())
    (tmp_path / 'tokenizer.json').write_text(
        json_file.replace(whole, base64.b64encode(table).decode())
    )
    tokenizers.loading._read.cache_clear()
    for spec in (folder, folder / 'spiece.model', tmp_path / 'tokenizer.json'):
        with edits.refused(f'the table of .* is damaged.*{message}'):
            tokenizers.load(str(spec), '')
    with pytest.raises(ValueError, match=message or '.'):
        charsmap.read(table)


def test_a_table_in_a_circle(tmp_path):
    """Its keys would have no end."""
    units = np.zeros(512, '<u4')
    units[0] = 256 << 10  # Its children begin at 256, ...
    units[256 ^ ord('a')] = ord('a') | (ord('a') << 10)  # ... and those of 'a' there again.
    table = (2048).to_bytes(4, 'little') + units.tobytes() + b'x\0'
    charsmap.check(table)
    with pytest.raises(ValueError, match='too many entries'):
        charsmap.read(table)


@pytest.mark.parametrize('family', ['mbart50', 't5', 'bert-cased'])
def test_a_further_token_is_what_transformers_adds(folder_of, tmp_path, family):
    """With the id behind all pieces; a copy in a workdir has it, and so has transformers' class."""
    folder = str(folder_of(family))
    plain = tokenizers.load(folder, '')
    spec = f'{folder}+[summarize]'
    ours = tokenizers.load(spec, '')
    theirs = reference.__wrapped__(folder)  # Changed below, so no shared one.
    theirs.add_tokens(['[summarize]'])
    assert ours.num_pieces == plain.num_pieces + 1 and ours.sha256 != plain.sha256
    new = theirs.convert_tokens_to_ids('[summarize]')
    assert new == plain.num_pieces
    for text in ('[summarize] Anna: Hallo', 'die Brücke', 'x[summarize]'):
        expected = theirs(text, add_special_tokens=False)['input_ids']
        assert ours.encode(text).tolist() == expected
    assert (ours.encode('[summarize] x') == new).sum() == 1
    assert '[summarize]' in ours.decode(ours.encode('[summarize] x'))
    tokenizers.copy_files(spec, '', tmp_path)
    about = {'config': {'data': {'vocabulary': spec, 'root': ''}}}
    copied = tokenizers.of_workdir(tmp_path, about | {'vocabulary': {'sha256': ours.sha256}})
    assert copied.sha256 == ours.sha256 and copied.num_pieces == ours.num_pieces
    assert reference(str(tmp_path / 'vocabulary')).convert_tokens_to_ids('[summarize]') == new
    assert tokenizers.load(f'{folder}+[summarize]+[other]', '').num_pieces == new + 2
    # As transformers writes a folder itself, with all tokens in tokenizer_config.json.
    saved = tmp_path / 'saved'
    reference(folder).save_pretrained(saved)
    again = tokenizers.load(f'{saved}+[summarize]', '')
    assert again.encode('[summarize] Anna').tolist() == ours.encode('[summarize] Anna').tolist()
    tokenizers.copy_files(f'{saved}+[summarize]', '', tmp_path / 'other')
    there = tokenizers.load(str(tmp_path / 'other' / 'vocabulary'), '')
    assert there.num_pieces == ours.num_pieces and there.sha256 == again.sha256


def test_what_no_token_can_be_added_to(folder_of):
    with edits.refused('no words can be added to vocabulary'):
        tokenizers.load(f'{folder_of("marian")}+[summarize]', '')
    with edits.refused("unknown vocabulary 'mt6'"):
        tokenizers.check_name('mt6+[summarize]')
    tokenizers.check_name('google/mt5-base+[summarize]')
