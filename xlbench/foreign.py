"""Folders from elsewhere: only regular files inside them are read or copied.

A downloaded checkpoint, a workdir or prepared data may hold a link to any file of this machine. A
program that opened the link would read that file, and a copy of the folder would publish it. A
program that opened a FIFO would wait forever.

  foreign.file(folder, 'config.json')     its path, or None if nothing has that name
  foreign.check_tree(workdir, folder)     the same of all files below, for a library that opens them

Links that stay inside a folder are followed. So are those of a snapshot in the cache of
huggingface_hub, models--NAME/snapshots/REVISION/FILE, that lead to its models--NAME/blobs/. With
XLBENCH_LINKS=follow all links are followed, for those that a user has made.
"""

import contextlib
import errno
import os
import pathlib
import stat
from typing import BinaryIO

from xlbench.errors import UserError, shortened

FOLLOW = 'XLBENCH_LINKS', 'follow'  # The variable of the environment, and its value.

_KINDS = (
    (stat.S_ISDIR, 'a folder'),
    (stat.S_ISFIFO, 'a FIFO'),
    (stat.S_ISSOCK, 'a socket'),
    (stat.S_ISCHR, 'a device'),
    (stat.S_ISBLK, 'a device'),
)


def file(folder: str | os.PathLike, name: str | os.PathLike) -> pathlib.Path | None:
    """The path of a regular file inside a folder.

    Args:
        folder: That somebody has named; it may itself be a link.
        name: Of the file in it, also 'left/config.json'; it does not begin with the folder.

    Returns:
        folder/name; None if nothing is there.

    Raises:
        UserError: What is there is a link that leads out of the folder or nowhere, or no file.
    """
    path = pathlib.Path(folder, name)
    status = _status(path, pathlib.Path(folder))
    if status is None:
        return None
    _check_regular(path, status)
    return path


def check_tree(folder: str | os.PathLike, tree: str | os.PathLike) -> None:
    """Raises UserError unless all below `tree` are folders and regular files inside `folder`.

    Whoever locks a folder to write into it asks it, too; see xlbench/locks.py.

    Args:
        folder: That somebody has named.
        tree: Below it. Nothing is wrong with one that is not there.
    """
    folder, rest, seen = pathlib.Path(folder), [pathlib.Path(tree)], set()
    while rest:
        path = rest.pop()
        status = _status(path, folder)
        if status is None:
            continue
        if not stat.S_ISDIR(status.st_mode):
            _check_regular(path, status)
        elif (place := (status.st_dev, status.st_ino)) not in seen:  # Links may lead in circles.
            seen.add(place)
            with contextlib.suppress(FileNotFoundError), os.scandir(path) as entries:
                # A file itself is inside, as its folder is: of many files, only links cost time.
                rest += [pathlib.Path(e) for e in entries if not e.is_file(follow_symlinks=False)]


def open_regular(path: str | os.PathLike) -> BinaryIO:
    """Opens a regular file to read bytes; nothing else is waited for.

    Raises:
        UserError: It is a FIFO, a device, a socket or a folder.
        OSError: It cannot be opened.
    """
    # Without O_NONBLOCK, opening a FIFO lasts until somebody writes into it.
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        _check_regular(pathlib.Path(path), os.fstat(handle))
        return os.fdopen(handle, 'rb')
    except BaseException:
        os.close(handle)
        raise


def _check_regular(path: pathlib.Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        kind = next((kind for test, kind in _KINDS if test(status.st_mode)), 'something else')
        raise UserError(f'{path} cannot be read: it is {kind}, not a file')


def _status(path: pathlib.Path, folder: pathlib.Path) -> os.stat_result | None:
    """Looks up a path that must stay inside a folder; None if nothing has its name."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:  # ValueError: a NUL, or a surrogate.
        if getattr(error, 'errno', None) not in (None, errno.ENAMETOOLONG, errno.ELOOP):
            raise
        place = f'{folder}'[:300]  # It may have been named by a file, too.
        raise UserError(f'{place}: {shortened(path.name)} is not a name of a file') from None
    try:
        target, root = path.resolve(strict=True), folder.resolve(strict=True)
        status = os.stat(target)
    except (OSError, RuntimeError) as error:  # RuntimeError: a loop, before Python 3.13.
        if isinstance(error, PermissionError):
            raise
        if not os.path.lexists(path):  # Somebody has just removed it.
            return None
        raise UserError(f'{path} is a link that leads nowhere') from None
    if os.environ.get(FOLLOW[0]) == FOLLOW[1]:
        return status
    if not any(target.is_relative_to(place) for place in _places(root)):
        raise UserError(
            f'{path} leads to {target}, outside of {folder}, and only files inside are used; put '
            f'a copy in its place, or set {"=".join(FOLLOW)} if you made the link yourself'
        )
    return status


def _places(root: pathlib.Path) -> list[pathlib.Path]:
    """Lists where the files of a folder may lie: in it, or in the cache of the hub around it."""
    if root.parent.name == 'snapshots' and root.parent.parent.name.startswith('models--'):
        return [root, root.parent.parent / 'blobs']
    return [root]
