"""The corpora of the benchmarks: official address, licence, and files below a data root.

corpora.toml describes them. A corpus is downloaded as single files with known hashes (files.csv),
as an archive, or as both; or a person gets it, if its owner wants an agreement or a form.

A download appears whole, after its check, and replaces no file.
"""

import bz2
import contextlib
import csv
import dataclasses
import functools
import gzip
import hashlib
import os
import pathlib
import re
import tarfile
import threading
import time
import tomllib
import urllib.parse
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import IO, TYPE_CHECKING, Any, BinaryIO, Self

from xlbench import benchmarks
from xlbench.benchmarks import crosssum
from xlbench.data import readers
from xlbench.system import files, locks, untrusted, web
from xlbench.system.errors import UserError, shortened
from xlbench.system.progress import Progress

if TYPE_CHECKING:
    import requests


@dataclasses.dataclass(frozen=True)
class File:
    """A published file: its path below the data root, its content, and the address."""

    path: str
    sha256: str  # '': unknown.
    bytes: int  # 0: unknown.
    address: str


@dataclasses.dataclass(frozen=True)
class Archive:
    """A published archive (.zip, .tgz) of files with unknown hashes."""

    address: str
    member: str  # Pattern of the whole names of members to unpack.
    path: str  # Of a member below the data root, with the groups of `member`.
    bytes: int = 8 << 30  # The most that a member may have.


@dataclasses.dataclass(frozen=True)
class Corpus:
    """Name, origin, licence and files of a corpus."""

    name: str
    benchmark: str  # The first word of the tasks that read it.
    title: str
    address: str  # Of the owners' description.
    licence: str  # As its owners state it.
    archives: Sequence[Archive] = ()  # They are unpacked, besides single files.
    by_hand: str = ''  # Instructions, if a machine may not download it.
    tasks: Sequence[str] = ()  # Those that `verify` reads, with splits, as xlbench.prepare does.

    @functools.cached_property
    def files(self) -> list[File]:
        """The files with known hashes, in the order of files.csv."""
        return [file for name, file in _files() if name == self.name]

    @property
    def way(self) -> str:
        """The way to get it: 'files', 'archive' or 'by hand'."""
        return 'files' if self.files else 'archive' if self.archives else 'by hand'


@functools.cache
def _files() -> list[tuple[str, File]]:
    path = pathlib.Path(__file__).with_name('files.csv')
    with open(path, encoding='utf-8', newline='') as file:
        return [
            (row['corpus'], File(row['path'], row['sha256'], int(row['bytes']), row['address']))
            for row in csv.DictReader(file)
        ]


def _corpus(
    name: str, tasks: Sequence[str], archives: Sequence[dict[str, Any]] = (), **fields: str
) -> Corpus:
    """Makes a corpus of a table of corpora.toml."""
    unpacked = [
        Archive(**archive | {'address': archive['address'].replace('PAIR', pair)})
        for archive in archives
        for pair in (crosssum.file_pairs() if 'PAIR' in archive['address'] else [''])
    ]
    fields['by_hand'] = ' '.join(fields.get('by_hand', '').split())
    named = dict.fromkeys(name for entry in tasks for name in _each(entry))
    return Corpus(name, **fields, archives=unpacked, tasks=list(named))


def _each(entry: str) -> Iterator[str]:
    """Yields tasks and splits: 'mtg_qg_LANG_LANG:train,test' -> 'mtg_qg_en_en:train', ..."""
    name, _, splits = entry.partition(':')
    benchmark, task, *_ = name.split('_')
    langs = benchmarks.get(benchmark).languages_of(task) if 'LANG' in name else ['']
    for lang in langs:
        for split in splits.split(','):
            yield f'{name.replace("LANG", lang)}:{split}'


_TABLES = tomllib.loads(pathlib.Path(__file__).with_name('corpora.toml').read_text('utf-8'))
CORPORA = {name: _corpus(name, **table) for name, table in _TABLES.items()}

ARCHIVES = 'downloads'  # Below the data root.
_MOST_REDIRECTS = 10
_PATIENCE, _LEAST = 60.0, 1024  # Seconds, and the bytes a second that a download must have.


def get(corpus: Corpus, root: str, mirror: str = '') -> Iterator[str]:
    """Downloads the missing files of a corpus into a data root; yields a line for each.

    `mirror` is an address with HOST/PATH of each https://HOST/PATH; '' for the hosts themselves.

    Raises:
      UserError: a machine may not download it, a download fails, or a file has other content.
    """
    if corpus.way == 'by hand':
        raise UserError(
            f'a machine may not download {corpus.name}; at {corpus.address}, {corpus.by_hand}'
        )
    with locks.file(os.path.join(root, corpus.name)):
        for file in corpus.files:
            path = os.path.join(root, file.path)
            files.remove_leftovers_of(path)
            there = present(file, root)
            if there is None:
                _fetch(file, path, mirror)
            yield f'{file.path}: {"was there" if there else "downloaded"}, {file.bytes:,} bytes'
        for archive in corpus.archives:
            name = os.path.basename(urllib.parse.urlsplit(archive.address).path)
            path = os.path.join(root, ARCHIVES, f'{corpus.name}-{name}')
            files.remove_leftovers_of(path)
            if not os.path.exists(path):
                _fetch(File(path, '', 0, archive.address), path, mirror)
            count = sum(_place(archive, *member, root) for member in _members(path))
            if not count:
                raise UserError(
                    f'{path} holds none of the files that it is known for; if it is not an archive '
                    f'but a page, remove it; see {corpus.address}'
                )
            sha256 = readers.sha256(path)
            yield f'{path}: {count:,} files unpacked; sha256 {sha256}, no other is known'


def present(file: File, root: str) -> str | None:
    """Returns the path of a file, packed (.gz) or not, or None; UserError if it is another file."""
    for path in readers.find(os.path.join(root, file.path)):
        with readers.open_binary(path) as content:
            if hashlib.file_digest(content, 'sha256').hexdigest() != file.sha256:
                raise UserError(
                    f'{path} is not the published file (its sha256 differs from {file.sha256}); '
                    'move it away to download that one'
                )
        return path
    return None


def _download(address: str, file: BinaryIO, name: str, size: int) -> str:
    """Writes the answer of an address, of known size or 0, into a file; returns its SHA-256.

    A server may lie about the length, pack the answer, or never end.
    """

    def bad(why: str) -> UserError:
        return UserError(f'{address} cannot be downloaded: {why}; try later, or another mirror')

    begun, given_up, digest = time.monotonic(), threading.Event(), hashlib.sha256()

    def write() -> None:
        with contextlib.closing(_opened(address)) as answer:
            packed = answer.headers.get('Content-Encoding', 'identity')
            if packed != 'identity':
                raise bad(f'the server packs it ({shortened(packed)}), which it was not asked for')
            length = answer.headers.get('Content-Length', '')
            declared = int(length) if length.isdecimal() and len(length) < 19 else None
            if size and declared not in (None, size):
                raise bad(f'it has {declared:,} bytes, and the published file {size:,}')
            if not size and (declared or 0) > untrusted.DOWNLOAD_BYTES.value:
                raise untrusted.DOWNLOAD_BYTES.exceeded(f'{address} has {declared:,} bytes')
            progress.total = declared or 0
            while block := answer.raw.read1(1 << 16, decode_content=False):
                if given_up.is_set():
                    return
                progress.add(len(block))
                if size and progress.done > size:
                    raise bad(f'it has more than the {size:,} bytes of the published file')
                if not size and progress.done > untrusted.DOWNLOAD_BYTES.value:
                    raise untrusted.DOWNLOAD_BYTES.exceeded(f'{address} is too large')
                file.write(block)
                digest.update(block)
                if time.monotonic() - begun > untrusted.DOWNLOAD_SECONDS.value:
                    raise untrusted.DOWNLOAD_SECONDS.exceeded(f'{address} is slow', 'seconds')
        if progress.done < (size or declared or 0):
            raise bad(f'it ends behind {progress.done:,} of {size or declared:,} bytes')

    with Progress(f'{name}: downloaded', unit='B') as progress:
        try:
            web.while_growing(write, lambda: progress.done, _PATIENCE, int(_LEAST * _PATIENCE))
        finally:
            given_up.set()
    return digest.hexdigest()


def _opened(address: str) -> 'requests.Response':
    """Opens the answer of an address, after redirects, whose bodies the library would read."""
    import requests

    session, headers = requests.Session(), {'Accept-Encoding': 'identity'}
    # It reads even without following.
    session.resolve_redirects = lambda *_, **__: iter(())  # type: ignore[method-assign, assignment]
    for _ in range(_MOST_REDIRECTS):
        answer = session.get(address, stream=True, timeout=_PATIENCE, headers=headers)
        if not answer.is_redirect:
            answer.raise_for_status()
            return answer
        answer.close()
        address = urllib.parse.urljoin(address, answer.headers['Location'])
    raise requests.TooManyRedirects(f'it leads elsewhere {_MOST_REDIRECTS} times')


def _fetch(known: File, path: str, mirror: str) -> None:
    import urllib3

    address, sha256 = known.address, known.sha256
    if mirror:
        address = f'{mirror.rstrip("/")}/{address.partition("://")[2]}'
    folder, name = os.path.split(os.path.abspath(path))
    os.makedirs(folder, exist_ok=True)
    try:
        with files.replacing(path) as file:
            found = _download(address, file, name, known.bytes)
            if sha256 and found != sha256:
                raise UserError(
                    f'{address} has other content than the published file (sha256 {sha256}); try '
                    'later, or another --mirror_url'
                )
    except (OSError, urllib3.exceptions.HTTPError) as error:  # requests' errors are OSErrors.
        reason = ' '.join(str(error).split())[-160:]
        raise UserError(f'{address} cannot be downloaded: {reason}') from error


# Errors of the libraries for damaged, encrypted or otherwise packed archives.
_BROKEN = (
    tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, ValueError,
    LookupError, ArithmeticError, TypeError,
)  # fmt: skip


class _Archive(tarfile.TarFile):
    """Archive that knows its real end, if its members are `_Head`s.

    The library takes a broken later header, or the end of the file, for the end of the archive.
    """

    has_end = False


class _Head(tarfile.TarInfo):
    """Header of a member of an `_Archive`."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        """Reads a header; tarfile.ReadError for a negative size."""
        info = super().frombuf(buf, encoding, errors)
        if info.size < 0:
            raise tarfile.ReadError(f'a member has {info.size} bytes')
        return info

    @classmethod
    def fromtarfile(cls, archive: tarfile.TarFile) -> Self:
        """Reads the next header, and notes the end."""
        try:
            info = super().fromtarfile(archive)
        except tarfile.EOFHeaderError:  # type: ignore[attr-defined]  # Typeshed lacks it.
            archive.has_end = True  # type: ignore[attr-defined]
            raise
        if info.issparse():  # A few bytes would become uncounted gigabytes.
            raise tarfile.ReadError('a member is sparse, as no published file is')
        return info


# First bytes of a packed archive -> its unpacker.
_PACKED: dict[bytes, Callable[[BinaryIO], Any]] = {
    b'\x1f\x8b': lambda file: gzip.GzipFile(fileobj=file),
    b'BZh': bz2.BZ2File,
}


def _members(path: str) -> Iterator[tuple[str, Iterator[bytes]]]:
    """Yields names and blocks of the regular files of an archive, within limits."""
    with _unpacking(path):
        if zipfile.is_zipfile(path):
            expansion, size = untrusted.Expansion(path), os.path.getsize(path)
            with zipfile.ZipFile(path) as zipped:
                for entry in zipped.infolist():
                    if not entry.is_dir():
                        with zipped.open(entry) as member:
                            yield entry.filename, _blocks(path, member, expansion, size)
        else:
            with open(path, 'rb') as file:
                start = file.peek(3)
                unpack = next((_PACKED[k] for k in _PACKED if start.startswith(k)), None)
                stream = untrusted.open_packed(unpack(file), file, path) if unpack else file
                with _Archive.open(fileobj=stream, mode='r|', tarinfo=_Head) as archive:
                    for info in archive:  # Without links and devices.
                        if info.isreg() and (content := archive.extractfile(info)):
                            yield info.name, _blocks(path, content)
                    if not archive.has_end:
                        raise tarfile.ReadError('its end is missing')


@contextlib.contextmanager
def _unpacking(path: str) -> Iterator[None]:
    """Turns a fault of the archive in this block into a UserError."""
    try:
        yield
    except _BROKEN as error:
        reason = str(error).partition('\n')[0]
        raise UserError(f'{path} cannot be unpacked ({reason}); remove it to try again') from error


def _blocks(
    path: str, content: IO[bytes], expansion: untrusted.Expansion | None = None, size: int = 0
) -> Iterator[bytes]:
    """Yields a member of the archive `path`, counted if the archive itself is not."""
    with _unpacking(path):
        while block := content.read(2**20):
            if expansion:
                expansion.add(len(block), size)
            yield block


def _place(archive: Archive, member: str, content: Iterator[bytes], root: str) -> bool:
    """Writes a member to its place, unless it is there; False if it is not needed."""
    match = re.fullmatch(archive.member, member)
    if match is None:
        return False
    path = pathlib.Path(root, match.expand(archive.path))
    named = shortened(member)
    if '..' in path.parts[len(pathlib.Path(root).parts) :] or '\0' in member:
        raise UserError(f'{named} would be unpacked outside {root}')
    files.remove_leftovers_of(path)
    blocks = _limited(content, named, archive.bytes)
    if path.exists():
        digest = hashlib.sha256()
        for block in blocks:
            digest.update(block)
        if digest.hexdigest() != readers.sha256(path):
            raise UserError(f'{path} is there with other content; move it away to unpack {named}')
        return True
    path.parent.mkdir(parents=True, exist_ok=True)
    with files.replacing(path) as file:
        file.writelines(blocks)
    return True


def _limited(content: Iterator[bytes], named: str, limit: int) -> Iterator[bytes]:
    """Yields the blocks of a member; UserError above `limit` bytes."""
    count = 0
    for block in content:
        count += len(block)
        if count > limit:
            raise UserError(f'{named} has more than {limit:,} bytes')
        yield block
