"""A cache of translations by text and engine, in one SQLite file.

A kill loses nothing that was committed, and several processes may write at the same time. Each row
has a checksum, and one that does not agree with it is as good as none.
"""

import contextlib
import hashlib
import os
import sqlite3
import time
from collections.abc import Iterable, Mapping, Sequence

from xlbench.system import untrusted
from xlbench.system.errors import UserError

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
            self._connection.executemany(
                'INSERT OR REPLACE INTO kept VALUES (?, ?, ?, ?, ?)', rows
            )

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
