"""A run that is told to end (SIGTERM: a preempted machine, a job whose time is up) ends well.

Nothing happens at the moment of the signal. It is asked for at places where everything can be
saved, `Interruption.check`, once a train step and once an evaluation batch; there all processes of
the run stop together, also if one alone was told. The program saves, and ends with exit code 75
(xlbench/processes.py). A second SIGTERM kills at once.
"""

import ctypes
import functools
import itertools
import signal
import threading
from collections.abc import Callable
from typing import Any, Self

import jax
from jax.experimental import multihost_utils

from xlbench.errors import UserError
from xlbench.processes import START_AGAIN

# Of all that this process asks: jax wants the number to rise, by the same rule in all processes.
_checks = itertools.count(1)


class Interrupted(UserError):
    """The run was told to end; the same command goes on where it was."""

    exit_code = START_AGAIN


class Interruption:
    """Takes SIGTERM in a `with` block, and gives it back after it.

    with Interruption() as interruption:
        for ...:
            interruption.check()

    Where jax.distributed runs, the processes agree on the place through its coordination service:
    each has to call `check` equally often. Off the main thread it takes no signal.
    """

    def __init__(self):
        self._told = False
        self._tell_jax: Callable[[int], Any] | None = None
        self._before: Any = None

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            if jax.distributed.is_initialized():
                self._tell_jax = _native_handler()
            self._before = signal.signal(signal.SIGTERM, self._note)
        return self

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        if self._before is not None:
            signal.signal(signal.SIGTERM, self._before)
        if self._told and isinstance(error, SystemExit):
            # A child process that prepares data was told as well, and this one has seen its end.
            raise Interrupted('told to end (SIGTERM) before the first step') from error

    def _note(self, number: int, frame: Any) -> None:
        self._told = True
        signal.signal(number, signal.SIG_DFL)
        if self._tell_jax:
            self._tell_jax(number)

    def check(self) -> None:
        """Costs microseconds.

        Raises:
          Interrupted: the run was told to end; in all processes at the same call.
        """
        if jax.distributed.is_initialized():
            told = multihost_utils.reached_preemption_sync_point(next(_checks))
        else:
            told = self._told
        if told:
            raise Interrupted('told to end (SIGTERM)')


@functools.cache  # It stands there until the first `Interruption` takes its place.
def _native_handler() -> Callable[[int], Any] | None:
    """jax's own handler of SIGTERM, which notes the signal for its coordination service.

    The `signal` module does not know of it and would only replace it.
    """
    find = ctypes.pythonapi.PyOS_getsig
    find.restype, find.argtypes = ctypes.c_void_p, [ctypes.c_int]
    address = find(signal.SIGTERM)
    return ctypes.CFUNCTYPE(None, ctypes.c_int)(address) if address else None
