"""One writer at a time: a writer holds the lock of its place, and a second one hears who holds it.

  with locks.folder(workdir):           a folder; refuses one that another process writes into
  with locks.file(path):                one file, or a folder that appears whole
  with locks.file(path, wait=print):    waits for the other process, and says so
  with locks.atomic_folder(path) as new:   a folder to fill, which becomes `path` at the end

The lock is the operating system's (flock, through the library filelock), on a hidden file:
FOLDER/.lock, or .NAME.lock beside a file. It ends with its process, however that ends, also on NFS.
The file says who holds the lock, and is removed when the lock is released; a file that a killed
process has left means nothing. Readers take no lock.
"""

import contextlib
import datetime
import errno
import os
import pathlib
import platform
import shutil
import sys
import time
from collections.abc import Callable, Iterator

import filelock

from xlbench.system import errors, files, untrusted
from xlbench.system.command_line import say
from xlbench.system.errors import UserError, printable

# What a file system answers that knows no locks; Lustre without its option flock, for example.
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
# A process that is ending may hold its lock for an instant longer.
_PATIENCE = 0.5  # Seconds.
# So long an NFS server keeps the locks of a machine that is gone: 90 s is what Linux sets.
_LEASE = 100.0  # Seconds.
_SILENCE = 1.0  # Seconds of waiting that nobody need hear of.


class InUse(UserError):
    """Another process writes there."""


@contextlib.contextmanager
def folder(
    path: str | os.PathLike,
    *,
    wait: Callable[[str], None] | None = None,
    active: bool = True,
    owned: bool = True,
) -> Iterator[None]:
    """Holds a folder in a `with` block.

    A folder that is not there is made, and goes again if nothing was put into it. `wait` says the
    line that somebody else is waited for; None refuses at once. `active` is False in all processes
    of a run but the first, and nothing is done there. A folder that is not `owned` is the user's,
    in which whole files are replaced: it may have folders full of links.

    Raises:
      InUse: another process holds it.
      OSError, UserError: it cannot be written, or has a link that leads out of it.
    """
    if not active:
        yield
        return
    if owned:  # It may be somebody else's, and what is appended to a link is appended elsewhere.
        untrusted.check_tree(path, path)
    with _holding(pathlib.Path(os.path.abspath(path)) / files.LOCK, path, wait):
        yield


@contextlib.contextmanager
def file(path: str | os.PathLike, *, wait: Callable[[str], None] | None = None) -> Iterator[bool]:
    """Holds one file, or a folder that appears whole, in a `with` block; it need not be there.

    What writers of it that were killed left beside it is removed first, except PATH.part, with
    which some of them go on.

    Yields:
      Whether another process was waited for (see `folder`), who may have written it.

    Raises:
      InUse: another process holds it.
      OSError, UserError: its folder cannot be written, or PATH.part leads out of it.
    """
    place = pathlib.Path(os.path.abspath(path))
    untrusted.file(place.parent, f'{place.name}.part')
    with _holding(place.with_name(f'.{place.name}.lock'), path, wait) as waited:
        files.remove_leftovers_of(place)
        yield waited


@contextlib.contextmanager
def atomic_folder(path: str | os.PathLike) -> Iterator[pathlib.Path]:
    """A folder to fill in a `with` block; it becomes `path` if all goes well, and else is removed.

    The parents of the path are made.

    Raises:
      UserError: it is there already.
      InUse: another process is making it.
      OSError: it cannot be written.
    """
    place = pathlib.Path(os.path.abspath(path))
    with file(path):
        if place.exists():
            raise UserError(f'{path} exists already; name a folder that does not')
        new = place.with_name(f'.{place.name}.new.tmp')  # See files.remove_leftovers_of.
        new.mkdir()
        try:
            yield new
            new.rename(place)
            files.sync_folder(place.parent)
        except BaseException:
            shutil.rmtree(new, ignore_errors=True)
            raise


@contextlib.contextmanager
def _holding(
    lock_file: pathlib.Path, name: str | os.PathLike, wait: Callable[[str], None] | None
) -> Iterator[bool]:
    made = [place for place in lock_file.parents if not place.exists()]
    opened: list[os.stat_result] = []

    def sign(number: int) -> None:
        opened[:] = [os.fstat(number)]
        _sign(number, name)

    lock = filelock.FileLock(
        lock_file, thread_local=False, fallback_to_soft=False, on_acquired=sign
    )
    try:
        try:
            with files.naming(lock_file):
                waited = _acquire(lock, lock_file, name, wait)
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                if errors.storage_trouble(error):  # It speaks for itself.
                    raise
                raise UserError(
                    f'{lock_file} cannot be locked: {error.strerror or error}; remove it, or name '
                    'another place'
                ) from None
            say(
                f'{name} lies on a file system without locks ({error.strerror}): nothing here '
                'notices a second process that writes there at the same time'
            )
            waited = False
            with contextlib.suppress(OSError):
                lock_file.unlink()
        yield waited
    finally:
        # While it is still held: whoever has opened it meanwhile sees that it is gone, and makes
        # another one (filelock compares). One that another process has made meanwhile stays.
        with contextlib.suppress(OSError):
            if opened and os.path.samestat(os.lstat(lock_file), opened[0]):
                lock_file.unlink()
        with contextlib.suppress(OSError):
            lock.release()
        with contextlib.suppress(OSError):  # What is not empty stays.
            for place in made:
                place.rmdir()


def _acquire(
    lock: filelock.BaseFileLock,
    lock_file: pathlib.Path,
    name: str | os.PathLike,
    wait: Callable[[str], None] | None,
) -> bool:
    """Takes a lock; whether somebody else had it."""
    start, pause, waits, said = time.monotonic(), 0.001, False, False
    while True:
        waited = time.monotonic() - start
        try:
            lock_file.parent.mkdir(parents=True, exist_ok=True)
            lock.acquire(timeout=0)
            return waits
        except FileNotFoundError:  # Whoever made the folder has just removed it.
            if waited > _PATIENCE:
                raise
        except filelock.Timeout:
            waits, holder = True, _holder(lock_file)
            if wait is None and waited > (_LEASE if _is_elsewhere(holder) else _PATIENCE):
                raise InUse(
                    f'{name} is in use by {holder}; wait until that has ended, or end it, or name '
                    'another place'
                ) from None
            if not said and waited > _SILENCE:
                said = True
                (wait or say)(f'waiting for {name}, in use by {holder}')
        time.sleep(pause)
        pause = min(2 * pause, 0.1)


def _sign(number: int, name: str | os.PathLike) -> None:
    """Says in a lock file, which is open under this number, which process holds it."""
    since = f'{datetime.datetime.now(datetime.UTC):%Y-%m-%d %H:%M:%S} UTC'
    command = printable(' '.join(['python', *sys.orig_argv[1:]]), 160)
    note = f'process {os.getpid()} on {platform.node()}, since {since} ({command})\n'
    with contextlib.suppress(OSError):  # A full disk is no reason to write nothing at all.
        before = _read(number)
        if _is_elsewhere(before):
            say(
                f'{name} was held by {before}: that process was killed, or the machines that share '
                'this file system do not see the locks of each other'
            )
        os.ftruncate(number, 0)
        os.pwrite(number, note.encode(errors='replace'), 0)
        os.fsync(number)  # So that other machines see it.


def _holder(lock_file: pathlib.Path) -> str:
    """Who holds a lock, as its file says."""
    try:
        number = os.open(lock_file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            return _read(number)
        finally:
            os.close(number)
    except OSError:
        return 'another process'


def _read(number: int) -> str:
    # Whoever may write into the folder may write this, too; it shall not steer a terminal.
    note = printable(os.pread(number, 1000, 0).decode(errors='replace'), 500)
    return note if note.startswith('process ') else 'another process'


def _is_elsewhere(holder: str) -> bool:
    return ' on ' in holder and f' on {platform.node()}, ' not in holder
