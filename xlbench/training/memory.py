"""Refuses configs whose sizes alone show that they cannot run, before data is read.

Only what every program of ours holds at once is counted: a config that is refused could not have
run. One that passes may still be too large; `python -m xlbench.plan` asks the compiler.
"""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from jax.sharding import Mesh
from ml_collections import ConfigDict

from xlbench import models
from xlbench.models.layers import TransformerConfig
from xlbench.parallel import partitioning, programs
from xlbench.settings import blocks, decoding
from xlbench.system import errors, machine
from xlbench.system.errors import UserError
from xlbench.system.progress import quantity
from xlbench.training import objectives
from xlbench.training.train_step import CompiledMemory

# Layers of both stacks together: twice as many as any public model has. Tracing a step of 1,000
# layers takes two minutes, and compiling it takes hours.
MOST_LAYERS = 256


def device(mesh: Mesh) -> int | None:
    """Bytes of each device of a mesh; CPU devices share the machine's. None: nobody knows."""
    if limit := partitioning.memory_limit(mesh):
        return limit
    total = machine.memory() if mesh.local_devices[0].platform == 'cpu' else None
    return total and total // len(mesh.local_devices)


def check(config: ConfigDict, mesh: Mesh) -> None:
    """Raises UserError for sizes that no device of the mesh has the memory for."""
    limit = device(mesh)
    for what, needed, advice in _needs(config, mesh, config_of(config.model)):
        if limit and needed > limit:
            raise UserError(
                f'{what} needs at least {quantity(needed, "B")} on each device, which has '
                f'{quantity(limit, "B")}; {advice}'
            )


def _needs(
    config: ConfigDict, mesh: Mesh, model: TransformerConfig
) -> Iterator[tuple[str, float, str]]:
    """(a part of a run, bytes that it takes of each device at the least, advice)."""
    axes, row_shares = mesh.shape, partitioning.batch_shards(mesh)
    trains_all = tuple(config.trainable) == ('.*',)
    count = least_parameters(model)
    # Of a table of which some rows are trained, the least is that none is.
    table = model.vocab_size * model.emb_dim
    moved = count - (table if config.get('embedding_rows') == 'occurring' else 0)
    state = _state(config) if trains_all and not config.lora.get('rank') else 0
    yield (
        f'a model of {quantity(count)} parameters with its optimizer state',
        (4 * count + state * moved) / axes['fsdp'] / axes['tensor'],
        'take a smaller size (config.model), or more devices (config.mesh.fsdp)',
    )
    stages = [blocks.batches_of(config, name) for name in config.stages]
    for batches in stages or [dict(config.batches)]:
        rows, parts = batches['batch_size'], config.accumulate
        if chunk := config.objective.get('chunk_rows'):
            parts = max(parts, rows // max(chunk, 1))
        widths = {'inputs': 1, 'targets': 1}  # Of rows whose length the data decides.
        if batches.get('length_buckets', 1) == 1:
            widths |= batches['lengths']
        # The backward pass needs what went into each layer, whatever else is recomputed; with
        # frozen layers it may begin at the last one.
        depth = widths['inputs'] * num_layers(model, 'encoder')
        if not hasattr(model, 'num_layers'):
            depth += widths['targets'] * num_layers(model, 'decoder')
        if not trains_all:
            depth = widths['inputs']
        cut = row_shares * axes['sequence'] * axes['tensor'] * max(1, parts)
        yield (
            f'a batch of {rows:,} rows of {widths["inputs"]:,} tokens',
            2 * rows * depth * model.emb_dim / cut,
            'take a smaller config.batches.batch_size or lengths, or a larger config.accumulate',
        )
    if not objectives.build(**config.objective).writes_text:
        return
    for name, block in config.evals.items():
        if block.get('decode', True):
            options = decoding.make(block.get('decoding'), block.lengths.get('targets', 1))
            size = model.num_heads * model.head_dim * num_layers(model, 'decoder')
            rows = block.batch_size * options.hypotheses
            yield (
                f'decoding {rows:,} texts of {options.max_length:,} tokens at once, in '
                f'config.evals.{name},',
                4 * rows * options.max_length * size / row_shares / axes['tensor'],
                f'take a smaller batch_size, lengths.targets or num_beams in config.evals.{name}',
            )


def step_bytes(stats: CompiledMemory) -> int:
    """Bytes that a program takes of each device, by the compiler's own accounting."""
    return (
        stats.argument_size_in_bytes
        + stats.output_size_in_bytes
        + stats.temp_size_in_bytes
        - stats.alias_size_in_bytes
    )


def check_step(stats: CompiledMemory | None, mesh: Mesh, config: ConfigDict) -> None:
    """Raises UserError for a compiled train step that its devices have no room for.

    On a CPU nobody else would say so: the system kills a process that takes too much.
    """
    limit = device(mesh)
    if stats is not None and limit and (needed := step_bytes(stats)) > limit:
        raise UserError(
            f'a train step needs {quantity(needed, "B")} on each device, which has '
            f'{quantity(limit, "B")}; {of_training(config)}'
        )


def keep_freed(stats: CompiledMemory | None, mesh: Mesh) -> bool:
    """Lets the process keep what an inline train step frees; True if it does so from now on."""
    if stats is None or not programs.inline:
        return False
    return programs.keep_freed(mesh, step_bytes(stats), stats.temp_size_in_bytes)


def of_training(config: ConfigDict) -> str:
    """Says in words how to make the train step of a config smaller."""
    batches = config.batches
    choices = [f'take a smaller config.batches.batch_size (now {batches.batch_size:,}) or lengths']
    if config.objective.name == 'retrieval':
        choices.append('a smaller config.objective.chunk_rows')
    else:
        choices.append(f'a larger config.accumulate (now {config.accumulate})')
    if config.model.get('remat', 'none') != 'full':
        choices.append('config.model.remat=full')
    return ', '.join(choices) + ', or more devices (config.mesh)'


@contextlib.contextmanager
def advising(advice: str) -> Iterator[None]:
    """Turns an out-of-memory error of the block into one line, which ends with `advice`."""
    try:
        yield
    except Exception as error:
        if isinstance(error, UserError) or (trouble := errors.shortage(error)) is None:
            raise
        raise UserError(f'{trouble.reason}; {advice}') from error


def config_of(block: Mapping[str, Any]) -> TransformerConfig:
    """The config of a model before its vocabulary and labels are known.

    Raises:
      UserError: a field cannot be, or there are more layers than anybody can compile.
    """
    options = dict(block)
    options['vocab_size'] = options.get('vocab_size') or 1
    if options.get('num_labels') == 0:
        options['num_labels'] = 1
    model = models.config(**options)
    if (layers := num_layers(model)) > MOST_LAYERS:
        raise UserError(f'config.model has {layers:,} layers; at most {MOST_LAYERS:,} are allowed')
    return model


def num_layers(model: TransformerConfig, stack: str = '') -> int:
    """Layers of both stacks of a model's config, or of one ('encoder', 'decoder')."""
    if hasattr(model, 'num_layers'):
        return model.num_layers
    stacks = (stack,) if stack else ('encoder', 'decoder')
    return sum(getattr(model, f'num_{name}_layers') for name in stacks)


def least_parameters(model: TransformerConfig) -> int:
    """Parameters that any model of these sizes has: token tables, attention and MLPs."""
    rows = model.vocab_size + getattr(model, 'num_labels', 0) + getattr(model, 'projection_dim', 0)
    if getattr(model, 'learned_positions', True):
        rows += getattr(model, 'max_positions', 0)
    layer = model.emb_dim * (4 * model.num_heads * model.head_dim + 2 * model.mlp_dim)
    table = getattr(model, 'relpos_buckets', 0) * model.num_heads
    return rows * model.emb_dim + num_layers(model) * layer + table


def _state(config: ConfigDict) -> int:
    """Bytes of optimizer state of a parameter, in the stage that has the least."""

    def of(block: Mapping[str, Any]) -> int:
        name, half = block.get('name', 'adamw'), block.get('moments_dtype') == 'bfloat16'
        if name in ('adamw', 'adam'):
            return 6 if half else 8
        return 4 if block.get('momentum') and not half else 0

    return min(of(stage.optimizer) for stage in config.stages.values()) if config.stages else 0
