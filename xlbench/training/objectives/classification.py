"""Classification: one label for each text, by maximum likelihood."""

import dataclasses
from typing import Annotated, Any, ClassVar

import flax.linen as nn
import jax
import jax.numpy as jnp

from xlbench.system.ranges import Block, Meta
from xlbench.system.trees import Params
from xlbench.training.objectives.contract import Batch, Key, Objective, Sums


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(Block, where='config.objective'):
    """The block config.objective.

    Attributes:
      label_smoothing: probability mass spread over all labels (arXiv:1512.00567).
    """

    label_smoothing: Annotated[float, Meta(ge=0, lt=1)] = 0.0


class Classification(Objective):
    """A label for each text, by maximum likelihood, in nats per text.

    A model that knows several types of tokens is told which text of a pair a token is of.
    """

    view: ClassVar[str] = 'classification'
    trains: ClassVar[str] = 'sequence_classifier'
    evaluator: ClassVar[str] = 'labels'
    options: Options

    def example_inputs(self) -> tuple[jax.Array, ...]:
        return (jnp.zeros((1, 8), jnp.int32),)

    def loss(self, model: nn.Module, params: Params, batch: Batch, rng: Key) -> Sums:
        logits, nats = self._nats(model, params, batch, rng)
        if smoothing := self.options.label_smoothing:
            everywhere = -jnp.mean(jax.nn.log_softmax(logits), axis=-1)
            nats += smoothing * (everywhere - nats)
        weights, segments = batch[self.weights], batch['encoder_segment_ids']
        correct = jnp.argmax(logits, axis=-1) == batch['labels']
        return {
            'loss': jnp.sum(nats * weights),
            'accuracy': jnp.sum(correct * weights),
            'weight': jnp.sum(weights),
            'tokens': jnp.sum(segments > 0).astype(jnp.float32),
            'examples': jnp.sum(jnp.max(segments, axis=-1)).astype(jnp.float32),
            'positions': jnp.float32(segments.size),
        }

    def row_losses(self, model: nn.Module, params: Params, batch: Batch) -> Sums:
        """Per row [batch]: sums of 'loss' (nats, no smoothing) and 'weight' (labels).

        And 'predicted', the likeliest label of each row [batch] or token [batch, inputs], int32.
        """
        logits, nats = self._nats(model, params, batch, None)
        weights = batch[self.weights]
        rows = weights.shape[0]
        return {
            'loss': jnp.sum((nats * weights).reshape(rows, -1), axis=-1),
            'weight': jnp.sum(weights.reshape(rows, -1), axis=-1),
            'predicted': jnp.argmax(logits, axis=-1).astype(jnp.int32),
        }

    def logits(self, model: nn.Module, params: Params, batch: Batch, rng: Key = None) -> jax.Array:
        """Returns logits of rows [batch, labels] or tokens [batch, inputs, labels], float32."""
        optional = about_tokens(model, batch)
        if 'encoder_positions' in batch:  # Of rows that hold several examples.
            optional['positions'] = batch['encoder_positions']
        optional |= {'train': rng is not None, 'rngs': None if rng is None else {'dropout': rng}}
        tokens = batch['encoder_input_tokens'], batch['encoder_segment_ids']
        logits: Any = model.apply({'params': params}, *tokens, **optional)
        return logits

    def _nats(
        self, model: nn.Module, params: Params, batch: Batch, rng: Key
    ) -> tuple[jax.Array, jax.Array]:
        """Logits [..., labels] and losses [...] of each row, or of each token."""
        logits = self.logits(model, params, batch, rng)
        gold = jnp.take_along_axis(logits, batch['labels'][..., None], axis=-1)[..., 0]
        return logits, jax.nn.logsumexp(logits, axis=-1) - gold


def about_tokens(model: nn.Module, batch: Batch) -> dict[str, Any]:
    """The arguments `type_ids` and `languages` of a model that knows several, if the batch does.

    And `words` of a tagger that does not read last pieces.

    RoBERTa knows one type, and a model of hidden states alone (fewshot/frozen.py) none.
    """
    config = getattr(model, 'config', None)
    types, languages = (batch.get(f'encoder_{kind}_ids') for kind in ('type', 'language'))
    about: dict[str, Any] = {}
    if types is not None and getattr(config, 'type_vocab_size', 1) > 1:
        about['type_ids'] = types
    if languages is not None and getattr(config, 'num_languages', 0) > 0:
        about['languages'] = languages - 1
    if config is not None and 'encoder_word_tails' in batch:
        about['words'] = batch['encoder_word_tails'], batch['encoder_word_weights']
    return about
