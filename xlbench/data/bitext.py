"""Parallel texts: normalises them and drops pairs that are no translations.

  normalized  writes characters that look alike in one way
  Rules       says which pairs are dropped
  clean       makes one file of pairs from any usual files, and counts what is dropped

`python -m xlbench.data clean` is the command.
"""

import collections
import dataclasses
import functools
import gzip
import hashlib
import itertools
import json
import os
import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import BinaryIO, NamedTuple

import numpy as np
import regex

from xlbench.benchmarks import languages
from xlbench.data import identification, readers
from xlbench.system import files, locks
from xlbench.system.errors import UserError
from xlbench.system.progress import Progress
from xlbench.system.work import Pool

# Moses' normalize-punctuation.perl writes these so; what nobody sees is left out.
_PUNCTUATION = {
    **dict.fromkeys('“”„‟«»″', '"'),
    **dict.fromkeys('‘’‚‛`´′', "'"),
    **dict.fromkeys('‐‑‒–—―−', '-'),
    '…': '...',
    '\u2028': ' ',
    '\u2029': ' ',
    **dict.fromkeys('\u00ad\u200b\u200e\u200f\u2060\ufeff', ''),
}
# Chinese and Japanese write these full-width themselves.
_WIDE_MARKS = '，。！？：；（）'
_TO_WIDE = str.maketrans(',!?:;', '，！？：；')
_UNSPACED = r'\p{Han}\p{Hiragana}\p{Katakana}'
_NARROW_MARK = regex.compile(rf'(?<=[{_UNSPACED}」』》）])[,!?:;] *(?![\d])')
_SPACES = re.compile(r'\s+')
_CONTROLS = regex.compile(r'[\p{Cc}\p{Cs}\p{Co}\p{Cn}]+')


@functools.cache
def _table(wide_marks: bool) -> dict[int, str]:
    """Characters -> what they are written as."""
    table = {ord(char): text for char, text in _PUNCTUATION.items()}
    for code in range(0xFF01, 0xFFEF):  # Full-width ASCII, half-width kana.
        char = chr(code)
        kind, _, plain = unicodedata.decomposition(char).partition(' ')
        if kind in ('<wide>', '<narrow>') and not (wide_marks and char in _WIDE_MARKS):
            table[code] = ''.join(chr(int(part, 16)) for part in plain.split())
    return table


def normalized(text: str, lang: str) -> str:
    """Returns a text with characters that look alike written in one way.

    Letters with marks are composed (NFC); full-width letters, digits and signs become those of
    ASCII, and half-width kana full-width; quotes, dashes and dots are those of ASCII; control
    characters and soft hyphens are left out, and white space is single spaces. Chinese and Japanese
    keep their own full-width marks, and have them behind their characters in place of ASCII's.

    Example, de: '„Ｇｒüße”…' -> '"Grüße"...'; zh: '２０岁,好!' -> '20岁，好！'
    """
    wide = languages.get(lang).code in ('zh', 'ja')
    text = unicodedata.normalize('NFC', text.translate(_table(wide)))
    text = _SPACES.sub(' ', _CONTROLS.sub(' ', text)).strip()
    if wide:
        text = _NARROW_MARK.sub(lambda mark: mark[0].rstrip(' ').translate(_TO_WIDE), text)
    return text


def letters(text: str) -> str:
    """Removes case, punctuation and spaces; a text that has nothing else stays.

    Example: 'Ja !' -> 'ja'; '?!' -> '?!'
    """
    # Letters, their marks, numbers.
    text = text.casefold()
    return ''.join(c for c in text if unicodedata.category(c)[0] in 'LMN') or text


def length(text: str, lang: str) -> float:
    """Counts words; in a language without spaces, characters by 1.6, a usual word."""
    if languages.get(lang).spaces:
        return text.count(' ') + 1
    return len(text) / 1.6


# The rules, in their order. The first two are of records that a reader refuses or leaves out, the
# last one of pairs that were there before.
RULES = (
    'unreadable', 'not both languages', 'no letters', 'length', 'length ratio', 'copy', 'script',
    'language', 'duplicate',
)  # fmt: skip
_LEEWAY = 5  # Words that are added to both lengths: 'Yes.' may well be 'Ja, das stimmt.'
_SCRIPT_SHARE = 0.5  # Smallest share of letters in the language's script.
# Letters that the identifier needs, of scripts with spaces and without: it guesses at shorter ones.
_LETTERS = 25, 8
_LETTER = regex.compile(r'\p{L}')
_SCRIPTS = {'japanese': r'\p{Han}\p{Hiragana}\p{Katakana}', 'korean': r'\p{Hangul}\p{Han}'}

Pair = tuple[str, str]


@dataclasses.dataclass(frozen=True)
class Rules:
    """Limits that a pair must meet to be kept.

    Attributes:
      source_lang: ISO code of the first text.
      target_lang: ISO code of the second.
      max_length: words that a text may have; a language without spaces has 1.6 characters a word.
      max_ratio: how many times as long as the other one a text may be, when five words are added
        to both.
      identify: whether fastText has to take each text for one in its language.
    """

    source_lang: str
    target_lang: str
    max_length: int = 250
    max_ratio: float = 2.0
    identify: bool = True

    def __post_init__(self):
        if self.source_lang == self.target_lang:
            raise UserError(f'both languages are {self.source_lang!r}; name two')
        for lang in self.langs:
            languages.get(lang)
        if self.max_length < 1:
            raise UserError(f'max_length is {self.max_length}; give 1 word or more')
        if not self.max_ratio >= 1:
            raise UserError(f'max_ratio is {self.max_ratio}; give 1 or more')

    @property
    def langs(self) -> Pair:
        """Returns both languages."""
        return self.source_lang, self.target_lang

    def verdicts(self, pairs: Sequence[Pair]) -> list[str]:
        """Returns for each pair of normalised texts the first rule that it breaks; '' if none."""
        broken = [self._broken(pair) for pair in pairs]
        if not self.identify:
            return broken
        for side, lang in enumerate(self.langs):
            least = _LETTERS[0] if languages.get(lang).spaces else _LETTERS[1]
            asked = [
                i for i, rule in enumerate(broken)
                if not rule and len(_LETTER.findall(pairs[i][side])) >= least
            ]  # fmt: skip
            said = identification.identify([pairs[i][side] for i in asked])
            for i, answer in zip(asked, said, strict=True):
                if answer != lang:
                    broken[i] = 'language'
        return broken

    def _broken(self, pair: Pair) -> str:
        alone = [_LETTER.findall(text) for text in pair]
        if not all(alone):
            return 'no letters'
        lengths = [length(t, lang) for t, lang in zip(pair, self.langs, strict=True)]
        if max(lengths) > self.max_length:
            return 'length'
        if max(lengths) + _LEEWAY > self.max_ratio * (min(lengths) + _LEEWAY):
            return 'length ratio'
        if letters(pair[0]) == letters(pair[1]):
            return 'copy'
        for found, lang in zip(alone, self.langs, strict=True):
            script = _script(lang)
            if script and len(script.findall(''.join(found))) < _SCRIPT_SHARE * len(found):
                return 'script'
        return ''


@functools.cache
def _script(lang: str) -> 'regex.Pattern[str] | None':
    """Compiles a letter of a language's script; None if Unicode has no such script."""
    name = languages.get(lang).script
    try:
        return regex.compile(f'[{_SCRIPTS.get(name, rf"{chr(92)}p{{{name}}}")}]')
    except regex.error:
        return None


_CHUNK = 5000  # Pairs that a worker gets at once.
_SHOWN = 3  # Records that cannot be read, of each input, are named.
TMX = ('.tmx', '.tmx.gz')


@dataclasses.dataclass(frozen=True)
class Input:
    """A corpus: a TMX, a table with TABs, or two files whose lines belong together.

    Attributes:
      paths: the file, or both, the source language first.
      columns: of a table, where the texts are, counted from 0.
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
        path = self.paths[0]
        return readers.convert(path, readers.numbered(path), self._cells)

    def _cells(self, _: int, line: str) -> Iterator[readers.Record]:
        cells, least = line.split('\t'), max(self.columns) + 1
        if len(cells) < least:
            raise ValueError(f'{len(cells)} TAB-separated columns; {least} are needed')
        source, target = (cells[column] for column in self.columns)
        yield {'source': source, 'target': target}


@dataclasses.dataclass
class Report:
    """Numbers of pairs that were read, kept and dropped.

    Attributes:
      read: how many there were.
      kept: how many are in the output.
      dropped: rule -> how many broke it first.
      unreadable: some of the records that could not be read.
    """

    read: int = 0
    kept: int = 0
    dropped: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    unreadable: list[readers.BadRecord] = dataclasses.field(default_factory=list)

    def lines(self) -> Iterator[str]:
        """Yields a line for each rule."""
        yield f'{self.read:,} pairs read, {self.kept:,} kept'
        for rule in RULES:
            if count := self.dropped[rule]:
                yield f'  {rule:<14} {count:>12,} dropped ({count / max(self.read, 1):.1%})'
        for bad in self.unreadable:
            yield f'  unreadable: {bad}'


def hashes(pairs: Sequence[tuple[str, str]]) -> np.ndarray:
    """Hashes pairs, [pairs] uint64; pairs that differ only in case and punctuation are equal."""
    digests = b''.join(
        hashlib.blake2b('\t'.join(map(letters, pair)).encode(), digest_size=8).digest()
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


def clean(inputs: Sequence[Input], output: str, chosen: Rules, workers: int = 1) -> Report:
    """Writes the pairs that break no rule, normalised and each once, in the order of the inputs.

    The output is source, TAB, target on each line, packed if its name ends in .gz, and the same
    bytes with any number of workers. It appears when it is whole, and beside it, ending in
    .about.json, what it was made of and what was dropped.

    Args:
      inputs: what is read.
      output: the file.
      chosen: the rules.
      workers: processes.

    Raises:
      UserError: a file is not there or is wrong as a whole, or the output is there already.
    """
    for path in itertools.chain.from_iterable(source.paths for source in inputs):
        with readers.open_binary(path):  # What is not there is missed before hours have passed.
            pass
    read = {os.path.realpath(path) for source in inputs for path in source.paths}
    if os.path.realpath(output) in read:
        raise UserError(f'{output} is one of the inputs; name another --output')
    about_path = f'{output}.about.json'
    with locks.file(output, wait=functools.partial(print, flush=True)):
        files.check_new(output)
        files.check_own(about_path, 'a note of xlbench.data clean', heads=['{\n "inputs": ['])
        files.remove_leftovers_of(about_path)
        return _clean(inputs, output, about_path, chosen, workers)


def _clean(
    inputs: Sequence[Input], output: str, about_path: str, chosen: Rules, workers: int
) -> Report:
    report, seen = Report(), Seen()
    with (
        files.replacing(output) as file,
        Pool(workers) as pool,
        Progress('cleaned', unit='pairs') as progress,
    ):
        packed = gzip.GzipFile('', 'wb', 6, file, mtime=0) if output.endswith('.gz') else None
        jobs = ((part, chosen) for part in _chunks(inputs, chosen, report))
        for result in pool.run_in_order(_clean_chunk, jobs):
            _write(packed or file, result, seen, report)
            progress.add(len(result.verdicts))
        if packed:
            packed.close()
        about = {
            'inputs': [','.join(source.paths) for source in inputs],
            'rules': dataclasses.asdict(chosen),
            'read': report.read,
            'kept': report.kept,
            'dropped': {rule: report.dropped[rule] for rule in RULES},
        }
        # Before the output is there, which a killed command would leave without it.
        files.write(about_path, json.dumps(about, indent=1) + '\n')
    return report


class _Result(NamedTuple):
    """Output of a worker for one chunk.

    Attributes:
      pairs: those that break no rule, normalised.
      verdicts: the rule that each pair of the chunk breaks first; '' if none.
      hashes: of `pairs`, for finding those that were there before, [pairs] uint64.
    """

    pairs: list[Pair]
    verdicts: list[str]
    hashes: np.ndarray


def _chunks(inputs: Sequence[Input], chosen: Rules, report: Report) -> Iterator[list[Pair]]:
    """Yields the pairs of all inputs, in chunks; records that are none are noted in the report."""
    chunk: list[Pair] = []
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


def _clean_chunk(pairs: list[Pair], chosen: Rules) -> _Result:
    source, target = chosen.langs
    pairs = [(normalized(a, source), normalized(b, target)) for a, b in pairs]
    verdicts = chosen.verdicts(pairs)
    kept = [pair for pair, verdict in zip(pairs, verdicts, strict=True) if not verdict]
    return _Result(kept, verdicts, hashes(kept))


def _write(file: BinaryIO, result: _Result, seen: Seen, report: Report) -> None:
    new = seen.add(result.hashes)
    pairs = itertools.compress(result.pairs, new)
    file.write(''.join(f'{source}\t{target}\n' for source, target in pairs).encode())
    report.read += len(result.verdicts)
    report.kept += int(new.sum())
    report.dropped.update(verdict for verdict in result.verdicts if verdict)
    report.dropped['duplicate'] += int((~new).sum())
