r"""Times how soon a prepared run has made its first optimizer step, from the command on.

    python tools/speed/start.py
    python tools/speed/start.py --rounds=3 --config=configs/mtg_mt5.py:sample,task=qg

The command is `python -m xlbench.train` with its data prepared, in a fresh workdir and a fresh
process each time; once with nothing compiled, and once with the programs that an earlier run of it
has kept. It is held against an empty program: jax, flax and optax, the same model, parameters, an
optimizer of the same kind, and one step on one batch of the same shape, with no data, no checkpoint
and no evaluation. It keeps its small programs, too, and does one thing after another, as a script
does. The four take turns.
Printed are medians of the seconds on the clock, and of CPU time (user and system), which a busy
machine changes less.
"""

import argparse
import functools
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import interleaved

PROJECT = pathlib.Path(__file__).parent.parent.parent
FIRST_STEP = 'stage1 1/'
TICKS = os.sysconf('SC_CLK_TCK')


def empty_program(config_file: str, root: str) -> None:
    """One step of the config's model, as a program does it that does nothing else."""
    import flax.linen as nn
    import jax
    import jax.numpy as jnp
    import optax

    from xlbench import models
    from xlbench.configs import mtg_mt5

    if not config_file.startswith('configs/mtg_mt5.py'):
        raise SystemExit('the empty program knows the model of configs/mtg_mt5.py alone')
    config = mtg_mt5.get_config(config_file.partition(':')[2])
    stage, batches = config.stages.stage1, config.batches
    (manifest,) = list(pathlib.Path(root).glob(f'prepared/sample/*_qg_en*/{stage.split}'))[:1]
    vocabulary = json.loads((manifest / 'manifest.json').read_text('utf-8'))['vocabulary']
    fields = dict(config.model) | {'vocab_size': -(-vocabulary['size'] // 128) * 128}
    model = models.build(**fields)
    tx = optax.adafactor(stage.optimizer.learning_rate)
    size = batches.batch_size
    inputs, targets = (jnp.ones((size, n), jnp.int32) for n in batches.lengths.values())
    params = jax.jit(lambda key: nn.unbox(model.init(key, inputs[:1, :8], targets[:1, :8])))(
        jax.random.key(0)
    )
    state = params, jax.jit(tx.init)(params)

    @functools.partial(jax.jit, donate_argnums=0)
    def step(state, inputs, targets):
        def loss(params):
            segments, positions = jnp.ones_like, lambda x: jnp.broadcast_to(
                jnp.arange(x.shape[1]), x.shape
            )
            logits = model.apply(
                params, inputs, targets,
                encoder_segment_ids=segments(inputs), decoder_segment_ids=segments(targets),
                encoder_positions=positions(inputs), decoder_positions=positions(targets),
                train=True, rngs={'dropout': jax.random.key(1)},
            )  # fmt: skip
            return optax.softmax_cross_entropy_with_integer_labels(logits, targets).mean()

        params, opt_state = state
        value, grads = jax.value_and_grad(loss)(params)
        updates, opt_state = tx.update(grads, opt_state, params)
        return (optax.apply_updates(params, updates), opt_state), value

    state, loss = step(state, inputs, targets)
    print(f'{FIRST_STEP}1 loss {float(loss):.3f}', flush=True)


def until_first_step(command: list[str], programs: str, folder: str) -> tuple[float, float]:
    """(seconds on the clock, seconds of CPU time) until a command has made its first step.

    It prints a line with FIRST_STEP then, and is ended. `programs` is the folder of compiled ones.
    """
    keep = ('JAX_PERSISTENT', 'JAX_COMPILATION')
    environment = {k: v for k, v in os.environ.items() if not k.startswith(keep)}
    environment |= {
        'JAX_COMPILATION_CACHE_DIR': programs,
        'JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS': '0',  # As xlbench does; jax: a second.
        'PYTHONPATH': f'{PROJECT}:{os.environ.get("PYTHONPATH", "")}',
    }
    said, began = [], time.monotonic()
    run = subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    for line in run.stdout:
        said.append(line.decode())
        if FIRST_STEP in said[-1]:
            break
    else:
        raise SystemExit(f'{" ".join(command)} made no step:\n{"".join(said)}')
    seconds = time.monotonic() - began
    fields = pathlib.Path(f'/proc/{run.pid}/stat').read_text().rpartition(')')[2].split()
    used = sum(map(int, fields[11:13])) / TICKS
    run.kill()
    run.wait()
    run.stdout.close()
    return seconds, used


def main() -> None:
    parser = interleaved.parser(__doc__, ('empty',), rounds=5)
    parser.add_argument('--config', default='configs/mtg_mt5.py', help='of the run')
    parser.add_argument('--root', default='', help='of its prepared data; default: made anew')
    args = parser.parse_args()
    if args.side:
        return empty_program(args.config, args.root)
    with tempfile.TemporaryDirectory() as folder:
        measure(args, folder)


def measure(args: argparse.Namespace, folder: str) -> None:
    """Prints the medians of all four, and writes them; `folder` is for workdirs and programs."""
    root = os.path.abspath(args.root or os.path.join(folder, 'data'))
    kept = os.path.join(folder, 'kept')

    def command(side: str, name: str) -> list[str]:
        if side == 'empty':
            flags = ['--side=empty', f'--config={args.config}', f'--root={root}']
            return [sys.executable, os.path.abspath(__file__), *flags]
        flags = [
            f'--config={PROJECT / args.config}', f'--workdir={folder}/{name}',
            f'--config.data.root={root}', '--config.log_every=1',
        ]  # fmt: skip
        return [sys.executable, '-m', 'xlbench.train', *flags]

    for side in ('xlbench', 'empty'):  # Prepares the data, and compiles what is kept.
        until_first_step(command(side, 'first'), kept, folder)
    kinds = [(side, state) for state in ('cold', 'kept') for side in ('xlbench', 'empty')]
    measured = {kind: [] for kind in kinds}
    for number in range(args.rounds):
        for side, state in kinds[:: 1 if number % 2 else -1]:
            name = f'{number}-{side}-{state}'
            programs = kept if state == 'kept' else os.path.join(folder, f'programs-{name}')
            taken = until_first_step(command(side, name), programs, folder)
            measured[side, state].append(taken)
            print(f'round {number + 1}: {side}, {state}: {taken[0]:.2f} s, CPU {taken[1]:.2f} s')
    report(measured, args.json)


def report(measured: dict[tuple[str, str], list[tuple[float, float]]], path: str) -> None:
    """Prints medians and ratios of (seconds, CPU seconds); writes rows if a path is given."""
    words = {'cold': 'nothing compiled before', 'kept': 'with kept programs'}
    rows = []
    for state, said in words.items():
        ours, empty = measured['xlbench', state], measured['empty', state]
        for place, unit in enumerate(('s', 'CPU s')):
            seconds = {
                side: [pair[place] for pair in pairs]
                for side, pairs in (('empty', empty), ('xlbench', ours))
            }
            medians = {side: statistics.median(times) for side, times in seconds.items()}
            line = f'{medians["xlbench"]:.2f} {unit}, an empty program {medians["empty"]:.2f}'
            print(f'first step, {said}: {line}')
            interleaved.print_ratios(seconds)
            work = f'command to first step of a prepared run, {said}, {unit}'
            rows += interleaved.rows(work, seconds, {'empty': 'an empty jax program'}, line)
    interleaved.write(path, rows)


if __name__ == '__main__':
    main()
