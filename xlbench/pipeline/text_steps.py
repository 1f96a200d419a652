"""The steps of a task that make texts of texts, each record by itself."""

import functools
import itertools
import string
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from xlbench.pipeline import late
from xlbench.pipeline.binding import Feature, tokenizer

if TYPE_CHECKING:
    import tensorflow as tf

Texts = dict[str, Sequence[str]]  # {field: the text of each record}.


def text_map(
    fn: Callable[..., 'dict[str, tf.Tensor]'],
    on_texts: Callable[..., Texts] | None = None,
    has_conditions: bool = True,
) -> "Callable[..., tf.data.Dataset]":
    """Like seqio.map_over_dataset, for a function that is right for batches of texts, too.

    Args:
      fn: takes a record, and further arguments by name.
      on_texts: does to the fields of many records, as Python's texts, what `fn` does to tensors.
        Where all steps of a task have one, its texts are read without TensorFlow, whose way from
        Python and back takes longer than such steps.
      has_conditions: whether `fn` has conditions on tensors, for which TensorFlow rewrites it at
        each use; that takes longer than all else that it does with a task.
    """

    @functools.wraps(fn)
    def mapped(dataset: 'tf.data.Dataset', *args: object, **kwargs: object) -> 'tf.data.Dataset':
        step = late.seqio().map_over_dataset(fn)
        if not has_conditions:
            step = late.tensorflow().autograph.experimental.do_not_convert(step)
        return step(dataset, *args, **kwargs)

    mapped.works_on_batches = True
    mapped.on_texts = on_texts
    return mapped


def works_on_batches(preprocessor: 'Callable[..., tf.data.Dataset]') -> bool:
    """Returns whether a preprocessor was made by `text_map`."""
    while isinstance(preprocessor, functools.partial):
        preprocessor = preprocessor.func
    return getattr(preprocessor, 'works_on_batches', False)


def on_texts(preprocessor: 'Callable[..., tf.data.Dataset]') -> Callable[[Texts], Texts] | None:
    """The function of a preprocessor for Python's texts, see `text_map`; None if it has none."""
    if isinstance(preprocessor, functools.partial):
        inner = on_texts(preprocessor.func)
        return inner and functools.partial(inner, *preprocessor.args, **preprocessor.keywords)
    return getattr(preprocessor, 'on_texts', None)


def _format_texts(texts: Texts, inputs: str, targets: str, keep: Sequence[str] = ()) -> Texts:
    """See `format_text`."""
    count = len(next(iter(texts.values())))
    result: Texts = {name: texts[name] for name in keep}
    for name, template in (('inputs', inputs), ('targets', targets)):
        parts: list[Iterable[str]] = []
        for literal, field, _, _ in string.Formatter().parse(template):
            parts += [itertools.repeat(literal, count)] if literal else []
            parts += [texts[field]] if field is not None else []
        # Most templates are one field, which stays as it is.
        alone = len(parts) == 1 and isinstance(parts[0], Sequence)
        result[name] = parts[0] if alone else [''.join(row) for row in zip(*parts, strict=True)]
    return result


@functools.partial(text_map, on_texts=_format_texts, has_conditions=False)
def format_text(
    example: 'dict[str, tf.Tensor]', inputs: str, targets: str, keep: Sequence[str] = ()
) -> 'dict[str, tf.Tensor]':
    """Fills fields into templates.

    Args:
      example: the fields of a record.
      inputs: template of the model's input.
      targets: template of the text to generate.
      keep: fields that stay as they are, such as an id.

    Example: {'passage': 'Rome is old.', 'answer': 'Rome', 'target': 'What is old?'} with
      inputs '{passage} <answer> {answer}' and targets '{target}' ->
      {'inputs': 'Rome is old. <answer> Rome', 'targets': 'What is old?'}
    """
    result = {name: example[name] for name in keep}
    for name, template in (('inputs', inputs), ('targets', targets)):
        parts: list[str | tf.Tensor] = []
        for literal, field, _, _ in string.Formatter().parse(template):
            parts += [literal] if literal else []
            parts += [example[field]] if field is not None else []
        result[name] = late.tensorflow().strings.join(parts)
    return result


def _tag_texts(texts: Texts, lang: str) -> Texts:
    """See `tag_target_language`."""
    if tokenizer().tags != 'target_in_source':
        return texts
    return texts | {'inputs': [f'<{lang}> {text}' for text in texts['inputs']]}


@functools.partial(text_map, on_texts=_tag_texts, has_conditions=False)
def tag_target_language(
    example: 'dict[str, tf.Tensor]', lang: str
) -> 'dict[str, tf.Tensor]':
    """Writes the target language at the start of the input, if the vocabulary's model reads it so.

    The MTG paper (arXiv:2108.07140, section 4.1) puts the tag of the target language at the start
    of mT5's input without saying how it is spelled. Example, lang 'de': 'Rome' -> '<de> Rome'
    """
    if tokenizer().tags != 'target_in_source':
        return example
    return example | {'inputs': late.tensorflow().strings.join([f'<{lang}> ', example['inputs']])}


# ---------------------------------------------------------------------------------------------
# Steps of SeqIO's own.


def tokenize(
    dataset: 'tf.data.Dataset', output_features: Mapping[str, Feature]
) -> 'tf.data.Dataset':
    """Texts -> ids; see seqio.preprocessors.tokenize."""
    return late.seqio().preprocessors.tokenize(dataset, output_features)


def append_eos(
    dataset: 'tf.data.Dataset',
    sequence_length: Mapping[str, int] | None,
    output_features: Mapping[str, Feature],
) -> 'tf.data.Dataset':
    """Ids with eos behind them; see seqio.preprocessors.append_eos_after_trim."""
    return late.seqio().preprocessors.append_eos_after_trim(
        dataset, output_features=output_features, sequence_length=sequence_length
    )


def cache_here(dataset: 'tf.data.Dataset') -> 'tf.data.Dataset':
    """Stands for seqio.CacheDatasetPlaceholder, which takes its place in SeqIO's registry."""
    return dataset


def is_one_of(step: object, *ours: Callable[..., object]) -> bool:
    """Returns whether a step is one of these three, or SeqIO's own that it stands for."""
    if (seqio := late.loaded_seqio()) is None:
        return step in ours
    if isinstance(step, seqio.CacheDatasetPlaceholder):
        return cache_here in ours
    steps = seqio.preprocessors
    names = {
        steps.tokenize: tokenize,
        steps.append_eos: append_eos,
        steps.append_eos_after_trim: append_eos,
    }
    return callable(step) and names.get(step, step) in ours
