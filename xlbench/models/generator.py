"""The interface of every model that writes texts, for objectives and decoders.

A family's model derives from `Generator`, makes `encoder` and `decoder` in `setup`, and gives
`output_embedding`, and `head` and `token_bias` where it has them; the rest follows. One without an
encoder gives `encode` and `hidden` as well, see gpt2.py.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import flax.linen as nn
import jax
import jax.numpy as jnp

from xlbench.models import cpu_kernels
from xlbench.models.attention import KeysValues
from xlbench.models.cpu_kernels import product
from xlbench.models.layers import Source, TransformerConfig
from xlbench.models.transformer import Cache
from xlbench.system import work
from xlbench.system.trees import Params

# The logit of a row that is no token's. Finite, so that no sum over the vocabulary is a NaN.
NO_TOKEN = -1e30

# (cache, tokens [rows]) -> (logits [rows, vocab], cache)
Step = Callable[[Cache, jax.Array], tuple[jax.Array, Cache]]
# Kernels are copied up to 47 rows, and from 16 steps on; see `Generator.steps`.
FEW_ROWS, MANY_STEPS = 47, 16


class Generator(nn.Module):
    """An encoder-decoder over token ids, or a decoder alone.

    Attributes:
      decoder_only: whether the targets go on where the inputs end, as one text: the first token
        that the decoder is fed is then the last one of the inputs.
      fixed: names of the entries of the cache that no step changes.
    """

    config: TransformerConfig
    decoder_only: ClassVar[bool] = False
    fixed: ClassVar[Sequence[str]] = (
        'cross', 'cross_mask', 'prompt_mask', 'positions', 'languages',
    )  # fmt: skip

    @property
    def reads_languages(self) -> bool:
        """True if both sides embed languages, as some XLMs do.

        Only then are arguments for languages given: [batch, length], 0, or 1 + a row of the table.
        """
        return False

    @property
    def logits_softcap(self) -> float:
        """Logits are c tanh(logits / c) before the bias; 0: as they are."""
        return 0.0

    def output_embedding(self) -> jax.Array:
        """The table [vocab, emb_dim] that turns hidden states into logits."""
        raise NotImplementedError

    def token_bias(self) -> jax.Array | None:
        """The bias that a family learns of each token, [vocab] float32; None where it has none."""
        return None

    def output_bias(self) -> jax.Array | None:
        """The bias of the logits, [vocab] float32; None where nothing is added.

        It leaves rows of padding no probability: `exp` of their logits is 0, and so are gradients.
        """
        bias, cfg = self.token_bias(), self.config
        if not cfg.vocab_padding:
            return bias
        is_token = jnp.arange(cfg.vocab_size) < cfg.vocab_size - cfg.vocab_padding
        return jnp.where(is_token, 0.0 if bias is None else bias, NO_TOKEN)

    def head(self, states: jax.Array) -> jax.Array:
        """The decoder's states -> hidden states, both [batch, targets, emb_dim]."""
        return states

    def encode(
        self,
        encoder_input_tokens: jax.Array,  # [batch, inputs]
        encoder_segment_ids: jax.Array | None = None,  # [batch, inputs]; 0 is padding
        encoder_positions: jax.Array | None = None,  # [batch, inputs]; None: 0, 1, 2, ...
        encoder_language_ids: jax.Array | None = None,  # [batch, inputs], see `reads_languages`
        *,
        train: bool = False,
    ) -> Source:
        """Source tokens -> encoded tokens."""
        given = (encoder_input_tokens, encoder_segment_ids, encoder_positions)
        return self.encoder(*given, train=train, **_languages(encoder_language_ids))

    def decode(
        self,
        encoded: Source,
        decoder_input_tokens: jax.Array,  # [batch, targets]
        encoder_segment_ids: jax.Array | None = None,  # [batch, inputs]
        decoder_segment_ids: jax.Array | None = None,  # [batch, targets]
        decoder_positions: jax.Array | None = None,  # [batch, targets]
        decoder_language_ids: jax.Array | None = None,  # [batch, targets], see `reads_languages`
        *,
        train: bool = False,
    ) -> jax.Array:  # [batch, targets, emb_dim]
        """Target tokens -> hidden states, of which `logits` makes the scores of the next tokens."""
        given = (encoder_segment_ids, decoder_segment_ids, decoder_positions)
        about = _languages(decoder_language_ids)
        return self.head(self.decoder(decoder_input_tokens, encoded, *given, train=train, **about))

    def init_cache(
        self,
        encoded: Source,
        encoder_segment_ids: jax.Array | None,  # [batch, inputs]
        max_length: int,
        beams: int = 1,
        decoder_language_ids: jax.Array | None = None,  # [batch, 1 or more], of the first token
    ) -> Cache:
        """The cache of decoding up to max_length tokens; rows hold one example.

        The rows of a step are batch * beams, the beams of an example side by side.
        """
        cache = self.decoder.init_cache(encoded, encoder_segment_ids, max_length, beams)
        if decoder_language_ids is None:
            return cache
        return {**cache, 'languages': decoder_language_ids[:, :1] - 1}

    def take_examples(self, cache: Cache, examples: jax.Array) -> Cache:
        """The cache of some examples [n]; each may come once."""
        of_all = {name: cache[name] for name in ('index', 'positions') if name in cache}
        of_each = {name: value for name, value in cache.items() if name not in of_all}
        taken = jax.tree.map(lambda x: x.at[examples].get(mode='promise_in_bounds'), of_each)
        return taken | of_all

    def resize(self, cache: Cache, max_length: int) -> Cache:
        """The cache with room for this number of new tokens of each hypothesis, more or fewer."""
        _, beams, room = cache['origin'].shape
        more = max_length - room

        def resized(x: jax.Array, axis: int, more: int) -> jax.Array:
            padding = [(0, more if i == axis else 0, 0) for i in range(x.ndim)]
            return jax.lax.pad(x, jnp.zeros((), x.dtype), padding)

        def layer(past: KeysValues) -> KeysValues:
            key, value = past['key'], past['value']
            return {'key': resized(key, 3, more * beams), 'value': resized(value, 2, more * beams)}

        origin = resized(cache['origin'], 2, more)
        return {**cache, 'origin': origin, 'self': [layer(past) for past in cache['self']]}

    def hidden(
        self,
        encoder_input_tokens: jax.Array,  # [batch, inputs]
        decoder_input_tokens: jax.Array,  # [batch, targets]
        encoder_segment_ids: jax.Array | None = None,
        decoder_segment_ids: jax.Array | None = None,
        encoder_positions: jax.Array | None = None,
        decoder_positions: jax.Array | None = None,
        *,
        decoder_language_ids: jax.Array | None = None,  # [batch, targets]
        train: bool = False,
        **encoder_features: jax.Array,
    ) -> jax.Array:  # [batch, targets, emb_dim]
        """Encode and decode; `encoder_features` are what else a family's `encode` reads."""
        source = (encoder_input_tokens, encoder_segment_ids, encoder_positions)
        segments = (encoder_segment_ids, decoder_segment_ids)
        encoded = self.encode(*source, train=train, **encoder_features)
        about = (decoder_positions, decoder_language_ids)
        return self.decode(encoded, decoder_input_tokens, *segments, *about, train=train)

    def __call__(self, *tokens_and_segments, train: bool = False, **named) -> jax.Array:
        """Takes what `hidden` takes -> logits [batch, targets, vocab], float32. For small uses."""
        return self.logits(self.hidden(*tokens_and_segments, train=train, **named))

    def decode_step(self, cache: Cache, tokens: jax.Array) -> tuple[jax.Array, Cache]:
        """Tokens [rows] at the cache's position -> logits [rows, vocab], float32, and the cache."""
        states, cache = self.decoder.step(cache, tokens[:, None])
        return self.logits(self.head(states)[:, 0]), cache

    @nn.nowrap
    def reads_copies(self, rows: int, length: int) -> bool:
        """Returns whether `copies` of kernels speed up about this many steps of this many rows.

        They are on one CPU, the mesh of `partitioning.activate`.
        """
        on_cpu = jax.default_backend() == 'cpu' and jax.sharding.get_abstract_mesh().size <= 1
        return on_cpu and rows <= FEW_ROWS and rows % 16 != 0 and length >= MANY_STEPS

    @nn.nowrap
    def copies(self, params: Params) -> list[jax.Array]:
        """The kernels outside the encoder in the form in which few rows are multiplied fastest."""
        leaves = jax.tree_util.tree_leaves_with_path(params)
        return [cpu_kernels.transposed_copy(x) for path, x in leaves if _is_copied(path, x)]

    @nn.nowrap
    def steps(
        self, params: Params, rows: int, length: int, copies: Sequence[jax.Array] | None = None
    ) -> Step:
        """`decode_step` with these parameters, for `rows` rows and about `length` steps.

        To be called under jit before a loop. Where it pays, the steps read the given `copies`, or
        else some that are made for this loop.
        """
        apply: Callable[..., Any] = self.apply
        if not self.reads_copies(rows, length):
            return functools.partial(apply, {'params': params}, method='decode_step')
        leaves, tree = jax.tree_util.tree_flatten_with_path(params)
        given = self.copies(params) if copies is None else copies

        def step(cache: Cache, tokens: jax.Array) -> tuple[jax.Array, Cache]:
            # Within the loop, so that it reads the copies and not these views.
            views = (jnp.moveaxis(copy, 0, -1) for copy in given)
            params = jax.tree.unflatten(
                tree, [next(views) if _is_copied(path, x) else x for path, x in leaves]
            )
            with work.setting(cpu_kernels.READS_TRANSPOSED, True):
                return apply({'params': params}, cache, tokens, method='decode_step')

        return step

    def logits(self, hidden: jax.Array) -> jax.Array:
        """Hidden states [..., emb_dim] -> logits [..., vocab], float32."""
        table, bias = self.output_embedding(), self.output_bias()
        logits = product(hidden.astype(jnp.float32), table, self.config.operands)
        if cap := self.logits_softcap:
            logits = cap * jnp.tanh(logits / cap)
        if bias is not None:
            logits = logits + bias
        axes = ('batch', *(['length'] if hidden.ndim == 3 else []), 'vocab')
        return nn.with_logical_constraint(logits, axes)


def _is_copied(path: jax.tree_util.KeyPath, leaf: jax.Array) -> bool:
    """Returns whether `Generator.copies` has a copy of this parameter."""
    return path[0].key != 'encoder' and path[-1].key == 'kernel' and leaf.ndim > 1


def _languages(ids: jax.Array | None) -> dict[str, jax.Array]:
    """The languages of batches as rows of a table, -1 for none; nothing where none are given."""
    return {} if ids is None else {'languages': ids - 1}
