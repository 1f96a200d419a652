r"""M-BERT and XLM-R on MTG as encoder-decoders (arXiv:2108.07140, appendix A).

Both halves start from the encoder's weights, attention over the source is new; the rest is as in
configs/mtg_mt5.py.

  python -m xlbench.train --config=configs/mtg_bert2bert.py
  python -m xlbench.train --config=configs/mtg_bert2bert.py:mbert,scenario=cross,task=qg,source=en

Keys after the colon: size (sample, mbert, xlmr_base, xlmr_large), scenario (mono, mono_multitask,
multi, multi_multitask, cross, zero_shot), task (sg, qg, tg), source, target, rate (proportional,
equal, temperature, capped).
"""

import ml_collections

from xlbench.configs import mtg_mt5

CHECKPOINTS = {
    'mbert': 'google-bert/bert-base-multilingual-cased',
    'xlmr_base': 'FacebookAI/xlm-roberta-base',
    'xlmr_large': 'FacebookAI/xlm-roberta-large',
}


def get_config(variant: str = '') -> ml_collections.ConfigDict:
    """The config of one size and scenario."""
    scenario, size = mtg_mt5.choose(variant, ('sample', *CHECKPOINTS))
    is_sample = size == 'sample'
    c = mtg_mt5.sample(scenario, size) if is_sample else mtg_mt5.paper(scenario, size)
    c.model = dict(
        family='encoder_decoder',
        size=size,
        vocab_size=0,
        dropout_rate=0.0 if is_sample else 0.1,
        dtype='float32' if is_sample else 'bfloat16',
        remat='none',  # 'dots' or 'full' take less memory, and more time.
    )
    if not is_sample:
        c.data.vocabulary = CHECKPOINTS[size]
        c.init_from = CHECKPOINTS[size]
    # The choice is ours: the paper takes "the default of each model" and names no rate.
    optimizer = dict(
        name='adamw',
        learning_rate=2e-3 if is_sample else 5e-5,
        schedule='linear',
        clip_norm=1.0,
    )
    for stage in c.stages.values():
        warmup = 100 / stage.num_steps if is_sample else min(0.1, 2500 / stage.num_steps)
        stage.optimizer = optimizer | dict(warmup_steps=warmup)  # 2,500 steps, or a tenth.
    return c
