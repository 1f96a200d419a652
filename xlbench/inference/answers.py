"""Examples, the answers of models to them, and the contract of a reranker."""

import abc
import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from xlbench import decoding
from xlbench.system.errors import UserError


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
                'a single answer cannot be ranked again; set num_beams, or draw several samples '
                'with num_return'
            )
        return dataclasses.replace(options, num_return=options.hypotheses)

    def rerank(
        self, examples: Sequence[Example], answers: Sequence[list[Prediction]]
    ) -> list[list[Prediction]]:
        """The answers to each example with new scores, best first; those to no text as they are."""
        asked = [i for i, example in enumerate(examples) if example.text.strip()]
        flat = [(examples[i], prediction) for i in asked for prediction in answers[i]]
        scores = iter(self.scores(*map(list, zip(*flat, strict=True))) if flat else ())
        ranked = list(answers)
        for i in asked:
            new = [dataclasses.replace(p, score=float(next(scores))) for p in answers[i]]
            ranked[i] = sorted(new, key=lambda prediction: -prediction.score)
        return ranked
