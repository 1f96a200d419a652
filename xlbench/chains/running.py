"""Runs a chain: over texts, or over the examples of a task, with a file for each stage.

  FOLDER/0.jsonl         what the first stage reads: {"id": "0", "texts": ["anna: hi!"]}
  FOLDER/1.jsonl         what it has written: {"id": "0", "texts": ["anna greets."]}

Answers are cached by text and model (xlbench/translation/memory.py): a chain that was killed, or of
which a stage has changed, asks for no text twice.
"""

import dataclasses
import json
import pathlib
from collections.abc import Callable, Sequence
from typing import cast

from xlbench.chains import stages
from xlbench.chains.stages import Stage
from xlbench.inference import answering
from xlbench.system import files, locks
from xlbench.system.errors import UserError
from xlbench.system.progress import Progress
from xlbench.translation import neural
from xlbench.translation.engines import Failure
from xlbench.translation.jobs import Job


@dataclasses.dataclass(frozen=True)
class Row:
    """State of one example in a chain.

    Attributes:
      id: of the example.
      texts: one, or several, best first; a Failure is one that was not translated.
    """

    id: str
    texts: Sequence[str | Failure]


class Chain:
    """A chain whose stages were opened once and can do what they shall.

    Every model and engine is asked before the first one works, so that what is wrong with the last
    one is not said after hours. The last one is opened first, and no two are in memory together.

    Args:
      chain: the stages with their languages, see `stages.plan`.
      cache: folder of answers that are kept by text and model; '' keeps none.

    Raises:
      UserError: a stage is not there, or cannot read or write the languages.
    """

    def __init__(self, chain: Sequence[Stage], cache: str = ''):
        self._stages, self._cache = chain, cache
        self._identities = [''] * len(chain)
        self._first: Job | None = None
        for i, stage in reversed([*enumerate(chain)]):
            self._first = None  # Its model makes room for the next one.
            self._first = stage.job(cache)
            self._identities[i] = self._first.identity

    @property
    def facts(self) -> dict[str, str]:
        """The languages of each stage, and its model or engine with all settings, by its name."""
        rows = enumerate(zip(self._stages, self._identities, strict=True), 1)
        return {
            f'{number} {stage.name}': f'{stage.source}-{stage.target}, {identity}'
            for number, (stage, identity) in rows
        }

    def _job(self, number: int) -> Job:
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
        """Runs all stages, and returns the file of what the last one has written.

        Args:
          rows: what the first stage reads.
          folder: of the outputs.
          accept_failures: takes an empty text for one that an engine does not translate.
          say: is told a line for each stage.

        Raises:
          UserError: an engine did not translate some texts.
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
        job = self._job(number)
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

    def answers(self, texts: Sequence[str]) -> list[str]:
        """The answer to each text, of several the best; UserError for one that has none."""
        answering.check_list(texts, 'answers')
        rows = [Row(str(number), [text]) for number, text in enumerate(texts)]
        for number, stage in enumerate(self._stages, 1):
            rows = _answers(stage, self._job(number), rows)
            _check_failures(f'stage {number} ({stage.name})', rows, '')
        return [cast(str, row.texts[0]) for row in rows]


def answers(
    texts: Sequence[str], chain: Sequence[str], source: str, target: str, *, cache: str = ''
) -> list[str]:
    """Runs a chain on texts.

    Args:
      texts: in one language.
      chain: the stages, as a command line has them; see xlbench/chains/stages.py.
      source: ISO code of the texts.
      target: that of the answers.
      cache: folder of answers that are kept by text and model; '' keeps none.

    Returns:
      The answer to each text, of several the best.

    Raises:
      UserError: a stage is not there or cannot do what it shall, or an engine does not translate a
        text.

    Example: answers(['Anna: Hi!'], ['RUNS/summariser', 'translate:apertium'], 'en', 'es')
    """
    planned = stages.plan([stages.parse(stage) for stage in chain], source, target)
    return Chain(planned, cache).answers(texts)


def _write(folder: pathlib.Path, number: int, rows: Sequence[Row]) -> pathlib.Path:
    """Writes the rows that a stage has written; number 0 is what the first one reads."""
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


def _answers(stage: Stage, job: Job, rows: Sequence[Row]) -> list[Row]:
    """Runs a stage on each row; a text that an engine cannot translate becomes a Failure."""
    read = [cast(Sequence[str], row.texts) for row in rows]  # No stage reads a Failure.
    if not stage.translates:
        return [
            Row(row.id, neural.texts_of(cast(str, answer)))  # Models have no Failure.
            for row, answer in zip(rows, job.run(texts[0] for texts in read), strict=True)
        ]
    answers = job.run([text for texts in read for text in texts], stage.unit)
    return [Row(row.id, [next(answers) for _ in row.texts]) for row in rows]
