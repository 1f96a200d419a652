"""The tables and figures of few-shot transfer (arXiv:2012.15682): a sweep for each of six tasks.

All sweeps of a task adapt one source-trained model. The sample corpora have two of the tasks, and
one of these takes the place of a task that a table is about: xnli of MARC, udpos of NER.
"""

from xlbench.benchmarks.experiments.recipe import (
    Command,
    Experiment,
    Model,
    PaperTable,
    Recipe,
    by_name,
)
from xlbench.benchmarks.fewshot import FEWSHOT

_SOURCE = Model('fewshot_source', 'mbert')
_SWEEP = Model('fewshot', 'mbert')
_RATES = ('1e-5', '3e-5', '5e-5', '7e-5')  # That the paper searches (appendix A.4).
_SAMPLED = ('xnli', 'udpos')
_NOT_SAMPLED = {'sample': 'the sample corpora have udpos and xnli alone'}
_CLASSIFIED = ('mldoc', 'marc', 'xnli', 'pawsx')  # In the order of table 2.
_SIX = 'languages=ru+es+vi+tr+ta+mr'
# Tables 4 and 11 (task -> languages and shots): adaptation without source training.
_UNTRAINED = {
    'mldoc': 'shots=1+8', 'pawsx': 'shots=1+8',
    'udpos': f'{_SIX},shots=1+4', 'panx': f'{_SIX},shots=1+4',
}  # fmt: skip


def _missing(task: str) -> dict[str, str]:
    return {} if task in _SAMPLED else _NOT_SAMPLED


def _sweep(name: str, task: str, variant: str = '', **sizes: str) -> Command:
    """A sweep over the source model of a task; `sizes` are other variants at one size."""
    whole = f'task={task}' + (f',{variant}' if variant else '')
    configs = _SWEEP.configs(whole)
    sampled = sizes.get('sample')
    if sampled:
        configs['sample'] = _SWEEP.configs(sampled)['sample']
        task_there = sampled.partition(',')[0].removeprefix('task=')
    else:
        task_there = task
    return Command(
        name, 'fewshot', configs=configs,
        sized={
            'sample': (f'--config.source_workdir={{source-{task_there}}}',),
            'paper': (f'--config.source_workdir={{source-{task}}}',),
        },
        missing=_missing(task_there),
    )  # fmt: skip


def _commands() -> list[Command]:
    made = []
    for task in FEWSHOT.tasks:
        missing, variant = _missing(task), f'task={task}'
        configs = _SOURCE.configs(variant)
        made.append(Command(f'source-{task}', configs=configs, missing=missing, seeded=False))
        made += [
            Command(
                f'source-{task}-{rate}', configs=configs, missing=missing, seeded=False,
                flags=(f'--config.stages.source.optimizer.learning_rate={rate}',),
            )
            for rate in _RATES
        ]  # fmt: skip
        made.append(_sweep(f'sweep-{task}', task))
    methods = 'methods=fc+fc_pooler+cos_pooler+fc_reset_pooler'
    sampled = f'task=xnli,{methods},shots=1+4'
    made.append(_sweep('methods-marc', 'marc', f'{methods},shots=1+8', sample=sampled))
    for task, narrowed in _UNTRAINED.items():
        sampled = f'task={task},starts=none,shots=1+4' if task in _SAMPLED else ''
        made.append(
            _sweep(f'untrained-{task}', task, f'starts=none,{narrowed}', **_sample(sampled))
        )
    narrowed = 'languages=de+es,shots=1'
    sampled = {'marc': f'task=xnli,methods=full,{narrowed}'}
    made += [
        _with_seeds(_sweep(f'seeds-{task}', task, narrowed, **_sample(sampled.get(task, ''))))
        for task in ('mldoc', 'marc')
    ]
    return made


def _sample(variant: str) -> dict[str, str]:
    return {'sample': variant} if variant else {}


def _with_seeds(command: Command) -> Command:
    """A sweep of figure 1: one bucket, 40 seeds."""
    seeds = ','.join(str(seed) for seed in range(40))
    flags = ('--config.adapt.buckets=1', f'--config.adapt.seeds=({seeds})')
    return Command(
        command.name, command.program, command.configs, flags, command.sized,
        missing=command.missing, seeded=False,
    )  # fmt: skip


def _experiment(name: str, task: str) -> Experiment:
    return Experiment(name, task, task, (name,))


_SWEEPS = {task: f'sweep-{task}' for task in FEWSHOT.tasks}
_XNLI = (_SWEEPS['xnli'],)  # In the place of MARC in the sample.
_SEARCHED = tuple(f'source-{task}-{rate}' for task in FEWSHOT.tasks for rate in _RATES)
_ILLUSTRATION = 'it describes the data; no run makes it'

RECIPE = Recipe(
    'fewshot',
    by_name(_commands()),
    by_name(
        [_experiment(name, task) for task, name in _SWEEPS.items()]
        + [_experiment(name, name.split('-')[1]) for name in _SEARCHED]
        + [_experiment('methods-marc', 'marc')]
        + [_experiment(f'untrained-{task}', task) for task in _UNTRAINED]
        + [_experiment(f'seeds-{task}', task) for task in ('mldoc', 'marc')]
    ),
    (
        PaperTable('table 1', 'the tasks', tuple(_SWEEPS.values()), ('about',)),
        PaperTable(
            'table 2', 'classification by shots', tuple(_SWEEPS[t] for t in _CLASSIFIED),
            ('scores',),
        ),
        PaperTable(
            'table 3', 'what gains go with', (_SWEEPS['panx'], _SWEEPS['udpos']), ('correlations',)
        ),
        PaperTable(
            'table 4', 'what source training is worth',
            tuple(n for t in _UNTRAINED for n in (_SWEEPS[t], f'untrained-{t}')), ('starts',),
        ),
        PaperTable(
            'table 5', 'tokens with the largest change of attention', (_SWEEPS['marc'],),
            instead='python -m xlbench.fewshot.attention RUNS/sweep-marc --lang=de --from=2 --to=1 '
            'makes it of a sweep with --config.adapt.keep_params=1',
        ),
        PaperTable(
            'table 6', 'methods of adaptation', (_SWEEPS['marc'], 'methods-marc'), ('methods',),
            sampled=(_SWEEPS['xnli'], 'methods-marc'),
        ),
        PaperTable(
            'table 7', 'source training', (*_SWEEPS.values(), *_SEARCHED), ('source',)
        ),
        PaperTable('table 8', 'examples', instead=_ILLUSTRATION),
        PaperTable('table 9', 'languages and their features', instead=_ILLUSTRATION),
        PaperTable(
            'table 10', 'confusions of MARC, the numbers of figure 5', (_SWEEPS['marc'],),
            ('figure5',), sampled=_XNLI,
        ),
        PaperTable(
            'table 11', 'without source training',
            tuple(n for t in _UNTRAINED for n in (_SWEEPS[t], f'untrained-{t}')), ('starts',),
        ),
        PaperTable('table 12', 'parts of speech by shots', (_SWEEPS['udpos'],), ('scores',)),
        PaperTable('table 13', 'named entities by shots', (_SWEEPS['panx'],), ('scores',)),
        PaperTable(
            'table 14', 'lexical overlap', (_SWEEPS['panx'], _SWEEPS['udpos']), ('overlap',)
        ),
        PaperTable(
            'figure 1', 'seeds and buckets',
            (_SWEEPS['mldoc'], 'seeds-mldoc', _SWEEPS['marc'], 'seeds-marc'), ('figure1',),
            sampled=(*_XNLI, 'seeds-marc'),
        ),
        PaperTable(
            'figure 2', 'gains of tagging by language', (_SWEEPS['panx'], _SWEEPS['udpos']),
            ('figure2',),
        ),
        PaperTable('figure 3', 'buckets and what they improve', (_SWEEPS['udpos'],), ('figure3',)),
        PaperTable('figure 4', 'improved words in buckets', (_SWEEPS['udpos'],), ('figure4',)),
        PaperTable('figure 5', 'confusions', (_SWEEPS['marc'],), ('figure5',), sampled=_XNLI),
        PaperTable('figure 6', 'learning curve', (_SWEEPS['marc'],), ('figure6',), sampled=_XNLI),
    ),
)  # fmt: skip
