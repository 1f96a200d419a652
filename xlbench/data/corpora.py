"""The corpora that the benchmarks read: official address, licence, and the files below a data root.

corpora.toml describes them. There are three ways to get a corpus: single files of a fixed version,
whose hashes are known (files.csv); an archive; or by hand, where its owner wants an agreement or a
form. Of some corpora, single files are known, and an archive has the others.
"""

import csv
import dataclasses
import functools
import pathlib
import tomllib
from collections.abc import Iterator, Sequence
from typing import Any

from xlbench import benchmarks
from xlbench.benchmarks import crosssum


@dataclasses.dataclass(frozen=True)
class File:
    """One published file.

    Attributes:
      path: where it belongs, below the data root.
      sha256: of its content.
      bytes: of its content.
      address: the version whose hash this is.
    """

    path: str
    sha256: str
    bytes: int
    address: str


@dataclasses.dataclass(frozen=True)
class Archive:
    """A published archive (.zip, .tgz) of files whose hashes we do not know.

    Attributes:
      address: of the archive.
      member: pattern of the members to unpack, matched against their whole names.
      path: where a member belongs, below the data root, with the groups of `member`.
      bytes: how much one member may hold.
    """

    address: str
    member: str
    path: str
    bytes: int = 8 << 30


@dataclasses.dataclass(frozen=True)
class Corpus:
    """Name, origin, licence and files of a corpus.

    Attributes:
      name: of it here.
      benchmark: the first word of the tasks that read it.
      title: what it is, in a few words.
      address: where its owners describe it.
      licence: as its owners state it.
      archives: what is unpacked, besides single files.
      by_hand: how a person gets it, where a machine may not.
      tasks: tasks and splits that `verify` reads, as xlbench.prepare names them.
    """

    name: str
    benchmark: str
    title: str
    address: str
    licence: str
    archives: Sequence[Archive] = ()
    by_hand: str = ''
    tasks: Sequence[str] = ()

    @functools.cached_property
    def files(self) -> list[File]:
        """The files of known content, in the order of files.csv."""
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
    """The corpus that a table of corpora.toml describes."""
    unpacked = [
        Archive(**archive | {'address': archive['address'].replace('PAIR', pair)})
        for archive in archives
        for pair in (crosssum.file_pairs() if 'PAIR' in archive['address'] else [''])
    ]
    fields['by_hand'] = ' '.join(fields.get('by_hand', '').split())
    named = dict.fromkeys(name for entry in tasks for name in _each(entry))
    return Corpus(name, **fields, archives=unpacked, tasks=list(named))


def _each(entry: str) -> Iterator[str]:
    """Tasks and splits of an entry: 'mtg_qg_LANG_LANG:train,test' -> 'mtg_qg_en_en:train', ..."""
    name, _, splits = entry.partition(':')
    benchmark, task, *_ = name.split('_')
    langs = benchmarks.get(benchmark).languages_of(task) if 'LANG' in name else ['']
    for lang in langs:
        for split in splits.split(','):
            yield f'{name.replace("LANG", lang)}:{split}'


_TABLES = tomllib.loads(pathlib.Path(__file__).with_name('corpora.toml').read_text('utf-8'))
CORPORA = {name: _corpus(name, **table) for name, table in _TABLES.items()}
