"""A newcomer's machine: a fresh clone of the project, and an empty folder beside it to work in."""

import os
import pathlib
import subprocess

import quick_compilation
import warm

PROJECT = pathlib.Path(__file__).parents[2]


class Home:
    """Runs commands in an empty folder, `home`, in which nothing of this environment is set."""

    def __init__(self, folder: pathlib.Path, programs: pathlib.Path, **environ: str):
        self.home = folder / 'home'
        self.home.mkdir()
        ours = ('XLBENCH_', 'PYTHONPATH', 'VIRTUAL_ENV')
        self._environ = {k: v for k, v in os.environ.items() if not k.startswith(ours)} | {
            'PATH': f'{programs}:{os.environ["PATH"]}',
            'HF_HUB_OFFLINE': '1',
            'XLA_FLAGS': quick_compilation.xla_flags(),
            **environ,
        }

    def run(self, command: str, cwd: pathlib.Path | None = None, code: int = 0, **environ) -> str:
        """What a command of bash prints, messages behind it; see `_run`."""
        done = self._run(command, cwd, code, environ)
        return done.stdout + done.stderr

    def answers(self, command: str) -> str:
        """What a command of bash prints, without messages."""
        return self._run(command, None, 0, {}).stdout

    def _run(self, command, cwd, code, environ) -> subprocess.CompletedProcess:
        """Runs a command as one would type it, by default at home; no trace may be printed."""
        done = subprocess.run(
            ['bash', '-c', f'set -euo pipefail\n{command}'], cwd=cwd or self.home,
            env=self._environ | environ, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=900, check=False,
        )  # fmt: skip
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


class Newcomer(Home):
    """Somebody who has just installed the project from a clone: its tracked files, nothing else."""

    def __init__(self, folder: pathlib.Path):
        self.clone, programs = folder / 'xlbench', folder / 'bin'
        # In place of the installation of this very project.
        super().__init__(folder, programs, PYTHONPATH=str(self.clone))
        self.clone.mkdir()
        listed = ['git', 'ls-files', '-z']
        names = subprocess.run(listed, cwd=PROJECT, capture_output=True, check=True).stdout
        copy = ['xargs', '-0', 'cp', '--parents', '-t', str(self.clone)]
        subprocess.run(copy, cwd=PROJECT, input=names, check=True)
        programs.mkdir()
        (programs / 'python').write_text(f'#!/bin/sh\nexec {warm.python()} "$@"\n')
        (programs / 'python').chmod(0o755)
