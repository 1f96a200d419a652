"""What every encoder-decoder offers to objectives and decoders, whatever its family.

A family's model derives from `Generator` and gives `encode`, `decode`, `output_embedding`,
`init_cache` and `hidden_step`; the rest follows from them.
"""

from collections.abc import Sequence
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from xlbench.models import layers

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

        A plain tree. 'self': keys and values [rows, heads, max_length, head_dim] of each layer,
        rows = batch * beams with the beams of an example side by side; the only part that grows,
        and the only one that must follow when hypotheses change places. 'cross': keys and values
        [batch, heads, inputs, head_dim] of the source, computed here once and shared by the beams;
        'cross_mask' hides its padding. 'index': tokens so far. A family may add what has no rows.
        """
        raise NotImplementedError

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
        logits = layers.product(hidden.astype(jnp.float32), table, self.config.operands)
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
        init = nn.with_logical_partitioning(layers.fan_in_normal(), ('vocab', 'embed'))
        self.kernel = self.param('kernel', init, (self.size, self.features), jnp.float32)

    def __call__(self) -> jax.Array:
        """The table [vocab, embed]."""
        return self.kernel


def empty_cache(
    encoded: jax.Array,  # [batch, inputs, emb_dim]
    encoder_segments: jax.Array | None,  # [batch, inputs]
    cross_attentions: Sequence[layers.Attention],
    max_length: int,
    beams: int,
) -> Cache:
    """The parts that every family's cache has; see Generator.init_cache.

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
        sources.append({'key': key, 'value': value})
    heads, head_dim = cross_attentions[0].num_heads, cross_attentions[0].head_dim
    empty = jnp.zeros((encoded.shape[0] * beams, heads, max_length, head_dim), encoded.dtype)
    cross_mask = None
    if encoder_segments is not None:
        cross_mask = layers.mask_bias((encoder_segments > 0)[:, None, None, :])
    return {
        'index': jnp.zeros((), jnp.int32),
        'self': [{'key': empty, 'value': empty} for _ in cross_attentions],
        'cross': sources,
        'cross_mask': cross_mask,
    }
