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

import contest
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
    from transformers import PrinterCallback, Trainer, TrainingArguments
    from transformers.trainer_pt_utils import LengthGroupedSampler, get_length_grouped_indices

    contest.begin_torch(args)
    model = contest.mt5(args.vocab_size, args.layers)
    model.config.use_cache = False
    data = [
        {'input_ids': torch.tensor(inputs), 'labels': torch.tensor(targets)}
        for inputs, targets in made_up.read(args.folder)
    ]

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
        logging_strategy='no', **contest.TRAINER,
    )  # fmt: skip
    trainer = Grouping(model, settings, train_dataset=data, data_collator=contest.collate)
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
            **batch_settings(args),
        )  # fmt: skip
        with feed:
            steps = feed.steps_per_epoch
            for _ in range(steps):
                state, metrics = train_step(state, partitioning.put_batch(next(feed), mesh))
            jax.block_until_ready(metrics['loss'])
            assert feed.position()['window'] == 1
            return [count, steps, round(feed.real_share, 3), len(train_step.compile_seconds)]

    return step


def batch_settings(args: argparse.Namespace) -> dict[str, object]:
    """The keys of config.batches that xlbench takes."""
    return json.loads(args.batches) if args.batches else BATCHES[args.lengths]


CONTEST = contest.Contest(
    doc=__doc__,
    flags=(
        ('--lengths', 'dialogues', 'of the examples', tuple(LENGTHS)),
        ('--examples', 320, 'of an epoch'),
        ('--batch_size', 16, "examples of Trainer's"),
        ('--vocab_size', 8064, 'rows of its tables'),
        ('--layers', 2, 'of either stack'),
        ('--batches', '', 'keys of config.batches, as JSON'),
        contest.THREADS,
    ),
    torch=torch_step,
    xlbench=xlbench_step,
    work=lambda args: (
        f'epoch of fine-tuning, lengths of {args.lengths}, {args.examples} examples, '
        f'{args.layers} layers a stack of mT5-small, float32'
    ),
    against=lambda args: 'Trainer, grouped by length, fused AdamW',
    amount=lambda args: sum(len(a) + len(b) for a, b in made_up.read(args.folder)),
    unit='real tokens',
    rounds=3,
    warmups={'torch': 2, 'xlbench': 2},
    write=lambda folder, args: made_up.write(
        folder, args.examples, LENGTHS[args.lengths], args.vocab_size
    ),
    show=lambda answer: f' {answer}',
    note=lambda args: f'config.batches: {json.dumps(batch_settings(args))}',
)

if __name__ == '__main__':
    CONTEST.main()
