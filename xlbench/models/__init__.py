"""The model families. A model knows arrays and sizes: no loss, optimizer, vocabulary or mesh."""

import dataclasses
import importlib
from typing import Any

from xlbench import errors

# Family -> (module with its SIZES[family], class of the config, class of the model).
FAMILIES = {
    't5': ('t5', 'T5Config', 'T5'),
    't5_1_1': ('t5', 'T5Config', 'T5'),
    'mt5': ('t5', 'T5Config', 'T5'),
}


def config(family: str, size: str, **overrides: Any) -> Any:
    """The config of one size with some of its fields replaced; see the family's config class."""
    if family not in FAMILIES:
        raise errors.unknown('model family', family, FAMILIES)
    module_name, config_name, _ = FAMILIES[family]
    module = importlib.import_module(f'xlbench.models.{module_name}')
    if size not in module.SIZES[family]:
        raise errors.unknown(f'size of {family}', size, module.SIZES[family])
    config_class = getattr(module, config_name)
    fields = [field.name for field in dataclasses.fields(config_class)]
    for name in overrides:
        if name not in fields:
            raise errors.unknown(f'field of the {family} model', name, fields)
    return config_class(**{**module.SIZES[family][size], **overrides})


def build(family: str, size: str, **overrides: Any) -> Any:
    """The model of a family and size: build('mt5', 'small', dropout_rate=0.0, dtype='bfloat16')."""
    cfg = config(family, size, **overrides)
    module_name, _, model_name = FAMILIES[family]
    return getattr(importlib.import_module(f'xlbench.models.{module_name}'), model_name)(cfg)
