"""BART and its relatives: one encoder-decoder whose families differ in fields of the config.

BART (arXiv:1910.13461), mBART and mBART-50 (arXiv:2001.08210, arXiv:2008.00401), PEGASUS
(arXiv:1912.08777) and Marian, the models of OPUS-MT (arXiv:1804.00344). VARIANTS says what sets
them apart; all of them share one table between the inputs of both stacks and the logits, and every
product has a bias. Positions are absolute: 0, 1, 2, ... in a row that holds one example, and those
that `encoder_positions` and `decoder_positions` give in packed rows. Segment 0 is padding; without
segments every token is seen.

The logits have a bias `final_logits_bias`: zeros but in Marian. The reference keeps it out of
training, as a buffer. Here it is a parameter, so that it is stored and sharded like the others, and
no gradient reaches it.
"""

import dataclasses
from typing import Annotated, Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from xlbench import errors
from xlbench.models import generator
from xlbench.models.attention import Attention, mask_bias, same_segment
from xlbench.models.dense import ACTIVATIONS, Dropout, Mlp, positions_shared
from xlbench.models.embeddings import Embedding, look_up
from xlbench.models.norms import LayerNorm
from xlbench.models.placement import place
from xlbench.models.transformer import check_config, checkpointed

# Rows of a learned table that come before position 0; fairseq kept them for its padding symbol.
POSITION_OFFSET = 2


@dataclasses.dataclass(frozen=True)
class BartConfig:
    """Sizes and types of one model.

    Attributes:
      vocab_size: rows of the embedding table.
      max_positions: tokens that learned positions suffice for; sinusoidal ones have no end.
      pre_norm: each layer norms what goes into its parts, and each stack its result (mBART,
        PEGASUS), in place of norming every sum with the residual (BART, Marian).
      learned_positions: a table (BART, mBART) in place of sines and cosines (PEGASUS, Marian).
      embedding_norm: a norm of the sum of token and position (BART, mBART).
      scaled_embeddings: tokens are multiplied by sqrt(emb_dim) (all but BART).
      activation: of the MLP; a name in ACTIVATIONS.
      init_std: standard deviation of fresh kernels and tables.
      dropout_rate: on embeddings and residuals.
      attention_dropout_rate: on attention weights.
      activation_dropout_rate: on the MLP's hidden units.
      shared_dropout: one mask for all positions of a row, which is cheaper; False draws one per
        position, as transformers does.
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
    max_positions: Annotated[int, '1 to 2**24']
    pre_norm: bool
    learned_positions: bool
    embedding_norm: bool
    scaled_embeddings: bool
    activation: str
    init_std: Annotated[float, '0 or more'] = 0.02
    dropout_rate: Annotated[float, '0 or more, below 1'] = 0.1
    attention_dropout_rate: Annotated[float, '0 or more, below 1'] = 0.0
    activation_dropout_rate: Annotated[float, '0 or more, below 1'] = 0.0
    shared_dropout: bool = True
    dtype: str = 'float32'
    matmul_dtype: str | None = None
    remat: str = 'none'

    def __post_init__(self):
        check_config(self)
        if self.activation not in ACTIVATIONS:
            raise errors.unknown('activation', self.activation, ACTIVATIONS)

    @property
    def operands(self) -> str:
        """The type of the operands of products with parameters."""
        return self.matmul_dtype or self.dtype


# What makes a family, whatever its size.
VARIANTS = {
    'bart': dict(pre_norm=False, learned_positions=True, embedding_norm=True),
    'mbart': dict(pre_norm=True, learned_positions=True, embedding_norm=True),
    'pegasus': dict(pre_norm=True, learned_positions=False, embedding_norm=False),
    'marian': dict(pre_norm=False, learned_positions=False, embedding_norm=False),
}


def _size(emb_dim: int, num_heads: int, mlp_dim: int, num_layers: int, **more) -> dict[str, Any]:
    return dict(
        emb_dim=emb_dim,
        num_heads=num_heads,
        head_dim=emb_dim // num_heads,
        mlp_dim=mlp_dim,
        num_encoder_layers=num_layers,
        num_decoder_layers=num_layers,
        **more,
    )


def _family(name: str, sizes: dict[str, dict[str, Any]], **same) -> dict[str, dict[str, Any]]:
    return {size: {**VARIANTS[name], **same, **fields} for size, fields in sizes.items()}


_SAMPLE = _size(128, 4, 256, 2)  # Ours: learns the sample corpora in minutes on a CPU.
_LARGE = _size(1024, 16, 4096, 12)
# SIZES[family][size]: fields of the config.
SIZES = {
    # arXiv:1910.13461 section 2.1; huggingface.co/facebook/bart-{base,large} config.json.
    'bart': _family(
        'bart',
        {'sample': _SAMPLE, 'base': _size(768, 12, 3072, 6), 'large': _LARGE},
        vocab_size=50265,
        max_positions=1024,
        scaled_embeddings=False,
        activation='gelu',
        attention_dropout_rate=0.1,
        activation_dropout_rate=0.1,
    ),
    # arXiv:2001.08210 section 2.2 and arXiv:2008.00401 section 3, which adds 27 rows for new
    # languages; huggingface.co/facebook/mbart-large-{50,cc25} config.json.
    'mbart': _family(
        'mbart',
        {
            'sample': _SAMPLE | {'vocab_size': 250054},
            'large_50': _LARGE | {'vocab_size': 250054},
            'large_cc25': _LARGE | {'vocab_size': 250027},
        },
        max_positions=1024,
        scaled_embeddings=True,
        activation='gelu',
    ),
    # arXiv:1912.08777 section 6; huggingface.co/google/pegasus-large config.json.
    'pegasus': _family(
        'pegasus',
        {'sample': _SAMPLE, 'large': _size(1024, 16, 4096, 16)},
        vocab_size=96103,
        max_positions=1024,
        scaled_embeddings=True,
        activation='relu',
        attention_dropout_rate=0.1,
        activation_dropout_rate=0.1,
    ),
    # Transformer-base of arXiv:1706.03762; huggingface.co/Helsinki-NLP/opus-mt-en-de config.json.
    # Every pair of languages has its own vocab_size.
    'marian': _family(
        'marian',
        {'sample': _SAMPLE, 'base': _size(512, 8, 2048, 6)},
        vocab_size=58101,
        max_positions=512,
        scaled_embeddings=True,
        activation='swish',
    ),
}


# ---------------------------------------------------------------------------------------- the parts


def _attention(cfg: BartConfig, cross: bool = False) -> Attention:
    return Attention(
        num_heads=cfg.num_heads,
        head_dim=cfg.head_dim,
        out_features=cfg.emb_dim,
        cross=cross,
        use_bias=True,
        scaled=True,
        dropout_rate=cfg.attention_dropout_rate,
        shared_dropout=cfg.shared_dropout,
        matmul_dtype=cfg.operands,
        kernel_init=nn.initializers.normal(cfg.init_std),
    )


def _mlp(cfg: BartConfig) -> Mlp:
    return Mlp(
        features=cfg.mlp_dim,
        activation=cfg.activation,
        use_bias=True,
        dropout_rate=cfg.activation_dropout_rate,
        shared_dropout=cfg.shared_dropout,
        matmul_dtype=cfg.operands,
        kernel_init=nn.initializers.normal(cfg.init_std),
    )


def _dropout(cfg: BartConfig) -> Dropout:
    return Dropout(cfg.dropout_rate, positions_shared(cfg.shared_dropout))


def sinusoids(length: int, features: int) -> np.ndarray:
    """Positions [length, features] of arXiv:1706.03762 (3.5): first all sines, then all cosines.

    As transformers lays them out; the paper has sine and cosine of a frequency side by side.
    Computed in float64, whose rounding is all that float32 then loses.
    """
    frequencies = 10000.0 ** (-np.arange(0, features, 2) / features)
    angles = np.arange(length)[:, None] * frequencies
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1).astype(np.float32)


class Positions(nn.Module):
    """Absolute positions, learned or sinusoidal."""

    config: BartConfig

    def setup(self):
        """Makes the parts."""
        cfg = self.config
        if cfg.learned_positions:
            init = nn.with_logical_partitioning(
                nn.initializers.normal(cfg.init_std), ('positions', 'embed')
            )
            shape = (cfg.max_positions + POSITION_OFFSET, cfg.emb_dim)
            self.embedding = self.param('embedding', init, shape, jnp.float32)

    def table(self, length: int) -> jax.Array:
        """The first positions, [length, emb_dim] float32.

        Raises:
          UserError: there are fewer.
        """
        cfg = self.config
        if not cfg.learned_positions:
            return jnp.asarray(sinusoids(length, cfg.emb_dim))
        if length > cfg.max_positions:
            raise errors.UserError(
                f'a sequence of {length} tokens does not fit a model with {cfg.max_positions} '
                'learned positions; shorten the lengths of the batches, or of what is decoded'
            )
        return self.embedding[POSITION_OFFSET : POSITION_OFFSET + length]

    def __call__(self, length: int, positions: jax.Array | None) -> jax.Array:
        """[batch or 1, length, emb_dim] at positions [batch, length]; None: 0, 1, 2, ..."""
        table = self.table(length)
        return table[None] if positions is None else place(look_up(table, positions))


class Residual(nn.Module):
    """What both kinds of layers do around each of their parts: the norm before it, or after."""

    config: BartConfig

    def before(self, norm: LayerNorm, x: jax.Array) -> jax.Array:
        """x [batch, length, emb_dim] -> what the part gets."""
        return norm(x) if self.config.pre_norm else x

    def after(self, norm: LayerNorm, x: jax.Array, y: jax.Array) -> jax.Array:
        """x and the part's result y -> what the next part works on."""
        return x + y if self.config.pre_norm else norm(x + y)


class EncoderLayer(Residual):
    """Self-attention and MLP, each added to the residual."""

    def setup(self):
        """Makes the parts."""
        cfg = self.config
        self.attention = _attention(cfg)
        self.attention_norm = LayerNorm()
        self.mlp = _mlp(cfg)
        self.mlp_norm = LayerNorm()
        self.dropout = _dropout(cfg)

    def __call__(
        self,
        x: jax.Array,  # [batch, length, emb_dim]
        mask: jax.Array | None,  # [batch, 1, length, length], 0 or MASKED
        train: bool,
    ) -> jax.Array:  # [batch, length, emb_dim]
        """One layer of the encoder."""
        x = place(x)
        y = self.attention(self.before(self.attention_norm, x), mask=mask, train=train)
        x = self.after(self.attention_norm, x, self.dropout(y, train))
        y = self.mlp(self.before(self.mlp_norm, x), train)
        return self.after(self.mlp_norm, x, self.dropout(y, train))


class DecoderLayer(Residual):
    """Causal self-attention, attention over the encoded source, MLP."""

    def setup(self):
        """Makes the parts."""
        cfg = self.config
        self.self_attention = _attention(cfg)
        self.self_attention_norm = LayerNorm()
        self.encoder_decoder_attention = _attention(cfg, cross=True)
        self.encoder_decoder_attention_norm = LayerNorm()
        self.mlp = _mlp(cfg)
        self.mlp_norm = LayerNorm()
        self.dropout = _dropout(cfg)

    def __call__(
        self,
        x: jax.Array,  # [batch, targets, emb_dim]
        encoded: jax.Array,  # [batch, inputs, emb_dim]
        mask: jax.Array,  # [1 or batch, 1, targets, targets], 0 or MASKED
        cross_mask: jax.Array | None,  # [batch, 1, 1 or targets, inputs], 0 or MASKED
        train: bool,
    ) -> jax.Array:  # [batch, targets, emb_dim]
        """One layer of the decoder."""
        x = place(x)
        norm = self.self_attention_norm
        y = self.self_attention(self.before(norm, x), mask=mask, train=train)
        x = self.after(norm, x, self.dropout(y, train))
        norm = self.encoder_decoder_attention_norm
        y = self.before(norm, x)
        y = self.encoder_decoder_attention(y, encoded, mask=cross_mask, train=train)
        x = self.after(norm, x, self.dropout(y, train))
        y = self.mlp(self.before(self.mlp_norm, x), train)
        return self.after(self.mlp_norm, x, self.dropout(y, train))

    def step(
        self,
        x: jax.Array,  # [rows, 1, emb_dim]
        past: dict[str, jax.Array],  # key and value of earlier tokens, see generator.empty_cache
        source: dict[str, jax.Array],  # key and value of the source
        mask: jax.Array,  # [batch, 1, beams, max_length * beams], 0 or MASKED
        cross_mask: jax.Array | None,  # [batch, 1, 1, inputs], 0 or MASKED
        index: jax.Array,  # [], position of this token
    ) -> tuple[jax.Array, dict[str, jax.Array]]:  # x and past, grown by this token
        """The layer for one token, with what earlier tokens left in `past`."""
        norm = self.self_attention_norm
        y, past = self.self_attention.step(self.before(norm, x), past, index, mask=mask)
        x = self.after(norm, x, y)
        norm = self.encoder_decoder_attention_norm
        y = self.encoder_decoder_attention.cross_step(self.before(norm, x), source, cross_mask)
        x = self.after(norm, x, y)
        return self.after(self.mlp_norm, x, self.mlp(self.before(self.mlp_norm, x))), past


# ---------------------------------------------------------------------------------------- the model


class Stack(nn.Module):
    """What encoder and decoder have in common: positions at the bottom, a norm at the top."""

    config: BartConfig

    def setup(self):
        """Makes the parts."""
        cfg = self.config
        self.position_embedder = Positions(cfg)
        if cfg.embedding_norm:
            self.embeddings_norm = LayerNorm()
        if cfg.pre_norm:
            self.final_norm = LayerNorm()
        self.dropout = _dropout(cfg)

    def enter(self, x: jax.Array, positions: jax.Array, train: bool) -> jax.Array:
        """Embedded tokens and positions, both [batch, length, emb_dim] -> the first layer's x."""
        x = x + positions.astype(x.dtype)
        return self.dropout(self.embeddings_norm(x) if self.config.embedding_norm else x, train)

    def leave(self, x: jax.Array) -> jax.Array:
        """The last layer's x [batch, length, emb_dim] -> what the stack gives."""
        return self.final_norm(x) if self.config.pre_norm else x


class Encoder(Stack):
    """The stack of encoder layers."""

    def setup(self):
        """Makes the parts."""
        super().setup()
        cfg = self.config
        layer = checkpointed(EncoderLayer, cfg.remat, train_argument=3)
        self.layers = [layer(cfg) for _ in range(cfg.num_encoder_layers)]

    def __call__(
        self,
        x: jax.Array,  # [batch, length, emb_dim]
        segments: jax.Array | None,  # [batch, length]
        positions: jax.Array | None,  # [batch, length]
        train: bool,
    ) -> jax.Array:  # [batch, length, emb_dim]
        """Embedded tokens -> encoded tokens."""
        mask = None
        if segments is not None:
            mask = mask_bias(same_segment(segments, segments))
        x = self.enter(x, self.position_embedder(x.shape[1], positions), train)
        for layer in self.layers:
            x = layer(x, mask, train)
        return self.leave(x)


class Decoder(Stack):
    """The stack of decoder layers."""

    def setup(self):
        """Makes the parts."""
        super().setup()
        cfg = self.config
        layer = checkpointed(DecoderLayer, cfg.remat, train_argument=5)
        self.layers = [layer(cfg) for _ in range(cfg.num_decoder_layers)]

    def __call__(
        self,
        x: jax.Array,  # [batch, targets, emb_dim]
        encoded: jax.Array,  # [batch, inputs, emb_dim]
        encoder_segments: jax.Array | None,  # [batch, inputs]
        segments: jax.Array | None,  # [batch, targets]
        positions: jax.Array | None,  # [batch, targets]
        train: bool,
    ) -> jax.Array:  # [batch, targets, emb_dim]
        """Embedded target tokens -> hidden states."""
        mask, cross_mask = generator.decoder_masks(x.shape[1], segments, encoder_segments)
        x = self.enter(x, self.position_embedder(x.shape[1], positions), train)
        for layer in self.layers:
            x = layer(x, encoded, mask, cross_mask, train)
        return self.leave(x)

    def init_cache(
        self, encoded: jax.Array, encoder_segments: jax.Array | None, max_length: int, beams: int
    ) -> generator.Cache:
        """See generator.Generator.init_cache."""
        attentions = [layer.encoder_decoder_attention for layer in self.layers]
        cache = generator.empty_cache(encoded, encoder_segments, attentions, max_length, beams)
        return cache | {'positions': self.position_embedder.table(max_length)}

    def step(self, cache: generator.Cache, x: jax.Array) -> tuple[jax.Array, generator.Cache]:
        """One embedded token [rows, 1, emb_dim] -> hidden [rows, 1, emb_dim], and the cache."""
        index = cache['index']
        position = lax.dynamic_slice_in_dim(cache['positions'], index, 1)
        cache, mask = generator.next_token(cache)
        x = self.enter(x, position[None], train=False)
        grown = []
        for layer, past, source in zip(self.layers, cache['self'], cache['cross'], strict=True):
            x, past = layer.step(x, past, source, mask, cache['cross_mask'], index)
            grown.append(past)
        return self.leave(x), {**cache, 'self': grown}


class Bart(generator.Generator):
    """Encoder-decoder over token ids; see the module's docstring for the variants."""

    config: BartConfig

    def setup(self):
        """Makes the parts."""
        cfg = self.config
        self.token_embedder = Embedding(
            cfg.vocab_size, cfg.emb_dim, cfg.dtype, nn.initializers.normal(cfg.init_std)
        )
        self.encoder = Encoder(cfg)
        self.decoder = Decoder(cfg)
        init = nn.with_logical_partitioning(nn.initializers.zeros, ('vocab',))
        self.final_logits_bias = self.param(
            'final_logits_bias', init, (cfg.vocab_size,), jnp.float32
        )

    def encode(
        self,
        encoder_input_tokens: jax.Array,  # [batch, inputs]
        encoder_segment_ids: jax.Array | None = None,  # [batch, inputs]
        encoder_positions: jax.Array | None = None,  # [batch, inputs]
        *,
        train: bool = False,
    ) -> jax.Array:  # [batch, inputs, emb_dim]
        """Source tokens -> encoded tokens."""
        x = self._embed(encoder_input_tokens)
        return self.encoder(x, encoder_segment_ids, encoder_positions, train)

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
        """Target tokens -> hidden states."""
        x = self._embed(decoder_input_tokens)
        return self.decoder(
            x, encoded, encoder_segment_ids, decoder_segment_ids, decoder_positions, train
        )

    def output_embedding(self) -> jax.Array:
        """The table [vocab, emb_dim] that turns hidden states into logits."""
        return self.token_embedder.embedding

    def output_bias(self) -> jax.Array:
        """What is added to the logits, [vocab] float32; no gradient goes through it."""
        return lax.stop_gradient(self.final_logits_bias)

    def hidden_step(
        self, cache: generator.Cache, tokens: jax.Array
    ) -> tuple[jax.Array, generator.Cache]:
        """See Generator.hidden_step."""
        hidden, cache = self.decoder.step(cache, self._embed(tokens[:, None]))
        return hidden[:, 0], cache

    def _embed(self, tokens: jax.Array) -> jax.Array:
        x = self.token_embedder(tokens)
        return x * self.config.emb_dim**0.5 if self.config.scaled_embeddings else x
