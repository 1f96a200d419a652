"""What models that answer texts have in common: examples, answers, and what ranks them anew."""

import abc
import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from xlbench import decoding
from xlbench.errors import UserError

# Texts that are sorted by length together, in batches; the first answers come after one.
CHUNK_BATCHES = 16


class Example(NamedTuple):
    """One text to answer; the languages are ISO codes."""

    text: str
    source_lang: str | None = None
    target_lang: str | None = None


@dataclasses.dataclass(frozen=True)
class Prediction:
    """One answer that a model wrote.

    Attributes:
      text: without special tokens.
      score: what answers are ranked by; of beams with the length penalty.
      log_probability: of its tokens under the model, nats.
      num_tokens: of the answer, the end included.
    """

    text: str
    score: float
    log_probability: float
    num_tokens: int


@dataclasses.dataclass(frozen=True)
class Suggestion:
    """One answer that was found.

    Attributes:
      text: what a person is shown.
      score: what answers are ranked by.
    """

    text: str
    score: float


@dataclasses.dataclass(frozen=True)
class Classified:
    """The label of one text, or pair of texts.

    Attributes:
      label: the likeliest one.
      probability: of it, 0 to 1.
      probabilities: of every label, the likeliest first.
    """

    label: str
    probability: float
    probabilities: dict[str, float]


@dataclasses.dataclass(frozen=True)
class Tagged:
    """The tags of one sentence.

    Attributes:
      words: of the sentence.
      tags: of each word; metrics.tagging.CUT for words that the model had no room for.
      probabilities: of the tags, 0 to 1; 0 for words that the model had no room for.
    """

    words: tuple[str, ...]
    tags: tuple[str, ...]
    probabilities: tuple[float, ...]


class Shapes:
    """The few shapes of batches that texts are put into, so that each is compiled once.

    Args:
      batch_size: rows of a whole batch.
      shards: the fewest rows that the devices can share, for what is left.
      max_length: the widest, in tokens; the others are halves of it, in multiples of 8.
    """

    def __init__(self, batch_size: int, shards: int, max_length: int):
        self._max_length = max_length
        widths = {max(8, -(-max_length // (8 * part)) * 8) for part in (2, 4, 8)}
        self._widths = sorted(w for w in {*widths, max_length} if w <= max_length)
        self._rows = sorted({shards, batch_size})

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self._widths) * len(self._rows)

    def batches(self, lengths: Mapping[int, int]) -> Iterator[tuple[list[int], int, int]]:
        """From {key: length} to (keys, rows, width) of batches, the longest first."""
        keys = sorted(lengths, key=lambda key: -lengths[key])
        for start in range(0, len(keys), self._rows[-1]):
            batch = keys[start : start + self._rows[-1]]
            longest = min(lengths[batch[0]], self._max_length)
            yield (
                batch,
                next(rows for rows in self._rows if rows >= len(batch)),
                next(width for width in self._widths if width >= longest),
            )


class Reranker(abc.ABC):
    """Gives the answers of n-best lists new scores, and sorts each list by them."""

    @abc.abstractmethod
    def scores(self, examples: Sequence[Example], answers: Sequence[Prediction]) -> np.ndarray:
        """The new scores [n] of n answers, each to the example at its place."""

    def candidates(self, options: decoding.Options) -> decoding.Options:
        """Options that return all that are to be ranked: every beam, or every sample.

        Raises:
          UserError: there is only one.
        """
        if options.hypotheses < 2:
            raise UserError(
                'there is one answer, and no list to rank anew; set num_beams, or num_return of '
                'samples'
            )
        return dataclasses.replace(options, num_return=options.hypotheses)

    def rerank(
        self, examples: Sequence[Example], found: Sequence[list[Prediction]]
    ) -> list[list[Prediction]]:
        """The answers to each example with new scores, best first; those to no text as they are."""
        asked = [i for i, example in enumerate(examples) if example.text.strip()]
        flat = [(examples[i], prediction) for i in asked for prediction in found[i]]
        scores = iter(self.scores(*map(list, zip(*flat, strict=True))) if flat else ())
        ranked = list(found)
        for i in asked:
            new = [dataclasses.replace(p, score=float(next(scores))) for p in found[i]]
            ranked[i] = sorted(new, key=lambda prediction: -prediction.score)
        return ranked


_Example = TypeVar('_Example')


def chunks(
    examples: Iterable[_Example | None], batch_size: int
) -> Iterator[tuple[list[_Example], bool]]:
    """Examples in lists of one batch, then twice as many, up to CHUNK_BATCHES.

    Each comes with whether there is nothing to read right behind it, as None among the examples
    says.
    """
    size, chunk = batch_size, []
    for example in examples:
        if example is not None:
            chunk.append(example)
        if example is None or len(chunk) == size:
            yield chunk, example is None
            size, chunk = min(2 * size, CHUNK_BATCHES * batch_size), []
    yield chunk, True
