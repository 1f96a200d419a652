"""Reads XLA's text of a compiled program: collectives, loops, the compiler's clock.

Pure functions of text. A program is the one that each device runs, so that all sizes here are of
one device.
"""

import collections
import dataclasses
import math
import re
from collections.abc import Iterator

# Of collectives; the -start of an asynchronous one counts, its -done does not.
KINDS = (
    'all-gather', 'all-reduce', 'reduce-scatter', 'all-to-all', 'collective-permute',
    'ragged-all-to-all', 'collective-broadcast',
)  # fmt: skip

_COMPUTATION = re.compile(r'(ENTRY )?%?([^\s(]+) \(.*\{$')
_INSTRUCTION = re.compile(r'\s+(?:ROOT )?%?(\S+) = (\(.*?\)|\S+) ([a-z][\w-]*)\(')
_SHAPE = re.compile(r'\b(?:pred|[a-z]+(\d+)[a-z0-9]*)\[([\d,]*)\]')  # Bits and lengths.
_CALLED = re.compile(r'\b(?:calls|to_apply|body|condition|\w+_computation)=%?([^\s,)}]+)')
_BRANCHES = re.compile(r'\bbranch_computations=\{([^}]*)\}')
_TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"\}')
_CONDITION = re.compile(r'\bcondition=%?([^\s,)}]+)')
_CONSTANT = re.compile(r'\s+%?(\S+) = [su]\d+\[\]\S* constant\((\d+)\)')
_CYCLES = re.compile(r'"estimated_cycles":"(\d+)"')
# What a kernel of Pallas says of itself; libtpu writes no cycles beside it.
_KERNEL = re.compile(
    r'custom_call_target="tpu_custom_call".*"cost_estimate":\{"flops":"(\d+)",'
    r'"transcendentals":"\d+","bytes_accessed":"(\d+)"'
)
_NO_CYCLES = 1 << 62  # libtpu writes 2**63 - 1 beside what it has no estimate of.
_OP_NAME = re.compile(r'op_name="([^"]*)"')
# mesh['a'=2,'b'=4] {'b'}, also with the devices in another order: mesh[..], device_ids=(..) {'b'}
_AXES = re.compile(
    r'replica_groups=@?mesh\w*\[([^\]]*)\]'
    r'(?:, device_ids=\(\[[\d,]*\](?:T\([\d,]*\))?\))? ?\{([^}]*)\}'
)
# What libtpu makes of a collective across slices: a device hands its part to the host, which
# exchanges it with the others over the network between them.
_BETWEEN_SLICES = re.compile(
    r'_xla_megascale_target="\{([\d,:]+)\}.*_xla_megascale_transfer_type="(\w+)"'
)


@dataclasses.dataclass(frozen=True)
class Collective:
    """One collective instruction."""

    kind: str  # One of KINDS; between slices, libtpu's name of it.
    # The whole gathered or reduced array, for one device; of a reduce-scatter, and between slices,
    # the input.
    bytes: int
    devices: int  # That exchange with each other.
    times: int  # That it runs in a run of the program.
    type: str = ''  # Of the output, as the text has it: 'bf16[16,4]'.
    op: str = ''  # The model's name of it, '' where the compiler does not say.
    between_slices: bool = False  # Over the network that joins slices, each one of `devices`.

    @property
    def wire_bytes(self) -> float:
        """The bytes that one device sends each time: in a ring, or to its host."""
        if self.kind == 'collective-permute' or self.between_slices:
            return self.bytes
        share = (self.devices - 1) / self.devices
        return self.bytes * share * (2 if self.kind == 'all-reduce' else 1)


@dataclasses.dataclass(frozen=True)
class Kernel:
    """A kernel that the compiler does not see into, with what it says of itself."""

    op: str  # The model's name of it.
    flops: int  # Of a run of it, on one device.
    bytes: int  # That it reads and writes.
    times: int  # That it runs in a run of the program.


@dataclasses.dataclass(frozen=True)
class Program:
    """The parts of a compiled program that cost something, in the order of the text."""

    collectives: tuple[Collective, ...]
    unknown_loops: int  # Loops without a length in the text.
    # The sum of the compiler's estimates of instructions, loops multiplied, without kernels; 0
    # where it writes none (only libtpu does).
    cycles: int
    kernels: tuple[Kernel, ...]


def parse(text: str, num_devices: int, *, unknown_trips: int = 1) -> Program:
    """Reads a program from the text of `compiled.as_text()`.

    A collective that names no groups is one of `num_devices`, and a loop of unknown length counts
    as `unknown_trips` rounds.
    """
    computations = dict(_computations(text))
    times, fused, unknown = _times(computations, unknown_trips)
    collectives, kernels, cycles = [], [], 0
    for name, lines in computations.items():
        if not times[name]:
            continue
        # libtpu cuts an asynchronous collective into pieces and puts each into the fusion that runs
        # beside it; the instruction stands in all of them, and counts where it begins.
        continues = name in fused and (
            name.startswith('async_collective_fusion')
            or any('AsyncCollectiveDone' in line for line in lines)
        )
        for line in lines:
            cycles += times[name] * sum(
                n for n in map(int, _CYCLES.findall(line)) if n < _NO_CYCLES
            )
            match = _INSTRUCTION.match(line)
            if not match:
                continue
            _, kind_of_array, opcode = match.groups()
            if opcode == 'custom-call' and (kernel := _KERNEL.search(line)):
                flops, size = map(int, kernel.groups())
                kernels.append(Kernel(_op_name(line), flops, size, times[name]))
            kind = opcode.removesuffix('-start')
            if kind in KINDS and not continues:
                collectives.append(
                    _collective(name, kind, kind_of_array, opcode, line, num_devices, times[name])
                )
            elif opcode == 'send' and (across := _BETWEEN_SLICES.search(line)):
                collectives.append(_between_slices(kind_of_array, across, line, times[name]))
    return Program(tuple(collectives), unknown, cycles, tuple(kernels))


def _computations(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yields (name, its lines), callees before callers; the entry has the name ''."""
    lines: list[str] | None = None
    for line in text.splitlines():
        if line == '}':
            lines = None
        elif lines is not None:
            lines.append(line)
        elif match := _COMPUTATION.match(line):
            lines = []
            yield ('' if match[1] else match[2]), lines


def _times(
    computations: dict[str, list[str]], unknown_trips: int
) -> tuple[dict[str, int], set[str], int]:
    """Counts the runs of each computation, names those inside others, and unknown loops."""
    times = collections.Counter({'': 1})
    fused: set[str] = set()
    unknown = 0
    for name in reversed(list(computations)):
        for line in computations[name]:
            called = _CALLED.findall(line)
            for branches in _BRANCHES.findall(line):
                called += [branch.strip().lstrip('%') for branch in branches.split(',')]
            if not called:
                continue
            trips = 1
            if ' while(' in line:
                known = _trips(line, computations)
                unknown += known is None and times[name] > 0
                trips = unknown_trips if known is None else known
            for callee in set(called):
                times[callee] += times[name] * trips
                if name in fused or ' fusion(' in line:
                    fused.add(callee)
    return times, fused, unknown


def _trips(line: str, computations: dict[str, list[str]]) -> int | None:
    """Rounds of a loop, if the compiler wrote them down or its condition is `counter < number`.

    The counter is taken to rise from 0 in steps of 1, as in the loops that the compiler makes of a
    product whose operand the devices hand around.
    """
    if match := _TRIPS.search(line):
        return int(match[1])
    condition = computations.get(_CONDITION.findall(line)[0], [])
    root = next((other for other in condition if other.lstrip().startswith('ROOT ')), '')
    if ' compare(' in root and 'direction=LT' in root:
        for other in condition:
            match = _CONSTANT.match(other)
            if match and re.search(rf'%?{re.escape(match[1])}[,)]', root):
                return int(match[2])
    return None


def _collective(
    computation: str, kind: str, of: str, opcode: str, line: str, num_devices: int, times: int
) -> Collective:
    devices = _group_size(line, num_devices)
    size = sum(_sizes(of))
    if kind == 'reduce-scatter':
        size *= devices
    elif kind == 'all-reduce' and computation.startswith('all-reduce-scatter'):
        kind = 'reduce-scatter'  # So libtpu writes it: an all-reduce of which a part is taken.
    elif opcode == 'all-gather-start':  # What goes in stands beside what comes out.
        size = size * devices // (devices + 1)
    elif opcode == 'collective-permute-start':
        size //= 2
    types = ', '.join(match[0] for match in _SHAPE.finditer(of))
    return Collective(kind, size, devices, times, types, _op_name(line))


def _between_slices(of: str, across: re.Match[str], line: str, times: int) -> Collective:
    """Reads an exchange from a send's type, of which the first array is sent, and attributes."""
    slices, kind = across.groups()
    ends = [[int(end) for end in part.split(':')] for part in slices.split(',')]
    count = sum(end[-1] - end[0] + 1 for end in ends)
    sent = next(match[0] for match in _SHAPE.finditer(of))
    kind = kind.lower().replace('_', '-')
    return Collective(kind, _sizes(sent)[0], count, times, sent, _op_name(line), True)


def _op_name(line: str) -> str:
    match = _OP_NAME.search(line)
    return match[1] if match else ''


def _group_size(line: str, num_devices: int) -> int:
    """Counts the devices of a group, from one of the three ways to write groups."""
    if 'source_target_pairs' in line:
        return 2
    if match := re.search(r'replica_groups=\[(\d+),(\d+)\]', line):
        return int(match[2])
    if match := re.search(r'replica_groups=\{\{([\d,]+)\}', line):
        return len(match[1].split(','))
    if match := _AXES.search(line):
        sizes = dict(re.findall(r"'([^']+)'=(\d+)", match[1]))
        return math.prod(int(sizes[axis]) for axis in re.findall(r"'([^']+)'", match[2]))
    return num_devices


def _sizes(of: str) -> list[int]:
    """The bytes of each array of a type: 'bf16[2,3]{1,0}' -> [12]."""
    return [
        math.ceil(math.prod(int(n) for n in shape.split(',') if n) * int(bits or 8) / 8)
        for bits, shape in _SHAPE.findall(of)  # 'pred' has a byte.
    ]
