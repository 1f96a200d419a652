"""Errors of a user, a disk or a machine, each said in one plain line."""

import contextlib
import difflib
import errno
import os
import re
import signal
import sys
import traceback
import unicodedata
from collections.abc import Callable, Collection, Iterable, Sequence
from types import FrameType, TracebackType
from typing import NamedTuple

# What a disk or a file system says when it does not do its part, and what helps.
_STORAGE = {
    errno.ENOSPC: 'make room',
    errno.EDQUOT: 'make room',
    errno.EFBIG: 'allow larger files (ulimit -f)',
    errno.EROFS: 'make it writable',
    errno.EACCES: 'make it accessible',
    errno.EPERM: 'make it accessible',
    errno.ENOENT: 'check that the path exists',
    errno.EIO: 'check the disk',
    errno.ESTALE: 'mount it again',
    errno.ENOTDIR: 'a file is where a folder should be, so name another path',
    errno.EISDIR: 'a folder is where a file should be, so name another path',
    errno.EEXIST: 'something of that name is there, so name another path',
    errno.ENAMETOOLONG: 'name a shorter path',
    errno.ELOOP: 'check where its links lead',
    errno.EMFILE: 'allow this process more open files (ulimit -n 4096)',
    errno.ENFILE: 'close other programs, or allow this machine more open files',
}
# Those that say that there is no such file.
_NO_FILE = {
    errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENAMETOOLONG, errno.ELOOP,
}  # fmt: skip
# What jax says when a device has no room.
_FULL_DEVICE = re.compile(
    r'(?=.*(memory|allocat))(RESOURCE_EXHAUSTED|.*(out of memory|OUT_OF_MEMORY))',
    re.DOTALL | re.IGNORECASE,
)
_MORE_MEMORY = 'give it more memory, or take smaller batches or a smaller model'
# Files that a program opens at once: a few hundred, for shards of data and parts of checkpoints.
_OPEN_FILES = 1 << 16


class UserError(Exception):
    """A mistake of the user: one line that says what came, what is allowed, what to try."""

    exit_code = 2  # The program ends with it; xlbench/parallel/cluster.py has a table of them.

    def _render_traceback_(self) -> list[str]:
        """Gives IPython the lines to show in a notebook: the one that a program would print."""
        return [f'error: {self}']


class Unreadable(UserError):
    """A file that is there and may be whole, but the disk or the system does not give it."""


def shortened(value: object, length: int = 80) -> str:
    """Gives a value's repr in one line, cut to a number of characters."""
    text = ' '.join(repr(value).split())
    return text if len(text) <= length else f'{text[: length - 3]}...'


def printable(text: object, length: int = 200) -> str:
    """Gives a library's message about a foreign file in one line, cut to a number of characters.

    It may quote the file, whose characters may steer a terminal; these become question marks.
    """
    line = visible(' '.join(f'{text}'.split())[:length])
    return line if len(line) < length else f'{line[:-3]}...'


def visible(text: str) -> str:
    """Makes question marks of characters that may steer a terminal; line ends and spaces stay."""
    return ''.join(
        c if c.isprintable() or c in '\n\t' or unicodedata.category(c) == 'Zs' else '?'
        for c in text
    )


def unknown(kind: str, name: str, allowed: Iterable[str], hint: str = '') -> UserError:
    """The error for a name that does not exist, with the nearest names that do.

    Example: unknown('task', 'mtg_qg_xx', tasks) ->
      unknown task 'mtg_qg_xx'; nearest: mtg_qg_es, mtg_qg_de
    """
    # Names may be keys of a stranger's file.
    allowed = sorted(f'{name:.80}' for name in allowed)
    near = difflib.get_close_matches(str(name), allowed, n=4, cutoff=0.5)
    if near:
        choice = f'nearest: {", ".join(near)}'
    elif len(all_names := ', '.join(allowed)) <= 300:
        choice = f'allowed: {all_names}'
    else:
        choice = f'allowed: {", ".join(allowed[:4])} and {len(allowed) - 4} more'
    return UserError(f'unknown {kind} {shortened(name)}; {choice}' + (f'. {hint}' if hint else ''))


def check_known(kind: str, name: str, allowed: Collection[str], hint: str = '') -> None:
    """Raises the error of `unknown` unless the name is allowed."""
    if name not in allowed:
        raise unknown(kind, name, allowed, hint)


def check_path(name: str, path: object) -> None:
    """Raises UserError for a path with a scheme, which would become a folder named `gs:` here.

    The path comes from the option `name`; anything but a text passes.
    """
    if isinstance(path, str) and (match := re.match(r'([A-Za-z][\w+.-]*)://', path)):
        raise UserError(
            f'{name}={path} begins with {match[1]}://, and files are read and written on this '
            "machine's own paths alone; mount the bucket (gcsfuse, mountpoint-s3), or name a folder"
        )


class Trouble(NamedTuple):
    """A failure of a disk or a file system, or a shortage."""

    reason: str  # 'No space left on device (PATH)'
    advice: str  # 'make room'
    number: int = 0  # As the module errno has it; 0 if it has none.


def storage_trouble(error: BaseException | None, place: str = '') -> Trouble | None:
    """Finds the failure of a disk or a file system that an error, or its cause, tells of.

    It is an OSError, or what tensorstore raises in its place; None for any other. Where it names no
    path, as a full disk by itself does not, `place` is named.
    """
    if error is None:
        return None
    number, text = 0, ' '.join(f'{error}'.split())
    paths: list[str] = []
    if isinstance(error, OSError) and error.errno in _STORAGE:
        number, named = error.errno, error.filename if error.filename2 is None else error.filename2
        paths = [os.fsdecode(named)] if isinstance(named, str | bytes | os.PathLike) else []
    elif re.match(r'[A-Z_]+: ', text):  # A status of tensorstore.
        number = next((number for number in _STORAGE if os.strerror(number) in text), 0)
        paths = re.findall(r'local (?:file|directory) "([^"]+)"', text)
    if not number:
        return storage_trouble(error.__cause__, place)
    path = paths[-1] if paths else place
    return Trouble(os.strerror(number) + (f' ({path})' if path else ''), _STORAGE[number], number)


def is_withheld(error: BaseException) -> bool:
    """Says whether a file that could not be read may be whole, so that it must not be given up.

    Such a file is there, but a disk, its permissions or a limit on open files keep it back.
    """
    if isinstance(error, Unreadable):
        return True
    trouble = storage_trouble(error)
    return trouble is not None and trouble.number not in _NO_FILE


def shortage(error: BaseException | None) -> Trouble | None:
    """Finds the shortage of memory, threads or processes that an error, or its cause, tells of.

    It is what Python, numpy or jax raise then; None for any other.
    """
    if error is None:
        return None
    said = printable(error)
    if isinstance(error, ImportError):  # A library cannot even be loaded.
        if 'Too many open files' in said:
            return Trouble(f'Too many open files ({said})', _STORAGE[errno.EMFILE])
        if 'failed to map segment' in said or 'annot allocate memory' in said:
            return Trouble(f'out of memory while a library is loaded ({said})', _MORE_MEMORY)
    if isinstance(error, MemoryError) or getattr(error, 'errno', None) == errno.ENOMEM:
        return Trouble(f'out of memory ({said})' if said else 'out of memory', _MORE_MEMORY)
    if isinstance(error, BlockingIOError) or "can't start new thread" in said:
        return Trouble(
            f'no thread or process can be started ({said})',
            'allow more of them (ulimit -u, or the limit of the container) and more memory '
            '(ulimit -v)',
        )
    # jax's own class, without importing jax.
    if type(error).__name__ in ('JaxRuntimeError', 'XlaRuntimeError') and _FULL_DEVICE.match(said):
        return Trouble(f'out of memory on a device ({said})', _MORE_MEMORY)
    return shortage(error.__cause__)


def plain(error: BaseException) -> UserError | None:
    """The error in one line with an exit code; None if only a traceback can explain it."""
    if isinstance(error, UserError):
        return error
    if trouble := storage_trouble(error) or shortage(error):
        return UserError(f'{trouble.reason}; {trouble.advice}, and start the same command again')
    return None


def located(error: BaseException) -> str:
    """Says in one line what foreign code has raised, with the place in it.

    Example: "KeyError: 'titel' (/home/me/tasks/news.py, line 12)"
    """
    said = ' '.join(str(error).split())
    if isinstance(error, SyntaxError):  # It names the place itself.
        return f'{type(error).__name__}: {said}'
    frames = traceback.extract_tb(error.__traceback__)
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    # The last place that is neither ours nor a library's.
    foreign = [
        frame
        for frame in frames
        if not frame.filename.startswith((here, sys.prefix, sys.base_prefix, '<'))
    ]
    place = f' ({foreign[-1].filename}, line {foreign[-1].lineno})' if foreign else ''
    return f'{type(error).__name__}{f": {said}" if said else ""}{place}'


def mistake(error: Exception, path: str, what: str = '') -> UserError:
    """The error for what the code in a user's file has raised, with the line in it.

    Example: '/home/me/tasks/news.py:12: NameError: ...', with `what` before the error's name.
    """
    frames = traceback.extract_tb(error.__traceback__)
    line = next((f.lineno for f in reversed(frames) if f.filename == path), None)
    said = getattr(error, 'message', error)
    if isinstance(error, SyntaxError):
        said, line = error.msg, error.lineno if error.filename == path else line
    kind = '' if isinstance(error, UserError) else f'{type(error).__name__}: '
    place = f'{path}:{line}' if line else path
    return UserError(f'{place}: {what}{kind}{printable(said, 300)}')


def end_on_interrupt() -> None:
    """Makes Ctrl-C end this process with one line at once, until `run_main` takes over.

    For the time of imports, in which an exception would show the code that was being imported.
    The same goes for a machine that has no memory or files left for them.
    """
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # As of what runs in the background.
        signal.signal(signal.SIGINT, _end)
    sys.excepthook = _end_of_import


def _end_of_import(kind: type, error: BaseException, traceback: TracebackType | None) -> None:
    if (line := plain(error)) is None:
        sys.__excepthook__(kind, error, traceback)
        return
    print(f'error: {line}', file=sys.stderr, flush=True)
    os._exit(line.exit_code)


def _end(number: int, frame: FrameType | None) -> None:
    print('error: stopped by Ctrl-C; nothing was begun', file=sys.stderr, flush=True)
    os._exit(130)


def allow_open_files() -> None:
    """Raises the soft limit on open files, often 256 or 1,024, as far as the user may.

    Programs are meant to do that themselves; the soft limit protects old ones that use select().
    """
    with contextlib.suppress(ImportError, OSError, ValueError):  # No Unix, or not allowed.
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        most = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, _OPEN_FILES)
        if soft != resource.RLIM_INFINITY and soft < most:
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def run_main(main: Callable[[Sequence[str]], int | None], argv: Sequence[str]) -> int:
    """Runs `main(argv)`; what `plain` can say becomes a line on standard error and an exit code.

    Ctrl-C is such a line, too, with the code 130 that shells give it; training and sweeps take it
    before and save, see xlbench/parallel/preemption.py.
    """
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if sys.excepthook is _end_of_import:
        sys.excepthook = sys.__excepthook__
    allow_open_files()
    try:
        code = main(argv) or 0
        print(end='', flush=True)  # So that a reader that is gone is met here.
        return code
    except BrokenPipeError:  # Whoever reads standard output has enough, such as head.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        said = 'stopped by Ctrl-C; what was finished before stays'
        print(f'error: {said}', file=sys.stderr, flush=True)
        return 130
    except Exception as error:
        if (line := plain(error)) is None:
            raise
        print(f'error: {printable(line, 4000)}', file=sys.stderr, flush=True)
        return line.exit_code
