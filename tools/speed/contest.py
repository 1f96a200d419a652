"""Contests of PyTorch and xlbench on one work, and what scripts of either side share.

A script declares a Contest and calls its `main`. How the sides take turns: interleaved.py.
"""

import argparse
import contextlib
import os
import statistics
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import interleaved
import machine

RATE = 2e-5  # Of AdamW in a train step.
ADAMW = {'name': 'adamw', 'learning_rate': RATE, 'schedule': 'constant'}
# Ours compile first, and find where their memory lies (training/train_step.py).
WARMUPS = {'torch': 3, 'xlbench': 8}
# What Trainer of transformers needs beside its batches.
TRAINER = dict(
    report_to='none', disable_tqdm=True, use_cpu=True, dataloader_pin_memory=False,
    remove_unused_columns=False,
)  # fmt: skip
THREADS = ('--threads', 0, "PyTorch's; 0: its own choice")
DEVICE = ('--device', 'cpu', "PyTorch's: cpu or cuda")
OURS = ('--our_attention', 'auto', "xlbench's", ('auto', 'plain', 'fused'))
COMPILE = ('--compile', 'no', 'whether torch.compile compiles the loss', ('no', 'yes'))
DTYPE = ('--dtype', 'float32', 'float32 or bfloat16', ('float32', 'bfloat16'))

Flag = tuple[str, Any, str] | tuple[str, Any, str, Sequence[str]]
Step = Callable[[argparse.Namespace], Callable[[], Any]]


def parser(doc: str, rounds: int, flags: Sequence[Flag]) -> argparse.ArgumentParser:
    """The command line of both sides; `flags` are (name, default, help, and perhaps choices)."""
    made = interleaved.parser(doc, ('torch', 'xlbench'), rounds)
    made.add_argument('--torch_python', required=True, help='an interpreter that has PyTorch')
    made.add_argument('--folder', default='', help=argparse.SUPPRESS)
    for name, default, text, *choices in flags:
        kind = {'choices': choices[0]} if choices else {'type': type(default)}
        made.add_argument(name, default=default, help=text, **kind)
    return made


def pythons(args: argparse.Namespace) -> dict[str, str]:
    """The interpreter of each side."""
    return {'torch': args.torch_python, 'xlbench': sys.executable}


class Contest(NamedTuple):
    """One work that PyTorch and xlbench do in turn.

    Attributes:
      doc: the script's docstring.
      flags: see `parser`.
      torch: given the arguments, returns PyTorch's step.
      xlbench: likewise, ours.
      work: given the arguments, says what is done, as the table of all figures has it.
      against: likewise, what makes PyTorch fast.
      amount: likewise, how many `unit`s a step has.
      unit: 'tokens', say.
      rounds: how many are timed unless said otherwise.
      warmups: of each side, steps before the first that is timed.
      write: given a folder and the arguments, writes what both sides read, as `args.folder`.
      show: what to print after a step's seconds, given what the step returned.
      note: given the arguments, what a reader of the figure must know.
      parts: given the arguments and types, our model, objective and batch of a train step, whose
        products on a GPU are compared with its peak.
    """

    doc: str
    flags: Sequence[Flag]
    torch: Step
    xlbench: Step
    work: Callable[[argparse.Namespace], str]
    against: Callable[[argparse.Namespace], str]
    amount: Callable[[argparse.Namespace], int]
    unit: str
    rounds: int = 5
    warmups: Mapping[str, int] = {}
    write: Callable[[str, argparse.Namespace], None] | None = None
    show: Callable[[Any], str] = lambda answer: ''
    note: Callable[[argparse.Namespace], str] = lambda args: ''
    parts: Callable[..., tuple[Any, Any, Mapping]] | None = None

    def main(self) -> None:
        """The command line."""
        args = parser(self.doc, self.rounds, self.flags).parse_args()
        if args.side:
            warmups = self.warmups.get(args.side, 1)
            return interleaved.serve(getattr(self, args.side), args, warmups)
        with tempfile.TemporaryDirectory() as folder:
            if self.write:
                args.folder = folder
                sys.argv.append(f'--folder={folder}')
                self.write(folder, args)
            seconds, _ = interleaved.compare(pythons(args), args.rounds, self.show)
            amount = self.amount(args)
        for side, times in seconds.items():
            print(f'{side}: {amount / statistics.median(times):,.2f} {self.unit}/s (median)')
        interleaved.print_ratios(seconds)
        note = self.note(args)
        if self.parts and args.device == 'cuda':
            note = shares_of_peak(self.parts(args), machine.gpu(), seconds)
            print(note)
        rows = interleaved.rows(self.work(args), seconds, {'torch': self.against(args)}, note)
        interleaved.write(args.json, rows)


def begin_torch(args: argparse.Namespace) -> None:
    """Sets PyTorch's threads and its seed; it takes denormal numbers as 0, as XLA does."""
    import torch

    if args.threads:
        torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    torch.set_flush_denormal(True)  # Intel's processors take several times as long for them.
    if getattr(args, 'device', 'cpu') == 'cuda':  # As XLA multiplies float32 there: in TF32.
        torch.set_float32_matmul_precision('high')


def mt5(vocab_size: int, layers: int = 8, attention: str | None = None):
    """An mT5-small of transformers with random weights, and with this number of layers a stack."""
    from transformers import MT5Config, MT5ForConditionalGeneration

    config = MT5Config(
        vocab_size=vocab_size, d_model=512, d_kv=64, d_ff=1024, num_layers=layers,
        num_decoder_layers=layers, num_heads=6, feed_forward_proj='gated-gelu', dropout_rate=0.0,
        tie_word_embeddings=False, decoder_start_token_id=0, pad_token_id=0, eos_token_id=1,
    )  # fmt: skip
    config.tie_word_embeddings = False  # transformers 5 sets it to True whatever it is given.
    config._attn_implementation = attention
    model = MT5ForConditionalGeneration(config)
    # That unties the tables of encoder and decoder as well; they are one in mT5.
    model.encoder.embed_tokens.weight = model.decoder.embed_tokens.weight = model.shared.weight
    return model


def cast(args: argparse.Namespace):
    """PyTorch's autocast, if the type is bfloat16."""
    import torch

    if args.dtype == 'float32':
        return contextlib.nullcontext()
    return torch.autocast(args.device, dtype=torch.bfloat16)


def cast_words(args: argparse.Namespace) -> str:
    """How PyTorch computes, for `Contest.against`."""
    words = 'autocast' if args.dtype == 'bfloat16' else args.dtype
    return f'{words}, torch.compile' if args.compile == 'yes' else words


def adamw_step(args: argparse.Namespace, model, loss: Callable):
    """A step of the fused AdamW on all parameters of a model; `loss` runs it on the batch."""
    import torch

    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, fused=True)
    if args.compile == 'yes':
        loss = torch.compile(loss, dynamic=False)

    def step():
        with cast(args):
            value = loss()
        value.backward()
        optimizer.step()
        model.zero_grad(set_to_none=True)
        return value.item()

    return step


def collate(examples: Sequence[Mapping]) -> dict:
    """Pads `input_ids` and `labels` of examples, tensors, to the longest."""
    from torch.nn.utils.rnn import pad_sequence

    columns = [[example[name] for example in examples] for name in ('input_ids', 'labels')]
    inputs = pad_sequence(columns[0], batch_first=True)
    labels = pad_sequence(columns[1], batch_first=True, padding_value=-100)
    return {'input_ids': inputs, 'attention_mask': (inputs != 0).long(), 'labels': labels}


def start(dtype: str) -> dict[str, str]:
    """Starts jax as xlbench.train does; gives the field of a config that means this dtype here."""
    import jax

    from xlbench.parallel import programs

    programs.run_inline()
    return {'matmul_dtype' if jax.default_backend() == 'cpu' else 'dtype': dtype}


def xlbench_step(model, objective, batch: Mapping, optimizer: Mapping = ADAMW) -> Callable:
    """A function that trains on one batch, with its `run`, and how many `parameters` there are."""
    import jax

    from xlbench.parallel import partitioning
    from xlbench.training import memory, optimizers, train_step

    mesh = partitioning.make_mesh(devices=jax.devices()[:1])
    tx, schedule = optimizers.build(**optimizer, num_steps=1_000_000)
    params = train_step.init_params(model, objective, mesh, jax.random.key(0))
    mask = optimizers.trainable_mask(params)
    state = [train_step.init_state(tx, params, mask)]
    parameters = sum(leaf.size for leaf in jax.tree.leaves(params))
    del params  # The first step consumes them.
    function = train_step.make_train_step(model, objective, tx, schedule, mask)

    def compiled(run):
        run.keeps_memory = memory.keep_freed(run.memory, mesh)

    run = train_step.TrainStep(function, jax.random.key(1), on_compile=compiled)
    batch = partitioning.put_batch(dict(batch), mesh)

    def step() -> float:
        state[0], metrics = run(state[0], batch)
        jax.block_until_ready(state[0])
        return float(metrics['loss']) / float(metrics['weight'])

    step.parameters, step.run = parameters, run
    return step


def shares_of_peak(parts: tuple[Any, Any, Mapping], gpu: str, seconds: Mapping) -> str:
    """How much of a GPU's peak each side reaches: 3 times the products of the forward pass."""
    os.environ['JAX_PLATFORMS'] = 'cpu'  # Nothing is run, and the sides had the GPU.
    import jax

    from xlbench.parallel import partitioning, programs
    from xlbench.training import train_step

    model, objective, batch = parts
    mesh = partitioning.make_mesh(devices=jax.devices()[:1])
    params, _ = train_step.params_like(model, objective, mesh)
    traced = jax.make_jaxpr(lambda *args: objective.loss(model, *args))(
        params, batch, jax.random.key(0)
    )
    if not (chip := partitioning.find_chip(gpu)):
        return ''
    flops, peak = 3 * programs.matmul_flops(traced.jaxpr), chip.peak
    shares = (
        f'{side} {flops / statistics.median(times) / peak:.0%}'
        for side, times in seconds.items()
    )
    return f'of {peak / 1e12:.0f} TFLOP/s: {", ".join(shares)}'
