"""Decodes a batch with a model, by any method."""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from xlbench.decoding import loop, sampling
from xlbench.decoding.beam import beam_search
from xlbench.decoding.layout import AS_TRAINED, Layout
from xlbench.decoding.rules import Rules
from xlbench.parallel import partitioning
from xlbench.settings.decoding import Options
from xlbench.system.errors import UserError
from xlbench.system.trees import Params, Tree

# Examples of a batch -> what `decode` takes as `copies` for it.
Copies = Callable[[int], Sequence[jax.Array] | None]


class Decoded(NamedTuple):
    """The texts of each example, best first; samples in the order of their numbers."""

    tokens: jax.Array  # [batch, num_return, max_length] int32; the end is kept, padding after it
    scores: jax.Array  # [batch, num_return]; of beams with the length penalty and what rules change
    log_probabilities: jax.Array  # [batch, num_return], under the model alone, in nats


@functools.partial(jax.jit, static_argnums=0)
def _copied(model: nn.Module, params: Params) -> list[jax.Array]:
    return model.copies(params)


def copies(model: nn.Module, params: Params, options: Options, mesh: Mesh) -> Copies:
    """Copies of kernels that many batches share, for those whose steps read such copies.

    They are made for the first such batch, which takes as long as a few steps, and kept as long as
    the function that is returned.
    """
    made = functools.cache(functools.partial(_copied, model, params))

    def of(batch_size: int) -> list[jax.Array] | None:
        rows = batch_size * options.hypotheses
        with partitioning.activate(mesh):
            return made() if model.reads_copies(rows, options.max_length) else None

    return of


def decode(
    model: nn.Module,
    params: Params,
    batch: Mapping[str, jax.Array],
    options: Options,
    *,
    start_id: int | jax.Array,
    eos_id: int,
    pad_id: int,
    forced_first: jax.Array | None = None,
    rng: jax.Array | None = None,
    layout: Layout = AS_TRAINED,
    copies: Sequence[jax.Array] | None = None,
) -> Decoded:
    """Decodes a batch; pure, to be called under jit with model, options and the three ids static.

    Args:
      model: a Linen module with the methods of models.generator.Generator.
      params: its parameters.
      batch: encoder_input_tokens, encoder_segment_ids, encoder_positions [batch, inputs], and what
        else the model's `encode` reads; rows without a segment are padding. 'encoded', if there,
        is what `encode` has made of them. For samples 'example_index' [batch], if there, numbers
        the examples; else they are numbered by row; the first of 'decoder_language_ids' [batch, 1
        or more] is the language that an XLM writes. A decoder-only model goes on from the first of
        decoder_input_tokens [batch, 1 or more], and rows where decoder_segment_ids has no segment
        first are padding.
      options: how.
      start_id: what the first step is fed, but of a decoder-only model: one id, or [batch] int32.
      eos_id: ends a text.
      pad_id: fills up.
      forced_first: [batch] int32, the first token of every text (a language, say).
      rng: the key of samples; None: made from options.seed.
      layout: of the parameters that steps read, see `layout_of`; static, too.
      copies: of kernels, see the function `copies`; None: made for this batch where they pay.
    """
    if (eos_id,) in options.banned:
        raise UserError(f'decoding: banned has {eos_id}, which ends texts; set min_length instead')
    encoded = batch['encoded'] if 'encoded' in batch else encode(model, params, batch)
    with layout.activate():
        params = layout.place(params)
        apply: Callable[..., Any] = functools.partial(model.apply, {'params': params})
        segments = batch['encoder_segment_ids']
        about = {}
        if model.reads_languages and 'decoder_language_ids' in batch:
            about['decoder_language_ids'] = batch['decoder_language_ids']
        size, count, length = segments.shape[0], options.hypotheses, options.max_length
        cache = apply(encoded, segments, length, count, **about, method='init_cache')
        starts = jnp.broadcast_to(jnp.asarray(start_id, jnp.int32), (size,))
        empty = ~jnp.any(segments > 0, axis=1)
        if model.decoder_only:
            starts = batch['decoder_input_tokens'][:, 0]
            empty = batch['decoder_segment_ids'][:, 0] == 0
        begun = loop.Batch(
            apply,
            model.steps(params, size * count, length, copies),
            cache,
            Rules(options, eos_id, forced_first),
            starts,
            pad_id,
            empty,
            lengths=loop.lengths(cache, length),
            sizes=loop.sizes(params, size, count * length),
            fixed=model.fixed,
        )
        if options.num_beams > 1:
            return Decoded(*beam_search(begun))
        keys = None
        if options.method == 'sample':
            rng = jax.random.key(options.seed) if rng is None else rng
            keys = sampling.row_keys(rng, batch.get('example_index', jnp.arange(size)), count)
        tokens, scores = sampling.one_by_one(begun, keys)
        return Decoded(tokens, scores, scores)


def encode(model: nn.Module, params: Params, batch: Mapping[str, jax.Array]) -> Tree[jax.Array]:
    """Encodes the sources of a batch; arguments as in `decode`."""
    source = {name: array for name, array in batch.items() if name.startswith('encoder_')}
    if not model.reads_languages:
        source.pop('encoder_language_ids', None)
    apply: Callable[..., Any] = model.apply
    return apply({'params': params}, **source, method='encode')


def lengths_of(tokens: jax.Array, eos_id: int) -> jax.Array:
    """Tokens [..., max_length] up to the end, it included -> [...] int32; without one all count."""
    ended = jnp.cumsum(tokens == eos_id, axis=-1) - (tokens == eos_id)
    return jnp.sum(ended == 0, axis=-1).astype(jnp.int32)
