"""Segments of dialogues, topics and stages, for MV-BART's two views; no jax.

MV-BART (arXiv:2010.01672, github.com/SALT-NLP/Multi-View-Seq2Seq) reads a dialogue twice, cut into
topics and into stages, both by a vector of each utterance, 'Anna: Hi!', of any sentence encoder
(Sentence-BERT in the paper).

  topics = [topic_segments(dialogue) for dialogue in vectors]
  model = fit_stages(vectors)
  text = with_segments(['Anna: Hi!', 'Ben: Hello.'], stages(model, vectors[0]))

Topics are cut by C99 (Choi 2000, aclanthology.org/A00-2004) with MV-BART's settings: a window of 4
and one standard deviation. The authors' code never restores the window after a short dialogue, so
that their result depends on the order (`official_topic_segments`); ours does not.

The stages of a conversation are opening, intention, discussion and end: four states with diagonal
Gaussians, of which the first begins; a transition stays, advances or skips one. Baum-Welch fits all
numbers; zero transitions remain zero. The authors choose the first means by k-means without a seed,
which cannot be repeated; ours are those of the four quarters of the conversations.
"""

import json
import logging
import pathlib
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from xlbench.data import readers, rows
from xlbench.system import errors, files

if TYPE_CHECKING:
    from hmmlearn.hmm import GaussianHMM

WINDOW = 4
DEVIATIONS = 1.0
_FEWEST = 3  # Utterances of a dialogue to cut.


def topic_segments(
    vectors: np.ndarray, window: int = WINDOW, deviations: float = DEVIATIONS
) -> list[int]:
    """Returns the topic of each utterance, counted from 1.

    `vectors` [utterances, dimensions] are of an encoder or of word counts. Ranks compare cells
    whose rows and columns differ by less than `window`. The gain of a cut must exceed the mean gain
    by this number of standard `deviations`.
    """
    vectors = np.asarray(vectors, np.float64)
    if vectors.ndim != 2:
        raise errors.UserError(f'vectors have the shape {vectors.shape}, not utterances x numbers')
    count = len(vectors)
    if count < _FEWEST:
        return [1] * count
    cuts, densities = _splits(rank_matrix(vectors, window))
    # Means with the neighbours, weighted 1, 2, 1; 2, 1 at the ends.
    around = np.pad(np.diff(densities), 1)
    gains = (around[:-2] + 2 * around[1:-1] + around[2:]) / ([3] + [4] * (count - 3) + [3])
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
    """Yields the topics of dialogues, [utterances, dimensions], like the code of MV-BART's authors.

    The window shrinks to the shortest dialogue so far with three or more utterances; for the rest
    see `topic_segments`.
    """
    for vectors in dialogues:
        if len(vectors) >= _FEWEST:
            window = min(window, len(vectors))
        yield topic_segments(vectors, window, deviations)


def rank_matrix(vectors: np.ndarray, window: int = WINDOW) -> np.ndarray:
    """Ranks the similarities of utterances, [utterances, dimensions], in their windows.

    Returns:
      [utterances, utterances], the share of the cells in each cell's window with a smaller cosine.
    """
    norms = np.sqrt((vectors * vectors).sum(1))
    # Row by row: a product of matrices rounds differently from cell to cell, so that vectors would
    # differ in similarity to themselves.
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
    """Returns the cuts of segments in two, best first, and the mean ranks inside: [cuts + 1]."""
    count = len(ranks)
    sums = np.zeros((count + 1, count + 1))
    sums[1:, 1:] = ranks.cumsum(0).cumsum(1)
    total, area = sums[-1, -1], count * count
    densities = [total / area]
    # Begin and end of the segment around each possible cut.
    places = np.arange(1, count)
    begins, ends = np.zeros(count - 1, int), np.full(count - 1, count)
    free = np.ones(count - 1, bool)
    cuts = []
    for _ in places:
        # Windows, and so ranks, are not symmetric: both corners are summed.
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
        cuts.append(int(cut) - 1)  # The last utterance before it.
    return cuts, np.array(densities)


STAGES = 4
_START = (1.0, 0.0, 0.0, 0.0)
_TRANSITIONS = ((0.33, 0.34, 0.33, 0), (0, 0.33, 0.34, 0.33), (0, 0, 0.5, 0.5), (0, 0, 0, 1))
_SMALLEST_VARIANCE = 1e-3  # Added to the first variances, as hmmlearn does.


def stage_model(
    means: npt.ArrayLike,  # [states, dimensions]
    variances: npt.ArrayLike,  # [states, dimensions]
    iterations: int = 50,  # Of Baum-Welch, at most.
    tolerance: float = 0.01,  # The gain of log-likelihood below which the fit ends.
    start: Sequence[float] = _START,  # [states], probabilities of the first utterance's state.
    transitions: npt.ArrayLike = _TRANSITIONS,  # [states, states], from row to column.
) -> 'GaussianHMM':
    """Makes a hidden Markov model with a diagonal Gaussian for each state."""
    from hmmlearn import hmm  # With scikit-learn, a second.

    logging.getLogger(hmm.__name__).setLevel(logging.ERROR)
    model = hmm.GaussianHMM(len(start), n_iter=iterations, tol=tolerance, init_params='')
    model.startprob_, model.transmat_ = np.array(start), np.array(transitions)
    model.means_, model.covars_ = np.array(means), np.array(variances)
    return model


def fit_stages(dialogues: Sequence[np.ndarray], iterations: int = 50) -> 'GaussianHMM':
    """Fits a model to dialogues, [utterances, dimensions], beginning with a quarter for each stage.

    UserError if too few dialogues are long enough.
    """
    if not any(len(dialogue) >= STAGES for dialogue in dialogues):
        raise errors.UserError(
            f'no dialogue has {STAGES} utterances or more, so there are no stages to tell apart'
        )
    vectors = np.concatenate(dialogues)
    quarters = np.concatenate([np.arange(len(d)) * STAGES // len(d) for d in dialogues])
    means = [vectors[quarters == quarter].mean(0) for quarter in range(STAGES)]
    variances = np.tile(vectors.var(0) + _SMALLEST_VARIANCE, (STAGES, 1))
    model = stage_model(means, variances, iterations)
    model.fit(vectors.astype(np.float64), [len(dialogue) for dialogue in dialogues])
    if not np.isfinite(model.means_).all():
        raise errors.UserError('a stage is in none of the dialogues; give more of them')
    return model


def stages(model: 'GaussianHMM', vectors: np.ndarray) -> list[int]:
    """Returns the likeliest path of a dialogue, [utterances, dimensions], through the stages."""
    return model.predict(vectors.astype(np.float64)).tolist() if len(vectors) else []


MARK = ' |'  # Before each segment; MV-BART weighs the views by its encoder's states for these.
BETWEEN = '\t'  # Between the two views of a text.


def with_segments(utterances: Sequence[str], labels: Sequence[int]) -> str:
    """Returns a dialogue on one line with a mark wherever the label of the utterance changes.

    Example: ['A: hi', 'B: hello', 'A: bye'], [1, 1, 2] -> ' | A: hi B: hello | A: bye'
    """
    if len(utterances) != len(labels):
        raise errors.UserError(f'{len(labels)} labels of {len(utterances)} utterances')
    text, before = '', None
    for utterance, label in zip(utterances, labels, strict=True):
        mark = '' if label == before else MARK
        text += f'{mark} {utterance.replace(MARK, " ")}'
        before = label
    return text


def parted_views(text: str) -> list[str]:
    """Parts a text of `Views.text` into its views; one without a tab is one view."""
    return text.split(BETWEEN, 1)


def utterances(dialogue: str) -> list[str]:
    """Returns the lines of a dialogue that are not empty, each with single spaces.

    Example: 'Anna:  Hi!\\r\\nBen: Hello.' -> ['Anna: Hi!', 'Ben: Hello.']
    """
    return [' '.join(line.split()) for line in dialogue.splitlines() if line.strip()]


def word_vectors(dialogues: Sequence[Sequence[str]], size: int = 500) -> list[np.ndarray]:
    """Returns TF-IDF vectors of each dialogue, [utterances, words] float32.

    The factor of a word is log(utterances / utterances with the word). At most `size` words count,
    those in most utterances; ties are broken by the alphabet.
    """
    from sklearn.feature_extraction.text import CountVectorizer  # It loads for a second.

    texts = [text for dialogue in dialogues for text in dialogue]
    counts = CountVectorizer(token_pattern=r'\w+').fit_transform(texts)  # Words by name.
    frequencies = np.bincount(counts.indices, minlength=counts.shape[1])
    kept = np.argsort(-frequencies, kind='stable')[:size]
    weights = np.log(len(texts) / frequencies[kept])
    vectors = counts[:, kept].multiply(weights).astype(np.float32).toarray()
    return np.split(vectors, np.cumsum([len(dialogue) for dialogue in dialogues])[:-1])


KEYS = ('topics', 'stages')


class Views(NamedTuple):
    """The two views of a dialogue: the topic and the stage of each utterance."""

    topics: list[int]
    stages: list[int]

    def text(self, utterances: Sequence[str]) -> str:
        """Returns a dialogue in both views, topics first, with a tab between them, and no other.

        Example: Views([1, 1], [0, 1]), ['A: hi', 'B: ho'] -> ' | A: hi B: ho\\t | A: hi | B: ho'
        """
        views = (with_segments(utterances, labels) for labels in self)
        return BETWEEN.join(view.replace(BETWEEN, ' ') for view in views)


def views_of(
    splits: Sequence[Sequence[np.ndarray]],  # Dialogues, [utterances, dimensions], of each.
    *,
    official_window: bool = False,  # See `official_topic_segments`; anew in each split.
    iterations: int = 50,  # Of Baum-Welch, at most.
    most_fitted: int | None = None,  # First dialogues to fit the model of stages to; None: all.
) -> list[list[Views]]:
    """Cuts dialogues into topics, and the stages of one model of all of them; see `fit_stages`."""
    spoken = [vectors for dialogues in splits for vectors in dialogues if len(vectors)]
    model = fit_stages(spoken[:most_fitted], iterations)
    views = []
    for dialogues in splits:
        each = map(topic_segments, dialogues)
        topics = official_topic_segments(dialogues) if official_window else each
        views.append([Views(x, stages(model, d)) for x, d in zip(topics, dialogues, strict=True)])
    return views


def views_path(path: str) -> str:
    """Returns the file of views beside a file of dialogues.

    Example: 'XSAMSum/train.json.gz' -> 'XSAMSum/train.views.jsonl'
    """
    file = pathlib.Path(path.removesuffix('.gz'))
    return str(file.with_suffix('.views.jsonl'))


def write_views(path: str, views: Iterable[Views]) -> None:
    """Writes a line of JSON for each dialogue: {"topics": [1, 1, 2], "stages": [0, 2, 2]}."""
    files.write(path, ''.join(json.dumps(one._asdict()) + '\n' for one in views))


def read_views(path: str) -> Iterator[Views | readers.BadRecord]:
    """Reads the output of `write_views`, dialogue by dialogue."""

    def views(_: int, values: rows.Values) -> Iterator[Views]:
        lists = [values[key] for key in KEYS]
        if not all(isinstance(x, list) and all(type(n) is int for n in x) for x in lists):
            raise ValueError('topics and stages are no lists of numbers')
        yield Views(*lists)

    return readers.convert(path, rows.read(path, KEYS, rows.Layout('jsonl')), views)
