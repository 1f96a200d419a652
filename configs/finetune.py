r"""Any task or mixture: trains a public model, or a small fresh one, on your own data.

  python -m xlbench.train --config=configs/finetune.py:mt5_base,mixture=news_title_de
  python -m xlbench.train \
      --config=configs/finetune.py:xlmr_base,objective=classification,mixture=reviews_stars_en

The name is that of a task in a file such as tasks/news.py (see xlbench.pipeline.register_text_task
and its siblings), or of a mixture. The size `tiny` is a small model from fresh parameters, with a
vocabulary that is trained on the task and kept in the data root. The size `encoder` is any BERT,
RoBERTa or XLM-R of yours, a folder in the form of Hugging Face or of sentence-transformers, or a
name of the hub, which --config.model.from gives. It is trained in float32, for a laptop's CPU, too.
The size `pretrained` is likewise any model of yours that writes texts, such as one of Mozilla's
translators in the folder where its files are.

Training reads the split 'train'. The splits 'validation' and 'test' are scored if the tasks have
them. The best checkpoint is the one with the lowest loss (generation) or the best headline score of
its tasks on validation; without validation it is the last one. The test scores are those of the
best checkpoint. docs/your_own.md has more on taggers and on GPT-2.

A run takes 10 epochs, and of the size `tiny` 20. It evaluates ten times, or less often where
evaluations would be more than a fifth of the work. 3,000 steps of mt5_base or mbart take an
estimated 2 to 4 minutes on one H100, of encoders about one (`python -m xlbench.plan
--topology=h100:1`, at 40 % of its peak, without evaluations).

Keys after the colon: size (tiny, encoder, pretrained, mt5_small, mt5_base, mt5_large, t5_base,
bart_base, bart_large, mbart, gpt2, gpt2_medium, gpt2_large, dialogpt_small, dialogpt_medium,
dialogpt_large, mbert, xlmr_base, xlmr_large), mixture, objective (generation, language_model,
classification, tagging, retrieval), which public models that write texts do not need; evaluate,
tasks or mixtures to score instead of the one that is trained on, with a + between two, for
zero-shot transfer; split, validation and test, the names of splits (`test=` leaves the test out);
steps (3000 or 5epochs), batch_size, inputs and targets (maximal numbers of tokens), root.
Everything else is set as in any config: --config.stages.train.optimizer.learning_rate=3e-4.
"""

from ml_collections import ConfigDict

from xlbench import config as config_lib
from xlbench.benchmarks import Scenario
from xlbench.config import presets, trained_families, trainers
from xlbench.settings import epochs
from xlbench.system import errors

# Size -> family, its size, checkpoint. For an encoder the objective says what is built around it.
MODELS = {
    'mt5_small': ('mt5', 'small', 'google/mt5-small'),
    'mt5_base': ('mt5', 'base', 'google/mt5-base'),
    'mt5_large': ('mt5', 'large', 'google/mt5-large'),
    't5_base': ('t5_1_1', 'base', 'google/t5-v1_1-base'),
    'bart_base': ('bart', 'base', 'facebook/bart-base'),
    'bart_large': ('bart', 'large', 'facebook/bart-large'),
    'mbart': ('mbart', 'large_50', 'facebook/mbart-large-50'),
    'gpt2': ('gpt2', 'small', 'openai-community/gpt2'),
    'gpt2_medium': ('gpt2', 'medium', 'openai-community/gpt2-medium'),
    'gpt2_large': ('gpt2', 'large', 'openai-community/gpt2-large'),
    'dialogpt_small': ('gpt2', 'dialogpt_small', 'microsoft/DialoGPT-small'),
    'dialogpt_medium': ('gpt2', 'dialogpt_medium', 'microsoft/DialoGPT-medium'),
    'dialogpt_large': ('gpt2', 'dialogpt_large', 'microsoft/DialoGPT-large'),
    'mbert': ('encoder', 'mbert', 'google-bert/bert-base-multilingual-cased'),
    'xlmr_base': ('encoder', 'xlmr_base', 'FacebookAI/xlm-roberta-base'),
    'xlmr_large': ('encoder', 'xlmr_large', 'FacebookAI/xlm-roberta-large'),
    'encoder': ('encoder', '', ''),  # That of --config.model.from.
    'pretrained': ('mt5', '', ''),  # Likewise, of any family that writes texts.
}
# Objectives of models that write texts -> the family of the small fresh one.
WRITERS = {'generation': 'mt5', 'language_model': 'gpt2'}
# Most tokens of inputs and targets; targets of labels are no tokens.
LENGTHS = {**dict.fromkeys(WRITERS, (512, 128)), 'retrieval': (128, 128)}
TINY_LENGTHS = {**dict.fromkeys(WRITERS, (256, 64)), 'retrieval': (64, 64)}
# What chooses the best checkpoint. Suggestions, which the headline of retrieval scores, are made
# for the test set alone.
BEST = {**dict.fromkeys(WRITERS, presets.LOSS), 'retrieval': 'dev/mean/mrr'}


def get_config(variant: str = '') -> ConfigDict:
    """The config of one model and objective, on one task or mixture."""
    numbers = dict.fromkeys(('steps', 'batch_size', 'inputs', 'targets'), '')
    chosen = config_lib.variant(
        variant,
        ('tiny', *MODELS),
        **dict(mixture='', objective='', evaluate='', split='train', validation=None, test=None),
        **numbers,
        root='data',
    )
    size, mixture, root = chosen['size'], chosen['mixture'], chosen['root']
    if not mixture:
        raise errors.UserError(
            'configs/finetune.py needs the name of a task or mixture after the colon: '
            f'--config=configs/finetune.py:{size},mixture=NAME'
        )
    objective, tiny = _objective(size, chosen['objective']), size == 'tiny'
    length = chosen['steps'] or ('20epochs' if tiny else '10epochs')
    passes = epochs.count(length)
    steps = length if passes else _number(chosen, 'steps', 0)
    batch_size = _number(chosen, 'batch_size', 64 if objective == 'retrieval' else 32)
    longest = (TINY_LENGTHS if tiny else LENGTHS).get(objective, (128, 128))
    lengths = {
        side: _number(chosen, side, most)
        for side, most in zip(('inputs', 'targets'), longest, strict=True)
    }
    tasks = tuple(filter(None, chosen['evaluate'].split('+'))) or (mixture,)
    scenario = Scenario('', mixture, (mixture,), tasks, split=chosen['split'], select=tasks)

    c = config_lib.defaults()
    c.init_from = '' if tiny else MODELS[size][2]  # '' is fresh parameters.
    c.data = dict(root=root, vocabulary=c.init_from or f'{root}/{mixture}.model', sample=False)
    if tiny:
        c.data.vocabulary_size = 8000  # At most, of the one that is trained on the data.
    c.model = model(size, objective)
    c.objective = {
        'generation': presets.generation(),
        'language_model': presets.language_model(),
        'retrieval': presets.retrieval_by_cosine(),
        # The best of four over six languages, see docs/your_own.md.
        'tagging': dict(name='tagging', label_smoothing=0.0, word_piece='first_letter'),
    }.get(objective, dict(name=objective, label_smoothing=0.0))
    buckets = 1 if objective == 'retrieval' else 2 if tiny else 4
    c.batches = presets.unpacked(batch_size, lengths, length_buckets=buckets, equal_rows=True)
    if objective == 'retrieval':  # Its batches are of all lengths, as every reply is a negative.
        c.batches.widths = 3
    c.stages = dict(train=scenario.stage(steps, optimizer(size)))
    evaluate(c, scenario, f'{passes / 10:g}epochs' if passes else max(steps // 10, 1), chosen)
    c.log_every = 50
    # What the tasks to score learn from must be there; a baseline has no tag for each word.
    no_baselines = bool(chosen['evaluate']) or objective == 'tagging'
    c.baselines = () if no_baselines else ('most_frequent',)
    c.baseline_split = chosen['split']
    return c


def model(size: str, objective: str) -> dict[str, object]:
    """The block of a model: of those that are public as they are, with half precision."""
    tiny = size == 'tiny'
    if objective in WRITERS:
        if size == 'pretrained':
            return presets.brought_model('mt5')  # With the folder's own dropout.
        if tiny:
            return presets.fresh_model(WRITERS[objective], dropout_rate=0.1)
        return presets.public_model(*MODELS[size][:2])
    fields = dict(num_labels=0, classifier_dropout_rate=0.1)  # The labels are those of the data.
    if objective == 'retrieval':
        fields = presets.dual_encoder()
    if size == 'encoder':
        return presets.brought_model(**fields | dict(family=trained_families()[objective][0]))
    fields |= dict(
        family=trained_families()[objective][0],
        size='sample' if tiny else MODELS[size][1],
        dtype='float32' if tiny else 'bfloat16',
    )
    return presets.fresh_model(**fields, dropout_rate=0.1, attention_dropout_rate=0.1)


def evaluate(
    c: ConfigDict, scenario: Scenario, every: int | str, chosen: dict[str, str | None]
) -> None:
    """Sets what is scored, on the splits that are not left out after the colon."""
    # Retrieval chooses among other messages' replies; its test suggests those of training, too.
    dev, test = {
        **dict.fromkeys(WRITERS, ({}, dict(decode=True))),
        'retrieval': (dict(responses='', candidates=500), dict(responses=scenario.split)),
    }.get(c.objective.name, ({}, {}))
    best = BEST.get(c.objective.name, 'dev/mean/headline')
    both = dict(batch_size=64, lengths=c.batches.lengths)
    if isinstance(every, str):
        dev = dev | dict(max_share=0.2)
    presets.evaluate(c, scenario, every, best, dev=dev, test=test, **both)
    for name, split in (('dev', 'validation'), ('test', 'test')):
        if chosen[split] == '':
            del c.evals[name]
        else:  # One that is named must be there; others are scored where they are.
            optional = chosen[split] is None
            c.evals[name].update(split=chosen[split] or split, optional=optional)
    if 'dev' not in c.evals:
        c.best.score = ''  # The last step.


def optimizer(size: str) -> dict[str, object]:
    """Returns the usual optimizer of fine-tuning, from the papers of most models."""
    if size == 'tiny':
        return presets.adamw(1e-3, 0.1)
    if size.startswith(('mt5', 't5')):  # arXiv:2010.11934, section 4.1.
        return dict(name='adafactor', learning_rate=1e-3, schedule='constant', warmup_steps=0.0)
    if size == 'encoder':  # Small ones take more than the papers' base models.
        return presets.adamw(5e-5, 0.1, weight_decay=0.01)
    # arXiv:2001.08210, section 4.1, and of encoders arXiv:1810.04805, appendix A.3.
    writes = MODELS[size][0] != 'encoder'
    return presets.adamw(3e-5 if writes else 2e-5, 0.1, weight_decay=0.0 if writes else 0.01)


def _objective(size: str, objective: str) -> str:
    """Returns the objective of a model; UserError if it is neither given nor possible."""
    encoders = [name for name in trained_families() if name not in (*WRITERS, 'multi_view')]
    family = '' if size == 'tiny' else MODELS[size][0]
    of_kind = {'': [*WRITERS, *encoders], 'encoder': encoders}
    allowed = of_kind.get(family) or trainers(family)
    if size == 'pretrained':  # What the folder holds is not known yet.
        allowed, objective = [*WRITERS], objective or 'generation'
    if not objective and len(allowed) == 1:
        return allowed[0]
    if objective not in allowed:
        raise errors.UserError(
            f'{size} is trained for {", ".join(allowed)}'
            + (f', not {objective!r}' if objective else '')
            + f'; say which: --config=configs/finetune.py:{size},objective={allowed[0]},...'
        )
    return objective


def _number(chosen: dict[str, str], key: str, default: int) -> int:
    text = chosen[key]
    if not text:
        return default
    if not text.isdecimal() or int(text) < 1:
        raise errors.UserError(f'{key}={text} after the colon is not a whole number above 0')
    return int(text)
