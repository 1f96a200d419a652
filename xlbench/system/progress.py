"""Shows progress in one line on standard error: as a bar of rich on a terminal.

Elsewhere, in a log file or a pipe, it is a plain line from time to time:

  encoded: 12,000 of 71,819 responses, 1,230/s, 48.6s left
"""

import dataclasses
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    import rich.progress

EVERY = 10.0  # Seconds between two plain lines.
_TICK = 0.4  # Seconds between two looks; what has ended before the first one says nothing.


@dataclasses.dataclass(eq=False)
class Progress:
    """Says how far something is while a `with` block runs.

    with Progress('encoded', len(texts), 'texts') as progress:
        for text in texts:
            ...
            progress.add()

    A thread says it: on a terminal all the time, elsewhere when some more was done. `print` within
    the block comes out whole, above the bar. rich is imported on a terminal alone.

    Attributes:
      what: is done: 'encoded', 'scan'.
      total: how much there is to do; 0 if nobody knows.
      unit: of what is counted: 'texts'; 'B' for bytes; '' if nothing is counted but time.
      count: gives how much is done, in place of `add`; called in a thread.
      active: False to say nothing, as in all processes of a run but the first.
      live: False for plain lines on a terminal, too, where others write to it without `print`.
      done: how much is done.
    """

    what: str
    total: int = 0
    unit: str = ''
    _: dataclasses.KW_ONLY
    count: Callable[[], int] | None = None
    active: bool = True
    live: bool = True
    done: int = dataclasses.field(default=0, init=False)

    def __post_init__(self) -> None:
        self.live = self.live and sys.stderr.isatty() and os.environ.get('TERM') != 'dumb'
        self._bar: tuple[rich.progress.Progress, rich.progress.TaskID] | None = None
        self._begun = self._said = time.monotonic()
        self._last = 0  # Done when a plain line was said.
        self._skipped = 0
        # How much was done, and when, as it was seen first: what comes before counts for no speed.
        self._first: tuple[int, float] | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name='progress', daemon=True)

    def add(self, count: int = 1) -> None:
        """Counts what was done since."""
        self.done += count

    def skip(self, count: int) -> None:
        """Counts what was done before, which makes no speed."""
        self.done = self._skipped = count

    @property
    def seconds(self) -> float:
        """The seconds since the `with` block was entered."""
        return time.monotonic() - self._begun

    def __enter__(self) -> Self:
        self._begun = self._said = time.monotonic()
        if self.active:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self.active:
            self._thread.join()

    def line(self) -> str:
        """Says in one line how far it is."""
        now = time.monotonic()
        self.done = self.done if self.count is None else self.count()
        if not self.unit:
            return f'{self.what}: {duration(self.seconds)} so far'
        if self._first is None and self.done > self._skipped:
            self._first = self.done, now
        parts = [f'{self.what}: {self._number(self.done)}']
        if self.total:
            parts[0] += f' of {self._number(self.total)}'
        parts[0] += '' if self.unit == 'B' else f' {self.unit}'
        if self._first and self.done > self._first[0]:
            speed = (self.done - self._first[0]) / max(now - self._first[1], 1e-9)
            parts.append(f'{self._number(speed)}/s')
            if self.total:
                parts.append(f'{duration(max(self.total - self.done, 0) / speed)} left')
        return ', '.join(parts)

    def _number(self, number: float) -> str:
        if self.unit == 'B':
            return quantity(number, 'B')
        return f'{number:,.1f}' if number < 10 and number % 1 else f'{number:,.0f}'

    def _run(self) -> None:
        while not self._ended.wait(_TICK):
            line = self.line()
            if self.live:
                self._show(line)
            elif time.monotonic() - self._said >= EVERY and (
                self.done != self._last or not self.unit
            ):
                self._said, self._last = time.monotonic(), self.done
                print(line, file=sys.stderr, flush=True)
        if self._bar:
            self._bar[0].stop()

    def _show(self, line: str) -> None:
        if self._bar is None:
            import rich.console
            import rich.progress

            console = rich.console.Console(stderr=True)
            bar = rich.progress.Progress(
                rich.progress.BarColumn(),
                rich.progress.TextColumn('{task.description}', markup=False),
                console=console,
                auto_refresh=False,
                transient=True,
                redirect_stdout=sys.stdout.isatty(),  # What goes into a file goes on to do so.
            )
            bar.start()
            console.show_cursor(True)  # A process that is killed would leave it hidden.
            self._bar = bar, bar.add_task(line)
        bar, task = self._bar
        bar.update(
            task, description=line, total=self.total or None, completed=self.done, refresh=True
        )


def duration(seconds: float) -> str:
    """Seconds in words. Example: 3723 -> '1h02m'; 125 -> '2m05s'; 7.2 -> '7.2s'."""
    if seconds < 60:
        return f'{seconds:.1f}s'
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f'{minutes}m{rest:02d}s'
    hours, minutes = divmod(minutes, 60)
    return f'{hours}h{minutes:02d}m'


def quantity(number: float, unit: str = '') -> str:
    """A number in three digits. Example: 12345 -> '12.3k'; 4.2e9, 'B' -> '4.20GB'."""
    for size, suffix in ((1e12, 'T'), (1e9, 'G'), (1e6, 'M'), (1e3, 'k')):
        if abs(number) >= size:
            return f'{number / size:.3g}{suffix}{unit}'
    return f'{number:.3g}{unit}'
