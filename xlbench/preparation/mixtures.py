"""Prepares every task of mixtures, in this process, in several, or elsewhere."""

import functools
import os
import time
from collections.abc import Callable, Sequence

from xlbench import pipeline
from xlbench.data import prepared, tokenizers
from xlbench.preparation import planning, workers as workers_lib
from xlbench.preparation.jobs import Done, Job, prepare_one
from xlbench.system import errors
from xlbench.system.progress import Progress

Elsewhere = Callable[[Sequence[Job], Callable[[Done], None]], None]


def prepare(
    mixtures: str | Sequence[str],
    splits: str | Sequence[str],
    *,
    root: str,
    vocabulary: str,
    skip_bad: int = 0,
    workers: int | None = None,
    force: bool = False,
    elsewhere: Elsewhere | None = None,
) -> list[Done]:
    """Prepares every task of some mixtures (or tasks) on some splits.

    Args:
      mixtures: names, comma-separated or a sequence; NAME:SPLIT takes that split alone.
      splits: of the other names, likewise.
      root: the data root.
      vocabulary: see xlbench/data/tokenizers.
      skip_bad: how many bad records may be skipped, in all of the run together.
      workers: processes; by default one for each core, and none beside this one for small data.
      force: make also what is up to date.
      elsewhere: (jobs, finished) prepares jobs in another way than in processes of this machine,
        and calls `finished` with each result.

    Returns:
      What is prepared now, up-to-date tasks included, in the order of the names.
    """
    if skip_bad < 0 or (workers is not None and workers < 1):
        raise errors.UserError('--skip_bad must be 0 or more, and --workers 1 or more')
    started = time.monotonic()
    with pipeline.bound(vocabulary, root):
        plan = planning.resolve(mixtures, splits)
        planning.check_vocabulary(plan.jobs)
        fresh = {} if force else {j: planning.up_to_date(root, vocabulary, j) for j in plan.jobs}
        results = {job: done for job, done in fresh.items() if done}
        # Large ones first, so that no worker begins the largest when the others are done.
        todo = [job for job in plan.jobs if job not in results]
        todo.sort(key=lambda job: -plan.sizes[job].bytes)
        encoders = planning.num_processes(workers)
        workers = planning.num_workers(workers, todo, plan.sizes)
        encoders //= workers
        shared = workers_lib.Shared.make(skip_bad)
        total = sum(plan.sizes[job].examples for job in todo)
        count = functools.partial(getattr, shared.examples, 'value')
        with Progress('prepared', total, 'examples', count=count, active=not elsewhere):

            def finished(done: Done) -> None:
                results[done.job] = done
                print(done, flush=True)
                for bad in done.manifest['skipped']:
                    place = f'{bad["path"]}:{bad["line"]}' if bad['line'] else bad['path']
                    print(f'  skipped {place}: {bad["reason"]}', flush=True)

            for done in results.values():
                print(done, flush=True)
            if elsewhere:
                elsewhere(todo, finished)
            else:
                work = functools.partial(
                    prepare_one, root=root, vocabulary=vocabulary, force=force, encoders=encoders
                )
                threads = tokenizers.num_threads() // workers
                for done in workers_lib.run(work, todo, workers, shared, threads):
                    finished(done)
            for mixture, split in plan.mixtures:
                rates = pipeline.mixture_rates(mixture, split)
                prepared.write_mixture(root, vocabulary, mixture.name, split, rates)
            for line in planning.equal_splits(root, vocabulary, [results[job] for job in todo]):
                print(line, flush=True)
    results = [results[job] for job in plan.jobs]
    means = 'Beam' if elsewhere else f'{workers} process{"es" if workers > 1 else ""}'
    print(_summary(results, time.monotonic() - started, means, root, vocabulary), flush=True)
    return results


def _summary(
    results: Sequence[Done], seconds: float, means: str, root: str, vocabulary: str
) -> str:
    made = [done for done in results if not done.fresh]
    examples = sum(done.manifest['num_examples'] for done in made)
    return (
        f'{len(made)} prepared, {len(results) - len(made)} were up to date: {examples:,} examples '
        f'in {seconds:.1f} s with {means} -> '
        + os.path.join(root, 'prepared', prepared.vocabulary_folder(vocabulary))
    )
