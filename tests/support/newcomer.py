"""A newcomer's machine: a fresh clone of the project, and an empty folder beside it to work in."""

import os
import pathlib
import subprocess

import quick_compilation
import warm

PROJECT = pathlib.Path(__file__).parents[2]


class Newcomer:
    """Runs commands as somebody would who has just installed the project.

    Attributes:
      clone: the tracked files of the project, and nothing else.
      home: where commands run; empty at first.
    """

    def __init__(self, folder: pathlib.Path):
        self.clone, self.home = folder / 'xlbench', folder / 'home'
        self.clone.mkdir()
        self.home.mkdir()
        names = subprocess.run(
            ['git', 'ls-files', '-z'], cwd=PROJECT, capture_output=True, check=True
        ).stdout
        subprocess.run(
            ['xargs', '-0', 'cp', '--parents', '-t', str(self.clone)],
            cwd=PROJECT,
            input=names,
            check=True,
        )
        programs = folder / 'bin'
        programs.mkdir()
        (programs / 'python').write_text(f'#!/bin/sh\nexec {warm.python()} "$@"\n')
        (programs / 'python').chmod(0o755)
        self._environ = {k: v for k, v in os.environ.items() if not k.startswith('XLBENCH_')} | {
            'PATH': f'{programs}:{os.environ["PATH"]}',
            'PYTHONPATH': str(self.clone),  # In place of the installation of this very project.
            'HF_HUB_OFFLINE': '1',
            'XLA_FLAGS': quick_compilation.xla_flags(),
        }

    def run(self, command: str, cwd: pathlib.Path | None = None, code: int = 0, **environ) -> str:
        """What a command of bash prints, messages behind it; see `_run`."""
        done = self._run(command, cwd, code, environ)
        return done.stdout + done.stderr

    def answers(self, command: str) -> str:
        """What a command of bash prints, without messages."""
        return self._run(command, None, 0, {}).stdout

    def _run(self, command, cwd, code, environ) -> subprocess.CompletedProcess:
        """Runs a command as one would type it, by default at home.

        Raises:
          AssertionError: it ended with another code, or with a stack trace.
        """
        done = subprocess.run(
            ['bash', '-c', f'set -euo pipefail\n{command}'],
            cwd=cwd or self.home,
            env=self._environ | environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
        said = f'{command}\nended with {done.returncode}:\n{done.stdout}\n{done.stderr}'
        assert done.returncode == code, said
        assert 'Traceback (most recent call last)' not in said, said
        return done

    def write(self, path: str, text: str) -> pathlib.Path:
        """Writes a file below home."""
        file = self.home / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding='utf-8')
        return file
