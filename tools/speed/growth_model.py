r"""Times a step as one size grows: the model, the batch, the texts, the vocabulary, the buckets.

    python tools/speed/growth_model.py length
    python tools/speed/growth_model.py vocabulary --rounds=9
    python tools/speed/growth_model.py devices

Along each axis one size grows and the others stay, but for rows: of longer texts there are fewer,
so that every batch of that axis has as many tokens. A figure is the median of the rounds, as
xlbench.train takes its steps on this machine's CPU. Beside it stand the products in a second, the
compiler's memory of activations, and the seconds of compiling. The last row of an axis is the
largest exponent between two neighbours: 1 where the seconds grow as the size does, 0 where they
stay; of texts, where the tokens stay, 0 is a straight line, and 1 would be attention alone.

    emb_dim     features of a model of two and two layers; products grow with the square
    layers      of each stack
    rows        of a batch
    length      tokens of an input; a target has a quarter of them
    vocabulary  rows of the two tables
    buckets     of a few-shot sweep: heads and poolers on cached features, see fewshot.py
    devices     nothing is timed, as they are fakes on one machine: what counts is what each of them
                has to compute, hold and send, as the compiler has it
"""

import dataclasses
import itertools
import math
import statistics
import time
import types
from collections.abc import Callable, Iterator, Sequence

import contest
import fewshot
import interleaved
import jax
import numpy as np
from ml_collections import ConfigDict

from xlbench.configs import mtg_mt5
from xlbench.data import features
from xlbench.plan import devices as devices_lib, study

MIB = 1 << 20
WARM_UPS = 8  # Steps; the first ones compile, and find where their memory lies.


@dataclasses.dataclass(frozen=True)
class Work:
    """One train step."""

    emb_dim: int = 256  # Of a model whose MLP has twice as many units.
    layers: int = 2  # Of each stack.
    rows: int = 16  # Of a batch.
    length: int = 128  # Tokens of an input; a target has a quarter of them.
    vocab_size: int = 8192  # Rows of the two tables.
    devices: int = 1  # That fsdp cuts parameters over, and the batch.

    @property
    def tokens(self) -> int:
        """Of a batch, inputs and targets."""
        return self.rows * self.length * 5 // 4

    def config(self) -> ConfigDict:
        """The config of the sample, in these sizes."""
        c = mtg_mt5.get_config('sample')
        c.model.update(emb_dim=self.emb_dim, num_heads=self.emb_dim // 32)
        c.model.update(num_encoder_layers=self.layers, num_decoder_layers=self.layers)
        c.model.update(mlp_dim=2 * self.emb_dim, vocab_size=self.vocab_size)
        c.batches.update(
            batch_size=self.rows, lengths=dict(inputs=self.length, targets=self.length // 4)
        )
        c.mesh.update(data=1, fsdp=self.devices)
        return c

    def job(self) -> study.Job:
        """Its programs, as shapes."""
        devices = jax.devices()[: self.devices]
        return study.Job(self.config(), devices, self.vocab_size, 2)


# {axis: (field of Work, its sizes)}
AXES: dict[str, tuple[str, list[Work]]] = {
    'emb_dim': ('emb_dim', [Work(emb_dim=size) for size in (128, 256, 512, 1024)]),
    'layers': ('layers', [Work(layers=count) for count in (1, 2, 4, 8, 16)]),
    'rows': ('rows', [Work(rows=rows) for rows in (2, 8, 32, 128)]),
    'length': (
        'length',
        [Work(rows=4096 // length, length=length) for length in (128, 256, 512, 1024, 2048, 4096)],
    ),
    'vocabulary': (
        'vocab_size', [Work(vocab_size=size) for size in (2048, 8192, 32_128, 131_072, 250_112)]
    ),
    'devices': ('devices', [Work(rows=64, emb_dim=512, devices=count) for count in (1, 2, 4, 8)]),
}  # fmt: skip
BUCKETS = (1, 10, 40, 100, 400)


def full_batch(job: study.Job) -> dict[str, np.ndarray]:
    """A batch without padding."""
    lengths = dict(job.config.batches.lengths)
    rng = np.random.default_rng(0)
    size = job.model.config.vocab_size
    example = {name: rng.integers(2, size, length) for name, length in lengths.items()}
    conventions = features.Conventions(pad_id=0, eos_id=1, decoder_start_id=0, vocab_size=size)
    layout = features.Layout(lengths, conventions)
    return features.VIEWS[job.objective.view]([[example]] * job.config.batches.batch_size, layout)


def median_seconds(step: Callable, rounds: int, warm_ups: int) -> float:
    """The median of a number of rounds, after some that do not count."""
    seconds = []
    for _ in range(warm_ups + rounds):
        began = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds[warm_ups:])


def timed(work: Work, rounds: int) -> tuple[float, dict[str, float]]:
    """(seconds of a step, figures by unit)."""
    job = work.job()
    optimizer = dict(job.config.stages[job.stage].optimizer)
    step = contest.xlbench_step(job.model, job.objective, full_batch(job), optimizer)
    seconds = median_seconds(step, rounds, WARM_UPS)
    return seconds, {
        'tokens/s': work.tokens / seconds,
        'GFLOP/s': study.model_flops(job) / seconds / 1e9,
        'MiB of activations': step.run.memory.temp_size_in_bytes / MIB,
        's of compiling': sum(step.run.compile_seconds),
    }


def of_seconds(axis: str, rounds: int) -> Iterator[interleaved.Value]:
    """Rows of a step's figures as a size grows, and of how its seconds grow."""
    field, works = AXES[axis]
    contest.start('float32')
    sizes, seconds = [getattr(work, field) for work in works], []
    for work, size in zip(works, sizes, strict=True):
        taken, by_unit = timed(work, rounds)
        seconds.append(taken)
        for unit, number in by_unit.items():
            yield interleaved.grown('a train step', field, size, number, unit)
    yield steepest(field, sizes, seconds)


def of_buckets(rounds: int) -> Iterator[interleaved.Value]:
    """Rows of the buckets in a second as a few-shot sweep has more of them."""
    seconds = []
    for count in BUCKETS:
        args = types.SimpleNamespace(
            method='fc_pooler', buckets=count, shots=32, epochs=50, dtype='float32', at_once=0,
            streams=0,
        )  # fmt: skip
        seconds.append(median_seconds(fewshot.xlbench_step(args), rounds, warm_ups=2))
        speed = count / seconds[-1]
        work = 'a few-shot sweep of heads and poolers'
        yield interleaved.grown(work, 'buckets', count, speed, 'buckets/s')
    yield steepest('buckets', BUCKETS, seconds)


def steepest(field: str, sizes: Sequence[float], seconds: Sequence[float]) -> interleaved.Value:
    """The row of the largest exponent between neighbours; 1 where seconds grow as the size does."""
    pairs = itertools.pairwise(zip(sizes, seconds, strict=True))
    exponents = [math.log(b / a) / math.log(n / m) for (m, a), (n, b) in pairs]
    at = max(range(len(exponents)), key=exponents.__getitem__)
    between = f'between {sizes[at]:,} and {sizes[at + 1]:,}'
    return interleaved.value(f'seconds by {field}', exponents[at], 'exponent', between)


def of_devices() -> Iterator[interleaved.Value]:
    """Rows of what each device computes, holds and sends in a step, as there are more of them."""
    works = AXES['devices'][1]
    jax.config.update('jax_num_cpu_devices', max(work.devices for work in works))
    for work in works:
        job = work.job()
        device = devices_lib.describe(list(job.mesh.devices.flat), f'cpu:{work.devices}', None)
        program = study.study('the train step', *study.train_program(job), job, device)
        costs = {
            'GFLOP': program['compiler_flops'] / 1e9,
            'MiB held': program['memory']['needed'] / MIB,
            'MiB sent': sum(row['wire_bytes'] for row in program['collectives']) / MIB,
        }
        for unit, number in costs.items():
            named = 'each device in a train step, by the compiler'
            yield interleaved.grown(named, 'devices', work.devices, number, unit)


def main() -> None:
    parser = interleaved.parser(__doc__, (), rounds=7)
    parser.add_argument('axis', choices=(*AXES, 'buckets'))
    args = parser.parse_args()
    jax.config.update('jax_platforms', 'cpu')
    if args.axis == 'devices':
        made = of_devices()
    elif args.axis == 'buckets':
        made = of_buckets(args.rounds)
    else:
        made = of_seconds(args.axis, args.rounds)
    rows: list[interleaved.Value] = []
    for row in made:
        print(f'{row["work"]}: {row["value"]:,.3g} {row["unit"]} {row["note"]}', flush=True)
        rows.append(row)
    interleaved.write(args.json, rows)


if __name__ == '__main__':
    main()
