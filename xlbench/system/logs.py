"""The log of a run: plain lines, metrics.jsonl and trackers, written by process 0 alone."""

import contextlib
import json
import math
import pathlib
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple, Protocol, TextIO

import msgspec

from xlbench.system import files, untrusted
from xlbench.system.errors import UserError, visible


class _Row(msgspec.Struct):
    """The part of a line of metrics.jsonl that is read."""

    step: int
    kind: str
    name: str


class Sample(NamedTuple):
    """An example with what the model answers."""

    input: str
    target: str
    prediction: str


Samples = Mapping[str, Sequence[Sample]]  # {'eval/test/TASK': the same few examples each time}


class _Trackers(Protocol):  # Those of xlbench/training/tracking, as a log sees them.
    step: int

    def write(self, step: int, scalars: Mapping[str, float], samples: Samples) -> None: ...
    def notes(self) -> Sequence[str]: ...
    def close(self, finished: bool, say: Callable[[str], None]) -> None: ...


class Log:
    """The voice of one run; where it is not `active`, in other processes, every method is silent.

    The workdir, which must exist, gets log.txt, and with the first numbers metrics.jsonl and what
    the trackers write.

    Raises:
      UserError: one of these is a link that leads out of the workdir, or no file.
    """

    def __init__(self, workdir: str, *, active: bool = True, trackers: _Trackers | None = None):
        self._active, self._finished = active, False
        self._folder, self._trackers = pathlib.Path(workdir), trackers
        self._text: TextIO | None = None
        self._metrics: TextIO | None = None
        if active:
            for name in ('log.txt', 'metrics.jsonl'):
                untrusted.file(workdir, name)
            untrusted.check_tree(workdir, self._folder / 'tensorboard')
            self._text = open(self._folder / 'log.txt', 'a', encoding='utf-8')  # noqa: SIM115

    def line(self, text: str) -> None:
        """Writes a line, or a few, to the screen and log.txt; control characters become `?`."""
        if self._text is not None:
            text = visible(text)
            print(text, flush=True)
            with files.naming(self._folder / 'log.txt'):
                self._text.write(text + '\n')
                self._text.flush()

    def write(self, step: int, kind: str, name: str, values: Mapping[str, float]) -> None:
        """Writes one row of metrics.jsonl, and gives its numbers to the trackers.

        It is of a global step, of the kind 'train' or 'eval', and has the name of a stage or task.
        A number that is not finite is written as null, which JSON can hold.
        """
        if not self._active:
            return
        path = self._folder / 'metrics.jsonl'
        if self._metrics is None:
            self._metrics = open(path, 'a', encoding='utf-8')  # noqa: SIM115
        finite = {key: value if math.isfinite(value) else None for key, value in values.items()}
        row = {'step': step, 'kind': kind, 'name': name, 'values': finite}
        with files.naming(path):
            self._metrics.write(json.dumps(row) + '\n')
            self._metrics.flush()
        self.track(step, {f'{kind}/{name}/{key}': value for key, value in values.items()}, {})

    def track(self, step: int, scalars: Mapping[str, float], samples: Samples) -> None:
        """Gives numbers, {'train/stage1/loss': 2.5}, and samples to the trackers alone."""
        if self._trackers and (scalars or samples):
            self._trackers.write(step, scalars, samples)
            self._say_notes()

    def _say_notes(self) -> None:
        for note in self._trackers.notes() if self._trackers else ():
            self.line(note)

    def rewind(
        self, step: int, again: Collection[str] = (), after: int = 0, due: Collection[str] = ()
    ) -> None:
        """Drops what a resumed run computes and writes again, and lines that are no rows of ours.

        These are all rows after a step, those of the evaluations `due` at this very step, and those
        of the evaluations that come `again` at steps above `after`.
        """
        path = self._folder / 'metrics.jsonl'
        if self._trackers:
            self._trackers.step = step
        if not self._active or untrusted.file(self._folder, path.name) is None:
            return
        kept, unread = [], 0
        with untrusted.open_regular(path) as lines:
            for line in lines:
                if not line.endswith(b'\n'):
                    break  # The line that a killed process was writing.
                try:
                    row = files.parse_json(line, _Row, path.name)
                except UserError:
                    unread += 1
                    continue
                name = row.name.partition('/')[0]
                repeated = name in again and row.step > after
                repeated |= name in due and row.step == step
                if row.step <= step and not (repeated and row.kind == 'eval'):
                    kept.append(line)
        files.write(path, b''.join(kept))
        if unread:
            self.line(f'{path.name}: {unread} lines that cannot be read were left out')

    def finish(self) -> None:
        """Notes that the run has come to its end, which the trackers are told when it closes."""
        self._finished = True

    def close(self) -> None:
        """Closes the files; all that was said is in them, or an error was raised."""
        if self._trackers:
            self._trackers.close(self._finished, self.line)
            with contextlib.suppress(OSError):  # A full disk was said before.
                self._say_notes()
        for file in (self._text, self._metrics):
            if file is not None:
                with contextlib.suppress(OSError):
                    file.close()
