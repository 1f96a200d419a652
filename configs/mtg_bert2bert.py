r"""M-BERT and XLM-R on MTG as encoder-decoders (arXiv:2108.07140, appendix A).

Both halves start from the encoder's weights, attention over the source is new; the rest is as in
configs/mtg_mt5.py.

  python -m xlbench.train --config=configs/mtg_bert2bert.py
  python -m xlbench.train --config=configs/mtg_bert2bert.py:mbert,scenario=cross,task=qg,source=en

Keys after the colon: size (sample, mbert, xlmr_base, xlmr_large), scenario (mono, mono_multitask,
multi, multi_multitask, cross, zero_shot), task (sg, qg, tg), source, target, rate (proportional,
equal, temperature, capped).
"""

from ml_collections import ConfigDict

from xlbench.configs import mtg_mt5

CHECKPOINTS = {
    'sample': '',
    'mbert': 'google-bert/bert-base-multilingual-cased',
    'xlmr_base': 'FacebookAI/xlm-roberta-base',
    'xlmr_large': 'FacebookAI/xlm-roberta-large',
}


def get_config(variant: str = '') -> ConfigDict:
    """The config of one size and scenario."""
    scenario, size = mtg_mt5.choose(variant, tuple(CHECKPOINTS))
    c = mtg_mt5.sample(scenario) if size == 'sample' else mtg_mt5.paper(scenario, size)
    # The choice is ours: the paper takes "the default of each model" and names no rate.
    mtg_mt5.with_model(c, 'encoder_decoder', size, CHECKPOINTS[size], 5e-5)
    return c
