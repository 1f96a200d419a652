"""The candidates of an example, and the rank of its own reply among them."""

import dataclasses
import functools
from collections.abc import Mapping

import numpy as np

from xlbench.data.prepared import Prepared
from xlbench.evaluators import base
from xlbench.retrieval import exact_search
from xlbench.system.errors import UserError
from xlbench.system.files import Json

# The released code scores whole batches of this size, and leaves the last one out.
OFFICIAL_BATCH = 512
# Examples whose scores or hashes are in memory at once.
_CHUNK = 256


@dataclasses.dataclass(frozen=True)
class RetrievalTask(base.Task):
    """A prepared task with what evaluating it needs, read when it is first scored."""

    responses: Prepared | None  # The preparation of its response set, if there is one.
    num_candidates: int  # Of an example, its own reply included.
    # Longer examples are left out, and of the others the last incomplete batch; None scores all.
    official_lengths: Mapping[str, int] | None

    def __post_init__(self):
        if not len(self.numbers):
            raise UserError(
                f'official_filter leaves none of {self.batches.num_examples} examples of '
                f'{self.prepared.name}/{self.prepared.split}: it keeps only full batches of '
                f'{OFFICIAL_BATCH}; set it to False'
            )

    @functools.cached_property
    def numbers(self) -> np.ndarray:
        """[n], the examples that are scored."""
        numbers = np.arange(self.batches.num_examples)
        if not self.official_lengths:
            return numbers
        limits = [self.official_lengths['inputs'], self.official_lengths['targets']]
        kept = np.flatnonzero((self.prepared.lengths()[numbers] <= limits).all(axis=1))
        return kept[: len(kept) // OFFICIAL_BATCH * OFFICIAL_BATCH]

    @functools.cached_property
    def records(self) -> list[dict[str, Json]]:
        """[n], of the examples that are scored."""
        return self.prepared.read(self.numbers)

    @property
    def targets(self) -> list[str]:
        """[n], their own replies."""
        return [record['targets_pretokenized'] for record in self.records]

    @functools.cached_property
    def _drawn_from(self) -> dict[str, np.ndarray]:
        """The different replies that candidates are drawn from: text -> ids."""
        count = np.clip(
            self.batches.num_examples, 2 * self.num_candidates, 20 * self.num_candidates
        )
        records = self.prepared.read(range(min(count, len(self.prepared))))
        return {record['targets_pretokenized']: record['targets'] for record in records}

    @functools.cached_property
    def replies(self) -> dict[str, np.ndarray]:
        """All candidates: those that are drawn from, then the other own replies: text -> ids."""
        gold = {record['targets_pretokenized']: record['targets'] for record in self.records}
        return self._drawn_from | gold

    @functools.cached_property
    def pools(self) -> np.ndarray:
        """[n, candidates], places in `replies`: the gold one first, the others sorted."""
        places = {text: i for i, text in enumerate(self.replies)}
        gold = np.array([places[record['targets_pretokenized']] for record in self.records])
        total = len(self._drawn_from)
        count = min(self.num_candidates, total) - 1
        parts = [slice(i, i + _CHUNK) for i in range(0, len(gold), _CHUNK)]
        others = [_draw(self.numbers[part], gold[part], total, count) for part in parts]
        return np.concatenate([gold[:, None], np.concatenate(others)], axis=1)


def _draw(numbers: np.ndarray, gold: np.ndarray, total: int, count: int) -> np.ndarray:
    """[n, count]: replies of 0 .. total - 1 other than gold [n], for examples of these numbers [n].

    They are those with the smallest hashes of example and reply, so that a few replies more or
    fewer change few of them.
    """
    hashes = _mix(_mix(numbers.astype(np.uint64))[:, None] + np.arange(total, dtype=np.uint64))
    known = np.flatnonzero(gold < total)
    hashes[known, gold[known]] = np.iinfo(np.uint64).max
    order = np.argpartition(hashes, min(count, total - 1), axis=1)
    return np.sort(order[:, :count], axis=1)


def _mix(x: np.ndarray) -> np.ndarray:
    """A hash of uint64, one step of SplitMix64 (doi:10.1145/2660193.2660195)."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def rank(
    task: RetrievalTask,
    messages: np.ndarray,  # [n, dim], times scale
    replies: np.ndarray,  # [replies, dim]
) -> tuple[np.ndarray, ...]:
    """[n] each: the loss of an example's gold reply in nats, its rank from 1, and the best place.

    The best place is in `RetrievalTask.replies`: of the candidate with the highest score.
    """
    lengths = np.linalg.norm(replies, axis=1)
    best, losses, ranks = [], [], []
    for start in range(0, len(messages), _CHUNK):
        x, pools = messages[start : start + _CHUNK], task.pools[start : start + _CHUNK]
        scores = np.take_along_axis(x @ replies.T, pools, axis=1).astype(np.float64)
        gold = scores[:, :1]
        noise = exact_search.ROUNDING * np.linalg.norm(x, axis=1) * lengths[pools[:, 0]]
        ranks.append(1 + np.sum(scores[:, 1:] >= gold - noise[:, None], axis=1))
        largest = scores.max(axis=1)
        total = np.exp(scores - largest[:, None]).sum(axis=1)
        losses.append(largest + np.log(total) - gold[:, 0])
        best.append(np.take_along_axis(pools, scores.argmax(axis=1)[:, None], axis=1)[:, 0])
    return tuple(map(np.concatenate, (losses, ranks, best)))
