r"""Times beam search against PyTorch's `generate` on the same machine, one step of each in turn.

    pip install torch==2.13.0 transformers==5.23.0 numpy      # into an environment of its own
    python tools/speed/beam_search.py --torch_python=TORCH_ENV/bin/python
    python tools/speed/beam_search.py --torch_python=TORCH_ENV/bin/python --vocab_size=32128
    python tools/speed/beam_search.py --torch_python=TORCH_ENV/bin/python --dtype=bfloat16

The model has the shape of mT5-small and random weights; the end of the text is suppressed, so that
both make the same number of tokens. How the sides take turns, and the ratios: interleaved.py.
"""

import argparse
import functools

import contest


def torch_step(args: argparse.Namespace):
    """A function that decodes one batch with transformers."""
    import torch

    contest.begin_torch(args)
    model = contest.mt5(args.vocab_size).eval().to(getattr(torch, args.dtype)).to(args.device)
    inputs = torch.randint(2, args.vocab_size, (args.batch_size, args.inputs)).to(args.device)
    generate = functools.partial(
        model.generate, inputs, attention_mask=torch.ones_like(inputs), do_sample=False,
        num_beams=args.num_beams, min_new_tokens=args.targets, max_new_tokens=args.targets,
    )  # fmt: skip

    def step():
        with torch.inference_mode():
            out = generate().cpu()
        assert out.shape == (args.batch_size, 1 + args.targets), out.shape

    return step


def xlbench_step(args: argparse.Namespace):
    """A function that decodes one batch with xlbench."""
    import flax.linen as nn
    import jax
    import jax.numpy as jnp

    from xlbench import decoding, models
    from xlbench.parallel import partitioning, programs

    types = contest.start(args.dtype)
    mesh = partitioning.make_mesh(devices=jax.devices()[:1])
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
    # As those who decode many batches have them.
    copies = decoding.copies(model, params, options, mesh)

    def step():
        programs.keep_freed_by_peak(mesh)
        found = decode(params, batch, copies=copies(args.batch_size))
        tokens = jax.device_get(found.tokens)
        assert tokens.shape == (args.batch_size, 1, args.targets), tokens.shape
        assert not (tokens == 1).any()

    return step


CONTEST = contest.Contest(
    doc=__doc__,
    flags=(
        ('--vocab_size', 250_112, 'rows of its tables'),
        ('--batch_size', 8, 'sources'),
        ('--num_beams', 5, 'of each source'),
        ('--inputs', 512, 'tokens of a source'),
        ('--targets', 64, 'tokens that are made'),
        contest.DTYPE, contest.DEVICE, contest.THREADS,
    ),
    torch=torch_step,
    xlbench=xlbench_step,
    work=lambda args: (
        f'beam search, mT5-small, {args.batch_size} sources of {args.inputs} tokens, '
        f'beam {args.num_beams}, {args.targets} tokens, vocabulary of {args.vocab_size:,}'
    ),
    against=lambda args: f'`generate` of transformers, {args.dtype}',
    amount=lambda args: args.batch_size * args.targets,
    unit='tokens',
)  # fmt: skip

if __name__ == '__main__':
    CONTEST.main()
