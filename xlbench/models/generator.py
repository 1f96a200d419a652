"""What every encoder-decoder offers to objectives and decoders, whatever its family.

A family's model derives from `Generator`, has a `decoder` with an `init_cache`, and gives `encode`,
`decode`, `output_embedding` and `hidden_step`; the rest follows from them.
"""

from collections.abc import Sequence
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from xlbench.models.attention import Attention, mask_bias, same_segment
from xlbench.models.cpu_kernels import product
from xlbench.models.dense import fan_in_normal

Cache = dict[str, Any]


class Generator(nn.Module):
    """An encoder-decoder over token ids. `config` has emb_dim, num_heads, head_dim, operands."""

    config: Any

    def encode(
        self,
        encoder_input_tokens: jax.Array,  # [batch, inputs]
        encoder_segment_ids: jax.Array | None = None,  # [batch, inputs]; 0 is padding
        encoder_positions: jax.Array | None = None,  # [batch, inputs]; None: 0, 1, 2, ...
        *,
        train: bool = False,
    ) -> jax.Array:  # [batch, inputs, emb_dim]
        """Source tokens -> encoded tokens."""
        raise NotImplementedError

    def decode(
        self,
        encoded: jax.Array,  # [batch, inputs, emb_dim]
        decoder_input_tokens: jax.Array,  # [batch, targets]
        encoder_segment_ids: jax.Array | None = None,  # [batch, inputs]
        decoder_segment_ids: jax.Array | None = None,  # [batch, targets]
        decoder_positions: jax.Array | None = None,  # [batch, targets]
        *,
        train: bool = False,
    ) -> jax.Array:  # [batch, targets, emb_dim]
        """Target tokens -> hidden states, of which `logits` makes the scores of the next tokens."""
        raise NotImplementedError

    def output_embedding(self) -> jax.Array:
        """The table [vocab, emb_dim] that turns hidden states into logits."""
        raise NotImplementedError

    def output_bias(self) -> jax.Array | None:
        """What is added to the logits, [vocab] float32; None in families that add nothing."""
        return None

    def init_cache(
        self,
        encoded: jax.Array,  # [batch, inputs, emb_dim]
        encoder_segment_ids: jax.Array | None,  # [batch, inputs]
        max_length: int,
        beams: int = 1,
    ) -> Cache:
        """What decoding up to max_length tokens carries from step to step; rows hold one example.

        A plain tree. 'self': keys and values of each layer. 'origin' [batch, beams, max_length]:
        for each token of a hypothesis, the beam in whose place its key and value lie. That is all
        that follows when hypotheses change places; keys and values stay where they were written.
        'cross': keys and values of the source, computed here once and shared by the beams;
        'cross_mask' hides its padding. 'index': tokens so far. A family's decoder may add what has
        no rows.

        The rows of a step are batch * beams, the beams of an example side by side.
        """
        return self.decoder.init_cache(encoded, encoder_segment_ids, max_length, beams)

    def hidden_step(self, cache: Cache, tokens: jax.Array) -> tuple[jax.Array, Cache]:
        """Tokens [rows] at the cache's position -> hidden states [rows, emb_dim], and the cache."""
        raise NotImplementedError

    def hidden(
        self,
        encoder_input_tokens: jax.Array,  # [batch, inputs]
        decoder_input_tokens: jax.Array,  # [batch, targets]
        encoder_segment_ids: jax.Array | None = None,
        decoder_segment_ids: jax.Array | None = None,
        encoder_positions: jax.Array | None = None,
        decoder_positions: jax.Array | None = None,
        *,
        train: bool = False,
    ) -> jax.Array:  # [batch, targets, emb_dim]
        """Encode and decode."""
        encoded = self.encode(
            encoder_input_tokens, encoder_segment_ids, encoder_positions, train=train
        )
        return self.decode(
            encoded,
            decoder_input_tokens,
            encoder_segment_ids,
            decoder_segment_ids,
            decoder_positions,
            train=train,
        )

    def __call__(self, *tokens_and_segments, train: bool = False, **named) -> jax.Array:
        """Takes what `hidden` takes -> logits [batch, targets, vocab], float32. For small uses."""
        return self.logits(self.hidden(*tokens_and_segments, train=train, **named))

    def decode_step(self, cache: Cache, tokens: jax.Array) -> tuple[jax.Array, Cache]:
        """Tokens [rows] at the cache's position -> logits [rows, vocab], float32, and the cache."""
        hidden, cache = self.hidden_step(cache, tokens)
        return self.logits(hidden), cache

    def logits(self, hidden: jax.Array) -> jax.Array:
        """Hidden states [..., emb_dim] -> logits [..., vocab], float32."""
        table, bias = self.output_embedding(), self.output_bias()
        logits = product(hidden.astype(jnp.float32), table, self.config.operands)
        if bias is not None:
            logits = logits + bias
        axes = ('batch', *(['length'] if hidden.ndim == 3 else []), 'vocab')
        return nn.with_logical_constraint(logits, axes)


class OutputEmbedding(nn.Module):
    """An output table of its own, [vocab, embed] like the input table."""

    size: int
    features: int

    def setup(self):
        """Makes the parts."""
        init = nn.with_logical_partitioning(fan_in_normal(), ('vocab', 'embed'))
        self.kernel = self.param('kernel', init, (self.size, self.features), jnp.float32)

    def __call__(self) -> jax.Array:
        """The table [vocab, embed]."""
        return self.kernel


def decoder_masks(
    length: int,
    segments: jax.Array | None,  # [batch, targets]
    encoder_segments: jax.Array | None,  # [batch, inputs]
) -> tuple[jax.Array, jax.Array | None]:
    """What the targets of a whole pass may see: of themselves, and of the source.

    Returns:
      mask [1 or batch, 1, targets, targets], 0 where earlier and of the same segment; cross_mask
      [batch, 1, 1 or targets, inputs], None where nothing is padding.
    """
    position = jnp.arange(length)
    seen = (position[:, None] >= position[None, :])[None, None]
    cross_mask = None
    if segments is not None:
        seen = seen & same_segment(segments, segments)
        if encoder_segments is not None:
            cross_mask = mask_bias(same_segment(segments, encoder_segments))
    elif encoder_segments is not None:
        cross_mask = mask_bias((encoder_segments > 0)[:, None, None, :])
    return mask_bias(seen), cross_mask


def empty_cache(
    encoded: jax.Array,  # [batch, inputs, emb_dim]
    encoder_segments: jax.Array | None,  # [batch, inputs]
    cross_attentions: Sequence[Attention],
    max_length: int,
    beams: int,
) -> Cache:
    """The parts that every family's cache has; see Generator.init_cache.

    A layer's part of 'self' is {'key': [batch, heads, head_dim, places], 'value': [batch, heads,
    places, head_dim]}, where token t of beam j has place t * beams + j; of 'cross' it is {'key':
    [batch, heads, head_dim, inputs], 'value': [batch, heads, inputs, head_dim]}.

    Args:
      encoded: the encoder's output.
      encoder_segments: 0 is padding; None where every position holds a token.
      cross_attentions: the bound attention over the source of each decoder layer.
      max_length: tokens that will be made at most.
      beams: hypotheses of each example.
    """
    sources = []
    for attention in cross_attentions:
        key, value = attention.keys_values(encoded)
        sources.append({'key': jnp.swapaxes(key, 2, 3), 'value': value})
    heads, head_dim = cross_attentions[0].num_heads, cross_attentions[0].head_dim
    batch = encoded.shape[0]
    empty = {
        'key': jnp.zeros((batch, heads, head_dim, max_length * beams), encoded.dtype),
        'value': jnp.zeros((batch, heads, max_length * beams, head_dim), encoded.dtype),
    }
    cross_mask = None
    if encoder_segments is not None:
        cross_mask = mask_bias((encoder_segments > 0)[:, None, None, :])
    return {
        'index': jnp.zeros((), jnp.int32),
        'origin': jnp.zeros((batch, beams, max_length), jnp.int32),
        'self': [empty for _ in cross_attentions],
        'cross': sources,
        'cross_mask': cross_mask,
    }


def next_token(cache: Cache) -> tuple[Cache, jax.Array]:
    """What the layers of a step need to know of the past.

    Returns:
      The cache, in which the new token of each hypothesis lies in its own place, one token longer.
      The mask [batch, 1, beams, max_length * beams], 0 where a hypothesis has a token of its own.
    """
    index, origin = cache['index'], cache['origin']
    _, beams, max_length = origin.shape
    beam, position = jnp.arange(beams), jnp.arange(max_length)
    origin = jnp.where(position == index, beam[:, None], origin)
    own = (origin[..., None] == beam) & (position <= index)[:, None]
    mask = mask_bias(own.reshape(len(origin), 1, beams, max_length * beams))
    return {**cache, 'index': index + 1, 'origin': origin}, mask
