r"""Times beam search against PyTorch's `generate` on the same machine, one step of each in turn.

    pip install torch==2.13.0 transformers==5.23.0 numpy      # into an environment of its own
    python tests/speed/beam_search.py --torch_python=TORCH_ENV/bin/python
    python tests/speed/beam_search.py --torch_python=TORCH_ENV/bin/python --vocab_size=32128
    python tests/speed/beam_search.py --torch_python=TORCH_ENV/bin/python --dtype=bfloat16

The model has the shape of mT5-small and random weights; the end of the text is suppressed, so that
both make the same number of tokens. Every side is one process that stays warm; the order turns
round every other round. Printed are tokens per second and their ratio: of medians, of the fastest
steps, and the median of the ratios of each round.
"""

import argparse
import functools
import json
import statistics
import subprocess
import sys
import time

SIDES = ('torch', 'xlbench')


def torch_step(args: argparse.Namespace):
    """A function that decodes one batch with transformers."""
    import torch
    from transformers import MT5Config, MT5ForConditionalGeneration

    if args.threads:
        torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    config = MT5Config(
        vocab_size=args.vocab_size, d_model=512, d_kv=64, d_ff=1024, num_layers=8,
        num_decoder_layers=8, num_heads=6, feed_forward_proj='gated-gelu', dropout_rate=0.0,
        tie_word_embeddings=False, decoder_start_token_id=0, pad_token_id=0, eos_token_id=1,
    )  # fmt: skip
    config.tie_word_embeddings = False  # transformers 5 sets it to True whatever it is given.
    model = MT5ForConditionalGeneration(config)
    model.encoder.embed_tokens.weight = model.decoder.embed_tokens.weight = model.shared.weight
    model = model.eval().to(getattr(torch, args.dtype)).to(args.device)
    inputs = torch.randint(2, args.vocab_size, (args.batch_size, args.inputs)).to(args.device)
    generate = functools.partial(
        model.generate, inputs, attention_mask=torch.ones_like(inputs), do_sample=False,
        num_beams=args.num_beams, min_new_tokens=args.targets, max_new_tokens=args.targets,
    )  # fmt: skip

    def step():
        with torch.inference_mode():
            out = generate()
        assert out.shape == (args.batch_size, 1 + args.targets), out.shape
        return out.cpu()

    return step


def xlbench_step(args: argparse.Namespace):
    """A function that decodes one batch with xlbench."""
    import flax.linen as nn
    import jax
    import jax.numpy as jnp

    from xlbench import decoding, models

    # On a CPU bfloat16 pays as the type of operands, with float32 between the products.
    types = {'dtype': args.dtype}
    if jax.default_backend() == 'cpu':
        types = {'matmul_dtype': args.dtype}
    model = models.build('mt5', 'small', vocab_size=args.vocab_size, **types)
    tokens = jnp.ones((1, 4), jnp.int32)
    params = jax.jit(lambda key: nn.unbox(model.init(key, tokens, tokens))['params'])(
        jax.random.key(0)
    )
    shape = (args.batch_size, args.inputs)
    batch = {
        'encoder_input_tokens': jax.random.randint(jax.random.key(1), shape, 2, args.vocab_size),
        'encoder_segment_ids': jnp.ones(shape, jnp.int32),
        'encoder_positions': jnp.broadcast_to(jnp.arange(args.inputs), shape),
    }
    options = decoding.Options(
        method='beam', num_beams=args.num_beams, max_length=args.targets, min_length=args.targets
    )
    decode = jax.jit(
        functools.partial(decoding.decode, model, options=options, start_id=0, eos_id=1, pad_id=0)
    )

    def step():
        tokens = jax.device_get(decode(params, batch).tokens)
        assert tokens.shape == (args.batch_size, 1, args.targets), tokens.shape
        assert not (tokens == 1).any()

    return step


def serve(args: argparse.Namespace) -> None:
    """Answers each line on standard input with the seconds of one step."""
    step = {'torch': torch_step, 'xlbench': xlbench_step}[args.side](args)
    step()  # Compiles, or warms up.
    print('ready', flush=True)
    for _ in sys.stdin:
        start = time.perf_counter()
        step()
        print(json.dumps(time.perf_counter() - start), flush=True)


def compare(args: argparse.Namespace, argv: list[str]) -> None:
    """Runs both sides and prints what they took."""
    workers = {}
    for side, python in zip(SIDES, (args.torch_python, sys.executable), strict=True):
        workers[side] = subprocess.Popen(
            [python, __file__, f'--side={side}', *argv],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        if workers[side].stdout.readline().strip() != 'ready':
            raise SystemExit(f'{side} did not start')
    seconds = {side: [] for side in SIDES}
    for number in range(args.rounds):
        for side in SIDES if number % 2 else SIDES[::-1]:
            workers[side].stdin.write('step\n')
            workers[side].stdin.flush()
            seconds[side].append(json.loads(workers[side].stdout.readline()))
        print(f'round {number + 1}: ' + ', '.join(f'{s} {t[-1]:.2f} s' for s, t in seconds.items()))
    for worker in workers.values():
        worker.stdin.close()
        worker.wait()
    tokens = args.batch_size * args.targets
    for side, times in seconds.items():
        print(f'{side}: {tokens / statistics.median(times):.1f} tokens/s (median)')
    torch, ours = (seconds[side] for side in SIDES)
    paired = statistics.median(a / b for a, b in zip(torch, ours, strict=True))
    print(
        f'xlbench against torch: {statistics.median(torch) / statistics.median(ours):.2f} '
        f'(medians), {min(torch) / min(ours):.2f} (fastest), {paired:.2f} (paired)'
    )


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
    parser.add_argument('--torch_python', default='', help='an interpreter that has PyTorch')
    parser.add_argument('--side', choices=SIDES, help=argparse.SUPPRESS)
    parser.add_argument('--rounds', type=int, default=5)
    parser.add_argument('--vocab_size', type=int, default=250_112)
    parser.add_argument('--batch_size', type=int, default=8)
    parser.add_argument('--num_beams', type=int, default=5)
    parser.add_argument('--inputs', type=int, default=512, help='tokens of a source')
    parser.add_argument('--targets', type=int, default=64, help='tokens that are made')
    parser.add_argument('--dtype', choices=('float32', 'bfloat16'), default='float32')
    parser.add_argument('--device', default='cpu', help="PyTorch's: cpu or cuda")
    parser.add_argument('--threads', type=int, default=0, help="PyTorch's; 0: its own choice")
    args = parser.parse_args()
    if args.side:
        serve(args)
    elif args.torch_python:
        compare(args, sys.argv[1:])
    else:
        parser.error('--torch_python is needed')


if __name__ == '__main__':
    main()
