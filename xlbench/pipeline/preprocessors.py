"""Preprocessing steps of tasks, from records to texts and ids."""

import dataclasses
import functools
import itertools
import string
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xlbench.data import features, vocabularies
from xlbench.data.tokenizers import Tokenizer
from xlbench.pipeline import late
from xlbench.pipeline.binding import Feature, Labels, as_labels, ids_by, plain_text, tokenizer
from xlbench.system import errors

if TYPE_CHECKING:
    import tensorflow as tf

Texts = dict[str, Sequence[str]]  # {field: the text of each record}.
Tensors = dict[str, Any]  # {field: a tensor of TensorFlow}.
Steps = list[Callable[..., Any]]  # Of a task: each makes a tf.data.Dataset of another one.


def text_map(fn: Callable[..., Tensors], on_texts: Callable[..., Texts]) -> Callable[..., Any]:
    """Like seqio.map_over_dataset, for a step that also works on many texts of Python at once.

    If all steps of a task are such, its texts are prepared without TensorFlow, which is faster.

    Args:
      fn: takes a record, and further arguments by name; without conditions on tensors.
      on_texts: does the same as `fn` to {field: the text of each record}.
    """

    @functools.wraps(fn)
    def mapped(dataset: 'tf.data.Dataset', *args: object, **kwargs: object) -> 'tf.data.Dataset':
        # AutoGraph would take longer at each use than all else.
        unchanged = late.tensorflow().autograph.experimental.do_not_convert
        return unchanged(late.seqio().map_over_dataset(fn))(dataset, *args, **kwargs)

    vars(mapped)['on_texts'] = on_texts
    return mapped


def on_texts(preprocessor: Callable[..., Any]) -> Callable[[Texts], Texts] | None:
    """Returns the function of a step for Python's texts, see `text_map`; None if it has none."""
    if isinstance(preprocessor, functools.partial):
        inner = on_texts(preprocessor.func)
        return inner and functools.partial(inner, *preprocessor.args, **preprocessor.keywords)
    return getattr(preprocessor, 'on_texts', None)


def _format_texts(texts: Texts, inputs: str, targets: str, keep: Sequence[str] = ()) -> Texts:
    count = len(next(iter(texts.values())))
    result: Texts = {name: texts[name] for name in keep}
    for name, template in (('inputs', inputs), ('targets', targets)):
        parts: list[Iterable[str]] = []
        for literal, field, _, _ in string.Formatter().parse(template):
            parts += [itertools.repeat(literal, count)] if literal else []
            parts += [texts[field]] if field is not None else []
        # Most templates are one field, which stays as it is.
        whole = parts[0] if len(parts) == 1 else None
        joined = (''.join(row) for row in zip(*parts, strict=True))
        result[name] = whole if isinstance(whole, Sequence) else list(joined)
    return result


@functools.partial(text_map, on_texts=_format_texts)
def format_text(example: Tensors, inputs: str, targets: str, keep: Sequence[str] = ()) -> Tensors:
    """Fills the fields of a record into templates; fields of `keep`, such as an id, stay.

    Example: {'passage': 'Rome is old.', 'answer': 'Rome', 'target': 'What is old?'} with
      inputs '{passage} <answer> {answer}' and targets '{target}' ->
      {'inputs': 'Rome is old. <answer> Rome', 'targets': 'What is old?'}
    """
    result = {name: example[name] for name in keep}
    for name, template in (('inputs', inputs), ('targets', targets)):
        parts: list[Any] = []  # Texts and tensors.
        for literal, field, _, _ in string.Formatter().parse(template):
            parts += [literal] if literal else []
            parts += [example[field]] if field is not None else []
        result[name] = late.tensorflow().strings.join(parts)
    return result


def _tag_texts(texts: Texts, lang: str) -> Texts:
    if tokenizer().tags != 'target_in_source':
        return texts
    return texts | {'inputs': [f'<{lang}> {text}' for text in texts['inputs']]}


@functools.partial(text_map, on_texts=_tag_texts)
def tag_target_language(example: Tensors, lang: str) -> Tensors:
    """Writes the target language at the start of the input, if the vocabulary's model reads it so.

    The MTG paper (arXiv:2108.07140, section 4.1) does so for mT5, but does not say how the tag is
    spelled. Example, lang 'de': 'Rome' -> '<de> Rome'
    """
    if tokenizer().tags != 'target_in_source':
        return example
    return example | {'inputs': late.tensorflow().strings.join([f'<{lang}> ', example['inputs']])}


# ---------------------------------------------------------------------------------------------
# Steps on ids.


def append_eos(
    dataset: 'tf.data.Dataset',
    sequence_length: Mapping[str, int] | None,
    output_features: Mapping[str, Feature],
) -> 'tf.data.Dataset':
    """Appends eos to ids; see seqio.preprocessors.append_eos_after_trim."""
    return late.seqio().preprocessors.append_eos_after_trim(
        dataset, output_features=output_features, sequence_length=sequence_length
    )


def cache_here(dataset: 'tf.data.Dataset') -> 'tf.data.Dataset':
    """Stands for seqio.CacheDatasetPlaceholder, which replaces it in SeqIO's registry."""
    return dataset


def as_ours(step: object) -> object:
    """Returns our step for one of SeqIO's own of the same kind; other steps as they are."""
    if (seqio := late.loaded_seqio()) is None:
        return step
    steps = seqio.preprocessors
    if isinstance(step, seqio.CacheDatasetPlaceholder):
        return cache_here
    if step is steps.tokenize:
        return Tokenize(has_prefix=False)
    return append_eos if step in (steps.append_eos, steps.append_eos_after_trim) else step


def _check_encoder(chosen: Tokenizer, view: str) -> None:
    """Raises UserError if a vocabulary of a translation model is used for another view."""
    if view != 'generation' and vocabularies.FAMILIES[chosen.family].needs_languages:
        raise errors.UserError(
            f'vocabulary {chosen.name} is of a model whose inputs hold the language to translate '
            f'from or into, so it is not a vocabulary for {view}; take one of BERT, XLM-R or T5'
        )


@dataclasses.dataclass(frozen=True)
class Tokenize:
    """The step from inputs and targets as texts to ids; the texts stay as ..._pretokenized.

    The model's tokens of a language, or of the start, stand before the ids. The loss covers them,
    as in mBART's pretraining, so that decoding is the same with and without a forced first token.
    Example, mBART-50, 'en' to 'de': [en_XX, 5, 6], [de_DE, 7]. In retrieval the targets get those
    of the inputs, BERT: [CLS, 5, 6], [CLS, 7].

    Inputs of two views have a tab between them. Both views have the prefix, and the first one its
    eos; a later step adds that of the second.
    Example, BART: ' | a: hi\\t | a: hi' -> <s> Ġ| Ġa : Ġhi </s> <s> Ġ| Ġa : Ġhi
    """

    source_lang: str | None = None  # ISO codes of inputs and targets; None if there are several.
    target_lang: str | None = None
    view: str = 'generation'  # Of the task, see `view`.
    has_views: bool = False  # Of the inputs.
    has_prefix: bool = True
    # SeqIO gives it to the step that it calls.
    output_features: Mapping[str, Feature] = dataclasses.field(default_factory=dict, hash=False)

    def prefixes(self) -> dict[str, np.ndarray]:
        """Returns the tokens before each feature, [length] int32, of the vocabulary in use."""
        chosen = tokenizer()
        _check_encoder(chosen, self.view)
        source = target = np.zeros(0, np.int32)
        if self.has_prefix:
            source, target = chosen.prefix_ids(self.source_lang, self.target_lang)
        return {'inputs': source, 'targets': source if self.view == 'retrieval' else target}

    def __call__(self, dataset: 'tf.data.Dataset') -> 'tf.data.Dataset':
        """Encodes each example; see seqio.preprocessors.tokenize."""
        tf, chosen, prefixes = late.tensorflow(), tokenizer(), self.prefixes()

        def encode_views(text: bytes | np.ndarray) -> np.ndarray:
            (ids,) = chosen.encode_views([plain_text(text)], [prefixes['inputs']])
            return ids.astype(np.int32)

        def example(record: Tensors) -> Tensors:
            made = dict(record)
            for name in self.output_features.keys() & record.keys():
                if self.has_views and name == 'inputs':
                    ids = ids_by(encode_views, record[name])
                else:
                    ids = self.output_features[name].vocabulary.encode_tf(record[name])
                made[name] = tf.concat([prefixes[name], ids], 0) if name in prefixes else ids
                made[f'{name}_pretokenized'] = record[name]
            return made

        return dataset.map(example, num_parallel_calls=tf.data.AUTOTUNE)


def cut_passage(
    dataset: 'tf.data.Dataset', sequence_length: Mapping[str, int] | None = None
) -> 'tf.data.Dataset':
    """Cuts inputs that are too long, before their answer; see features.trim_passage."""
    limit = (sequence_length or {}).get('inputs')
    if not limit:
        return dataset
    tf, chosen = late.tensorflow(), tokenizer()
    mark, end = chosen.answer_mark(), np.array([chosen.eos_id], np.int32)

    def cut(ids: np.ndarray) -> np.ndarray:
        whole = np.concatenate([ids, end])
        return features.trim_passage(whole, limit, chosen.eos_id, mark)[:-1]

    def example(record: Tensors) -> Tensors:
        return record | {'inputs': ids_by(cut, record['inputs'])}

    return dataset.map(example, num_parallel_calls=tf.data.AUTOTUNE)


def _text_steps(inputs: str, targets: str, keep: Sequence[str], tokenize: Tokenize) -> Steps:
    lang = tokenize.target_lang
    return [
        functools.partial(format_text, inputs=inputs, targets=targets, keep=tuple(keep)),
        *([functools.partial(tag_target_language, lang=lang)] if lang else []),
        tokenize,
        cache_here,
        *([cut_passage] if tokenize.view == 'generation' and not tokenize.has_views else []),
        append_eos,
    ]


def text_preprocessors(
    inputs: str,
    targets: str,
    target_lang: str | None = None,
    keep: Sequence[str] = (),
    source_lang: str | None = None,
) -> Steps:
    """Returns the steps of a text-to-text task: templates, language tag, ids, tokens, eos.

    Args:
      inputs, targets, keep: see `format_text`.
      target_lang, source_lang: ISO codes of targets and inputs; None if there are several.
    """
    return _text_steps(inputs, targets, keep, Tokenize(source_lang, target_lang))


def view_preprocessors(inputs: str, targets: str, lang: str, keep: Sequence[str] = ()) -> Steps:
    """Returns the steps of a text-to-text task in one language whose inputs have two views.

    See `format_text`; a tab separates the views of the inputs.
    """
    return _text_steps(inputs, targets, keep, Tokenize(lang, lang, has_views=True))


def retrieval_preprocessors(inputs: str, targets: str, keep: Sequence[str] = ()) -> Steps:
    """Returns the steps of a retrieval task: `format_text`, then both sides as encoder inputs.

    Example, BERT: 'Hast du Zeit?', 'Ja' -> [CLS] Hast du Zeit ? [SEP], [CLS] Ja [SEP]; no language
    tag in either.
    """
    return _text_steps(inputs, targets, keep, Tokenize(view='retrieval'))


def classification_preprocessors(
    labels: Sequence[str] | Labels, texts: Sequence[str], keep: Sequence[str] = ()
) -> Steps:
    """Returns the steps of a classification task, from records with a `label`.

    The labels are in the order of their ids; `texts` are the fields of the one or two texts.
    """
    known, texts = as_labels(labels, 'classification'), tuple(texts)
    encoder = functools.partial(classification_encoder, known, texts)
    return [EncodeLabelled(encoder, texts, tuple(keep)), cache_here]


def tagging_preprocessors(labels: Sequence[str] | Labels, keep: Sequence[str] = ()) -> Steps:
    """Returns the steps of a tagging task, from records of `words` and `tags`.

    The labels are all tags, in the order of their ids.
    """
    encoder = functools.partial(tagging_encoder, as_labels(labels, 'tagging'))
    return [EncodeLabelled(encoder, ('words',), tuple(keep)), cache_here]


Encoder = Callable[[Mapping[str, str]], dict[str, Any]]  # A record -> its texts and ids.


def classification_encoder(labels: Sequence[str] | Labels, texts: Sequence[str]) -> Encoder:
    """Returns the encoder of one or two texts and their label, with the vocabulary in use.

    Example, BERT: {'text_a': 'Es regnet.', 'text_b': 'Es ist nass.', 'label': 'entailment'} ->
      inputs [CLS] Es regnet . [SEP] Es ist nass . [SEP], targets [1], piece_counts [3, 4],
      inputs_pretokenized 'Es regnet.\\tEs ist nass.', targets_pretokenized 'entailment'
    """
    chosen, known = tokenizer(), Labels(as_labels(labels, '').labels, 'classification')
    _check_encoder(chosen, 'classification')

    def encode(record: Mapping[str, str]) -> dict[str, Any]:
        sides = [record[name] for name in texts]
        pieces = [chosen.encode(side) for side in sides]
        return {
            'inputs': chosen.join_texts(pieces),
            'targets': known.ids([record['label']]),
            'piece_counts': np.array([len(ids) for ids in pieces], np.int32),
            'inputs_pretokenized': '\t'.join(sides),
            'targets_pretokenized': record['label'],
        }

    return encode


def tagging_encoder(labels: Sequence[str] | Labels) -> Encoder:
    """Returns the encoder of words, each by itself, and tags, with the vocabulary in use.

    A word without pieces becomes one unknown piece.

    Example, BERT: {'words': 'Hunde bellen', 'tags': 'NOUN VERB'} -> inputs
      [CLS] Hun ##de bel ##len [SEP], targets [7, 15], piece_counts [2, 2]
    """
    chosen, known = tokenizer(), Labels(as_labels(labels, '').labels, 'tagging')
    _check_encoder(chosen, 'tagging')
    pieces_of = functools.lru_cache(2**17)(chosen.encode)

    def encode(record: Mapping[str, str]) -> dict[str, Any]:
        pieces = [pieces_of(word) for word in record['words'].split(' ')]
        inputs, piece_counts = chosen.join_words(pieces)
        return {
            'inputs': inputs,
            'targets': known.ids(record['tags'].split(' ')),
            'piece_counts': piece_counts,
            'inputs_pretokenized': record['words'],
            'targets_pretokenized': record['tags'],
        }

    return encode


@dataclasses.dataclass(frozen=True)
class EncodeLabelled:
    """The step from texts and labels to ids, one record at a time."""

    encoder: Callable[[], Encoder]  # Makes one with the vocabulary in use.
    texts: tuple[str, ...]  # The fields of language, on which `prepare` trains vocabularies.
    keep: tuple[str, ...] = ()  # Further fields to keep.

    def encode(
        self, batches: Iterable[Sequence[Mapping[str, str]]]
    ) -> Iterator[list[dict[str, Any]]]:
        """Encodes batches of records without TensorFlow."""
        encode = self.encoder()
        for batch in batches:
            yield [{name: record[name] for name in self.keep} | encode(record) for record in batch]

    def __call__(self, dataset: 'tf.data.Dataset') -> 'tf.data.Dataset':
        """Encodes each record."""
        tf, encode, fields = late.tensorflow(), self.encoder(), list(dataset.element_spec)
        ids = ('inputs', 'targets', 'piece_counts')
        shown = ('inputs_pretokenized', 'targets_pretokenized')

        def call(*values: bytes | np.ndarray) -> list[np.ndarray]:
            encoded = encode(dict(zip(fields, map(plain_text, values), strict=True)))
            return [encoded[name] for name in ids] + [
                np.array(encoded[name].encode(), object) for name in shown
            ]

        def example(record: Tensors) -> Tensors:
            types = [tf.int32] * len(ids) + [tf.string] * len(shown)
            tensors = tf.numpy_function(call, [record[name] for name in fields], types)
            for tensor, shape in zip(tensors, [[None]] * len(ids) + [[]] * len(shown), strict=True):
                tensor.set_shape(shape)
            kept = {name: record[name] for name in self.keep}
            return kept | dict(zip((*ids, *shown), tensors, strict=True))

        return dataset.map(example)
