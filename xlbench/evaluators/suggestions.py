"""Suggestions of a retriever, and the scores of a task's examples."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from xlbench.evaluators import base, candidates as candidates_lib
from xlbench.evaluators.candidates import RetrievalTask
from xlbench.retrieval import exact_search
from xlbench.retrieval.mbr import Choose
from xlbench.retrieval.response_set import ResponseSet
from xlbench.system.files import Json


class Counts(Protocol):
    """Numbers of responses that are considered and suggested."""

    top_k: int
    num_suggestions: int


class Suggested(NamedTuple):
    """Suggestions for n messages at one weight of log-likelihoods.

    Attributes:
      lm_weight: the weight.
      index: the responses with it.
      ids: of each message, best first: response ids.
      suggestions: likewise, as predictions.jsonl has them.
      scores: of the task's metrics.
      per_example: likewise, of each message.
    """

    lm_weight: float
    index: exact_search.Index
    ids: list[list[int]]
    suggestions: list[list[dict[str, Json]]]
    scores: Mapping[str, float]
    per_example: Sequence[Mapping[str, float]]


def suggest(
    messages: np.ndarray,
    index: exact_search.Index,
    responses: ResponseSet,
    choose: Choose,
    counts: Counts,
) -> tuple[list[list[int]], list[list[dict[str, Json]]]]:
    """Finds the best responses to each message, and chooses among them.

    Args:
      messages: [n, dim].
      index: of the responses.
      responses: the set.
      choose: of its chooser.
      counts: the options of an evaluation.

    Returns:
      `ids` and `suggestions` of Suggested.
    """
    best = exact_search.top_k(messages, index, min(counts.top_k, len(responses)))
    chosen, suggestions = [], []
    for ids, values in zip(best.ids.tolist(), best.values, strict=True):
        scores = dict(zip(ids, values.tolist(), strict=True))
        chosen.append(choose(ids, values, counts.num_suggestions))
        suggestions.append(
            [
                {'text': responses.display[i], 'response': i, 'score': scores[i]}
                for i in chosen[-1]
            ]
        )
    return chosen, suggestions


class Rows:
    """The scores and suggestions of a task's examples.

    Attributes:
      scores: of the task.
      targets: [n], texts.
      suggestions: of each example, best first; None without a response set.
    """

    def __init__(self, task: RetrievalTask, ranks: candidates_lib.Ranks):
        loss, rank, best = ranks
        self.scores: dict[str, float] = {
            'loss': float(loss.mean()),
            'mrr': 100 * float((1 / rank).mean()),
            'p_at_1': 100 * float((rank == 1).mean()),
            'recall_10': 100 * float((rank <= 10).mean()),
        }
        self.targets = [record['targets_pretokenized'] for record in task.records]
        self.suggestions: list[list[dict[str, Json]]] | None = None
        texts = list(task.replies)
        self._task, self._best = task, [texts[i] for i in best]
        self._per_example: list[dict[str, float]] = [{} for _ in self.targets]
        everyone = np.arange(len(rank))
        self.note('loss', loss, everyone)
        self.note('rank', rank, everyone)

    def add(
        self, scores: Mapping[str, float], per_example: Sequence[Mapping[str, float]] = ()
    ) -> None:
        """Scores of the task, and of each example."""
        self.scores |= scores
        for noted, values in zip(self._per_example, per_example, strict=bool(per_example)):
            noted.update(values)

    def note(self, name: str, values: np.ndarray, places: np.ndarray) -> None:
        """A score of the examples at these places."""
        for place, value in zip(places.tolist(), values.tolist(), strict=True):
            self._per_example[place][name] = value

    def written(self) -> list[dict[str, Json]]:
        """The lines of predictions.jsonl. Without suggestions the best candidate is predicted."""
        lines = []
        for i, number in enumerate(self._task.numbers.tolist()):
            suggestions = None if self.suggestions is None else self.suggestions[i]
            more = {'suggestions': suggestions} if suggestions else {}
            prediction = suggestions[0]['text'] if suggestions else self._best[i]
            record, scores = self._task.records[i], self._per_example[i]
            lines.append(base.line(number, record, prediction, scores, **more))
        return lines
