"""The families of models with their sizes, and the kinds of public checkpoints: rows of a table.

families.toml is the table. No jax is imported here, so that a misspelt name is answered at once. A
variant of BERT is a row of MODEL_TYPES and one of xlbench/huggingface/kinds.toml, where its tensors
have names of their own; its sizes are rows of BERT's.
"""

import dataclasses
import importlib
import pathlib
import tomllib
from typing import TYPE_CHECKING, Any

import msgspec

from xlbench.system import errors

if TYPE_CHECKING:
    import flax.linen as nn

    from xlbench.models.layers import TransformerConfig

Fields = dict[str, Any]  # Of a config.


@dataclasses.dataclass(frozen=True)
class ModelFamily:
    """A family of models.

    Attributes:
      module, config, model: a file in xlbench/models, its class of configs and that of models.
      tensors: the row of xlbench/huggingface/kinds.toml with the names of its tensors; '' where
        there is no public form.
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
    fields: Fields = dataclasses.field(default_factory=dict)
    encoders: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class ModelType:
    """A kind of checkpoint, by the model_type in its config.json.

    Attributes:
      tensors: the row of xlbench/huggingface/kinds.toml with the names of its tensors; of encoders
        that of BERT, which stands for all.
      vocabulary: key of data.vocabularies.FAMILIES; '' is that of the encoder inside.
      head: of an encoder, the activation of the layer that a head over a text has in the place of
        the pooler; '' where it has none.
      types: of an encoder, whether its class in transformers takes types of tokens.
    """

    tensors: str
    vocabulary: str = ''
    head: str = ''
    types: bool = True


# ---------------------------------------------------------------------------------------- the table

_TABLE = tomllib.loads(pathlib.Path(__file__).with_suffix('.toml').read_text('utf-8'))
MODEL_TYPES = msgspec.convert(_TABLE.pop('types'), dict[str, ModelType])


def variant_of(fields: Fields) -> str:
    """The variant of an encoder with these fields, which those of earlier versions do not name.

    Raises:
      UserError: they name one that does not exist.
    """
    of_types = 'roberta' if fields.get('position_offset') else 'bert'
    found = fields.get('variant') or (of_types if fields.get('type_vocab_size', 2) else 'xlm')
    errors.check_known('variant', found, MODEL_TYPES)
    return found


def _sizes(family: str) -> dict[str, Fields]:
    """{name of a size: fields} of a family."""
    row, sizes = _TABLE[family], {}
    for size, given in row['sizes'].items():
        own = dict(given) if isinstance(given, dict) else {'row': given}
        columns = zip(row['columns'], own.pop('row'), strict=True)
        fields = {**row.get('same', {}), **dict(columns), **own}
        if family in ('sequence_classifier', 'token_classifier', 'encoder_decoder'):
            # A head over a text reads the pooler, unless it has a layer of its own.
            pooled = family == 'sequence_classifier' and not MODEL_TYPES[variant_of(fields)].head
            fields['has_pooler'] = pooled
        if family != 'encoder_decoder' or 'relpos_buckets' not in fields:
            sizes[size] = fields
    return sizes


for _row in _TABLE.values():
    if 'like' in _row:
        _row |= _TABLE[_row.pop('like')] | _row
FAMILIES = msgspec.convert(_TABLE, dict[str, ModelFamily])
# SIZES[family][size].
SIZES = {family: _sizes(family) for family in _TABLE}
# Families that are made of encoders; a checkpoint of any of them starts any other.
ENCODERS = tuple(name for name, family in FAMILIES.items() if family.encoders)


# --------------------------------------------------------------------------------------- the models


def check_name(family: str, size: str = '') -> None:
    """Raises UserError for a family or a size that does not exist; imports no model."""
    errors.check_known('model family', family, FAMILIES)
    if size and size not in SIZES[family]:
        raise errors.unknown(f'size of {family}', size, SIZES[family])


def fields_of(family: str, size: str = '') -> Fields:
    """The fields of a config that a family and one of its sizes give."""
    return {**FAMILIES[family].fields, **(SIZES[family][size] if size else {})}


def config(family: str, size: str = '', **overrides: Any) -> 'TransformerConfig':
    """The config of one size with some of its fields replaced; see the family's config class.

    Without a size every field that has no default has to be given.
    """
    check_name(family, size)
    config_class = _class_of(family, 'config')
    fields = [field.name for field in dataclasses.fields(config_class)]
    for name in overrides:
        errors.check_known(f'field of the {family} model', name, fields)
    values = {**fields_of(family, size), **overrides}
    for field in dataclasses.fields(config_class):
        if field.name not in values and field.default is dataclasses.MISSING:
            raise errors.UserError(
                f'a {family} model without a size needs {field.name}; or give one of the sizes '
                f'{", ".join(SIZES[family])}'
            )
    return config_class(**values)


def build(family: str, size: str = '', **overrides: Any) -> 'nn.Module':
    """The model of a family and size: build('mt5', 'small', dropout_rate=0.0, dtype='bfloat16')."""
    return of_config(family, config(family, size, **overrides))


def of_config(family: str, config: 'TransformerConfig') -> 'nn.Module':
    """The model of a family and a config."""
    return _class_of(family, 'model')(config)


def _class_of(family: str, which: str) -> type:
    row = FAMILIES[family]
    return getattr(importlib.import_module(f'xlbench.models.{row.module}'), getattr(row, which))
