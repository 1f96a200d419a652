"""Times the same work done by several sides on one machine, a step of each in turn.

Every side is one process that stays warm, so that all see the same machine; the order turns round
every other round, so that none always goes first. A script gives each side a function of its
arguments that returns the step to time:

    STEPS = {'product': product_step, 'xlbench': xlbench_step}
    args = parser(__doc__, STEPS, rounds=5).parse_args()
    if args.side:
        serve(STEPS[args.side], args)
    else:
        seconds, answers = compare(pythons, args.rounds)
        print_ratios(seconds)
        write(args.json, rows('a search', seconds, {'product': 'the matrix product'}))

Scripts whose peer is PyTorch declare all this with contest.py.

`write` is called once, with the rows of all that the script has timed. A figure that has no peer
(bytes, say) is a row that `value` makes. `make speed` runs all scripts in turn (__main__.py).

Nothing but the standard library is imported: the sides run under different interpreters.

A peer runs with the C library keeping freed memory, as xlbench makes it do by itself: without that,
the page faults of a train step took up to 0.6 of PyTorch's time.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, NotRequired, TypedDict

# glibc's: no block is a mapping of its own, and no free one goes back to the operating system.
KEEP_MEMORY = {name: str(1 << 40) for name in ('MALLOC_MMAP_THRESHOLD_', 'MALLOC_TRIM_THRESHOLD_')}


class Ratios(TypedDict):
    """How many times faster one side is than another; below 1: slower."""

    medians: float  # ... of the medians of the seconds of all rounds,
    fastest: float  # of the fastest rounds,
    paired: float  # and the median of the ratios of each round.


class Row(Ratios):
    """One comparison: what `--json` writes for each peer of a script."""

    work: str
    against: str
    rounds: int
    seconds: dict[str, list[float]]  # Of every round, by side.
    note: str


class Series(TypedDict):
    """Which figures without a peer belong together: those of one work as one size of it grows."""

    work: str
    size: str  # What grows: 'layers', say.
    at: int


class Value(TypedDict):
    """One figure without a peer."""

    work: str
    value: float
    unit: str
    note: str
    series: NotRequired[Series]


def parser(doc: str, sides: Iterable[str], rounds: int) -> argparse.ArgumentParser:
    """The command line that every script has; `rounds` are timed unless said otherwise."""
    made = argparse.ArgumentParser(description=doc.partition('\n')[0])
    made.add_argument('--side', choices=tuple(sides), help=argparse.SUPPRESS)
    made.add_argument('--rounds', type=int, default=rounds)
    made.add_argument('--json', default='', metavar='FILE', help='where to write the figures')
    return made


def memory_of(python: str) -> dict[str, str]:
    """The environment by which a side's process keeps memory; of a GPU's, ours leaves half."""
    ours = {'XLA_PYTHON_CLIENT_MEM_FRACTION': '0.45'}
    return ours if python == sys.executable else KEEP_MEMORY


def serve(make_step: Callable, args: argparse.Namespace, warmups: int = 1) -> None:
    """Answers each line of standard input with the seconds of a step and what it returned."""
    try:
        step = make_step(args)
    except ImportError as error:
        print(json.dumps(str(error)), flush=True)
        return
    for _ in range(warmups):
        step()
    print(json.dumps('ready'), flush=True)
    for _ in sys.stdin:
        start = time.perf_counter()
        answer = step()
        print(json.dumps([time.perf_counter() - start, answer]), flush=True)


class Timed(NamedTuple):
    """What `time_sides` measured, by side."""

    seconds: dict[str, list[float]]  # Of every round.
    answers: dict[str, list[Any]]  # What the steps returned in every round.


def time_sides(
    pythons: Mapping[str, str],
    rounds: int,
    show: Callable[[Any], str] = lambda answer: '',
    more: Sequence[str] = (),
) -> Timed:
    """Runs the script that was started once more for each side, and times the sides in turn.

    A side whose library its interpreter lacks is left out. `show` says what to print of a step's
    answer, and `more` are further arguments for the sides.
    """
    workers: dict[str, subprocess.Popen] = {}
    try:
        for side, python in pythons.items():
            worker = subprocess.Popen(
                [python, sys.argv[0], f'--side={side}', *sys.argv[1:], *more],
                env=os.environ | memory_of(python),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            workers[side] = worker
            answer = _answer(worker, f'{side} did not start')
            if answer != 'ready':
                print(f'{side} is left out ({python}: {answer})')
                workers.pop(side).wait()
        if len(workers) < 2:
            raise SystemExit('nothing to compare: fewer than two sides started')
        timed = Timed({side: [] for side in workers}, {side: [] for side in workers})
        for number in range(rounds):
            for side in list(workers)[:: 1 if number % 2 else -1]:
                workers[side].stdin.write('step\n')
                workers[side].stdin.flush()
                taken, answer = _answer(workers[side], f'{side} ended in round {number + 1}')
                timed.seconds[side].append(taken)
                timed.answers[side].append(answer)
            texts = (
                f'{side} {times[-1]:.3f} s{show(timed.answers[side][-1])}'
                for side, times in timed.seconds.items()
            )
            print(f'round {number + 1}: ' + ', '.join(texts), flush=True)
    finally:
        for worker in workers.values():
            worker.stdin.close()
            worker.wait()
    return timed


def _answer(worker: subprocess.Popen, otherwise: str) -> Any:
    """What a side says next; ends the script with `otherwise` if it says nothing any more."""
    line = worker.stdout.readline()
    if not line:
        raise SystemExit(otherwise)
    return json.loads(line)


def compare(
    pythons: Mapping[str, str], rounds: int, show: Callable[[Any], str] = lambda answer: ''
) -> tuple[dict[str, list[float]], dict[str, Any]]:
    """The seconds of every round, as `time_sides` has them, and the last answer, by side."""
    timed = time_sides(pythons, rounds, show)
    return timed.seconds, {side: answers[-1] for side, answers in timed.answers.items()}


def ratios(seconds: Sequence[float], ours: Sequence[float]) -> Ratios:
    """How many times faster we are than a side that took `seconds` [rounds]."""
    return {
        'medians': statistics.median(seconds) / statistics.median(ours),
        'fastest': min(seconds) / min(ours),
        'paired': statistics.median(a / b for a, b in zip(seconds, ours, strict=True)),
    }


def print_ratios(seconds: Mapping[str, Sequence[float]], ours: str = 'xlbench') -> None:
    """Prints how many times faster `ours` is than each other side; see Ratios."""
    for side, times in seconds.items():
        if side != ours:
            texts = (f'{x:.2f} ({name})' for name, x in ratios(times, seconds[ours]).items())
            print(f'{ours} against {side}: ' + ', '.join(texts))


def rows(
    work: str,
    seconds: Mapping[str, Sequence[float]],
    against: Mapping[str, str],
    note: str = '',
    ours: str = 'xlbench',
) -> list[Row]:
    """A row for each side but `ours`, of what was done, as the table of all figures says it.

    `against` is what it calls each other side, with what makes it fast: 'PyTorch, bf16 autocast,
    fused AdamW'; a side without a name has no row. The note is what a reader of the figure must
    know: what bounds it, say.
    """
    return [
        {'work': work, 'against': against[side], **ratios(times, seconds[ours]),
         'rounds': len(times), 'seconds': {name: list(seconds[name]) for name in (side, ours)},
         'note': note}
        for side, times in seconds.items()
        if side != ours and side in against
    ]  # fmt: skip


def value(work: str, number: float, unit: str, note: str = '') -> Value:
    """A row for a figure without a peer."""
    return {'work': work, 'value': number, 'unit': unit, 'note': note}


def grown(work: str, size: str, at: int, number: float, unit: str) -> Value:
    """A row of a series, see Series: the table has one line for all sizes."""
    row = value(f'{work}, {unit}, {size} {at:,}', number, unit)
    row['series'] = {'work': work, 'size': size, 'at': at}
    return row


def write(file: str, made: Sequence[Row | Value]) -> None:
    """Writes the rows of a script into the file that `--json` named, if it named one."""
    if file:
        with open(file, 'w', encoding='utf-8') as stream:
            json.dump(made, stream, indent=1)
