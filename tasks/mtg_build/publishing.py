"""From examples to files: the second step, translation, and the third, rough data at a threshold.

  WORK/translated_es/rough/000000.jsonl.gz     a line for each line of WORK/read/rough/000000...
    {"texts": [...], "back": [...], "matches": [[[6, 7, 7], [4, 6, 6], ...], ...]}
  WORK/translated_es/sample/000000.jsonl.gz    likewise, without the way back
    {"texts": [...], "back": [], "matches": []}
  OUTPUT/mtg/qg/en/rough_train.src, .trg       line n is the same example in every language
  OUTPUT/mtg/qg/rough_train.about.json         of which settings it is; counts for Table 6

`matches` has for each field and n-grams of 1 to 4 tokens how many are common, of the original and
of what came back (see builds.Matches), so that any overlap follows from it. Where a text was not
translated, the line is {"failure": "why"}. A job is one file in one language. An example stays if
none of its fields, in none of the languages, has an overlap below the threshold; so the data stays
parallel.
"""

import contextlib
import filecmp
import functools
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from xlbench.data import outputs
from xlbench.prepare import stages
from xlbench.prepare.stages import Engine
from xlbench.reporting import render
from xlbench.reporting.tables import Cell, Column, Row as TableRow, Table
from xlbench.system import errors, files, locks
from xlbench.system.command_line import say
from xlbench.system.errors import UserError
from xlbench.system.progress import Progress
from xlbench.tasks.building import builds
from xlbench.tasks.building.builds import ENGLISH, TRANSLATED, Options, RoundTrip, Settings
from xlbench.tasks.mtg_build import originals
from xlbench.tasks.mtg_build.originals import Example
from xlbench.translate.engines import Failure

NGRAMS = (1, 2, 3, 4)
SIDES = ('src', 'trg')
ROUGH = 'rough_train'
THRESHOLDS = tuple(n / 100 for n in range(101))  # Whose counts are kept.

Rows = Sequence[Sequence[str]]  # The fields of an example in each language.


class Translated(msgspec.Struct, omit_defaults=True):
    """Result of translating one example into one language: the fields of a line, see above."""

    texts: list[str] = []
    back: list[str] = []
    matches: list[list[builds.Matches]] = []
    failure: str = ''

    def overlap(self, ngram: int) -> float:
        """The overlap of the field that came back worst, 0 to 1."""
        return min(of_field[ngram - 1].overlap for of_field in self.matches)


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


# ---------------------------------------------------------------------------------------------
# Files.


class About(msgspec.Struct):
    """Provenance of some files of a task."""

    settings: Settings  # Of the build, by step and flag.
    counts: dict[str, int]  # Examples of each kind.
    sha256: dict[str, str] = {}  # File below the folder of the task -> its hash.
    kept: dict[str, int] = {}  # Threshold -> examples that stay, as in Table 6 of the paper.
    failures: dict[str, int] = {}  # Language -> examples that were not translated.
    failure: str = ''  # One reason for it.


def final(options: Options) -> str:
    """The folder of a task that tasks/mtg.py reads."""
    return os.path.join(options.output, options.benchmark, options.task)


def about_name(split: str) -> str:
    """The file beside the languages that says what made a split."""
    return f'{split}.about.json'


def rows(
    options: Options, counts: originals.Counts, part: str
) -> Iterator[tuple[Example, list[Translated]]]:
    """The examples of a part, and what each is in other languages, as the first step has them."""
    folder = os.path.join(options.work, 'read')
    for number in range(counts.files[part]):
        examples = originals.read_lines(originals.path(folder, part, number), Example)
        others = (
            originals.read_lines(_path(options, lang, part, number), Translated)
            for lang in options.languages
        )
        for example, *translated in zip(examples, *others, strict=True):
            yield example, translated


def publish(options: Options, counts: originals.Counts) -> About:
    """Does the third step, if it is not done.

    UserError if files are in the place that this build did not make.
    """
    folder = os.path.join(options.work, 'rough')
    if not os.path.exists(folder):
        with locks.atomic_folder(folder) as new:
            write_about(str(new), ROUGH, _filtered(options, counts, str(new)))
    about = files.read_json(os.path.join(folder, about_name(ROUGH)), About)
    if not about.counts['kept']:
        first = next((t for t, count in reversed(about.kept.items()) if count), 'none')
        raise UserError(
            f'{options.task}: none of {counts.rough:,} examples reaches the threshold '
            f'{options.threshold:g} (the highest that one reaches: {first}); give a lower '
            f'--threshold{f", or mend this: {about.failure}" if about.failure else ""}'
        )
    place(options, folder, ROUGH)
    return about


def write_about(folder: str, split: str, about: About) -> None:
    """Writes what made a split, with the SHA-256 of all files below the folder."""
    paths = sorted(files.below(folder))
    about.sha256 = {os.path.relpath(path, folder): outputs.sha256(str(path)) for path in paths}
    content = msgspec.json.format(msgspec.json.encode(about), indent=1) + b'\n'
    files.write(os.path.join(folder, about_name(split)), content)


def write_split(folder: str, langs: Sequence[str], split: str, rows: Iterable[Rows]) -> None:
    """Writes a split of a task's folder: each example's fields in each of the languages."""
    with contextlib.ExitStack() as stack:
        opened = []
        for lang in langs:
            os.makedirs(os.path.join(folder, lang), exist_ok=True)
            for side in SIDES:
                path = os.path.join(folder, lang, f'{split}.{side}')  # As tasks/mtg.py names it.
                opened.append(stack.enter_context(files.replacing(path)))
        for row in rows:
            # A TAB stands between passage and answer; texts have none.
            lines = [line for *source, target in row for line in ('\t'.join(source), target)]
            for file, line in zip(opened, lines, strict=True):
                file.write(f'{line}\n'.encode())


def place(options: Options, folder: str, split: str) -> None:
    """Copies files to where tasks read them; the one that says what made the split comes last.

    With `redo`, files that an earlier build has made are replaced, or go if they are no more.
    UserError if other files are there; then nothing is copied.
    """
    about, target = about_name(split), final(options)
    names = [os.path.relpath(path, folder) for path in files.below(folder)]
    names.sort(key=lambda name: (name == about, name))
    with locks.folder(target):
        earlier = os.path.join(target, about)
        is_ours = options.redo and os.path.exists(earlier)
        ours = files.read_json(earlier, About).sha256 if is_ours else {}
        missing = []
        for name in names:
            path = os.path.join(target, name)
            files.remove_leftovers_of(path)
            if os.path.lexists(path):
                if filecmp.cmp(path, os.path.join(folder, name), shallow=False):
                    continue
                if name != about and outputs.sha256(path) != ours.get(name):
                    raise UserError(
                        f'{path} exists already, and is not what this command makes; move it away, '
                        'name another --output, or let --redo replace what an earlier one made'
                    )
            missing.append(name)
        for name in ours.keys() - set(names):
            path = os.path.join(target, name)
            if os.path.isfile(path) and outputs.sha256(path) == ours[name]:
                os.unlink(path)
        for name in missing:
            path = os.path.join(target, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(os.path.join(folder, name), 'rb') as old, files.replacing(path) as new:
                shutil.copyfileobj(old, new)


def _filtered(options: Options, counts: originals.Counts, folder: str) -> About:
    """Writes the rough data into a folder, and counts what stays at each threshold."""
    numbers = ('read', 'repeated', 'bad', 'with_sample', 'sample', 'rough')
    counted = {name: getattr(counts, name) for name in numbers} | {'kept': 0}
    about = About(options.settings, counted, failures=dict.fromkeys(options.languages, 0))
    kept = [0] * len(THRESHOLDS)

    def passing() -> Iterator[Rows]:
        for example, others in rows(options, counts, 'rough'):
            progress.add()
            failed = [other.failure for other in others if other.failure]
            for lang, other in zip(options.languages, others, strict=True):
                about.failures[lang] += bool(other.failure)
            if failed:
                about.failure = about.failure or failed[0]
                continue
            overlap = min(other.overlap(options.ngram) for other in others)
            for place, threshold in enumerate(THRESHOLDS):
                kept[place] += overlap >= threshold
            if overlap >= options.threshold:
                about.counts['kept'] += 1
                yield [example, *(other.texts for other in others)]

    langs = (ENGLISH, *options.languages)
    with Progress(f'filtered {options.task}', counts.rough, 'examples') as progress:
        write_split(folder, langs, ROUGH, passing())
    about.kept = {f'{share:g}': count for share, count in zip(THRESHOLDS, kept, strict=True)}
    return about


def table(abouts: Mapping[str, About]) -> str:
    """Table 6 of arXiv:2108.07140 for your own data: how many examples stay at each threshold."""
    made = []
    for threshold in (0, 0.3, 0.4, 0.5, 0.6):
        kept = [(about.kept[f'{threshold:g}'], about.kept['0']) for about in abouts.values()]
        cells = [Cell(text=f'{n:,} ({100 * n / max(whole, 1):.1f} %)') for n, whole in kept]
        made.append(TableRow(f'{threshold:g}', 'data', tuple(cells)))
    columns = tuple(Column('', task) for task in abouts)
    title, notes = 'Examples that stay at a threshold of overlap', []
    for task, about in abouts.items():
        rough = about.settings['rough']
        failed = ', '.join(f'{n:,} in {lang}' for lang, n in about.failures.items() if n)
        counts = about.counts
        notes.append(
            f'{task}: {counts["read"]:,} originals, {counts["sample"]:,} for people, '
            f'{counts["with_sample"]:,} left out because people have their passage, '
            f'{counts["repeated"]:,} repeated, {counts["bad"]:,} bad; threshold '
            f'{rough["threshold"]}, n-grams of {rough["ngram"]}; not translated: {failed or "none"}'
            + (f' ({about.failure})' if about.failure else '')
            + '.'
        )
    return render.markdown(Table(title, columns, tuple(made), 'threshold', notes=tuple(notes)))
