r"""Encoder-decoders of your own encoder on XQuAD questions: both halves start from its weights.

Trains as configs/mtg_bert2bert.py does with M-BERT and XLM-R (arXiv:2108.07140), on two CPU cores,
with the files data/xquad/xquad.LANG.json; no paper has scores of this task.

  python -m xlbench.train --config=configs/xquad_bert2bert.py:encoder,scenario=multi \
      --config.model.from=FOLDER --workdir=RUNS/xquad_bert2bert

The same model from random weights: --config.init_from=''.

Keys after the colon: size (encoder), scenario (mono, mono_multitask, multi, multi_multitask, cross,
zero_shot), source, target, rate.
"""

from ml_collections import ConfigDict

from xlbench import config as config_lib
from xlbench.benchmarks import XQUAD, Scenario
from xlbench.config import presets


def get_config(variant: str = '') -> ConfigDict:
    """The config of one scenario."""
    defaults = dict(scenario='multi', source=None, target=None, rate='proportional')
    scenario, _ = presets.choose(variant, ('encoder',), XQUAD.scenario, **defaults)
    # Short, for the sake of time: seven passages of eight are longer, and lose their end.
    return brought(scenario, dict(inputs=128, targets=32), num_steps=300)


def brought(scenario: Scenario, lengths: dict[str, int], num_steps: int) -> ConfigDict:
    """An encoder of the user's own in both halves, trained for minutes on two cores."""
    c = config_lib.defaults()
    c.data = dict(root='data', vocabulary='', sample=False)
    c.model = presets.brought_model('encoder_decoder')
    c.objective = presets.generation()
    c.batches = presets.unpacked(8, lengths)
    # Attention over the source is new: a larger rate than an encoder alone would take.
    c.stages = dict(stage1=scenario.stage(num_steps, presets.adamw(3e-4, 0.1, weight_decay=0.01)))
    dev = dict(num_examples=48)
    test = dict(decode=True, num_examples=0, decoding=dict(method='beam', num_beams=5))
    every = num_steps // 2
    presets.evaluate(c, scenario, every, presets.LOSS, dev=dev, test=test, batch_size=16)
    c.log_every = 20
    c.baselines = presets.TEXT_BASELINES
    return c
