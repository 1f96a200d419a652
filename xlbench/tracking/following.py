"""The trackers of a run, each in a thread of its own: no step waits for a disk or a network.

The workdir's own files are the truth, and a tracker is a copy for people to look at. One that fails
is left out from then on, and the run's log says so once. What it has not taken is in unsent.jsonl,
and is the first that it gets when the same command is run again.
"""

import collections
import contextlib
import dataclasses
import importlib.util
import math
import os
import pathlib
import queue
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Annotated, NamedTuple

import msgspec
from ml_collections import ConfigDict

from xlbench.metrics import specs
from xlbench.settings import blocks
from xlbench.system import files, locks, logs, untrusted
from xlbench.system.errors import UserError, located
from xlbench.system.files import Json
from xlbench.tracking.contract import Run, Sample, Samples, Tracked, Tracker

# Which run of each tracker this workdir is, see `Tracked`; and the rows that one has not taken.
FILE, UNSENT = 'trackers.json', 'unsent.jsonl'
# Rows that a tracker may be behind, as while a network is down.
MOST_BEHIND = 20_000
# Seconds that the end of a run waits for what is not sent yet, and those after which it says so.
PATIENCE, SILENCE = 10.0, 1.0
_Identity = Annotated[str, msgspec.Meta(pattern=r'^[\w.:/-]{0,200}$')]


def find(name: str) -> type[Tracker]:
    """The class of a tracker.

    Args:
      name: of a file of this package, or 'tasks/FILE.py:NAME' or 'module:NAME' of the user's own,
        by the rules of metrics (see metrics/specs.py).

    Raises:
      UserError: there is none, or it may not be imported.
    """
    return specs.subclass(name, Tracker, __package__, 'tracker in config.trackers')


def check(names: Sequence[str]) -> None:
    """Raises UserError for a tracker that cannot work on this machine."""
    for name in names:
        tracker = find(name)
        if missing := [module for module in tracker.modules if not _is_installed(module)]:
            raise UserError(
                f'config.trackers has {name!r}, which needs the package {missing[0]}: '
                f'{tracker.install}; or leave {name!r} out'
            )
        try:
            tracker.check()
        except UserError:
            raise
        except Exception as error:  # Whatever another's library makes of this machine.
            raise UserError(f'the tracker {name!r} does not work here: {located(error)}') from error


def _is_installed(module: str) -> bool:
    spec = importlib.util.find_spec(module)
    # Without an origin it is a mere folder, such as the wandb/ that W&B makes.
    return spec is not None and spec.origin is not None


class Trackers:
    """The trackers of one run, which begin with the first row.

    Args:
      names: see config.trackers; for each one `check` was called.
      workdir: of the run.
      config: of the run.

    Attributes:
      step: that the run goes on from, see `Run`.
    """

    def __init__(self, names: Sequence[str], workdir: str, config: Mapping[str, Json]):
        self._classes = {name: find(name) for name in names}
        self._run = Run(workdir, config)
        self._workers: list[_Worker] | None = None
        self._unsent = Unsent(workdir)
        self._notes: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._identities: dict[str, str] | None = None
        self._writing = threading.Lock()
        self.step = 0

    def write(self, step: int, scalars: Mapping[str, float], samples: Samples) -> None:
        """Hands a row to each tracker, and waits for none of them; see `Tracker.write`."""
        if self._workers is None:
            self._begin(self._classes)
        for worker in self._workers or ():
            worker.put(Row(step, dict(scalars), samples))

    def _begin(self, names: Collection[str]) -> None:
        """Starts trackers; the first that each one gets is what it did not take before."""
        run, say = dataclasses.replace(self._run, step=self.step), self._notes.put
        before = self._unsent.rows(self.step, say)
        self._workers = [
            _Worker(name, self._classes[name], run, before.get(name, ()),
                    self._identify, self._unsent, say)
            for name in names
        ]  # fmt: skip

    def notes(self) -> list[str]:
        """Returns what the trackers said since the last call: a run's place, or a failure."""
        said = []
        while not self._notes.empty():
            said.append(self._notes.get())
        return said

    def close(self, finished: bool, say: Callable[[str], None]) -> None:
        """Ends the trackers; waits a while for what they have not written yet.

        Args:
          finished: whether the run is; a finished run that wrote nothing sends what is left.
          say: is told what is waited for.
        """
        if self._workers is None and finished:
            left = self._unsent.rows(None, self._notes.put)
            self.step = max((row.step for rows in left.values() for row in rows), default=0)
            self._begin([name for name in self._classes if name in left])
        workers, self._workers = self._workers or [], []
        for worker in workers:
            worker.end(finished)
        until = time.monotonic() + PATIENCE
        if late := [worker.name for worker in workers if not worker.ended(min(SILENCE, PATIENCE))]:
            say(f'waiting up to {PATIENCE:g} s for {", ".join(late)}, to send the remaining rows')
        for worker in workers:
            worker.wait(max(until - time.monotonic(), 0))

    def _identify(self, name: str, identity: str | None = None) -> str:
        """Reads the identity of this run with a tracker; notes it first, if one is given."""
        with self._writing:
            if self._identities is None:
                path = untrusted.file(self._run.workdir, FILE)
                self._identities = files.read_json(path, dict[str, _Identity]) if path else {}
            if identity and self._identities.get(name) != identity:
                self._identities[name] = files.check_type(identity, _Identity, 'name of the run')
                text = msgspec.json.format(msgspec.json.encode(self._identities), indent=1)
                files.write(pathlib.Path(self._run.workdir) / FILE, text + b'\n')
            return self._identities.get(name, '')


def open_log(config: ConfigDict, workdir: str, *, active: bool = True) -> logs.Log:
    """Opens the log of a run, with the trackers that its config names.

    Args:
      config: of the run, or of a sweep, whose source model has the same trackers. One of an earlier
        version names none, and has the default ones.
      workdir: of the run.
      active: False on every process but the first.
    """
    names = config.get('source', config).get('trackers', blocks.LATER_KEYS['trackers'])
    trackers = Trackers(names, workdir, blocks.to_dict(config)) if active else None
    return logs.Log(workdir, active=active, trackers=trackers)


def send_left(config: ConfigDict, workdir: str) -> None:
    """Sends what the trackers of a finished run have not taken, if there is any."""
    if untrusted.file(workdir, UNSENT) is not None:
        with locks.folder(workdir), contextlib.closing(open_log(config, workdir)) as log:
            log.finish()


class Row(NamedTuple):
    """Numbers and samples of one step; see `Tracker.write`."""

    step: int
    scalars: Mapping[str, float]
    samples: Samples


class _Line(msgspec.Struct):
    """A row in the file. A number that JSON does not have is null there."""

    tracker: str
    step: int
    scalars: Mapping[str, float | None]
    samples: Mapping[str, Sequence[Sample]]

    def row(self) -> Row:
        numbers = {tag: math.nan if one is None else one for tag, one in self.scalars.items()}
        return Row(self.step, numbers, self.samples)


class Unsent:
    """The rows that trackers have not taken, in a file of the workdir, until they take them.

    Args:
      workdir: of the run.
    """

    def __init__(self, workdir: str | os.PathLike):
        self._folder, self._writing = pathlib.Path(workdir), threading.Lock()

    def rows(self, until: int | None, say: Callable[[str], None]) -> dict[str, list[Row]]:
        """Reads the rows of each tracker, in the order in which they were written.

        Args:
          until: the step that the run goes on from: it sends later rows again, so they are removed.
          say: is told of lines that are no rows, which are removed, too.
        """
        found: dict[str, list[Row]] = {}
        with self._writing:
            lines, unread = self._lines()
            kept = [line for line in lines if until is None or line.step <= until]
            if unread:
                say(f'{UNSENT}: {unread} lines that cannot be read were left out')
            if unread or len(kept) < len(lines):
                self._write(kept)
        for line in kept:
            found.setdefault(line.tracker, []).append(line.row())
        return found

    def add(self, tracker: str, row: Row) -> None:
        """Appends a row."""
        with self._writing:
            untrusted.file(self._folder, UNSENT)
            with open(self._folder / UNSENT, 'ab') as file:
                file.write(msgspec.json.encode(_Line(tracker, *row)) + b'\n')

    def replace(self, tracker: str, rows: Sequence[Row]) -> None:
        """Makes these the tracker's rows; without rows of any tracker, there is no file."""
        with self._writing:
            kept = [line for line in self._lines()[0] if line.tracker != tracker]
            self._write(kept + [_Line(tracker, *row) for row in rows])

    def _write(self, lines: Sequence[_Line]) -> None:
        if lines:
            files.write(self._folder / UNSENT, msgspec.json.Encoder().encode_lines(lines))
        else:
            (self._folder / UNSENT).unlink(missing_ok=True)

    def _lines(self) -> tuple[list[_Line], int]:
        """Reads the rows, and counts the lines that are malformed."""
        path, found, unread = untrusted.file(self._folder, UNSENT), list[_Line](), 0
        if path is None:
            return found, unread
        with untrusted.open_regular(path) as file:
            while text := file.readline(untrusted.LINE_BYTES.value):
                try:
                    found.append(files.parse_json(text, _Line, UNSENT))
                except UserError:
                    unread += 1
        return found, unread


class _Worker:
    """One tracker in its thread; rows from `before` stay in unsent.jsonl until it has them all."""

    def __init__(
        self,
        name: str,
        kind: Callable[[], Tracker],
        run: Run,
        before: Sequence[Row],
        identify: Callable[..., str],
        unsent: Unsent,
        say: Callable[[str], None],
    ):
        self.name, self._kind = name, kind
        self._identify, self._unsent, self._say = identify, unsent, say
        self._rows = collections.deque(before)  # The one being written, too.
        self._changed = threading.Condition()
        self._before = len(before)  # How many of the rows are of an earlier process.
        self._ends = self._finished = self._failed = False
        # A daemon: what hangs in a network does not keep the process alive.
        self._thread = threading.Thread(
            target=self._follow, args=(run,), name=f'tracker {name}', daemon=True
        )
        self._thread.start()

    def put(self, row: Row) -> None:
        with self._changed:
            if self._failed:
                with contextlib.suppress(OSError):  # metrics.jsonl meets the full disk, too.
                    self._unsent.add(self.name, row)
                return
            self._rows.append(row)
            self._changed.notify()
            behind = len(self._rows) - self._before
        if behind > MOST_BEHIND:
            self._fail(f'is more than {MOST_BEHIND:,} rows behind')

    def end(self, finished: bool) -> None:
        with self._changed:
            self._ends, self._finished = True, finished
            self._changed.notify()

    def ended(self, seconds: float) -> bool:
        """Waits so long for the thread; returns whether it has ended."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def wait(self, seconds: float) -> None:
        if not self.ended(seconds):
            self._fail(f'has not ended within {PATIENCE:g} s')

    def _fail(self, why: str) -> None:
        """Gives the tracker up, once, and keeps what it has not taken."""
        with self._changed:
            if self._failed:
                return
            self._failed, left = True, list(self._rows)
            try:
                if left:
                    self._unsent.replace(self.name, left)
                rest = (
                    'unsent.jsonl keeps what it does not get, and the same command sends it later'
                    if left or not self._ends
                    else 'it has every row'
                )
            except OSError as error:
                rest = f'it does not get the rest, as {UNSENT} cannot be written: {error}'
        self._say(f'the tracker {self.name!r} {why}; {rest}')

    def _follow(self, run: Run) -> None:
        """Writes row after row, until the run ends or something fails."""
        try:
            identity = self._identify(self.name)
            tracker = self._kind()
            tracked: Tracked = tracker.start(dataclasses.replace(run, identity=identity))
            self._identify(self.name, tracked.identity)
            if tracked.place:
                self._say(f'tracked by {self.name}: {tracked.place}')
            while (row := self._next()) is not None:
                tracker.write(*row)
                with self._changed:
                    if self._failed:
                        return
                    self._rows.popleft()
                    if self._before:
                        self._before -= 1
                        if not self._before:
                            self._unsent.replace(self.name, ())
            if not self._failed:
                tracker.close(self._finished)
        except (Exception, SystemExit) as error:  # Whatever another's library raises.
            self._fail(f'has failed: {located(error)}')

    def _next(self) -> Row | None:
        """Waits for the next row; None at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._rows or self._ends or self._failed)
            return self._rows[0] if self._rows and not self._failed else None
