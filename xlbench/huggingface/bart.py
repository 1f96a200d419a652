"""BART, mBART, PEGASUS, M2M-100, NLLB-200 and Marian as transformers stores them.

One table of names serves the classes BartForConditionalGeneration, MBartForConditionalGeneration,
PegasusForConditionalGeneration, M2M100ForConditionalGeneration and MarianMTModel. A learned table
of positions passes through whole, with its two rows before position 0; sinusoidal ones are
computed, and stored copies are ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from xlbench.huggingface import config_keys
from xlbench.huggingface.mapping import Entry, Special, dense, norm
from xlbench.models.families import FAMILIES
from xlbench.system.errors import UserError
from xlbench.system.files import Json

if TYPE_CHECKING:  # A config.json is read without jax.
    from xlbench.models.bart import BartConfig
    from xlbench.models.families import Fields

IGNORED = (
    r'model\.(encoder|decoder)\.version',  # A mark that fairseq left.
    r'model\.(encoder|decoder)\.embed_positions\.weight',  # Sinusoidal ones.
)


# The table of tokens as the head of the logits; fairseq calls it the second.
_HEADS = ('lm_head.weight', 'model.decoder.output_projection.weight')


def rename(name: str) -> str:
    """The name of a stored tensor as the table below spells it.

    Saved without the head of logits, as facebook/bart-large is, names lack their first word:
    'encoder.layers.0.fc1.weight' -> 'model.encoder.layers.0.fc1.weight'.
    """
    return f'model.{name}' if name.startswith(('shared.', 'encoder.', 'decoder.')) else name


def names(family: str, config: BartConfig) -> dict[str, Entry]:
    """Our parameter -> its tensors; see mapping.py."""
    del family
    tied = ('model.encoder.embed_tokens.weight', 'model.decoder.embed_tokens.weight')
    table = {
        'token_embedder/embedding': Entry(('model.shared.weight',), tied=(*tied, *_HEADS)),
    }
    if config.logits_bias:  # Not stored without the head of logits.
        entry = Entry(('final_logits_bias',), form='row', default=0.0)
        table['final_logits_bias'] = entry
    depths = {'encoder': config.num_encoder_layers, 'decoder': config.num_decoder_layers}
    for stack, depth in depths.items():
        if config.learned_positions:
            table[f'{stack}/position_embedder/embedding'] = Entry(
                (f'model.{stack}.embed_positions.weight',)
            )
        if config.embedding_norm:
            table |= norm(f'{stack}/embeddings_norm', f'model.{stack}.layernorm_embedding')
        if config.pre_norm:
            table |= norm(f'{stack}/final_norm', f'model.{stack}.layer_norm')
        for i in range(depth):
            ours, theirs = f'{stack}/layers_{i}', f'model.{stack}.layers.{i}'
            attention = f'{ours}/attention' if stack == 'encoder' else f'{ours}/self_attention'
            table |= dense(f'{attention}/qkv', *(f'{theirs}.self_attn.{x}_proj' for x in 'qkv'))
            table |= dense(f'{attention}/out', f'{theirs}.self_attn.out_proj')
            table |= norm(f'{attention}_norm', f'{theirs}.self_attn_layer_norm')
            if stack == 'decoder':
                cross, their_cross = f'{ours}/encoder_decoder_attention', f'{theirs}.encoder_attn'
                table |= dense(f'{cross}/query', f'{their_cross}.q_proj')
                table |= dense(f'{cross}/kv', *(f'{their_cross}.{x}_proj' for x in 'kv'))
                table |= dense(f'{cross}/out', f'{their_cross}.out_proj')
                table |= norm(f'{cross}_norm', f'{their_cross}_layer_norm')
            table |= dense(f'{ours}/mlp/wi', f'{theirs}.fc1')
            table |= dense(f'{ours}/mlp/wo', f'{theirs}.fc2')
            table |= norm(f'{ours}/mlp_norm', f'{theirs}.final_layer_norm')
    return table


# Our field -> the keys of config.json with the same meaning; where they are two, they must agree.
_KEYS = {
    'vocab_size': 'vocab_size',
    'emb_dim': 'd_model',
    'num_heads': 'encoder_attention_heads decoder_attention_heads',
    'mlp_dim': 'encoder_ffn_dim decoder_ffn_dim',
    'num_encoder_layers': 'encoder_layers',
    'num_decoder_layers': 'decoder_layers',
    'max_positions': 'max_position_embeddings',
    'scaled_embeddings': 'scale_embedding',
    'init_std': 'init_std',
    'dropout_rate': 'dropout',
    'attention_dropout_rate': 'attention_dropout',
    'activation_dropout_rate': 'activation_dropout',
}
# What old files leave out (transformers' defaults).
_DEFAULTS = {
    'activation_function': 'gelu',
    'max_position_embeddings': 1024,
    'scale_embedding': False,
    'init_std': 0.02,
    'dropout': 0.1,
    'attention_dropout': 0.0,
    'activation_dropout': 0.0,
}
# Keys with the only value that there is a model for.
_FIXED = {
    'tie_word_embeddings': True,
    'share_encoder_decoder_embeddings': True,
    'encoder_layerdrop': 0.0,
    'decoder_layerdrop': 0.0,
}


def from_config(config: Mapping[str, Json]) -> Fields:
    """The content of a config.json -> arguments of models.build.

    Which norms a model has and how it counts positions follows from its model_type alone, as in
    transformers; old files repeat that in keys which nothing reads.
    """
    config = _DEFAULTS | {key: value for key, value in config.items() if value is not None}
    family = config['model_type']
    kind = f'a {family} model'
    fixed = _FIXED
    if family == 'm2m_100':  # Its public files say how it was trained; no layer is dropped here.
        fixed = {key: value for key, value in _FIXED.items() if not key.endswith('layerdrop')}
    fields = config_keys.fields_of(config, _KEYS, fixed, kind)
    config_keys.expect(config, 'decoder_vocab_size', config['vocab_size'], ', as vocab_size is')
    return {'family': family, **FAMILIES[family].fields, **fields}


def to_config(family: str, config: BartConfig, ids: Special) -> dict[str, Json]:
    """The content of config.json for a model of ours; see mapping.py."""
    fixed = FAMILIES[family].fields | {'head_dim': config.emb_dim // config.num_heads}
    for field, value in fixed.items():
        if getattr(config, field) != value:
            raise UserError(
                f'a {family} model with {field}={getattr(config, field)} cannot be written for '
                f'transformers, where it is {value}'
            )
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
        **config_keys.written(config, _KEYS),
        'activation_function': config_keys.activation_key(config.activation),
        'tie_word_embeddings': True,
        'pad_token_id': ids['pad_id'],
        'bos_token_id': ids.get('bos_id'),
        'eos_token_id': ids['eos_id'],
        'decoder_start_token_id': ids['decoder_start_id'],
        'forced_bos_token_id': ids.get('forced_bos_id'),
        'forced_eos_token_id': ids.get('forced_eos_id'),
    }
