"""The costs of compiled programs: memory, products, collectives and seconds.

`study` compiles one program of a Job, `plan_job` all of them.
"""

import dataclasses
import re
import time
from collections.abc import Mapping, Sequence

import jax
from jax.sharding import Mesh
from ml_collections import ConfigDict

from xlbench.models.fused import choice
from xlbench.parallel import partitioning
from xlbench.plan import hlo, programs
from xlbench.plan.devices import Device
from xlbench.plan.figures import Figures
from xlbench.plan.programs import Job
from xlbench.system import machine
from xlbench.system.errors import UserError
from xlbench.system.progress import Progress
from xlbench.training import products
from xlbench.training.objectives.contract import Batch
from xlbench.trees import Params


def plan_job(job: Job, device: Device, *, with_decoding: bool) -> Figures:
    """Compiles all programs of a config on one mesh."""
    result = outline(job)
    jitted, args = programs.train_program(job)
    result['programs'].append(study('the train step', jitted, args, job, device))
    for name, block in programs.decoded_evals(job.config).items() if with_decoding else ():
        jitted, args, length = programs.decode_program(job, block)
        beside = job.state_bytes['optimizer_state']  # Training waits meanwhile.
        result['programs'].append(
            study(f'decoding of {name}', jitted, args, job, device, trips=length, also=beside)
        )
    fits = [program['fits'] for program in result['programs']]
    result['fits'] = None if None in fits and False not in fits else all(fits)
    return result


def outline(job: Job) -> Figures:
    """Counts what needs no compiler: parameters, state, the products of a step."""
    return {
        'mesh': dict(job.mesh.shape),
        'mesh_in_words': partitioning.describe(job.mesh),
        'parameters': job.num_parameters,
        'trained_share': job.trained_share,
        'device_bytes': job.state_bytes | {'batch': programs.device_bytes(job.batch)},
        'model_flops': model_flops(job),
        'held_whole': held_whole(job),
        'programs': [],
        'fits': None,
    }


def hours(plan: Figures, config: ConfigDict, peak: float, mfu: float) -> Figures:
    """Returns how long each stage takes if a step's products run at a share of the peak.

    Args:
      plan: of the step.
      config: says how many steps a stage has.
      peak: FLOP/s of all devices.
      mfu: the share, model FLOP/s utilisation (arXiv:2204.02311, appendix B), above 0 up to 1.
    """
    seconds = plan['model_flops'] / (mfu * peak)
    lengths = {name: stage.num_steps for name, stage in config.stages.items()}
    stages = {n: seconds * steps / 3600 for n, steps in lengths.items() if isinstance(steps, int)}
    return {'mfu': mfu, 'step_seconds': seconds, 'stages': stages}


def study(
    name: str,
    jitted: jax.stages.Wrapped,
    args: programs.Arguments,
    job: Job,
    device: Device,
    *,
    trips: int = 1,
    also: int = 0,
) -> Figures:
    """Compiles a program and says all that is known of it.

    Args:
      name: of the program.
      jitted: the program.
      args: its arguments, as shapes.
      job: that it is of.
      device: that it is for.
      trips: what a loop of unknown length counts as.
      also: bytes that lie on the device beside the program's own.
    """
    started = time.monotonic()
    program: Figures = {
        'name': name,
        'shapes': {key: list(value.shape) for key, value in args[1].items()},
        'beside': also,
    }
    with partitioning.activate(job.mesh), Progress(f'compiling {name}'):
        traced = jitted.trace(*args)
        program['matmul_flops'] = products.matmul_flops(traced.jaxpr.jaxpr, trips)
        try:
            compiled = traced.lower().compile()
        except jax.errors.JaxRuntimeError as error:
            needed = refused(str(error))
            program |= {'fits': False, 'refused': needed}
            compiled = None
    program['compile_seconds'] = round(time.monotonic() - started, 1)
    if compiled is None:
        needed = program['refused']['needed']
        return program | {'memory': {'needed': needed and needed + also}, 'estimate': {}}
    program['memory'] = memory_of(compiled, also, held_by_process(job.mesh))
    program['fits'] = (
        None if device.capacity is None else program['memory']['needed'] <= device.capacity
    )
    costs = compiled.cost_analysis() or {}
    program['compiler_flops'] = costs.get('flops')
    try:
        text = compiled.as_text()
    except jax.errors.JaxRuntimeError as error:  # libtpu is newer than jaxlib knows.
        program['unreadable'] = ' '.join(str(error).split())[:200]
        text = ''
    parsed = hlo.parse(text, device.count, unknown_trips=trips)
    program |= {
        'collectives': by_kind(parsed.collectives) if text else None,
        'largest_collectives': largest_collectives(parsed.collectives),
        'unknown_loops': parsed.unknown_loops,
        'unknown_trips': trips,
    }
    program['estimate'] = estimate(program, parsed, costs, device)
    return program


def held_by_process(mesh: Mesh) -> int | None:
    """Returns bytes of each device that a process takes beside its arrays; None where nobody knows.

    That is Python, jax, and the programs that were compiled: CPU devices share the machine's memory
    with them. This process has no arrays, and the same programs: what it holds is what a process
    that trains would.
    """
    if mesh.devices.flat[0].platform != 'cpu':
        return 0
    machine.return_freed_memory()  # What the compiler needed for a while, training reuses.
    held = machine.held_memory()
    return held and held // mesh.size


def memory_of(
    compiled: jax.stages.Compiled, also: int, process: int | None
) -> dict[str, int | None]:
    """Returns bytes of one device by the compiler, and 'needed' with all beside them."""
    memory = compiled.memory_analysis()
    sizes = {
        key: getattr(memory, f'{key}_size_in_bytes')
        for key in ('argument', 'output', 'alias', 'temp', 'generated_code')
    }
    # What train_words.compile_line counts, and the program itself. What is aliased is in arguments
    # and outputs, and there only once.
    needed = sum(sizes.values()) - 2 * sizes['alias'] + also + (process or 0)
    return sizes | {'process': process, 'needed': needed}


def refused(message: str) -> Figures:
    """Parses libtpu's refusal of a program that is too large, and its bytes if given.

    Example: 'RESOURCE_EXHAUSTED: ... the total memory required for HLO temporaries (67.06G) exceeds
      available HBM (15.75G)...' -> {'needed': 67.06 * 2**30, 'limit': 15.75 * 2**30, ...}

    Raises:
      UserError: the compiler failed for another reason.
    """
    line = ' '.join(message.split())
    if 'RESOURCE_EXHAUSTED' not in line and 'Ran out of memory' not in line:
        raise UserError(f'the compiler failed: {line[:300]}')
    units = {'': 1, 'K': 2**10, 'M': 2**20, 'G': 2**30, 'T': 2**40}
    number = r'([\d.]+)([KMGT]?)'
    for pattern in (
        rf'\({number}\) exceeds available HBM \({number}\)',
        rf'Used {number} of {number}',
    ):
        if match := re.search(pattern, line):
            needed, needed_unit, limit, limit_unit = match.groups()
            return {
                'needed': round(float(needed) * units[needed_unit]),
                'limit': round(float(limit) * units[limit_unit]),
                'message': line[:300],
            }
    return {'needed': None, 'limit': None, 'message': line[:300]}


def held_whole(job: Job) -> list[str]:
    """Lists parameters and optimizer state that every device holds whole, a line each."""
    shardings = jax.tree.map(lambda leaf: leaf.sharding, job.state)
    return partitioning.held_whole(job.state, shardings, job.mesh)


def model_flops(job: Job) -> int:
    """Counts the products of the forward pass, three times: those of a step without recomputation.

    Where only a part is trained the step needs fewer. Of attention the plain one, which needs no
    more than the model does.
    """
    model = job.model.clone(config=dataclasses.replace(job.model.config, attention='plain'))

    def loss(params: Params, batch: Batch, rng: jax.Array) -> dict[str, jax.Array]:
        return job.objective.loss(model, job.lora.of(params, 0), batch, rng)

    with partitioning.activate(job.mesh):
        traced = jax.jit(loss).trace(job.state.params, job.batch, job.rng)
    return 3 * products.matmul_flops(traced.jaxpr.jaxpr)


def by_kind(collectives: Sequence[hlo.Collective]) -> list[Figures]:
    """Sums up what is of one kind and network: how many, bytes they work on and a device sends."""
    return _summed_up(collectives, ('kind', 'between_slices'), 'bytes')


def largest_collectives(collectives: Sequence[hlo.Collective], most: int = 5) -> list[Figures]:
    """Lists the collectives that send the most; one row for equal ones of all layers."""
    fields = ('kind', 'between_slices', 'type', 'devices', 'op')
    collectives = [
        dataclasses.replace(one, op=re.sub(r'_\d+\b', '_*', one.op)) for one in collectives
    ]
    return _summed_up(collectives, fields, 'wire_bytes')[:most]


def _summed_up(
    collectives: Sequence[hlo.Collective], fields: Sequence[str], by: str
) -> list[Figures]:
    """Adds up collectives with the same `fields`, in a row each, those with most `by` first."""
    rows: dict[tuple[str | bool | int, ...], Figures] = {}
    for one in collectives:
        alike = {field: getattr(one, field) for field in fields}
        sums = {'count': 0, 'bytes': 0, 'wire_bytes': 0.0}
        row = rows.setdefault(tuple(alike.values()), alike | sums)
        row['count'] += one.times
        row['bytes'] += one.times * one.bytes
        row['wire_bytes'] += one.times * one.wire_bytes
    return sorted(rows.values(), key=lambda row: -row[by])


def estimate(
    program: Figures, parsed: hlo.Program, costs: Mapping[str, float], device: Device
) -> Figures:
    """Estimates the seconds of a run: the compiler's, and ours from the makers' peaks."""
    result: Figures = {'compiler_seconds': None, 'compiler_source': 'not given'}
    if parsed.cycles:
        result['compiler_cycles'] = parsed.cycles
        if device.clock:
            result['compiler_seconds'] = parsed.cycles / device.clock
            result['compiler_source'] = 'its estimated_cycles / clock, without waiting for links'
            if kernels := kernel_seconds(parsed.kernels, device):
                result['compiler_seconds'] += kernels
                result['compiler_source'] += f'; with {1e3 * kernels:.4g} ms of our kernels'
        else:
            result['compiler_source'] = 'cycles only; the clock is not known'
            if parsed.kernels:
                result['compiler_source'] += ', and our kernels are not in them'
    elif costs.get('optimal_seconds', 0) > 0:
        result['compiler_seconds'] = costs['optimal_seconds']
        result['compiler_source'] = "the compiler's optimal_seconds"
    if device.peak and device.memory_speed and device.link_speed:
        flops = max(program['matmul_flops'] / device.count, program['compiler_flops'] or 0)
        memory = program['memory']
        within = (row for row in program['collectives'] or () if not row['between_slices'])
        links = sum(row['wire_bytes'] for row in within) / device.link_speed
        result['at_peaks'] = {
            'products': flops / device.peak,
            # What comes in is read once, what goes out is written once.
            'memory': (memory['argument'] + memory['output']) / device.memory_speed,
            'links': links,  # 0 where the program cannot be read.
        }
        if seconds := result['compiler_seconds']:
            result['with_links_seconds'] = [max(seconds, links), seconds + links]
    return result


def kernel_seconds(kernels: Sequence[hlo.Kernel], device: Device) -> float:
    """Estimates kernels that the compiler gives no cycles: the longer of products and memory."""
    if not device.peak or not device.memory_speed:
        return 0.0
    return sum(
        kernel.times
        * max(
            kernel.flops / device.peak / (choice.share_of_peak(kernel.op) or 1.0),
            kernel.bytes / device.memory_speed,
        )
        for kernel in kernels
    )
