r"""Replies in real dialogues, XDailyDialog in en, de and zh: a small retriever from nothing.

Its files are data/xdailydialog/...; consecutive utterances of a dialogue are a message and its
reply, and the replies of the training dialogues are the response set. Runs on two CPU cores,
with a vocabulary that is trained on the data first:

  python -m xlbench.prepare --root=data --mixture=xdailydialog_multi_retrieval --split=train \
      --new_vocabulary=data/xdailydialog/xdailydialog.model --vocabulary_size=8000
  for lang in en de zh; do
    python -m xlbench.train --workdir=RUNS/xdailydialog_$lang \
        --config=configs/xdailydialog.py:sample,scenario=mono,source=$lang
  done
  python -m xlbench.train --config=configs/xdailydialog.py:sample,scenario=zero_shot \
      --workdir=RUNS/xdailydialog_zero_shot
  python -m xlbench.train --config=configs/xdailydialog.py:sample,scenario=multi \
      --workdir=RUNS/xdailydialog_multi
  python -m xlbench.report RUNS/xdailydialog_*

Keys after the colon: size (sample), scenario (mono, zero_shot, multi), source (the language of
mono; of zero_shot and multi the one language to evaluate).
"""

import ml_collections

from xlbench import config as config_lib
from xlbench.benchmarks import XDAILYDIALOG


def get_config(variant: str = '') -> ml_collections.ConfigDict:
    """The config of one setting."""
    chosen = config_lib.variant(variant, ('sample',), scenario='multi', source=None)
    scenario = XDAILYDIALOG.scenario(chosen['scenario'], 'retrieval', chosen['source'])
    c = config_lib.defaults()
    c.data = dict(root='data', vocabulary='data/xdailydialog/xdailydialog.model', sample=False)
    c.model = dict(
        family='dual_encoder',
        size='sample',
        emb_dim=512,
        num_layers=0,  # Means of word vectors: six thousand pairs teach no layer anything.
        vocab_size=0,
        shared=True,
        pooling='mean',
        projection_dim=0,
        normalize=True,
        has_pooler=False,
        dropout_rate=0.1,
        attention_dropout_rate=0.1,
        dtype='float32',
    )
    # Cosines lie between -1 and 1: without a scale no softmax over them gets sharp.
    c.objective = dict(
        name='retrieval', loss='sym_paper', scale=20.0, mask_duplicates=True, chunk_rows=0
    )
    lengths = dict(inputs=32, targets=32)  # One utterance of ten is longer, and is cut.
    c.batches = dict(
        batch_size=256, lengths=lengths, packing=False, length_buckets=1, one_task=True
    )
    c.stages = dict(
        stage1=dict(
            mixture=scenario.mixture,
            split='train',
            num_steps=500,
            optimizer=dict(
                name='adamw', learning_rate=2e-3, schedule='linear', warmup_steps=0.1, clip_norm=1.0
            ),
        ),
    )
    evaluate = dict(batch_size=128, lengths=lengths, candidates=500)
    c.evals = dict(
        # In the languages of training, so that zero-shot transfer is not chosen by its target;
        # ranking alone, which is quick.
        dev=dict(
            tasks=scenario.select,
            split='validation',
            every=100,
            num_examples=1000,
            responses='',
            **evaluate,
        ),
        test=dict(
            tasks=scenario.evaluate,
            split='test',
            every=0,
            num_examples=0,
            responses='train',
            top_k=300,
            consensus=6.7,
            **evaluate,
        ),
    )
    c.best.score = 'dev/mean/mrr'
    c.checkpoints.every = 100
    c.log_every = 20
    c.baselines = ('most_frequent', 'nearest_input')
    return c
