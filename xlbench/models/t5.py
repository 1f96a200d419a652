"""T5 (arXiv:1910.10683), T5 1.1, mT5 (arXiv:2010.11934) and umT5 (arXiv:2304.09151).

The variants differ in fields of the config: T5's MLP is ReLU and its output embedding is the input
table scaled by emb_dim^-0.5; T5 1.1 and mT5 gate a GELU and keep an output table of their own; in
umT5 each layer has its own bias of positions. mT0 (arXiv:2211.01786) is an mT5, and ByT5
(arXiv:2105.13626) a T5 1.1 over bytes. Positions are relative and taken from the row index: that is
right for packed rows too, because the tokens of an example are contiguous.
"""

import dataclasses
from collections.abc import Sequence
from typing import Annotated, ClassVar

import jax
import jax.numpy as jnp
from jax import lax
from msgspec import Meta

from xlbench.models import generator, transformer
from xlbench.models.attention import Attention
from xlbench.models.layers import Embedding, Mlp, OutputEmbedding, RMSNorm, TransformerConfig
from xlbench.models.masks import MaskSpec
from xlbench.models.positions import RelativePositions


@dataclasses.dataclass(frozen=True, kw_only=True)
class T5Config(TransformerConfig):
    """Sizes and types of one model; `dropout_rate` is also that within attention and MLP.

    Attributes:
      num_encoder_layers: layers of the encoder.
      num_decoder_layers: layers of the decoder.
      gated_mlp: gated GELU (T5 1.1, mT5) in place of ReLU (T5).
      tied_embeddings: whether the input table also gives the logits (T5).
      relpos_buckets: groups of distances that share a bias.
      relpos_max_distance: from which on all distances are in one group.
      relpos_each_layer: whether each layer has a bias of its own (umT5), in place of one for all.
    """

    num_encoder_layers: Annotated[int, Meta(ge=1, le=2**8)]
    num_decoder_layers: Annotated[int, Meta(ge=1, le=2**8)]
    gated_mlp: bool
    tied_embeddings: bool
    relpos_buckets: Annotated[int, Meta(ge=2, le=2**20)] = 32
    relpos_max_distance: Annotated[int, Meta(ge=1, le=2**30)] = 128
    relpos_each_layer: bool = False

    def norm(self) -> RMSNorm:
        return RMSNorm()


# ---------------------------------------------------------------------------------------- the model


def relative_positions(cfg: T5Config, bidirectional: bool) -> RelativePositions:
    """The bias of each difference of positions."""
    return RelativePositions(
        cfg.num_heads, cfg.relpos_buckets, cfg.relpos_max_distance, bidirectional
    )


class Layer(transformer.Layer):
    """Every part reads a normed input and is added to the residual."""

    config: T5Config
    pre_norm = True
    bidirectional: ClassVar[bool]

    def setup(self):
        super().setup()
        if self.config.relpos_each_layer:
            self.relpos_bias = relative_positions(self.config, self.bidirectional)

    def __call__(self, x, encoded, bias, mask, cross_mask, train: bool) -> jax.Array:
        if self.config.relpos_each_layer:
            bias = of_whole_texts(self.relpos_bias, x.shape[1], isinstance(mask, MaskSpec))
        return super().__call__(x, encoded, bias, mask, cross_mask, train)

    def _attention(self, kind: type[Attention]) -> Attention:
        return kind(self.config, dropout_rate=self.config.dropout_rate)

    def _mlp(self) -> Mlp:
        gated, rate = self.config.gated_mlp, self.config.dropout_rate
        activation = 'gelu_tanh' if gated else 'relu'
        return Mlp(self.config, activation, gated, dropout_rate=rate)


def of_whole_texts(positions: RelativePositions, length: int, fused: bool) -> jax.Array:
    """The bias as `Stack.bias` gives it."""
    return positions.by_difference(length, length) if fused else positions(length, length)


class EncoderLayer(Layer):
    """Self-attention and MLP."""

    names = (('attention', 'pre_attention_layer_norm'), ('mlp', 'pre_mlp_layer_norm'))
    bidirectional = True


class DecoderLayer(Layer):
    """Causal self-attention, attention over the encoded source, MLP."""

    names = (
        ('self_attention', 'pre_self_attention_layer_norm'),
        ('encoder_decoder_attention', 'pre_cross_attention_layer_norm'),
        ('mlp', 'pre_mlp_layer_norm'),
    )
    bidirectional = False


class Stack(transformer.Stack):
    """Dropout at both ends, a norm at the top; relative positions serve all layers."""

    config: T5Config
    token_embedder: Embedding
    layer: ClassVar[type[Layer]]

    def setup(self):
        super().setup()
        if not self.config.relpos_each_layer:
            self.relpos_bias = relative_positions(self.config, self.layer.bidirectional)

    def bias(self, length: int, fused: bool) -> jax.Array | None:
        if self.config.relpos_each_layer:
            return None
        return of_whole_texts(self.relpos_bias, length, fused)

    def embed(self, tokens: jax.Array, positions: jax.Array | None, train: bool) -> jax.Array:
        """Tokens [batch, length] -> [batch, length, emb_dim]; positions are those of the row."""
        del positions
        return self.dropout(self.token_embedder(tokens), train)

    def normalize(self, x: jax.Array, train: bool) -> jax.Array:
        return self.dropout(super().normalize(x, train), train)


class Encoder(Stack, transformer.Encoder):
    """The stack of encoder layers."""

    layer, depth, norm_name = EncoderLayer, 'num_encoder_layers', 'encoder_norm'


class Decoder(Stack, transformer.Decoder):
    """The stack of decoder layers."""

    layer, depth, norm_name = DecoderLayer, 'num_decoder_layers', 'decoder_norm'

    def position_cache(self, max_length: int) -> jax.Array:
        """The bias of every difference of positions, [1 or layers, heads, 2 * max_length]."""
        own = self.layers if self.config.relpos_each_layer else [self]
        return jnp.stack([x.relpos_bias.by_difference(max_length, max_length) for x in own])

    def bias_step(self, cache: transformer.Cache) -> Sequence[jax.Array]:
        """The row of this query in the bias that `skew` would build, for the places of each beam.

        [1, heads, 1, places] for each layer.
        """
        _, beams, room = cache['origin'].shape
        max_length = cache['positions'].shape[2] // 2  # Of the text, which the cache may grow to.
        start = max_length - 1 - cache['index']
        bias = lax.dynamic_slice_in_dim(cache['positions'], start, room, axis=2)
        bias = jnp.repeat(bias, beams, axis=2)[:, None, :, None]
        return [bias[i] for i in range(len(bias))] * (len(self.layers) // len(bias))


class T5(generator.Generator):
    """Encoder-decoder over token ids; see the module's docstring for the variants."""

    config: T5Config

    def setup(self):
        cfg = self.config
        self.token_embedder = Embedding(cfg.vocab_size, cfg.emb_dim, cfg.dtype)
        self.encoder = Encoder(cfg, self.token_embedder)
        self.decoder = Decoder(cfg, self.token_embedder)
        if not cfg.tied_embeddings:
            self.logits_dense = OutputEmbedding(cfg.vocab_size, cfg.emb_dim)

    def head(self, states: jax.Array) -> jax.Array:
        """Scaled where one table serves the input, at scale 1, and the logits, at emb_dim^-0.5."""
        return states * self.config.emb_dim**-0.5 if self.config.tied_embeddings else states

    def output_embedding(self) -> jax.Array:
        if self.config.tied_embeddings:
            return self.token_embedder.embedding
        return self.logits_dense()
