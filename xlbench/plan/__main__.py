r"""Estimates memory and speed on devices you do not have.

  python -m xlbench.plan --config=configs/mtg_mt5.py:xxl_v5p_4x4x4 --topology=v5p:4x4x4
  python -m xlbench.plan --config=configs/mtg_mt5.py:large --topology=v5e:4x4 \
      --config.mesh.fsdp=8 --config.mesh.sequence=2 --output=plan.json

It compiles the real train step, and for generation the real decoding of a batch, but never runs
them. It reads no data, vocabulary or checkpoint.

  --topology=v5p:4x4x4    TPU chips (v4, v5e, v5p, v6e); needs the package libtpu, and no TPU
  --topology=2xv5p:4x4x4  two such slices, between which the network is slow (mesh axis replica)
  --topology=cpu:8        eight devices on this machine's CPU, and the process that they share
  --topology=h100:8       GPUs (a100, h100, h200): compiled if the package jax[cuda13] is there,
                          which needs no GPU; hours are estimated from the products of the steps
  --topology=local        the devices of this machine

If the config does not fit, smaller settings are tried, and the first that fit are printed as flags.
The meshes are tried in this order: the config's, fsdp over all devices, then tensor = 2, 4, 8;
meshes on which the parameters and the optimizer state alone are too large are skipped. On each
mesh, the settings are: no change, remat=dots, remat=full, then remat=full with the batch in 2, 4, 8
parts (accumulate; chunk_rows for retrieval). At last, each mesh is tried with a half, a quarter and
an eighth of batch_size.
"""

import dataclasses
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib import metadata

from xlbench.config import commands

if __name__ == '__main__':  # A slip is answered before the imports below, which take seconds.
    commands.check_first(commands.parse_plan, sys.argv)

import jax
from ml_collections import ConfigDict

from xlbench import config as config_lib, decoding, runs
from xlbench.parallel import partitioning
from xlbench.plan import devices as topology_lib, figures, study
from xlbench.plan.devices import Device
from xlbench.plan.figures import Figures
from xlbench.settings import epochs
from xlbench.system import errors, files
from xlbench.system.command_line import say
from xlbench.system.errors import UserError
from xlbench.training import objectives

FORMAT = 5  # Of the JSON file.
Changes = dict[str, int | str]  # {key with dots: value}
LANES = 128  # Columns of a TPU's tile.
# Of the mesh, what other sizes are tried of; replica and sequence stay as they are.
_TRIED_AXES = ('data', 'fsdp', 'tensor')


def smaller(config: ConfigDict, num_devices: int) -> Iterator[Changes]:
    """Yields changes to a config that does not fit, in the order of the module's docstring."""
    asked = {axis: config.mesh.get(axis, 1) for axis in ('replica', 'sequence', *_TRIED_AXES)}
    asked['data'] = config.mesh.get('data', -1)
    left = num_devices // math.prod(size for size in asked.values() if size != -1)
    asked = {axis: left if size == -1 else size for axis, size in asked.items()}
    share = math.prod(asked[axis] for axis in _TRIED_AXES)
    meshes: list[Changes] = [{}]
    for tensor in (1, 2, 4, 8):
        mesh = dict(data=1, fsdp=share // tensor, tensor=tensor)
        if share % tensor == 0 and any(mesh[axis] != asked[axis] for axis in mesh):
            meshes.append({f'mesh.{axis}': size for axis, size in mesh.items()})
    remat = ('none', 'dots', 'full')
    begin = remat.index(config.model.get('remat', 'none'))
    rows = config.batches.batch_size
    accumulates = objectives.build(**config.objective).accumulates
    for mesh in meshes:
        if mesh:
            yield mesh
        for value in remat[begin + 1 :]:
            yield mesh | {'model.remat': value}
        for parts in (2, 4, 8):
            if not accumulates:
                part = {'objective.chunk_rows': (config.objective.chunk_rows or rows) // parts}
            else:
                part = {'accumulate': config.accumulate * parts}
            yield mesh | {'model.remat': 'full'} | part
    for mesh in meshes:
        for parts in (2, 4, 8):
            yield mesh | {'model.remat': 'full', 'batches.batch_size': rows // parts}


def changed(config: ConfigDict, changes: Changes) -> ConfigDict:
    """Copies the config with these keys set; keys that it leaves to defaults are added."""
    copy = config.copy_and_resolve_references()
    for key, value in changes.items():
        epochs.put(copy, key, value)
    return copy


def flags(changes: Changes) -> str:
    """Changes as flags of a command line."""
    return ' '.join(f'--config.{key}={value}' for key, value in changes.items())


def search(
    config: ConfigDict,
    device: Device,
    make: Callable[[ConfigDict], study.Job],
    tries: int,
    *,
    with_decoding: bool,
) -> Figures:
    """The tries in place of a config that does not fit, and the first plan that does."""
    tried: list[Figures] = []
    for changes in smaller(config, device.count):
        entry: Figures = {'flags': flags(changes), 'fits': False}
        try:
            job = make(changed(config, changes))
        except UserError:
            continue  # It does not divide.
        state = sum(job.state_bytes.values())
        if device.capacity is not None and state > device.capacity:
            tried.append(entry | {'needed': state, 'state': True})
            continue
        if sum(not other.get('state') for other in tried) == tries:
            return {'tried': tried, 'all_tried': False}
        say(f'trying {entry["flags"]}')
        plan = study.plan_job(job, device, with_decoding=with_decoding)
        needed = [program['memory']['needed'] for program in plan['programs']]
        most = max((n for n in needed if n), default=None)
        tried.append(entry | {'fits': plan['fits'], 'needed': most})
        if plan['fits']:
            return {'tried': tried, 'suggestion': entry['flags'], 'suggested_plan': plan}
    return {'tried': tried}


def make_plan(
    config: ConfigDict,
    topology: str,
    *,
    vocab_size: int = 0,
    num_labels: int = 0,
    memory: float | None = None,
    tries: int = 8,
    with_decoding: bool = True,
    mfu: float = 0.4,
) -> Figures:
    """Makes everything that --output holds; see the module's docstring for the arguments.

    Raises:
      UserError: config or topology cannot work.
    """
    runs.check_config(config)
    devices = topology_lib.devices_of(topology)
    device = topology_lib.describe(devices, topology, memory)
    size, source = (vocab_size, '--vocab_size') if vocab_size else runs.published_vocabulary(config)
    labels = num_labels or config.model.get('num_labels') or 2

    def make(config: ConfigDict) -> study.Job:
        return study.Job(config, devices, size, labels)

    job = make(config)
    libtpu = metadata.version('libtpu') if topology_lib.is_tpu(topology) else 'not used'
    notes = list(remarks(job, labels if 'num_labels' in config.model else None))
    result: Figures = {
        'format': FORMAT,
        'topology': topology,
        'device': dataclasses.asdict(device),
        'config': config_lib.to_dict(config),
        'vocabulary': {'size': size, 'source': source},
        'stage': job.stage,
        'notes': notes,
        'versions': config_lib.facts()['versions'] | {'libtpu': libtpu},
    }
    state = sum(job.state_bytes.values())
    plan: Figures | None = None
    if topology_lib.is_gpu(topology) and not topology_lib.compiles_for_gpu(topology):
        notes.append(
            f'nothing is compiled without the package {topology_lib.CUDA}, which needs no GPU: pip '
            "install 'jax[cuda13]' of the version of jax that is here"
        )
        plan = study.outline(job)
        stand_in = f' {devices[0].device_kind} device'
        plan['mesh_in_words'] = plan['mesh_in_words'].replace(stand_in, f' {device.kind} device')
    elif device.capacity is not None and tries and state > device.capacity:
        alone = figures.amount(state)
        say(f'parameters and optimizer state alone take {alone}; the step is not compiled')
    else:
        plan = study.plan_job(job, device, with_decoding=with_decoding)
    fits = plan['fits'] if plan else False
    result |= {'plan': plan, 'fits': fits, 'state_bytes': job.state_bytes}
    if topology_lib.is_gpu(topology) and plan and device.peak:
        result['hours'] = study.hours(plan, config, device.peak * device.count, mfu)
    result |= {'tried': [], 'suggestion': None, 'suggested_plan': None, 'all_tried': True}
    if fits is False and tries:
        result |= search(config, device, make, tries, with_decoding=with_decoding)
    return result


def narrowest(job: study.Job) -> int:
    """The fewest columns of a parameter on a device; LANES where fsdp cuts none."""
    return min(
        (
            leaf.sharding.shard_shape(leaf.shape)[axis]
            for leaf in jax.tree.leaves(job.state.params)
            for axis, part in enumerate(leaf.sharding.spec)
            if part == 'fsdp' and leaf.ndim > 1 and job.mesh.shape['fsdp'] > 1
        ),
        default=LANES,
    )


def remarks(job: study.Job, labels: int | None) -> Iterator[str]:
    """Says what the figures leave out, a line each."""
    config = job.config
    if config.batches.get('length_buckets', 1) > 1:
        yield (
            f'batches have up to {config.batches.length_buckets} shapes, chosen from the data; '
            'this is the widest, of batch_size rows'
        )
    if labels is not None and not config.model.num_labels:
        yield f'config.model.num_labels is 0; planned with {labels}'
    columns = narrowest(job)
    if columns < LANES and job.mesh.devices.flat[0].platform == 'tpu':
        yield (
            f'fsdp leaves a device {columns} columns of some parameters, less than the {LANES} '
            'lanes of a TPU: its compiler then gathers by adding up padded copies, at twice the '
            f'bytes; fsdp={max(1, job.mesh.shape["fsdp"] * columns // LANES)} would not'
        )
    if len(partitioning.slices(job.mesh.devices.flat)) > 1:
        yield 'the times leave out the network between slices, which is in no page of its maker'
    others = [name for name in config.stages if name != job.stage]
    if any(
        config.stages[name].optimizer.name != config.stages[job.stage].optimizer.name
        for name in others
    ):
        yield f'other stages than {job.stage} have other optimizers, and are not planned'
    if study.decoded_evals(config):
        yield from of_decoding(job)
    if job.trained_share < 1:
        yield (
            f'{100 * job.trained_share:.3g}% of the parameters are trained, so that a step needs '
            'fewer products than three forward passes, and the MFU below is too high'
        )


def of_decoding(job: study.Job) -> Iterator[str]:
    """Says where parameters lie while texts are written, if fsdp cuts them in training."""
    parts = job.mesh.shape['fsdp']
    kind = decoding.layout_of(job.model, job.state.params).kind
    if kind == 'whole':
        yield 'decoding gathers the parameters that fsdp cuts, once a batch'
    elif kind == 'by_heads':
        shares = parts * job.mesh.shape['tensor']
        yield (
            f'decoding cuts parameters into {shares} parts along their heads, hidden units and '
            'vocabulary, once a batch; fsdp x tensor devices share their rows'
        )
    elif parts > 1:
        yield (
            'decoding gathers parameters anew for each token: they are too large to be gathered '
            f'once, and fsdp x tensor does not divide {job.model.config.num_heads} heads and all '
            'that tensor cuts; choose a config.mesh.fsdp that does'
        )


def main(argv: Sequence[str]) -> int:
    """Runs a command line, the program's name first; 1 if it does not fit."""
    args, config = commands.parse_plan(argv)
    result = make_plan(
        config,
        args.topology,
        vocab_size=args.vocab_size,
        num_labels=args.num_labels,
        memory=args.memory,
        tries=args.tries,
        with_decoding=not args.no_decode,
        mfu=args.mfu,
    )
    for line in figures.lines_of(result):
        print(line)
    if args.output:
        files.write(args.output, files.as_json(result))
    return 1 if result['fits'] is False else 0


if __name__ == '__main__':
    sys.exit(errors.run_main(main, sys.argv))
