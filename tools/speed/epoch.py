r"""Times an epoch of fine-tuning against Hugging Face's Trainer, an epoch of each in turn.

    pip install torch==2.13.0 transformers==5.23.0 accelerate==1.15.0   # into an environment
    python tools/speed/epoch.py --torch_python=TORCH_ENV/bin/python
    python tools/speed/epoch.py --torch_python=TORCH_ENV/bin/python --lengths=long

What is compared are real tokens a second, of inputs and targets together: an epoch has the same
examples on both sides, and ends when the last step has. It begins with the order of the examples;
they are tokenised before, and compiling is over. The model has the width of mT5-small and fewer
layers and words, random weights and no dropout; both train all of it with AdamW in float32, in
about as many steps.

Trainer groups examples by length (train_sampling_strategy='group_by_length'), with a fused AdamW
and no clipping. It sorts 50 batches at once, but fewer where the data has less than 200; here it
sorts all examples, as it would in a long epoch, so that the size of the epoch is no disadvantage.
xlbench takes the batches that config.batches asks for: --batches has the keys, by default those
that suit the lengths best.
"""

import argparse
import json
import statistics
import sys
import tempfile

import interleaved
import made_up

LENGTHS = {'dialogues': made_up.DIALOGUES, 'long': made_up.LONG}
# config.batches for each: rows of about as many examples as Trainer's batches of 16 have.
BATCHES = {
    'dialogues': dict(packing=True, batch_size=6, length_buckets=8, row_multiple=1),
    'long': dict(packing=True, batch_size=8, length_buckets=16, row_multiple=1),
}
RATE = 1e-3


def torch_step(args: argparse.Namespace):
    """A function that trains an epoch with Trainer."""
    import torch
    from torch.nn.utils.rnn import pad_sequence
    from transformers import (
        MT5Config,
        MT5ForConditionalGeneration,
        PrinterCallback,
        Trainer,
        TrainingArguments,
    )
    from transformers.trainer_pt_utils import LengthGroupedSampler, get_length_grouped_indices

    if args.threads:
        torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    config = MT5Config(
        vocab_size=args.vocab_size, d_model=512, d_kv=64, d_ff=1024, num_layers=args.layers,
        num_decoder_layers=args.layers, num_heads=6, feed_forward_proj='gated-gelu',
        dropout_rate=0.0, decoder_start_token_id=0, pad_token_id=0, eos_token_id=1, use_cache=False,
    )  # fmt: skip
    config.tie_word_embeddings = False  # transformers 5 sets it to True whatever it is given.
    model = MT5ForConditionalGeneration(config)
    model.encoder.embed_tokens.weight = model.decoder.embed_tokens.weight = model.shared.weight
    data = [
        {'input_ids': torch.tensor(inputs), 'labels': torch.tensor(targets)}
        for inputs, targets in made_up.read(args.folder)
    ]

    def collate(examples):
        columns = [[example[name] for example in examples] for name in ('input_ids', 'labels')]
        inputs = pad_sequence(columns[0], batch_first=True)
        labels = pad_sequence(columns[1], batch_first=True, padding_value=-100)
        return {'input_ids': inputs, 'attention_mask': (inputs != 0).long(), 'labels': labels}

    class Sampler(LengthGroupedSampler):
        def __iter__(self):
            whole = len(self.lengths) // self.batch_size + 1
            return iter(get_length_grouped_indices(self.lengths, self.batch_size, whole))

    class Grouping(Trainer):
        def _get_train_sampler(self, train_dataset=None):
            sampler = super()._get_train_sampler(train_dataset)
            assert isinstance(sampler, LengthGroupedSampler)
            return Sampler(sampler.batch_size, lengths=sampler.lengths)

    settings = TrainingArguments(
        args.folder + '/trainer', per_device_train_batch_size=args.batch_size, num_train_epochs=1,
        train_sampling_strategy='group_by_length', learning_rate=RATE, lr_scheduler_type='constant',
        optim='adamw_torch_fused', weight_decay=0.01, max_grad_norm=0.0, save_strategy='no',
        logging_strategy='no', report_to='none', disable_tqdm=True, use_cpu=True,
        dataloader_pin_memory=False, remove_unused_columns=False,
    )  # fmt: skip
    trainer = Grouping(model, settings, train_dataset=data, data_collator=collate)
    trainer.remove_callback(PrinterCallback)  # It would print among our answers.

    def step():
        steps = trainer.train().global_step
        return [sum(p.numel() for p in set(model.parameters())), steps]

    return step


def xlbench_step(args: argparse.Namespace):
    """A function that trains an epoch with xlbench."""
    import jax

    from xlbench import models
    from xlbench.data import batches as batches_lib
    from xlbench.parallel import partitioning
    from xlbench.training import objectives, optimizers, train_step as train_step_lib

    size = dict(num_encoder_layers=args.layers, num_decoder_layers=args.layers, dropout_rate=0.0)
    model = models.build('mt5', 'small', vocab_size=args.vocab_size, **size)
    objective = objectives.build('generation')
    mesh = partitioning.make_mesh()
    params = train_step_lib.init_params(model, objective, mesh, jax.random.key(0))
    mask = jax.tree.map(lambda _: True, params)
    options = dict(learning_rate=RATE, schedule='constant', warmup_steps=0, weight_decay=0.01)
    tx, schedule = optimizers.build('adamw', num_steps=1000, **options)
    state = train_step_lib.init_state(tx, params, mask)
    count = sum(leaf.size for leaf in jax.tree.leaves(params))
    step_function = train_step_lib.make_train_step(model, objective, tx, schedule, mask)
    train_step = train_step_lib.TrainStep(step_function, jax.random.key(1))
    task = made_up.open_prepared(args.folder)
    limits = dict(zip(('inputs', 'targets'), LENGTHS[args.lengths].limits, strict=True))
    seeds = iter(range(1_000_000))

    def step():
        nonlocal state
        feed = batches_lib.TrainBatches(
            [task], [1.0], seed=next(seeds), lengths=limits, window=len(task),
            **json.loads(args.batches),
        )  # fmt: skip
        with feed:
            steps = feed.steps_per_epoch
            for _ in range(steps):
                state, metrics = train_step(state, partitioning.put_batch(next(feed), mesh))
            jax.block_until_ready(metrics['loss'])
            assert feed.position()['window'] == 1
            return [count, steps, round(feed.real_share, 3), len(train_step.compile_seconds)]

    return step


STEPS = {'torch': torch_step, 'xlbench': xlbench_step}


def main() -> None:
    """The command line."""
    parser = interleaved.parser(__doc__, STEPS, rounds=3)
    parser.add_argument('--torch_python', required=True, help='an interpreter that has PyTorch')
    parser.add_argument('--lengths', choices=LENGTHS, default='dialogues')
    parser.add_argument('--examples', type=int, default=320)
    parser.add_argument('--batch_size', type=int, default=16, help="examples of Trainer's")
    parser.add_argument('--vocab_size', type=int, default=8064)
    parser.add_argument('--layers', type=int, default=2, help='of either stack')
    parser.add_argument('--batches', default='', help='keys of config.batches, as JSON')
    parser.add_argument('--threads', type=int, default=0, help="PyTorch's; 0: its own choice")
    parser.add_argument('--folder', default='', help=argparse.SUPPRESS)
    args = parser.parse_args()
    args.batches = args.batches or json.dumps(BATCHES[args.lengths])
    if args.side:
        return interleaved.serve(STEPS[args.side], args, warmups=2)
    pythons = {'torch': args.torch_python, 'xlbench': sys.executable}
    with tempfile.TemporaryDirectory() as folder:
        made_up.write(folder, args.examples, LENGTHS[args.lengths], args.vocab_size)
        tokens = sum(len(a) + len(b) for a, b in made_up.read(folder))
        sys.argv.append(f'--folder={folder}')
        seconds, answers = interleaved.compare(pythons, args.rounds)
    for side, times in seconds.items():
        print(f'{side}: {tokens / statistics.median(times):.0f} real tokens/s; {answers[side]}')
    interleaved.print_ratios(seconds)
    work = (
        f'epoch of fine-tuning, lengths of {args.lengths}, {args.examples} examples, '
        f'{args.layers} layers a stack of mT5-small, float32'
    )
    against = {'torch': 'Trainer, grouped by length, fused AdamW'}
    note = f'config.batches: {args.batches}'
    interleaved.write(args.json, interleaved.rows(work, seconds, against, note))


if __name__ == '__main__':
    main()
