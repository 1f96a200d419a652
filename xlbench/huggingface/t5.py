"""T5, T5 1.1, mT5 and umT5 as transformers stores them: T5ForConditionalGeneration and its kin."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from xlbench.huggingface.mapping import KINDS, Special, chosen, token_ids
from xlbench.system.files import Json

if TYPE_CHECKING:  # A config.json is read without jax.
    from xlbench.models.families import Fields
    from xlbench.models.t5 import T5Config

KIND = KINDS['t5']
# feed_forward_proj -> gated_mlp. transformers computes 'gated-gelu' with the tanh approximation.
_MLPS = {'relu': False, 'gated-gelu': True}


def from_config(config: Mapping[str, Json]) -> Fields:
    """The content of a config.json -> arguments of models.build; see mapping.py."""
    config = KIND.filled(config)
    config = {'num_decoder_layers': config.get('num_layers')} | config
    if config['model_type'] in ('mt5', 'umt5'):  # Whatever the file says: transformers 5 says True.
        family, tied = config['model_type'], False
    else:
        # transformers 5 says in a key of its own what 'tied' has always meant for T5: the output
        # table is the input table, scaled.
        tied = bool(config.get('scale_decoder_outputs', config.get('tie_word_embeddings', True)))
        family = 't5' if tied else 't5_1_1'
    return {
        'family': family,
        'gated_mlp': chosen(config, 'feed_forward_proj', _MLPS),
        'tied_embeddings': tied,
        'relpos_each_layer': family == 'umt5',
        **KIND.read(config),
    }


def to_config(family: str, config: T5Config, ids: Special) -> dict[str, Json]:
    """The content of config.json for a model of ours; see mapping.py."""
    model_type = family if family in ('mt5', 'umt5') else 't5'
    mlp = next(name for name, gated in _MLPS.items() if gated == config.gated_mlp)
    return {
        'architectures': [f'{model_type.upper()}ForConditionalGeneration'],
        'model_type': model_type,
        'is_encoder_decoder': True,
        **KIND.written(config),
        'feed_forward_proj': mlp,
        'layer_norm_epsilon': 1e-6,
        'tie_word_embeddings': config.tied_embeddings,
        **token_ids(ids, 'pad', 'eos'),
        # Old files leave it out: decoding starts with padding.
        'decoder_start_token_id': ids['decoder_start_id'] or ids['pad_id'],
    }
