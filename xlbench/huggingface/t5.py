"""T5, T5 1.1, mT5 and umT5 as transformers stores them: T5ForConditionalGeneration and its kin."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from xlbench.huggingface import config_keys
from xlbench.huggingface.mapping import Entry, Special
from xlbench.system.errors import UserError, shortened
from xlbench.system.files import Json

if TYPE_CHECKING:  # A config.json is read without jax.
    from xlbench.models.families import Fields
    from xlbench.models.t5 import T5Config


# Old public checkpoints hold a relative bias of cross-attention, which no T5 uses.
IGNORED = (r'decoder\.block\.0\.layer\.1\.EncDecAttention\.relative_attention_bias\.weight',)


def names(family: str, config: T5Config) -> dict[str, Entry]:
    """Our parameter -> its tensors. Relative biases are transposed."""
    del family
    tied = ('encoder.embed_tokens.weight', 'decoder.embed_tokens.weight')
    if config.tied_embeddings:
        tied = (*tied, 'lm_head.weight')
    table = {'token_embedder/embedding': Entry(('shared.weight',), tied=tied)}
    if not config.tied_embeddings:
        table['logits_dense/kernel'] = Entry(('lm_head.weight',))
    attentions = {
        'encoder': {'attention': 'SelfAttention'},
        'decoder': {
            'self_attention': 'SelfAttention',
            'encoder_decoder_attention': 'EncDecAttention',
        },
    }
    depths = {'encoder': config.num_encoder_layers, 'decoder': config.num_decoder_layers}
    for stack, depth in depths.items():
        table[f'{stack}/{stack}_norm/scale'] = Entry((f'{stack}.final_layer_norm.weight',))
        for i in range(depth):
            ours, theirs = f'{stack}/layers_{i}', f'{stack}.block.{i}.layer'
            if i == 0 or config.relpos_each_layer:
                bias = f'{theirs}.0.SelfAttention.relative_attention_bias.weight'
                place = ours if config.relpos_each_layer else stack
                table[f'{place}/relpos_bias/rel_embedding'] = Entry((bias,), form='transposed')
            for j, (name, their_name) in enumerate(attentions[stack].items()):
                norm = name.replace('encoder_decoder', 'cross')
                q, k, v, o = (f'{theirs}.{j}.{their_name}.{x}.weight' for x in 'qkvo')
                table[f'{ours}/pre_{norm}_layer_norm/scale'] = Entry(
                    (f'{theirs}.{j}.layer_norm.weight',)
                )
                if name == 'encoder_decoder_attention':
                    table[f'{ours}/{name}/query/kernel'] = Entry((q,))
                    table[f'{ours}/{name}/kv/kernel'] = Entry((k, v))
                else:
                    table[f'{ours}/{name}/qkv/kernel'] = Entry((q, k, v))
                table[f'{ours}/{name}/out/kernel'] = Entry((o,))
            mlp = f'{theirs}.{len(attentions[stack])}'
            wi = ('wi_0', 'wi_1') if config.gated_mlp else ('wi',)
            wi = tuple(f'{mlp}.DenseReluDense.{x}.weight' for x in wi)
            table[f'{ours}/pre_mlp_layer_norm/scale'] = Entry((f'{mlp}.layer_norm.weight',))
            table[f'{ours}/mlp/wi/kernel'] = Entry(wi)
            table[f'{ours}/mlp/wo/kernel'] = Entry((f'{mlp}.DenseReluDense.wo.weight',))
    return table


# feed_forward_proj -> gated_mlp. transformers computes 'gated-gelu' with the tanh approximation.
_MLPS = {'relu': False, 'gated-gelu': True}
# Our field -> the key of config.json with the same meaning.
_KEYS = {
    'vocab_size': 'vocab_size',
    'emb_dim': 'd_model',
    'num_heads': 'num_heads',
    'head_dim': 'd_kv',
    'mlp_dim': 'd_ff',
    'num_encoder_layers': 'num_layers',
    'num_decoder_layers': 'num_decoder_layers',
    'relpos_buckets': 'relative_attention_num_buckets',
    'relpos_max_distance': 'relative_attention_max_distance',
    'dropout_rate': 'dropout_rate',
}
# What old files leave out (transformers' defaults).
_DEFAULTS = {
    'relative_attention_num_buckets': 32,
    'relative_attention_max_distance': 128,
    'dropout_rate': 0.1,
    'feed_forward_proj': 'relu',
    'layer_norm_epsilon': 1e-6,
}


def from_config(config: Mapping[str, Json]) -> Fields:
    """The content of a config.json -> arguments of models.build; see mapping.py."""
    config = _DEFAULTS | {key: value for key, value in config.items() if value is not None}
    config = {'num_decoder_layers': config.get('num_layers')} | config
    sizes = config_keys.read(config, _KEYS, 'a T5')
    if config['feed_forward_proj'] not in _MLPS:
        given = shortened(config['feed_forward_proj'])
        raise UserError(f'config.json: feed_forward_proj is {given}; supported: {", ".join(_MLPS)}')
    config_keys.expect(config, 'layer_norm_epsilon', 1e-6)
    if config['model_type'] in ('mt5', 'umt5'):  # Whatever the file says: transformers 5 says True.
        family, tied = config['model_type'], False
    else:
        # transformers 5 says in a key of its own what 'tied' has always meant for T5: the output
        # table is the input table, scaled.
        tied = config.get('scale_decoder_outputs', config.get('tie_word_embeddings', True))
        family = 't5' if tied else 't5_1_1'
    return {
        'family': family,
        'gated_mlp': _MLPS[config['feed_forward_proj']],
        'tied_embeddings': bool(tied),
        'relpos_each_layer': family == 'umt5',
        **sizes,
    }


def to_config(family: str, config: T5Config, ids: Special) -> dict[str, Json]:
    """The content of config.json for a model of ours; see mapping.py."""
    model_type = family if family in ('mt5', 'umt5') else 't5'
    mlp = next(name for name, gated in _MLPS.items() if gated == config.gated_mlp)
    return {
        'architectures': [f'{model_type.upper()}ForConditionalGeneration'],
        'model_type': model_type,
        'is_encoder_decoder': True,
        **config_keys.written(config, _KEYS),
        'feed_forward_proj': mlp,
        'layer_norm_epsilon': 1e-6,
        'tie_word_embeddings': config.tied_embeddings,
        'pad_token_id': ids['pad_id'],
        'eos_token_id': ids['eos_id'],
        # Old files leave it out: decoding starts with padding.
        'decoder_start_token_id': ids['decoder_start_id'] or ids['pad_id'],
    }
