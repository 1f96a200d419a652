"""What task files are written with: sources, preprocessors, the vocabulary, mixtures, look-up.

A task is a plain `seqio.Task`, so `seqio.get_dataset` works on it. Three things are decided when a
dataset is built, not when a task is declared: the data root, the vocabulary (`use_vocabulary`), and
the split that a mixture's rates count. One registry therefore serves every model and every copy of
the data.

`register_text_task`, `register_classification_task` and `register_tagging_task` add a task for
files of your own, `register_dialogue_tasks` those of a file of dialogues; put the call in
tasks/<first word of the name>.py, in the current folder or in the one that XLBENCH_TASKS names.
That may also be a file, such as a registry that was written for T5X.
"""

import contextlib
import contextvars
import dataclasses
import functools
import importlib
import importlib.util
import inspect
import math
import os
import pathlib
import random
import re
import string
import traceback
import types
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')  # Before TensorFlow: only its fatal errors.

import numpy as np
import seqio
import tensorflow as tf

from xlbench import benchmarks, errors
from xlbench.benchmarks import task_files
from xlbench.data import buckets, conllu, features, readers, rows, tokenizers, vocabularies

# TensorFlow only reads text here; the accelerators are for the program that trains.
with contextlib.suppress(RuntimeError):  # It is already running, and the caller has decided.
    tf.config.set_visible_devices([], 'GPU')

CHUNK = 1024  # Records that cross from Python to TensorFlow at once.
ANSWER_SEPARATOR = tokenizers.ANSWER_SEPARATOR


# ---------------------------------------------------------------------------------------------
# Where the data is, and the vocabulary.

_bound: dict[str, Any] = {'root': None, 'tokenizer': None}


def root() -> str:
    """The data root: what `use_root` or `use_vocabulary` set, else XLBENCH_DATA, else data.

    It is absolute, so that a task file may join it to its paths or leave it out.
    """
    return _bound['root'] or os.path.abspath(os.environ.get('XLBENCH_DATA') or 'data')


def use_root(path: str | None) -> None:
    """Sets the data root of every task; None goes back to XLBENCH_DATA."""
    _bound['root'] = path and os.path.abspath(os.path.expanduser(path))


def use_vocabulary(spec: str, root: str | None = None) -> tokenizers.Tokenizer:
    """Chooses the vocabulary of every task, and the data root if one is given."""
    if root is not None:
        use_root(root)
    _bound['tokenizer'] = tokenizers.load(spec, globals()['root']())
    return _bound['tokenizer']


def use_no_vocabulary(root: str | None = None) -> None:
    """Tasks give their texts as they are, without the tags of a vocabulary's model."""
    if root is not None:
        use_root(root)
    _bound['tokenizer'] = types.SimpleNamespace(tags='', name='none')


def tokenizer() -> tokenizers.Tokenizer:
    """The vocabulary in use."""
    if _bound['tokenizer'] is None:
        raise errors.UserError(
            "no vocabulary is chosen; call pipeline.use_vocabulary('sample', root) or name another"
        )
    return _bound['tokenizer']


class Vocabulary(seqio.Vocabulary):
    """SeqIO's view of whatever tokenizer is in use.

    Args:
      feature: the side it encodes, 'inputs' or 'targets'.
    """

    def __init__(self, feature: str):
        super().__init__()
        self._target = feature == 'targets'

    @property
    def bos_id(self) -> int | None:
        """Id of the token that opens a text; `add_prefix` writes it where the model reads it."""
        return tokenizer().bos_id

    @property
    def eos_id(self) -> int:
        """Id of the end."""
        return tokenizer().eos_id

    @property
    def pad_id(self) -> int:
        """Id of padding."""
        return tokenizer().pad_id

    @property
    def unk_id(self) -> int | None:
        """Id of unknown text."""
        unk_id = tokenizer().unk_id
        return None if unk_id < 0 else unk_id

    @property
    def _base_vocab_size(self) -> int:
        return tokenizer().vocab_size

    def _encode(self, s: str) -> list[int]:
        return tokenizer().encode(s, self._target).tolist()

    def _decode(self, ids: Sequence[int]) -> str:
        return tokenizer().decode(ids)

    def _encode_tf(self, s: tf.Tensor) -> tf.Tensor:
        # Not TensorFlow Text's own operation: another release of SentencePiece breaks ties between
        # equally likely pieces in another way (l+ll or ll+l), and one text has one list of ids.
        chosen = tokenizer()

        def encode(text: bytes | np.ndarray) -> np.ndarray:
            data = text.item() if isinstance(text, np.ndarray) else text  # Eager: an array [].
            return chosen.encode(data.decode(), self._target)

        ids = tf.numpy_function(encode, [s], tf.int32)
        ids.set_shape([None])
        return ids

    def _decode_tf(self, ids: tf.Tensor) -> tf.Tensor:
        chosen = tokenizer()

        def decode(ids: np.ndarray) -> np.ndarray:
            rows = ids.reshape(-1, ids.shape[-1])
            texts = [text.encode() for text in chosen.decode_batch(rows)]
            return np.array(texts, object).reshape(ids.shape[:-1])

        texts = tf.numpy_function(decode, [ids], tf.string)
        texts.set_shape(ids.shape[:-1])
        return texts

    def __str__(self) -> str:
        chosen = _bound['tokenizer']
        return f'Vocabulary({chosen.name if chosen else "none chosen yet"})'


_VOCABULARIES = {feature: Vocabulary(feature) for feature in ('inputs', 'targets')}


def vocabulary(feature: str = 'inputs') -> Vocabulary:
    """The vocabulary object of a feature, which every task shares."""
    return _VOCABULARIES[feature]


def is_ours(feature_vocabulary: seqio.Vocabulary) -> bool:
    """Whether a feature's vocabulary is the one of the run, or one of labels."""
    ours = any(feature_vocabulary is one for one in _VOCABULARIES.values())
    return ours or isinstance(feature_vocabulary, Labels)


def text_features() -> dict[str, seqio.Feature]:
    """Output features of a text-to-text task: `inputs` and `targets`, each ending in eos."""
    return {
        name: seqio.Feature(vocabulary=vocabulary(name), add_eos=True) for name in _VOCABULARIES
    }


def retrieval_features() -> dict[str, seqio.Feature]:
    """Output features of retrieval: `inputs` and `targets` are both inputs of an encoder."""
    return {
        name: seqio.Feature(vocabulary=vocabulary('inputs'), add_eos=True) for name in _VOCABULARIES
    }


class Labels(seqio.PassThroughVocabulary):
    """The labels of a task; the id of one is its place among them.

    Args:
      labels: their texts.
      view: 'classification', a label for a text, or 'tagging', one for each of its words.
    """

    def __init__(self, labels: Sequence[str], view: str):
        super().__init__(len(labels))
        self._labels = tuple(labels)
        self.view = view

    @property
    def labels(self) -> tuple[str, ...]:
        """Their texts, in the order of their ids."""
        return self._labels

    def __eq__(self, other: Any) -> bool:
        same = isinstance(other, Labels)
        return same and (self.labels, self.view) == (other.labels, other.view)

    __hash__ = None

    @property
    def _base_vocab_size(self) -> int:
        return len(self.labels)

    def ids(self, texts: Sequence[str]) -> np.ndarray:
        """The ids of labels, [length] int32; UserError for one that is not there."""
        if unknown := [text for text in texts if text not in self.labels]:
            raise errors.unknown('label', unknown[0], self.labels)
        return np.array([self.labels.index(text) for text in texts], np.int32)


class LabelsOfData(Labels):
    """Labels that are read from the training data when they are first needed.

    Args:
      read: gives them.
      view: see `Labels`.
    """

    def __init__(self, read: Callable[[], tuple[str, ...]], view: str):
        self._read = read
        super().__init__((), view)

    @property
    def labels(self) -> tuple[str, ...]:
        """Their texts, in the order of their ids."""
        return self._read()


def label_features(labels: Sequence[str] | Labels, view: str) -> dict[str, seqio.Feature]:
    """Output features of a task of labels.

    They are `inputs`, all that the encoder reads; `targets`, ids of labels; and `piece_counts`, the
    number of ids of each text (classification) or word (tagging), without special ones.

    Args:
      labels: their texts, in the order of their ids.
      view: 'classification' or 'tagging'.
    """
    return {
        'inputs': seqio.Feature(vocabulary('inputs'), add_eos=False),
        'targets': seqio.Feature(_as_labels(labels, view), add_eos=False),
        'piece_counts': seqio.Feature(seqio.PassThroughVocabulary(2**31 - 1), add_eos=False),
    }


def _as_labels(labels: Sequence[str] | Labels, view: str) -> Labels:
    return labels if isinstance(labels, Labels) else Labels(labels, view)


def labels(task: seqio.Task) -> tuple[str, ...]:
    """The labels of a task, () where it has texts to write."""
    targets = task.output_features.get('targets')
    return getattr(targets and targets.vocabulary, 'labels', ())


_headlines: dict[str, str] = {}  # Task -> what `register_...` was told.


def headline(task: seqio.Task) -> str:
    """The score that stands for a task, first in its tables and in config.best.

    It is the one that was named when the task was registered. Else a task that has the metrics of
    its kind has rouge_l (texts), mrs_rouge (replies), accuracy (labels), chunk_f1 (tags of spans,
    B-... and I-...) or tag_accuracy (other tags). For other tasks it is '', which stands for the
    first score of the first metric.
    """
    chosen = _headlines.get(task.name, '')
    if chosen == _OF_TAGS:
        spans = any(label.startswith(('B-', 'I-')) for label in labels(task))
        return 'chunk_f1' if spans else 'tag_accuracy'
    return chosen


def _note_headline(name: str, chosen: str | None, default: str, metrics: Sequence[Any]) -> None:
    """Keeps the headline of a task; UserError for one that its metrics do not give."""
    if chosen is not None:
        from xlbench import metrics as metrics_lib

        given: dict[str, None] = {}
        for metric in metrics:
            try:
                given |= dict.fromkeys(metrics_lib.score(metric, ['a', 'b'], [['a'], ['b']])[0])
            except Exception:  # Other texts or labels would do: what it gives is not known here.
                given[chosen] = None
        if chosen not in given:
            raise errors.unknown(f'score in headline of task {name}', chosen, given)
    _headlines[name] = chosen or default


_OF_TAGS = 'of tags'  # The headline that depends on the labels.


def metric_fns(task: seqio.Task) -> list[Callable[..., dict[str, float]]]:
    """The metrics of a task, those of labels with the labels that training data has."""
    from xlbench.metrics import classification

    bare = classification.Classification()
    return [
        classification.Classification(labels(task)) if metric == bare else metric
        for metric in task.metric_fns
    ]


def metric_specs(task: seqio.Task) -> list[dict[str, Any]]:
    """The metrics of a task as its manifest keeps them; see xlbench/metrics/specs.py."""
    from xlbench import metrics

    try:
        specs = [metrics.to_spec(metric) for metric in metric_fns(task)]
    except (errors.UserError, ValueError) as error:  # SeqIO's, of other arguments.
        raise errors.UserError(f'task {task.name}: {error}') from None
    if len(task.metric_objs) > len(specs):
        raise errors.UserError(
            f'task {task.name} has metric_objs, which nothing here calls; give it functions '
            '(targets, predictions) as metric_fns'
        )
    return specs


def view(task: seqio.Task) -> str:
    """How the examples of a task are read.

    'classification' or 'tagging' where it has labels; 'retrieval' if its targets are written like
    inputs; else 'generation'.
    """
    targets = task.output_features.get('targets')
    known = targets.vocabulary if targets else None
    if isinstance(known, Labels):
        return known.view
    return 'retrieval' if known is vocabulary('inputs') else 'generation'


# ---------------------------------------------------------------------------------------------
# Sources.


_bad_records = [readers.BadRecords()]


@contextlib.contextmanager
def bad_records(policy: readers.BadRecords) -> Iterator[None]:
    """Datasets that are read inside the block treat bad records by `policy`."""
    # Not a context variable: TensorFlow reads in threads of its own.
    _bad_records.append(policy)
    try:
        yield
    finally:
        _bad_records.remove(policy)


def _below_root(path: str) -> str:
    return os.path.join(root(), os.path.expanduser(path))


class RecordSource(seqio.FunctionDataSource):
    """A SeqIO source over a reader of `xlbench/data/readers.py`.

    Args:
      read: (split, *paths) -> records, bad records, records left out.
      files: split -> the paths it is read from, absolute or below the data root. Each may stand for
        several files, or a packed one: see readers.find.
      splits: the splits there are.
      fields: the fields of a record.
      source_lang: ISO code of the inputs, None where it is not one language.
      target_lang: ISO code of the targets.
      count: (split, *paths) -> number of records; by default, lines of the first file.
      optional: split -> further paths, which are read after the others where they exist.
      hint: how to look elsewhere, for the message about a missing file.
      apart: split -> whether its files are read one after another, each by itself.
    """

    def __init__(
        self,
        read: Callable[..., Iterator[readers.Record | readers.BadRecord | readers.LeftOut]],
        files: Callable[[str], Sequence[str]],
        splits: Sequence[str],
        fields: Sequence[str],
        *,
        source_lang: str | None = None,
        target_lang: str | None = None,
        count: Callable[..., int] | None = None,
        optional: Callable[[str], Sequence[str]] = lambda split: (),
        hint: str = '',
        apart: Callable[[str], bool] = lambda split: False,
    ):
        super().__init__(dataset_fn=self._dataset, splits=tuple(splits))
        self._apart = apart
        self._read = read
        self._files = files
        self._optional = optional
        self._fields = tuple(fields)
        self._count = count or (lambda split, path, *others: readers.count_lines(path))
        self._hint = hint
        self.source_lang = source_lang
        self.target_lang = target_lang

    def patterns(self, split: str) -> list[str]:
        """What `paths` looks for, files or patterns of them."""
        return [_below_root(path) for path in (*self._files(split), *self._optional(split))]

    def paths(self, split: str) -> list[str]:
        """The files of a split; UserError if one is not there."""
        paths = []
        for path in map(_below_root, self._files(split)):
            found = readers.find(path)
            if not found:
                raise errors.UserError(
                    f'there is no file {path} (split {split!r}); the data root is {root()!r}, set '
                    'by --root or XLBENCH_DATA' + (f'; {self._hint}' if self._hint else '')
                )
            paths += found
        for path in map(_below_root, self._optional(split)):
            paths += readers.find(path)
        return paths

    def parts(self, split: str) -> list[list[str]]:
        """The files of a split, divided where each can be read by itself; in order."""
        paths = self.paths(split)
        return [[path] for path in paths] if self._apart(split) else [paths]

    def num_input_examples(self, split: str) -> int:
        """Records of a split, bad ones included."""
        paths = self.paths(split)
        stamps = tuple((os.path.getsize(p), os.stat(p).st_mtime_ns) for p in paths)
        return self._counted(split, tuple(paths), stamps)

    @functools.lru_cache(maxsize=64)  # noqa: B019 - sources live as long as the registry.
    def _counted(self, split: str, paths: tuple[str, ...], stamps: tuple[Any, ...]) -> int:
        return self._count(split, *paths)

    def _dataset(
        self, split: str, shuffle_files: bool = False, seed: int | None = None
    ) -> tf.data.Dataset:
        return self.batches(split).unbatch()

    def batches(self, split: str) -> tf.data.Dataset:
        """The records in order, in chunks: {field: [up to CHUNK] string}."""
        paths = self.paths(split)
        return tf.data.Dataset.from_generator(
            lambda: self.chunks(split, paths),
            output_signature={name: tf.TensorSpec([None], tf.string) for name in self._fields},
        )

    def chunks(self, split: str, paths: Sequence[str]) -> Iterator[dict[str, list[str]]]:
        """The records of files of a split in order, in chunks: {field: up to CHUNK texts}."""
        policy = _bad_records[-1]
        columns: dict[str, list[str]] = {name: [] for name in self._fields}
        first = columns[self._fields[0]]
        for record in self._read(split, *paths):
            if isinstance(record, readers.BadRecord):
                policy.add(record)
                continue
            if isinstance(record, readers.LeftOut):
                policy.left_out[record.reason] += 1
                continue
            for name, column in columns.items():
                column.append(record[name])
            if len(first) == CHUNK:
                yield columns
                columns = {name: [] for name in self._fields}
                first = columns[self._fields[0]]
        if first:
            yield columns


# ---------------------------------------------------------------------------------------------
# Preprocessors. Each works on one example, and on a batch of them: only string operations that do
# not look at the shape. `prepare` uses this, see `works_on_batches`.


def text_map(fn: Callable[..., dict[str, tf.Tensor]]) -> Callable[..., tf.data.Dataset]:
    """Like seqio.map_over_dataset, for a function that is right for batches of texts, too."""
    mapped = seqio.map_over_dataset(fn)
    mapped.works_on_batches = True
    return mapped


def works_on_batches(preprocessor: Callable[..., Any]) -> bool:
    """Whether a preprocessor was made by `text_map`."""
    while isinstance(preprocessor, functools.partial):
        preprocessor = preprocessor.func
    return getattr(preprocessor, 'works_on_batches', False)


@text_map
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
        parts: list[Any] = []
        for literal, field, _, _ in string.Formatter().parse(template):
            parts += [literal] if literal else []
            parts += [example[field]] if field is not None else []
        result[name] = tf.strings.join(parts)
    return result


@text_map
def tag_target_language(example: dict[str, tf.Tensor], lang: str) -> dict[str, tf.Tensor]:
    """Writes the target language at the start of the input, if the vocabulary's model reads it so.

    The MTG paper (arXiv:2108.07140, section 4.1) puts the tag of the target language at the start
    of mT5's input without saying how it is spelled. Example, lang 'de': 'Rome' -> '<de> Rome'
    """
    if tokenizer().tags != 'target_in_source':
        return example
    return example | {'inputs': tf.strings.join([f'<{lang}> ', example['inputs']])}


def prefixes(
    source_lang: str | None, target_lang: str | None, view: str = 'generation'
) -> dict[str, np.ndarray]:
    """What `add_prefix` puts before each feature, [length] int32, for the vocabulary in use."""
    chosen = tokenizer()
    if view != 'generation' and vocabularies.FAMILIES[chosen.family].needs_languages:
        raise errors.UserError(
            f'vocabulary {chosen.name} is of a model whose inputs hold the language to translate '
            f'from or into, so it is no vocabulary for {view}; take one of BERT, XLM-R or T5'
        )
    source, target = chosen.prefix_ids(source_lang, target_lang)
    return {'inputs': source, 'targets': source if view == 'retrieval' else target}


def add_prefix(
    dataset: tf.data.Dataset,
    source_lang: str | None,
    target_lang: str | None,
    view: str = 'generation',
) -> tf.data.Dataset:
    """Puts the model's own tokens before the ids: of the language, or of the start of a text.

    Example, mBART-50, 'en' to 'de': inputs [5, 6], targets [7] -> [en_XX, 5, 6], [de_DE, 7]. The
    loss covers them, as in mBART's pretraining, so that a decoder that is told its first token and
    one that is not go on alike. For retrieval the targets get what the inputs get, BERT:
    [5, 6], [7] -> [CLS, 5, 6], [CLS, 7].
    """
    found = prefixes(source_lang, target_lang, view)
    found = {name: ids for name, ids in found.items() if ids.size}

    def prepend(example: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        return example | {
            name: tf.concat([ids, example[name]], 0)
            for name, ids in found.items()
            if name in example
        }

    return dataset.map(prepend, num_parallel_calls=tf.data.AUTOTUNE) if found else dataset


def cut_passage(
    dataset: tf.data.Dataset,
    sequence_length: Mapping[str, int] | None = None,
) -> tf.data.Dataset:
    """Cuts inputs without eos that are too long, so that the answer that stands last in them stays.

    xlbench's own batches are cut alike: see features.trim_passage.
    """
    limit = (sequence_length or {}).get('inputs')
    if not limit:
        return dataset
    chosen = tokenizer()
    mark, end = chosen.answer_mark(), np.array([chosen.eos_id], np.int32)

    def cut(ids: np.ndarray) -> np.ndarray:
        whole = np.concatenate([ids, end])
        return features.trim_passage(whole, limit, chosen.eos_id, mark)[:-1]

    def example(record: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        ids = tf.numpy_function(cut, [record['inputs']], tf.int32)
        ids.set_shape([None])
        return record | {'inputs': ids}

    return dataset.map(example, num_parallel_calls=tf.data.AUTOTUNE)


def text_preprocessors(
    inputs: str,
    targets: str,
    target_lang: str | None = None,
    keep: Sequence[str] = (),
    source_lang: str | None = None,
) -> list[Callable[..., tf.data.Dataset]]:
    """The steps of a text-to-text task: templates, language tag, ids, language tokens, eos.

    Args:
      inputs, targets: templates, see `format_text`.
      target_lang: ISO code of the targets, None where it is not one language.
      keep: fields that stay as they are.
      source_lang: ISO code of the inputs, likewise.
    """
    tag = [functools.partial(tag_target_language, lang=target_lang)] if target_lang else []
    return [
        functools.partial(format_text, inputs=inputs, targets=targets, keep=tuple(keep)),
        *tag,
        seqio.preprocessors.tokenize,
        functools.partial(add_prefix, source_lang=source_lang, target_lang=target_lang),
        seqio.CacheDatasetPlaceholder(),
        cut_passage,
        seqio.preprocessors.append_eos_after_trim,
    ]


def retrieval_preprocessors(
    inputs: str, targets: str, keep: Sequence[str] = ()
) -> list[Callable[..., tf.data.Dataset]]:
    """The steps of a retrieval task: templates, then both sides as inputs of an encoder.

    Args:
      inputs, targets: templates, see `format_text`.
      keep: fields that stay as they are.

    Example, BERT: 'Hast du Zeit?', 'Ja' -> [CLS] Hast du Zeit ? [SEP], [CLS] Ja [SEP]; no language
    tag in either.
    """
    return [
        functools.partial(format_text, inputs=inputs, targets=targets, keep=tuple(keep)),
        seqio.preprocessors.tokenize,
        functools.partial(add_prefix, source_lang=None, target_lang=None, view='retrieval'),
        seqio.CacheDatasetPlaceholder(),
        seqio.preprocessors.append_eos_after_trim,
    ]


def classification_preprocessors(
    labels: Sequence[str] | Labels, texts: Sequence[str], keep: Sequence[str] = ()
) -> list[Callable[..., tf.data.Dataset]]:
    """The steps of a classification task, from records with a `label`.

    Args:
      labels: their texts, in the order of their ids.
      texts: the fields of the one or two texts.
      keep: fields that stay as they are.
    """
    labels = _as_labels(labels, 'classification')
    encoder = functools.partial(classification_encoder, labels, tuple(texts))
    step = functools.partial(encode_labelled, encoder=encoder, texts=tuple(texts), keep=tuple(keep))
    return [step, seqio.CacheDatasetPlaceholder()]


def tagging_preprocessors(
    labels: Sequence[str] | Labels, keep: Sequence[str] = ()
) -> list[Callable[..., tf.data.Dataset]]:
    """The steps of a tagging task, from records of `words` and `tags`.

    Args:
      labels: all tags, in the order of their ids.
      keep: fields that stay as they are.
    """
    encoder = functools.partial(tagging_encoder, _as_labels(labels, 'tagging'))
    step = functools.partial(encode_labelled, encoder=encoder, texts=('words',), keep=tuple(keep))
    return [step, seqio.CacheDatasetPlaceholder()]


Encoder = Callable[[Mapping[str, str]], dict[str, Any]]  # A record -> its features.


def classification_encoder(labels: Sequence[str] | Labels, texts: Sequence[str]) -> Encoder:
    """Encodes one or two texts and their label, by the vocabulary in use.

    Example, BERT: {'text_a': 'Es regnet.', 'text_b': 'Es ist nass.', 'label': 'entailment'} ->
      inputs [CLS] Es regnet . [SEP] Es ist nass . [SEP], targets [1], piece_counts [3, 4],
      inputs_pretokenized 'Es regnet.\\tEs ist nass.', targets_pretokenized 'entailment'
    """
    chosen, known = tokenizer(), Labels(_as_labels(labels, '').labels, 'classification')
    prefixes(None, None, 'classification')  # Refuses vocabularies that are of no encoder.

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
    """Encodes words and their tags, each word alone, by the vocabulary in use.

    A word that the vocabulary leaves nothing of is one unknown piece.

    Example, BERT: {'words': 'Hunde bellen', 'tags': 'NOUN VERB'} -> inputs
      [CLS] Hun ##de bel ##len [SEP], targets [7, 15], piece_counts [2, 2]
    """
    chosen, known = tokenizer(), Labels(_as_labels(labels, '').labels, 'tagging')
    prefixes(None, None, 'tagging')  # Refuses vocabularies that are of no encoder.
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


def encode_labelled(
    dataset: tf.data.Dataset,
    encoder: Callable[[], Encoder],
    texts: Sequence[str],
    keep: Sequence[str] = (),
) -> tf.data.Dataset:
    """Texts and labels -> ids; `prepare` calls the encoder without a dataset, which is faster.

    Args:
      dataset: of records of texts.
      encoder: gives the function that encodes one, for the vocabulary of this moment.
      texts: the fields that hold language; `prepare` trains vocabularies on them.
      keep: fields that stay as they are.
    """
    del texts
    encode, fields = encoder(), list(dataset.element_spec)
    ids = ('inputs', 'targets', 'piece_counts')
    shown = ('inputs_pretokenized', 'targets_pretokenized')

    def call(*values: Any) -> list[np.ndarray]:
        # Eager, a text is an array [].
        data = [value.item() if isinstance(value, np.ndarray) else value for value in values]
        found = encode({name: text.decode() for name, text in zip(fields, data, strict=True)})
        return [found[name] for name in ids] + [
            np.array(found[name].encode(), object) for name in shown
        ]

    def example(record: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        types = [tf.int32] * len(ids) + [tf.string] * len(shown)
        found = tf.numpy_function(call, [record[name] for name in fields], types)
        for tensor, shape in zip(found, [[None]] * len(ids) + [[]] * len(shown), strict=True):
            tensor.set_shape(shape)
        kept = {name: record[name] for name in keep}
        return kept | dict(zip((*ids, *shown), found, strict=True))

    return dataset.map(example)


def text_metrics(lang: str) -> list[Callable[..., dict[str, float]]]:
    """The scores of generated text in one language: ROUGE, BLEU, chrF, distinct n-grams."""
    from xlbench.metrics import bleu, distinct, rouge

    return [
        rouge.MultilingualRouge(lang=lang),
        bleu.SacreBleu.for_language(lang),
        bleu.ChrF(),
        distinct.Distinct.for_language(lang),
    ]


def reply_metrics(lang: str) -> list[Callable[..., dict[str, float]]]:
    """The scores of suggested replies in one language: MRS's weighted ROUGE, BLEU."""
    from xlbench.metrics import bleu, mrs

    return [mrs.MrsRouge(lang), bleu.SacreBleu.for_language(lang)]


# ---------------------------------------------------------------------------------------------
# Messages and replies.

REPLY_FIELDS = ('message', 'reply', 'lm_score', 'cluster', 'display')
# A pair has neither a score nor a cluster; those are of the members of a response set.
PAIR = dict.fromkeys(REPLY_FIELDS, '')
# Stands in place of a message where one side opens a dialogue; ParlAI's convention.
SILENCE = '__SILENCE__'


def add_reply_tasks(
    name: str,
    lang: str,
    source: seqio.DataSource,
    metrics: Sequence[Callable[..., dict[str, float]]] | None = None,
    headline: str | None = None,
) -> list[seqio.Task]:
    """Registers both views of the same pairs: <name>_retrieval_de_de and <name>_generation_de_de.

    Args:
      name: of the benchmark, the name of the file this stands in.
      lang: ISO code of messages and replies.
      source: gives REPLY_FIELDS.
      metrics: metric functions; by default those of `reply_metrics`.
      headline: the score that stands for the tasks; see `headline`.
    """
    for kind in ('retrieval', 'generation'):
        score = headline or ('mrs_rouge' if metrics is None else '')
        _headlines[f'{name}_{kind}_{lang}_{lang}'] = score
    metrics = reply_metrics(lang) if metrics is None else list(metrics)
    sides = '{message}', '{reply}'
    views = {
        'retrieval': (retrieval_preprocessors(*sides, REPLY_FIELDS), retrieval_features()),
        'generation': (text_preprocessors(*sides, lang, REPLY_FIELDS, lang), text_features()),
    }
    return [
        seqio.TaskRegistry.add(
            f'{name}_{kind}_{lang}_{lang}',
            source=source,
            preprocessors=steps,
            output_features=features,
            metric_fns=list(metrics),
        )
        for kind, (steps, features) in views.items()
    ]


# ---------------------------------------------------------------------------------------------
# Tasks of a user's own files.


class Hub(NamedTuple):
    """A split of a data set of the Hugging Face hub, in place of a file of a task.

    It needs the library: python -m pip install 'datasets>=4'. What that has downloaded once it
    reads again without a connection.

    Args:
      name: as `datasets.load_dataset` takes it, such as 'google/xquad'; a folder, too.
      split: of the data set, such as 'train'.
      config: which of several data sets of that name, such as 'xquad.de'.
      revision: a branch, tag or commit; a commit stays what it is.
    """

    name: str
    split: str
    config: str | None = None
    revision: str | None = None

    def paths(self) -> list[str]:
        """The Arrow files of the split in the library's cache; downloads them if need be."""
        try:
            datasets = importlib.import_module('datasets')
        except ImportError:
            raise errors.UserError(
                f'the data set {self.name} needs the package datasets: '
                "python -m pip install 'datasets>=4', or name Parquet files of it that are here"
            ) from None
        try:
            read = datasets.load_dataset(
                self.name, self.config, split=self.split, revision=self.revision
            )
        except Exception as error:  # Of any kind: the name, the network, the disk, the files.
            said = ' '.join(str(error).split())[:300]
            raise errors.UserError(f'the data set {self.name} cannot be read: {said}') from error
        paths = [entry['filename'] for entry in read.cache_files]
        if sum(rows.count(path, rows.Layout('arrow')) for path in paths) != len(read):
            raise errors.UserError(
                f'the split {self.split!r} of {self.name} is a part of what is stored; name a '
                'whole split, or save it with save_to_disk and name that folder'
            )
        return paths


Files = Mapping[str, str | Hub]  # Split -> a path, a pattern or a folder, or a split of the hub.
DialogueFiles = dict[str, str]  # Split -> a path or a pattern.
Metric = Callable[..., dict[str, float]]


def _is_texts(value: Any) -> bool:
    # A text is a sequence of texts, too; a set has another order in each process.
    return isinstance(value, list | tuple) and all(isinstance(text, str) for text in value)


def _is_files(value: Any, places: type | types.UnionType) -> bool:
    named = isinstance(value, Mapping) and bool(value)
    return named and all(
        isinstance(split, str)
        and re.fullmatch(r'[A-Za-z0-9][A-Za-z0-9_.+-]*', split)
        and isinstance(place, places)
        for split, place in value.items()
    )


_FILES = (
    "a path for each split, such as {'train': 'news/train.jsonl'}, or a pattern of several files, "
    "such as 'news/*.jsonl'"
)


@dataclasses.dataclass(frozen=True)
class Shots:
    """Buckets of few shots that are drawn from the split 'train': further splits shots_1, ...

    Each bucket is as arXiv:2012.15682 has it (see xlbench/buckets.py): K examples of each label, no
    example in two buckets; of tags, sentences until each tag is on K words, and none without need.
    The same files, numbers and seed give the same buckets.

    Attributes:
      numbers: of shots, K.
      buckets: of each.
      seed: another one draws others.
    """

    numbers: Sequence[int] = (1, 2, 4)
    buckets: int = 40
    seed: int = 0

    def __post_init__(self):
        for number in (*self.numbers, self.buckets):
            if not isinstance(number, int) or number < 1:
                raise errors.UserError(f'{self} has a number that is not a whole one above 0')

    @property
    def splits(self) -> dict[str, int]:
        """Split -> K."""
        return {f'shots_{number}': number for number in self.numbers}

    def draw(self, records: Iterable[Any], number: int) -> Iterator[Any]:
        """The records of all buckets of K shots, each with its `bucket`; bad ones as they are."""
        pool = []
        for record in records:
            if isinstance(record, dict):
                pool.append(record)
            elif isinstance(record, readers.BadRecord):  # Only empty buckets count as left out.
                yield record
        random_numbers = random.Random(f'{self.seed}/{number}')
        if pool and 'tags' in pool[0]:
            sampler = buckets.MinimumIncluding([_labels_in(r, 'tagging') for r in pool], number)
            chosen = [sampler.sample(random_numbers) for _ in range(self.buckets)]
        else:
            labels = [record['label'] for record in pool]
            ways = sorted(set(labels))
            chosen = buckets.n_way(labels, ways, number, self.buckets, random_numbers)
        for index, places in enumerate(chosen):
            if not places:
                yield readers.LeftOut('empty buckets')
            yield from (pool[place] | {'bucket': str(index)} for place in places)


# What may be declared of a task: annotation -> whether a value is of that kind, and what is.
_KINDS: dict[Any, tuple[Callable[[Any], bool], str]] = {
    str: (lambda value: isinstance(value, str), 'a text'),
    bool: (lambda value: isinstance(value, bool), 'True or False'),
    int: (lambda value: isinstance(value, int) and not isinstance(value, bool), 'a whole number'),
    types.NoneType: (lambda value: value is None, 'None'),
    Sequence[str]: (_is_texts, "a list of texts, such as ['a', 'b']"),
    Mapping[str, str]: (
        lambda value: isinstance(value, Mapping) and _is_texts([*value, *value.values()]),
        "texts by name, such as {'inputs': 'text', 'targets': 'headline'}",
    ),
    Files: (lambda value: _is_files(value, str | Hub), _FILES),
    DialogueFiles: (lambda value: _is_files(value, str), _FILES),
    Sequence[Metric]: (
        lambda value: isinstance(value, list | tuple) and all(map(callable, value)),
        'a list of metrics, such as [exact_match], a function of (targets, predictions)',
    ),
    Callable[[str, int], bool]: (callable, 'a function'),
    Shots: (lambda value: isinstance(value, Shots), 'pipeline.Shots(numbers=(1, 2, 4))'),
}


def _declares(register: Callable[..., Any]) -> Callable[..., Any]:
    """Checks what a `register_...` function is called with by its annotations, in one line."""
    signature = inspect.signature(register)

    @functools.wraps(register)
    def checked(*args: Any, **kwargs: Any) -> Any:
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:  # A misspelt argument, or one that is missing.
            raise errors.UserError(f'{register.__name__}: {error}') from None
        given = bound.arguments
        if isinstance(given['files'], Mapping):  # A pathlib.Path is a path, too.
            given['files'] = {
                split: os.fspath(place) if isinstance(place, os.PathLike) else place
                for split, place in given['files'].items()
            }
        name = given['name']
        if not isinstance(name, str) or not re.fullmatch(r'[A-Za-z0-9][A-Za-z0-9_.]*', name):
            raise errors.UserError(
                f'{register.__name__}: {name!r} is no name of a task; letters, digits, "_" and "." '
                'are, such as news_title_de'
            )
        for argument, value in given.items():
            annotation = signature.parameters[argument].annotation
            is_union = isinstance(annotation, types.UnionType)
            kinds = [_KINDS[kind] for kind in (annotation.__args__ if is_union else [annotation])]
            if not any(fits(value) for fits, _ in kinds):
                allowed = ' or '.join(words for _, words in kinds if words != 'None')
                raise errors.UserError(
                    f'task {name}: {argument} is {errors.shortened(value)}; give {allowed}'
                )
        return register(*bound.args, **bound.kwargs)

    return checked


def _check_new(name: str, files: Files, layout: rows.Layout) -> None:
    """UserError for a task that cannot be registered."""
    if name in seqio.TaskRegistry.names() or name in seqio.MixtureRegistry.names():
        raise errors.UserError(f'task {name} is there already; choose another name')
    for path in files.values():
        ending = '' if isinstance(path, Hub) else os.path.splitext(path)[1]
        if ending and not layout.format:
            layout.format_of(path)  # A folder has no ending, and is looked into when it is read.


Read = Callable[[str], Iterator[readers.Record | readers.BadRecord | readers.LeftOut]]


def _file_source(
    files: Files,
    read_file: Read,
    count_file: Callable[[str], int],
    fields: Sequence[str],
    *,
    source_lang: str | None,
    target_lang: str | None,
    also: Sequence[str] = (),
    shots: Shots | None = None,
) -> RecordSource:
    """The records of a user's files.

    Args:
      files: split -> what it is read from.
      read_file: a path -> its records.
      count_file: a path -> their number.
      fields: of a record.
      source_lang, target_lang: see RecordSource.
      also: splits whose files decide what the records of any split are, as its own do.
      shots: what buckets of few shots are drawn, as further splits.
    """
    drawn = shots.splits if shots else {}

    def patterns(split: str) -> list[str]:
        place = files['train' if split in drawn else split]
        if isinstance(place, Hub):
            return place.paths()
        return [rows.in_folder(_below_root(place))]

    def of_split(split: str, paths: Sequence[str]) -> Sequence[str]:
        """Without those of `also`, which come last."""
        return paths[: sum(len(readers.find(path)) for path in patterns(split))]

    def read(split: str, *paths: str) -> Iterator[Any]:
        records = (record for path in of_split(split, paths) for record in read_file(path))
        if split in drawn:
            yield from shots.draw(records, drawn[split])
        elif shots:
            yield from (r | {'bucket': ''} if isinstance(r, dict) else r for r in records)
        else:
            yield from records

    def count(split: str, *paths: str) -> int:
        if split in drawn:
            return sum(isinstance(record, dict) for record in read(split, *paths))
        return sum(map(count_file, of_split(split, paths)))

    return RecordSource(
        read,
        lambda split: [path for part in dict.fromkeys((split, *also)) for path in patterns(part)],
        (*files, *drawn),
        (*fields, 'bucket') if shots else tuple(fields),
        source_lang=source_lang,
        target_lang=target_lang,
        count=count,
    )


def _check_shots(name: str, files: Files, shots: Shots | None) -> None:
    if shots and 'train' not in files:
        raise errors.UserError(f"task {name} has no split 'train' to draw shots from")


def _read_rows(
    keys: Sequence[str],
    layout: rows.Layout,
    record_of: Callable[[Mapping[str, Any]], readers.Record],
    labels: Labels | None = None,
) -> Read:
    """Reads rows as records.

    Args:
      keys: of a row, those that are needed.
      layout: how the files are written.
      record_of: the values of a row -> a record; ValueError says what is wrong with them.
      labels: those that records may have; by default any.
    """

    def read(path: str) -> Iterator[readers.Record | readers.BadRecord]:
        check = _check_of(labels) if labels else lambda record: record
        for row in rows.read(path, list(dict.fromkeys(keys)), layout):
            if isinstance(row, readers.BadRecord):
                yield row
                continue
            try:
                yield check(record_of(row.values))
            except ValueError as error:
                yield readers.BadRecord(path, row.number, str(error))

    return read


@_declares
def register_text_task(
    name: str,
    *,
    files: Files,
    fields: Mapping[str, str],
    format: str | None = None,
    columns: Sequence[str] | None = None,
    separator: str | None = None,
    quotes: bool = True,
    lang: str | None = None,
    source_lang: str | None = None,
    target_lang: str | None = None,
    metrics: Sequence[Metric] | None = None,
    headline: str | None = None,
) -> seqio.Task:
    """Adds a text-to-text task that reads files of any common format.

    Args:
      name: of the task; its first word (up to the first _) is the name of the file it stands in.
      files: split -> path, absolute or below the data root. A path may be a pattern of several
        files (de/train-*.parquet), a folder of `datasets.Dataset.save_to_disk`, or a `Hub`; .gz is
        read too.
      fields: `inputs`, `targets` and any further text to keep -> JSON key or column. An input that
        is too long for a model loses its end; but where it has ' <answer> ', the end of what stands
        before that, so that what is asked for stays.
      format: 'jsonl', 'json' (an array of objects), 'csv', 'tsv', 'parquet' or 'arrow'; by default
        what the names of the files end in.
      columns: of csv and tsv, the names of all columns; None if the first line has them.
      separator: of csv and tsv; by default ',' and a TAB. Excel writes ';' in many countries.
      quotes: of csv and tsv, whether "..." holds a cell with separators and line breaks in it, as
        pandas and Excel write it. A file in which that cannot be is refused; False reads it.
      lang: ISO code of inputs and targets.
      source_lang: of the inputs, if `lang` is not given.
      target_lang: of the targets, if `lang` is not given. It is written before each input, and
        chooses the metrics' word splitting.
      metrics: metric functions; by default those of `text_metrics`, for a target language.
      headline: the score that stands for the task in tables and config.best; see `headline`.

    Example, tasks/news.py:
      from xlbench import pipeline

      pipeline.register_text_task(
          'news_title_de',
          files={'train': 'news/de/train.jsonl', 'validation': 'news/de/dev.jsonl'},
          fields={'inputs': 'text', 'targets': 'headline'},
          lang='de',
      )
    """
    layout = rows.Layout(format, columns, separator, quotes)
    for needed in ('inputs', 'targets'):
        if needed not in fields:
            raise errors.UserError(f'task {name}: fields has no {needed!r}; it has {list(fields)}')
    if columns and (missing := [key for key in fields.values() if key not in columns]):
        raise errors.UserError(f'task {name}: column {missing[0]!r} is not in {list(columns)}')
    _check_new(name, files, layout)
    source_lang, target_lang = source_lang or lang, target_lang or lang
    default = 'rouge_l' if metrics is None and target_lang else ''
    if metrics is None:
        metrics = text_metrics(target_lang) if target_lang else []
    _note_headline(name, headline, default, metrics)
    return seqio.TaskRegistry.add(
        name,
        source=_file_source(
            files,
            _read_rows(
                list(fields.values()),
                layout,
                lambda row: {field: rows.text(row[key], key) for field, key in fields.items()},
            ),
            functools.partial(rows.count, layout=layout),
            list(fields),
            source_lang=source_lang,
            target_lang=target_lang,
        ),
        preprocessors=text_preprocessors(
            '{inputs}',
            '{targets}',
            target_lang,
            keep=[field for field in fields if field not in ('inputs', 'targets')],
            source_lang=source_lang,
        ),
        output_features=text_features(),
        metric_fns=list(metrics),
    )


@_declares
def register_classification_task(
    name: str,
    *,
    files: Files,
    text: str | Sequence[str] = 'text',
    label: str = 'label',
    labels: Sequence[str] | None = None,
    format: str | None = None,
    columns: Sequence[str] | None = None,
    separator: str | None = None,
    quotes: bool = True,
    keep: Sequence[str] = (),
    lang: str | None = None,
    metrics: Sequence[Metric] | None = None,
    headline: str | None = None,
    shots: Shots | None = None,
) -> seqio.Task:
    """Adds a task that gives a text, or a pair of texts, one of several labels.

    Args:
      name: of the task; its first word (up to the first _) is the name of the file it stands in.
      files, format, columns, separator, quotes: as for `register_text_task`.
      text: JSON key or column of the text; of a pair, those of both: ('premise', 'hypothesis').
      label: JSON key or column of the label, a text or a whole number.
      labels: all labels, in the order of their ids. By default those of the split 'train', sorted,
        numbers by value. A task without that split needs them, and so do tasks in several languages
        if not each has examples of every label: a model has one list of labels.
      keep: further keys or columns of texts that stay beside the example, such as an id.
      lang: ISO code of the texts.
      metrics: metric functions; by default accuracy and macro-F1.
      headline: the score that stands for the task in tables and config.best; see `headline`.
      shots: buckets of few shots to draw from the split 'train', for python -m xlbench.fewshot.

    Example, tasks/reviews.py, for files such as 'review,stars' and '"Well, no",1' below it:
      from xlbench import pipeline

      pipeline.register_classification_task(
          'reviews_stars_en',
          files={'train': 'reviews/train.csv', 'validation': 'reviews/dev.csv'},
          text='review',
          label='stars',
          lang='en',
      )
    """
    layout = rows.Layout(format, columns, separator, quotes)
    keys = [text] if isinstance(text, str) else list(text)
    if len(keys) not in (1, 2):
        raise errors.UserError(f'task {name}: text is {text!r}; it names one column, or two')
    _check_new(name, files, layout)
    _check_shots(name, files, shots)
    names = ['text_a', 'text_b'][: len(keys)]

    def record_of(row: Mapping[str, Any]) -> readers.Record:
        record = {name: rows.text(row[key], key) for name, key in zip(names, keys, strict=True)}
        record |= {key: rows.text(row[key], key) for key in keep}
        return record | {'label': rows.label(row[label], label)}

    read = _read_rows([*keys, label, *keep], layout, record_of)
    known = _known_labels(name, files, labels, read, 'classification')
    from xlbench.metrics import classification

    default = 'accuracy' if metrics is None else ''
    if metrics is None:
        metrics = [classification.Classification(tuple(labels or ()))]
    _note_headline(name, headline, default, metrics)
    return seqio.TaskRegistry.add(
        name,
        source=_file_source(
            files,
            _read_rows([*keys, label, *keep], layout, record_of, known),
            functools.partial(rows.count, layout=layout),
            [*names, *keep, 'label'],
            source_lang=lang,
            target_lang=lang,
            also=('train',) if labels is None else (),
            shots=shots,
        ),
        preprocessors=classification_preprocessors(
            known, names, [*keep, *(['bucket'] if shots else [])]
        ),
        output_features=label_features(known, 'classification'),
        metric_fns=list(metrics),
    )


# Formats of tagged words that are no rows, and what names of files say about them.
_TAGGED = {'conll': conllu.read_conll, 'conllu': conllu.read_conllu, 'iob2': conllu.read_iob2}
_TAGGED_ENDINGS = {'.conllu': 'conllu', '.iob2': 'iob2'}
_TAGGED_ENDINGS |= dict.fromkeys(('.conll', '.bio', '.iob', '.tsv', '.txt'), 'conll')


@_declares
def register_tagging_task(
    name: str,
    *,
    files: Files,
    format: str | None = None,
    words: str = 'tokens',
    tags: str = 'tags',
    word_column: int = 0,
    tag_column: int | None = None,
    labels: Sequence[str] | None = None,
    lang: str | None = None,
    metrics: Sequence[Metric] | None = None,
    headline: str | None = None,
    shots: Shots | None = None,
) -> seqio.Task:
    """Adds a task that gives each word of a sentence a tag.

    Args:
      name: of the task; its first word (up to the first _) is the name of the file it stands in.
      files: as for `register_text_task`.
      format: 'conll', a word on each line with its tag in the last column, 'conllu', 'iob2' (of
        Universal NER), or as for `register_text_task`, with lists of words and tags. By default
        what the names of the files end in; .txt, .tsv, .bio and .iob are conll.
      words, tags: JSON keys or columns of the lists.
      word_column: of conll, where the words are, counted from 0.
      tag_column: of conll and conllu, where the tags are; by default the last column, and UPOS.
      labels: all tags, in the order of their ids. By default those of the split 'train', sorted; a
        task without that split needs them, and one whose other splits have further tags.
      lang: ISO code of the sentences.
      metrics: metric functions; by default chunk F1 and the share of right tags.
      headline: the score that stands for the task in tables and config.best; see `headline`.
      shots: buckets of few shots to draw from the split 'train', for python -m xlbench.fewshot.

    Example, tasks/places.py, for files of lines such as 'in O' and 'Rome B-LOC':
      from xlbench import pipeline

      pipeline.register_tagging_task(
          'places_ner_en',
          files={'train': 'places/train.conll', 'test': 'places/test.conll'},
          lang='en',
      )
    """
    _check_shots(name, files, shots)
    formats = {format or _tagged_format(place) for place in files.values()}
    if len(formats) > 1:
        raise errors.UserError(f'task {name}: its files have the formats {", ".join(formats)}')
    (kind,) = formats or {None}
    if kind in _TAGGED:
        _check_new(name, files, rows.Layout('jsonl'))  # Whose names are not looked at.
        read = _tagged_reader(name, kind, word_column, tag_column)
    else:
        if format is not None and format not in rows.FORMATS:
            raise errors.unknown('format', format, (*_TAGGED, *rows.FORMATS))
        layout = rows.Layout(kind)
        _check_new(name, files, layout)
        record_of = functools.partial(_tagged, words=words, tags=tags)
        read = _read_rows([words, tags], layout, record_of)
    known = _known_labels(name, files, labels, read, 'tagging')
    checked = (
        _with_labels(read, known)
        if kind in _TAGGED
        else _read_rows([words, tags], layout, record_of, known)
    )
    from xlbench.metrics import tagging

    default = _OF_TAGS if metrics is None else ''
    if metrics is None:
        metrics = [tagging.ChunkF1(), tagging.TagAccuracy()]
    _note_headline(name, headline, default, metrics)
    return seqio.TaskRegistry.add(
        name,
        source=_file_source(
            files,
            checked,
            lambda path: sum(not isinstance(record, readers.LeftOut) for record in read(path)),
            ('words', 'tags'),
            source_lang=lang,
            target_lang=lang,
            also=('train',) if labels is None else (),
            shots=shots,
        ),
        preprocessors=tagging_preprocessors(known, ['bucket'] if shots else []),
        output_features=label_features(known, 'tagging'),
        metric_fns=list(metrics),
    )


def _tagged_format(place: str | Hub) -> str | None:
    """The format of tagged words that the name of a file says; None if it is one of rows."""
    if isinstance(place, Hub):
        return None
    return _TAGGED_ENDINGS.get(os.path.splitext(place.removesuffix('.gz'))[1])


def _tagged_reader(name: str, kind: str, word_column: int, tag_column: int | None) -> Read:
    """The reader of a format of tagged words; UserError for columns that it does not have."""
    columns = {} if tag_column is None else {'tag_column': tag_column}
    if kind == 'conll':
        columns['word_column'] = word_column
    if kind == 'iob2' and columns:
        raise errors.UserError(f'task {name}: the columns of iob2 are what they are')
    allowed = range(-1, 1000) if kind == 'conll' else range(conllu.COLUMNS)
    for argument, column in columns.items():
        if column not in allowed:
            raise errors.UserError(
                f'task {name}: {argument} is {column}; columns are counted from 0'
                + (f', and conllu has {conllu.COLUMNS}' if kind == 'conllu' else '')
            )
    return functools.partial(_TAGGED[kind], **columns)


def _tagged(row: Mapping[str, Any], words: str, tags: str) -> readers.Record:
    """The record of a row of two lists; spaces in words go, as in xlbench/data/conllu.py."""
    texts, labels = rows.texts(row[words], words), rows.texts(row[tags], tags)
    if len(texts) != len(labels):
        raise ValueError(f'{len(texts)} {words} and {len(labels)} {tags}')
    plain = [''.join(rows.text(text, f'a text of {words}').split()) for text in texts]
    names = [rows.label(label, f'one of {tags}') for label in labels]
    if spaced := [name for name in names if len(name.split()) > 1]:
        raise ValueError(f'{spaced[0]!r} is not a tag')
    return {'words': ' '.join(plain), 'tags': ' '.join(names)}


def _known_labels(
    name: str, files: Files, labels: Sequence[str] | None, read: Read, view: str
) -> Labels:
    """The labels of a task, given or those of its split 'train'."""
    if labels is not None:
        if isinstance(labels, str) or len(set(labels)) < max(len(labels), 2):
            raise errors.UserError(
                f'task {name}: labels is {labels!r}; give two or more, each once: ("bad", "good")'
            )
        return Labels([str(label) for label in labels], view)
    if 'train' not in files:
        raise errors.UserError(
            f"task {name} has no split 'train' to read its labels from; give labels=(...)"
        )

    @functools.lru_cache(maxsize=8)
    def of_files(paths: tuple[str, ...], stamps: tuple[Any, ...]) -> tuple[str, ...]:
        del stamps  # Other files of the same name have others.
        there: set[str] = set()
        bad = None
        for record in (record for path in paths for record in read(path)):
            if isinstance(record, dict):
                there.update(_labels_in(record, view))
            elif isinstance(record, readers.BadRecord):  # Reading the examples reports it, too.
                bad = bad or record
        if len(there) < 2:
            raise errors.UserError(
                f'{bad}'
                if bad
                else f"task {name}: the split 'train' has "
                f'{"only the label " if there else "no label"}{", ".join(there)}: there is nothing '
                'to tell apart'
            )
        is_number = all(re.fullmatch('-?[0-9]+', label) for label in there)
        return tuple(sorted(there, key=int if is_number else None))

    def read_labels() -> tuple[str, ...]:
        paths = tuple(seqio.TaskRegistry.get(name).source.paths('train'))
        return of_files(paths, tuple((os.path.getsize(p), os.stat(p).st_mtime_ns) for p in paths))

    return LabelsOfData(read_labels, view)


def _labels_in(record: readers.Record, view: str) -> list[str]:
    return record['tags'].split(' ') if view == 'tagging' else [record['label']]


def _check_of(labels: Labels) -> Callable[[readers.Record], readers.Record]:
    """Gives a record back, or raises ValueError for a label that is none of these."""
    known = dict.fromkeys(labels.labels)

    def check(record: readers.Record) -> readers.Record:
        for label in _labels_in(record, labels.view):
            if label not in known:
                listed = ', '.join([*known][:30]) + (', ...' if len(known) > 30 else '')
                raise ValueError(
                    f'{label!r} is none of the labels {listed}; labels=(...) of the task names all'
                )
        return record

    return check


def _with_labels(read: Read, labels: Labels) -> Read:
    """Reads sentences; those with another tag are BadRecords."""

    def checked(path: str) -> Iterator[Any]:
        check = _check_of(labels)
        for record in read(path):
            try:
                yield check(record) if isinstance(record, dict) else record
            except ValueError as error:
                start = record['words'][:40]
                yield readers.BadRecord(path, 0, f'in the sentence {start!r} {error}')

    return checked


@_declares
def register_dialogue_tasks(
    name: str,
    lang: str,
    *,
    files: DialogueFiles,
    format: str = 'lines',
    separator: str = '__eou__',
    part_of: Callable[[str, int], bool] | None = None,
    drop_seen: bool = True,
    metrics: Sequence[Metric] | None = None,
    headline: str | None = None,
    hint: str = '',
) -> list[seqio.Task]:
    """Adds <name>_retrieval_<lang>_<lang> and <name>_generation_<lang>_<lang> of dialogues.

    Each utterance is a message and the next one its reply. Pairs whose message is SILENCE are left
    out.

    Args:
      name: without _; the name of the file it stands in.
      lang: ISO code.
      files: split -> path, absolute or below the data root; a pattern or .gz as in `readers.find`.
      format: 'lines', a dialogue on each line, or 'json': see readers.read_dialogues and
        read_dialogues_json.
      separator: of 'lines': what stands between two utterances.
      part_of: (split, number of a dialogue in its file, from 0) -> whether the dialogue is in the
        split; for splits of one file. By default all are.
      drop_seen: leaves out, of every split but 'train', the pairs that 'train' has, in the same
        letters and digits, so that what is scored was not learnt by heart. Their number is in the
        manifest.
      metrics: metric functions; by default those of `reply_metrics`.
      headline: the score that stands for the tasks in tables and config.best; see `headline`.
      hint: how to get the files, for the message about a missing one.

    Example, tasks/chat.py:
      from xlbench import pipeline

      pipeline.register_dialogue_tasks(
          'chat', 'de', files={'train': 'chat/train.txt', 'test': 'chat/test.txt'}
      )
    """
    kinds = {
        'lines': functools.partial(readers.read_dialogues, separator=separator),
        'json': readers.read_dialogues_json,
    }
    if format not in kinds:
        raise errors.unknown('format', format, kinds)
    if '_' in name:
        raise errors.UserError(f'{name!r} has a _, where the name of a benchmark ends; take it out')
    if not separator.strip(' '):
        raise errors.UserError(f'{name}: separator {separator!r} would cut at spaces; name another')

    def patterns(split: str) -> list[str]:
        seen = drop_seen and split != 'train' and 'train' in files
        return [files[split], files['train']] if seen else [files[split]]

    def pairs(split: str, paths: Iterable[str]) -> Iterator[readers.Record | readers.BadRecord]:
        for path in paths:
            for record in kinds[format](path):
                bad = isinstance(record, readers.BadRecord)
                if bad or part_of is None or part_of(split, int(record['dialogue'])):
                    yield record

    def read(split: str, *paths: str) -> Iterator[Any]:
        own, *others = [len(readers.find(_below_root(path))) for path in patterns(split)]
        if own + sum(others) != len(paths):
            raise errors.UserError(f'the files of {name} changed before split {split!r} was read')
        seen = set()
        for record in pairs('train', paths[own:]):
            if not isinstance(record, readers.BadRecord):
                seen.add(_letters(record))
            elif record.fatal:  # What else is wrong there, reading 'train' reports.
                yield record
        for record in pairs(split, paths[:own]):
            if isinstance(record, readers.BadRecord):
                yield record
            elif record['message'] == SILENCE:
                yield readers.LeftOut(f'pairs whose message is {SILENCE}')
            elif _letters(record) in seen:
                yield readers.LeftOut('pairs that training has')
            else:
                yield PAIR | {key: record[key] for key in ('message', 'reply')}

    source = RecordSource(
        read,
        patterns,
        tuple(files),
        REPLY_FIELDS,
        source_lang=lang,
        target_lang=lang,
        count=lambda split, *paths: sum(isinstance(r, dict) for r in read(split, *paths)),
        hint=hint,
    )
    return add_reply_tasks(name, lang, source, metrics, headline)


def _letters(pair: readers.Record) -> tuple[str, ...]:
    """Message and reply without case, punctuation and spaces. Example: 'Ja !' -> 'ja'"""
    sides = [pair[name].casefold() for name in ('message', 'reply')]
    # Letters, their marks, numbers; a text that has none stays as it is.
    return tuple(
        ''.join(c for c in text if unicodedata.category(c)[0] in 'LMN') or text for text in sides
    )


# ---------------------------------------------------------------------------------------------
# Mixtures.

_split: contextvars.ContextVar[str] = contextvars.ContextVar('split', default='train')


class Mixture(seqio.Mixture):
    """A SeqIO mixture whose rates count the examples of the split that is asked for.

    SeqIO's own rate functions see the task alone and count its training examples, which for MTG's
    rough_train would be the wrong ones.
    """

    def get_dataset(
        self,
        sequence_length: Mapping[str, int] | None = None,
        split: str = 'train',
        *args: Any,
        **kwargs: Any,
    ) -> tf.data.Dataset:
        """See seqio.Mixture.get_dataset."""
        token = _split.set(split)
        try:
            return super().get_dataset(sequence_length, split, *args, **kwargs)
        finally:
            _split.reset(token)


class _Counted:
    """A task whose source does not know its number of examples: they are counted, once."""

    cache_dir = None

    def __init__(self, task: seqio.Task, split: str):
        self.name, self._task, self._split = task.name, task, split

    def num_input_examples(self, split: str) -> int:
        """Of the split that was counted."""
        assert split == self._split
        return _count(self._task, split)


@functools.lru_cache(maxsize=256)
def _count(task: seqio.Task, split: str) -> int:
    dataset = task.source.get_dataset(split=split, shuffle=False)
    return int(dataset.reduce(np.int64(0), lambda count, _: count + 1))


def mixing_rate(
    kind: str, temperature: float = 2.0, maximum: int = 10_000
) -> Callable[[seqio.Task], float]:
    """How often a mixture draws from a task, as a function of the task.

    Args:
      kind: 'proportional': by number of examples n, so that every example is seen equally often.
        'equal': every task as often as the others; the examples of small ones are repeated.
        'temperature': n ** (1 / temperature). 'capped': min(n, maximum).
      temperature: of 'temperature'.
      maximum: of 'capped'.
    """
    arguments = {
        'proportional': {},
        'equal': {'maximum': 1},
        'temperature': {'temperature': temperature},
        'capped': {'maximum': maximum},
    }
    if not isinstance(kind, str) or kind not in arguments:
        raise errors.unknown('mixing rate', kind, arguments)
    for what, value in (('temperature', temperature), ('maximum', maximum)):
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not (number and 0 < value < math.inf):
            raise errors.UserError(
                f'the {what} of a mixing rate is {value!r}; give a number above 0'
            )

    def rate(task: seqio.Task) -> float:
        split = _split.get()
        if not task.cache_dir and task.num_input_examples(split) is None:
            task = _Counted(task, split)
        return seqio.mixing_rate_num_examples(task, split=split, **arguments[kind])

    return rate


def add_mixture(
    name: str, tasks: Sequence[str], rates: Iterable[str] = benchmarks.RATES
) -> list[seqio.Mixture]:
    """Registers a mixture in each of several mixing rates.

    The first rate, 'proportional', has the plain name; the others follow a dot: mtg_multi_qg.equal.

    Args:
      name: of the mixture.
      tasks: names of tasks, or of mixtures, that are registered.
      rates: of benchmarks.RATES.
    """
    for what, values in (('tasks', tasks), ('rates', rates)):
        if isinstance(values, str) or not isinstance(values, Iterable):
            raise errors.UserError(
                f'mixture {name}: {what} is {values!r}; give a list of names, such as [{values!r}]'
            )
    tasks, rates = tuple(tasks), tuple(rates)
    if not tasks or not rates:
        raise errors.UserError(f'mixture {name} has no {"rates" if tasks else "tasks"}')
    known = {*seqio.TaskRegistry.names(), *seqio.MixtureRegistry.names()}
    for task in tasks:
        if task not in known:
            raise errors.unknown(f'task of mixture {name}', task, known)
    if len(set(tasks)) < len(tasks):
        twice = next(task for task in tasks if tasks.count(task) > 1)
        raise errors.UserError(f'mixture {name} has task {twice} twice; name each once')
    if name in known:
        raise errors.UserError(f'mixture {name} is there already; choose another name')
    added = []
    for kind in rates:
        full_name = name if kind == benchmarks.RATES[0] else f'{name}.{kind}'
        rate = mixing_rate(kind)
        added.append(
            seqio.MixtureRegistry.add(
                full_name, [(task, rate) for task in tasks], mixture_cls=Mixture
            )
        )
    return added


@contextlib.contextmanager
def _all_counted(tasks: Iterable[seqio.Task]) -> Iterator[None]:
    """Within the block every task knows its number of examples, for SeqIO's own rate functions.

    They read it from SeqIO's cache, which does not exist here, or from the source, which need not
    know it.
    """

    def number(task: seqio.Task, split: str) -> int:
        known = task.source.num_input_examples(split)
        return _count(task, split) if known is None else known

    tasks = list(tasks)
    for task in tasks:  # An attribute of the instance stands before the method of its class.
        task.num_input_examples = functools.partial(number, task)
    try:
        yield
    finally:
        for task in tasks:
            del task.num_input_examples


def mixture_rates(mixture: seqio.Mixture, split: str) -> dict[str, float]:
    """The rate of each task of a mixture on one split."""
    token = _split.set(split)
    try:
        with _all_counted(mixture.tasks):
            rates = {task.name: float(mixture.get_rate(task)) for task in mixture.tasks}
    # A function of the user's, or of SeqIO, or a source without the split that it counts.
    except (TypeError, ValueError, KeyError, tf.errors.OpError) as error:
        raise errors.UserError(
            f'a rate of mixture {mixture.name} on split {split!r} cannot be computed '
            f'({" ".join(str(error).split())[:200]}); give numbers, or pipeline.mixing_rate(...)'
        ) from error
    finally:
        _split.reset(token)
    for task, rate in rates.items():
        if not (rate > 0 and math.isfinite(rate)):
            raise errors.UserError(
                f'task {task} of mixture {mixture.name} has rate {rate} on split {split!r}; '
                'is its file empty?'
            )
    return rates


# ---------------------------------------------------------------------------------------------
# Look-up.

_user_files: dict[str, str] = {}  # Word of a task, or its whole name -> the file it stands in.


def get(name: str) -> seqio.Task | seqio.Mixture:
    """The task or mixture of that name; imports the task file it must stand in.

    Raises:
      UserError: there is none; or a task file has a mistake.
    """
    if not isinstance(name, str) or not re.fullmatch(r'[A-Za-z0-9][A-Za-z0-9_.]*', name):
        raise errors.UserError(f'{name!r} is no name of a task or mixture')
    _load_tasks(name.split('_')[0])
    if (task := _registered(name)) is not None:
        return task
    # A registry that was written for T5X is called as its author liked, and has tasks of any name.
    for path in task_files.registries():
        _import_file(path, path.stem)
    if (task := _registered(name)) is not None:
        return task
    for path in task_files.REPOSITORY.glob('[a-z]*.py'):
        _load_tasks(path.stem)
    known = {*seqio.MixtureRegistry.names(), *seqio.TaskRegistry.names()}
    raise errors.unknown(
        'task or mixture',
        name,
        known,
        'A task of your own stands in a file of the folder tasks here, or in the file or folder '
        'that XLBENCH_TASKS names',
    )


def _registered(name: str) -> seqio.Task | seqio.Mixture | None:
    for registry in (seqio.MixtureRegistry, seqio.TaskRegistry):
        if name in registry.names():
            return registry.get(name)
    return None


def user_task_file(task: str) -> str | None:
    """The file that declares a task outside this repository, None for the tasks that come along."""
    word = task.split('_')[0]
    if known := _user_files.get(task) or _user_files.get(word):
        return known
    if (task_files.REPOSITORY / f'{word}.py').is_file():
        return None
    # Another part of the program has imported the file, for a metric that stands in it.
    found = [path for path in task_files.registries(word) if task_files.is_loaded(path)]
    return str(found[0]) if found else None


def _load_tasks(word: str) -> None:
    """Imports the task file of a first word, if there is one."""
    if path := task_files.find(word):
        _import_file(path, word)


def _import_file(path: pathlib.Path, word: str) -> types.ModuleType:
    """Imports a task file once.

    Raises:
      UserError: a file of the user has a mistake; with the line of it.
    """
    own = path.parent == task_files.REPOSITORY
    if not own:
        _user_files[word] = str(path)
    registries = seqio.TaskRegistry, seqio.MixtureRegistry
    before = [set(registry.names()) for registry in registries]
    try:
        module = task_files.load(path)
    except Exception as error:
        for registry, names in zip(registries, before, strict=True):  # Half a file is none.
            for added in set(registry.names()) - names:
                registry.remove(added)
        if own:
            raise
        raise mistake(error, str(path)) from error
    if not own:
        for registry, names in zip(registries, before, strict=True):
            _user_files.update(dict.fromkeys(set(registry.names()) - names, str(path)))
    return module


def mistake(error: Exception, path: str, what: str = '') -> errors.UserError:
    """What went wrong in a task file of the user, in one line with its place.

    Args:
      error: what was raised.
      path: of the file.
      what: was being done, for the start of the line.
    """
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__)
             if frame.filename == path]  # fmt: skip
    line = error.lineno if isinstance(error, SyntaxError) and error.filename == path else None
    place = ':'.join(map(str, [path, *([line] if line else lines[-1:])]))
    said = ' '.join(str(getattr(error, 'message', error)).split())[:300]
    kind = '' if isinstance(error, errors.UserError) else f'{type(error).__name__}: '
    return errors.UserError(f'{place}: {what}{kind}{said}')
