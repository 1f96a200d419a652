"""One task and split -> its examples, as SeqIO's own pipeline makes them, in large batches."""

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xlbench import pipeline
from xlbench.data import prepared
from xlbench.data.readers import Record
from xlbench.pipeline import (
    DeclaredTask,
    binding,
    late,
    preprocessors,
    seqio_tasks,
)
from xlbench.preparation.encoding import Encoding, Side
from xlbench.system import errors

if TYPE_CHECKING:
    import tensorflow as tf

BATCH = 1024  # Examples for one call of the tokenizer.

Example = dict[str, str | np.ndarray]  # What is stored: texts, and ids [length] int32.
Preprocessor = Callable[..., Any]  # A tf.data.Dataset -> another one.
Encode = Callable[[Sequence[Record]], Iterator[list[Example]]]


def _encoding(
    task: DeclaredTask, prefix: preprocessors.AddPrefix | None, has_views: bool = False
) -> Encoding:
    """The encoding of a task's texts with the vocabulary in use; `prefix` stands before ids."""
    prefixes = prefix.prefixes() if prefix else {}
    eos = (pipeline.tokenizer().eos_id,)
    sides = {
        name: Side(
            feature.vocabulary.is_target,
            before=tuple(prefixes[name].tolist()) if name in prefixes else (),
            behind=eos if feature.add_eos else (),
        )
        for name, feature in task.output_features.items()
    }
    return Encoding(sides, has_views)


def _text_steps(
    task: DeclaredTask,
) -> tuple[list[Preprocessor], Callable[[], Encoding]] | None:
    """The steps of a task before tokenisation, and its encoding, if only prefix and eos follow.

    Such a task can be tokenised in large batches, with the result of SeqIO's own pipeline; another
    gets None and goes through SeqIO's.
    """
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
    prefix = steps.pop() if steps and isinstance(steps[-1], preprocessors.AddPrefix) else None
    if not steps or not preprocessors.is_one_of(steps.pop(), preprocessors.tokenize):
        return None
    return steps, functools.partial(_encoding, task, prefix)


def _steps(task: DeclaredTask) -> list[Preprocessor]:
    here = preprocessors.cache_here
    return [step for step in task.preprocessors if not preprocessors.is_one_of(step, here)]


def _label_step(task: DeclaredTask) -> preprocessors.EncodeLabelled | None:
    """The step from texts and labels to ids, if it is all that a task does with its records."""
    steps = _steps(task)
    alone = len(steps) == 1 and isinstance(steps[0], preprocessors.EncodeLabelled)
    return steps[0] if alone and isinstance(task.source, pipeline.RecordSource) else None


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


def _text_function(
    task: DeclaredTask, steps: Sequence[Preprocessor]
) -> Callable[[preprocessors.Texts], preprocessors.Texts] | None:
    """Returns what steps do to the fields of a task's records; None if it takes TensorFlow."""
    functions = [preprocessors.on_texts(step) for step in steps]
    if not isinstance(task.source, pipeline.RecordSource) or None in functions:
        return None

    def apply(texts: preprocessors.Texts) -> preprocessors.Texts:
        for function in functions:
            texts = function(texts)
        return texts

    try:
        fields = apply({name: [] for name in task.source.fields})
    except KeyError:  # A template has a field that the records lack; SeqIO's pipeline says which.
        return None
    return apply if set(task.output_features) <= set(fields) else None


def _plain_texts(task: DeclaredTask, split: str) -> Iterator[preprocessors.Texts] | None:
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


def encoded_texts(
    task: DeclaredTask, split: str
) -> tuple[Encoding, Iterator[preprocessors.Texts]] | None:
    """The texts of a task in order, in batches, and how they become the examples.

    None for a task that does more than that; see `examples`.
    """
    steps, texts = _text_steps(task), _plain_texts(task, split)
    return None if steps is None or texts is None else (steps[1](), texts)


def _text_examples(
    encoding: Encoding, batches: Iterable[preprocessors.Texts]
) -> Iterator[list[Example]]:
    tokenizer = pipeline.tokenizer()
    return (prepared.records(encoding.columns(tokenizer, batch)) for batch in batches)


def _seqio_examples(task: DeclaredTask, split: str) -> Iterator[list[Example]]:
    dataset = task.get_dataset(
        sequence_length=None, split=split, shuffle=False, try_in_mem_cache=False
    )
    examples = []
    for example in dataset.as_numpy_iterator():
        record = {}
        for name, value in example.items():
            if isinstance(value, bytes):
                record[name] = value.decode()
            elif name in task.output_features:
                record[name] = value
            elif np.ndim(value) == 0 and not isinstance(value, dict):
                record[name] = str(value)
        examples.append(seqio_tasks.complete_record(task, example, record))
        if len(examples) == BATCH:
            yield examples
            examples = []
    if examples:
        yield examples


def source_records(
    task: DeclaredTask, split: str, paths: Sequence[str] | None = None
) -> Iterator[list[Record]]:
    """The records of a RecordSource as it reads them, of all its files or of a part of them."""
    paths = task.source.paths(split) if paths is None else paths
    for chunk in task.source.chunks(split, paths):
        yield [dict(zip(chunk, row, strict=True)) for row in zip(*chunk.values(), strict=True)]


def encoder(task: DeclaredTask) -> Encode | None:
    """Encodes any run of a task's `source_records`, one example for each, as `examples` does.

    Returns:
      Records -> batches of examples; None for a task whose steps may look at several records.
    """
    if (step := _label_step(task)) is not None:
        return lambda rows: step.encode([rows])
    steps = _text_steps(task)
    function = None if steps is None else _text_function(task, steps[0])
    if function is None:
        return None

    def encode(rows: Sequence[Record]) -> Iterator[list[Example]]:
        columns = (
            {name: [row[name] for row in rows[i : i + BATCH]] for name in task.source.fields}
            for i in range(0, len(rows), BATCH)
        )
        return _text_examples(steps[1](), map(function, columns))

    return encode


def examples(task: DeclaredTask, split: str) -> Iterator[list[Example]]:
    """The examples of a task and split in order, in batches; ids end in eos and are not cut."""
    if (step := _label_step(task)) is not None:  # One by one, without TensorFlow in between.
        yield from step.encode(source_records(task, split))
        return
    encoded = encoded_texts(task, split)
    yield from _seqio_examples(task, split) if encoded is None else _text_examples(*encoded)


def texts(task: DeclaredTask, split: str) -> Iterator[str]:
    """Inputs and targets of a task and split as text, without language tags and labels."""
    if (step := _label_step(task)) is not None:
        for batch in source_records(task, split):
            yield from (record[name] for record in batch for name in step.texts)
        return
    batches = _plain_texts(task, split)
    if batches is None:
        if brought := seqio_tasks.vocabulary_of(task):
            raise errors.UserError(
                f'task {task.name} brings its own vocabulary, so that none is trained on it; name '
                f'that one: --vocabulary={brought}, in a config data.vocabulary'
            )
        raise errors.UserError(
            f'task {task.name} does not end in tokenisation of plain text, so that a vocabulary '
            'cannot be trained on it; name other tasks in --mixture'
        )
    for batch in batches:
        for name in task.output_features:
            yield from batch[name]


def text_rows(task: DeclaredTask, split: str) -> Iterator[Record]:
    """The examples of a task and split as texts, with the fields that it keeps.

    Where no vocabulary is bound, see pipeline.bound, they have no language tags.
    """
    batches = _plain_texts(task, split)
    if batches is None:
        raise errors.UserError(
            f'task {task.name} does not end in tokenisation of plain text, so that its texts are '
            'not known; name a task that reads a text and writes one'
        )
    for batch in batches:
        for values in zip(*batch.values(), strict=True):
            yield dict(zip(batch, values, strict=True))
