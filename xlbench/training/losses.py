"""Losses: pure functions of arrays, with sums in float32; callers divide once by the weights."""

import functools
import math
from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax import lax
from jax.typing import DTypeLike

# Logits that a device holds at once, unless a chunk size is given: 2^27 float32 are 0.5 GB. Each
# chunk reads and writes the table's gradient once more, so few large chunks are faster: with 4096
# tokens, 250112 words and emb_dim 512, chunks of 512 took 0.73 of the time of chunks of 128 on a
# CPU, and 0.69 of slicing the vocabulary instead, which has to compute the logits twice.
LOGITS_AT_ONCE = 2**27
# In place of scores that do not count. Finite, so that a sum without any is no NaN.
MASKED = -1e30


class LossSum(NamedTuple):
    """Sums over tokens, each []: only `loss` carries a gradient."""

    loss: jax.Array  # Weighted cross-entropy in nats, z-loss included.
    z_loss: jax.Array  # The part of the z-loss in it.
    weight: jax.Array  # Sum of the weights.
    correct: jax.Array  # Weight of tokens whose target has the largest logit.


class _Options(NamedTuple):
    label_smoothing: float
    z_loss: float
    chunk_size: int
    groups: int
    matmul_dtype: jnp.dtype
    softcap: float = 0.0


def softmax_cross_entropy(
    hidden: jax.Array,  # [tokens, emb_dim], final states, any float type
    embedding: jax.Array,  # [vocab, emb_dim], the output table, float32
    targets: jax.Array,  # [tokens], ids
    weights: jax.Array,  # [tokens], 0 for padding
    *,
    bias: jax.Array | None = None,  # [vocab], added to the logits
    label_smoothing: float = 0.0,  # e below
    z_loss: float = 0.0,  # 1e-4 in T5X's pre-training
    chunk_size: int | None = None,  # of all groups; None: LOGITS_AT_ONCE in each
    groups: int = 1,
    matmul_dtype: DTypeLike = jnp.float32,  # of the products' operands
    softcap: float = 0.0,  # 0: none
) -> LossSum:
    """Cross-entropy of softmax(hidden @ embedding.T + bias) against targets, in chunks of tokens.

    However many tokens there are, only one chunk's logits exist at a time. Asked for gradients, the
    forward pass makes them chunk by chunk: three products in all, and nothing of size
    [tokens, vocab] is kept; without gradients it is one product. `weights` and `targets` get none.

    As in t5x/losses.py: with smoothing e, the target has probability 1 - e and every other token
    e / (vocab - 1), and the entropy of that distribution is subtracted, so that the best loss is 0;
    z_loss * logsumexp^2 pulls the normaliser to 1. With a softcap c, logits are c tanh(logits / c)
    before the bias. Sums and softmax are float32.

    `groups` are the equal blocks into which a mesh splits the tokens (along the logical axis
    'tokens'), one after another. Each block then sums its own gradient of the table, and the
    devices add them up once; with 1 they would after every chunk.
    """
    if hidden.shape[0] % groups:
        raise ValueError(f'{hidden.shape[0]} tokens do not divide into groups={groups}')
    size = chunk_size or groups * max(8, LOGITS_AT_ONCE // embedding.shape[0])
    dtype = jnp.dtype(matmul_dtype)
    options = _Options(label_smoothing, z_loss, size, groups, dtype, softcap)
    return _loss(hidden, embedding, bias, targets, weights.astype(jnp.float32), options)


@functools.partial(jax.custom_vjp, nondiff_argnums=(5,))
def _loss(hidden, embedding, bias, targets, weights, options):
    table = _gathered(embedding, options)

    def add_chunk(sums, chunk):
        more, _ = _chunk_loss(chunk, table, bias, options)
        return jax.tree.map(jnp.add, sums, more), None

    chunks = _chunks((hidden, targets, weights), options.chunk_size, options.groups)
    return _over_chunks(add_chunk, _no_loss(), chunks)[0]


def _loss_fwd(hidden, embedding, bias, targets, weights, options):
    table = _gathered(embedding, options)

    def add_chunk(carry, chunk):
        sums, d_output = carry
        more, (d_logits, d_products) = _chunk_loss(chunk, table, bias, options, with_gradient=True)
        part = {} if bias is None else {'bias': jnp.sum(d_logits, axis=1)}
        d_logits = d_products.astype(table.dtype)
        d_hidden = _dot(d_logits, table, (2, 0))
        part['table'] = _dot_tokens(d_logits, chunk[0].astype(table.dtype))
        d_output = part if d_output is None else jax.tree.map(jnp.add, d_output, part)
        return (jax.tree.map(jnp.add, sums, more), d_output), d_hidden

    chunks = _chunks((hidden, targets, weights), options.chunk_size, options.groups)
    start = None  # With one chunk there is nothing to add up.
    if chunks[0].shape[0] > 1:
        start = {'table': embedding} if bias is None else {'table': embedding, 'bias': bias}
        start = jax.tree.map(lambda x: jnp.zeros((options.groups, *x.shape), jnp.float32), start)
        start = jax.tree.map(_by_group, start)
    (sums, d_output), d_hidden = _over_chunks(add_chunk, (_no_loss(), start), chunks)
    d_hidden = _unchunk(d_hidden, hidden.shape[0]).astype(hidden.dtype)
    # First each device gets all groups' part of what it holds of the parameter, and then adds up: a
    # sum over the groups where they are would be sent whole to every device.
    d_output = jax.tree.map(_by_group, d_output)
    d_table = d_output['table']
    d_output['table'] = nn.with_logical_constraint(d_table, ('added_up', 'vocab', 'embed'))
    return sums, (d_hidden, d_output, weights)


def _loss_bwd(options, saved, cotangent):
    d_hidden, d_output, weights = saved
    g = cotangent.loss
    # Scaled before the sum, which is then the last that happens: where gradients are accumulated,
    # the compiler can take what crosses devices out of the loop.
    d_output = jax.tree.map(lambda x: jnp.sum(x * g, axis=0), d_output)
    d_hidden = d_hidden * g.astype(d_hidden.dtype)
    return d_hidden, d_output['table'], d_output.get('bias'), None, jnp.zeros_like(weights)


_loss.defvjp(_loss_fwd, _loss_bwd)


def _gathered(embedding: jax.Array, options: _Options) -> jax.Array:
    """The table in the products' type; its columns are gathered once, and not in every chunk."""
    return nn.with_logical_constraint(embedding.astype(options.matmul_dtype), ('vocab', None))


def _by_group(x: jax.Array) -> jax.Array:
    """[groups, vocab, ...], each group's gradient where its tokens are."""
    return nn.with_logical_constraint(x, ('tokens', 'vocab', *[None] * (x.ndim - 2)))


def _no_loss() -> LossSum:
    return LossSum(*(jnp.zeros((), jnp.float32) for _ in LossSum._fields))


def _dot(a: jax.Array, b: jax.Array, contract: tuple[int, int]) -> jax.Array:
    dims = (((contract[0],), (contract[1],)), ((), ()))
    return lax.dot_general(a, b, dims, preferred_element_type=jnp.float32)


def _dot_tokens(d_logits: jax.Array, hidden: jax.Array) -> jax.Array:
    """[groups, size, vocab] and [groups, size, emb_dim] -> [groups, vocab, emb_dim]."""
    dims: lax.DotDimensionNumbers = (((1,), (1,)), ((0,), (0,)))
    if d_logits.shape[0] == 1 and d_logits.dtype == jnp.bfloat16:
        # With two axes summed over, XLA:CPU transposes d_logits first and then multiplies in
        # bfloat16; a single one it would sum over as it lies, which it can do in float32 only.
        dims = (((0, 1), (0, 1)), ((), ()))
    out = lax.dot_general(d_logits, hidden, dims, preferred_element_type=jnp.float32)
    return out.reshape(-1, *out.shape[-2:])


def _chunks(arrays: tuple[jax.Array, ...], chunk_size: int, groups: int) -> tuple[jax.Array, ...]:
    """[tokens, ...] -> [chunks, groups, size, ...], padded with zeros (of weight 0).

    Within a group a chunk takes every chunks-th token. So a mesh that splits the tokens splits
    each chunk as well: consecutive tokens would put a whole chunk on one device, the others idle.
    """
    tokens = arrays[0].shape[0] // groups
    count = -(-tokens * groups // chunk_size)
    size = -(-tokens // count)

    def cut(x):
        x = x.reshape(groups, tokens, *x.shape[1:])
        x = jnp.pad(x, [(0, 0), (0, size * count - tokens)] + [(0, 0)] * (x.ndim - 2))
        return jnp.moveaxis(x.reshape(groups, size, count, *x.shape[2:]), 2, 0)

    return tuple(cut(x) for x in arrays)


def _unchunk(x: jax.Array, tokens: int) -> jax.Array:
    """[chunks, groups, size, emb_dim] -> [tokens, emb_dim], the inverse of _chunks."""
    _, groups, _, emb_dim = x.shape
    x = jnp.moveaxis(x, 0, 2).reshape(groups, -1, emb_dim)
    return x[:, : tokens // groups].reshape(tokens, emb_dim)


def _over_chunks(body, start, chunks):
    """lax.scan, or the body alone where there is one chunk."""
    if chunks[0].shape[0] > 1:
        return lax.scan(body, start, chunks)
    carry, out = body(start, tuple(x[0] for x in chunks))
    return carry, None if out is None else out[None]


def _logits(hidden, table, bias, softcap):
    """[groups, size, emb_dim] -> [groups, size, vocab], float32."""
    logits = _dot(hidden.astype(table.dtype), table, (2, 1))
    logits = softcap * jnp.tanh(logits / softcap) if softcap else logits
    return logits if bias is None else logits + bias


def _chunk_loss(chunk, table, bias, options, with_gradient=False):
    """The sums of one chunk; its gradients [groups, size, vocab] for logits and their products."""
    hidden, targets, weights = chunk
    logits = _logits(hidden, table, bias, options.softcap)
    vocab = logits.shape[-1]
    top = jnp.max(logits, axis=-1)
    normaliser = jnp.sum(jnp.exp(logits - top[..., None]), axis=-1)
    log_z = top + jnp.log(normaliser)
    gold = jnp.take_along_axis(logits, targets[..., None], axis=-1)[..., 0]
    # Target probabilities: `low` for every token and `peak` more for the right one.
    low = options.label_smoothing / (vocab - 1)
    peak = 1.0 - options.label_smoothing - low
    loss = log_z - peak * gold
    if options.label_smoothing:
        confidence = 1.0 - options.label_smoothing
        entropy = -(confidence * math.log(confidence) + (vocab - 1) * low * math.log(low))
        loss = loss - low * jnp.sum(logits, axis=-1) - entropy
    z = options.z_loss * jnp.square(log_z)
    sums = LossSum(
        loss=jnp.sum((loss + z) * weights),
        z_loss=jnp.sum(z * weights),
        weight=jnp.sum(weights),
        correct=jnp.sum((gold >= top) * weights),
    )
    if not with_gradient:
        return sums, None
    scale = weights * (1.0 + 2.0 * options.z_loss * log_z) / normaliser
    d_logits = jnp.exp(logits - top[..., None]) * scale[..., None]
    if options.label_smoothing:
        d_logits = d_logits - (low * weights)[..., None]
    right = lax.broadcasted_iota(jnp.int32, logits.shape, logits.ndim - 1) == targets[..., None]
    d_logits = d_logits - jnp.where(right, (peak * weights)[..., None], 0.0)
    d_products = d_logits
    if cap := options.softcap:
        capped = logits if bias is None else logits - bias
        d_products = d_logits * (1.0 - jnp.square(capped / cap))
    return sums, (d_logits, d_products)


def token_losses(
    hidden: jax.Array,  # [tokens, emb_dim]
    embedding: jax.Array,  # [vocab, emb_dim]
    targets: jax.Array,  # [tokens], ids
    *,
    bias: jax.Array | None = None,  # [vocab]
    chunk_size: int | None = None,
    groups: int = 1,
    matmul_dtype: DTypeLike = jnp.float32,
    softcap: float = 0.0,
) -> jax.Array:  # [tokens]
    """-log softmax(hidden @ embedding.T + bias)[target] in nats, for evaluation; see above."""
    size = chunk_size or groups * max(8, LOGITS_AT_ONCE // embedding.shape[0])
    options = _Options(0.0, 0.0, size, groups, jnp.dtype(matmul_dtype), softcap)
    table = _gathered(embedding, options)

    def of_chunk(carry, chunk):
        states, ids = chunk
        logits = _logits(states, table, bias, options.softcap)
        gold = jnp.take_along_axis(logits, ids[..., None], axis=-1)[..., 0]
        return carry, jax.nn.logsumexp(logits, axis=-1) - gold

    chunks = _chunks((hidden, targets), size, groups)
    _, nats = _over_chunks(of_chunk, None, chunks)
    return _unchunk(nats[..., None], hidden.shape[0])[:, 0]


# ---------------------------------------------------------------------------------------------
# Pairs of vectors.

# Scores that a device holds at once, unless a chunk size is given: 2^25 float32 are 134 MB, a few
# times. 4096 pairs on one device are one chunk still.
SCORES_AT_ONCE = 2**25


class Contrast(NamedTuple):
    """Losses of messages and whether each finds its own reply, [rows]; 0 for padding rows."""

    loss: jax.Array  # Nats.
    correct: jax.Array  # 1 where no other reply has a higher score, nor an equal one before it.


def contrastive(
    left: jax.Array,  # [rows, dim], messages, float32
    right: jax.Array,  # [rows, dim], each message's reply; to be held whole by every device
    *,
    kind: str,
    scale: float = 1.0,
    weights: jax.Array | None = None,  # [rows], 0 for padding: no example, and no negative
    keys: jax.Array | None = None,  # [rows], int; equal for equal replies
    chunk_size: int | None = None,  # messages, of all groups; None: SCORES_AT_ONCE in each
    groups: int = 1,  # equal blocks into which a mesh splits the rows
) -> Contrast:
    """Losses of N pairs, where the other pairs' replies and messages are the negatives.

    With scores s_ij = scale * left_i . right_j, the loss of pair i is, by `kind`:

      sym_paper      log(sum_j e^s_ij + sum_{j != i} e^s_ji) - s_ii: -log of arXiv:2106.02017, eq. 4
      sym_code       log(sum_j e^s_ij + sum_j e^s_ji) - s_ii: the diagonal twice, so at least log 2,
                     as microsoft/MRS losses.py, SymSMLoss
      softmax        log sum_j e^s_ij - s_ii: replies only; SMLoss there, which its train.sh uses
      bidirectional  log sum_j e^s_ij + log sum_j e^s_ji - 2 s_ii: the sum of two cross-entropies,
                     as google-research/t5x_retrieval

    With `keys`, s_ij with keys_i = keys_j counts for i = j only: an equal reply is no negative of
    the message, nor the other message a negative of the reply. The scores exist for one chunk of
    messages at a time, and are made again in the backward pass; the sums over messages, e^s_ji,
    grow from chunk to chunk.
    """
    rows = left.shape[0]
    ids = jnp.arange(rows)
    real = jnp.ones(rows, bool) if weights is None else weights > 0
    keys = ids if keys is None else keys

    def of_chunk(log_columns, chunk):
        vectors, own_id, is_real, own_key = chunk  # [groups, size, ...]
        # Operands rounded to bfloat16, times 100, would be wrong by tenths of a nat.
        dims = (((2,), (1,)), ((), ()))
        scores = lax.dot_general(vectors, right, dims, precision=lax.Precision.HIGHEST)
        is_own = own_id[..., None] == ids  # [groups, size, rows]
        gold = jnp.sum(jnp.where(is_own, scores, 0.0), axis=-1)
        other = own_key[..., None] != keys
        by_row = jnp.where((is_own | other) & real, scores, MASKED)
        if kind != 'softmax':
            counted = other if kind == 'sym_paper' else is_own | other
            by_column = jnp.where(counted & is_real[..., None], scores, MASKED)
            log_columns = jnp.logaddexp(log_columns, jax.nn.logsumexp(by_column, axis=(0, 1)))
        correct = jnp.argmax(by_row, axis=-1) == own_id
        return log_columns, jnp.stack([jax.nn.logsumexp(by_row, axis=-1), gold, correct], axis=-1)

    size = chunk_size or groups * max(8, SCORES_AT_ONCE // rows)
    chunks = _chunks((left * scale, ids, real, keys), size, groups)
    if chunks[0].shape[0] > 1:
        of_chunk = jax.checkpoint(of_chunk, prevent_cse=False)  # A loop's body is not merged.
    log_columns, sums = _over_chunks(of_chunk, jnp.full(rows, MASKED, jnp.float32), chunks)
    log_rows, gold, correct = jnp.moveaxis(_unchunk(sums, rows), -1, 0)
    if kind == 'softmax':
        loss = log_rows - gold
    elif kind == 'bidirectional':
        loss = log_rows + log_columns - 2.0 * gold
    else:
        loss = jnp.logaddexp(log_rows, log_columns) - gold
    return Contrast(jnp.where(real, loss, 0.0), jnp.where(real, correct, 0.0))
