"""The first step: dumps of Reddit comments -> comments, by thread.

A dump is JSON lines, a comment each, as Pushshift publishes them (arXiv:2001.08435). A block of
whole lines is the unit of work: one process cuts a file into blocks, others read them. Comments
are kept in partitions by the hash of their thread, which brings a reply and its parent together
whatever files they stand in.
"""

import bz2
import collections
import functools
import gzip
import hashlib
import io
import itertools
import json
import lzma
import os
import re
import zlib
from collections.abc import Callable, Iterator
from typing import BinaryIO, NamedTuple

import msgspec
import orjson
from backports import zstd

from xlbench.prepare import shards
from xlbench.prepare.stages import Engine
from xlbench.system import files, untrusted, work
from xlbench.system.command_line import say
from xlbench.system.errors import UserError
from xlbench.system.progress import Progress
from xlbench.tasks.building.builds import Options

BLOCK = 32 * 2**20  # Bytes of text.
MAX_LINE = 2**20  # Bytes. A comment has 10,000 characters at most, and some hundred bytes around.
_KEYS = ('id', 'parent_id', 'link_id', 'body', 'score', 'created_utc')
_TYPES = (str, str, str, str, int, int)
# Base 36, 64 bits. What they answer is a comment, t1, or the post, t3.
_IDS = re.compile(r'[0-9a-z]{1,13} t[13]_[0-9a-z]{1,13} t3_[0-9a-z]{1,13}')
_GONE = re.compile(r'\[(removed|deleted)\]')
_CONTROL = re.compile(r'[\x00-\x1f\x7f-\x9f]')
_MAX_CREATED = 253_402_300_800  # The year 10000, in seconds.


class Comment(NamedTuple):
    """The parts of a comment that are kept."""

    id: str  # Base 36, without the t1_ of its kind.
    parent: str  # Id of the comment that it answers; '' if it answers the post.
    thread: str  # Id of the post.
    created: str  # Seconds since 1970, decimal.
    dropped: str  # Why nobody may see it; '' if it may be seen.
    text: str  # One line; '' if it is dropped.


class BadLineError(ValueError):
    """A line that is no comment; its text is the reason, one of few."""


def parse(line: bytes) -> Comment:
    """Reads a line of a dump; BadLineError if it is no comment."""
    if len(line) > MAX_LINE:
        raise BadLineError(f'longer than {MAX_LINE:,} bytes')
    try:
        value = orjson.loads(line)
    except ValueError:
        raise BadLineError(_why(line)) from None
    if type(value) is not dict:
        raise BadLineError('not a JSON object')
    try:
        name, parent, link, body, score, created = [value[key] for key in _KEYS]
    except KeyError as error:
        raise BadLineError(f'no {error.args[0]}') from None
    # Texts of digits in dumps before 2011.
    if type(created) is str and created.isascii() and created.isdigit() and len(created) < 20:
        created = int(created)
    fields = (name, parent, link, body, score, created)
    for key, field, kind in zip(_KEYS, fields, _TYPES, strict=True):
        if type(field) is not kind:
            raise BadLineError(f'{key} of a wrong type')
    if not _IDS.fullmatch(f'{name} {parent} {link}'):
        raise BadLineError('id, parent_id or link_id of a wrong form')
    if not 0 <= created < _MAX_CREATED:
        raise BadLineError('created_utc of a wrong form')
    text = clean(body)
    # The rules of arXiv:2106.02017, section 2.
    gone = _GONE.match(text)
    dropped = gone[1] if gone else 'score below 1' if score < 1 else '' if text else 'empty'
    answered = parent[3:] if parent.startswith('t1_') else ''
    return Comment(name, answered, link[3:], str(created), dropped, '' if dropped else text)


def clean(text: str) -> str:
    """One line, with single spaces, and the three characters that Reddit escapes as they were.

    Example: 'Tom\\t&amp; Ann\\n\\n&gt; yes ' -> 'Tom & Ann > yes'
    """
    if '&' in text:
        text = text.replace('&lt;', '<').replace('&gt;', '>').replace('&amp;', '&')
    if _CONTROL.search(text):
        text = _CONTROL.sub(' ', text)
    return ' '.join(text.split())


def _why(line: bytes) -> str:
    """Says what is wrong with a line that is not JSON to a strict parser."""
    try:
        json.loads(line.decode())
    except UnicodeDecodeError:
        return 'not UTF-8'
    except (ValueError, RecursionError):
        return 'not JSON'
    return 'half a surrogate pair' if b'\\ud' in line.lower() else 'not JSON'


def _scan_block(data: bytes, path: str, num_partitions: int) -> None:
    """A block of lines -> a shard of comments by thread."""
    # lines, malformed/REASON, comments, dropped/REASON
    counts: collections.Counter[str] = collections.Counter()
    writer = shards.Writer(path, num_partitions)
    for line in data.split(b'\n'):
        if not line.strip():
            continue
        counts['lines'] += 1
        try:
            comment = parse(line)
        except BadLineError as error:
            counts[f'malformed/{error}'] += 1
            continue
        counts['comments'] += 1
        if comment.dropped:
            counts[f'dropped/{comment.dropped}'] += 1
        writer.add(zlib.crc32(comment.thread.encode()) % num_partitions, '\t'.join(comment))
    writer.close(counts)


# ---------------------------------------------------------------------------------------------
# Files -> blocks.


# Dumps are written with windows of 2 GiB (zstd --long=31); the default allows 128 MiB.
_ZSTD = {zstd.DecompressionParameter.window_log_max: 31}
_OPENERS: dict[str, Callable[[BinaryIO], io.BufferedIOBase]] = {
    '.zst': lambda raw: zstd.ZstdFile(raw, options=_ZSTD),
    '.bz2': bz2.BZ2File,
    '.xz': lzma.LZMAFile,
    '.gz': lambda raw: gzip.GzipFile(fileobj=raw),
}
_DAMAGE = (EOFError, OSError, zlib.error, lzma.LZMAError, zstd.ZstdError)


class Reader:
    """Cuts a dump into blocks of whole lines, always the same ones.

    The file's name tells how it is compressed; UserError if it expands further than any dump does.
    """

    def __init__(self, path: str, block: int = BLOCK):
        self.position = 0  # Bytes read of the file as it is on disk.
        self.damage = ''  # Why the end of the file could not be read.
        self._path = path
        self._block = block

    def __iter__(self) -> Iterator[bytes]:
        buffer = bytearray()
        inside = False  # Inside a line that was longer than a block.
        for chunk in self._chunks():
            if inside:
                _, line_end, chunk = chunk.partition(b'\n')
                inside = not line_end
            buffer += chunk
            while len(buffer) >= self._block:
                end = buffer.rfind(b'\n', 0, self._block) + 1
                yield bytes(buffer[: end or self._block])
                if not end:
                    end = buffer.find(b'\n') + 1
                    inside = not end
                del buffer[: end or len(buffer)]
        if self.damage:  # The last line is cut off; it is counted as the damage.
            del buffer[buffer.rfind(b'\n') + 1 :]
        if buffer:
            yield bytes(buffer)

    def _chunks(self) -> Iterator[bytes]:
        # Dumps are truly large, 500 GB a month by now, and read block by block: how far they expand
        # is limited, and what comes out of them is not.
        expansion = untrusted.Expansion(self._path, has_end=False)
        with open(self._path, 'rb') as raw:
            try:
                opener = _OPENERS.get(os.path.splitext(self._path)[1])
                file = opener(raw) if opener else raw
                # Not read(), which loses what it has when the rest is damaged.
                while chunk := file.read1(2**20):
                    self.position = raw.tell()
                    expansion.add(len(chunk), self.position)
                    yield chunk
            except _DAMAGE as error:
                self.damage = str(error) or type(error).__name__


# ---------------------------------------------------------------------------------------------
# Blocks -> shards.


class Reading(msgspec.Struct):
    """The result of reading a dump to its end."""

    blocks: int  # That it was cut into.
    damage: str  # Why its end could not be read; '' if it could.
    unread: int  # Bytes of that end.


def dump_name(dump: str) -> str:
    """The name of a dump, and a hash of its size and of the first and last MiB of it.

    Example: /data/RC_2018-01.zst -> RC_2018-01.zst 0b5aa1ba3d2c4f01
    """
    with open(dump, 'rb') as file:
        size = file.seek(0, os.SEEK_END)
        digest = hashlib.sha256(str(size).encode())
        for start in (0, max(0, size - 2**20)):
            file.seek(start)
            digest.update(file.read(2**20))
    return f'{os.path.basename(dump)} {digest.hexdigest()[:16]}'


class Dump:
    """A dump, and the folder of the shards that have been made of it."""

    def __init__(self, path: str, folder: str):
        self.path = path
        self.name = os.path.basename(path)
        self.folder = folder
        self.position = 0  # As of its reader.
        self._read = os.path.join(folder, 'read.json')
        os.makedirs(folder, exist_ok=True)

    def shards(self) -> list[str]:
        """The files of all blocks, once it was read to its end."""
        return [os.path.join(self.folder, f'{number:06d}') for number in range(self.read.blocks)]

    @functools.cached_property
    def read(self) -> Reading:
        """The result of reading it to its end."""
        return files.read_json(self._read, Reading)

    @property
    def done(self) -> bool:
        """True if all its shards exist."""
        return os.path.exists(self._read) and all(map(os.path.exists, self.shards()))

    def __iter__(self) -> Iterator[tuple[str, bytes]]:
        """The blocks that have no shard yet: (file of the shard, lines)."""
        reader = Reader(self.path)
        blocks = 0
        for blocks, data in enumerate(reader, 1):
            self.position = reader.position
            path = os.path.join(self.folder, f'{blocks - 1:06d}')
            if not os.path.exists(path):
                yield path, data
        unread = os.path.getsize(self.path) - reader.position
        reading = Reading(blocks, reader.damage, unread)
        files.write(self._read, msgspec.json.encode(reading))

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
    waiting = list(every)

    def check() -> int:
        """Checks dumps as soon as they are done; returns the bytes that are read of all."""
        for dump in [dump for dump in waiting if dump.done]:
            dump.check(options.max_bad)
            waiting.remove(dump)
        return sum(dump.position if dump in waiting else options.sizes[dump.path] for dump in every)

    with Progress('scan', sum(options.sizes.values()), 'B') as progress:
        progress.skip(check())
        if engine.is_elsewhere:
            parts = [(dump.path, dump.folder, options.num_partitions) for dump in waiting]
            results = engine.run(_scan_dump, parts)
        else:
            # A dump written with --long=31 takes 2 GiB to read, so those are read one at a time.
            long = [dump for dump in waiting if dump.name.endswith('.zst')]
            others = [dump for dump in waiting if dump not in long]
            blocks = itertools.chain(work.merged(others, min(options.workers, len(others))), *long)
            jobs = ((data, path, options.num_partitions) for path, data in blocks)
            results = engine.run(_scan_block, jobs)
        for _ in results:
            progress.done = check()
        progress.done = check()  # Also dumps without a block.
    blocks_read = sum(dump.read.blocks for dump in every)
    say(f'scan: {blocks_read:,} blocks of {len(every)} dumps')
    return every


def _scan_dump(path: str, folder: str, num_partitions: int) -> None:
    """Scans what is left of a dump; only its own reader knows where its blocks begin."""
    for block, data in Dump(path, folder):
        _scan_block(data, block, num_partitions)
