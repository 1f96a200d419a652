r"""Times the search for responses against faiss and against the bare matrix product, in turn.

    pip install faiss-cpu numpy                               # into an environment of its own
    python tools/speed/search.py --faiss_python=FAISS_ENV/bin/python

Every side has the same random vectors and searches them exactly: `product` only multiplies, and
leaves the scores where they are, which is the ceiling of this machine; `faiss` is its IndexFlatIP.
Without faiss the other two are compared, and a line says so. How the sides take turns, and the
ratios: interleaved.py.
"""

import argparse
import statistics
import sys

import interleaved
import numpy as np

_SHOWN = 50  # Queries whose results are compared.


def vectors(args: argparse.Namespace) -> tuple[np.ndarray, np.ndarray]:
    """Queries and responses, the same in every process."""
    rng = np.random.default_rng(0)
    sizes = ((args.queries, args.dim), (args.responses, args.dim))
    return tuple(rng.standard_normal(size, np.float32) for size in sizes)


def product_step(args: argparse.Namespace):
    """A function that multiplies all queries with all responses."""
    import jax

    queries, responses = (jax.numpy.asarray(x) for x in vectors(args))
    program = jax.jit(lambda x, y: jax.lax.dot_general(x, y, (((1,), (1,)), ((), ()))))

    def step():
        jax.block_until_ready(program(queries, responses))

    return step


def xlbench_step(args: argparse.Namespace):
    """A function that searches with xlbench; returns ids [_SHOWN, k]."""
    from xlbench.retrieval import exact_search

    queries, responses = vectors(args)
    index = exact_search.index(responses)
    return lambda: exact_search.top_k(queries, index, args.k).ids[:_SHOWN].tolist()


def faiss_step(args: argparse.Namespace):
    """A function that searches with faiss; returns ids [_SHOWN, k]."""
    import faiss

    queries, responses = vectors(args)
    index = faiss.IndexFlatIP(args.dim)
    index.add(responses)
    return lambda: index.search(queries, args.k)[1][:_SHOWN].tolist()


STEPS = {'product': product_step, 'xlbench': xlbench_step, 'faiss': faiss_step}


def main() -> None:
    parser = interleaved.parser(__doc__, STEPS, rounds=9)
    parser.add_argument('--faiss_python', default=sys.executable, help='an interpreter with faiss')
    parser.add_argument('--queries', type=int, default=1_000)
    parser.add_argument('--responses', type=int, default=50_000)
    parser.add_argument('--dim', type=int, default=768)
    parser.add_argument('--k', type=int, default=15)
    args = parser.parse_args()
    if args.side:
        return interleaved.serve(STEPS[args.side], args)
    pythons = {'product': sys.executable, 'xlbench': sys.executable, 'faiss': args.faiss_python}
    seconds, found = interleaved.compare(pythons, args.rounds)
    operations = 2e-9 * args.queries * args.responses * args.dim
    for side, times in seconds.items():
        print(
            f'{side}: {statistics.median(times):.3f} s (median), {min(times):.3f} s (fastest), '
            f'{operations / statistics.median(times):.0f} GFLOP/s'
        )
    interleaved.print_ratios(seconds)
    if 'faiss' in found:
        same = np.mean(np.array(found['xlbench']) == np.array(found['faiss']))
        print(f'{same:.2%} of the ids of {_SHOWN} queries are those of faiss, place by place')
    work = f'best {args.k} of {args.responses:,} responses for {args.queries:,} messages'
    against = {'product': 'the matrix product alone', 'faiss': 'faiss, flat index'}
    interleaved.write(args.json, interleaved.rows(work, seconds, against))


if __name__ == '__main__':
    main()
