r"""Kills commands with SIGKILL at random moments, two starts at once among them, by hand.

  python tools/attacks/kills.py                                     some 600 kills over all commands
  python tools/attacks/kills.py --commands=report,train --kills=20 --seed=3

A chain is: a fresh folder, one to four starts that are killed, then the same command to its end.
After it the folder must hold what an undisturbed command leaves, and nothing else. In every fourth
start the command is started twice: one of the two is killed, the other one must end as if it were
alone, or be told that the place is in use.

Each start is a fork of a process that has imported the program and has not used it yet, so that
kills hit the work of a command and not its imports. In every other kill the whole process group is
killed, as a machine that goes down does it, otherwise the one process.
"""

import argparse
import collections
import importlib
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import outcome
from commands import COMMANDS, Command

SECONDS = 400  # After them a start hangs.


class Start:
    """One start of a command, in a fork of this process."""

    def __init__(self, command: Command, scratch: pathlib.Path, log: pathlib.Path):
        self.log = log
        self._code: int | None = None
        self._ends = time.monotonic() + SECONDS
        self.pid = os.fork()
        if not self.pid:
            code = 70
            try:
                code = _work(command, scratch, log)
            finally:
                os._exit(code)

    def poll(self) -> int | None:
        """The exit code, of a signal a negative one; None while it runs."""
        if self._code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self._code = os.waitstatus_to_exitcode(status)
            elif time.monotonic() > self._ends:
                raise TimeoutError(f'still runs after {SECONDS} s:\n{self.said()}')
        return self._code

    def wait(self) -> int:
        """The exit code."""
        while (code := self.poll()) is None:
            time.sleep(0.01)
        return code

    def kill(self, group: bool) -> bool:
        """Kills it, or all of its group; whether it was still there."""
        if self.poll() is not None:
            return False
        try:
            (os.killpg if group else os.kill)(self.pid, signal.SIGKILL)
        except ProcessLookupError:  # It has not made its group yet.
            os.kill(self.pid, signal.SIGKILL)
        return self.wait() == -signal.SIGKILL

    def said(self) -> str:
        """The end of what it has printed."""
        return self.log.read_text(encoding='utf-8', errors='replace')[-2500:]


def _work(command: Command, scratch: pathlib.Path, log: pathlib.Path) -> int:
    """In the child: the program, as if it were started by itself."""
    os.setsid()
    number = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(number, 1)
    os.dup2(number, 2)
    os.chdir(scratch)
    try:
        return command.run(scratch)
    except BaseException:
        import traceback

        traceback.print_exc()
        return 71


class Campaign:
    """The kills of one command: how often what happened, and what may not happen, in words."""

    def __init__(self, name: str, folder: pathlib.Path, seed: int):
        self.name, self.command = name, COMMANDS[name]
        self.random = random.Random(f'{seed} {name}')
        self.counts: collections.Counter[str] = collections.Counter()
        self.wrong: list[str] = []
        self._folder, self.scratch = folder, folder / 'scratch'
        self._logs = 0
        self.scratch.mkdir(parents=True)
        making = os.fork()
        if not making:
            code = 1
            try:
                self.command.prepare(self.scratch)
                code = 0
            finally:
                os._exit(code)
        assert os.waitpid(making, 0)[1] == 0, 'cannot make what the command starts from'
        shutil.copytree(self.scratch, folder / 'before')
        importlib.import_module(self.command.module)
        # Its first run fills caches of compiled programs.
        for _ in range(2):
            self._restore()
            began = time.monotonic()
            start = self._start()
            assert start.wait() == 0, start.said()
            self.seconds = time.monotonic() - began
        self.end = outcome.content(self.scratch)
        assert not outcome.leftovers(self.scratch), outcome.leftovers(self.scratch)

    def _restore(self) -> None:
        shutil.rmtree(self.scratch, ignore_errors=True)
        shutil.copytree(self._folder / 'before', self.scratch)

    def _start(self) -> Start:
        self._logs += 1
        return Start(self.command, self.scratch, self._folder / f'log-{self._logs}.txt')

    def chain(self) -> None:
        """Some starts that are killed, and the command to its end."""
        self._restore()
        done = False
        for _ in range(self.random.randint(1, 4)):
            if done := self._killed():
                break
        if not done or not self.command.once:
            start = self._start()
            if start.wait() != 0 and not self._exists(start):  # Killed when all was there.
                self._note(f'the last start ended with {start.poll()}', start)
                return
        if bad := outcome.faults(self.end, self.scratch):
            self._note(f'another end: {bad[:5]}')
        self.counts['chains'] += 1

    def _killed(self) -> bool:
        """Starts it, once or twice, and kills one; whether one has come to its end."""
        twice = self.random.random() < 0.25
        starts = [self._start()]
        until = time.monotonic() + self.random.uniform(0, self.seconds)
        if twice:
            self.counts['two starts at once'] += 1
            time.sleep(self.random.uniform(0, min(0.2, self.seconds / 4)))
            starts.append(self._start())
        time.sleep(max(0.0, until - time.monotonic()))
        victim = starts.pop(self.random.randrange(len(starts)))
        if victim.kill(group=self.random.random() < 0.5):
            self.counts['kills'] += 1
        elif victim.poll() != 0:
            starts.append(victim)
        done = victim.poll() == 0
        for other in starts:
            code = other.wait()
            refused = code == 2 and (' is in use by ' in other.said())
            exists = self._exists(other)
            if refused:
                self.counts['told that it is in use'] += 1
            elif code != 0 and not exists:
                self._note(f'a start beside a killed one ended with {code}', other)
            done |= code == 0 or exists
        return done

    def _exists(self, start: Start) -> bool:
        """Whether a command that writes over nothing has found that all is done."""
        return self.command.once and start.poll() == 2 and ' exists already' in start.said()

    def _note(self, line: str, start: Start | None = None) -> None:
        self.wrong.append(f'{self.name}: {line}' + (f'\n{start.said()}' if start else ''))
        print(f'WRONG {self.wrong[-1]}', flush=True)


def run(name: str, kills: int, seed: int, until: float) -> int:
    """Runs chains of one command up to a number of kills, and counts the faults."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ['XLBENCH_TASKS'] = f'{folder}/scratch/tasks'
        if name != 'prepare':
            del os.environ['XLBENCH_TASKS']
        campaign = Campaign(name, pathlib.Path(folder), seed)
        while campaign.counts['kills'] < kills and time.time() < until:
            campaign.chain()
        said = ', '.join(f'{count} {what}' for what, count in sorted(campaign.counts.items()))
        print(f'{name} ({campaign.seconds:.1f} s alone): {said}, {len(campaign.wrong)} wrong')
        sys.stdout.flush()
        return len(campaign.wrong)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--commands', default=','.join(COMMANDS))
    parser.add_argument('--kills', type=int, default=0, help='of each command; default: 600 in all')
    parser.add_argument('--seed', type=int, default=0)
    parser.add_argument('--minutes', type=float, default=600, help='then the rest is left out')
    args = parser.parse_args()
    names = args.commands.split(',')
    until = time.time() + 60 * args.minutes
    if len(names) == 1:
        kills = args.kills or COMMANDS[names[0]].kills
        return bool(run(names[0], kills, args.seed, until))
    codes = []
    for name in names:  # Each in a process of its own, which imports one program.
        left = max(0.0, (until - time.time()) / 60)
        flags = [f'--kills={args.kills}', f'--seed={args.seed}', f'--minutes={left}']
        command = [sys.executable, __file__, f'--commands={name}', *flags]
        codes.append(subprocess.run(command, check=False).returncode)
    return max(codes)


if __name__ == '__main__':
    sys.exit(main())
