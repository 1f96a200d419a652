r"""Real data: ConvSumX (arXiv:2307.04018), an English dialogue in, a zh, fr or uk summary out.

Its files are data/convsumx/{DialogSumX,QMSumX}/...jsonl, which `python -m xlbench.data get convsumx
--root=data` downloads. This is a small model from nothing, on two CPU cores:

  python -m xlbench.train --config=configs/convsumx.py --workdir=RUNS/convsumx

From 400 dialogues, each with summaries in three languages, it learns the style of summaries and
which people they name, but hardly what was said. A public model should learn more from them, as
with configs/finetune.py:mbart,mixture=convsumx_dialogsumx_en_zh; we have not run it.

Keys after the colon: size (tiny), scenario (mono, cross), corpus (dialogsumx), source (en), target
(zh, fr, uk; by default one model learns all three).
"""

from ml_collections import ConfigDict

from xlbench import config as config_lib
from xlbench.benchmarks import CONVSUMX
from xlbench.config import presets


def get_config(variant: str = '') -> ConfigDict:
    """A model of two million parameters and a vocabulary, both from the training data alone."""
    defaults = dict(scenario='cross', corpus='dialogsumx', source=None, target=None)
    scenario, _ = presets.choose(variant, ('tiny',), CONVSUMX.scenario, **defaults)
    c = config_lib.defaults()
    path = 'data/convsumx/convsumx.model'
    c.data = dict(root='data', vocabulary=path, vocabulary_size=4000, sample=False)
    c.model = presets.fresh_model('mt5', dropout_rate=0.1)
    c.objective = presets.generation(label_smoothing=0.1)
    lengths = dict(inputs=512, targets=96)
    c.batches = dict(batch_size=8, lengths=lengths, packing=True, length_buckets=1)
    optimizer = dict(name='adafactor', schedule='linear', learning_rate=1e-2, warmup_steps=0.05)
    c.stages = dict(train=scenario.stage(450, optimizer))
    presets.evaluate(c, scenario, 150, presets.LOSS, test=dict(decode=True), batch_size=64)
    c.baselines = presets.SUMMARY_BASELINES
    return c
