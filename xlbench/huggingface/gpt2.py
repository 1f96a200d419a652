"""GPT-2 and DialoGPT as transformers stores them, in the class GPT2LMHeadModel."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from xlbench.huggingface import mapping
from xlbench.huggingface.mapping import KINDS, Special
from xlbench.system.files import Json

if TYPE_CHECKING:  # A config.json is read without jax.
    from xlbench.models.families import Fields
    from xlbench.models.gpt2 import Gpt2Config

KIND = KINDS['gpt2']


def from_config(config: Mapping[str, Json]) -> Fields:
    """The content of a config.json -> arguments of models.build; see mapping.py."""
    config = KIND.filled(config)
    fields = KIND.read(config)
    activation = mapping.chosen(config, 'activation_function', mapping.ACTIVATIONS)
    inner = config.get('n_inner', 4 * fields['emb_dim'])
    return {'family': 'gpt2', 'activation': activation, 'mlp_dim': inner, **fields}


def to_config(family: str, config: Gpt2Config, ids: Special) -> dict[str, Json]:
    """The content of config.json for a model of ours; see mapping.py."""
    mapping.check_written(family, config, {'head_dim': config.emb_dim / config.num_heads})
    end = ids.get('eos_id')
    return {
        'architectures': ['GPT2LMHeadModel'],
        'model_type': family,
        **KIND.written(config),
        'n_inner': config.mlp_dim,
        'activation_function': mapping.activation_key(config.activation),
        'tie_word_embeddings': True,
        'pad_token_id': ids.get('pad_id'),
        'bos_token_id': end if ids.get('bos_id') is None else ids['bos_id'],
        'eos_token_id': end,
    }
