"""Dialogues cut into segments: topics by C99, stages by a hidden Markov model.

Topics: a text is cut where its topic changes (Choi 2000, aclanthology.org/A00-2004). Settings are
those of MV-BART (arXiv:2010.01672): a window of 4 and one standard deviation. Its authors' object
keeps the window that the shortest dialogue so far has left, so that their result depends on the
order of the dialogues (`official_topic_segments`); here each is cut by itself.

Stages of conversations: opening, intention, discussion, end. MV-BART has four states with a
diagonal Gaussian each; a conversation begins in the first and stays, goes one on, or leaves one
out. Baum-Welch fits all numbers; transitions that are zero remain zero. What is computed equals
hmmlearn's GaussianHMM. Its authors let k-means choose the first means without a seed, so that their
model cannot be made again; here they are those of the four quarters of the conversations.
"""

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from xlbench.system import errors

WINDOW = 4
DEVIATIONS = 1.0
_FEWEST = 3  # Utterances of a dialogue that can be cut.


def topic_segments(
    vectors: np.ndarray, window: int = WINDOW, deviations: float = DEVIATIONS
) -> list[int]:
    """Returns the topic of each utterance, counted from 1.

    Args:
      vectors: [utterances, dimensions] of numbers: of what an encoder gives, or counts of words.
      window: ranks compare cells that are less than this apart, in rows and in columns.
      deviations: standard deviations by which a cut's gain must exceed the mean cut's.
    """
    vectors = np.asarray(vectors, np.float64)
    if vectors.ndim != 2:
        raise errors.UserError(f'vectors have the shape {vectors.shape}, not utterances x numbers')
    count = len(vectors)
    if count < _FEWEST:
        return [1] * count
    cuts, densities = _splits(rank_matrix(vectors, window))
    gains = _smoothed(np.diff(densities))
    above = np.flatnonzero(gains >= gains.mean() + deviations * gains.std())
    kept = cuts[: above[-1] + 1] if above.size else []
    ends = np.zeros(count + 1, bool)
    for cut in kept:
        if not ends[cut - 1] and not ends[cut + 1]:  # The last of ends stands before the first.
            ends[cut] = True
    return (1 + np.concatenate([[0], np.cumsum(ends[: count - 1])])).tolist()


def official_topic_segments(
    dialogues: Iterable[np.ndarray], window: int = WINDOW, deviations: float = DEVIATIONS
) -> Iterator[list[int]]:
    """The topics of dialogues one after another, as the object of MV-BART's authors cuts them.

    Its window shrinks to the shortest dialogue so far that has three utterances or more.

    Args:
      dialogues: of each, [utterances, dimensions].
      window, deviations: see `topic_segments`.
    """
    for vectors in dialogues:
        if len(vectors) >= _FEWEST:
            window = min(window, len(vectors))
        yield topic_segments(vectors, window, deviations)


def rank_matrix(vectors: np.ndarray, window: int = WINDOW) -> np.ndarray:
    """Ranks the similarity of two utterances among the cells around them.

    Args:
      vectors: [utterances, dimensions].
      window: see `topic_segments`; at most the number of utterances is used.

    Returns:
      [utterances, utterances], the share of the cells around each, itself among them, whose cosine
      is smaller.
    """
    norms = np.sqrt((vectors * vectors).sum(1))
    # Row by row, not as a product of matrices, whose sums round differently from cell to cell: a
    # vector would not be as similar to itself as another one is to itself.
    products = np.stack([(vectors * vector).sum(1) for vector in vectors])
    sizes = norms[:, None] * norms
    cosines = np.divide(products, sizes, out=np.zeros_like(sizes), where=sizes > 0)
    reach = min(window, len(cosines)) - 1
    count, smaller = len(cosines), np.zeros(cosines.shape)
    wide = np.pad(cosines, reach, constant_values=np.nan)  # Not smaller than anything.
    for row, column in np.ndindex(2 * reach + 1, 2 * reach + 1):
        smaller += wide[row : row + count, column : column + count] < cosines
    places = np.arange(count)
    sizes = np.minimum(places, reach) + np.minimum(places[::-1], reach) + 1  # Of each window.
    return smaller / (sizes[:, None] * sizes)


def _splits(ranks: np.ndarray) -> tuple[list[int], np.ndarray]:
    """Cuts segments in two, the best cut first, until each is one utterance.

    Returns:
      The last utterance before each cut, and [cuts + 1], the mean rank inside segments, before the
      first cut and after each.
    """
    count = len(ranks)
    sums = np.zeros((count + 1, count + 1))
    sums[1:, 1:] = ranks.cumsum(0).cumsum(1)
    total, area = sums[-1, -1], count * count
    densities = [total / area]
    # Of each place to cut, where its segment begins and ends.
    places = np.arange(1, count)
    begins, ends = np.zeros(count - 1, int), np.full(count - 1, count)
    free = np.ones(count - 1, bool)
    cuts = []
    for _ in places:
        # Ranks are no more symmetric than their windows: both corners are summed.
        lost = sums[places, ends] - sums[begins, ends] - sums[places, places] + sums[begins, places]
        lost += sums[ends, places] - sums[ends, begins] - sums[places, places]
        lost += sums[places, begins]
        lost_area = 2 * (places - begins) * (ends - places)
        density = np.where(free, (total - lost) / np.maximum(area - lost_area, 1), -1)
        best = int(density.argmax())
        total, area = total - lost[best], area - lost_area[best]
        densities.append(total / area)
        cut, begin, end = places[best], begins[best], ends[best]
        free[best] = False
        begins[cut : end - 1] = cut
        ends[begin : cut - 1] = cut
        cuts.append(int(cut) - 1)
    return cuts, np.array(densities)


def _smoothed(gains: np.ndarray) -> np.ndarray:
    """Returns means with the neighbours: 1, 2, 1 parts; 2, 1 at the ends."""
    around = np.pad(gains, 1)
    weights = np.full(len(gains), 4.0)
    weights[[0, -1]] = 3
    return (around[:-2] + 2 * gains + around[2:]) / weights


STAGES = 4
_START = (1.0, 0.0, 0.0, 0.0)
_TRANSITIONS = ((0.33, 0.34, 0.33, 0), (0, 0.33, 0.34, 0.33), (0, 0, 0.5, 0.5), (0, 0, 0, 1))
_VARIANCE_PRIOR = 0.01  # hmmlearn's, added to each sum of squares.
_SMALLEST_VARIANCE = 1e-3  # Added to the first variances, likewise.
_AT_ONCE = 256  # Dialogues.


@dataclasses.dataclass(frozen=True, eq=False)
class StageModel:
    """A hidden Markov model with a diagonal Gaussian for each state.

    Attributes:
      start: [states], the probabilities of the first utterance's state.
      transitions: [states, states], from row to column.
      means, variances: [states, dimensions].
    """

    start: np.ndarray
    transitions: np.ndarray
    means: np.ndarray
    variances: np.ndarray

    def log_densities(self, vectors: np.ndarray) -> np.ndarray:
        """Returns [utterances, states], the logarithm of each state's density at each vector."""
        constant = (np.log(2 * np.pi * self.variances) + self.means**2 / self.variances).sum(1)
        # (x - mean)^2 / variance as products of matrices.
        squares = vectors**2 @ (1 / self.variances).T
        return vectors @ (self.means / self.variances).T - 0.5 * (squares + constant)

    def logs(self) -> tuple[np.ndarray, np.ndarray]:
        """Logarithms of start and transitions, -inf for what cannot be."""
        with np.errstate(divide='ignore'):
            return np.log(self.start), np.log(self.transitions)

    def stages(self, vectors: np.ndarray) -> list[int]:
        """Returns the likeliest path through the states, counted from 0, by Viterbi's algorithm.

        Args:
          vectors: [utterances, dimensions] of one dialogue.
        """
        _check([vectors])
        densities = self.log_densities(np.asarray(vectors, np.float64))
        start, transitions = self.logs()
        best, origins = start + densities[0], []
        for density in densities[1:]:
            ways = best[:, None] + transitions
            origins.append(ways.argmax(0))
            best = ways.max(0) + density
        path = [int(best.argmax())]
        for origin in reversed(origins):
            path.append(int(origin[path[-1]]))
        return path[::-1]


class Fitted(NamedTuple):
    """A model after Baum-Welch, and the log-likelihood of the data before each of its steps."""

    model: StageModel
    log_likelihoods: list[float]


def initial_stages(dialogues: Sequence[np.ndarray]) -> StageModel:
    """Returns the model that `fit_stages` begins with: each stage a quarter of the dialogues.

    Args:
      dialogues: of each, [utterances, dimensions].
    """
    _check(dialogues)
    vectors = np.concatenate(dialogues)
    quarters = np.concatenate([np.arange(len(d)) * STAGES // len(d) for d in dialogues])
    if len(set(quarters.tolist())) < STAGES:
        raise errors.UserError(
            f'no dialogue has {STAGES} utterances or more, so there are no stages to tell apart'
        )
    means = [vectors[quarters == quarter].mean(0) for quarter in range(STAGES)]
    variances = np.tile(vectors.var(0) + _SMALLEST_VARIANCE, (STAGES, 1))
    return StageModel(np.array(_START), np.array(_TRANSITIONS), np.stack(means), variances)


def fit_stages(
    model: StageModel,
    dialogues: Sequence[np.ndarray],
    iterations: int = 50,
    tolerance: float = 0.01,
) -> Fitted:
    """Fits a model with Baum-Welch until the log-likelihood gains less than the tolerance.

    Args:
      model: to begin with.
      dialogues: of each, [utterances, dimensions]; MV-BART takes those of all splits together.
      iterations: at most.
      tolerance: see above.
    """
    _check(dialogues)
    likelihoods: list[float] = []
    for _ in range(iterations):
        model, likelihood = _step(model, dialogues)
        likelihoods.append(likelihood)
        if len(likelihoods) > 1 and likelihoods[-1] - likelihoods[-2] < tolerance:
            break
    return Fitted(model, likelihoods)


def _step(model: StageModel, dialogues: Sequence[np.ndarray]) -> tuple[StageModel, float]:
    """Returns one step of Baum-Welch, and the log-likelihood of the model before it."""
    start = np.zeros_like(model.start)
    moves = np.zeros_like(model.transitions)
    weights = np.zeros(len(start))
    sums, squares = np.zeros_like(model.means), np.zeros_like(model.means)
    total = 0.0
    for first in range(0, len(dialogues), _AT_ONCE):
        chunk = dialogues[first : first + _AT_ONCE]
        vectors = np.concatenate(chunk).astype(np.float64)
        found = _posteriors(model, vectors, np.array([len(dialogue) for dialogue in chunk]))
        total += found.likelihood
        start += found.start
        moves += found.moves
        weights += found.states.sum(0)
        sums += found.states.T @ vectors
        squares += found.states.T @ vectors**2
    # A state that is nowhere keeps its mean.
    held = weights[:, None] > 0
    means = np.where(held, sums / np.where(held, weights[:, None], 1), model.means)
    scatter = squares - 2 * means * sums + means**2 * weights[:, None]
    return StageModel(
        start / start.sum(),
        # A state that nothing leaves keeps its row.
        np.where(
            (left := moves.sum(1, keepdims=True)) > 0,
            moves / np.where(left > 0, left, 1),
            model.transitions,
        ),
        means,
        (_VARIANCE_PRIOR + scatter) / np.maximum(weights[:, None], 1e-5),
    ), total


class _Posteriors(NamedTuple):
    """Posterior sums over states of dialogues.

    Attributes:
      states: [utterances, states], probabilities, one dialogue after another.
      start: [states], sums of those of first utterances.
      moves: [states, states], sums over all pairs of neighbours.
      likelihood: the logarithm.
    """

    states: np.ndarray
    start: np.ndarray
    moves: np.ndarray
    likelihood: float


def _posteriors(model: StageModel, vectors: np.ndarray, lengths: np.ndarray) -> _Posteriors:
    """Forwards and backwards through dialogues, all of them at once.

    Args:
      model: gives the probabilities.
      vectors: [utterances, dimensions], one dialogue after another.
      lengths: [dialogues], utterances of each.
    """
    there = np.arange(lengths.max())[:, None] < lengths  # [longest, dialogues]
    densities = np.zeros((*there.shape, len(model.start)))
    densities.swapaxes(0, 1)[there.T] = model.log_densities(vectors)
    start, transitions = model.logs()
    forward, backward = np.empty_like(densities), np.zeros_like(densities)
    forward[0] = start + densities[0]
    for t in range(1, len(densities)):
        reached = _log_sum(forward[t - 1][..., None] + transitions, axis=1)
        # Behind the end of a dialogue its last state stays.
        forward[t] = np.where(there[t, :, None], reached + densities[t], forward[t - 1])
    for t in range(len(densities) - 2, -1, -1):
        after = transitions + (densities[t + 1] + backward[t + 1])[:, None]
        gathered = _log_sum(after, axis=-1)
        backward[t] = np.where(there[t + 1, :, None], gathered, 0.0)
    likelihoods = _log_sum(forward[-1], axis=-1)  # [dialogues]
    moves = np.zeros_like(transitions)
    for t in range(len(densities) - 1):
        after = (densities[t + 1] + backward[t + 1])[:, None]
        pairs = forward[t][..., None] + transitions + after - likelihoods[:, None, None]
        moves += np.exp(pairs[there[t + 1]]).sum(0)
    states = np.exp(forward + backward - likelihoods[:, None])
    return _Posteriors(
        states.swapaxes(0, 1)[there.T], states[0].sum(0), moves, float(likelihoods.sum())
    )


def _log_sum(logs: np.ndarray, axis: int) -> np.ndarray:
    """Returns the logarithm of a sum of exponentials along an axis; -inf where all of them are."""
    largest = logs.max(axis, keepdims=True)
    safe = np.where(np.isfinite(largest), largest, 0.0)
    with np.errstate(divide='ignore'):
        return np.log(np.exp(logs - safe).sum(axis)) + np.squeeze(safe, axis)


def _check(dialogues: Sequence[np.ndarray]) -> None:
    shapes = {np.shape(dialogue)[1:] for dialogue in dialogues}
    if len(shapes) != 1 or len(next(iter(shapes))) != 1 or not all(map(len, dialogues)):
        raise errors.UserError(
            'stages come from arrays of utterances x numbers, one for each dialogue, with one '
            'utterance or more and equally many numbers each'
        )
