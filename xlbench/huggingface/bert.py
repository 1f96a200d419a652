"""BERT and RoBERTa / XLM-R as transformers stores them: encoders, heads, and pairs of them.

RoBERTa and XLM-R are one model under two names, which tell their vocabularies apart: byte-level BPE
and SentencePiece.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from xlbench.huggingface import config_keys
from xlbench.huggingface.mapping import Entry, Special, dense, norm
from xlbench.system.errors import UserError, shortened
from xlbench.system.files import Json

if TYPE_CHECKING:  # A config.json is read without jax.
    from xlbench.models.bert import BertConfig
    from xlbench.models.dual_encoder import DualEncoderConfig
    from xlbench.models.families import Fields

_HALVES = ('bert', 'roberta', 'xlm-roberta')  # What either half of an encoder-decoder may be.
# Buffers, and heads that the family of the checkpoint does not have.
IGNORED = (
    r'(encoder\.|decoder\.(bert|roberta)\.)?embeddings\.(position_ids|token_type_ids)',
    r'cls\..*',
    r'lm_head\..*',
    r'classifier\..*',
    r'qa_outputs\..*',
)


def rename(name: str) -> str:
    """The name of a stored tensor, as all checkpoints of the same encoder agree on it.

    bert.embeddings.LayerNorm.gamma -> embeddings.LayerNorm.weight
    """
    name = re.sub(r'^(bert|roberta)\.', '', name)
    name = re.sub(r'LayerNorm\.gamma$', 'LayerNorm.weight', name)
    return re.sub(r'LayerNorm\.beta$', 'LayerNorm.bias', name)


def names(family: str, config: BertConfig) -> dict[str, Entry]:
    """Our parameter -> its tensors, as transformers writes them."""
    base = 'roberta.' if config.variant == 'roberta' else 'bert.'
    if family == 'bert':
        return _stack('', '', config) | _pooler('', '', config)
    if family == 'encoder_decoder':
        return {
            **_stack('encoder/', 'encoder.', config),
            **_pooler('encoder/', 'encoder.', config),
            **_stack('decoder/', f'decoder.{base}', config, decoder=True),
            **lm_head_names(config, 'decoder.'),
        }
    table = _stack('encoder/', base, config) | _pooler('encoder/', base, config)
    if family == 'sequence_classifier' and not config.has_pooler:
        table |= dense('dense', 'classifier.dense')
        return table | dense('classifier', 'classifier.out_proj')
    return table | dense('classifier', 'classifier')


def lm_head_names(config: BertConfig, theirs: str = '') -> dict[str, Entry]:
    """The parameters `lm_head/...` of an encoder_decoder -> the tensors of a masked-language model.

    Those of BertForMaskedLM, BertForPreTraining and XLMRobertaForMaskedLM, from which a decoder's
    head may be initialised; `theirs` stands before their names.
    """
    if config.variant == 'roberta':
        head, linear, scale = f'{theirs}lm_head', 'dense', 'layer_norm'
    else:
        head, linear, scale = f'{theirs}cls.predictions', 'transform.dense', 'transform.LayerNorm'
    return {
        **dense('lm_head/dense', f'{head}.{linear}'),
        **norm('lm_head/norm', f'{head}.{scale}'),
        'lm_head/bias': Entry((f'{head}.bias',), tied=(f'{head}.decoder.bias',)),
    }


def folders(config: DualEncoderConfig) -> dict[str, str]:
    """The parts of a dual encoder's parameters -> the subfolders that hold them as family 'bert'.

    {'left': 'left', 'right': 'right'}, or {'left': ''}, the folder itself, where both sides share
    one encoder.

    Raises:
      UserError: there is a projection, for which an encoder's folder has no place.
    """
    if config.projection_dim:
        raise UserError(
            f'a dual encoder with projection_dim={config.projection_dim} cannot be written as '
            'encoders of transformers, which have no projection'
        )
    return {'left': ''} if config.shared else {'left': 'left', 'right': 'right'}


# ---------------------------------------------------------------------------------------- the names


def _stack(ours: str, theirs: str, config: BertConfig, decoder: bool = False) -> dict[str, Entry]:
    """Embeddings and layers below the prefixes `ours` and `theirs`."""
    table = norm(f'{ours}embeddings_norm', f'{theirs}embeddings.LayerNorm')
    for kind, their_kind in (('token', 'word'), ('position', 'position'), ('type', 'token_type')):
        tied = ()
        if decoder and kind == 'token':
            head = 'lm_head' if config.variant == 'roberta' else 'cls.predictions'
            tied = (f'decoder.{head}.decoder.weight',)
        name = f'{theirs}embeddings.{their_kind}_embeddings.weight'
        table[f'{ours}{kind}_embedder/embedding'] = Entry((name,), tied=tied)
    for i in range(config.num_layers):
        our, their = f'{ours}layers_{i}', f'{theirs}encoder.layer.{i}'
        query, key, value = (f'{their}.attention.self.{part}' for part in ('query', 'key', 'value'))
        table |= dense(f'{our}/attention/qkv', query, key, value)
        table |= dense(f'{our}/attention/out', f'{their}.attention.output.dense')
        table |= norm(f'{our}/attention_norm', f'{their}.attention.output.LayerNorm')
        if decoder:
            cross = f'{their}.crossattention'
            table |= dense(f'{our}/cross_attention/query', f'{cross}.self.query')
            table |= dense(f'{our}/cross_attention/kv', f'{cross}.self.key', f'{cross}.self.value')
            table |= dense(f'{our}/cross_attention/out', f'{cross}.output.dense')
            table |= norm(f'{our}/cross_attention_norm', f'{cross}.output.LayerNorm')
        table |= dense(f'{our}/mlp/wi', f'{their}.intermediate.dense')
        table |= dense(f'{our}/mlp/wo', f'{their}.output.dense')
        table |= norm(f'{our}/mlp_norm', f'{their}.output.LayerNorm')
    return table


def _pooler(ours: str, theirs: str, config: BertConfig) -> dict[str, Entry]:
    return dense(f'{ours}pooler', f'{theirs}pooler.dense') if config.has_pooler else {}


# --------------------------------------------------------------------------------------- the config

# Our field -> the key of config.json with the same meaning.
_KEYS = {
    'vocab_size': 'vocab_size',
    'emb_dim': 'hidden_size',
    'num_heads': 'num_attention_heads',
    'mlp_dim': 'intermediate_size',
    'num_layers': 'num_hidden_layers',
    'type_vocab_size': 'type_vocab_size',
    'norm_epsilon': 'layer_norm_eps',
    'dropout_rate': 'hidden_dropout_prob',
    'attention_dropout_rate': 'attention_probs_dropout_prob',
}
# What files may leave out (transformers' defaults).
_DEFAULTS = {
    'max_position_embeddings': 512,
    'type_vocab_size': 2,
    'layer_norm_eps': 1e-12,
    'hidden_dropout_prob': 0.1,
    'attention_probs_dropout_prob': 0.1,
}
# Key -> the only value that our model has; it is also what a file means that leaves the key out.
_FIXED = {'hidden_act': 'gelu', 'position_embedding_type': 'absolute'}
_ENCODER = {'is_decoder': False, 'add_cross_attention': False}
_DECODER = {'is_decoder': True, 'add_cross_attention': True, 'tie_word_embeddings': True}


def from_config(config: Mapping[str, Json]) -> Fields:
    """The content of a config.json -> arguments of models.build.

    Whether an encoder has a pooler no config.json says; `has_pooler` is what the class of
    transformers that it names has. Public checkpoints of masked-language models often hold one
    although their class does not.

    """
    if config['model_type'] == 'encoder-decoder':
        return {'family': 'encoder_decoder', **_halves(config)}
    fields = _encoder(config, _ENCODER)
    architecture = (config.get('architectures') or [''])[0]
    roberta = fields['position_offset'] > 0
    without = ['ForTokenClassification', 'ForMaskedLM', 'ForQuestionAnswering']
    without += ['ForSequenceClassification'] if roberta else []
    fields['has_pooler'] = not architecture.endswith(tuple(without))
    rate = fields['dropout_rate']
    return fields | config_keys.head_fields(config, '', 'classifier_dropout', rate)


def labels(config: Mapping[str, Json]) -> tuple[str, ...]:
    """The labels of a head, in the order of their ids; () where config.json names none.

    Raises:
      UserError: its id2label is not a text for each of 0, 1, 2, ...
    """
    given = config.get('id2label') or {}
    ids = [str(i) for i in range(len(given))] if isinstance(given, Mapping) else None
    if ids is None or given.keys() != set(ids) or not all(isinstance(given[i], str) for i in ids):
        raise UserError('config.json: id2label is not an object with a text for each of 0, 1, ...')
    return tuple(given[i] for i in ids)


def _halves(config: Mapping[str, Json]) -> Fields:
    """The fields that encoder and decoder of an encoder-decoder have in common."""
    for half in ('encoder', 'decoder'):
        model_type = config.get(half, {}).get('model_type')
        if model_type not in _HALVES:
            raise UserError(
                f'config.json: {half}.model_type is {shortened(model_type)}; supported: '
                f'{", ".join(_HALVES)}'
            )
    if config.get('tie_encoder_decoder'):
        raise UserError('config.json: tie_encoder_decoder is True; supported: False')
    encoder = _encoder(config['encoder'], _ENCODER, 'encoder.')
    decoder = _encoder(config['decoder'], _DECODER, 'decoder.')
    for field, value in encoder.items():
        if decoder[field] != value:
            raise UserError(
                f'config.json: {_KEYS.get(field, field)} is {value} in the encoder and '
                f'{decoder[field]} in the decoder; supported: the same in both'
            )
    return encoder | {'has_pooler': True}


def _encoder(config: Mapping[str, Json], fixed: Mapping[str, bool], prefix: str = '') -> Fields:
    """The fields of one encoder; `fixed` holds what else must be as it says."""
    if own := config.get('auto_map'):
        raise UserError(
            f'config.json: {prefix}auto_map names code of its own, {shortened(own, 100)}, which is '
            'never run; supported: checkpoints of the classes of transformers'
        )
    config = _DEFAULTS | {key: value for key, value in config.items() if value is not None}
    fields = config_keys.sizes_of(config, _KEYS, _FIXED | fixed, 'a BERT', prefix)
    # RoBERTa's positions begin after its padding id.
    offset = 0 if config['model_type'] == 'bert' else config.get('pad_token_id', 1) + 1
    if config['max_position_embeddings'] <= offset:
        raise UserError(
            f'config.json: {prefix}max_position_embeddings is '
            f'{config["max_position_embeddings"]}; supported: more than {offset}, where positions '
            'begin'
        )
    return {
        **fields,
        'max_positions': config['max_position_embeddings'] - offset,
        'position_offset': offset,
    }


def to_config(family: str, config: BertConfig, ids: Special) -> dict[str, Json]:
    """The content of config.json for a model of ours; see mapping.py."""
    model_type, prefix = 'bert', 'Bert'
    if config.variant == 'roberta':
        model_type, prefix = 'xlm-roberta', 'XLMRoberta'
        if ids.get('model_type') == 'roberta':
            model_type, prefix = 'roberta', 'Roberta'
    offset = config.position_offset
    special = {
        'pad_token_id': offset - 1 if config.variant == 'roberta' else ids['pad_id'],
        'bos_token_id': ids.get('bos_id'),
        'eos_token_id': ids['eos_id'],
    }
    encoder = {
        'model_type': model_type,
        **config_keys.written(config, _KEYS),
        'max_position_embeddings': config.max_positions + offset,
        **_FIXED,
        **special,
    }
    if family == 'encoder_decoder':
        return {
            'architectures': ['EncoderDecoderModel'],
            'model_type': 'encoder-decoder',
            'is_encoder_decoder': True,
            'encoder': encoder | _ENCODER,
            'decoder': encoder | _DECODER,
            'decoder_start_token_id': ids['decoder_start_id'],
            **special,
        }
    return {
        'architectures': [prefix + config_keys.CLASSES[family]],
        **encoder,
        **config_keys.head_keys(family, config, ids, 'classifier_dropout'),
    }
