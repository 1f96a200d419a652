"""MRS's tables and figures (arXiv:2106.02017): 21 experiments of a retriever, 20 of the generator.

Ten monolingual models, nine on machine-translated pairs, a zero-shot and a multilingual one. The
monolingual English model is the zero-shot one, scored on English as well: 20 trainings. The paper
has no zero-shot transfer of the generator.

What its section 6 proposes without trying it is in two tables of ours: training on English pairs
and translated ones, a generator's candidates ranked by the retriever or by the message that a reply
suggests, diverse beams, and an adapter for each language.
"""

import dataclasses

from xlbench.benchmarks.experiments.recipe import (
    Command,
    Experiment,
    Model,
    PaperTable,
    Recipe,
    by_name,
)
from xlbench.benchmarks.mrs import MRS
from xlbench.benchmarks.replies import SETTING_TITLES

MODELS = {
    'mBERT': Model('mrs_retriever', 'mbert'),
    'XLM-R': Model('mrs_retriever', 'xlmr', ('--config.model.num_layers=3',)),
    'Unicoder-xDAE': Model(
        'mrs_generator', 'unicoder', small='sample_unicoder',
        note='Unicoder-xDAE needs models/unicoder_xdae; see docs/checkpoints.md.',
    ),
}  # fmt: skip
_TASKS = {'mBERT': 'retrieval', 'XLM-R': 'retrieval', 'Unicoder-xDAE': 'generation'}
_MIXED = ('mBERT', 'Unicoder-xDAE')  # Those that also train on both kinds of pairs.
_OTHERS = tuple(lang for lang in MRS.languages if lang != MRS.pivot)


def _variants(model: str) -> dict[str, str]:
    """Name of an experiment -> what stands after the colon."""
    zero_shot = {'zero_shot': 'scenario=zero_shot'} if _has_zero_shot(model) else {}
    mixed = _OTHERS if model in _MIXED else ()
    return {
        **{f'mono-{lang}': f'scenario=mono,source={lang}' for lang in MRS.languages},
        **zero_shot,
        **{f'mt-{lang}': f'scenario=mt,source={lang}' for lang in _OTHERS},
        'multi': 'scenario=multi',
        **{f'mixed-{lang}': f'scenario=mixed,source={lang}' for lang in mixed},
    }


def _has_zero_shot(model: str) -> bool:
    return _TASKS[model] == 'retrieval'


def _is_shared(model: str, name: str) -> bool:
    """Returns whether an experiment's results are those of the zero-shot run."""
    return name == _ENGLISH and _has_zero_shot(model)


_ENGLISH = f'mono-{MRS.pivot}'


def _command(model: str, name: str, variant: str) -> Command:
    flags: tuple[str, ...] = ()
    if name == 'zero_shot':  # In all languages, English too, which is the monolingual cell.
        scored = (MRS.task_name(_TASKS[model], lang) for lang in MRS.languages)
        flags = ('--config.evals.test.tasks=(' + ''.join(f"'{task}'," for task in scored) + ')',)
    made = MODELS[model]
    return Command(
        f'{model}-{name}', configs=made.configs(variant), flags=flags, sized={'sample': made.sample}
    )


def _experiment(model: str, name: str) -> Experiment:
    label = SETTING_TITLES[name.partition('-')[0]]
    if not _is_shared(model, name):
        return Experiment(f'{model}-{name}', model, label, (f'{model}-{name}',))
    mixture = MRS.scenario('mono', _TASKS[model], MRS.pivot).mixture
    return Experiment(f'{model}-{name}', model, label, (f'{model}-zero_shot',), mixture)


_RETRIEVER, _GENERATOR = 'mBERT-multi', 'Unicoder-xDAE-multi'
_REVERSE = 'Unicoder-xDAE-reverse'  # Writes the message to a reply.
# What replaces the three best of a beam: name of the experiment -> flags of xlbench.evaluate.
_RANKED = {
    'rerank': (f'--rerank={{{_RETRIEVER}}}',),
    'mmi': (f'--mmi_model={{{_REVERSE}}}',),
    'diverse': ('--num_groups=3', '--diversity_penalty=1', '--num_return=3'),
}
_LORA = ('--config.init_from={' + _GENERATOR + '}', '--config.lora.rank=8')


def _further() -> tuple[list[Command], list[Experiment]]:
    """The multilingual generator's candidates ranked in other ways, and adapters of languages."""
    model = 'Unicoder-xDAE'
    commands = [_command(model, 'reverse', 'scenario=multi,task=reverse')]
    experiments = []
    before: tuple[str, ...] = ()
    for name, flags in _RANKED.items():
        # They write into one workdir, so that they wait for each other.
        ranked = Command(
            f'{model}-{name}', 'evaluate', folder=_GENERATOR, after=before,
            flags=(f'--workdir={{{_GENERATOR}}}', '--num_beams=6', *flags),
        )  # fmt: skip
        commands.append(ranked)
        experiments.append(Experiment(ranked.name, model, name, (_GENERATOR, ranked.name)))
        before = (ranked.name,)
    for lang in MRS.languages:
        adapter = _command(model, f'adapter-{lang}', f'scenario=mono,source={lang}')
        adapter = dataclasses.replace(adapter, flags=_LORA)
        commands.append(adapter)
        experiments.append(Experiment(adapter.name, model, 'adapters', (adapter.name,)))
    return commands, experiments


def _named(model: str, *settings: str) -> tuple[str, ...]:
    return tuple(
        f'{model}-{name}' for name in _variants(model) if name.partition('-')[0] in settings
    )


_FOUR = ('mono', 'zero_shot', 'mt', 'multi')
_FURTHER_COMMANDS, _FURTHER = _further()
_ILLUSTRATION = 'illustration, not reproducible'

RECIPE = Recipe(
    'mrs',
    by_name(
        [
            _command(model, name, variant)
            for model in MODELS
            for name, variant in _variants(model).items()
            if not _is_shared(model, name)
        ]
        + _FURTHER_COMMANDS
    ),
    by_name(
        [_experiment(model, name) for model in MODELS for name in _variants(model)] + _FURTHER
    ),
    (
        PaperTable(
            'table 1', 'sizes of the data',
            instead='python -m xlbench.data statistics counts the data that is there',
        ),
        PaperTable(
            'table 2', 'replies of both models to a few messages',
            (f'mBERT-{_ENGLISH}', f'Unicoder-xDAE-{_ENGLISH}'),
        ),
        PaperTable('table 3', 'retrieval, mBERT', _named('mBERT', *_FOUR)),
        PaperTable('table 4', 'generation', _named('Unicoder-xDAE', 'mono', 'mt', 'multi')),
        PaperTable('table 5', 'retrieval, XLM-R', _named('XLM-R', *_FOUR)),
        PaperTable(
            'table section6-retrieval', 'English pairs, translated pairs, and both, mBERT',
            _named('mBERT', 'zero_shot', 'mt', 'mixed'), variants=True,
        ),
        PaperTable(
            'table section6-generation',
            'translated pairs, and English ones with them; ranked candidates, adapters',
            (
                *_named('Unicoder-xDAE', 'mt', 'mixed', 'multi'),
                *(experiment.name for experiment in _FURTHER),
            ),
            variants=True,
        ),
        PaperTable('figure 1', 'an example', instead=_ILLUSTRATION),
        PaperTable(
            'figure 2', 'both models in English (without the judgement of people)',
            (f'mBERT-{_ENGLISH}', f'Unicoder-xDAE-{_ENGLISH}'),
        ),
    ),
    notes={name: model.note for name, model in MODELS.items() if model.note},
)  # fmt: skip
