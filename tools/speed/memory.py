r"""Compares the memory that a train step of mT5 takes on this machine with what its plan says.

    python tools/speed/memory.py                                # small and base
    python tools/speed/memory.py --cases=large:adafactor:full        # SIZE:OPTIMIZER:REMAT

Each case is a batch of one row of 512 + 128 tokens. The plan is that of `python -m xlbench.plan
--topology=cpu:1`. Reality is a process of its own, which makes the state and takes three steps, as
xlbench.train does: the most memory that it ever held (the peak of its resident set), of which what
it held before it made anything (Python, jax and the model's code) is told apart.
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import contest
import interleaved

CASES = ('small:adamw:none', 'small:adafactor:none', 'base:adafactor:none')
CONFIG = pathlib.Path(__file__).parents[2] / 'configs' / 'mtg_mt5.py'
GB = 1e9


def flags(case: str, args: argparse.Namespace) -> list[str]:
    """The flags of xlbench.plan that make its config that of a case."""
    size, optimizer, remat = case.split(':')
    values = {
        'batches.batch_size': args.batch_size, 'batches.lengths.inputs': args.inputs,
        'batches.lengths.targets': args.targets, 'batches.length_buckets': 1, 'model.remat': remat,
        'stages.stage1.optimizer.name': optimizer,
    }  # fmt: skip
    options = [f'--config.{key}={value}' for key, value in values.items()]
    return [f'--config={CONFIG}:{size}', *options]


def planned(case: str, args: argparse.Namespace) -> dict[str, int]:
    """Bytes by the plan: parameters, optimizer_state, process and, all in all, needed."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / 'plan.json'
        command = [
            sys.executable, '-m', 'xlbench.plan', *flags(case, args), '--topology=cpu:1',
            '--no_decode', '--tries=0', f'--output={file}',
        ]  # fmt: skip
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        plan = json.loads(file.read_text(encoding='utf-8'))['plan']
    return plan['device_bytes'] | plan['programs'][0]['memory']


def held(field: str) -> int:
    """Bytes of memory that this process holds: VmRSS now, VmHWM at most since it began."""
    status = pathlib.Path('/proc/self/status').read_text(encoding='utf-8')
    return 1024 * int(re.search(rf'^{field}:\s+(\d+) kB', status, re.MULTILINE)[1])


def train(case: str, args: argparse.Namespace) -> None:
    """Takes the steps, and prints the bytes held before and at most."""
    import jax
    import numpy as np

    from xlbench import runs
    from xlbench.config import commands
    from xlbench.plan import study
    from xlbench.training import objectives

    contest.start('float32')
    _, config = commands.parse_plan(['memory.py', *flags(case, args), '--topology=cpu:1'])
    runs.check_config(config)
    model = runs.build_model(dict(config.model), config.model.vocab_size)
    objective = objectives.build(**config.objective)
    job = study.Job(config, jax.devices()[:1], config.model.vocab_size, 2)
    rng = np.random.default_rng(0)
    batch = {}
    for name, like in job.batch.items():
        if name.endswith('_tokens'):
            batch[name] = rng.integers(2, config.model.vocab_size, like.shape).astype(like.dtype)
        else:
            batch[name] = np.ones(like.shape, like.dtype)
    before = held('VmRSS')
    step = contest.xlbench_step(model, objective, batch, dict(config.stages.stage1.optimizer))
    for _ in range(3):
        loss = step()
    assert np.isfinite(loss), loss
    print(json.dumps({'before': before, 'peak': held('VmHWM')}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
    parser.add_argument('--cases', default=','.join(CASES), help='SIZE:OPTIMIZER:REMAT,...')
    parser.add_argument('--batch_size', type=int, default=1)
    parser.add_argument('--inputs', type=int, default=512, help='tokens of a source')
    parser.add_argument('--targets', type=int, default=128, help='tokens of a target')
    parser.add_argument('--json', default='', metavar='FILE', help='where to write the figures')
    parser.add_argument('--side', help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.side:
        return train(args.side, args)
    rows = []
    for case in args.cases.split(','):
        plan = planned(case, args)
        command = [sys.executable, sys.argv[0], *sys.argv[1:], f'--side={case}']
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        held = json.loads(done.stdout.splitlines()[-1])
        state = plan['parameters'] + plan['optimizer_state']
        note = (
            f'plan {plan["needed"] / GB:.2f} GB, of which parameters and optimizer state '
            f'{state / GB:.2f} GB and the process {plan["process"] / GB:.2f} GB; before the first '
            f'array the process has {held["before"] / GB:.2f} GB'
        )
        ratio = held['peak'] / plan['needed']
        work = f'memory of a train step of mT5 ({case}) over that of its plan'
        rows.append({'work': work, 'value': ratio, 'unit': 'of the plan', 'note': note})
        print(f'{case}: {held["peak"] / GB:.2f} GB at most, {ratio:.2f} of the plan; {note}')
    interleaved.write(args.json, rows)


if __name__ == '__main__':
    main()
