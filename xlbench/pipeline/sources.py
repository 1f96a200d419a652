"""The sources of a task's records, with what happens to bad ones."""

import dataclasses
import functools
import os
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from xlbench.data import readers
from xlbench.pipeline import late
from xlbench.pipeline.binding import policy, root, with_binding
from xlbench.system import errors

if TYPE_CHECKING:
    import tensorflow as tf

Stamps = tuple[tuple[int, int], ...]  # Size and time of each file.
CHUNK = 1024  # Records that cross from Python to TensorFlow at once.


def below_root(path: str) -> str:
    """A path, below the data root where it is relative."""
    return os.path.join(root(), os.path.expanduser(path))


def count_lines(split: str, path: str, *others: str) -> int:
    """The examples of a split whose first file has one on each line; for `RecordSource`."""
    return readers.count_lines(path)


@dataclasses.dataclass(eq=False)
class RecordSource:
    """A source, also for SeqIO, over a reader of `xlbench/data/readers`.

    Attributes:
      read: (split, *paths) -> records, bad records, records left out.
      files: split -> the paths it is read from, absolute or below the data root. Each may stand for
        several files, or a packed one: see readers.find.
      splits: the splits there are.
      fields: the fields of a record.
      source_lang: ISO code of the inputs, None where it is not one language.
      target_lang: ISO code of the targets.
      count: (split, *paths) -> number of examples, where that is quicker than reading them.
      optional: split -> further paths, which are read after the others where they exist.
      hint: how to look elsewhere, for the message about a missing file; {root} in it is the data
        root.
      apart: split -> whether its files are read one after another, each by itself.
      draws: split -> how many records `read` gives of each example, one after another, each with
        other noise. A pass over the data reads one of them; `count` and rates count examples.
    """

    read: Callable[..., Iterator[readers.Item]]
    files: Callable[[str], Sequence[str]]
    splits: Sequence[str]
    fields: Sequence[str]
    _: dataclasses.KW_ONLY
    source_lang: str | None = None
    target_lang: str | None = None
    count: Callable[..., int] | None = None
    optional: Callable[[str], Sequence[str]] = lambda split: ()
    hint: str = ''
    apart: Callable[[str], bool] = lambda split: False
    draws: Callable[[str], int] = lambda split: 1
    # What SeqIO asks.
    caching_permitted = True
    supports_arbitrary_sharding = performs_internal_shuffling = False

    def __post_init__(self):
        self.splits, self.fields = tuple(self.splits), tuple(self.fields)

    def patterns(self, split: str) -> list[str]:
        """Returns what `paths` looks for, files or patterns of them."""
        return [below_root(path) for path in (*self.files(split), *self.optional(split))]

    def paths(self, split: str) -> list[str]:
        """The files of a split; UserError if one is not there."""
        paths = []
        for path in map(below_root, self.files(split)):
            matches = readers.find(path)
            if not matches:
                raise errors.UserError(
                    f'there is no file {path} (split {split!r}); the data root is {root()!r}, set '
                    'by --root, --config.data.root or XLBENCH_DATA'
                    + (f'; {self.hint}'.replace('{root}', root()) if self.hint else '')
                )
            paths += matches
        for path in map(below_root, self.optional(split)):
            paths += readers.find(path)
        return paths

    def parts(self, split: str) -> list[list[str]]:
        """The files of a split, divided where each can be read by itself; in order."""
        paths = self.paths(split)
        return [[path] for path in paths] if self.apart(split) else [paths]

    def num_input_examples(self, split: str) -> int:
        """Examples of a split, each of which has `draws` records."""
        paths = self.paths(split)
        stamps = tuple((os.path.getsize(p), os.stat(p).st_mtime_ns) for p in paths)
        return self._counted(split, tuple(paths), stamps)

    @functools.lru_cache(maxsize=64)  # noqa: B019 - sources live as long as the registry.
    def _counted(self, split: str, paths: tuple[str, ...], stamps: Stamps) -> int:
        if self.count is not None:
            return self.count(split, *paths)
        records = sum(isinstance(item, dict) for item in self.read(split, *paths))
        return records // self.draws(split)

    def list_shards(self, split: str) -> list[str]:
        """The shards of a split, as SeqIO counts them: one."""
        return [split]

    def get_dataset(
        self,
        split: str = 'train',
        shuffle: bool = True,
        seed: int | None = None,
        shard_info: object = None,
    ) -> 'tf.data.Dataset':
        """The records of a split in order, for SeqIO, which shuffles and shards them."""
        return self.batches(split).unbatch()

    def batches(self, split: str) -> 'tf.data.Dataset':
        """The records in order, in chunks: {field: [up to CHUNK] string}."""
        tf = late.tensorflow()
        paths = self.paths(split)
        return tf.data.Dataset.from_generator(
            with_binding(lambda: self.chunks(split, paths)),
            output_signature={name: tf.TensorSpec([None], tf.string) for name in self.fields},
        )

    def chunks(self, split: str, paths: Sequence[str]) -> Iterator[dict[str, list[str]]]:
        """The records of files of a split in order, in chunks: {field: up to CHUNK texts}."""
        bad = policy()
        records: list[readers.Record] = []
        for item in self.read(split, *paths):
            if isinstance(item, dict):
                records.append(item)
                if len(records) == CHUNK:
                    yield self._columns(records)
                    records = []
            elif isinstance(item, readers.BadRecord):
                bad.add(item)
            else:
                bad.left_out[item.reason] += 1
        if records:
            yield self._columns(records)

    def _columns(self, records: Sequence[readers.Record]) -> dict[str, list[str]]:
        return {name: [record[name] for record in records] for name in self.fields}
