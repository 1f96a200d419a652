"""The parts of all families: the config, a layer, and the stacks of an encoder and of a decoder.

A family's file derives from each. Its config adds fields and sizes; its layers make their parts in
`setup`, under the names that the parameters have; its stacks say how tokens enter and leave. How
parts are joined, masked, cached and recomputed is written here, once.

Positions of a row are numbered 0, 1, 2, ... unless they are given, as those of packed rows are.
Segment 0 is padding; without segments every token is seen.
"""

import dataclasses
from typing import Annotated, ClassVar, Literal, NamedTuple, TypedDict

import flax.linen as nn
import jax
import jax.numpy as jnp

from xlbench.models import loops, masks
from xlbench.models.attention import CrossAttention, KeysValues, SelfAttention
from xlbench.models.dense import Dropout, Mlp, positions_shared
from xlbench.models.fused import choice
from xlbench.models.masks import MaskSpec, mask_bias
from xlbench.models.placement import place
from xlbench.settings.ranges import Block, Meta


@dataclasses.dataclass(frozen=True, kw_only=True)
class TransformerConfig(Block):
    """Sizes and types that every family has.

    Attributes:
      vocab_size: rows of the embedding tables.
      vocab_padding: how many of them, at the end, are no token's. They are there for a mesh to cut
        the tables evenly; no text holds their ids, and no decoder gives them any probability.
      emb_dim: features of a token between the layers.
      num_heads: heads of each attention.
      head_dim: features of each head.
      mlp_dim: hidden units of each MLP.
      dropout_rate: on embeddings and residuals.
      shared_dropout: one mask for all positions of a row, as T5X draws it (and cheaper); False
        draws one for each position, as transformers does.
      dtype: type of activations.
      matmul_dtype: type of the operands of products with parameters; None means `dtype`.
      remat: what is recomputed in the backward pass: 'none', 'dots' (all but products), 'full'.
      attention: 'plain', 'fused' (no array of queries x keys), or 'auto', which takes the
        fused one on TPUs and CPUs where it is possible and the texts are long enough.
      scan_layers: layers of a round of a loop over a stack, of which one round is compiled; 0: no
        loop, every layer is compiled. The results are the same, but for the masks of dropout.
    """

    vocab_size: Annotated[int, Meta(ge=0, le=2**26)]
    vocab_padding: Annotated[int, Meta(ge=0, le=2**20)] = 0
    emb_dim: Annotated[int, Meta(ge=1, le=2**20)]
    num_heads: Annotated[int, Meta(ge=1, le=2**20)]
    head_dim: Annotated[int, Meta(ge=1, le=2**20)]
    mlp_dim: Annotated[int, Meta(ge=1, le=2**20)]
    dropout_rate: Annotated[float, Meta(ge=0, lt=1)] = 0.1
    shared_dropout: bool = True
    dtype: Literal['float32', 'bfloat16'] = 'float32'
    matmul_dtype: Literal['float32', 'bfloat16'] | None = None
    remat: Literal['none', 'dots', 'full'] = 'none'
    attention: Literal['plain', 'fused', 'auto'] = 'auto'
    scan_layers: Annotated[int, Meta(ge=0, le=2**8)] = 0

    @property
    def operands(self) -> str:
        """The type of the operands of products with parameters."""
        return self.matmul_dtype or self.dtype


# ---------------------------------------------------------------------------------------- the parts


def self_attention(
    cfg: TransformerConfig, kind: type[SelfAttention] = SelfAttention, **fields
) -> SelfAttention:
    """Attention within a text in the sizes of a config; `fields` are the others of Attention."""
    return kind(**_attention(cfg), **fields)


def cross_attention(
    cfg: TransformerConfig, kind: type[CrossAttention] = CrossAttention, **fields
) -> CrossAttention:
    """Attention over a source in the sizes of a config; `fields` are the others of Attention."""
    return kind(**_attention(cfg), **fields)


def _attention(cfg: TransformerConfig) -> dict[str, int | bool | str]:
    return dict(
        num_heads=cfg.num_heads,
        head_dim=cfg.head_dim,
        out_features=cfg.emb_dim,
        shared_dropout=cfg.shared_dropout,
        matmul_dtype=cfg.operands,
    )


def mlp(cfg: TransformerConfig, **fields) -> Mlp:
    """The MLP in the sizes of a config; `fields` are the others of Mlp."""
    return Mlp(
        features=cfg.mlp_dim,
        shared_dropout=cfg.shared_dropout,
        matmul_dtype=cfg.operands,
        **fields,
    )


def dropout(cfg: TransformerConfig) -> Dropout:
    """Dropout of embeddings and residuals."""
    return Dropout(cfg.dropout_rate, positions_shared(cfg.shared_dropout))


# ---------------------------------------------------------------------------------------- the layer


class Parts(NamedTuple):
    """The parts that a layer joins, in this order, each with its norm.

    Attributes:
      within: norm and attention within the text.
      mlp: norm and MLP.
      source: norm and attention over a source, which comes second; None where there is no source.
    """

    within: tuple[nn.Module, SelfAttention]
    mlp: tuple[nn.Module, Mlp]
    source: tuple[nn.Module, CrossAttention] | None = None


class Layer(nn.Module):
    """Attention within the text, attention over a source in a decoder, MLP.

    Each part is added to what came before it. A family's layer makes in `setup` the modules of
    `parts`, each under the name that its parameters have, and `dropout`.
    """

    config: TransformerConfig

    @property
    def pre_norm(self) -> bool:
        """True if layers normalise their input; False if they normalise the sum."""
        raise NotImplementedError

    def __call__(
        self,
        x: jax.Array,  # [batch, length, emb_dim]
        encoded: jax.Array | None,  # [batch, inputs, emb_dim], the source
        bias: jax.Array | None,  # relative positions, see Stack.bias
        mask: jax.Array | MaskSpec | None,  # [1 or batch, 1, length, length], 0 or MASKED
        cross_mask: jax.Array | MaskSpec | None,  # [batch, 1, 1 or length, inputs], 0 or MASKED
        train: bool,
    ) -> jax.Array:  # [batch, length, emb_dim]
        """The layer for whole texts."""
        x = place(x)
        parts = [(*self.parts.within, bias, mask)]
        if self.parts.source:
            parts.append((*self.parts.source, encoded, cross_mask))
        for norm, part, *arguments in (*parts, self.parts.mlp):
            y = part(self._before(norm, x), *arguments, train)
            x = self._after(norm, x, self.dropout(y, train))
        return x

    def step(
        self,
        x: jax.Array,  # [rows, 1, emb_dim]
        past: KeysValues,  # of earlier tokens, see Decoder.init_cache
        source: KeysValues | None,
        bias: jax.Array | None,  # [1, heads, 1, places], relative positions
        mask: jax.Array,  # [batch, 1, beams, places], 0 or MASKED
        cross_mask: jax.Array | None,  # [batch, 1, 1, inputs], 0 or MASKED
        place: jax.Array,  # [], of this token's first key and value in `past`
    ) -> tuple[jax.Array, KeysValues]:  # x and past, grown by this token
        """The layer for one token, with what earlier tokens left in `past`."""
        norm, attention = self.parts.within
        y, past = attention.step(self._before(norm, x), past, place, bias, mask)
        x = self._after(norm, x, y)
        if self.parts.source:
            norm, attention = self.parts.source
            x = self._after(norm, x, attention.step(self._before(norm, x), source, cross_mask))
        norm, mlp = self.parts.mlp
        return self._after(norm, x, mlp(self._before(norm, x))), past

    def source_keys_values(self, encoded: jax.Array) -> KeysValues:
        """Keys and values of the source [batch, inputs, emb_dim], as `step` reads them."""
        key, value = self.parts.source[1].keys_values(encoded)
        return {'key': jnp.swapaxes(key, 2, 3), 'value': value}

    def _before(self, norm: nn.Module, x: jax.Array) -> jax.Array:
        return norm(x) if self.pre_norm else x

    def _after(self, norm: nn.Module, x: jax.Array, y: jax.Array) -> jax.Array:
        return x + y if self.pre_norm else norm(x + y)


def checkpointed_layer(layer: type[Layer], cfg: TransformerConfig) -> type[Layer]:
    """Returns the class of a layer that is recomputed as the config says."""
    return loops.checkpointed(layer, cfg.remat, train_argument=6)


def layers(layer: type[Layer], cfg: TransformerConfig, count: int) -> list[Layer]:
    """Makes `count` layers, each recomputed as the config says."""
    made = checkpointed_layer(layer, cfg)
    return [made(cfg) for _ in range(count)]


# --------------------------------------------------------------------------------------- the stacks


class Stack(nn.Module):
    """A stack of layers; a family's makes `layers` in `setup`."""

    config: TransformerConfig

    def embed(
        self,
        tokens: jax.Array,  # [batch, length]
        positions: jax.Array | None,  # broadcasts to [batch, length]; None: 0, 1, 2, ...
        train: bool,
    ) -> jax.Array:  # [batch, length, emb_dim]
        """Tokens -> what the first layer reads."""
        raise NotImplementedError

    def normalize(self, x: jax.Array, train: bool) -> jax.Array:
        """The last layer's x [batch, length, emb_dim] -> what the stack gives."""
        del train
        return x

    def bias(self, length: int, fused: bool) -> jax.Array | None:
        """The bias of relative positions on logits, [1, heads, length, length]; None: nothing.

        For fused attention by difference of positions, [heads, 2 * length].
        """
        del length, fused
        return None

    def takes_fused(self, tokens: jax.Array, keys: int, train: bool) -> bool:
        """Returns whether the attention of tokens [batch, length] over these keys is fused."""
        return choice.takes_fused(self.config, *tokens.shape, keys, train)

    def run(
        self,
        x: jax.Array,  # [batch, length, emb_dim]
        mask: jax.Array | MaskSpec | None,  # [1 or batch, 1, length, length], 0 or MASKED
        train: bool,
        encoded: jax.Array | None = None,  # [batch, inputs, emb_dim]
        cross_mask: jax.Array | MaskSpec | None = None,  # [batch, 1, 1 or length, inputs]
    ) -> jax.Array:  # [batch, length, emb_dim]
        """All layers for whole texts."""
        bias = self.bias(x.shape[1], isinstance(mask, MaskSpec))
        arguments = (encoded, bias, mask, cross_mask, train)
        x = loops.run(self.layers, self.config.scan_layers, x, arguments)
        return self.normalize(x, train)


class Encoder(Stack):
    """A stack in which every token sees all of its text."""

    def __call__(
        self,
        tokens: jax.Array,  # [batch, length]
        segment_ids: jax.Array | None = None,  # [batch, length]
        positions: jax.Array | None = None,  # [batch, length]
        *,
        train: bool = False,
    ) -> jax.Array:  # [batch, length, emb_dim]
        """Tokens -> encoded tokens."""
        mask = masks.segment_mask(segment_ids, self.takes_fused(tokens, tokens.shape[1], train))
        return self.run(self.embed(tokens, positions, train), mask, train)


class Cache(TypedDict, total=False):
    """The state of decoding between steps, a plain tree; rows hold one example.

    Attributes:
      index: [], tokens so far.
      origin: [batch, beams, max_length]; for each token of a hypothesis, the beam in whose place
        its key and value lie. That is all that follows when hypotheses change places; keys and
        values stay where they were written.
      self: of each layer {'key': [batch, heads, head_dim, places], 'value': [batch, heads, places,
        head_dim]}, where token t of beam j has place t * beams + j, behind those of a prompt.
      cross: of each layer {'key': [batch, heads, head_dim, inputs], 'value': [batch, heads, inputs,
        head_dim]}: of the source, computed once and shared by the beams.
      cross_mask: [batch, 1, 1, inputs], 0 or MASKED; None where nothing is padding.
      prompt_mask: [batch, 1, 1, inputs], 0 or MASKED, of a model without an encoder: which of the
        first places of `self` hold a token of the inputs, for all beams.
      positions: what a family's positions need.
      languages: [batch, 1], rows of a table, of an XLM that has one.
    """

    index: jax.Array
    origin: jax.Array
    self: list[KeysValues]
    cross: list[KeysValues]
    cross_mask: jax.Array | None
    prompt_mask: jax.Array
    positions: jax.Array
    languages: jax.Array


class Decoder(Stack):
    """A stack in which a token sees earlier ones, and a source.

    Attributes:
      fuses_source: whether the attention over the source may be the fused one.
    """

    fuses_source: ClassVar[bool] = True

    def __call__(
        self,
        tokens: jax.Array,  # [batch, targets]
        encoded: jax.Array,  # [batch, inputs, emb_dim]
        encoder_segment_ids: jax.Array | None = None,  # [batch, inputs]
        segment_ids: jax.Array | None = None,  # [batch, targets]
        positions: jax.Array | None = None,  # [batch, targets]
        *,
        train: bool = False,
        **about: jax.Array,
    ) -> jax.Array:  # [batch, targets, emb_dim]
        """Target tokens -> states of the last layer; `about` is what else `embed` reads."""
        length = tokens.shape[1]
        mask = masks.causal_mask(length, segment_ids, self.takes_fused(tokens, length, train))
        if self.fuses_source and self.takes_fused(tokens, encoded.shape[1], train):
            cross_mask = masks.seen_source(length, segment_ids, encoder_segment_ids)
        else:
            cross_mask = self.source_mask(encoded, segment_ids, encoder_segment_ids)
        x = self.embed(tokens, positions, train, **about)
        return self.run(x, mask, train, encoded, cross_mask)

    def source_mask(
        self,
        encoded: jax.Array,  # [batch, inputs, emb_dim]
        segment_ids: jax.Array | None,  # [batch, targets]; None where a row holds one example
        encoder_segment_ids: jax.Array | None,  # [batch, inputs]
    ) -> jax.Array | None:  # [batch, 1, 1 or targets, inputs], 0 or MASKED
        """The mask of targets over their source; None where nothing is padding."""
        del encoded
        return masks.source_mask(segment_ids, encoder_segment_ids)

    def position_cache(self, max_length: int) -> jax.Array | None:
        """The entries of the cache that the positions of up to max_length tokens need."""
        del max_length
        return None

    def embed_step(self, cache: Cache, tokens: jax.Array) -> jax.Array:
        """Tokens [rows, 1] at the cache's position -> what the first layer reads."""
        return self.embed(tokens, cache['index'][None, None], train=False)

    def bias_step(self, cache: Cache) -> list[jax.Array | None]:
        """The bias of a step's logits in each layer, [1 or batch, heads, 1, places] or None.

        Biases of relative positions, for one.
        """
        del cache
        return [None] * len(self.layers)

    def init_cache(
        self,
        encoded: jax.Array,  # [batch, inputs, emb_dim]
        encoder_segment_ids: jax.Array | None,  # [batch, inputs]
        max_length: int,
        beams: int,
    ) -> Cache:
        """The cache before the first token."""
        cross = [layer.source_keys_values(encoded) for layer in self.layers]
        batch, heads, _, head_dim = cross[0]['value'].shape
        dtype, length = cross[0]['value'].dtype, max_length * beams
        empty = {
            'key': jnp.zeros((batch, heads, head_dim, length), dtype),
            'value': jnp.zeros((batch, heads, length, head_dim), dtype),
        }
        return {
            'index': jnp.zeros((), jnp.int32),
            'origin': jnp.zeros((batch, beams, max_length), jnp.int32),
            'self': [empty for _ in self.layers],
            'cross': cross,
            'cross_mask': self.source_mask(encoded, None, encoder_segment_ids),
            'positions': self.position_cache(max_length),
        }

    def step(self, cache: Cache, tokens: jax.Array) -> tuple[jax.Array, Cache]:
        """Tokens [rows, 1] -> states of the last layer [rows, 1, emb_dim], and the cache."""
        x, biases = self.embed_step(cache, tokens), self.bias_step(cache)
        cache, mask, place = _next_token(cache)
        grown = []
        for layer, past, source, bias in zip(
            self.layers, cache['self'], cache['cross'], biases, strict=True
        ):
            x, past = layer.step(x, past, source, bias, mask, cache['cross_mask'], place)
            grown.append(past)
        return self.normalize(x, train=False), {**cache, 'self': grown}


def _next_token(cache: Cache) -> tuple[Cache, jax.Array, jax.Array]:
    """The past of a step, as its layers need it.

    Returns:
      The cache, in which the new token of each hypothesis lies in its own place, one token longer.
      The mask [batch, 1, beams, places], 0 where a hypothesis has a token of its own, or a prompt.
      The place [] of the new token's first key and value.
    """
    index, origin = cache['index'], cache['origin']
    _, beams, max_length = origin.shape
    beam, position = jnp.arange(beams), jnp.arange(max_length)
    origin = jnp.where(position == index, beam[:, None], origin)
    is_its_own = (origin[..., None] == beam) & (position <= index)[:, None]
    mask = mask_bias(is_its_own.reshape(len(origin), 1, beams, max_length * beams))
    place = index * beams
    if 'prompt_mask' in cache:
        inputs = cache['prompt_mask'].shape[-1]
        prompt = jnp.broadcast_to(cache['prompt_mask'], (len(origin), 1, beams, inputs))
        mask, place = jnp.concatenate([prompt, mask], axis=-1), place + inputs
    return {**cache, 'index': index + 1, 'origin': origin}, mask, place
