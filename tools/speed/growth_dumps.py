r"""Measures the build of MRS from dumps of made-up comments: seconds, memory, equal files.

    python tools/speed/growth_dumps.py --comments=10000,100000 -- --workers=1
    python tools/speed/growth_dumps.py --comments=1000000 -- --workers=1 -- --workers=2 \
        -- --beam --- --direct_running_mode=multi_processing --direct_num_workers=2

Each `--` begins the flags of one build, and `---` stands for the `--` before Beam's own. Shown are
the wall and processor seconds of each, and the resident memory of its largest process.
"""

import hashlib
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time

import interleaved

WORDS = {
    'en': 'the of and to in is you that it he was for on are with as his they be at have',
    'de': 'der die und in den von zu das mit sich des auf ist im dem nicht ein eine als',
}
BEGIN = 1_514_764_800  # 2018-01-01.


def write_dump(path: pathlib.Path, comments: int) -> None:
    """Writes comments in threads of about twelve, half of which are German."""
    rng = random.Random(0)
    with path.open('w') as file:
        for number in range(comments):
            thread = number // 12
            words = WORDS[('en', 'de')[thread % 2]].split()
            parent = f't3_p{thread}'
            if number % 12:
                parent = f't1_c{number - rng.randint(1, number % 12)}'
            body = ' '.join(rng.choices(words, k=rng.randint(2, 40)))
            line = dict(
                id=f'c{number}', link_id=f't3_p{thread}', parent_id=parent, body=body,
                score=rng.randint(-1, 20), created_utc=BEGIN + number % 10_000_000,
            )  # fmt: skip
            file.write(json.dumps(line) + '\n')


def digest(folder: pathlib.Path) -> str:
    """A hash of all files of a folder."""
    found = hashlib.sha256()
    for path in sorted(folder.rglob('*')):
        if path.is_file():
            found.update(str(path.relative_to(folder)).encode() + path.read_bytes())
    return found.hexdigest()[:12]


def measure(dump: pathlib.Path, flags: list[str], folder: pathlib.Path) -> dict:
    """Builds in a process of its own, of which the operating system knows the cost."""
    argv = [sys.executable, '-m', 'xlbench.data', 'mrs_build', str(dump), f'--output={folder}']
    argv += ['--languages=en,de', '--min_count=2', *flags]
    start = time.perf_counter()
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)  # With its own children.
    if status:
        raise SystemExit(f'{" ".join(argv)} failed')
    return {
        'wall': round(time.perf_counter() - start, 1),
        'processor': round(used.ru_utime + used.ru_stime, 1),
        'mib': used.ru_maxrss >> 10,
        'files': digest(folder / 'mrs'),
    }


def main() -> None:
    own, *builds = ' '.join(['', *sys.argv[1:]]).split(' -- ')
    parser = interleaved.parser(__doc__, (), rounds=1)
    parser.add_argument('--comments', default='10000,100000,1000000')
    args, made = parser.parse_args(own.split()), []
    with tempfile.TemporaryDirectory() as place:
        for size in map(int, args.comments.split(',')):
            dump = pathlib.Path(place, f'RC_{size}')
            write_dump(dump, size)
            for number, build in enumerate(builds or ['--workers=1']):
                flags = build.replace(' --- ', ' -- ').split()
                result = measure(dump, flags, pathlib.Path(place, f'{size}-{number}'))
                mib = dump.stat().st_size >> 20
                print(f'{size:>10,} comments, {mib} MiB, {build}: {result}', flush=True)
                work = f'a build of MRS, {build}'
                made.append(interleaved.grown(work, 'comments', size, result['processor'], 's'))
                made.append(interleaved.grown(work, 'comments', size, result['mib'], 'MiB'))
    interleaved.write(args.json, made)


if __name__ == '__main__':
    main()
