"""Masks of attention: in short form, from which a fused kernel masks, and as arrays for logits."""

from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
from flax import struct

from xlbench.models.layers import constrain

Bias: TypeAlias = Any  # Of positions on logits: an array, None, or what else a family reads.

# Added to the logits of what a query may not see. Finite, so that a row that sees nothing (padding)
# gives some average and not NaN; far above any real logit in float32.
MASKED = -1e9
# The logit of a key that only fills a block of a kernel: far below MASKED, so that its weight is 0
# even in a row that sees nothing.
ABSENT = -1e30


def mask_bias(mask: jax.Array) -> jax.Array:
    """True where a key may be seen -> 0 there and MASKED elsewhere, float32."""
    return jnp.where(mask, 0.0, MASKED)


@struct.dataclass
class MaskSpec:
    """Attention mask without an array [queries, keys].

    Attributes:
      queries: [batch, queries], the segment of each, which sees the keys of the same one; None
        where a row holds one example, and every query sees all keys that are no padding.
      keys: [batch, keys], their segments, 0 for padding; None: all are seen.
      causal: whether a query sees no key behind its own place.
    """

    queries: jax.Array | None = None
    keys: jax.Array | None = None
    causal: bool = struct.field(pytree_node=False, default=False)

    def seen(self, length: int) -> jax.Array | None:
        """True where a query sees a key, [1 or batch, 1, 1 or length, keys]; None: everywhere.

        `length` is that of queries and keys in a causal mask.
        """
        seen = None
        if self.causal:
            position = jnp.arange(length)
            seen = (position[:, None] >= position[None, :])[None, None]
        if self.keys is None:
            return seen
        if self.queries is None:
            own = (self.keys > 0)[:, None, None, :]
        else:
            own = self.queries[:, None, :, None] == self.keys[:, None, None, :]
            own = constrain(own, 'batch', None, 'length', None)
        return own if seen is None else seen & own

    def array(self, length: int) -> jax.Array | None:
        """The same as `seen`, 0 where a key is seen and MASKED elsewhere, float32."""
        seen = self.seen(length)
        return None if seen is None else mask_bias(seen)

    def segments(self, length: int) -> tuple[jax.Array, jax.Array] | tuple[None, None]:
        """Segments of queries [batch, length] and of keys, as kernels read them; None: no mask."""
        if self.keys is None:
            return None, None
        if self.queries is None:
            is_there = (self.keys > 0).astype(jnp.int32)
            return jnp.ones((len(is_there), length), jnp.int32), is_there
        return self.queries, self.keys
