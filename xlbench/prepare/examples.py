"""The examples of a task and split: its texts are read and tokenised in large batches.

A task that ends in tokenisation has the examples that SeqIO's own pipeline makes of it; all others
go through that pipeline.
"""

import dataclasses
import functools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent import futures
from typing import TYPE_CHECKING, Any

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


@dataclasses.dataclass(frozen=True)
class Side:
    """The encoding of the texts of a feature as ids."""

    is_target: bool  # See Tokenizer.encode_batch.
    before: tuple[int, ...] = ()  # Ids that stand before those of each text ...
    behind: tuple[int, ...] = ()  # ... and behind them.


@dataclasses.dataclass(frozen=True)
class Encoding:
    """The encoding of the texts of a task as ids; fields that are no features stay texts."""

    sides: Mapping[str, Side]
    has_views: bool = False  # Of inputs, see preprocessors.TokenizeViews.

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
    here = preprocessors.cache_here
    return [step for step in task.preprocessors if not preprocessors.is_one_of(step, here)]


def _label_step(task: DeclaredTask) -> preprocessors.EncodeLabelled | None:
    """Returns the step from texts and labels to ids, if it is all that a task does with records."""
    match _steps(task):
        case [preprocessors.EncodeLabelled() as step]:
            return step if isinstance(task.source, pipeline.RecordSource) else None
    return None


def _text_steps(task: DeclaredTask) -> tuple[list[Preprocessor], Callable[[], Encoding]] | None:
    """Returns the steps before tokenisation, and the encoding, if only prefix and end follow."""
    steps = _steps(task)
    plain = all(
        name in ('inputs', 'targets')
        and isinstance(feature.vocabulary, binding.Vocabulary)
        and seqio_tasks.is_plain(feature)
        for name, feature in task.output_features.items()
    )
    if not plain or not steps or not preprocessors.is_one_of(steps[-1], preprocessors.append_eos):
        return None
    steps.pop()
    if steps and steps[-1] == preprocessors.cut_passage:  # Examples are prepared whole.
        steps.pop()
    if steps and isinstance(steps[-1], preprocessors.TokenizeViews):
        return steps[:-1], functools.partial(_encoding, task, steps[-1].prefix, has_views=True)
    prefix = steps[-1] if steps and isinstance(steps[-1], preprocessors.AddPrefix) else None
    if prefix:
        steps.pop()
    if not steps or not preprocessors.is_one_of(steps.pop(), preprocessors.tokenize):
        return None
    return steps, functools.partial(_encoding, task, prefix)


def _encoding(
    task: DeclaredTask, prefix: preprocessors.AddPrefix | None, has_views: bool = False
) -> Encoding:
    """Returns the encoding with the vocabulary in use; `prefix` stands before ids."""
    prefixes = prefix.prefixes() if prefix else {}
    eos = (pipeline.tokenizer().eos_id,)
    sides = {
        name: Side(
            feature.vocabulary == pipeline.vocabulary('targets'),
            before=tuple(prefixes[name].tolist()) if name in prefixes else (),
            behind=eos if feature.add_eos else (),
        )
        for name, feature in task.output_features.items()
    }
    return Encoding(sides, has_views)


def _text_function(
    task: DeclaredTask, steps: Sequence[Preprocessor]
) -> Callable[[Texts], Texts] | None:
    """Returns what steps do to the fields of a task's records; None if it takes TensorFlow."""
    functions = [on_texts for step in steps if (on_texts := preprocessors.on_texts(step))]
    if not isinstance(task.source, pipeline.RecordSource) or len(functions) < len(steps):
        return None

    def apply(texts: Texts) -> Texts:
        for function in functions:
            texts = function(texts)
        return texts

    try:
        fields = apply({name: [] for name in task.source.fields})
    except KeyError:  # A template has a field that the records lack; SeqIO's pipeline says which.
        return None
    return apply if set(task.output_features) <= set(fields) else None


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


def _plain_texts(task: DeclaredTask, split: str) -> Iterator[Texts] | None:
    """The texts of a task before tokenisation, in batches; None if it does not end in that."""
    if (steps := _text_steps(task)) is None:
        return None
    if (function := _text_function(task, steps[0])) is not None:
        return map(function, task.source.chunks(split, task.source.paths(split)))
    dataset = _text_dataset(task, split, steps[0])
    if dataset is None:
        return None
    return (
        {name: [x.decode() for x in values.tolist()] for name, values in batch.items()}
        for batch in dataset.as_numpy_iterator()
    )


def _known_texts(task: DeclaredTask, split: str) -> Iterator[Texts]:
    batches = _plain_texts(task, split)
    if batches is None:
        raise errors.UserError(
            f'task {task.name} does not end in tokenisation of plain text, so that its texts are '
            'not known; name a task that reads a text and writes one'
        )
    return batches


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
        return bool(seqio_tasks.source_paths(task, split))
    except errors.UserError:
        return False


# ---------------------------------------------------------------------------------------------
# Examples.


def encoded_texts(task: DeclaredTask, split: str) -> tuple[Encoding, Iterator[Texts]] | None:
    """Returns the texts of a task in batches, and their encoding; None if it does more."""
    steps, batches = _text_steps(task), _plain_texts(task, split)
    return None if steps is None or batches is None else (steps[1](), batches)


def _seqio_examples(task: DeclaredTask, split: str) -> Iterator[list[prepared.Record]]:
    dataset = task.get_dataset(
        sequence_length=None, split=split, shuffle=False, try_in_mem_cache=False
    )
    batch = []
    for example in dataset.as_numpy_iterator():
        record = {}
        for name, value in example.items():
            if isinstance(value, bytes):
                record[name] = value.decode()
            elif name in task.output_features:
                record[name] = value
            elif np.ndim(value) == 0 and not isinstance(value, dict):
                record[name] = str(value)
        batch.append(seqio_tasks.complete_record(task, example, record))
        if len(batch) == BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def examples(task: DeclaredTask, split: str, processes: int = 1) -> Iterator[prepared.Packed]:
    """Yields the examples of a task and split in order; ids end in eos and are not cut.

    Vocabulary and data root are those that are bound. Up to `processes` processes may tokenise.
    """
    if (step := _label_step(task)) is not None:  # One by one, without TensorFlow in between.
        return map(prepared.pack, step.encode(source_records(task, split)))
    encoded = encoded_texts(task, split)
    if encoded is None:
        return map(prepared.pack, _seqio_examples(task, split))
    if processes > 1 and not pipeline.tokenizer().uses_cores:
        return _pack_elsewhere(*encoded, processes)
    return _pack_beside(*encoded)


def encoder(task: DeclaredTask) -> Encode | None:
    """Returns a function that makes the examples of any run of a task's `source_records`.

    It is None for a task whose steps may look at several records.
    """
    if (step := _label_step(task)) is not None:
        return lambda rows: map(prepared.pack, step.encode([rows]))
    if (steps := _text_steps(task)) is None:
        return None
    before, encoding_of = steps
    if (function := _text_function(task, before)) is None:
        return None

    def encode(rows: Sequence[Record]) -> Iterator[prepared.Packed]:
        encoding, tokenizer = encoding_of(), pipeline.tokenizer()
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
