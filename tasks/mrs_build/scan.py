"""The first step of a build: dumps of comments -> shards of comments by thread."""

import collections
import functools
import itertools
import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from concurrent import futures
from typing import TypeVar

import msgspec

from xlbench.jobs import Engine, shards
from xlbench.system import files
from xlbench.system.errors import UserError
from xlbench.system.progress import Progress
from xlbench.tasks.mrs_build import dumps
from xlbench.tasks.mrs_build.options import Options, dump_name

_END = object()

Item = TypeVar('Item')


class Reading(msgspec.Struct):
    """The result of reading a dump to its end.

    Attributes:
      blocks: that it was cut into.
      damage: why its end could not be read; '' if it could.
      unread: bytes of that end.
    """

    blocks: int
    damage: str
    unread: int


class Dump:
    """A dump, and what has been made of it.

    Args:
      path: of the dump.
      folder: for its shards.
    """

    def __init__(self, path: str, folder: str):
        self.path = path
        self.name = os.path.basename(path)
        self.folder = folder
        self.position = 0
        self._read = os.path.join(folder, 'read.json')
        os.makedirs(folder, exist_ok=True)

    def shard(self, number: int) -> str:
        """The file of a block."""
        return os.path.join(self.folder, f'{number:06d}')

    def shards(self) -> list[str]:
        """The files of all blocks, once it was read to its end."""
        return [self.shard(number) for number in range(self.read.blocks)]

    @functools.cached_property
    def read(self) -> 'Reading':
        """The result of reading it to its end."""
        return files.read_json(self._read, Reading)

    @property
    def done(self) -> bool:
        """True if all its shards exist."""
        return os.path.exists(self._read) and all(map(os.path.exists, self.shards()))

    def __iter__(self) -> Iterator[tuple[str, bytes]]:
        """The blocks that have no shard yet: (file of the shard, lines)."""
        reader = dumps.Reader(self.path)
        blocks = 0
        for blocks, data in enumerate(reader, 1):
            self.position = reader.position
            path = self.shard(blocks - 1)
            if not os.path.exists(path):
                yield path, data
        unread = os.path.getsize(self.path) - reader.position
        reading = {'blocks': blocks, 'damage': reader.damage, 'unread': unread}
        files.write(self._read, json.dumps(reading))

    def counts(self) -> collections.Counter[str]:
        """The counts of all its blocks."""
        return shards.total(self.shards())

    def check(self, max_bad: float) -> None:
        """Raises UserError if too many lines are no comments, or too much could not be read."""
        read, size = self.read, os.path.getsize(self.path)
        if read.damage and read.unread > max_bad * size:
            raise UserError(
                f'{self.path} is damaged ({read.damage}): {read.unread:,} of its {size:,} '
                'bytes cannot be read; mend it, or raise --max_bad'
            )
        counts = self.counts()
        malformed = shards.reasons(counts, 'malformed')
        bad, lines = sum(malformed.values()), counts['lines']
        if bad > max_bad * lines:
            reasons = ', '.join(f'{count:,} {reason}' for reason, count in malformed.most_common(3))
            raise UserError(
                f'{self.path}: {bad:,} of {lines:,} lines are not comments ({reasons}), more than '
                f'{max_bad:.2%}; if it is a dump of comments, raise --max_bad'
            )


def scan(options: Options, engine: Engine) -> list[Dump]:
    """Scans all dumps; those that are done already are only checked."""
    every = [
        Dump(path, os.path.join(options.work, 'scan', dump_name(path))) for path in options.dumps
    ]
    waiting = [dump for dump in every if not dump.done]
    for dump in every:
        if dump not in waiting:
            dump.check(options.max_bad)
    if engine.is_elsewhere:
        parts = [(dump.path, dump.folder, options.num_partitions) for dump in waiting]
        collections.deque(engine.run(_scan_dump, parts), maxlen=0)
        for dump in waiting:
            dump.check(options.max_bad)
        waiting = []
    # A dump written with --long=31 takes 2 GiB to read, so those are read one at a time.
    long = [dump for dump in waiting if dump.name.endswith('.zst')]
    others = [dump for dump in waiting if dump not in long]
    blocks = itertools.chain(merged(others, min(options.workers, len(others))), *long)
    jobs = ((data, path, options.num_partitions) for path, data in blocks)

    def read() -> int:
        return sum(dump.position if dump in waiting else options.sizes[dump.path] for dump in every)

    with Progress('scan', sum(options.sizes.values()), 'B') as progress:
        progress.skip(read())
        for _ in engine.run(dumps.scan, jobs):
            for dump in [dump for dump in waiting if dump.done]:  # Told now, not 100 blocks later.
                dump.check(options.max_bad)
                waiting.remove(dump)
            progress.done = read()
    for dump in waiting:
        dump.check(options.max_bad)
    blocks_read = sum(dump.read.blocks for dump in every)
    print(f'scan: {blocks_read:,} blocks of {len(every)} dumps', file=sys.stderr, flush=True)
    return every


def _scan_dump(path: str, folder: str, num_partitions: int) -> None:
    """Scans what is left of a dump; only its own reader knows where its blocks begin."""
    for block, data in Dump(path, folder):
        dumps.scan(data, block, num_partitions)


def merged(streams: Sequence[Iterable[Item]], threads: int) -> Iterator[Item]:
    """The items of several streams, `threads` of which are read ahead at a time.

    The first error of a stream is raised here.
    """
    if threads < 2:
        yield from itertools.chain.from_iterable(streams)
        return
    left = map(iter, streams)
    with futures.ThreadPoolExecutor(threads) as pool:
        begun = {pool.submit(next, one, _END): one for one in itertools.islice(left, threads)}
        while begun:
            for done in futures.wait(begun, return_when=futures.FIRST_COMPLETED).done:
                stream, item = begun.pop(done), done.result()
                following = next(left, None) if item is _END else stream
                if following is not None:
                    begun[pool.submit(next, following, _END)] = following
                if item is not _END:
                    yield item
