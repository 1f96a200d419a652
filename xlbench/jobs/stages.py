"""Stages: each makes files, a job a file, and only those that are not there."""

import os
import sys
from collections.abc import Callable, Mapping
from typing import TypeVarTuple

from xlbench.jobs.engines import Engine
from xlbench.system.progress import Progress

Args = TypeVarTuple('Args')


def make(
    engine: Engine,
    stage: str,
    work: Callable[[*tuple[object, ...]], int | None],
    jobs: Mapping[str, tuple[object, ...]],
    unit: str,
) -> int:
    """Makes the files of a stage that are missing, and says how many there are.

    Args:
      engine: runs the jobs.
      stage: its name, for the progress.
      work: (*arguments of a job, path) makes the file at the path, which appears when it is whole,
        and may give a number.
      jobs: path of a file -> the arguments of its job.
      unit: what a file holds, such as 'partitions'.

    Returns:
      The sum of the numbers.
    """
    missing = {path: job for path, job in jobs.items() if not os.path.exists(path)}
    for folder in {os.path.dirname(path) for path in missing}:
        os.makedirs(folder, exist_ok=True)
    total = 0
    with Progress(stage, len(jobs), unit) as progress:
        progress.skip(len(jobs) - len(missing))
        for number in engine.run(work, ((*job, path) for path, job in missing.items())):
            total += number or 0
            progress.add()
    print(f'{stage}: {len(jobs):,} {unit}', file=sys.stderr, flush=True)
    return total
