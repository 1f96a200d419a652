"""SeqIO tasks that were not written for xlbench, such as those of a T5X user's registry.

SeqIO's own pipeline prepares them, with their source, preprocessors and vocabulary. This file finds
the files that they read, checks their vocabulary against that of the run, and keeps the fields that
a postprocessor needs.
"""

import itertools
import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

from xlbench import pipeline
from xlbench.data import prepared, tokenizers
from xlbench.data.readers import Json
from xlbench.pipeline import late
from xlbench.pipeline.binding import Feature, Labels, Vocabulary
from xlbench.system import errors

if TYPE_CHECKING:
    import seqio

_SIDES = ('inputs', 'targets')


def _is(value: object, *kinds: str) -> TypeGuard[Any]:
    """Returns whether an object is of one of SeqIO's classes, without importing SeqIO."""
    seqio = late.loaded_seqio()
    return seqio is not None and isinstance(value, tuple(getattr(seqio, kind) for kind in kinds))


# ---------------------------------------------------------------------------------------------
# Sources.


def is_visible(task: pipeline.DeclaredTask) -> bool:
    """Returns whether the files of a task are known; those of a FunctionDataSource are not."""
    ours = isinstance(task.source, pipeline.RecordSource)
    return ours or _is(task.source, 'FileDataSource', 'TfdsDataSource')


def source_files(task: pipeline.DeclaredTask, split: str) -> tuple[list[str], list[str]]:
    """Returns the known files of a split, and their patterns, see `readers.find`.

    UserError if a file is missing.
    """
    source = task.source
    if isinstance(source, pipeline.RecordSource):
        return source.paths(split), source.patterns(split)
    if _is(source, 'TfdsDataSource'):
        return _tfds_paths(task, source, split), []
    if not _is(source, 'FileDataSource'):
        return [], []
    named = source._split_to_filepattern[split]  # SeqIO shows it in no other way.
    every = [os.fspath(n) for n in ([named] if isinstance(named, str | os.PathLike) else named)]
    patterns = [pattern for pattern in every if _is_local(pattern)]
    paths = [path for path in source.list_shards(split) if _is_local(path)]
    wanted = paths or (patterns if len(patterns) == len(every) else [])
    if missing := [path for path in wanted if not os.path.isfile(path)]:
        raise errors.UserError(f'there is no file {missing[0]} (task {task.name}, split {split!r})')
    return [*map(os.path.abspath, paths)], [*map(os.path.abspath, patterns)]


def _is_local(path: str) -> bool:
    return '://' not in os.fspath(path)


def _tfds_paths(
    task: pipeline.DeclaredTask, source: 'seqio.TfdsDataSource', split: str
) -> list[str]:
    loader = source.tfds_dataset
    try:
        name, folder = loader.get_split_params(split)
        place = loader._get_builder(split).data_path
        shards = source.list_shards(split)
    except Exception as error:  # Of any kind: no such data set, split or folder; no network.
        said = errors.printable(error, 300)
        raise errors.UserError(
            f'task {task.name} cannot find its TensorFlow Datasets: {said}'
        ) from error
    paths = [os.path.join(place, os.path.basename(path)) for path in shards]
    info = os.path.join(place, 'dataset_info.json')
    if not _is_local(info):
        return []
    if not os.path.isfile(info) or not all(map(os.path.isfile, paths)):
        where = f' in {folder}' if folder else ''
        raise errors.UserError(
            f'the TensorFlow data set {name} of task {task.name} is not{where}; download it first: '
            f'python -m tensorflow_datasets.scripts.cli.main build {name}'
            + (f' --data_dir={folder}' if folder else '')
        )
    return [info, *paths]


# ---------------------------------------------------------------------------------------------
# Features and vocabularies.


def check(task: pipeline.DeclaredTask, chosen: tokenizers.Tokenizer) -> None:
    """Raises UserError for a task that cannot be prepared with a vocabulary, or not scored.

    A task may bring a SentencePieceVocabulary or a ByteVocabulary with the ids of the run's.
    """
    for name in _SIDES:
        feature = task.output_features.get(name)
        if feature is None:
            raise errors.UserError(
                f'task {task.name} has no feature {name!r} (it has '
                f'{", ".join(task.output_features)}); xlbench trains on inputs and targets'
            )
        if not isinstance(feature.vocabulary, Vocabulary | Labels):
            rank, dtype = getattr(feature, 'rank', 1), getattr(feature, 'dtype', None)
            if rank != 1 or (dtype is not None and not dtype.is_integer):
                raise errors.UserError(
                    f'feature {name!r} of task {task.name} has rank {rank} and type '
                    f'{getattr(dtype, "name", dtype)}; '
                    'xlbench reads sequences of ids: rank 1, int32'
                )
            _check_vocabulary(task.name, name, feature.vocabulary, chosen)
    if task.postprocessor is not None and (view := pipeline.view(task)) != 'generation':
        raise errors.UserError(
            f'task {task.name} has a postprocessor, which only texts that a model writes get; take '
            f'it out, for {view} there are the metrics'
        )


def is_plain(feature: Feature) -> bool:
    """Returns whether a feature is a sequence of ids."""
    if isinstance(feature, Feature):
        return True
    exactly = type(feature) is late.seqio().Feature
    return exactly and (feature.rank, feature.dtype.name) == (1, 'int32')


def _brought(vocabulary: object) -> str:
    """Returns a vocabulary of SeqIO's, as `tokenizers.load` takes it; '' of another one."""
    if _is(vocabulary, 'ByteVocabulary'):
        return tokenizers.BYTES
    if _is(vocabulary, 'SentencePieceVocabulary'):
        return vocabulary.sentencepiece_model_file
    return ''


def vocabulary_of(task: pipeline.DeclaredTask) -> str:
    """Returns a task's own vocabulary, as `tokenizers.load` takes it; '' if it has none."""
    features = (task.output_features.get(name) for name in _SIDES)
    return next(filter(None, (_brought(getattr(x, 'vocabulary', None)) for x in features)), '')


def vocabulary_paths(task: pipeline.DeclaredTask) -> list[str]:
    """Returns the local files of a task's own vocabularies."""
    brought = {_brought(feature.vocabulary): None for feature in task.output_features.values()}
    files = [x for x in brought if x not in ('', tokenizers.BYTES) and _is_local(x)]
    paths = [os.path.abspath(path) for path in files]
    if missing := [path for path in paths if not os.path.isfile(path)]:
        raise errors.UserError(
            f'task {task.name} reads its vocabulary from {missing[0]}, which is not there'
        )
    return paths


def _check_vocabulary(task: str, name: str, brought: object, chosen: tokenizers.Tokenizer) -> None:
    choice = _brought(brought)
    if not choice:
        raise errors.UserError(
            f'{name} of task {task} are encoded by {type(brought).__name__}, which a run cannot '
            'read; give the feature a seqio.SentencePieceVocabulary, a seqio.ByteVocabulary, or '
            'pipeline.vocabulary(), which is the one of the run'
        )
    if choice == tokenizers.BYTES:
        what, equal = 'bytes (ByteVocabulary)', isinstance(chosen, tokenizers.ByteTokenizer)
    else:
        what, equal = f'the SentencePiece model {choice}', _agree(task, brought, chosen)
    if not equal:
        if not _is_local(choice):
            choice = 'NAME of the model that it is of, such as mt5'
        raise errors.UserError(
            f'{name} of task {task} are encoded by {what}, and vocabulary {chosen.name!r} has '
            f'other ids; choose --vocabulary={choice}, in a config data.vocabulary'
        )


def _agree(task: str, brought: Any, chosen: tokenizers.Tokenizer) -> bool:
    """Returns whether the ids of a SentencePieceVocabulary stand for the pieces of the chosen one.

    Which may lack SeqIO's sentinels.
    """
    try:
        model = brought.tokenizer
    except Exception as error:  # Of any kind: TensorFlow's files, SentencePiece, a network.
        said = errors.printable(getattr(error, 'message', error), 200)
        raise errors.UserError(
            f'task {task} cannot read its vocabulary {brought.sentencepiece_model_file}: {said}'
        ) from error
    pieces = model.id_to_piece(list(range(model.get_piece_size())))
    others = chosen.pieces()[: len(pieces)]
    return (
        bool(others)
        and brought.eos_id == chosen.eos_id
        and all(
            piece == other or 'extra_id_' in piece
            for piece, other in itertools.zip_longest(pieces, others)
        )
    )


# ---------------------------------------------------------------------------------------------
# Examples.


def record_of(task: pipeline.DeclaredTask, example: Mapping[str, Any]) -> prepared.Record:
    """Returns an example of SeqIO's pipeline as the record that training and evaluation read.

    It has the ids, and texts and numbers as text. <side>_pretokenized is decoded from the ids if
    the task does not make it. For a postprocessor, `example` has the fields that are neither ids
    nor texts, as JSON; see xlbench/data/postprocess.
    """
    record: dict[str, Any] = {}
    for name, value in example.items():
        if isinstance(value, bytes):
            record[name] = value.decode()
        elif name in task.output_features:
            record[name] = value
        elif np.ndim(value) == 0 and not isinstance(value, dict):
            record[name] = str(value)
    for name in _SIDES:
        shown = f'{name}_pretokenized'
        if name not in record:
            raise errors.UserError(
                f'an example of task {task.name} has no {name}; xlbench trains on inputs and '
                'targets'
            )
        if shown not in record:
            vocabulary = task.output_features[name].vocabulary
            record[shown] = vocabulary.decode(np.asarray(record[name]).tolist())
    if task.postprocessor is not None:
        texts = {name for name, value in example.items() if isinstance(value, bytes)}
        kept = sorted(set(example) - texts - set(task.output_features))
        record['example'] = json.dumps({name: _plain(example[name]) for name in kept})
    return record


def _plain(value: Any) -> Json:
    """A value of an example as JSON: bytes as text, arrays as {'dtype', 'values'}."""
    if isinstance(value, Mapping):
        return {'fields': {str(name): _plain(inner) for name, inner in value.items()}}
    if isinstance(value, bytes):
        return {'text': value.decode(errors='replace')}
    if hasattr(value, 'to_list'):  # A ragged tensor.
        return {'values': _texts(value.to_list()), 'dtype': 'ragged'}
    array = np.asarray(value)
    return {'values': _texts(array.tolist()), 'dtype': array.dtype.name}


def _texts(value: Json | bytes) -> Json:
    if isinstance(value, list):
        return [_texts(inner) for inner in value]
    return value.decode(errors='replace') if isinstance(value, bytes) else value
