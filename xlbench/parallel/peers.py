"""The other processes of a run: who came, how each ended, which one was lost, where each is.

jax's own service (jax.distributed) joins the processes, agrees on the step at which they save, and
has barriers and a heartbeat. It cannot say in one line why a run ends, nor end it with our exit
codes. This is what jax 0.10.2 does by itself with two processes, a heartbeat of 10 s and a shutdown
of 20 s:

  event                          what happens without this module
  process 1 is killed            8 s later the other one prints a stack trace and aborts (134)
  process 0 is killed            the other one does so at once; the trace names no process
  one of them exits with code 2  it waits 20 s for the other one; then both abort, and 2 is lost
  one is done 20 s too early     the same
  process 1 does not come        when the time is up, the others abort; the trace names no process
  two are started as process 1   the same

It aborts in C++, before Python hears of it. Its callback for that (missed_heartbeat_callback) ends
the process with std::bad_cast, and jax_enable_recoverability does not help those that lose process
0. So each process keeps one connection to process 0, where jax is about to listen, and reaches
jax's service through a relay of its own, which does not pass on that process 0 has gone. A run that
jax finds by itself (TPU slices that are joined by a slower network) goes without all this. The
messages are lines of text:

  state of process 0  what comes from process I         what process 0 does               next state
  roll call           hello COUNT I                     counts it; of the last: `all`     running
                      hello, with another count         `end ...` to I alone              roll call
                      hello of I for the second time    `end 75 60 WHY` to all            ended
                      (time is up)                      `end 75 60 WHY` to all            ended
  running             at PLACE                          notes it                          running
                      ask                               `places JSON` to I                running
                      ended 0                           notes it                          running
                      ended 0, if all others have,      `done` to all                     ended
                        and process 0 itself
                      ended CODE                        `end CODE SECONDS WHY` to all     ending
                      its connection closes             `end 75 5 lost process I` to all  ending
                      (process 0 ends, with CODE)       `end CODE SECONDS WHY` to all     ended
  ending              (SECONDS are over)                says WHY, and exits with CODE     ended

  state of another    what comes from process 0         what the process does             next state
  roll call           all                               turns to jax                      running
                      end 75 60 WHY                     says WHY, and exits with 75       ended
  running             places JSON                       answers who asked                 running
                      done                              nothing                           ended
                      end CODE SECONDS WHY              goes on, and may end by itself    ending
                      its connection closes             the same: 75, 5, lost process 0   ending
                      (it ends, with CODE)              `ended CODE` to process 0         ended
  ending              (SECONDS are over)                says WHY, and exits with CODE     ended

SECONDS are 60 with code 75, because a process may be saving then, and otherwise 5.
"""

import asyncio
import atexit
import contextlib
import functools
import json
import os
import socket
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import NamedTuple

from xlbench.errors import UserError

START_AGAIN = 75  # EX_TEMPFAIL of sysexits.h.
# Seconds that a process has to end by itself when another has ended; to save with START_AGAIN.
GRACE, SAVING = 5, 60
# Seconds after which a machine that answers nothing is lost.
DEAD = 20
_LONGEST = 1 << 24  # Bytes of a line: the places of thousands of processes.


class Incomplete(UserError):
    """Processes of the run are missing; the same command may work when it is started again."""

    exit_code = START_AGAIN


class Verdict(NamedTuple):
    """Why the run cannot go on: 'lost process 1'; the exit code."""

    why: str
    code: int


class News(NamedTuple):
    """The place that a process told last, and how many seconds ago; '' if it told none yet."""

    text: str
    age: float


class Peers:
    """The connections of this process to the others; a thread listens to them.

    Attributes:
      index: the number of this process.
      count: of processes.
      doing: gives what this process does, to be said when it has to end: ' in train step 38'.
    """

    def __init__(self, index: int, count: int):
        """Connects to nothing yet.

        Args:
          index: number of this process.
          count: of processes.
        """
        self.index, self.count = index, count
        self.doing: Callable[[], str] = str
        self._lines: dict[int, asyncio.StreamWriter] = {}  # To all from process 0, else to it.
        self._ended: set[int] = set()  # Of whom process 0 knows it.
        self._places: dict[int, tuple[str, float]] = {}
        self._answer: dict[int, News] = {}
        self._verdict: Verdict | None = None
        self._judged, self._answered, self._done = (threading.Event() for _ in range(3))
        self._leaving = threading.Lock()
        self._tasks: list[asyncio.Task] = []  # asyncio itself does not keep them.
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name='peers', daemon=True)
        self._thread.start()

    # ------------------------------------------------------------------------ for this process

    def call_roll(self, address: str, seconds: float) -> None:
        """Waits until all processes are there; process 0 listens where jax will, a moment later.

        Args:
          address: host:port of process 0.
          seconds: how long.

        Raises:
          Incomplete: some did not come; the message has their numbers, in every process that did.
        """
        call = self._listen if self.index == 0 else self._report
        if why := self._wait(call(address, seconds)):
            raise Incomplete(f'{why}; exit code {START_AGAIN}')
        atexit.register(self._say_goodbye, 0)  # For programs that do not call `end`.

    def relay(self, address: str) -> str:
        """Relays connections to host:port, and hides when that has gone; where it does so."""
        return self._wait(_relay(address))

    def verdict(self, seconds: float = 0) -> Verdict | None:
        """Why the run cannot go on, if another process is the reason; waits so long for it."""
        self._judged.wait(seconds)
        return self._verdict

    def tell(self, text: str) -> None:
        """Lets the others know, when they ask, where this process is; one line."""
        if self.index == 0:
            self._places[0] = text, time.monotonic()
        else:
            self._loop.call_soon_threadsafe(self._say, 0, f'at {text}')

    def ask(self, seconds: float = 5) -> dict[int, News]:
        """Asks where the others are that have not ended; {} if process 0 does not answer."""
        if self.index == 0:
            return self._others(0)
        self._answered.clear()
        self._loop.call_soon_threadsafe(self._say, 0, 'ask')
        return self._answer if self._answered.wait(seconds) else {}

    def leave(self, why: str, code: int) -> None:
        """Prints one line, and ends this process, whatever its other threads do."""
        with self._leaving:
            _say_why(self.index, self.count, why, code)
            self._say_goodbye(code)
            _exit(code)

    def end(self, code: int) -> None:
        """Ends this process with `code`, at once; with 0, returns when all others have ended."""
        if code:
            with self._leaving:
                self._say_goodbye(code)
                _exit(code)
        self._say_goodbye(0)
        # The shutdown of jax waits for all of them, but not for long.
        while not (self._done.wait(0.1) or self._judged.is_set()):
            pass
        if not self._done.is_set():
            self._give_up()

    def _say_goodbye(self, code: int) -> None:
        said = threading.Event()

        def say() -> None:
            if self.index:
                self._say(0, f'ended {code}')
            else:
                self._hear(0, f'ended {code}')
            said.set()

        if threading.current_thread() is self._thread:
            say()
        else:
            self._loop.call_soon_threadsafe(say)
            said.wait(2)

    def _wait(self, coroutine: Coroutine[object, object, str]) -> str:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    # ---------------------------------------------------------- in the thread: who is there

    async def _listen(self, address: str, seconds: float) -> str:
        """Process 0 hears who is there; '', or why the run cannot begin."""
        self._roll = self._loop.create_future()
        port = int(address.rpartition(':')[2])
        try:
            server = await asyncio.start_server(self._serve, sock=_server(port), limit=_LONGEST)
        except OSError as error:
            return (
                f'process 0 cannot listen on port {port} ({os.strerror(error.errno)}): another '
                'run, or one that is about to end, has it; set XLBENCH_COORDINATOR to another port'
            )
        try:
            why = await asyncio.wait_for(self._roll, seconds)
        except TimeoutError:
            why = self._missing(address)
        server.close()  # Before the answer: who hears it turns to jax, on the same port.
        for number in self._lines:
            self._say(number, _end(why, START_AGAIN) if why else 'all')
        if why:
            self._ended.update(range(self.count))  # That they go is no loss any more.
        return why

    def _missing(self, address: str) -> str:
        numbers = [i for i in range(1, self.count) if i not in self._lines]
        return (
            f'{"process" if len(numbers) == 1 else "processes"} {", ".join(map(str, numbers))} of '
            f'{self.count} did not come to {address} in time: see whether each was started and how '
            'it ended, whether its machine may connect to that port, and whether XLBENCH_WAIT '
            'leaves it enough seconds'
        )

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Process 0 hears another one, from its greeting until it has gone."""
        lines = _lines_of(reader)
        match (await anext(lines, '')).split():
            case ['hello', count, number] if count == str(self.count) and number.isdigit():
                number = int(number)
            case ['hello', count, _]:
                why = f'process 0 knows of {self.count} processes, not of {count:.20}'
                writer.write(f'{_end(why, START_AGAIN)}\n'.encode())
                number = 0
            case _:  # A stranger.
                number = 0
        if not 0 < number < self.count or self._roll.done():
            writer.close()
            return
        if number in self._lines:
            why = f'two processes say that they are process {number} of {self.count}'
            writer.write(f'{_end(why, START_AGAIN)}\n'.encode())
            self._roll.set_result(why)
            return
        _keep_alive(writer)
        self._lines[number] = writer
        if len(self._lines) == self.count - 1:
            self._roll.set_result('')
        async for line in lines:
            self._hear(number, line)
        self._lines.pop(number, None)
        if self._roll.done() and number not in self._ended:
            self._judge(f'lost process {number}', START_AGAIN, GRACE)

    async def _report(self, address: str, seconds: float) -> str:
        """Tells process 0 that this one is there; '', or why the run cannot begin."""
        host, _, port = address.rpartition(':')
        connect = functools.partial(socket.create_connection, (host.strip('[]'), int(port)), 10)
        deadline = time.monotonic() + seconds
        reason = ''
        while time.monotonic() < deadline:
            try:
                line = await self._loop.run_in_executor(None, connect)
                reader, writer = await asyncio.open_connection(sock=line, limit=_LONGEST)
                writer.write(f'hello {self.count} {self.index}\n'.encode())
                # Process 0 may have begun to wait later than this one.
                lines = _lines_of(reader)
                answer = await asyncio.wait_for(anext(lines, ''), seconds + 30)
                if answer == 'all':
                    _keep_alive(writer)
                    self._lines[0] = writer
                    self._tasks.append(self._loop.create_task(self._hear_process_0(lines)))
                    return ''
                writer.close()
                if answer.startswith('end '):
                    return answer.split(' ', 3)[3]
            except OSError as failure:
                reason = f' ({failure.strerror or "no answer"})'
            await asyncio.sleep(0.2)
        return (
            f'process {self.index} of {self.count} waited {seconds:.0f} s for process 0 at '
            f'{address}{reason}, which did not come: see whether it was started and how it '
            'ended, whether this machine may connect to that port, and XLBENCH_COORDINATOR'
        )

    # ------------------------------------------------------- in the thread: while they run

    def _hear(self, number: int, line: str) -> None:
        """Process 0 hears a line of another one."""
        word, _, rest = line.partition(' ')
        if word == 'at':
            self._places[number] = rest, time.monotonic()
        elif word == 'ask':
            self._say(number, f'places {json.dumps(self._others(number))}')
        elif word == 'ended':
            self._ended.add(number)
            if code := int(rest):
                self._judge(f'process {number} ended with code {code}', code, _seconds(code))
            elif len(self._ended) == self.count:
                self._done.set()
                for other in self._lines:
                    self._say(other, 'done')

    async def _hear_process_0(self, lines: AsyncIterator[str]) -> None:
        async for line in lines:
            word, _, rest = line.partition(' ')
            if word == 'places':
                self._answer = {int(key): News(*news) for key, news in json.loads(rest).items()}
                self._answered.set()
            elif word == 'end':
                code, seconds, why = rest.split(' ', 2)
                self._judge(why, int(code), float(seconds))
            elif word == 'done':
                self._done.set()
        if not self._done.is_set():
            self._judge('lost process 0', START_AGAIN, GRACE)

    def _judge(self, why: str, code: int, seconds: float) -> None:
        """The run ends; the others hear it, and each has so many seconds to end by itself."""
        if self._verdict is None:
            self._verdict = Verdict(why, code)
            self._judged.set()
            for number in self._lines if self.index == 0 else ():
                self._say(number, f'end {code} {seconds:g} {why}')
            self._loop.call_later(seconds, self._give_up)

    def _give_up(self) -> None:
        self.leave(f'{self._verdict.why}{self.doing()}', self._verdict.code)

    def _others(self, number: int) -> dict[int, News]:
        """Gives the places of those that process `number` may wait for."""
        now = time.monotonic()
        said = dict.fromkeys(set(range(self.count)) - self._ended - {number}, ('', now))
        said |= {k: place for k, place in list(self._places.items()) if k in said}
        return {k: News(text, now - at) for k, (text, at) in said.items()}

    def _say(self, number: int, text: str) -> None:
        if number in self._lines:
            self._lines[number].write(f'{text}\n'.encode())


def leave_alone(why: str, code: int) -> None:
    """Does for a run of one process what `Peers.leave` does for one of several."""
    _say_why(0, 1, why, code)
    _exit(code)


def _say_why(index: int, count: int, why: str, code: int) -> None:
    os.write(2, f'error: process {index} of {count}: {why}; exit code {code}\n'.encode())


def _exit(code: int) -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    os._exit(code)  # The shutdown of jax would wait for those that are lost.


def _seconds(code: int) -> int:
    return SAVING if code == START_AGAIN else GRACE


def _end(why: str, code: int) -> str:
    return f'end {code} {_seconds(code)} {why}'


async def _lines_of(reader: asyncio.StreamReader) -> AsyncIterator[str]:
    """Reads whole lines until the other side has gone; one that is too long is no line of ours."""
    with contextlib.suppress(OSError, ValueError):
        while (line := await reader.readline()).endswith(b'\n'):
            yield line.decode(errors='replace').rstrip('\n')


def _server(port: int) -> socket.socket:
    if socket.has_dualstack_ipv6():
        with contextlib.suppress(OSError):
            return socket.create_server(
                ('', port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=1024
            )
    return socket.create_server(('', port), backlog=1024)


def _keep_alive(writer: asyncio.StreamWriter) -> None:
    """A machine that answers nothing closes the connection, too, after DEAD seconds."""
    line = writer.get_extra_info('socket')
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


async def _relay(address: str) -> str:
    host, _, port = address.rpartition(':')

    async def accept(near: asyncio.StreamReader, answers: asyncio.StreamWriter) -> None:
        try:
            far, requests = await asyncio.open_connection(host.strip('[]'), int(port))
        except OSError:  # Not there yet; who asked asks again.
            answers.close()
            return
        await asyncio.gather(_pump(near, requests, last=True), _pump(far, answers, last=False))
        # `answers` stays open: nobody hears that the far side has gone.
        await asyncio.Event().wait()

    server = await asyncio.start_server(accept, '127.0.0.1', 0)
    return f'127.0.0.1:{server.sockets[0].getsockname()[1]}'


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter, last: bool) -> None:
    with contextlib.suppress(OSError):
        while data := await source.read(1 << 16):
            sink.write(data)
            await sink.drain()
        if last:
            sink.write_eof()
