r"""Times the search for responses against faiss and against the bare matrix product, in turn.

    pip install faiss-cpu numpy                               # into an environment of its own
    python tests/speed/search.py --faiss_python=FAISS_ENV/bin/python

Every side is one process that stays warm, has the same random vectors and searches them exactly:
`product` only multiplies, and leaves the scores where they are, which is the ceiling of this
machine; `faiss` is its IndexFlatIP. The order turns round every other round. Printed are the
medians, the fastest, and the medians of the ratios of each round. Without faiss the other two are
compared, and a line says so.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time

import numpy as np

SIDES = ('product', 'xlbench', 'faiss')
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
    """A function that searches with xlbench; returns ids [queries, k]."""
    from xlbench import search

    queries, responses = vectors(args)
    index = search.index(responses)
    return lambda: search.top_k(queries, index, args.k).ids


def faiss_step(args: argparse.Namespace):
    """A function that searches with faiss; returns ids [queries, k]."""
    import faiss

    queries, responses = vectors(args)
    index = faiss.IndexFlatIP(args.dim)
    index.add(responses)
    return lambda: index.search(queries, args.k)[1]


def serve(args: argparse.Namespace) -> None:
    """Answers each line on standard input with the seconds of one step."""
    try:
        step = globals()[f'{args.side}_step'](args)
    except ImportError:
        print(json.dumps('missing'), flush=True)
        return
    ids = step()  # Compiles, or warms up.
    print(json.dumps(None if ids is None else ids[:_SHOWN].tolist()), flush=True)
    for _ in sys.stdin:
        start = time.perf_counter()
        step()
        print(json.dumps(time.perf_counter() - start), flush=True)


def compare(args: argparse.Namespace, argv: list[str]) -> None:
    """Runs all sides and prints what they took."""
    workers, found = {}, {}
    for side in SIDES:
        python = args.faiss_python if side == 'faiss' else sys.executable
        worker = subprocess.Popen(
            [python, __file__, f'--side={side}', *argv],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        answer = worker.stdout.readline()
        if not answer:
            raise SystemExit(f'{side} did not start')
        if json.loads(answer) == 'missing':
            print(f'{python} has no faiss: compared with the product alone (--faiss_python)')
            continue
        workers[side], found[side] = worker, json.loads(answer)
    seconds = {side: [] for side in workers}
    for number in range(args.rounds):
        for side in list(workers)[:: 1 if number % 2 else -1]:
            workers[side].stdin.write('step\n')
            workers[side].stdin.flush()
            seconds[side].append(json.loads(workers[side].stdout.readline()))
        print(f'round {number + 1}: ' + ', '.join(f'{s} {t[-1]:.3f} s' for s, t in seconds.items()))
    for worker in workers.values():
        worker.stdin.close()
        worker.wait()
    operations = 2e-9 * args.queries * args.responses * args.dim
    for side, times in seconds.items():
        print(
            f'{side}: {statistics.median(times):.3f} s (median), {min(times):.3f} s (fastest), '
            f'{operations / statistics.median(times):.0f} GFLOP/s'
        )
    ours = seconds.pop('xlbench')
    for side, times in seconds.items():
        paired = statistics.median(a / b for a, b in zip(times, ours, strict=True))
        print(
            f'xlbench against {side}: {statistics.median(times) / statistics.median(ours):.2f} '
            f'(medians), {min(times) / min(ours):.2f} (fastest), {paired:.2f} (paired)'
        )
    if 'faiss' in found:
        same = np.mean(np.array(found['xlbench']) == np.array(found['faiss']))
        print(f'{same:.2%} of the ids of {_SHOWN} queries are those of faiss, place by place')


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
    parser.add_argument('--faiss_python', default=sys.executable, help='an interpreter with faiss')
    parser.add_argument('--side', choices=SIDES, help=argparse.SUPPRESS)
    parser.add_argument('--rounds', type=int, default=9)
    parser.add_argument('--queries', type=int, default=1_000)
    parser.add_argument('--responses', type=int, default=50_000)
    parser.add_argument('--dim', type=int, default=768)
    parser.add_argument('--k', type=int, default=15)
    args = parser.parse_args()
    if args.side:
        serve(args)
    else:
        compare(args, sys.argv[1:])


if __name__ == '__main__':
    main()
