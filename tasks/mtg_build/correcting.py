"""Sheets for people who correct the sample, and what they send back -> the annotated splits.

  WORK/sheets/es/qg-es-001.html       some examples beside their originals, in a page that works
                                      offline; it saves corrected-qg-es-001.json
  WORK/sheets/es/qg-es-001.json       the same, for `correct`
  OUTPUT/mtg/qg/es/{train,validation,test}.{src,trg}
  OUTPUT/mtg/qg/annotated.about.json

An example is used when it is corrected in every language; the order of the sample decides in which
split it is, see originals.fill.
"""

import itertools
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from xlbench import benchmarks
from xlbench.judgement import corrections
from xlbench.judgement.corrections import Corrections, Sheet
from xlbench.system import files, locks
from xlbench.system.errors import UserError
from xlbench.tasks.building.builds import ENGLISH, Options
from xlbench.tasks.mtg_build import originals, publishing
from xlbench.tasks.mtg_build.publishing import About

SPLITS = ('train', 'validation', 'test')
ANNOTATED = 'annotated'
_RULES = (
    'Each text was translated from English by a machine. Correct it in its field where it breaks '
    'one of these rules, and change nothing else.',
    'Relevance: it says what the English text says, and {target} fits the rest.',
    'Fluency: grammar, spelling and punctuation are right.',
    'Style: it is written as people in the language write; words, names, measures and the gender '
    'of persons are as there.',
    'Leave out an example only if no translation of it makes sense.',
)

# Of an example its fields in each language, English first; None where somebody left it out.
Sample = list[list[tuple[str, ...]] | None]


class Numbered(msgspec.Struct, frozen=True):
    """A sheet, and where its examples are in the sample, from 0."""

    first: int
    sheet: Sheet


def write_sheets(options: Options, counts: originals.Counts) -> str:
    """Writes the sheets that are not there, each language's together; returns their folder."""
    folder = os.path.join(options.work, 'sheets')
    missing = [n for n in options.languages if not os.path.exists(os.path.join(folder, n))]
    if counts.sample and missing:
        rows = list(publishing.rows(options, counts, 'sample'))
        for place, lang in enumerate(options.languages):
            if lang in missing:
                # What the machine did not translate is for people to write.
                width = len(originals.fields(options.task))
                texts = [tuple(others[place].texts) or ('',) * width for _, others in rows]
                with locks.atomic_folder(os.path.join(folder, lang)) as new:
                    for numbered in _sheets(options, lang, [e for e, _ in rows], texts):
                        path = os.path.join(new, numbered.sheet.name)
                        files.write(f'{path}.html', corrections.document(numbered.sheet))
                        files.write(f'{path}.json', msgspec.json.encode(numbered))
    return folder


def sheets(options: Options) -> dict[str, list[Numbered]]:
    """Language -> its sheets, in the order of the sample."""
    read = {}
    for lang in options.languages:
        folder = os.path.join(options.work, 'sheets', lang)
        names = [name for name in files.names(folder) if name.endswith('.json')]
        found = (files.read_json(os.path.join(folder, name), Numbered) for name in names)
        read[lang] = sorted(found, key=lambda numbered: numbered.first)
    return read


def correct(
    options: Options,
    sheets: Mapping[str, Sequence[Numbered]],
    by_sheet: Mapping[str, Corrections],
) -> About:
    """Makes the annotated splits of a task from what people corrected, by the ids of sheets.

    With `uncorrected`, the machine's text is taken where nobody has corrected it yet. UserError if
    corrections do not fit their sheets, or there are too few of them.
    """
    sample, counts = _corrected(sheets, by_sheet, options.uncorrected)
    complete = [row for row in sample if row is not None]
    groups = [list(group) for _, group in itertools.groupby(complete, key=lambda row: row[0][0])]
    splits = originals.fill(groups, options.sizes)
    if [len(split) for split in splits] != list(options.sizes):
        needed = zip(SPLITS, options.sizes, strict=True)
        raise UserError(
            f'{options.task}: {len(complete):,} of {len(sample):,} examples are corrected in '
            f'{", ".join(options.languages)}, too few for '
            f'{", ".join(f"{name} of {size:,}" for name, size in needed)}; wait for more, or give '
            'smaller --sizes, or --uncorrected'
        )
    counts |= {'sample': len(sample), 'complete': len(complete)}
    counts |= zip(SPLITS, options.sizes, strict=True)
    folder = os.path.join(options.work, ANNOTATED)
    with locks.folder(options.work):
        shutil.rmtree(folder, ignore_errors=True)
        for name, split in zip(SPLITS, splits, strict=True):
            publishing.write_split(folder, (ENGLISH, *options.languages), name, split)
        about = About(options.settings, counts)
        publishing.write_about(folder, ANNOTATED, about)
        publishing.place(options, folder, ANNOTATED)
    return about


def _sheets(
    options: Options,
    lang: str,
    sources: Sequence[tuple[str, ...]],
    texts: Sequence[tuple[str, ...]],
) -> Iterator[Numbered]:
    fields = originals.fields(options.task)
    rules = tuple(rule.format(target=f'the {fields[-1]}') for rule in _RULES)
    english, name = benchmarks.languages.get(ENGLISH).name, benchmarks.languages.get(lang).name
    for number, first in enumerate(range(0, len(texts), options.per_sheet), 1):
        part = slice(first, first + options.per_sheet)
        sheet = Sheet(
            name=f'{options.task}-{lang}-{number:03d}',
            title=f'{english.capitalize()} to {name.capitalize()}: correct the translation',
            source_lang=ENGLISH,
            lang=lang,
            fields=fields,
            rules=rules,
            sources=tuple(sources[part]),
            texts=tuple(texts[part]),
        )
        yield Numbered(first, sheet)


def _corrected(
    sheets: Mapping[str, Sequence[Numbered]],
    by_sheet: Mapping[str, Corrections],
    uncorrected: bool,
) -> tuple[Sample, dict[str, int]]:
    """The sample as far as it is corrected in all languages, and how much is in each."""
    first = next(iter(sheets.values()))
    sample: Sample = [[source] for numbered in first for source in numbered.sheet.sources]
    counts = {}
    for lang, of_lang in sheets.items():
        counts[f'corrected_{lang}'] = 0
        for numbered in of_lang:
            sheet, given = numbered.sheet, by_sheet.get(numbered.sheet.id)
            if given:
                corrections.check(given, sheet)
                counts[f'corrected_{lang}'] += len(given.texts)
            for place, machine in enumerate(sheet.texts):
                texts = given.texts.get(place, ()) if given else ()
                if texts == () and uncorrected and all(machine):
                    texts = machine
                row = sample[numbered.first + place]
                if row is not None:
                    sample[numbered.first + place] = [*row, texts] if texts else None
    return sample, counts
