"""Evaluates generation: the loss of the references, and the scores of the decoded texts.

Examples, predictions and what ranks predictions anew are here for models that answer, too.
"""

import abc
import collections
import dataclasses
import functools
import itertools
import math
import pathlib
import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from xlbench import decoding as decoding_lib
from xlbench.data import features, outputs, postprocess
from xlbench.data.batches import Batch
from xlbench.data.prepared import Prepared
from xlbench.evaluators import base
from xlbench.metrics import suite as suite_lib
from xlbench.metrics.contract import Spec
from xlbench.parallel import programs
from xlbench.settings.decoding import make
from xlbench.system.errors import UserError
from xlbench.system.files import Json, Setting
from xlbench.system.trees import Params

Rows = dict[str, np.ndarray]  # [examples, ...] each.
# Parameters with what decoding makes of them once.
Weights = tuple[Params, decoding_lib.Layout, decoding_lib.Copies]
# See few_widths. On two CPU cores such a program takes 10 seconds to compile, and a batch of 64
# with inputs 1.4 times as wide takes 0.4 seconds longer.
MANY_BATCHES, WIDER = 8, 1.5
_SCORES = ('loss', 'perplexity', 'log_probability')  # The evaluation's own, of task or example.


class Example(NamedTuple):
    """One text to answer; the languages are ISO codes."""

    text: str
    source_lang: str | None = None
    target_lang: str | None = None


@dataclasses.dataclass(frozen=True)
class Prediction:
    """One answer that a model wrote."""

    text: str  # Without special tokens.
    score: float  # By which answers are ranked; of beams with the length penalty.
    log_probability: float  # Of its tokens under the model, nats.
    num_tokens: int  # The end included.


@dataclasses.dataclass(frozen=True)
class Reranker(abc.ABC):
    """Gives the answers of n-best lists new scores, and sorts each list by them.

    A subclass has the model that ranks as its first field, and its weights as fields of floats.
    """

    kind: ClassVar[str]  # What metrics.json and the names of folders call it.

    @property
    def facts(self) -> dict[str, Json]:
        """Its entries in metrics.json: its kind, the name of its model and its weights."""
        model, *weights = dataclasses.fields(self)
        named = {field.name: getattr(self, field.name) for field in weights}
        return {self.kind: getattr(self, model.name).name, **named}

    @property
    def words(self) -> list[str]:
        """Words of a folder's name, with the weights that are not at their defaults."""
        (kind, model), *weights = self.facts.items()
        defaults = {field.name: field.default for field in dataclasses.fields(self)}
        changed = [f'{name}{value}' for name, value in weights if value != defaults[name]]
        place = pathlib.PurePath(str(model).partition('@')[0]).name
        return [kind, re.sub('[^A-Za-z0-9.]+', '_', place), *changed]

    @abc.abstractmethod
    def scores(self, examples: Sequence[Example], answers: Sequence[Prediction]) -> np.ndarray:
        """The new scores [n] of n answers, each to the example at its place."""

    def candidates(self, options: decoding_lib.Options) -> decoding_lib.Options:
        """Options that return all that are to be ranked: every beam, or every sample.

        Raises:
          UserError: there is only one.
        """
        if options.hypotheses < 2:
            several = 'set num_beams, or draw several samples with num_return'
            raise UserError(f'a single answer cannot be ranked again; {several}')
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


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(base.Options):
    """A block of config.evals for this evaluator.

    Attributes:
      decode: False computes the loss alone.
      decoding: arguments of decoding.Options; greedy by default, as long as `lengths` has it. Of
        num_return texts a metric of several predictions gets all, any other the first.
      metrics: names of further metrics, as for `xlbench.score --metrics`, beside each task's own.
    """

    decode: bool = True
    decoding: Mapping | None = None
    metrics: Sequence[str] = ()

    def __post_init__(self):
        super().__post_init__()
        for name in self.metrics:
            suite_lib.check_name(name)

    def further_metrics(self, task: Prepared) -> list[Spec]:
        """`metrics` in the task's language; none where no texts are written."""
        names = self.metrics if self.decode else ()
        return [suite_lib.named(name, task.manifest['target_lang']) for name in names]


class GenerationEvaluator(base.Evaluator[base.Task, Weights, Rows]):
    """Scores a model that writes texts on prepared tasks; every example exactly once.

    The model has the methods of models.generator.Generator.

    Attributes:
      ranker: ranks the texts of each example anew before they are scored, if there is one.
      keep: how many of them stay then, the best.
    """

    views: ClassVar[tuple[str, ...]] = (
        'generation', 'language_start', 'language_model', 'multi_view',
    )  # fmt: skip
    options_type = Options
    options: Options
    fits_targets = True
    own_scores = ('loss', 'perplexity')
    ranker: Reranker | None = None
    keep: int = 1

    def __init__(self, *parts: Any, **block: Setting):
        super().__init__(*parts, **block)
        model, objective = self._model, self._objective
        self._options = make(self.options.decoding, self.options.lengths['targets'])
        for task in self.tasks if self.options.decode else ():
            base.check_metrics(task, self._options.num_return, _SCORES, True)
        # Apart, because few programs then have both widths of a batch: losses need the targets',
        # and texts are as long as they are.
        self._encode = programs.shared(decoding_lib.encode, model)
        self._row_losses = programs.shared(type(objective).row_losses, objective, model)
        every = (task.batches.inputs_of_batches for task in self.tasks)
        self._widths = few_widths(collections.Counter(itertools.chain.from_iterable(every)))
        known = features.Conventions.of(self.tasks[0].prepared.manifest)
        self._decode_batch = programs.shared(
            decode_batch, model, self._options, known, objective.view, static_argnums=0
        )

    def has_texts(self, task: base.Task) -> bool:
        return self.options.decode

    def begin(self, params: Params, check: base.Check) -> Weights:
        del check
        copies = decoding_lib.copies(self._model, params, self._options, self._mesh)
        return params, decoding_lib.layout_of(self._model, params), copies

    def rows(self, task: base.Task, shared: Weights, check: base.Check) -> Rows:
        first = self._tokenizer.forced_first(task.prepared.manifest['target_lang'])

        def forced(batch: Batch) -> Batch:
            rows = len(batch['example_index'])
            return {} if first is None else {'forced_first': np.full(rows, first, np.int32)}

        params, layout, copies = shared

        def predict(batch: dict[str, jax.Array]) -> dict[str, jax.Array]:
            if not self._model.decoder_only:
                source = {name: x for name, x in batch.items() if name.startswith('encoder_')}
                batch['encoded'] = self._encode(params, source)
            rows = self._row_losses(params, batch)
            if not self.options.decode:
                return rows
            given = self._to_decode(batch), copies(len(batch['example_index']))
            return rows | self._decode_batch(layout, params, *given)._asdict()

        return base.score_examples(task, predict, self._mesh, check, forced)

    def _to_decode(self, batch: Mapping[str, jax.Array]) -> dict[str, jax.Array]:
        """Selects the arrays that decoding reads; the width of the targets is in none of them."""
        firsts = []  # Features of targets of which decoding reads the first position.
        if self._model.decoder_only:
            firsts = ['decoder_input_tokens', 'decoder_segment_ids']
        if self._model.reads_languages:
            firsts.append('decoder_language_ids')
        chosen = {
            name: x[:, :1] if name in firsts else x
            for name, x in batch.items()
            if name in firsts or not name.startswith(('decoder_', 'prompt_'))
        }
        if isinstance(chosen.get('encoded'), jax.Array):  # Not a tree of a family's own.
            source = {name: chosen[name] for name in ('encoded', 'encoder_segment_ids')}
            width = self._widths[source['encoder_segment_ids'].shape[1]]
            # Nothing else of the inputs is read. All are widened, if by 0, to be sharded alike.
            rest = {name: x for name, x in chosen.items() if not name.startswith('encoder_')}
            chosen = rest | _widened(width, source)
        return chosen

    def summarise(self, task: base.Task, rows: Rows) -> tuple[base.Result, base.Lines]:
        nats = float(rows['loss'].sum()) / max(float(rows['weight'].sum()), 1.0)
        scores = {'loss': nats, 'perplexity': math.exp(min(nats, 700.0))}
        facts: dict[str, Json] = {'signatures': {}, 'metrics': []}
        written: base.Lines = []
        if self.options.decode:
            records = [task.prepared[i] for i in range(task.batches.num_examples)]
            if self.ranker:
                rows = self._ranked(self.ranker, task, records, rows)
            n_best = self._texts(rows['tokens'])
            compared = postprocess.Postprocess(task.prepared)(records, n_best)
            of_metrics, per_example = task.metrics.score(*compared, _SCORES)
            scores |= of_metrics
            references = postprocess.references(task.prepared, records)
            facts = task.metrics.facts(list(map(len, references)))
            written = [
                base.line(
                    i,
                    record,
                    texts[0],
                    {
                        'loss': float(rows['loss'][i] / max(rows['weight'][i], 1.0)),
                        'log_probability': float(rows['log_probabilities'][i, 0]),
                        **per_example[i],
                    },
                    **({'references': references[i]} if len(references[i]) > 1 else {}),
                    **self._n_best(rows, i, texts),
                )
                for i, (record, texts) in enumerate(zip(records, n_best, strict=True))
            ]
        result = {
            'scores': scores,
            **facts,
            'num_examples': task.batches.num_examples,
            'trimmed': task.batches.trimmed,
            'decoding': self._facts() if self.options.decode else {},
        }
        return result, written

    def _facts(self) -> dict[str, Json]:
        """The method, the length and the options that differ from a default; the ranker's."""
        default = decoding_lib.Options()
        facts = {
            name: value
            for name, value in dataclasses.asdict(self._options).items()
            if name in ('method', 'max_length') or value != getattr(default, name)
        }
        return facts | ({'num_return': self.keep, **self.ranker.facts} if self.ranker else {})

    def _ranked(
        self, ranker: Reranker, task: base.Task, records: Sequence[Mapping[str, Json]], rows: Rows
    ) -> Rows:
        """The rows of examples with the ranker's scores of their texts, the best of these first."""
        prepared, about = task.prepared, task.prepared.manifest
        eos_id = features.Conventions.of(about).eos_id
        lengths = np.asarray(decoding_lib.lengths_of(jax.numpy.asarray(rows['tokens']), eos_id))
        texts = itertools.chain.from_iterable(self._texts(rows['tokens']))
        values = (rows['scores'], rows['log_probabilities'], lengths)
        answers = list(map(Prediction, texts, *(array.ravel().tolist() for array in values)))
        inputs = outputs.unmarked(prepared, [record['inputs_pretokenized'] for record in records])
        langs = about.get('source_lang'), about.get('target_lang')
        count = len(answers) // len(inputs)
        examples = [Example(text, *langs) for text in inputs for _ in range(count)]
        scores = np.asarray(ranker.scores(examples, answers), np.float64).reshape(-1, count)
        order = np.argsort(-scores, axis=1, kind='stable')[:, : self.keep]
        best = np.arange(len(order))[:, None], order
        kept = {name: rows[name][best] for name in ('log_probabilities', 'tokens')}
        return rows | kept | {'scores': scores[best]}

    def _texts(self, tokens: np.ndarray) -> list[list[str]]:
        """Tokens [examples, num_return, length] -> the texts of each example, best first."""
        count = tokens.shape[1]
        texts = self._tokenizer.decode_batch(list(tokens.reshape(-1, tokens.shape[-1])))
        return [texts[i : i + count] for i in range(0, len(texts), count)]

    def _n_best(self, rows: Rows, i: int, texts: Sequence[str]) -> dict[str, Json]:
        """The entry `n_best` of predictions.jsonl, where an example has several texts."""
        if len(texts) == 1:
            return {}
        values = (rows[name][i].tolist() for name in ('scores', 'log_probabilities'))
        return {
            'n_best': [
                {'prediction': text, 'score': score, 'log_probability': log_probability}
                for text, score, log_probability in zip(texts, *values, strict=True)
            ]
        }


def few_widths(batches: Mapping[int, int]) -> dict[int, int]:
    """The width to decode with for each width of inputs, of which `batches` says how many have it.

    A width is another's, up to WIDER times as wide, unless enough batches have it: a program that
    decodes takes long to compile, and the width of the inputs costs it little.
    """
    few: dict[int, int] = {}
    last = 0
    for width in sorted(batches, reverse=True):
        if batches[width] >= MANY_BATCHES or width * WIDER < last or not last:
            last = width
        few[width] = last
    return few


@functools.partial(jax.jit, static_argnums=0)
def _widened(width: int, source: Mapping[str, jax.Array]) -> Mapping[str, jax.Array]:
    """Arrays [rows, inputs, ...] with zeros up to a width, which are padding."""

    def widen(x: jax.Array) -> jax.Array:
        return jnp.pad(x, [(0, 0), (0, width - x.shape[1])] + [(0, 0)] * (x.ndim - 2))

    return jax.tree.map(widen, source)


def decode_batch(
    model: nn.Module,
    options: decoding_lib.Options,
    known: features.Conventions,
    view: str,
    layout: decoding_lib.Layout,
    params: Params,
    batch: dict[str, jax.Array],
    copies: Sequence[jax.Array] | None,
    rng: jax.Array | None = None,
) -> decoding_lib.Decoded:
    """Decodes a batch with the ids that begin and end texts; `programs.shared` compiles it."""
    start, first = known.begin(batch.pop('forced_first', None), view)
    return decoding_lib.decode(
        model,
        params,
        batch,
        options,
        start_id=start,
        eos_id=known.eos_id,
        pad_id=known.pad_id,
        forced_first=first,
        rng=rng,
        layout=layout,
        copies=copies,
    )
