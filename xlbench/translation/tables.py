"""Translations that were made elsewhere, in a file."""

import functools
from collections.abc import Sequence

from xlbench.data import outputs, readers
from xlbench.translation.engines import Failure


class Table:
    """A file of texts and their translations, such as a commercial service gives.

    TSV with two columns, or JSONL with `source` and `translation`. Of several translations of one
    text the first is taken.

    Args:
      path: of the file, packed (.gz) or not.
    """

    batch_size = 4096
    num_cut = 0

    def __init__(self, path: str):
        self.name = f'file:{path}'
        self._path = path

    @functools.cached_property
    def _translations(self) -> dict[str, str]:
        fields = ('source', 'translation')
        if self._path.removesuffix('.gz').endswith('.jsonl'):
            records = readers.read_jsonl(self._path, {name: name for name in fields})
        else:
            records = readers.read_tsv(self._path, fields)
        found: dict[str, str] = {}
        for record in readers.good(records):
            found.setdefault(record['source'], record['translation'])
        return found

    def check(self, source: str, target: str) -> None:
        """Reads the file; raises UserError, with file and line, for what is wrong with it."""
        _ = self._translations

    def identity(self, source: str, target: str) -> str:
        """The file's SHA-256: its name and place do not matter."""
        return f'file of SHA-256 {outputs.sha256(self._path)} {source}-{target}'

    def translate(self, texts: Sequence[str], source: str, target: str) -> Sequence[str | Failure]:
        """See Engine.translate."""
        missing = Failure(f'{self._path} has no translation of it')
        return [self._translations.get(text, missing) for text in texts]
