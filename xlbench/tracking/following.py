"""The trackers of a run, each in a thread of its own: no step waits for a disk or a network.

The workdir's own files are the truth, and a tracker is a copy for people to look at. One that fails
is left out from then on, and the run's log says so once.
"""

import dataclasses
import pathlib
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, NamedTuple

import msgspec
from ml_collections import ConfigDict

from xlbench import files, foreign, logs
from xlbench.config import blocks
from xlbench.errors import located
from xlbench.files import Json
from xlbench.tracking.choosing import find
from xlbench.tracking.contract import Run, Samples, Tracked, Tracker

# Which run of each tracker this workdir is; see `Tracked`.
FILE = 'trackers.json'
# Rows that a tracker may be behind, as while a network is down.
MOST_BEHIND = 20_000
# Seconds that the end of a run waits for what is not sent yet, and those of one that was told to
# end, which may be killed soon.
PATIENCE, HASTE = 60.0, 10.0
_Identity = Annotated[str, msgspec.Meta(pattern=r'^[\w.:/-]{0,200}$')]


class _Row(NamedTuple):
    step: int
    scalars: Mapping[str, float]
    samples: Samples


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
            worker.put(_Row(step, dict(scalars), samples))

    def notes(self) -> list[str]:
        """Returns what the trackers said since the last call: a run's place, or a failure."""
        said = []
        while not self._notes.empty():
            said.append(self._notes.get())
        return said

    def close(self, finished: bool) -> None:
        """Ends the trackers; waits a while for what they have not written yet."""
        workers, self._workers = self._workers or [], []
        for worker in workers:
            worker.end(finished)
        until = time.monotonic() + (PATIENCE if finished else HASTE)
        for worker in workers:
            worker.wait(max(until - time.monotonic(), 0))

    def _identify(self, name: str, identity: str | None = None) -> str:
        """Reads the identity of this run with a tracker; notes it first, if one is given."""
        with self._writing:
            if self._identities is None:
                path = foreign.file(self._run.workdir, FILE)
                self._identities = files.read_json(path, dict[str, _Identity]) if path else {}
            if identity and self._identities.get(name) != identity:
                self._identities[name] = identity
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
        self._name, self._kind, self._run = name, kind, run
        self._identify, self._say = identify, say
        self._rows: queue.Queue[_Row | None] = queue.Queue(MOST_BEHIND)
        self._finished = self._failed = False
        # A daemon: what hangs in a network does not keep the process alive.
        self._thread = threading.Thread(target=self._follow, name=f'tracker {name}', daemon=True)
        self._thread.start()

    def put(self, row: _Row | None) -> None:
        if self._failed:
            return
        try:
            self._rows.put_nowait(row)
        except queue.Full:
            self._fail(f'is more than {MOST_BEHIND:,} rows behind')

    def end(self, finished: bool) -> None:
        self._finished = finished
        self.put(None)

    def wait(self, seconds: float) -> None:
        self._thread.join(seconds)
        if self._thread.is_alive() and not self._failed:
            self._fail('has not sent everything when the run ended')

    def _fail(self, why: str) -> None:
        self._failed = True
        self._say(
            f'the tracker {self._name!r} {why}; it gets no more of this run, whose files have all '
            'of it'
        )

    def _follow(self) -> None:
        """Writes row after row, until there is None or something fails."""
        try:
            tracker = self._kind()
            identity = self._identify(self._name)
            tracked: Tracked = tracker.start(dataclasses.replace(self._run, identity=identity))
            self._identify(self._name, tracked.identity)
            if tracked.place:
                self._say(f'tracked by {self._name}: {tracked.place}')
            while not self._failed and (row := self._rows.get()) is not None:
                tracker.write(*row)
            tracker.close(self._finished)
        except (Exception, SystemExit) as error:  # Whatever another's library raises.
            if not self._failed:
                self._fail(f'has failed: {located(error)}')
