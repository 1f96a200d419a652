"""xlbench.convert --tokens_of: a checkpoint with the tokens of some data."""

import json
import pathlib

import edits
import encoder_folders
import jax
import mtg_files
import numpy as np
import pytest
from flax import traverse_util

from xlbench import convert, models
from xlbench.data import tokenizers
from xlbench.huggingface import checkpoint, hub
from xlbench.inference import trimming
from xlbench.system import errors

TEXTS = ['Der Zug ist da.', 'the old bridge', 'ß € 桥 ☃']


def with_json(folder: str) -> str:
    """The same with a tokenizer.json alone, as transformers writes it."""
    tokenizer = tokenizers.load(folder, '')._tokenizer
    tokenizer.save(f'{folder}/tokenizer.json')
    for name in hub.TOKENIZER_FILES:
        if name not in (hub.TOKENIZER_JSON, 'tokenizer_config.json'):
            pathlib.Path(folder, name).unlink(missing_ok=True)
    return folder


def ids_of_words(folder: str, texts) -> np.ndarray:
    tokenizer = tokenizers.load(folder, '')
    return np.unique(np.concatenate([tokenizer.encode_inputs([text])[0] for text in texts]))


def trimmed(folder: str, place: pathlib.Path, texts) -> tuple[str, dict[int, int]]:
    """The folder with the pieces of these texts, and the ids that stay -> their new ones."""
    opened = checkpoint.open(folder)
    content = trimming._tokenizer_json(opened.folder)
    pieces = trimming._pieces(content)
    kept = trimming._kept(pieces, ids_of_words(folder, texts), content)
    files = place / 'files'
    files.mkdir()
    trimming._write_tokenizer(opened.folder, files, content, kept)
    trimming._write(opened, files, place / 'small', kept)
    return str(place / 'small'), kept


@pytest.mark.parametrize('vocabulary', ['xlm-roberta', 'bert-cased'])
def test_ids_and_states_of_kept_texts_are_the_same(vocabulary, tmp_path):
    folder = with_json(encoder_folders.write(tmp_path / 'whole', vocabulary))
    encoder_folders.make_sentences(folder)
    small, kept = trimmed(folder, tmp_path, TEXTS[:2])
    whole = checkpoint.open(folder)
    assert len(kept) < whole.model['vocab_size'] - 50
    tokenizer, ours = (tokenizers.load(path, '') for path in (folder, small))
    assert (tokenizer.pad_id, tokenizer.eos_id, tokenizer.unk_id) == tuple(
        {new: old for old, new in kept.items()}[n] for n in (ours.pad_id, ours.eos_id, ours.unk_id)
    )
    for text in TEXTS[:2]:
        before, after = (t.encode_inputs([text])[0] for t in (tokenizer, ours))
        assert [kept[number] for number in before.tolist()] == after.tolist()
        np.testing.assert_array_equal(states(whole, before), states(checkpoint.open(small), after))
    # A text of other pieces has as many unknown ones as before.
    unknown = [
        int((t.encode_inputs(TEXTS[2:])[0] == t.unk_id).sum()) for t in (tokenizer, ours)
    ]
    assert unknown[0] == unknown[1]
    config = json.loads(pathlib.Path(small, 'config.json').read_text())
    assert config['vocab_size'] == len(kept) and config['pad_token_id'] == ours.pad_id
    prompts = json.loads(pathlib.Path(small, 'config_sentence_transformers.json').read_text())
    assert prompts['prompts'] == encoder_folders.PROMPTS


def states(opened: checkpoint.Checkpoint, ids: np.ndarray) -> np.ndarray:
    model = models.build(**opened.model)
    flat = {path: opened.read_param(path) for path in opened.shapes}
    params = traverse_util.unflatten_dict(flat, sep='/')
    return np.asarray(jax.jit(model.apply)({'params': params}, ids[None]))


def test_a_tokenizer_whose_pieces_need_others(tmp_path):
    folder = with_json(encoder_folders.write(tmp_path / 'whole', 'roberta'))
    with pytest.raises(errors.UserError, match='has a BPE model; xlbench trims Unigram and'):
        trimming.trim(folder, tmp_path / 'small', ['xquad_multi_qg'], str(tmp_path))
    (tmp_path / 'whole' / 'tokenizer.json').unlink()
    with pytest.raises(errors.UserError, match=r'has no tokenizer\.json, which is trimmed'):
        trimming.trim(folder, tmp_path / 'small', ['xquad_multi_qg'], str(tmp_path))


def test_ids_that_no_piece_has(tmp_path):
    folder = with_json(encoder_folders.write(tmp_path / 'whole'))
    with edits.edited(tmp_path / 'whole' / 'tokenizer.json') as content:
        content['padding'] = {
            'strategy': 'BatchLongest', 'direction': 'Right', 'pad_to_multiple_of': None,
            'pad_id': 99999, 'pad_type_id': 0, 'pad_token': '<pad>',
        }  # fmt: skip
    with pytest.raises(errors.UserError, match='names the id 99999, which no piece of it has'):
        trimmed(folder, tmp_path, TEXTS)


def test_flags_that_do_not_go_together(tmp_path):
    folder = with_json(encoder_folders.write(tmp_path / 'whole'))
    for flag, message in (
        ('--extra_tokens=[x]', '--extra_tokens is for a new workdir, and --tokens_of writes'),
        ('--step=3', '--step has no meaning for'),
    ):
        with pytest.raises(errors.UserError, match=message):
            convert.main(['convert', folder, str(tmp_path / 'to'), '--tokens_of=x', flag])
    assert not (tmp_path / 'to').exists()


def test_the_tokens_of_a_task(tmp_path):
    folder = with_json(encoder_folders.write(tmp_path / 'whole'))
    mtg_files.write_xquad(tmp_path, ('de',))
    said = trimming.trim(folder, tmp_path / 'small', ['xquad_qg_de_de'], str(tmp_path))
    rows = checkpoint.open(str(tmp_path / 'small')).model['vocab_size']
    before = checkpoint.open(folder).model['vocab_size']
    assert said[0].startswith(f'{rows:,} of {before:,} rows stay: ') and rows < before
    assert 'occur in xquad_qg_de_de' in said[0]
    tokenizer, ours = (tokenizers.load(path, '') for path in (folder, str(tmp_path / 'small')))
    text = mtg_files.sentence('de', 3, 9)
    assert ours.decode_batch(ours.encode_batch([text])) == tokenizer.decode_batch(
        tokenizer.encode_batch([text])
    )
    assert len(ours.encode(text)) == len(tokenizer.encode(text))
