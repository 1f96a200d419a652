"""Trained models that write texts; `predict.load` returns them in Python."""

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, overload

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from xlbench import decoding
from xlbench.data import features, prepared
from xlbench.evaluators import generation
from xlbench.evaluators.generation import Example, Prediction, Reranker
from xlbench.inference.answering import Answerer, LoadedModel, check_list
from xlbench.parallel import programs
from xlbench.parallel.programs import LengthBatches
from xlbench.system.errors import UserError
from xlbench.system.files import Setting
from xlbench.system.trees import Params

# (params, batch, copies of kernels, key of samples) -> the texts of each row
_Decode = Callable[..., decoding.Decoded]
_PLACES = 16  # Places whose states are asked for are filled up to a multiple of it.
# For each batch the places of its rows in the chunk, and what is decoded.
_Begun = list[tuple[list[int], decoding.Decoded]]


class _Mark(NamedTuple):
    """The mark that tells a model the languages of an example, as in preparation."""

    text: str  # Before the input's text.
    ids: np.ndarray  # Before the input's ids.
    target: np.ndarray  # Before the answer's.
    forced_first: int | None  # The id that the answer has to begin with.


class Model(Answerer[Example, list[Prediction]]):
    """A model that writes texts with its vocabulary, ready to answer; `load` makes it.

    It decodes by its `options` unless a call says otherwise.
    """

    def __init__(self, name: str, opened: LoadedModel, mesh: Mesh, **sizes: int):
        super().__init__(name, opened, mesh, **sizes)
        self.options = opened.options
        objective, model = opened.objective, opened.model
        self._row_losses = programs.shared(type(objective).row_losses, objective, model)
        self._programs: dict[decoding.Options, _Decode] = {}
        self._marks: dict[tuple[str | None, str | None], _Mark] = {}

    @overload
    def generate(
        self, texts: Sequence[str], *, num_return: None = None, **options: Setting
    ) -> list[str]: ...

    @overload
    def generate(
        self, texts: Sequence[str], *, num_return: int, **options: Setting
    ) -> list[list[Prediction]]: ...

    def generate(
        self,
        texts: Sequence[str],
        *,
        target_lang: str | None = None,
        source_lang: str | None = None,
        num_return: int | None = None,
        reranker: Reranker | None = None,
        **options: Setting,
    ) -> list[str] | list[list[Prediction]]:
        """The answer to each text; an empty text has an empty answer.

        Args:
          texts: what a task calls `inputs`, without the mark of the language.
          target_lang: ISO code; has to be given where the model knows several.
          source_lang: likewise, for models that are told the language of the input.
          num_return: number of answers to each text, as Predictions with scores, best first.
          reranker: ranks the answers anew: Mmi, or Relevance.
          **options: fields of decoding.Options. The method follows from them: `num_beams=4` is a
            beam search, `top_p=0.9` draws samples.

        Returns:
          A text for each text, or with num_return (even 1) a list of Predictions for each.

        Raises:
          UserError: a language that is missing or unknown, an option that cannot be.
        """
        check_list(texts, 'generate')
        options |= {} if num_return is None else {'num_return': num_return}
        chosen = self.options.changed(options)
        self.mark(source_lang, target_lang)
        examples = (Example(text, source_lang, target_lang) for text in texts)
        answers = self._collect(self.stream(examples, chosen, reranker))
        return answers if num_return is not None else [n_best[0].text for n_best in answers]

    def stream(
        self,
        examples: Iterable[Example | None],
        options: decoding.Options | None = None,
        reranker: Reranker | None = None,
    ) -> Iterator[list[Prediction]]:
        """The answers to each example, see `Answerer._in_order`; the rest is as for `generate`."""
        options = options or self.options
        candidates = reranker.candidates(options) if reranker else options
        copies = decoding.copies(self._model, self._params, candidates, self._mesh)
        numbers = itertools.count()

        def begin(chunk: list[Example]) -> _Begun:
            return self._start(chunk, [next(numbers) for _ in chunk], candidates, copies)

        def end(chunk: list[Example], begun: _Begun) -> Iterator[list[Prediction]]:
            answers = self._finish(len(chunk), begun, candidates.num_return)
            answers = reranker.rerank(chunk, answers) if reranker else answers
            return (n_best[: options.num_return] for n_best in answers)

        return self._in_order(examples, begin, end)

    def mark(self, source_lang: str | None, target_lang: str | None) -> _Mark:
        """Returns the mark that tells the model these languages.

        Raises:
          UserError: a language is missing, or the model does not know it.
        """
        pair = source_lang, target_lang
        if pair in self._marks:
            return self._marks[pair]
        known, tokenizer = self.languages, self._tokenizer
        target_lang = known.choose(self.name, target_lang)
        if target_lang is not None and not known.allowed:
            raise UserError(
                f'{self.name} takes no target language: its vocabulary has no language tokens, and '
                'its run, if it has one, names no languages; leave out target_lang'
            )
        if 'source_lang' in tokenizer.source_words and tokenizer.languages():
            source_lang = source_lang or known.sources.get(target_lang)
            if source_lang not in tokenizer.languages():
                raise UserError(
                    f'{self.name} needs the language of the input, and got {source_lang!r}; set '
                    f'source_lang to one of {", ".join(tokenizer.languages())}'
                )
        # As pipeline.tag_target_language writes it.
        tagged = target_lang and tokenizer.tags == 'target_in_source'
        self._marks[pair] = _Mark(
            f'<{target_lang}> ' if tagged else '',
            *tokenizer.prefix_ids(source_lang, target_lang),
            tokenizer.forced_first(target_lang) if self._opened.forces_first else None,
        )
        return self._marks[pair]

    # ------------------------------------------------------------------------- texts to the device

    def _start(
        self,
        chunk: Sequence[Example],
        numbers: Sequence[int],
        options: decoding.Options,
        copies: decoding.Copies,
    ) -> _Begun:
        """Dispatches a chunk, longest inputs first; returns before the device has answered."""
        places = [i for i, example in enumerate(chunk) if example.text.strip()]
        inputs = dict(zip(places, self._inputs([chunk[i] for i in places]), strict=True))
        lengths = {i: len(row) for i, row in inputs.items()}
        self._count_cut(lengths.values())
        begun = []
        for batch, rows, width in self.batches.cut(lengths):
            examples = [{'inputs': inputs[i], **self._languages(chunk[i])} for i in batch]
            arrays = self._arrays(examples, rows, width, 1)
            if not self._model.decoder_only:  # Which goes on from its first decoder input.
                kept = ('encoder_', 'decoder_language_ids')
                arrays = {k: array for k, array in arrays.items() if k.startswith(kept)}
            # With the seed, the number of an example decides what a sample is.
            empty = [0] * (rows - len(batch))
            arrays['example_index'] = np.array([numbers[i] for i in batch] + empty, np.int32)
            forced = [self.mark(*chunk[i][1:]).forced_first for i in batch]
            if forced[0] is not None:
                arrays['forced_first'] = np.array(forced + [forced[0]] * len(empty), np.int32)
            begun.append((batch, self._decode(arrays, options, copies(rows))))
        return begun

    def _languages(self, example: Example) -> dict[str, np.ndarray]:
        """The languages of an example's input and answer, where the model has a table of them."""
        if not (rows := self._tokenizer.language_rows):
            return {}
        target_lang = self.languages.choose(self.name, example.target_lang)
        source_lang = example.source_lang or self.languages.sources.get(target_lang)
        return {'languages': prepared.language_places(rows, source_lang, target_lang)}

    def _inputs(self, examples: Sequence[Example]) -> list[np.ndarray]:
        """The ids of each input, as preparation writes them."""
        marks = [self.mark(example.source_lang, example.target_lang) for example in examples]
        texts = [mark.text + example.text for mark, example in zip(marks, examples, strict=True)]
        if self._opened.objective.view == 'multi_view':  # Of which a text has both, or one.
            ids = self._tokenizer.encode_views(texts, [mark.ids for mark in marks])
        else:
            ids = self._tokenizer.encode_batch(texts) if texts else []
        end = [] if self._opened.continues else [self._tokenizer.eos_id]
        pairs = zip(marks, ids, strict=True)
        return [np.concatenate([mark.ids, row, end]).astype(np.int32) for mark, row in pairs]

    def _arrays(
        self, examples: Sequence[Mapping[str, np.ndarray]], rows: int, inputs: int, targets: int
    ) -> dict[str, np.ndarray]:
        """Features of [rows, inputs] and [rows, targets]; an end stands for targets that lack."""
        end = {'targets': np.array([self._tokenizer.eos_id], np.int32)}
        whole = [{**end, **example} for example in examples]
        return self._features(whole, rows, inputs=inputs, targets=targets)

    def _decode(
        self,
        arrays: dict[str, np.ndarray],
        options: decoding.Options,
        copies: Sequence[jax.Array] | None,
    ) -> decoding.Decoded:
        """One batch; every shape and kind of decoding is compiled once."""
        # The seed is data, and what is not wanted of the beams is left out afterwards.
        kind = dataclasses.replace(options, seed=0, num_return=options.hypotheses)
        if kind not in self._programs:
            # The name of the vocabulary decides nothing.
            ids = dataclasses.replace(self._conventions, vocabulary='')
            layout = decoding.layout_of(self._model, self._params)
            fixed = (self._model, kind, ids, self._opened.objective.view, layout)
            self._programs[kind] = programs.shared(generation.decode_batch, *fixed)
        key = jax.random.key(options.seed)
        return self.batches.run(self._programs[kind], self._params, arrays, copies, key)

    def _finish(self, size: int, begun: _Begun, num_return: int) -> list[list[Prediction]]:
        answers = [[Prediction('', 0.0, 0.0, 0)] * num_return for _ in range(size)]
        for batch, decoded in begun:
            tokens, scores, log_probabilities = (
                np.asarray(x)[: len(batch), :num_return] for x in decoded
            )
            texts = self._tokenizer.decode_batch(tokens.reshape(-1, tokens.shape[-1]))
            lengths = decoding.lengths_of(jnp.asarray(tokens), self._tokenizer.eos_id)
            columns = [np.ravel(x).tolist() for x in (scores, log_probabilities, lengths)]
            found = itertools.starmap(Prediction, zip(texts, *columns, strict=True))
            for place in batch:
                answers[place] = list(itertools.islice(found, num_return))
        return answers

    # ------------------------------------------------------------------------- texts that are given

    def log_probabilities(self, examples: Sequence[Example], answers: Sequence[str]) -> np.ndarray:
        """The log-probability [examples] of an answer to each example, end included, in nats.

        A first token that decoding forces has the probability 1, as in a Prediction, and the mark
        behind an end has none. Answers longer than max_input_length are cut, like inputs.
        """
        pairs = self._pairs(examples, answers)
        longest = {i: max(map(len, pair.values())) for i, pair in enumerate(pairs)}
        begun = []
        for batch, rows, width in self.batches.cut(longest):
            arrays = self._arrays([pairs[i] for i in batch], rows, width, width)
            first = self.mark(*examples[batch[0]][1:]).forced_first
            scored = arrays['decoder_loss_weights']
            if self._conventions.begin(first, self._opened.objective.view)[1] is not None:
                scored[:, 0] = 0
            if self._conventions.language_last:  # A mark stands behind the end, which none decodes.
                scored[np.arange(rows), scored.sum(axis=1).astype(int) - 1] = 0
            begun.append((batch, self.batches.run(self._row_losses, self._params, arrays)))
        result = np.zeros(len(pairs))
        for batch, losses in begun:
            result[batch] = -np.asarray(losses['loss'])[: len(batch)]
        return result

    def _pairs(
        self, examples: Sequence[Example], answers: Sequence[str]
    ) -> list[dict[str, np.ndarray]]:
        """The ids of examples with those of the answers to them, marks and ends included."""
        end = [self._tokenizer.eos_id]
        marks = [self.mark(example.source_lang, example.target_lang) for example in examples]
        ids = self._tokenizer.encode_batch(answers, target=True) if answers else []
        return [
            {'inputs': row, 'targets': np.concatenate([mark.target, answer, end]).astype(np.int32)}
            for row, mark, answer in zip(self._inputs(examples), marks, ids, strict=True)
        ]


class LanguageModel(Model):
    """A model without an encoder, with its vocabulary; `load` makes it.

    Attributes:
      max_positions: tokens of a text, inputs and answers together.
    """

    def __init__(self, name: str, opened: LoadedModel, mesh: Mesh, **sizes: int):
        super().__init__(name, opened, mesh, **sizes)
        self.tokenizer = opened.tokenizer
        self.max_positions: int = opened.model.config.max_positions
        objective, model = opened.objective, opened.model
        self._token_losses = programs.shared(type(objective).token_losses, objective, model)
        self._states = programs.shared(_states_at, model)
        size, most = self.batch_size, self.max_positions
        self._whole_texts = LengthBatches(mesh, batch_size=size, max_length=most)

    def token_losses(
        self,
        texts: Sequence[str],
        answers: Sequence[str],
        *,
        target_lang: str | None = None,
        source_lang: str | None = None,
    ) -> list[np.ndarray]:
        """The loss of each token of each answer in nats, that of the end of text last.

        The perplexity of an answer is exp(mean of its losses). Its tokens are those of
        `tokenizer.encode(answer)`.

        Args:
          texts: that are given; each is read as by `generate`.
          answers: one for each text.
          target_lang, source_lang: ISO codes, as for `generate`.

        Raises:
          UserError: there are not as many answers as texts, or a language is missing or unknown.
        """
        for values in (texts, answers):
            check_list(values, 'token_losses')
        if len(texts) != len(answers):
            raise UserError(f'{len(answers)} answers to {len(texts)} texts; each text has one')
        self.mark(source_lang, target_lang)  # Languages are checked even if there are no texts.
        examples = [Example(text, source_lang, target_lang) for text in texts]
        return self.losses_of_ids(self._pairs(examples, answers))

    def losses_of_ids(self, examples: Sequence[Mapping[str, np.ndarray]]) -> list[np.ndarray]:
        """The loss in nats of each of an example's `targets`, given its `inputs`; ids in both.

        Of either at most max_input_length ids count, and at most half of max_positions.
        """
        room, end = min(self.max_input_length, self.max_positions // 2), self.tokenizer.eos_id
        examples = [
            {'inputs': features.trim(x['inputs'], room, end), 'targets': x['targets'][:room]}
            for x in examples
        ]
        longest = {i: max(map(len, example.values())) for i, example in enumerate(examples)}
        begun = []
        for batch, rows, width in self.batches.cut(longest):
            width = min(width, room)
            arrays = self._arrays([examples[i] for i in batch], rows, width, width)
            begun.append((batch, width, self.batches.run(self._token_losses, self._params, arrays)))
        losses = [np.zeros(0)] * len(examples)
        for batch, width, nats in begun:
            for i, row in zip(batch, np.asarray(nats), strict=False):
                # A model that learns inputs, too, has their losses before those of the targets.
                losses[i] = row[-width:][: len(examples[i]['targets'])]
        return losses

    def states_of_ids(
        self, texts: Sequence[np.ndarray], places: Sequence[np.ndarray]
    ) -> list[np.ndarray]:
        """The states of the last layer at some places of each text, [places, emb_dim] float32.

        Texts are ids, each [max_positions or less]; places count tokens from 0.
        """
        begun = []
        for batch, rows, width in self._whole_texts.cut({i: len(x) for i, x in enumerate(texts)}):
            most = -(-max(len(places[i]) for i in batch) // _PLACES) * _PLACES
            sizes = {'tokens': width, 'segments': width, 'places': most}
            arrays = {name: np.zeros((rows, size), np.int32) for name, size in sizes.items()}
            for row, i in enumerate(batch):
                arrays['tokens'][row, : len(texts[i])] = texts[i]
                arrays['segments'][row, : len(texts[i])] = 1
                arrays['places'][row, : len(places[i])] = places[i]
            begun.append((batch, self._whole_texts.run(self._states, self._params, arrays)))
        states = [np.zeros((0, 0))] * len(texts)
        for batch, of_rows in begun:
            for i, of_row in zip(batch, np.asarray(of_rows, np.float32), strict=False):
                states[i] = of_row[: len(places[i])]
        return states


def _states_at(model: nn.Module, params: Params, batch: Mapping[str, jax.Array]) -> jax.Array:
    """The states [rows, places, emb_dim] at batch['places']."""
    apply: Callable[..., Any] = model.apply
    states = apply({'params': params}, batch['tokens'], batch['segments'], method='states')
    return jnp.take_along_axis(states, batch['places'][..., None], axis=1)
