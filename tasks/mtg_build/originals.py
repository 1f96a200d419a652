"""English originals: the files of stories, questions and headlines that MTG is made of.

  sg   ROCStories' CSV, columns sentence1 to sentence5      ('the first four', 'the fifth')
  qg   SQuAD 1.1's JSON                                     ('passage', 'answer', 'question')
  tg   JSON lines of articles, as ByteCup has them          ('article', 'title')
  summ documents and summaries, in version 2 alone          ('text', 'summary')

or rows of JSONL, JSON, CSV, TSV or Parquet whose keys are the names of the fields, or those that
--sg_columns and so on name. White space of a text, line ends and all, becomes single spaces.
"""

import dataclasses
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence

from xlbench.data import readers, rows
from xlbench.data.readers import BadRecord
from xlbench.data.rows import Layout
from xlbench.system import errors

Example = tuple[str, ...]  # A text of each field, in order.


@dataclasses.dataclass(frozen=True)
class Kind:
    """The fields of a task's examples.

    Attributes:
      source: those that a system reads, in order; the first says which examples belong together.
      target: what it writes.
      layouts: names that columns have in known files -> what makes an example of their texts.
    """

    source: tuple[str, ...]
    target: str
    layouts: Mapping[tuple[str, ...], Callable[[Sequence[str]], Example]]

    @property
    def fields(self) -> tuple[str, ...]:
        """All fields, the target last."""
        return (*self.source, self.target)


def _story(sentences: Sequence[str]) -> Example:
    return ' '.join(sentences[:-1]), sentences[-1]


KINDS = {
    'sg': Kind(
        ('story',),
        'ending',
        {('story', 'ending'): tuple, tuple(f'sentence{n}' for n in range(1, 6)): _story},
    ),
    'qg': Kind(('passage', 'answer'), 'question', {('passage', 'answer', 'question'): tuple}),
    'tg': Kind(('article',), 'title', {('article', 'title'): tuple, ('content', 'title'): tuple}),
    'summ': Kind(('text',), 'summary', {('text', 'summary'): tuple}),
}


class Originals:
    """The examples of some files of one task, read as often as one likes.

    Args:
      task: of KINDS.
      paths: the files, packed (.gz) or not.
      columns: names of the columns of the fields; by default those of a known file.
      max_bad: share of the examples that may be bad, 0 to 1.

    Attributes:
      num_bad: bad examples that the last reading has met.
      num_repeated: examples of the last reading that were there before.
    """

    def __init__(self, task: str, paths: Sequence[str], columns: Sequence[str], max_bad: float):
        self._task, self._paths, self._columns = task, paths, tuple(columns)
        self._max_bad = max_bad
        self.num_bad = self.num_repeated = 0

    def __iter__(self) -> Iterator[Example]:
        """Reads the examples, each once.

        Raises:
          UserError: a file cannot be read, or more than the share are bad.
        """
        self.num_bad = self.num_repeated = 0
        seen: set[bytes] = set()
        first: BadRecord | None = None
        for path in self._paths:
            for item in self._read(path):
                if isinstance(item, BadRecord):
                    if item.fatal or not self._max_bad:
                        raise errors.UserError(str(item))
                    first, self.num_bad = first or item, self.num_bad + 1
                elif (key := digest(*item)) in seen:
                    self.num_repeated += 1
                else:
                    seen.add(key)
                    yield item
        if first and self.num_bad > self._max_bad * (len(seen) + self.num_bad):
            raise errors.UserError(
                f'{first}; and {self.num_bad - 1:,} more of {len(seen) + self.num_bad:,} examples '
                'are bad, which is more than --max_bad allows'
            )

    def _read(self, path: str) -> Iterator[Example | BadRecord]:
        if self._task == 'qg' and not self._columns and _is_json(path):
            for record in readers.read_squad(path):
                if isinstance(record, BadRecord):
                    yield record
                else:
                    yield _clean([record['context'], record['answer'], record['question']])
            return
        kind = KINDS[self._task]
        layout = Layout('jsonl') if path.removesuffix('.gz').endswith('.txt') else Layout()
        columns, make = self._layout(path, kind, layout)
        for row in rows.read(path, columns, layout):
            if isinstance(row, BadRecord):
                yield row
                continue
            try:
                texts = _clean([rows.text(row.values[key], key) for key in columns])
                if empty := [k for k, text in zip(columns, texts, strict=True) if not text]:
                    raise ValueError(f'{empty[0]} is empty')
                yield make(texts)
            except ValueError as error:
                yield BadRecord(path, row.number, str(error))

    def _layout(
        self, path: str, kind: Kind, layout: Layout
    ) -> tuple[tuple[str, ...], Callable[[Sequence[str]], Example]]:
        """The columns of a file, and what makes an example of them."""
        if self._columns:
            return self._columns, tuple
        for columns, make in kind.layouts.items():
            if not isinstance(next(rows.read(path, columns, layout), None), BadRecord):
                return columns, make
        return next(iter(kind.layouts.items()))  # Whose complaint names the fields.


def _is_json(path: str) -> bool:
    return path.removesuffix('.gz').endswith('.json')


def _clean(texts: Sequence[str]) -> Example:
    return tuple(' '.join(text.split()) for text in texts)


def digest(*texts: str) -> bytes:
    """A hash of texts, the same on every machine."""
    return hashlib.blake2b('\0'.join(texts).encode(), digest_size=16).digest()
