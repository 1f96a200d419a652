"""The stages of a chain as a user names them, and which languages each of them reads and writes.

A stage is one text, with quotes around it where flags stand behind the name, as a shell reads it:

  RUNS/summariser                                  a model, as xlbench.predict takes it
  'RUNS/summariser --num_beams=5'                  with flags of decoding
  translate:apertium                               an engine, as xlbench.translate takes it
  'translate:Helsinki-NLP/opus-mt-en-de --num_beams=6'
  '--timeout=60 translate:command:engine --to={target}'    before a command, which ends the stage
"""

import argparse
import itertools
import os
import pathlib
import shlex
from collections.abc import Sequence

from xlbench import benchmarks, config as config_lib
from xlbench.settings import decoding_flags
from xlbench.system import errors
from xlbench.system.command_line import CommandLine, flag
from xlbench.system.errors import UserError
from xlbench.translation import engines, jobs

TRANSLATE = 'translate:'  # Begins a stage that translates.
_MODEL = (
    flag('--target_lang', 'language to write', '', dest='target'),
    flag('--prefix', 'text before each input', ''),
    flag('--batch_size', 'batch size of a model', 0),
    decoding_flags.FLAGS,
)
# The flags of a stage, by whether it translates.
_COMMANDS = {
    False: CommandLine(
        'translate chain', '', (_MODEL, flag('--max_input_length', 'tokens of an input', 0))
    ),
    True: CommandLine(
        'translate chain',
        '',
        (
            _MODEL,
            flag('--unit', 'what is translated by itself', 'turn', choices=jobs.UNITS),
            flag('--engine_version', 'version of a program or server', '', dest='version'),
            flag('--timeout', 'seconds for a batch', 600.0),
        ),
    ),
}
_TITLES = {'apertium': 'Apertium', 'http': 'LibreTranslate', 'https': 'LibreTranslate'}


class Stage(argparse.Namespace):
    """One stage: its flags by their names, and more.

    Attributes:
      translates: whether it is an engine of machine translation; otherwise it is a model that
        writes an answer in its own way, such as a summariser.
      spec: the engine's name, or the model's.
      target: ISO code of what it writes; '' where the chain decides it.
      source: that of what it reads, once `plan` knows it.
    """

    @property
    def name(self) -> str:
        """Name without settings: 'RUNS/summariser', 'translate:apertium'."""
        return f'{TRANSLATE if self.translates else ""}{self.spec}'

    @property
    def is_model(self) -> bool:
        """True if a stage is a model."""
        return not self.translates or engines.is_model(self.spec)

    @property
    def title(self) -> str:
        """Name in a table. Example: RUNS/bart@300 -> bart, translate:apertium -> Apertium."""
        kind, _, rest = self.spec.partition(':')
        if self.is_model:
            return pathlib.PurePath(self.spec.partition('@')[0]).name
        if kind == 'command':
            return pathlib.PurePath(next(iter(rest.split()), kind)).name
        return _TITLES.get(kind) or pathlib.PurePath(rest).name.partition('.')[0]

    def job(self, cache: str) -> jobs.Job:
        """Opens the model or the engine, and what it has answered before.

        Args:
          cache: folder of answers that are kept; '' keeps none.

        Raises:
          UserError: it is not there, or cannot read or write the languages.
        """
        settings = decoding_flags.given(self)
        settings |= {'prefix': self.prefix, 'batch_size': self.batch_size}
        if self.translates:
            engine = engines.find(self.spec, version=self.version, timeout=self.timeout, **settings)
        else:
            from xlbench.translation import neural  # It loads jax.

            engine = neural.Writer(self.spec, max_input_length=self.max_input_length, **settings)
        return jobs.Job(engine, self.source, self.target, cache=cache)


def parse(text: str) -> Stage:
    """Reads a stage as a user writes it; its languages are open, but for --target_lang.

    Raises:
      UserError: a flag that such a stage lacks, quotes that do not match, or nothing at all.
    """
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UserError(
            f'the stage {text!r} cannot be read: {error}; quotes come in pairs'
        ) from None
    flags = list(itertools.takewhile(lambda word: word.startswith('--'), words))
    name, *rest = words[len(flags) :] or ['']
    if name in ('', TRANSLATE):
        raise UserError(
            f'the stage {text!r} is empty; a stage is a model, such as RUNS/summariser, or '
            f'{TRANSLATE}ENGINE'
        )
    translates, spec = name.startswith(TRANSLATE), name.removeprefix(TRANSLATE)
    if translates and spec.startswith('command:'):
        typed = f'command:{text.partition("command:")[2].strip()}'
        words = [spec, *rest]  # Messages have it as it was typed.
        spec = typed if shlex.split(typed) == words else ' '.join(map(shlex.quote, words))
    else:
        flags += rest
    try:
        args = _COMMANDS[translates].parse(flags)
        if translates:
            given = decoding_flags.given(args)
            engines.check_settings(spec, args.prefix, args.batch_size, given)
    except UserError as error:
        raise UserError(f'the stage {text!r}: {error}') from None
    return Stage(translates=translates, spec=spec, **vars(args))


def plan(stages: Sequence[Stage], source: str, target: str) -> list[Stage]:
    """The stages with their languages.

    A stage that translates does so into the chain's target unless it says otherwise; a model writes
    the language that it reads.

    Args:
      stages: in their order.
      source: ISO code of what the first one reads.
      target: of what the last one shall write.

    Raises:
      UserError: they do not lead from one language to the other.
    """
    planned: list[Stage] = []
    lang = source
    for number, stage in enumerate(stages, 1):
        goal = stage.target or (target if stage.translates else lang)
        if goal not in benchmarks.languages.LANGUAGES:
            what = f'language in --target_lang of stage {number} ({stage.name})'
            raise errors.unknown(what, goal, benchmarks.languages.LANGUAGES)
        if stage.translates and goal == lang:
            raise UserError(
                f'stage {number} ({stage.name}) translates into {goal}, but its input is already '
                f'in {goal}; leave it out, or name another language with its --target_lang'
            )
        several = getattr(planned[-1], 'num_return', 1) if planned else 1
        if not stage.translates and several > 1:
            raise UserError(
                f'stage {number} ({stage.name}) reads one text for each example, but stage '
                f'{number - 1} writes {several}; leave out its --num_return'
            )
        planned.append(Stage(**vars(stage) | {'source': lang, 'target': goal}))
        lang = goal
    if lang != target:
        raise UserError(
            f'the chain ends in {lang}, but its texts must be in {target}; add a stage '
            f'{TRANSLATE}ENGINE at the place where they are to be translated'
        )
    return planned


def check_places(stages: Sequence[Stage]) -> None:
    """Raises UserError for a model that is not there; nothing is loaded."""
    for number, stage in enumerate(stages, 1):
        if stage.is_model:
            config_lib.check_source(stage.spec, f'stage {number}')


def workdir_of(stages: Sequence[Stage]) -> str:
    """The workdir of the first stage that is a run with data of its own; '' if none is."""
    for stage in stages:
        folder = stage.spec if os.path.isdir(stage.spec) else stage.spec.rpartition('@')[0]
        if stage.is_model and os.path.isdir(os.path.join(folder, 'checkpoints')):
            return folder
    return ''
