r"""Times how soon every program answers --help, and a typo: medians of five starts.

    python tools/speed/answers.py
    python tools/speed/answers.py --rounds=9 --programs=train,predict

Programs take turns, each start in a fresh interpreter, with nothing else running on the machine, if
the seconds are to mean something. Printed are the median seconds on the clock, and of CPU time
(user and system), which a busy machine changes less. What is aimed at is below 1 second for --help
and below 3 for a typo.
"""

import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import interleaved

PROJECT = pathlib.Path(__file__).parent.parent.parent
# {program: a command line with a slip in a name}.
PROGRAMS = {
    'train': '--config=mtg_mt5 --config.stages.stage1.mixture=mtg_multi_qq',
    'evaluate': '--workdir=rnus',
    'predict': './rnus',
    'prepare': '--mixture=mtg_multi_qq',
    'convert': './rnus out',
    'report': 'rnus',
    'score': 'out.txt --task=mtg_qg_ed_de',
    'plan': '--config=mtg_mt5:xll',
    'doctor': '--verbsoe',
    'data': 'lst',
    'fewshot': '--config=fewshot --config.adapt.methosd=full',
    'fewshot report': 'rnus',
    'fewshot attention': 'rnus --lang=de',
    'data buckets': 'chekc x',
    'data mrs_build': 'nothing.zst --output=out',
    'data mtg_build': 'build --engine=apertium --tg=x.csv --output=out',
    'data xtreme': '--task=pnax',
}


def start(program: str, line: str, folder: str) -> tuple[float, float]:
    """(seconds on the clock, seconds of CPU time) until a program has ended."""
    command = [sys.executable, '-m', *f'xlbench.{program} {line}'.split()]
    before, began = os.times(), time.monotonic()
    run = subprocess.run(command, cwd=folder, capture_output=True, check=False)
    seconds, after = time.monotonic() - began, os.times()
    if run.returncode != (0 if line == '--help' else 2):
        raise SystemExit(f'{" ".join(command)} ended with {run.returncode}: {run.stderr.decode()}')
    used = after.children_user + after.children_system
    return seconds, used - before.children_user - before.children_system


def main() -> None:
    parser = interleaved.parser(__doc__, (), rounds=5)
    parser.add_argument('--programs', default=','.join(PROGRAMS))
    args = parser.parse_args()
    os.environ['PYTHONPATH'] = f'{PROJECT}:{os.environ.get("PYTHONPATH", "")}'
    lines = {
        (program, kind): '--help' if kind == 'help' else PROGRAMS[program]
        for program in args.programs.split(',')
        for kind in ('help', 'typo')
    }
    with tempfile.TemporaryDirectory() as folder:
        rounds = [
            {key: start(key[0], line, folder) for key, line in lines.items()}
            for _ in range(args.rounds)
        ]
    print(f'{"seconds, medians of " + str(args.rounds):<28} --help   (CPU)     typo   (CPU)')
    slowest = {'help': 0.0, 'typo': 0.0}
    for program in args.programs.split(','):
        numbers = {
            (kind, place): statistics.median(taken[program, kind][place] for taken in rounds)
            for kind in slowest
            for place in (0, 1)
        }
        slowest = {kind: max(numbers[kind, 0], slowest[kind]) for kind in slowest}
        print(f'xlbench.{program:<20} ' + ' '.join(f'{x:8.2f}' for x in numbers.values()))
    works = {
        'help': 'the slowest program answers --help',
        'typo': 'the slowest program answers a typo',
    }
    made = [interleaved.value(works[kind], slowest[kind], 's') for kind in slowest]
    interleaved.write(args.json, made)


if __name__ == '__main__':
    main()
