r"""Kills a small run once a minute of its processor time, and starts it again: nothing may grow.

  nice -n 15 python tools/attacks/soak.py                 an hour of processor time
  python tools/attacks/soak.py --minutes=10 --every=20    ten minutes, a kill after 20 seconds each

The run has no end. It trains, evaluates, keeps checkpoints and writes to TensorBoard. Before each
kill, its memory, threads and open files are read from /proc; after it, the processes and temporary
files that are left, and what the workdir holds beside the histories, which have a line for each
start, evaluation or row. The first starts and the last ones are compared: exit code 1 if one grew.
"""

import argparse
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import commands  # noqa: F401  Its folders are on the path.
import tiny

HISTORIES = {'log.txt', 'metrics.jsonl', 'sessions.jsonl', 'tensorboard', 'eval'}
_TICKS = os.sysconf('SC_CLK_TCK')
# How much more of each the last starts may have than the first ones.
ALLOWED = {
    'memory_mib': 1.1, 'threads': 1.0, 'open_files': 1.0, 'workdir_kib': 1.1, 'files': 1.0,
    'temporary': 1.0, 'left_running': 1.0,
}  # fmt: skip


def prepare(scratch: pathlib.Path) -> None:
    """Writes the data, and the config of a run that has no end."""
    (scratch / 'root').mkdir()
    tiny.write_root(scratch / 'root')
    config = tiny.brief_config(scratch / 'root', checkpoints__every=200, log_every=100)
    config.stages.stage1.num_steps = 1_000_000_000
    config.evals.dev.update(every=1000, tasks=tiny.QUESTIONS[:1], num_examples=10)
    tiny.write_config(scratch / 'tiny_config.py', config)


def processor_seconds(pid: int) -> float:
    """Of a process, with all its threads."""
    fields = pathlib.Path(f'/proc/{pid}/stat').read_text().rpartition(')')[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def running(session: int) -> list[str]:
    """The processes of a session, by number."""
    found = []
    for place in pathlib.Path('/proc').glob('[0-9]*/stat'):
        try:
            if place.read_text().rpartition(')')[2].split()[3] == str(session):
                found.append(place.parent.name)
        except OSError:  # It has just ended.
            continue
    return found


def start(scratch: pathlib.Path, seconds: float) -> dict[str, float]:
    """Starts the run, kills it after some processor seconds, and returns what it held then."""
    command = [sys.executable, '-m', 'xlbench.train', '--config=tiny_config.py', '--workdir=run']
    environment = os.environ | {'TMPDIR': str(scratch / 'tmp')}
    with open(scratch / 'said.txt', 'wb') as said:
        process = subprocess.Popen(
            command, cwd=scratch, env=environment, stdout=said, stderr=said, start_new_session=True
        )
    used = 0.0
    while used < seconds:
        time.sleep(0.5)
        if process.poll() is not None:
            raise SystemExit(f'it ended with {process.returncode}:\n{_end(scratch / "said.txt")}')
        used = processor_seconds(process.pid)
    place = pathlib.Path(f'/proc/{process.pid}')
    status = dict(line.split(':', 1) for line in (place / 'status').read_text().splitlines())
    held = {
        'memory_mib': int(status['VmRSS'].split()[0]) / 1024, 'threads': int(status['Threads']),
        'open_files': len(os.listdir(place / 'fd')), 'processor_seconds': used,
    }  # fmt: skip
    process.send_signal(signal.SIGKILL)
    process.wait()
    deadline = time.monotonic() + 10
    while (left := running(process.pid)) and time.monotonic() < deadline:
        time.sleep(0.1)
    kept = [
        path
        for path in (scratch / 'run').rglob('*')
        if path.is_file() and not {*path.parts} & HISTORIES
    ]
    # A kill may come while a checkpoint is written, whose folder the next start removes.
    whole = [path for path in kept if '.orbax-checkpoint-tmp' not in str(path)]
    steps = {p.parts[p.parts.index('checkpoints') + 1] for p in whole if 'checkpoints' in p.parts}
    return held | {
        'step': max(map(int, (s for s in steps if s.isdecimal())), default=0),
        'workdir_kib': sum(path.stat().st_size for path in whole) / 1024,
        'files': len(whole),
        'temporary': sum(path.is_file() for path in (scratch / 'tmp').rglob('*')),
        'left_running': len(left),
    }


def _end(path: pathlib.Path) -> str:
    return path.read_text(encoding='utf-8', errors='replace')[-2000:]


def grown(rows: list[dict[str, float]]) -> list[str]:
    """What the last third of the starts has more of than the first third, which is compared."""
    third = max(1, len(rows) // 3)
    found = []
    for name, factor in ALLOWED.items():
        first, last = (
            statistics.median(row[name] for row in part) for part in (rows[:third], rows[-third:])
        )
        if last > first * factor:
            found.append(f'{name} grew from {first:,.1f} to {last:,.1f}')
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--minutes', type=float, default=60, help='of processor time, of all')
    parser.add_argument('--every', type=float, default=60, help='processor seconds of a start')
    args = parser.parse_args()
    rows: list[dict[str, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        scratch = pathlib.Path(folder)
        prepare(scratch)
        (scratch / 'tmp').mkdir()
        while sum(row['processor_seconds'] for row in rows) < 60 * args.minutes:
            rows.append(start(scratch, args.every))
            shown = ' '.join(f'{name}={value:,.0f}' for name, value in rows[-1].items())
            print(f'start {len(rows)}: {shown}', flush=True)
        stuck = rows[-1]['step'] <= rows[0]['step']
    found = grown(rows) + (['it made no steps'] if stuck else [])
    print(f'{len(rows)} starts and kills, {"; ".join(found) or "nothing grew"}')
    return bool(found)


if __name__ == '__main__':
    sys.exit(main())
