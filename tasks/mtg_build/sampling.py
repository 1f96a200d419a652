"""The first step: originals -> those that people correct, and those that stay rough.

  WORK/read/rough/000000.jsonl.gz     ["passage", "answer", "question"], some hundred a file
  WORK/read/sample/000000.jsonl.gz    likewise, in the order in which splits are filled
  WORK/read/counts.json

Examples with the same passage (or story, or article) are one group, and stay together: no passage
of the sample is in the rough data, and none is in two of train, validation and test. The order of
groups, and of the examples of one, comes from a hash of the seed and the texts alone.
"""

import collections
import gzip
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

import msgspec

from xlbench.system import files, locks
from xlbench.system.errors import UserError
from xlbench.system.progress import Progress
from xlbench.tasks.mtg_build.options import Options
from xlbench.tasks.mtg_build.originals import Example, Originals, digest

PARTS = ('rough', 'sample')
_EXAMPLES = 512  # Of a file, which is a job of translation; a kill costs a worker that much.

T = TypeVar('T')


class Counts(msgspec.Struct):
    """Numbers of originals.

    Attributes:
      read: examples of all files, each counted once.
      repeated: those that were there before.
      bad: those that could not be read.
      rough: those that are filtered.
      sample: those that people correct.
      with_sample: those left out because their passage is in the sample, or was when a split of it
        was full.
      files: of each part.
    """

    read: int
    repeated: int
    bad: int
    rough: int
    sample: int
    with_sample: int
    files: dict[str, int]


def fill(groups: Iterable[Sequence[T]], sizes: Sequence[int]) -> list[list[T]]:
    """Fills splits with groups, one split after another; what is over of the last group is left.

    Args:
      groups: of examples that must not be in two splits.
      sizes: of the splits.

    Returns:
      The splits; the last ones are short if there are too few examples.

    Example: ['ab', 'cde', 'f'], [3, 1] -> [['a', 'b', 'c'], ['f']]
    """
    remaining = iter(groups)
    splits: list[list[T]] = []
    for size in sizes:
        split: list[T] = []
        while len(split) < size and (group := next(remaining, None)) is not None:
            split += group[: size - len(split)]
        splits.append(split)
    return splits


def sample(examples: Iterable[Example], sizes: Sequence[int], seed: int) -> list[bytes]:
    """The digests of a sample, in its order.

    Args:
      examples: of which it is.
      sizes: of its splits, see `fill`.
      seed: of the order.
    """
    groups: dict[bytes, list[bytes]] = collections.defaultdict(list)
    for example in examples:
        groups[digest(f'{seed}', example[0])].append(digest(f'{seed}', *example))
    ordered = (sorted(groups[key]) for key in sorted(groups))
    return [name for split in fill(ordered, sizes) for name in split]


def read(options: Options) -> Counts:
    """Does the first step, if it is not done.

    Raises:
      UserError: a file is wrong, or has too few examples.
    """
    folder = os.path.join(options.work, 'read')
    if not os.path.exists(folder):
        with locks.atomic_folder(folder) as new:
            counts = _read(options, str(new))
            files.write(new / 'counts.json', msgspec.json.encode(counts))
    return files.read_json(os.path.join(folder, 'counts.json'), Counts)


def names(options: Options, counts: Counts) -> list[tuple[str, int]]:
    """(part, number) of all files of the first step, the sample's last."""
    return [(part, number) for part in PARTS for number in range(counts.files[part])]


def path(folder: str, part: str, number: int) -> str:
    """The file of some examples, in the folder of a step."""
    return os.path.join(folder, part, f'{number:06d}.jsonl.gz')


def write_lines(path: str, lines: Iterable[object]) -> None:
    """Writes a packed file of JSON lines, the same bytes for the same lines."""
    with files.replacing(path) as file, gzip.GzipFile('', 'wb', 6, file, mtime=0) as packed:
        for line in lines:
            packed.write(json.dumps(line, ensure_ascii=False).encode() + b'\n')


def read_examples(path: str) -> Iterator[Example]:
    """The examples of a file."""
    with gzip.open(path) as packed:
        for line in packed:
            yield tuple(msgspec.json.decode(line, type=list[str]))


def _read(options: Options, folder: str) -> Counts:
    originals = Originals(options.task, options.originals, options.columns, options.max_bad)
    held_out = originals
    if options.held_out:
        held_out = Originals(options.task, options.held_out, options.columns, options.max_bad)
    sizes = (*options.sizes, options.spare)
    with Progress(f'read {options.task}', unit='examples') as progress:

        def counted(examples: Iterable[Example]) -> Iterator[Example]:
            for example in examples:
                progress.add()
                yield example

        order = sample(counted(held_out), sizes, options.seed) if sum(sizes) else []
        if len(order) < sum(sizes):
            raise UserError(
                f'{options.task}: {len(order):,} originals for a sample of {sum(sizes):,}; name '
                'more files, or smaller --sizes'
            )
        places = {name: place for place, name in enumerate(order)}
        chosen: dict[int, Example] = {}
        passages = set()
        for example in held_out if order else ():
            place = places.get(digest(f'{options.seed}', *example))
            if place is not None:
                chosen[place] = example
                passages.add(digest(example[0]))
        num_read, rough = 0, _Files(folder, 'rough')
        for example in counted(originals):
            num_read += 1
            if digest(example[0]) not in passages:
                rough.add(example)
        rough.close()
    if not num_read:
        raise UserError(f'{", ".join(options.originals)}: no examples; is it empty?')
    kept = _Files(folder, 'sample')
    for place in sorted(chosen):
        kept.add(chosen[place])
    kept.close()
    in_both = 0 if options.held_out else len(chosen)
    return Counts(
        read=num_read,
        repeated=originals.num_repeated,
        bad=originals.num_bad,
        rough=rough.count,
        sample=len(chosen),
        with_sample=num_read - rough.count - in_both,
        files={'rough': rough.number, 'sample': kept.number},
    )


class _Files:
    """Writes examples into files of one size.

    Attributes:
      count: examples so far.
      number: files so far.
    """

    def __init__(self, folder: str, part: str):
        self._folder, self._part = folder, part
        self._waiting: list[Example] = []
        self.count = self.number = 0
        os.mkdir(os.path.join(folder, part))

    def add(self, example: Example) -> None:
        self._waiting.append(example)
        self.count += 1
        if len(self._waiting) == _EXAMPLES:
            self.close()

    def close(self) -> None:
        if self._waiting:
            write_lines(path(self._folder, self._part, self.number), self._waiting)
            self.number += 1
            self._waiting = []
