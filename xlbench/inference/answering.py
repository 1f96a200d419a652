"""Opened models, labels and suggestions as answers, and the class of all models that answer.

These read ahead, answer in order and count long inputs.
"""

import dataclasses
import functools
import hashlib
import pathlib
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

import flax.linen as nn
import jax
import numpy as np
from jax.sharding import Mesh
from ml_collections import ConfigDict

from xlbench import decoding
from xlbench.data import features, tokenizers, vocabularies
from xlbench.inference.exported import Tasks, target_languages
from xlbench.parallel.programs import LengthBatches
from xlbench.system.errors import UserError
from xlbench.system.files import Block, Json
from xlbench.system.trees import Params
from xlbench.system.work import in_flight


@dataclasses.dataclass(frozen=True)
class Suggestion:
    """One answer that was found, as a person is shown it; answers are ranked by their scores."""

    text: str
    score: float


@dataclasses.dataclass(frozen=True)
class Classified:
    """The likeliest label of one text, or pair of texts, with its probability, 0 to 1.

    `probabilities` are those of every label, the likeliest first.
    """

    label: str
    probability: float
    probabilities: dict[str, float]


@dataclasses.dataclass(frozen=True)
class Tagged:
    """The tags of the words of one sentence, with their probabilities, 0 to 1.

    A word that the model had no room for has the tag metrics.tagging.CUT, and the probability 0.
    """

    words: tuple[str, ...]
    tags: tuple[str, ...]
    probabilities: tuple[float, ...]


@dataclasses.dataclass(frozen=True)
class Languages:
    """The target languages that a model can be asked for, as ISO codes."""

    allowed: tuple[str, ...] = ()  # None where nothing tells the model a language.
    default: str | None = None  # The one that is meant when none is named, if there is only one.
    why: str = ''  # How the model comes to know several, for messages.
    # Target -> the source language that training had for it, where that is one.
    sources: Mapping[Any, str | None] = dataclasses.field(default_factory=dict)

    @classmethod
    def of(cls, tokenizer: tokenizers.Tokenizer, tasks: Tasks) -> 'Languages':
        """Takes the languages from the vocabulary and the tasks of a run's config.json, if any."""
        trained: dict[str, set[str | None]] = {}  # Target language -> source languages.
        for task in tasks.values():
            if task['trained'] and task['target_lang']:
                trained.setdefault(task['target_lang'], set()).add(task['source_lang'])
        targets = list(trained)
        sources = {to: min(langs, key=str) for to, langs in trained.items() if len(langs) == 1}
        tokens = tokenizer.languages()
        if tokens and vocabularies.FAMILIES[tokenizer.family].needs_languages:
            why = f'its vocabulary has tokens of {len(tokens)} languages'
            return cls(tokens, None, why, sources)
        # One that it was not trained on is asked for where transfer to it is evaluated.
        allowed, why = tuple(target_languages(tasks)), f'it was trained on {", ".join(targets)}'
        return cls(allowed, targets[0] if len(targets) == 1 else None, why, sources)

    def choose(self, name: str, lang: str | None) -> str | None:
        """The language that is meant by `lang`; None where none is named and none is known.

        Raises:
          UserError: it is missing, or unknown to the model.
        """
        lang, allowed = lang or self.default, ', '.join(self.allowed)
        if lang is None and allowed:
            raise UserError(
                f'{name} needs a target language: {self.why}. Set target_lang to one of {allowed}'
            )
        if allowed and lang not in self.allowed:
            raise UserError(
                f'{name} does not know the target language {lang!r}; allowed: {allowed}'
            )
        return lang


@dataclasses.dataclass(frozen=True)
class LoadedModel:
    """A model, with everything that its folder says about it."""

    model: nn.Module
    params: Params  # On the mesh.
    tokenizer: tokenizers.Tokenizer
    objective: Any  # An Objective; a kind of model calls what its own has besides.
    # Most tokens of 'inputs' and 'targets': the final evaluation's, else what the model holds.
    lengths: Mapping[str, int]
    known: Languages
    options: decoding.Options  # Of a model that writes texts, in the final evaluation.
    workdir: pathlib.Path = pathlib.Path()  # Or the folder of a checkpoint.
    evals: Sequence[Block] = ()  # Of a run, see eval_blocks.
    tasks: Tasks = dataclasses.field(default_factory=dict)
    labels: tuple[str, ...] = ()  # Of a classifier or tagger, in the order of their ids.
    continues: bool = False  # Answers go on in the middle of a text, without an end behind it.
    forces_first: bool = True  # Answers have to begin as targets do, see Tokenizer.forced_first.


def eval_blocks(config: ConfigDict) -> list[dict[str, Json]]:
    """The blocks of config.evals, the final evaluation first; xlbench.convert writes none."""
    return sorted(config.evals.to_dict().values(), key=lambda block: bool(block.get('every')))


# Texts that are sorted by length together, in batches; the first answers come after one.
CHUNK_BATCHES = 16

Asked = TypeVar('Asked')
Begun = TypeVar('Begun')
Answer = TypeVar('Answer')


class Answerer(Generic[Asked, Answer]):
    """A model with its vocabulary that answers; `predict.load` makes it.

    Attributes:
      name: how the user called it.
      languages: that it can be asked for.
      batch_size: texts that are answered together.
      max_input_length: tokens; longer inputs are cut.
      num_cut: inputs so far that were longer.
      batches: cuts texts into batches of few shapes.
    """

    def __init__(
        self, name: str, opened: LoadedModel, mesh: Mesh, *, batch_size: int, max_input_length: int
    ):
        self.name, self.languages = name, opened.known
        self.batch_size, self.max_input_length, self.num_cut = batch_size, max_input_length, 0
        self._opened, self._mesh = opened, mesh
        self._model, self._params = opened.model, opened.params
        self._tokenizer = opened.tokenizer
        self._conventions = features.Conventions.of_tokenizer(
            opened.tokenizer, opened.model.config.vocab_size
        )
        self.batches = LengthBatches(mesh, batch_size=batch_size, max_length=max_input_length)

    def __repr__(self) -> str:
        return f'<xlbench.predict.{type(self).__name__} {self.name}>'

    @functools.cached_property
    def digest(self) -> str:
        """The hash of the model, see `digest_of`."""
        return digest_of(self._params, self._tokenizer)

    @property
    def what_is_cut(self) -> str:
        """Ends the sentence '3 of 10 inputs ...'."""
        return f'were longer than {self.max_input_length} tokens and were cut'

    def _features(
        self, examples: Sequence[features.Example], rows: int, **lengths: int
    ) -> dict[str, np.ndarray]:
        """The features of rows, cut as in training; rows behind the examples are empty."""
        layout = features.Layout(
            lengths, self._conventions, {**lengths, 'inputs': self.max_input_length}
        )
        empty: list[list[features.Example]] = [[]] * (rows - len(examples))
        return features.VIEWS[self._opened.objective.view]([*examples, *empty], layout)

    def _count_cut(self, lengths: Iterable[int]) -> None:
        """Counts the inputs that are longer than the model reads."""
        self.num_cut += sum(length > self.max_input_length for length in lengths)

    def _collect(self, answers: Iterator[Answer]) -> list[Answer]:
        """All answers; warns the caller's caller of inputs that were cut."""
        before = self.num_cut
        collected = list(answers)
        if cut := self.num_cut - before:
            warnings.warn(f'{cut} of {len(collected)} inputs {self.what_is_cut}', stacklevel=3)
        return collected

    def _in_order(
        self,
        examples: Iterable[Asked | None],
        begin: Callable[[list[Asked]], Begun],
        end: Callable[[list[Asked], Begun], Iterable[Answer]],
    ) -> Iterator[Answer]:
        """The answers to each example, in order, while later ones are computed.

        Examples are read ahead by CHUNK_BATCHES batches at most; None says that it may take a while
        to the next one, so that those before it are answered first. `begin` dispatches a chunk;
        `end` waits for it, and gives the answers.
        """
        for chunk, begun in in_flight(chunks(examples, self.batch_size), begin, depth=1):
            yield from end(chunk, begun)


def digest_of(params: Params, tokenizer: tokenizers.Tokenizer) -> str:
    """SHA-256 over parameters and vocabulary, in hexadecimal: the same for the same model."""
    digest = hashlib.sha256(tokenizer.sha256.encode())
    for path, leaf in jax.tree_util.tree_leaves_with_path(params):
        array = np.asarray(leaf)
        digest.update(f'{jax.tree_util.keystr(path)} {array.dtype} {array.shape}'.encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def check_list(values: Sequence[object] | str, method: str) -> None:
    """Raises UserError for one text where a method takes a list of them."""
    if isinstance(values, str):
        raise UserError(f'{method} takes a list of texts, not one text')


def chunks(examples: Iterable[Asked | None], batch_size: int) -> Iterator[list[Asked] | None]:
    """Examples in lists of one batch, then twice as many, up to CHUNK_BATCHES; None stays None."""
    size: int = batch_size
    chunk: list[Asked] = []
    for example in examples:
        if example is not None:
            chunk.append(example)
        if example is None or len(chunk) == size:
            if chunk:
                yield chunk
            if example is None:
                yield None
            size, chunk = min(2 * size, CHUNK_BATCHES * batch_size), []
    if chunk:
        yield chunk
