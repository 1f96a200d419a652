"""What is asked of every case of a fuzzing test, and what is counted.

for case in cases.each('safetensors', 60):      60 of the suite's 1130
    data = case.write(path, whole)
    with case.run():
        tensors = read(path)
    if case.accepted: ...                       what it may not have accepted: case.fail('why')
"""

import contextlib
import dataclasses
import faulthandler
import io
import pathlib
import random
import resource
import signal
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any

from xlbench.system import errors
from xlbench.system.errors import UserError

from . import mutate

SECONDS = 10  # Of computing; waiting may take 30, as a busy machine does not run all at once.
MEMORY = 1 << 30  # Bytes.
LONGEST = 2000  # Characters of a line that still says something.

_SIGNALS = signal.SIGALRM, signal.SIGPROF

class TooSlow(BaseException):
    """A case has taken its time; not an Exception, so that no reader takes it for a broken file."""


@dataclasses.dataclass
class Reader:
    """One reader, and how its cases ended."""

    name: str
    run: int = 0
    refused: int = 0
    accepted: int = 0
    slowest: float = 0.0
    failures: dict[str, str] = dataclasses.field(default_factory=dict)


COUNTS: list[Reader] = []  # Of this session, for the table at its end.


@dataclasses.dataclass
class Case:
    """A case of a reader, and how it ended: what was `said` to be done, whether it was accepted."""

    reader: Reader
    seed: int
    refusals: tuple[type[BaseException], ...]
    seconds: float
    rng: random.Random = dataclasses.field(init=False)
    said: str = ''
    accepted: bool = False

    def __post_init__(self):
        self.rng = random.Random(self.seed)

    def write(
        self, path: pathlib.Path, whole: bytes, harm: Callable[..., Any] = mutate.harmed
    ) -> bytes:
        """Writes harmed bytes into a file; returns them."""
        self.said, data = harm(whole, self.rng)
        path.write_bytes(data)
        return data

    def harm_file(self, path: pathlib.Path, whole: bytes) -> None:
        """Puts a file there with one thing wrong, in place of what the case before has left."""
        mutate.put(path, whole)
        self.said = mutate.file(path, self.rng)

    @contextlib.contextmanager
    def run(self, where: str = '') -> Iterator[None]:
        """Runs what is inside; its failure is told when all cases have been run."""
        self.said = f'{where}: {self.said}' if where else self.said
        reader, start, memory = self.reader, time.process_time(), _memory()
        reader.run += 1
        faulthandler.dump_traceback_later(6 * self.seconds, exit=True)  # For what hears no signal.
        signal.setitimer(signal.ITIMER_PROF, self.seconds)
        signal.setitimer(signal.ITIMER_REAL, 3 * self.seconds)
        try:
            yield
            self.accepted = True
            reader.accepted += 1
        except self.refusals as error:
            reader.refused += 1
            line = f'{error}'
            if '\n' in line or '\r' in line or len(line) > LONGEST or not line:
                self.fail(f'no plain line: {line[:300]!r}')
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            frame = traceback.extract_tb(error.__traceback__)[-1]
            self.fail(f'{type(error).__name__} at {frame.filename}:{frame.lineno}: {error}')
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.setitimer(signal.ITIMER_REAL, 0)
            faulthandler.cancel_dump_traceback_later()
        reader.slowest = max(reader.slowest, time.process_time() - start)
        if (grown := _memory() - memory) > MEMORY:
            self.fail(f'memory grew by {grown:,} bytes')

    def fail(self, what: str) -> None:
        """Notes a failure; equal ones, by their first words, once."""
        told = f'  seed {self.seed} ({self.said[:120]}): {what[:600]}'
        self.reader.failures.setdefault(what[:110], told)


def _memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _too_slow(*_):
    raise TooSlow('it takes too long')


def each(
    name: str,
    seeded: int,
    refusals: tuple[type[BaseException], ...] = (UserError,),
    seconds: float = SECONDS,
) -> Iterator[Case]:
    """The cases of one reader; AssertionError behind the last one if some failed.

    `seeded` of the suite's cases are its own; a command, which compiles, may take longer."""
    first, reader = mutate.first_seed(), Reader(name)
    COUNTS.append(reader)
    before = [(number, signal.signal(number, _too_slow)) for number in _SIGNALS]
    try:
        for seed in range(first, first + mutate.number_of_cases(seeded)):
            yield Case(reader, seed, refusals, seconds)
    finally:
        for number, handler in before:
            signal.signal(number, handler)
    failures = list(reader.failures.values())
    assert not failures, f'{name}: {len(failures)} kinds of failure\n' + '\n'.join(failures[:40])


@contextlib.contextmanager
def as_a_program():
    """What `errors.run_main` makes one line of is one."""
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            yield
        except Exception as error:
            if (line := errors.plain(error)) is None:
                raise
            raise line from error
