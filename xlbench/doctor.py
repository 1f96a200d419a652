"""Checks the installation and the machine, problems first.

  python -m xlbench.doctor

Exit code 1 if the default run (the embedded sample) cannot work here.
"""

import os
import pathlib
import platform
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from importlib import metadata

from xlbench.system import errors, machine
from xlbench.system.command_line import CommandLine

_PYTHON = ((3, 11), (3, 14))  # From, up to but not: as pyproject.toml says.
_LOW_DISK = 2 << 30  # bytes; a sample run with its checkpoints takes well under this.
_LOW_MEMORY = 3 << 30  # bytes
# Packages that only SeqIO's own pipeline uses; a machine with prepared data can do without.
_PREPARE_ONLY = ('seqio', 'tensorflow-datasets')
_INSTALL = "pip install -e '.[test]'"
# What there is of an accelerator, and the extra that has jax use it.
_ACCELERATORS = {'/dev/nvidia0': ('an NVIDIA GPU', 'cuda'), '/dev/accel0': ('a TPU', 'tpu')}

Finding = tuple[str, str]  # ('problem' or 'note', what to do), or (a topic, a fact).


def main(argv: Sequence[str]) -> int:
    """The command line, without the program's name."""
    CommandLine('doctor', __doc__).parse(argv)
    findings = examine()
    for kind in ('problem', 'note'):
        print(''.join(f'{kind}: {text}\n' for topic, text in findings if topic == kind), end='')
    failed = any(topic == 'problem' for topic, _ in findings)
    verdict = 'cannot run here yet' if failed else 'can run here'
    print(f'the default run (embedded sample) {verdict}')
    for topic, fact in findings:
        if topic not in ('problem', 'note'):
            print(f'{topic:<10}{fact}')
    return int(failed)


def examine() -> list[Finding]:
    """Problems, which keep the default run from working, notes and facts, as they come."""
    return [*_of_machine(), *_of_jax(), *_of_packages(), *_of_data()]


def _of_machine() -> Iterator[Finding]:
    version, (low, high) = platform.python_version(), _PYTHON
    if not low <= sys.version_info[:2] < high:
        yield 'problem', (
            f'Python {version} is not supported; make an environment with Python '
            f'{low[0]}.{low[1]} to {high[0]}.{high[1] - 1}'
        )
    yield 'python', f'{version} in {sys.prefix}, {platform.platform(terse=True)}'
    memory, free = machine.memory(), shutil.disk_usage('.').free
    known = 'unknown' if memory is None else _gigabytes(memory)
    yield 'machine', f'{machine.cores()} cores, {known} memory'
    if memory is not None and memory < _LOW_MEMORY:
        yield 'note', f'only {known} memory: take a small config, and a small batch size'
    yield 'disk', f'{_gigabytes(free)} free in {os.getcwd()}'
    if free < _LOW_DISK:
        yield 'note', f'only {_gigabytes(free)} of disk are free here; checkpoints may not fit'


def _of_jax() -> Iterator[Finding]:
    try:
        import jax

        devices = jax.devices()
    except Exception as error:
        yield 'problem', (
            f'jax does not start ({type(error).__name__}: {errors.printable(error)}); install it '
            f'with {_INSTALL}, or set JAX_PLATFORMS=cpu if an accelerator is the trouble'
        )
        return
    backend, kinds = jax.default_backend(), sorted({device.device_kind for device in devices})
    yield 'jax', f'{jax.__version__} on {backend}: {len(devices)} x {", ".join(kinds)}'
    for name in ('JAX_PLATFORMS', 'XLA_FLAGS', 'CUDA_VISIBLE_DEVICES'):
        if value := os.environ.get(name):
            yield '', f'{name}={value}'
    if backend == 'cpu' and os.environ.get('JAX_PLATFORMS', '').strip() != 'cpu':
        for path, (what, extra) in _ACCELERATORS.items():
            if pathlib.Path(path).exists():
                yield 'note', (
                    f"{what} is here, but jax runs on the CPU; pip install -e '.[{extra}]'"
                )


def _of_packages() -> Iterator[Finding]:
    if not machine.installed('xlbench'):
        yield 'note', f'xlbench is not installed, and its packages not checked; {_INSTALL}'
    present, wrong = [], []
    for name, minimum in requirements().items():
        version = machine.installed(name)
        if version is None and name in _PREPARE_ONLY:
            yield 'note', f'{name} is missing, which tasks with a source of SeqIO need'
        elif version is None:
            wrong.append(f'{name} is missing')
        elif minimum and _numbers(version) < _numbers(minimum):
            wrong.append(f'{name} is {version}, at least {minimum} is needed')
        else:
            present.append(f'{name} {version}')
    if wrong:
        yield 'problem', f'{"; ".join(wrong)}; {_INSTALL}'
    yield 'packages', ', '.join(present)


def requirements() -> dict[str, str]:
    """{needed package: least version or ''} by the project; none if it is not installed."""
    needed = {}
    lines = (metadata.requires('xlbench') or []) if machine.installed('xlbench') else []
    for line in lines:
        requirement, _, condition = line.partition(';')
        if 'extra' not in condition:
            minimum = re.search(r'>=\s*([\d.]+)', requirement)
            name = re.split(r'[^A-Za-z0-9._-]', line, maxsplit=1)[0]
            needed[name] = minimum[1] if minimum else ''
    return needed


def _of_data() -> Iterator[Finding]:
    root = pathlib.Path(os.environ.get('XLBENCH_DATA') or 'data')
    there = sorted(p.name for p in root.iterdir() if p.is_dir()) if root.is_dir() else []
    source = 'XLBENCH_DATA' if os.environ.get('XLBENCH_DATA') else 'the default; set XLBENCH_DATA'
    yield 'data', f'{root} ({source}): {", ".join(there) or "nothing yet; it is made when needed"}'
    nearest = next(p for p in (root, *root.absolute().parents) if p.is_dir())
    prepared = any(root.glob('sample/prepared/*/*/*/manifest.json'))
    if not prepared and not os.access(nearest, os.W_OK):
        yield 'problem', (
            f'cannot write into {nearest}, where the sample is to be made; set XLBENCH_DATA to a '
            'folder of yours'
        )


def _numbers(version: str) -> tuple[int, ...]:
    """'0.12.8' -> (0, 12, 8); what follows the numbers (rc1, +cu) is left out."""
    return tuple(int(part) for part in re.split(r'[^\d.]', version)[0].split('.') if part)


def _gigabytes(count: int) -> str:
    return f'{count / (1 << 30):.1f} GiB'


if __name__ == '__main__':
    sys.exit(errors.run_main(main, sys.argv[1:]))
