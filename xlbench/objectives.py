"""What a model is trained for: a loss over named features, and the numbers it is read by.

An objective is the only place where a batch meets a model and a loss. The loop, the step and the
evaluators know objectives by four methods:

  example_inputs()                 -> what the model's `init` is called with
  weight(batch)                    -> [], what the loss sum is divided by
  loss(model, params, batch, rng)  -> sums over the batch: 'loss', 'weight', ... (rng for dropout)
  row_losses(model, params, batch) -> per example: sums of loss and weight, for evaluation
"""

from collections.abc import Mapping
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from xlbench import losses
from xlbench.errors import unknown

Batch = Mapping[str, jax.Array]


class Generation:
    """Encoder-decoder maximum likelihood of the targets, in nats per target token.

    Args:
      label_smoothing: probability mass spread over the whole vocabulary (arXiv:1512.00567).
      z_loss: weight of the squared log-partition, 1e-4 in T5X; keeps logits near normalised.
      chunk_size: target tokens whose logits exist at once; None: as many as 0.5 GB hold.
      batch_shards: devices that share the rows of a batch, see losses.softmax_cross_entropy.
    """

    def __init__(
        self,
        label_smoothing: float = 0.0,
        z_loss: float = 0.0,
        chunk_size: int | None = None,
        *,
        batch_shards: int = 1,
    ):
        self.label_smoothing = label_smoothing
        self.z_loss = z_loss
        self.chunk_size = chunk_size
        self.batch_shards = batch_shards

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
        result = losses.softmax_cross_entropy(
            hidden.reshape(-1, hidden.shape[-1]),
            embedding,
            batch['decoder_target_tokens'].reshape(-1),
            batch['decoder_loss_weights'].reshape(-1),
            bias=bias,
            label_smoothing=self.label_smoothing,
            z_loss=self.z_loss,
            chunk_size=self.chunk_size,
            groups=self.batch_shards,
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
        nats = losses.token_losses(
            hidden.reshape(-1, hidden.shape[-1]),
            embedding,
            batch['decoder_target_tokens'].reshape(-1),
            bias=bias,
            chunk_size=self.chunk_size,
            groups=self.batch_shards,
            matmul_dtype=model.config.operands,
        ).reshape(weights.shape)
        return {'loss': jnp.sum(nats * weights, axis=-1), 'weight': jnp.sum(weights, axis=-1)}

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


OBJECTIVES = {'generation': Generation}


def build(name: str = 'generation', **options: Any) -> Any:
    """The objective of that name."""
    if name not in OBJECTIVES:
        raise unknown('objective', name, OBJECTIVES)
    return OBJECTIVES[name](**options)
