"""Imports what needs TensorFlow, late and quietly."""

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator

# Keras, which TensorFlow loads, imports these for wrappers that nothing here calls: a second.
_UNUSED = ('matplotlib', 'sklearn')


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """Imports in this block write nothing to standard error, unless the block fails.

    TensorFlow's C++ code speaks about CUDA and oneDNN before it has read its log level, and Beam
    says which of Google's packages are missing. TensorFlow takes seconds to load, so that its users
    are imported where they are needed: `--help` need not wait for it.
    """
    from absl import logging

    logging.set_verbosity(logging.ERROR)  # SeqIO warns about each uncached task.
    with tempfile.TemporaryFile() as hidden:
        sys.stderr.flush()
        saved = os.dup(2)
        os.dup2(hidden.fileno(), 2)
        left_out = [name for name in _UNUSED if name not in sys.modules]
        sys.modules.update(dict.fromkeys(left_out))  # None: as if it were not installed.
        try:
            yield
        except BaseException:
            hidden.seek(0)
            os.write(saved, hidden.read())
            raise
        finally:
            for name in left_out:
                del sys.modules[name]
            sys.stderr.flush()
            os.dup2(saved, 2)
            os.close(saved)
