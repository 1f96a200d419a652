"""Programs whose libraries are imported already: each is a fork of a process that has done so.

Python takes longer to import jax or TensorFlow than most commands of the tests take for all else.
The modules of the project itself are imported anew by each program, from its own PYTHONPATH.

  python warm_python.py serve LISTENER 'import LIBRARY, ...'  forks programs until its input ends
  python -IS warm_python.py ask PLACE PYTHON -m MODULE ...    has it fork one, and ends as that does
"""

import contextlib
import json
import os
import signal
import socket
import sys

# What programs import at their start, and what they import after their first step.
_JAX = 'import flax.linen, grain, jax, optax, orbax.checkpoint'
# As the project imports it, of which another copy may stand in PYTHONPATH.
_TENSORFLOW = """
import sys
from xlbench.loading import quietly
with quietly():
    import seqio, tensorflow
for name in [name for name in sys.modules if name.partition('.')[0] == 'xlbench']:
    del sys.modules[name]
"""
_SCRIPT = """#!/bin/sh
case "$1 $2" in
  '-m xlbench.prepare') exec {python} -IS {this} ask {tensorflow} "$0" "$@" ;;
  '-m xlbench.'*) exec {python} -IS {this} ask {jax} "$0" "$@" ;;
  *) exec {python} "$@" ;;
esac
"""
_places: dict[str, str] = {}


def script() -> str:
    """A shell script that is Python, whose `-m xlbench.PROGRAM` has its libraries at once."""
    if not _places:
        _places.update(jax=_start(_JAX), tensorflow=_start(_TENSORFLOW))
    return _SCRIPT.format(python=sys.executable, this=__file__, **_places)


def _start(libraries: str) -> str:
    """Starts a process that forks, and that ends with this one; the place where it is asked."""
    import atexit
    import shutil
    import subprocess
    import tempfile

    folder = tempfile.mkdtemp(prefix='xlbench-warm-')  # The path of a socket must be short.
    place = os.path.join(folder, 'socket')
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(place)
        listener.listen()
        environ = {k: v for k, v in os.environ.items() if k != 'PYTHONPATH'}
        server = subprocess.Popen(
            [sys.executable, __file__, 'serve', str(listener.fileno()), libraries],
            env=environ | {'TF_CPP_MIN_LOG_LEVEL': '3'},
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            pass_fds=[listener.fileno()],
        )
    atexit.register(server.communicate)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return place


def ask(place: str, argv: list[str]) -> int:
    """Has a program forked that takes this process's folder, environment and files; its code."""
    request = json.dumps([argv, os.getcwd(), dict(os.environ)]).encode()
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(place)
        socket.send_fds(connection, [len(request).to_bytes(8, 'big')], [0, 1, 2])
        connection.sendall(request)
        code = int(connection.makefile().read())
    if code < 0:  # It was ended by a signal, and so is this one.
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return code


def serve(number: int, libraries: str) -> str:
    """Forks at each request; returns in forks alone, with the module that is to be run there."""
    import gc
    import select

    exec(libraries, {})
    gc.freeze()  # Pages that nobody writes to stay shared.
    with socket.socket(fileno=number) as listener:
        while listener in select.select([listener, sys.stdin], [], [])[0]:
            connection = listener.accept()[0]
            if not os.fork():
                return _become(connection)
            connection.close()
            with contextlib.suppress(ChildProcessError):  # Who has ended counts as ours then.
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
    sys.exit()


def _become(connection: socket.socket) -> str:
    """Makes this process the program that is asked for, and a copy of it report how that ends."""
    head, files, *_ = socket.recv_fds(connection, 8, 3)
    with connection.makefile('rb') as stream:
        argv, folder, environ = json.loads(stream.read(int.from_bytes(head, 'big')))
    if program := os.fork():
        for file in files:
            os.close(file)
        code = os.waitstatus_to_exitcode(os.waitpid(program, 0)[1])
        connection.sendall(str(code).encode())
        os._exit(0)
    connection.close()
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environ)
    # In place of the folder of this file.
    sys.path[:1] = [folder, *filter(None, environ.get('PYTHONPATH', '').split(os.pathsep))]
    sys.executable, _, module, *sys.argv[1:] = argv
    return module


if __name__ == '__main__':
    role, place, *arguments = sys.argv[1:]
    if role == 'ask':
        sys.exit(ask(place, arguments))
    module = serve(int(place), *arguments)
    import runpy

    runpy.run_module(module, run_name='__main__', alter_sys=True)
