r"""A translator from fresh parameters: a transformer (arXiv:1706.03762) on parallel texts.

  python -m xlbench.train --config=configs/translation.py

trains a small translator on the sample corpus, in minutes on two CPU cores. The size `base` is
Trans-WMT, the translator of ClidSum (arXiv:2202.05599, appendix A.2): transformer-base with a joint
BPE vocabulary of 32,000 pieces, which is trained on the texts, the cleaned corpora of WMT20
(tasks/translation.py). Each pair of languages has a model of its own:

  python -m xlbench.train --config=configs/translation.py:base,target=de

The paper states neither the length of the training nor the optimizer; both are taken from
arXiv:1706.03762, sections 5 and 6.1. Its Trans-WMT has a BLEU of 25.7 in German and 35.5 in Chinese
on newstest2020 (Table 4). We have not run it. The size `small` is for corpora of ten thousand pairs
and a laptop, such as the utterances of XDailyDialog (corpus=xdailydialog).

Keys after the colon: size (sample, small, base), scenario (cross), corpus (wmt20, xdailydialog),
source, target; without a target one model goes from English to all languages.
"""

from ml_collections import ConfigDict

from xlbench import config as config_lib
from xlbench.benchmarks import TRANSLATION, Scenario
from xlbench.config import presets


def get_config(variant: str = '') -> ConfigDict:
    """The config of one size, corpus and direction."""
    defaults = dict(scenario='cross', corpus='wmt20', source=None, target=None)
    sizes = {'sample': sample, 'small': small, 'base': base}
    scenario, size = presets.choose(variant, tuple(sizes), TRANSLATION.scenario, **defaults)
    return sizes[size](scenario)


def translator(scenario: Scenario, size: str, pieces: int, **fields: float) -> ConfigDict:
    """The config of a model with a joint vocabulary of its texts."""
    c = config_lib.defaults()
    langs = [scenario.source, scenario.target or '-'.join(TRANSLATION.languages[1:])]
    path = f'data/translation/{scenario.task}.{"-".join(sorted(langs))}.model'
    c.data = dict(root='data', vocabulary=path, sample=False)
    c.data.update(vocabulary_size=pieces, vocabulary_type='bpe')
    c.model = presets.fresh_model('marian', size=size, **fields)
    c.objective = presets.generation(label_smoothing=0.1)
    c.baselines = presets.TRANSLATION_BASELINES
    return c


def sample(scenario: Scenario) -> ConfigDict:
    """The embedded corpus and a model of a few million parameters."""
    c = translator(scenario, 'sample', 0)
    c.data = presets.sample_data('sample_translation')
    lengths = dict(inputs=128, targets=128)
    c.batches = dict(batch_size=8, lengths=lengths, packing=True, length_buckets=1)
    c.stages = dict(train=scenario.stage(1000, presets.adamw(2e-3, 0.1)))
    both = dict(batch_size=64, lengths=dict(inputs=64, targets=64))
    dev, test = dict(num_examples=128), dict(decode=True, num_examples=0)
    presets.evaluate(c, scenario, 250, presets.LOSS, dev=dev, test=test, **both)
    return c


def small(scenario: Scenario) -> ConfigDict:
    """Two layers a side: what ten thousand pairs suffice for."""
    sizes = dict(emb_dim=128, num_heads=4, head_dim=32, mlp_dim=512)
    layers = dict(num_encoder_layers=2, num_decoder_layers=2)
    # Some 2,500 pieces are Chinese characters, and the words of both languages come on top.
    pieces = 3000 if 'zh' not in (scenario.source, scenario.target or 'zh') else 6000
    c = translator(scenario, 'transformer_base', pieces, dropout_rate=0.1, **layers, **sizes)
    lengths = dict(inputs=128, targets=128)
    c.batches = dict(batch_size=8, lengths=lengths, packing=True, length_buckets=1)
    c.stages = dict(train=scenario.stage(4500, presets.adamw(3e-3, 0.1, b2=0.98)))
    test = dict(decode=True, num_examples=0, decoding=dict(method='beam', num_beams=5))
    presets.evaluate(c, scenario, 250, presets.LOSS, test=test, batch_size=64)
    return c


def base(scenario: Scenario) -> ConfigDict:
    """Trans-WMT: about 25,000 tokens a side in each batch, as arXiv:1706.03762, section 5.1."""
    c = translator(scenario, 'transformer_base', 32_000, dropout_rate=0.1)
    c.model.dtype = 'bfloat16'
    c.baselines = ('copy_input',)  # The others would hold all training pairs in memory.
    lengths = dict(inputs=256, targets=256)
    c.batches = dict(batch_size=96, lengths=lengths, packing=True, length_buckets=1)
    # Section 5.3. The rate of its equation 3 with 512 dimensions is 7e-4 when the warm-up ends.
    optimizer = dict(name='adam', b1=0.9, b2=0.98, eps=1e-9, schedule='inverse_sqrt')
    optimizer |= dict(learning_rate=512**-0.5 * 4000**-0.5, warmup_steps=4000)
    c.stages = dict(train=scenario.stage(100_000, optimizer))
    beam = dict(method='beam', num_beams=4, length_penalty=0.6)
    test = dict(decode=True, num_examples=0, decoding=beam)
    presets.evaluate(c, scenario, 5000, presets.LOSS, test=test, batch_size=64)
    return c
