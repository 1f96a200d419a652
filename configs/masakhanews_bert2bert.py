r"""Encoder-decoders of your own encoder on MasakhaNEWS titles: both halves start from its weights.

Trains as configs/xquad_bert2bert.py does, from the first words of an article to its headline, in
16 languages (arXiv:2304.09972); no paper has scores of this task. The task tgdev reads only the dev
files; those of en and fr have 547 articles for training, which are enough to try it:

  python -m xlbench.train --config=configs/masakhanews_bert2bert.py:encoder,task=tgdev \
      --config.model.from=FOLDER --workdir=RUNS/masakhanews

Keys after the colon: size (encoder), scenario (mono, zero_shot, multi), task (tg, tgdev), source
(the language of mono; of zero_shot and multi the one language to evaluate), rate.
"""

from ml_collections import ConfigDict

from xlbench.benchmarks import MASAKHANEWS
from xlbench.config import presets
from xlbench.configs import xquad_bert2bert


def get_config(variant: str = '') -> ConfigDict:
    """The config of one scenario."""
    defaults = dict(scenario='multi', task='tg', source=None, rate='proportional')
    scenario, _ = presets.choose(variant, ('encoder',), MASAKHANEWS.scenario, **defaults)
    return xquad_bert2bert.brought(scenario, dict(inputs=128, targets=32), num_steps=300)
