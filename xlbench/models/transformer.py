"""What the families share: checks of their configs and recomputation of layers."""

from typing import Any

import flax.linen as nn
import jax

from xlbench.config import ranges
from xlbench.errors import UserError
from xlbench.models.dense import KEPT

REMAT = {
    'full': jax.checkpoint_policies.nothing_saveable,
    # By name: a policy that looks for products does not see into one with a gradient of its own.
    'dots': jax.checkpoint_policies.save_only_these_names(KEPT),
}


def check_config(config: Any) -> None:
    """Raises UserError for a model config with an impossible type, remat, size or rate."""
    allowed = ('float32', 'bfloat16')
    for name in ('dtype', 'matmul_dtype'):
        if getattr(config, name) not in (*allowed, *([None] if name == 'matmul_dtype' else [])):
            raise UserError(f'{name}={getattr(config, name)!r}; allowed: {", ".join(allowed)}')
    if config.remat not in ('none', *REMAT):
        raise UserError(f'remat={config.remat!r}; allowed: none, {", ".join(REMAT)}')
    ranges.check_own(type(config), vars(config))


def checkpointed(layer: type[nn.Module], remat: str, train_argument: int) -> type[nn.Module]:
    """The layer, recomputed in the backward pass as `remat` says ('none', 'dots', 'full').

    Args:
      layer: called with positional arguments only.
      remat: 'none' keeps everything, 'dots' recomputes all but products, 'full' everything.
      train_argument: which argument of the call (self is 0) is the Python bool `train`.
    """
    if remat == 'none':
        return layer
    return nn.remat(layer, policy=REMAT[remat], prevent_cse=True, static_argnums=(train_argument,))
