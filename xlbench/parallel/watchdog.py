"""Notices a run of which nothing has been heard for too long, says who is behind, and ends it.

A device, a network or a disk that hangs makes all processes of a run wait, often for ever, without
an error. XLBENCH_HANG is after how many seconds without news that is taken for granted: 900 by
default, 0 for never. The processes end with code 75 then (xlbench/parallel/cluster.py), and leave

  workdir/hang-process-0.txt   what every thread of process 0 was doing
"""

import contextlib
import faulthandler
import json
import os
import pathlib
import threading
import time
from collections.abc import Iterator, Mapping
from typing import NamedTuple, Self

from xlbench.parallel import cluster
from xlbench.parallel.peers import News, leave_alone
from xlbench.system.errors import UserError

HANG = 'XLBENCH_HANG'
NAMED = 8  # Processes that a line has room for.


class Place(NamedTuple):
    """The place of a process: in `step` of `what`; what has no steps is in step -1.

    paused: minutes of silence are right there.
    """

    what: str
    step: int = -1
    paused: bool = False

    def __str__(self) -> str:
        return f'{self.what} {self.step}' if self.step >= 0 else self.what


class Watch:
    """A thread that ends this process when nothing is reported for too long.

    with Watch(workdir) as watch:
        with watch.paused('preparing'):
            ...
        for step in ...:
            ...
            watch.done(step)

    Nothing of it waits for a device, or for another process, but in the thread.
    """

    def __init__(self, workdir: str | os.PathLike, seconds: float | None = None):
        """Starts nothing yet.

        Args:
          workdir: where hang-process-I.txt goes.
          seconds: of silence that are too many; None: what XLBENCH_HANG says.

        Raises:
          UserError: XLBENCH_HANG is no number of seconds.
        """
        self.workdir = pathlib.Path(workdir)
        self.seconds = _seconds(os.environ.get(HANG)) if seconds is None else seconds
        self._place = Place('start')
        self._ended = threading.Event()

    def __enter__(self) -> Self:
        if cluster.peers is not None:
            cluster.peers.doing = lambda: f' in {self._place}'
        if self.seconds:
            threading.Thread(target=self._watch, name='watch', daemon=True).start()
        return self

    def __exit__(self, kind: type | None, *_: object) -> None:
        self._ended.set()
        if cluster.peers is not None and kind is None:  # Else it is where the run ended.
            cluster.peers.doing = str

    def done(self, step: int, what: str = 'train step') -> None:
        """Says that `step` is known to have ended, and that the next one is now awaited.

        Costs less than a microsecond.

        Args:
          step: number of what has ended.
          what: in words, of one thing: 'train step', 'evaluation batch'.
        """
        self._place = Place(what, step + 1)

    @contextlib.contextmanager
    def paused(self, what: str) -> Iterator[None]:
        """While minutes of silence are right: 'compiling', 'saving'; no process ends meanwhile.

        Only if another one says nothing at all any more, which a pause does not explain.
        """
        before, self._place = self._place, Place(what, paused=True)
        try:
            yield
        finally:
            if self._place.paused:  # Nothing was done meanwhile.
                self._place = Place(*before)  # A new one: the silence begins now.

    # ---------------------------------------------------------------------------- in the thread

    def _watch(self) -> None:
        """Counts the silence in beats: a time in which all of this process was stopped is none."""
        beat = min(10, self.seconds / 5)
        place, beats, answered = self._place, 0, 0
        self._tell(place)  # That it is there: one that stops before its first beat is missed, too.
        while not self._ended.wait(beat):
            if self._place is not place:
                place, beats, answered = self._place, 0, 0
            beats += 1
            self._tell(place)
            if beats * beat < self.seconds:
                continue
            peers = cluster.peers
            others = {} if peers is None else peers.ask()
            answered = beats if others else answered
            if place.paused:  # It may take its time, if those that it may wait for are alive.
                ages = [news.age for news in others.values()] or [(beats - answered) * beat]
                if peers is None or max(ages) < self.seconds:
                    continue
            elif any(_pauses(news) and news.age < 3 * beat for news in others.values()):
                continue
            if self._place is place and not self._ended.is_set():
                self._end(place, others, 3 * beat)

    def _tell(self, place: Place) -> None:
        if (peers := cluster.peers) is not None:
            peers.tell(json.dumps(place))

    def _end(self, place: Place, others: Mapping[int, News], late: float) -> None:
        peers = cluster.peers
        why = f'{place} has not ended for {self.seconds:g} s'
        if peers is not None:
            verdict = peers.verdict()
            why += f'; {verdict.why if verdict else where_others_are(place, others, late)}'
        path = self.workdir / f'hang-process-{0 if peers is None else peers.index}.txt'
        try:
            with path.open('w', encoding='utf-8') as file:
                file.write(f'{time.strftime("%Y-%m-%d %H:%M:%S")} {why}\n\n')
                file.flush()
                faulthandler.dump_traceback(file)
            why += f'; what it does is in {path}'
        except OSError as error:  # It may be the disk that hangs.
            why += f'; cannot write {path}: {error.strerror}'
        leave = leave_alone if peers is None else peers.leave
        leave(why, cluster.START_AGAIN)


def _pauses(news: News) -> bool:
    return bool(news.text) and Place(*json.loads(news.text)).paused


def where_others_are(place: Place, others: Mapping[int, News], late: float) -> str:
    """Says which of the others are silent or elsewhere.

    Args:
      place: of this process.
      others: what they said last; nothing if process 0, which knows, does not answer.
      late: seconds after which one is silent.
    """
    if not others:
        return 'process 0, which knows of the others, does not answer'
    words = []
    for number, (text, age) in sorted(others.items()):
        there = Place(*json.loads(text)) if text else 'no step yet'
        if age >= late:
            words.append(f'process {number} was last heard {age:.0f} s ago, in {there}')
        elif there != place:
            words.append(f'process {number} is in {there}')
    if len(words) > NAMED:
        words[NAMED:] = [f'so are {len(words) - NAMED} more']
    return '; '.join(words) or 'all others wait for the same'


def _seconds(text: str | None) -> float:
    try:
        seconds = float(text or 900)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float('inf'):
        raise UserError(
            f'{HANG}={text!r} is not a time to wait; set seconds, or 0 to wait for '
            'ever'
        )
    return seconds
