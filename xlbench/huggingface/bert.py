"""BERT and its relatives as transformers stores them: encoders, heads over them, and pairs.

bert_kinds.KINDS has a row for each. RoBERTa and XLM-R are one model under two names, which tell
their vocabularies apart: byte-level BPE and SentencePiece. XLM (arXiv:1901.07291) and DistilBERT
(arXiv:1910.01108) have no types of tokens; models of XLM with a table of languages add a row of it
where a call names languages, see models.bert.Stack. DeBERTa is v2 and v3, of which mDeBERTa v3 is.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from xlbench.huggingface import config_keys
from xlbench.huggingface.bert_kinds import BERT, KINDS, LAST, ROBERTA, Kind
from xlbench.huggingface.mapping import Entry, Special, dense, norm, table
from xlbench.system.errors import UserError, shortened
from xlbench.system.files import Json

if TYPE_CHECKING:  # A config.json is read without jax.
    from xlbench.models.bert import BertConfig
    from xlbench.models.dual_encoder import DualEncoderConfig
    from xlbench.models.families import Fields

_HALVES = ('bert', 'roberta', 'xlm-roberta')  # What either half of an encoder-decoder may be.
# Buffers, a table of DeBERTa v2 that nothing reads, and heads that a checkpoint's family lacks.
IGNORED = (
    r'(encoder\.|decoder\.(bert|roberta)\.)?embeddings\.(position_ids|token_type_ids)',
    r'position_ids|embeddings\.position_embeddings\.weight',
    r'(cls|lm_head|(lm|mask)_predictions|vocab_(transform|layer_norm|projector)|pred_layer)\..*',
    r'(classifier|pre_classifier|qa_outputs|sequence_summary|pooler)\..*',
)
# Our family -> the class of transformers, behind the name of the encoder.
_CLASSES = {
    'bert': 'Model',
    'sequence_classifier': 'ForSequenceClassification',
    'token_classifier': 'ForTokenClassification',
}


def rename(name: str) -> str:
    """The name of a stored tensor, as all checkpoints of the same encoder agree on it.

    bert.embeddings.LayerNorm.gamma -> embeddings.LayerNorm.weight
    """
    bases = '|'.join(re.escape(kind.base) for kind in KINDS.values())
    name = re.sub(rf'^(?!transformer\.layer\.)({bases})', '', name)  # Layers of DistilBERT.
    name = re.sub(r'LayerNorm\.gamma$', 'LayerNorm.weight', name)
    return re.sub(r'LayerNorm\.beta$', 'LayerNorm.bias', name)


# ---------------------------------------------------------------------------------------- the names


def names(family: str, config: BertConfig) -> dict[str, Entry]:
    """Our parameter -> its tensors, as transformers writes them."""
    kind = _kind(family, config)
    if family == 'bert':
        return _stack(kind, config)
    if family == 'encoder_decoder':
        return {
            **_stack(kind, config, 'encoder/', 'encoder.'),
            **_stack(kind, config, 'decoder/', f'decoder.{kind.base}', is_decoder=True),
            **lm_head_names(config, 'decoder.'),
        }
    of_text = family == 'sequence_classifier' and not config.has_pooler
    return _stack(kind, config, 'encoder/', kind.base) | table(kind.head if of_text else LAST)


def _kind(family: str, config: BertConfig) -> Kind:
    """The row of a model; UserError where transformers has no such form of it."""
    kind = KINDS[config.variant]
    known = [family for family in _CLASSES if kind.head or family == 'bert']
    known += ['encoder_decoder'] if config.variant in _HALVES else []
    fixed = kind.form | ({'mlp_dim': 4 * config.emb_dim} if config.variant == 'xlm' else {})
    wrong = [name for name, value in fixed.items() if getattr(config, name) != value]
    if family not in known or wrong:
        why = f' with {wrong[0]}={getattr(config, wrong[0])}' if wrong else ''
        raise UserError(
            f'transformers has no {family} of this form of {config.variant}{why}: '
            f'{", ".join(known)} are written; xlbench.predict and xlbench.evaluate read the workdir'
        )
    return kind


def _stack(
    kind: Kind, config: BertConfig, ours: str = '', theirs: str = '', is_decoder: bool = False
) -> dict[str, Entry]:
    """Embeddings, layers and the pooler below the prefixes `ours` and `theirs`."""
    top = dict(kind.top)
    if not config.num_languages:
        top.pop('language_embedder', None)
    found = table(top, ours, theirs)
    if is_decoder:
        head = 'lm_head' if config.variant == 'roberta' else 'cls.predictions'
        name = f'{ours}token_embedder/embedding'
        tied = (f'decoder.{head}.decoder.weight',)
        found[name] = dataclasses.replace(found[name], tied=tied)
    layer = {x: y for x, y in kind.layer.items() if is_decoder or not x.startswith('cross')}
    for i in range(config.num_layers):
        numbered = {part: tensors.format(i=i) for part, tensors in layer.items()}
        found |= table(numbered, f'{ours}layers_{i}/', theirs + kind.layers.format(i=i))
    if config.has_pooler and kind.fields.get('has_pooler', True) and not is_decoder:
        found |= dense(f'{ours}pooler', f'{theirs}pooler.dense')
    return found


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


# --------------------------------------------------------------------------------------- the config

_ENCODER = {'is_decoder': False, 'add_cross_attention': False}
_DECODER = {'is_decoder': True, 'add_cross_attention': True, 'tie_word_embeddings': True}


def from_config(config: Mapping[str, Json]) -> Fields:
    """The content of a config.json -> arguments of models.build.

    Whether a BERT has a pooler no config.json says; `has_pooler` is what the class of transformers
    that it names has. Public checkpoints of masked-language models often hold one although their
    class does not.
    """
    if config['model_type'] == 'encoder-decoder':
        return {'family': 'encoder_decoder', **_halves(config)}
    fields = _encoder(config, _ENCODER)
    kind = KINDS[config['model_type']]
    architecture = (config.get('architectures') or [''])[0]
    if config['model_type'] in _HALVES:
        without = ['ForTokenClassification', 'ForMaskedLM', 'ForQuestionAnswering']
        without += ['ForSequenceClassification'] if fields['position_offset'] > 0 else []
        fields['has_pooler'] = not architecture.endswith(tuple(without))
    prefix = '' if config['model_type'] in _HALVES else kind.classes
    classes = {prefix + name: family for family, name in _CLASSES.items() if kind.head}
    ends = (family for name, family in classes.items() if architecture.endswith(name))
    fields['family'] = next(ends, 'bert')
    if fields['family'] != 'bert':
        fields['num_labels'] = len(config.get('id2label') or range(config.get('num_labels') or 2))
        key, usual = kind.dropout
        rates = (config.get(key), usual, fields['dropout_rate'])
        fields['classifier_dropout_rate'] = next(rate for rate in rates if rate is not None)
    return fields


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
                f'config.json: {BERT.keys.get(field, field)} is {value} in the encoder and '
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
    model_type = config['model_type']
    kind = KINDS[model_type]
    config = kind.defaults | {key: value for key, value in config.items() if value is not None}
    if model_type == 'xlm':
        config.setdefault('vocab_size', config.get('n_words'))  # As old files call it.
    if model_type == 'deberta-v2':
        _check_deberta(config)
    fields = config_keys.sizes_of(config, kind.keys, kind.fixed | fixed, kind.name, prefix)
    fields |= kind.fields
    if model_type == 'xlm':
        languages = config['n_langs'] if config['use_lang_emb'] else 0
        fields['num_languages'] = languages if languages > 1 else 0
        fields['mlp_dim'] = 4 * fields['emb_dim']
    elif model_type == 'deberta-v2':
        longest = config.get('max_relative_positions', -1)
        fields['relpos_max_distance'] = longest if longest > 0 else fields['max_positions']
    elif model_type in _HALVES:
        # RoBERTa's positions begin after its padding id.
        offset = 0 if model_type == 'bert' else config.get('pad_token_id', 1) + 1
        count = config['max_position_embeddings']
        if count <= offset:
            raise UserError(
                f'config.json: {prefix}max_position_embeddings is {count}; supported: more than '
                f'{offset}, where positions begin'
            )
        fields |= {'max_positions': count - offset, 'position_offset': offset}
    return fields


def _check_deberta(config: Mapping[str, Json]) -> None:
    """Raises UserError for a DeBERTa v2 that lacks what v3 has, also where its file is silent."""
    for key, value in KINDS['deberta-v2'].fixed.items():
        if key not in config and value not in (0, 'gelu'):
            raise UserError(f'config.json lacks {key!r}; supported: {value}, as in DeBERTa v3')
    kinds = config.get('pos_att_type') or ()
    kinds = kinds.split('|') if isinstance(kinds, str) else kinds
    if sorted(kinds) != ['c2p', 'p2c']:
        raise UserError('config.json: pos_att_type is not c2p and p2c, as in DeBERTa v3')


def to_config(family: str, config: BertConfig, ids: Special) -> dict[str, Json]:
    """The content of config.json for a model of ours; see mapping.py."""
    kind = _kind(family, config)
    model_type, prefix = config.variant, kind.classes
    if kind is ROBERTA:
        is_roberta = ids.get('model_type') == 'roberta'
        model_type, prefix = ('roberta', 'Roberta') if is_roberta else ('xlm-roberta', prefix)
    offset = config.position_offset
    known = {
        'pad_token_id': offset - 1 if kind is ROBERTA else ids['pad_id'],
        'bos_token_id': ids.get('bos_id'),
        'eos_token_id': ids.get('eos_id'),
    }
    special = {key: known[key] for key in kind.special}
    encoder = {
        'model_type': model_type,
        **config_keys.written(config, kind.keys),
        'max_position_embeddings': config.max_positions + offset,
        **kind.fixed,
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
    if config.variant == 'xlm':
        languages = config.num_languages
        encoder |= {'n_langs': max(languages, 1), 'use_lang_emb': languages > 0}
    elif config.variant == 'deberta-v2':
        longest = config.relpos_max_distance
        longest = -1 if longest == config.max_positions else longest
        encoder |= {'pos_att_type': ['p2c', 'c2p'], 'max_relative_positions': longest}
    if family != 'bert':
        texts = ids.get('labels') or [f'LABEL_{i}' for i in range(config.num_labels)]
        encoder |= {
            'id2label': {str(i): name for i, name in enumerate(texts)},
            'label2id': {name: i for i, name in enumerate(texts)},
            kind.dropout[0]: config.classifier_dropout_rate,
        }
    return {'architectures': [prefix + _CLASSES[family]], **encoder}
