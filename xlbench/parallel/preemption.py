"""A run that is told to end ends well: SIGTERM (a preempted machine, a job whose time is up),
Ctrl-C (SIGINT), or a terminal that is closed (SIGHUP).

Nothing happens at the moment of the signal. It is asked for at places where everything can be
saved, `Interruption.check`, once a train step and once an evaluation batch; there all processes of
the run stop together, also if one alone was told. The program saves, and ends with exit code 75
(xlbench/parallel/cluster.py). A second SIGTERM or Ctrl-C kills at once; in a run of several
processes the second SIGTERM does so once the first one has been noticed.
"""

import itertools
import os
import signal
import threading
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Self

import jax
from jax.experimental import multihost_utils

from xlbench.parallel.cluster import START_AGAIN
from xlbench.system.errors import UserError

# The signals that end a run, and what its last line calls them.
NAMES: dict[int, str] = {
    signal.SIGTERM: 'SIGTERM', signal.SIGINT: 'Ctrl-C', signal.SIGHUP: 'SIGHUP',
}  # fmt: skip
# Of all that this process asks: jax wants the number to rise, by the same rule in all processes.
_checks = itertools.count(1)


class Interrupted(UserError):
    """The run was told to end; the same command goes on where it was."""

    exit_code = START_AGAIN


class Interruption:
    """Takes the signals that end a run in a `with` block, and gives them back after it.

    with Interruption() as interruption:
        for ...:
            interruption.check()

    Where jax.distributed runs, the processes agree on the place through its coordination service:
    each has to call `check` equally often. jax takes SIGTERM itself there, from `initialize` on;
    the other signals are handed to it as SIGTERM. There can be one such block in a program.

    Off the main thread it takes no signal, and nowhere one that the process was started to ignore,
    as by nohup or behind a shell's `&`.
    """

    def __init__(self, signals: Iterable[int] = tuple(NAMES)):
        self._signals = tuple(signals)
        self._signal = ''  # The name of the signal that came first.
        self._several = False
        self._before: dict[int, Callable[[int, FrameType | None], object] | int | None] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._several = jax.distributed.is_initialized()
            for number in self._signals:
                if signal.getsignal(number) is not signal.SIG_IGN:
                    jaxs = self._several and number == signal.SIGTERM
                    before = signal.SIG_DFL if jaxs else signal.signal(number, self._note)
                    self._before[number] = before
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)
        if isinstance(error, SystemExit):
            # A child process that prepares data was told as well, and this one has seen its end.
            code = error.code if isinstance(error.code, int) else 0
            if name := self._signal or (NAMES.get(-code, '') if self._several else ''):
                raise Interrupted(f'told to end ({name}) before the first step') from error

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._signal = self._signal or NAMES[number]
        # A closed terminal may say so twice, its shell and the system, and nobody waits there.
        signal.signal(number, signal.SIG_IGN if number == signal.SIGHUP else signal.SIG_DFL)
        if self._several:
            os.kill(os.getpid(), signal.SIGTERM)

    def check(self) -> None:
        """Ends the run if it was told to; costs microseconds.

        Raises:
          Interrupted: the run was told to end; in all processes at the same call.
        """
        if jax.distributed.is_initialized():
            if multihost_utils.reached_preemption_sync_point(next(_checks)):
                for number in {signal.SIGTERM} & self._before.keys():
                    signal.signal(number, signal.SIG_DFL)  # A second one kills.
                name = self._signal or 'a signal to one of the processes'
                raise Interrupted(f'told to end ({name})')
        elif self._signal:
            raise Interrupted(f'told to end ({self._signal})')
