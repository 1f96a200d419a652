"""The time and the hardware of the sessions in a workdir, from its sessions.jsonl."""

import pathlib
import statistics
from collections.abc import Sequence

from xlbench.system import sessions
from xlbench.system.progress import duration
from xlbench.system.sessions import Session


def facts(workdirs: Sequence[pathlib.Path]) -> dict[str, str]:
    """Says what runs took, all their sessions together, and what they ran on.

    Args:
      workdirs: of one config; each is a run.

    Returns:
      {'wall time': '12m30s', 'processor time': ..., 'hardware': ..., 'peak memory': ...}; of
      several runs means with standard deviations. What is not recorded is said to be so.
    """
    recorded = {workdir: sessions.read(workdir) for workdir in workdirs}
    lacking = [workdir.resolve().name for workdir, of_run in recorded.items() if not of_run]
    if lacking:
        of = '' if len(lacking) == len(workdirs) else f' of {", ".join(lacking)}'
        return {'wall time': f'not recorded{of}'}
    runs = list(recorded.values())
    every = [session for of_run in runs for session in of_run]
    said = {
        'wall time': _times([sum(s.wall_seconds for s in of_run) for of_run in runs]),
        'processor time': _times([sum(s.processor_seconds for s in of_run) for of_run in runs]),
        'hardware': '; '.join(dict.fromkeys(_hardware(session) for session in every)),
    }
    if any(session.processes > 1 for session in every):
        said['processor time'] += ', of the first process'
    if interrupted := sum(len(of_run) - 1 for of_run in runs):
        said['wall time'] += f', {interrupted} interruption{"s" if interrupted > 1 else ""}'
    if peaks := [session.peak_bytes for session in every if session.peak_bytes]:
        said['peak memory'] = f'{max(peaks) / 2**30:.1f} GiB'
    return said


def commands(workdir: pathlib.Path) -> list[list[str]]:
    """Lists the command lines of a workdir's sessions, each once, in their order."""
    return [list(c) for c in dict.fromkeys(tuple(s.command) for s in sessions.read(workdir)) if c]


def _times(seconds: Sequence[float]) -> str:
    """Example: [60, 80] -> '1m10s ±14s each of 2 runs, 2m20s in all'."""
    if len(seconds) == 1:
        return duration(seconds[0])
    mean, spread = (duration(f(seconds)) for f in (statistics.fmean, statistics.stdev))
    return f'{mean} ±{spread} each of {len(seconds)} runs, {duration(sum(seconds))} in all'


def _hardware(session: Session) -> str:
    memory = f', {session.memory_bytes / 2**30:.0f} GiB' if session.memory_bytes else ''
    cores = f'{session.cores} core{"s" if session.cores != 1 else ""}'
    processor = session.processor or 'a processor without a name'
    return f'{processor}, {cores}{memory}; {session.devices}'
