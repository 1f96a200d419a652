"""Runs a chain: over texts, or over files that are signed by what made them.

  FOLDER/0.jsonl         what the first stage reads: {"id": "0", "texts": ["anna: hi!"]}
  FOLDER/1.jsonl         what it has written: {"id": "0", "texts": ["anna greets."]}
  FOLDER/1.about.json    who has written it, from what, and its signature

A signature is a hash of the stage's model or engine with all its settings, of its languages, and of
the file that it has read. If the signature of a stage has changed, the stage runs again, and so do
the stages after it if its output has changed. Within a stage, answers are cached by text and model
(xlbench/translation/memory.py), so a killed chain continues where it was.
"""

import dataclasses
import hashlib
import json
import pathlib
from collections.abc import Callable, Iterator, Sequence
from typing import cast

import msgspec

from xlbench import config as config_lib
from xlbench.chains import stages
from xlbench.chains.stages import Stage
from xlbench.data import outputs, readers
from xlbench.inference import answering
from xlbench.system import files, locks
from xlbench.system.errors import UserError
from xlbench.system.progress import Progress
from xlbench.translation import neural
from xlbench.translation.engines import Failure
from xlbench.translation.jobs import Job

_VERSION = 1  # Of what a stage writes for the same model, settings and input.


@dataclasses.dataclass(frozen=True)
class Row:
    """State of one example in a chain.

    Attributes:
      id: of the example.
      texts: one, or several, best first; a Failure is one that was not translated.
    """

    id: str
    texts: Sequence[str | Failure]


class About(msgspec.Struct):
    """The signed note beside a stage's output.

    Attributes:
      signature: of all that decides the output.
      sha256: of the output.
      stage: its name.
      identity: of its model or engine, with all settings.
      source_lang, target_lang: ISO codes of what it read and wrote.
      inputs: SHA-256 of the file that it read.
      failed: how many texts its engine did not translate.
      git, versions: of the code that wrote it.
    """

    signature: str
    sha256: str
    stage: str
    identity: str
    source_lang: str
    target_lang: str
    inputs: str
    failed: int = 0
    git: str = ''
    versions: dict[str, str] = {}


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
        self._identities: list[str] = []
        self._first: Job | None = None
        for stage in reversed(chain):
            self._first = None  # Its model makes room for the next one.
            self._first = stage.job(cache)
            self._identities.insert(0, self._first.identity)

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
    ) -> list[About]:
        """Does what is not done yet; `output` says where the last stage's output is.

        Args:
          rows: what the first stage reads.
          folder: of the outputs; outputs of the same stages that it has already stay.
          accept_failures: takes an empty text for one that an engine does not translate.
          say: is told a line for each stage.

        Returns:
          The note beside the output of each stage.

        Raises:
          UserError: an engine did not translate some texts.
        """
        with locks.folder(folder):
            files.remove_leftovers(folder)
            _write_rows(output(folder, 0), rows)
            numbers = range(1, len(self._stages) + 1)
            return [self._stage(number, folder, accept_failures, say) for number in numbers]

    def _stage(
        self, number: int, folder: pathlib.Path, accept_failures: bool, say: Callable[[str], None]
    ) -> About:
        """Does one stage, unless it is done."""
        stage, identity = self._stages[number - 1], self._identities[number - 1]
        place = f'stage {number} ({stage.name}, {stage.source} -> {stage.target})'
        read, path = output(folder, number - 1), output(folder, number)
        about = folder / f'{number}.about.json'
        inputs = outputs.sha256(str(read))
        note = _note(about, path, _signature(stage, identity, inputs))
        if note and (accept_failures or not note.failed):
            say(f'{place}: already done')
            return note
        job = self._job(number)
        counts = job.counts
        with (
            job.telling_of_cuts(lambda line: say(f'{place}: {line}')),
            Progress(place, count=lambda: counts.kept + counts.made, unit='texts'),
        ):
            answers = _answers(stage, job, list(_read_rows(read)))
        failed = sum(isinstance(text, Failure) for row in answers for text in row.texts)
        if not accept_failures:
            again = 'the same command tries them again, and --failed=empty uses empty texts instead'
            _check_failures(place, answers, f'; {again}')
        _write_rows(path, answers)
        facts = config_lib.facts()
        note = About(
            signature=_signature(stage, job.identity, inputs),
            sha256=outputs.sha256(str(path)),
            stage=stage.name,
            identity=job.identity,
            source_lang=stage.source,
            target_lang=stage.target,
            inputs=inputs,
            failed=failed,
            git=facts['git'],
            versions=facts['versions'],
        )
        files.write(about, msgspec.json.format(msgspec.json.encode(note), indent=1) + b'\n')
        say(f'{place}: {counts.made:,} texts done, {counts.kept:,} from the cache')
        return note

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


def output(folder: pathlib.Path, number: int) -> pathlib.Path:
    """The file that a stage writes; number 0 is what the first one reads."""
    return folder / f'{number}.jsonl'


def _signature(stage: Stage, identity: str, inputs: str) -> str:
    """Hashes all that decides what a stage writes."""
    parts = [_VERSION, stage.translates, identity, stage.source, stage.target, stage.unit, inputs]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _note(about: pathlib.Path, path: pathlib.Path, signature: str) -> About | None:
    """The note beside a stage's output, if that is what the stage would write now."""
    if not (about.is_file() and path.is_file()):
        return None
    try:
        note = files.read_json(about, About)
    except UserError:  # Of another version; it is written anew.
        return None
    same = note.signature == signature and note.sha256 == outputs.sha256(str(path))
    return note if same else None


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


def _read_rows(path: pathlib.Path) -> Iterator[Row]:
    for number, row in readers.good(readers.json_lines(str(path))):
        yield files.check_type(row, Row, f'{path}:{number}')


def _write_rows(path: pathlib.Path, rows: Sequence[Row]) -> None:
    """Writes the rows; a Failure is an empty text."""
    with files.replacing(path) as file:
        for row in rows:
            texts = ['' if isinstance(text, Failure) else text for text in row.texts]
            line = {'id': row.id, 'texts': texts}
            file.write(f'{json.dumps(line, ensure_ascii=False)}\n'.encode())
