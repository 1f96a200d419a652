"""An engine of translation for tests: a program that writes texts in upper case.

It notes what it was asked, fails at a text with 'bad' in it, and at the text that WAIT_AT names
('*' is any) hangs for as long as whoever started it is there.
"""

import pathlib
import sys

import pytest

# Writes each line in upper case behind the target language.
_ENGINE = """
import os, sys, time
lines = sys.stdin.buffer.read().decode().split('\\n')[:-1]
with open(os.environ['ASKED'], 'a') as file:
    file.writelines(f'{line}\\n' for line in lines)
if any('bad' in line for line in lines):
    sys.exit('no idea')
parent = os.getppid()
while os.environ.get('WAIT_AT') in (*lines, '*') and os.getppid() == parent:
    time.sleep(0.1)
for line in lines:
    print(f'{sys.argv[1]}:{line.upper()}')
"""


def write(folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Writes the program into a folder; returns the engine's name."""
    path = folder / 'engine.py'
    path.write_text(_ENGINE)
    monkeypatch.setenv('ASKED', str(folder / 'asked'))
    return f'command:{sys.executable} {path} {{target}}'


def asked(folder: pathlib.Path) -> list[str]:
    """The texts that the program in a folder was asked so far."""
    path = folder / 'asked'
    return path.read_text().split('\n')[:-1] if path.exists() else []
