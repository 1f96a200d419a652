"""BERT and its relatives as transformers stores them: encoders, heads over them, and pairs.

kinds.toml has a table for each. RoBERTa and XLM-R are one model under two names, which tell their
vocabularies apart: byte-level BPE and SentencePiece. XLM (arXiv:1901.07291) and DistilBERT
(arXiv:1910.01108) have no types of tokens; models of XLM with a table of languages add a row of it
where a call names languages, see models.bert.Stack. DeBERTa is v2 and v3, of which mDeBERTa v3 is.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from xlbench.huggingface.mapping import KINDS, Entry, Kind, Rows, Special, token_ids
from xlbench.system.errors import UserError, shortened
from xlbench.system.files import Json

if TYPE_CHECKING:  # A config.json is read without jax.
    from xlbench.models.bert import BertConfig
    from xlbench.models.dual_encoder import DualEncoderConfig
    from xlbench.models.families import Fields

# The parameters of a masked-language model's head.
_LM_HEAD = ('dense/kernel', 'dense/bias', 'norm/scale', 'norm/bias', 'bias')
_HALVES = ('bert', 'roberta', 'xlm-roberta')  # What either half of an encoder-decoder may be.
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
    bases = '|'.join(re.escape(kind.base) for kind in KINDS.values() if kind.base)
    name = re.sub(rf'^(?!transformer\.layer\.)({bases})', '', name)  # Layers of DistilBERT.
    name = re.sub(r'LayerNorm\.gamma$', 'LayerNorm.weight', name)
    return re.sub(r'LayerNorm\.beta$', 'LayerNorm.bias', name)


# ---------------------------------------------------------------------------------------- the names


def names(family: str, config: Any, params: Collection[str]) -> dict[str, Entry]:
    """Our parameter -> its tensors; see Kind.names."""
    kind = _kind(family, config)
    if family == 'bert':
        return kind.names(params, config)
    if family != 'encoder_decoder':
        of_text = family == 'sequence_classifier' and not config.has_pooler
        rows: Rows = kind.head if of_text else {'classifier': 'classifier'}
        sides = {'encoder/': kind.base}
        return kind.names(params, config, sides) | kind.entries(rows, params)
    found = kind.names(params, config, {'encoder/': 'encoder.', 'decoder/': f'decoder.{kind.base}'})
    head = 'lm_head' if config.variant == 'roberta' else 'cls.predictions'
    table = 'decoder/token_embedder/embedding'
    tied = (f'decoder.{head}.decoder.weight',)
    return {
        **found,
        table: dataclasses.replace(found[table], tied=tied),
        **lm_head_names(config, 'decoder.'),
    }


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


def lm_head_names(config: BertConfig, theirs: str = '') -> dict[str, Entry]:
    """The parameters `lm_head/...` of an encoder_decoder -> the tensors of a masked-language model.

    Those of BertForMaskedLM, BertForPreTraining and XLMRobertaForMaskedLM, from which a decoder's
    head may be initialised; `theirs` stands before their names.
    """
    kind = KINDS[config.variant]
    entries = kind.entries(kind.lm_head, [f'lm_head/{leaf}' for leaf in _LM_HEAD])
    return {param: e.renamed(lambda name: theirs + name) for param, e in entries.items()}


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
        rates = (config.get(kind.dropout_key), kind.dropout, fields['dropout_rate'])
        fields['classifier_dropout_rate'] = next(rate for rate in rates if rate is not None)
    return fields


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
            key = KINDS['bert'].keys.get(field, field)
            raise UserError(
                f'config.json: {key} is {value} in the encoder and '
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
    config = kind.filled(config)
    if model_type == 'xlm':
        config.setdefault('vocab_size', config.get('n_words'))  # As old files call it.
    if model_type == 'deberta-v2':
        _check_deberta(config)
    fields = kind.read(config, {**kind.fixed, **fixed}, prefix) | kind.fields
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


def to_config(family: str, config: Any, ids: Special) -> dict[str, Json]:
    """The content of config.json for a model of ours; see mapping.py."""
    kind = _kind(family, config)
    model_type, prefix = config.variant, kind.classes
    if kind.base == 'roberta.':
        is_roberta = ids.get('model_type') == 'roberta'
        model_type, prefix = ('roberta', 'Roberta') if is_roberta else ('xlm-roberta', prefix)
    offset = config.position_offset
    known = token_ids(ids, 'pad', 'bos', 'eos')
    if kind.base == 'roberta.':
        known['pad_token_id'] = offset - 1
    special = {key: known[key] for key in kind.special}
    encoder = {
        'model_type': model_type,
        **kind.written(config),
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
            kind.dropout_key: config.classifier_dropout_rate,
        }
    return {'architectures': [prefix + _CLASSES[family]], **encoder}
