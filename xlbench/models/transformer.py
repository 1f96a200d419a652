"""The parts of all families: a layer, stacks of layers, and the caches of decoders.

A family's file derives from each. Its config adds fields and sizes; its layers say how a part is
made, and under which names the parameters are; its stacks say how tokens enter and leave. How parts
are joined, masked, cached, looped over and recomputed is written here, once.

Positions of a row are numbered 0, 1, 2, ... unless they are given, as those of packed rows are.
Segment 0 is padding; without segments every token is seen.
"""

import itertools
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypedDict, TypeVar

import flax.linen as nn
import jax
import jax.numpy as jnp

from xlbench.models.attention import Attention, CrossAttention, KeysValues, SelfAttention, as_past
from xlbench.models.fused import choice
from xlbench.models.layers import IN_LOOP, KEPT, Mlp, Source, TransformerConfig, dropout, place
from xlbench.models.masks import Bias, MaskSpec, mask_bias
from xlbench.system import work
from xlbench.system.trees import Params

# ---------------------------------------------------------------------------------------- the layer


class Layer(nn.Module):
    """Attention within the text, attention over a source in a decoder, MLP.

    Each part is added to what came before it.

    Attributes:
      names: of the parts, in the order above, and of the norm of each, as the parameters have them.
      kinds: of attention within the text and over a source.
    """

    config: TransformerConfig
    names: ClassVar[Sequence[tuple[str, str]]] = (
        ('attention', 'attention_norm'),
        ('mlp', 'mlp_norm'),
    )
    kinds: ClassVar[Sequence[type[Attention]]] = (SelfAttention, CrossAttention)

    @property
    def pre_norm(self) -> bool:
        """True if parts read a normed input; else their sums with it are normed."""
        raise NotImplementedError

    def setup(self):
        kinds = self.kinds[: len(self.names) - 1]
        made = [*map(self._attention, kinds), self._mlp()]
        for (name, norm), part in zip(self.names, made, strict=True):
            setattr(self, name, part)
            setattr(self, norm, self.config.norm())
        self.parts = [(getattr(self, norm), getattr(self, name)) for name, norm in self.names]
        self.dropout = dropout(self.config, self.config.dropout_rate)

    def _attention(self, kind: type[Attention]) -> nn.Module:
        cfg: Any = self.config  # One with `attention_dropout_rate`.
        rate = cfg.attention_dropout_rate
        return kind(cfg, use_bias=True, scaled=True, dropout_rate=rate, **cfg.inits)

    def _mlp(self) -> Mlp:
        raise NotImplementedError

    def __call__(
        self,
        x: jax.Array,  # [batch, length, emb_dim]
        encoded: Source | None,
        bias: Bias,  # see Stack.bias
        mask: jax.Array | MaskSpec | None,  # [1 or batch, 1, length, length], 0 or MASKED
        cross_mask: jax.Array | MaskSpec | None,  # [batch, 1, 1 or length, inputs], 0 or MASKED
        train: bool,
    ) -> jax.Array:  # [batch, length, emb_dim]
        """The layer for whole texts."""
        x = place(x)
        over_source = [(encoded, cross_mask)] * (len(self.parts) - 2)
        arguments = [(bias, mask), *over_source, ()]
        for (norm, part), given in zip(self.parts, arguments, strict=True):
            y = part(self._before(norm, x), *given, train)
            x = self._after(norm, x, self.dropout(y, train))
        return x

    def step(
        self,
        x: jax.Array,  # [rows, 1, emb_dim]
        past: KeysValues,  # of earlier tokens, see Decoder.init_cache
        source: KeysValues | None,
        bias: Bias,  # see Decoder.bias_step
        mask: jax.Array,  # [batch, 1, beams, places], 0 or MASKED
        cross_mask: jax.Array | None,  # [batch, 1, 1, inputs], 0 or MASKED
        place: jax.Array,  # [], of this token's first key and value in `past`
    ) -> tuple[jax.Array, KeysValues]:  # x and past, grown by this token
        """The layer for one token, with what earlier tokens left in `past`."""
        (norm, attention), *over_source, (mlp_norm, mlp) = self.parts
        y, past = attention.step(self._before(norm, x), past, place, bias, mask)
        x = self._after(norm, x, y)
        for norm, attention in over_source:
            x = self._after(norm, x, attention.step(self._before(norm, x), source, cross_mask))
        return self._after(mlp_norm, x, mlp(self._before(mlp_norm, x))), past

    def source_keys_values(self, encoded: Source) -> KeysValues:
        """Keys and values of the source, as `step` reads them."""
        _, attention = self.parts[1]
        return as_past(*attention.keys_values(encoded))

    def _before(self, norm: nn.Module, x: jax.Array) -> jax.Array:
        return norm(x) if self.pre_norm else x

    def _after(self, norm: nn.Module, x: jax.Array, y: jax.Array) -> jax.Array:
        return x + y if self.pre_norm else norm(x + y)


# ------------------------------------------------------------------- many layers, one after another
#
# Each layer has parameters of its own, under its own name, wherever they are kept. A loop reads
# them from arrays that have the layers as their leading axis, and that are put together at the
# start of each run: a copy of the parameters, in exchange for which one round of layers is compiled
# for all.

REMAT = {
    'full': jax.checkpoint_policies.nothing_saveable,
    # By name: a policy that looks for products does not see into one with a gradient of its own.
    'dots': jax.checkpoint_policies.save_only_these_names(KEPT),
}
_Module = TypeVar('_Module', bound=nn.Module)


def checkpointed(layer: type[_Module], remat: str) -> type[_Module]:
    """The class of a layer that is recomputed in the backward pass as TransformerConfig.remat says.

    It is called as Layer is, with positional arguments only.
    """
    if remat == 'none':
        return layer
    # The last of its arguments, `train`, is a Python bool.
    return nn.remat(layer, policy=REMAT[remat], prevent_cse=True, static_argnums=(6,))


def run_layers(
    layers: Sequence[nn.Module],  # bound, of one class
    per_round: int,  # layers of a round of a loop; 0: no loops
    x: jax.Array,  # what the first layer reads; every layer keeps its shape and type
    arguments: tuple[Any, ...],  # what all layers read
) -> jax.Array:
    """layer(x, *arguments) for each layer in turn, x being what the one before gave.

    Layers whose parameters are alike (LoRA may have adapted only some) form loops; what makes less
    than two rounds does not. Dropout draws other masks than without loops.
    """
    if not per_round or not layers or layers[0].is_initializing():
        return _in_turn(layers, x, arguments)
    for _, group in itertools.groupby(layers, _form):
        alike = list(group)
        rounds = len(alike) // per_round
        looped = alike[: rounds * per_round] if rounds > 1 else []
        if looped:
            x = _loop(looped, per_round, x, arguments)
        x = _in_turn(alike[len(looped) :], x, arguments)
    return x


def _in_turn(layers: Sequence[nn.Module], x: jax.Array, arguments: tuple[Any, ...]) -> jax.Array:
    for layer in layers:
        x = layer(x, *arguments)
    return x


def _form(layer: nn.Module) -> tuple:
    """Equal for layers whose parameters can lie in one array each."""
    leaves, structure = jax.tree.flatten(layer.variables['params'])
    return structure, [(leaf.shape, leaf.dtype) for leaf in leaves]


def _loop(
    layers: Sequence[nn.Module], per_round: int, x: jax.Array, arguments: tuple[Any, ...]
) -> jax.Array:
    apply: Callable[..., Any] = layers[0].clone(parent=None).apply
    of_layers = [(layer.variables['params'], _rngs(layer)) for layer in layers]
    # The layers that come first in a round, those that come second, ...
    of_rounds = [
        jax.tree.map(lambda *leaves: jnp.stack(leaves), *of_layers[place::per_round])
        for place in range(per_round)
    ]

    def one_round(x: jax.Array, of_round: list[tuple[Params, dict[str, jax.Array]]]):
        for params, rngs in of_round:
            with work.setting(IN_LOOP, True):
                x = apply({'params': params}, x, *arguments, rngs=rngs)
        return x, None

    return jax.lax.scan(one_round, x, of_rounds)[0]


def _rngs(layer: nn.Module) -> dict[str, jax.Array]:
    """A key of a bound layer's own for its dropout, another one each time that it is run."""
    return {'dropout': layer.make_rng('dropout')} if layer.has_rng('dropout') else {}


# --------------------------------------------------------------------------------------- the stacks


class Stack(nn.Module):
    """A stack of layers.

    Attributes:
      layer: the class of its layers.
      depth: the field of the config that says how many there are.
    """

    config: TransformerConfig
    layer: ClassVar[type[Layer]]
    depth: ClassVar[str] = 'num_layers'

    @property
    def norm_name(self) -> str:
        """The name of the norm of the last layer's result; '': there is none."""
        return ''

    def setup(self):
        made = checkpointed(self.layer, self.config.remat)
        self.layers = [made(self.config) for _ in range(getattr(self.config, self.depth))]
        self.dropout = dropout(self.config, self.config.dropout_rate)
        if self.norm_name:
            setattr(self, self.norm_name, self.config.norm())

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
        return getattr(self, self.norm_name)(x) if self.norm_name else x

    def bias(self, length: int, fused: bool) -> jax.Array | None:
        """The bias of relative positions on logits, [1, heads, length, length]; None: nothing.

        For fused attention by difference of positions, [heads, 2 * length].
        """
        del length, fused
        return None

    def takes_fused(self, tokens: jax.Array, keys: int, train: bool) -> bool:
        """Returns whether the attention of tokens [batch, length] over these keys is fused."""
        rows, length = tokens.shape
        return choice.takes_fused(self.config, rows, length, keys, train)

    def own_mask(
        self, tokens: jax.Array, segments: jax.Array | None, train: bool, causal: bool = False
    ) -> jax.Array | MaskSpec | None:
        """The mask of tokens [batch, length] over those of their own text; short if it is fused."""
        length, mask = tokens.shape[1], MaskSpec(segments, segments, causal)
        return mask if self.takes_fused(tokens, length, train) else mask.array(length)

    def run(
        self,
        x: jax.Array,  # [batch, length, emb_dim]
        mask: jax.Array | MaskSpec | None,  # [1 or batch, 1, length, length], 0 or MASKED
        train: bool,
        encoded: Source | None = None,
        cross_mask: jax.Array | MaskSpec | None = None,  # [batch, 1, 1 or length, inputs]
    ) -> jax.Array:  # [batch, length, emb_dim]
        """All layers for whole texts."""
        bias = self.bias(x.shape[1], isinstance(mask, MaskSpec))
        arguments = (encoded, bias, mask, cross_mask, train)
        x = run_layers(self.layers, self.config.scan_layers, x, arguments)
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
        mask = self.own_mask(tokens, segment_ids, train)
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
    cross: Sequence[KeysValues | None]
    cross_mask: jax.Array | None
    prompt_mask: jax.Array
    positions: Any
    languages: jax.Array


class Decoder(Stack):
    """A stack in which a token sees earlier ones, and a source.

    Attributes:
      fuses_source: whether the attention over the source may be the fused one.
    """

    fuses_source: ClassVar[bool] = True

    def __call__(
        self, tokens, encoded, encoder_segment_ids, segment_ids, positions, *, train, **about
    ) -> jax.Array:
        """Target tokens -> states of the last layer [batch, targets, emb_dim].

        Arguments are those of Generator.decode; `about` is what else `embed` reads.
        """
        mask = self.own_mask(tokens, segment_ids, train, causal=True)
        cross_mask: Any = MaskSpec(segment_ids, encoder_segment_ids)
        if not (self.fuses_source and self.takes_fused(tokens, encoded.shape[1], train)):
            cross_mask = self.source_mask(encoded, segment_ids, encoder_segment_ids)
        x = self.embed(tokens, positions, train, **about)
        return self.run(x, mask, train, encoded, cross_mask)

    def source_mask(
        self,
        encoded: Source,
        segment_ids: jax.Array | None,  # [batch, targets]; None where a row holds one example
        encoder_segment_ids: jax.Array | None,  # [batch, inputs]
    ) -> jax.Array | None:  # [batch, 1, 1 or targets, inputs], 0 or MASKED
        """The mask of targets over their source; None where nothing is padding."""
        del encoded
        return MaskSpec(segment_ids, encoder_segment_ids).array(1)

    def position_cache(self, max_length: int) -> Any:
        """The entries of the cache that the positions of up to max_length tokens need."""
        del max_length
        return None

    def embed_step(self, cache: Cache, tokens: jax.Array) -> jax.Array:
        """Tokens [rows, 1] at the cache's position -> what the first layer reads."""
        return self.embed(tokens, cache['index'][None, None], train=False)

    def bias_step(self, cache: Cache) -> Sequence[Bias]:
        """The bias of a step's logits in each layer, [1 or batch, heads, 1, places] or None."""
        del cache
        return [None] * len(self.layers)

    def init_cache(
        self, encoded: Source, encoder_segment_ids: Any, max_length: int, beams: int
    ) -> Cache:
        """The cache before the first token; arguments as in Generator.init_cache."""
        cross = [layer.source_keys_values(encoded) for layer in self.layers]
        _, attention = self.layers[0].parts[0]
        empty = attention.empty(cross[0], max_length * beams)
        return {
            'index': jnp.zeros((), jnp.int32),
            'origin': jnp.zeros((len(cross[0]['value']), beams, max_length), jnp.int32),
            'self': [empty] * len(self.layers),
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
