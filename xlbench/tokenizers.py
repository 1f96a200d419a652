"""Text to ids and back, in batches, without TensorFlow or transformers.

`load` takes what a user writes for a vocabulary:

  sample                 the sample corpora's own, <root>/sample.model
  path/to/x.model        a SentencePiece model
  path/to/folder         with spiece.model or tokenizer.json, as Hugging Face lays them out
  mt5, google/mt5-base   from the Hugging Face hub; google/mt5-base@REVISION pins a version

From the hub only the named small files below are fetched, never weights, pickles or code.
"""

import abc
import functools
import hashlib
import io
import json
import os
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from xlbench import errors

# Short names. Every size of mT5 and of T5 1.1 has the same vocabulary.
HUB_NAMES = {
    'mt5': 'google/mt5-base',
    't5': 'google/t5-v1_1-base',
}
SENTENCEPIECE_FILES = ('spiece.model', 'sentencepiece.bpe.model')
TOKENIZER_FILE = 'tokenizer.json'
CONFIG_FILES = ('tokenizer_config.json', 'special_tokens_map.json', 'config.json')
SAMPLE_FILE = 'sample.model'

# Rows of the public checkpoints' embeddings, which are padded beyond the pieces (mT5: 250100 ->
# 250112, huggingface.co/google/mt5-base config.json; T5: 32000 + 100 sentinels -> 32128).
_MODEL_VOCAB_SIZES = {250_100: 250_112, 32_000: 32_128, 32_100: 32_128}
# Families whose decoder is told the target language by a token of their own.
_OWN_LANGUAGE_TOKENS = ('mbart', 'm2m_100', 'nllb', 'plbart', 'seamless_m4t')


_threads: list[int] = []


def num_threads() -> int:
    """Threads for a batch: the cores this process may use, or what `limit_threads` said."""
    if _threads:
        return _threads[-1]
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # Not on macOS.
        return os.cpu_count() or 1


def limit_threads(limit: int) -> None:
    """Sets `num_threads`, for a process that shares the cores with others like it."""
    _threads[:] = [max(limit, 1)]
    os.environ['RAYON_NUM_THREADS'] = str(max(limit, 1))  # What `tokenizers` listens to.


class Tokenizer(abc.ABC):
    """A vocabulary.

    Attributes:
      name: what the user called it; prepared data is filed under it.
      vocab_size: rows of the embedding of a model with this vocabulary; every id is below it.
      num_pieces: ids that stand for something, the first ones.
      pad_id, eos_id: ids of padding and of the end.
      unk_id: id of unknown text, -1 if there is none.
      decoder_start_id: the first decoder input.
      sha256: over the bytes that define the ids.
      tags: how the model learns the target language. 'target_in_source': the pipeline writes
        `<de> ` at the start of the input. 'own': the model's own tokens say it.
    """

    name: str
    vocab_size: int
    num_pieces: int
    pad_id: int
    eos_id: int
    unk_id: int
    decoder_start_id: int
    sha256: str
    tags: str = 'target_in_source'

    @abc.abstractmethod
    def encode_batch(self, texts: Sequence[str]) -> list[np.ndarray]:
        """Texts -> ids, each [length] int32, without the end token."""

    @abc.abstractmethod
    def _decode_clean(self, ids: list[list[int]]) -> list[str]:
        """Ids without the end, padding and what is no piece -> texts."""

    def decode_batch(self, ids: Iterable[Sequence[int]]) -> list[str]:
        """Ids -> texts: up to the first end token, without padding and ids that are no piece."""
        return self._decode_clean([self._clean(row) for row in ids])

    def _clean(self, row: Sequence[int]) -> list[int]:
        row = np.asarray(row, np.int64).reshape(-1)
        ends = np.flatnonzero(row == self.eos_id)
        row = row[: ends[0]] if ends.size else row
        return row[(row != self.pad_id) & (row >= 0) & (row < self.num_pieces)].tolist()

    def encode(self, text: str) -> np.ndarray:
        """One text -> ids, [length] int32."""
        return self.encode_batch([text])[0]

    def decode(self, ids: Sequence[int]) -> str:
        """Ids -> one text."""
        return self.decode_batch([ids])[0]

    def manifest(self) -> dict[str, Any]:
        """What a preparation writes down about its vocabulary."""
        return {
            'name': self.name,
            'sha256': self.sha256,
            'size': self.vocab_size,
            'pad_id': self.pad_id,
            'eos_id': self.eos_id,
            'unk_id': self.unk_id,
            'decoder_start_id': self.decoder_start_id,
        }


class SentencePieceTokenizer(Tokenizer):
    """A SentencePiece model: T5, mT5 and the samples.

    Args:
      path: the model file.
      name: what to call it.
      config: the content of config.json beside it, if there is one.
    """

    def __init__(self, path: str, name: str, config: dict[str, Any] | None = None):
        import sentencepiece

        config = config or {}
        with open(path, 'rb') as file:
            self.model_proto = file.read()
        try:
            self._processor = sentencepiece.SentencePieceProcessor(model_proto=self.model_proto)
            self.num_pieces = self._processor.get_piece_size()
        except (RuntimeError, ValueError, TypeError, OSError) as error:
            raise errors.UserError(f'{path} is not a SentencePiece model') from error
        processor = self._processor
        if processor.eos_id() < 0:
            raise errors.UserError(f'{path} has no end-of-text piece (</s>); train it with eos_id')
        self.name = name
        # Without padding of its own, a model is given T5's convention, id 0.
        self.pad_id = max(processor.pad_id(), 0)
        self.eos_id = processor.eos_id()
        self.unk_id = processor.unk_id()
        self.decoder_start_id = int(config.get('decoder_start_token_id') or self.pad_id)
        self.vocab_size = _vocab_size(config, self.num_pieces)
        self.tags = _tags(config)
        self.sha256 = hashlib.sha256(self.model_proto).hexdigest()

    def encode_batch(self, texts: Sequence[str]) -> list[np.ndarray]:
        """Texts -> ids, each [length] int32, over all cores."""
        texts = list(texts)
        if not texts:
            return []
        return self._processor.encode(texts, return_type='numpy', num_threads=num_threads())

    def encode(self, text: str) -> np.ndarray:
        """One text -> ids, [length] int32; starts no threads."""
        return self._processor.encode(text, return_type='numpy')

    def _decode_clean(self, ids: list[list[int]]) -> list[str]:
        return self._processor.decode(ids, num_threads=num_threads()) if ids else []


class HuggingFaceTokenizer(Tokenizer):
    """A tokenizer.json, run by the `tokenizers` library.

    Args:
      path: the tokenizer.json.
      name: what to call it.
      config: config.json, tokenizer_config.json and special_tokens_map.json beside it, merged.
    """

    def __init__(self, path: str, name: str, config: dict[str, Any] | None = None):
        import tokenizers

        config = config or {}
        with open(path, 'rb') as file:
            data = file.read()
        try:
            self._tokenizer = tokenizers.Tokenizer.from_str(data.decode())
        except Exception as error:  # The library raises a bare Exception.
            raise errors.UserError(f'{path} is not a tokenizer.json: {error}') from error
        # The file may ask for both; examples are prepared whole.
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        self.name = name
        self.num_pieces = self._tokenizer.get_vocab_size(with_added_tokens=True)
        self.vocab_size = _vocab_size(config, self.num_pieces)
        self.pad_id = self._special(config, 'pad_token', ('<pad>', '[PAD]'), path)
        self.eos_id = self._special(config, 'eos_token', ('</s>', '[SEP]', '<|endoftext|>'), path)
        self.unk_id = self._special(config, 'unk_token', ('<unk>', '[UNK]'), None)
        start = config.get('decoder_start_token_id')
        self.decoder_start_id = self.pad_id if start is None else int(start)
        self.tags = _tags(config)
        ids = f'{self.pad_id} {self.eos_id} {self.decoder_start_id}'.encode()
        self.sha256 = hashlib.sha256(data + ids).hexdigest()

    def _special(
        self, config: dict[str, Any], key: str, usual: tuple[str, ...], path: str | None
    ) -> int:
        """The id of a special token; -1 if there is none and no `path` to complain about."""
        token = config.get(key)
        if isinstance(token, dict):
            token = token.get('content')
        for candidate in (token,) if isinstance(token, str) else usual:
            found = self._tokenizer.token_to_id(candidate)
            if found is not None:
                return found
        if path is None:
            return -1
        raise errors.UserError(
            f'{path} has no {key}: neither tokenizer_config.json nor special_tokens_map.json '
            f'beside it names one that it knows, and it has none of {", ".join(usual)}'
        )

    def encode_batch(self, texts: Sequence[str]) -> list[np.ndarray]:
        """Texts -> ids, each [length] int32, over all cores."""
        encodings = self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        return [np.array(encoding.ids, np.int32) for encoding in encodings]

    def _decode_clean(self, ids: list[list[int]]) -> list[str]:
        return self._tokenizer.decode_batch(ids, skip_special_tokens=True)


def _vocab_size(config: dict[str, Any], num_pieces: int) -> int:
    size = config.get('vocab_size')
    if isinstance(size, int) and size >= num_pieces:
        return size
    return _MODEL_VOCAB_SIZES.get(num_pieces, num_pieces)


def _tags(config: dict[str, Any]) -> str:
    return 'own' if config.get('model_type') in _OWN_LANGUAGE_TOKENS else 'target_in_source'


def _read_config(folder: str) -> dict[str, Any]:
    """The configuration files in a folder, merged; a null in a later one hides nothing."""
    merged: dict[str, Any] = {}
    for name in CONFIG_FILES:
        path = os.path.join(folder, name)
        if not os.path.isfile(path):
            continue
        try:
            with open(path, encoding='utf-8') as file:
                content = json.load(file)
        except (ValueError, RecursionError) as error:
            raise errors.UserError(f'{path} is not JSON: {error}') from error
        if not isinstance(content, dict):
            raise errors.UserError(f'{path} is not a JSON object')
        merged |= {key: value for key, value in content.items() if value is not None}
    return merged


def _from_folder(folder: str, name: str) -> Tokenizer:
    for file in SENTENCEPIECE_FILES:
        path = os.path.join(folder, file)
        config = _read_config(folder)
        # mBART's and XLM-R's ids are not those of their SentencePiece model; tokenizer.json knows.
        if os.path.isfile(path) and config.get('model_type', 't5') in ('t5', 'mt5', 'umt5'):
            return SentencePieceTokenizer(path, name, config)
    path = os.path.join(folder, TOKENIZER_FILE)
    if os.path.isfile(path):
        return HuggingFaceTokenizer(path, name, _read_config(folder))
    raise errors.UserError(
        f'vocabulary folder {folder} has no spiece.model of T5 or mT5 and no {TOKENIZER_FILE}'
    )


def _from_hub(spec: str) -> str:
    """Fetches the named files of a hub repository; the folder they are in.

    An interrupted download goes on where it stopped, and what is in the cache is used without a
    connection.
    """
    import huggingface_hub
    from huggingface_hub import errors as hub_errors

    repository, _, revision = HUB_NAMES.get(spec, spec).partition('@')
    folder, found = '', False
    for file in (*SENTENCEPIECE_FILES, TOKENIZER_FILE, *CONFIG_FILES):
        try:
            path = _hub_file(huggingface_hub, hub_errors, repository, file, revision or None)
        except hub_errors.HFValidationError as error:
            raise errors.UserError(
                f'{spec!r} is neither a file, a folder nor a hub name'
            ) from error
        except (hub_errors.RepositoryNotFoundError, hub_errors.RevisionNotFoundError) as error:
            raise errors.UserError(
                f'the Hugging Face hub has no open repository {HUB_NAMES.get(spec, spec)!r}; check '
                'the name, or give a folder with spiece.model or tokenizer.json'
            ) from error
        except (OSError, hub_errors.HfHubHTTPError) as error:
            raise errors.UserError(
                f'vocabulary {spec!r} is not in the Hugging Face cache and the hub cannot be '
                'reached (HF_HUB_OFFLINE set, or no connection); copy its spiece.model and '
                'config.json into a folder and name that folder, or use sample'
            ) from error
        if path:
            folder = os.path.dirname(path)
            found = found or file not in CONFIG_FILES
    if not found:
        raise errors.UserError(
            f'hub repository {repository} has neither {", ".join(SENTENCEPIECE_FILES)} nor '
            f'{TOKENIZER_FILE}'
        )
    return folder


def _hub_file(hub: Any, hub_errors: Any, repository: str, file: str, revision: str | None):
    """The local path of one file, None if the repository does not have it."""
    cached = hub.try_to_load_from_cache(repository, file, revision=revision)
    if isinstance(cached, str):
        return cached
    if cached is not None:  # The cache remembers that there is no such file.
        return None
    try:
        return hub.hf_hub_download(repository, file, revision=revision)
    except hub_errors.LocalEntryNotFoundError:  # A kind of EntryNotFoundError: no connection.
        raise
    except hub_errors.EntryNotFoundError:
        return None


def load(spec: str, root: str) -> Tokenizer:
    """The vocabulary that `spec` names.

    Args:
      spec: see the top of this file.
      root: the data root, where `sample` looks.
    """
    if not spec:
        raise errors.UserError('no vocabulary is named; give sample, a path, or a name like mt5')
    if spec == 'sample':
        path = os.path.join(root, SAMPLE_FILE)
        if not os.path.isfile(path):
            raise errors.UserError(
                f'there is no {path}; make the sample corpora with: python -m xlbench.prepare '
                f'--sample --root={root}'
            )
        return _load(path, spec, _stamp(path))
    path = os.path.expanduser(spec)
    if os.path.isdir(path):
        return _load(path, spec, ())
    if os.path.isfile(path):
        return _load(path, spec, _stamp(path))
    looks_like_path = spec.endswith(('.model', '.json')) or spec.startswith(('.', '/', '~'))
    if looks_like_path or spec.count('/') > 1:
        raise errors.UserError(f'there is no vocabulary file or folder {path}')
    if '/' not in spec and spec not in HUB_NAMES:
        raise errors.unknown(
            'vocabulary',
            spec,
            ('sample', *HUB_NAMES),
            'A hub name has a slash, like google/mt5-base; a file or folder must exist',
        )
    return _load(_from_hub(spec), spec, ())


def _stamp(path: str) -> tuple[int, int]:
    status = os.stat(path)
    return status.st_size, status.st_mtime_ns


@functools.lru_cache(maxsize=8)
def _load(path: str, name: str, stamp: tuple[int, ...]) -> Tokenizer:
    """One load per file and process; `stamp` tells a file from what was at its path before."""
    del stamp
    if os.path.isdir(path):
        return _from_folder(path, name)
    config = _read_config(os.path.dirname(path))
    if path.endswith('.json'):
        return HuggingFaceTokenizer(path, name, config)
    return SentencePieceTokenizer(path, name, config)


def train_sentencepiece(
    lines: Iterable[str], *, size: int, symbols: Sequence[str] = (), model_type: str = 'unigram'
) -> bytes:
    """Trains a SentencePiece model with T5's special ids; the same lines give the same bytes.

    Args:
      lines: texts, in a fixed order.
      size: pieces at most; bytes spell what they cannot, in any script.
      symbols: words that are one piece each, such as '<de>'.
      model_type: 'unigram' or 'bpe'.

    Returns:
      The content of a `.model` file.
    """
    import sentencepiece

    # Into memory: a model trained into a file also holds that file's name, other bytes each time.
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=model,
        model_type=model_type,
        vocab_size=size,
        hard_vocab_limit=False,
        byte_fallback=True,
        character_coverage=1.0,
        user_defined_symbols=list(symbols),
        pad_id=0,
        eos_id=1,
        unk_id=2,
        bos_id=-1,
        num_threads=1,
        shuffle_input_sentence=False,
        max_sentence_length=1 << 20,
        minloglevel=2,
    )
    return model.getvalue()
