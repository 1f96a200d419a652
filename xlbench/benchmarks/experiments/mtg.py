"""MTG's tables and figures (arXiv:2108.07140): four models in six scenarios, 35 experiments each.

Zero-shot transfer and the monolingual English model of a task are one run: both train on the same
English pairs, and it is scored on English and on the other languages. So a model has 32 trainings.
"""

from xlbench.benchmarks.experiments.recipe import (
    Command,
    Experiment,
    Model,
    PaperTable,
    Recipe,
    by_name,
)
from xlbench.benchmarks.mtg import MTG

MODELS = {
    'M-BERT': Model('mtg_bert2bert', 'mbert'),
    'XLM': Model(
        'mtg_bert2bert',
        'xlm_xnli15',
        ('--config.model.type_vocab_size=0',),
        'XLM is the model of 15 languages that section 4.1 of the paper describes (MLM and TLM); '
        'its appendix A names XLM-R, which is the size xlmr_large of the same config.',
    ),
    'mBART': Model('mtg_mbart', 'cc25'),
    'mT5': Model(
        'mtg_mt5', 'large',
        note='mT5 is of the size large: the paper does not name it, but counts in billions.',
    ),
}  # fmt: skip
_OTHERS = tuple(lang for lang in MTG.languages if lang != MTG.pivot)


def _tasks_flag(names: tuple[str, ...]) -> str:
    """The flag that scores these tasks on the test set, whatever the config has."""
    return '--config.evals.test.tasks=(' + ''.join(f"'{name}'," for name in names) + ')'


def _variants() -> dict[str, str]:
    """Name of an experiment -> what stands after the colon; 35 of them."""
    tasks, languages = MTG.tasks, MTG.languages
    return {
        **{f'mono-{t}-{s}': f'scenario=mono,task={t},source={s}' for t in tasks for s in languages},
        **{f'mono_multitask-{s}': f'scenario=mono_multitask,source={s}' for s in languages},
        **{f'multi-{t}': f'scenario=multi,task={t}' for t in tasks},
        'multi_multitask': 'scenario=multi_multitask',
        **{
            f'cross-{t}-{s}': f'scenario=cross,task={t},source={s}'
            for t in tasks
            for s in languages
        },
        **{f'zero_shot-{t}': f'scenario=zero_shot,task={t}' for t in tasks},
    }


def _shared(name: str) -> str:
    """The run that an experiment's results are of: English alone is that of zero-shot transfer."""
    scenario, *rest = name.split('-')
    return f'zero_shot-{rest[0]}' if scenario == 'mono' and rest[1] == MTG.pivot else name


def _commands(model: str) -> list[Command]:
    made = []
    for name, variant in _variants().items():
        if _shared(name) != name:
            continue
        flags: tuple[str, ...] = ()
        if name.startswith('zero_shot'):
            task = name.split('-')[1]
            flags = (_tasks_flag(tuple(MTG.task_name(task, 'en', t) for t in MTG.languages)),)
        sized = {'sample': MODELS[model].sample}
        configs = MODELS[model].configs(variant)
        made.append(Command(f'{model}-{name}', configs=configs, flags=flags, sized=sized))
    return made


def _experiment(model: str, name: str) -> Experiment:
    scenario, *rest = name.split('-')
    mixture = ''
    if scenario == 'zero_shot' or _shared(name) != name:
        mixture = MTG.scenario(scenario, *rest).mixture
    label = f'{model} {scenario}'
    return Experiment(
        f'{model}-{name}', model, label, (f'{model}-{_shared(name)}',), mixture
    )


def _translated(model: str, task: str, lang: str) -> Command:
    """Questions and the like that are written in English and then translated (section 4.5)."""
    return Command(
        f'{model}-translated-{task}-{lang}',
        'chain',
        flags=(
            f'{{{model}-zero_shot-{task}}}',
            f'translate:{{engine OPUS-MT {lang}}}',
            f'--task={MTG.task_name(task, MTG.pivot, lang)}',
            f'--system={model} translated',
        ),
        folder=f'{model}-translated',
        limited=True,
    )


def _translated_experiment(model: str) -> Experiment:
    commands = tuple(_translated(model, t, lang).name for t in MTG.tasks for lang in _OTHERS)
    return Experiment(f'{model}-translated', model, f'{model} translated', commands)


def _named(
    *scenarios: str, models: tuple[str, ...] = tuple(MODELS), about: str = ''
) -> tuple[str, ...]:
    """Names of experiments of these scenarios, of one task or source if `about` says so."""
    return tuple(
        f'{model}-{name}'
        for model in models
        for name in _variants()
        if name.split('-')[0] in scenarios and (not about or about in name.split('-')[1:])
    )


_RATINGS = (
    'it needs rated texts, and those of the paper are not published; python -m xlbench.annotate '
    'make has the texts of runs rated, and python -m xlbench.report RUN RUN ... --table=3 '
    '--ratings=FILE (or --figure=2,7) sets it'
)
_JUDGES = (
    'people rate the texts: python -m xlbench.annotate make RUN RUN ... --tasks=TASK --judges=A,B '
    'makes their pages, python -m xlbench.annotate score reads them, and this command with '
    '--ratings=FILE sets the table'
)

RECIPE = Recipe(
    'mtg',
    by_name(
        [command for model in MODELS for command in _commands(model)]
        + [
            _translated(model, task, lang)
            for model in MODELS
            for task in MTG.tasks
            for lang in _OTHERS
        ]
    ),
    by_name(
        [_experiment(model, name) for model in MODELS for name in _variants()]
        + [_translated_experiment(model) for model in MODELS]
    ),
    (
        PaperTable('table 1', 'tasks and corpora', instead='it describes the corpora'),
        PaperTable(
            'table 2', 'sizes of the data',
            instead='python -m xlbench.data statistics counts the data that is there',
        ),
        PaperTable('table 3', 'regressors and human ratings', instead=_RATINGS),
        PaperTable('table 4', 'zero-shot transfer, averages', _named('zero_shot')),
        PaperTable(
            'table 5', 'human ratings of titles',
            _named('mono', 'multi', 'cross', 'zero_shot', about='tg'),
            instead=_JUDGES, is_judged=True,
        ),
        PaperTable(
            'table 6', 'sizes by threshold of the back-translation',
            instead='python -m xlbench.tasks.mtg_build counts it while it builds the data',
        ),
        PaperTable(
            'table 7', 'stage 1 against stage 2, questions, mBART',
            (
                *_named('mono', 'multi', 'cross', 'zero_shot', models=('mBART',), about='qg'),
                *_named('mono_multitask', 'multi_multitask', models=('mBART',)),
            ),
            tasks=('qg',),
        ),
        *(
            PaperTable(
                f'table {number}', f'human ratings of {task}',
                (
                    *_named('mono', 'multi', 'cross', 'zero_shot', about=task),
                    *_named('mono_multitask', 'multi_multitask'),
                ),
                instead=_JUDGES, is_judged=True,
            )
            for number, task in ((8, 'qg'), (9, 'tg'), (10, 'sg'))
        ),
        PaperTable('table 11', 'monolingual', _named('mono')),
        PaperTable('table 12', 'multilingual', _named('multi')),
        PaperTable('table 13', 'monolingual multitask', _named('mono_multitask')),
        PaperTable('table 14', 'multilingual multitask', _named('multi_multitask')),
        PaperTable('table 15', 'cross-lingual from English', _named('cross', about='en')),
        PaperTable('table 16', 'cross-lingual from German', _named('cross', about='de')),
        PaperTable('table 17', 'cross-lingual from French', _named('cross', about='fr')),
        PaperTable('table 18', 'cross-lingual from Spanish', _named('cross', about='es')),
        PaperTable('table 19', 'zero-shot transfer', _named('zero_shot')),
        PaperTable('figure 1', 'an example', instead='illustration, not reproducible'),
        PaperTable('figure 2', 'metrics and human ratings', instead=_RATINGS),
        PaperTable(
            'figure 3', 'four models in four settings',
            _named('mono', 'multi', 'mono_multitask', 'multi_multitask'),
        ),
        PaperTable('figure 4', 'cross-lingual matrices', _named('mono', 'cross')),
        PaperTable(
            'figure 5', 'stage 1 against stage 2, questions, mBART',
            (
                *_named('mono', 'multi', 'cross', 'zero_shot', models=('mBART',), about='qg'),
                *_named('mono_multitask', 'multi_multitask', models=('mBART',)),
            ),
            tasks=('qg',),
        ),
        PaperTable(
            'figure 6', 'cross-lingual against generated, then translated',
            (
                *_named('cross', about='en'),
                *_named('mono', about='en'),  # What is translated.
                *(f'{model}-translated' for model in MODELS),
            ),
        ),
        PaperTable('figure 7', 'all metrics and human ratings', instead=_RATINGS),
    ),
    engines={'OPUS-MT': {'paper': 'Helsinki-NLP/opus-mt-en-{lang}'}},
    stand_ins={'OPUS-MT': 'Google Trans.'},
    notes={name: model.note for name, model in MODELS.items() if model.note},
)  # fmt: skip
