"""Strict readers of labelled texts: XNLI, PAWS-X, MLDoc and MARC, as arXiv:2012.15682 uses them.

They work like xlbench/data/readers. The fields of a record are those of the published few shots:

  {'uid': 'german-7053-val', 'text_a': '...', 'text_b': '...', 'label': 'contradiction'}
"""

import dataclasses
import re
import sys
from collections.abc import Callable, Iterator, Sequence

from xlbench.benchmarks import languages
from xlbench.data import readers
from xlbench.data.readers import Record, Records
from xlbench.system import errors

# In the order of their ids in the official code.
LABELS = {
    'xnli': ('contradiction', 'entailment', 'neutral'),
    'pawsx': ('0', '1'),
    'mldoc': ('CCAT', 'ECAT', 'GCAT', 'MCAT'),
    'marc': ('1', '2', '3', '4', '5'),
}
# The languages in xnli.dev.tsv, one after the other, by whose rows the few shots are numbered.
XNLI_LANGUAGES = (
    'ar', 'bg', 'de', 'el', 'en', 'es', 'fr', 'hi', 'ru', 'sw', 'th', 'tr', 'ur', 'vi', 'zh',
)  # fmt: skip
XNLI_ROWS = {'val': 2490, 'tst': 5010}  # Of each language.
# The split that few shots are drawn from: 'val' where the target languages have no train split.
SPLITS = {'xnli': 'val', 'pawsx': 'val', 'mldoc': 'trn', 'marc': 'trn'}

_UID = re.compile(r'([a-z]+)-([0-9]{1,9})-(trn|val|tst)')


@dataclasses.dataclass(frozen=True)
class Uid:
    """The place of an example in the official file: 'german-7053-val'."""

    lang: str
    # Of the row: XNLI counts the rows of all languages together, from 0; PAWS-X those of the
    # language's file, from 1; MARC and MLDoc the same, from 0.
    number: int
    split: str  # 'trn', 'val' or 'tst'.

    @classmethod
    def parse(cls, text: str) -> 'Uid':
        """Parses the uid of a published record."""
        match = _UID.fullmatch(text)
        if not match:
            named = errors.shortened(text)
            raise errors.UserError(f'{named} is not a uid; one looks like german-7053-val')
        return cls(language_code(match[1]), int(match[2]), match[3])

    @classmethod
    def of_row(cls, task: str, lang: str, row: int, split: str = '') -> 'Uid':
        """Returns the uid of a row among those of the language, from 0."""
        split = split or SPLITS[task]
        return cls(lang, row + _numbers(task, lang, split).start, split)

    def row(self, task: str) -> int:
        """Returns the row among those of the language, from 0."""
        numbers = _numbers(task, self.lang, self.split)
        if self.number not in numbers:
            raise errors.UserError(f'{self} is not a row of {self.lang} in {task}')
        return self.number - numbers.start

    def __str__(self) -> str:
        return f'{languages.get(self.lang).name}-{self.number}-{self.split}'


def _numbers(task: str, lang: str, split: str) -> range:
    """Returns the numbers of the rows of a language."""
    if task == 'xnli':
        errors.check_known('language of xnli', lang, XNLI_LANGUAGES)
        place, count = XNLI_LANGUAGES.index(lang), XNLI_ROWS.get(split)
        if count:
            return range(count * place, count * (place + 1))
    return range(int(task == 'pawsx'), sys.maxsize)


def language_code(name: str) -> str:
    """Returns 'de' for 'german', the name in folders and uids; a code stays."""
    if name in languages.LANGUAGES:
        return name
    codes = {language.name: code for code, language in languages.LANGUAGES.items()}
    if name not in codes:
        raise errors.unknown('language', name, [*codes, *languages.LANGUAGES])
    return codes[name]


# Of official files of pairs with a header, by its first cell: the least columns of a row, what a
# shorter one is told, and the columns of text_a, text_b and label.
_OFFICIAL = {
    'language': (5, '; xnli.dev.tsv has 19', (-3, -2, 1)),
    'index': (11, '; train.tsv of MNLI has 12', (8, 9, -1)),
    'id': (4, ' instead of 4', (1, 2, 3)),
}


def read_xnli(path: str, lang: str, split: str = '') -> Records:
    """Reads XNLI: xnli.dev.tsv or xnli.test.tsv of all languages, MNLI, or a file of one language.

    The official file has a header that begins with `language`; like fsxlt/code, this reads its
    tokenised sentences, the third and second column from the right. MNLI has a header that begins
    with `index`, sentences in the ninth and tenth column and the label in the last. A file of one
    language without header has premise, hypothesis and label in the order of the official rows, as
    google-research/xtreme writes it. The uids get `split`: 'trn', 'val' (by default) or 'tst'.
    """
    return _read_pairs('xnli', path, lang, split, ('language', 'index'))


def read_pawsx(path: str, lang: str, split: str = '') -> Records:
    """Reads PAWS-X: dev_2k.tsv with a header that begins with `id`, or without header.

    Untranslated rows, whose sentences are both NS, are kept, because published few shots have them.
    Except in train files, ids must differ: doubled rows would shift the numbers of the shots.
    """
    return _read_pairs('pawsx', path, lang, split, ('id',))


def _read_pairs(task: str, path: str, lang: str, split: str, headers: Sequence[str]) -> Records:
    """Reads pairs of sentences; an official file begins with one of `headers`, see _OFFICIAL."""
    # The first row of the language in a file of all languages.
    first = _numbers(task, lang, split or SPLITS[task]).start if task == 'xnli' else 0
    header, before = '', 1  # Numbers of lines begin at 1, rows at 0.
    seen: set[str] = set()  # Ids.

    def pair(number: int, line: str) -> Iterator[Record]:
        nonlocal header, before
        columns = line.split('\t')
        if number == 1 and columns[0] in headers:
            header, before = columns[0], first + 2
            return
        least, fault, places = _OFFICIAL[header] if header else (3, ' instead of 3', (0, 1, 2))
        exact = header in ('', 'id')
        if len(columns) < least or (exact and len(columns) > least):
            raise ValueError(f'{len(columns)} TAB-separated columns{fault}')
        if header == 'language' and columns[0] != lang:
            return
        if header == 'id' and split != 'trn':
            if columns[0] in seen:
                raise ValueError(f'another row has the id {errors.shortened(columns[0])}')
            seen.add(columns[0])
        texts = (columns[place] for place in places)
        yield _record(task, lang, split, number - before, *texts)

    return readers.convert(path, readers.numbered(path), pair)


def read_mldoc(path: str, lang: str, split: str = '') -> Records:
    """Reads MLDoc: label TAB text; further columns of English lines are ignored."""

    def document(number: int, line: str) -> Iterator[Record]:
        label, *texts = line.split('\t')
        if not texts:
            raise ValueError('no TAB; a line is label TAB text')
        yield _record('mldoc', lang, split, number - 1, texts[0], '', label)

    return readers.convert(path, readers.numbered(path), document)


def read_marc(path: str, lang: str, split: str = '') -> Records:
    """Reads MARC: a JSON object on each line.

    Example: {"stars": 1, "review_title": "Zu groß", "review_body": "Schade.",
      "product_category": "apparel"} -> text_a 'Schade.', text_b 'Zu groß . apparel', label '1'
    """

    def text(review: dict[str, readers.Json], name: str) -> str:
        value = review[name]
        value = value.strip() if isinstance(value, str) else value
        return readers.text_field(value, name, may_be_empty=True)  # Some titles are empty.

    def of_object(number: int, review: dict[str, readers.Json]) -> Iterator[Record]:
        names = 'review_title', 'review_body', 'product_category'
        readers.check_keys(review, ('stars', *names))
        title, body, category = (text(review, name) for name in names)
        text_b = f'{title} . {category}'
        yield _record('marc', lang, split, number - 1, body, text_b, str(review['stars']))

    return readers.convert(path, readers.json_lines(path), of_object)


def _record(
    task: str, lang: str, split: str, row: int, text_a: str, text_b: str, label: str
) -> Record:
    """Returns a record; ValueError if it is not right."""
    split = split or SPLITS[task]
    if label not in LABELS[task]:
        named = errors.shortened(label)
        raise ValueError(f'the label is {named}; {task} has {", ".join(LABELS[task])}')
    texts = {'text_a': text_a} if task == 'mldoc' else {'text_a': text_a, 'text_b': text_b}
    for name, text in texts.items():
        if not text.strip():
            raise ValueError(f'{name} is empty')
    numbers = _numbers(task, lang, split)
    if numbers.start + row not in numbers:
        # It would get the uid of another row.
        raise ValueError(f'{lang} is not where {task} has it, so its rows cannot be numbered')
    uid = str(Uid.of_row(task, lang, row, split))
    return {'uid': uid, 'text_a': text_a, 'text_b': text_b, 'label': label}


READERS: dict[str, Callable[..., Records]] = {
    'xnli': read_xnli,
    'pawsx': read_pawsx,
    'mldoc': read_mldoc,
    'marc': read_marc,
}
