"""The model families. A model knows arrays and sizes: no loss, optimizer, vocabulary or mesh."""

import dataclasses
import importlib
from typing import TYPE_CHECKING

from xlbench.models.sizes import SIZES
from xlbench.system import errors

if TYPE_CHECKING:  # The names are known without jax.
    import flax.linen as nn

    from xlbench.models.transformer import TransformerConfig

# Family -> (module, class of the config, class of the model).
FAMILIES = {
    't5': ('t5', 'T5Config', 'T5'),
    't5_1_1': ('t5', 'T5Config', 'T5'),
    'mt5': ('t5', 'T5Config', 'T5'),
    'bart': ('bart', 'BartConfig', 'Bart'),
    'mbart': ('bart', 'BartConfig', 'Bart'),
    'pegasus': ('bart', 'BartConfig', 'Bart'),
    'marian': ('bart', 'BartConfig', 'Bart'),
    'marian_ssru': ('bart', 'BartConfig', 'Bart'),
    'mvbart': ('multi_view', 'MultiViewConfig', 'MultiViewBart'),
    'gpt2': ('gpt2', 'Gpt2Config', 'Gpt2'),
    'bert': ('bert', 'BertConfig', 'Bert'),
    'encoder_decoder': ('encoder_decoder', 'EncoderDecoderConfig', 'EncoderDecoder'),
    'dual_encoder': ('dual_encoder', 'DualEncoderConfig', 'DualEncoder'),
    'sequence_classifier': ('heads', 'HeadConfig', 'SequenceClassifier'),
    'token_classifier': ('heads', 'HeadConfig', 'TokenClassifier'),
}


def check_name(family: object, size: object = '') -> None:
    """Raises UserError for a family or a size that does not exist; imports no model."""
    if family not in FAMILIES:
        raise errors.unknown('model family', family, FAMILIES)
    if size and size not in SIZES[family]:
        raise errors.unknown(f'size of {family}', size, SIZES[family])


def config(family: str, size: str = '', **overrides: object) -> 'TransformerConfig':
    """The config of one size with some of its fields replaced; see the family's config class.

    Without a size every field that has no default has to be given.
    """
    check_name(family, size)
    module_name, config_name, _ = FAMILIES[family]
    module = importlib.import_module(f'xlbench.models.{module_name}')
    config_class = getattr(module, config_name)
    fields = [field.name for field in dataclasses.fields(config_class)]
    for name in overrides:
        if name not in fields:
            raise errors.unknown(f'field of the {family} model', name, fields)
    values = {**(SIZES[family][size] if size else {}), **overrides}
    for field in dataclasses.fields(config_class):
        if field.name not in values and field.default is dataclasses.MISSING:
            raise errors.UserError(
                f'a {family} model without a size needs {field.name}; or give one of the sizes '
                f'{", ".join(SIZES[family])}'
            )
    return config_class(**values)


def build(family: str, size: str = '', **overrides: object) -> 'nn.Module':
    """The model of a family and size: build('mt5', 'small', dropout_rate=0.0, dtype='bfloat16')."""
    cfg = config(family, size, **overrides)
    module_name, _, model_name = FAMILIES[family]
    return getattr(importlib.import_module(f'xlbench.models.{module_name}'), model_name)(cfg)
