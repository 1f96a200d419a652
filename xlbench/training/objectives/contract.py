"""The contract of an objective: the one place where a batch meets a model and a loss."""

from collections.abc import Mapping
from typing import ClassVar, TypeAlias

import flax.linen as nn
import jax
import jax.numpy as jnp

from xlbench.system.ranges import Block
from xlbench.system.trees import Params

Batch = Mapping[str, jax.Array]
Sums = dict[str, jax.Array]  # Over a batch, each []; or over each of its rows, [batch].
Key: TypeAlias = jax.Array | None  # For dropout; without one there is none, as in evaluation.


class Objective:
    """An objective, as the loop, the step, the evaluators and a plan know it.

    It is made of its options: the block config.objective beside its name, which the dataclass
    `Options` of the same file declares. Those of one class with equal options are equal, and share
    compiled programs. What a class says of itself are literals: it is read from the source, as the
    fields of `Options` are, before jax is imported.

    Attributes:
      view: which features of data.features.VIEWS its batches have.
      trains: the kind of models that it alone trains, see models/families.py; '' is any
        encoder-decoder.
      evaluator: the type of evaluator that scores its models, unless a config names another.
      writes_text: whether its models write texts, and so can be decoded.
      accumulates: whether a batch's gradient is the sum of those of its parts.
      text_baselines: whether config.baselines, which are texts, can be scored beside its models.
      weights: the feature whose sum is the weight of a batch.
    """

    view: ClassVar[str]
    trains: ClassVar[str] = ''
    evaluator: ClassVar[str]
    writes_text: ClassVar[bool] = False
    accumulates: ClassVar[bool] = True
    text_baselines: ClassVar[bool] = True
    weights: ClassVar[str] = 'row_weights'

    def __init__(self, options: Block):
        self.options = options

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    def __hash__(self) -> int:
        return hash((type(self), self.options))

    def example_inputs(self) -> tuple[jax.Array, ...]:
        """Arguments of the smallest call that creates the model's parameters: of two texts."""
        return (jnp.zeros((1, 8), jnp.int32), jnp.zeros((1, 8), jnp.int32))

    def weight(self, batch: Batch) -> jax.Array:
        """[], the divisor of the sum of the loss."""
        return jnp.sum(batch[self.weights])

    def loss(self, model: nn.Module, params: Params, batch: Batch, rng: Key) -> Sums:
        """Sums over a batch with the features of `view`, float32.

        They are 'loss', 'weight', 'tokens' (real ones), 'examples', 'positions' (padding included),
        and further ones that metrics.jsonl shows divided by the weight.
        """
        raise NotImplementedError

    def row_losses(self, model: nn.Module, params: Params, batch: Batch) -> Sums:
        """Per row [batch]: the sums 'loss' and 'weight', without dropout, for evaluation.

        An objective whose loss of one example depends on the rest of the batch has none.
        """
        raise NotImplementedError
