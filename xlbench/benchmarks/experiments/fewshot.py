"""The tables and figures of few-shot transfer (arXiv:2012.15682): a sweep for each of six tasks.

All sweeps of a task adapt one source-trained model. The sample corpora have all six tasks in four
languages: sweeps that the paper narrows to others take the three that are not English.
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
_CLASSIFIED = ('mldoc', 'marc', 'xnli', 'pawsx')  # In the order of table 2.
_SIX = 'languages=ru+es+vi+tr+ta+mr'
# Tables 4 and 11 (task -> shots and languages): adaptation without source training.
_UNTRAINED = {
    'mldoc': ('shots=1+8',), 'pawsx': ('shots=1+8',),
    'udpos': ('shots=1+4', _SIX), 'panx': ('shots=1+4', _SIX),
}  # fmt: skip


def _sweep(
    name: str, task: str, *variant: str, flags: tuple[str, ...] = (), seeded: bool = True
) -> Command:
    """A sweep over the source model of a task.

    Args:
        name: Of the command.
        task: One of the benchmark's.
        *variant: Keys of the config; _SIX, which the sample lacks, is left out there.
        flags: Further ones.
        seeded: Whether each seed has a run of its own.
    """
    configs = _SWEEP.configs(','.join((f'task={task}', *variant)))
    configs['sample'] = configs['sample'].replace(f',{_SIX}', '')
    flags = (f'--config.source_workdir={{source-{task}}}', *flags)
    return Command(name, 'fewshot', configs, flags, seeded=seeded)


def _commands() -> list[Command]:
    made = []
    for task in FEWSHOT.tasks:
        configs = _SOURCE.configs(f'task={task}')
        made.append(Command(f'source-{task}', configs=configs, seeded=False))
        made += [
            Command(
                f'source-{task}-{rate}', configs=configs, seeded=False,
                flags=(f'--config.stages.source.optimizer.learning_rate={rate}',),
            )
            for rate in _RATES
        ]  # fmt: skip
        made.append(_sweep(f'sweep-{task}', task))
    methods = 'methods=fc+fc_pooler+cos_pooler+fc_reset_pooler'
    made.append(_sweep('methods-marc', 'marc', methods, 'shots=1+8'))
    made += [
        _sweep(f'untrained-{task}', task, 'starts=none', *narrowed)
        for task, narrowed in _UNTRAINED.items()
    ]
    one_bucket, seeds = '--config.adapt.buckets=1', ','.join(str(seed) for seed in range(40))
    # Of table 5, whose bucket is one: its parameters stay.
    kept = (one_bucket, '--config.adapt.keep_params=1')
    narrowed = ('languages=de', 'shots=1', 'methods=full')
    made.append(_sweep('attention-marc', 'marc', *narrowed, flags=kept))
    narrowed = ('languages=de+es', 'shots=1', 'methods=full')  # Of figure 1: 40 seeds.
    by_seed = (one_bucket, f'--config.adapt.seeds=({seeds})')
    made += [
        _sweep(f'seeds-{task}', task, *narrowed, flags=by_seed, seeded=False)
        for task in ('mldoc', 'marc')
    ]
    return made


def _experiment(name: str, task: str) -> Experiment:
    return Experiment(name, task, task, (name,))


_SWEEPS = {task: f'sweep-{task}' for task in FEWSHOT.tasks}
_SEARCHED = tuple(f'source-{task}-{rate}' for task in FEWSHOT.tasks for rate in _RATES)
_ILLUSTRATION = 'it describes the data; no run makes it'

RECIPE = Recipe(
    'fewshot',
    by_name(_commands()),
    by_name(
        [_experiment(name, task) for task, name in _SWEEPS.items()]
        + [_experiment(name, name.split('-')[1]) for name in _SEARCHED]
        + [_experiment(name, 'marc') for name in ('methods-marc', 'attention-marc')]
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
            'table 5', 'tokens with the largest change of attention', ('attention-marc',),
            ('attention',),
        ),
        PaperTable(
            'table 6', 'methods of adaptation', (_SWEEPS['marc'], 'methods-marc'), ('methods',),
        ),
        PaperTable(
            'table 7', 'source training', (*_SWEEPS.values(), *_SEARCHED), ('source',)
        ),
        PaperTable('table 8', 'examples', instead=_ILLUSTRATION),
        PaperTable('table 9', 'languages and their features', instead=_ILLUSTRATION),
        PaperTable(
            'table 10', 'confusions of MARC, the numbers of figure 5', (_SWEEPS['marc'],),
            ('figure5',),
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
        ),
        PaperTable(
            'figure 2', 'gains of tagging by language', (_SWEEPS['panx'], _SWEEPS['udpos']),
            ('figure2',),
        ),
        PaperTable('figure 3', 'buckets and what they improve', (_SWEEPS['udpos'],), ('figure3',)),
        PaperTable('figure 4', 'improved words in buckets', (_SWEEPS['udpos'],), ('figure4',)),
        PaperTable('figure 5', 'confusions', (_SWEEPS['marc'],), ('figure5',)),
        PaperTable('figure 6', 'learning curve', (_SWEEPS['marc'],), ('figure6',)),
    ),
)  # fmt: skip
