"""Blocks of a config: as plain dicts, and checked by the keys that they may hold."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ml_collections import ConfigDict

from xlbench import errors
from xlbench.config import ranges
from xlbench.config.signatures import Signature
from xlbench.errors import UserError


def defaults() -> ConfigDict:
    """What a run's config holds unless its file says otherwise.

    A file adds data, model, objective, batches, stages and evals, and says what differs.
    """
    c = ConfigDict()
    c.seed = 0
    c.init_from = ''  # Fresh parameters; else a workdir, a folder or a name of the hub.
    c.lora = dict(rank=0, alpha=16.0)  # A rank above 0 trains LoRA's matrices only.
    c.trainable = ('.*',)  # Patterns of names of parameters; all others stay as they are.
    c.mesh = dict(data=-1, fsdp=1, tensor=1, sequence=1, replica=1)  # -1 takes what is left.
    c.accumulate = 1  # Parts of a batch whose gradients are summed.
    c.nonfinite = dict(skip=0)  # So many steps without a finite loss are left out.
    c.best = dict(score='', mode='max', patience=0)  # EVAL/TASK/SCORE; '' takes the last step.
    c.checkpoints = dict(every=1000, keep=2)
    c.log_every = 100
    c.baselines = ()
    c.baseline_split = 'train'
    return c


def to_dict(config: ConfigDict) -> dict[str, Any]:
    """Plain dicts, lists and scalars."""
    return json.loads(json.dumps(config.to_dict()))


def check_arguments(signature: Signature, block: Mapping[str, Any], name: str) -> None:
    """Raises UserError for a key or value that `signature` does not take, or a key it needs."""
    for key in block:
        if key not in signature.types and not signature.open_ended:
            raise errors.unknown(f'key in {name}', key, signature.types)
    for key in signature.types:
        if key in signature.needed and key not in block:
            raise UserError(f'{name} lacks {key!r}, which {signature.name} needs')
    ranges.check_arguments(signature, block, name)


def check_keys(block: Mapping[str, Any], allowed: Sequence[str], name: str) -> None:
    """Raises UserError for a key that is not allowed, or one of `allowed` that is missing."""
    for key in block:
        if key not in allowed:
            raise errors.unknown(f'key in {name}', key, allowed)
    for key in allowed:
        if key not in block:
            raise UserError(f'{name} lacks {key!r}; it holds {", ".join(allowed)}')
