r"""Summarisers within English on ClidSum (arXiv:2202.05599): the first half of its pipelines.

  python -m xlbench.train --config=configs/clidsum_summariser.py:sample,model=t5

trains a small model of that family on the sample corpus, in minutes on two CPU cores. For MV-BART
1,200 steps are too few: its ROUGE-1 is 44.5 there, that of nearest_input 61.4. The size `large` has
the public checkpoint and the settings of appendix A.3:

  python -m xlbench.train --config=configs/clidsum_summariser.py:large,model=bart,corpus=xsamsum

PEGASUS, T5, BART and mBART-50 are trained for 20 epochs, on the chats in batches of 16 with a
learning rate of 4e-5, on the interviews in batches of 24 with 2e-5. The paper names neither the
optimizer nor the prefix of T5's inputs: here the optimizer is AdamW as in transformers' Trainer,
without a warm-up, and the prefix is `<en> `. Decoding uses the five beams and the 150 tokens of
appendix A.4.

MV-BART has the settings of its authors (arXiv:2010.01672, SALT-NLP/Multi-View-Seq2Seq on GitHub,
train_sh/train_multi_view.sh): 5,000 steps with a learning rate of 3e-5, a thousand times that for
the parameters that weigh the views, label smoothing of 0.1, and a beam of 4. Their batches have
25,600 tokens, here 160 chats or 24 interviews. It starts from BART-large and reads the files that
xlbench data segment makes. BART(D_ALL), of the size `large` alone, is BART on dialogues that
xlbench data mark has marked, in all splits, below the folder `marked`. The settings are those of
its authors (2021.acl-long.117, xcfcode/PLM_annotator on GitHub), which are MV-BART's but for 400
steps of warm-up, a length penalty of 0.5, and the views; nobody states its number of steps.

The paper prints no scores of English summaries, but those of their translations, in its Table 3
(`xlbench reproduce clidsum --table=3 --paper`). We have not run the size `large`.

The scenario `semi`, which all but mvbart have, is the semi-supervised setting: in each epoch the
pairs of MediaSum424k come before those of XMediaSum40k, its only corpus. The paper's summarisers
are not trained on them.

Keys after the colon: size (sample, large), model (t5, pegasus, bart, bart_d_all, mbart, mvbart),
corpus (xsamsum, xmediasum40k), scenario (mono, semi).
"""

from ml_collections import ConfigDict

from xlbench import config as config_lib
from xlbench.benchmarks import CLIDSUM, Scenario, parse_task
from xlbench.config import presets
from xlbench.system import errors

MBART = 'facebook/mbart-large-50-many-to-many-mmt'  # Footnote 17 of the paper.
DECODING = dict(method='beam', num_beams=5, max_length=150)  # Appendix A.4.
# Model of the paper -> family, its size, checkpoint.
MODELS = {
    't5': ('t5', 'large', 'google-t5/t5-large'),
    'pegasus': ('pegasus', 'large', 'google/pegasus-large'),
    'bart': ('bart', 'large', 'facebook/bart-large'),
    'bart_d_all': ('bart', 'large', 'facebook/bart-large'),
    'mbart': ('mbart', 'large_50', MBART),
    'mvbart': ('mvbart', 'large', 'facebook/bart-large'),
}
# Corpus -> rows of a batch, learning rate.
_SETTINGS = {'xsamsum': (16, 4e-5), 'xmediasum40k': (24, 2e-5)}
_EPOCHS = 20
# Trained as their authors do -> tokens of an input, steps of warm-up, length penalty of the beam.
_AUTHORS = {'mvbart': (2048, 200, 2.0), 'bart_d_all': (1024, 400, 0.5)}  # Two views: twice 1,024.


def get_config(variant: str = '') -> ConfigDict:
    """The config of one size, model and corpus."""
    defaults = dict(model=tuple(MODELS), corpus=None, scenario='mono')
    chosen = config_lib.variant(variant, ('sample', 'large'), **defaults)
    first = 'xmediasum40k' if chosen['scenario'] == 'semi' else 'xsamsum'
    model, corpus = chosen['model'], chosen['corpus'] or first
    errors.check_known('corpus after the colon of --config', corpus, _SETTINGS)
    task = f'{corpus}views' if model == 'mvbart' else corpus
    scenario = CLIDSUM.scenario(chosen['scenario'], task, target=CLIDSUM.pivot)
    if chosen['size'] == 'sample':
        if model == 'bart_d_all':
            raise errors.UserError(
                f'model={model} has no size sample, as the sample corpora have no marks; take the '
                'size large, or model=bart'
            )
        return sample(model, scenario)
    return authors(model, scenario) if model in _AUTHORS else paper(model, scenario)


def sample(model: str, scenario: Scenario, num_steps: int = 1200) -> ConfigDict:
    """The embedded corpus and a model of a few million parameters."""
    c = config_lib.defaults()
    c.data = presets.sample_data('sample_clidsum')
    c.model = presets.fresh_model(model)
    c.objective = _objective(model)
    if model == 'mvbart':  # Of both views; a row holds one example.
        lengths = dict(inputs=384, targets=64)
        c.batches = presets.unpacked(16, lengths, length_buckets=2, equal_rows=True)
    else:
        lengths = dict(inputs=256, targets=96)
        c.batches = dict(batch_size=8, lengths=lengths, packing=True, length_buckets=1)
        lengths = dict(inputs=192, targets=64)
    optimizer = presets.adamw(2e-3, 0.05)
    if model in ('t5', 'mt5'):
        optimizer = dict(name='adafactor', schedule='linear', learning_rate=3e-2, warmup_steps=0.05)
    c.stages = dict(train=scenario.stage(num_steps, optimizer))
    both = dict(batch_size=64, lengths=lengths)
    dev, test = dict(num_examples=128), dict(decode=True, num_examples=0)
    presets.evaluate(c, scenario, 400, presets.LOSS, dev=dev, test=test, **both)
    c.baselines = presets.SUMMARY_BASELINES
    return c


def paper(model: str, scenario: Scenario) -> ConfigDict:
    """The paper's setting for models of its pipelines (appendix A.3), on one corpus."""
    task = parse_task(scenario.select[0]).task
    batch_size, learning_rate = next(row for name, row in _SETTINGS.items() if name in task)
    optimizer = presets.adamw(learning_rate, 0, weight_decay=0.0)
    return in_epochs(model, scenario, batch_size, optimizer)


def in_epochs(
    model: str, scenario: Scenario, batch_size: int, optimizer: dict[str, object]
) -> ConfigDict:
    """Trains for 20 epochs, and decodes with a beam of 5, as all of the paper's own models do."""
    c = public(model)
    lengths = dict(inputs=1024, targets=128)
    c.batches = presets.unpacked(batch_size, lengths, length_buckets=4, equal_rows=True)
    epoch = presets.epoch_steps(scenario, batch_size)
    c.stages = dict(train=scenario.stage(_EPOCHS * epoch, optimizer))
    test = dict(decode=True, num_examples=0, decoding=dict(DECODING))
    presets.evaluate(c, scenario, epoch, presets.LOSS, test=test, batch_size=8)
    c.baselines = presets.SUMMARY_BASELINES
    return c


def authors(model: str, scenario: Scenario) -> ConfigDict:
    """The setting of a system's own authors: MV-BART, BART(D_ALL)."""
    c = public(model)
    inputs, warmup, penalty = _AUTHORS[model]
    lengths = dict(inputs=inputs, targets=128)
    is_long = 'xmediasum40k' in scenario.select[0]
    c.batches = presets.unpacked(24 if is_long else 160, lengths, length_buckets=4, equal_rows=True)
    c.accumulate = 8
    optimizer = presets.adamw(3e-5, warmup, clip_norm=0.1, weight_decay=0.01)
    if model == 'mvbart':
        optimizer |= dict(faster=('view_weights/.*',), faster_by=1000.0)
    c.stages = dict(train=scenario.stage(5_000, optimizer))
    decoding = dict(method='beam', num_beams=4, length_penalty=penalty, no_repeat_ngram=3)
    decoding |= dict(min_length=5, max_length=100)
    test = dict(decode=True, num_examples=0, decoding=decoding)
    presets.evaluate(c, scenario, 100, presets.LOSS, test=test, batch_size=8)
    c.baselines = presets.SUMMARY_BASELINES
    return c


def public(model: str) -> ConfigDict:
    """Settings that the configs of public checkpoints share."""
    family, size, checkpoint = MODELS[model]
    root = 'marked' if model == 'bart_d_all' else 'data'
    c = config_lib.defaults()
    c.data = dict(root=root, vocabulary=checkpoint, sample=False)
    c.model = presets.public_model(family, size) | dict(dtype='float32')
    c.init_from = checkpoint
    c.objective = _objective(model, 0.1 if model in _AUTHORS else 0.0)
    return c


def _objective(model: str, label_smoothing: float = 0.0) -> dict[str, object]:
    name = 'multi_view' if model == 'mvbart' else 'generation'
    return presets.generation(label_smoothing) | dict(name=name)
