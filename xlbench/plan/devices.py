"""Devices to compile for: TPU slices, GPUs, CPUs, and the devices of this machine."""

import contextlib
import dataclasses
import importlib.util
import math
import os
import re
from collections.abc import Sequence
from typing import NamedTuple

import jax
from jax.experimental import topologies

from xlbench.parallel import partitioning
from xlbench.system import errors
from xlbench.system.errors import UserError

GIB = 1 << 30
TPUS = ('v4', 'v5e', 'v5p', 'v6e')


class Gpu(NamedTuple):
    """A GPU as XLA has to know it to compile for it; NVIDIA's data sheets and tuning guides."""

    kind: str  # As jax names its devices.
    memory: int  # Bytes.
    capability: tuple[int, int]  # The compute capability.
    cores: int  # Streaming multiprocessors.
    shared: int  # Bytes of shared memory of a multiprocessor.
    cache: int  # Bytes of the second level.
    clock: float  # GHz, at most.

    @property
    def target(self) -> str:
        """The text of XLA's GpuTargetConfig."""
        major, minor = self.capability
        return f'''gpu_device_info {{
          threads_per_block_limit: 1024 threads_per_warp: 32 threads_per_core_limit: 2048
          shared_memory_per_block: 49152 shared_memory_per_block_optin: {self.shared - 1024}
          shared_memory_per_core: {self.shared} core_count: {self.cores}
          fpus_per_core: {64 if self.capability == (8, 0) else 128}
          block_dim_limit_x: 2147483647 block_dim_limit_y: 65535 block_dim_limit_z: 65535
          registers_per_core_limit: 65536 registers_per_block_limit: 65536
          memory_bandwidth: {round(partitioning.CHIPS[self.kind].memory_speed)}
          l2_cache_size: {self.cache} clock_rate_ghz: {self.clock} device_memory_size: {self.memory}
          cuda_compute_capability {{ major: {major} minor: {minor} }}
        }}
        platform_name: "CUDA" device_description_str: "{self.kind}"
        dnn_version_info {{ major: 9 minor: 10 patch: 0 }}'''


GPUS = {
    'a100': Gpu('NVIDIA A100', 80 * 10**9, (8, 0), 108, 164 << 10, 40 << 20, 1.41),
    'h100': Gpu('NVIDIA H100', 80 * 10**9, (9, 0), 132, 228 << 10, 50 << 20, 1.98),
    'h200': Gpu('NVIDIA H200', 141 * 10**9, (9, 0), 132, 228 << 10, 50 << 20, 1.98),
}
GPUS_A_HOST = 8
CUDA = 'jax_cuda13_plugin'  # The package that compiles for GPUs, with and without one.
EXAMPLES = (
    'v4:2x2x4', 'v5e:4x4', 'v5p:2x2x4', 'v5p:4x4x4', 'v6e:16x16', '2xv6e:16x16', 'h100:8', 'cpu:8',
    'local',
)  # fmt: skip
_TPU = re.compile(rf'(?:(\d+)x)?((?:{"|".join(TPUS)}):(\d+x\d+(?:x\d+)?))')


def devices_of(topology: str) -> Sequence[jax.Device]:
    """The devices of 'local', 'cpu:8', 'v5p:4x4x4', or two slices '2xv5p:4x4x4'.

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
    if compiles_for_gpu(topology):
        return _gpu_devices(GPUS[kind], int(shape))
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
    """True if libtpu describes and compiles for it."""
    return _TPU.fullmatch(topology) is not None


def is_gpu(topology: str) -> bool:
    """True if it names GPUs."""
    kind, _, number = topology.partition(':')
    return kind in GPUS and number.isdecimal() and int(number) > 0


def compiles_for_gpu(topology: str) -> bool:
    """True if it names GPUs, and the package that compiles for them is installed."""
    return is_gpu(topology) and importlib.util.find_spec(CUDA) is not None


def _gpu_devices(gpu: Gpu, count: int) -> Sequence[jax.Device]:
    """Describes GPUs to a compiler that needs none; its choices are not tuned by measurements."""
    os.environ['JAX_SKIP_CUDA_CONSTRAINTS_CHECK'] = '1'  # There is no driver.
    os.environ['XLA_FLAGS'] = f'{os.environ.get("XLA_FLAGS", "")} --xla_gpu_autotune_level=0'
    hosts = 1 if count % GPUS_A_HOST else max(1, count // GPUS_A_HOST)
    with contextlib.suppress(RuntimeError):
        jax.config.update('jax_platforms', 'cpu')
    try:
        return topologies.get_topology_desc(
            gpu.kind, 'cuda', target_config=gpu.target, topology=f'1x{hosts}x{count // hosts}'
        ).devices
    except Exception as error:  # Of several types, by version.
        text = errors.printable(error)
        raise UserError(f'{CUDA} does not describe {count} {gpu.kind}: {text}') from None


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
    """Describes the devices of a topology; `memory` are GiB that the user says a device has."""
    gpu = GPUS[topology.partition(':')[0]] if is_gpu(topology) else None
    kind = gpu.kind if gpu else devices[0].device_kind
    chip, part = partitioning.find_chip(kind), 1.0
    if match := _TPU.fullmatch(topology):  # libtpu describes a v4 chip as two devices.
        part = int(match[1] or 1) * math.prod(map(int, match[3].split('x'))) / len(devices)
    capacity, source = None, 'not known'
    if memory:
        capacity, source = round(memory * GIB), '--memory'
    elif chip and chip.memory:
        capacity, source = round(chip.memory * part), chip.source
    elif gpu and chip:
        capacity, source = gpu.memory, chip.source
    elif topology == 'local':
        capacity = partitioning.memory_limit(partitioning.make_mesh(devices=devices))
        source = 'what the device offers' if capacity else source
    return Device(
        count=len(devices),
        kind=kind,
        capacity=capacity,
        peak=chip.peak * part if chip else None,
        memory_speed=chip.memory_speed * part if chip else None,
        link_speed=chip.link_speed * part if chip else None,
        clock=chip.clock if chip else None,
        source=source,
    )
