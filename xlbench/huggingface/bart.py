"""BART, mBART, PEGASUS, M2M-100, NLLB-200 and Marian as transformers stores them.

One table of names serves the classes BartForConditionalGeneration, MBartForConditionalGeneration,
PegasusForConditionalGeneration, M2M100ForConditionalGeneration and MarianMTModel. A learned table
of positions passes through whole, with its two rows before position 0; sinusoidal ones are
computed, and stored copies are ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from xlbench.huggingface import mapping
from xlbench.huggingface.mapping import KINDS, Special
from xlbench.models.families import FAMILIES, Fields
from xlbench.system.files import Json

if TYPE_CHECKING:  # A config.json is read without jax.
    from xlbench.models.bart import BartConfig

KIND = KINDS['bart']


def from_config(config: Mapping[str, Json]) -> Fields:
    """The content of a config.json -> arguments of models.build.

    Which norms a model has and how it counts positions follows from its model_type alone, as in
    transformers; old files repeat that in keys which nothing reads.
    """
    config = KIND.filled(config)
    family = config['model_type']
    fixed = KIND.fixed
    if family == 'm2m_100':  # Its public files say how it was trained; no layer is dropped here.
        fixed = {key: value for key, value in KIND.fixed.items() if not key.endswith('layerdrop')}
    fields = KIND.read(config, fixed)
    mapping.expect(config, 'decoder_vocab_size', config['vocab_size'], ', as vocab_size is')
    return {
        'family': family,
        'activation': mapping.chosen(config, 'activation_function', mapping.ACTIVATIONS),
        **FAMILIES[family].fields,
        **fields,
    }


def to_config(family: str, config: BartConfig, ids: Special) -> dict[str, Json]:
    """The content of config.json for a model of ours; see mapping.py."""
    fixed = FAMILIES[family].fields | {'head_dim': config.emb_dim / config.num_heads}
    mapping.check_written(family, config, fixed)
    architecture = {
        'bart': 'BartForConditionalGeneration',
        'mbart': 'MBartForConditionalGeneration',
        'pegasus': 'PegasusForConditionalGeneration',
        'marian': 'MarianMTModel',
        'm2m_100': 'M2M100ForConditionalGeneration',
    }[family]
    return {
        'architectures': [architecture],
        'model_type': family,
        'is_encoder_decoder': True,
        **KIND.written(config),
        'activation_function': mapping.activation_key(config.activation),
        'tie_word_embeddings': True,
        **mapping.token_ids(ids, 'pad', 'bos', 'eos', 'decoder_start', 'forced_bos', 'forced_eos'),
    }
