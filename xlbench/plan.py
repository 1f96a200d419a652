r"""Compiles a config for devices that nobody has to own: does it fit, and how fast can it be?

  python -m xlbench.plan --config=configs/mtg_mt5.py:xxl --topology=v5p:4x4x4 \
      --config.mesh.tensor=4 --output=plan.json

The train step, and for generation the decoding of a batch, are the real ones; they are compiled
ahead of time and never run. No data, no vocabulary and no checkpoint is read.

  --topology=v5p:4x4x4  TPU chips (v4, v5e, v5p, v6e); needs the package libtpu, and no TPU
  --topology=cpu:8      so many devices on this machine's CPU
  --topology=local      the devices of this machine
  --vocab_size=N        where config.model.vocab_size is 0; default: the family's published size
  --num_labels=N        where config.model.num_labels is 0
  --memory=GIB          of a device, in GiB; default: as its maker says
  --tries=N             smaller settings to compile if the config does not fit (8; 0: none)
  --no_decode           plans the train step alone
  --output=FILE         writes all figures as JSON
  --hlo=FOLDER          writes the compiled programs as text

If it does not fit, smaller settings are tried in this order, and the first that fits is printed as
flags: on the config's mesh, then with fsdp over all devices, then with tensor = 2, 4, 8 (meshes on
which parameters and optimizer state alone are too large are passed over): as it is, remat=dots,
remat=full, then with remat=full the batch in 2, 4, 8 parts (accumulate; chunk_rows for retrieval);
and at last, on each mesh, a half, a quarter, an eighth of batch_size.
"""

import contextlib
import dataclasses
import functools
import math
import pathlib
import re
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding
from ml_collections import ConfigDict

from xlbench import (
    config as config_lib,
    decoding,
    errors,
    features,
    hlo,
    logs,
    models,
    objectives,
    optimizers,
    partitioning,
    runs,
    topology as topology_lib,
    train_step as train_step_lib,
)
from xlbench.errors import UserError
from xlbench.evaluators import generation
from xlbench.lora import Lora
from xlbench.topology import GIB, Device

FORMAT = 1  # Of the JSON file.
LARGE = 16 << 20  # bytes; what is held whole by every device is named from this size on.
_BEAT = 30  # seconds between lines that say that it still compiles.


# ------------------------------------------------------------------------------ what is compiled


@dataclasses.dataclass(frozen=True)
class Job:
    """A config on a mesh, as shapes with shardings: nothing of it exists."""

    config: ConfigDict
    mesh: Mesh
    model: nn.Module
    objective: Any
    mask: Any
    state: train_step_lib.TrainState
    batch: dict[str, jax.ShapeDtypeStruct]
    rng: jax.ShapeDtypeStruct
    stage: str

    @property
    def trained_share(self) -> float:
        """Of all parameters, those that move."""
        trained, frozen = train_step_lib.split_params(self.state.params, self.mask)
        sizes = [sum(leaf.size for leaf in part.values()) for part in (trained, frozen)]
        return sizes[0] / sum(sizes)

    @property
    def state_bytes(self) -> dict[str, int]:
        """Of one device."""
        return {
            'parameters': device_bytes(self.state.params),
            'optimizer_state': device_bytes(self.state.opt_state),
        }


def make_job(config: ConfigDict, devices: Sequence[Any], vocab_size: int, labels: int) -> Job:
    """The first stage's step on these devices.

    Raises:
      UserError: mesh, model, batch or pattern cannot work.
    """
    mesh = partitioning.make_mesh(**config.mesh, devices=devices)
    partitioning.check_batch_size(config.batches.batch_size, mesh, config.accumulate)
    objective = objectives.build(**config.objective, batch_shards=partitioning.batch_shards(mesh))
    block = dict(config.model)
    if 'num_labels' in block:
        block['num_labels'] = labels
    model = runs.build_model(block, vocab_size)
    lora = Lora(**config.lora)
    params = _with(*train_step_lib.params_like(model, objective, mesh, lora))
    mask = lora.restrict(optimizers.trainable_mask(params, tuple(config.trainable)))
    stage = next(iter(config.stages))
    tx, _ = optimizers.build(**config.stages[stage].optimizer, num_steps=1)
    whole = partitioning.replicated(mesh)
    state = train_step_lib.TrainState(
        jax.ShapeDtypeStruct((), jnp.int32, sharding=whole),
        params,
        train_step_lib.opt_state_like(tx, params, mask),
    )
    key = jax.eval_shape(lambda: jax.random.key(0))
    rng = jax.ShapeDtypeStruct(key.shape, key.dtype, sharding=whole)
    rows, lengths = config.batches.batch_size, dict(config.batches.lengths)
    batch = batch_like(objective.view, rows, lengths, mesh)
    return Job(config, mesh, model, objective, mask, state, batch, rng, stage)


def batch_like(
    view: str, rows: int, lengths: Mapping[str, int], mesh: Mesh
) -> dict[str, jax.ShapeDtypeStruct]:
    """The shapes of a batch, cut over the mesh: those of a batch without a single example."""
    conventions = features.Conventions(pad_id=0, eos_id=1, decoder_start_id=0, vocab_size=2)
    empty = features.VIEWS[view]([[]] * rows, lengths=lengths, conventions=conventions)
    sharding = NamedSharding(mesh, partitioning.BATCH_SPEC)
    return {
        name: jax.ShapeDtypeStruct(value.shape, value.dtype, sharding=sharding)
        for name, value in empty.items()
    }


def _with(shapes: Any, shardings: Any) -> Any:
    return jax.tree.map(
        lambda leaf, sharding: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding),
        shapes,
        shardings,
    )


def device_bytes(tree: Any) -> int:
    """What one device holds of a tree of arrays, or of shapes with shardings."""
    return sum(
        math.prod(leaf.sharding.shard_shape(leaf.shape)) * leaf.dtype.itemsize
        for leaf in jax.tree.leaves(tree)
    )


def train_program(job: Job) -> tuple[Any, tuple[Any, ...]]:
    """(the train step as xlbench.train jits it, its arguments)."""
    tx, schedule = optimizers.build(
        **job.config.stages[job.stage].optimizer,
        num_steps=job.config.stages[job.stage].num_steps,
    )
    step = train_step_lib.make_train_step(
        job.model, job.objective, tx, schedule, job.mask, accumulate=job.config.accumulate
    )
    shardings = jax.tree.map(lambda leaf: leaf.sharding, job.state)
    jitted = jax.jit(step, donate_argnums=0, out_shardings=(shardings, None))
    return jitted, (job.state, job.batch, job.rng)


def decode_program(job: Job, block: ConfigDict) -> tuple[Any, tuple[Any, ...], int]:
    """(decoding as the evaluator jits it, its arguments, most tokens of a text)."""
    partitioning.check_batch_size(block.batch_size, job.mesh)
    options = generation.options(block.lengths, block.get('decoding'))
    batch = batch_like('generation', block.batch_size, dict(block.lengths), job.mesh)
    sharding = batch['encoder_segment_ids'].sharding
    index = jax.ShapeDtypeStruct((block.batch_size,), jnp.int32, sharding=sharding)
    batch['example_index'] = index
    if job.config.model.family == 'mbart':
        batch['forced_first'] = index  # The language of each text.

    def decode(params: Any, batch: dict[str, jax.Array]) -> decoding.Decoded:
        first = batch.pop('forced_first', None)
        ids = dict(start_id=0, eos_id=1, pad_id=0)  # Which they are changes no shape.
        return decoding.decode(job.model, params, batch, options, **ids, forced_first=first)

    return jax.jit(decode), (job.state.params, batch), options.max_length


# --------------------------------------------------------------------------- what it comes out as


def study(
    name: str,
    jitted: Any,
    args: tuple[Any, ...],
    job: Job,
    device: Device,
    *,
    trips: int = 1,
    also: int = 0,
    folder: str = '',
) -> dict[str, Any]:
    """Compiles a program and says all that is known of it.

    Args:
      name: of the program.
      jitted: the program.
      args: its arguments, as shapes.
      job: that it is of.
      device: that it is for.
      trips: what a loop of unknown length counts as.
      also: bytes that lie on the device beside the program's own.
      folder: where its text is written; '' nowhere.
    """
    started = time.monotonic()
    found: dict[str, Any] = {
        'name': name,
        'shapes': {key: list(value.shape) for key, value in args[1].items()},
        'beside': also,
    }
    with partitioning.activate(job.mesh), beating(f'compiling {name}'):
        traced = jitted.trace(*args)
        found['matmul_flops'] = matmul_flops(traced.jaxpr.jaxpr, trips)
        found['whole_activations'] = whole_activations(traced.jaxpr.jaxpr)
        try:
            compiled = traced.lower().compile()
        except jax.errors.JaxRuntimeError as error:
            needed = refused(str(error))
            found |= {'fits': False, 'refused': needed}
            compiled = None
    found['compile_seconds'] = round(time.monotonic() - started, 1)
    if compiled is None:
        needed = found['refused']['needed']
        return found | {'memory': {'needed': needed and needed + also}, 'estimate': {}}
    found['memory'] = memory_of(compiled, also)
    found['fits'] = (
        None if device.capacity is None else found['memory']['needed'] <= device.capacity
    )
    costs = compiled.cost_analysis() or {}
    found |= {
        'compiler_flops': costs.get('flops'),
        'bytes_accessed': costs.get('bytes accessed'),
    }
    try:
        text = compiled.as_text()
    except jax.errors.JaxRuntimeError as error:  # libtpu is newer than jaxlib knows.
        found['unreadable'] = ' '.join(str(error).split())[:200]
        text = ''
    if folder and text:
        path = pathlib.Path(folder) / f'{name.replace(" ", "_")}.txt'
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding='utf-8')
    program = hlo.parse(text, device.count, unknown_trips=trips)
    found |= {
        'collectives': by_kind(program.collectives) if text else None,
        'unknown_loops': program.unknown_loops,
        'unknown_trips': trips,
        'largest': [{'bytes': size, 'type': kind, 'op': op} for size, kind, op in program.largest],
    }
    found['estimate'] = estimate(found, program, costs, device)
    return found


def memory_of(compiled: Any, also: int) -> dict[str, int]:
    """Bytes of one device: what the compiler says, and 'needed' together with `also`."""
    memory = compiled.memory_analysis()
    sizes = {
        key: getattr(memory, f'{key}_size_in_bytes')
        for key in ('argument', 'output', 'alias', 'temp', 'generated_code')
    }
    # What train.compile_line counts, and the program itself. What is aliased is in arguments and
    # outputs, and there only once.
    return sizes | {'needed': sum(sizes.values()) - 2 * sizes['alias'] + also}


def refused(message: str) -> dict[str, Any]:
    """What libtpu says where a program is too large for it; bytes, as far as they are in there.

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


def matmul_flops(jaxpr: Any, trips: int = 1) -> int:
    """Of all products of a program, over all devices; 2 for each multiplication and addition.

    Args:
      jaxpr: whole, with those inside it.
      trips: what a loop of unknown length counts as.
    """
    total = 0
    for eqn in jaxpr.eqns:
        if eqn.primitive.name == 'dot_general':
            (contracted, _), _ = eqn.params['dimension_numbers']
            left = eqn.invars[0].aval.shape
            total += (
                2
                * math.prod(eqn.outvars[0].aval.shape)
                * math.prod(left[axis] for axis in contracted)
            )
            continue
        inside = [matmul_flops(inner, trips) for inner in _inner(eqn)]
        if eqn.primitive.name == 'cond':
            total += max(inside, default=0)
        else:
            times = {'scan': eqn.params.get('length', 1), 'while': trips}
            total += times.get(eqn.primitive.name, 1) * sum(inside)
    return total


def whole_activations(jaxpr: Any) -> list[dict[str, Any]]:
    """Activations that a model names and every device holds whole, the large ones."""
    found = []
    for eqn in jaxpr.eqns:
        if eqn.primitive.name == 'sharding_constraint':
            aval = eqn.outvars[0].aval
            sharding = eqn.params['sharding']
            size = math.prod(aval.shape) * aval.dtype.itemsize
            if sharding.is_fully_replicated and size >= LARGE and sharding.num_devices > 1:
                found.append(
                    {'bytes': size, 'type': str(aval), 'op': str(eqn.source_info.name_stack)}
                )
        for inner in _inner(eqn):
            found += whole_activations(inner)
    return [dict(items) for items in dict.fromkeys(tuple(entry.items()) for entry in found)]


def _inner(eqn: Any) -> Iterator[Any]:
    for value in eqn.params.values():
        for item in value if isinstance(value, tuple | list) else (value,):
            if hasattr(item, 'jaxpr'):
                yield item.jaxpr
            elif hasattr(item, 'eqns'):
                yield item


def model_flops(job: Job) -> int:
    """Products of the forward pass, three times: those of a step without recomputation.

    Where only a part is trained the step needs fewer.
    """

    def loss(params: Any, batch: Any, rng: Any) -> Any:
        return job.objective.loss(job.model, params, batch, rng)

    with partitioning.activate(job.mesh):
        traced = jax.jit(loss).trace(job.state.params, job.batch, job.rng)
    return 3 * matmul_flops(traced.jaxpr.jaxpr)


def whole_parameters(job: Job) -> list[dict[str, Any]]:
    """Large arrays of the state that every device holds whole, though the mesh could cut them."""
    if job.mesh.shape['fsdp'] * job.mesh.shape['tensor'] == 1:
        return []
    found = []
    for path, leaf in jax.tree_util.tree_leaves_with_path((job.state.params, job.state.opt_state)):
        size = math.prod(leaf.shape) * leaf.dtype.itemsize
        if leaf.sharding.is_fully_replicated and size >= LARGE:
            keys = (getattr(key, 'key', getattr(key, 'name', None)) for key in path[1:])
            name = '/'.join(str(key) for key in keys if key is not None)
            kind = 'parameter' if path[0].idx == 0 else 'optimizer state'
            found.append(
                {'bytes': size, 'type': f'{leaf.dtype}{list(leaf.shape)}', 'op': f'{kind} {name}'}
            )
    return sorted(found, key=lambda entry: -entry['bytes'])


def by_kind(collectives: Sequence[hlo.Collective]) -> list[dict[str, Any]]:
    """One row a kind: how many run, bytes they work on, bytes that a device sends in a ring."""
    rows: dict[str, dict[str, Any]] = {}
    for one in collectives:
        row = rows.setdefault(
            one.kind, {'kind': one.kind, 'count': 0, 'bytes': 0, 'wire_bytes': 0.0}
        )
        row['count'] += one.times
        row['bytes'] += one.times * one.bytes
        row['wire_bytes'] += one.times * one.wire_bytes
    return sorted(rows.values(), key=lambda row: -row['bytes'])


def estimate(
    found: Mapping[str, Any], program: hlo.Program, costs: Mapping[str, float], device: Device
) -> dict[str, Any]:
    """Seconds of a run of the program: the compiler's, and ours from the makers' peaks."""
    result: dict[str, Any] = {'compiler_seconds': None, 'compiler_source': 'not given'}
    if program.cycles:
        result['compiler_cycles'] = program.cycles
        if device.clock:
            result['compiler_seconds'] = program.cycles / device.clock
            result['compiler_source'] = 'its estimated_cycles / clock, without waiting for links'
        else:
            result['compiler_source'] = 'cycles only; the clock is not known'
    elif costs.get('optimal_seconds', 0) > 0:
        result['compiler_seconds'] = costs['optimal_seconds']
        result['compiler_source'] = "the compiler's optimal_seconds"
    if device.peak and device.memory_speed and device.link_speed:
        flops = max(found['matmul_flops'] / device.count, found['compiler_flops'] or 0)
        memory = found['memory']
        least = {
            'products': flops / device.peak,
            # What comes in is read once, what goes out is written once.
            'memory': (memory['argument'] + memory['output']) / device.memory_speed,
            # Not known where the program cannot be read; then it is not in the sums.
            'links': sum(row['wire_bytes'] for row in found['collectives'] or ())
            / device.link_speed,
        }
        # The compiler counts every operand as read, also where it stays beside the units.
        most = least | {'memory': (found['bytes_accessed'] or 0) / device.memory_speed}
        most['memory'] = max(most['memory'], least['memory'])
        result['roofline'] = {
            'least': least,
            'most': most,
            'least_seconds': max(least.values()),  # All three at once.
            'most_seconds': sum(most.values()),  # One after another, each at its peak.
        }
        if seconds := result['compiler_seconds']:
            result['with_links_seconds'] = [max(seconds, least['links']), seconds + least['links']]
    return result


@contextlib.contextmanager
def beating(what: str) -> Iterator[None]:
    """Says now and then that it still works."""
    started, done = time.monotonic(), threading.Event()

    def beat() -> None:
        while not done.wait(_BEAT):
            say(f'{what}: {logs.duration(time.monotonic() - started)} so far')

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def say(line: str) -> None:
    """Progress, on standard error."""
    print(line, file=sys.stderr, flush=True)


# ------------------------------------------------------------------------------------ the whole


def plan_job(job: Job, device: Device, *, with_decoding: bool, folder: str = '') -> dict[str, Any]:
    """All programs of a config on one mesh."""
    state = job.state_bytes
    result: dict[str, Any] = {
        'mesh': dict(job.mesh.shape),
        'parameters': sum(leaf.size for leaf in jax.tree.leaves(job.state.params)),
        'trained_share': job.trained_share,
        'device_bytes': state | {'batch': device_bytes(job.batch)},
        'model_flops': model_flops(job),
        'whole': whole_parameters(job),
        'programs': [],
    }
    jitted, args = train_program(job)
    step = study('the train step', jitted, args, job, device, folder=folder)
    if device.peak:
        for key, seconds in _seconds(step['estimate']).items():
            peak = seconds * device.peak * device.count
            step['estimate'].setdefault('mfu', {})[key] = result['model_flops'] / peak
    result['programs'].append(step)
    result['whole'] += step['whole_activations']
    for name, block in decoded_evals(job.config).items() if with_decoding else ():
        jitted, args, length = decode_program(job, block)
        result['programs'].append(
            study(
                f'decoding of {name}',
                jitted,
                args,
                job,
                device,
                trips=length,
                also=state['optimizer_state'],  # Training waits meanwhile.
                folder=folder,
            )
        )
    fits = [program['fits'] for program in result['programs']]
    result['fits'] = None if None in fits and False not in fits else all(fits)
    return result


def _seconds(estimated: Mapping[str, Any]) -> dict[str, float]:
    roofline = estimated.get('roofline', {})
    least, most = estimated.get('with_links_seconds', (None, None))
    found = {
        'compiler': estimated.get('compiler_seconds'),
        'with_links_least': least,
        'with_links_most': most,
        'roofline_least': roofline.get('least_seconds'),
        'roofline_most': roofline.get('most_seconds'),
    }
    return {key: seconds for key, seconds in found.items() if seconds}


def decoded_evals(config: ConfigDict) -> dict[str, ConfigDict]:
    """The evaluations that decode, one for each different shape."""
    if config.objective.name != 'generation':
        return {}
    found = {}
    for name, block in config.evals.items():
        if block.get('decode', True):
            shape = (block.batch_size, str(block.lengths), str(block.get('decoding')))
            found.setdefault(shape, (name, block))
    return dict(found.values())


def smaller(config: ConfigDict, num_devices: int) -> Iterator[dict[str, Any]]:
    """What to change in a config that does not fit, in the order of the module's docstring."""
    axes = ('data', 'fsdp', 'tensor')
    asked = [config.mesh.get(axis, -1 if axis == 'data' else 1) for axis in axes]
    left = num_devices // math.prod(size for size in asked if size != -1)
    asked = [left if size == -1 else size for size in asked]
    meshes: list[dict[str, Any]] = [{}]
    for tensor in (1, 2, 4, 8):
        mesh = [1, num_devices // tensor, tensor]
        if num_devices % tensor == 0 and mesh != asked:
            meshes.append({f'mesh.{axis}': size for axis, size in zip(axes, mesh, strict=True)})
    remat = ('none', 'dots', 'full')
    begin = remat.index(config.model.get('remat', 'none'))
    rows = config.batches.batch_size
    for mesh in meshes:
        if mesh:
            yield mesh
        for value in remat[begin + 1 :]:
            yield mesh | {'model.remat': value}
        for parts in (2, 4, 8):
            if config.objective.name == 'retrieval':
                part = {'objective.chunk_rows': (config.objective.chunk_rows or rows) // parts}
            else:
                part = {'accumulate': config.accumulate * parts}
            yield mesh | {'model.remat': 'full'} | part
    for mesh in meshes:
        for parts in (2, 4, 8):
            yield mesh | {'model.remat': 'full', 'batches.batch_size': rows // parts}


def changed(config: ConfigDict, changes: Mapping[str, Any]) -> ConfigDict:
    """A copy of the config with these keys set; keys that it leaves to defaults are added."""
    copy = config.copy_and_resolve_references()
    with copy.unlocked():
        for key, value in changes.items():
            *blocks, last = key.split('.')
            functools.reduce(lambda block, name: block[name], blocks, copy)[last] = value
    return copy


def flags(changes: Mapping[str, Any]) -> str:
    """As the command line has them."""
    return ' '.join(f'--config.{key}={value}' for key, value in changes.items())


def search(
    config: ConfigDict, device: Device, make: Any, tries: int, *, with_decoding: bool
) -> tuple[list[dict[str, Any]], dict[str, Any] | None, bool]:
    """(what was tried, the plan of the first that fits or None, whether all of them were)."""
    tried: list[dict[str, Any]] = []
    for changes in smaller(config, device.count):
        try:
            job = make(changed(config, changes))
        except UserError:
            continue  # It does not divide.
        state = sum(job.state_bytes.values())
        if state > device.capacity:
            tried.append({'flags': flags(changes), 'fits': False, 'needed': state, 'state': True})
            continue
        if sum(not entry.get('state') for entry in tried) == tries:
            return tried, None, False
        say(f'trying {flags(changes)}')
        plan = plan_job(job, device, with_decoding=with_decoding)
        needed = [program['memory']['needed'] for program in plan['programs']]
        tried.append(
            {
                'flags': flags(changes),
                'fits': plan['fits'],
                'needed': max((n for n in needed if n), default=None),
            }
        )
        if plan['fits']:
            return tried, plan, True
    return tried, None, True


def vocabulary(config: ConfigDict, given: int) -> tuple[int, str]:
    """(size of the vocabulary, where it is from)."""
    if given:
        return given, '--vocab_size'
    if config.model.get('vocab_size'):
        return config.model.vocab_size, 'config.model.vocab_size'
    block = {key: value for key, value in config.model.items() if key != 'vocab_size'}
    try:
        return models.config(**block).vocab_size, f'the published size of {block["family"]}'
    except UserError:
        raise UserError(
            'config.model.vocab_size is 0 and the model has no published size; give --vocab_size'
        ) from None


def make_plan(
    config: ConfigDict,
    topology: str,
    *,
    vocab_size: int = 0,
    num_labels: int = 0,
    memory: float | None = None,
    tries: int = 8,
    with_decoding: bool = True,
    folder: str = '',
) -> dict[str, Any]:
    """Everything that --output holds; see the module's docstring for the arguments.

    Raises:
      UserError: config or topology cannot work.
    """
    runs.check_config(config)
    devices = topology_lib.devices_of(topology)
    device = topology_lib.describe(devices, topology, memory)
    size, source = vocabulary(config, vocab_size)
    labels = num_labels or config.model.get('num_labels') or 2

    def make(config: ConfigDict) -> Job:
        return make_job(config, devices, size, labels)

    job = make(config)
    notes = list(remarks(job, labels if 'num_labels' in config.model else None))
    result = {
        'format': FORMAT,
        'topology': topology,
        'device': dataclasses.asdict(device),
        'config': config_lib.to_dict(config),
        'vocabulary': {'size': size, 'source': source},
        'stage': job.stage,
        'notes': notes,
        'versions': config_lib.facts()['versions'] | {'libtpu': _libtpu_version(topology)},
    }
    state = sum(job.state_bytes.values())
    if device.capacity is not None and tries and state > device.capacity:
        say(f'parameters and optimizer state alone take {amount(state)}; the step is not compiled')
        result |= {'plan': None, 'fits': False, 'state_bytes': job.state_bytes}
    else:
        plan = plan_job(job, device, with_decoding=with_decoding, folder=folder)
        result |= {'plan': plan, 'fits': plan['fits'], 'state_bytes': job.state_bytes}
    result |= {'tried': [], 'suggestion': None, 'suggested_plan': None, 'all_tried': True}
    if result['fits'] is False and tries:
        tried, plan, everything = search(config, device, make, tries, with_decoding=with_decoding)
        result |= {
            'tried': tried,
            'suggestion': tried[-1]['flags'] if plan else None,
            'suggested_plan': plan,
            'all_tried': everything,
        }
    return result


def _libtpu_version(topology: str) -> str:
    if topology.partition(':')[0] not in topology_lib.TPUS:
        return 'not used'
    return config_lib.metadata.version('libtpu')


def remarks(job: Job, labels: int | None) -> Iterator[str]:
    """What the figures leave out, a line each."""
    config = job.config
    if config.batches.get('length_buckets', 1) > 1:
        yield (
            f'batches have up to {config.batches.length_buckets} shapes, chosen from the data; '
            'this is the widest, of batch_size rows'
        )
    if labels is not None and not config.model.num_labels:
        yield f'config.model.num_labels is 0; planned with {labels}'
    others = [name for name in config.stages if name != job.stage]
    if any(
        config.stages[name].optimizer.name != config.stages[job.stage].optimizer.name
        for name in others
    ):
        yield f'other stages than {job.stage} have other optimizers, and are not planned'
    if job.trained_share < 1:
        yield (
            f'{100 * job.trained_share:.3g}% of the parameters are trained, so that a step needs '
            'fewer products than three forward passes, and the MFU below is too high'
        )


# ----------------------------------------------------------------------------------- in words


def amount(size: float | None) -> str:
    """Bytes in GiB or MiB. Example: 3 << 30 -> '3.00 GiB'."""
    if size is None:
        return 'not given'
    unit, name = (GIB, 'GiB') if size >= GIB else (1 << 20, 'MiB')
    return f'{size / unit:.3g} {name}' if size < 100 * unit else f'{size / unit:.0f} {name}'


def lines_of(result: Mapping[str, Any]) -> Iterator[str]:
    """The plan in words."""
    device = result['device']
    yield (
        f'{device["count"]} {device["kind"]} device{"s" if device["count"] > 1 else ""} '
        f'({result["topology"]}), memory {amount(device["capacity"])} each ({device["source"]})'
    )
    yield f'vocabulary {result["vocabulary"]["size"]:,} ({result["vocabulary"]["source"]})'
    for note in result['notes']:
        yield f'note: {note}'
    if result['plan']:
        yield from _plan_lines(result['plan'], device)
    else:
        state = result['state_bytes']
        yield (
            f'per device: parameters {amount(state["parameters"])}, optimizer state '
            f'{amount(state["optimizer_state"])}'
        )
    fits = {True: 'it fits', False: 'it does NOT fit', None: 'whether it fits is not known'}
    yield fits[result['fits']]
    for entry in result['tried']:
        why = ' for parameters and optimizer state alone' if entry.get('state') else ''
        verdict = 'fits' if entry['fits'] else 'does not fit'
        yield f'  tried {entry["flags"]}: {amount(entry["needed"])}{why}, {verdict}'
    if result['suggested_plan']:
        yield f'the first that fits: {result["suggestion"]}'
        for key, value in re.findall(r'--config\.(\S+)=(\S+)', result['suggestion']):
            block, _, name = key.rpartition('.')
            if block and name not in result['config'][block]:
                # Else the command line would not know the key.
                value = value if value.isdigit() else repr(value)
                yield f'  {key} is not in the config file: add {name}={value} to its {block} there'
        yield from _plan_lines(result['suggested_plan'], device)
    elif result['tried']:
        more = '' if result['all_tried'] else '; there are more, set --tries higher'
        yield f'none of those tried fits{more}'


def _plan_lines(plan: Mapping[str, Any], device: Mapping[str, Any]) -> Iterator[str]:
    mesh = ' x '.join(f'{name} {size}' for name, size in plan['mesh'].items())
    state = plan['device_bytes']
    yield f'mesh {mesh}; {logs.quantity(plan["parameters"])} parameters'
    yield (
        f'per device: parameters {amount(state["parameters"])}, optimizer state '
        f'{amount(state["optimizer_state"])}, batch {amount(state["batch"])}'
    )
    for program in plan['programs']:
        yield from _program_lines(program, plan, device)
    for entry in plan['whole']:
        yield f'held whole by every device: {entry["op"]} {entry["type"]} {amount(entry["bytes"])}'


def _program_lines(
    program: Mapping[str, Any], plan: Mapping[str, Any], device: Mapping[str, Any]
) -> Iterator[str]:
    memory = program['memory']
    yield f'{program["name"]} (compiled in {logs.duration(program["compile_seconds"])})'
    beside = program['beside']
    kept = f', beside it optimizer state {amount(beside)}' if beside else ''
    limit = f' of {amount(device["capacity"])}' if device['capacity'] else ''
    if 'refused' in program:
        usable = program['refused']['limit']
        limit = f' of the {amount(usable)} that it may use' if usable else limit
        yield f'  the compiler refuses it: at least {amount(memory["needed"])}{limit}{kept}'
        return
    yield (
        f'  memory: arguments {amount(memory["argument"])}, output {amount(memory["output"])} '
        f'(of it in place {amount(memory["alias"])}), activations and temporaries '
        f'{amount(memory["temp"])}, code {amount(memory["generated_code"])}{kept}; '
        f'together {amount(memory["needed"])}{limit}'
    )
    for entry in program['largest'][:3]:
        yield f'  large array: {entry["type"]} {amount(entry["bytes"])} {entry["op"]}'
    count = device['count']
    yield (
        f'  products of the program {logs.quantity(program["matmul_flops"], "FLOP")} on all '
        f'devices, {logs.quantity(program["matmul_flops"] / count, "FLOP")} each; the compiler '
        f'counts {logs.quantity(program["compiler_flops"] or 0, "FLOP")} each, loops once'
    )
    if program['name'] == 'the train step':
        yield (
            f"  the model's own products (three forward passes) "
            f'{logs.quantity(plan["model_flops"], "FLOP")} on all devices'
        )
    if program['collectives'] is None:
        yield f'  collectives: not given, jaxlib cannot read the program: {program["unreadable"]}'
    for row in program['collectives'] or ():
        yield (
            f'  {row["count"]} {row["kind"]}, {logs.quantity(row["bytes"], "B")}; a device sends '
            f'{logs.quantity(row["wire_bytes"], "B")} in a ring'
        )
    if program['collectives'] == []:
        yield '  no collectives'
    if program['unknown_loops']:
        yield (
            f'  {program["unknown_loops"]} loop(s) end by what they compute; counted as '
            f'{program["unknown_trips"]} round(s) each'
        )
    yield from _estimate_lines(program['estimate'])


def _estimate_lines(estimated: Mapping[str, Any]) -> Iterator[str]:
    mfu = estimated.get('mfu', {})

    def share(key: str) -> str:
        return f' (MFU {100 * mfu[key]:.1f}%)' if key in mfu else ''

    seconds = estimated['compiler_seconds']
    if seconds:
        yield (
            f"  the compiler's estimate: {1e3 * seconds:.4g} ms{share('compiler')}, "
            f'{estimated["compiler_source"]}'
        )
    else:
        yield f"  the compiler's estimate: {estimated['compiler_source']}"
    if 'with_links_seconds' in estimated:
        least, most = estimated['with_links_seconds']
        yield (
            f'  and our time of the links, all beside it: {1e3 * least:.4g} ms'
            f'{share("with_links_least")}, all after it: {1e3 * most:.4g} ms'
            f'{share("with_links_most")}'
        )
    if roofline := estimated.get('roofline'):
        least, most = (
            {key: f'{1e3 * seconds:.4g}' for key, seconds in roofline[name].items()}
            for name in ('least', 'most')
        )
        yield (
            f"  our roofline from the makers' peaks: products {least['products']} ms, memory "
            f'{least["memory"]} to {most["memory"]} ms, links {least["links"]} ms; all at once '
            f'{1e3 * roofline["least_seconds"]:.4g} ms{share("roofline_least")}, one after another '
            f'{1e3 * roofline["most_seconds"]:.4g} ms{share("roofline_most")}'
        )


def main(argv: Sequence[str]) -> int:
    """The command line, the program's name first; 1 if it does not fit."""
    parser = errors.ArgumentParser('python -m xlbench.plan', __doc__)
    parser.add_argument('--topology', default='local')
    parser.add_argument('--vocab_size', type=int, default=0)
    parser.add_argument('--num_labels', type=int, default=0)
    parser.add_argument('--memory', type=float, default=None)
    parser.add_argument('--tries', type=int, default=8)
    parser.add_argument('--no_decode', action='store_true')
    parser.add_argument('--output', default='')
    parser.add_argument('--hlo', default='')
    args, rest = parser.parse_known_args(argv[1:])
    config, _ = config_lib.parse_flags([argv[0], *rest], doc=__doc__)
    result = make_plan(
        config,
        args.topology,
        vocab_size=args.vocab_size,
        num_labels=args.num_labels,
        memory=args.memory,
        tries=args.tries,
        with_decoding=not args.no_decode,
        folder=args.hlo,
    )
    for line in lines_of(result):
        print(line)
    if args.output:
        pathlib.Path(args.output).write_text(logs.as_json(result), encoding='utf-8')
    return 1 if result['fits'] is False else 0


if __name__ == '__main__':
    sys.exit(errors.run_main(main, sys.argv))
