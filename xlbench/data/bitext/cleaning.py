"""Cleans parallel texts: makes one file of pairs from any usual files, and counts the drops."""

import collections
import dataclasses
import functools
import gzip
import hashlib
import itertools
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import BinaryIO

import numpy as np

from xlbench.data import readers
from xlbench.data.bitext import rules, texts
from xlbench.system import files, locks
from xlbench.system.errors import UserError
from xlbench.system.progress import Progress
from xlbench.system.work import Pool

_CHUNK = 5000  # Pairs that a worker gets at once.
_SHOWN = 3  # Records that cannot be read, of each input, are named.
TMX = ('.tmx', '.tmx.gz')


@dataclasses.dataclass(frozen=True)
class Input:
    """A corpus: a TMX, a table with TABs, or two files whose lines belong together.

    Attributes:
        paths: The file, or both, the source language first.
        columns: Of a table, where the texts are, counted from 0.
    """

    paths: tuple[str, ...]
    columns: tuple[int, int] = (0, 1)

    @classmethod
    def parse(cls, text: str) -> 'Input':
        """Returns the input that a word of a command line names.

        Example: 'a.en,a.de.gz'; 'memory.tmx'; 'pairs.tsv'; 'pairs.tsv:3,1', columns from 1.
        """
        path, colon, numbers = text.rpartition(':')
        if colon and not os.path.exists(text):
            columns = tuple(int(n) - 1 if n.isdecimal() else -1 for n in numbers.split(','))
            if len(columns) != 2 or min(columns) < 0 or columns[0] == columns[1]:
                raise UserError(f'{text}: after the colon there are two columns, such as 2,1')
            return cls((path,), columns)
        if ',' in text and not os.path.exists(text):
            paths = tuple(text.split(','))
            if len(paths) != 2 or not all(paths):
                raise UserError(f'{text} is not the names of two files with a comma between')
            return cls(paths)
        return cls((text,))

    def read(self, langs: tuple[str, str]) -> Iterator[readers.Item]:
        """Its records of `source` and `target`."""
        if len(self.paths) == 2:
            return readers.read_parallel(*self.paths)
        if self.paths[0].endswith(TMX):
            return readers.read_tmx(self.paths[0], *langs)
        return self._table()

    def _table(self) -> Iterator[readers.Item]:
        path, least = self.paths[0], max(self.columns) + 1
        for number, line in enumerate(readers.lines(path), 1):
            if isinstance(line, readers.BadRecord):
                yield line
                continue
            cells = line.split('\t')
            if len(cells) < least:
                reason = f'{len(cells)} TAB-separated columns; {least} are needed'
                yield readers.BadRecord(path, number, reason)
                continue
            source, target = (cells[column] for column in self.columns)
            yield {'source': source, 'target': target}


@dataclasses.dataclass
class Report:
    """Numbers of pairs that were read, kept and dropped.

    Attributes:
        read: How many there were.
        kept: How many are in the output.
        dropped: Rule -> how many broke it first.
        unreadable: Some of the records that could not be read.
    """

    read: int = 0
    kept: int = 0
    dropped: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    unreadable: list[readers.BadRecord] = dataclasses.field(default_factory=list)

    def lines(self) -> Iterator[str]:
        """Yields a line for each rule."""
        yield f'{self.read:,} pairs read, {self.kept:,} kept'
        for rule in rules.RULES:
            if count := self.dropped[rule]:
                yield f'  {rule:<14} {count:>12,} dropped ({count / max(self.read, 1):.1%})'
        for bad in self.unreadable:
            yield f'  unreadable: {bad}'


def hashes(pairs: Sequence[tuple[str, str]]) -> np.ndarray:
    """Hashes pairs, [pairs] uint64; pairs that differ only in case and punctuation are equal."""
    digests = b''.join(
        hashlib.blake2b('\t'.join(map(texts.letters, pair)).encode(), digest_size=8).digest()
        for pair in pairs
    )
    return np.frombuffer(digests, '<u8')


class Seen:
    """Numbers, in sorted arrays of which each is at least twice as large as the next.

    So a number is merged only as often as the logarithm of their count, and 45 million of them take
    360 MB.
    """

    def __init__(self):
        self._arrays: list[np.ndarray] = []

    def add(self, numbers: np.ndarray) -> np.ndarray:
        """Adds numbers [n] uint64; says which are new, [n] bool, of equal ones the first."""
        distinct, first = np.unique(numbers, return_index=True)
        known = np.zeros(len(distinct), bool)
        for array in self._arrays:
            places = np.minimum(np.searchsorted(array, distinct), len(array) - 1)
            known |= array[places] == distinct
        is_new = np.zeros(len(numbers), bool)
        is_new[first[~known]] = True
        merged = distinct[~known]
        while self._arrays and len(self._arrays[-1]) < 2 * len(merged):
            merged = np.sort(np.concatenate([self._arrays.pop(), merged]))
        if len(merged):
            self._arrays.append(merged)
        return is_new


def clean(inputs: Sequence[Input], output: str, chosen: rules.Rules, workers: int = 1) -> Report:
    """Writes the pairs that break no rule, normalised and each once, in the order of the inputs.

    The output is source, TAB, target on each line, packed if its name ends in .gz, and the same
    bytes with any number of workers. It appears when it is whole, and beside it, ending in
    .about.json, what it was made of and what was dropped.

    Args:
        inputs: What is read.
        output: The file.
        chosen: The rules.
        workers: Processes.

    Raises:
        UserError: a file is not there or is wrong as a whole, or the output is there already.
    """
    for path in itertools.chain.from_iterable(source.paths for source in inputs):
        with readers.open_binary(path):  # What is not there is missed before hours have passed.
            pass
    if any(_same(path, output) for source in inputs for path in source.paths):
        raise UserError(f'{output} is one of the inputs; name another --output')
    about_path = f'{output}.about.json'
    with locks.file(output, wait=functools.partial(print, flush=True)):
        files.check_new(output)
        files.check_own(about_path, 'a note of xlbench.data clean', heads=['{\n "inputs": ['])
        files.remove_leftovers_of(about_path)
        return _clean(inputs, output, about_path, chosen, workers)


def _clean(
    inputs: Sequence[Input], output: str, about_path: str, chosen: rules.Rules, workers: int
) -> Report:
    """Writes the two files of `clean`."""
    report, seen = Report(), Seen()
    with (
        files.replacing(output) as file,
        Pool(workers) as pool,
        Progress('cleaned', unit='pairs') as progress,
    ):
        packed = gzip.GzipFile('', 'wb', 6, file, mtime=0) if output.endswith('.gz') else None
        jobs = ((i, part, chosen) for i, part in enumerate(_chunks(inputs, chosen, report)))
        for result in _in_order(pool.run(_clean_chunk, jobs)):
            _write(packed or file, result, seen, report)
            progress.add(len(result.verdicts))
        if packed:
            packed.close()
        about = {
            'inputs': [','.join(source.paths) for source in inputs],
            'rules': dataclasses.asdict(chosen),
            'read': report.read,
            'kept': report.kept,
            'dropped': {rule: report.dropped[rule] for rule in rules.RULES},
        }
        # Before the output is there, which a killed command would leave without it.
        files.write(about_path, json.dumps(about, indent=1) + '\n')
    return report


def _same(path: str, other: str) -> bool:
    return os.path.realpath(path) == os.path.realpath(other)


@dataclasses.dataclass(frozen=True)
class _Result:
    """Output of a worker for one chunk.

    Attributes:
        number: Of the chunk.
        pairs: Those that break no rule, normalised.
        verdicts: The rule that each pair of the chunk breaks first; '' if none.
        hashes: Of `pairs`, for finding those that were there before, [pairs] uint64.
    """

    number: int
    pairs: list[rules.Pair]
    verdicts: list[str]
    hashes: np.ndarray


def _chunks(
    inputs: Sequence[Input], chosen: rules.Rules, report: Report
) -> Iterator[list[rules.Pair]]:
    """Yields the pairs of all inputs, in chunks; records that are none are noted in the report."""
    chunk: list[rules.Pair] = []
    for source in inputs:
        shown = 0
        for item in source.read(chosen.langs):
            if isinstance(item, dict):
                chunk.append((item['source'], item['target']))
                if len(chunk) == _CHUNK:
                    yield chunk
                    chunk = []
                continue
            if isinstance(item, readers.LeftOut):
                report.dropped['not both languages'] += 1
            elif item.fatal:
                raise UserError(str(item))
            else:
                report.dropped['unreadable'] += 1
                if shown < _SHOWN:
                    shown += 1
                    report.unreadable.append(item)
            report.read += 1
    if chunk:
        yield chunk


def _clean_chunk(number: int, pairs: list[rules.Pair], chosen: rules.Rules) -> _Result:
    source, target = chosen.langs
    pairs = [(texts.normalized(a, source), texts.normalized(b, target)) for a, b in pairs]
    verdicts = chosen.verdicts(pairs)
    kept = [pair for pair, verdict in zip(pairs, verdicts, strict=True) if not verdict]
    return _Result(number, kept, verdicts, hashes(kept))


def _in_order(results: Iterable[_Result]) -> Iterator[_Result]:
    """Yields results by their numbers; what comes early waits."""
    waiting: dict[int, _Result] = {}
    following = 0
    for result in results:
        waiting[result.number] = result
        while following in waiting:
            yield waiting.pop(following)
            following += 1


def _write(file: BinaryIO, result: _Result, seen: Seen, report: Report) -> None:
    """Writes the pairs that are new."""
    new = seen.add(result.hashes)
    pairs = itertools.compress(result.pairs, new)
    file.write(''.join(f'{source}\t{target}\n' for source, target in pairs).encode())
    report.read += len(result.verdicts)
    report.kept += int(new.sum())
    report.dropped.update(verdict for verdict in result.verdicts if verdict)
    report.dropped['duplicate'] += int((~new).sum())
