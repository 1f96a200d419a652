r"""Source-training for few-shot cross-lingual transfer (arXiv:2012.15682): classifiers and taggers.

  python -m xlbench.train --config=configs/fewshot_source.py --workdir=RUNS/udpos_sample

trains a small tagger of parts of speech on the English part of the sample corpora, in minutes on
two CPU cores, and evaluates it in all languages; with task=panx it labels entities, and with one of
the other tasks it is a small classifier. The size `ud` is an equally small tagger on real data:
configs/fewshot.py has its commands. The size `encoder` is any encoder of yours, such as a
multilingual MiniLM, in a training that is short enough for a laptop: --config.model.from=FOLDER.
The other size is the paper's, mBERT:

  python -m xlbench.train --config=configs/fewshot_source.py:mbert,task=xnli --workdir=RUNS/xnli

The paper's accuracy of zero-shot transfer, averaged over the target languages, is 63.7 for xnli,
80.3 for pawsx, 79.8 for mldoc and 44.9 for marc (Table 2), its F1 70.7 for udpos and 57.8 for panx
(Tables 12 and 13). It trains on four GTX 1080 Ti; one H100 needs an estimated 11 minutes for xnli,
and less for the others (`python -m xlbench.plan --topology=h100:1`, at 40 % of its peak).

Keys after the colon: size (sample, ud, encoder, mbert), task (udpos, xnli, pawsx, mldoc, marc,
panx), scenario (zero_shot, mono), source (the language of mono; of zero_shot the one language to
evaluate). The sample corpora have all six tasks, in en, de, fr and es.
"""

import dataclasses

from ml_collections import ConfigDict

from xlbench import config as config_lib
from xlbench.benchmarks import FEWSHOT, Scenario
from xlbench.config import presets
from xlbench.system import errors

CHECKPOINT = 'google-bert/bert-base-multilingual-cased'
SAMPLE_LANGUAGES = ('en', 'de', 'fr', 'es')
# English training examples (XTREME's data; the larger ones of MLDoc and MARC), and the best of the
# learning rates 1e-5, 3e-5, 5e-5 and 7e-5 (arXiv:2012.15682, appendix).
EXAMPLES = {
    'xnli': 392_702, 'pawsx': 49_401, 'mldoc': 10_000, 'marc': 200_000, 'udpos': 21_253,
    'panx': 20_000,
}  # fmt: skip
LEARNING_RATES = dict.fromkeys(EXAMPLES, 1e-5) | {'xnli': 3e-5}
EPOCHS = 10


def get_config(variant: str = '') -> ConfigDict:
    """The config of one size and setting."""
    defaults = dict(task='udpos', scenario='zero_shot', source=None)
    scenario, size = presets.choose(variant, tuple(SIZES), FEWSHOT.scenario, **defaults)
    return SIZES[size](scenario)


def sample(scenario: Scenario) -> ConfigDict:
    """The embedded corpora and a small encoder."""
    evaluated = [n for n in scenario.evaluate if n.rpartition('_')[2] in SAMPLE_LANGUAGES]
    scenario = dataclasses.replace(scenario, evaluate=tuple(evaluated))
    c = base(scenario, batch_size=32, length=64)
    c.data = presets.sample_data('sample_fewshot')
    c.model = labeller(presets.fresh_model, scenario, dropout_rate=0.1, attention_dropout_rate=0.0)
    c.stages = dict(source=scenario.stage(900, presets.adamw(1e-3, 40 / 900)))
    presets.evaluate(c, scenario, 300, best(scenario), batch_size=64, lengths=c.batches.lengths)
    c.log_every = 50
    return c


def small(scenario: Scenario) -> ConfigDict:
    """A small tagger from fresh parameters on Universal Dependencies, with a vocabulary of its own.

    It knows English alone, so zero-shot transfer is poor: it is for seeing what shots add. Against
    too much of learning by heart it has short pieces, dropout and label smoothing.
    """
    if scenario.task != 'udpos':
        raise errors.unknown('task of size ud', scenario.task, ['udpos'])
    c = base(scenario, batch_size=32, length=128)
    c.data = dict(root='data', vocabulary='data/fewshot/ud.model', sample=False)
    rates = dict(dropout_rate=0.3, attention_dropout_rate=0.1, classifier_dropout_rate=0.2)
    c.model = labeller(presets.fresh_model, scenario, **rates)
    c.objective.label_smoothing = 0.1
    c.batches.update(length_buckets=6, row_multiple=8)
    c.stages = dict(source=scenario.stage(3000, presets.adamw(2e-3, 40 / 3000)))
    # In English alone; what shots are compared with is evaluated beside them. The last step is the
    # best one: there is no English dev file.
    scenario = dataclasses.replace(scenario, evaluate=scenario.train)
    c.evals = scenario.evals(0, batch_size=128, lengths=c.batches.lengths)
    del c.evals.dev
    c.log_every = 200
    return c


def brought(scenario: Scenario) -> ConfigDict:
    """An encoder of the user's own, which --config.model.from names, in minutes on two CPU cores.

    The time goes by the tokens that are read, so batches are of few texts, all of about one length:
    a fifth of the treebanks, three epochs of the small training sets of tasks/dev_split.
    """
    c = base(scenario, batch_size=16, length=128)
    c.data = dict(root='data', vocabulary='', sample=False)
    # Most of the time goes into products; processors that know bfloat16 need half as long for them.
    c.model = labeller(presets.brought_model, scenario, matmul_dtype='bfloat16')
    # Of each further shape a program is compiled, which takes as long as some twenty steps.
    c.batches.update(length_buckets=3, equal_rows=True)
    c.stages = dict(source=scenario.stage(300, presets.adamw(1e-4, 0.1, weight_decay=0.01)))
    # As in `small`, but of 500 English examples; the last step is the best one.
    scenario = dataclasses.replace(scenario, evaluate=scenario.train)
    part = dict(num_examples=500, lengths=c.batches.lengths)
    c.evals = scenario.evals(0, batch_size=32, **part)
    del c.evals.dev
    c.log_every = 50
    return c


def paper(scenario: Scenario) -> ConfigDict:
    """The paper's setting (section 4 and appendix); what it does not say as in fsxlt/code.

    Adam without decay, clipping or schedule. The batch is 32 on each of four GPUs. Steps are those
    of English data, also where mono has another language.
    """
    batch_size = 128
    c = base(scenario, batch_size, length=128)
    c.seed = 42
    c.data = dict(root='data', vocabulary=CHECKPOINT, sample=False)
    public = dict(size='mbert', attention_dropout_rate=0.1)
    c.model = labeller(presets.public_model, scenario, **public)
    c.init_from = CHECKPOINT
    rate = LEARNING_RATES[scenario.task]
    optimizer = dict(name='adam', learning_rate=rate, schedule='constant', warmup_steps=0.0)
    num_steps = EPOCHS * EXAMPLES[scenario.task] // batch_size
    c.stages = dict(source=scenario.stage(num_steps, optimizer))
    presets.evaluate(c, scenario, 200, best(scenario), batch_size=512, lengths=c.batches.lengths)
    c.log_every = 50
    return c


SIZES = {'sample': sample, 'ud': small, 'encoder': brought, 'mbert': paper}


def base(scenario: Scenario, batch_size: int, length: int) -> ConfigDict:
    """Settings that all sizes share."""
    c = config_lib.defaults()
    name = 'tagging' if scenario.task in FEWSHOT.tagging else 'classification'
    c.objective = dict(name=name, label_smoothing=0.0)
    # Labels are no tokens of the model: their number matters to nothing but the report of lengths.
    lengths = dict(inputs=length, targets=length)
    c.batches = presets.unpacked(batch_size, lengths, one_task=False)
    return c


def labeller(make, scenario: Scenario, **fields: float | str) -> dict[str, object]:
    """The model of a task, `make` being what a fresh or a public one begins with."""
    tags = scenario.task in FEWSHOT.tagging
    head = dict(num_labels=0, classifier_dropout_rate=0.1)  # The labels are those of the data.
    return make('token_classifier' if tags else 'sequence_classifier', **head | fields)


def best(scenario: Scenario) -> str:
    """Names the score by which the paper chooses checkpoints."""
    return f'dev/mean/{FEWSHOT.main_score(scenario.task)}'
