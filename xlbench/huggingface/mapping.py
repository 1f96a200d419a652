"""Our parameters and the tensors of a Hugging Face checkpoint: one table, read in both directions.

Each family's file beside this one has

  names(family, config)           for a model config, in which tensors every parameter lies
  from_config(config)             the content of a config.json -> arguments of models.build
  to_config(family, config, ids)  its inverse, with the ids and labels that are known
  rename(name)                    where versions differ: a stored tensor's name as `names` spells it
  IGNORED                         patterns of tensors that the model has no place for

and raises UserError where a key is missing, where a value is one that the model does not have, and
where transformers has no such model. Example:

  names(family, config)['encoder/layers_0/attention/qkv/kernel']
    -> Entry(('encoder.block.0.layer.0.SelfAttention.q.weight', '...k.weight', '...v.weight'))

Arrays pass through unchanged but for stacking and transposing, so a round trip is bit-exact.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import TypedDict

import numpy as np

from xlbench.models.families import MODEL_TYPES, Fields
from xlbench.system import errors
from xlbench.system.files import Json


@dataclasses.dataclass(frozen=True)
class Entry:
    """The place of one of our parameters in a Hugging Face checkpoint.

    Attributes:
      tensors: their names; several are stacked along a new leading axis.
      form: 'same'; 'transposed' (theirs is the transpose); 'row' (theirs is [1, n], ours [n]);
        'joined' (theirs is the transpose of the query, key and value of ours, side by side).
      tied: further names under which the same tensor may be stored again.
      default: what fills the parameter where the file lacks it; None: it may not lack it.
    """

    tensors: tuple[str, ...]
    form: str = 'same'
    tied: tuple[str, ...] = ()
    default: float | None = None

    def join(self, parts: list[np.ndarray]) -> np.ndarray:
        """The tensors, in order -> our parameter."""
        value = np.stack(parts) if len(self.tensors) > 1 else parts[0]
        if self.form in ('transposed', 'joined'):
            value = np.ascontiguousarray(value.T)
            return value.reshape(3, -1, *value.shape[1:]) if self.form == 'joined' else value
        return value.reshape(value.shape[1:]) if self.form == 'row' else value

    def split(self, value: np.ndarray) -> list[np.ndarray]:
        """Our parameter -> the tensors, in order."""
        if self.form == 'joined':
            value = value.reshape(-1, *value.shape[2:])
        if self.form in ('transposed', 'joined'):
            value = np.ascontiguousarray(value.T)
        elif self.form == 'row':
            value = value[None]
        return list(value) if len(self.tensors) > 1 else [value]


def dense(ours: str, *theirs: str) -> dict[str, Entry]:
    """Kernel and bias of one of our layers; of several of theirs, they are stacked."""
    leaves = {'kernel': 'weight', 'bias': 'bias'}
    return {f'{ours}/{a}': Entry(tuple(f'{x}.{b}' for x in theirs)) for a, b in leaves.items()}


def norm(ours: str, theirs: str) -> dict[str, Entry]:
    """Scale and bias of a layer norm."""
    leaves = {'scale': 'weight', 'bias': 'bias'}
    return {f'{ours}/{a}': Entry((f'{theirs}.{b}',)) for a, b in leaves.items()}


def table(parts: Mapping[str, str], ours: str = '', theirs: str = '') -> dict[str, Entry]:
    """Layers, norms and tables: what a part of ours is, the end of its name says.

    Args:
      parts: names of ours -> theirs; several layers of theirs, with spaces between, are stacked.
      ours, theirs: stand before the names.
    """
    found: dict[str, Entry] = {}
    for part, names in parts.items():
        tensors = [theirs + name for name in names.split()]
        if part.endswith('embedder'):
            found[f'{ours}{part}/embedding'] = Entry((f'{tensors[0]}.weight',))
        else:
            found |= (norm if part.endswith('norm') else dense)(ours + part, *tensors)
    return found


class Special(TypedDict, total=False):
    """The keys of config.json that come from a vocabulary, and the names of labels."""

    pad_id: int
    eos_id: int
    bos_id: int | None
    decoder_start_id: int | None
    forced_bos_id: int | None
    forced_eos_id: int | None
    labels: Sequence[str]
    model_type: str  # 'roberta', where it is that and no XLM-R.


def file_of(model_type: str) -> ModuleType:
    """The file beside this one for a model_type of config.json.

    Raises:
      UserError: there is none.
    """
    if model_type not in MODEL_TYPES:
        raise errors.unknown('model_type in config.json', model_type, MODEL_TYPES)
    return importlib.import_module(f'xlbench.huggingface.{MODEL_TYPES[model_type].tensors}')


def fields(config: Mapping[str, Json]) -> Fields:
    """The content of a config.json -> arguments of models.build, for whichever family."""
    return file_of(config['model_type']).from_config(config)
