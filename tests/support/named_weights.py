"""Weights under the names of transformers, as goldens have them, and parameters of ours."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from flax import traverse_util

from xlbench.huggingface.mapping import Entry


def to_params(entries: Mapping[str, Entry], tensors: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """All tensors by their names -> the tree of parameters they make."""
    flat = {
        path: entry.join([np.asarray(tensors[name]) for name in entry.tensors])
        for path, entry in entries.items()
    }
    return traverse_util.unflatten_dict(flat, sep='/')


def from_params(entries: Mapping[str, Entry], params: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """The inverse of `to_params`; tied tensors appear once."""
    flat = traverse_util.flatten_dict(dict(params), sep='/')
    tensors = {}
    for path, entry in entries.items():
        parts = entry.split(np.asarray(flat[path]))
        tensors |= dict(zip(entry.tensors, parts, strict=True))
    return tensors
