"""Texts as vectors of norm 1, one for each token, by a layer of an encoder."""

import collections
import itertools
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import msgspec
import numpy as np
from flax import traverse_util
from jax.sharding import NamedSharding, PartitionSpec

from xlbench import models
from xlbench.data import tokenizers, vocabularies
from xlbench.huggingface import checkpoint as checkpoints
from xlbench.parallel import partitioning
from xlbench.system.errors import UserError
from xlbench.system.work import in_flight

# Tokens in a row and in a batch of each device; texts share rows, so that few shapes are compiled
# and little is padding.
_WIDTHS = (128, 512)
_BATCH_TOKENS = {'cpu': 4096, 'other': 32768}
_KEPT_BYTES = 1 << 30  # Of vectors: those of pairs in work, and of texts that may come again.
_AHEAD = 2  # Batches in flight.
_FAMILIES_WITH_SPACE = ('roberta',)
# (number of a text, its row, its first place) ...; tokens, segments and positions.
_Batch = tuple[list[tuple[int, int, int]], list[np.ndarray]]


class TokenEncoder:
    """The encoder of a folder, cut off behind a layer, of which 0 are the embeddings.

    `special` are the ids of the tokens that open and close a text.
    """

    def __init__(self, folder: pathlib.Path, layer: int):
        checkpoint = checkpoints.Checkpoint(folder)
        if checkpoint.family != 'bert':
            raise UserError(f'{folder} is a {checkpoint.family}; BERTScore takes an encoder')
        if layer > int(checkpoint.model['num_layers']):
            raise UserError(
                f'{folder} has {checkpoint.model["num_layers"]} layers, and not layer {layer}'
            )
        block: dict[str, Any] = checkpoint.model | {'num_layers': layer, 'has_pooler': False}
        model = models.build(**block)
        self._tokenizer = tokenizers.load(str(folder), '')
        if self._tokenizer.num_pieces > model.config.vocab_size:
            raise UserError(
                f'{folder} has a vocabulary of {self._tokenizer.num_pieces:,} pieces and a model '
                f'of {model.config.vocab_size:,}; they are not of one model'
            )
        self._max_length = max_length(folder, model.config.max_positions)
        self.special = (self._tokenizer.bos_id, self._tokenizer.eos_id)
        self._mesh = partitioning.make_mesh(devices=jax.local_devices())
        self._rows = NamedSharding(self._mesh, PartitionSpec(self._mesh.axis_names))
        whole = partitioning.replicated(self._mesh)
        flat = {path: checkpoint.read_param(path) for path in checkpoints.boxed_params(model)}
        self._params = jax.device_put(traverse_util.unflatten_dict(flat, sep='/'), whole)
        self._kept: collections.OrderedDict[bytes, np.ndarray] = collections.OrderedDict()
        self._bytes = 0
        self._most_tokens = _KEPT_BYTES // (4 * model.config.emb_dim)

        def encode(params, tokens, segment_ids, positions):
            with jax.default_matmul_precision('float32'):
                states = model.apply({'params': params}, tokens, segment_ids, positions)
            return states / jnp.linalg.norm(states, axis=-1, keepdims=True)

        self._encode = jax.jit(encode, out_shardings=self._rows)

    def ids(self, texts: Sequence[str]) -> list[np.ndarray]:
        """Texts -> ids [length] int32 each, with what opens and closes them, cut to the limit."""
        stripped = [text.strip() for text in texts]
        if self._tokenizer.family in _FAMILIES_WITH_SPACE:
            stripped = [f' {text}' if text else '' for text in stripped]
        opening, closing = ([i] for i in self.special)
        return [
            np.concatenate([opening, ids[: self._max_length - 2], closing]).astype(np.int32)
            for ids in self._tokenizer.encode_batch(stripped)
        ]

    def pairs(
        self, jobs: Sequence[tuple[np.ndarray, np.ndarray]]
    ) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """Pairs of ids -> (the pair's place, vectors of its one text, of its other one).

        In any order, so that texts of like length go together; each text is encoded once, and the
        latest are kept for the next call.
        """
        order = sorted(range(len(jobs)), key=lambda i: -len(jobs[i][0]) - len(jobs[i][1]))
        while order:
            tokens = itertools.accumulate(len(jobs[i][0]) + len(jobs[i][1]) for i in order)
            count = sum(total <= self._most_tokens for total in tokens) or 1
            places, order = order[:count], order[count:]
            vectors = self._vectors([ids for place in places for ids in jobs[place]])
            for place in places:
                one, other = jobs[place]
                yield place, vectors[one.tobytes()], vectors[other.tobytes()]

    def _vectors(self, texts: Sequence[np.ndarray]) -> dict[bytes, np.ndarray]:
        """The vectors of texts, [length, dim] float32 each, by the bytes of their ids."""
        unique = {ids.tobytes(): ids for ids in texts}
        found = {key: self._kept[key] for key in unique if key in self._kept}
        for key in found:
            self._kept.move_to_end(key)
        missing = [(key, ids) for key, ids in unique.items() if key not in found]

        def encode(batch: _Batch) -> jax.Array:
            with partitioning.activate(self._mesh):
                arrays = [jax.device_put(array, self._rows) for array in batch[1]]
                return self._encode(self._params, *arrays)

        batches = self._batches([ids for _, ids in missing])
        for (places, _), encoded in in_flight(batches, encode, _AHEAD):
            rows = np.asarray(encoded)
            for number, row, start in places:
                key, ids = missing[number]
                found[key] = self._kept[key] = rows[row, start : start + len(ids)].copy()
                self._bytes += found[key].nbytes
                while self._bytes > _KEPT_BYTES and len(self._kept) > 1:
                    self._bytes -= self._kept.popitem(last=False)[1].nbytes
        return found

    def _batches(self, texts: Sequence[np.ndarray]) -> Iterator[_Batch]:
        kind = 'cpu' if jax.default_backend() == 'cpu' else 'other'
        shards = self._mesh.size
        order = sorted(range(len(texts)), key=lambda i: -len(texts[i]))
        widths = sorted({min(width, self._max_length) for width in _WIDTHS} | {self._max_length})
        for width, previous in zip(widths[::-1], [*widths[-2::-1], 0], strict=True):
            numbers = [i for i in order if previous < len(texts[i]) <= width]
            num_rows = max(_BATCH_TOKENS[kind] // width, 1) * shards
            rows: list[list[int]] = []
            room: list[int] = []
            for number in numbers:
                size = len(texts[number])
                if not rows or room[-1] < size:
                    rows.append([])
                    room.append(width)
                rows[-1].append(number)
                room[-1] -= size
            for start in range(0, len(rows), num_rows):
                yield _filled(texts, rows[start : start + num_rows], num_rows, width)


def _filled(
    texts: Sequence[np.ndarray], rows: Sequence[Sequence[int]], num_rows: int, width: int
) -> _Batch:
    tokens, segments, positions = (np.zeros((num_rows, width), np.int32) for _ in range(3))
    places = []
    for row, numbers in enumerate(rows):
        start = 0
        for segment, number in enumerate(numbers, 1):
            end = start + len(texts[number])
            tokens[row, start:end] = texts[number]
            segments[row, start:end] = segment
            positions[row, start:end] = np.arange(end - start)
            places.append((number, row, start))
            start = end
    return places, [tokens, segments, positions]


class _Limit(msgspec.Struct):
    """Length limit of tokenizer_config.json."""

    model_max_length: float | None = None


def max_length(folder: pathlib.Path, positions: int) -> int:
    """Tokens of a text: as many as its tokenizer allows and the model has positions for."""
    name = vocabularies.TOKENIZER_CONFIG
    limit = vocabularies.read_json(str(folder), name, _Limit).model_max_length
    return positions if limit is None else int(min(limit, positions))
