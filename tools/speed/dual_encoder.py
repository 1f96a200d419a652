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

import contest

VOCAB_SIZE = 119_547
SCALE = 20.0


def torch_step(args: argparse.Namespace):
    """A function that trains on one batch with transformers."""
    import torch
    from transformers import BertConfig, BertModel

    contest.begin_torch(args)
    config = BertConfig(
        vocab_size=VOCAB_SIZE, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
    )
    config._attn_implementation = 'sdpa'
    model = BertModel(config, add_pooling_layer=False).train().to(args.device)
    tokens = torch.randint(5, VOCAB_SIZE, (2, args.batch_size, args.length)).to(args.device)
    mask = torch.ones_like(tokens[0])
    labels = torch.arange(args.batch_size).to(args.device)

    def vectors(rows):
        states = model(input_ids=rows, attention_mask=mask).last_hidden_state
        weights = mask.unsqueeze(-1).to(states.dtype)
        means = (states * weights).sum(1) / weights.sum(1)
        return torch.nn.functional.normalize(means, dim=-1)

    def loss():
        scores = vectors(tokens[0]) @ vectors(tokens[1]).T * SCALE
        return torch.nn.functional.cross_entropy(scores.float(), labels)

    return contest.adamw_step(args, model, loss)


def parts(args: argparse.Namespace, **types: str):
    """The model, the objective and a batch of xlbench's."""
    import numpy as np

    from xlbench import models
    from xlbench.training import objectives

    model = models.build(
        'dual_encoder', 'mbert', shared=True, pooling='mean', normalize=True, has_pooler=False,
        dropout_rate=0.0, attention_dropout_rate=0.0, attention=args.our_attention, **types,
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
    return model, objective, batch


def xlbench_step(args: argparse.Namespace):
    """A function that trains on one batch with xlbench."""
    return contest.xlbench_step(*parts(args, **contest.start(args.dtype)))


CONTEST = contest.Contest(
    doc=__doc__,
    flags=(
        ('--batch_size', 32, 'pairs'),
        ('--length', 64, 'tokens of a text'),
        ('--chunk_rows', 0, "xlbench's; 0: the whole batch"),
        contest.DTYPE, contest.DEVICE, contest.COMPILE, contest.OURS, contest.THREADS,
    ),
    torch=torch_step,
    xlbench=xlbench_step,
    work=lambda args: (
        f"train step of a dual encoder of mBERT's shape, {args.batch_size} pairs of "
        f'{args.length} tokens, {args.dtype}'
    ),
    against=lambda args: f'PyTorch, {contest.cast_words(args)}, fused AdamW, sdpa',
    amount=lambda args: args.batch_size,
    unit='pairs',
    parts=parts,
    rounds=7,
    warmups=contest.WARMUPS,
    show=lambda loss: f' (loss {loss:.4f})',
)  # fmt: skip

if __name__ == '__main__':
    CONTEST.main()
