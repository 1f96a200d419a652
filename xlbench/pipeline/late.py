"""Imports of TensorFlow and SeqIO, which wait until a dataset is read."""

import contextlib
import importlib.abc
import os
import sys
import types
from collections.abc import Callable, Iterator

from xlbench.system import errors
from xlbench.system.machine import Finder, quietly

_PACKAGES = ('tensorflow', 'seqio')
_after: list[Callable[[types.ModuleType], None]] = []  # Called with SeqIO once it is there.


def tensorflow() -> types.ModuleType:
    """Imports TensorFlow; UserError if it is not installed."""
    with _installed():
        import tensorflow
    return tensorflow


def seqio() -> types.ModuleType:
    """Imports SeqIO, with all declared tasks in its registries; UserError if it is missing."""
    with _installed():
        import seqio
    return seqio


def loaded_seqio() -> types.ModuleType | None:
    """Returns SeqIO if anything has imported it."""
    module = sys.modules.get('seqio')
    return module if hasattr(module, 'get_dataset') else None  # Not while it is being imported.


def is_tensorflow_error(error: BaseException) -> bool:
    """Returns whether TensorFlow has raised an error."""
    module = sys.modules.get('tensorflow')
    return module is not None and isinstance(error, module.errors.OpError)


def when_seqio_is_there(function: Callable[[types.ModuleType], None]) -> None:
    """Calls a function with SeqIO, now or as soon as anything imports it."""
    _after.append(function)
    if (module := loaded_seqio()) is not None:
        function(module)


@contextlib.contextmanager
def _installed() -> Iterator[None]:
    """Turns the error of a package that is not installed into a UserError."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name not in _PACKAGES:
            raise
        raise errors.UserError(
            f'this needs {error.name}, which is not installed here (requirements-core.lock is '
            'without it); install requirements.lock, or prepare the data on another machine'
        ) from None


class _Loader(importlib.abc.Loader):
    """Loads one of both quietly, whoever imports it, then hides devices or registers tasks."""

    def __init__(self, own: importlib.abc.Loader):
        self._own = own

    def exec_module(self, module: types.ModuleType) -> None:
        module.__loader__ = self._own
        if module.__spec__:
            module.__spec__.loader = self._own
        with quietly():
            self._own.exec_module(module)
        if module.__name__ == 'tensorflow':
            _hide_accelerators(module)
        else:
            for function in _after:
                function(module)


def _hide_accelerators(tensorflow: types.ModuleType) -> None:
    """Keeps TensorFlow, which only reads text, from taking accelerators."""
    with contextlib.suppress(RuntimeError):  # It is already running: the caller has decided.
        tensorflow.config.set_visible_devices([], 'GPU')


os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')  # Before TensorFlow: only its fatal errors.
sys.meta_path.insert(0, Finder(dict.fromkeys(_PACKAGES, _Loader)))
if 'tensorflow' in sys.modules:
    _hide_accelerators(sys.modules['tensorflow'])
