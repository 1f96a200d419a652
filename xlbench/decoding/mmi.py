"""Maximum mutual information: texts that say something about their source (arXiv:1510.03055).

A model's likeliest text is often one that fits any source. The paper takes off what makes it
likely anyway, or adds how well the source can be told from it, by re-ranking n-best lists.
Lengths count the end; all log-probabilities are sums over a text, in nats.
"""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

# (params, batch) -> {'loss': [rows] summed negative log-probability of the targets, ...}
RowLosses = Callable[[Any, Mapping[str, jax.Array]], Mapping[str, jax.Array]]


def bidirectional(
    target_given_source: jax.Array,  # [..., n], log p(T|S)
    source_given_target: jax.Array,  # [..., n], log p(S|T)
    lengths: jax.Array,  # [..., n], tokens of T
    *,
    weight: float = 0.5,
    length_weight: float = 0.0,
) -> jax.Array:  # [..., n]
    """MMI-bidi: log p(T|S) + weight log p(S|T) + length_weight |T|.

    Where the paper weighs the first term with 1 - lambda and the second with lambda, weight is
    lambda / (1 - lambda).
    """
    return target_given_source + weight * source_given_target + length_weight * lengths


def anti_language_model(
    target_given_source: jax.Array,  # [..., n], log p(T|S)
    target_log_probabilities: jax.Array,  # [..., n, max_length], log p(t_k | t_1 .. t_k-1)
    lengths: jax.Array,  # [..., n], tokens of T
    *,
    weight: float = 0.5,
    length_weight: float = 0.0,
    first: int | None = None,
) -> jax.Array:  # [..., n]
    """MMI-antiLM: log p(T|S) - weight log U(T) + length_weight |T|.

    U is the language model's probability of the `first` tokens alone (None is all of them), because
    how a text begins decides what it says, and penalising likely tokens later makes it
    ungrammatical.
    """
    places = jnp.arange(target_log_probabilities.shape[-1])
    counted = places < lengths[..., None]
    if first is not None:
        counted = counted & (places < first)
    likely = jnp.sum(jnp.where(counted, target_log_probabilities, 0.0), axis=-1)
    return target_given_source - weight * likely + length_weight * lengths


def lengths_of(tokens: jax.Array, eos_id: int) -> jax.Array:
    """Tokens [..., max_length] up to the end, it included -> [...] int32; without one all count."""
    ended = jnp.cumsum(tokens == eos_id, axis=-1) - (tokens == eos_id)
    return jnp.sum(ended == 0, axis=-1).astype(jnp.int32)


def rerank(tree: Any, scores: jax.Array) -> tuple[Any, jax.Array]:
    """Sorts n-best lists: arrays [batch, n, ...] and scores [batch, n], best first.

    Equal scores keep their order.
    """
    order = jnp.argsort(-scores, axis=1, stable=True)
    sort = jax.vmap(lambda row, index: row[index])
    return jax.tree.map(lambda x: sort(x, order), tree), sort(scores, order)


def score(row_losses: RowLosses, params: Any, batch: Mapping[str, jax.Array], n: int) -> jax.Array:
    """Log-probabilities [examples, n] of the targets of a batch whose rows are n-best lists.

    Args:
      row_losses: of any model: objective.row_losses with the model bound, under jit.
      params: the model's.
      batch: [examples * n, ...], the texts of an example side by side, as the model takes them: for
        log p(S|T) the texts as inputs and their source, n times, as targets.
      n: texts of an example.
    """
    return -row_losses(params, batch)['loss'].reshape(-1, n)
