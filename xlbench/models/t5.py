"""T5 (arXiv:1910.10683), T5 1.1 and mT5 (arXiv:2010.11934): one encoder-decoder, three variants.

The variants differ in two fields of the config: T5's MLP is ReLU and its output embedding is the
input table scaled by emb_dim^-0.5; T5 1.1 and mT5 gate a GELU and keep an output table of their
own. Positions are relative and taken from the row index: that is right for packed rows too,
because the tokens of an example are contiguous. Segment 0 is padding; without segments every token
is seen.
"""

import dataclasses
from typing import Annotated, Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax import lax

from xlbench.models import generator
from xlbench.models.attention import Attention, mask_bias, same_segment
from xlbench.models.dense import Dropout, Mlp, positions_shared
from xlbench.models.embeddings import Embedding
from xlbench.models.norms import RMSNorm
from xlbench.models.placement import place
from xlbench.models.positions import RelativePositions
from xlbench.models.transformer import check_config, checkpointed


@dataclasses.dataclass(frozen=True)
class T5Config:
    """Sizes and types of one model.

    Attributes:
      vocab_size: rows of the embedding tables.
      gated_mlp: gated GELU (T5 1.1, mT5) in place of ReLU (T5).
      tied_embeddings: whether the input table also gives the logits (T5).
      dropout_rate: on embeddings, attention weights, MLP hidden units, residuals, stack outputs.
      shared_dropout: one mask for all positions of a row, as T5X does (and cheaper); False draws
        one per position, as transformers does.
      dtype: type of activations.
      matmul_dtype: type of the operands of products with parameters; None means `dtype`.
      remat: what is recomputed in the backward pass: 'none', 'dots' (all but products), 'full'.
    """

    vocab_size: Annotated[int, '0 to 2**26']
    emb_dim: Annotated[int, '1 to 2**20']
    num_heads: Annotated[int, '1 to 2**20']
    head_dim: Annotated[int, '1 to 2**20']
    mlp_dim: Annotated[int, '1 to 2**20']
    num_encoder_layers: Annotated[int, '1 to 2**8']
    num_decoder_layers: Annotated[int, '1 to 2**8']
    gated_mlp: bool
    tied_embeddings: bool
    relpos_buckets: Annotated[int, '2 to 2**20'] = 32
    relpos_max_distance: Annotated[int, '1 to 2**30'] = 128
    dropout_rate: Annotated[float, '0 or more, below 1'] = 0.1
    shared_dropout: bool = True
    dtype: str = 'float32'
    matmul_dtype: str | None = None
    remat: str = 'none'

    def __post_init__(self):
        check_config(self)

    @property
    def operands(self) -> str:
        """The type of the operands of products with parameters."""
        return self.matmul_dtype or self.dtype


def _sizes(*rows: tuple, **variant) -> dict[str, dict[str, Any]]:
    fields = ('emb_dim', 'num_heads', 'head_dim', 'mlp_dim', 'num_encoder_layers')
    table = {}
    for name, *numbers in rows:
        row = dict(zip(fields, numbers, strict=True)) | variant
        table[name] = row | {'num_decoder_layers': row['num_encoder_layers']}
    return table


_SAMPLE = ('sample', 128, 4, 32, 256, 2)  # Ours: learns the sample corpora in minutes on a CPU.
# T5 1.1: huggingface.co/google/t5-v1_1-{small,...,xxl} config.json; mT5 has the same (its table 1).
_V1_1 = (
    _SAMPLE,
    ('small', 512, 6, 64, 1024, 8),
    ('base', 768, 12, 64, 2048, 12),
    ('large', 1024, 16, 64, 2816, 24),
    ('xl', 2048, 32, 64, 5120, 24),
    ('xxl', 4096, 64, 64, 10240, 24),
)
# SIZES[family][size]: emb_dim, num_heads, head_dim, mlp_dim, layers of either stack.
SIZES = {
    # arXiv:1910.10683 section 3.6; huggingface.co/google-t5/t5-{small,...,11b} config.json.
    't5': _sizes(
        _SAMPLE,
        ('small', 512, 8, 64, 2048, 6),
        ('base', 768, 12, 64, 3072, 12),
        ('large', 1024, 16, 64, 4096, 24),
        ('3b', 1024, 32, 128, 16384, 24),
        ('11b', 1024, 128, 128, 65536, 24),
        vocab_size=32128,
        gated_mlp=False,
        tied_embeddings=True,
    ),
    't5_1_1': _sizes(*_V1_1, vocab_size=32128, gated_mlp=True, tied_embeddings=False),
    # arXiv:2010.11934; huggingface.co/google/mt5-{small,...,xxl} config.json.
    'mt5': _sizes(*_V1_1, vocab_size=250112, gated_mlp=True, tied_embeddings=False),
}


# ---------------------------------------------------------------------------------------- the model


def _attention(cfg: T5Config, cross: bool = False) -> Attention:
    return Attention(
        num_heads=cfg.num_heads,
        head_dim=cfg.head_dim,
        out_features=cfg.emb_dim,
        cross=cross,
        dropout_rate=cfg.dropout_rate,
        shared_dropout=cfg.shared_dropout,
        matmul_dtype=cfg.operands,
    )


def _mlp(cfg: T5Config) -> Mlp:
    return Mlp(
        features=cfg.mlp_dim,
        activation='gelu_tanh' if cfg.gated_mlp else 'relu',
        gated=cfg.gated_mlp,
        dropout_rate=cfg.dropout_rate,
        shared_dropout=cfg.shared_dropout,
        matmul_dtype=cfg.operands,
    )


def _dropout(cfg: T5Config) -> Dropout:
    return Dropout(cfg.dropout_rate, positions_shared(cfg.shared_dropout))


def _relative_positions(cfg: T5Config, bidirectional: bool) -> RelativePositions:
    return RelativePositions(
        num_heads=cfg.num_heads,
        num_buckets=cfg.relpos_buckets,
        max_distance=cfg.relpos_max_distance,
        bidirectional=bidirectional,
    )


class EncoderLayer(nn.Module):
    """Self-attention and MLP, each on a normed input and added to the residual."""

    config: T5Config

    def setup(self):
        """Makes the parts."""
        cfg = self.config
        self.pre_attention_layer_norm = RMSNorm()
        self.attention = _attention(cfg)
        self.pre_mlp_layer_norm = RMSNorm()
        self.mlp = _mlp(cfg)
        self.dropout = _dropout(cfg)

    def __call__(
        self,
        x: jax.Array,  # [batch, length, emb_dim]
        bias: jax.Array,  # [1, heads, length, length], relative positions
        mask: jax.Array | None,  # [batch, 1, length, length], 0 or MASKED
        train: bool,
    ) -> jax.Array:  # [batch, length, emb_dim]
        """One layer of the encoder."""
        x = place(x)
        y = self.attention(self.pre_attention_layer_norm(x), bias=bias, mask=mask, train=train)
        x = x + self.dropout(y, train)
        y = self.mlp(self.pre_mlp_layer_norm(x), train)
        return x + self.dropout(y, train)


class DecoderLayer(nn.Module):
    """Causal self-attention, attention over the encoded source, MLP."""

    config: T5Config

    def setup(self):
        """Makes the parts."""
        cfg = self.config
        self.pre_self_attention_layer_norm = RMSNorm()
        self.self_attention = _attention(cfg)
        self.pre_cross_attention_layer_norm = RMSNorm()
        self.encoder_decoder_attention = _attention(cfg, cross=True)
        self.pre_mlp_layer_norm = RMSNorm()
        self.mlp = _mlp(cfg)
        self.dropout = _dropout(cfg)

    def __call__(
        self,
        x: jax.Array,  # [batch, targets, emb_dim]
        encoded: jax.Array,  # [batch, inputs, emb_dim]
        bias: jax.Array,  # [1, heads, targets, targets], relative positions
        mask: jax.Array,  # [1 or batch, 1, targets, targets], 0 or MASKED
        cross_mask: jax.Array | None,  # [batch, 1, 1 or targets, inputs], 0 or MASKED
        train: bool,
    ) -> jax.Array:  # [batch, targets, emb_dim]
        """One layer of the decoder."""
        x = place(x)
        y = self.pre_self_attention_layer_norm(x)
        y = self.self_attention(y, bias=bias, mask=mask, train=train)
        x = x + self.dropout(y, train)
        y = self.pre_cross_attention_layer_norm(x)
        y = self.encoder_decoder_attention(y, encoded, mask=cross_mask, train=train)
        x = x + self.dropout(y, train)
        y = self.mlp(self.pre_mlp_layer_norm(x), train)
        return x + self.dropout(y, train)

    def step(
        self,
        x: jax.Array,  # [rows, 1, emb_dim]
        past: dict[str, jax.Array],  # key and value of earlier tokens, see generator.empty_cache
        source: dict[str, jax.Array],  # key and value of the source
        bias: jax.Array,  # [1, heads, 1, max_length * beams], relative positions
        mask: jax.Array,  # [batch, 1, beams, max_length * beams], 0 or MASKED
        cross_mask: jax.Array | None,  # [batch, 1, 1, inputs], 0 or MASKED
        index: jax.Array,  # [], position of this token
    ) -> tuple[jax.Array, dict[str, jax.Array]]:  # x and past, grown by this token
        """The layer for one token, with what earlier tokens left in `past`."""
        y = self.pre_self_attention_layer_norm(x)
        y, past = self.self_attention.step(y, past, index, bias, mask)
        x = x + y
        y = self.pre_cross_attention_layer_norm(x)
        x = x + self.encoder_decoder_attention.cross_step(y, source, cross_mask)
        return x + self.mlp(self.pre_mlp_layer_norm(x)), past


class Encoder(nn.Module):
    """The stack of encoder layers; relative positions and mask are made once for all of them."""

    config: T5Config

    def setup(self):
        """Makes the parts."""
        cfg = self.config
        self.relpos_bias = _relative_positions(cfg, bidirectional=True)
        layer = checkpointed(EncoderLayer, cfg.remat, train_argument=4)
        self.layers = [layer(cfg) for _ in range(cfg.num_encoder_layers)]
        self.encoder_norm = RMSNorm()
        self.dropout = _dropout(cfg)

    def __call__(
        self,
        x: jax.Array,  # [batch, length, emb_dim]
        segments: jax.Array | None,  # [batch, length]
        train: bool,
    ) -> jax.Array:  # [batch, length, emb_dim]
        """Embedded tokens -> encoded tokens."""
        bias = self.relpos_bias(x.shape[1], x.shape[1])
        mask = None
        if segments is not None:
            mask = mask_bias(same_segment(segments, segments))
        x = self.dropout(x, train)
        for layer in self.layers:
            x = layer(x, bias, mask, train)
        return self.dropout(self.encoder_norm(x), train)


class Decoder(nn.Module):
    """The stack of decoder layers."""

    config: T5Config

    def setup(self):
        """Makes the parts."""
        cfg = self.config
        self.relpos_bias = _relative_positions(cfg, bidirectional=False)
        layer = checkpointed(DecoderLayer, cfg.remat, train_argument=6)
        self.layers = [layer(cfg) for _ in range(cfg.num_decoder_layers)]
        self.decoder_norm = RMSNorm()
        self.dropout = _dropout(cfg)

    def __call__(
        self,
        x: jax.Array,  # [batch, targets, emb_dim]
        encoded: jax.Array,  # [batch, inputs, emb_dim]
        encoder_segments: jax.Array | None,  # [batch, inputs]
        segments: jax.Array | None,  # [batch, targets]
        train: bool,
    ) -> jax.Array:  # [batch, targets, emb_dim]
        """Embedded target tokens -> hidden states, normed."""
        mask, cross_mask = generator.decoder_masks(x.shape[1], segments, encoder_segments)
        bias = self.relpos_bias(x.shape[1], x.shape[1])
        x = self.dropout(x, train)
        for layer in self.layers:
            x = layer(x, encoded, bias, mask, cross_mask, train)
        return self.dropout(self.decoder_norm(x), train)

    def init_cache(
        self, encoded: jax.Array, encoder_segments: jax.Array | None, max_length: int, beams: int
    ) -> dict[str, Any]:
        """See generator.Generator.init_cache."""
        attentions = [layer.encoder_decoder_attention for layer in self.layers]
        cache = generator.empty_cache(encoded, encoder_segments, attentions, max_length, beams)
        return cache | {'relative_bias': self.relpos_bias.by_difference(max_length, max_length)}

    def step(self, cache: dict[str, Any], x: jax.Array) -> tuple[jax.Array, dict[str, Any]]:
        """One embedded token [rows, 1, emb_dim] -> hidden [rows, 1, emb_dim], and the cache."""
        index, (_, beams, max_length) = cache['index'], cache['origin'].shape
        # The row of this query in the bias that `skew` would build, for the places of every beam.
        start = max_length - 1 - index
        bias = lax.dynamic_slice_in_dim(cache['relative_bias'], start, max_length, axis=1)
        bias = jnp.repeat(bias, beams, axis=1)[None, :, None]
        cache, mask = generator.next_token(cache)
        grown = []
        for layer, past, source in zip(self.layers, cache['self'], cache['cross'], strict=True):
            x, past = layer.step(x, past, source, bias, mask, cache['cross_mask'], index)
            grown.append(past)
        return self.decoder_norm(x), {**cache, 'self': grown}


class T5(generator.Generator):
    """Encoder-decoder over token ids; see the module's docstring for the variants."""

    config: T5Config

    def setup(self):
        """Makes the parts."""
        cfg = self.config
        self.token_embedder = Embedding(cfg.vocab_size, cfg.emb_dim, cfg.dtype)
        self.encoder = Encoder(cfg)
        self.decoder = Decoder(cfg)
        if not cfg.tied_embeddings:
            self.logits_dense = generator.OutputEmbedding(cfg.vocab_size, cfg.emb_dim)

    def encode(
        self,
        encoder_input_tokens: jax.Array,  # [batch, inputs]
        encoder_segment_ids: jax.Array | None = None,  # [batch, inputs]
        encoder_positions: jax.Array | None = None,  # Not used: positions are relative.
        *,
        train: bool = False,
    ) -> jax.Array:  # [batch, inputs, emb_dim]
        """Source tokens -> encoded tokens."""
        del encoder_positions
        return self.encoder(self.token_embedder(encoder_input_tokens), encoder_segment_ids, train)

    def decode(
        self,
        encoded: jax.Array,  # [batch, inputs, emb_dim]
        decoder_input_tokens: jax.Array,  # [batch, targets]
        encoder_segment_ids: jax.Array | None = None,  # [batch, inputs]
        decoder_segment_ids: jax.Array | None = None,  # [batch, targets]
        decoder_positions: jax.Array | None = None,  # Not used: positions are relative.
        *,
        train: bool = False,
    ) -> jax.Array:  # [batch, targets, emb_dim]
        """Target tokens -> hidden states, such that logits = hidden @ output_embedding().T."""
        del decoder_positions
        x = self.token_embedder(decoder_input_tokens)
        return self._scaled(
            self.decoder(x, encoded, encoder_segment_ids, decoder_segment_ids, train)
        )

    def output_embedding(self) -> jax.Array:
        """The table [vocab, emb_dim] that turns hidden states into logits."""
        if self.config.tied_embeddings:
            return self.token_embedder.embedding
        return self.logits_dense()

    def hidden_step(
        self, cache: dict[str, Any], tokens: jax.Array
    ) -> tuple[jax.Array, dict[str, Any]]:
        """See Generator.hidden_step."""
        hidden, cache = self.decoder.step(cache, self.token_embedder(tokens[:, None]))
        return self._scaled(hidden)[:, 0], cache

    def _scaled(self, hidden: jax.Array) -> jax.Array:
        # T5 shares one table between input (scale 1) and logits (scale emb_dim^-0.5).
        return hidden * self.config.emb_dim**-0.5 if self.config.tied_embeddings else hidden
