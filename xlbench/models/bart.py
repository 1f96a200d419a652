"""BART and its relatives: one encoder-decoder whose families differ in fields of the config.

BART (arXiv:1910.13461), mBART and mBART-50 (arXiv:2001.08210, arXiv:2008.00401), PEGASUS
(arXiv:1912.08777), M2M-100 and NLLB-200 (arXiv:2010.11125, arXiv:2207.04672) and Marian
(arXiv:1804.00344): the models of OPUS-MT as transformers has them, and Mozilla's translators as
Marian itself stores them. Fields of the rows in families.py tell them apart; all of them share one
table between the inputs of both stacks and the logits, and every product has a bias. Positions are
absolute.

Except in M2M-100 the logits have a bias `final_logits_bias`: zeros but in Marian. transformers
keeps it out of training, as a buffer. Here it is a parameter, so that it is stored and sharded like
the others, and no gradient reaches it but in Marian's own models, which train it.
"""

import dataclasses
from typing import Annotated, Any, Literal

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax import lax
from msgspec import Meta

from xlbench.models import generator, layers, transformer
from xlbench.models.attention import Attention, KeysValues, SelfAttention
from xlbench.models.positions import LearnedPositions, for_each_row, sinusoids

# Rows of a learned table that come before position 0; fairseq kept them for its padding symbol.
POSITION_OFFSET = 2


@dataclasses.dataclass(frozen=True, kw_only=True)
class BartConfig(layers.TransformerConfig):
    """Sizes and types of one model.

    Attributes:
      num_encoder_layers: layers of the encoder.
      num_decoder_layers: layers of the decoder.
      max_positions: tokens that learned positions suffice for; sinusoidal ones have no end.
      pre_norm: each layer norms what goes into its parts, and each stack its result (mBART,
        PEGASUS), in place of norming every sum with the residual (BART, Marian).
      learned_positions: a table (BART, mBART) in place of sines and cosines (PEGASUS, Marian).
      embedding_norm: a norm of the sum of token and position (BART, mBART).
      scaled_embeddings: tokens are multiplied by sqrt(emb_dim) (all but BART).
      position_offset: the first position's number, where positions are sinusoidal; fairseq's begin
        behind its padding id, and their last frequency is 1/10000.
      logits_bias: whether there is a bias of the logits.
      ssru: the decoder is Marian's own: a recurrence in place of attention within the text, zeros
        in place of a first token, and positions whose last frequency is 1/10000.
      norm_epsilon: what layer norms add to the variance.
      activation: of the MLP; a name in layers.ACTIVATIONS.
      init_std: standard deviation of fresh kernels and tables.
      attention_dropout_rate: on attention weights.
      activation_dropout_rate: on the MLP's hidden units.
    """

    num_encoder_layers: Annotated[int, Meta(ge=1, le=2**8)]
    num_decoder_layers: Annotated[int, Meta(ge=1, le=2**8)]
    max_positions: Annotated[int, Meta(ge=1, le=2**24)]
    pre_norm: bool
    learned_positions: bool
    embedding_norm: bool
    scaled_embeddings: bool
    activation: Literal['relu', 'gelu', 'gelu_tanh', 'swish', 'tanh']
    position_offset: Annotated[int, Meta(ge=0, le=2**20)] = 0
    logits_bias: bool = True
    ssru: bool = False
    norm_epsilon: Annotated[float, Meta(ge=0, le=1)] = 1e-5
    init_std: Annotated[float, Meta(ge=0)] = 0.02
    attention_dropout_rate: Annotated[float, Meta(ge=0, lt=1)] = 0.0
    activation_dropout_rate: Annotated[float, Meta(ge=0, lt=1)] = 0.0

    @property
    def max_inputs(self) -> int:
        """Tokens of an input that learned positions suffice for."""
        return self.max_positions

    @property
    def init(self) -> layers.Initializer:
        """Draws fresh kernels and tables."""
        return nn.initializers.normal(self.init_std)

    @property
    def inits(self) -> dict[str, Any]:
        return dict(kernel_init=self.init)


# ---------------------------------------------------------------------------------------- the model


class Ssru(nn.Module):
    """f_t = sigmoid(x_t W_f + b_f); c_t = f_t c_(t-1) + (1 - f_t) x_t W; the output is ReLU(c_t).

    The recurrence that Marian's small decoders have in place of attention within the text (Kim et
    al. 2019, aclanthology.org/D19-5632, section 3.1); it is called as SelfAttention is, with arrays
    of the same shapes and a mask of [1 or batch, 1, length, length]. c is linear in c_(t-1): whole
    texts take a scan in log2(length) rounds, and a step of decoding reads one vector, whatever came
    before.
    """

    config: BartConfig

    def setup(self):
        cfg = self.config
        axes, types = ('joined_kv', 'embed'), (cfg.operands, cfg.init)
        self.inwards = layers.Dense(cfg.emb_dim, axes, 0, False, *types)
        self.forget = layers.Dense(cfg.emb_dim, axes, 0, True, *types)

    def __call__(self, x: jax.Array, bias: None, mask: jax.Array, train: bool = False) -> jax.Array:
        """Runs over texts; a position that must not see the one before it starts from zero."""
        del bias, train
        keep, new = self._gates(x)
        before = jnp.diagonal(mask[:, 0], offset=-1, axis1=1, axis2=2)
        goes_on = jnp.pad(before == 0, ((0, 0), (1, 0)))[..., None]

        def join(first, second):
            (kept, state), (keeps, adds) = first, second
            return keeps * kept, keeps * state + adds

        _, state = lax.associative_scan(join, (jnp.where(goes_on, keep, 0.0), new), axis=1)
        return nn.relu(state).astype(x.dtype)

    def step(
        self, x: jax.Array, past: KeysValues, place: jax.Array, bias: None, mask: jax.Array
    ) -> tuple[jax.Array, KeysValues]:
        """Takes one step from the state that each hypothesis had at its token before this one."""
        del bias
        batch, beams = len(past['value']), mask.shape[2]
        earlier = jnp.maximum(place - beams, 0)
        # Of the beams' states at the token before, the one from which a hypothesis goes on.
        own = lax.dynamic_slice_in_dim(mask, earlier, beams, axis=3)[:, 0] == 0
        states = lax.dynamic_slice_in_dim(past['value'], earlier, beams, axis=2)[:, 0]
        state = jnp.sum(jnp.where(own[..., None], states[:, None], 0.0), axis=2)
        keep, new = self._gates(x.reshape(batch, beams, -1))
        state = keep * state + new
        value = lax.dynamic_update_slice_in_dim(past['value'], state[:, None], place, axis=2)
        return nn.relu(state).astype(x.dtype).reshape(x.shape), {**past, 'value': value}

    def empty(self, source: KeysValues, places: int) -> KeysValues:
        """The past of texts that have no token yet: room for states, and no keys."""
        batch = len(source['value'])
        return {
            'key': jnp.zeros((batch, 1, 0, places), jnp.float32),
            'value': jnp.zeros((batch, 1, places, self.config.emb_dim), jnp.float32),
        }

    def _gates(self, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        """The share of the state that stays, and what is added to it; float32."""
        keep = nn.sigmoid(self.forget(x).astype(jnp.float32))
        return keep, (1 - keep) * self.inwards(x).astype(jnp.float32)


class Layer(transformer.Layer):
    """Every product has a bias; a norm comes before each part, or after, as the config says."""

    config: BartConfig

    @property
    def pre_norm(self) -> bool:
        return self.config.pre_norm

    def _mlp(self) -> layers.Mlp:
        cfg = self.config
        rate = cfg.activation_dropout_rate
        return layers.Mlp(cfg, cfg.activation, use_bias=True, dropout_rate=rate, **cfg.inits)


class DecoderLayer(Layer):
    """Causal self-attention (or a recurrence), attention over the encoded source, MLP."""

    names = (
        ('self_attention', 'self_attention_norm'),
        ('encoder_decoder_attention', 'encoder_decoder_attention_norm'),
        ('mlp', 'mlp_norm'),
    )

    def _attention(self, kind: type[Attention]) -> nn.Module:
        recurrent = kind is SelfAttention and self.config.ssru
        return Ssru(self.config) if recurrent else super()._attention(kind)


class Stack(transformer.Stack):
    """Positions at the bottom, a norm at the top."""

    config: BartConfig
    token_embedder: layers.Embedding

    @property
    def zero_first(self) -> bool:
        """True if zeros are in place of the first token."""
        return False

    @property
    def norm_name(self) -> str:
        return 'final_norm' if self.config.pre_norm else ''

    def setup(self):
        super().setup()
        cfg = self.config
        if cfg.learned_positions:
            rows = cfg.max_positions + POSITION_OFFSET
            self.position_embedder = LearnedPositions(
                rows, cfg.emb_dim, embedding_init=cfg.init, offset=POSITION_OFFSET
            )
        if cfg.embedding_norm:
            self.embeddings_norm = cfg.norm()

    def position_cache(self, max_length: int) -> jax.Array:
        """The first positions, [max_length, emb_dim] float32."""
        if self.config.learned_positions:
            return self.position_embedder.table(max_length)
        cfg = self.config
        last = max_length + cfg.position_offset
        table = sinusoids(last, cfg.emb_dim, to_the_last=cfg.ssru or cfg.position_offset > 0)
        return jnp.asarray(table[cfg.position_offset :])

    def embed(self, tokens: jax.Array, positions: jax.Array | None, train: bool) -> jax.Array:
        table = self.position_cache(tokens.shape[1])
        if positions is None:
            rows = for_each_row(table, len(tokens), self.config.dtype)
            return self._sum(tokens, jnp.arange(tokens.shape[1])[None], rows, train)
        return self._sum(tokens, positions, layers.place(layers.look_up(table, positions)), train)

    def _sum(
        self, tokens: jax.Array, index: jax.Array, positions: jax.Array, train: bool
    ) -> jax.Array:
        """Tokens [batch, length], their positions, and these embedded -> what goes into layers."""
        x = self.token_embedder(tokens)
        x = jnp.where(index[..., None] == 0, 0.0, x) if self.zero_first else x
        x = x * self.config.emb_dim**0.5 if self.config.scaled_embeddings else x
        x = x + positions.astype(x.dtype)
        return self.dropout(self.embeddings_norm(x) if self.config.embedding_norm else x, train)


class Encoder(Stack, transformer.Encoder):
    """The stack of encoder layers."""

    layer, depth = Layer, 'num_encoder_layers'


class Decoder(Stack, transformer.Decoder):
    """The stack of decoder layers."""

    layer, depth = DecoderLayer, 'num_decoder_layers'

    def embed_step(self, cache: transformer.Cache, tokens: jax.Array) -> jax.Array:
        index = cache['index']
        position = lax.dynamic_slice_in_dim(cache['positions'], index, 1)
        return self._sum(tokens, index[None, None], position[None], train=False)

    @property
    def zero_first(self) -> bool:
        return self.config.ssru

    def takes_fused(self, tokens: jax.Array, keys: int, train: bool) -> bool:
        """Returns whether attention is fused; the recurrence reads a mask."""
        return not self.config.ssru and super().takes_fused(tokens, keys, train)


class Bart(generator.Generator):
    """Encoder-decoder over token ids; see the module's docstring for the variants."""

    config: BartConfig
    stacks = (Encoder, Decoder)

    def setup(self):
        cfg = self.config
        self.token_embedder = layers.Embedding(cfg.vocab_size, cfg.emb_dim, cfg.dtype, cfg.init)
        self.encoder, self.decoder = (stack(cfg, self.token_embedder) for stack in self.stacks)
        if cfg.logits_bias:
            init, shape = layers.with_axes(nn.initializers.zeros, 'vocab'), (cfg.vocab_size,)
            self.final_logits_bias = self.param('final_logits_bias', init, shape, jnp.float32)

    def output_embedding(self) -> jax.Array:
        return self.token_embedder.embedding

    def token_bias(self) -> jax.Array | None:
        """The bias of the logits, [vocab] float32; a gradient goes through that of `ssru` alone."""
        if not self.config.logits_bias:
            return None
        bias = self.final_logits_bias
        return bias if self.config.ssru else lax.stop_gradient(bias)
