"""A frozen encoder, which runs once over every text; the head reads its outputs."""

import dataclasses
import hashlib
from collections.abc import Callable, Mapping
from typing import Any

import flax.linen as nn
import jax
import numpy as np
from flax import traverse_util
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from xlbench.fewshot.corpus import Corpus, EvalSet, plan_rows, side_by_side
from xlbench.parallel import partitioning
from xlbench.training.objectives.classification import about_tokens
from xlbench.training.objectives.contract import Batch, Objective, Params

EMBEDDING = 'encoder/token_embedder/embedding'
LANES = PartitionSpec('data')
WHOLE = PartitionSpec()

# Shots that a frozen encoder reads at a time. The states of more tokens do not fit a CPU's cache.
ROWS_AT_ONCE = 256
CPU_TOKENS_AT_ONCE = 1024


@dataclasses.dataclass(frozen=True)
class Head:
    """A head of models.heads behind an encoder: objectives call it with states as its tokens."""

    model: Any  # An nn.Module; mypy does not know that its `apply` returns an array.
    label: Callable[..., jax.Array] | str  # A method of the model's class, or its name.

    def apply(
        self,
        variables: Mapping[str, Params],
        states: jax.Array,
        segment_ids: jax.Array,
        **options: Any,  # As nn.Module.apply takes them.
    ) -> jax.Array:
        """States [..., emb_dim] -> logits [..., labels]."""
        del segment_ids
        return self.model.apply(variables, states, method=self.label, **options)


class FrozenEncoder:
    """A classifier or tagger that does not change; its encoder reads each text of a corpus once.

    Attributes:
      model: over the ids of the corpus.
      params: likewise, on every device; rows of batches are cut over the mesh's axis 'data'.
      whole: the parameters over the whole vocabulary.
    """

    def __init__(
        self, model: nn.Module, objective: Objective, params: Params, corpus: Corpus, mesh: Mesh
    ):
        self.model: Any = resized(model, len(corpus.token_ids))
        flat = traverse_util.flatten_dict(params, sep='/')
        flat[EMBEDDING] = flat[EMBEDDING][corpus.token_ids]
        tree = traverse_util.unflatten_dict(flat, sep='/')
        self.params = jax.device_put(tree, partitioning.replicated(mesh))
        self.whole, self.objective, self.corpus, self.mesh = params, objective, corpus, mesh
        self._shots: dict[int, dict[str, np.ndarray]] = {}
        self._evals: dict[bytes, np.ndarray] = {}  # Hidden states.
        self._predict = jax.jit(lambda params, x: objective.row_losses(self.model, params, x))
        self._hidden = jax.jit(self._hidden_states)
        self._pool = jax.jit(
            lambda params, x: self.model.apply({'params': params}, x, method='pool')
        )

    def _hidden_states(self, params: Params, batch: Batch) -> jax.Array:
        return self.model.apply(
            {'params': params},
            batch['encoder_input_tokens'],
            batch['encoder_segment_ids'],
            batch.get('encoder_positions'),  # Of rows that hold several examples.
            **about_tokens(self.model, batch),
            method='hidden',
        )

    def predict(self, examples: EvalSet) -> np.ndarray:
        """Returns [W] int32: labels of an EvalSet, -1 at separators."""
        flat = [
            np.array(self._predict(self.params, self._rows(batch))['predicted']).reshape(-1)
            for batch in examples.each()
        ]
        return np.where(examples.take >= 0, np.concatenate(flat)[examples.take], -1)

    def shots(self, shots: int, hidden: bool = True) -> dict[str, np.ndarray]:
        """Returns the features of all buckets with `hidden` states, or pooled ones, for tokens.

        They are those of Corpus.bucket_arrays, with encoder_input_tokens [buckets, rows, emb_dim];
        or, for tagging, [buckets, rows, words, emb_dim], of labelled pieces alone, as the labels.
        """
        if shots not in self._shots:
            self._shots[shots] = self._of_shots(shots)
        arrays = self._shots[shots]
        name = 'encoder_input_tokens'
        return arrays if hidden else arrays | {name: self._pooled(arrays[name])}

    def evaluated(self, examples: EvalSet, hidden: bool = True) -> EvalSet:
        """Encodes an EvalSet as one batch of the scored states, in the order of its gold."""
        # By its contents: the development set is often the same for all numbers of shots.
        arrays = [examples.take, *(stack['encoder_input_tokens'] for stack in examples.batches)]
        key = b''.join(hashlib.sha256(x.tobytes()).digest() for x in arrays)
        if key not in self._evals:
            self._evals[key] = self._of_eval(examples)
        states, size = self._evals[key], len(examples.take)
        batch = {
            'encoder_input_tokens': states if hidden else self._pooled(states),
            'encoder_segment_ids': np.zeros((size, 1), np.int32),
            'labels': np.zeros(size, np.int32),
            self.objective.weights: np.zeros(size, np.float32),
        }
        take = np.where(examples.take >= 0, np.arange(size), -1).astype(np.int32)
        return EvalSet(({name: x[None] for name, x in batch.items()},), examples.gold, take)

    def _of_shots(self, shots: int) -> dict[str, np.ndarray]:
        arrays = dict(self.corpus.bucket_arrays(shots))
        examples, (buckets, rows) = arrays.pop('examples'), arrays['labels'].shape[:2]
        flat = {name: x.reshape(buckets * rows, *x.shape[2:]) for name, x in arrays.items()}
        flat |= self._of_labelled(flat) if self.corpus.of_words else self._of_texts(flat)
        flat['encoder_segment_ids'] = np.zeros((buckets * rows, 1), np.int32)
        return {
            **{name: x.reshape(buckets, rows, *x.shape[1:]) for name, x in flat.items()},
            'examples': examples,
        }

    def _of_texts(self, flat: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Returns the states of rows [rows, emb_dim] in place of their tokens; 0 of empty ones."""
        [real] = np.nonzero(flat['encoder_segment_ids'].any(-1))
        of_real = self._in_parts(flat, real)
        states = np.zeros((len(flat['labels']), *of_real.shape[1:]), of_real.dtype)
        states[real] = of_real
        return {'encoder_input_tokens': states}

    def _of_labelled(self, flat: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Returns states of labelled pieces [rows, words, emb_dim], their labels and weights."""
        unlabelled = flat['label_weights'] == 0
        most = -(-max((~unlabelled).sum(-1).max(), 1) // 8) * 8
        places = np.argsort(unlabelled, axis=-1, kind='stable')[:, :most]
        labelled = {
            name: np.take_along_axis(flat[name], places, axis=-1)
            for name in ('labels', 'label_weights')
        }
        # The encoder reads the examples in rows that they share, and no row without one.
        lengths = np.count_nonzero(flat['encoder_segment_ids'], axis=-1)
        rows = plan_rows(lengths, flat['labels'].shape[-1])
        packed, starts = side_by_side(flat, rows, len(rows))
        states = self._in_parts(packed, np.arange(len(rows)))
        states = states.reshape(-1, states.shape[-1])
        # Places behind an example's last label are not read: they have the weight 0.
        read = np.where(labelled['label_weights'] > 0, starts[:, None] + places, 0)
        return labelled | {'encoder_input_tokens': states[read]}

    def _of_eval(self, examples: EvalSet) -> np.ndarray:
        """Returns [W, emb_dim]; 0 at separators."""
        states, start = np.zeros(0), 0
        for batch in examples.each():
            x = self._states(batch)
            x = x.reshape(-1, x.shape[-1])
            if not start:
                states = np.zeros((len(examples.take), x.shape[-1]), x.dtype)
            here = (examples.take >= start) & (examples.take < start + len(x))
            states[here] = x[examples.take[here] - start]
            start += len(x)
        return states

    def _in_parts(self, flat: Mapping[str, np.ndarray], rows: np.ndarray) -> np.ndarray:
        """Returns hidden states of some rows, read a few at a time, always as many: one program."""
        most = ROWS_AT_ONCE
        if self.mesh.devices.flat[0].platform == 'cpu':
            most = max(CPU_TOKENS_AT_ONCE // flat['encoder_input_tokens'].shape[-1], 1)
        size = -(-len(rows) // max(-(-len(rows) // most), 1))
        states = [
            self._states({name: x[part] for name, x in flat.items()})
            # The last part is filled up with the last row.
            for part in np.append(rows, np.repeat(rows[-1:], -len(rows) % size)).reshape(-1, size)
        ]
        return np.concatenate(states)[: len(rows)]

    def _states(self, batch: Mapping[str, np.ndarray]) -> np.ndarray:
        """Returns hidden states of a batch: [rows(, length), emb_dim]."""
        return np.array(self._hidden(self.params, self._rows(batch)))

    def _pooled(self, states: np.ndarray) -> np.ndarray:
        flat = self._pool(self.params, states.reshape(-1, states.shape[-1]))
        return np.array(flat).reshape(states.shape)

    def _rows(self, batch: Mapping[str, np.ndarray]) -> dict[str, jax.Array]:
        """Returns a batch on the devices, cut along its rows where they divide them."""
        rows = len(batch['labels'])
        spec = LANES if rows % self.mesh.shape['data'] == 0 else WHOLE
        return jax.device_put(dict(batch), NamedSharding(self.mesh, spec))


def resized(model: nn.Module, vocab_size: int) -> nn.Module:
    """Returns the model with a vocabulary of this size."""
    return model.clone(config=dataclasses.replace(model.config, vocab_size=vocab_size))
