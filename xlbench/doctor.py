"""Checks the installation and the machine, problems first.

  python -m xlbench.doctor

Exit code 1 if the default run (the embedded sample) cannot work here.
"""

import dataclasses
import os
import pathlib
import platform
import re
import shutil
import sys
import urllib.request
from collections.abc import Sequence
from importlib import metadata

from xlbench.system import errors, machine, web
from xlbench.system.command_line import CommandLine

_PYTHON = ((3, 11), (3, 14))  # From, up to but not: as pyproject.toml says.
_LOW_DISK = 2 << 30  # bytes; a sample run with its checkpoints takes well under this.
_LOW_MEMORY = 3 << 30  # bytes
_PATIENCE = 3.0  # Seconds that the hub has to answer.
# TensorFlow goes by several names; any of them is the module `tensorflow`.
_TENSORFLOW = ('tensorflow', 'tensorflow-cpu', 'tf-nightly')
# Packages that only xlbench.prepare uses; a machine with prepared data can do without.
_PREPARE_ONLY = ('seqio', 'tensorflow-datasets')
_INSTALL = "pip install -e '.[test]'"


@dataclasses.dataclass
class Findings:
    """Facts and problems of this machine.

    Attributes:
      problems: what keeps the default run from working, each with what to do.
      notes: what is worth knowing and stops nothing.
      lines: (topic, fact).
    """

    problems: list[str] = dataclasses.field(default_factory=list)
    notes: list[str] = dataclasses.field(default_factory=list)
    lines: list[tuple[str, str]] = dataclasses.field(default_factory=list)


def examine() -> Findings:
    """Looks at everything, in the order of the screen."""
    findings = Findings()
    for look in (_look_at_machine, _look_at_jax, _look_at_packages, _look_at_data, _look_at_hub):
        look(findings)
    return findings


def show(findings: Findings) -> str:
    """The screen: problems, notes, then facts."""
    lines = [f'problem: {text}' for text in findings.problems]
    lines += [f'note: {text}' for text in findings.notes]
    verdict = 'cannot run here yet' if findings.problems else 'can run here'
    lines.append(f'the default run (embedded sample) {verdict}')
    width = max((len(topic) for topic, _ in findings.lines), default=0)
    return '\n'.join([*lines, *(f'{topic.ljust(width)}  {fact}' for topic, fact in findings.lines)])


def main(argv: Sequence[str]) -> int:
    """The command line, without the program's name."""
    CommandLine('doctor', __doc__).parse(argv)
    findings = examine()
    print(show(findings))
    return 1 if findings.problems else 0


def _look_at_machine(findings: Findings) -> None:
    low, high = _PYTHON
    version = sys.version_info[:2]
    if not low <= version < high:
        findings.problems.append(
            f'Python {version[0]}.{version[1]} is not supported; make an environment with '
            f'Python {low[0]}.{low[1]} to {high[0]}.{high[1] - 1}'
        )
    findings.lines.append(
        ('python', f'{platform.python_version()} in {sys.prefix}, {platform.platform(terse=True)}')
    )
    memory = machine.memory()
    known = 'unknown' if memory is None else _gigabytes(memory)
    findings.lines.append(('cpu', f'{machine.cores()} cores, {known} memory'))
    if memory is not None and memory < _LOW_MEMORY:
        findings.notes.append(f'only {known} memory: take a small config, and a small batch size')
    free = shutil.disk_usage('.').free
    findings.lines.append(('disk', f'{_gigabytes(free)} free in {os.getcwd()}'))
    if free < _LOW_DISK:
        findings.notes.append(
            f'only {_gigabytes(free)} of disk are free here; checkpoints may not fit'
        )


def _look_at_jax(findings: Findings) -> None:
    try:
        import jax

        devices = jax.devices()
    except Exception as error:
        reason = re.sub(r'\s+', ' ', str(error))[:200]
        findings.problems.append(
            f'jax does not start ({type(error).__name__}: {reason}); install it with {_INSTALL}, '
            'or set JAX_PLATFORMS=cpu if an accelerator is the trouble'
        )
        return
    backend = jax.default_backend()
    kinds = sorted({device.device_kind for device in devices})
    findings.lines.append(
        ('jax', f'{jax.__version__} on {backend}: {len(devices)} x {", ".join(kinds)}')
    )
    if limit := _device_memory():
        findings.lines.append(('', f'{_gigabytes(limit)} of memory on the first device'))
    for name in ('JAX_PLATFORMS', 'XLA_FLAGS', 'CUDA_VISIBLE_DEVICES'):
        if value := os.environ.get(name):
            findings.lines.append(('', f'{name}={value}'))
    if backend == 'cpu' and (missing := _unused_accelerator()):
        findings.notes.append(missing)


def _device_memory() -> int | None:
    """Bytes the first device lets jax use; None where it does not say (CPUs)."""
    import jax

    try:
        return (jax.devices()[0].memory_stats() or {}).get('bytes_limit')
    except Exception:  # Some backends raise for a statistic they lack.
        return None


def _unused_accelerator() -> str:
    """Says what to install if there is an accelerator that jax does not use."""
    if os.environ.get('JAX_PLATFORMS', '').strip() == 'cpu':
        return ''
    if pathlib.Path('/dev/nvidia0').exists():
        return "an NVIDIA GPU is here, but jax runs on the CPU; pip install -e '.[cuda]'"
    if pathlib.Path('/dev/accel0').exists():
        return "a TPU seems to be here, but jax runs on the CPU; pip install -e '.[tpu]'"
    return ''


def _look_at_packages(findings: Findings) -> None:
    if not installed('xlbench'):
        findings.notes.append(f'xlbench is not installed, and its packages not checked; {_INSTALL}')
    present, wrong = [], []
    for name, minimum in requirements().items():
        version = installed(name)
        if version is None and name in _PREPARE_ONLY:
            continue  # _look_at_tensorflow says what that means.
        if version is None:
            wrong.append(f'{name} is missing')
        elif minimum and _numbers(version) < _numbers(minimum):
            wrong.append(f'{name} is {version}, at least {minimum} is needed')
        else:
            present.append(f'{name} {version}')
    for at in range(0, len(present), 6):
        findings.lines.append(('packages' if at == 0 else '', ', '.join(present[at : at + 6])))
    if wrong:
        findings.problems.append(f'{"; ".join(wrong)}; {_INSTALL}')


def requirements() -> dict[str, str]:
    """{needed package: least version or ''} by the project; none if it is not installed."""
    needed = {}
    lines = (metadata.requires('xlbench') or []) if installed('xlbench') else []
    for line in lines:
        requirement, _, condition = line.partition(';')
        if 'extra' not in condition:
            minimum = re.search(r'>=\s*([\d.]+)', requirement)
            name = re.split(r'[^A-Za-z0-9._-]', line, maxsplit=1)[0]
            needed[name] = minimum[1] if minimum else ''
    return needed


def installed(name: str) -> str | None:
    """The installed version of a package, without importing it."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _look_at_data(findings: Findings) -> None:
    root = pathlib.Path(os.environ.get('XLBENCH_DATA') or 'data')
    source = 'XLBENCH_DATA' if os.environ.get('XLBENCH_DATA') else 'the default; set XLBENCH_DATA'
    state = _data_state(root) if root.is_dir() else 'not there yet; it is made when needed'
    findings.lines.append(('data', f'{root} ({source}): {state}'))
    sample = next((p for p in (root / 'sample', root) if (p / 'SAMPLE.json').is_file()), None)
    prepared = sample is not None and any((sample / 'prepared').glob('*/*/*/manifest.json'))
    state = 'not written yet; xlbench.prepare --sample writes it'
    if sample is not None:
        state = f'{sample}, {"prepared" if prepared else "not prepared"}'
    findings.lines.append(('sample', state))
    nearest = next(p for p in (root, *root.absolute().parents) if p.is_dir())
    if not prepared and not os.access(nearest, os.W_OK):
        findings.problems.append(
            f'cannot write into {nearest}, where the sample is to be made; set XLBENCH_DATA to a '
            'folder of yours'
        )
    _look_at_tensorflow(findings)


def _data_state(root: pathlib.Path) -> str:
    try:
        names = sorted(path.name for path in root.iterdir() if path.is_dir())
    except OSError as error:
        return f'cannot be read ({error.strerror})'
    return f'{", ".join(names[:12]) or "empty"}{", ..." if len(names) > 12 else ""}'


def _look_at_tensorflow(findings: Findings) -> None:
    """Only what SeqIO's own pipeline reads needs TensorFlow."""
    tensorflow = next((f'{n} {installed(n)}' for n in _TENSORFLOW if installed(n)), None)
    state = f'{tensorflow or "tensorflow missing"}, seqio {installed("seqio") or "missing"}'
    findings.lines.append(('TensorFlow', f'{state} (only for tasks with a source of SeqIO)'))


def _look_at_hub(findings: Findings) -> None:
    home = os.environ.get('HF_HOME') or '~/.cache/huggingface'
    state = f'{_hub_state()}; cache {home} (the default run needs no download)'
    findings.lines.append(('hub', state))


def _hub_state() -> str:
    """Says whether public checkpoints can be fetched; asks the hub, if it may."""
    for name in ('HF_HUB_OFFLINE', 'TRANSFORMERS_OFFLINE'):
        if os.environ.get(name, '').strip().lower() in ('1', 'true', 'yes', 'on'):
            return f'offline by {name}: only models in the cache'
    address = os.environ.get('HF_ENDPOINT') or 'https://huggingface.co'
    try:
        web.ask(urllib.request.Request(address, method='HEAD'), _PATIENCE, most=0)
    except (OSError, ValueError) as error:
        reason = errors.printable(getattr(error, 'reason', error), 100)
        return f'{address} does not answer ({reason}): only models in the cache'
    return f'{address} answers: public models can be fetched'


def _numbers(version: str) -> tuple[int, ...]:
    """'0.12.8' -> (0, 12, 8); what follows the numbers (rc1, +cu) is left out."""
    return tuple(int(part) for part in re.split(r'[^\d.]', version)[0].split('.') if part)


def _gigabytes(count: int) -> str:
    return f'{count / (1 << 30):.1f} GiB'


if __name__ == '__main__':
    sys.exit(errors.run_main(main, sys.argv[1:]))
