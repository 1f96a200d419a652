r"""Source-training for few-shot cross-lingual transfer (arXiv:2012.15682): classifiers and taggers.

  python -m xlbench.train --config=configs/fewshot_source.py --workdir=RUNS/udpos_sample

trains a small tagger of parts of speech on the English part of the embedded sample corpora, in
minutes on two CPU cores, without any download, and evaluates it in all languages; with task=xnli a
small classifier. The size `ud` is a tagger as small, from fresh parameters, on real data:
configs/fewshot.py has its commands. The other is the paper's, mBERT on the official files below
`data`:

  for task in xnli pawsx mldoc marc udpos panx; do
    python -m xlbench.train --config=configs/fewshot_source.py:mbert,task=$task \
        --workdir=RUNS/fewshot_$task
  done

Keys after the colon: size (sample, ud, mbert), task (udpos, xnli, pawsx, mldoc, marc, panx),
scenario (zero_shot, mono), source (the language of mono; of zero_shot the one language to
evaluate). The sample corpora have udpos and xnli, in en, de, fr and es.
"""

import ml_collections

from xlbench import config as config_lib, errors
from xlbench.benchmarks import FEWSHOT, Scenario

CHECKPOINT = 'google-bert/bert-base-multilingual-cased'
TAGGING = ('udpos', 'panx')
SAMPLE_TASKS, SAMPLE_LANGUAGES = ('udpos', 'xnli'), ('en', 'de', 'fr', 'es')
# English training examples (XTREME's data; the larger ones of MLDoc and MARC), and the best of the
# learning rates 1e-5, 3e-5, 5e-5 and 7e-5 (arXiv:2012.15682, appendix).
EXAMPLES = {
    'xnli': 392_702, 'pawsx': 49_401, 'mldoc': 10_000, 'marc': 200_000, 'udpos': 21_253,
    'panx': 20_000,
}  # fmt: skip
LEARNING_RATES = dict.fromkeys(EXAMPLES, 1e-5) | {'xnli': 3e-5}
EPOCHS = 10


def get_config(variant: str = '') -> ml_collections.ConfigDict:
    """The config of one size and setting."""
    chosen = config_lib.variant(
        variant, ('sample', 'ud', 'mbert'), task='udpos', scenario='zero_shot', source=None
    )
    scenario = FEWSHOT.scenario(chosen['scenario'], chosen['task'], chosen['source'])
    return {'sample': sample, 'ud': small, 'mbert': paper}[chosen['size']](scenario)


def sample(scenario: Scenario) -> ml_collections.ConfigDict:
    """The embedded corpora and a small encoder."""
    if scenario.task not in SAMPLE_TASKS:
        raise errors.unknown('task of the sample corpora', scenario.task, SAMPLE_TASKS)
    evaluated = [n for n in scenario.evaluate if n.rpartition('_')[2] in SAMPLE_LANGUAGES]
    c = config_lib.defaults()
    c.data = dict(root='data/sample', vocabulary='sample_fewshot', sample=True)
    c.model = dict(
        family=family(scenario),
        size='sample',
        vocab_size=0,
        num_labels=0,  # Those of the data.
        dropout_rate=0.1,
        attention_dropout_rate=0.0,
        classifier_dropout_rate=0.1,
        dtype='float32',
    )
    c.objective = dict(name=objective(scenario), label_smoothing=0.0)
    # Labels are no tokens of the model: their number matters to nothing but the report of lengths.
    lengths = dict(inputs=64, targets=64)
    c.batches = dict(
        batch_size=32, lengths=lengths, packing=False, length_buckets=1, one_task=False
    )
    c.stages = dict(
        source=dict(
            mixture=scenario.mixture,
            split=scenario.split,
            num_steps=900,
            optimizer=dict(
                name='adamw',
                learning_rate=1e-3,
                schedule='linear',
                warmup_steps=40 / 900,
                clip_norm=1.0,
            ),
        ),
    )
    evaluate = dict(batch_size=64, lengths=lengths)
    c.evals = dict(
        dev=dict(tasks=scenario.select, split='validation', every=300, **evaluate),
        test=dict(tasks=tuple(evaluated), split='test', every=0, **evaluate),
    )
    c.best.score = f'dev/mean/{score(scenario)}'
    c.checkpoints.every = 300
    c.log_every = 50
    return c


def small(scenario: Scenario) -> ml_collections.ConfigDict:
    """A small tagger from fresh parameters on Universal Dependencies, with a vocabulary of its own.

    It knows English alone, so zero-shot transfer is poor: it is for seeing what shots add. Against
    too much of learning by heart it has short pieces, dropout and label smoothing.
    """
    if scenario.task != 'udpos':
        raise errors.unknown('task of size ud', scenario.task, ['udpos'])
    c = config_lib.defaults()
    c.data = dict(root='data', vocabulary='data/fewshot/ud.model', sample=False)
    c.model = dict(
        family=family(scenario),
        size='sample',
        vocab_size=0,
        num_labels=0,  # Those of the data.
        dropout_rate=0.3,
        attention_dropout_rate=0.1,
        classifier_dropout_rate=0.2,
        dtype='float32',
    )
    c.objective = dict(name=objective(scenario), label_smoothing=0.1)
    lengths = dict(inputs=128, targets=128)
    c.batches = dict(
        batch_size=32,
        lengths=lengths,
        packing=False,
        length_buckets=6,
        row_multiple=8,
        one_task=False,
    )
    c.stages = dict(
        source=dict(
            mixture=scenario.mixture,
            split=scenario.split,
            num_steps=3000,
            optimizer=dict(
                name='adamw',
                learning_rate=2e-3,
                schedule='linear',
                warmup_steps=40 / 3000,
                clip_norm=1.0,
            ),
        ),
    )
    evaluate = dict(batch_size=128, lengths=lengths)
    c.evals = dict(
        # In English alone; what shots are compared with is evaluated beside them.
        test=dict(tasks=scenario.train, split='test', every=0, **evaluate),
    )
    # The last step is the best one: there is no English dev file.
    c.log_every = 200
    return c


def paper(scenario: Scenario) -> ml_collections.ConfigDict:
    """The paper's setting (section 4 and appendix); what it does not say as in fsxlt/code.

    Adam without decay, clipping or schedule. The batch is 32 on each of four GPUs. Steps are those
    of English data, also where mono has another language.
    """
    batch_size = 128
    c = config_lib.defaults()
    c.seed = 42
    c.data = dict(root='data', vocabulary=CHECKPOINT, sample=False)
    c.model = dict(
        family=family(scenario),
        size='mbert',
        vocab_size=0,
        num_labels=0,  # Those of the data.
        dropout_rate=0.1,
        attention_dropout_rate=0.1,
        classifier_dropout_rate=0.1,
        dtype='bfloat16',
        remat='none',  # 'dots' or 'full' take less memory, and more time.
    )
    c.init_from = CHECKPOINT
    c.objective = dict(name=objective(scenario), label_smoothing=0.0)
    lengths = dict(inputs=128, targets=128)
    c.batches = dict(
        batch_size=batch_size, lengths=lengths, packing=False, length_buckets=1, one_task=False
    )
    c.stages = dict(
        source=dict(
            mixture=scenario.mixture,
            split=scenario.split,
            num_steps=EPOCHS * EXAMPLES[scenario.task] // batch_size,
            optimizer=dict(
                name='adam',
                learning_rate=LEARNING_RATES[scenario.task],
                schedule='constant',
                warmup_steps=0.0,
            ),
        ),
    )
    evaluate = dict(batch_size=512, lengths=lengths)
    c.evals = dict(
        # In the language of training, so that zero-shot transfer is not chosen by its target.
        dev=dict(tasks=scenario.select, split='validation', every=200, **evaluate),
        test=dict(tasks=scenario.evaluate, split='test', every=0, **evaluate),
    )
    c.best.score = f'dev/mean/{score(scenario)}'
    c.checkpoints.every = 200
    c.log_every = 50
    return c


def objective(scenario: Scenario) -> str:
    """What a task is trained as."""
    return 'tagging' if scenario.task in TAGGING else 'classification'


def family(scenario: Scenario) -> str:
    """The models that are trained so."""
    return 'token_classifier' if scenario.task in TAGGING else 'sequence_classifier'


def score(scenario: Scenario) -> str:
    """What the paper chooses by."""
    return 'chunk_f1' if scenario.task in TAGGING else 'accuracy'
