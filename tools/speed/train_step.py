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

import contest

# Of mT5-small with each vocabulary: one input table, one output table, 8 + 8 layers.
PARAMETERS = {250_112: 300_176_768, 32_128: 76_961_152}


def torch_step(args: argparse.Namespace):
    """A function that trains on one batch with transformers."""
    import torch

    contest.begin_torch(args)
    model = contest.mt5(args.vocab_size, attention=args.attention).train().to(args.device)
    check_parameters(args, sum(parameter.numel() for parameter in model.parameters()))
    inputs = torch.randint(2, args.vocab_size, (args.batch_size, args.inputs)).to(args.device)
    targets = torch.randint(2, args.vocab_size, (args.batch_size, args.targets)).to(args.device)
    mask = torch.ones_like(inputs)

    def loss():
        return model(input_ids=inputs, attention_mask=mask, labels=targets).loss

    return contest.adamw_step(args, model, loss)


def parts(args: argparse.Namespace, **types: str):
    """The model, the objective and a batch of xlbench's."""
    import numpy as np

    from xlbench import models
    from xlbench.training import objectives

    model = models.build(
        'mt5', 'small', vocab_size=args.vocab_size, dropout_rate=0.0, attention=args.our_attention,
        **types,
    )  # fmt: skip
    rng = np.random.default_rng(0)
    batch = {}
    for side, length in (('encoder', args.inputs), ('decoder', args.targets)):
        shape = (args.batch_size, length)
        batch[f'{side}_input_tokens'] = rng.integers(2, args.vocab_size, shape).astype(np.int32)
        batch[f'{side}_segment_ids'] = np.ones(shape, np.int32)
        batch[f'{side}_positions'] = np.broadcast_to(np.arange(length, dtype=np.int32), shape)
    batch['decoder_target_tokens'] = np.roll(batch['decoder_input_tokens'], -1, axis=1)
    batch['decoder_loss_weights'] = np.ones(shape, np.float32)
    return model, objectives.build('generation'), batch


def xlbench_step(args: argparse.Namespace):
    """A function that trains on one batch with xlbench."""
    step = contest.xlbench_step(*parts(args, **contest.start(args.dtype)))
    check_parameters(args, step.parameters)
    return step


def check_parameters(args: argparse.Namespace, count: int) -> None:
    """Raises ValueError where a side has another number of parameters than mT5-small."""
    expected = PARAMETERS.get(args.vocab_size, count)
    if count != expected:
        raise ValueError(f'{count:,} parameters in place of {expected:,}')


CONTEST = contest.Contest(
    doc=__doc__,
    flags=(
        ('--vocab_size', 250_112, 'rows of its tables'),
        ('--batch_size', 8, 'pairs'),
        ('--inputs', 512, 'tokens of a source'),
        ('--targets', 128, 'tokens of a target'),
        # The bias of T5 needs a gradient, which is slower through sdpa: eager takes 0.75 of its
        # time.
        ('--attention', 'eager', "PyTorch's: sdpa or eager"),
        contest.DTYPE, contest.DEVICE, contest.COMPILE, contest.OURS, contest.THREADS,
    ),
    torch=torch_step,
    xlbench=xlbench_step,
    work=lambda args: (
        f'train step of mT5-small, vocabulary {args.vocab_size:,}, {args.batch_size} x '
        f'({args.inputs} + {args.targets}) tokens, {args.dtype}'
    ),
    against=lambda args: f'PyTorch, {contest.cast_words(args)}, fused AdamW, {args.attention}',
    amount=lambda args: args.batch_size * (args.inputs + args.targets),
    unit='tokens',
    parts=parts,
    rounds=7,
    warmups=contest.WARMUPS,
    show=lambda loss: f' (loss {loss:.4f})',
)  # fmt: skip

if __name__ == '__main__':
    CONTEST.main()
