"""Builds of data sets: options, a folder for the work, and translation from English.

A build is a command whose stages (xlbench/prepare) make files in a work folder, and from them those
that tasks read. With the same settings, a command continues where the last one stopped:

  WORK/settings.json    {step: {flag: value}}, what decides about the files of each step
  WORK/STEP             files of a step, each of which appears when it is whole
"""

import argparse
import collections
import contextlib
import functools
import itertools
import json
import os
import pathlib
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from xlbench.metrics import words
from xlbench.system import files
from xlbench.system.errors import UserError
from xlbench.translate.engines import Failure
from xlbench.translate.jobs import Job, Template

ENGLISH = 'en'  # What is translated.
TRANSLATED = 'translated_'  # Begins the step that translates into a language, and its folder.

Setting = str | int | float | list[str | int | float] | dict[str, str]
Settings = dict[str, dict[str, Setting]]  # {step: {name of a flag: what it stands for}}


# The flags of a build by their names, and what follows from them; all jobs get them.
Options = argparse.Namespace


def settings(
    options: Options, steps: Mapping[str, Sequence[str]], instead: dict[str, Setting]
) -> Settings:
    """The values of each step's flags, or what is `instead` of one: a hash of a file."""
    values = vars(options) | instead
    return {
        step: {n: list(v) if isinstance(v := values[n], tuple) else v for n in names}
        for step, names in steps.items()
    }


def codes(text: str) -> tuple[str, ...]:
    """The codes of languages that a flag has, each once."""
    found = tuple(text.split(','))
    if not all(re.fullmatch('[a-z]{2,3}', c) for c in found) or len({*found}) < len(found):
        raise argparse.ArgumentTypeError(f'{text!r} is not a list of codes like de,fr')
    return found


def check_files(paths: Iterable[str]) -> None:
    """Raises UserError for a file that is not there."""
    for path in paths:
        if not os.path.isfile(path):
            raise UserError(f'there is no file {path}')


def begin(
    folder: str, settings: Settings, redo: bool, readers: Mapping[str, Sequence[str]]
) -> None:
    """Checks that a work folder, whose lock the caller holds, is of these settings.

    `redo` makes it so: what was made with other settings goes, and with a step the folders of its
    `readers`, which may be patterns; TRANSLATED stands for all steps that translate. UserError if
    the folder holds something else, or the work of other settings and not `redo`.
    """
    path, before = os.path.join(folder, 'settings.json'), settings
    if os.path.exists(path):
        before = files.read_json(path, Settings)
    elif others := [name for name in os.listdir(folder) if name[0] != '.']:
        raise UserError(f'{folder} holds {min(others)!r} but no build; name another --work')
    changed = {
        step: _difference(before.get(step, {}), of_step)
        for step, of_step in settings.items()
        if before.get(step, of_step) != of_step
    }
    if changed and not redo:
        raise UserError(
            f'{folder} was begun by another command: {"; ".join(changed.values())}; repeat that '
            'command, name another --output, or repeat the changed steps with --redo'
        )
    for step in changed:
        kind = TRANSLATED if step.startswith(TRANSLATED) else step
        for pattern in (step, *readers.get(kind, ())):
            for place in pathlib.Path(folder).glob(pattern):
                shutil.rmtree(place, ignore_errors=True)
    files.remove_leftovers(folder)
    # What is not asked for now, such as another language, keeps its settings.
    if before | settings != before or not os.path.exists(path):
        files.write(path, json.dumps(before | settings, indent=1))


def _difference(before: Mapping[str, Setting], now: Mapping[str, Setting]) -> str:
    """Example: --min_confidence was 0.7 and is 0.8"""
    plain = functools.partial(json.dumps, ensure_ascii=False)
    return ', '.join(
        f'--{name} was {plain(before.get(name))} and is {plain(now[name])}'
        for name in now
        if before.get(name) != now[name]
    )


# ---------------------------------------------------------------------------------------------
# Texts translated and translated back, and how much of each comes back (arXiv:2108.07140, 3.3).
#
# The paper filters by "the n-gram overlap ratio between the original English text and the
# back-translated one" and gives no formula. Here it is the share of the original's n-grams that
# come back, each at most as often as it is there, by default of single words. Tokens are runs of
# Unicode's word characters and single other characters but spaces, in lower case.

UNITS = ('text', 'sentence')
_TOKEN = re.compile(r'\w+|[^\w\s]')


class Matches(NamedTuple):
    """Counts of the n-grams of two texts, and of those they have in common."""

    common: int  # Of the original that come back, each at most as often as in either text.
    original: int
    back: int

    @property
    def overlap(self) -> float:
        """The share of the original's n-grams that come back, 0 to 1; 0 where it has none."""
        return self.common / self.original if self.original else 0.0


class RoundTrip(NamedTuple):
    """The translation of a text, and its back-translation."""

    translation: str
    back: str  # '' if nobody asked for it.


def matches(original: str, back: str, n: int = 1) -> Matches:
    """Counts the n-grams of a text and of its back-translation.

    Example: 'the the the dog', 'the dog the dog dog' -> Matches(common=3, original=4, back=5)
    """
    first, second = _ngrams(original, n), _ngrams(back, n)
    return Matches((first & second).total(), first.total(), second.total())


def _ngrams(text: str, n: int) -> collections.Counter[tuple[str, ...]]:
    tokens = _TOKEN.findall(text.lower())
    return collections.Counter(zip(*(tokens[i:] for i in range(n)), strict=False))


def translated(
    template: Template,
    rows: Sequence[Sequence[str]],
    lang: str,
    unit: str = 'text',
    back: bool = False,
) -> tuple[list[list[RoundTrip | Failure]], int]:
    """Translates the English texts of some rows, perhaps back as well, by a unit of UNITS.

    Also gives how many texts a model could not hold.
    """
    pairs = [(ENGLISH, lang), (lang, ENGLISH)][: 1 + back]
    jobs = [template.job(*pair) for pair in pairs]
    used = {id(one): one for one in (template.engine(*pair) for pair in pairs)}.values()
    before = sum(engine.num_cut for engine in used)
    texts = [text for row in rows for text in row]
    with contextlib.ExitStack() as stack:
        for job in jobs:  # The sum is said at the end, in place of warnings.
            stack.enter_context(job.telling_of_cuts(lambda line: None))
        trips = round_trips(jobs[0], jobs[1] if back else None, texts, unit)
        by_row = [list(itertools.islice(trips, len(row))) for row in rows]
    return by_row, sum(engine.num_cut for engine in used) - before


def round_trips(
    there: Job, back: Job | None, texts: Sequence[str], unit: str = 'text'
) -> Iterator[RoundTrip | Failure]:
    """Translates English texts and, unless `back` is None, translates them back, in order.

    The unit, of UNITS, is translated by itself: sentences of a translation go back one by one as
    they came, and a space joins them. A Failure says why a piece of a text was not translated.
    """
    pieces = [words.english_sentences(text) if unit == 'sentence' else [text] for text in texts]
    forward = list(there.run(piece for of_text in pieces for piece in of_text))
    # An engine never sees a failure; its place stays empty, and is filled with the failure again.
    returned: list[str | Failure] = [''] * len(forward)
    if back is not None:
        returned = list(back.run('' if isinstance(text, Failure) else text for text in forward))
    place = 0
    for of_text in pieces:
        end = place + len(of_text)
        parts = forward[place:end] + returned[place:end]
        done = [part for part in parts if not isinstance(part, Failure)]
        if len(done) < len(parts):
            yield next(part for part in parts if isinstance(part, Failure))
        else:
            size = len(of_text)
            yield RoundTrip(' '.join(done[:size]), ' '.join(done[size:]).strip())
        place = end
