"""MV-BART: a BART that reads a dialogue in two views and weighs them (arXiv:2010.01672, section 4).

A row holds the two views of one dialogue one behind the other: segment 1 is the first view, segment
2 the second, and positions are counted in each. The same encoder reads both. Its states at the
marks before the segments of a view go through an LSTM, whose last state is that view's summary; a
small network turns the two summaries into two weights, which sum to 1. Each layer of the decoder
attends to either view with the same parameters, and adds the results up by these weights.

Parts that BART has keep BART's names, so that public checkpoints are read into them; what is below
`view_weights` is new. In the code of the paper (github.com/SALT-NLP/Multi-View-Seq2Seq) the LSTM
runs on over the padding of a batch; here an example's weights do not depend on its neighbours.
"""

import dataclasses
from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax.typing import DTypeLike
from msgspec import Meta

from xlbench.models import bart
from xlbench.models.attention import CrossAttention, KeysValues, SelfAttention
from xlbench.models.layers import Dense, LayerNorm
from xlbench.models.masks import MASKED, mask_bias
from xlbench.system import errors

VIEWS = 2


@dataclasses.dataclass(frozen=True, kw_only=True)
class MultiViewConfig(bart.BartConfig):
    """Sizes and types of one model.

    Attributes:
      temperature: the weights of the views are raised to the power 1 / temperature, and normed.
      max_segments: segments of a view that its weight depends on; later ones are read all the same.
    """

    temperature: Annotated[float, Meta(gt=0)] = 0.2
    max_segments: Annotated[int, Meta(ge=1, le=2**16)] = 64

    @property
    def max_inputs(self) -> int:
        """Tokens of both views that learned positions suffice for."""
        return VIEWS * self.max_positions


class Encoded(NamedTuple):
    """Output of the encoder."""

    states: jax.Array  # [batch, inputs, emb_dim], of both views
    weights: jax.Array  # [batch, VIEWS] float32, of the views; they sum to 1


def view_mask(segment_ids: jax.Array) -> jax.Array:
    """Segments [batch, inputs] -> which tokens are of which view, [batch, VIEWS, inputs]."""
    return segment_ids[:, None] == jnp.arange(1, VIEWS + 1)[:, None]


def view_positions(segment_ids: jax.Array) -> jax.Array:
    """Segments [batch, inputs] -> the place of each token in its view, [batch, inputs]."""
    places = jnp.arange(segment_ids.shape[1])
    starts = jnp.argmax(view_mask(segment_ids), axis=-1)  # [batch, VIEWS]
    return jnp.where(segment_ids == VIEWS, places - starts[:, -1:], places)


# ------------------------------------------------------------------------ the weights of the views


def uniform(rng: jax.Array, shape: tuple[int, ...], dtype: DTypeLike = jnp.float32) -> jax.Array:
    """Draws kernels [..., in] as PyTorch's LSTM and linear layers do: up to 1 / sqrt(in)."""
    return jax.random.uniform(rng, shape, dtype, -1, 1) * shape[-1] ** -0.5


def dense(features: int, matmul_dtype: str, stack: int = 0, **fields: Any) -> Dense:
    """A product from states; every device has its outputs, for it is small."""
    fields |= dict(matmul_dtype=matmul_dtype, kernel_init=uniform)
    return Dense(features, ('features', 'embed'), stack, **fields)


class LstmStep(nn.Module):
    """One step of an LSTM, whose gates are in PyTorch's order.

    Of PyTorch's two biases, which only occur as a sum, there is one.
    """

    features: int
    matmul_dtype: str

    @nn.compact
    def __call__(
        self,
        carry: tuple[jax.Array, jax.Array],  # state and cell, [rows, features] float32
        now: tuple[jax.Array, jax.Array],  # [rows, 4, features] of the input; [rows], False: skip
    ) -> tuple[tuple[jax.Array, jax.Array], None]:
        """The state and the cell after the step."""
        state, cell = carry
        inputs, is_there = now
        gates = dense(self.features, self.matmul_dtype, 4, use_bias=True, name='recurrent')(state)
        gates = gates + inputs
        write, forget, value, read = (gates[:, i] for i in range(4))
        new_cell = jax.nn.sigmoid(forget) * cell + jax.nn.sigmoid(write) * jnp.tanh(value)
        new = jax.nn.sigmoid(read) * jnp.tanh(new_cell), new_cell
        return jax.tree.map(lambda a, b: jnp.where(is_there[:, None], a, b), new, carry), None


class Lstm(nn.Module):
    """One layer of LSTM that starts from zeros."""

    features: int
    matmul_dtype: str

    @nn.compact
    def __call__(
        self,
        x: jax.Array,  # [rows, steps, features]
        mask: jax.Array,  # [rows, steps], False on steps to leave out
    ) -> jax.Array:
        """The last state, [rows, features] float32."""
        inputs = dense(self.features, self.matmul_dtype, 4, name='inputs')(x)
        steps = nn.scan(LstmStep, variable_broadcast='params', split_rngs={'params': False})
        zeros = jnp.zeros((len(x), self.features), jnp.float32)
        now = jnp.swapaxes(inputs, 0, 1).astype(jnp.float32), mask.T
        return steps(self.features, self.matmul_dtype, name='step')((zeros, zeros), now)[0][0]


class ViewWeights(nn.Module):
    """The weights of the views, from the states at the marks of their segments."""

    config: MultiViewConfig

    def setup(self):
        cfg = self.config
        self.lstm = Lstm(cfg.emb_dim, cfg.operands)
        self.dense = dense(cfg.emb_dim, cfg.operands, use_bias=True)
        self.norm = LayerNorm()
        self.score = dense(1, cfg.operands)

    def __call__(
        self,
        states: jax.Array,  # [batch, inputs, emb_dim], of the encoder
        views: jax.Array,  # [batch, VIEWS, inputs], which tokens are of which view
        marks: jax.Array,  # [batch, inputs], True where a segment begins
    ) -> jax.Array:
        """The weights, [batch, VIEWS] float32; a view without tokens has none."""
        batch, inputs, size = states.shape
        marks = (views & marks[:, None]).reshape(-1, inputs)
        count = min(self.config.max_segments, inputs)
        # The places of the first marks of each view, in order; behind them is anything.
        places = jnp.argsort(~marks, axis=-1, stable=True)[:, :count]
        is_mark = jnp.take_along_axis(marks, places, axis=-1)
        places = places.reshape(batch, -1, 1)
        sections = jnp.take_along_axis(states, places, axis=1).reshape(-1, count, size)
        summary = self.lstm(sections, is_mark)
        hidden = jnp.tanh(self.norm(self.dense(summary)))
        scores = self.score(hidden).astype(jnp.float32).reshape(batch, VIEWS)
        scores = jnp.where(jnp.any(views, axis=-1), scores, MASKED)
        # The powers of a softmax, normed, are the softmax of the multiples.
        return jax.nn.softmax(scores / self.config.temperature, axis=-1)


# ------------------------------------------------------------------------------------- the decoder


class ViewAttention(CrossAttention):
    """Attention over each view with the same parameters; the results are added up by weights."""

    def __call__(self, x, encoded: Encoded, mask: Any = None, train: bool = False) -> jax.Array:
        """Every position of x attends to either view; see `Decoder.source_mask`."""
        q, (k, v) = self.queries(x), self.keys_values(encoded.states)
        results = [self.attend(q, k, v, None, mask[:, i, None], train) for i in range(VIEWS)]
        return mixed(results, encoded.weights)

    def step(self, x: jax.Array, source: KeysValues, mask: Any = None) -> jax.Array:
        """Attention of one new token over either view; the source has 'weights', [batch, VIEWS]."""
        over = super().step
        results = [over(x, source, mask[:, i, None]) for i in range(VIEWS)]
        beams = len(x) // len(source['weights'])
        return mixed(results, jnp.repeat(source['weights'], beams, axis=0))


def mixed(results: Sequence[jax.Array], weights: jax.Array) -> jax.Array:
    """The sum of what the views give, each [rows, length, features], by weights [rows, VIEWS]."""
    shares = (weights[:, i, None, None].astype(x.dtype) * x for i, x in enumerate(results))
    total: Any = sum(shares)
    return total


class DecoderLayer(bart.DecoderLayer):
    """Causal self-attention, attention over either view, MLP."""

    kinds = (SelfAttention, ViewAttention)

    def source_keys_values(self, encoded: Encoded) -> KeysValues:
        """Keys and values of both views, and the weights, as `step` reads them."""
        return super().source_keys_values(encoded.states) | {'weights': encoded.weights}


class Decoder(bart.Decoder):
    """The stack of decoder layers."""

    layer = DecoderLayer
    fuses_source = False

    def source_mask(self, encoded: Encoded, segment_ids, encoder_segment_ids) -> jax.Array:
        """The mask of targets over each view, [batch, VIEWS, 1, inputs]; None: all is the first."""
        del segment_ids  # A row holds one example.
        if encoder_segment_ids is None:
            encoder_segment_ids = jnp.ones(encoded.states.shape[:2], jnp.int32)
        return mask_bias(view_mask(encoder_segment_ids)[:, :, None])


# --------------------------------------------------------------------------------------- the model


class Encoder(bart.Encoder):
    """BART's encoder; positions suffice for a view, of which a row has two."""

    def position_cache(self, max_length: int) -> jax.Array:
        """The positions of the longest view in a row, [at most max_length, emb_dim] float32."""
        most = self.config.max_positions
        if max_length > VIEWS * most:
            raise errors.UserError(
                f'a row of {max_length} tokens does not fit a model with {most} positions for each '
                f'of {VIEWS} views; set the lengths of inputs to {VIEWS * most} or less'
            )
        return super().position_cache(min(max_length, most))


class MultiViewBart(bart.Bart):
    """Encoder-decoder over token ids of two views; see the module's docstring."""

    config: MultiViewConfig
    stacks = (Encoder, Decoder)

    def setup(self):
        super().setup()
        self.view_weights = ViewWeights(self.config)

    def encode(
        self,
        encoder_input_tokens: jax.Array,  # [batch, inputs]
        encoder_segment_ids: jax.Array | None = None,  # [batch, inputs]; None: all is one view
        encoder_positions: jax.Array | None = None,  # [batch, inputs]; None: 0, 1, ... in each view
        encoder_language_ids: jax.Array | None = None,
        *,
        encoder_marks: jax.Array | None = None,  # [batch, inputs], above 0 where a segment begins
        train: bool = False,
    ) -> Encoded:
        """Source tokens of both views -> encoded tokens, and the weights of the views."""
        del encoder_language_ids
        if encoder_segment_ids is None:
            encoder_segment_ids = jnp.ones_like(encoder_input_tokens)
        if encoder_positions is None:
            encoder_positions = view_positions(encoder_segment_ids)
        if encoder_marks is None:
            encoder_marks = jnp.zeros_like(encoder_input_tokens)
        # Views differ by their marks alone, so that hardly one is longer than half its row.
        encoder_positions = jnp.minimum(encoder_positions, self.config.max_positions - 1)
        states = super().encode(
            encoder_input_tokens, encoder_segment_ids, encoder_positions, train=train
        )
        weights = self.view_weights(states, view_mask(encoder_segment_ids), encoder_marks > 0)
        return Encoded(states, weights)
