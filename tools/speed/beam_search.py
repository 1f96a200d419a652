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
import statistics
import sys

import interleaved


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
            out = generate().cpu()
        assert out.shape == (args.batch_size, 1 + args.targets), out.shape

    return step


def xlbench_step(args: argparse.Namespace):
    """A function that decodes one batch with xlbench."""
    import flax.linen as nn
    import jax
    import jax.numpy as jnp

    from xlbench import decoding, models
    from xlbench.parallel import freed_memory, partitioning

    freed_memory.run_inline()  # As `xlbench.predict` does.
    mesh = partitioning.make_mesh(devices=jax.devices()[:1])
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
    # As those who decode many batches have them.
    copies = decoding.copies(model, params, options, mesh)

    def step():
        freed_memory.keep_by_peak(mesh)
        found = decode(params, batch, copies=copies(args.batch_size))
        tokens = jax.device_get(found.tokens)
        assert tokens.shape == (args.batch_size, 1, args.targets), tokens.shape
        assert not (tokens == 1).any()

    return step


STEPS = {'torch': torch_step, 'xlbench': xlbench_step}


def main() -> None:
    """The command line."""
    parser = interleaved.parser(__doc__, STEPS, rounds=5)
    parser.add_argument('--torch_python', required=True, help='an interpreter that has PyTorch')
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
        return interleaved.serve(STEPS[args.side], args)
    pythons = {'torch': args.torch_python, 'xlbench': sys.executable}
    seconds, _ = interleaved.compare(pythons, args.rounds)
    tokens = args.batch_size * args.targets
    for side, times in seconds.items():
        print(f'{side}: {tokens / statistics.median(times):.1f} tokens/s (median)')
    interleaved.print_ratios(seconds)
    work = (
        f'beam search, mT5-small, {args.batch_size} sources of {args.inputs} tokens, '
        f'beam {args.num_beams}, {args.targets} tokens, vocabulary of {args.vocab_size:,}'
    )
    against = {'torch': f'`generate` of transformers, {args.dtype}'}
    interleaved.write(args.json, interleaved.rows(work, seconds, against))


if __name__ == '__main__':
    main()
