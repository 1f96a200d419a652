r"""mT5 on XQuAD question generation: passage and answer to question, in en, de, es and zh.

XQuAD (arXiv:1910.11856) is multi-way parallel, so it takes MTG's scenarios; no paper has scores of
this task. The 5,000 steps of `base` take an estimated minute on one H100. The size `sample` is a
model for a laptop, with a vocabulary that is trained on the data first:

  python -m xlbench.prepare --root=data --mixture=xquad_multi_qg --split=train \
      --new_vocabulary=data/xquad/xquad.model --vocabulary_size=8000
  python -m xlbench.train --config=configs/xquad_mt5.py:sample,scenario=cross,source=en

Keys after the colon: size (sample, small, base), scenario (mono, mono_multitask, multi,
multi_multitask, cross, zero_shot), source, target, rate.
"""

from ml_collections import ConfigDict

from xlbench import config as config_lib
from xlbench.benchmarks import XQUAD
from xlbench.config import presets


def get_config(variant: str = '') -> ConfigDict:
    """The config of one size and scenario."""
    defaults = dict(scenario='multi', source=None, target=None, rate='proportional')
    sizes = ('sample', 'small', 'base')
    scenario, size = presets.choose(variant, sizes, XQUAD.scenario, **defaults)
    c = config_lib.defaults()
    if size == 'sample':
        c.data = dict(root='data', vocabulary='data/xquad/xquad.model', sample=False)
        c.model = presets.fresh_model('mt5', dropout_rate=0.1, remat='none')
        num_steps, warmup_steps = 400, 0.1
    else:
        c.data = dict(root='data', vocabulary='mt5', sample=False)
        c.model = presets.public_model('mt5', size, vocab_size=250112)
        c.init_from = f'google/mt5-{size}'
        num_steps, warmup_steps = 5_000, 40 / 5_000
    c.objective = presets.generation()
    lengths = dict(inputs=512, targets=64)
    c.batches = dict(batch_size=8, lengths=lengths, packing=True, length_buckets=2, row_multiple=8)
    c.stages = dict(stage1=scenario.stage(num_steps, presets.adamw(1e-3, warmup_steps)))
    presets.evaluate(c, scenario, 100, presets.LOSS, test=dict(num_examples=0), batch_size=16)
    c.log_every = 20
    c.baselines = presets.TEXT_BASELINES
    return c
