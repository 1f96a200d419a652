"""Chains of models: the stages as a user names them (see chain_command.py), and a chain at work.

Over the examples of a task, a chain has a file for each stage:

  FOLDER/0.jsonl         the inputs of the first stage: {"id": "0", "texts": ["anna: hi!"]}
  FOLDER/1.jsonl         its output: {"id": "0", "texts": ["anna greets."]}

Answers are cached by text and model (xlbench/translate/jobs.py): a chain that was killed, or of
which a stage has changed, asks for no text twice.
"""

import argparse
import itertools
import json
import pathlib
import shlex
from collections.abc import Callable, Sequence
from typing import NamedTuple, cast

from xlbench import benchmarks
from xlbench.settings import decoding
from xlbench.system import errors, files, locks
from xlbench.system.command_line import CommandLine, flag
from xlbench.system.errors import UserError
from xlbench.system.progress import Progress
from xlbench.translate import engines, jobs
from xlbench.translate.engines import Failure

TRANSLATE = 'translate:'  # Begins a stage that translates.
_MODEL = (
    flag('--target_lang', 'language to write', '', dest='target'),
    flag('--prefix', 'text before each input', ''),
    flag('--batch_size', 'batch size of a model', 0),
    decoding.FLAGS,
)
# The flags of a stage, by whether it translates.
_FLAGS = {
    False: (_MODEL, flag('--max_input_length', 'tokens of an input', 0)),
    True: (
        _MODEL,
        flag('--unit', 'what is translated by itself', 'turn', choices=jobs.UNITS),
        flag('--engine_version', 'version of a program or server', '', dest='version'),
        flag('--timeout', 'seconds for a batch', 600.0),
    ),
}
_TITLES = {'apertium': 'Apertium', 'http': 'LibreTranslate', 'https': 'LibreTranslate'}


class Stage(argparse.Namespace):
    """One stage: its flags by their names, and more.

    Attributes:
      translates: True for an engine of machine translation; otherwise it is a model that writes an
        answer in its own way, such as a summariser.
      spec: the engine's name, or the model's.
      target: ISO code of its output; '' where the chain decides it.
      source: that of its input, once `plan` knows it.
    """

    @property
    def name(self) -> str:
        """The name without settings: 'RUNS/summariser', 'translate:apertium'."""
        return f'{TRANSLATE if self.translates else ""}{self.spec}'

    @property
    def is_model(self) -> bool:
        """True if a stage is a model."""
        return not self.translates or engines.is_model(self.spec)

    @property
    def title(self) -> str:
        """The name in a table. Example: RUNS/bart@300 -> bart, translate:apertium -> Apertium."""
        kind, _, rest = self.spec.partition(':')
        if self.is_model:
            return pathlib.PurePath(self.spec.partition('@')[0]).name
        if kind == 'command':
            return pathlib.PurePath(next(iter(rest.split()), kind)).name
        return _TITLES.get(kind) or pathlib.PurePath(rest).name.partition('.')[0]

    def job(self, cache: str) -> jobs.Job:
        """Opens the model or the engine, and the answers that it has in the folder `cache`.

        Raises:
          UserError: it is not there, or cannot read or write the languages.
        """
        settings = decoding.given_options(self)
        settings |= {'prefix': self.prefix, 'batch_size': self.batch_size}
        if self.translates:
            engine = engines.find(self.spec, version=self.version, timeout=self.timeout, **settings)
        else:
            from xlbench.translate import neural  # It loads jax.

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
        args = CommandLine('translate chain', '', _FLAGS[translates]).parse(flags)
        if translates:
            given = decoding.given_options(args)
            engines.check_settings(spec, args.prefix, args.batch_size, given)
    except UserError as error:
        raise UserError(f'the stage {text!r}: {error}') from None
    return Stage(translates=translates, spec=spec, **vars(args))


def plan(stages: Sequence[Stage], source: str, target: str) -> list[Stage]:
    """The stages with their languages, from `source` to `target`.

    A stage that translates does so into the chain's target unless it says otherwise; a model writes
    the language that it reads.

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


class Row(NamedTuple):
    """The texts of one example in a chain, best first; a Failure was not translated."""

    id: str
    texts: Sequence[str | Failure]


class Chain:
    """A chain whose stages were opened once, and fit together.

    Every model and engine is asked before the first one works, so that an error in the last one is
    not found after hours. The last one is opened first, and no two are in memory together.

    Raises:
      UserError: a stage is not there, or cannot read or write the languages.
    """

    def __init__(self, chain: Sequence[Stage], cache: str = ''):
        self._stages, self._cache = chain, cache
        self._first: jobs.Job | None = None
        facts = []
        for number, stage in reversed([*enumerate(chain, 1)]):
            self._first = None  # Its model makes room for the next one.
            self._first = stage.job(cache)
            said = f'{stage.source}-{stage.target}, {self._first.identity}'
            facts.append((f'{number} {stage.name}', said))
        # The languages of each stage, and its model or engine with all settings, by its name.
        self.facts = dict(reversed(facts))

    def job(self, number: int) -> jobs.Job:
        """A stage, ready to work; the first one is open already."""
        job, self._first = self._first if number == 1 else None, None
        return job or self._stages[number - 1].job(self._cache)

    def run(
        self,
        rows: Sequence[Row],
        folder: pathlib.Path,
        *,
        accept_failures: bool = False,
        say: Callable[[str], None] = print,
    ) -> pathlib.Path:
        """Runs all stages, with their outputs in a folder, and returns the file of the last one.

        Raises:
          UserError: an engine did not translate some texts, which `accept_failures` leaves empty.
        """
        with locks.folder(folder):
            files.remove_leftovers(folder)
            path = _write(folder, 0, rows)
            for number in range(1, len(self._stages) + 1):
                rows = self._stage(number, rows, accept_failures, say)
                path = _write(folder, number, rows)
        return path

    def _stage(
        self, number: int, rows: Sequence[Row], accept_failures: bool, say: Callable[[str], None]
    ) -> list[Row]:
        """Runs a stage on the rows of the one before it; a Failure becomes an empty text."""
        stage = self._stages[number - 1]
        place = f'stage {number} ({stage.name}, {stage.source} -> {stage.target})'
        job = self.job(number)
        counts = job.counts
        with (
            job.telling_of_cuts(lambda line: say(f'{place}: {line}')),
            Progress(place, count=lambda: counts.kept + counts.made, unit='texts'),
        ):
            answers = _answers(stage, job, rows)
        if not accept_failures:
            again = 'the same command tries them again, and --failed=empty uses empty texts instead'
            _check_failures(place, answers, f'; {again}')
        say(f'{place}: {counts.made:,} texts done, {counts.kept:,} from the cache')
        return [
            Row(row.id, ['' if isinstance(text, Failure) else text for text in row.texts])
            for row in answers
        ]


def answers(
    texts: Sequence[str], chain: Sequence[str], source: str, target: str, *, cache: str = ''
) -> list[str]:
    """Runs a chain on texts: the answer to each text, of several the best.

    Args:
      texts: in one language.
      chain: the stages, as a command line has them; see xlbench/translate/chain_command.py.
      source, target: ISO codes of the texts and of the answers.
      cache: folder of answers that are kept by text and model; '' keeps none.

    Raises:
      UserError: a stage cannot do what it shall, or an engine does not translate a text.

    Example: answers(['Anna: Hi!'], ['RUNS/summariser', 'translate:apertium'], 'en', 'es')
    """
    stages = plan([parse(stage) for stage in chain], source, target)
    from xlbench.inference import answering  # It loads jax, as do the stages.

    answering.check_list(texts, 'answers')
    opened = Chain(stages, cache)
    rows = [Row(str(number), [text]) for number, text in enumerate(texts)]
    for number, stage in enumerate(stages, 1):
        rows = _answers(stage, opened.job(number), rows)
        _check_failures(f'stage {number} ({stage.name})', rows, '')
    return [cast(str, row.texts[0]) for row in rows]


def _write(folder: pathlib.Path, number: int, rows: Sequence[Row]) -> pathlib.Path:
    """Writes the output of a stage; number 0 is the input of the first one."""
    path = folder / f'{number}.jsonl'
    with files.replacing(path) as file:
        for row in rows:
            line = {'id': row.id, 'texts': row.texts}
            file.write(f'{json.dumps(line, ensure_ascii=False)}\n'.encode())
    return path


def _check_failures(place: str, rows: Sequence[Row], advice: str) -> None:
    """Raises UserError if there are texts that an engine did not translate."""
    failed = [(row.id, x.reason) for row in rows for x in row.texts if isinstance(x, Failure)]
    if failed:
        raise UserError(
            f'{place}: {len(failed):,} texts were not translated; the one of example '
            f'{failed[0][0]}: {failed[0][1]}{advice}'
        )


def _answers(stage: Stage, job: jobs.Job, rows: Sequence[Row]) -> list[Row]:
    """Runs a stage on each row; a text that an engine cannot translate becomes a Failure."""
    read = [cast(Sequence[str], row.texts) for row in rows]  # No stage reads a Failure.
    if not stage.translates:
        from xlbench.translate import neural

        return [
            Row(row.id, neural.texts_of(cast(str, answer)))  # Models have no Failure.
            for row, answer in zip(rows, job.run(texts[0] for texts in read), strict=True)
        ]
    answers = job.run([text for texts in read for text in texts], stage.unit)
    return [Row(row.id, [next(answers) for _ in row.texts]) for row in rows]
