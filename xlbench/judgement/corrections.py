"""Sheets of translations that people correct: a page for each sheet, and the files it saves.

A sheet is an HTML page like those of judges: it works offline, keeps what is written in the
browser, and saves a file. A file of another sheet, or one that was changed since, is refused.
"""

import hashlib
from collections.abc import Sequence
from typing import Annotated

import msgspec

from xlbench.judgement import studies
from xlbench.system import files, untrusted
from xlbench.system.errors import UserError, shortened

_FORMAT = 'xlbench corrections 1'
_Word = Annotated[str, msgspec.Meta(max_length=200)]


class Sheet(msgspec.Struct, frozen=True):
    """Some examples, and their translations by a machine.

    Attributes:
      name: of the sheet, and its file: 'qg-es-001'.
      source_lang, lang: ISO codes of the originals and the translations.
      fields: names of the texts of an example.
      rules: paragraphs that tell the person what to do.
      sources: the texts of each example.
      texts: their translations.
    """

    name: str
    title: str
    source_lang: str
    lang: str
    fields: tuple[str, ...]
    rules: tuple[str, ...]
    sources: tuple[tuple[str, ...], ...]
    texts: tuple[tuple[str, ...], ...]

    @property
    def id(self) -> str:
        """A hash of all of it."""
        return hashlib.sha256(msgspec.json.encode(self)).hexdigest()[:16]


class _Item(msgspec.Struct):
    item: Annotated[int, msgspec.Meta(ge=1, lt=10**7)]
    left_out: bool
    texts: list[str]


class _File(msgspec.Struct):
    """A file that a page saves."""

    format: _Word
    sheet: _Word
    items: list[_Item]
    checksum: _Word
    name: _Word = ''
    saved: _Word = ''


class Corrections(msgspec.Struct, frozen=True):
    """Corrections of one sheet by one person.

    Attributes:
      name, sheet: the sheet's, as the file says it, and its id.
      texts: example of the sheet, from 0 -> its corrected texts, None where it is left out.
    """

    path: str
    name: str
    sheet: str
    texts: dict[int, tuple[str, ...] | None]


def document(sheet: Sheet) -> str:
    """The page of a sheet."""
    source, target = studies.language(sheet.source_lang), studies.language(sheet.lang)
    items = [
        {'source': source_texts, 'texts': texts}
        for source_texts, texts in zip(sheet.sources, sheet.texts, strict=True)
    ]
    data = {
        'sheet': sheet.id, 'name': sheet.name, 'file': f'corrected-{sheet.name}.json',
        'fields': sheet.fields, 'rules': sheet.rules, 'sourceLang': source[0],
        'sourceDir': source[1], 'lang': target[0], 'dir': target[1], 'items': items,
    }  # fmt: skip
    return studies.html_page('corrections.js', data, sheet.title, sheet.name)


def read(path: str) -> Corrections:
    """Reads a file that a page saved.

    Raises:
      UserError: it is none, or was changed since.
    """
    file = files.read_json(path, _File, untrusted.ANSWERS_BYTES)
    if file.format != _FORMAT:
        raise UserError(f'{path} holds no corrections: its format is {shortened(file.format)}')
    lines = ['\t'.join([f'{i.item}', f'{i.left_out:d}', *i.texts]) for i in file.items]
    studies.check_unchanged(path, file.checksum, [file.sheet, *lines])
    texts: dict[int, tuple[str, ...] | None] = {}
    for item in file.items:
        if item.item - 1 in texts:
            raise UserError(f'{path}: example {item.item} is there twice')
        clean = tuple(' '.join(text.split()) for text in item.texts)
        if not item.left_out and not all(clean):
            raise UserError(f'{path}: example {item.item}: a text is empty')
        texts[item.item - 1] = None if item.left_out else clean
    return Corrections(path, file.name, file.sheet, texts)


def check(corrections: Corrections, sheet: Sheet) -> None:
    """Raises UserError unless corrections are of a sheet."""
    for number, texts in corrections.texts.items():
        place = f'{corrections.path}: example {number + 1}'
        if number >= len(sheet.texts):
            raise UserError(f'{place}: sheet {sheet.name} has {len(sheet.texts)} examples')
        if texts is not None and len(texts) != len(sheet.fields):
            raise UserError(
                f'{place}: {len(texts)} texts; sheet {sheet.name} has {len(sheet.fields)}: '
                f'{", ".join(sheet.fields)}'
            )


def merged(several: Sequence[Corrections]) -> dict[str, Corrections]:
    """The corrections of each sheet, by its id.

    Raises:
      UserError: two files say different things about one sheet.
    """
    by_sheet: dict[str, Corrections] = {}
    for one in several:
        before = by_sheet.setdefault(one.sheet, one)
        if before.texts != one.texts:
            raise UserError(
                f'{before.path} and {one.path} are different corrections of sheet '
                f'{shortened(one.name)}; give the one that counts'
            )
    return by_sheet
