"""Trained classifiers and taggers that answer texts, those of a task as their evaluation does."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

import flax.linen as nn
import jax
import numpy as np
from jax.sharding import Mesh

from xlbench.data import features, prepared
from xlbench.inference.answering import (
    Answerer,
    Classified,
    Languages,
    LoadedModel,
    Tagged,
    check_list,
)
from xlbench.metrics.tagging import CUT
from xlbench.parallel import programs
from xlbench.retrieval.text_encoder import check_finite
from xlbench.system.errors import UserError, unknown
from xlbench.system.trees import Params
from xlbench.training.objectives.classification import Classification

Texts = tuple[str, ...]  # The one or two texts of an example, or the words of a sentence.
Answer = TypeVar('Answer', Classified, Tagged)
# The encoded examples of a chunk; and for each batch the places of its rows in the chunk, with the
# probabilities [rows, labels] or [rows, width, labels].
_Begun = tuple[list[features.Example], list[tuple[list[int], jax.Array]]]


class _Labeller(Answerer[Texts, Answer]):
    """An encoder with a head, its vocabulary and its labels."""

    def __init__(self, name: str, opened: LoadedModel, mesh: Mesh, **sizes: int):
        super().__init__(name, opened, mesh, **sizes)
        self.languages = Languages()  # Nothing tells such a model a language.
        self.labels = opened.labels
        trained = [task for task in opened.tasks.values() if task.get('trained')]
        sources = {task.get('source_lang') for task in trained}
        self._lang = sources.pop() if len(sources) == 1 else None
        self._probabilities = programs.shared(_probabilities, opened.objective, opened.model)

    def example(self, value: str | Sequence[str]) -> Texts:
        """Checks one input of a user; a UserError does not say which input it is."""
        raise NotImplementedError

    def check_lang(self, lang: str | None) -> None:
        """Raises UserError for a language that the model cannot be told.

        An XLM with a table of languages can; others read texts in any language alike.
        """
        rows = self._tokenizer.language_rows
        if lang is not None and not rows:
            raise UserError(f'{self.name} takes no language of its input; leave it out')
        if lang is not None and lang not in rows:
            raise unknown(f'language of {self.name}', lang, rows)

    def stream(self, examples: Iterable[Texts | None], lang: str | None = None) -> Iterator[Answer]:
        """The answer to each example, as `example` returns them; see `Answerer._in_order`.

        `lang` is the ISO code of all texts, see `check_lang`; by default that of the training
        texts, if they had one.
        """
        self.check_lang(lang)

        def begin(chunk: list[Texts]) -> _Begun:  # Does not wait for the device.
            encoded = self._encode(chunk)
            if rows_of := self._tokenizer.language_rows:
                places = prepared.language_places(rows_of, lang or self._lang, None)
                encoded = [{**example, 'languages': places} for example in encoded]
            lengths = {i: len(example['inputs']) for i, example in enumerate(encoded)}
            self._count_cut(lengths.values())
            begun = []
            for batch, rows, width in self.batches.cut(lengths):
                arrays = self._features([encoded[i] for i in batch], rows, inputs=width)
                begun.append((batch, self.batches.run(self._probabilities, self._params, arrays)))
            return encoded, begun

        def end(chunk: list[Texts], begun: _Begun) -> list[Answer]:
            encoded, batches = begun
            answers: dict[int, Answer] = {}
            for batch, probabilities in batches:
                # Padding rows come last.
                for place, row in zip(batch, np.asarray(probabilities), strict=False):
                    answers[place] = self._answer(chunk[place], encoded[place], row)
            return [answers[i] for i in range(len(chunk))]

        return self._in_order(examples, begin, end)

    def _examples(self, values: Sequence[str | Sequence[str]], method: str) -> list[Texts]:
        """The inputs of a call, checked; UserError names the one that is wrong."""
        check_list(values, method)
        examples = []
        for i, value in enumerate(values):
            try:
                examples.append(self.example(value))
            except UserError as error:
                raise UserError(f'texts[{i}]: {error}') from None
        return examples

    def _pieces(self, chunk: Sequence[Texts]) -> dict[str, np.ndarray]:
        """The ids of each different text or word of a chunk."""
        different = list(dict.fromkeys(text for example in chunk for text in example))
        return dict(zip(different, self._tokenizer.encode_batch(different), strict=True))

    def _encode(self, chunk: Sequence[Texts]) -> list[features.Example]:
        """Encodes examples as preparation does, with targets that stand in for unknown ones."""
        raise NotImplementedError

    def _answer(self, texts: Texts, example: features.Example, row: np.ndarray) -> Answer:
        """Makes the answer from the probabilities of a row, [labels] or [width, labels]."""
        raise NotImplementedError


class Classifier(_Labeller[Classified]):
    """A trained classifier of texts or pairs of texts.

    Attributes:
      num_texts: of an input, 1 or 2; None where nothing says it.
    """

    def __init__(self, name: str, opened: LoadedModel, mesh: Mesh, **sizes: int):
        super().__init__(name, opened, mesh, **sizes)
        counts = {task.get('texts') for task in opened.tasks.values() if task.get('trained')}
        self.num_texts: int | None = counts.pop() if counts in ({1}, {2}) else None

    def classify(
        self, texts: Sequence[str | tuple[str, str]], lang: str | None = None
    ) -> list[Classified]:
        """The label of each text, or of each pair (first, second) if it was trained on pairs.

        `lang` is as for `stream`.

        Raises:
          UserError: an input is empty, or a pair where a single text is needed, or the other way.
        """
        return self._collect(self.stream(self._examples(texts, 'classify'), lang))

    def example(self, value: str | Sequence[str]) -> Texts:
        """A text, or a pair of texts as a tuple or list, checked; see classify."""
        texts = (value,) if isinstance(value, str) else value
        if not isinstance(texts, tuple | list) or not 1 <= len(texts) <= 2:
            raise UserError('the input is neither a text nor a pair of texts')
        if self.num_texts not in (None, len(texts)):
            is_pair = len(texts) == 2
            given = ('a single text', 'a pair of texts')[is_pair]
            wanted = ('pairs of texts', 'single texts')[is_pair]
            raise UserError(f'the input is {given}, and {self.name} was trained on {wanted}')
        for text, place in zip(texts, ('first', 'second'), strict=False):
            which = f'the {place} text' if len(texts) == 2 else 'the text'
            _check_text(text, which)
        return tuple(texts)

    def _encode(self, chunk: Sequence[Texts]) -> list[features.Example]:
        pieces = self._pieces(chunk)
        encoded = []
        for texts in chunk:
            sides = [pieces[text] for text in texts]
            counts = np.array([len(side) for side in sides], np.int32)
            inputs = self._tokenizer.join_texts(sides)
            encoded.append({'inputs': inputs, 'targets': [0], 'piece_counts': counts})
        return encoded

    def _answer(self, texts: Texts, example: features.Example, row: np.ndarray) -> Classified:
        del texts, example
        check_finite(row, f'the probabilities of {self.name}')
        order = np.argsort(-row, kind='stable').tolist()  # Of equal ones the first, as argmax.
        probabilities = {self.labels[i]: float(row[i]) for i in order}
        label = self.labels[order[0]]
        return Classified(label, probabilities[label], probabilities)


class Tagger(_Labeller[Tagged]):
    """A trained tagger: a tag for each word."""

    def tag(
        self, sentences: Sequence[str | Sequence[str]], lang: str | None = None
    ) -> list[Tagged]:
        """The tags of each sentence, a list of words or a text, which is split at white space.

        `lang` is as for `stream`.

        Raises:
          UserError: a sentence or a word is empty.
        """
        return self._collect(self.stream(self._examples(sentences, 'tag'), lang))

    def example(self, value: str | Sequence[str]) -> Texts:
        """The words of a text, or of a list; see tag."""
        words = value.split() if isinstance(value, str) else value
        if not isinstance(words, tuple | list):
            raise UserError('the sentence is neither a text nor a list of words')
        if not words:
            raise UserError('the sentence is empty; a tagger needs at least one word')
        for i, word in enumerate(words):
            _check_text(word, f'word {i + 1}')
        return tuple(words)

    @property
    def what_is_cut(self) -> str:
        """Ends the sentence '3 of 10 inputs ...'."""
        most = self.max_input_length
        return f'were longer than {most} tokens; their last words got {CUT} as a tag'

    def _encode(self, chunk: Sequence[Texts]) -> list[features.Example]:
        # No word of training holds a space; see conllu.py.
        chunk = [tuple(word.replace(' ', '') for word in words) for words in chunk]
        pieces, encoded = self._pieces(chunk), []
        for words in chunk:
            inputs, counts = self._tokenizer.join_words([pieces[word] for word in words])
            targets = np.zeros(len(words), np.int32)
            encoded.append({'inputs': inputs, 'targets': targets, 'piece_counts': counts})
        return encoded

    def _answer(self, texts: Texts, example: features.Example, row: np.ndarray) -> Tagged:
        places = features.tag_places(example, self.max_input_length)
        rows = row[places]  # [words that fit, labels]
        check_finite(rows, f'the probabilities of {self.name}')
        tags = [self.labels[i] for i in rows.argmax(axis=-1).tolist()]
        best = rows.max(axis=-1, initial=0.0).tolist()
        lost = len(texts) - len(tags)
        return Tagged(texts, (*tags, *[CUT] * lost), (*best, *[0.0] * lost))


# The view of an objective -> what answers.
KINDS: dict[str, type[Classifier | Tagger]] = {'classification': Classifier, 'tagging': Tagger}


def _check_text(text: object, which: str) -> None:
    if not isinstance(text, str):
        raise UserError(f'{which} is {text!r:.60}, not a text')
    if not text.strip():
        raise UserError(f'{which} is empty')
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UserError(f'{which} has half a character (a lone surrogate)') from None


def _probabilities(
    objective: Classification, model: nn.Module, params: Params, batch: Mapping[str, jax.Array]
) -> jax.Array:
    return jax.nn.softmax(objective.logits(model, params, batch), axis=-1)
