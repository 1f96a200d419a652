"""A run that is told to end ends well: SIGTERM (a preempted machine, a job whose time is up),
Ctrl-C (SIGINT), or a terminal that is closed (SIGHUP).

Nothing happens at the moment of the signal. It is asked for at places where everything can be
saved, `Interruption.check`, once a train step and once an evaluation batch; there all processes of
the run stop together, also if one alone was told. The program saves, and ends with exit code 75
(xlbench/parallel/cluster.py). A second SIGTERM or Ctrl-C kills at once.
"""

import ctypes
import functools
import itertools
import signal
import threading
from collections.abc import Callable, Iterable
from typing import Any, Self

import jax
from jax.experimental import multihost_utils

from xlbench.errors import UserError
from xlbench.parallel.cluster import START_AGAIN

# The signals that end a run, and what its last line calls them.
NAMES = {signal.SIGTERM: 'SIGTERM', signal.SIGINT: 'Ctrl-C', signal.SIGHUP: 'SIGHUP'}
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
    each has to call `check` equally often. Off the main thread it takes no signal, and nowhere one
    that the process was started to ignore, as by nohup or behind a shell's `&`.

    Args:
      signals: of NAMES, those that it takes; default: all.
    """

    def __init__(self, signals: Iterable[int] = tuple(NAMES)):
        self._signals = tuple(signals)
        self._told = ''  # The name of the signal that came first.
        self._tell_jax: Callable[[int], Any] | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            if jax.distributed.is_initialized():
                self._tell_jax = _native_handler()
            for number in self._signals:
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)
        if self._told and isinstance(error, SystemExit):
            # A child process that prepares data was told as well, and this one has seen its end.
            raise Interrupted(f'told to end ({self._told}) before the first step') from error

    def _note(self, number: int, frame: Any) -> None:
        self._told = self._told or NAMES[number]
        # A closed terminal may say so twice, its shell and the system, and nobody waits there.
        signal.signal(number, signal.SIG_IGN if number == signal.SIGHUP else signal.SIG_DFL)
        if self._tell_jax:
            self._tell_jax(number)

    def check(self) -> None:
        """Costs microseconds.

        Raises:
          Interrupted: the run was told to end; in all processes at the same call.
        """
        if jax.distributed.is_initialized():
            if multihost_utils.reached_preemption_sync_point(next(_checks)):
                who = f' ({self._told})' if self._told else ', as another process was'
                raise Interrupted(f'told to end{who}')
        elif self._told:
            raise Interrupted(f'told to end ({self._told})')


@functools.cache  # It stands there until the first `Interruption` takes its place.
def _native_handler() -> Callable[[int], Any] | None:
    """jax's own handler of SIGTERM, which notes the signal for its coordination service.

    The `signal` module does not know of it and would only replace it.
    """
    find = ctypes.pythonapi.PyOS_getsig
    find.restype, find.argtypes = ctypes.c_void_p, [ctypes.c_int]
    address = find(signal.SIGTERM)
    return ctypes.CFUNCTYPE(None, ctypes.c_int)(address) if address else None
