"""Maximum likelihood of the targets for a model that reads two views of its input."""

from typing import ClassVar

import jax
import jax.numpy as jnp

from xlbench.training.objectives.contract import Batch
from xlbench.training.objectives.generation import Generation, Options

__all__ = ['MultiView', 'Options']


class MultiView(Generation):
    """Maximum likelihood of the targets, given two views of an input (arXiv:2010.01672)."""

    view: ClassVar[str] = 'multi_view'
    trains: ClassVar[str] = 'multi_view'

    def example_inputs(self) -> tuple[jax.Array, ...]:
        return (*super().example_inputs(), jnp.ones((1, 8), jnp.int32))

    def _more(self, batch: Batch) -> dict[str, jax.Array]:
        return {'encoder_marks': batch['encoder_marks']}
