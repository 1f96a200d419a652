"""Folders of translators of many languages, with random weights, as they are downloaded."""

import flax.linen as nn
import jax
import numpy as np
import tokenizer_files

from xlbench import models
from xlbench.data import tokenizers
from xlbench.huggingface import checkpoint

SIZES = dict(
    emb_dim=16, num_heads=2, head_dim=8, mlp_dim=24, num_encoder_layers=1, num_decoder_layers=1,
    init_std=0.7,
)  # fmt: skip


def write(folder, vocabulary: str) -> str:
    """A model over a vocabulary of tokenizer_files; returns the folder."""
    family = 'mbart' if vocabulary == 'mbart50' else 'm2m_100'
    files = tokenizer_files.write(folder.with_name(f'{folder.name}_files'), vocabulary)
    tokenizer = tokenizers.load(files, '')
    model = models.build(family, 'sample', **SIZES, vocab_size=tokenizer.num_pieces)
    tokens = np.ones((1, 4), np.int32)
    params = nn.unbox(jax.jit(model.init)(jax.random.key(1), tokens, tokens))['params']
    ids = dict(
        pad_id=tokenizer.pad_id, eos_id=tokenizer.eos_id, bos_id=tokenizer.bos_id,
        decoder_start_id=tokenizer.decoder_start_id,
    )  # fmt: skip
    own = (path for path in folder.with_name(f'{folder.name}_files').iterdir())
    own = [path for path in own if path.name != 'config.json']
    checkpoint.save(folder, family, model.config, params, ids, own)
    return str(folder)
