"""Maximum mutual information: texts that say something about their source (arXiv:1510.03055).

A model's likeliest text is often one that fits any source. The paper reranks n-best lists by how
well the source can be predicted from each text, too. Lengths include the end; all log-probabilities
are sums over a text, in nats.
"""

import jax
import jax.numpy as jnp


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


def lengths_of(tokens: jax.Array, eos_id: int) -> jax.Array:
    """Tokens [..., max_length] up to the end, it included -> [...] int32; without one all count."""
    ended = jnp.cumsum(tokens == eos_id, axis=-1) - (tokens == eos_id)
    return jnp.sum(ended == 0, axis=-1).astype(jnp.int32)
