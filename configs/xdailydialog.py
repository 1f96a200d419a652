r"""Replies in real dialogues, XDailyDialog in en, de, it and zh, by a retriever.

Consecutive utterances of a dialogue are a message and its reply, and the replies of the training
dialogues are the response set. No paper has scores of this task. The size `sample` is a small model
for two CPU cores, with a vocabulary that is trained on the data first:

  python -m xlbench.prepare --root=data --mixture=xdailydialog_multi_retrieval --split=train \
      --new_vocabulary=data/xdailydialog/xdailydialog.model --vocabulary_size=8000
  python -m xlbench.train --config=configs/xdailydialog.py:sample,scenario=zero_shot \
      --workdir=RUNS/xdailydialog_zero_shot
  python -m xlbench.train --config=configs/xdailydialog.py:sample,scenario=multi \
      --workdir=RUNS/xdailydialog_multi
  python -m xlbench.report RUNS/xdailydialog_*

The size `encoder` uses an encoder of yours for both sides (--config.model.from=FOLDER) and needs no
new vocabulary. Trained on English alone, it may answer the others, too; docs/mrs.md has scores.

Keys after the colon: size (sample, encoder), scenario (mono, zero_shot, multi), source (the
language of mono; of zero_shot and multi the one language to evaluate).
"""

import functools

from ml_collections import ConfigDict

from xlbench import config as config_lib
from xlbench.benchmarks import XDAILYDIALOG, Scenario
from xlbench.config import presets


def get_config(variant: str = '') -> ConfigDict:
    """The config of one size and setting."""
    scenario_of = functools.partial(XDAILYDIALOG.scenario, task='retrieval')
    defaults = dict(scenario='multi', source=None)
    scenario, size = presets.choose(variant, ('sample', 'encoder'), scenario_of, **defaults)
    return sample(scenario) if size == 'sample' else brought(scenario)


def sample(scenario: Scenario) -> ConfigDict:
    """Means of word vectors: six thousand pairs teach no layer anything."""
    c = config_lib.defaults()
    c.data = dict(root='data', vocabulary='data/xdailydialog/xdailydialog.model', sample=False)
    words = dict(emb_dim=512, num_layers=0, dropout_rate=0.1, attention_dropout_rate=0.1)
    c.model = presets.fresh_model(**presets.dual_encoder(**words))
    c.objective = presets.retrieval_by_cosine()
    lengths = dict(inputs=32, targets=32)  # One utterance of ten is longer, and is cut.
    c.batches = presets.unpacked(256, lengths, one_task=True)
    c.stages = dict(stage1=scenario.stage(500, presets.adamw(2e-3, 0.1)))
    both = dict(batch_size=128, lengths=lengths, candidates=500)
    dev = dict(num_examples=1000, responses='')  # Ranking alone, which is quick.
    test = dict(num_examples=0, responses='train', top_k=300, consensus=6.7)
    presets.evaluate(c, scenario, 100, 'dev/mean/mrr', dev=dev, test=test, **both)
    c.log_every = 20
    c.baselines = presets.REPLY_BASELINES
    return c


def brought(scenario: Scenario) -> ConfigDict:
    """An encoder of the user's own: few steps, from what it knows already."""
    c = sample(scenario)
    c.data.vocabulary = ''
    c.model = presets.brought_model(**presets.dual_encoder())
    lengths = dict(inputs=48, targets=48)  # Pieces of a public vocabulary are shorter.
    shapes = dict(length_buckets=2, row_multiple=8)
    c.batches = presets.unpacked(32, lengths, one_task=True, **shapes)
    c.stages = dict(stage1=scenario.stage(50, presets.adamw(1e-4, 0.1, weight_decay=0.01)))
    both = dict(batch_size=64, lengths=lengths, candidates=500)
    # Encoding texts is what takes the time: of the dialogues' pairs a part is scored.
    dev = dict(num_examples=250, responses='')
    test = dict(num_examples=500, responses='train', top_k=300, consensus=6.7)
    presets.evaluate(c, scenario, 50, 'dev/mean/mrr', dev=dev, test=test, **both)
    c.log_every = 10
    return c
