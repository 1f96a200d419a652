r"""mT5 on XQuAD question generation: passage and answer to question, in en, de, es and zh.

XQuAD (arXiv:1910.11856) is multi-way parallel, so it takes MTG's scenarios. Its files are
data/xquad/xquad.LANG.json. The size `sample` is a model for a laptop, with a vocabulary that is
trained on the data first:

  python -m xlbench.prepare --root=data --mixture=xquad_multi_qg --split=train \
      --new_vocabulary=data/xquad/xquad.model --vocabulary_size=8000
  python -m xlbench.train --config=configs/xquad_mt5.py:sample,scenario=cross,source=en

Keys after the colon: size (sample, small, base), scenario (mono, mono_multitask, multi,
multi_multitask, cross, zero_shot), source, target, rate.
"""

import ml_collections

from xlbench import config as config_lib
from xlbench.benchmarks import XQUAD


def get_config(variant: str = '') -> ml_collections.ConfigDict:
    """The config of one size and scenario."""
    chosen = config_lib.variant(
        variant,
        ('sample', 'small', 'base'),
        scenario='multi',
        source=None,
        target=None,
        rate='proportional',
    )
    scenario = XQUAD.scenario(
        chosen['scenario'], 'qg', chosen['source'], chosen['target']
    ).with_rate(chosen['rate'])
    small = chosen['size'] == 'sample'
    c = config_lib.defaults()
    c.data = dict(
        root='data', vocabulary='data/xquad/xquad.model' if small else 'mt5', sample=False
    )
    c.model = dict(
        family='mt5',
        size=chosen['size'],
        vocab_size=0 if small else 250112,
        dropout_rate=0.1,
        dtype='float32' if small else 'bfloat16',
        remat='none',  # 'dots' or 'full' take less memory, and more time.
    )
    c.init_from = '' if small else f'google/mt5-{chosen["size"]}'
    c.objective = dict(name='generation', label_smoothing=0.0, z_loss=0.0)
    c.batches = dict(
        batch_size=8,
        lengths=dict(inputs=512, targets=64),
        packing=True,
        length_buckets=2,
        row_multiple=8,
    )
    c.stages = dict(
        stage1=dict(
            mixture=scenario.mixture,
            split='train',
            num_steps=400 if small else 5_000,
            optimizer=dict(
                name='adamw',
                learning_rate=1e-3,
                schedule='linear',
                warmup_steps=0.1 if small else 40 / 5_000,  # Shares of the steps.
                clip_norm=1.0,
            ),
        ),
    )
    lengths = dict(inputs=512, targets=64)
    c.evals = dict(
        dev=dict(
            tasks=scenario.select,
            split='validation',
            every=100,
            decode=False,
            batch_size=16,
            lengths=lengths,
        ),
        test=dict(
            tasks=scenario.evaluate,
            split='test',
            every=0,
            num_examples=0,
            batch_size=16,
            lengths=lengths,
        ),
    )
    c.best.update(score='dev/mean/loss', mode='min')
    c.checkpoints.every = 100
    c.log_every = 20
    c.baselines = ('copy_input', 'most_frequent', 'nearest_input')
    return c
