"""Imports NLTK quickly.

NLTK imports all of its packages at once, and some of them SciPy and scikit-learn, for functions
that nothing here calls: five sixths of the time.
"""

import contextlib
import importlib
import pkgutil
import sys
import types
from collections.abc import Iterator

# The modules that NLTK imports from, for a statistical test, a classifier and a parser.
_LATE = (
    'scipy',
    'scipy.stats',
    'sklearn',
    'sklearn.datasets',
    'sklearn.feature_extraction',
    'sklearn.preprocessing',
)


def load() -> None:
    """Imports NLTK whole; what it takes from other packages is imported when it is first called.

    Call this before importing a part of NLTK.
    """
    if 'nltk' not in sys.modules:
        with _standing_in(_LATE):
            importlib.import_module('nltk')


@contextlib.contextmanager
def _standing_in(names: tuple[str, ...]) -> Iterator[None]:
    """In the block, a `_Module` stands for each of these modules that is not imported yet."""
    modules = {name: _Module(name) for name in names if name not in sys.modules}
    sys.modules.update(modules)
    try:
        yield
    finally:
        for name in modules:
            del sys.modules[name]


class _Module(types.ModuleType):

    def __getattr__(self, name: str) -> '_Late':
        if name.startswith('__'):  # Python's own questions, such as whether it is a package.
            raise AttributeError(name)
        return _Late(f'{self.__name__}.{name}')


class _Late:
    """Stands for a function or class, or for what has it, by its full name."""

    def __init__(self, name: str):
        self._name = name

    def __getattr__(self, name: str) -> '_Late':
        return _Late(f'{self._name}.{name}')

    def __call__(self, *args: object, **options: object) -> object:
        return pkgutil.resolve_name(self._name)(*args, **options)
