"""Finds the tokenizer of a vocabulary's name, and copies its files into a workdir."""

import dataclasses
import functools
import json
import os
import pathlib
import re
import shutil
import unicodedata
import weakref
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from xlbench.data import vocabularies
from xlbench.data.tokenizers import hugging_face
from xlbench.data.tokenizers.tokenizer import (
    BYTES,
    BYTES_CLASS,
    ByteTokenizer,
    SentencePieceTokenizer,
    Tokenizer,
)
from xlbench.system import errors, files as files_lib, locks, untrusted
from xlbench.system.files import Json

# Short names. Every size of mT5 and of T5 1.1 has the same vocabulary.
HUB_NAMES = {'mt5': 'google/mt5-base', 't5': 'google/t5-v1_1-base'}
# The vocabularies of the sample corpora: how many ids they have, and files in the data root.
SAMPLE_SIZES = {
    'sample': 4000,
    'sample_mrs': 4000,
    'sample_fewshot': 3000,
    'sample_clidsum': 2003,
    'sample_translation': 1500,
}
SAMPLE_FILES = {name: f'{name}.model' for name in SAMPLE_SIZES}
COPY = 'vocabulary'  # The folder of a workdir with a run's copy of its vocabulary.
CONVERTED = 'tokenizer'  # The folder where xlbench.convert writes one.
# A SentencePiece model that is run by SentencePiece itself, in such a copy; by another name in a
# folder it is read as transformers reads it.
SENTENCEPIECE_COPY = 'sentencepiece.model'
PAIR_COPY = 'vocab.spm'  # The same of a translator in Marian's own form.
_COPIES = SENTENCEPIECE_COPY, PAIR_COPY
# Those that this process has read, by sha256.
_LOADED: weakref.WeakValueDictionary[str, Tokenizer] = weakref.WeakValueDictionary()


def _from_files(files: vocabularies.Files, name: str) -> Tokenizer:
    if _is_bytes(files):
        return ByteTokenizer(name)
    try:
        family = vocabularies.family_of(files)
        listed = {'marian': hugging_face.MarianTokenizer, 'm2m_100': hugging_face.M2mTokenizer}
        if family in listed and files.has(*vocabularies.FAMILIES[family].files):
            return listed[family](files, name)
        if family == 'xlm':
            return hugging_face.XlmTokenizer(files, name)
        return hugging_face.HuggingFaceTokenizer(files, name, family)
    except (TypeError, ValueError, KeyError, AttributeError, IndexError, OSError) as error:
        reason = errors.printable(f'{type(error).__name__}: {error}')
        raise errors.UserError(
            f'the JSON files of vocabulary {files.folder} are not as transformers writes them '
            f'({reason}); compare them with those of the public model'
        ) from error


def _is_bytes(files: vocabularies.Files) -> bool:
    """Returns whether a folder is of ByT5, which has no vocabulary files."""
    return files.setting('tokenizer_class') == BYTES_CLASS


def _from_hub(spec: str) -> str:
    """Returns the folder in the cache with the small named files of a hub repository."""
    from xlbench.huggingface import hub

    vocabulary = vocabularies.VOCABULARY_FILES
    names = (*vocabularies.CONFIG_FILES, *vocabulary)
    folder = hub.fetch(HUB_NAMES.get(spec, spec), names, [vocabulary])
    is_there = any(untrusted.file(folder, name) for name in vocabulary)
    if is_there or _is_bytes(vocabularies.Files.read(str(folder))):
        return str(folder)
    raise errors.UserError(
        f'hub repository {HUB_NAMES.get(spec, spec)} has none of {", ".join(vocabulary)}'
    )


def load(spec: str, root: str) -> Tokenizer:
    """Returns the vocabulary that `spec` names; the sample's are in the data root.

    xlbench/data/tokenizers/__init__.py lists the names.
    """
    base, words = split_spec(spec)
    return _load(_find(base, root), spec, words)


def _find(spec: str, root: str) -> str:
    """Returns the file or folder that `spec` names, fetched from the hub if need be; or BYTES."""
    if spec == BYTES:
        return spec
    if spec in SAMPLE_FILES:
        path = os.path.join(root, SAMPLE_FILES[spec])
        if not os.path.isfile(path):
            raise errors.UserError(
                f'there is no {path}; make the sample corpora with: python -m xlbench.prepare '
                f'--sample --root={root}'
            )
        return path
    path = os.path.expanduser(spec)
    if not os.path.exists(path):
        check_name(spec)
        return _from_hub(spec)
    from xlbench.huggingface import marian_files

    if os.path.isdir(path) and marian_files.find(path):  # A translator in Marian's own form.
        return str(marian_files.vocabulary(path))
    return path


def check_name(spec: str) -> None:
    """Raises UserError for what is not a vocabulary, as far as that is known without the hub."""
    if not isinstance(spec, str) or not spec:
        raise errors.UserError('no vocabulary is named; give sample, a path, or a name like mt5')
    spec, _ = split_spec(spec)
    path = os.path.expanduser(spec)
    if spec == BYTES or spec in SAMPLE_FILES or os.path.exists(path):
        return
    looks_like_path = spec.endswith(('.model', '.json')) or spec.startswith(('.', '/', '~'))
    if looks_like_path or spec.count('/') > 1:
        raise errors.UserError(f'there is no vocabulary file or folder {path}')
    if '/' not in spec and spec not in HUB_NAMES:
        raise errors.unknown(
            'vocabulary',
            spec,
            (*SAMPLE_FILES, *HUB_NAMES, BYTES),
            'A hub name has a slash, like google/mt5-base; a file or folder must exist',
        )


def copy_files(spec: str, root: str, workdir: str | os.PathLike) -> None:
    """Copies the files of a vocabulary into WORKDIR/vocabulary, if it has none yet.

    The run needs nothing else to read and write texts, wherever its workdir is moved.
    """
    target = pathlib.Path(workdir) / COPY
    if spec == BYTES or target.is_dir() or (pathlib.Path(workdir) / CONVERTED).is_dir():
        return
    base, words = split_spec(spec)
    path = pathlib.Path(_find(base, root))
    folder = path if path.is_dir() else path.parent
    names = [*vocabularies.CONFIG_FILES, *vocabularies.VOCABULARY_FILES]
    if path.is_file() and path.suffix != '.json':
        names = [vocabularies.MODEL_CONFIG]
    files = {name: file for name in names if (file := untrusted.file(folder, name))}
    if path.is_file():
        copies = {'.json': vocabularies.TOKENIZER_FILE, '.spm': PAIR_COPY}
        files[copies.get(path.suffix, SENTENCEPIECE_COPY)] = path
    with locks.atomic_folder(target) as folder_to_be:
        for name, file in files.items():
            shutil.copyfile(file, folder_to_be / name)
        if words:
            tokenizer = _from_files(vocabularies.Files.read(str(folder_to_be)), spec)
            write_words(folder_to_be, _further(tokenizer, words))


def path_of_workdir(workdir: str | os.PathLike, about: Mapping[str, Json]) -> str:
    """Returns the vocabulary file or folder of a run: the copy in its workdir, else the original.

    `about` is the content of its config.json. UserError if there is no copy, as in workdirs of
    earlier versions, and the original is not where it was.
    """
    for folder in (pathlib.Path(workdir) / CONVERTED, pathlib.Path(workdir) / COPY):
        if folder.is_dir():
            untrusted.check_tree(workdir, folder)
            copies = (untrusted.file(folder, name) for name in _COPIES)
            return str(next(filter(None, copies), folder))
    data = about['config']['data']
    try:
        return _find(split_spec(data['vocabulary'])[0], data['root'])
    except errors.UserError as error:
        raise errors.UserError(
            f'{workdir} has no copy of its vocabulary, and {error}; start the command in the '
            'folder where the run was trained, or put the vocabulary back'
        ) from error


def of_workdir(workdir: str | os.PathLike, about: Mapping[str, Json]) -> Tokenizer:
    """Returns the vocabulary that a run was trained with; UserError if it is another one now."""
    name = about['config']['data']['vocabulary']
    tokenizer = _load(path_of_workdir(workdir, about), name, split_spec(name)[1])
    expected = (about.get('vocabulary') or {}).get('sha256', tokenizer.sha256)
    if tokenizer.sha256 != expected:
        raise errors.UserError(
            f'{workdir} was trained with another vocabulary than {name!r} is now; put back '
            f'the one with sha256 {expected[:12]}...'
        )
    return tokenizer


def _further(tokenizer: Tokenizer, words: Sequence[str]) -> dict[str, int]:
    """Returns {word: its id} of those that a vocabulary of a folder does not have."""
    # Others look tokens up in other ways.
    if type(tokenizer) is not hugging_face.HuggingFaceTokenizer:
        raise errors.UserError(
            f'no words can be added to vocabulary {tokenizer.name}, which is of another kind than '
            "mBART-50's, T5's or BERT's; take the words out of its name"
        )
    return tokenizer.further(words)


def _load(path: str, name: str, words: tuple[str, ...]) -> Tokenizer:
    """Loads a version of a file once per process."""
    stamp: tuple[int, ...] = ()
    if path != BYTES and not os.path.isdir(path):
        status = os.stat(path)
        stamp = status.st_size, status.st_mtime_ns
    tokenizer = _read(path, name, words, stamp)
    _LOADED[tokenizer.sha256] = tokenizer
    return tokenizer


@functools.lru_cache(maxsize=8)
def with_letters(sha256: str) -> np.ndarray:
    """Returns [num_pieces] bool: whether the text of an id has a letter.

    This process has loaded the vocabulary. A byte that is only a part of a letter has none.
    """
    tokenizer = _LOADED[sha256]
    texts = tokenizer._decode_clean([[i] for i in range(tokenizer.num_pieces)])
    return np.array([any(unicodedata.category(c)[0] == 'L' for c in text) for text in texts])


@functools.lru_cache(maxsize=8)
def _read(path: str, name: str, words: tuple[str, ...], stamp: tuple[int, ...]) -> Tokenizer:
    del stamp  # It tells versions of a file apart.
    if words and not os.path.isdir(path):
        raise errors.UserError(
            f'vocabulary {name!r} adds words to a single file; they can be added to a folder or '
            'hub name in the form of Hugging Face, such as facebook/mbart-large-50'
        )
    if path == BYTES:
        return ByteTokenizer(name)
    if os.path.isdir(path):
        files = vocabularies.Files.read(path)
        tokenizer = _from_files(files, name)
        further = _further(tokenizer, words) if words else {}
        return _from_files(_with_words(files, further), name) if further else tokenizer
    files = vocabularies.Files.read(os.path.dirname(path))
    if path.endswith('.json'):
        files = dataclasses.replace(files, file=os.path.basename(path))
        return _from_files(files, name)
    return SentencePieceTokenizer(path, name, files.model)


# ---------------------------------------------------------------------------------------------
# Words that a vocabulary is given beyond its own, such as mDialBART's token of summaries.
#
# A vocabulary is then named `NAME+[word]`, or `NAME+[one]+[two]`: the files of NAME with the words
# behind all pieces, as `tokenizer.add_tokens(['[word]'])` of transformers has them. They are plain
# tokens, which stay in decoded text; text around them is tokenised as before.

_SPEC = re.compile(r'(.+?)((?:\+\[\w+\])+)')


def split_spec(spec: str) -> tuple[str, tuple[str, ...]]:
    """Returns the name of a vocabulary, and the words that it is given.

    Example: 'facebook/mbart-large-50+[summarize]' -> 'facebook/mbart-large-50', ('[summarize]',)
    """
    match = None if os.path.exists(os.path.expanduser(spec)) else _SPEC.fullmatch(spec)
    return (match[1], tuple(match[2][1:].split('+'))) if match else (spec, ())


def _with_words(files: vocabularies.Files, words: Mapping[str, int]) -> vocabularies.Files:
    """Returns the files of a folder as they would be with these words, by their ids."""
    if tokens := files.tokenizer.added_tokens_decoder:
        tokens = tokens | {number: token(word) for word, number in words.items()}
        settings = msgspec.structs.replace(files.tokenizer, added_tokens_decoder=tokens)
        return dataclasses.replace(files, tokenizer=settings)
    return dataclasses.replace(files, added={**files.added, **words})


def write_words(folder: str | os.PathLike, words: Mapping[str, int], special: bool = False) -> None:
    """Writes words, by their ids, into the files of a folder, where transformers reads them."""
    folder = os.fspath(folder)
    files = vocabularies.Files.read(folder)
    name = vocabularies.ADDED_TOKENS
    content: dict[str, Json] = {**files.added, **words}
    if files.tokenizer.added_tokens_decoder:
        name = vocabularies.TOKENIZER_CONFIG
        content = files_lib.read_json(files.path(name), dict[str, Json])
        more = {str(n): msgspec.to_builtins(token(word, special)) for word, n in words.items()}
        content['added_tokens_decoder'] |= more
    text = json.dumps(content, ensure_ascii=False, indent=2)
    files_lib.write(files.path(name), text + '\n')


def token(word: str, special: bool = False) -> vocabularies.Token:
    """Returns a word as the files have it; a special one is found before texts are normalised."""
    flags = dict.fromkeys(('lstrip', 'rstrip', 'single_word'), False)
    return vocabularies.Token(word, **flags, normalized=not special, special=special)
