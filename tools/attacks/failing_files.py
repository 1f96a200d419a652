r"""Makes each file operation of every program that writes fail, one at a time, by hand.

  python tools/attacks/failing_files.py                     each place in the code once, two errors
  python tools/attacks/failing_files.py --commands=train,convert --all
  python tools/attacks/failing_files.py --sample=6 --seed=1        as the suite does

The commands are those of commands.py, and `resume`: a run that was ended in the middle goes on. Of
each an undisturbed pass lists the operations: to open a file for reading or writing, read, write,
fsync, rename, make or remove a file or folder, list a folder. Then one of them fails with EIO,
ENOSPC or EACCES, and the command must end in one line (exit code 2 or 75) or go on; started again,
it must end with what the undisturbed one left, and leave nothing else. Without --all an operation
is tried once for each place that it comes from.

What Python does is made to fail, through its audit events and replaced functions. What libraries in
C++ do by themselves is not: tensorstore's arrays of checkpoints, ArrayRecord's and SentencePiece's
files. Full disks of the real kind are in tests/disk_test.py.
"""

import argparse
import builtins
import collections
import contextlib
import dataclasses
import errno
import faulthandler
import io
import os
import pathlib
import random
import re
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import commands  # First: it says how JAX is set.
import jax
import jax.numpy as jnp
import outcome

from xlbench.evaluators import generation
from xlbench.parallel import cluster
from xlbench.training import checkpoints, tracking, train_step

# The errors that an operation is tried with.
ERRORS = {
    'open to write': (errno.ENOSPC, errno.EACCES), 'write': (errno.ENOSPC, errno.EIO),
    'fsync': (errno.EIO, errno.ENOSPC), 'rename': (errno.EACCES, errno.EIO),
    'mkdir': (errno.ENOSPC, errno.EACCES), 'remove': (errno.EACCES, errno.EIO),
    'list': (errno.EACCES, errno.EIO), 'open to read': (errno.EACCES, errno.EIO),
    'read': (errno.EIO,),
}  # fmt: skip
_EVENTS = {
    'os.rename': 'rename', 'os.mkdir': 'mkdir', 'os.remove': 'remove', 'os.rmdir': 'remove',
    'os.listdir': 'list', 'os.scandir': 'list',
}  # fmt: skip
SECONDS = 150  # After them a command hangs.
_THIS = __file__
_LIBRARY = (os.path.dirname(os.__file__), '<frozen', '<string>')


@dataclasses.dataclass(frozen=True)
class Operation:
    """One kind of it, at one place."""

    what: str  # A key of ERRORS.
    place: str  # The functions that led to it, innermost first.
    path: str  # Below the scratch folder, without numbers.

    def __str__(self) -> str:
        return f'{self.what} {self.path} ({self.place})'


class Faults:
    """Sees the operations on files below a folder, and has one fail."""

    def __init__(self) -> None:
        self.folder = ''
        self.seen: list[Operation] = []  # In order.
        self.struck = False  # Whether it has come to the one that fails.
        self._target: tuple[Operation, int, int] | None = None
        self._counts: collections.Counter[Operation] = collections.Counter()
        self._busy = threading.local()
        sys.addaudithook(self._audit)
        self._open, self._fsync = builtins.open, os.fsync
        builtins.open = io.open = self._opened
        os.fsync = self._synced

    @contextlib.contextmanager
    def watching(
        self, folder: pathlib.Path, target: tuple[Operation, int, int] | None = None
    ) -> Iterator[None]:
        """Inside, operations below the folder are seen.

        The target is an operation, which of its occurrences fails (from 0), and with what errno.
        """
        self.seen, self.struck, self._target = [], False, target
        self._counts.clear()
        self.folder = f'{folder}{os.sep}'
        try:
            yield
        finally:
            self.folder = ''

    def _meets(self, what: str, path: Any) -> None:
        """Raises the error if this is the operation that fails."""
        if not self.folder or getattr(self._busy, 'now', False):
            return
        if not isinstance(path, str | bytes | os.PathLike):
            return
        text = os.path.abspath(os.fsdecode(path))
        if not text.startswith(self.folder):
            return
        self._busy.now = True
        try:
            operation = Operation(what, _place(), _numberless(text[len(self.folder) :]))
            self.seen.append(operation)
            count = self._counts[operation]
            self._counts[operation] += 1
        finally:
            self._busy.now = False
        if self._target is not None and self._target[:2] == (operation, count):
            self.struck = True
            number = self._target[2]
            if what in ('write', 'read', 'fsync'):  # As the system says it, without a name.
                raise OSError(number, os.strerror(number))
            raise OSError(number, os.strerror(number), os.fsdecode(path))

    def _audit(self, event: str, arguments: tuple) -> None:
        if not self.folder:
            return
        if event == 'open':
            path, _, flags = arguments
            if isinstance(flags, int) and not flags & os.O_DIRECTORY:
                writes = flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
                self._meets('open to write' if writes else 'open to read', path)
        elif event in _EVENTS:
            self._meets(_EVENTS[event], arguments[0])

    def _opened(self, file: Any, mode: str = 'r', *args: Any, **options: Any) -> Any:
        opened = self._open(file, mode, *args, **options)
        named = isinstance(file, str | bytes | os.PathLike)
        if not self.folder or not named or _from_library(sys._getframe(1)):
            return opened
        return _File(opened, lambda what: self._meets(what, file))

    def _synced(self, number: Any) -> None:
        if self.folder:
            number = number if isinstance(number, int) else number.fileno()
            try:
                path = os.readlink(f'/proc/self/fd/{number}')
            except OSError:
                path = ''
            self._meets('fsync', path)
        self._fsync(number)


class _File:
    """A file whose reads and writes are operations."""

    def __init__(self, file: Any, meets: Callable[[str], None]):
        self.__dict__.update(_file=file, _meets=meets)

    def write(self, data: Any) -> int:
        self._meets('write')
        return self._file.write(data)

    def writelines(self, lines: Any) -> None:
        self._meets('write')
        self._file.writelines(lines)

    def read(self, *args: Any) -> Any:
        self._meets('read')
        return self._file.read(*args)

    def readline(self, *args: Any) -> Any:
        self._meets('read')
        return self._file.readline(*args)

    def readinto(self, *args: Any) -> Any:
        self._meets('read')
        return self._file.readinto(*args)

    def __iter__(self) -> Iterator[Any]:
        for line in self._file:
            self._meets('read')
            yield line

    def __next__(self) -> Any:
        self._meets('read')
        return next(self._file)

    def __enter__(self) -> '_File':
        self._file.__enter__()
        return self

    def __exit__(self, *error: Any) -> Any:
        return self._file.__exit__(*error)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._file, name, value)


def _from_library(frame: Any) -> bool:
    """Whether a library opens the file that hands it to code in C, which wants a real one."""
    while frame is not None and frame.f_code.co_filename.startswith(_LIBRARY):
        if f'{os.sep}site-packages{os.sep}' in frame.f_code.co_filename:
            break
        frame = frame.f_back
    return frame is None or f'{os.sep}site-packages{os.sep}' in frame.f_code.co_filename


def _place(depth: int = 5) -> str:
    """Where this comes from: ours and packages' functions, innermost first."""
    frame, places = sys._getframe(1), []
    while frame is not None and len(places) < depth:
        name = frame.f_code.co_filename
        if name != _THIS and ('site-packages' in name or not name.startswith(_LIBRARY)):
            places.append(f'{"/".join(pathlib.Path(name).parts[-2:])}:{frame.f_lineno}')
        frame = frame.f_back
    return ' < '.join(places)


def _numberless(path: str) -> str:
    path = re.sub(r'[0-9a-f]{32}', 'HASH', path)
    return re.sub(r'\d+', '#', path)


# ------------------------------------------------------------------------------------- the commands


def _cut_short(scratch: pathlib.Path) -> None:
    """Makes a run that was told to end in its third step, which it has saved."""
    commands.tiny_root(scratch)
    write = tracking.Log.write

    def write_until(log: Any, step: int, *rest: Any) -> None:
        write(log, step, *rest)
        if step == 3:
            raise KeyboardInterrupt

    tracking.Log.write = write_until
    try:
        assert _start(commands.COMMANDS['train'], scratch)[0] == 130
    finally:
        tracking.Log.write = write
    assert checkpoints.steps(str(scratch / 'run'))


_RESUME = dataclasses.replace(commands.COMMANDS['train'], start=_cut_short)
EVERY = commands.COMMANDS | {'resume': _RESUME}


def _keep_programs() -> None:
    """Has every run use what the first one has traced and compiled: all have the same shapes."""
    compiled: dict[Any, Any] = {}
    compile_step, init_params = train_step.TrainStep._compile, train_step.init_params
    init_evaluator = generation.GenerationEvaluator.__init__

    def compile_once(step: Any, state: Any, batch: Any) -> Any:
        key = tuple(value.shape for value in batch.values())
        if key not in compiled:
            compiled[key] = compile_step(step, state, batch)
        return compiled[key]

    def init_once(*args: Any, **options: Any) -> Any:
        if 'params' not in compiled:
            compiled['params'] = init_params(*args, **options)
        return jax.tree.map(jnp.copy, compiled['params'])  # Train steps reuse the memory.

    def init_with_programs(evaluator: Any, *args: Any, **options: Any) -> None:
        init_evaluator(evaluator, *args, **options)
        for name in ('_encode', '_row_losses', '_decode_batch'):
            key = name, str(evaluator._options)
            setattr(evaluator, name, compiled.setdefault(key, getattr(evaluator, name)))

    train_step.TrainStep._compile = compile_once
    train_step.init_params = init_once
    generation.GenerationEvaluator.__init__ = init_with_programs


def _start(command: commands.Command, scratch: pathlib.Path) -> tuple[int, str]:
    """Exit code and what was printed; -1 with a traceback for anything that is no line."""
    said = io.StringIO()
    faulthandler.dump_traceback_later(SECONDS, exit=True)
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            try:
                code = command.run(scratch)
            except BaseException:
                import traceback

                traceback.print_exc()
                code = -1
    finally:
        faulthandler.cancel_dump_traceback_later()
    return code, said.getvalue()


# --------------------------------------------------------------------------------------- the attack


class Attack:
    """All attempts of some commands, each on a scratch folder of its own."""

    def __init__(self, folder: pathlib.Path):
        self.folder = folder
        self.faults = Faults()
        self.counts: collections.Counter[str] = collections.Counter()
        self.failures: list[str] = []
        self.scratch = folder / 'scratch'

    def run(self, name: str, choose: Callable[[list], list]) -> None:
        """Attacks one command by those of all attempts that `choose` gives."""
        command = EVERY[name]
        shutil.rmtree(self.scratch, ignore_errors=True)
        self.scratch.mkdir()
        os.environ['XLBENCH_TASKS'] = str(self.scratch / 'tasks')
        if name != 'prepare':
            del os.environ['XLBENCH_TASKS']
        with contextlib.redirect_stdout(io.StringIO()):
            command.prepare(self.scratch)
        start = self.folder / 'before'
        shutil.rmtree(start, ignore_errors=True)
        shutil.copytree(self.scratch, start)
        for _ in range(2):  # The first pass imports modules, and fills caches of programs.
            self._restore(start)
            with self.faults.watching(self.scratch):
                code, said = _start(command, self.scratch)
            assert code == 0, said
        end = outcome.content(self.scratch)
        assert not outcome.leftovers(self.scratch), outcome.leftovers(self.scratch)
        seen = list(self.faults.seen)
        attempts = choose(seen)
        print(
            f'{name}: {len(seen)} operations from {len(set(seen))} places, '
            f'{len(attempts)} attempts',
            flush=True,
        )
        for target in attempts:
            self._attempt(name, start, end, target)

    def _restore(self, start: pathlib.Path) -> None:
        shutil.rmtree(self.scratch)
        shutil.copytree(start, self.scratch)

    def _attempt(
        self,
        name: str,
        start: pathlib.Path,
        end: dict[str, Any],
        target: tuple[Operation, int, int],
    ) -> None:
        command = EVERY[name]
        self._restore(start)
        began = time.monotonic()
        with self.faults.watching(self.scratch, target):
            code, said = _start(command, self.scratch)
        operation, which, number = target
        if not self.faults.struck:
            self.counts[f'{name}: not met again'] += 1
            return
        lines = [line for line in said.splitlines() if line.startswith('error: ')]
        wrong = []
        if 'Traceback' in said or code not in (0, 2, 75):
            wrong.append(f'ended with code {code} and:\n{said[-3000:]}')
        elif code and len(lines) != 1:
            wrong.append(f'said {lines or "nothing"}, code {code}')
        told = os.strerror(number) in said  # A model's card without scores that cannot be read.
        # What cannot be removed stays.
        kept = [f'left behind: {operation.path}']
        kept += [f'{operation.path}: '] if operation.what == 'remove' else []
        found = outcome.faults(end, self.scratch)
        bad = [x for x in found if not _numberless(x).startswith(tuple(kept))]
        if code == 0 and not told and bad:
            wrong.append(f'went on, to another end: {bad}')
        again, words = _start(command, self.scratch)
        if command.once and code == 0:
            pass  # What is there is not written again.
        elif again != 0:
            wrong.append(f'started again, it ended with code {again}: {words[-1500:]}')
        elif bad := outcome.faults(end, self.scratch):
            wrong.append(f'started again, it came to another end: {bad}')
        kind = 'went on' if code == 0 else 'one line'
        self.counts[f'{name}: {kind if not wrong else "WRONG"}'] += 1
        said = f'[{errno.errorcode[number]}, {which}] {operation}'
        if wrong:
            self.failures.append(f'{name}: {said}\n  ' + '\n  '.join(wrong))
            print(f'WRONG {self.failures[-1]}', flush=True)
        elif VERBOSE:
            took = time.monotonic() - began
            print(f'{name}: {took:.1f} s {said}\n  {lines[0] if lines else "went on"}')


def chooser(all_of_them: bool, sample: int, seed: int, match: str) -> Callable[[list], list]:
    """Which attempts are made of the operations that were seen."""

    def choose(seen: list[Operation]) -> list[tuple[Operation, int, int]]:
        counts = collections.Counter(seen)
        attempts = [
            (operation, which, number)
            for operation, count in counts.items()
            for which in (range(count) if all_of_them else (0,))
            for number in ERRORS[operation.what]
            if re.search(match, str(operation))
        ]
        if sample:
            attempts = random.Random(seed).sample(attempts, min(sample, len(attempts)))
        return attempts

    return choose


VERBOSE = False


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--commands', default=','.join(EVERY))
    parser.add_argument('--all', action='store_true', help='each operation, not each place')
    parser.add_argument('--sample', type=int, default=0, help='attempts of each command')
    parser.add_argument('--seed', type=int, default=0)
    parser.add_argument('--match', default='', help='only operations whose words match this')
    parser.add_argument('--verbose', action='store_true')
    args = parser.parse_args()
    global VERBOSE
    VERBOSE = args.verbose
    cluster.keep_programs()
    _keep_programs()
    choose = chooser(args.all, args.sample, args.seed, args.match)
    with tempfile.TemporaryDirectory() as folder:
        attack = Attack(pathlib.Path(folder))
        for name in args.commands.split(','):
            attack.run(name, choose)
    for name, count in sorted(attack.counts.items()):
        print(f'{count:5} {name}')
    print(f'{sum(attack.counts.values())} attempts, {len(attack.failures)} wrong')
    return bool(attack.failures)


if __name__ == '__main__':
    sys.exit(main())
