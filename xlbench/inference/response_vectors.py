"""Response sets of a retriever with the vectors of their responses, ready to be searched.

A set's vectors are computed once and kept in WORKDIR/responses.
"""

import concurrent.futures
import functools
import hashlib
import pathlib
import sys
from collections.abc import Sequence
from typing import NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh

from xlbench import config as config_lib, runs
from xlbench.data import prepared
from xlbench.inference.loading import LoadedModel
from xlbench.retrieval import exact_search
from xlbench.retrieval.mbr import Choose, chooser
from xlbench.retrieval.response_set import ResponseSet
from xlbench.retrieval.text_encoder import TextEncoder
from xlbench.system import files, locks, untrusted
from xlbench.system.errors import UserError


class Searchable(NamedTuple):
    """A response set, ready to be searched."""

    responses: ResponseSet
    index: exact_search.Index
    choose: Choose
    num_clusters: int


class SearchableSets:
    """The response sets of a retriever, each made when it is first asked for.

    Args:
      name: of the retriever, for messages.
      opened: the retriever.
      mesh: where it runs.
      encoder: of responses.
      file: the responses in any language; '' for those of the run.
      lm_weight: of a response's log-likelihood.
      consensus: temperature at which suggestions are chosen together, see retrieval/mbr.py.
    """

    def __init__(
        self,
        name: str,
        opened: LoadedModel,
        mesh: Mesh,
        encoder: TextEncoder,
        *,
        file: str,
        lm_weight: float,
        consensus: float,
    ):
        self._name, self._opened, self._mesh, self._encoder = name, opened, mesh, encoder
        self._file, self._lm_weight, self._consensus = file, lm_weight, consensus
        self._sets: dict[str | None, Searchable] = {}

    def get(self, lang: str | None, place: tuple[str, str] | None) -> Searchable:
        """The response set of a language.

        Args:
          lang: ISO code; None for the file.
          place: task and split of the responses; None for the file.

        Raises:
          UserError: it cannot be read, or prepared.
        """
        if lang not in self._sets:
            if place is None:
                responses = ResponseSet.of_file(self._file, self._opened.tokenizer)
            else:
                responses = self._of_run(*place)
            vectors = self._vectors(responses.ids, self._file or f'{lang}')
            index = exact_search.index(vectors, self._lm_weight * responses.lm_scores, self._mesh)
            choose = chooser(responses, lang, self._consensus)
            self._sets[lang] = Searchable(responses, index, choose, len(set(responses.clusters)))
        return self._sets[lang]

    def _of_run(self, task: str, split: str) -> ResponseSet:
        """A response set that the workdir has a copy of, else as it is prepared."""
        place = runs.response_set_path('', task, split)
        if path := untrusted.file(self._opened.workdir, place):
            return ResponseSet.of_copy(path, self._opened.tokenizer)
        return ResponseSet.of_prepared(self._prepared(task, split))

    def _prepared(self, task: str, split: str) -> prepared.Prepared:
        """The preparation of a response set, made if it is missing."""
        data = self._opened.config.data
        root = config_lib.data_root(config_lib.read_about(str(self._opened.workdir)))
        options = dict(root=root, vocabulary=data.vocabulary, sample=data.sample)
        try:
            prepared.ensure([(task, split)], **options, to_stderr=True)
        except SystemExit:
            raise UserError(
                f'the response set of {self._name}, {task}/{split}, cannot be prepared (the '
                'reason is above); name another one with --responses=FILE, or responses= of '
                'predict.load'
            ) from None
        responses = prepared.open_task(root, data.vocabulary, task, split)
        if responses.manifest['vocabulary']['sha256'] != self._opened.tokenizer.sha256:
            raise UserError(
                f'{task}/{split} was prepared with another vocabulary than {self._name} was '
                'trained with; run xlbench.prepare again with --force'
            )
        return responses

    def _vectors(self, ids: Sequence[np.ndarray], name: str) -> np.ndarray:
        """The vectors [n, dim] of responses, read from the workdir or encoded and kept there."""
        folder = self._opened.workdir / 'responses'
        path = folder / f'{self._digest(ids)}.npy'
        config = self._opened.model.config
        vectors = _read(path, len(ids), config.projection_dim or config.emb_dim)
        if vectors is None:
            _say(f'{self._name}: encoding {len(ids):,} responses ({name}), kept in {folder}')
            vectors = self._encoder(self._opened.params, ids)
            _write(path, vectors)
        return vectors

    def _digest(self, ids: Sequence[np.ndarray]) -> str:
        """Hashes all that the vectors depend on: model, parameters, texts as ids, their length."""
        digest = hashlib.sha256(self._parameters)
        lengths = np.array([len(row) for row in ids], np.int64)
        digest.update(f'{self._opened.lengths["targets"]} {len(ids)} '.encode())
        digest.update(lengths.tobytes())
        digest.update(np.concatenate(ids).astype(np.int32).tobytes())
        return digest.hexdigest()[:32]

    @functools.cached_property
    def _parameters(self) -> bytes:
        """A digest of the model and its parameters."""
        leaves = jax.tree.leaves(self._opened.params)
        with concurrent.futures.ThreadPoolExecutor() as pool:
            parts = pool.map(lambda leaf: hashlib.sha256(np.asarray(leaf)).digest(), leaves)
        config = repr(self._opened.model.config).encode()
        return hashlib.sha256(config + b''.join(parts)).digest()


def _read(path: pathlib.Path, count: int, dim: int) -> np.ndarray | None:
    """Vectors [count, dim] float32 that were kept; None without such a file, or for another one."""
    try:
        # The header decides how much is read, so it is checked before.
        array = np.load(path, mmap_mode='r', allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    if array.dtype != np.dtype('<f4') or array.shape != (count, dim):
        return None
    array = np.array(array, np.float32)
    return array if np.isfinite(array).all() else None


def _write(path: pathlib.Path, vectors: np.ndarray) -> None:
    """Keeps vectors, whole or not at all; where nothing can be written they are made anew."""
    try:
        with locks.file(path, wait=_say), files.replacing(path) as file:
            np.save(file, vectors.astype('<f4'), allow_pickle=False)
    except (OSError, UserError) as error:
        why = getattr(error, 'strerror', None) or error
        _say(f'{path} cannot be written ({why}); it is not kept')


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
