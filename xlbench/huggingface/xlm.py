"""XLM (arXiv:1901.07291) as transformers stores it: an encoder of BERT's kind under other names.

It has no types of tokens. Models with a table of languages add a row of it where a call names
languages; see models.bert.Stack.
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

# Heads that an encoder does not have, and a buffer.
IGNORED = (r'(pred_layer|sequence_summary|classifier|qa_outputs)\..*', 'position_ids')

# Our field -> the key of config.json with the same meaning.
_KEYS = {
    'vocab_size': 'vocab_size',
    'emb_dim': 'emb_dim',
    'num_heads': 'n_heads',
    'num_layers': 'n_layers',
    'max_positions': 'max_position_embeddings',
    'norm_epsilon': 'layer_norm_eps',
    'dropout_rate': 'dropout',
    'attention_dropout_rate': 'attention_dropout',
}
# What files may leave out (transformers' defaults).
_DEFAULTS = {
    'max_position_embeddings': 512,
    'layer_norm_eps': 1e-12,
    'dropout': 0.1,
    'attention_dropout': 0.1,
    'n_langs': 1,
    'use_lang_emb': True,
}
# Keys with the only value that there is a model for.
_FIXED = {'gelu_activation': True, 'causal': False, 'asm': False, 'is_encoder': True}


def rename(name: str) -> str:
    """The name of a stored tensor without that of the model below a head."""
    return name.removeprefix('transformer.')


def names(family: str, config: BertConfig) -> dict[str, Entry]:
    """Our parameter -> its tensors; see mapping.py."""
    _check_form(family, config)
    table = {
        'token_embedder/embedding': Entry(('embeddings.weight',)),
        'position_embedder/embedding': Entry(('position_embeddings.weight',)),
        **norm('embeddings_norm', 'layer_norm_emb'),
    }
    if config.num_languages:
        table['language_embedder/embedding'] = Entry(('lang_embeddings.weight',))
    for i in range(config.num_layers):
        ours = f'layers_{i}'
        table |= dense(f'{ours}/attention/qkv', *(f'attentions.{i}.{x}_lin' for x in 'qkv'))
        table |= dense(f'{ours}/attention/out', f'attentions.{i}.out_lin')
        table |= norm(f'{ours}/attention_norm', f'layer_norm1.{i}')
        table |= dense(f'{ours}/mlp/wi', f'ffns.{i}.lin1')
        table |= dense(f'{ours}/mlp/wo', f'ffns.{i}.lin2')
        table |= norm(f'{ours}/mlp_norm', f'layer_norm2.{i}')
    return table


def from_config(config: Mapping[str, Json]) -> Fields:
    """The content of a config.json -> arguments of models.build; see mapping.py."""
    config = _DEFAULTS | {key: value for key, value in config.items() if value is not None}
    config.setdefault('vocab_size', config.get('n_words'))  # As old files call it.
    fields = config_keys.sizes_of(config, _KEYS, _FIXED, 'an XLM')
    languages = config['n_langs'] if config['use_lang_emb'] else 0
    return {
        'family': 'bert',
        **fields,
        'mlp_dim': 4 * fields['emb_dim'],
        'position_offset': 0,
        'variant': 'xlm',
        'type_vocab_size': 0,
        'num_languages': languages if languages > 1 else 0,
        'has_pooler': False,
    }


def to_config(family: str, config: BertConfig, ids: Special) -> dict[str, Json]:
    """The content of config.json for an encoder of ours; the inverse of `from_config`.

    Raises:
      UserError: transformers has no such model.
    """
    _check_form(family, config)
    return {
        'architectures': ['XLMModel'],
        'model_type': 'xlm',
        **config_keys.written(config, _KEYS),
        **_FIXED,
        'n_langs': max(config.num_languages, 1),
        'use_lang_emb': config.num_languages > 0,
        'pad_token_id': ids['pad_id'],
        'bos_token_id': ids.get('bos_id'),
        'eos_token_id': ids['eos_id'],
    }


def _check_form(family: str, config: BertConfig) -> None:
    if family != 'bert' or config.mlp_dim != 4 * config.emb_dim or config.position_offset:
        raise UserError(
            f'transformers has no {family} of this form of XLM: encoders alone are written, with '
            'mlp_dim four times emb_dim; xlbench.predict and xlbench.evaluate read the workdir'
        )
