r"""Times a train step as the model, the batch, the texts, the vocabulary and the devices grow.

    python tests/speed/growth_model.py
    python tests/speed/growth_model.py --only=length,vocabulary --rounds=5

Along each axis one size grows and the others stay, but for rows: of longer texts there are fewer,
so that every batch of that axis has as many tokens. A figure is the median of the rounds, on the
first of this machine's CPU devices. Beside it stand what the compiler counts: products, memory of
activations, seconds of compiling. The last row of an axis is the largest exponent between two
neighbours: 1 where the seconds grow as the size does, 0 where they stay; of texts, where the tokens
stay, 0 is a straight line, and 1 would be attention alone.

Of devices, which are fakes on one machine, nothing is timed: what counts is what each of them has
to compute, hold and send, as the compiler has it.
"""

import dataclasses
import itertools
import math
import os
import statistics
import time
from collections.abc import Iterator, Sequence

import interleaved

DEVICES = 8
os.environ['XLA_FLAGS'] = (
    f'{os.environ.get("XLA_FLAGS", "")} --xla_force_host_platform_device_count={DEVICES}'
)
os.environ['JAX_PLATFORMS'] = 'cpu'

import jax
import jax.numpy as jnp
import numpy as np
from ml_collections import ConfigDict

from xlbench.configs import mtg_mt5
from xlbench.data import features
from xlbench.parallel import partitioning
from xlbench.plan import devices as devices_lib, programs, study
from xlbench.training import train_step


@dataclasses.dataclass(frozen=True)
class Work:
    """One train step.

    Attributes:
      emb_dim: of a model of two and two layers; its MLP has twice as many units.
      rows: of a batch.
      length: tokens of an input; a target has a quarter of them.
      vocab_size: rows of the two tables.
      devices: that fsdp cuts parameters over, and the batch.
    """

    emb_dim: int = 256
    rows: int = 16
    length: int = 128
    vocab_size: int = 8192
    devices: int = 1

    @property
    def tokens(self) -> int:
        """Of a batch, inputs and targets."""
        return self.rows * self.length * 5 // 4

    def config(self) -> ConfigDict:
        """The config of the sample, in these sizes."""
        c = mtg_mt5.get_config('sample')
        heads = self.emb_dim // 32
        c.model.update(emb_dim=self.emb_dim, num_heads=heads, mlp_dim=2 * self.emb_dim)
        c.model.vocab_size = self.vocab_size
        c.batches.update(
            batch_size=self.rows, lengths=dict(inputs=self.length, targets=self.length // 4)
        )
        c.mesh.update(data=1, fsdp=self.devices)
        return c

    def job(self) -> programs.Job:
        """Its programs, as shapes."""
        devices = jax.devices()[: self.devices]
        return programs.make_job(self.config(), devices, self.vocab_size, 2)


# {axis: (field of Work, {its size in words: the work})}
AXES = {
    'model': ('emb_dim', [Work(emb_dim=size) for size in (128, 256, 512, 1024)]),
    'batch': ('rows', [Work(rows=rows) for rows in (2, 8, 32, 128)]),
    'length': (
        'length',
        [Work(rows=4096 // length, length=length) for length in (128, 256, 512, 1024, 2048, 4096)],
    ),
    'vocabulary': (
        'vocab_size', [Work(vocab_size=size) for size in (2048, 8192, 32_128, 131_072, 250_112)]
    ),
    'devices': ('devices', [Work(rows=64, emb_dim=512, devices=count) for count in (1, 2, 4, 8)]),
}  # fmt: skip


def timed(work: Work, rounds: int) -> tuple[float, str]:
    """(seconds of a step, what the compiler says of it)."""
    job = work.job()
    jitted, shapes = programs.train_program(job)
    began = time.perf_counter()
    with partitioning.activate(job.mesh):
        traced = jitted.trace(*shapes)
        compiled = traced.lower().compile()
    took = time.perf_counter() - began
    key = jax.random.key(0)
    zeros = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype, device=x.sharding), job.state)
    state = zeros.replace(params=train_step.init_params(job.model, job.objective, job.mesh, key))
    batch = partitioning.put_batch(full_batch(job), job.mesh)
    seconds = []
    for _ in range(rounds + 1):
        began = time.perf_counter()
        state, metrics = compiled(state, batch, key)
        jax.block_until_ready(metrics)
        seconds.append(time.perf_counter() - began)
    median = statistics.median(seconds[1:])
    speed = study.matmul_flops(traced.jaxpr.jaxpr) / median / 1e9
    memory = compiled.memory_analysis().temp_size_in_bytes >> 20
    return median, f'{speed:.0f} GFLOP/s, activations {memory} MiB, compiled in {took:.1f} s'


def full_batch(job: programs.Job) -> dict[str, np.ndarray]:
    """A batch without padding."""
    lengths = dict(job.config.batches.lengths)
    rng = np.random.default_rng(0)
    size = job.model.config.vocab_size
    example = {name: rng.integers(2, size, length) for name, length in lengths.items()}
    conventions = features.Conventions(pad_id=0, eos_id=1, decoder_start_id=0, vocab_size=size)
    layout = features.Layout(lengths, conventions)
    return features.VIEWS[job.objective.view]([[example]] * job.config.batches.batch_size, layout)


def cost_of_a_device(work: Work) -> dict[str, float]:
    """What each device computes, holds and sends in a step, by unit."""
    job = work.job()
    device = devices_lib.describe(list(job.mesh.devices.flat), f'cpu:{work.devices}', None)
    program = study.study('the train step', *programs.train_program(job), job, device)
    sent = sum(row['wire_bytes'] for row in program['collectives'])
    return {
        'GFLOP': program['compiler_flops'] / 1e9,
        'MiB held': program['memory']['needed'] / 2**20,
        'MiB sent': sent / 2**20,
    }


def exponents(sizes: Sequence[float], costs: Sequence[float]) -> list[float]:
    """Between neighbours; 1 where a cost grows as its size does."""
    pairs = itertools.pairwise(zip(sizes, costs, strict=True))
    return [math.log(b / a) / math.log(n / m) for (m, a), (n, b) in pairs]


def of_devices(works: Sequence[Work]) -> Iterator[interleaved.Value]:
    """Rows of what a device has to do, as there are more of them."""
    for work in works:
        for unit, number in cost_of_a_device(work).items():
            named = f'a train step on {work.devices} devices, each'
            yield interleaved.value(named, number, unit, 'by the compiler')


def of_seconds(axis: str, works: Sequence[Work], rounds: int) -> Iterator[interleaved.Value]:
    """Rows of the seconds of a step as a size grows, and of how they grow."""
    field, seconds = AXES[axis][0], []
    sizes = [getattr(work, field) for work in works]
    for work, size in zip(works, sizes, strict=True):
        taken, note = timed(work, rounds)
        seconds.append(taken)
        yield interleaved.value(
            f'a train step, {field} {size:,}', work.tokens / taken, 'tokens/s', note
        )
    found = exponents(sizes, seconds)
    steepest = max(range(len(found)), key=found.__getitem__)
    between = f'between {sizes[steepest]:,} and {sizes[steepest + 1]:,}'
    yield interleaved.value(f'seconds by {field}', found[steepest], 'exponent', between)


def main() -> None:
    """The command line."""
    parser = interleaved.parser(__doc__, (), rounds=3)
    parser.add_argument('--only', default=','.join(AXES), help='axes, with commas')
    args = parser.parse_args()
    rows: list[interleaved.Value] = []
    for axis in args.only.split(','):
        works = AXES[axis][1]
        made = of_devices(works) if axis == 'devices' else of_seconds(axis, works, args.rounds)
        for row in made:
            print(f'{row["work"]}: {row["value"]:,.3g} {row["unit"]} ({row["note"]})', flush=True)
            rows.append(row)
    interleaved.write(args.json, rows)


if __name__ == '__main__':
    main()
