"""A trained encoder-decoder that answers texts: what `xlbench.predict` offers to Python."""

import collections
import dataclasses
import functools
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from xlbench import decoding
from xlbench.commands import BATCH_SIZE
from xlbench.data import features, tokenizers, vocabularies
from xlbench.decoding import flags, mmi as mmi_lib
from xlbench.errors import UserError
from xlbench.inference import loading
from xlbench.inference.labeller import KINDS, Classifier, Tagger
from xlbench.inference.loading import Languages
from xlbench.inference.reranking import Example, Prediction, Reranker, Shapes, chunks
from xlbench.inference.retriever import Retriever
from xlbench.models.generator import Generator
from xlbench.parallel import partitioning
from xlbench.training import objectives


class _Mark(NamedTuple):
    """What tells the model the languages of an example, as in preparation."""

    text: str  # Before the input's text.
    ids: np.ndarray  # Before the input's ids.
    target: np.ndarray  # Before the answer's.
    forced_first: int | None  # The id that the answer has to begin with.


class Model:
    """An encoder-decoder with its vocabulary, ready to answer; `load` makes it.

    Args:
      name: how the user called it.
      model: the module.
      params: its parameters, on the mesh.
      tokenizer: the vocabulary.
      mesh: where it runs.
      known: languages that it can be asked for.
      options: how it decodes unless a call says otherwise.
      batch_size: texts that are answered together.
      max_input_length: tokens; longer inputs are cut, and counted.

    Attributes:
      num_cut: inputs so far that were longer than max_input_length.
    """

    def __init__(
        self,
        name: str,
        model: Generator,
        params: Any,
        tokenizer: tokenizers.Tokenizer,
        mesh: jax.sharding.Mesh,
        known: Languages,
        options: decoding.Options,
        *,
        batch_size: int,
        max_input_length: int,
    ):
        self.name, self.languages, self.options = name, known, options
        self.batch_size, self.max_input_length, self.num_cut = batch_size, max_input_length, 0
        self._model, self._params, self._mesh = model, params, mesh
        self._tokenizer = tokenizer
        self._conventions = features.Conventions.of_tokenizer(
            tokenizer, model.config.vocab_size, tokenizer.answer_mark()
        )
        self._shapes = Shapes(batch_size, partitioning.batch_shards(mesh), max_input_length)
        objective = objectives.build()
        self._row_losses = jax.jit(functools.partial(objective.row_losses, model))
        self._programs: dict[decoding.Options, Callable[..., decoding.Decoded]] = {}
        self._compiled: set[tuple[Any, ...]] = set()
        self._marks: dict[tuple[str | None, str | None], _Mark] = {}

    def __repr__(self) -> str:
        return f'<xlbench.predict.Model {self.name}>'

    @property
    def num_programs(self) -> int:
        """How many were compiled so far."""
        return len(self._compiled)

    @property
    def max_programs(self) -> int:
        """How many one kind of decoding can come to need."""
        return self._shapes.count

    def generate(
        self,
        texts: Sequence[str],
        *,
        target_lang: str | None = None,
        source_lang: str | None = None,
        num_return: int | None = None,
        reranker: Reranker | None = None,
        **options: Any,
    ) -> list[str] | list[list[Prediction]]:
        """The answer to each text; an empty text has an empty answer.

        Args:
          texts: what a task calls `inputs`, without the mark of the language.
          target_lang: ISO code; has to be given where the model knows several.
          source_lang: likewise, for models that are told the language of the input.
          num_return: so many answers to each text as Predictions with scores, best first.
          reranker: ranks the answers anew: Mmi, or Relevance.
          **options: fields of decoding.Options. The method follows from them: `num_beams=4` is a
            beam search, `top_p=0.9` draws samples.

        Returns:
          A text for each text, or with num_return (even 1) a list of Predictions for each.

        Raises:
          UserError: a language that is missing or unknown, an option that cannot be.
        """
        if isinstance(texts, str):
            raise UserError('generate takes a list of texts, not one text')
        options |= {} if num_return is None else {'num_return': num_return}
        chosen = flags.changed(self.options, options)
        self.mark(source_lang, target_lang)
        before = self.num_cut
        examples = (Example(text, source_lang, target_lang) for text in texts)
        answers = list(self.stream(examples, chosen, reranker))
        if cut := self.num_cut - before:
            warnings.warn(f'{cut} of {len(texts)} inputs {self.what_is_cut}', stacklevel=2)
        return answers if num_return is not None else [found[0].text for found in answers]

    def stream(
        self,
        examples: Iterable[Example | None],
        options: decoding.Options | None = None,
        reranker: Reranker | None = None,
    ) -> Iterator[list[Prediction]]:
        """The answers to each example, in the order of the examples, while later ones are computed.

        Args:
          examples: read ahead by CHUNK_BATCHES batches at most. None says that it may take a while
            to the next one, so that those before it are answered first.
          options: how; default self.options.
          reranker: ranks the answers anew: Mmi, or Relevance.
        """
        options = options or self.options
        wanted = options.num_return
        if reranker:
            options = reranker.candidates(options)
        started: collections.deque = collections.deque()
        first = 0
        for chunk, pause in chunks(examples, self.batch_size):
            if chunk:
                started.append((chunk, self._start(chunk, first, options)))
                first += len(chunk)
            while started and (pause or len(started) > 1):
                done, answers = started.popleft()
                found = self._finish(len(done), answers, options.num_return)
                found = reranker.rerank(done, found) if reranker else found
                yield from (row[:wanted] for row in found)

    def mark(self, source_lang: str | None, target_lang: str | None) -> _Mark:
        """What tells the model these languages.

        Raises:
          UserError: a language is missing, or the model does not know it.
        """
        pair = source_lang, target_lang
        if pair not in self._marks:
            self._marks[pair] = self._make_mark(*pair)
        return self._marks[pair]

    def _make_mark(self, source_lang: str | None, target_lang: str | None) -> _Mark:
        known, tokenizer = self.languages, self._tokenizer
        target_lang = known.choose(self.name, target_lang)
        if target_lang is not None and not known.allowed:
            raise UserError(
                f'{self.name} is told no target language: its vocabulary has no language tokens, '
                'and it comes from no run with languages; leave out target_lang'
            )
        family = vocabularies.FAMILIES[tokenizer.family]
        if 'source_lang' in family.source and tokenizer.languages():
            source_lang = source_lang or known.sources.get(target_lang)
            if source_lang not in tokenizer.languages():
                raise UserError(
                    f'{self.name} is told the language of the input, and got {source_lang!r}; set '
                    f'source_lang to one of {", ".join(tokenizer.languages())}'
                )
        # As pipeline.tag_target_language writes it.
        tagged = target_lang and tokenizer.tags == 'target_in_source'
        return _Mark(
            f'<{target_lang}> ' if tagged else '',
            *tokenizer.prefix_ids(source_lang, target_lang),
            tokenizer.forced_first(target_lang),
        )

    @property
    def what_is_cut(self) -> str:
        """Ends the sentence '3 of 10 inputs ...'."""
        return f'were longer than {self.max_input_length} tokens and were cut'

    # ------------------------------------------------------------------------- texts to the device

    def _start(
        self, chunk: Sequence[Example], first: int, options: decoding.Options
    ) -> list[tuple[list[int], decoding.Decoded]]:
        """Dispatches a chunk, longest inputs first; returns before the device has answered.

        Args:
          chunk: texts.
          first: the number of the first, which with its seed decides a sample.
          options: how.

        Returns:
          For each batch the places of its rows in the chunk, and what is decoded.
        """
        places = [i for i, example in enumerate(chunk) if example.text.strip()]
        inputs = dict(zip(places, self._inputs([chunk[i] for i in places]), strict=True))
        self.num_cut += sum(len(row) > self.max_input_length for row in inputs.values())
        answers = []
        for batch, rows, width in self._shapes.batches({i: len(row) for i, row in inputs.items()}):
            arrays = self._arrays([{'inputs': inputs[i]} for i in batch], rows, width, 1)
            arrays = {k: array for k, array in arrays.items() if k.startswith('encoder_')}
            empty = [0] * (rows - len(batch))
            arrays['example_index'] = np.array([first + i for i in batch] + empty, np.int32)
            forced = [self.mark(*chunk[i][1:]).forced_first for i in batch]
            if forced[0] is not None:
                arrays['forced_first'] = np.array(forced + [forced[0]] * len(empty), np.int32)
            answers.append((batch, self._decode(arrays, options)))
        return answers

    def _inputs(self, examples: Sequence[Example]) -> list[np.ndarray]:
        """The ids of each input, as preparation writes them."""
        marks = [self.mark(example.source_lang, example.target_lang) for example in examples]
        texts = [mark.text + example.text for mark, example in zip(marks, examples, strict=True)]
        ids = zip(marks, self._tokenizer.encode_batch(texts), strict=True) if texts else ()
        end = [self._tokenizer.eos_id]
        return [np.concatenate([mark.ids, row, end]).astype(np.int32) for mark, row in ids]

    def _arrays(
        self, examples: Sequence[Mapping[str, np.ndarray]], rows: int, inputs: int, targets: int
    ) -> dict[str, np.ndarray]:
        """Features of [rows, inputs] and [rows, targets], cut as in training.

        Without targets there is an end in their place.
        """
        end = {'targets': np.array([self._tokenizer.eos_id], np.int32)}
        return features.generation(
            [*({**end, **example} for example in examples), *[[]] * (rows - len(examples))],
            lengths={'inputs': inputs, 'targets': targets},
            limits={'inputs': self.max_input_length, 'targets': targets},
            conventions=self._conventions,
        )

    def _decode(self, arrays: dict[str, np.ndarray], options: decoding.Options) -> decoding.Decoded:
        """One batch; every shape and kind of decoding is compiled once."""
        # The seed is data, and what is not wanted of the beams is left out afterwards.
        kind = dataclasses.replace(options, seed=0, num_return=options.hypotheses)
        self._compiled.add((kind, arrays['encoder_input_tokens'].shape))
        if kind not in self._programs:
            self._programs[kind] = self._program(kind)
        batch = partitioning.put_batch(arrays, self._mesh)
        with partitioning.activate(self._mesh):
            return self._programs[kind](self._params, batch, jax.random.key(options.seed))

    def _program(self, options: decoding.Options) -> Callable[..., decoding.Decoded]:
        ids = self._conventions

        def decode(params: Any, batch: dict[str, jax.Array], rng: jax.Array) -> decoding.Decoded:
            forced_first = batch.pop('forced_first', None)
            return decoding.decode(
                self._model,
                params,
                batch,
                options,
                start_id=ids.decoder_start_id,
                eos_id=ids.eos_id,
                pad_id=ids.pad_id,
                forced_first=forced_first,
                rng=rng,
            )

        return jax.jit(decode)

    def _finish(
        self, size: int, answers: list[tuple[list[int], decoding.Decoded]], num_return: int
    ) -> list[list[Prediction]]:
        """Waits for the answers to a chunk of that size; in order."""
        found = [[Prediction('', 0.0, 0.0, 0)] * num_return for _ in range(size)]
        for batch, decoded in answers:
            tokens, scores, log_probabilities = (
                np.asarray(x)[: len(batch), :num_return] for x in decoded
            )
            texts = self._tokenizer.decode_batch(tokens.reshape(-1, tokens.shape[-1]))
            lengths = mmi_lib.lengths_of(tokens, self._tokenizer.eos_id)
            columns = [np.ravel(x).tolist() for x in (scores, log_probabilities, lengths)]
            flat = [Prediction(*row) for row in zip(texts, *columns, strict=True)]
            for row, place in enumerate(batch):
                found[place] = flat[row * num_return : (row + 1) * num_return]
        return found

    # ------------------------------------------------------------------------- texts that are given

    def log_probabilities(self, examples: Sequence[Example], answers: Sequence[str]) -> np.ndarray:
        """The log-probability [examples] of an answer to each example, end included, in nats.

        Answers that are longer than max_input_length are cut, like inputs.
        """
        end = [self._tokenizer.eos_id]
        prefixes = [
            self.mark(example.source_lang, example.target_lang).target for example in examples
        ]
        ids = self._tokenizer.encode_batch(answers, target=True)
        pairs = [
            {'inputs': row, 'targets': np.concatenate([prefix, answer, end]).astype(np.int32)}
            for row, prefix, answer in zip(self._inputs(examples), prefixes, ids, strict=True)
        ]
        longest = {i: max(map(len, pair.values())) for i, pair in enumerate(pairs)}
        found = []
        for batch, rows, width in self._shapes.batches(longest):
            self._compiled.add((rows, width))
            arrays = self._arrays([pairs[i] for i in batch], rows, width, width)
            placed = partitioning.put_batch(arrays, self._mesh)
            with partitioning.activate(self._mesh):
                found.append((batch, self._row_losses(self._params, placed)['loss']))
        result = np.zeros(len(pairs))
        for batch, losses in found:
            result[batch] = -np.asarray(losses)[: len(batch)]
        return result


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
        return mmi_lib.bidirectional(
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


def load(
    spec: str,
    *,
    mesh: Mapping[str, int] | None = None,
    batch_size: int = BATCH_SIZE,
    max_input_length: int = 0,
    dtype: str = '',
    responses: str = '',
    lm_weight: float | None = None,
) -> Model | Retriever | Classifier | Tagger:
    """The model in a workdir, a folder of Hugging Face's form or behind a hub name.

    Args:
      spec: see the top of xlbench/predict.py.
      mesh: sizes of its axes, as in a config; default: every device has its own rows.
      batch_size: texts that are answered together.
      max_input_length: tokens; default: that of the run's final evaluation, else 512 or what the
        model holds.
      dtype: of activations: 'float32' or 'bfloat16'; default: the model's own.
      responses, lm_weight: of a retriever, see Retriever.

    Returns:
      A Retriever for a run whose objective is retrieval, a Classifier for classification, a Tagger
      for tagging, otherwise a Model.

    Raises:
      UserError: there is no such model, or it cannot be run like this.
    """
    devices = partitioning.make_mesh(**mesh or {})
    shards = partitioning.batch_shards(devices)
    if batch_size < 1 or batch_size % shards:
        needed = '1 or more'
        if shards > 1:
            needed = f'a multiple of {shards}, the devices (replica x data x fsdp) that share rows'
        raise UserError(f'batch_size is {batch_size}; it must be {needed}')
    if max_input_length and max_input_length < 2:
        raise UserError(f'max_input_length is {max_input_length}; 2 or more tokens are allowed')
    found = loading.open_model(spec, devices, {'dtype': dtype} if dtype else {})
    most = getattr(found.model.config, 'max_positions', None)
    if most and max_input_length > most:
        raise UserError(
            f'max_input_length is {max_input_length}, but {spec} has positions for {most} tokens; '
            f'set it to {most} or less'
        )
    sizes = dict(
        batch_size=batch_size, max_input_length=max_input_length or found.lengths['inputs']
    )
    if found.objective.view == 'retrieval':
        return Retriever(spec, found, devices, responses=responses, lm_weight=lm_weight, **sizes)
    for name, value in (('responses', responses or None), ('lm_weight', lm_weight)):
        if value is not None:
            does = 'gives labels' if found.labels else 'writes its answers'
            raise UserError(f'{name} is for retrievers, and {spec} {does}; leave it out')
    if kind := KINDS.get(found.objective.view):
        return kind(spec, found, devices, **sizes)
    return Model(
        spec,
        found.model,
        found.params,
        found.tokenizer,
        devices,
        found.known,
        found.options,
        **sizes,
    )
