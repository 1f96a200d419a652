r"""mBART-50 on MTG (arXiv:2108.07140), with its own language tokens; else as configs/mtg_mt5.py.

  python -m xlbench.train --config=configs/mtg_mbart.py
  python -m xlbench.train --config=configs/mtg_mbart.py:large,scenario=cross,task=qg,source=en

The sample shows that everything fits together; a model that still has its positions to learn does
not learn to copy names in so few steps (ROUGE-L 36 on average, where mT5 reaches 99.9).

The size large_v5e_4x4 is `large` in batches for a TPU slice of 16 chips, see `python -m
xlbench.plan --help`.

Keys after the colon: size (sample, large), scenario (mono, mono_multitask, multi,
multi_multitask, cross, zero_shot), task (sg, qg, tg), source, target, rate (proportional, equal,
temperature, capped).
"""

import ml_collections

from xlbench.configs import mtg_mt5

CHECKPOINT = 'facebook/mbart-large-50'
# See configs/mtg_mt5.py.
SLICES = {
    'large_v5e_4x4': dict(
        batch_size=128,
        lengths=dict(inputs=512, targets=64),
        mesh=dict(data=4, fsdp=4, tensor=1),
    )
}


def get_config(variant: str = '') -> ml_collections.ConfigDict:
    """The config of one size and scenario."""
    scenario, size = mtg_mt5.choose(variant, ('sample', 'large', *SLICES))
    is_sample = size == 'sample'
    if size in SLICES:
        c = mtg_mt5.on_slice(scenario, size, **SLICES[size])
    else:
        c = mtg_mt5.sample(scenario, size) if is_sample else mtg_mt5.paper(scenario, size)
    c.model = dict(
        family='mbart',
        size='sample' if is_sample else 'large_50',
        vocab_size=0,
        dropout_rate=0.0 if is_sample else 0.1,
        dtype='float32' if is_sample else 'bfloat16',
        remat='none',  # 'dots' or 'full' take less memory, and more time.
    )
    if not is_sample:
        c.data.vocabulary = CHECKPOINT
        c.init_from = CHECKPOINT
    # The rate of mBART's own fine-tuning (arXiv:2001.08210, section 4.1); the sample starts from
    # nothing and needs a larger one.
    optimizer = dict(
        name='adamw',
        learning_rate=2e-3 if is_sample else 3e-5,
        schedule='linear',
        weight_decay=0.0,
        clip_norm=1.0,
    )
    for stage in c.stages.values():
        warmup = 100 / stage.num_steps if is_sample else min(0.1, 2500 / stage.num_steps)
        stage.optimizer = optimizer | dict(warmup_steps=warmup)  # 2,500 steps, or a tenth.
    return c
