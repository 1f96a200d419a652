"""Translations that were made elsewhere, in a file."""

from collections.abc import Iterator, Sequence

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
        self._translations: dict[str, str] | None = None

    def check(self, source: str, target: str) -> None:
        """Reads the file; raises UserError, with file and line, for what is wrong with it."""
        if self._translations is None:
            self._translations = {}
            for record in readers.good(self._records()):
                self._translations.setdefault(record['source'], record['translation'])

    def identity(self, source: str, target: str) -> str:
        """The file's SHA-256: its name and place do not matter."""
        return f'file of SHA-256 {outputs.sha256(self._path)} {source}-{target}'

    def translate(self, texts: Sequence[str], source: str, target: str) -> list[str | Failure]:
        """See Engine.translate."""
        self.check(source, target)
        missing = Failure(f'{self._path} has no translation of it')
        return [self._translations.get(text, missing) for text in texts]

    def _records(self) -> Iterator[readers.Record | readers.BadRecord]:
        fields = ('source', 'translation')
        if self._path.removesuffix('.gz').endswith('.jsonl'):
            return readers.read_jsonl(self._path, {name: name for name in fields})
        return readers.read_tsv(self._path, fields)
