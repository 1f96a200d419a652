"""The SSRU: a recurrence that Marian's small decoders have in place of attention within the text.

Kim et al. 2019, "From Research to Production and Back: Ludicrously Fast Neural Machine
Translation", section 3.1 (aclanthology.org/D19-5632).
"""

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax import lax
from jax.typing import DTypeLike

from xlbench.models.attention import KeysValues
from xlbench.models.dense import Dense, Initializer


class Ssru(nn.Module):
    """f_t = sigmoid(x_t W_f + b_f); c_t = f_t c_(t-1) + (1 - f_t) x_t W; the output is ReLU(c_t).

    It is called as attention.SelfAttention is. c is linear in c_(t-1): whole texts take a scan in
    log2(length) rounds, and a step of decoding reads one vector, whatever came before.
    """

    features: int
    matmul_dtype: DTypeLike
    kernel_init: Initializer

    def setup(self):
        axes, kernels = ('joined_kv', 'embed'), dict(kernel_init=self.kernel_init)
        self.inwards = Dense(self.features, axes, matmul_dtype=self.matmul_dtype, **kernels)
        self.forget = Dense(
            self.features, axes, use_bias=True, matmul_dtype=self.matmul_dtype, **kernels
        )

    def __call__(
        self,
        x: jax.Array,  # [batch, length, embed]
        bias: None,
        mask: jax.Array,  # [1 or batch, 1, length, length], 0 or MASKED
        train: bool = False,
    ) -> jax.Array:  # [batch, length, embed]
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
        self,
        x: jax.Array,  # [rows, 1, embed]
        past: KeysValues,
        place: jax.Array,  # [], of this token's first state, those of its beams beside it
        bias: None,
        mask: jax.Array,  # [batch, 1, beams, places], 0 or MASKED
    ) -> tuple[jax.Array, KeysValues]:  # [rows, 1, embed] and past, grown
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

    @nn.nowrap
    def empty(self, batch: int, places: int) -> KeysValues:
        """The past of a text that has no token yet: room for states, and no keys."""
        return {
            'key': jnp.zeros((batch, 1, 0, places), jnp.float32),
            'value': jnp.zeros((batch, 1, places, self.features), jnp.float32),
        }

    def _gates(self, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        """The share of the state that stays, and what is added to it; float32."""
        keep = nn.sigmoid(self.forget(x).astype(jnp.float32))
        return keep, (1 - keep) * self.inwards(x).astype(jnp.float32)
