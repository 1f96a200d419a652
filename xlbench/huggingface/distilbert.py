"""DistilBERT (arXiv:1910.01108) as transformers stores it: a BERT without types and pooler.

Its head over a text has a layer and a ReLU of its own in the place of the pooler's tanh
(transformers, models/distilbert/modeling_distilbert.py: DistilBertForSequenceClassification).
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

# Heads that an encoder does not have.
IGNORED = (r'(vocab_transform|vocab_layer_norm|vocab_projector|qa_outputs)\..*',)
IGNORED += (r'(pre_classifier|classifier)\..*',)

# Our field -> the key of config.json with the same meaning.
_KEYS = {
    'vocab_size': 'vocab_size',
    'emb_dim': 'dim',
    'mlp_dim': 'hidden_dim',
    'num_heads': 'n_heads',
    'num_layers': 'n_layers',
    'max_positions': 'max_position_embeddings',
    'dropout_rate': 'dropout',
    'attention_dropout_rate': 'attention_dropout',
}
# What files may leave out (transformers' defaults).
_DEFAULTS = {
    'max_position_embeddings': 512,
    'dropout': 0.1,
    'attention_dropout': 0.1,
}
_FIXED = {'activation': 'gelu', 'sinusoidal_pos_embds': False}


def rename(name: str) -> str:
    """The name of a stored tensor without that of the model below a head."""
    return name.removeprefix('distilbert.')


def names(family: str, config: BertConfig) -> dict[str, Entry]:
    """Our parameter -> its tensors; see mapping.py."""
    _check_form(family, config)
    ours, theirs = ('', '') if family == 'bert' else ('encoder/', 'distilbert.')
    table = norm(f'{ours}embeddings_norm', f'{theirs}embeddings.LayerNorm')
    for our, their in (('token', 'word'), ('position', 'position')):
        name = f'{theirs}embeddings.{their}_embeddings.weight'
        table[f'{ours}{our}_embedder/embedding'] = Entry((name,))
    for i in range(config.num_layers):
        our, their = f'{ours}layers_{i}', f'{theirs}transformer.layer.{i}'
        table |= dense(f'{our}/attention/qkv', *(f'{their}.attention.{x}_lin' for x in 'qkv'))
        table |= dense(f'{our}/attention/out', f'{their}.attention.out_lin')
        table |= norm(f'{our}/attention_norm', f'{their}.sa_layer_norm')
        table |= dense(f'{our}/mlp/wi', f'{their}.ffn.lin1')
        table |= dense(f'{our}/mlp/wo', f'{their}.ffn.lin2')
        table |= norm(f'{our}/mlp_norm', f'{their}.output_layer_norm')
    if family == 'sequence_classifier':
        table |= dense('dense', 'pre_classifier')
    return table if family == 'bert' else table | dense('classifier', 'classifier')


def from_config(config: Mapping[str, Json]) -> Fields:
    """The content of a config.json -> arguments of models.build; see mapping.py."""
    config = _DEFAULTS | {key: value for key, value in config.items() if value is not None}
    fields = config_keys.sizes_of(config, _KEYS, _FIXED, 'a DistilBERT')
    fields |= config_keys.head_fields(config, 'DistilBert', 'seq_classif_dropout', 0.2)
    more = dict(variant='distilbert', type_vocab_size=0, position_offset=0, has_pooler=False)
    return {**fields, **more}


def to_config(family: str, config: BertConfig, ids: Special) -> dict[str, Json]:
    """The content of config.json for a model of ours; see mapping.py."""
    _check_form(family, config)
    return {
        'architectures': ['DistilBert' + config_keys.CLASSES[family]],
        'model_type': 'distilbert',
        **config_keys.written(config, _KEYS),
        **_FIXED,
        **config_keys.head_keys(family, config, ids, 'seq_classif_dropout'),
        'pad_token_id': ids['pad_id'],
    }


def _check_form(family: str, config: BertConfig) -> None:
    if family not in config_keys.CLASSES or config.has_pooler or config.norm_epsilon != 1e-12:
        raise UserError(
            f'transformers has no {family} of this form of DistilBERT: encoders without a pooler, '
            'and heads over them, are written; xlbench.predict reads the workdir'
        )
