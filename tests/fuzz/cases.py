"""What is asked of every case of a fuzzing test, and what is counted.

with cases.reader('safetensors', 60) as reader:      60 of the suite's 1130
    for seed in reader.seeds:
        said, data = mutate.harmed(whole, random.Random(seed))
        with reader.case(seed, said) as case:
            tensors = read(data)
        if case.accepted: ...                        what it may not have accepted
"""

import contextlib
import dataclasses
import faulthandler
import io
import resource
import signal
import time
import traceback
from collections.abc import Iterator

from xlbench.system import errors
from xlbench.system.errors import UserError

from . import mutate

SECONDS = 10  # Of computing; waiting may take 30, as a busy machine does not run all at once.
MEMORY = 1 << 30  # Bytes.
LONGEST = 2000  # Characters of a line that still says something.

_SIGNALS = signal.SIGALRM, signal.SIGPROF

COUNTS: list['Reader'] = []  # Of this session, for the table at its end.


class TooSlow(BaseException):
    """A case has taken its time; not an Exception, so that no reader takes it for a broken file."""


@dataclasses.dataclass
class Case:
    """How one case ended."""

    accepted: bool = False
    error: BaseException | None = None


@dataclasses.dataclass
class Reader:
    """One reader, and how its cases ended."""

    name: str
    seeds: range
    refusals: tuple[type[BaseException], ...]
    seconds: float = SECONDS
    run: int = 0
    refused: int = 0
    accepted: int = 0
    slowest: float = 0.0
    failures: dict[str, str] = dataclasses.field(default_factory=dict)

    @contextlib.contextmanager
    def case(self, seed: int, said: str) -> Iterator[Case]:
        """Runs what is inside as one case; its failure is told when all cases have been run.

        Args:
            seed: Repeats it.
            said: What was done to the bytes.
        """
        case, start, memory = Case(), time.process_time(), _memory()
        self.run += 1
        faulthandler.dump_traceback_later(6 * self.seconds, exit=True)  # For what hears no signal.
        signal.setitimer(signal.ITIMER_PROF, self.seconds)
        signal.setitimer(signal.ITIMER_REAL, 3 * self.seconds)
        try:
            yield case
            case.accepted = True
            self.accepted += 1
        except self.refusals as error:
            case.error = error
            self.refused += 1
            line = f'{error}'
            if '\n' in line or '\r' in line or len(line) > LONGEST or not line:
                self.fail(seed, said, f'no plain line: {line[:300]!r}')
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            case.error = error
            frame = traceback.extract_tb(error.__traceback__)[-1]
            what = f'{type(error).__name__} at {frame.filename}:{frame.lineno}: {error}'
            self.fail(seed, said, what)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.setitimer(signal.ITIMER_REAL, 0)
            faulthandler.cancel_dump_traceback_later()
        self.slowest = max(self.slowest, time.process_time() - start)
        if (grown := _memory() - memory) > MEMORY:
            self.fail(seed, said, f'memory grew by {grown:,} bytes')

    def fail(self, seed: int, said: str, what: str) -> None:
        """Notes a failure; equal ones, by their first words, once."""
        self.failures.setdefault(what[:110], f'  seed {seed} ({said[:120]}): {what[:600]}')


def _memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _too_slow(*_):
    raise TooSlow('it takes too long')


@contextlib.contextmanager
def reader(
    name: str,
    seeded: int,
    refusals: tuple[type[BaseException], ...] = (UserError,),
    seconds: float = SECONDS,
) -> Iterator[Reader]:
    """The cases of one reader; AssertionError at the end if some failed.

    Args:
        name: For the table.
        seeded: How many of the suite's cases are its own.
        refusals: What it may raise; of one line each.
        seconds: That a case may take; more for a whole command, which compiles programs.
    """
    first = mutate.first_seed()
    seeds = range(first, first + mutate.number_of_cases(seeded))
    result = Reader(name, seeds, refusals, seconds)
    COUNTS.append(result)
    before = [(number, signal.signal(number, _too_slow)) for number in _SIGNALS]
    try:
        yield result
    finally:
        for number, handler in before:
            signal.signal(number, handler)
    failures = list(result.failures.values())
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
