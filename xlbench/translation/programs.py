"""Engines that are programs of this machine: a line in, a line out."""

import contextlib
import functools
import itertools
import os
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence

from xlbench import benchmarks
from xlbench.system import errors
from xlbench.system.errors import UserError
from xlbench.translation import engines
from xlbench.translation.engines import Failure, Refused

# Whatever a program may take for the end of a line, and NUL, which ends a text for Apertium.
_LINE_ENDS = re.compile('[\0\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]+')
_BATCH = 256  # Texts: a program starts anew for each batch, which takes Apertium about a second.
_MOST_BYTES = 1 << 26  # That a program may write for a batch.
_LOOK = 0.05  # Seconds between looks at what it has written.


class Program:
    """A command that reads a text a line and writes a translation a line.

    Args:
      command: program and arguments, as a shell reads them; {source} and {target} stand for the
        codes of the languages. No shell runs it.
      version: part of the identity.
      timeout: seconds for a batch.
    """

    batch_size = _BATCH
    num_cut = 0
    _end = '\n'  # Stands behind each text, and each translation.

    def __init__(self, command: str, *, version: str = '', timeout: float = 600.0):
        self.name = f'command:{command}'
        self._command, self._version = command, version
        self._halving = engines.Halving(self.name, timeout, self.batch_size)

    def check(self, source: str, target: str) -> None:
        """Raises UserError if there is no such program."""
        words = self._words(source, target)
        if not words:
            raise UserError('the engine command: names no program; write command:PROGRAM ARGUMENTS')
        if not shutil.which(words[0]):
            raise UserError(f'there is no program {words[0]!r}; install it, or give its path')

    def identity(self, source: str, target: str) -> str:
        """The command, the version that the user gave, and the languages."""
        version = f' version {self._version}' if self._version else ''
        return f'{shlex.join(self._words(source, target))}{version} {source}-{target}'

    def translate(self, texts: Sequence[str], source: str, target: str) -> Sequence[str | Failure]:
        """See Engine.translate; a batch that breaks the program is halved down to the text."""
        words = self._words(source, target)
        lines = [_LINE_ENDS.sub(' ', text) for text in texts]
        run = functools.partial(self._run, words)
        return self._halving.ask(run, lines, words[0])

    def _words(self, source: str, target: str) -> list[str]:
        try:
            words = shlex.split(self._command)
            return [word.format(source=source, target=target) for word in words]
        except (ValueError, KeyError, IndexError) as error:
            raise UserError(
                f'the command {self._command!r} cannot be read: {error}; quotes come in pairs, and '
                'only {source} and {target} are allowed in braces'
            ) from None

    def _run(self, words: Sequence[str], lines: Sequence[str], seconds: float) -> list[str]:
        text = ''.join(line + self._end for line in lines)
        returncode, answer, complaint = _exchange(words, text.encode(), seconds)
        if returncode:
            said = complaint.decode(errors='replace').strip().rpartition('\n')[2]
            why = f': {errors.printable(said)}' if said else ''
            raise Refused(f'ended with {returncode}{why}')
        try:
            answers = answer.decode().removesuffix(self._end).split(self._end)
        except UnicodeDecodeError:
            raise Refused('wrote something that is not UTF-8') from None
        if len(answers) != len(lines):
            raise Refused(f'wrote {len(answers)} lines for {len(lines)}')
        return answers


def _exchange(words: Sequence[str], text: bytes, seconds: float) -> tuple[int, bytes, bytes]:
    """Runs a program: its exit code, what it wrote and its complaint.

    Raises:
      Refused: it cannot be run, takes too long, or writes too much.
    """
    deadline = time.monotonic() + seconds
    with contextlib.ExitStack() as stack:
        # Files, so that neither side waits for the other.
        source, answer, complaint = (
            stack.enter_context(tempfile.TemporaryFile()) for _ in range(3)
        )
        source.write(text)
        source.seek(0)
        try:
            process = subprocess.Popen(
                words, stdin=source, stdout=answer, stderr=complaint, process_group=0
            )
        except OSError as error:
            raise Refused(f'cannot be run: {error.strerror}') from None
        try:
            while process.poll() is None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(_LOOK)
                if any(os.fstat(f.fileno()).st_size > _MOST_BYTES for f in (answer, complaint)):
                    raise Refused(f'wrote more than {_MOST_BYTES:,} bytes')
                if process.returncode is None and time.monotonic() > deadline:
                    raise Refused(f'took more than {seconds:g} s')
        finally:
            # Ends the children that the program left running, too; its group may be gone.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        for file in (answer, complaint):
            file.seek(0)
        return process.returncode, answer.read(), complaint.read(1 << 20)


class Apertium(Program):
    """Apertium (https://apertium.org) as Debian packages it: apertium and its pairs of languages.

    Words that it does not know stay as they are, without its mark.
    """

    # A text is a paragraph: Apertium reads sentences across single line ends, and its own format of
    # lines (-f line, 3.8) loses the full stop at their ends.
    _end = '\n\n'

    def __init__(self, *, timeout: float = 600.0):
        super().__init__('apertium -u', timeout=timeout)
        self.name = 'apertium'

    def check(self, source: str, target: str) -> None:
        """Raises UserError if Apertium or this pair is not installed."""
        if not shutil.which('apertium'):
            raise UserError(
                'Apertium is not installed: apt-get install apertium, and its pairs of languages, '
                'such as apertium-eng-spa'
            )
        self._mode(source, target)

    def identity(self, source: str, target: str) -> str:
        """Apertium's version, the pair, and the version of the pair's package if dpkg knows it."""
        mode = self._mode(source, target)
        return f'{_output("apertium", "-V").strip()} {mode}{_package_version(mode)} -u'

    def _words(self, source: str, target: str) -> list[str]:
        return [*super()._words(source, target), self._mode(source, target)]

    def _run(self, words: Sequence[str], lines: Sequence[str], seconds: float) -> list[str]:
        return [answer.strip() for answer in super()._run(words, lines, seconds)]

    def _mode(self, source: str, target: str) -> str:
        """The name of the pair, whose codes have two letters in old pairs and three in new ones."""
        pairs = _output('apertium', '-l').split()
        codes = ((benchmarks.languages.get(code).alpha3, code) for code in (source, target))
        for mode in map('-'.join, itertools.product(*codes)):
            if mode in pairs:
                return mode
        raise UserError(
            f'Apertium has no pair {source}-{target}; installed: {", ".join(sorted(pairs))}. '
            'apt-cache search apertium- lists the others'
        )


def _output(*words: str) -> str:
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    return done.stdout


def _package_version(mode: str) -> str:
    if not shutil.which('dpkg-query'):
        return ''
    left, _, right = mode.partition('-')
    for name in (f'apertium-{left}-{right}', f'apertium-{right}-{left}'):
        if version := _output('dpkg-query', '-W', '-f=${Version}', name):
            return f' {version}'
    return ''
