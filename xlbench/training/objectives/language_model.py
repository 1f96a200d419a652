"""Decoder-only maximum likelihood of texts, or of what follows a given beginning."""

import dataclasses
from typing import ClassVar, Literal

import jax
import jax.numpy as jnp

from xlbench.training.objectives import generation
from xlbench.training.objectives.contract import Batch


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(generation.Options):
    """The block config.objective.

    Attributes:
      loss_on: which tokens are learned: those of the targets, or those of the inputs as well.
    """

    loss_on: Literal['targets', 'everything'] = 'targets'


class LanguageModel(generation.Generation):
    """Maximum likelihood of a text's tokens, each given those before it, in nats per token.

    The text of an example is its inputs and then its targets. The first token of the inputs is
    given in any case.
    """

    view: ClassVar[str] = 'language_model'
    trains: ClassVar[str] = 'decoder_only'
    options: Options

    def _more(self, batch: Batch) -> dict[str, bool]:
        return {'of_inputs': self.options.loss_on == 'everything'}

    def _scored(self, batch: Batch) -> tuple[jax.Array, jax.Array]:
        tokens, weights = super()._scored(batch)
        if self.options.loss_on != 'everything':
            return tokens, weights
        return (
            jnp.concatenate([batch['prompt_target_tokens'], tokens], axis=1),
            jnp.concatenate([batch['prompt_loss_weights'], weights], axis=1),
        )
