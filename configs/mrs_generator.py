r"""Generated replies on MRS (arXiv:2106.02017): an encoder-decoder and its three best beams.

  python -m xlbench.train --config=configs/mrs_generator.py --workdir=RUNS/mrs_generator_sample

trains a small model on the sample corpora, in minutes on two CPU cores. The other sizes have the
paper's settings and the official files below `data`:

  python -m xlbench.train --config=configs/mrs_generator.py:mbart,scenario=mono,source=de \
      --workdir=RUNS/mrs_generator_de

The paper starts from Unicoder-xDAE (arXiv:2004.01401), a denoiser of BART's kind (12 + 12 layers of
768) with XLM-R's vocabulary. The size `unicoder` starts from its checkpoint, with its own tokens
for languages and for the end; docs/checkpoints.md says which files it needs. `mbart` is mBART-50
(arXiv:2008.00401), for those who have no such checkpoint. The sizes `mt5_small`, `mt5_base`,
`mt5_large` (arXiv:2010.11934) and `bert2bert`, in which both halves start from mBERT
(arXiv:1907.12461), are not in the paper, and their learning rates are ours. `sample_unicoder` is
the sample with a small model in the shape of Unicoder-xDAE.

The ROUGE of the paper's Unicoder-xDAE, averaged over the languages, is 4.10 in mono, 2.66 in mt and
3.27 in multi (Table 4). For eight H100 at 40 % of their peak the estimate of `mbart` (`python -m
xlbench.plan --topology=h100:8`) is 0.5 hours in mono of another language than English, 4 hours in
multi, 16 hours for English, as in zero_shot, and 2 hours in mt.

Keys after the colon: size (sample, sample_unicoder, mbart, unicoder, mt5_small, mt5_base,
mt5_large, bert2bert), scenario (mono, zero_shot, mt, multi, mixed, adapters), source (the language
of mono, mt and mixed; of zero_shot and multi the one language to evaluate), dev (organic or
translated pairs choose the checkpoint of mt and mixed), task (generation, reverse). `mixed` trains
on English pairs and equally often on translated ones (section 6 of the paper). `adapters` trains an
adapter for each language in one run, on top of the model that --config.init_from names. A model of
the task `reverse` writes the message that belongs to a reply, for --mmi_model of xlbench.evaluate.
"""

import dataclasses

from ml_collections import ConfigDict

from xlbench import config as config_lib
from xlbench.benchmarks import MRS, Added, Scenario
from xlbench.config import presets
from xlbench.system import errors

# All but the token embeddings (and the bias of mBART's logits, which was never trained).
_LAYERS, _MT5_LAYERS = '(encoder|decoder)/.*', '(encoder|decoder|logits_dense)/.*'
# Size -> family, its size, checkpoint; what is trained; learning rate at the end of the warm-up.
MODELS = {
    'mbart': ('mbart', 'large_50', 'facebook/mbart-large-50', _LAYERS, 1e-5),
    'unicoder': ('bart', 'unicoder', 'models/unicoder_xdae', _LAYERS, 1e-5),
    'mt5_small': ('mt5', 'small', 'google/mt5-small', _MT5_LAYERS, 1e-4),
    'mt5_base': ('mt5', 'base', 'google/mt5-base', _MT5_LAYERS, 1e-4),
    'mt5_large': ('mt5', 'large', 'google/mt5-large', _MT5_LAYERS, 1e-4),
    'bert2bert': (
        'encoder_decoder', 'mbert', 'google-bert/bert-base-multilingual-cased',
        '(?!.*/token_embedder/).*', 5e-5,
    ),
}  # fmt: skip


def get_config(variant: str = '') -> ConfigDict:
    """The config of one size and setting."""
    sizes = ('sample', 'sample_unicoder', *MODELS)
    scenario, size, dev = presets.choose(
        variant, sizes, scenario_of, scenario='multi', source=None, task='generation',
        dev=('organic', 'translated'),
    )  # fmt: skip
    if scenario.task == 'retrieval':
        raise errors.unknown('task', scenario.task, ('generation', 'reverse'))
    if scenario.name == 'multi':
        scenario = scenario.with_rate('equal')
    if dev == 'translated':
        scenario = MRS.by_translated_dev(scenario)
    if size == 'sample_unicoder':
        c = in_unicoder_shape(sample(scenario))
    else:
        c = sample(scenario) if size == 'sample' else paper(scenario, size)
    if scenario.name == 'adapters':
        adapt_languages(c)
    return c


def scenario_of(name: str, task: str, source: str | None) -> Scenario:
    """A setting of the benchmark, or `adapters`: its languages side by side in every batch."""
    if name != 'adapters':
        return MRS.scenario(name, task, source)
    if source:
        raise errors.UserError(f'scenario={name} has all languages; leave out source={source}')
    first, *others = (MRS.scenario('mono', task, lang) for lang in MRS.languages)
    tasks = tuple(MRS.task_name(task, lang) for lang in MRS.languages)
    return dataclasses.replace(
        first,
        name=name,
        train=tasks,
        evaluate=tasks,
        select=tasks,
        source=None,
        added=tuple(Added(other.source, other.mixture, other.split) for other in others),
    )


def adapt_languages(c: ConfigDict) -> None:
    """LoRA for each language (section 6 names adapters); a batch has equal shares of them."""
    languages = MRS.languages
    c.lora.update(rank=8, languages=languages)
    rows = c.batches.batch_size // len(languages) // 8 * 8 or 4  # Which eight devices can share.
    c.batches.update(batch_size=rows * len(languages), each_task=True, length_buckets=1)
    c.batches.equal_rows = False
    c.accumulate = 1


def sample(scenario: Scenario) -> ConfigDict:
    """The embedded corpora and a model of a few million parameters."""
    c = config_lib.defaults()
    c.data = presets.sample_data('sample_mrs')
    c.model = presets.fresh_model('mt5')
    c.objective = presets.generation()
    c.batches = dict(
        batch_size=16, lengths=dict(inputs=96, targets=64), packing=True, length_buckets=1
    )
    optimizer = dict(name='adafactor', learning_rate=3e-2, schedule='linear', warmup_steps=0.125)
    c.stages = dict(stage1=scenario.stage(400, optimizer))
    lengths = dict(inputs=48, targets=32)
    beam = dict(method='beam', num_beams=3, num_return=3)
    test = dict(decode=True, decoding=beam, num_examples=0)
    presets.evaluate(c, scenario, 200, presets.LOSS, test=test, batch_size=64, lengths=lengths)
    if scenario.name == 'mt' and scenario.select_split == 'validation':
        # The dev pairs are English there, and say nothing of fresh parameters that never saw any.
        c.best.score = ''  # The last step.
    c.log_every = 50
    c.baselines = presets.REPLY_BASELINES
    return c


def in_unicoder_shape(c: ConfigDict) -> ConfigDict:
    """The sample with a small BART of scaled tokens in place of an mT5.

    Its positions are learned, too, so that it needs more steps for as good replies.
    """
    c.model = presets.fresh_model('bart', scaled_embeddings=True)
    for stage in c.stages.values():
        stage.optimizer = presets.adamw(2e-3, 0.125)
    return c


def paper(scenario: Scenario, size: str) -> ConfigDict:
    """The paper's setting (section 4.3); what it does not say as in microsoft/MRS's code."""
    batch_size = 1024
    num_steps = steps(scenario, batch_size)
    family, of_family, checkpoint, trainable, learning_rate = MODELS[size]
    is_mt5 = family == 'mt5'
    fields = dict(vocab_size=250112) if is_mt5 else dict(attention_dropout_rate=0.1)
    c = config_lib.defaults()
    c.data = dict(root='data', vocabulary='mt5' if is_mt5 else checkpoint, sample=False)
    c.model = presets.public_model(family, of_family, **fields)
    c.init_from = checkpoint
    c.objective = presets.generation(label_smoothing=0.2)
    c.trainable = (trainable,)
    c.mesh.update(data=1, fsdp=-1)
    # Without packing, so that a batch is 1024 examples as in the paper. Sources are cut at 508
    # pieces there, before two end symbols; replies at the length that it decodes to.
    lengths = dict(inputs=510, targets=200)
    c.batches = presets.unpacked(batch_size, lengths, length_buckets=4, equal_rows=True)
    c.accumulate = 4
    optimizer = dict(
        name='adamw',
        learning_rate=learning_rate,
        schedule='inverse_sqrt',
        warmup_steps=num_steps // 5,
        b1=0.9,
        b2=0.98,
        eps=1e-6,
        weight_decay=0.01,
    )
    c.stages = dict(stage1=scenario.stage(num_steps, optimizer))
    every = max(1000, num_steps // 50)
    beam = dict(method='beam', num_beams=5, num_return=3, max_length=200, length_penalty=1.0)
    dev, test = dict(num_examples=10_240), dict(decode=True, decoding=beam, num_examples=0)
    presets.evaluate(c, scenario, every, presets.LOSS, dev=dev, test=test, batch_size=128)
    c.best.score = ''  # The last checkpoint is scored, as there.
    c.baselines = ()  # They hold all training pairs of a language in memory, 39 million of English.
    return c


def steps(scenario: Scenario, batch_size: int) -> int:
    """Length of a run: four epochs of English, one of translated pairs, or the steps it names."""
    if scenario.name == 'multi':
        return 40_000
    if scenario.name in ('mt', 'mixed'):  # Of `mixed`, half of the pairs are English.
        return MRS.num_mt_pairs * (1 + len(scenario.added)) // batch_size
    if scenario.train != (MRS.task_name(scenario.task, 'en'),):
        return 5_000
    return 4 * MRS.official_size('generation', 'train', 'en') // batch_size
