"""Engines that are not ours: programs of this machine, LibreTranslate servers, files."""

import contextlib
import functools
import itertools
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Mapping, Sequence
from typing import TypeVar

import msgspec

from xlbench import benchmarks
from xlbench.data import outputs, readers
from xlbench.system import errors, web
from xlbench.system.errors import UserError
from xlbench.translate.engines import Failure, Outside, Refused

# Whatever a program may take for the end of a line, and NUL, which ends a text for Apertium.
_LINE_ENDS = re.compile('[\0\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]+')
_MOST_BYTES = 1 << 26  # Of the answer to a batch.
_LOOK = 0.05  # Seconds between looks at what a program has written.
KEY = 'XLBENCH_TRANSLATE_KEY'  # The environment variable of a server's API key.
_PAUSES = (1.0, 4.0, 16.0)  # Seconds before each further try.
_BUSY = (429, 500, 502, 503, 504)  # Status codes that a further try may change.


class Program(Outside):
    """A command that reads a text a line and writes a translation a line.

    It is program and arguments, as a shell reads them, though no shell runs it; {source} and
    {target} stand for the codes of the languages.
    """

    batch_size = 256  # It starts anew for each batch, which takes Apertium about a second.
    _end = '\n'  # Stands behind each text, and each translation.

    def __init__(self, command: str, *, version: str = '', timeout: float = 600.0):
        super().__init__(f'command:{command}', version, timeout)
        self._command = command

    def check(self, source: str, target: str) -> None:
        words = self._words(source, target)
        if not words:
            raise UserError('the engine command: names no program; write command:PROGRAM ARGUMENTS')
        if not shutil.which(words[0]):
            raise UserError(f'there is no program {words[0]!r}; install it, or give its path')

    def identity(self, source: str, target: str) -> str:
        """The command, the version that the user gave, and the languages."""
        return f'{shlex.join(self._words(source, target))}{self._version} {source}-{target}'

    def translate(self, texts: Sequence[str], source: str, target: str) -> Sequence[str | Failure]:
        words = self._words(source, target)
        lines = [_LINE_ENDS.sub(' ', text) for text in texts]
        return self._ask(functools.partial(self._run, words), lines, words[0])

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
        if not shutil.which('apertium'):
            raise UserError(
                'Apertium is not installed: apt-get install apertium, and its pairs of languages, '
                'such as apertium-eng-spa'
            )
        self._mode(source, target)

    def identity(self, source: str, target: str) -> str:
        """Apertium's version, the pair, and the version of the pair's package if dpkg knows it."""
        mode, version = self._mode(source, target), ''
        left, _, right = mode.partition('-')
        names = (f'apertium-{left}-{right}', f'apertium-{right}-{left}')
        if shutil.which('dpkg-query'):
            versions = (_output('dpkg-query', '-W', '-f=${Version}', name) for name in names)
            version = next((f' {found}' for found in versions if found), '')
        return f'{_output("apertium", "-V").strip()} {mode}{version} -u'

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


class _Language(msgspec.Struct):
    code: str
    targets: list[str] = []


class _Translations(msgspec.Struct):
    translatedText: list[str]  # As the server calls it.


class _Complaint(msgspec.Struct):
    error: str | dict[str, object] = ''  # OpenAI's is an object with a message.


T = TypeVar('T')


class LibreTranslate(Outside):
    """A server with LibreTranslate's interface (https://docs.libretranslate.com)."""

    batch_size = 64

    def __init__(self, url: str, *, version: str = '', timeout: float = 600.0):
        super().__init__(url.rstrip('/'), version, timeout)

    def check(self, source: str, target: str) -> None:
        url = self.name
        try:
            known = ask(f'{url}/languages', None, list[_Language], self._timeout)
        except Refused as error:
            raise UserError(f'{url} is not a LibreTranslate server: it {error}') from None
        targets = {language.code: language.targets for language in known}
        errors.check_known(f'source language of {url}', source, targets)
        errors.check_known(f'target language of {url} from {source}', target, targets[source])

    def identity(self, source: str, target: str) -> str:
        """The address, and the version that the user gave."""
        return f'LibreTranslate {self.name}{self._version} {source}-{target}'

    def translate(self, texts: Sequence[str], source: str, target: str) -> Sequence[str | Failure]:
        def run(texts: Sequence[str], seconds: float) -> list[str]:
            body = {'q': list(texts), 'source': source, 'target': target, 'format': 'text'}
            if key := os.environ.get(KEY):
                body['api_key'] = key
            answers = ask(f'{self.name}/translate', body, _Translations, seconds).translatedText
            if len(answers) != len(texts):
                raise Refused(f'gave {len(answers)} translations for {len(texts)} texts')
            return answers

        return self._ask(run, texts, self.name)


def ask(
    address: str,
    body: Mapping[str, object] | None,
    kind: type[T],
    seconds: float,
    *,
    headers: Mapping[str, str] = {},
) -> T:
    """The answer of a server, in JSON; one that is busy or silent is asked again.

    A body is posted as JSON, and an answer must come within the seconds.

    Raises:
      Refused: the server answers, but not with that.
      UserError: it does not answer, however often it is asked.
    """
    data = None if body is None else json.dumps(body).encode()
    known = {'Content-Type': 'application/json', 'Accept': 'application/json'}
    try:
        request = urllib.request.Request(address, data, known | dict(headers))
    except ValueError as error:
        raise UserError(f'{address} is not an address of a server: {error}') from None
    why = ''
    for pause in (0.0, *_PAUSES):
        time.sleep(pause)
        try:
            status, content = web.ask(request, seconds, _MOST_BYTES)
        except OSError as error:
            why = str(getattr(error, 'reason', '') or error)
        else:
            if status in _BUSY:
                why = f'HTTP {status}{_complaint(content)}'
                continue
            if status >= 300:
                raise Refused(f'answered HTTP {status}{_complaint(content)}')
            if len(content) > _MOST_BYTES:
                raise Refused(f'wrote more than {_MOST_BYTES:,} bytes')
            try:
                return msgspec.json.decode(content, type=kind)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
                raise Refused(f'gave an unexpected answer: {error}') from None
    raise UserError(
        f'{address} gave no answer in {1 + len(_PAUSES)} tries: {errors.printable(why)}; start the '
        'server, then the same command again: what it has answered is kept'
    )


def _complaint(content: bytes) -> str:
    """The server's words for an error, after a colon."""
    try:
        error = msgspec.json.decode(content, type=_Complaint).error
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return ''
    said = error.get('message') if isinstance(error, dict) else error
    return f': {errors.printable(str(said))}' if said else ''


class Table:
    """A file of texts and their translations, such as a commercial service gives.

    TSV with two columns, or JSONL with `source` and `translation`, packed (.gz) or not. Of several
    translations of one text the first is taken.
    """

    batch_size = 4096
    num_cut = 0

    def __init__(self, path: str):
        self.name = f'file:{path}'
        self._path = path

    @functools.cached_property
    def _translations(self) -> dict[str, str]:
        fields = ('source', 'translation')
        if self._path.removesuffix('.gz').endswith('.jsonl'):
            records = readers.read_jsonl(self._path, {name: name for name in fields})
        else:
            records = readers.read_tsv(self._path, fields)
        found: dict[str, str] = {}
        for record in readers.good(records):
            found.setdefault(record['source'], record['translation'])
        return found

    def check(self, source: str, target: str) -> None:
        _ = self._translations

    def identity(self, source: str, target: str) -> str:
        """The file's SHA-256: its name and place do not matter."""
        return f'file of SHA-256 {outputs.sha256(self._path)} {source}-{target}'

    def translate(self, texts: Sequence[str], source: str, target: str) -> Sequence[str | Failure]:
        missing = Failure(f'{self._path} has no translation of it')
        return [self._translations.get(text, missing) for text in texts]
