"""The rank of the right reply: mean reciprocal rank and precision, 0 to 100 (arXiv:2106.02017).

Two readings of the same names, which differ a lot:

  textbook  the rank among all responses of the set; macro averages over the responses that are
            right for some example
  official  microsoft/MRS: the rank among the few suggestions; a miss still gets 1 / (their number
            + 1); "p_at_k" is a hit among the first three; macro divides by the whole set
"""

from collections.abc import Sequence

import numpy as np

from xlbench.metrics import words


def gold_ids(responses: Sequence[str], references: Sequence[str]) -> np.ndarray:
    """The place [len(references)] of each reference among the responses; -1 where it is not there.

    They are compared in `words.generic`, so that 'Yes, 25' is 'yes, 1234'; the first equal counts.
    """
    places: dict[str, int] = {}
    for i, text in enumerate(responses):
        places.setdefault(words.generic(text), i)
    return np.array([places.get(words.generic(text), -1) for text in references], np.int64)


def textbook(ranks: Sequence[int], gold: Sequence[int]) -> dict[str, float]:
    """Scores all examples whose reply is in the response set.

    Args:
      ranks: [n], of each example's own reply among all responses; 1 is best.
      gold: [n], its response id.

    Returns:
      set_mrr, set_p_at_1, and set_macro_mrr: the mean over different replies of their means.
    """
    places = np.asarray(ranks)
    reciprocal = 1.0 / places
    return {
        'set_mrr': 100.0 * float(reciprocal.mean()),
        'set_p_at_1': 100.0 * float((places == 1).mean()),
        'set_macro_mrr': 100.0 * float(_means(reciprocal, gold).mean()),
    }


def official(
    gold: Sequence[int], suggestions: Sequence[Sequence[int]], set_size: int, count: int = 3
) -> dict[str, float]:
    """Names the scores as microsoft/MRS logs them.

    Args:
      gold: [n], response ids of the right replies.
      suggestions: [n], response ids of the suggestions, best first. Examples with fewer than
        `count` of them are left out.
      set_size: how many responses the set has.
      count: suggestions to a message.

    Returns:
      mrr_code, p_at_3_code, macro_mrr_code, and mrr_f1_code: the harmonic mean of mrr_code and
      macro_mrr_code. Nothing if no example counts.
    """
    kept = [i for i, ids in enumerate(suggestions) if len(ids) == count]
    if not kept:
        return {}
    reciprocal, hits = np.array(
        [reciprocal_rank(gold[i], suggestions[i], count) for i in kept], np.float64
    ).T
    mrr = float(reciprocal.mean())
    macro = float(_means(reciprocal, [gold[i] for i in kept]).sum()) / set_size
    scores = {
        'mrr_code': mrr,
        'p_at_3_code': float(hits.mean()),
        'macro_mrr_code': macro,
        'mrr_f1_code': 2.0 * mrr * macro / (mrr + macro),
    }
    return {name: 100.0 * value for name, value in scores.items()}


def reciprocal_rank(gold: int, ranked: Sequence[int], k: int) -> tuple[float, float]:
    """1 / rank, or 1 / (len + 1) on a miss; and 1.0 if gold is among the first k, else 0.0."""
    ranked = list(ranked)
    rank = ranked.index(gold) if gold in ranked else len(ranked)
    return 1.0 / (rank + 1), float(gold in ranked[:k])


def _means(values: np.ndarray, groups: Sequence[int]) -> np.ndarray:
    """The mean of the values [n] of each group."""
    _, places = np.unique(np.asarray(groups), return_inverse=True)
    return np.bincount(places, weights=values) / np.bincount(places)
