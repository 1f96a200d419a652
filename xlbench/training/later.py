"""Begins, when a run has dispatched its first step, what would have kept that step waiting."""

import contextlib
import functools
import importlib
import threading

from xlbench import machine


@functools.cache
def begin() -> None:
    """Begins to import, in a thread, what saves checkpoints; collects garbage as ever.

    Orbax takes most of a second to import. Whoever needs it before waits for it alone.
    """
    machine.collect_as_ever()
    name = 'xlbench.training.checkpoints.orbax_manager'
    threading.Thread(target=_import, args=[name], name='imports').start()


def _import(name: str) -> None:
    # Whoever needs it imports it again, and hears what is wrong. Two threads that import at once
    # may see modules that are half there.
    with contextlib.suppress(Exception):
        importlib.import_module(name)
