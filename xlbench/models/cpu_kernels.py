"""Products, transposes and sums in the forms that XLA:CPU computes fast.

They are right on every device; the comments say which habit of XLA:CPU asks for each. Two types
govern a product: its result has the type of activations, its operands have `matmul_dtype`. float32
activations with bfloat16 operands is the form that pays on a CPU: bf16 x bf16 -> fp32 in all three
products of a layer's step.
"""

import contextvars
import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.typing import DTypeLike

# Whether kernels that `product` gets are views of what `transposed_copy` has made.
READS_TRANSPOSED = contextvars.ContextVar('READS_TRANSPOSED', default=False)


def transposed_copy(kernel: jax.Array) -> jax.Array:
    """A kernel [*out, in] -> a copy [in, *out], as it lies in memory.

    XLA:CPU multiplies a few dozen rows with it in 0.8 of the time, unless they are a multiple of
    16; in time for many steps of decoding the copy costs less.
    """
    return materialize(jnp.moveaxis(kernel, -1, 0))


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def product(x: jax.Array, kernel: jax.Array, matmul_dtype: DTypeLike) -> jax.Array:
    """x [..., in] times kernel [*out, in] -> [..., *out] in x's type.

    Autodiff would take the cotangent in float32 and so break the bf16 x bf16 -> fp32 form in the
    backward pass (XLA:CPU then widens the operands first); here it is rounded to `matmul_dtype`.
    """
    rows, features = x.size // x.shape[-1], x.shape[-1]
    few = x.size < kernel.size and 2 * rows < features
    if (kernel.ndim > 2 or x.ndim == 2) and few and not READS_TRANSPOSED.get():
        # A decoding step, or a head over some rows. With x first, XLA:CPU would write a transposed
        # copy of a stacked kernel at every step, and take 1.4 times as long for a single one in
        # float32; so the kernel comes first, and the small result is turned. With more rows the
        # result is as large as the kernel, and whatever reads it turned is slow.
        out = _dot(kernel, x, ((kernel.ndim - 1,), (x.ndim - 1,)), matmul_dtype, x.dtype)
        return jnp.moveaxis(out, range(kernel.ndim - 1), range(1 - kernel.ndim, 0))
    return _dot(x, kernel, ((x.ndim - 1,), (kernel.ndim - 1,)), matmul_dtype, x.dtype)


def _product_fwd(x, kernel, matmul_dtype):
    saved = (x.astype(matmul_dtype), kernel.astype(matmul_dtype), jnp.zeros((0,), x.dtype))
    return product(x, kernel, matmul_dtype), saved


def _product_bwd(matmul_dtype, saved, g):
    x, kernel, like = saved
    if x.ndim == 2:
        # With two axes summed over, XLA:CPU transposes g first and then multiplies in bfloat16; a
        # single one it would sum over as it lies, which it can do in float32 only.
        dx, dkernel = _product_bwd(matmul_dtype, (x[None], kernel, like), g[None])
        return dx[0], dkernel
    batch = tuple(range(x.ndim - 1))
    out = tuple(range(x.ndim - 1, g.ndim))
    dx = _dot(g, kernel, (out, tuple(range(kernel.ndim - 1))), matmul_dtype, like.dtype)

    def as_it_is(g: jax.Array, x: jax.Array) -> jax.Array:
        return _dot(g, x, (batch, batch), matmul_dtype, jnp.float32)

    def turned(g: jax.Array, x: jax.Array) -> jax.Array:
        rows, features = x.size // x.shape[-1], x.shape[-1]
        x, g = x.reshape(rows, features), g.reshape(rows, -1)
        dkernel = _dot(written_transpose(x), g, ((1,), (0,)), matmul_dtype, jnp.float32)
        return written_transpose(materialize(dkernel)).reshape(kernel.shape)

    if jnp.dtype(matmul_dtype) == jnp.bfloat16 and x.size < g.size:
        # XLA:CPU multiplies bfloat16 only where the left operand lies by rows: it would write down
        # g turned. x is smaller, and so is the result.
        return dx, lax.platform_dependent(g, x, cpu=turned, default=as_it_is)
    return dx, as_it_is(g, x)


product.defvjp(_product_fwd, _product_bwd)


def _dot(a, b, contract, dtype: DTypeLike, out_dtype: DTypeLike) -> jax.Array:
    """A product without batch axes, accumulated in float32 whatever the operands' type."""
    a, b = a.astype(dtype), b.astype(dtype)
    out = lax.dot_general(a, b, (contract, ((), ())), preferred_element_type=jnp.float32)
    return out.astype(out_dtype)


def dot_heads(a: jax.Array, b: jax.Array, contract: tuple[int, int]) -> jax.Array:
    """The product of [batch, heads, ..] and [batch, heads, ..], accumulated in float32."""
    dims = (((contract[0],), (contract[1],)), ((0, 1), (0, 1)))
    return lax.dot_general(a, b, dims, preferred_element_type=jnp.float32)


def dot_turned(a: jax.Array, b: jax.Array) -> jax.Array:
    """[batch, heads, m, n]^T times [batch, heads, m, features] -> [batch, heads, n, features].

    On a CPU b, the smaller one, is written turned and stands first, and so the result is turned.
    """
    turned = dot_heads(written_transpose(b), a, (3, 2))
    return jnp.swapaxes(materialize(turned), 2, 3)


def materialize(x: jax.Array) -> jax.Array:
    """x, on a CPU laid out in the order of its axes before anything reads it.

    XLA turns a transpose into another layout or folds it into the product that reads it, and
    XLA:CPU multiplies what is not laid out plainly slowly: in float32 even where both operands are
    bfloat16. The barrier stops the folding, and the added axis makes the layout plain in time for
    the choice of the kernel.
    """
    return lax.platform_dependent(
        x, cpu=lambda x: lax.optimization_barrier(x[None])[0], default=lambda x: x
    )


def written_transpose(x: jax.Array) -> jax.Array:
    """[..., m, n] -> [..., n, m]; on a CPU as a copy in memory."""
    return materialize(jnp.swapaxes(x, -1, -2))


def optimization_barrier(*arrays: jax.Array | None) -> tuple[Any, ...]:
    """The arrays or Nones; on a CPU what reads them is not merged with what else reads the same.

    XLA writes down whatever two readers share, such as a bias that is broadcast to a batch in each
    layer. Read by one alone it stays within the loop, and memory is what such loops wait for.
    """
    return lax.platform_dependent(
        *arrays, cpu=lambda *x: lax.optimization_barrier(x), default=lambda *x: x
    )


def sum_of_rows(x: jax.Array) -> jax.Array:
    """[batch, ...] -> [1, ...], float32; by additions on a CPU, as one thread does a reduction."""
    return lax.platform_dependent(
        x, cpu=_added_rows, default=lambda x: jnp.sum(x, axis=0, keepdims=True, dtype=jnp.float32)
    )


def _added_rows(x: jax.Array, at_once: int = 8) -> jax.Array:
    """The sum of rows, `at_once` of them at a time."""
    total: Any = None
    for start in range(0, x.shape[0], at_once):
        indices = range(start, min(start + at_once, x.shape[0]))
        rows = [x[index : index + 1].astype(jnp.float32) for index in indices]
        part = functools.reduce(jnp.add, rows if total is None else [total, *rows])
        # Else the additions of all layers become one, which keeps all that they read until then.
        total = lax.optimization_barrier(part)
    return total
