"""Judges' answers: files that pages have saved, and that anybody may have written or changed.

A file of another study, or one that was changed, is too large or is no JSON, is refused in one
line. Missing answers give a note, and the others count. The checksum shows that a file was edited;
it is no signature, because the page's script computes it in the open.
"""

import collections
import dataclasses
from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec

from xlbench.judgement import studies
from xlbench.judgement.studies import LETTERS, Sheet, Study
from xlbench.system import files, untrusted
from xlbench.system.errors import UserError, shortened

_FORMAT = 'xlbench answers 1'
_Word = Annotated[str, msgspec.Meta(max_length=200)]
_MOST_NAMED = 5  # Unanswered items in a note.


class Answer(msgspec.Struct, frozen=True):
    """One answer of a page.

    Attributes:
      item: its number on the page, from 1.
      text: the letter of the text that is rated or chosen.
      rating: from 1; None where texts are chosen.
      choice: 'best' or 'worst'; None where texts are rated.
    """

    item: Annotated[int, msgspec.Meta(ge=1, lt=10**7)]
    aspect: _Word
    text: Literal['A', 'B', 'C', 'D', 'E', 'F', 'G', 'H', 'I']
    rating: Annotated[int, msgspec.Meta(ge=1, le=9)] | None = None
    choice: Literal['best', 'worst'] | None = None


class _File(msgspec.Struct):
    """File that a page saves."""

    format: _Word
    study: _Word
    judge: _Word
    page: _Word
    answers: list[Answer]
    checksum: _Word
    saved: _Word = ''


@dataclasses.dataclass(frozen=True)
class Judged:
    """Answers of the judges of a study that have answered.

    Attributes:
      ratings: (item of the study, system, aspect) -> judge -> rating.
      choices: (item of the study, aspect) -> judge -> (best, worst).
      notes: sentences that belong beside the numbers.
    """

    judges: tuple[str, ...]
    ratings: dict[tuple[int, str, str], dict[str, int]]
    choices: dict[tuple[int, str], dict[str, tuple[str, str]]]
    notes: tuple[str, ...]


def read(paths: Sequence[str], study: Study) -> Judged:
    """Reads the files of answers to a study, one for each judge.

    Raises:
      UserError: a file is not what a page of this study saved, or a judge has two different ones.
    """
    sheets = {sheet.judge: sheet for sheet in study.sheets}
    answers: dict[str, tuple[str, list[Answer]]] = {}
    notes = []
    for path in paths:
        sheet, given = _read_file(path, study, sheets)
        before = answers.setdefault(sheet.judge, (path, given))
        if set(before[1]) != set(given):
            raise UserError(
                f'{before[0]} and {path} are different answers of {shortened(sheet.judge)}; give '
                'the one that counts'
            )
        if before[0] != path:
            notes.append(f'{path} has the same answers as {before[0]}, and counts once.')
    ratings: dict[tuple[int, str, str], dict[str, int]] = {}
    choices: dict[tuple[int, str], dict[str, tuple[str, str]]] = {}
    for judge, (_, given) in answers.items():
        sheet = sheets[judge]
        for place, chosen in _choices(given).items():
            if len(chosen) == 2:  # The best without the worst is unfinished.
                index, systems = sheet.order[place[0] - 1], sheet.slots[place[0] - 1]
                best, worst = (systems[LETTERS.index(chosen[c])] for c in ('best', 'worst'))
                choices.setdefault((index, place[1]), {})[judge] = best, worst
        for answer in given:
            if answer.rating is not None:
                index, systems = sheet.order[answer.item - 1], sheet.slots[answer.item - 1]
                key = index, systems[LETTERS.index(answer.text)], answer.aspect
                ratings.setdefault(key, {})[judge] = answer.rating
    notes += _about(study, sheets, answers)
    return Judged(tuple(answers), ratings, choices, tuple(notes))


def _read_file(path: str, study: Study, sheets: dict[str, Sheet]) -> tuple[Sheet, list[Answer]]:
    file = files.read_json(path, _File, untrusted.ANSWERS_BYTES)
    if file.format != _FORMAT:
        raise UserError(f'{path} holds no answers: its format is {shortened(file.format)}')
    if file.study != study.id:
        raise UserError(
            f'{path} answers study {shortened(file.study)}, and the key is of {study.id!r}'
        )
    sheet = sheets.get(file.judge)
    if sheet is None:
        raise UserError(f'{path} is from {shortened(file.judge)}, who is not a judge of this study')
    if file.page != sheet.page:
        raise UserError(f'{path} is from another page than that of {shortened(file.judge)}')
    lines = [f'{a.item}\t{a.aspect}\t{a.text}\t{a.rating or a.choice}' for a in file.answers]
    studies.check_unchanged(path, file.checksum, [file.page, *lines], file.judge)
    seen = set()
    for answer in file.answers:
        place = f'{path}: item {answer.item}, {shortened(answer.aspect)}'
        if reason := _wrong(answer, study, sheet):
            raise UserError(f'{place}: {reason}')
        asked = answer.item, answer.aspect, answer.choice or answer.text
        if asked in seen:
            raise UserError(f'{place} is answered twice')
        seen.add(asked)
    for (number, _), chosen in _choices(file.answers).items():
        if chosen.get('best') == chosen.get('worst'):
            raise UserError(f'{path}: item {number}: the best text is also the worst')
    return sheet, file.answers


def _wrong(answer: Answer, study: Study, sheet: Sheet) -> str:
    """Returns why an answer does not fit this sheet; '' if it does."""
    aspects = {aspect.name: aspect for aspect in study.scale.aspects}
    if answer.item > len(sheet.order):
        return f'the page has {len(sheet.order)} items'
    if answer.aspect not in aspects:
        return f'there is no such aspect; there are {", ".join(aspects)}'
    if LETTERS.index(answer.text) >= len(sheet.slots[answer.item - 1]):
        return f'there is no text {answer.text}'
    is_rating = study.scale.kind == 'ratings'
    if (answer.rating is not None) != is_rating or (answer.choice is not None) == is_rating:
        return f'it takes {"a rating" if is_rating else "a choice"} alone'
    if answer.rating is not None and answer.rating > len(aspects[answer.aspect].levels):
        return f'rating {answer.rating} is above {len(aspects[answer.aspect].levels)}'
    return ''


def _choices(answers: Sequence[Answer]) -> dict[tuple[int, str], dict[str, str]]:
    """(item of the page, aspect) -> 'best' and 'worst' -> letter."""
    chosen: dict[tuple[int, str], dict[str, str]] = {}
    for answer in answers:
        if answer.choice:
            chosen.setdefault((answer.item, answer.aspect), {})[answer.choice] = answer.text
    return chosen


def _about(
    study: Study, sheets: dict[str, Sheet], answers: dict[str, tuple[str, list[Answer]]]
) -> list[str]:
    """Names judges who are missing or unfinished."""
    notes = []
    if absent := [judge for judge in sheets if judge not in answers]:
        notes.append(f'No answers of {", ".join(absent)}.')
    for judge, (path, given) in answers.items():
        sheet = sheets[judge]
        counts = collections.Counter(answer.item for answer in given)
        missing = [
            number
            for number, systems in enumerate(sheet.slots, 1)
            if counts[number]
            < len(study.scale.aspects) * (len(systems) if study.scale.kind == 'ratings' else 2)
        ]
        if missing:
            named = ', '.join(map(str, missing[:_MOST_NAMED]))
            more = ', ...' if len(missing) > _MOST_NAMED else ''
            notes.append(
                f'{judge} is not finished: {len(missing)} of {len(sheet.order)} items of {path} '
                f'lack answers (items {named}{more} of the page).'
            )
    return notes
