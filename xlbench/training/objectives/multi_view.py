"""Maximum likelihood of the targets for a model that reads two views of its input."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp

from xlbench.training.objectives import generation
from xlbench.training.objectives.contract import Batch


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(generation.Options):
    """The block config.objective: that of `generation`."""


class MultiView(generation.Generation):
    """Maximum likelihood of the targets, given two views of an input (arXiv:2010.01672)."""

    view: ClassVar[str] = 'multi_view'
    trains: ClassVar[str] = 'multi_view'

    def example_inputs(self) -> tuple[jax.Array, ...]:
        return (*super().example_inputs(), jnp.ones((1, 8), jnp.int32))

    def _more(self, batch: Batch) -> dict[str, jax.Array]:
        return {'encoder_marks': batch['encoder_marks']}
