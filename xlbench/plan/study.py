"""The costs of a config's programs: memory, products, collectives and seconds.

A Job holds the train step and decoding as shapes with shardings, and no array. `study` compiles one
of its programs, `plan_job` all of them.
"""

import dataclasses
import math
import re
import time
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from ml_collections import ConfigDict

from xlbench import config as config_lib, decoding, runs
from xlbench.data import features
from xlbench.models.fused import choice
from xlbench.models.lora import Lora
from xlbench.parallel import partitioning, programs
from xlbench.plan import hlo
from xlbench.plan.devices import Device
from xlbench.plan.figures import Figures
from xlbench.settings import decoding as decoding_settings, epochs
from xlbench.system import machine
from xlbench.system.errors import UserError, printable
from xlbench.system.progress import Progress
from xlbench.system.trees import Params, Shapes
from xlbench.training import objectives, optimizers, train_step as train_step_lib
from xlbench.training.objectives.contract import Batch, Objective

# Of a program, as shapes: first the state or the parameters, then the batch.
Arguments: TypeAlias = tuple[
    Any, dict[str, jax.ShapeDtypeStruct], *tuple[jax.ShapeDtypeStruct, ...]
]


class Job:
    """The shapes and shardings of a config's first stage on some devices; no array is allocated.

    Its model has a vocabulary of `vocab_size`, and `labels` labels where it has any.

    Attributes:
      state, batch, rng: the arguments of a step.
      num_parameters: all of them, trained or not.
      num_trained: those that training moves; `trained_share` is their part of all.
      state_bytes: of the state on one device, by kind.

    Raises:
      UserError: mesh, model, batch or pattern cannot work.
    """

    def __init__(
        self, config: ConfigDict, devices: Sequence[jax.Device], vocab_size: int, labels: int
    ):
        self.config, self.stage = config, next(iter(config.stages))
        self.mesh = mesh = partitioning.make_mesh(**config.mesh, devices=devices)
        batches = config_lib.batches_of(config, self.stage)
        rows, lengths = batches['batch_size'], dict(batches['lengths'])
        partitioning.check_batch_size(rows, mesh, config.accumulate)
        partitioning.check_lengths(lengths, mesh)
        runs.check_attention(config, mesh)
        self.objective: Objective = objectives.build(**config.objective)
        block = dict(config.model)
        if 'num_labels' in block:
            block['num_labels'] = labels
        self.model: nn.Module = runs.build_model(block, vocab_size)
        self.lora = Lora(**config.lora)
        shapes, shardings = train_step_lib.params_like(self.model, self.objective, mesh, self.lora)
        mask = optimizers.trainable_mask(shapes, tuple(config.trainable))
        self.mask = self.lora.restrict(mask)
        tx, _ = optimizers.of_stage(epochs.as_steps(config), self.stage)
        self.state = train_step_lib.state_like(tx, shapes, shardings, self.mask)
        self.batch = _batch_like(self.objective.view, rows, lengths, mesh)
        key = jax.eval_shape(lambda: jax.random.key(0))
        replicated = partitioning.replicated(mesh)
        self.rng = jax.ShapeDtypeStruct(key.shape, key.dtype, sharding=replicated)
        self.num_parameters = sum(leaf.size for leaf in jax.tree.leaves(self.state.params))
        trained, _ = train_step_lib.split_params(self.state.params, self.mask)
        self.num_trained = sum(leaf.size for leaf in trained.values())
        self.trained_share = self.num_trained / self.num_parameters
        self.state_bytes = {
            'parameters': device_bytes(self.state.params),
            'optimizer_state': device_bytes(self.state.opt_state),
        }


def _batch_like(
    view: str, rows: int, lengths: Mapping[str, int], mesh: Mesh
) -> dict[str, jax.ShapeDtypeStruct]:
    """The shapes of a batch without a single example, cut over the mesh."""
    conventions = features.Conventions(pad_id=0, eos_id=1, decoder_start_id=0, vocab_size=2)
    empty = features.VIEWS[view]([[]] * rows, features.Layout(lengths, conventions))
    return {name: _row_array(mesh, value.shape, value.dtype) for name, value in empty.items()}


def _row_array(mesh: Mesh, shape: tuple[int, ...], dtype: np.dtype) -> jax.ShapeDtypeStruct:
    sharding = partitioning.batch_sharding(mesh, shape)
    return jax.ShapeDtypeStruct(shape, dtype, sharding=sharding)


def device_bytes(tree: Shapes | Params) -> int:
    """Counts the bytes of a tree of arrays, or of shapes with shardings, on one device."""
    return sum(
        math.prod(leaf.sharding.shard_shape(leaf.shape)) * leaf.dtype.itemsize
        for leaf in jax.tree.leaves(tree)
    )


def train_program(job: Job) -> tuple[jax.stages.Wrapped, Arguments]:
    """(the train step as xlbench.train jits it, its arguments)."""
    tx, schedule = optimizers.of_stage(job.config, job.stage)
    step = train_step_lib.make_train_step(
        job.model,
        job.objective,
        tx,
        schedule,
        job.mask,
        accumulate=job.config.accumulate,
        lora=job.lora,
        adapters=range(len(job.lora.languages)),
    )
    return train_step_lib.jitted(step, job.state), (job.state, job.batch, job.rng)


def decode_program(job: Job, block: ConfigDict) -> tuple[jax.stages.Wrapped, Arguments, int]:
    """(decoding as the evaluator jits it, its arguments, most tokens of a text)."""
    partitioning.check_batch_size(block.batch_size, job.mesh)
    partitioning.check_lengths(block.lengths, job.mesh)
    options = decoding_settings.make(block.get('decoding'), block.lengths['targets'])
    batch = _batch_like(job.objective.view, block.batch_size, dict(block.lengths), job.mesh)
    index = _row_array(job.mesh, (block.batch_size,), jnp.int32)
    batch['example_index'] = index
    if job.config.model.family == 'mbart':
        batch['forced_first'] = index  # The language of each text.

    layout = decoding.layout_of(job.model, job.state.params)

    def decode(params: Params, batch: dict[str, jax.Array]) -> decoding.Decoded:
        params = job.lora.of(params, 0)
        first = batch.pop('forced_first', None)
        ids: Any = dict(start_id=0, eos_id=1, pad_id=0)  # Which they are changes no shape.
        return decoding.decode(
            job.model, params, batch, options, **ids, forced_first=first, layout=layout
        )

    return jax.jit(decode), (job.state.params, batch), options.max_length


def decoded_evals(config: ConfigDict) -> dict[str, ConfigDict]:
    """The evaluations that decode, one for each different shape."""
    if not objectives.build(**config.objective).writes_text:
        return {}
    shapes: dict[tuple, tuple[str, ConfigDict]] = {}
    for name, block in config.evals.items():
        if block.get('decode', True):
            shape = (block.batch_size, str(block.lengths), str(block.get('decoding')))
            shapes.setdefault(shape, (name, block))
    return dict(shapes.values())


def plan_job(job: Job, device: Device, *, with_decoding: bool) -> Figures:
    """Compiles all programs of a config on one mesh."""
    result = outline(job)
    jitted, args = train_program(job)
    result['programs'].append(study('the train step', jitted, args, job, device))
    for name, block in decoded_evals(job.config).items() if with_decoding else ():
        jitted, args, length = decode_program(job, block)
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
        'device_bytes': job.state_bytes | {'batch': device_bytes(job.batch)},
        'model_flops': model_flops(job),
        'held_whole': partitioning.held_whole(job.state),
        'programs': [],
        'fits': None,
    }


def hours(plan: Figures, config: ConfigDict, peak: float, mfu: float) -> Figures:
    """Estimates the hours of each stage if a step's products run at a share of the peak.

    The share is the model FLOP/s utilisation (arXiv:2204.02311, appendix B), above 0 up to 1; the
    peak is in FLOP/s of all devices.
    """
    seconds = plan['model_flops'] / (mfu * peak)
    lengths = {name: stage.num_steps for name, stage in config.stages.items()}
    stages = {n: seconds * steps / 3600 for n, steps in lengths.items() if isinstance(steps, int)}
    return {'mfu': mfu, 'step_seconds': seconds, 'stages': stages}


def study(
    name: str,
    jitted: jax.stages.Wrapped,
    args: Arguments,
    job: Job,
    device: Device,
    *,
    trips: int = 1,
    also: int = 0,
) -> Figures:
    """Compiles a program of a job, and gives all figures that are known of it.

    `trips` is what a loop of unknown length counts as; `also` are bytes that lie on the device
    beside the program's own.
    """
    started = time.monotonic()
    program: Figures = {
        'name': name,
        'shapes': {key: list(value.shape) for key, value in args[1].items()},
        'beside': also,
    }
    with partitioning.activate(job.mesh), Progress(f'compiling {name}'):
        traced = jitted.trace(*args)
        program['matmul_flops'] = programs.matmul_flops(traced.jaxpr.jaxpr, trips)
        try:
            compiled = traced.lower().compile()
        except jax.errors.JaxRuntimeError as error:
            program |= {'fits': False, 'refused': refused(str(error))}
            compiled = None
    program['compile_seconds'] = round(time.monotonic() - started, 1)
    if compiled is None:
        needed = program['refused']['needed']
        return program | {'memory': {'needed': needed and needed + also}, 'estimate': {}}
    program['memory'] = _memory(compiled, also, job.mesh)
    program['fits'] = (
        None if device.capacity is None else program['memory']['needed'] <= device.capacity
    )
    costs = compiled.cost_analysis() or {}
    program['compiler_flops'] = costs.get('flops')
    try:
        text = compiled.as_text()
    except jax.errors.JaxRuntimeError as error:  # libtpu is newer than jaxlib knows.
        program['unreadable'] = printable(error)
        text = ''
    parsed = hlo.parse(text, device.count, unknown_trips=trips)
    program |= {
        'collectives': by_kind(parsed.collectives) if text else None,
        'largest_collectives': largest_collectives(parsed.collectives),
        'unknown_loops': parsed.unknown_loops,
        'unknown_trips': trips,
    }
    program['estimate'] = _estimate(program, parsed, costs, device)
    return program


def _memory(compiled: jax.stages.Compiled, also: int, mesh: Mesh) -> dict[str, int | None]:
    """Bytes of one device by the compiler, and 'needed' with all beside them.

    'process' is Python, jax, and the programs that were compiled, None where nobody knows: CPU
    devices share the machine's memory with them. This process has no arrays, and the same programs:
    it holds as much as a process that trains would.
    """
    process: int | None = 0
    if mesh.devices.flat[0].platform == 'cpu':
        machine.return_freed_memory()  # What the compiler needed for a while, training reuses.
        held = machine.held_memory()
        process = held and held // mesh.size
    memory = compiled.memory_analysis()
    sizes = {
        key: getattr(memory, f'{key}_size_in_bytes')
        for key in ('argument', 'output', 'alias', 'temp', 'generated_code')
    }
    # As training/memory.py counts, and the program itself. What is aliased is in arguments and
    # outputs, and there only once.
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
    match = re.search(rf'\({number}\) exceeds available HBM \({number}\)', line)
    match = match or re.search(rf'Used {number} of {number}', line)
    if not match:
        return {'needed': None, 'limit': None, 'message': line[:300]}
    needed, needed_unit, limit, limit_unit = match.groups()
    return {
        'needed': round(float(needed) * units[needed_unit]),
        'limit': round(float(limit) * units[limit_unit]),
        'message': line[:300],
    }


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
    return 3 * programs.matmul_flops(traced.jaxpr.jaxpr)


def by_kind(collectives: Sequence[hlo.Collective]) -> list[Figures]:
    """Sums up the collectives of each kind and network."""
    return _summed_up(collectives, ('kind', 'between_slices'), 'bytes')


def largest_collectives(collectives: Sequence[hlo.Collective]) -> list[Figures]:
    """Lists the five collectives that send the most; one row for equal ones of all layers."""
    fields = ('kind', 'between_slices', 'type', 'devices', 'op')
    collectives = [
        dataclasses.replace(one, op=re.sub(r'_\d+\b', '_*', one.op)) for one in collectives
    ]
    return _summed_up(collectives, fields, 'wire_bytes')[:5]


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


def _estimate(
    program: Figures, parsed: hlo.Program, costs: Mapping[str, float], device: Device
) -> Figures:
    """Estimates the seconds of a run: the compiler's, and ours from the makers' peaks."""
    result: Figures = {'compiler_seconds': None, 'compiler_source': 'not given'}
    if parsed.cycles:
        result['compiler_cycles'] = parsed.cycles
        if device.clock:
            result['compiler_seconds'] = parsed.cycles / device.clock
            result['compiler_source'] = 'its estimated_cycles / clock, without waiting for links'
            if kernels := _kernel_seconds(parsed.kernels, device):
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


def _kernel_seconds(kernels: Sequence[hlo.Kernel], device: Device) -> float:
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
