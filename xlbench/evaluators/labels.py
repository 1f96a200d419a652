"""Evaluates classification and tagging: the loss, and the scores of the likeliest labels.

A prediction in predictions.jsonl is a label, or the tags of the words with single spaces between
them. The tag of a word that is not scored, because it did not fit or because of its own tag, is
metrics.tagging.CUT.
"""

from collections.abc import Sequence
from typing import Any, ClassVar

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from xlbench.data import features
from xlbench.evaluators import base
from xlbench.evaluators.base import Options
from xlbench.metrics import tagging
from xlbench.parallel import programs
from xlbench.system.files import Setting
from xlbench.system.trees import Params
from xlbench.training.objectives.contract import Objective

__all__ = ['LabelsEvaluator', 'Options']

Rows = dict[str, np.ndarray]  # [examples, ...] each.
_SCORES = ('loss',)  # The evaluation's own, of the task and of each example.


class LabelsEvaluator(base.Evaluator[base.Task, Params, Rows]):
    """Scores a classifier or a tagger on prepared tasks; every example exactly once."""

    views: ClassVar[tuple[str, ...]] = ('classification', 'tagging')

    def __init__(self, *parts: Any, **block: Setting):
        super().__init__(*parts, **block)
        self._limit = self.options.lengths['inputs']
        self._of_words = features.VIEWS[self._objective.view].labels == 'word'
        has_pad = getattr(self._model.config, 'pad_label', False)
        self._further_labels = [tagging.PAD] if has_pad else []
        for task in self.tasks:
            base.check_metrics(task, 1, _SCORES)
        self._predict = programs.shared(_predict, self._objective, self._model, self._limit)

    def rows(self, task: base.Task, shared: Params, check: base.Check) -> Rows:
        return base.score_examples(
            task, lambda batch: self._predict(shared, batch), self._mesh, check
        )

    def summarise(self, task: base.Task, rows: Rows) -> tuple[base.Result, base.Lines]:
        prepared = task.prepared
        records = prepared.read(range(len(rows['index'])))
        targets = [record['targets_pretokenized'] for record in records]
        labels = [*prepared.labels, *self._further_labels]
        predictions = [
            self._text(record, predicted, labels)
            for record, predicted in zip(records, rows['predicted'], strict=True)
        ]
        scores = {'loss': float(rows['loss'].sum(dtype=np.float64) / max(rows['weight'].sum(), 1))}
        losses = (rows['loss'] / np.maximum(rows['weight'], 1)).tolist()
        n_best = [[text] for text in predictions]
        of_metrics, per_example = task.metrics.score(targets, n_best, _SCORES)
        columns = zip(range(len(records)), records, predictions, losses, per_example, strict=True)
        written = [
            base.line(i, record, prediction, {'loss': loss, **values})
            for i, record, prediction, loss, values in columns
        ]
        result = {
            'scores': scores | of_metrics,
            **task.metrics.facts(),
            'num_examples': len(records),
            'decoding': {},
            'trimmed': {'inputs': task.batches.trimmed['inputs']},
        }
        return result, written

    def _text(self, record: features.Example, predicted: np.ndarray, labels: Sequence[str]) -> str:
        """The prediction for an example: from its label [], or from the labels of its row [inputs].

        A word has the label at its last piece, whose state may be its word's.
        """
        if not self._of_words:
            return labels[int(predicted)]
        tags = record['targets_pretokenized'].split()
        fitting = predicted[features.tag_places(record, self._limit)].tolist()
        words = [labels[number] for number in fitting]
        words += [tagging.CUT] * (len(tags) - len(words))
        return ' '.join(
            tagging.CUT if tag in tagging.UNSCORED else word
            for tag, word in zip(tags, words, strict=True)
        )


def _predict(
    objective: Objective, model: nn.Module, limit: int, params: Params, batch: dict[str, jax.Array]
) -> dict[str, jax.Array]:
    rows = objective.row_losses(model, params, batch)
    if rows['predicted'].ndim == 2:  # As wide for every batch, so that they can be joined.
        missing = limit - rows['predicted'].shape[1]
        rows['predicted'] = jnp.pad(rows['predicted'], ((0, 0), (0, missing)))
    return rows
