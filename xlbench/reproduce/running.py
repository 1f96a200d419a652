"""Runs steps one after another, each as a child process of its ordinary command; what is done.

A finished training or sweep has a file DONE, and a config.json that must be the same. For other
commands, WORKDIR/reproduce/commands/NAME.json holds the command line and the state of their inputs,
so that a command runs again if one of these has changed.

The output of a step goes to WORKDIR/reproduce/logs/NAME.log. A step that fails does not stop those
that do not need it. Ctrl-C, SIGTERM and SIGHUP are passed on to the child, which saves its state.
If this process is killed, the child goes on by itself, and holds the lock of what it writes.
"""

import hashlib
import json
import pathlib
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from types import FrameType

import msgspec

from xlbench import config as config_lib
from xlbench.fewshot import command as sweep_command
from xlbench.reproduce.steps import CONFIGURED, Step, config_of
from xlbench.system import command_line, files
from xlbench.system.errors import UserError, printable

AGAIN = 75  # The exit code of a command that is to be started again; see xlbench/parallel/.
_STARTS = 5  # Of one step, where each ends with that code.
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

FOLDER = 'reproduce'  # Below the workdir: logs, records, tables, files for a cluster.


class Record(msgspec.Struct):
    """The stored state of a command; see the top of this file.

    It has the hash of the state of every step that it needs, the seconds of all starts from here,
    and why the last start `failed`.
    """

    command: list[str]
    needs: dict[str, str] = {}
    seconds: float = 0.0
    finished: bool = False
    failed: str = ''


class State:
    """The records of the steps of a workdir."""

    def __init__(self, workdir: str, steps: Sequence[Step]):
        self.folder = pathlib.Path(workdir) / FOLDER
        self.steps: Mapping[str, Step] = {step.name: step for step in steps}

    def log(self, step: Step) -> pathlib.Path:
        """The file of what a step prints."""
        return self.folder / 'logs' / f'{step.name}.log'

    def is_done(self, step: Step) -> bool:
        """Says whether a step has its result; UserError if its workdir is another config's."""
        if step.missing:
            return False
        if step.command.program in CONFIGURED:
            return self._has_run(step)
        if step.output is not None and step.output.exists():  # Whoever made it.
            return True
        record = self.record(step)
        same = command_line.renewed(record.command) == [step.module, *step.arguments]
        return record.finished and same and record.needs == self._marks(step)

    def record(self, step: Step) -> Record:
        """The record of its starts from here; an empty one if there is none."""
        path = self._path(step)
        return files.read_json(path, Record) if path.is_file() else Record([])

    def note(self, step: Step, seconds: float, *, finished: bool, failed: str = '') -> None:
        """Stores how a start of a step ended, and adds its seconds to those of earlier starts."""
        before = self.record(step)
        line, needs = [step.module, *step.arguments], self._marks(step)
        record = Record(line, needs, round(before.seconds + seconds, 1), finished, failed)
        path = self._path(step)
        path.parent.mkdir(parents=True, exist_ok=True)
        files.write(path, json.dumps(msgspec.structs.asdict(record), indent=1) + '\n')

    def _path(self, step: Step) -> pathlib.Path:
        return self.folder / 'commands' / f'{step.name}.json'

    def _marks(self, step: Step) -> dict[str, str]:
        """A hash of the state of everything that a step needs."""
        return {name: self._mark(self.steps[name]) for name in step.needs}

    def _mark(self, step: Step) -> str:
        paths = [self._path(step)]
        if step.command.program in CONFIGURED:
            paths = [step.folder / 'config.json', step.folder / 'DONE']
        said = b''.join(path.read_bytes() for path in paths if path.is_file())
        return hashlib.sha256(said).hexdigest()

    def _has_run(self, step: Step) -> bool:
        config, folder = config_of(step.arguments), str(step.folder)
        is_sweep = step.command.program == 'fewshot'
        check = sweep_command.check_workdir if is_sweep else config_lib.check_workdir
        if not check(folder, config) or not (step.folder / 'DONE').is_file():
            return False
        if not is_sweep:
            return True
        # It loads jax, which nothing else here needs; a sweep may have been asked for more.
        from xlbench.fewshot import settings, sweep

        return sweep.is_finished(folder, config.task, settings.Adapt(**config.adapt.to_dict()))


class Interrupted(UserError):
    """The process was told to end; the same command goes on."""

    exit_code = AGAIN


def run(steps: Sequence[Step], state: State, say: Callable[[str], None]) -> dict[str, str]:
    """Runs every step that is not done, in their order, each as a child process.

    Returns:
      Name of a step -> why it has no result, for those that have none.

    Raises:
      Interrupted: the process was told to end.
    """
    gaps: dict[str, str] = {}
    for number, step in enumerate(steps, 1):
        place = f'{number}/{len(steps)} {step.name}'
        kind, reason = standing(step, state, gaps)
        if kind == 'refused':
            say(f'{place}: {reason}')
        if kind != 'to do':
            continue
        say(f'{place}: started, prints to {state.log(step)}')
        if failed := _attempts(step, state):
            gaps[step.name] = failed
            say(f'{place}: failed: {failed}')
        else:
            say(f'{place}: finished')
    return gaps


def standing(step: Step, state: State, gaps: dict[str, str]) -> tuple[str, str]:
    """Says of a step 'done' or 'to do'; or 'cannot be run' or 'refused', and why.

    The reason is its own, or that of a step that it needs; it is put into `gaps`.
    """
    lost = [name for name in step.needs if name in gaps]
    kind, reason = 'cannot be run', step.missing
    if lost and not reason:
        reason = f'it needs {lost[0]}: {gaps[lost[0]]}'
    if not reason:
        try:
            return 'done' if state.is_done(step) else 'to do', ''
        except UserError as error:  # Its workdir is of another config.
            kind, reason = 'refused', str(error)
    gaps[step.name] = reason
    return kind, reason


def _attempts(step: Step, state: State) -> str:
    """Starts a step until it is finished; says why not, or ''."""
    for _ in range(_STARTS):
        begun = time.monotonic()
        log = state.log(step)
        log.parent.mkdir(parents=True, exist_ok=True)
        try:
            code = start(step, log)
        except Interrupted:
            state.note(step, time.monotonic() - begun, finished=False)
            raise
        failed = '' if code == 0 else _what_went_wrong(code, log)
        state.note(step, time.monotonic() - begun, finished=code == 0, failed=failed)
        if code != AGAIN:
            return failed
    return f'{failed} ({_STARTS} starts)'


def _what_went_wrong(code: int, log: pathlib.Path) -> str:
    if code < 0:  # The system kills whoever takes too much memory.
        name = signal.Signals(-code).name
        return f'it was ended by {name}, sent by another program or because memory ran out'
    return last_line(log) or f'it ended with code {code}'


def start(step: Step, log: pathlib.Path) -> int:
    """Runs a step's command as a child process, and hands on what tells this one to end.

    Raises:
      Interrupted: it was told to end, and so was the child, which has ended.
    """
    line = [sys.executable, '-m', step.module, *step.arguments]
    signals: list[int] = []
    with log.open('ab') as file:
        file.write(f'$ python -m {step.module} {shlex.join(step.arguments)}\n'.encode())
        file.flush()
        # In a group of its own, so that Ctrl-C reaches it through us, and once.
        child = subprocess.Popen(
            line, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip

        def tell(number: int, frame: FrameType | None) -> None:
            del frame
            signals.append(number)
            # The first lets it save what it has.
            child.send_signal(signal.SIGTERM if len(signals) == 1 else signal.SIGKILL)

        before = {number: signal.signal(number, tell) for number in _SIGNALS}
        try:
            code = child.wait()
        finally:
            for number, old in before.items():
                signal.signal(number, old)
    if signals:
        name = signal.Signals(signals[0]).name
        raise Interrupted(f'{name}: {step.name} was stopped; the same command continues from there')
    return code


def last_line(log: pathlib.Path) -> str:
    """The last line of a log, which says what went wrong: 'error: ...'."""
    with log.open('rb') as file:
        file.seek(max(0, log.stat().st_size - 8192))
        lines = file.read().decode(errors='replace').splitlines()
    said = [line for line in lines if line.strip() and not line.startswith('$ ')]
    return printable(said[-1].removeprefix('error: '), 300) if said else ''
