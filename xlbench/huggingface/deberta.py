"""DeBERTa v2 and v3 as transformers stores them (DebertaV2Model): those that mDeBERTa v3 is one of.

Its head over a text has a layer and a GELU in the place of the pooler's tanh (transformers,
models/deberta_v2/modeling_deberta_v2.py: ContextPooler).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from xlbench.huggingface import config_keys
from xlbench.huggingface.mapping import Entry, Special, dense, norm
from xlbench.system.errors import UserError
from xlbench.system.files import Json

if TYPE_CHECKING:  # A config.json is read without jax.
    from xlbench.models.bert import BertConfig
    from xlbench.models.families import Fields

# Heads that an encoder does not have, and a table of v2 that nothing reads.
IGNORED = (
    r'(cls|lm_predictions|mask_predictions|lm_head|qa_outputs|pooler|classifier)\..*',
    r'embeddings\.(position_ids|position_embeddings\.weight)',
)

_KEYS = {
    'vocab_size': 'vocab_size',
    'emb_dim': 'hidden_size',
    'mlp_dim': 'intermediate_size',
    'num_heads': 'num_attention_heads',
    'num_layers': 'num_hidden_layers',
    'max_positions': 'max_position_embeddings',
    'norm_epsilon': 'layer_norm_eps',
    'dropout_rate': 'hidden_dropout_prob',
    'attention_dropout_rate': 'attention_probs_dropout_prob',
    'relpos_buckets': 'position_buckets',
}
# What files may leave out (transformers' defaults).
_DEFAULTS = {
    'max_position_embeddings': 512,
    'layer_norm_eps': 1e-7,
    'hidden_dropout_prob': 0.1,
    'attention_probs_dropout_prob': 0.1,
}
# Keys with the only value that there is a model for; v3 has all of them.
_FIXED = {
    'hidden_act': 'gelu',
    'relative_attention': True,
    'position_biased_input': False,
    'share_att_key': True,
    'norm_rel_ebd': 'layer_norm',
    'type_vocab_size': 0,
    'pooler_hidden_act': 'gelu',
    'conv_kernel_size': 0,
}


def rename(name: str) -> str:
    """The name of a stored tensor without that of the model below a head."""
    return name.removeprefix('deberta.')


def names(family: str, config: BertConfig) -> dict[str, Entry]:
    """Our parameter -> its tensors; see mapping.py."""
    _check_form(family, config)
    ours, theirs = ('', '') if family == 'bert' else ('encoder/', 'deberta.')
    table = norm(f'{ours}embeddings_norm', f'{theirs}embeddings.LayerNorm')
    table |= norm(f'{ours}distance_norm', f'{theirs}encoder.LayerNorm')
    for our, their in (
        ('token_embedder', 'embeddings.word_embeddings'),
        ('distance_embedder', 'encoder.rel_embeddings'),
    ):
        table[f'{ours}{our}/embedding'] = Entry((f'{theirs}{their}.weight',))
    for i in range(config.num_layers):
        our, their = f'{ours}layers_{i}', f'{theirs}encoder.layer.{i}'
        parts = (f'{their}.attention.self.{part}_proj' for part in ('query', 'key', 'value'))
        table |= dense(f'{our}/attention/qkv', *parts)
        table |= dense(f'{our}/attention/out', f'{their}.attention.output.dense')
        table |= norm(f'{our}/attention_norm', f'{their}.attention.output.LayerNorm')
        table |= dense(f'{our}/mlp/wi', f'{their}.intermediate.dense')
        table |= dense(f'{our}/mlp/wo', f'{their}.output.dense')
        table |= norm(f'{our}/mlp_norm', f'{their}.output.LayerNorm')
    if family == 'sequence_classifier':
        table |= dense('dense', 'pooler.dense')
    return table if family == 'bert' else table | dense('classifier', 'classifier')


def from_config(config: Mapping[str, Json]) -> Fields:
    """The content of a config.json -> arguments of models.build; see mapping.py."""
    config = _DEFAULTS | {key: value for key, value in config.items() if value is not None}
    for key, value in _FIXED.items():  # What a file leaves out is not what v3 has.
        if key not in config and value not in (0, 'gelu'):
            raise UserError(f'config.json lacks {key!r}; supported: {value}, as in DeBERTa v3')
    fields = config_keys.sizes_of(config, _KEYS, _FIXED, 'a DeBERTa v3')
    kinds = config.get('pos_att_type') or ()
    kinds = kinds.split('|') if isinstance(kinds, str) else kinds
    if sorted(kinds) != ['c2p', 'p2c']:
        raise UserError('config.json: pos_att_type is not c2p and p2c, as in DeBERTa v3')
    longest = config.get('max_relative_positions', -1)
    fields |= config_keys.head_fields(config, 'DebertaV2', 'cls_dropout', fields['dropout_rate'])
    return {
        **fields,
        'variant': 'deberta-v2',
        'type_vocab_size': 0,
        'has_pooler': False,
        'relpos_max_distance': longest if longest > 0 else fields['max_positions'],
    }


def to_config(family: str, config: BertConfig, ids: Special) -> dict[str, Json]:
    """The content of config.json for a model of ours; see mapping.py."""
    _check_form(family, config)
    longest = config.relpos_max_distance
    return {
        'architectures': ['DebertaV2' + config_keys.CLASSES[family]],
        'model_type': 'deberta-v2',
        **config_keys.written(config, _KEYS),
        **{key: value for key, value in _FIXED.items() if key != 'conv_kernel_size'},
        'pos_att_type': ['p2c', 'c2p'],
        'max_relative_positions': -1 if longest == config.max_positions else longest,
        **config_keys.head_keys(family, config, ids, 'cls_dropout'),
        'pad_token_id': ids['pad_id'],
    }


def _check_form(family: str, config: BertConfig) -> None:
    if family not in config_keys.CLASSES or config.has_pooler:
        raise UserError(
            f'transformers has no {family} of this form of DeBERTa: encoders without a pooler, and '
            'heads over them, are written; xlbench.predict reads the workdir'
        )
