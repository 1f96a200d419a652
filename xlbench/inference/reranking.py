"""Two ways to rank a generator's answers anew: a model of the other direction, and a retriever."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from xlbench.decoding import mmi
from xlbench.errors import UserError
from xlbench.inference.answers import Example, Prediction, Reranker
from xlbench.inference.generator import Model
from xlbench.inference.retriever import Retriever


@dataclasses.dataclass(frozen=True)
class Mmi(Reranker):
    """Ranks by how well the input can be told from an answer (arXiv:1510.03055).

    An answer's score becomes log p(answer | input) + weight log p(input | answer) + length_weight
    times its tokens; see decoding/mmi.py.

    Attributes:
      model: answers in the other direction, from target_lang to source_lang.
      weight: of what it says.
      length_weight: nats for a token.
    """

    model: Model
    weight: float = 0.5
    length_weight: float = 0.0

    def scores(self, examples: Sequence[Example], answers: Sequence[Prediction]) -> np.ndarray:
        """The new scores [n] of n answers, each to the example at its place."""
        return mmi.bidirectional(
            np.array([answer.log_probability for answer in answers]),
            self.model.log_probabilities(
                [
                    Example(answer.text, example.target_lang, example.source_lang)
                    for example, answer in zip(examples, answers, strict=True)
                ],
                [example.text for example in examples],
            ),
            np.array([answer.num_tokens for answer in answers]),
            weight=self.weight,
            length_weight=self.length_weight,
        )


@dataclasses.dataclass(frozen=True)
class Relevance(Reranker):
    """Ranks by how well an answer fits the input to a retriever (arXiv:2106.02017, section 6).

    An answer's score becomes (1 - weight) * score + weight * scale * input . answer: both are
    logarithms of something proportional to a probability, in nats, so that the sum is a log-linear
    mixture of both models over the answers in the list.

    Attributes:
      retriever: of messages and replies.
      weight: of what it says; 1 is the retriever alone, 0 the generator.
    """

    retriever: Retriever
    weight: float = 1.0

    def __post_init__(self):
        if not 0 <= self.weight <= 1:
            raise UserError(f'rerank_weight is {self.weight}; 0 to 1 is allowed')

    def scores(self, examples: Sequence[Example], answers: Sequence[Prediction]) -> np.ndarray:
        """The new scores [n] of n answers, each to the example at its place."""
        relevance = self.retriever.relevance([e.text for e in examples], [a.text for a in answers])
        generated = np.array([answer.score for answer in answers])
        return (1 - self.weight) * generated + self.weight * relevance
