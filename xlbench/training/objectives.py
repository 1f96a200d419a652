"""What a model is trained for: a loss over named features, and the numbers it is read by.

An objective is the only place where a batch meets a model and a loss. The loop, the step and the
evaluators know objectives by four methods:

  example_inputs()                 -> what the model's `init` is called with
  weight(batch)                    -> [], what the loss sum is divided by
  loss(model, params, batch, rng)  -> sums over the batch: 'loss', 'weight', ... (rng for dropout)
  row_losses(model, params, batch) -> per example: sums of loss and weight, for evaluation; not
                                      where an example's loss depends on the rest of the batch

and by `view`: which features of features.VIEWS its batches have.
"""

import math
from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from xlbench.config import ranges
from xlbench.errors import unknown
from xlbench.parallel import partitioning
from xlbench.training import losses

Batch = Mapping[str, jax.Array]


class Blocks(NamedTuple):
    """Into how many parts a mesh cuts the rows and the positions of [batch, length, ...].

    Attributes:
      data: parts of the rows, on its axes replica and data.
      sequence: parts of the positions.
      fsdp: parts of each part of the rows.
    """

    data: int
    sequence: int
    fsdp: int


def tokens_of(x: jax.Array, blocks: Blocks) -> jax.Array:
    """[batch, length, ...] -> [batch * length, ...], the tokens of a block side by side.

    A block is what one device holds; in the order of rows a device's tokens would lie scattered,
    and all would have to be exchanged. The blocks have the order of the logical axis 'tokens'.
    """
    (data, sequence, fsdp), (batch, length, *rest) = blocks, x.shape
    if sequence > 1:
        x = x.reshape(data, fsdp, batch // (data * fsdp), sequence, length // sequence, *rest)
        x = jnp.moveaxis(x, 3, 1)
    return x.reshape(batch * length, *rest)


def rows_of(x: jax.Array, shape: tuple[int, int], blocks: Blocks) -> jax.Array:
    """The inverse of `tokens_of`: [batch * length] -> [batch, length]."""
    (data, sequence, fsdp), (batch, length) = blocks, shape
    x = x.reshape(data, sequence, fsdp, batch // (data * fsdp), length // sequence)
    return jnp.moveaxis(x, 1, 3).reshape(shape)


class Generation:
    """Encoder-decoder maximum likelihood of the targets, in nats per target token.

    Args:
      label_smoothing: probability mass spread over the whole vocabulary (arXiv:1512.00567).
      z_loss: weight of the squared log-partition, 1e-4 in T5X; keeps logits near normalised.
      chunk_size: target tokens whose logits exist at once; None: as many as 0.5 GB hold.
    """

    view = 'generation'

    def __init__(
        self,
        label_smoothing: Annotated[float, '0 or more, below 1'] = 0.0,
        z_loss: Annotated[float, '0 or more'] = 0.0,
        chunk_size: Annotated[int, '1 to 2**30'] | None = None,
    ):
        ranges.check_own(Generation, locals(), 'config.objective')
        self.label_smoothing = label_smoothing
        self.z_loss = z_loss
        self.chunk_size = chunk_size

    def example_inputs(self) -> tuple[jax.Array, ...]:
        """Arguments of the smallest call that creates the model's parameters."""
        return (jnp.zeros((1, 8), jnp.int32), jnp.zeros((1, 8), jnp.int32))

    def weight(self, batch: Batch) -> jax.Array:
        """[], the number of target tokens."""
        return jnp.sum(batch['decoder_loss_weights'])

    def loss(
        self, model: nn.Module, params: Any, batch: Batch, rng: jax.Array | None
    ) -> dict[str, jax.Array]:
        """Sums over the batch, float32: loss, z_loss, accuracy, weight, tokens, ..."""
        hidden, embedding, bias = self._hidden(model, params, batch, rng)
        blocks = self._blocks(hidden)
        result = losses.softmax_cross_entropy(
            tokens_of(hidden, blocks),
            embedding,
            tokens_of(batch['decoder_target_tokens'], blocks),
            tokens_of(batch['decoder_loss_weights'], blocks),
            bias=bias,
            label_smoothing=self.label_smoothing,
            z_loss=self.z_loss,
            chunk_size=self.chunk_size,
            groups=math.prod(blocks),
            matmul_dtype=model.config.operands,
        )
        encoder = batch['encoder_segment_ids']
        real = jnp.sum(encoder > 0).astype(jnp.float32) + result.weight
        positions = jnp.float32(encoder.size + batch['decoder_target_tokens'].size)
        return {
            'loss': result.loss,
            'z_loss': result.z_loss,
            'accuracy': result.correct,
            'weight': result.weight,
            'tokens': real,
            'examples': jnp.sum(jnp.max(batch['decoder_segment_ids'], axis=-1)).astype(jnp.float32),
            'positions': positions,
        }

    def row_losses(self, model: nn.Module, params: Any, batch: Batch) -> dict[str, jax.Array]:
        """Per row [batch]: sums of 'loss' (nats, no smoothing) and 'weight' (target tokens)."""
        hidden, embedding, bias = self._hidden(model, params, batch, None)
        weights = batch['decoder_loss_weights']
        blocks = self._blocks(hidden)
        nats = losses.token_losses(
            tokens_of(hidden, blocks),
            embedding,
            tokens_of(batch['decoder_target_tokens'], blocks),
            bias=bias,
            chunk_size=self.chunk_size,
            groups=math.prod(blocks),
            matmul_dtype=model.config.operands,
        )
        nats = rows_of(nats, weights.shape, blocks)
        return {'loss': jnp.sum(nats * weights, axis=-1), 'weight': jnp.sum(weights, axis=-1)}

    def _blocks(self, hidden: jax.Array) -> Blocks:
        """Into what the mesh cuts [batch, targets, .]."""
        sequence = partitioning.active('sequence')
        sequence = 1 if hidden.shape[1] % sequence else sequence
        return Blocks(partitioning.active('replica', 'data'), sequence, partitioning.active('fsdp'))

    def _hidden(self, model, params, batch, rng):
        variables = {'params': params}
        hidden = model.apply(
            variables,
            batch['encoder_input_tokens'],
            batch['decoder_input_tokens'],
            encoder_segment_ids=batch['encoder_segment_ids'],
            encoder_positions=batch['encoder_positions'],
            decoder_segment_ids=batch['decoder_segment_ids'],
            decoder_positions=batch['decoder_positions'],
            train=rng is not None,
            rngs=None if rng is None else {'dropout': rng},
            method='hidden',
        )
        embedding = model.apply(variables, method='output_embedding')
        return hidden, embedding, model.apply(variables, method='output_bias')


class Retrieval:
    """A dual encoder that finds each message's reply among all replies of the batch.

    The candidates are the replies of the whole batch, on however many devices it lies: the devices
    exchange vectors, and each makes the scores of its own rows.

    Args:
      loss: 'sym_paper', 'sym_code', 'softmax' or 'bidirectional', see losses.contrastive.
      scale: what scores are multiplied with: 1 for vectors of any length as in arXiv:2106.02017,
        20 to 100 for unit vectors.
      mask_duplicates: a reply that equals the row's own is no negative.
      chunk_rows: at most so many rows are encoded at a time, the devices together, and once more
        in the backward pass (gradient caching, arXiv:2101.06983): memory then depends on it, and
        no longer on the batch size. 0 encodes the batch at once.
    """

    view = 'retrieval'

    def __init__(
        self,
        loss: str = 'sym_paper',
        scale: Annotated[float, 'above 0'] = 1.0,
        mask_duplicates: bool = False,
        chunk_rows: Annotated[int, '0 to 2**24'] = 0,
    ):
        if loss not in losses.CONTRASTIVE:
            raise unknown('loss in config.objective.loss', loss, losses.CONTRASTIVE)
        ranges.check_own(Retrieval, locals(), 'config.objective')
        self.loss_kind = loss
        self.scale = scale
        self.mask_duplicates = mask_duplicates
        self.chunk_rows = chunk_rows

    def example_inputs(self) -> tuple[jax.Array, ...]:
        """Arguments of the smallest call that creates the model's parameters."""
        return (jnp.zeros((1, 8), jnp.int32), jnp.zeros((1, 8), jnp.int32))

    def weight(self, batch: Batch) -> jax.Array:
        """[], the number of examples."""
        return jnp.sum(batch['row_weights'])

    def loss(
        self, model: nn.Module, params: Any, batch: Batch, rng: jax.Array | None
    ) -> dict[str, jax.Array]:
        """Sums over the batch, float32: loss, accuracy (own reply first), weight, ..."""
        left, right = self._encode(model, params, batch, rng)
        weights = batch['row_weights']
        result = losses.contrastive(
            left,
            # The one exchange between devices: every device gets all replies' vectors.
            nn.with_logical_constraint(right, (None, None)),
            kind=self.loss_kind,
            scale=self.scale,
            weights=weights,
            keys=batch['reply_key'] if self.mask_duplicates else None,
            groups=partitioning.active(*partitioning.ROW_AXES),
        )
        segments = [batch[f'{side}_encoder_segment_ids'] for side in ('left', 'right')]
        weight = jnp.sum(weights)
        return {
            'loss': jnp.sum(result.loss * weights),
            'accuracy': jnp.sum(result.correct * weights),
            'weight': weight,
            'tokens': sum(jnp.sum(x > 0) for x in segments).astype(jnp.float32),
            'examples': weight,
            'positions': jnp.float32(sum(x.size for x in segments)),
        }

    def _encode(self, model, params, batch, rng):
        """Vectors of messages and replies, [batch, dim] each."""

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
        return tuple(jnp.swapaxes(x, 0, 1).reshape(rows, -1) for x in encoded)

    def _num_parts(self, rows: int) -> int:
        """The fewest parts of at most `chunk_rows` rows that every device has equally many of."""
        per_device = rows // partitioning.active(*partitioning.ROW_AXES)
        fewest = -(-rows // self.chunk_rows) if self.chunk_rows else 1
        return next((n for n in range(fewest, per_device) if per_device % n == 0), per_device)


class Classification:
    """A label for each text, by maximum likelihood, in nats per text.

    A model that knows several types of tokens is told which text of a pair a token is of.

    Args:
      label_smoothing: probability mass spread over all labels (arXiv:1512.00567).
    """

    view = 'classification'
    _weights = 'row_weights'

    def __init__(self, label_smoothing: Annotated[float, '0 or more, below 1'] = 0.0):
        ranges.check_own(Classification, locals(), 'config.objective')
        self.label_smoothing = label_smoothing

    def example_inputs(self) -> tuple[jax.Array, ...]:
        """Arguments of the smallest call that creates the model's parameters."""
        return (jnp.zeros((1, 8), jnp.int32),)

    def weight(self, batch: Batch) -> jax.Array:
        """[], the number of labels."""
        return jnp.sum(batch[self._weights])

    def loss(
        self, model: nn.Module, params: Any, batch: Batch, rng: jax.Array | None
    ) -> dict[str, jax.Array]:
        """Sums over the batch, float32: loss, accuracy, weight, tokens, ..."""
        logits, nats = self._nats(model, params, batch, rng)
        if self.label_smoothing:
            everywhere = -jnp.mean(jax.nn.log_softmax(logits), axis=-1)
            nats += self.label_smoothing * (everywhere - nats)
        weights, segments = batch[self._weights], batch['encoder_segment_ids']
        correct = jnp.argmax(logits, axis=-1) == batch['labels']
        return {
            'loss': jnp.sum(nats * weights),
            'accuracy': jnp.sum(correct * weights),
            'weight': jnp.sum(weights),
            'tokens': jnp.sum(segments > 0).astype(jnp.float32),
            'examples': jnp.sum(jnp.max(segments, axis=-1)).astype(jnp.float32),
            'positions': jnp.float32(segments.size),
        }

    def row_losses(self, model: nn.Module, params: Any, batch: Batch) -> dict[str, jax.Array]:
        """Per row [batch]: sums of 'loss' (nats, no smoothing) and 'weight' (labels).

        And 'predicted', the likeliest label of each row [batch] or token [batch, inputs], int32.
        """
        logits, nats = self._nats(model, params, batch, None)
        weights = batch[self._weights]
        rows = weights.shape[0]
        return {
            'loss': jnp.sum((nats * weights).reshape(rows, -1), axis=-1),
            'weight': jnp.sum(weights.reshape(rows, -1), axis=-1),
            'predicted': jnp.argmax(logits, axis=-1).astype(jnp.int32),
        }

    def logits(
        self, model: nn.Module, params: Any, batch: Batch, rng: jax.Array | None = None
    ) -> jax.Array:
        """Of each row [batch, labels], or of each token [batch, inputs, labels]; float32."""
        optional = type_ids(model, batch)
        if 'encoder_positions' in batch:  # Of rows that hold several examples.
            optional['positions'] = batch['encoder_positions']
        return model.apply(
            {'params': params},
            batch['encoder_input_tokens'],
            batch['encoder_segment_ids'],
            **optional,
            train=rng is not None,
            rngs=None if rng is None else {'dropout': rng},
        )

    def _nats(self, model, params, batch, rng):
        """Logits [..., labels] and losses [...] of each row, or of each token."""
        logits = self.logits(model, params, batch, rng)
        own = jnp.take_along_axis(logits, batch['labels'][..., None], axis=-1)[..., 0]
        return logits, jax.nn.logsumexp(logits, axis=-1) - own


class Tagging(Classification):
    """A tag for each word, at its last piece; in nats per word (arXiv:2012.15682).

    Args:
      label_smoothing: probability mass spread over all tags.
    """

    view = 'tagging'
    _weights = 'label_weights'


def type_ids(model: nn.Module, batch: Batch) -> dict[str, jax.Array]:
    """The argument `type_ids` of a model that knows several, if the batch has them.

    RoBERTa knows one type, and a model of hidden states alone (fewshot/adaptation.py) none.
    """
    num_types = getattr(getattr(model, 'config', None), 'type_vocab_size', 1)
    types = batch.get('encoder_type_ids')
    return {} if types is None or num_types < 2 else {'type_ids': types}


OBJECTIVES = {
    'generation': Generation,
    'retrieval': Retrieval,
    'classification': Classification,
    'tagging': Tagging,
}


def build(name: str = 'generation', **options: Any) -> Any:
    """The objective of that name."""
    if name not in OBJECTIVES:
        raise unknown('objective', name, OBJECTIVES)
    return OBJECTIVES[name](**options)
