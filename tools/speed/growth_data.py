r"""Measures what grows with the data: examples of a set, tasks of a mixture, buckets of a sweep.

    python tools/speed/growth_data.py
    python tools/speed/growth_data.py --examples=1000,10000000 --tasks=1,100 --buckets=1,400

Every size is measured in processes of its own, after the imports; shown are medians:

    examples   from opening a prepared set to its first batch, the memory that this takes beside
               mapped files, and the time of a batch among the next 20
    tasks      the same of a mixture of that number of tasks of 10,000 examples
    buckets    planning a few-shot sweep over that number of buckets, stacking their
               examples, writing down a result with its predictions for each, and reading them

Examples are tiny. Shards of large sets are links to one file, so that sets of any size take no
room: what is measured reads whole sets only by their lengths. The first batches of a set also open
its files, of 50,000 examples each, which takes a millisecond a file.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

import interleaved
import made_up

SHARD = 50_000  # As many as a preparation has in a file.
TASK_EXAMPLES = 10_000
BATCHES = 20
SHOTS, LABELS, TEST_EXAMPLES = 4, 8, 5_000


def write_shard_file(folder: str) -> None:
    """One prepared set of SHARD examples, the origin of all others."""
    import numpy as np

    from xlbench.data import prepared

    rng = np.random.default_rng(0)
    lengths = rng.integers(2, 30, (SHARD, 2))
    ids = rng.integers(3, 1000, 64).astype(np.int32)
    ids[-1] = 1
    place = prepared.folder(folder, 'made_up', 'origin', 'train')
    with prepared.Writer(place, manifest=made_up.manifest_of('origin', 'train')) as writer:
        writer.write_batch([{'inputs': ids[-a:], 'targets': ids[-b:]} for a, b in lengths.tolist()])


def write_set(folder: str, task: str, examples: int) -> None:
    """A prepared set of any size: whole shards are links, the last one is written."""
    import numpy as np

    from xlbench.data import prepared

    origin = prepared.open_task(folder, 'made_up', 'origin', 'train')
    shard, links = origin.manifest['shards'][0], examples // SHARD
    place = pathlib.Path(prepared.folder(folder, 'made_up', task, 'train'))
    rest = origin.read(range(examples % SHARD))
    with prepared.Writer(str(place), manifest=made_up.manifest_of(task, 'train')) as writer:
        writer.write_batch([{k: x for k, x in r.items() if k != 'languages'} for r in rest])
    manifest = json.loads((place / 'manifest.json').read_text('utf-8'))
    names = [f'{i:05d}-of-linked.array_record' for i in range(links)]
    for name in names:
        os.link(pathlib.Path(origin.folder, shard['file']), place / name)
    manifest['shards'] = [shard | {'file': name} for name in names] + manifest['shards']
    manifest['num_examples'] = examples
    (place / 'manifest.json').write_text(json.dumps(manifest), 'utf-8')
    lengths = [*[origin.lengths()] * links, origin.lengths()[: examples % SHARD]]
    np.save(place / 'lengths.npy', np.concatenate(lengths).astype('<i4'))


def own_memory() -> float:
    """MB of this process beside mapped files; where that is unknown, the most it ever had."""
    try:
        lines = pathlib.Path('/proc/self/status').read_text('utf-8').splitlines()
        return next(int(x.split()[1]) for x in lines if x.startswith('RssAnon')) / 1024
    except (OSError, StopIteration):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure_batches(folder: str, names: list[str]) -> dict[str, float]:
    """From opening the sets of these names to batches of them mixed."""
    import array_record.python.array_record_module
    import numpy as np

    from xlbench.data import batches, prepared

    del array_record, np  # Their import is not what is measured.
    settings = dict(batch_size=32, lengths=dict(inputs=64, targets=32), packing=True, seed=0)
    before, began = own_memory(), time.perf_counter()
    tasks = [prepared.open_task(folder, 'made_up', name, 'train') for name in names]
    with batches.TrainBatches(tasks, [float(len(task)) for task in tasks], **settings) as feed:
        next(feed)
        first = time.perf_counter() - began
        memory = own_memory() - before
        began = time.perf_counter()
        for _ in range(BATCHES):
            next(feed)
        return {
            'first': first, 'memory': memory, 'batch': (time.perf_counter() - began) / BATCHES
        }  # fmt: skip


def measure_buckets(folder: str, count: int) -> dict[str, float]:
    """The work of a sweep over a number of buckets beside adapting."""
    import numpy as np

    from xlbench.data import prepared
    from xlbench.fewshot import corpus, results, settings

    root = f'{folder}/buckets-{count}-{time.monotonic_ns()}'
    manifest = dict(view='classification', labels=[f'label {i}' for i in range(LABELS)])
    rng = np.random.default_rng(0)
    splits = {}
    for split, buckets, each in (('test', 1, 500), (f'shots_{SHOTS}', count, SHOTS * LABELS)):
        place = prepared.folder(root, 'made_up', 'x', split)
        with prepared.Writer(place, manifest=made_up.manifest_of('x', split, **manifest)) as writer:
            writer.write_batch(
                [
                    {
                        'inputs': np.append(rng.integers(3, 999, 20), 1).astype(np.int32),
                        'targets': np.array([number % LABELS], np.int32),
                        'piece_counts': np.array([20], np.int32),
                        'id': f'{split} {bucket} {number}', 'bucket': str(bucket),
                    }
                    for bucket in range(buckets)
                    for number in range(each)
                ]
            )  # fmt: skip
        splits[split] = prepared.open_task(root, 'made_up', 'x', split)
    began = time.perf_counter()
    adapt = settings.Adapt(
        languages=('de',), methods=('full',), shots=(SHOTS,), buckets=count, learning_rates=(1e-5,),
        dev='none', lengths={'inputs': 32}, eval_batch_size=32,
    )  # fmt: skip
    planned = [row for row in settings.planned('mldoc', adapt) if row.shots]
    rows = [dataclasses.replace(row, score=50.0) for row in planned]
    whole = corpus.Corpus(splits, adapt, 'classification')
    whole.ids_of(SHOTS)
    whole.bucket_arrays(SHOTS)
    stacked = time.perf_counter() - began
    began = time.perf_counter()
    journal = results.Journal(root)
    predicted = rng.integers(0, LABELS, TEST_EXAMPLES)
    for row in rows:
        journal.add(row, predicted, count)
    added = time.perf_counter() - began
    began = time.perf_counter()
    results.Journal(root)
    return {'stacked': stacked, 'added': added, 'read': time.perf_counter() - began}


def child(args: argparse.Namespace, what: str, size: int) -> dict[str, float]:
    """Medians of what a measurement shows in processes of its own."""
    rounds = []
    for _ in range(args.rounds):
        command = [sys.executable, __file__, f'--folder={args.folder}', f'--measure={what}:{size}']
        answer = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
        rounds.append(json.loads(answer.splitlines()[-1]))
    return {name: statistics.median(one[name] for one in rounds) for name in rounds[0]}


def sizes(text: str) -> list[int]:
    """The numbers of an option."""
    return [int(part) for part in text.split(',')]


def measure_all(args: argparse.Namespace) -> list[interleaved.Value]:
    """The rows of all sizes, printed as they come."""
    write_shard_file(args.folder)
    made = []

    def add(work: str, counted: str, size: int, number: float, unit: str) -> None:
        made.append(interleaved.grown(work, counted, size, number, unit))
        print(f'{made[-1]["work"]}: {number:.4g} {unit}', flush=True)

    for size in sizes(args.examples):
        write_set(args.folder, f'examples_{size}', size)
        seen = child(args, 'examples', size)
        add('a prepared set to its first batch', 'examples', size, seen['first'], 's')
        add('a prepared set to its first batch', 'examples', size, seen['memory'], 'MB')
        add('a batch of a prepared set', 'examples', size, 1000 * seen['batch'], 'ms')
    for number in range(max(sizes(args.tasks))):
        write_set(args.folder, f'task_{number}', TASK_EXAMPLES)
    for size in sizes(args.tasks):
        seen = child(args, 'tasks', size)
        add('a mixture to its first batch', 'tasks', size, seen['first'], 's')
        add('a batch of a mixture', 'tasks', size, 1000 * seen['batch'], 'ms')
    for size in sizes(args.buckets):
        seen = child(args, 'buckets', size)
        add('plan and stack a sweep', 'buckets', size, 1000 * seen['stacked'], 'ms')
        add('write all results of a sweep', 'buckets', size, 1000 * seen['added'], 'ms')
        add('read all results of a sweep', 'buckets', size, 1000 * seen['read'], 'ms')
    return made


def main() -> None:
    parser = interleaved.parser(__doc__, (), rounds=3)
    parser.add_argument('--examples', default='1000,10000,100000,1000000,10000000')
    parser.add_argument('--tasks', default='1,10,100')
    parser.add_argument('--buckets', default='1,10,100,400')
    parser.add_argument('--folder', default='', help=argparse.SUPPRESS)
    parser.add_argument('--measure', default='', help=argparse.SUPPRESS)
    args = parser.parse_args()
    if not args.measure:
        with tempfile.TemporaryDirectory() as args.folder:
            interleaved.write(args.json, measure_all(args))
        return
    what, _, size = args.measure.partition(':')
    if what == 'buckets':
        print(json.dumps(measure_buckets(args.folder, int(size))))
    else:
        names = [f'task_{n}' for n in range(int(size))] if what == 'tasks' else [f'examples_{size}']
        print(json.dumps(measure_batches(args.folder, names)))


if __name__ == '__main__':
    main()
