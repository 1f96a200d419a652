"""Folders of models with random weights and few words, in the forms of Hugging Face and Marian."""

import io
import pathlib
import tempfile

import flax.linen as nn
import jax
import numpy as np
import sentencepiece
import tokenizer_files

from xlbench import models
from xlbench.data import tokenizers
from xlbench.huggingface import checkpoint
from xlbench.models.families import ENCODERS

LINES = [f'das Haus Nummer {n} ist {w}' for n in range(40) for w in ('alt', 'neu', 'groß')]
# Of a model in Marian's own form.
MARIAN = dict(
    vocab_size=300, emb_dim=32, num_heads=4, head_dim=8, mlp_dim=48, num_encoder_layers=2,
    num_decoder_layers=1,
)  # fmt: skip


def write(
    folder: pathlib.Path, family: str, vocabulary: str, seed: int = 0, more_rows: int = 0, **fields
) -> str:
    """Writes a model in the form of Hugging Face, with its tokenizer; see tokenizer_files.write.

    Its table has `more_rows` more than pieces, as public ones do; `fields` are of the model."""
    named = {'bos_token': '<s>', 'cls_token': '<s>', 'eos_token': '</s>', 'sep_token': '</s>'}
    config = named if vocabulary in ('xlm-roberta', 'roberta') else {}
    with tempfile.TemporaryDirectory() as place:
        files = tokenizer_files.write(place, vocabulary, config=config)
        tokenizer = tokenizers.load(files, '')
        size = '' if family == 'bert' else 'sample'
        fields = {'vocab_size': tokenizer.num_pieces + more_rows, **fields}
        model = models.build(family, size, **fields)
        ids = {f'{name}_id': getattr(tokenizer, f'{name}_id') for name in ('pad', 'bos', 'eos')}
        if family not in ENCODERS:
            ids['decoder_start_id'] = tokenizer.decoder_start_id
        kept = [path for path in pathlib.Path(files).iterdir() if path.name != 'config.json']
        checkpoint.save(folder, family, model.config, _params(model, family, seed), ids, kept)
    return str(folder)


def write_marian(folder: pathlib.Path) -> dict[str, dict]:
    """Writes model.bin and vocab.spm, whose end is id 0 as in Mozilla's; returns the parameters."""
    model = models.build('marian_ssru', 'tiny', **MARIAN)
    params = _params(model, 'marian_ssru', seed=4)
    content = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(LINES), model_writer=content, vocab_size=300, eos_id=0, unk_id=1,
        bos_id=-1, pad_id=-1, hard_vocab_limit=False, byte_fallback=True, minloglevel=2,
    )  # fmt: skip
    checkpoint.save(folder, 'marian_ssru', model.config, params, {}, [])
    (folder / 'vocab.spm').write_bytes(content.getvalue())
    return params


def _params(model: nn.Module, family: str, seed: int) -> dict:
    sides = [np.ones((1, 4), np.int32)] * (1 if family in ENCODERS else 2)
    params = nn.unbox(jax.jit(model.init)(jax.random.key(seed), *sides))['params']
    return jax.tree.map(np.asarray, params)
