r"""Times a training run in one process and in several: until its first step, and its steady state.

    python tools/speed/processes.py                       # 1 x 8 devices against 8 x 1
    python tools/speed/processes.py --processes=2,4 --emb_dim=256 --num_steps=60 --rounds=5

Every setting has the same mesh of fake CPU devices and the same global batches, so that what
differs is what processes cost: starting, finding each other, compiling, and exchanging through
sockets what one process exchanges in its memory. The devices share the cores of this machine; read
the numbers as ratios. Runs take turns, each in a fresh workdir with nothing compiled, in an order
that turns round every other round. Printed are medians:

    first step    seconds from the command to the end of step 1
    tokens/s      real tokens a second and device, of the last half of the steps
"""

import argparse
import json
import pathlib
import statistics
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / 'tests' / 'support'))
import children
import interleaved
import tiny


def measure(
    root: pathlib.Path, folder: pathlib.Path, processes: int, args: argparse.Namespace
) -> tuple[float, float]:
    """(seconds to the first step, tokens/s of a device) of one run."""
    config = tiny.tiny_config(root, mesh=dict(data=-1, fsdp=args.fsdp), log_every=1, baselines=())
    del config.stages['stage2']
    config.stages.stage1.num_steps = args.num_steps
    config.batches.batch_size = args.batch_size
    config.model.update(
        emb_dim=args.emb_dim, mlp_dim=4 * args.emb_dim, num_encoder_layers=2, num_decoder_layers=2
    )
    config.evals = {}
    config.best.score = ''
    config.checkpoints.every = args.num_steps
    started = time.monotonic()
    with children.start(
        children.flags(folder, config), processes=processes, devices=args.devices // processes,
        env={'JAX_COMPILATION_CACHE_DIR': str(folder / 'compiled')},
    ) as run:  # fmt: skip
        run.wait_for(0, 'stage1 1/', timeout=3600)
        first_step = time.monotonic() - started
        codes = run.wait(timeout=3600)
        assert not any(codes), run.output(0)
    rows = (folder / 'run' / 'metrics.jsonl').read_text(encoding='utf-8').splitlines()
    speeds = [json.loads(row)['values']['tokens_per_second'] for row in rows]
    return first_step, statistics.median(speeds[len(speeds) // 2 :]) / args.devices


def main() -> None:
    parser = interleaved.parser(__doc__, (), rounds=3)
    parser.add_argument('--devices', type=int, default=8, help='of all processes together')
    parser.add_argument('--processes', default='8', help='numbers to compare with one process')
    parser.add_argument('--num_steps', type=int, default=40)
    parser.add_argument('--batch_size', type=int, default=64)
    parser.add_argument('--emb_dim', type=int, default=128)
    parser.add_argument('--fsdp', type=int, default=1)
    args = parser.parse_args()
    settings = [1, *(int(text) for text in args.processes.split(','))]
    measured = {processes: [] for processes in settings}
    with tempfile.TemporaryDirectory() as place:
        root = pathlib.Path(place) / 'data'
        root.mkdir()
        tiny.write_root(root)
        for number in range(args.rounds):
            for processes in settings[:: 1 if number % 2 else -1]:
                folder = pathlib.Path(place) / f'{number}-{processes}'
                measured[processes].append(measure(root, folder, processes, args))
                seconds, speed = measured[processes][-1]
                print(
                    f'round {number + 1}: {processes} x {args.devices // processes} devices: '
                    f'first step {seconds:.1f} s, {speed:.0f} tokens/s a device',
                    flush=True,
                )
    medians = {
        processes: [statistics.median(numbers) for numbers in zip(*runs, strict=True)]
        for processes, runs in measured.items()
    }
    seconds_of_one, speed_of_one = medians[1]
    made = []
    for processes, (seconds, speed) in medians.items():
        print(
            f'{processes} process{"es" * (processes > 1)}: first step {seconds:.1f} s '
            f'({seconds - seconds_of_one:+.1f}), {speed:.0f} tokens/s a device '
            f'({speed / speed_of_one:.2f} of one process)'
        )
        if processes != 1:
            work = f'{args.devices} fake devices in {processes} processes'
            more, share = seconds - seconds_of_one, speed / speed_of_one
            made += [
                interleaved.value(f'{work}: until the first step', more, 's more than in one'),
                interleaved.value(f'{work}: tokens/s', share, 'of one process'),
            ]
    interleaved.write(args.json, made)


if __name__ == '__main__':
    main()
