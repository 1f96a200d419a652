r"""Times a dual encoder's train step against PyTorch's on the same machine, a step of each in turn.

    pip install torch==2.13.0 transformers==5.23.0 numpy      # into an environment of its own
    python tools/speed/dual_encoder.py --torch_python=TORCH_ENV/bin/python
    python tools/speed/dual_encoder.py --torch_python=TORCH_ENV/bin/python --dtype=bfloat16

The encoder has the shape of mBERT-base, is shared by both sides, and has random weights; pairs are
scored by cosine times 20 and a softmax over the batch; the optimizer is AdamW; nothing is dropped.
In bfloat16 PyTorch runs under its autocast, and xlbench multiplies bfloat16 operands on a CPU and
has bfloat16 activations elsewhere. How the sides take turns, and the ratios: interleaved.py.
"""

import argparse
import contextlib
import statistics
import sys

import interleaved
import steps

VOCAB_SIZE = 119_547
SCALE = 20.0


def torch_step(args: argparse.Namespace):
    """A function that trains on one batch with transformers."""
    import torch
    from transformers import BertConfig, BertModel

    if args.threads:
        torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=VOCAB_SIZE, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
    )
    config._attn_implementation = 'sdpa'
    model = BertModel(config, add_pooling_layer=False).train().to(args.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=steps.RATE, fused=True)
    tokens = torch.randint(5, VOCAB_SIZE, (2, args.batch_size, args.length)).to(args.device)
    mask = torch.ones_like(tokens[0])
    labels = torch.arange(args.batch_size).to(args.device)

    def vectors(rows):
        states = model(input_ids=rows, attention_mask=mask).last_hidden_state
        weights = mask.unsqueeze(-1).to(states.dtype)
        means = (states * weights).sum(1) / weights.sum(1)
        return torch.nn.functional.normalize(means, dim=-1)

    def step():
        cast = contextlib.nullcontext()
        if args.dtype == 'bfloat16':
            cast = torch.autocast(args.device, dtype=torch.bfloat16)
        with cast:
            scores = vectors(tokens[0]) @ vectors(tokens[1]).T * SCALE
            loss = torch.nn.functional.cross_entropy(scores.float(), labels)
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
    model = models.build(
        'dual_encoder', 'mbert', shared=True, pooling='mean', normalize=True, has_pooler=False,
        dropout_rate=0.0, attention_dropout_rate=0.0, **types,
    )  # fmt: skip
    objective = objectives.build(
        'retrieval', loss='softmax', scale=SCALE, chunk_rows=args.chunk_rows
    )
    rng = np.random.default_rng(0)
    batch = {
        'reply_key': np.arange(args.batch_size, dtype=np.int32),
        'row_weights': np.ones(args.batch_size, np.float32),
    }
    for side in ('left', 'right'):
        shape = (args.batch_size, args.length)
        tokens = rng.integers(5, VOCAB_SIZE, shape).astype(np.int32)
        batch[f'{side}_encoder_input_tokens'] = tokens
        batch[f'{side}_encoder_segment_ids'] = np.ones(shape, np.int32)
    return steps.xlbench_step(model, objective, batch)


STEPS = {'torch': torch_step, 'xlbench': xlbench_step}


def main() -> None:
    """The command line."""
    parser = interleaved.parser(__doc__, STEPS, rounds=7)
    parser.add_argument('--torch_python', required=True, help='an interpreter that has PyTorch')
    parser.add_argument('--batch_size', type=int, default=32, help='pairs')
    parser.add_argument('--length', type=int, default=64, help='tokens of a text')
    parser.add_argument('--chunk_rows', type=int, default=0, help="xlbench's; 0: the whole batch")
    parser.add_argument('--dtype', choices=('float32', 'bfloat16'), default='float32')
    parser.add_argument('--device', default='cpu', help="PyTorch's: cpu or cuda")
    parser.add_argument('--threads', type=int, default=0, help="PyTorch's; 0: its own choice")
    args = parser.parse_args()
    if args.side:
        # Ours compile first, and find where their memory lies (training/train_step.py).
        warmups = 8 if args.side == 'xlbench' else 3
        return interleaved.serve(STEPS[args.side], args, warmups)
    pythons = {'torch': args.torch_python, 'xlbench': sys.executable}
    seconds, _ = interleaved.compare(pythons, args.rounds, show=lambda loss: f' (loss {loss:.4f})')
    for side, times in seconds.items():
        print(f'{side}: {args.batch_size / statistics.median(times):.2f} pairs/s (median)')
    interleaved.print_ratios(seconds)
    work = (
        f"train step of a dual encoder of mBERT's shape, {args.batch_size} pairs of "
        f'{args.length} tokens, {args.dtype}'
    )
    cast = 'autocast' if args.dtype == 'bfloat16' else args.dtype
    against = {'torch': f'PyTorch, {cast}, fused AdamW, sdpa'}
    interleaved.write(args.json, interleaved.rows(work, seconds, against))


if __name__ == '__main__':
    main()
