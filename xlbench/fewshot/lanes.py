"""Lanes: adaptations side by side, the methods of arXiv:2012.15682, and their results."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TypeVar

import jax
import numpy as np
import optax
from flax import struct
from jax.sharding import Mesh, PartitionSpec

from xlbench.errors import UserError, unknown
from xlbench.parallel import partitioning
from xlbench.training.objectives.contract import Params

Tree = TypeVar('Tree')

EMBEDDING = 'encoder/token_embedder/embedding'
POOLERS = ('encoder/pooler/', 'dense/')  # BERT's, and that of a head over an encoder without one.
LANES = PartitionSpec('data')
WHOLE = PartitionSpec()


@dataclasses.dataclass(frozen=True)
class Method:
    """A method of adaptation: the parts of a model that it trains.

    Attributes:
      encoder: with everything below the head.
      pooler: with the layer between encoder and classifier.
      fresh: the classifier starts anew, drawn with the lane's seed.
      cosine: the classifier compares directions, see HeadConfig.
    """

    encoder: bool = False
    pooler: bool = False
    fresh: bool = False
    cosine: bool = False


METHODS = {
    'full': Method(encoder=True, pooler=True),
    'fc': Method(),
    'fc_pooler': Method(pooler=True),
    'cos_pooler': Method(pooler=True, fresh=True, cosine=True),
    'fc_reset_pooler': Method(pooler=True, fresh=True),
}
TAGGING_METHODS = ('full', 'fc')  # Taggers have no pooler.


TORCH_ADAM = {'b1': 0.9, 'b2': 0.999, 'eps': 1e-8}


@dataclasses.dataclass(frozen=True)
class Recipe:
    """The method and the numbers of an adaptation to one bucket.

    Attributes:
      method: a name in METHODS.
      epochs: at most; as many without a development set.
      patience: epochs without a higher score after which a lane ends.
      batch_size: examples of a step; 0: the whole bucket.
      adam: b1, b2 and eps.
      frozen_dropout: whether a frozen encoder reads the shots at every step, with dropout.
    """

    method: str
    epochs: int = 50
    patience: int = 10
    batch_size: int = 0
    adam: Mapping[str, float] = dataclasses.field(default_factory=TORCH_ADAM.copy)
    frozen_dropout: bool = False

    def __post_init__(self):
        if self.method not in METHODS:
            raise unknown('method of few-shot adaptation', self.method, METHODS)
        if self.epochs < 1 or self.patience < 1 or self.batch_size < 0:
            raise UserError(
                f'epochs={self.epochs}, patience={self.patience}, batch_size={self.batch_size}; '
                'allowed are 1 or more epochs and patience, and a batch_size of 0, the whole '
                'bucket, or more'
            )


@dataclasses.dataclass(frozen=True)
class Lane:
    """One adaptation; `seed` draws dropout, the order of batches and fresh parameters."""

    bucket: int
    learning_rate: float
    seed: int


@dataclasses.dataclass(frozen=True)
class Result:
    """The result of a lane.

    Attributes:
      lane: which.
      dev_score: the best, 0 to 100; None without a development set.
      best_epoch: its epoch, from 1.
      epochs: all that were run.
      curve: [epochs], the development score after each.
      predicted: [W] int32, labels of the test set in the order of its `gold`; -1 between sentences.
      params: of the best epoch, over the whole vocabulary, where they were asked for.
    """

    lane: Lane
    dev_score: float | None
    best_epoch: int
    epochs: int
    curve: tuple[float, ...]
    predicted: np.ndarray
    params: Params | None = None


def early_stopping(scores: Sequence[float], patience: int) -> tuple[int, int, float]:
    """(epochs run, best epoch from 1, its score), were `scores` those after each epoch.

    Only a higher score is better, and the first beats none at all (fsxlt/code, adapt_trainer.py).
    """
    best_epoch, best = 0, -1.0
    for epoch, score in enumerate(scores, 1):
        if score > best:
            best_epoch, best = epoch, score
        if epoch - best_epoch >= patience:
            return epoch, best_epoch, best
    return len(scores), best_epoch, best


@struct.dataclass
class State:
    """Lanes in their slots, [slots, ...] each.

    Attributes:
      bucket, seed, learning_rate: [slots].
      params: of the adapted part.
      moments: Adam's.
      best: `params` of the best epoch; None without a development set.
      best_score: [slots, 2] int32, as `scores`.
      best_epoch: [slots].
      epoch: [slots], epochs done.
      ended: [slots], nothing here moves any more.
      scores: [slots, epochs, 2] int32, a fraction for each epoch: see `LanePrograms._score`.
    """

    bucket: jax.Array
    seed: jax.Array
    learning_rate: jax.Array
    params: Params
    moments: optax.ScaleByAdamState
    best: Params | None
    best_score: jax.Array
    best_epoch: jax.Array
    epoch: jax.Array
    ended: jax.Array
    scores: jax.Array


@struct.dataclass
class Eval:
    """A development or test set on the device.

    Attributes:
      batches: features [batches, rows, ...], an entry for each shape.
      take: [W], where each prediction is among all; -1: nowhere.
      gold: [W], -1 between sentences.
    """

    batches: tuple[dict[str, jax.Array], ...]
    take: jax.Array
    gold: jax.Array


def assigned(slots: Sequence[Lane | None]) -> dict[str, np.ndarray]:
    """The lanes of slots as arrays; a slot without one has ended."""
    lanes = [slot or Lane(0, 0.0, 0) for slot in slots]
    return {
        'bucket': np.array([lane.bucket for lane in lanes], np.int32),
        'seed': np.array([lane.seed for lane in lanes], np.uint32),
        'learning_rate': np.array([lane.learning_rate for lane in lanes], np.float32),
        'ended': np.array([slot is None for slot in slots]),
    }


def put(tree: Tree, mesh: Mesh) -> Tree:
    """Arrays as every device holds them whole."""
    return jax.device_put(tree, partitioning.replicated(mesh))
