"""The model families. A model knows arrays and sizes: no loss, optimizer, vocabulary or mesh."""

import dataclasses
import importlib
from typing import TYPE_CHECKING

from xlbench.models.families import ENCODERS, FAMILIES, MODEL_TYPES, SIZES, Fields
from xlbench.system import errors

if TYPE_CHECKING:  # The names are known without jax.
    import flax.linen as nn

    from xlbench.models.transformer import TransformerConfig

__all__ = [
    'ENCODERS', 'FAMILIES', 'MODEL_TYPES', 'SIZES', 'build', 'check_name', 'config', 'fields_of',
    'of_config',
]  # fmt: skip


def check_name(family: object, size: object = '') -> None:
    """Raises UserError for a family or a size that does not exist; imports no model."""
    if family not in FAMILIES:
        raise errors.unknown('model family', family, FAMILIES)
    if size and size not in SIZES[family]:
        raise errors.unknown(f'size of {family}', size, SIZES[family])


def fields_of(family: str, size: str = '') -> Fields:
    """The fields of a config that a family and one of its sizes give."""
    return {**FAMILIES[family].fields, **(SIZES[family][size] if size else {})}


def config(family: str, size: str = '', **overrides: object) -> 'TransformerConfig':
    """The config of one size with some of its fields replaced; see the family's config class.

    Without a size every field that has no default has to be given.
    """
    check_name(family, size)
    config_class = _class_of(family, 'config')
    fields = [field.name for field in dataclasses.fields(config_class)]
    for name in overrides:
        if name not in fields:
            raise errors.unknown(f'field of the {family} model', name, fields)
    values = {**fields_of(family, size), **overrides}
    for field in dataclasses.fields(config_class):
        if field.name not in values and field.default is dataclasses.MISSING:
            raise errors.UserError(
                f'a {family} model without a size needs {field.name}; or give one of the sizes '
                f'{", ".join(SIZES[family])}'
            )
    return config_class(**values)


def build(family: str, size: str = '', **overrides: object) -> 'nn.Module':
    """The model of a family and size: build('mt5', 'small', dropout_rate=0.0, dtype='bfloat16')."""
    return of_config(family, config(family, size, **overrides))


def of_config(family: str, config: 'TransformerConfig') -> 'nn.Module':
    """The model of a family and a config."""
    return _class_of(family, 'model')(config)


def _class_of(family: str, which: str) -> type:
    row = FAMILIES[family]
    return getattr(importlib.import_module(f'xlbench.models.{row.module}'), getattr(row, which))
