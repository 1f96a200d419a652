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
import json
import os
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import NamedTuple

from xlbench.parallel import relay, roll_call
from xlbench.parallel.roll_call import GRACE, SAVING, START_AGAIN
from xlbench.system.errors import UserError


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
        self._task: asyncio.Task | None = None  # asyncio itself does not keep it.
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
        if why := self._wait(self._call_roll(address, seconds)):
            raise Incomplete(f'{why}; exit code {START_AGAIN}')
        atexit.register(self._say_goodbye, 0)  # For programs that do not call `end`.

    def relay(self, address: str) -> str:
        """Relays connections to host:port, and hides when that has gone; where it does so."""
        return self._wait(relay.relay(address))

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

    # ----------------------------------------------------------------------- in the thread

    async def _call_roll(self, address: str, seconds: float) -> str:
        if self.index == 0:
            listening = roll_call.listen(address, self.count, seconds, self._hear)
            why, self._lines = await listening
            return why
        why, lines, writer = await roll_call.report(address, self.index, self.count, seconds)
        if not why:
            self._lines[0] = writer
            self._task = self._loop.create_task(self._hear_process_0(lines))
        return why

    def _hear(self, number: int, line: str | None) -> None:
        """Process 0 hears a line of another one; None if its connection has closed."""
        word, _, rest = (line or '').partition(' ')
        if line is None:
            if number not in self._ended:
                self._judge(f'lost process {number}', START_AGAIN, GRACE)
        elif word == 'at':
            self._places[number] = rest, time.monotonic()
        elif word == 'ask':
            self._say(number, f'places {json.dumps(self._others(number))}')
        elif word == 'ended':
            self._ended.add(number)
            if code := int(rest):
                seconds = SAVING if code == START_AGAIN else GRACE
                self._judge(f'process {number} ended with code {code}', code, seconds)
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
