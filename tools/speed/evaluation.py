r"""Times an evaluation of 1,000 examples of unequal lengths against Hugging Face's Trainer.

    pip install torch==2.13.0 transformers==5.23.0 accelerate==1.15.0   # into an environment
    python tools/speed/evaluation.py --torch_python=TORCH_ENV/bin/python
    python tools/speed/evaluation.py --torch_python=TORCH_ENV/bin/python --start_up

An evaluation gives the loss of each reference and the greedy text of each input, as ids: in xlbench
what an evaluation of type generation computes, in transformers Seq2SeqTrainer.predict with
predict_with_generate, on examples that are sorted by length, in the batches that suit it best. Both
read the same weights, in the width of mT5-small with fewer layers and words. They are random but
for the embedding of the end, which is longer than the others: so texts end early or late, as those
of trained models do. Both sides have to write the same texts.

With --start_up each evaluation is a process of its own, from its start to its end: imports, weights
and, for xlbench, the compilation of its programs, once with nothing compiled and once with the
programs that the first one has kept.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
import types

import contest
import interleaved
import made_up

LENGTHS = made_up.MESSAGES


def write_model(folder: pathlib.Path, args: argparse.Namespace) -> None:
    """Writes random weights in the form of transformers."""
    import flax.linen as nn
    import jax
    import jax.numpy as jnp

    from xlbench import models
    from xlbench.huggingface import checkpoint

    size = dict(num_encoder_layers=args.layers, num_decoder_layers=args.layers)
    model = models.build('mt5', 'small', vocab_size=args.vocab_size, **size)
    tokens = jnp.ones((1, 4), jnp.int32)
    params = nn.unbox(jax.jit(model.init)(jax.random.key(0), tokens, tokens))['params']
    kernel = params['logits_dense']['kernel']
    params['logits_dense']['kernel'] = kernel.at[1].mul(args.end)
    ids = dict(pad_id=0, eos_id=1, decoder_start_id=0)
    checkpoint.save(folder, 'mt5', model.config, params, ids, [])


def torch_step(args: argparse.Namespace):
    """A function that evaluates with Seq2SeqTrainer."""
    import torch
    from transformers import (
        MT5ForConditionalGeneration,
        PrinterCallback,
        Seq2SeqTrainer,
        Seq2SeqTrainingArguments,
        logging,
    )

    logging.set_verbosity_error()  # Else it warns of every batch.
    contest.begin_torch(args)
    model = MT5ForConditionalGeneration.from_pretrained(args.folder + '/model').eval()
    examples = made_up.read(args.folder)
    order = sorted(range(len(examples)), key=lambda i: -len(examples[i][0]))
    data = [
        {'input_ids': torch.tensor(examples[i][0]), 'labels': torch.tensor(examples[i][1])}
        for i in order
    ]

    settings = Seq2SeqTrainingArguments(
        args.folder + '/trainer', per_device_eval_batch_size=args.torch_batch_size,
        predict_with_generate=True, **contest.TRAINER,
    )  # fmt: skip
    padding = types.SimpleNamespace(pad_token_id=0)
    trainer = Seq2SeqTrainer(
        model, settings, data_collator=contest.collate, processing_class=padding
    )
    trainer.remove_callback(PrinterCallback)  # It would print among our answers.

    def step():
        found = trainer.predict(data, max_new_tokens=args.targets, num_beams=1, do_sample=False)
        texts = [[]] * len(order)
        for i, row in zip(order, found.predictions.tolist(), strict=True):
            texts[i] = [token for token in row if token > 0]
        return texts

    return step


def xlbench_step(args: argparse.Namespace):
    """A function that evaluates with xlbench."""
    import jax

    from xlbench import models
    from xlbench.evaluators.generation import GenerationEvaluator
    from xlbench.huggingface import checkpoint
    from xlbench.parallel import cluster, partitioning, programs
    from xlbench.training import objectives

    cluster.keep_programs()
    programs.run_inline()
    source = checkpoint.open(args.folder + '/model')
    size = dict(num_encoder_layers=args.layers, num_decoder_layers=args.layers)
    model = models.build('mt5', 'small', vocab_size=args.vocab_size, **size)
    params = jax.device_put(checkpoint.load_params(source))
    evaluator = GenerationEvaluator(
        [made_up.open_prepared(args.folder)],
        model,
        objectives.build('generation'),
        partitioning.make_mesh(),
        types.SimpleNamespace(forced_first=lambda lang: None),
        batch_size=args.batch_size,
        lengths=dict(zip(('inputs', 'targets'), LENGTHS.limits, strict=True)),
        decoding=dict(max_length=args.targets),
    )
    (task,) = evaluator.tasks

    def step():
        shared = evaluator.begin(params, lambda: None)
        rows = evaluator.rows(task, shared, lambda: None)
        return [[i for i in row if i > 0] for row in rows['tokens'][:, 0].tolist()]

    return step


STEPS = {'torch': torch_step, 'xlbench': xlbench_step}


def whole(python: str, side: str, programs: str) -> tuple[float, list[list[int]]]:
    """(seconds, texts) of a process that starts, evaluates and ends."""
    drop = ('JAX_PERSISTENT', 'JAX_COMPILATION')
    environment = {k: v for k, v in os.environ.items() if not k.startswith(drop)}
    environment |= {'JAX_COMPILATION_CACHE_DIR': programs} | interleaved.memory_of(python)
    command = [python, *sys.argv, f'--side={side}', '--once']
    began = time.monotonic()
    run = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)
    return time.monotonic() - began, json.loads(run.stdout.splitlines()[-1])


def with_start_up(pythons: dict[str, str], rounds: int, folder: str):
    """The seconds of each side's processes, and the texts; xlbench's with nothing kept apart."""
    seconds = {'torch': [], 'xlbench': [], 'xlbench, nothing compiled': []}
    texts = {}
    for number in range(rounds):
        programs = f'{folder}/programs{number}'
        for name in [*seconds][::-1] if number % 2 == 0 else ('torch', *[*seconds][:0:-1]):
            side = name.partition(',')[0]
            taken, texts[side] = whole(pythons[side], side, programs)
            seconds[name].append(taken)
        print(f'round {number + 1}: ' + ', '.join(f'{k} {v[-1]:.2f} s' for k, v in seconds.items()))
    return seconds, texts


def check(texts: dict[str, list[list[int]]]) -> str:
    """Says how long texts are; AssertionError unless both sides wrote the same ones."""
    ours, theirs = texts['xlbench'], texts['torch']
    same = sum(a == b for a, b in zip(ours, theirs, strict=True))
    sizes = sorted(map(len, ours))
    share = sum(sizes) / max(1, sum(map(len, theirs)))
    # Two logits may be equal but for rounding; each such text goes its own way from there.
    assert same >= 0.99 * len(ours) and 0.99 < share < 1.01, (same, share)
    tenths = ', '.join(str(sizes[int(part * (len(sizes) - 1))]) for part in (0, 0.1, 0.5, 0.9, 1))
    return f'{same} of {len(ours)} texts are the same; tokens of the shortest to longest: {tenths}'


def main() -> None:
    flags = (
        ('--examples', 1000, 'that are evaluated'),
        ('--batch_size', 64, "xlbench's"),
        ('--torch_batch_size', 64, "PyTorch's"),
        ('--vocab_size', 8064, 'rows of its tables'),
        ('--layers', 2, 'of either stack'),
        ('--targets', 64, 'tokens that are made at most'),
        ('--end', 2.5, "length of the end's embedding"),
        contest.THREADS,
    )
    parser = contest.parser(__doc__, 3, flags)
    parser.add_argument('--start_up', action='store_true', help='time whole processes')
    parser.add_argument('--once', action='store_true', help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.side and args.once:
        print(json.dumps(STEPS[args.side](args)()))
        return
    if args.side:
        return interleaved.serve(STEPS[args.side], args)
    pythons = contest.pythons(args)
    with tempfile.TemporaryDirectory() as folder:
        made_up.write(folder, args.examples, LENGTHS, args.vocab_size)
        write_model(pathlib.Path(folder) / 'model', args)
        sys.argv.append(f'--folder={folder}')
        if args.start_up:
            seconds, texts = with_start_up(pythons, args.rounds, folder)
        else:
            seconds, texts = interleaved.compare(pythons, args.rounds)
    note = check(texts)
    print(note)
    for side, times in seconds.items():
        print(f'{side}: {args.examples / statistics.median(times):.1f} examples/s (median)')
    rows = []
    for name in [name for name in seconds if name != 'torch']:
        pair = {'torch': seconds['torch'], name: seconds[name]}
        interleaved.print_ratios(pair, name)
        work = f'evaluation of {args.examples:,} examples, greedy'
        if args.start_up:
            kept = 'kept programs' if name == 'xlbench' else 'nothing compiled before'
            work += f', with its start-up, {kept}'
        against = {'torch': 'Seq2SeqTrainer, predict_with_generate, sorted by length'}
        rows += interleaved.rows(work, pair, against, note, name)
    interleaved.write(args.json, rows)


if __name__ == '__main__':
    main()
