"""Translates texts in order, each text once, as a whole or turn by turn; uses earlier translations.

  'Anna: Hi!\\nBen: Bye.'  ->  'Hi!', 'Bye.'  ->  'Anna: Hallo!\\nBen: Tschüss.'

Translations are kept by text and engine in one SQLite file. A kill loses nothing that was
committed, and several processes may write at the same time. Each row has a checksum, and one that
does not agree with it is as good as none.
"""

import argparse
import contextlib
import dataclasses
import functools
import hashlib
import itertools
import os
import re
import sqlite3
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from xlbench import config as config_lib
from xlbench.prepare import stages
from xlbench.settings import decoding
from xlbench.system import untrusted
from xlbench.system.errors import UserError
from xlbench.system.files import Setting
from xlbench.translate import engines
from xlbench.translate.engines import Engine, Failure

UNITS = ('text', 'turn')
# What would end a line or a column.
BREAKS = re.compile('[\t\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]+')
_LINE_END = re.compile('(\r?\n)')
# A speaker's name, its longest length in characters, a colon and the utterance.
_TURN = re.compile(r'([^:：]{1,80}(?::[ \xa0]+|：))?(.*)', re.DOTALL)
_CHUNK = 4096  # Texts that are looked up together.
_FAR_CHUNK = 2**18  # Of an engine of jobs elsewhere, each of whose stages takes a while to begin.
_MOST_FAILED = 3  # Batches in a row, of several texts each, of which none is translated.


@dataclasses.dataclass
class Counts:
    """The progress of a job, in texts that were asked for."""

    texts: int = 0
    kept: int = 0  # That an earlier run had translated, or that came before.
    made: int = 0  # That the engine has translated.
    failed: int = 0  # That it has not.


class Job:
    """Translates with one engine from one language to another.

    `cache` is the folder of the translations that are kept; '' keeps none. `workers` are an engine
    of jobs, and a function that gives each of its workers the engine for two languages; None
    translates in this process.

    Raises:
      UserError: the engine is not there, or does not know the languages.
    """

    def __init__(
        self,
        engine: Engine,
        source: str,
        target: str,
        *,
        cache: str = '',
        workers: tuple[stages.Engine, Callable[[str, str], Engine]] | None = None,
    ):
        engine.check(source, target)
        self.counts = Counts()
        self.identity = engine.identity(source, target)
        self._engine, self._languages, self._workers = engine, (source, target), workers
        self._cut = 0  # By workers.
        # Texts that are looked up and translated together.
        self.chunk = _FAR_CHUNK if workers and workers[0].is_elsewhere else _CHUNK
        self._failed = 0  # Batches in a row.
        self._memory = Memory(cache, self.identity) if cache else None

    @contextlib.contextmanager
    def telling_of_cuts(self, say: Callable[[str], None]) -> Iterator[None]:
        """Says at the end of a block how many texts were cut, in place of a warning each batch."""
        with warnings.catch_warnings():
            warnings.filterwarnings('ignore', '.* inputs were longer than ')
            yield
        if cut := self._engine.num_cut + self._cut:
            say(f'{cut:,} of {self.counts.made:,} texts were too long for the model, and truncated')

    def run(self, texts: Iterable[str], unit: str = 'text') -> Iterator[str | Failure]:
        """The translation of each text, in order; an empty text has an empty one.

        Texts are read some thousands at a time. What a batch gives is kept before the next one
        begins; failures are not kept, so that another run tries them again. The unit 'text'
        translates a text as a whole. 'turn' takes a text of several lines for a dialogue: each line
        is translated by itself, and stays a line, and the name at its beginning stays as it is; a
        text of which a turn was not translated is a Failure.

        Raises:
          UserError: the engine does not work, or translates none of its first batch.
        """
        if unit == 'turn':
            yield from self._turns(texts)
            return
        iterator = iter(texts)
        while chunk := list(itertools.islice(iterator, self.chunk)):
            yield from self._chunk(chunk)

    def _turns(self, texts: Iterable[str]) -> Iterator[str | Failure]:
        divided = [_pieces(text) for text in texts]
        answers = self.run(piece for pieces in divided for piece in pieces[1::2])
        for pieces in divided:
            parts = [next(answers) if i % 2 else piece for i, piece in enumerate(pieces)]
            said = [part for part in parts if not isinstance(part, Failure)]
            if len(said) < len(parts):
                yield next(part for part in parts if isinstance(part, Failure))
            elif said[::2] == ['', '']:  # One line stays as the engine wrote it.
                yield said[1]
            else:
                yield ''.join(BREAKS.sub(' ', x) if i % 2 else x for i, x in enumerate(said))

    def _chunk(self, chunk: Sequence[str]) -> list[str | Failure]:
        distinct = dict.fromkeys(text for text in chunk if text.strip())
        answers: dict[str, str | Failure] = dict(self._memory.get(distinct) if self._memory else {})
        missing = [text for text in distinct if text not in answers]
        full = sum(bool(text.strip()) for text in chunk)
        self.counts.texts += len(chunk)
        self.counts.kept += full - len(missing)
        size = self._engine.batch_size
        batches = [missing[first : first + size] for first in range(0, len(missing), size)]
        for batch, translations in self._translated(batches):
            made = dict(zip(batch, translations, strict=True))
            failures = [x for x in translations if isinstance(x, Failure)]
            self._failed = self._failed + 1 if len(failures) == len(batch) > 1 else 0
            if self._failed and not self.counts.made:
                raise UserError(
                    f'{self._engine.name} translated none of the first {len(batch)} texts: '
                    f'{failures[0].reason}'
                )
            if self._failed == _MOST_FAILED:
                raise UserError(
                    f'{self._engine.name} translated none of the last {_MOST_FAILED} batches: '
                    f'{failures[0].reason}; finished translations are kept'
                )
            if self._memory:
                self._memory.add({k: v for k, v in made.items() if not isinstance(v, Failure)})
            answers |= made
            self.counts.made += len(batch) - len(failures)
            self.counts.failed += len(failures)
        return [answers[text] if text.strip() else '' for text in chunk]

    def _translated(
        self, batches: Sequence[Sequence[str]]
    ) -> Iterator[tuple[Sequence[str], Sequence[str | Failure]]]:
        """Each batch with its translations; of several workers in the order in which they come."""
        if self._workers is None:
            for batch in batches:
                yield batch, self._engine.translate(batch, *self._languages)
            return
        runner, find = self._workers
        work = functools.partial(_translate_batch, find, *self._languages)
        for number, answers, cut in runner.run(work, enumerate(batches)):
            self._cut += cut
            yield batches[number], [Failure(*x) if isinstance(x, list) else x for x in answers]


def _translate_batch(
    find: Callable[[str, str], Engine], source: str, target: str, number: int, batch: Sequence[str]
) -> tuple[int, list[str | list[str]], int]:
    """(its number, its translations or [reason of a failure], texts that were cut)."""
    engine = find(source, target)
    before = engine.num_cut
    with warnings.catch_warnings():
        warnings.filterwarnings('ignore', '.* inputs were longer than ')  # The sum is said.
        answers = engine.translate(batch, source, target)
    made = [list(x) if isinstance(x, Failure) else x for x in answers]
    return number, made, engine.num_cut - before


def _pieces(text: str) -> list[str]:
    """Divides a text into pieces that stay and pieces that are translated, in turns.

    Example: 'Anna: Hi!\\nBen: Bye!' -> ['Anna: ', 'Hi!', '\\nBen: ', 'Bye!', '']
    """
    lines = _LINE_END.split(text)
    if len(lines) == 1:
        return ['', text, '']
    pieces = ['']
    for line in lines:
        if _LINE_END.fullmatch(line):
            pieces[-1] += line
            continue
        name, words = _TURN.findall(line)[0]
        pieces[-1] += name
        if words.strip():
            pieces += [words, '']
        else:
            pieces[-1] += words
    return pieces


def translate(
    texts: Sequence[str], engine: str | Engine, source: str, target: str, *, cache: str = ''
) -> list[str | Failure]:
    """The translation of each text, or a Failure.

    An engine may be the name of one, as `engines.find` takes it. Languages are ISO 639-1 codes.
    `cache` is the folder of the translations that are kept; '' keeps none.

    Raises:
      UserError: the project does not know one of the languages, or they are one; see `Job`.
    """
    engines.check_languages(source, target)
    engine = engines.find(engine) if isinstance(engine, str) else engine
    return list(Job(engine, source, target, cache=cache).run(texts))


@dataclasses.dataclass(frozen=True)
class Template:
    """An engine whose model or file may be another one for each pair of languages.

    In its name {source} and {target} stand for the codes of the languages. Both fields are the
    arguments of `engines.find`.
    """

    spec: str
    settings: tuple[tuple[str, Setting], ...] = ()  # The other arguments.

    def name(self, source: str, target: str) -> str:
        """The engine's name for a pair of languages."""
        if self.spec.startswith('command:'):
            return self.spec
        return self.spec.replace('{source}', source).replace('{target}', target)

    def engine(self, source: str, target: str) -> Engine:
        """The engine for a pair of languages; a process keeps the last two."""
        return _engine(self.name(source, target), self.settings)

    def job(self, source: str, target: str) -> Job:
        """A job without a folder of kept translations, see Job; a process keeps the last two."""
        return _job(self, source, target)


@functools.lru_cache(maxsize=2)
def _engine(name: str, settings: tuple[tuple[str, Setting], ...]) -> Engine:
    return engines.find(name, **dict(settings))


# There and back: the models of other pairs leave the memory.
@functools.lru_cache(maxsize=2)
def _job(template: Template, source: str, target: str) -> Job:
    return Job(template.engine(source, target), source, target)


def template_of(args: argparse.Namespace, pairs: Sequence[tuple[str, str]]) -> Template:
    """The engine that a command line names, for some pairs of languages.

    Raises:
      UserError: it does not take the settings, or a model that it stands for is not there.
    """
    settings = decoding.given_options(args)
    engines.check_settings(args.engine, args.prefix, args.batch_size, settings)
    settings |= {'version': args.engine_version, 'timeout': args.timeout}
    settings |= {'prefix': args.prefix, 'batch_size': args.batch_size}
    template = Template(args.engine, tuple(sorted(settings.items())))
    for name in dict.fromkeys(template.name(*pair) for pair in pairs):
        if engines.is_model(name):
            config_lib.check_source(name, '--engine')
    return template


# ---------------------------------------------------------------------------------------------
# What was translated before.

FILE = 'translations.sqlite'
_WAIT = 60.0  # Seconds for another process that writes.
_AT_ONCE = 500  # Keys in one question; SQLite allows 999 in its oldest versions.
_PATIENCE = 120.0  # Seconds for one question; those of a file that means well take milliseconds.
_MOST_BYTES = 1 << 26  # Of a row.
_TABLE = (
    'CREATE TABLE kept '
    '(key BLOB PRIMARY KEY, engine TEXT, source TEXT, translation TEXT, checksum BLOB) '
    'WITHOUT ROWID'
)


class Memory(contextlib.AbstractContextManager):
    """The translations of one engine from one language to another, by its identity.

    The folder of the file is made if it is missing.
    """

    def __init__(self, folder: str, identity: str):
        self._identity = identity
        self.path = os.path.join(folder, FILE)
        self._deadline = 0.0
        try:
            os.makedirs(folder, exist_ok=True)
            untrusted.file(folder, FILE)  # SQLite would write through a link.
            self._connection = sqlite3.connect(self.path, timeout=_WAIT)
            self._connection.text_factory = bytes  # Of a damaged file, text may be anything.
            self._connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MOST_BYTES)
            self._connection.set_progress_handler(
                lambda: time.monotonic() > self._deadline, 100_000
            )
            self._connection.execute('PRAGMA trusted_schema=OFF')
        except (OSError, sqlite3.Error) as error:
            raise self._trouble(error) from None
        with self._said(), self._connection:
            self._connection.execute('BEGIN IMMEDIATE')
            rows = self._connection.execute('SELECT type, name, sql FROM sqlite_master').fetchall()
            if not rows:
                self._connection.execute(_TABLE)
            elif rows != [(b'table', b'kept', _TABLE.encode())]:
                raise sqlite3.DatabaseError('it has another form than a cache of translations')

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def get(self, texts: Iterable[str]) -> dict[str, str]:
        """{text: translation} of those texts that were translated before."""
        keys = {self._key(text): text for text in texts}
        kept = {}
        ordered = list(keys)
        with self._said():
            for first in range(0, len(ordered), _AT_ONCE):
                part = ordered[first : first + _AT_ONCE]
                marks = ','.join('?' * len(part))
                rows = self._connection.execute(
                    f'SELECT key, translation, checksum FROM kept WHERE key IN ({marks})', part
                )
                for key, translation, checksum in rows:
                    if checksum is not None and checksum == _checksum(key, translation):
                        with contextlib.suppress(UnicodeDecodeError):
                            kept[keys[key]] = translation.decode()
        return kept

    def add(self, translations: Mapping[str, str]) -> None:
        """Keeps them all, or none of them."""
        rows: Sequence = [
            (key, self._identity, text, translation, _checksum(key, translation.encode()))
            for text, translation in translations.items()
            for key in [self._key(text)]
        ]
        with self._said(), self._connection:
            self._connection.executemany('INSERT OR REPLACE INTO kept VALUES (?, ?, ?, ?, ?)', rows)

    def _key(self, text: str) -> bytes:
        digest = hashlib.sha256(self._identity.encode())
        digest.update(b'\0')
        digest.update(text.encode())
        return digest.digest()

    @contextlib.contextmanager
    def _said(self):
        self._deadline = time.monotonic() + _PATIENCE
        try:
            yield
        except sqlite3.Error as error:
            raise self._trouble(error) from None

    def _trouble(self, error: Exception) -> UserError:
        return UserError(
            f'{self.path} cannot be used: {error}; name another folder with --cache, or remove it'
        )


def _checksum(key: object, translation: object) -> bytes | None:
    """Computes the checksum of a row; None if a cell is not bytes."""
    if not (isinstance(key, bytes) and isinstance(translation, bytes)):
        return None
    return hashlib.sha256(key + translation).digest()[:16]
