"""Times the same work done by several sides on one machine, a step of each in turn.

Every side is one process that stays warm, so that all see the same machine; the order turns round
every other round, so that none always goes first. A script gives each side a function of its
arguments that returns the step to time:

    STEPS = {'torch': torch_step, 'xlbench': xlbench_step}
    parser = interleaved.parser(__doc__, STEPS, rounds=5)
    parser.add_argument('--torch_python', required=True)
    args = parser.parse_args()
    if args.side:
        interleaved.serve(STEPS[args.side], args)
    else:
        pythons = {'torch': args.torch_python, 'xlbench': sys.executable}
        seconds, answers = interleaved.compare(pythons, args.rounds)
        interleaved.print_ratios(seconds)

Nothing but the standard library is imported: the sides run under different interpreters.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any


def parser(doc: str, sides: Iterable[str], rounds: int) -> argparse.ArgumentParser:
    """The command line that every script has, to which it adds its own options.

    Args:
      doc: the script's docstring.
      sides: names of the sides.
      rounds: how many rounds are timed unless said otherwise.
    """
    made = argparse.ArgumentParser(description=doc.partition('\n')[0])
    made.add_argument('--side', choices=tuple(sides), help=argparse.SUPPRESS)
    made.add_argument('--rounds', type=int, default=rounds)
    return made


def serve(make_step: Callable, args: argparse.Namespace, warmups: int = 1) -> None:
    """Answers each line on standard input with one step's seconds and what it returned.

    Args:
      make_step: given the arguments, returns the step: a function of nothing whose answer JSON can
        hold. An ImportError there means that this interpreter lacks the side's library.
      args: the command line.
      warmups: steps before the first that is timed; they compile.
    """
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


def compare(
    pythons: Mapping[str, str], rounds: int, show: Callable[[Any], str] = lambda answer: ''
) -> tuple[dict[str, list[float]], dict[str, Any]]:
    """Runs the script that was started once more for each side, and times the sides in turn.

    Args:
      pythons: the interpreter of each side. A side whose library is missing there is left out.
      rounds: how many rounds are timed.
      show: what to print after a step's seconds, given what the step returned.

    Returns:
      The seconds of every step and the last answer, by side.
    """
    workers = {}
    for side, python in pythons.items():
        worker = subprocess.Popen(
            [python, sys.argv[0], f'--side={side}', *sys.argv[1:]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        answer = worker.stdout.readline()
        if not answer:
            raise SystemExit(f'{side} did not start')
        if json.loads(answer) == 'ready':
            workers[side] = worker
        else:
            print(f'{side} is left out ({python}: {json.loads(answer)})')
    if len(workers) < 2:
        raise SystemExit('nothing to compare: fewer than two sides started')
    seconds, answers = {side: [] for side in workers}, {}
    for number in range(rounds):
        for side in list(workers)[:: 1 if number % 2 else -1]:
            workers[side].stdin.write('step\n')
            workers[side].stdin.flush()
            taken, answers[side] = json.loads(workers[side].stdout.readline())
            seconds[side].append(taken)
        texts = (f'{side} {t[-1]:.3f} s{show(answers[side])}' for side, t in seconds.items())
        print(f'round {number + 1}: ' + ', '.join(texts), flush=True)
    for worker in workers.values():
        worker.stdin.close()
        worker.wait()
    return seconds, answers


def print_ratios(seconds: Mapping[str, Sequence[float]], ours: str = 'xlbench') -> None:
    """Prints how many times faster `ours` is than each other side (below 1: slower).

    Three ratios: of medians, of the fastest steps, and the median of the ratios of each round.
    """
    for side, times in seconds.items():
        if side != ours:
            medians = statistics.median(times) / statistics.median(seconds[ours])
            fastest = min(times) / min(seconds[ours])
            paired = statistics.median(a / b for a, b in zip(times, seconds[ours], strict=True))
            print(
                f'{ours} against {side}: {medians:.2f} (medians), {fastest:.2f} (fastest), '
                f'{paired:.2f} (paired)'
            )
