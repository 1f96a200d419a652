"""The log of a run: plain lines, metrics.jsonl and trackers, written by process 0 alone.

The workdir's own files are the truth, and a tracker is a copy for people to look at, made in a
thread of its own: no step waits for a disk or a network. One that fails is left out from then on,
and the run's log says so once.
"""

import contextlib
import dataclasses
import importlib.util
import json
import math
import pathlib
import queue
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Annotated, TextIO

import msgspec
from ml_collections import ConfigDict

from xlbench.metrics import specs
from xlbench.settings import blocks
from xlbench.system import files, untrusted
from xlbench.system.errors import UserError, located, visible
from xlbench.system.files import Json
from xlbench.training.tracking.contract import Run, Samples, Tracked, Tracker

FILE = 'trackers.json'  # Which run of each tracker this workdir is, see `Tracked`.
# Rows that a tracker may be behind, as while a network is down.
MOST_BEHIND = 20_000
# Seconds that the end of a run waits for what is not sent yet, and those after which it says so.
PATIENCE, SILENCE = 10.0, 1.0
_Row = tuple[int, Mapping[str, float], Samples]  # See `Tracker.write`.
_Identity = Annotated[str, msgspec.Meta(pattern=r'^[\w.:/-]{0,200}$')]


def find(name: str) -> type[Tracker]:
    """The class of a tracker; UserError if there is none, or it may not be imported.

    Its name is that of a file of this package, or 'tasks/FILE.py:NAME' or 'module:NAME' of the
    user's own, by the rules of metrics (see metrics/specs.py).
    """
    return specs.subclass(name, Tracker, __package__, 'tracker in config.trackers')


def check(names: Sequence[str]) -> None:
    """Raises UserError for a tracker that cannot work on this machine."""
    for name in names:
        tracker = find(name)
        specs_of = {module: importlib.util.find_spec(module) for module in tracker.modules}
        # Without an origin it is a mere folder, such as the wandb/ that W&B makes.
        if missing := [module for module, x in specs_of.items() if not (x and x.origin)]:
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


class _Written(msgspec.Struct):
    """The part of a line of metrics.jsonl that is read."""

    step: int
    kind: str
    name: str


class Log:
    """The voice of one run; where it is not `active`, in other processes, every method is silent.

    The workdir, which must exist, gets log.txt, and with the first numbers metrics.jsonl and what
    the trackers write, which get the `config`. `check` was called for the name of each.

    Raises:
      UserError: one of these is a link that leads out of the workdir, or no file.
    """

    def __init__(
        self,
        workdir: str,
        *,
        active: bool = True,
        trackers: Sequence[str] = (),
        config: Mapping[str, Json] | None = None,
    ):
        self._active, self._finished = active, False
        self._folder, self._run = pathlib.Path(workdir), Run(workdir, config or {})
        self._classes = {name: find(name) for name in trackers if active}
        self._workers: list[_Worker] | None = None  # They begin with the first row.
        self._notes: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._identifying = threading.Lock()
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
        """Gives numbers, {'train/stage1/loss': 2.5}, and samples to the trackers alone.

        It waits for none of them, and says what they have said since the last call: where the run
        is tracked, or a failure.
        """
        if not (scalars or samples):
            return
        if self._workers is None:
            self._workers = [
                _Worker(name, kind, self._run, self._identify, self._notes.put)
                for name, kind in self._classes.items()
            ]
        for worker in self._workers:
            worker.put((step, dict(scalars), samples))
        self._say_notes()

    def _say_notes(self) -> None:
        while not self._notes.empty():
            self.line(self._notes.get())

    def _identify(self, name: str, identity: str | None = None) -> str:
        """Reads the identity of this run with a tracker; notes it first, if one is given."""
        with self._identifying:
            path = untrusted.file(self._folder, FILE)
            known = files.read_json(path, dict[str, _Identity]) if path else {}
            if identity and known.get(name) != identity:
                known[name] = files.check_type(identity, _Identity, 'name of the run')
                text = msgspec.json.format(msgspec.json.encode(known), indent=1)
                files.write(self._folder / FILE, text + b'\n')
            return known.get(name, '')

    def rewind(
        self, step: int, again: Collection[str] = (), after: int = 0, due: Collection[str] = ()
    ) -> None:
        """Drops what a resumed run computes and writes again, and lines that are no rows of ours.

        These are all rows after a step, those of the evaluations `due` at this very step, and those
        of the evaluations that come `again` at steps above `after`.
        """
        path = self._folder / 'metrics.jsonl'
        self._run = dataclasses.replace(self._run, step=step)
        if not self._active or untrusted.file(self._folder, path.name) is None:
            return
        kept, unread = [], 0
        with untrusted.open_regular(path) as lines:
            for line in lines:
                if not line.endswith(b'\n'):
                    break  # The line that a killed process was writing.
                try:
                    row = files.parse_json(line, _Written, path.name)
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
        """Closes the files; all that was said is in them, or an error was raised.

        The trackers are ended, and what takes long is waited for a while.
        """
        workers, self._workers = self._workers or [], []
        for worker in workers:
            worker.put(self._finished)
        until = time.monotonic() + PATIENCE
        if late := [worker.name for worker in workers if not worker.ended(min(SILENCE, PATIENCE))]:
            names = ', '.join(late)
            self.line(f'waiting up to {PATIENCE:g} s for {names}, to send the remaining rows')
        for worker in workers:
            worker.wait(max(until - time.monotonic(), 0))
        with contextlib.suppress(OSError):  # A full disk was said before.
            self._say_notes()
        for file in (self._text, self._metrics):
            if file is not None:
                with contextlib.suppress(OSError):
                    file.close()


def open_log(config: ConfigDict, workdir: str, *, active: bool = True) -> Log:
    """Opens the log of a run, with the trackers that its config names.

    A sweep has those of its source model, and a config of an earlier version the default ones.
    """
    names = config.get('source', config).get('trackers', blocks.LATER_KEYS['trackers'])
    return Log(workdir, active=active, trackers=names, config=blocks.to_dict(config))


class _Worker:
    """One tracker in its thread."""

    def __init__(
        self,
        name: str,
        kind: Callable[[], Tracker],
        run: Run,
        identify: Callable[..., str],
        say: Callable[[str], None],
    ):
        self.name, self._kind, self._identify, self._say = name, kind, identify, say
        self._rows: queue.Queue[_Row | bool] = queue.Queue(MOST_BEHIND)
        self._failing, self._failed = threading.Lock(), False
        # A daemon: what hangs in a network does not keep the process alive.
        self._thread = threading.Thread(
            target=self._follow, args=(run,), name=f'tracker {name}', daemon=True
        )
        self._thread.start()

    def put(self, row: _Row | bool) -> None:
        """Hands over a row; at the end, whether the run is finished."""
        try:
            if not self._failed:
                self._rows.put_nowait(row)
        except queue.Full:
            self._fail(f'is more than {MOST_BEHIND:,} rows behind')

    def ended(self, seconds: float) -> bool:
        """Waits so long for the thread; returns whether it has ended."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def wait(self, seconds: float) -> None:
        if not self.ended(seconds):
            self._fail(f'has not ended within {PATIENCE:g} s')

    def _fail(self, why: str) -> None:
        """Gives the tracker up, once."""
        with self._failing:
            failed_before, self._failed = self._failed, True
        if not failed_before:
            self._say(f"the tracker '{self.name}' {why}; it does not get the rest")

    def _follow(self, run: Run) -> None:
        """Writes row after row, until the run ends or something fails."""
        try:
            identity = self._identify(self.name)
            tracker = self._kind()
            tracked: Tracked = tracker.start(dataclasses.replace(run, identity=identity))
            self._identify(self.name, tracked.identity)
            if tracked.place:
                self._say(f'tracked by {self.name}: {tracked.place}')
            while not isinstance(row := self._rows.get(), bool) and not self._failed:
                tracker.write(*row)
            if isinstance(row, bool) and not self._failed:
                tracker.close(row)
        except (Exception, SystemExit) as error:  # Whatever another's library raises.
            self._fail(f'has failed: {located(error)}')
