r"""mBART on MTG (arXiv:2108.07140), with its own language tokens; the rest as configs/mtg_mt5.py.

  python -m xlbench.train --config=configs/mtg_mbart.py:large,scenario=cross,task=qg,source=en

The size `large` is mBART-50 (arXiv:2008.00401), and `cc25` is mBART of 25 languages
(arXiv:2001.08210), which the paper cites: its texts end with the language, and its decoder begins
with it. In multi_multitask the paper's mBART reaches a ROUGE-L of 16.9 for story endings, 37.1 for
questions and 31.3 for titles, averaged over the languages (Table 14). There, `large` takes an
estimated 19 hours on one H100 (`python -m xlbench.plan --topology=h100:1`, at 40 % of its peak).
The size large_v5e_4x4 is `large` in batches for a TPU slice of 16 chips.

The sample only shows that everything fits together: in so few steps, a model that also has to learn
its positions does not learn to copy names (ROUGE-L 36 on average, where mT5 reaches 99.9).

Keys after the colon: size (sample, large, cc25), scenario (mono, mono_multitask, multi,
multi_multitask, cross, zero_shot), task (sg, qg, tg), source, target, rate (proportional, equal,
temperature, capped), version (1, 2; see configs/mtg_mt5.py).
"""

from ml_collections import ConfigDict

from xlbench.configs import mtg_mt5

# Size -> the model's size, and the checkpoint.
PUBLIC = {
    'large': ('large_50', 'facebook/mbart-large-50'),
    'cc25': ('large_cc25', 'facebook/mbart-large-cc25'),
}
SLICES = {'large_v5e_4x4': dict(batch_size=128, mesh=dict(data=4, fsdp=4))}


def get_config(variant: str = '') -> ConfigDict:
    """The config of one size and scenario."""
    scenario, size = mtg_mt5.choose(variant, ('sample', *PUBLIC, *SLICES))
    if size in SLICES:
        lengths = dict(inputs=512, targets=64)
        c = mtg_mt5.on_slice(scenario, size, lengths=lengths, **SLICES[size])
    else:
        c = mtg_mt5.sample(scenario) if size == 'sample' else mtg_mt5.paper(scenario, size)
    # The rate of mBART's own fine-tuning (arXiv:2001.08210, section 4.1).
    model = PUBLIC.get(size, PUBLIC['large'])
    mtg_mt5.with_model(c, 'mbart', *model, 3e-5, weight_decay=0.0)
    return c
