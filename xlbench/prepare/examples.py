"""The examples of a task and split: its texts are read and tokenised in large batches.

A task that ends in tokenisation has the examples that SeqIO's own pipeline makes of it; all others
go through that pipeline.
"""

import functools
import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent import futures
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from xlbench import pipeline
from xlbench.data import postprocess, prepared, tokenizers
from xlbench.data.readers import Record
from xlbench.data.statistics import Langs, Statistics
from xlbench.pipeline import DeclaredTask, binding, late, preprocessors, registry, seqio_tasks
from xlbench.pipeline.preprocessors import Texts
from xlbench.system import errors, work
from xlbench.system.progress import Progress

if TYPE_CHECKING:
    import tensorflow as tf

BATCH = 1024  # Examples for one call of the tokenizer.

Preprocessor = Callable[..., Any]  # A tf.data.Dataset -> another one.
Encode = Callable[[Sequence[Record]], Iterator[prepared.Packed]]


class Side(NamedTuple):
    """The encoding of the texts of a feature as ids."""

    is_target: bool  # See Tokenizer.encode_batch.
    before: tuple[int, ...]  # Ids that stand before those of each text ...
    behind: tuple[int, ...]  # ... and behind them.


class Encoding(NamedTuple):
    """The encoding of the texts of a task as ids; fields that are no features stay texts."""

    sides: Mapping[str, Side]
    has_views: bool  # Of inputs, see preprocessors.Tokenize.

    def packed(self, tokenizer: tokenizers.Tokenizer, batch: Texts) -> prepared.Packed:
        """Makes the examples of a batch of texts."""
        columns: prepared.Columns = {}
        for name, texts in batch.items():
            side = self.sides.get(name)
            if side is None:
                columns[name] = texts
                continue
            if self.has_views and name == 'inputs':
                before = np.array(side.before, np.int32)
                rows = tokenizer.encode_views(texts, [before] * len(texts))
            else:
                rows = tokenizer.encode_batch(texts, side.is_target)
            columns[name] = prepared.Ids.joined(rows, side.before, side.behind)
            columns[f'{name}_pretokenized'] = texts
        return prepared.pack(columns)


# ---------------------------------------------------------------------------------------------
# What the steps of a task are.


def _steps(task: DeclaredTask) -> list[Preprocessor]:
    steps: Any = map(preprocessors.as_ours, task.preprocessors)
    return [step for step in steps if step != preprocessors.cache_here]


def _label_step(task: DeclaredTask) -> preprocessors.EncodeLabelled | None:
    """Returns the step from texts and labels to ids, if it is all that a task does with records."""
    match _steps(task):
        case [preprocessors.EncodeLabelled() as step]:
            return step if isinstance(task.source, pipeline.RecordSource) else None
    return None


class TextSteps(NamedTuple):
    """The steps of a task that makes texts of its records, and encodes them at the end."""

    task: DeclaredTask
    before: list[Preprocessor]  # Those that make texts.
    tokenize: preprocessors.Tokenize

    def encoding(self) -> Encoding:
        """Returns the encoding with the vocabulary in use."""
        prefixes = self.tokenize.prefixes()
        eos = (pipeline.tokenizer().eos_id,)
        sides = {
            name: Side(
                feature.vocabulary == pipeline.vocabulary('targets'),
                before=tuple(prefixes[name].tolist()),
                behind=eos if feature.add_eos else (),
            )
            for name, feature in self.task.output_features.items()
        }
        return Encoding(sides, self.tokenize.has_views)

    def on_texts(self) -> Callable[[Texts], Texts] | None:
        """Returns what they do to the fields of the records; None if it takes TensorFlow."""
        source, functions = self.task.source, [*map(preprocessors.on_texts, self.before)]
        if not isinstance(source, pipeline.RecordSource) or None in functions:
            return None

        def apply(texts: Texts) -> Texts:
            for function in filter(None, functions):
                texts = function(texts)
            return texts

        try:
            fields = apply({name: [] for name in source.fields})
        except KeyError:  # A template has a field that the records lack; SeqIO says which.
            return None
        return apply if set(self.task.output_features) <= set(fields) else None


def _text_steps(task: DeclaredTask) -> TextSteps | None:
    """Returns the steps of a task that ends in tokenisation of plain texts; None for others."""
    plain = all(
        name in ('inputs', 'targets')
        and isinstance(feature.vocabulary, binding.Vocabulary)
        and seqio_tasks.is_plain(feature)
        for name, feature in task.output_features.items()
    )
    # Examples are prepared whole.
    match [step for step in _steps(task) if step != preprocessors.cut_passage]:
        case [*before, preprocessors.Tokenize() as step, preprocessors.append_eos] if plain:
            return TextSteps(task, before, step)
    return None


# ---------------------------------------------------------------------------------------------
# Texts.


def source_records(
    task: DeclaredTask, split: str, paths: Sequence[str] | None = None
) -> Iterator[list[Record]]:
    """Yields the records of a RecordSource as it reads them, of all its files or of some."""
    paths = task.source.paths(split) if paths is None else paths
    for chunk in task.source.chunks(split, paths):
        yield [dict(zip(chunk, row, strict=True)) for row in zip(*chunk.values(), strict=True)]


def _text_dataset(
    task: DeclaredTask, split: str, steps: Sequence[Preprocessor]
) -> 'tf.data.Dataset | None':
    """The texts of a task after some steps, in batches; None if they are not plain by then."""
    tf, seqio = late.tensorflow(), late.seqio()
    dataset = task.source.get_dataset(split=split, shuffle=False)
    for step in steps:
        step = seqio.utils.add_kwargs_to_transform(
            step, sequence_length=None, output_features=task.output_features
        )
        dataset = step(dataset)
    dataset = dataset.batch(BATCH)
    spec = dataset.element_spec
    texts = isinstance(spec, dict) and all(
        isinstance(s, tf.TensorSpec) and s.dtype == tf.string and s.shape.rank == 1
        for s in spec.values()
    )
    if not texts or not set(task.output_features) <= set(spec):
        return None
    return dataset.prefetch(4)


def encoded_texts(task: DeclaredTask, split: str) -> tuple[TextSteps, Iterator[Texts]] | None:
    """Returns the texts of a task in batches, with its steps; None if it does more with them."""
    if (steps := _text_steps(task)) is None:
        return None
    if (function := steps.on_texts()) is not None:
        return steps, map(function, task.source.chunks(split, task.source.paths(split)))
    if (dataset := _text_dataset(task, split, steps.before)) is None:
        return None
    return steps, (
        {name: [x.decode() for x in values.tolist()] for name, values in batch.items()}
        for batch in dataset.as_numpy_iterator()
    )


def _known_texts(task: DeclaredTask, split: str) -> Iterator[Texts]:
    if (encoded := encoded_texts(task, split)) is None:
        raise errors.UserError(
            f'task {task.name} does not end in tokenisation of plain text, so that its texts are '
            'not known; name a task that reads a text and writes one'
        )
    return encoded[1]


def texts(task: DeclaredTask, split: str) -> Iterator[str]:
    """Yields inputs and targets as text, without language tags and labels."""
    if (step := _label_step(task)) is not None:
        for records in source_records(task, split):
            yield from (record[name] for record in records for name in step.texts)
        return
    if brought := seqio_tasks.vocabulary_of(task):
        raise errors.UserError(
            f'task {task.name} brings its own vocabulary, so that none is trained on it; name that '
            f'one: --vocabulary={brought}, in a config data.vocabulary'
        )
    for batch in _known_texts(task, split):
        for name in task.output_features:
            yield from batch[name]


def measure(
    name: str, root: str, splits: tuple[str, ...], vocabulary: str
) -> tuple[dict[str, Statistics], Langs]:
    """Measures the lengths of a task's texts in splits, by default all whose files are there.

    Tokens are those of a vocabulary; '' counts none.

    Returns:
      The statistics of each split; the source and the target language.

    Raises:
      UserError: an unknown task or split, a missing file, or a task of other things than texts.
    """
    tokenizer = tokenizers.load(vocabulary, root) if vocabulary else None
    measured = {}
    with pipeline.bound(None, root):  # So texts have no language tags.
        task = registry.task(name)
        for split in splits:
            errors.check_known(f'split of {name}', split, task.splits)
        langs = getattr(task.source, 'source_lang', None), getattr(task.source, 'target_lang', None)
        for split in splits or filter(functools.partial(_has_files, task), task.splits):
            measured[split] = Statistics()
            with Progress(f'{name}/{split}', unit='examples') as progress:
                for batch in _known_texts(task, split):
                    for values in zip(*batch.values(), strict=True):
                        row = dict(zip(batch, values, strict=True))
                        targets = [row['targets']]
                        if task.postprocessor is postprocess.all_references:
                            targets = json.loads(row[postprocess.REFERENCES])
                        measured[split].add(row['inputs'], targets, langs, tokenizer)
                        progress.add()
    if not measured:
        raise errors.UserError(f'no file of task {name} is in {root}; name the data root: --root')
    return measured, langs


def _has_files(task: DeclaredTask, split: str) -> bool:
    try:
        return bool(seqio_tasks.source_files(task, split)[0])
    except errors.UserError:
        return False


# ---------------------------------------------------------------------------------------------
# Examples.


def _seqio_examples(task: DeclaredTask, split: str) -> Iterator[list[prepared.Record]]:
    dataset = task.get_dataset(
        sequence_length=None, split=split, shuffle=False, try_in_mem_cache=False
    )
    records = map(functools.partial(seqio_tasks.record_of, task), dataset.as_numpy_iterator())
    return iter(lambda: list(itertools.islice(records, BATCH)), [])


def examples(task: DeclaredTask, split: str, processes: int = 1) -> Iterator[prepared.Packed]:
    """Yields the examples of a task and split in order; ids end in eos and are not cut.

    Vocabulary and data root are those that are bound. Up to `processes` processes may tokenise.
    """
    if (step := _label_step(task)) is not None:  # One by one, without TensorFlow in between.
        return map(prepared.pack, step.encode(source_records(task, split)))
    if (encoded := encoded_texts(task, split)) is None:
        return map(prepared.pack, _seqio_examples(task, split))
    steps, batches = encoded
    if processes > 1 and not pipeline.tokenizer().uses_cores:
        return _pack_elsewhere(steps.encoding(), batches, processes)
    return _pack_beside(steps.encoding(), batches)


def encoder(task: DeclaredTask) -> Encode | None:
    """Returns a function that makes the examples of any run of a task's `source_records`.

    It is None for a task whose steps may look at several records.
    """
    if (step := _label_step(task)) is not None:
        return lambda rows: map(prepared.pack, step.encode([rows]))
    steps = _text_steps(task)
    if steps is None or (function := steps.on_texts()) is None:
        return None

    def encode(rows: Sequence[Record]) -> Iterator[prepared.Packed]:
        encoding, tokenizer = steps.encoding(), pipeline.tokenizer()
        for i in range(0, len(rows), BATCH):
            batch = rows[i : i + BATCH]
            fields: Texts = {name: [row[name] for row in batch] for name in task.source.fields}
            yield encoding.packed(tokenizer, function(fields))

    return encode


def _pack_beside(encoding: Encoding, batches: Iterable[Texts]) -> Iterator[prepared.Packed]:
    """Packs batches in a thread, in their order, while the next ones are read."""
    with futures.ThreadPoolExecutor(1) as thread:
        pack = functools.partial(encoding.packed, pipeline.tokenizer())
        for _, packed in work.in_flight(batches, lambda batch: thread.submit(pack, batch), depth=1):
            yield packed.result()


def _pack_elsewhere(
    encoding: Encoding, batches: Iterable[Texts], processes: int
) -> Iterator[prepared.Packed]:
    """Packs batches in processes of their own, in their order."""
    vocabulary = pipeline.tokenizer().name, pipeline.root()
    with work.Pool(processes, tokenizers.limit_threads, 1) as workers:
        jobs = ((encoding, batch, *vocabulary) for batch in batches)
        yield from workers.run(_pack, jobs, in_order=True)


def _pack(encoding: Encoding, batch: Texts, vocabulary: str, root: str) -> prepared.Packed:
    return encoding.packed(_tokenizer(vocabulary, root), batch)


_tokenizer = functools.cache(tokenizers.load)  # In a process of `_pack_elsewhere`.
