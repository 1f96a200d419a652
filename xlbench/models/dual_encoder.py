"""Two encoders whose texts are compared by a product of vectors; or one for both sides.

From states to a vector: the pooler's output, the mean over tokens or the first token's state; then
a projection, then the length 1, where the config has them. What an encoder of sentences was trained
to read before each text, such as `query: ` (arXiv:2402.05672), goes into its rows here.
"""

import dataclasses
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import flax.linen as nn
import jax
import jax.numpy as jnp
from msgspec import Meta

from xlbench.models import bert
from xlbench.models.layers import Dense, unit
from xlbench.system import errors


@dataclasses.dataclass(frozen=True, kw_only=True)
class DualEncoderConfig(bert.BertConfig):
    """Sizes and types of either encoder, and how states become a vector.

    Attributes:
      shared: one encoder, and one projection, for both sides.
      pooling: 'pooler', 'mean' (of the tokens, without padding) or 'first'.
      projection_dim: size of the vector after a layer without bias; 0: no such layer, and emb_dim.
      normalize: whether vectors have the length 1, so that their product is the cosine.
      left_prompt, right_prompt: what stands before each text of a side, in words, to name it.
      left_prefix, right_prefix: its ids, which come behind the token that opens a text.
    """

    shared: bool = True
    pooling: Literal['pooler', 'mean', 'first'] = 'mean'
    projection_dim: Annotated[int, Meta(ge=0, le=2**20)] = 0
    normalize: bool = True
    left_prompt: str = ''
    right_prompt: str = ''
    left_prefix: Sequence[Annotated[int, Meta(ge=0, le=2**28)]] = ()
    right_prefix: Sequence[Annotated[int, Meta(ge=0, le=2**28)]] = ()

    def __post_init__(self):
        super().__post_init__()
        for side in ('left', 'right'):
            prompt, ids = getattr(self, f'{side}_prompt'), getattr(self, f'{side}_prefix')
            if bool(prompt) != bool(ids):
                raise errors.UserError(
                    f'{side}_prompt is {prompt!r} and {side}_prefix {list(ids)}; give '
                    f'config.model.{side}_prompt together with config.model.from, which finds the '
                    'ids of the prefix'
                )
        if self.pooling == 'pooler' and not self.has_pooler:
            raise errors.UserError(
                "pooling='pooler' needs has_pooler=True; otherwise pool by 'mean' or 'first'"
            )


class DualEncoder(nn.Module):
    """Encoders of the left and the right text, for rows that hold one text."""

    config: DualEncoderConfig

    def setup(self):
        cfg = self.config
        for side in ('left',) if cfg.shared else ('left', 'right'):
            setattr(self, side, bert.Bert(cfg))
            if cfg.projection_dim:
                axes, types = ('features', 'embed'), (0, False, cfg.operands, bert.INIT)
                setattr(self, f'{side}_projection', Dense(cfg.projection_dim, axes, *types))

    def __call__(
        self,
        left_encoder_input_tokens: jax.Array,  # [batch, left length]
        right_encoder_input_tokens: jax.Array,  # [batch, right length]
        left_encoder_segment_ids: jax.Array | None = None,  # [batch, left length]; 0 is padding
        right_encoder_segment_ids: jax.Array | None = None,  # [batch, right length]
        *,
        train: bool = False,
    ) -> tuple[jax.Array, jax.Array]:  # [batch, dim] each, float32
        """Both sides' tokens -> their vectors."""
        left = left_encoder_input_tokens, left_encoder_segment_ids
        right = right_encoder_input_tokens, right_encoder_segment_ids
        return self.encode('left', *left, train=train), self.encode('right', *right, train=train)

    def encode(
        self,
        side: str,  # 'left' or 'right'
        tokens: jax.Array,  # [batch, length]
        segment_ids: jax.Array | None = None,  # [batch, length]; 0 is padding
        positions: jax.Array | None = None,  # [batch, length]; None: 0, 1, 2, ...
        type_ids: jax.Array | None = None,  # [batch, length]; None: all 0
        *,
        train: bool = False,
    ) -> jax.Array:  # [batch, dim], float32
        """Tokens of a side's texts -> their vectors."""
        cfg = self.config
        whose = 'left' if cfg.shared else side
        encoder = getattr(self, whose)
        if prefix := getattr(cfg, f'{side}_prefix'):
            tokens, segment_ids, positions, type_ids = _with_prefix(
                prefix, tokens, segment_ids, positions, type_ids
            )
        encoded = encoder(tokens, segment_ids, positions, type_ids, train=train)
        if cfg.pooling == 'pooler':
            x = encoder.pool(encoded).astype(jnp.float32)
        elif cfg.pooling == 'first':
            x = encoded[:, 0].astype(jnp.float32)
        else:
            x = masked_mean(encoded.astype(jnp.float32), segment_ids)
        x = getattr(self, f'{whose}_projection')(x) if cfg.projection_dim else x
        return unit(x) if cfg.normalize else x


def _with_prefix(
    prefix: Sequence[int],
    tokens: jax.Array,  # [batch, length]
    *others: jax.Array | None,  # Segment ids, positions and types, [batch, length] each
) -> tuple[Any, ...]:  # [batch, length + prefix] each, or None
    """Rows with the ids of a prefix behind the first token, of whose segment and type they are."""

    def widened(x: jax.Array, middle: jax.Array, shift: int = 0) -> jax.Array:
        middle = jnp.broadcast_to(middle, (x.shape[0], len(prefix))).astype(x.dtype)
        return jnp.concatenate([x[:, :1], middle, x[:, 1:] + shift], axis=1)

    segment_ids, positions, type_ids = others
    if positions is not None:
        behind = positions[:, :1] + 1 + jnp.arange(len(prefix))
        positions = widened(positions, behind, len(prefix))
    return (
        widened(tokens, jnp.array(prefix)),
        None if segment_ids is None else widened(segment_ids, segment_ids[:, :1]),
        positions,
        None if type_ids is None else widened(type_ids, type_ids[:, :1]),
    )


def masked_mean(
    x: jax.Array,  # [batch, length, features]
    segment_ids: jax.Array | None,  # [batch, length]; 0 is padding
) -> jax.Array:  # [batch, features]
    """Means over the tokens that are not padding; 0 where there is none."""
    if segment_ids is None:
        return jnp.mean(x, axis=1)
    weights = (segment_ids > 0).astype(x.dtype)[..., None]
    return jnp.sum(x * weights, axis=1) / jnp.maximum(jnp.sum(weights, axis=1), 1.0)
