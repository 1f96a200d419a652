r"""Times a train step of mT5-small against PyTorch's on the same machine, a step of each in turn.

    pip install torch==2.13.0 transformers==5.23.0 numpy      # into an environment of its own
    python tools/speed/train_step.py --torch_python=TORCH_ENV/bin/python
    python tools/speed/train_step.py --torch_python=TORCH_ENV/bin/python --vocab_size=32128
    python tools/speed/train_step.py --torch_python=TORCH_ENV/bin/python --dtype=bfloat16

Both sides hold the same number of parameters, random ones, and take the whole step of AdamW over
all of them; nothing is dropped and no token is padding. PyTorch has the fused AdamW. In bfloat16 it
runs under its autocast, and xlbench multiplies bfloat16 operands on a CPU and has bfloat16
activations elsewhere. How the sides take turns, and the ratios: interleaved.py.
"""

import argparse
import contextlib
import statistics
import sys

import interleaved
import steps

# Of mT5-small with each vocabulary: one input table, one output table, 8 + 8 layers.
PARAMETERS = {250_112: 300_176_768, 32_128: 76_961_152}


def torch_step(args: argparse.Namespace):
    """A function that trains on one batch with transformers."""
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
    config._attn_implementation = args.attention
    model = MT5ForConditionalGeneration(config).train()
    # That unties the tables of encoder and decoder as well; they are one in mT5.
    model.encoder.embed_tokens.weight = model.decoder.embed_tokens.weight = model.shared.weight
    model = model.to(args.device)
    check_parameters(args, sum(parameter.numel() for parameter in model.parameters()))
    optimizer = torch.optim.AdamW(model.parameters(), lr=steps.RATE, fused=True)
    inputs = torch.randint(2, args.vocab_size, (args.batch_size, args.inputs)).to(args.device)
    targets = torch.randint(2, args.vocab_size, (args.batch_size, args.targets)).to(args.device)
    mask = torch.ones_like(inputs)

    def step():
        cast = contextlib.nullcontext()
        if args.dtype == 'bfloat16':
            cast = torch.autocast(args.device, dtype=torch.bfloat16)
        with cast:
            loss = model(input_ids=inputs, attention_mask=mask, labels=targets).loss
        loss.backward()
        optimizer.step()
        model.zero_grad(set_to_none=True)
        return loss.item()

    return step


def xlbench_step(args: argparse.Namespace):
    """A function that trains on one batch with xlbench."""
    import numpy as np

    from xlbench import models
    from xlbench.training import objectives

    types = steps.start(args.dtype)
    model = models.build('mt5', 'small', vocab_size=args.vocab_size, dropout_rate=0.0, **types)
    rng = np.random.default_rng(0)
    batch = {}
    for side, length in (('encoder', args.inputs), ('decoder', args.targets)):
        shape = (args.batch_size, length)
        batch[f'{side}_input_tokens'] = rng.integers(2, args.vocab_size, shape).astype(np.int32)
        batch[f'{side}_segment_ids'] = np.ones(shape, np.int32)
        batch[f'{side}_positions'] = np.broadcast_to(np.arange(length, dtype=np.int32), shape)
    batch['decoder_target_tokens'] = np.roll(batch['decoder_input_tokens'], -1, axis=1)
    batch['decoder_loss_weights'] = np.ones(shape, np.float32)
    step = steps.xlbench_step(model, objectives.build('generation'), batch)
    check_parameters(args, step.parameters)
    return step


def check_parameters(args: argparse.Namespace, count: int) -> None:
    """Raises ValueError where a side has another number of parameters than mT5-small."""
    expected = PARAMETERS.get(args.vocab_size, count)
    if count != expected:
        raise ValueError(f'{count:,} parameters in place of {expected:,}')


STEPS = {'torch': torch_step, 'xlbench': xlbench_step}


def main() -> None:
    """The command line."""
    parser = interleaved.parser(__doc__, STEPS, rounds=7)
    parser.add_argument('--torch_python', required=True, help='an interpreter that has PyTorch')
    parser.add_argument('--vocab_size', type=int, default=250_112)
    parser.add_argument('--batch_size', type=int, default=8)
    parser.add_argument('--inputs', type=int, default=512, help='tokens of a source')
    parser.add_argument('--targets', type=int, default=128, help='tokens of a target')
    parser.add_argument('--dtype', choices=('float32', 'bfloat16'), default='float32')
    # The bias of T5 needs a gradient, which is slower through sdpa: eager takes 0.75 of its time.
    parser.add_argument('--attention', default='eager', help="PyTorch's: sdpa or eager")
    parser.add_argument('--device', default='cpu', help="PyTorch's: cpu or cuda")
    parser.add_argument('--threads', type=int, default=0, help="PyTorch's; 0: its own choice")
    args = parser.parse_args()
    if args.side:
        # Ours compile first, and find where their memory lies (training/train_step.py).
        warmups = 8 if args.side == 'xlbench' else 3
        return interleaved.serve(STEPS[args.side], args, warmups)
    pythons = {'torch': args.torch_python, 'xlbench': sys.executable}
    seconds, _ = interleaved.compare(pythons, args.rounds, show=lambda loss: f' (loss {loss:.4f})')
    tokens = args.batch_size * (args.inputs + args.targets)
    for side, times in seconds.items():
        print(f'{side}: {tokens / statistics.median(times):.0f} tokens/s (median)')
    interleaved.print_ratios(seconds)
    work = (
        f'train step of mT5-small, vocabulary {args.vocab_size:,}, {args.batch_size} x '
        f'({args.inputs} + {args.targets}) tokens, {args.dtype}'
    )
    cast = 'autocast' if args.dtype == 'bfloat16' else args.dtype
    against = {'torch': f'PyTorch, {cast}, fused AdamW, {args.attention}'}
    interleaved.write(args.json, interleaved.rows(work, seconds, against))


if __name__ == '__main__':
    main()
