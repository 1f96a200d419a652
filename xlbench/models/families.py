"""The families of models, and the kinds of public checkpoints: a row each. No jax is imported here.

A variant of BERT is a row of MODEL_TYPES and one of xlbench/huggingface/bert_kinds.py, where its
tensors have names of their own; its sizes are rows of sizes.py.
"""

import dataclasses
from collections.abc import Mapping

from xlbench.system import errors

Fields = dict[str, int | float | bool | str]  # Of a config.


@dataclasses.dataclass(frozen=True)
class ModelFamily:
    """A family of models.

    Attributes:
      module, config, model: a file in xlbench/models, its class of configs and that of models.
      tensors: the file in xlbench/huggingface with the names of its tensors; '' where there is no
        public form.
      kind: what objectives say they train; '' is an encoder and a decoder that writes texts.
      fields: of its config, whatever the size.
      encoders: where encoders are in the names of its parameters; the first is the one that other
        families start from.
    """

    module: str
    config: str
    model: str
    tensors: str = ''
    kind: str = ''
    fields: Mapping[str, int | float | bool | str] = dataclasses.field(default_factory=dict)
    encoders: tuple[str, ...] = ()


def _t5(**fields: bool) -> ModelFamily:
    return ModelFamily('t5', 'T5Config', 'T5', 't5', fields=fields)


def _bart(
    pre_norm: bool, learned_positions: bool, embedding_norm: bool, tensors: str = 'bart', **more
) -> ModelFamily:
    fields = dict(
        pre_norm=pre_norm, learned_positions=learned_positions, embedding_norm=embedding_norm
    )
    return ModelFamily('bart', 'BartConfig', 'Bart', tensors, fields=fields | more)


def _llama(**fields: bool | str) -> ModelFamily:
    return ModelFamily('llama', 'LlamaConfig', 'Llama', 'llama', 'decoder_only', fields=fields)


_BART = _bart(False, True, True)
_GEMMA = dict(activation='gelu_tanh', tied_embeddings=True, scaled_embeddings=True, unit_norms=True)

FAMILIES = {
    't5': _t5(gated_mlp=False, tied_embeddings=True),
    't5_1_1': _t5(gated_mlp=True, tied_embeddings=False),
    'mt5': _t5(gated_mlp=True, tied_embeddings=False),
    'umt5': _t5(gated_mlp=True, tied_embeddings=False, relpos_each_layer=True),
    'bart': _BART,
    'mbart': _bart(True, True, True),
    'pegasus': _bart(True, False, False),
    'marian': _bart(False, False, False),
    'm2m_100': _bart(True, False, False, position_offset=2, logits_bias=False),
    # Marian's own files, not those of transformers: a recurrent decoder.
    'marian_ssru': _bart(False, False, False, 'marian_files', ssru=True, norm_epsilon=1e-9),
    'mvbart': ModelFamily(
        'multi_view', 'MultiViewConfig', 'MultiViewBart', '', 'multi_view', _BART.fields
    ),
    'gpt2': ModelFamily('gpt2', 'Gpt2Config', 'Gpt2', 'gpt2', 'decoder_only'),
    'llama': _llama(),
    'mistral': _llama(),
    'qwen2': _llama(qkv_bias=True),
    'qwen3': _llama(qk_norm=True),
    'gemma': _llama(**_GEMMA),
    'gemma2': _llama(**_GEMMA, post_norms=True),
    'gemma3': _llama(**_GEMMA, post_norms=True, qk_norm=True),
    'bert': ModelFamily('bert', 'BertConfig', 'Bert', 'bert', 'encoder', encoders=('',)),
    'encoder_decoder': ModelFamily(
        'encoder_decoder', 'EncoderDecoderConfig', 'EncoderDecoder', 'bert',
        encoders=('encoder/', 'decoder/'),
    ),
    'dual_encoder': ModelFamily(
        'dual_encoder', 'DualEncoderConfig', 'DualEncoder', 'bert', 'dual_encoder',
        encoders=('left/', 'right/'),
    ),
    'sequence_classifier': ModelFamily(
        'heads', 'HeadConfig', 'SequenceClassifier', 'bert', 'sequence_classifier',
        encoders=('encoder/',),
    ),
    'token_classifier': ModelFamily(
        'heads', 'HeadConfig', 'TokenClassifier', 'bert', 'token_classifier',
        encoders=('encoder/',),
    ),
}  # fmt: skip
# Families that are made of encoders; a checkpoint of any of them starts any other.
ENCODERS = tuple(name for name, family in FAMILIES.items() if family.encoders)


@dataclasses.dataclass(frozen=True)
class ModelType:
    """A kind of checkpoint, by the model_type in its config.json.

    Attributes:
      tensors: the file in xlbench/huggingface with the names of its tensors.
      vocabulary: key of data.vocabularies.FAMILIES; '' is that of the encoder inside.
      head: of an encoder, the activation of the layer that a head over a text has in the place of
        the pooler; '' where it has none.
      types: of an encoder, whether its class in transformers takes types of tokens.
    """

    tensors: str
    vocabulary: str = ''
    head: str = ''
    types: bool = True


MODEL_TYPES = {
    't5': ModelType('t5', 't5'),
    'mt5': ModelType('t5', 't5'),
    'umt5': ModelType('t5', 't5'),
    'bart': ModelType('bart', 'bart'),
    'mbart': ModelType('bart', 'mbart50'),
    'pegasus': ModelType('bart', 'pegasus'),
    'marian': ModelType('bart', 'marian'),
    'marian_ssru': ModelType('marian_files'),
    'm2m_100': ModelType('bart', 'm2m_100'),
    'gpt2': ModelType('gpt2', 'gpt2'),
    **{f'{x}': ModelType('llama', 'llama') for x in ('llama', 'mistral', 'gemma', 'gemma2')},
    'gemma3_text': ModelType('llama', 'llama'),
    **{f'{x}': ModelType('llama', 'qwen2') for x in ('qwen2', 'qwen3')},
    # Encoders; they are also the variants of BertConfig.
    'bert': ModelType('bert', 'bert'),
    'roberta': ModelType('bert', 'roberta', head='tanh'),
    'xlm-roberta': ModelType('bert', 'xlm-roberta', head='tanh'),
    'encoder-decoder': ModelType('bert'),
    'xlm': ModelType('bert', 'xlm'),
    'deberta-v2': ModelType('bert', 'deberta-v2', head='gelu', types=False),
    'distilbert': ModelType('bert', 'bert', head='relu', types=False),
}


def variant_of(fields: Fields) -> str:
    """The variant of an encoder with these fields, which those of earlier versions do not name.

    Raises:
      UserError: they name one that does not exist.
    """
    of_types = 'roberta' if fields.get('position_offset') else 'bert'
    found = fields.get('variant') or (of_types if fields.get('type_vocab_size', 2) else 'xlm')
    if found not in MODEL_TYPES:
        raise errors.unknown('variant', found, MODEL_TYPES)
    return found
