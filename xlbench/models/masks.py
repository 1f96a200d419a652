"""Masks of attention: as an array that is added to logits, or in short form as `MaskSpec`."""

import jax
import jax.numpy as jnp
from flax import struct

from xlbench.models.layers import constrain

# Added to the logits of what a query may not see. Finite, so that a row that sees nothing (padding)
# gives some average and not NaN; far above any real logit in float32.
MASKED = -1e9
# The logit of a key that only fills a block of a kernel: far below MASKED, so that its weight is 0
# even in a row that sees nothing.
ABSENT = -1e30


@struct.dataclass
class MaskSpec:
    """Attention mask without an array [queries, keys], for fused attention.

    Attributes:
      queries: [batch, queries], the segment of each; None with `keys`: all see all.
      keys: [batch, keys]; those of its own segment are seen.
      causal: whether a query sees no key behind its own place.
    """

    queries: jax.Array | None = None
    keys: jax.Array | None = None
    causal: bool = struct.field(pytree_node=False, default=False)


def mask_bias(mask: jax.Array) -> jax.Array:
    """True where a key may be seen -> 0 there and MASKED elsewhere, float32."""
    return jnp.where(mask, 0.0, MASKED)


def same_segment(query_segments: jax.Array, key_segments: jax.Array) -> jax.Array:
    """Segments [batch, queries] and [batch, keys] -> mask [batch, 1, queries, keys]."""
    same = query_segments[:, None, :, None] == key_segments[:, None, None, :]
    return constrain(same, 'batch', None, 'length', None)


def segment_mask(segments: jax.Array | None, fused: bool = False) -> jax.Array | MaskSpec | None:
    """Segments [batch, length] -> what tokens see of their own: [batch, 1, length, length]."""
    if fused:
        return MaskSpec(segments, segments)
    return None if segments is None else mask_bias(same_segment(segments, segments))


def causally_seen(length: int, segments: jax.Array | None) -> jax.Array:
    """True where a token sees itself or an earlier one, [1 or batch, 1, length, length]."""
    position = jnp.arange(length)
    seen = (position[:, None] >= position[None, :])[None, None]
    return seen if segments is None else seen & same_segment(segments, segments)


def causal_mask(
    length: int, segments: jax.Array | None, fused: bool = False
) -> jax.Array | MaskSpec:
    """The mask for tokens that see earlier ones only, [1 or batch, 1, length, length]."""
    if fused:
        return MaskSpec(segments, segments, causal=True)
    return mask_bias(causally_seen(length, segments))


def source_mask(
    segments: jax.Array | None,  # [batch, targets]; None where a row holds one example
    source_segments: jax.Array | None,  # [batch, inputs]
) -> jax.Array | None:  # [batch, 1, 1 or targets, inputs], 0 or MASKED
    """The mask of targets over their source; None where nothing is padding."""
    if source_segments is None:
        return None
    if segments is None:
        return mask_bias((source_segments > 0)[:, None, None, :])
    return mask_bias(same_segment(segments, source_segments))


def seen_source(
    targets: int,
    segments: jax.Array | None,  # [batch, targets]; None where a row holds one example
    source_segments: jax.Array | None,  # [batch, inputs]
) -> MaskSpec:
    """Builds the mask of `source_mask` for fused attention."""
    if source_segments is None:
        return MaskSpec()
    if segments is not None:
        return MaskSpec(segments, source_segments)
    is_there = (source_segments > 0).astype(jnp.int32)
    return MaskSpec(jnp.ones((len(is_there), targets), jnp.int32), is_there)
