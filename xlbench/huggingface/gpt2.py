"""GPT-2 and DialoGPT as transformers stores them, in the class GPT2LMHeadModel.

Its linear layers (Conv1D) hold kernels as [in, out], ours as [out, in]. Query, key and value are
one of them, side by side in `out`; ours are stacked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from xlbench.huggingface import config_keys
from xlbench.huggingface.mapping import Entry, Special, norm
from xlbench.system.errors import UserError
from xlbench.system.files import Json

if TYPE_CHECKING:  # A config.json is read without jax.
    from xlbench.models.families import Fields
    from xlbench.models.gpt2 import Gpt2Config

IGNORED = (
    r'transformer\.h\.\d+\.attn\.(masked_)?bias',  # The causal mask, which old versions stored.
)


def rename(name: str) -> str:
    """The name of a stored tensor as the table below spells it.

    Saved without the head of logits, as openai-community/gpt2 is, names lack their first word:
    'h.0.ln_1.weight' -> 'transformer.h.0.ln_1.weight'.
    """
    return f'transformer.{name}' if name.startswith(('wte.', 'wpe.', 'h.', 'ln_f.')) else name


def names(family: str, config: Gpt2Config) -> dict[str, Entry]:
    """Our parameter -> its tensors; see mapping.py."""
    del family
    table = {
        'decoder/token_embedder/embedding': Entry(
            ('transformer.wte.weight',), tied=('lm_head.weight',)
        ),
        'decoder/position_embedder/embedding': Entry(('transformer.wpe.weight',)),
        **norm('decoder/final_norm', 'transformer.ln_f'),
    }
    for i in range(config.num_layers):
        ours, theirs = f'decoder/layers_{i}', f'transformer.h.{i}'
        table |= norm(f'{ours}/attention_norm', f'{theirs}.ln_1')
        table |= norm(f'{ours}/mlp_norm', f'{theirs}.ln_2')
        for layer, tensor, form in (
            ('attention/qkv', 'attn.c_attn', 'joined'),
            ('attention/out', 'attn.c_proj', 'transposed'),
            ('mlp/wi', 'mlp.c_fc', 'transposed'),
            ('mlp/wo', 'mlp.c_proj', 'transposed'),
        ):
            for ours_leaf, leaf in (('kernel', 'weight'), ('bias', 'bias')):
                entry = Entry((f'{theirs}.{tensor}.{leaf}',), form)
                table[f'{ours}/{layer}/{ours_leaf}'] = entry
    return table


# Our field -> the keys of config.json with the same meaning; where they are two, they must agree.
_KEYS = {
    'vocab_size': 'vocab_size',
    'emb_dim': 'n_embd',
    'num_heads': 'n_head',
    'num_layers': 'n_layer',
    'max_positions': 'n_positions',
    'norm_epsilon': 'layer_norm_epsilon',
    'init_std': 'initializer_range',
    'dropout_rate': 'resid_pdrop embd_pdrop',
    'attention_dropout_rate': 'attn_pdrop',
}
# What files may leave out (transformers' defaults).
_DEFAULTS = {
    'n_positions': 1024,
    'layer_norm_epsilon': 1e-5,
    'initializer_range': 0.02,
    'resid_pdrop': 0.1,
    'embd_pdrop': 0.1,
    'attn_pdrop': 0.1,
    'activation_function': 'gelu_new',
}
# Keys with the only value that there is a model for.
_FIXED = {
    'scale_attn_weights': True,
    'scale_attn_by_inverse_layer_idx': False,
    'add_cross_attention': False,
    'tie_word_embeddings': True,
}


def from_config(config: Mapping[str, Json]) -> Fields:
    """The content of a config.json -> arguments of models.build; see mapping.py."""
    config = _DEFAULTS | {key: value for key, value in config.items() if value is not None}
    fields = config_keys.fields_of(config, _KEYS, _FIXED, 'a GPT-2')
    inner = config.get('n_inner', 4 * fields['emb_dim'])
    return {'family': 'gpt2', 'mlp_dim': inner, **fields}


def to_config(family: str, config: Gpt2Config, ids: Special) -> dict[str, Json]:
    """The content of config.json for a model of ours; see mapping.py."""
    if config.head_dim * config.num_heads != config.emb_dim:
        raise UserError(
            f'a {family} model with head_dim={config.head_dim} cannot be written for transformers, '
            f'where it is {config.emb_dim / config.num_heads:g}'
        )
    end = ids.get('eos_id')
    return {
        'architectures': ['GPT2LMHeadModel'],
        'model_type': family,
        **config_keys.written(config, _KEYS),
        'n_inner': config.mlp_dim,
        'activation_function': config_keys.activation_key(config.activation),
        'tie_word_embeddings': True,
        'pad_token_id': ids.get('pad_id'),
        'bos_token_id': end if ids.get('bos_id') is None else ids['bos_id'],
        'eos_token_id': end,
    }
