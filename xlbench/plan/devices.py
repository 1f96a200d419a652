"""Devices to compile for: TPU slices, CPUs, and the devices of this machine.

Their memory and peaks are those that their makers give.
"""

import contextlib
import dataclasses
import importlib.util
import math
import os
import re
from collections.abc import Sequence

import jax
from jax.experimental import topologies

from xlbench.parallel import partitioning
from xlbench.system import errors
from xlbench.system.errors import UserError

GIB = 1 << 30


@dataclasses.dataclass(frozen=True)
class Chip:
    """The figures of one chip, as its maker gives them.

    Attributes:
      memory: bytes.
      memory_speed: bytes/s.
      link_speed: bytes/s that it sends over all its links together; half of the "bidirectional".
      clock: cycles/s: peak FLOP/s over what its matrix units do in a cycle, as the page says.
      source: page of these numbers.
    """

    memory: int | None
    memory_speed: float
    link_speed: float
    clock: float | None
    source: str


_DOCS = 'cloud.google.com/tpu/docs/'
_H100 = 'NVIDIA H100 SXM data sheet'
# Device kind as jax has it -> chip.
_CHIPS = {
    'TPU v4': Chip(32 * GIB, 1200e9, 300e9, 1.05e9, _DOCS + 'v4, arXiv:2304.01433 table 4'),
    # 197e12 FLOP/s = 4 units x 128 x 128 x 2 x clock; v5p has twice four.
    'TPU v5 lite': Chip(16 * GIB, 819e9, 200e9, 1.5e9, _DOCS + 'v5e'),
    'TPU v5': Chip(95 * GIB, 2765e9, 600e9, 1.75e9, _DOCS + 'v5p'),
    'TPU v6 lite': Chip(32 * GIB, 1638e9, 400e9, None, _DOCS + 'v6e'),
    # Memory is what the device itself offers: there are several sizes.
    'NVIDIA A100': Chip(None, 2039e9, 300e9, None, 'NVIDIA A100 80GB SXM data sheet'),
    'NVIDIA H100': Chip(None, 3350e9, 450e9, None, _H100),
    'NVIDIA H200': Chip(None, 4800e9, 450e9, None, 'NVIDIA H200 SXM data sheet'),
}
TPUS = ('v4', 'v5e', 'v5p', 'v6e')
GPUS = {'a100': 'NVIDIA A100', 'h100': 'NVIDIA H100', 'h200': 'NVIDIA H200'}
EXAMPLES = (
    'v4:2x2x4', 'v5e:4x4', 'v5p:2x2x4', 'v5p:4x4x4', 'v6e:16x16', '2xv6e:16x16', 'h100:8', 'cpu:8',
    'local',
)  # fmt: skip
_TPU = re.compile(rf'(?:(\d+)x)?((?:{"|".join(TPUS)}):(\d+x\d+(?:x\d+)?))')


def devices_of(topology: str) -> Sequence[jax.Device]:
    """Returns the devices of 'local', 'cpu:8', 'v5p:4x4x4', or two slices '2xv5p:4x4x4'.

    To be called before jax has touched a device; a CPU has as many as were asked for first.

    Raises:
      UserError: there is no such topology, or libtpu is missing.
    """
    kind, _, shape = topology.partition(':')
    if topology == 'local':
        return jax.devices()
    if kind == 'cpu' and shape.isdigit() and int(shape) > 0:
        return _cpu_devices(int(shape))
    if match := _TPU.fullmatch(topology):
        return _tpu_devices(match[2], int(match[1] or 1))
    if is_gpu(topology):  # They stand in for GPUs: nothing is compiled for them.
        return _cpu_devices(int(shape))
    hint = (
        'A TPU is NAME:AxB or NAME:AxBxC of its chips, several slices 2xNAME:AxBxC, GPUs are '
        'NAME:GPUS, and a CPU is cpu:DEVICES'
    )
    raise errors.unknown('topology', topology, EXAMPLES, hint)


def _cpu_devices(count: int) -> Sequence[jax.Device]:
    flag = r'--xla_force_host_platform_device_count=\S+'
    with contextlib.suppress(RuntimeError):  # Another part of this process has started jax.
        jax.config.update('jax_num_cpu_devices', count)
        # Both would be an error.
        os.environ['XLA_FLAGS'] = re.sub(flag, '', os.environ.get('XLA_FLAGS', ''))
        jax.config.update('jax_platforms', 'cpu')
    devices = jax.devices('cpu')
    if len(devices) < count:
        raise UserError(
            f'cpu:{count} needs a process in which jax has not started yet; this one has '
            f'{len(devices)} CPU devices'
        )
    return devices[:count]


def is_tpu(topology: str) -> bool:
    """Returns whether libtpu describes and compiles for it."""
    return _TPU.fullmatch(topology) is not None


def is_gpu(topology: str) -> bool:
    """Returns whether it is GPUs by name, known by their maker's figures alone."""
    kind, _, number = topology.partition(':')
    return kind in GPUS and number.isdecimal() and int(number) > 0


def _tpu_devices(topology: str, slices: int) -> Sequence[jax.Device]:
    spec = importlib.util.find_spec('libtpu')
    if spec is None or spec.origin is None:
        raise UserError(
            f'topology {topology} needs no TPU, but the package libtpu of the version that jax '
            "asks for, which is not installed here: pip install -e '.[tpu]', or 'jax[tpu]'"
        )
    # It is no TPU machine: nobody is to be asked which one it is, nor is one to be locked.
    for name, value in (
        ('TPU_SKIP_MDS_QUERY', '1'),
        ('TPU_WORKER_HOSTNAMES', 'localhost'),
        ('TPU_ACCELERATOR_TYPE', 'v5p-8'),
        ('ALLOW_MULTIPLE_LIBTPU_LOAD', '1'),
        ('TPU_STDERR_LOG_LEVEL', '3'),
        ('TPU_MIN_LOG_LEVEL', '3'),
    ):
        os.environ.setdefault(name, value)
    with contextlib.suppress(RuntimeError):
        jax.config.update('jax_platforms', 'cpu')
    try:
        several = {'num_slices': slices} if slices > 1 else {}
        return topologies.get_topology_desc(topology, 'tpu', **several).devices
    except Exception as error:  # Of several types, by version.
        text = ' '.join(str(error).split()).partition(': ')[2] or str(error)
        raise UserError(
            f'libtpu does not know the topology {topology}: {text[:200]}; known are for example '
            f'{", ".join(EXAMPLES[:-2])}'
        ) from None


@dataclasses.dataclass(frozen=True)
class Device:
    """One device of the topology; each number may be unknown."""

    count: int
    kind: str
    capacity: int | None  # bytes
    peak: float | None  # bfloat16 FLOP/s
    memory_speed: float | None  # bytes/s
    link_speed: float | None  # bytes/s
    clock: float | None  # cycles/s
    source: str


def describe(devices: Sequence[jax.Device], topology: str, memory: float | None) -> Device:
    """Describes devices by what is known of them.

    Args:
      devices: all of them.
      topology: as the user wrote it.
      memory: GiB that the user says a device has.
    """
    mesh = partitioning.make_mesh(devices=devices)
    kind = GPUS[topology.partition(':')[0]] if is_gpu(topology) else devices[0].device_kind
    names = [name for name in _CHIPS if kind.startswith(name)]
    chip = _CHIPS[max(names, key=len)] if names else None
    chips = len(devices)
    if match := _TPU.fullmatch(topology):
        chips = int(match[1] or 1) * math.prod(map(int, match[3].split('x')))
    part = chips / len(devices)  # libtpu describes a v4 chip as two devices.
    peak = partitioning.peak_flops(mesh, kind)
    capacity, source = None, 'not known'
    if memory:
        capacity, source = round(memory * GIB), '--memory'
    elif chip and chip.memory:
        capacity, source = round(chip.memory * part), chip.source
    elif topology == 'local':
        capacity = partitioning.memory_limit(mesh)
        source = 'what the device offers' if capacity else source
    return Device(
        count=len(devices),
        kind=kind,
        capacity=capacity,
        peak=peak and peak / mesh.size * part,
        memory_speed=chip and chip.memory_speed * part,
        link_speed=chip and chip.link_speed * part,
        clock=chip and chip.clock,
        source=source,
    )
