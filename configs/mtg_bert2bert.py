r"""M-BERT, XLM and XLM-R on MTG as encoder-decoders (arXiv:2108.07140, appendix A).

  python -m xlbench.train --config=configs/mtg_bert2bert.py:mbert,scenario=cross,task=qg,source=en

Both halves start from the encoder's weights; only the attention over the source is new. The rest is
as in configs/mtg_mt5.py. In multi_multitask the paper's M-BERT reaches a ROUGE-L of 15.4 for story
endings, 29.8 for questions and 25.0 for titles, averaged over the languages (Table 14). Estimated
time of training there, on one H100 at 40 % of its peak (`python -m xlbench.plan
--topology=h100:1`): 10 hours for mbert, 11 for xlmr_base, 35 for xlmr_large.

Section 4.1 of the paper describes XLM, while its appendix names XLM-R. `xlm_xnli15` and `xlm_100`
are XLM (arXiv:1901.07291), with 15 languages and parallel texts, or with 100 languages and none.
The first has a table of languages, from which each half gets its language; the tag in the input
names the target as well.

Keys after the colon: size (sample, mbert, xlm_xnli15, xlm_100, xlmr_base, xlmr_large), scenario
(mono, mono_multitask, multi, multi_multitask, cross, zero_shot), task (sg, qg, tg), source, target,
rate (proportional, equal, temperature, capped).
"""

from ml_collections import ConfigDict

from xlbench.configs import mtg_mt5

CHECKPOINTS = {
    'sample': '',
    'mbert': 'google-bert/bert-base-multilingual-cased',
    'xlm_xnli15': 'FacebookAI/xlm-mlm-tlm-xnli15-1024',
    'xlm_100': 'FacebookAI/xlm-mlm-100-1280',
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
