"""A dual encoder that finds each message's reply among all replies of the batch."""

import dataclasses
from typing import Annotated, Any, ClassVar, Literal

import flax.linen as nn
import jax
import jax.numpy as jnp

from xlbench.parallel import partitioning
from xlbench.system.ranges import Block, Meta
from xlbench.system.trees import Params
from xlbench.training import losses
from xlbench.training.objectives.contract import Batch, Key, Objective, Sums


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(Block, where='config.objective'):
    """The block config.objective.

    Attributes:
      loss: see losses.contrastive.
      scale: what scores are multiplied with: 1 for vectors of any length as in arXiv:2106.02017,
        20 to 100 for unit vectors.
      mask_duplicates: a reply that equals the row's own is no negative.
      chunk_rows: largest number of rows encoded at a time on all devices together, and once more
        in the backward pass (gradient caching, arXiv:2101.06983): memory then depends on it, and
        no longer on the batch size. 0 encodes the batch at once.
    """

    loss: Literal['sym_paper', 'sym_code', 'softmax', 'bidirectional'] = 'sym_paper'
    scale: Annotated[float, Meta(gt=0)] = 1.0
    mask_duplicates: bool = False
    chunk_rows: Annotated[int, Meta(ge=0, le=2**24)] = 0


class Retrieval(Objective):
    """A dual encoder that finds each message's reply among all replies of the batch.

    The candidates are the replies of the whole batch, on however many devices it lies: the devices
    exchange vectors, and each makes the scores of its own rows.
    """

    view: ClassVar[str] = 'retrieval'
    trains: ClassVar[str] = 'dual_encoder'
    evaluator: ClassVar[str] = 'retrieval'
    options: Options
    accumulates: ClassVar[bool] = False  # The parts of a batch would not be each other's negatives.

    def __init__(self, options: Options):
        super().__init__(options)
        self.scale = options.scale  # Of whatever scores with the same model.

    def loss(self, model: nn.Module, params: Params, batch: Batch, rng: Key) -> Sums:
        left, right = self._encode(model, params, batch, rng)
        weights = batch['row_weights']
        result = losses.contrastive(
            left,
            # The one exchange between devices: every device gets all replies' vectors.
            nn.with_logical_constraint(right, (None, None)),
            kind=self.options.loss,
            scale=self.scale,
            weights=weights,
            keys=batch['reply_key'] if self.options.mask_duplicates else None,
            groups=partitioning.active(*partitioning.ROW_AXES),
        )
        segments = [x for name, x in batch.items() if '_encoder_segment_ids' in name]
        weight = jnp.sum(weights)
        return {
            'loss': jnp.sum(result.loss * weights),
            'accuracy': jnp.sum(result.correct * weights),
            'weight': weight,
            'tokens': jnp.asarray(sum(jnp.sum(x > 0) for x in segments), jnp.float32),
            'examples': weight,
            'positions': jnp.float32(sum(x.size for x in segments)),
        }

    def _encode(
        self, model: nn.Module, params: Params, batch: Batch, rng: Key
    ) -> tuple[jax.Array, jax.Array]:
        """Vectors of messages and replies, [batch, dim] each."""
        if 'left_place' in batch:
            sides = enumerate(('left', 'right'))
            left, right = (self._by_width(model, params, batch, rng, *side) for side in sides)
            return left, right

        def encode(rows, rng):
            return model.apply(
                {'params': params},
                *(rows[f'{side}_encoder_input_tokens'] for side in ('left', 'right')),
                *(rows[f'{side}_encoder_segment_ids'] for side in ('left', 'right')),
                train=rng is not None,
                rngs=None if rng is None else {'dropout': rng},
            )

        rows = batch['row_weights'].shape[0]
        parts = self._num_parts(rows)
        if parts == 1:
            return encode(batch, rng)
        # Strided, as the parts of an accumulated step: every device keeps its own rows.
        parted = {
            name: jnp.swapaxes(x.reshape(rows // parts, parts, -1), 0, 1)
            for name, x in batch.items()
            if name.endswith(('tokens', 'segment_ids'))
        }
        keys = None if rng is None else jax.random.split(rng, parts)
        # Only tokens are kept for the backward pass: it encodes each part again, with the same key.
        encode = jax.checkpoint(encode, prevent_cse=False)  # A loop's body is not merged anyway.
        encoded = jax.lax.map(lambda part: encode(*part), (parted, keys))
        left, right = (jnp.swapaxes(x, 0, 1).reshape(rows, -1) for x in encoded)
        return left, right

    def _by_width(
        self, model: nn.Module, params: Params, batch: Batch, rng: Key, number: int, side: str
    ) -> jax.Array:
        """Vectors [batch, dim] of a side whose rows are in parts; see data/packing.py."""
        vectors: list[Any] = []
        while (name := f'{side}_encoder_input_tokens.{len(vectors)}') in batch:
            key = None if rng is None else jax.random.fold_in(rng, 2 * len(vectors) + number)
            vectors.append(
                model.apply(
                    {'params': params},
                    side,
                    batch[name],
                    batch[name.replace('input_tokens', 'segment_ids')],
                    train=rng is not None,
                    rngs=None if key is None else {'dropout': key},
                    method='encode',
                )
            )
        whole = nn.with_logical_constraint(jnp.concatenate(vectors), (None, None))
        return nn.with_logical_constraint(whole[batch[f'{side}_place']], ('batch', None))

    def _num_parts(self, rows: int) -> int:
        """The fewest parts of at most `chunk_rows` rows that every device has equally many of."""
        per_device = rows // partitioning.active(*partitioning.ROW_AXES)
        fewest = -(-rows // most) if (most := self.options.chunk_rows) else 1
        return next((n for n in range(fewest, per_device) if per_device % n == 0), per_device)
