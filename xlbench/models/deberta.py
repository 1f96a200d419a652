"""The attention of DeBERTa (arXiv:2006.03654) v2 and v3 (arXiv:2111.09543), for layers of bert.py.

A logit is the sum of three products: of the query with the key, of the query with the embedded
distance of the two tokens, and of the key with it. Queries and keys of distances are made by the
same kernels (share_att_key), and distances are in buckets, which grow logarithmically from half of
them on. Distances are those of the row, which is right for packed rows too.
"""

import jax
import jax.numpy as jnp
import numpy as np

from xlbench.models.attention import SelfAttention


def distance_buckets(length: int, buckets: int, max_distance: int) -> np.ndarray:
    """Rows of the table of distances, [queries, keys]: query position minus key position.

    As transformers computes them (models/deberta_v2: make_log_bucket_position), in float32.
    """
    distance = np.arange(length)[:, None] - np.arange(length)[None, :]
    half, size = buckets // 2, np.abs(distance)
    far = np.maximum(size, half).astype(np.float32) / np.float32(half)
    scale = np.log(np.float32((max_distance - 1) / half))
    far = np.ceil(np.log(far) / scale * np.float32(half - 1)) + half
    found = np.where(size <= half, distance, far * np.sign(distance)).astype(np.int32)
    return np.clip(found + buckets, 0, 2 * buckets - 1)


class DisentangledAttention(SelfAttention):
    """Attention within a text over contents and distances.

    Attributes:
      buckets: of distances in either direction.
      max_distance: from which on all distances are in the last one.
    """

    buckets: int = 0
    max_distance: int = 0

    def __call__(
        self,
        x: jax.Array,  # [batch, length, embed]
        bias: jax.Array,  # [2 * buckets, embed], embedded distances
        mask: jax.Array | None = None,  # broadcasts to [batch, heads, length, length]
        train: bool = False,
    ) -> jax.Array:  # [batch, length, out_features]
        """Every position attends to all that its mask leaves it."""
        q, k, v = self.project(x)
        of_queries, of_keys, _ = self.project(bias[None], length=None)
        rows = distance_buckets(x.shape[1], self.buckets, self.max_distance)
        by_query = jnp.einsum('bhqd,hnd->bhqn', q, of_keys[0])
        by_key = jnp.einsum('bhkd,hnd->bhkn', k, of_queries[0])
        logits = jnp.take_along_axis(by_query, rows[None, None], axis=-1)
        logits += jnp.swapaxes(jnp.take_along_axis(by_key, rows.T[None, None], axis=-1), 2, 3)
        parts = 3**-0.5  # The sum of three products is divided by sqrt(3 head_dim).
        return self.attend(q * parts, k, v, logits.astype(jnp.float32) * parts, mask, train)
