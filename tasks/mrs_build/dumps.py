"""Dumps of Reddit comments -> comments, by thread.

A dump is JSON lines, a comment each, as Pushshift publishes them (arXiv:2001.08435). A block of
whole lines is the unit of work: one process cuts a file into blocks, others read them. Comments
are kept in partitions by the hash of their thread, which brings a reply and its parent together
whatever files they stand in.
"""

import bz2
import collections
import gzip
import io
import json
import lzma
import os
import re
import zlib
from collections.abc import Callable, Iterator
from typing import BinaryIO, NamedTuple

import orjson
from backports import zstd

from xlbench.jobs import shards
from xlbench.system import untrusted

BLOCK = 32 * 2**20  # Bytes of text.
MAX_LINE = 2**20  # Bytes. A comment has 10,000 characters at most, and some hundred bytes around.
_KEYS = ('id', 'parent_id', 'link_id', 'body', 'score', 'created_utc')
_TYPES = (str, str, str, str, int, int)
# Base 36, 64 bits. What they answer is a comment, t1, or the post, t3.
_IDS = re.compile(r'[0-9a-z]{1,13} t[13]_[0-9a-z]{1,13} t3_[0-9a-z]{1,13}')
_CONTROL = re.compile(r'[\x00-\x1f\x7f-\x9f]')
_MAX_CREATED = 253_402_300_800  # The year 10000, in seconds.


class Comment(NamedTuple):
    """The parts of a comment that are kept.

    Attributes:
      id: base 36, without the t1_ of its kind.
      parent: id of the comment that it answers; '' if it answers the post.
      thread: id of the post.
      created: seconds since 1970, decimal.
      dropped: why nobody may see it; '' if it may be seen.
      text: one line; '' if it is dropped.
    """

    id: str
    parent: str
    thread: str
    created: str
    dropped: str
    text: str


class BadLineError(ValueError):
    """A line that is no comment; its text is the reason, one of few."""


def parse(line: bytes) -> Comment:
    """A line of a dump.

    Raises:
      BadLineError: it is no comment.
    """
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
    dropped = _dropped(text, score)
    return Comment(
        name,
        parent[3:] if parent.startswith('t1_') else '',
        link[3:],
        str(created),
        dropped,
        '' if dropped else text,
    )


def _dropped(text: str, score: int) -> str:
    """The rules of arXiv:2106.02017, section 2."""
    for mark in ('removed', 'deleted'):
        if text.startswith(f'[{mark}]'):
            return mark
    if score < 1:
        return 'score below 1'
    return '' if text else 'empty'


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


def scan(data: bytes, path: str, num_partitions: int) -> collections.Counter[str]:
    """A block of lines -> a shard of comments by thread.

    Returns:
      Counts: lines, malformed/REASON, comments, dropped/REASON.
    """
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
    return counts


# ---------------------------------------------------------------------------------------------
# Files -> blocks.


def _zstd(raw: BinaryIO) -> io.BufferedIOBase:
    # Dumps are written with windows of 2 GiB (zstd --long=31); the default allows 128 MiB.
    return zstd.ZstdFile(raw, options={zstd.DecompressionParameter.window_log_max: 31})


_OPENERS: dict[str, Callable[[BinaryIO], io.BufferedIOBase]] = {
    '.zst': _zstd,
    '.bz2': bz2.BZ2File,
    '.xz': lzma.LZMAFile,
    '.gz': lambda raw: gzip.GzipFile(fileobj=raw),
}
_DAMAGE = (EOFError, OSError, zlib.error, lzma.LZMAError, zstd.ZstdError)


class Reader:
    """Cuts a file into blocks of whole lines, always the same ones.

    Args:
      path: a dump; its name tells how it is compressed.
      block: bytes of a block.

    Attributes:
      position: bytes read of the file as it is on disk.
      damage: why the end of the file could not be read; '' if it could.

    Raises:
      UserError: it expands further than any dump does.
    """

    def __init__(self, path: str, block: int = BLOCK):
        self.position = 0
        self.damage = ''
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
