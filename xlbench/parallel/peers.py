"""The other processes of a run: how each ended, which one was lost, where each is.

Every process keeps the connection to process 0 over which the roll was called
(xlbench/parallel/cluster.py). A process that dies, however it does, closes it, and process 0 tells
the others, in lines of text:

  ended 1 75   process 1 has ended, with code 75
  lost 1       process 1 has died without a word, or its machine does not answer
  news ...     what a process does (to process 0, of itself; from process 0, of all who asked)
  ask          to process 0: what do the others do?

A process that ends badly takes all with it, with its exit code; 75 if it was lost. Those that can
end by themselves (they save, or have met the same mistake) are given time for it.
"""

import atexit
import contextlib
import json
import os
import selectors
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

START_AGAIN = 75  # EX_TEMPFAIL of sysexits.h.
# Seconds that a process has to end by itself when another has ended; to save with START_AGAIN.
GRACE, SAVING = 5, 60
# Seconds after which a machine that answers nothing is lost.
DEAD = 20


class Verdict(NamedTuple):
    """Why the run cannot go on: 'lost process 1'; the exit code."""

    why: str
    code: int


class News(NamedTuple):
    """What a process said of itself, and how many seconds ago; '' if nothing yet."""

    text: str
    age: float


class Peers:
    """What is known of the other processes; a thread listens to them.

    Attributes:
      index: the number of this process.
      count: of processes.
      doing: gives what this process does, to be said when it has to end: ' in train step 38'.
    """

    def __init__(self, index: int, count: int, sockets: Mapping[int, socket.socket]):
        """Begins to listen.

        Args:
          index: number of this process.
          count: of processes.
          sockets: to all others, by number, if this is process 0; else to process 0 alone.
        """
        self.index, self.count = index, count
        self.doing: Callable[[], str] = str
        self._sockets = dict(sockets)
        self._running = set(range(count)) - {index}
        self._news: dict[int, tuple[str, float]] = {}
        self._answer: dict[int, News] = {}
        self._verdict: Verdict | None = None
        self._judged, self._answered, self._all_ended = (threading.Event() for _ in range(3))
        self._sending, self._leaving = threading.Lock(), threading.Lock()
        for line in self._sockets.values():
            _keep_alive(line)
        threading.Thread(target=self._listen, name='peers', daemon=True).start()
        atexit.register(self._say_goodbye, 0)  # For programs that do not call `end`.

    # ------------------------------------------------------------------------ for this process

    def verdict(self, seconds: float = 0) -> Verdict | None:
        """Why the run cannot go on, if another process is the reason; waits so long for it."""
        self._judged.wait(seconds)
        return self._verdict

    def tell(self, text: str) -> None:
        """Lets the others know, when they ask, what this process does; one line."""
        if self.index == 0:
            self._news[0] = text, time.monotonic()
        else:
            self._send(0, f'news {text}')

    def ask(self, seconds: float = 5) -> dict[int, News]:
        """What the others said last; without those that have ended; {} if process 0 is silent."""
        if self.index == 0:
            return self._collected(0)
        self._answered.clear()
        self._send(0, 'ask')
        return self._answer if self._answered.wait(seconds) else {}

    def end(self, code: int) -> None:
        """Ends this process with `code`, at once; with 0, returns when all others have ended."""
        if code:
            with self._leaving:
                self._exit(code)
        self._say_goodbye(0)
        # The shutdown of jax waits for all of them, but not for long.
        while not (self._all_ended.wait(0.1) or self._judged.is_set()):
            pass
        if not self._all_ended.is_set():
            self._give_up()

    def leave(self, why: str, code: int) -> None:
        """Prints one line, and ends this process, whatever its other threads do."""
        with self._leaving:
            text = f'error: process {self.index} of {self.count}: {why}; exit code {code}\n'
            os.write(2, text.encode())
            self._exit(code)

    def _exit(self, code: int) -> None:
        self._say_goodbye(code)
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        os._exit(code)  # The shutdown of jax would wait for those that are lost.

    def _say_goodbye(self, code: int) -> None:
        for number in list(self._sockets):
            self._send(number, f'ended {self.index} {code}')

    # --------------------------------------------------------------------------- what is heard

    def _listen(self) -> None:
        texts = dict.fromkeys(self._sockets, b'')
        with selectors.DefaultSelector() as selector:
            for number, line in self._sockets.items():
                selector.register(line, selectors.EVENT_READ, number)
            while selector.get_map():
                for key, _ in selector.select():
                    try:
                        more = key.fileobj.recv(1 << 16)
                    except OSError:
                        more = b''
                    *lines, texts[key.data] = (texts[key.data] + more).split(b'\n')
                    for text in lines:
                        self._hear(key.data, text.decode())
                    if not more:
                        selector.unregister(key.fileobj)
                        del self._sockets[key.data]
                        if key.data in self._running:
                            self._lost(key.data)

    def _hear(self, number: int, text: str) -> None:
        word, _, rest = text.partition(' ')
        if word == 'ended':
            self._ended(*map(int, rest.split()))
        elif word == 'lost':
            self._lost(int(rest))
        elif word == 'ask':
            self._send(number, f'news {json.dumps(self._collected(number))}')
        elif self.index == 0:
            self._news[number] = rest, time.monotonic()
        else:
            self._answer = {int(key): News(*news) for key, news in json.loads(rest).items()}
            self._answered.set()

    def _ended(self, number: int, code: int) -> None:
        self._running.discard(number)
        self._tell_others(f'ended {number} {code}')
        if code:
            seconds = SAVING if code == START_AGAIN else GRACE
            self._judge(f'process {number} ended with code {code}', code, seconds)
        elif not self._running:
            self._all_ended.set()

    def _lost(self, number: int) -> None:
        self._running.discard(number)
        self._tell_others(f'lost {number}')
        self._judge(f'lost process {number}', START_AGAIN, GRACE)

    def _judge(self, why: str, code: int, seconds: float) -> None:
        self._verdict = self._verdict or Verdict(why, code)
        self._judged.set()
        timer = threading.Timer(seconds, self._give_up)
        timer.daemon = True
        timer.start()

    def _give_up(self) -> None:
        self.leave(f'{self._verdict.why}{self.doing()}', self._verdict.code)

    def _collected(self, number: int) -> dict[int, News]:
        now = time.monotonic()
        begun = dict.fromkeys(self._running | {0}, ('', now))
        known = begun | {k: news for k, news in self._news.items() if k in begun}
        return {k: News(text, now - at) for k, (text, at) in known.items() if k != number}

    def _tell_others(self, text: str) -> None:
        for number in list(self._sockets) if self.index == 0 else ():
            self._send(number, text)

    def _send(self, number: int, text: str) -> None:
        line = self._sockets.get(number)
        with self._sending, contextlib.suppress(OSError, AttributeError):  # It has gone.
            line.sendall(f'{text}\n'.encode())


def _keep_alive(line: socket.socket) -> None:
    """A machine that answers nothing closes the connection, too, after DEAD seconds."""
    line.settimeout(DEAD)
    line.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    options = {
        'TCP_NODELAY': 1,
        'TCP_KEEPIDLE': DEAD // 4,
        'TCP_KEEPINTVL': DEAD // 4,
        'TCP_KEEPCNT': 3,
        'TCP_USER_TIMEOUT': DEAD * 1000,
    }
    for name, value in options.items():
        if hasattr(socket, name):  # Not on every system.
            line.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


# ---------------------------------------------------------------------------------------------
# jax's own coordination service runs in process 0. When it goes, jax aborts the other processes
# within a millisecond, with a stack trace; so each speaks to it through a relay of its own, which
# says nothing of that.


def relay(address: str) -> str:
    """Relays connections to host:port; the address of this machine at which it does."""
    server = socket.create_server(('127.0.0.1', 0))
    threading.Thread(target=_accept, args=(server, address), name='relay', daemon=True).start()
    return f'127.0.0.1:{server.getsockname()[1]}'


def _accept(server: socket.socket, address: str) -> None:
    host, _, port = address.rpartition(':')
    while True:
        near, _ = server.accept()
        try:
            far = socket.create_connection((host.strip('[]'), int(port)), timeout=10)
        except OSError:  # Not there yet; who asked asks again.
            near.close()
            continue
        for line in (near, far):
            line.settimeout(None)
            line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for pump in (_outward, _inward):
            threading.Thread(target=pump, args=(near, far), name='relay', daemon=True).start()


def _outward(near: socket.socket, far: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := near.recv(1 << 16):
            far.sendall(data)
        far.shutdown(socket.SHUT_WR)


def _inward(near: socket.socket, far: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := far.recv(1 << 16):
            near.sendall(data)
    threading.Event().wait()  # Keeps the connection: nobody hears that the far side has gone.
