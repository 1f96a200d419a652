"""The second step: examples -> their translations, those of the rough data there and back.

  WORK/translated_es/rough/000000.jsonl.gz     a line for each line of WORK/read/rough/000000...
    {"texts": [...], "back": [...], "matches": [[[6, 7, 7], [4, 6, 6], ...], ...]}
  WORK/translated_es/sample/000000.jsonl.gz    likewise, without the way back
    {"texts": [...], "back": [], "matches": []}

`matches` has for each field and n-grams of 1 to 4 tokens how many are common, of the original and
of what came back (see builds.Matches), so that any overlap follows from it. Where a text was
not translated, the line is {"failure": "why"}. A job is one file in one language.
"""

import functools
import os
from collections.abc import Iterator, Sequence

import msgspec

from xlbench import benchmarks
from xlbench.prepare import stages
from xlbench.prepare.stages import Engine
from xlbench.system import errors
from xlbench.system.command_line import say
from xlbench.tasks.building import builds
from xlbench.tasks.building.builds import ENGLISH, TRANSLATED, Matches, Options, RoundTrip
from xlbench.tasks.mtg_build import originals
from xlbench.tasks.mtg_build.originals import Example
from xlbench.translate.engines import Failure

NGRAMS = (1, 2, 3, 4)


class Translated(msgspec.Struct, omit_defaults=True):
    """Result of translating one example into one language: the fields of a line, see above."""

    texts: list[str] = []
    back: list[str] = []
    matches: list[list[Matches]] = []
    failure: str = ''

    def overlap(self, ngram: int) -> float:
        """The overlap of the field that came back worst, 0 to 1."""
        return min(of_field[ngram - 1].overlap for of_field in self.matches)


def pairs(languages: Sequence[str]) -> list[tuple[str, str]]:
    """(source, target) of all translations, there and back."""
    return [pair for lang in languages for pair in ((ENGLISH, lang), (lang, ENGLISH))]


def identities(options: Options) -> dict[str, tuple[str, str]]:
    """Language -> which engine translates there, and which back; UserError if one is not there."""
    named = {}
    for lang in options.languages:
        errors.check_known('language in --languages', lang, benchmarks.languages.LANGUAGES)
        there, back = (options.engine.job(*pair) for pair in pairs([lang]))
        named[lang] = there.identity, back.identity
    return named


def translate(options: Options, counts: originals.Counts, engine: Engine) -> None:
    """Does what is left of the second step."""
    made = {
        _path(options, lang, part, number): (lang, part, number)
        for lang in options.languages
        for part in ('rough', 'sample')
        for number in range(counts.files[part])
    }
    work = functools.partial(_translate, options)
    if cut := stages.make(engine, f'translated {options.task}', work, made, 'files of examples'):
        say(
            f'{options.task}: {cut:,} texts were longer than the model reads, and cut; '
            '--unit=sentence translates them sentence by sentence'
        )


def read(options: Options, lang: str, part: str, number: int) -> Iterator[Translated]:
    """The lines of a file of the second step."""
    return originals.read_lines(_path(options, lang, part, number), Translated)


def _path(options: Options, lang: str, part: str, number: int) -> str:
    return originals.path(os.path.join(options.work, f'{TRANSLATED}{lang}'), part, number)


def _translate(options: Options, lang: str, part: str, number: int, path: str) -> int:
    """Does one job; returns how many texts were too long for the model."""
    source = originals.path(os.path.join(options.work, 'read'), part, number)
    examples = list(originals.read_lines(source, Example))
    back = part == 'rough'
    trips, num_cut = builds.translated(options.engine, examples, lang, options.unit, back)
    lines = (_line(*both, back) for both in zip(examples, trips, strict=True))
    originals.write_lines(path, lines)
    return num_cut


def _line(example: Example, trips: Sequence[RoundTrip | Failure], came_back: bool) -> Translated:
    if failures := [trip for trip in trips if isinstance(trip, Failure)]:
        return Translated(failure=failures[0].reason)
    # An engine may write line ends, or TABs, which would end a line or a column of the files.
    texts, back = ([' '.join(text.split()) for text in side] for side in zip(*trips, strict=True))
    if empty := [text for text, made in zip(example, texts, strict=True) if not made]:
        return Translated(failure=f'the translation of {errors.shortened(empty[0])} is empty')
    if not came_back:
        return Translated(texts)
    matches = [
        [builds.matches(text, returned, n) for n in NGRAMS]
        for text, returned in zip(example, back, strict=True)
    ]
    return Translated(texts, back, matches)
