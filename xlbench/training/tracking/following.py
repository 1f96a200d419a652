"""The trackers of a run, each in a thread of its own: no step waits for a disk or a network.

The workdir's own files are the truth, and a tracker is a copy for people to look at. One that fails
is left out from then on, and the run's log says so once.
"""

import dataclasses
import importlib.util
import pathlib
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated

import msgspec
from ml_collections import ConfigDict

from xlbench.metrics import specs
from xlbench.settings import blocks
from xlbench.system import files, logs, untrusted
from xlbench.system.errors import UserError, located
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


class Trackers:
    """The trackers of one run, which begin with the first row; `check` was called for each name.

    Attributes:
      step: that the run goes on from, see `Run`.
    """

    def __init__(self, names: Sequence[str], workdir: str, config: Mapping[str, Json]):
        self._classes = {name: find(name) for name in names}
        self._run = Run(workdir, config)
        self._workers: list[_Worker] | None = None
        self._notes: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._identities: dict[str, str] | None = None
        self._writing = threading.Lock()
        self.step = 0

    def write(self, step: int, scalars: Mapping[str, float], samples: Samples) -> None:
        """Hands a row to each tracker, and waits for none of them; see `Tracker.write`."""
        if self._workers is None:
            run = dataclasses.replace(self._run, step=self.step)
            self._workers = [
                _Worker(name, kind, run, self._identify, self._notes.put)
                for name, kind in self._classes.items()
            ]
        for worker in self._workers:
            worker.put((step, dict(scalars), samples))

    def notes(self) -> list[str]:
        """Returns what the trackers said since the last call: a run's place, or a failure."""
        said = []
        while not self._notes.empty():
            said.append(self._notes.get())
        return said

    def close(self, finished: bool, say: Callable[[str], None]) -> None:
        """Ends the trackers of a run, finished or not; says what it waits a while for."""
        workers, self._workers = self._workers or [], []
        for worker in workers:
            worker.put(finished)
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
    """Opens the log of a run, with the trackers that its config names; see `logs.Log`.

    A sweep has those of its source model, and a config of an earlier version the default ones.
    """
    names = config.get('source', config).get('trackers', blocks.LATER_KEYS['trackers'])
    trackers = Trackers(names, workdir, blocks.to_dict(config)) if active else None
    return logs.Log(workdir, active=active, trackers=trackers)


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
