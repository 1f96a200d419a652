r"""Times one attention, forward and backward, in the forms that a device has, and their memory.

    python tools/speed/attention.py                       # all sizes, on the device at hand
    python tools/speed/attention.py --length=512 --rows=64 --heads=12
    python tools/speed/attention.py --length=512 --rows=64 --heads=6 --bias=yes

Plain attention writes the logits of all pairs, fused attention (xlbench/models/fused) does not, and
cuDNN's, on GPUs, gets a bias and segments as an array of all pairs. Rows are packed with four texts
each, causal ones have a single text; numbers are bfloat16. TFLOP/s count the seven products that
the algorithm needs (two forward, five backward), though some forms compute some of them twice.
"""

import functools
import statistics
import sys
import time

import interleaved

# (rows, tokens, heads, whether T5's bias is added, whether it is causal); heads have 64 features.
SIZES = (
    (64, 512, 6, True, False), (64, 512, 12, False, False), (2, 4096, 8, True, False),
    (8, 2048, 16, False, True), (256, 64, 12, False, False), (256, 32, 12, False, False),
)  # fmt: skip
HEAD_DIM = 64
CALLS = 20  # One after another, timed together; on a CPU one.


def forms(length: int, heads: int, causal: bool) -> dict:
    """Attention of q, k, v [rows, length, features], a bias [heads, 2 * length] and segments."""
    import jax
    import jax.numpy as jnp

    from xlbench.models import attention, masks, positions
    from xlbench.models.fused.attention import fused_attention

    def whole(bias):
        return None if bias is None else positions.skew(bias, length, length)[None]

    def seen(ids):
        return masks.MaskSpec(None, None, True) if causal else masks.MaskSpec(ids, ids)

    def plain(q, k, v, bias, ids):
        split = [attention.split_heads(x, heads, None) for x in (q, k, v)]
        mask = seen(ids).array(length)
        out = attention.dot_product_attention(*split, whole(bias), mask, jnp.bfloat16)
        return attention.join_heads(out)

    def fused(q, k, v, bias, ids):
        return fused_attention(q, k, v, bias, seen(ids), HEAD_DIM, jnp.bfloat16)

    def cudnn(q, k, v, bias, ids):
        split = [x.reshape(*x.shape[:2], heads, HEAD_DIM) for x in (q, k, v)]
        bias = None if bias is None else whole(bias).astype(q.dtype)
        same = None if causal else ids[:, None, :, None] == ids[:, None, None]
        out = jax.nn.dot_product_attention(
            *split, bias, same, scale=1.0, is_causal=causal, implementation='cudnn'
        )
        return out.reshape(q.shape)

    made = {'plain': plain, 'fused': fused}
    return made | {'cudnn': cudnn} if jax.default_backend() == 'gpu' else made


def timed(
    rows: int, length: int, heads: int, with_bias: bool, causal: bool, rounds: int
) -> list[interleaved.Value]:
    """The figures of one size, a pair of rows for each form."""
    import jax
    import jax.numpy as jnp

    features = heads * HEAD_DIM
    first, *keys = jax.random.split(jax.random.key(0), 5)
    shape = (rows, length, features)
    q, k, v, g = (jax.random.normal(key, shape, jnp.bfloat16) for key in keys)
    bias = jax.random.normal(first, (heads, 2 * length)) if with_bias else None
    ids = jnp.broadcast_to(jnp.arange(length) * 4 // length + 1, (rows, length)).astype(jnp.int32)

    def both_ways(attention, q, k, v, bias, g):
        out, pull = jax.vjp(lambda *args: attention(*args, ids), q * HEAD_DIM**-0.5, k, v, bias)
        return out, pull(g)

    flops = 7 * 2 * rows * heads * length**2 * HEAD_DIM // (1 + causal)
    work = f'attention, {rows} rows of {length:,} tokens, {heads} heads'
    work += (", T5's bias" if with_bias else '') + (', causal' if causal else '')
    calls = 1 if jax.default_backend() == 'cpu' else CALLS
    made = []
    for name, attention in forms(length, heads, causal).items():
        args = (q, k, v, bias, g)
        compiled = jax.jit(functools.partial(both_ways, attention)).lower(*args).compile()
        jax.block_until_ready(compiled(*args))
        seconds = []
        for _ in range(rounds):
            start = time.perf_counter()
            for _ in range(calls):
                out = compiled(*args)
            jax.block_until_ready(out)
            seconds.append((time.perf_counter() - start) / calls)
        middle = statistics.median(seconds)
        memory = compiled.memory_analysis().temp_size_in_bytes / 2**20
        made += [
            interleaved.value(f'{work}, {name}', 1e3 * middle, 'ms'),
            interleaved.value(f'{work}, {name}', memory, 'MiB beside inputs and results'),
        ]
        print(
            f'{work}: {name} {1e3 * middle:.3f} ms, {flops / middle / 1e12:.1f} TFLOP/s, '
            f'{memory:,.0f} MiB beside inputs and results', flush=True,
        )  # fmt: skip
    return made


def main() -> None:
    parser = interleaved.parser(__doc__, (), rounds=5)
    parser.add_argument('--rows', type=int, default=64)
    parser.add_argument('--length', type=int, default=0, help='tokens; 0: all sizes')
    parser.add_argument('--heads', type=int, default=12)
    parser.add_argument('--bias', choices=('no', 'yes'), default='no', help="whether T5's is added")
    parser.add_argument('--causal', choices=('no', 'yes'), default='no')
    args = parser.parse_args()
    one = (args.rows, args.length, args.heads, args.bias == 'yes', args.causal == 'yes')
    figures = []
    for size in (one,) if args.length else SIZES:
        figures += timed(*size, args.rounds)
    interleaved.write(args.json, figures)


if __name__ == '__main__':
    sys.exit(main())
