"""Imports what a run needs after its first step, while that step runs."""

import functools
import importlib
import threading

# Together they take most of a second. Grain reads batches ahead from the second one on.
_MODULES = ('grain', 'xlbench.training.checkpoints.orbax_manager')


@functools.cache
def begin() -> None:
    """Begins to import them, in a thread, once; whoever needs one before waits for it alone."""
    threading.Thread(target=_import, name='imports').start()


def _import() -> None:
    for module in _MODULES:
        importlib.import_module(module)
