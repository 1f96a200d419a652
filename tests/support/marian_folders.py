"""Folders of translators in Marian's own form, with random weights and a few words."""

import io
import pathlib

import flax.linen as nn
import jax
import numpy as np
import sentencepiece

from xlbench import models
from xlbench.huggingface import checkpoint

SIZES = dict(
    vocab_size=300, emb_dim=32, num_heads=4, head_dim=8, mlp_dim=48, num_encoder_layers=2,
    num_decoder_layers=1,
)  # fmt: skip
LINES = [f'das Haus Nummer {n} ist {w}' for n in range(40) for w in ('alt', 'neu', 'groß')]


def write(folder: pathlib.Path) -> dict[str, dict]:
    """Writes model.bin and vocab.spm, whose end is id 0 as in Mozilla's; returns the parameters."""
    model = models.build('marian_ssru', 'tiny', **SIZES)
    tokens = np.ones((1, 4), np.int32)
    params = nn.unbox(jax.jit(model.init)(jax.random.key(4), tokens, tokens))['params']
    content = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(LINES), model_writer=content, vocab_size=300, eos_id=0, unk_id=1,
        bos_id=-1, pad_id=-1, hard_vocab_limit=False, byte_fallback=True, minloglevel=2,
    )  # fmt: skip
    checkpoint.save(folder, 'marian_ssru', model.config, params, {}, [])
    (folder / 'vocab.spm').write_bytes(content.getvalue())
    return params
