"""Compiled programs that equal models share: those of one run, and of several checkpoints."""

import functools
from collections.abc import Callable, Hashable
from typing import Any

import jax

_KEPT = 16  # What jax has compiled goes with the function that it was compiled for.


@functools.lru_cache(_KEPT)
def shared(function: Callable[..., Any], *fixed: Hashable, **options: Any) -> Any:
    """A function under jit, with its first arguments fixed: for equal ones it is the same program.

    Args:
      function: a pure one of a module or a class.
      *fixed: its first arguments, compared by value, such as a Linen module.
      **options: of jax.jit.
    """
    return jax.jit(functools.partial(function, *fixed), **options)
