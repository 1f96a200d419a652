"""Blocks of a config: as plain dicts, and checked by the keys that they may hold."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ml_collections import ConfigDict

from xlbench import errors
from xlbench.config import ranges
from xlbench.config.signatures import Signature
from xlbench.errors import UserError


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
