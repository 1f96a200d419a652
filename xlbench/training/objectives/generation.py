"""Encoder-decoder maximum likelihood of the targets."""

import dataclasses
import math
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from xlbench.parallel import partitioning
from xlbench.system.errors import UserError
from xlbench.system.ranges import Block, Meta
from xlbench.system.trees import Params
from xlbench.training import losses
from xlbench.training.objectives.contract import Batch, Key, Objective, Sums


class Blocks(NamedTuple):
    """The number of parts into which a mesh cuts [batch, length, ...]."""

    data: int  # Of the rows, on its axes replica and data.
    sequence: int  # Of the positions.
    fsdp: int  # Of each part of the rows.


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


def rows_of(x: jax.Array, shape: tuple[int, ...], blocks: Blocks) -> jax.Array:
    """The inverse of `tokens_of`: [batch * length] -> [batch, length]."""
    (data, sequence, fsdp), (batch, length) = blocks, shape
    x = x.reshape(data, sequence, fsdp, batch // (data * fsdp), length // sequence)
    return jnp.moveaxis(x, 1, 3).reshape(shape)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(Block, where='config.objective'):
    """The block config.objective.

    Attributes:
      label_smoothing: probability mass spread over the whole vocabulary (arXiv:1512.00567).
      z_loss: weight of the squared log-partition, 1e-4 in T5X; keeps logits near normalised.
      chunk_size: target tokens whose logits exist at once; None: as many as 0.5 GB hold.
      decoder_start: the first decoder input. 'family' is as the vocabulary's family was trained,
        in mBART-50 </s> and then the language; 'language' is the language alone.
    """

    label_smoothing: Annotated[float, Meta(ge=0, lt=1)] = 0.0
    z_loss: Annotated[float, Meta(ge=0)] = 0.0
    chunk_size: Annotated[int, Meta(ge=1, le=2**30)] | None = None
    decoder_start: Literal['family', 'language'] = 'family'


class Generation(Objective):
    """Encoder-decoder maximum likelihood of the targets, in nats per target token."""

    view: ClassVar[str] = 'generation'
    evaluator: ClassVar[str] = 'generation'
    writes_text: ClassVar[bool] = True
    options: Options

    def __init__(self, options: Options):
        super().__init__(options)
        if options.decoder_start == 'language':
            if self.view != 'generation':
                raise UserError(
                    "config.objective.decoder_start='language' is for the objective generation; "
                    "set it to 'family'"
                )
            # Of this one; configs are checked by the class's.
            self.view = 'language_start'  # type: ignore[misc]

    def weight(self, batch: Batch) -> jax.Array:
        return jnp.sum(self._scored(batch)[1])

    def loss(self, model: nn.Module, params: Params, batch: Batch, rng: Key) -> Sums:
        """Sums over the batch, see the contract.

        With `task_weights` in the batch (see data/packing.py), loss and z_loss divided by weight
        are sums over the tasks of each one's mean over its target tokens, and accuracy is the mean
        of the tasks' means.
        """
        if self.options.label_smoothing and model.config.vocab_padding:
            raise UserError(
                'config.objective.label_smoothing covers all rows of the vocabulary, but '
                f'config.model.vocab_padding={model.config.vocab_padding} of them are padding; '
                'choose a config.mesh.tensor that divides the other rows, or set it to 0'
            )
        _, weights = self._scored(batch)
        arrays, options, blocks = self._of_logits(model, params, batch, rng)
        weight, tasks = jnp.sum(weights), 1
        if 'task_weights' in batch:
            tasks = batch['task_weights'].shape[1]
            weights = weights * jnp.sum(batch['task_weights'], axis=1, keepdims=True) / tasks
        result = losses.softmax_cross_entropy(
            *arrays,
            tokens_of(weights, blocks),
            label_smoothing=self.options.label_smoothing,
            z_loss=self.options.z_loss,
            **options,
        )
        segments = [batch[f'{side}_segment_ids'] for side in ('encoder', 'decoder')]
        return {
            'loss': result.loss * tasks,
            'z_loss': result.z_loss * tasks,
            'accuracy': result.correct,
            'weight': weight,
            'tokens': jnp.asarray(sum(jnp.sum(x > 0) for x in segments), jnp.float32),
            'examples': jnp.sum(jnp.max(batch['decoder_segment_ids'], axis=-1)).astype(jnp.float32),
            'positions': jnp.float32(sum(x.size for x in segments)),
        }

    def row_losses(self, model: nn.Module, params: Params, batch: Batch) -> Sums:
        """Per row [batch]: sums of 'loss' (nats, no smoothing) and 'weight' (target tokens).

        Where the batch has 'encoded', which decoding.encode has made of it, nothing is encoded.
        """
        nats, weights = self.token_losses(model, params, batch), self._scored(batch)[1]
        return {'loss': jnp.sum(nats * weights, axis=-1), 'weight': jnp.sum(weights, axis=-1)}

    def token_losses(self, model: nn.Module, params: Params, batch: Batch) -> jax.Array:
        """The loss of each target token in nats, [batch, targets]; of padding, anything."""
        arrays, options, blocks = self._of_logits(model, params, batch, None)
        nats = losses.token_losses(*arrays, **options)
        return rows_of(nats, self._scored(batch)[0].shape, blocks)

    def _scored(self, batch: Batch) -> tuple[jax.Array, jax.Array]:
        """The tokens that are to be predicted, and their weights, [batch, targets] each."""
        return batch['decoder_target_tokens'], batch['decoder_loss_weights']

    def _more(self, batch: Batch) -> dict[str, Any]:
        """Further arguments of a model's `hidden`."""
        del batch
        return {}

    def _of_logits(
        self, model: nn.Module, params: Params, batch: Batch, rng: Key
    ) -> tuple[tuple[jax.Array, jax.Array, jax.Array], dict[str, Any], Blocks]:
        """The arguments of a loss (states, output table, targets), its options, and the blocks."""
        variables = {'params': params}
        about: dict[str, Any] = {
            'encoder_segment_ids': batch['encoder_segment_ids'],
            'decoder_segment_ids': batch['decoder_segment_ids'],
            'decoder_positions': batch['decoder_positions'],
            'train': rng is not None,
            'rngs': None if rng is None else {'dropout': rng},
        }
        if model.reads_languages:  # And the batch may say them.
            names = ('encoder_language_ids', 'decoder_language_ids')
            about |= {name: batch[name] for name in names if name in batch}
        if 'encoded' in batch:
            method, source = 'decode', batch['encoded']
            about.pop('encoder_language_ids', None)
        else:
            method, source = 'hidden', batch['encoder_input_tokens']
            about['encoder_positions'] = batch['encoder_positions']
            about |= self._more(batch)
        inputs = batch['decoder_input_tokens']
        hidden: Any = model.apply(variables, source, inputs, **about, method=method)
        embedding: Any = model.apply(variables, method='output_embedding')
        sequence = partitioning.active('sequence')
        sequence = 1 if hidden.shape[1] % sequence else sequence
        blocks = Blocks(
            partitioning.active('replica', 'data'), sequence, partitioning.active('fsdp')
        )
        targets = tokens_of(self._scored(batch)[0], blocks)
        options = {
            'bias': model.apply(variables, method='output_bias'),
            'chunk_size': self.options.chunk_size,
            'groups': math.prod(blocks),
            'matmul_dtype': model.config.operands,
            'softcap': model.logits_softcap,
        }
        return (tokens_of(hidden, blocks), embedding, targets), options, blocks
