"""Our parameters and the tensors of a Hugging Face checkpoint: one table, read in both directions.

Each family's file beside this one says, for a model config, in which tensors every parameter lies:

  names(family, config)['encoder/layers_0/attention/qkv/kernel']
    -> Entry(('encoder.block.0.layer.0.SelfAttention.q.weight', '...k.weight', '...v.weight'))

Arrays pass through unchanged but for stacking and transposing, so a round trip is bit-exact.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
from flax import traverse_util

from xlbench.errors import UserError


@dataclasses.dataclass(frozen=True)
class Entry:
    """Where one of our parameters lies in a Hugging Face checkpoint.

    Attributes:
      tensors: their names; several are stacked along a new leading axis.
      form: 'same'; 'transposed' (theirs is the transpose); 'row' (theirs is [1, n], ours [n]).
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
        if self.form == 'transposed':
            return np.ascontiguousarray(value.T)
        return value.reshape(value.shape[1:]) if self.form == 'row' else value

    def split(self, value: np.ndarray) -> list[np.ndarray]:
        """Our parameter -> the tensors, in order."""
        if self.form == 'transposed':
            value = np.ascontiguousarray(value.T)
        elif self.form == 'row':
            value = value[None]
        return list(value) if len(self.tensors) > 1 else [value]


def to_params(entries: Mapping[str, Entry], tensors: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """All tensors by their names -> the tree of parameters they make.

    Raises:
      UserError: a tensor is missing.
    """
    flat = {}
    for path, entry in entries.items():
        missing = [name for name in entry.tensors if name not in tensors]
        if missing:
            raise UserError(f'the checkpoint lacks {missing[0]}; check model family and size')
        flat[path] = entry.join([np.asarray(tensors[name]) for name in entry.tensors])
    return traverse_util.unflatten_dict(flat, sep='/')


def from_params(entries: Mapping[str, Entry], params: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """The inverse of `to_params`; tied tensors appear once."""
    flat = traverse_util.flatten_dict(dict(params), sep='/')
    tensors = {}
    for path, entry in entries.items():
        parts = entry.split(np.asarray(flat[path]))
        tensors |= dict(zip(entry.tensors, parts, strict=True))
    return tensors
