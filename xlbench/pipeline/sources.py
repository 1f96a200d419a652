"""Sources of a task's records."""

import dataclasses
import functools
import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from xlbench.data import readers
from xlbench.pipeline import late
from xlbench.pipeline.binding import policy, root, with_binding
from xlbench.system import errors

if TYPE_CHECKING:
    import tensorflow as tf

Stamps = tuple[tuple[str, int, int], ...]  # Path, size and time of each file.
CHUNK = 1024  # Records that cross from Python to TensorFlow at once.


def below_root(path: str) -> str:
    """Joins a relative path to the data root."""
    return os.path.join(root(), os.path.expanduser(path))


def stamps(paths: Sequence[str]) -> Stamps:
    """Returns what tells versions of files apart."""
    return tuple((p, (s := os.stat(p)).st_size, s.st_mtime_ns) for p in paths)


def count_lines(split: str, path: str, *others: str) -> int:
    """Counts the lines of a split's first file, for a `RecordSource` of an example on each line."""
    return readers.count_lines(path)


@dataclasses.dataclass(eq=False)
class RecordSource:
    """A source, also for SeqIO, over a reader of `xlbench/data/readers`.

    Attributes:
      read: (split, *paths) -> records, bad records, records left out.
      files: split -> paths, absolute or below the data root. Each may stand for several files, or a
        packed one: see readers.find.
      splits: names of the splits.
      fields: of a record.
      source_lang, target_lang: ISO codes of inputs and targets; None if there are several.
      count: (split, *paths) -> number of examples, if that is quicker than reading them.
      optional: split -> paths that are read after the others if they exist.
      hint: how to get a missing file, for the message; {root} is the data root.
      apart: split -> whether each of its files can be read by itself.
      draws: split -> number of records, with different noise, that `read` gives in a row for each
        example. A pass over the data reads one of them; `count` and rates count examples.
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
    # Attributes that SeqIO reads.
    caching_permitted = True
    supports_arbitrary_sharding = performs_internal_shuffling = False

    def __post_init__(self):
        self.splits, self.fields = tuple(self.splits), tuple(self.fields)

    def patterns(self, split: str) -> list[str]:
        """Returns the files, or patterns of files, of a split."""
        return [below_root(path) for path in (*self.files(split), *self.optional(split))]

    def paths(self, split: str) -> list[str]:
        """Returns the files of a split; UserError if one is missing."""
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
        """Returns the files of a split in groups that can be read independently, in order."""
        paths = self.paths(split)
        return [[path] for path in paths] if self.apart(split) else [paths]

    def num_input_examples(self, split: str) -> int:
        """Counts the examples of a split."""
        return self._counted(split, stamps(self.paths(split)))

    @functools.lru_cache(maxsize=64)  # noqa: B019 - sources live as long as the registry.
    def _counted(self, split: str, files: Stamps) -> int:
        paths = [path for path, *_ in files]
        if self.count is not None:
            return self.count(split, *paths)
        records = sum(isinstance(item, dict) for item in self.read(split, *paths))
        return records // self.draws(split)

    def list_shards(self, split: str) -> list[str]:
        """Returns SeqIO's names of shards: one for a split."""
        return [split]

    def get_dataset(
        self,
        split: str = 'train',
        shuffle: bool = True,
        seed: int | None = None,
        shard_info: object = None,
    ) -> 'tf.data.Dataset':
        """Returns the records of a split in order, for SeqIO to shuffle and shard."""
        return self.batches(split).unbatch()

    def batches(self, split: str) -> 'tf.data.Dataset':
        """Returns the records of a split in order, in chunks: {field: [up to CHUNK] string}."""
        tf = late.tensorflow()
        paths = self.paths(split)
        return tf.data.Dataset.from_generator(
            with_binding(lambda: self.chunks(split, paths)),
            output_signature={name: tf.TensorSpec([None], tf.string) for name in self.fields},
        )

    def chunks(self, split: str, paths: Sequence[str]) -> Iterator[dict[str, Sequence[str]]]:
        """Yields the records of files of a split in chunks: {field: up to CHUNK texts}."""
        bad = policy()
        try:
            usable = bad.usable(self.read(split, *paths))
            while records := list(itertools.islice(usable, CHUNK)):
                yield {name: [record[name] for record in records] for name in self.fields}
        except errors.UserError as error:
            bad.error = error
            raise
