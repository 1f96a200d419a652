"""Finds which steps below a workdir are finished, and how long they took.

A finished training or sweep has a file DONE, and a config.json that must be the same. For other
commands, WORKDIR/reproduce/commands/NAME.json holds the command line and the state of their inputs,
so that a command runs again if one of these has changed.
"""

import hashlib
import json
import pathlib
from collections.abc import Mapping, Sequence

import msgspec

from xlbench import config as config_lib
from xlbench.fewshot import workdir as sweep_workdir
from xlbench.reproduce.steps import CONFIGURED, Step, config_of
from xlbench.system import command_line, files

FOLDER = 'reproduce'  # Below the workdir: logs, records, tables, files for a cluster.


class _Record(msgspec.Struct):
    """The stored state of a command; see the module's docstring."""

    command: list[str]
    needs: dict[str, str] = {}
    seconds: float = 0.0
    finished: bool = False
    failed: str = ''


class State:
    """The records of a workdir.

    Args:
        workdir: Of all commands.
        steps: Those that are looked after.
    """

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
        record = self._read(step)
        same = command_line.renewed(record.command) == [step.module, *step.arguments]
        return record.finished and same and record.needs == self._marks(step)

    def seconds(self, step: Step) -> float:
        """How long a step took, as far as it was started from here; 0 if that is not known."""
        return self._read(step).seconds

    def note(self, step: Step, seconds: float, *, finished: bool, failed: str = '') -> None:
        """Keeps what a start of a step came to.

        Args:
            step: That ended.
            seconds: How long it took; starts add up.
            finished: Whether it has its result.
            failed: Why not, if it failed.
        """
        before = self._read(step)
        record = {
            'command': [step.module, *step.arguments],
            'needs': self._marks(step),
            'seconds': round(before.seconds + seconds, 1),
            'finished': finished,
            'failed': failed,
        }
        path = self._path(step)
        path.parent.mkdir(parents=True, exist_ok=True)
        files.write(path, json.dumps(record, indent=1) + '\n')

    def failure(self, step: Step) -> str:
        """Why its last start failed; '' if it did not."""
        return self._read(step).failed

    def _path(self, step: Step) -> pathlib.Path:
        return self.folder / 'commands' / f'{step.name}.json'

    def _read(self, step: Step) -> _Record:
        path = self._path(step)
        return files.read_json(path, _Record) if path.is_file() else _Record([])

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
        check = sweep_workdir.check_workdir if is_sweep else config_lib.check_workdir
        if not check(folder, config) or not (step.folder / 'DONE').is_file():
            return False
        if not is_sweep:
            return True
        # It loads jax, which nothing else here needs; a sweep may have been asked for more.
        from xlbench.fewshot import settings, sweep

        return sweep.is_finished(folder, config.task, settings.Adapt(**config.adapt.to_dict()))

