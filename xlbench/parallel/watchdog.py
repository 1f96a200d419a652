"""Notices a run of which nothing has been heard for too long, and ends it.

A device, a network or a disk that hangs makes all processes of a run wait, often for ever, without
an error. XLBENCH_HANG is the number of seconds without news after which a process ends, with code
75 (xlbench/parallel/cluster.py): 900 by default, 0 for never. Each process leaves

  workdir/hang-process-0.txt   the stack of every thread of process 0

and the one whose stacks differ from the others' is the one that they wait for.
"""

import contextlib
import faulthandler
import os
import pathlib
import threading
import time
from collections.abc import Iterator
from typing import Self

import jax

from xlbench.parallel import cluster
from xlbench.system.errors import UserError

HANG = 'XLBENCH_HANG'


class Watch:
    """A thread that ends this process when nothing is reported for too long.

    with Watch(workdir) as watch:
        with watch.paused('preparing'):
            ...
        for step in ...:
            ...
            watch.done(step)

    It never waits for a device or for another process. `seconds` of silence are too many, by
    default as XLBENCH_HANG has it; UserError if that is no number.
    """

    def __init__(self, workdir: str | os.PathLike, seconds: float | None = None):
        self.workdir = pathlib.Path(workdir)
        self.seconds = _seconds(os.environ.get(HANG)) if seconds is None else seconds
        self._last = 'start', False  # What is awaited; whether minutes of silence are right there.
        self._ended = threading.Event()

    def __enter__(self) -> Self:
        if self.seconds:
            place = jax.process_index(), jax.process_count()
            threading.Thread(target=self._watch, args=place, name='watch', daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()

    def done(self, step: int, what: str = 'train step') -> None:
        """Says that `step` of a kind has ended, and that the next one is now awaited.

        Costs less than a microsecond.
        """
        self._last = f'{what} {step + 1}', False

    @contextlib.contextmanager
    def paused(self, what: str) -> Iterator[None]:
        """Allows minutes of silence in the block: 'compiling', 'saving'.

        If another process is lost meanwhile, jax ends this one.
        """
        before, self._last = self._last, (what, True)
        try:
            yield
        finally:
            if self._last[1]:  # Nothing was done meanwhile.
                self._last = before[0], before[1]  # A new pair: the silence begins now.

    def _watch(self, index: int, count: int) -> None:
        """Counts the silence in beats: a time in which all of this process was stopped is none."""
        beat = min(10, self.seconds / 5)
        last, beats = self._last, 0
        while not self._ended.wait(beat):
            if self._last is not last or last[1]:
                last, beats = self._last, 0
            beats += 1
            if beats * beat < self.seconds:
                continue
            why = f'process {index} of {count}: {last[0]} has not ended for {self.seconds:g} s'
            path = self.workdir / f'hang-process-{index}.txt'
            try:
                with path.open('w', encoding='utf-8') as file:
                    file.write(f'{time.strftime("%Y-%m-%d %H:%M:%S")} {why}\n\n')
                    file.flush()
                    faulthandler.dump_traceback(file)
                why += f'; the stacks of its threads are in {path}'
            except OSError as error:  # It may be the disk that hangs.
                why += f'; cannot write {path}: {error.strerror}'
            os.write(2, f'error: {why}; exit code {cluster.START_AGAIN}\n'.encode())
            if index == 0 and count > 1:  # jax ends the others at once when process 0 has gone.
                time.sleep(2 * beat)
            cluster.leave(cluster.START_AGAIN)


def _seconds(text: str | None) -> float:
    try:
        seconds = float(text or 900)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float('inf'):
        raise UserError(
            f'{HANG}={text!r} is not a time to wait; set seconds, or 0 to wait for ever'
        )
    return seconds
