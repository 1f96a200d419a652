"""Interpreters that have imported the large libraries already: forks of one process that has.

A fresh `python -m xlbench.train` spends five seconds of processor time on importing jax, flax and
the like; a fork of a process that has them spends none.
Nothing of xlbench is imported before the fork, and no device is there yet: beyond the libraries, a
child begins as a fresh interpreter does. Tests of what a program imports start `sys.executable`.

    process = warm.start(['-m', 'xlbench.train', *flags], cwd=folder, stdout=file)
    subprocess.run([warm.python(), '-m', 'xlbench.report', run], capture_output=True)
"""

import contextlib
import fcntl
import functools
import gc
import json
import multiprocessing.spawn
import os
import pathlib
import runpy
import select
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Mapping, Sequence

LIBRARIES = (
    'flax.linen', 'jax', 'ml_collections.config_flags', 'nltk', 'optax',
    'orbax.checkpoint', 'pyarrow.parquet', 'rouge_score.rouge_scorer', 'sacrebleu',
    'scipy.sparse', 'scipy.stats', 'sentencepiece', 'tensorboardX', 'tokenizers',
)  # fmt: skip
# Of Python's search for garbage: seldom, as most of what programs make while they trace is used.
THRESHOLDS = 50_000, 20, 20
# Names the folder of the server; it ends in the number of the process that the tests began with.
FOLDER = 'WARM_INTERPRETERS'
# Variables that interpreters or libraries read when they begin: with other ones than the server
# has, a child is a fresh interpreter after all.
_READ_EARLY = ('JAX_', 'OMP_', 'OPENBLAS_', 'PYTHON', 'TF_')
# Has read variables that each child sets anew.
_IMPORTED_AGAIN = ('huggingface_hub', 'matplotlib')
_FORKS = hasattr(os, 'pidfd_open')  # On Linux; elsewhere, interpreters are fresh.
# Passed on to the child by the program that stands for it.
_FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


class Process:
    """A child, with the attributes and methods of `subprocess.Popen` that tests use."""

    def __init__(self, connection: socket.socket, args: Sequence[str]):
        self.args, self.returncode = args, None
        self._connection = connection
        self.pid = int(self._line())

    def _line(self) -> str:
        line = b''
        while not line.endswith(b'\n'):
            line += self._connection.recv(1) or b'-9\n'  # The server was killed, and its children.
        return line.decode()

    def poll(self) -> int | None:
        """The exit code; negative: of a signal; None: it still runs."""
        if self.returncode is None and select.select([self._connection], [], [], 0)[0]:
            self.wait()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Waits for the end; subprocess.TimeoutExpired if it still runs after so many seconds."""
        if self.returncode is None:
            if not select.select([self._connection], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self.args, timeout)
            self.returncode = int(self._line())
            self._connection.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Sends the child a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Ends it at once."""
        self.send_signal(signal.SIGKILL)


def start(
    args: Sequence[str | os.PathLike],
    *,
    cwd: str | os.PathLike = '.',
    env: Mapping[str, str] | None = None,
    stdin: int = 0,
    stdout: int = 1,
    stderr: int = 2,
) -> Process | subprocess.Popen:
    """Starts `python ARGS`; `args` begin with -m, -c or a path, and streams are descriptors."""
    if not _FORKS:
        streams = dict(stdin=stdin, stdout=stdout, stderr=stderr)
        return subprocess.Popen([sys.executable, *args], cwd=cwd, env=env, **streams)
    return _request(_server(), [*map(os.fspath, args)], cwd, env, (stdin, stdout, stderr))


def python() -> str:
    """The path of a program that takes the place of sys.executable on command lines."""
    if not _FORKS:
        return sys.executable
    return str(pathlib.Path(_server()).with_name('python'))


def _request(address, args, cwd, env, streams) -> Process:
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(address)
    env = dict(os.environ if env is None else env)
    content = json.dumps({'args': args, 'cwd': os.path.abspath(cwd), 'env': env}).encode()
    socket.send_fds(connection, [len(content).to_bytes(8, 'big')], streams)
    connection.sendall(content)
    return Process(connection, args)


def belong_to_this_process() -> None:
    """Has the children of this process, workers of its tests included, share a server."""
    os.environ.setdefault(FOLDER, f'{tempfile.gettempdir()}/xlbench-warm-{os.getpid()}')


@functools.cache
def _server() -> str:
    """The address of the process that forks, one for all workers; starts it unless it is there."""
    folder = os.environ[FOLDER]
    os.makedirs(folder, exist_ok=True)
    address = os.path.join(folder, 'socket')
    with open(os.path.join(folder, 'lock'), 'w') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.exists(address):
            program = pathlib.Path(folder, 'python')
            program.write_text(
                f'#!/bin/sh\nexec {sys.executable} -S -E -B {__file__} client {address} "$@"\n'
            )
            program.chmod(0o755)
            process = subprocess.Popen(
                [sys.executable, __file__, 'server', address],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )  # fmt: skip
            while not os.path.exists(address):
                assert process.poll() is None, 'the server of warm interpreters has ended'
                time.sleep(0.01)
    return address


# ---------------------------------------------------------------------------------------------
# The program that stands for a child.


def _client(address: str, *args: str) -> None:
    if not args or (args[0].startswith('-') and args[0] not in ('-m', '-c')):
        os.execv(sys.executable, [sys.executable, *args])
    process = _request(address, args, '.', None, (0, 1, 2))
    for number in _FORWARDED:
        signal.signal(number, lambda number, _: process.send_signal(number))
    code = process.wait()
    if code < 0:
        signal.signal(-code, signal.SIG_DFL) if -code != signal.SIGKILL else None
        os.kill(os.getpid(), -code)
    os._exit(code)


# ---------------------------------------------------------------------------------------------
# The process that forks.


def _serve(address: str) -> list[str]:
    """Forks for each request; returns in the children only, with what each is to run."""
    early = _early(os.environ)
    for library in LIBRARIES:
        with contextlib.suppress(ImportError):
            __import__(library)
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address + '.new')
    listener.listen(100)
    os.rename(address + '.new', address)
    waiting = selectors.DefaultSelector()
    waiting.register(listener, selectors.EVENT_READ)
    tests = os.pidfd_open(int(address.split('/')[-2].rpartition('-')[2]))
    waiting.register(tests, selectors.EVENT_READ)
    children = {}
    while True:
        # Before a next one begins, those that were killed have ended.
        for key, _ in sorted(waiting.select(), key=lambda event: event[0].fileobj is listener):
            if key.fileobj == tests:
                for pid, _ in children.values():
                    os.kill(pid, signal.SIGKILL)
                shutil.rmtree(os.path.dirname(address), ignore_errors=True)
                os._exit(0)
            elif key.fileobj is listener:
                connection, _ = listener.accept()
                size, streams, _, _ = socket.recv_fds(connection, 8, 3)
                content, left = b'', int.from_bytes(size, 'big')
                while len(content) < left and (part := connection.recv(1 << 20)):
                    content += part
                if not left or len(content) < left:  # Who asks was killed.
                    connection.close()
                    continue
                with warnings.catch_warnings():
                    warnings.simplefilter('ignore')  # Threads of the libraries wait for work.
                    pid = os.fork()
                if not pid:
                    waiting.close()
                    for other in (listener, connection, *(c for _, c in children.values())):
                        other.close()
                    return _become(json.loads(content), streams, early, address)
                for stream in streams:
                    os.close(stream)
                pidfd = os.pidfd_open(pid)
                children[pidfd] = pid, connection
                waiting.register(pidfd, selectors.EVENT_READ)
                waiting.register(connection, selectors.EVENT_READ, pid)
                with contextlib.suppress(OSError):
                    connection.sendall(b'%d\n' % pid)
            elif key.fileobj in children:
                pid, connection = children.pop(key.fileobj)
                waiting.unregister(key.fileobj)
                os.close(key.fileobj)
                with contextlib.suppress(KeyError):
                    waiting.unregister(connection)
                code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
                with contextlib.suppress(OSError):
                    connection.sendall(b'%d\n' % code)
                connection.close()
            elif key.fileobj.fileno() >= 0:  # Its child runs, and who has started it was killed.
                waiting.unregister(key.fileobj)
                os.kill(key.data, signal.SIGKILL)
                os.waitid(os.P_PID, key.data, os.WEXITED | os.WNOWAIT)


def _become(about: dict, streams: Sequence[int], early: Mapping[str, str], address: str):
    """Makes this process as a fresh interpreter would be; returns the arguments to run."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    for stream in set(streams) - {0, 1, 2}:
        os.close(stream)
    os.chdir(about['cwd'])
    if _early(about['env']) != early:
        os.execve(sys.executable, [sys.executable, *about['args']], about['env'])
    for name in [name for name in sys.modules if name.partition('.')[0] in _IMPORTED_AGAIN]:
        del sys.modules[name]
    added = _python_path()
    os.environ.clear()
    os.environ.update(about['env'])
    # The programs that this one starts are forks, too; workers of a pool need more than streams.
    multiprocessing.set_executable(sys.executable)
    sys.executable = os.path.join(os.path.dirname(address), 'python')
    sys.path[:] = [*_python_path(), *(path for path in sys.path[1:] if path not in added)]
    return about['args']


def _early(environ: Mapping[str, str]) -> dict[str, str]:
    return {k: v for k, v in environ.items() if k.startswith(_READ_EARLY) and k != 'PYTHONPATH'}


def _python_path() -> list[str]:
    return [path for path in os.environ.get('PYTHONPATH', '').split(':') if path]


if __name__ == '__main__':
    role, address, *args = sys.argv[1:]
    if role == 'client':
        _client(address, *args)
    kind, *args = _serve(address)
    sys.orig_argv[1:] = [kind, *args]
    if kind == '-m':
        sys.path.insert(0, os.getcwd())
        sys.argv = args
        runpy.run_module(args[0], run_name='__main__', alter_sys=True)
    elif kind == '-c':
        sys.path.insert(0, '')
        sys.argv = ['-c', *args[1:]]
        exec(compile(args[0], '<string>', 'exec'), {'__name__': '__main__'})
    else:
        sys.path.insert(0, os.path.dirname(os.path.abspath(kind)))
        sys.argv = [kind, *args]
        runpy.run_path(kind, run_name='__main__')
