"""Runs a program, and ends it with all that it has started; a process of its own runs this file.

  python -I -S guard.py FD PROGRAM ARGUMENTS

It ends them when the program ends, and when the other end of the pipe FD closes, as it does when
xlbench ends, however that ends. On Linux whatever the program has started becomes a child of this
process when its own parent ends, also in another session, so that nothing is left. Elsewhere the
program's process group ends, and a daemon that has left it stays.
"""

import contextlib
import ctypes
import os
import select
import signal
import sys

_PR_SET_CHILD_SUBREAPER = 36


def _end_all() -> None:
    """Ends the children, and theirs, which become ours when they do; without /proc, none."""
    ended = True
    while ended:
        try:
            with open('/proc/thread-self/children', encoding='ascii') as file:
                children = [int(number) for number in file.read().split()]
        except OSError:
            return
        ended = False
        for number in children:
            try:
                os.kill(number, signal.SIGKILL)
            except PermissionError:  # It is another user's now.
                continue
            os.waitpid(number, 0)
            ended = True


def main(pipe: int, words: list[str]) -> int:
    """Returns the program's exit code; 128 and the signal that has ended it, as shells do."""
    if hasattr(libc := ctypes.CDLL(None), 'prctl'):
        libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    os.set_inheritable(pipe, False)
    ours, theirs = os.pipe()
    os.set_blocking(theirs, False)
    signal.set_wakeup_fd(theirs)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    try:
        # Python ignores these signals, and a program need not.
        back = (signal.SIGPIPE, signal.SIGXFSZ)
        program = os.posix_spawnp(words[0], words, os.environ, setpgroup=0, setsigdef=back)
    except OSError as error:
        print(f'{words[0]}: {error.strerror}', file=sys.stderr)
        return 127
    code = 128 + signal.SIGKILL
    while pipe not in select.select([pipe, ours], [], [])[0]:
        os.read(ours, 1 << 12)
        ended, status = os.waitpid(program, os.WNOHANG)
        if ended:
            code = os.waitstatus_to_exitcode(status)
            break
    with contextlib.suppress(ProcessLookupError, PermissionError):  # Nobody is left in its group.
        os.killpg(program, signal.SIGKILL)
    _end_all()
    return code if code >= 0 else 128 - code


if __name__ == '__main__':
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
