"""Two ways to rerank a generator's answers: a model of the reverse direction, and a retriever."""

import argparse
import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from xlbench import config as config_lib
from xlbench.evaluators.generation import Example, Prediction, Reranker
from xlbench.inference.generator import Model
from xlbench.inference.labeller import Classifier, Tagger
from xlbench.inference.loading import load
from xlbench.inference.retriever import Retriever
from xlbench.system.errors import UserError


@dataclasses.dataclass(frozen=True)
class Mmi(Reranker):
    """Maximum mutual information: ranks by how well the input can be told from an answer.

    An answer's score becomes log p(answer | input) + weight log p(input | answer) + length_weight
    times its tokens (MMI-bidi of arXiv:1510.03055, whose lambda is weight / (1 + weight)).
    """

    model: Model  # Answers in the other direction, from target_lang to source_lang.
    weight: float = 0.5
    length_weight: float = 0.0  # Nats for a token.

    kind: ClassVar[str] = 'mmi'

    def scores(self, examples: Sequence[Example], answers: Sequence[Prediction]) -> np.ndarray:
        """The new scores [n] of n answers, each to the example at its place."""
        forward = np.array([answer.log_probability for answer in answers])
        reversed_examples = [
            Example(answer.text, example.target_lang, example.source_lang)
            for example, answer in zip(examples, answers, strict=True)
        ]
        texts = [example.text for example in examples]
        backward = self.model.log_probabilities(reversed_examples, texts)
        lengths = np.array([answer.num_tokens for answer in answers])
        return forward + self.weight * backward + self.length_weight * lengths


@dataclasses.dataclass(frozen=True)
class Relevance(Reranker):
    """Ranks by how well an answer fits the input to a retriever (arXiv:2106.02017, section 6).

    An answer's score becomes (1 - weight) * score + weight * scale * input . answer: both are
    logarithms of something proportional to a probability, in nats, so that the sum is a log-linear
    mixture of both models over the answers in the list.
    """

    retriever: Retriever
    weight: float = 1.0  # 1 is the retriever alone, 0 the generator.

    kind: ClassVar[str] = 'rerank'

    def __post_init__(self):
        if not 0 <= self.weight <= 1:
            raise UserError(f'rerank_weight is {self.weight}; 0 to 1 is allowed')

    def scores(self, examples: Sequence[Example], answers: Sequence[Prediction]) -> np.ndarray:
        """See Reranker."""
        relevance = self.retriever.relevance([e.text for e in examples], [a.text for a in answers])
        generated = np.array([answer.score for answer in answers])
        return (1 - self.weight) * generated + self.weight * relevance


def _trained_on(model: str) -> set[str]:
    """The tasks that a workdir is trained on; none of a model that does not say them."""
    folder = str(config_lib.split_step(model)[0])
    if not os.path.isfile(os.path.join(folder, 'config.json')):
        return set()
    tasks = config_lib.read_about(folder).get('tasks')
    return {name for name, about in (tasks or {}).items() if about.get('trained')}


def of_flags(
    args: argparse.Namespace,
    sizes: Mapping[str, Any],  # Of the model, see `load`.
) -> Mmi | Relevance | None:
    """Loads the model that xlbench.predict or evaluate is to rank the answers of a generator by.

    Raises:
      UserError: there is no such model, or it is of another kind.
    """
    if args.mmi_model and args.rerank:
        raise UserError('--mmi_model and --rerank both rank the answers; leave one out')
    if args.mmi_model:
        reverse = load(args.mmi_model, **sizes)
        if isinstance(reverse, Retriever):
            raise UserError(f'--mmi_model={args.mmi_model} is a retriever; --rerank takes those')
        if isinstance(reverse, Classifier | Tagger):
            raise UserError(f'--mmi_model={args.mmi_model} writes no texts; name a model that does')
        generator = getattr(args, 'workdir', '') or getattr(args, 'model', '')
        if shared := _trained_on(generator) & _trained_on(args.mmi_model):
            raise UserError(
                f'--mmi_model={args.mmi_model} is trained on {min(shared)}, as {generator} is, and '
                'writes answers, too; name a model that writes the inputs of answers'
            )
        return Mmi(reverse, args.mmi_weight, args.mmi_length_weight)
    if args.rerank:
        retriever = load(args.rerank, **sizes)
        if not isinstance(retriever, Retriever):
            raise UserError(f'--rerank={args.rerank} is not a run whose objective is retrieval')
        return Relevance(retriever, args.rerank_weight)
    return None
