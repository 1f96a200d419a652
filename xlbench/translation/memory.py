"""A cache of translations by text and engine, in one SQLite file.

A kill loses nothing that was committed, and several processes may write at the same time.
"""

import contextlib
import hashlib
import os
import sqlite3
from collections.abc import Iterable, Mapping, Sequence

from xlbench.errors import UserError

FILE = 'translations.sqlite'
_WAIT = 60.0  # Seconds for another process that writes.
_AT_ONCE = 500  # Keys in one question; SQLite allows 999 in its oldest versions.


class Memory:
    """The translations of one engine from one language to another.

    Args:
      folder: where the file is; it is made if it is missing.
      identity: of the engine with its languages, see Engine.identity.
    """

    def __init__(self, folder: str, identity: str):
        self._identity = identity
        self.path = os.path.join(folder, FILE)
        try:
            os.makedirs(folder, exist_ok=True)
            self._connection = sqlite3.connect(self.path, timeout=_WAIT)
            with self._connection:
                self._connection.execute(
                    'CREATE TABLE IF NOT EXISTS translations '
                    '(key BLOB PRIMARY KEY, engine TEXT, source TEXT, translation TEXT) '
                    'WITHOUT ROWID'
                )
        except (OSError, sqlite3.Error) as error:
            raise self._trouble(error) from None

    def __enter__(self) -> 'Memory':
        return self

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
                    f'SELECT key, translation FROM translations WHERE key IN ({marks})', part
                )
                kept.update({keys[key]: translation for key, translation in rows})
        return kept

    def add(self, translations: Mapping[str, str]) -> None:
        """Keeps them all, or none of them."""
        rows: Sequence = [
            (self._key(text), self._identity, text, translation)
            for text, translation in translations.items()
        ]
        with self._said(), self._connection:
            self._connection.executemany(
                'INSERT OR REPLACE INTO translations VALUES (?, ?, ?, ?)', rows
            )

    def _key(self, text: str) -> bytes:
        digest = hashlib.sha256(self._identity.encode())
        digest.update(b'\0')
        digest.update(text.encode())
        return digest.digest()

    @contextlib.contextmanager
    def _said(self):
        try:
            yield
        except sqlite3.Error as error:
            raise self._trouble(error) from None

    def _trouble(self, error: Exception) -> UserError:
        return UserError(
            f'{self.path} cannot be used: {error}; name another folder with --cache, or remove it'
        )
