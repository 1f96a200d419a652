"""The steps of a task that make texts of texts, each record by itself."""

import functools
import itertools
import string
from collections.abc import Callable, Iterable, Sequence

import seqio
import tensorflow as tf

from xlbench.pipeline.binding import tokenizer

Texts = dict[str, Sequence[str]]  # {field: the text of each record}.


def text_map(
    fn: Callable[..., dict[str, tf.Tensor]], on_texts: Callable[..., Texts] | None = None
) -> Callable[..., tf.data.Dataset]:
    """Like seqio.map_over_dataset, for a function that is right for batches of texts, too.

    Args:
      fn: takes a record, and further arguments by name.
      on_texts: does to the fields of many records, as Python's texts, what `fn` does to tensors.
        Where all steps of a task have one, its texts are read without TensorFlow, whose way from
        Python and back takes longer than such steps.
    """
    mapped = seqio.map_over_dataset(fn)
    mapped.works_on_batches = True
    mapped.on_texts = on_texts
    return mapped


def works_on_batches(preprocessor: Callable[..., tf.data.Dataset]) -> bool:
    """Returns whether a preprocessor was made by `text_map`."""
    while isinstance(preprocessor, functools.partial):
        preprocessor = preprocessor.func
    return getattr(preprocessor, 'works_on_batches', False)


def on_texts(preprocessor: Callable[..., tf.data.Dataset]) -> Callable[[Texts], Texts] | None:
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


# TensorFlow rewrites functions for conditions on tensors, at each use, which takes longer than all
# else that it does with a task. The following have none.
_unconverted = tf.autograph.experimental.do_not_convert


@_unconverted
@functools.partial(text_map, on_texts=_format_texts)
def format_text(
    example: dict[str, tf.Tensor], inputs: str, targets: str, keep: Sequence[str] = ()
) -> dict[str, tf.Tensor]:
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
        result[name] = tf.strings.join(parts)
    return result


def _tag_texts(texts: Texts, lang: str) -> Texts:
    """See `tag_target_language`."""
    if tokenizer().tags != 'target_in_source':
        return texts
    return texts | {'inputs': [f'<{lang}> {text}' for text in texts['inputs']]}


@_unconverted
@functools.partial(text_map, on_texts=_tag_texts)
def tag_target_language(example: dict[str, tf.Tensor], lang: str) -> dict[str, tf.Tensor]:
    """Writes the target language at the start of the input, if the vocabulary's model reads it so.

    The MTG paper (arXiv:2108.07140, section 4.1) puts the tag of the target language at the start
    of mT5's input without saying how it is spelled. Example, lang 'de': 'Rome' -> '<de> Rome'
    """
    if tokenizer().tags != 'target_in_source':
        return example
    return example | {'inputs': tf.strings.join([f'<{lang}> ', example['inputs']])}
