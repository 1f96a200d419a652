"""Chooses the best set of suggestions, which is not the set of the best suggestions.

The highest-scoring responses often say the same thing in three wordings. For a user, and for
mrs_rouge, the best of the three counts. `Consensus.choose` therefore takes the set with the highest
expected best score under the retriever's own distribution over its candidates. It is the minimum
Bayes risk decision (Kumar and Byrne 2004, aclanthology.org/N04-1022) for the best of n.
"""

from collections.abc import Callable, Sequence

import numpy as np
import scipy.sparse

from xlbench.metrics import mrs
from xlbench.retrieval.response_set import ResponseSet

# (response ids [k], their scores [k], how many are wanted) -> the ids that are suggested.
Choose = Callable[[Sequence[int], Sequence[float], int], list[int]]


def chooser(responses: ResponseSet, lang: str | None, temperature: float) -> Choose:
    """Returns how to choose suggestions: together, or at temperature 0 the first of each cluster.

    Without a language, which splits texts into words, it is the latter, too.
    """
    if temperature and lang:
        return Consensus(responses.display, lang, temperature).choose
    return lambda ids, scores, count: responses.choose(ids, count)


class Consensus:
    """Chooses among candidates of one response set.

    Candidate j is the true reply with probability p_j, proportional to exp(score_j / temperature);
    u_ij is the weighted ROUGE of i if j is the reference. Responses are added one by one, each the
    one that raises sum_j p_j max_{i chosen} u_ij most: such a greedy choice reaches at least
    1 - 1/e of the best set's value (Nemhauser et al. 1978, doi:10.1007/BF01588971).

    Args:
      texts: the responses, as a person is shown them.
      lang: ISO code; decides how words are split.
      temperature: in units of the scores. Near 0 the candidate with the highest score is certain;
        the larger, the less the message counts and the more what is said often.
    """

    def __init__(self, texts: Sequence[str], lang: str, temperature: float):
        self._temperature = temperature
        rows = [mrs.reply_ngrams(text, lang) for text in texts]
        self._counts = [_incidence([row[n] for row in rows]) for n in range(len(mrs.WEIGHTS))]

    def choose(self, ids: Sequence[int], scores: Sequence[float], count: int) -> list[int]:
        """Chooses at most `count` of the response ids [k]; returns them in the order of choice.

        Args:
          ids: of the candidates.
          scores: of the candidates, [k].
          count: how many.
        """
        values = np.asarray(scores, np.float64) / self._temperature
        p = np.exp(values - values.max())
        gains = self._similarities(np.asarray(ids))
        chosen: list[int] = []
        covered = np.zeros(len(ids))
        left = np.ones(len(ids), bool)
        for _ in range(min(count, len(ids))):
            values = np.where(left, np.maximum(gains, covered) @ p, -1.0)
            best = int(values.argmax())
            chosen.append(int(ids[best]))
            covered = np.maximum(covered, gains[best])
            left[best] = False
        return chosen

    def _similarities(self, ids: np.ndarray) -> np.ndarray:
        """u [k, k]; symmetric, because F1 is."""
        total = np.zeros((len(ids), len(ids)))
        for weight, counts in zip(mrs.WEIGHTS, self._counts, strict=True):
            part = counts[ids]
            sizes = np.asarray(part.sum(axis=1)).ravel()
            common = (part @ part.T).toarray()
            total += weight * 2.0 * common / np.maximum(sizes[:, None] + sizes, 1.0)
        return total


def _incidence(rows: Sequence[set[tuple[str, ...]]]) -> scipy.sparse.csr_matrix:
    """[rows, n-grams], 1 where a row has the n-gram."""
    numbers: dict[tuple[str, ...], int] = {}
    # Sorted, so that two processes add up in one order.
    columns = [numbers.setdefault(gram, len(numbers)) for row in rows for gram in sorted(row)]
    ends = np.cumsum([0, *map(len, rows)])
    ones = np.ones(len(columns), np.float32)
    return scipy.sparse.csr_matrix((ones, columns, ends), shape=(len(rows), max(1, len(numbers))))
