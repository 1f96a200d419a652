"""The options for building one task, and the settings on which the files of each step depend."""

import dataclasses
import os
from collections.abc import Mapping

from xlbench.data import outputs
from xlbench.jobs.work_folders import Setting, Settings
from xlbench.translation.templates import Template

ENGLISH = 'en'  # What everything is translated from.


@dataclasses.dataclass(frozen=True)
class Options:
    """The command line as far as it is about one task, see __main__.py.

    Attributes:
      benchmark: mtg, or mtg2 for version 2 of the data.
      task: of originals.KINDS.
      originals: English files.
      held_out: those that the sample is of; empty: the originals.
      max_bad: share of the examples that may be bad.
      sizes: of train, validation and test.
      spare: how many more examples people shall correct, in place of those that they leave out.
      seed: of the sample.
      languages: without English.
      engine: of each pair of languages.
      unit: of round_trips.UNITS.
      ngram: tokens of an n-gram.
      threshold: overlaps below it are left out.
      per_sheet: examples of a sheet for people.
      output: the data root, for BENCHMARK/TASK.
      work: folder of this task for files on the way.
    """

    benchmark: str
    task: str
    originals: tuple[str, ...]
    held_out: tuple[str, ...]
    max_bad: float
    sizes: tuple[int, int, int]
    spare: int
    seed: int
    languages: tuple[str, ...]
    engine: Template
    unit: str
    ngram: int
    threshold: float
    per_sheet: int
    output: str
    work: str


def settings(options: Options, identities: Mapping[str, tuple[str, str]]) -> Settings:
    """The settings that decide about the files of each step, by the names of flags.

    Neither folders nor the number of workers are among it.

    Args:
      options: of the build.
      identities: language -> the engine there and back, see Engine.identity.
    """
    read: dict[str, Setting] = {
        options.task: _named(options.originals),
        f'{options.task}_held_out': _named(options.held_out),
        'max_bad': options.max_bad,
        'sizes': list(options.sizes),
        'spare': options.spare,
        'sample_seed': options.seed,
    }
    translated: Settings = {
        step(lang): {'engine': list(identities[lang]), 'unit': options.unit}
        for lang in options.languages
    }
    rough: dict[str, Setting] = {'ngram': options.ngram, 'threshold': options.threshold}
    rough['languages'] = list(options.languages)
    return {
        'read': read,
        **translated,
        'rough': rough,
        'sheets': {'per_sheet': options.per_sheet},
    }


def step(lang: str) -> str:
    """The step that translates into a language."""
    return f'translated_{lang}'


def affected(options: Options, name: str) -> list[str]:
    """The steps that are done again if one has other settings."""
    translated = [step(lang) for lang in options.languages]
    if name == 'read':
        # Languages that were translated earlier, too.
        others = [n for n in os.listdir(options.work) if n.startswith(step(''))]
        return ['read', *{*translated, *others}, 'rough', 'sheets']
    return [name, 'rough', 'sheets'] if name in translated else [name]


def _named(paths: tuple[str, ...]) -> list[str]:
    """Files by their names and hashes of their contents, in the order that was given."""
    return [f'{os.path.basename(p)} sha256 {outputs.sha256(p)[:16]}' for p in paths]
