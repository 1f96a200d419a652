"""The cost of a run: how long processes worked for it, and on which machine, in sessions.jsonl.

A session is one process from its start to its end; a run that was interrupted and went on has
several. A workdir's config.json says what the run is, and its sessions change nothing in it.

  {"began": "2026-01-05T10:00:00Z", "wall_seconds": 1234.5, "processor_seconds": 2345.6, ...}
"""

import contextlib
import datetime
import os
import pathlib
import sys
import threading
import time
from typing import Self

import msgspec

from xlbench.system import errors, files, machine, untrusted

FILE = 'sessions.jsonl'
# A session that is killed loses the time since it was last written down.
_EVERY = 60.0  # Seconds.


class Session(msgspec.Struct):
    """One process that worked for a run; of several processes the first one."""

    began: str  # In UTC.
    wall_seconds: float  # From its start to its end, or to when it was last heard of.
    processor_seconds: float  # Of all cores, with the processes that it started and waited for.
    processor: str = ''  # Its name; '' where the machine does not say.
    cores: int = 0  # That it may use.
    memory_bytes: int | None = None  # That it may use; None where that is not known.
    peak_bytes: int | None = None  # The most that it has had in use; None likewise.
    devices: str = ''  # That the arrays are on, in words.
    processes: int = 1  # Of the run.
    command: list[str] = []  # What was typed: the program and its arguments.


class Recorder(contextlib.AbstractContextManager):
    """Records the session in a `with` block, however that ends; its time begins here.

    The caller holds the workdir's lock. In all processes of a run but the first, `active` is False
    and nothing is written.
    """

    def __init__(self, workdir: str | os.PathLike, *, active: bool = True):
        self._folder, self._active = pathlib.Path(workdir), active
        self._session = Session(
            began=f'{datetime.datetime.now(datetime.UTC):%Y-%m-%dT%H:%M:%SZ}',
            wall_seconds=0.0,
            processor_seconds=0.0,
            processor=machine.processor(),
            cores=machine.cores(),
            memory_bytes=machine.memory(),
            command=list(sys.argv),
        )
        # Processor seconds are this process's and its finished children's.
        self._wall, self._processor = time.monotonic(), sum(os.times()[:4])
        self._before: bytes | None = None  # What is in the file; None until the session has begun.
        self._ended = threading.Event()
        self._writer = threading.Thread(target=self._write_again, name='sessions', daemon=True)

    def __enter__(self) -> Self:
        self._writer.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._ended.set()
        self._writer.join()
        # What went wrong first matters.
        with contextlib.suppress(OSError, errors.UserError) if kind else contextlib.nullcontext():
            self._write()

    def begin(self, devices: str, processes: int = 1) -> None:
        """Writes the session for the first time, now that the workdir is this run's own.

        Raises:
          UserError: the file is a link that leads out of the workdir, or no file.
          OSError: it cannot be written.
        """
        if self._active:
            self._session.devices, self._session.processes = devices, processes
            there = untrusted.file(self._folder, FILE)
            before = untrusted.read_bytes(there, untrusted.CONFIG_BYTES) if there else b''
            self._before = before + b'\n' * bool(before and not before.endswith(b'\n'))
            self._write()

    def _write(self) -> None:
        """Writes the session behind those that were before it, once it has begun."""
        if self._before is None:  # The folder may be another run's.
            return
        session = self._session
        session.wall_seconds = round(time.monotonic() - self._wall, 1)
        session.processor_seconds = round(sum(os.times()[:4]) - self._processor, 1)
        session.peak_bytes = machine.peak_memory()
        files.write(self._folder / FILE, self._before + msgspec.json.encode(session) + b'\n')

    def _write_again(self) -> None:
        while not self._ended.wait(_EVERY):
            with contextlib.suppress(OSError, errors.UserError):  # The end of the block says it.
                self._write()


def read(workdir: str | os.PathLike) -> list[Session]:
    """Reads the sessions of a workdir; none of one that was made before they were recorded.

    Raises:
      UserError: sessions.jsonl is a link that leads out of the workdir, or holds something else.
    """
    path = untrusted.file(workdir, FILE)
    if not path:
        return []
    lines = untrusted.read_bytes(path, untrusted.CONFIG_BYTES).splitlines()
    return [
        files.parse_json(line, Session, f'{path}:{number}') for number, line in enumerate(lines, 1)
    ]
