"""Imports what needs TensorFlow, late and quietly."""

import contextlib
import importlib.machinery
import importlib.util
import os
import sys
import tempfile
import types
from collections.abc import Iterator, Sequence

# Of what TensorFlow and SeqIO load, packages that nothing here calls: Keras, and what it imports
# for its wrappers. They take seconds.
_UNUSED = ('keras', 'matplotlib', 'sklearn')
# Packages that load when they are used first: SeqIO's own vocabularies tokenize with TensorFlow
# Text, which imports Keras; its mixtures with rates to be searched need PyGlove.
_LATE = ('pyglove', 'tensorflow_text')


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """Imports in this block write nothing to standard error, unless the block fails.

    TensorFlow's C++ code speaks about CUDA and oneDNN before it has read its log level, and Beam
    says which of Google's packages are missing. TensorFlow takes seconds to load, so that its users
    are imported where they are needed: `--help` need not wait for it.
    """
    from absl import logging

    logging.set_verbosity(logging.ERROR)  # SeqIO warns about each uncached task.
    finder = _Finder()
    with tempfile.TemporaryFile() as hidden:
        sys.stderr.flush()
        saved = os.dup(2)
        os.dup2(hidden.fileno(), 2)
        sys.meta_path.insert(0, finder)
        try:
            yield
        except Exception:  # Not Ctrl-C, which needs no explanation.
            hidden.seek(0)
            os.write(saved, hidden.read())
            raise
        finally:
            sys.meta_path.remove(finder)
            sys.stderr.flush()
            os.dup2(saved, 2)
            os.close(saved)


class _Finder:
    """Finds the packages that are unused or late; all others are left to Python's own finders."""

    def find_spec(
        self,
        name: str,
        path: Sequence[str] | None = None,
        target: types.ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        """Says how a package is loaded: not at all, or late; None for any other one."""
        if name not in (*_UNUSED, *_LATE):
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            # TensorFlow asks where Keras is, and imports it if it can.
            late = name in _LATE
            spec.loader = importlib.util.LazyLoader(spec.loader) if late else _Refusal()
        return spec


class _Refusal:
    """Loads nothing, as if a package were not installed."""

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> None:
        """Leaves it to Python to make the empty module."""

    def exec_module(self, module: types.ModuleType) -> None:
        """Raises ImportError."""
        raise ImportError(f'{module.__name__} is not needed here')
