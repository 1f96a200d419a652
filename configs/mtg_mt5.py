r"""mT5 on MTG: story endings, questions and titles in English, German, French and Spanish.

The paper is arXiv:2108.07140. Training has its two stages (appendix A): the rough, machine
translated data first, then the annotated data, from the best checkpoint of the first stage. Both
stages are scored on the test set.

  python -m xlbench.train --config=configs/mtg_mt5.py

trains a small model on the embedded sample corpora, in minutes on two CPU cores, without any
download. A size selects the paper's setting and the official files below `data`:

  python -m xlbench.train --config=configs/mtg_mt5.py:base,scenario=cross,task=qg,source=en

Keys after the colon: size (sample, small, base, large, xl, xxl), scenario (mono, mono_multitask,
multi, multi_multitask, cross, zero_shot), task (sg, qg, tg), source, target, rate (proportional,
equal, temperature, capped).

Two more sizes are XXL with texts of up to 1,024 and 128 tokens on a whole TPU slice,
xxl_v5p_4x4x4 and xxl_v6e_16x16. Whether they fit, and how fast they can be, needs no TPU:

  python -m xlbench.plan --config=configs/mtg_mt5.py:xxl_v5p_4x4x4 --topology=v5p:4x4x4
"""

import ml_collections

from xlbench import config as config_lib
from xlbench.benchmarks import MTG, Scenario

SIZES = ('sample', 'small', 'base', 'large', 'xl', 'xxl')
# Chosen by plans; they take 74.9 of 95 GiB and 19.7 of 32 GiB a device. `fsdp` leaves every device
# 128 or more columns of a kernel: narrower parts TPUs gather by adding up padded copies, at twice
# the bytes.
_LONG = dict(inputs=1024, targets=128)
SLICES = {
    'xxl_v5p_4x4x4': dict(
        batch_size=256, lengths=_LONG, mesh=dict(data=4, fsdp=16, tensor=1), remat='none'
    ),
    'xxl_v6e_16x16': dict(
        batch_size=1024, lengths=_LONG, mesh=dict(data=8, fsdp=16, tensor=2), remat='dots'
    ),
}


def get_config(variant: str = '') -> ml_collections.ConfigDict:
    """The config of one size and scenario."""
    scenario, size = choose(variant, (*SIZES, *SLICES))
    if size in SLICES:
        return on_slice(scenario, size.partition('_')[0], **SLICES[size])
    build = sample if size == 'sample' else paper
    return build(scenario, size)


def choose(variant: str, sizes: tuple[str, ...]) -> tuple[Scenario, str]:
    """What the text after the colon selects: the scenario, and one of the sizes."""
    chosen = config_lib.variant(
        variant,
        sizes,
        scenario='multi_multitask',
        task=None,
        source=None,
        target=None,
        rate='proportional',
    )
    scenario = MTG.scenario(
        chosen['scenario'], chosen['task'], chosen['source'], chosen['target']
    ).with_rate(chosen['rate'])
    return scenario, chosen['size']


def sample(scenario: Scenario, size: str) -> ml_collections.ConfigDict:
    """The embedded corpora and a model of a few million parameters."""
    c = config_lib.defaults()
    c.data = dict(root='data/sample', vocabulary='sample', sample=True)
    c.model = dict(family='mt5', size=size, vocab_size=0, dropout_rate=0.0, dtype='float32')
    c.objective = dict(name='generation', label_smoothing=0.0, z_loss=0.0)
    c.batches = dict(
        batch_size=8, lengths=dict(inputs=192, targets=48), packing=True, length_buckets=1
    )
    # Steps relative to the parameters suit T5's wide initial values: after 24,500 examples of this
    # corpus the loss was 0.46 with Adafactor and 0.77 with AdamW at 3e-3.
    optimizer = dict(
        name='adafactor',
        learning_rate=3e-2,
        schedule='linear',
        warmup_steps=50 / 900,  # A share: of a stage of another length it stays one.
        final_fraction=0.3,
    )
    c.stages = dict(
        stage1=dict(
            mixture=scenario.mixture, split='rough_train', num_steps=900, optimizer=optimizer
        ),
        stage2=dict(
            mixture=scenario.mixture,
            split='train',
            num_steps=300,
            start_from='best',
            optimizer=optimizer
            | dict(learning_rate=9e-3, final_fraction=0.0, warmup_steps=50 / 300),
        ),
    )
    lengths = dict(inputs=128, targets=32)
    c.evals = dict(
        dev=dict(
            tasks=scenario.select,
            split='validation',
            every=300,
            decode=False,
            num_examples=48,
            batch_size=48,
            lengths=lengths,
        ),
        test=dict(
            tasks=scenario.evaluate,
            split='test',
            every=0,
            decode=True,
            num_examples=0,
            batch_size=64,
            lengths=lengths,
        ),
    )
    c.best.update(score='dev/mean/loss', mode='min')
    c.checkpoints.every = 300
    c.baselines = ('copy_input', 'most_frequent', 'nearest_input')
    return c


def on_slice(
    scenario: Scenario,
    size: str,
    *,
    batch_size: int,
    lengths: dict[str, int],
    mesh: dict[str, int],
    remat: str = 'none',
) -> ml_collections.ConfigDict:
    """Batches that keep many devices busy; as many epochs as in the paper."""
    c = paper(scenario, size, batch_size)
    c.model.remat = remat
    c.mesh.update(mesh)
    for block in (c.batches, *c.evals.values()):
        block.batch_size = batch_size
        block.lengths = lengths
    return c


def paper(scenario: Scenario, size: str, batch_size: int = 32) -> ml_collections.ConfigDict:
    """The paper's setting; where it is silent (lengths, optimizer) the choice is ours.

    Epochs become steps by the sizes of the paper's Table 2: 20 epochs of the rough data, 10 of the
    annotated data, at the paper's batch 32 or another, of every task that the scenario trains.
    """
    rough, annotated = (
        sum(MTG.split_sizes[name.split('_')[1]][split] for name in scenario.train)
        for split in ('rough_train', 'train')
    )
    c = config_lib.defaults()
    c.data = dict(root='data', vocabulary='mt5', sample=False)
    c.model = dict(
        family='mt5',
        size=size,
        vocab_size=250112,
        dropout_rate=0.1,
        dtype='bfloat16',
        remat='none',  # 'dots' or 'full' take less memory, and more time.
    )
    c.init_from = f'google/mt5-{size}'
    c.objective = dict(name='generation', label_smoothing=0.0, z_loss=1e-4)
    c.mesh.update(data=1, fsdp=-1)
    # Without packing, so that a batch is so many examples, as in the paper.
    c.batches = dict(
        batch_size=batch_size,
        lengths=dict(inputs=512, targets=64),
        packing=False,
        length_buckets=4,
        equal_rows=True,
    )
    optimizer = dict(name='adafactor', learning_rate=1e-3, schedule='constant', warmup_steps=0.0)
    c.stages = dict(
        stage1=dict(
            mixture=scenario.mixture,
            split='rough_train',
            num_steps=20 * rough // batch_size,
            optimizer=optimizer,
        ),
        stage2=dict(
            mixture=scenario.mixture,
            split='train',
            start_from='best',
            num_steps=10 * annotated // batch_size,
            optimizer=optimizer,
        ),
    )
    lengths = dict(inputs=512, targets=64)
    c.evals = dict(
        dev=dict(
            tasks=scenario.select,
            split='validation',
            every=2000,
            decode=False,
            batch_size=64,
            lengths=lengths,
        ),
        test=dict(
            tasks=scenario.evaluate,
            split='test',
            every=0,
            decode=True,
            num_examples=0,
            batch_size=64,
            lengths=lengths,
        ),
    )
    c.best.update(score='dev/mean/loss', mode='min')
    c.checkpoints.every = 2000
    c.baselines = ('copy_input', 'most_frequent', 'nearest_input')
    return c
