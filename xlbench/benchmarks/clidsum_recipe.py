"""The commands behind ClidSum's tables: pipelines, end-to-end systems and mDialBART's ablations.

A pipeline is a chain of a summariser and a translator, each of which is trained once. The user has
to provide Google's translations. A row of table 3 has up to four cells, each of a run of its own.
"""

import dataclasses
import itertools

from xlbench.benchmarks.clidsum import CLIDSUM
from xlbench.benchmarks.recipe import Command, Experiment, Model, Recipe
from xlbench.benchmarks.translation import TRANSLATION

_CORPORA = {'xsamsum': 'XSAMSum', 'xmediasum40k': 'XMediaSum40k'}  # With their folders.
_INTERVIEWS = 'xmediasum40k'
_TARGETS = tuple(lang for lang in CLIDSUM.languages if lang != CLIDSUM.pivot)
_SPLITS = ('train', 'val', 'test')
_SUMMARISERS = {  # Of the paper -> (name in folders, `model` of clidsum_summariser)
    'PEGASUS': ('pegasus', 'pegasus'),
    'T5': ('t5', 't5'),
    'BART': ('bart', 'bart'),
    'mBART': ('mbart', 'mbart'),
    'MV-BART': ('mvbart', 'mvbart'),
    'BART(D_ALL)': ('bart_d_all', 'bart'),
}
_TRANSLATORS = {  # Of the paper -> (name in folders, stage of a chain)
    'Trans-WMT': ('trans_wmt', '{{trans_wmt-{lang}}}'),
    'OPUS-MT': ('opus_mt', '{{engine OPUS-MT {lang}}}'),
    'Google Trans.': ('google_trans', '{{engine Google Trans. {lang}}}'),
}
_MARKED = '{runs}/marked'  # A root of data: dialogues with DialoGPT's marks.
_END_TO_END = Model('clidsum_mbart', 'large')
_SUMMARISER = Model('clidsum_summariser', 'large')
_MDIALBART = Model('clidsum_mdialbart', 'large')
_WMT = Model('translation', 'base')
_TAGGER = Model('fewshot_source', 'mbert')
_ACTIONS = '{runs}/actions'  # A root of data: the sample, with the triples of the tagger.
_WORDS = tuple(CLIDSUM.pretrained)
_WHOLE = '+'.join(_WORDS)

# Of the data that translators read: that of the end-to-end model, for which it is prepared anyway.
_VOCABULARIES = {
    'sample': ('--vocabulary=sample_clidsum',),
    'paper': ('--vocabulary=facebook/mbart-large-50-many-to-many-mmt',),
}
# Writes the sample's corpora, for commands that read them and would not make them.
_SAMPLE = Command(
    'sample', 'prepare', sizes=('sample',), seeded=False,
    flags=(
        '--sample', '--root={root}', '--vocabulary=sample_clidsum',
        f'--mixture={CLIDSUM.task_name(_INTERVIEWS, CLIDSUM.pivot)}',
    ),
)  # fmt: skip
_INTERVIEWS_OF_PRETRAINING = 'clidsum/MediaSum424k/news_dialogue'
# Action infilling reads triples. At the size `paper` a file that is there, such as OpenIE's, stays.
_TRIPLES = (
    Command('tagger', configs=_TAGGER.configs('task=udpos'), seeded=False),
    dataclasses.replace(
        _SAMPLE, name='actions',
        flags=tuple(flag.replace('{root}', _ACTIONS) for flag in _SAMPLE.flags),
    ),
    Command(
        'triples', 'triples', after=('actions',), flags=('--tagger={tagger}',), seeded=False,
        sized={
            'sample': (f'{_ACTIONS}/{_INTERVIEWS_OF_PRETRAINING}.json',),
            'paper': (
                f'{{root}}/{_INTERVIEWS_OF_PRETRAINING}.json',
                f'--output={{root}}/{_INTERVIEWS_OF_PRETRAINING}.triples.tsv',
            ),
        },
    ),
)  # fmt: skip


def _file(corpus: str, split: str, root: str = '{root}') -> str:
    return f'{root}/clidsum/{_CORPORA[corpus]}/{split}.json'


def _translator(name: str, lang: str) -> str:
    return _TRANSLATORS[name][1].format(lang=lang)


# ------------------------------------------------------------------------------------- pipelines


def _summarisers() -> list[Command]:
    """One for each model and corpus, and what two of them read besides the official files."""
    made = []
    for corpus in _CORPORA:
        made.append(
            Command(
                f'views-{corpus}', 'segment', sizes=('paper',), seeded=False,
                flags=tuple(_file(corpus, split) for split in _SPLITS),
            )
        )  # fmt: skip
        made += [
            Command(
                f'marks-{corpus}-{split}', 'mark_dialogues', seeded=False,
                flags=(
                    '--model=microsoft/DialoGPT-large',
                    f'--input={_file(corpus, split)}',
                    f'--output={_file(corpus, split, _MARKED)}',
                ),
                missing={'sample': 'its marks are made by a DialoGPT, and the sample has none'},
            )
            for split in _SPLITS
        ]  # fmt: skip
        for name, (word, model) in _SUMMARISERS.items():
            after, flags = (), ()
            if name == 'MV-BART':
                after = (f'views-{corpus}',)
            elif name == 'BART(D_ALL)':
                after = tuple(f'marks-{corpus}-{split}' for split in _SPLITS)
                flags = (f'--config.data.root={_MARKED}',)
            configs = _SUMMARISER.configs(f'model={model},corpus={corpus}')
            made.append(Command(f'{word}-{corpus}', configs=configs, flags=flags, after=after))
    return made


def _wmt() -> list[Command]:
    return [
        Command(f'trans_wmt-{lang}', configs=_WMT.configs(f'target={lang}'), seeded=False)
        for lang in _TARGETS
    ]


def _chain(summariser: str, translator: str, corpus: str, lang: str) -> Command:
    word, _ = _SUMMARISERS[summariser]
    system = f'{word}-{_TRANSLATORS[translator][0]}'
    flags = [
        f'{{{word}-{corpus}}}',
        f'translate:{_translator(translator, lang)}',
        f'--task={CLIDSUM.task_name(corpus, CLIDSUM.pivot, lang)}',
        f'--system={summariser} + {translator}',
    ]
    if summariser == 'MV-BART':
        flags.append(f'--input_task={CLIDSUM.task_name(f"{corpus}views", CLIDSUM.pivot)}')
    elif summariser == 'BART(D_ALL)':
        flags.append(f'--root={_MARKED}')
    name = f'{system}-{corpus}-{lang}'
    return Command(name, 'chain', flags=tuple(flags), folder=system, limited=True)


def _sum_trans() -> tuple[list[Command], list[Experiment]]:
    commands, experiments = [], []
    for summariser, translator in itertools.product(_SUMMARISERS, _TRANSLATORS):
        name = f'{summariser} + {translator}'
        chains = [_chain(summariser, translator, *pair) for pair in _cells()]
        commands += chains
        cells = tuple(chain.name for chain in chains)
        experiments.append(Experiment(name, name, name, cells, {'model': name}))
    return commands, experiments


def _trans_sum() -> tuple[list[Command], list[Experiment]]:
    """Systems that translate first; each translator's dialogues have a summariser of their own."""
    commands, experiments = [], []
    for translator, (word, _) in _TRANSLATORS.items():
        name, cells = f'{translator} + mBART', []
        for corpus, lang in _cells():
            made = _translated_first(translator, word, corpus, lang)
            commands += made
            cells.append(made[-1].name)
        experiments.append(Experiment(name, name, name, tuple(cells), {'model': name}))
    return commands, experiments


def _translated_first(translator: str, word: str, corpus: str, lang: str) -> list[Command]:
    """The translated dialogues, the model that sums them up, and the chain of both."""
    engine, root = _translator(translator, lang), f'{{runs}}/{word}-dialogues'
    task = CLIDSUM.task_name(corpus, CLIDSUM.pivot, lang)
    cell = f'{corpus}-{lang}'
    translations = [
        Command(
            f'{word}-dialogues-{cell}-{split}', 'translate', seeded=False, limited=True,
            after=(_SAMPLE.name,), sized=_VOCABULARIES,
            flags=(
                f'--engine={engine}', f'--source_lang={CLIDSUM.pivot}', f'--target_lang={lang}',
                f'--input_task={task}', f'--split={split}', '--root={root}',
                f'--output={root}/clidsum/{_CORPORA[corpus]}/{name}.translated.{lang}.jsonl',
            ),
        )
        for split, name in zip(('train', 'validation', 'test'), _SPLITS, strict=True)
    ]  # fmt: skip
    variant = f'scenario=mono,corpus={corpus}translated,source={lang}'
    summariser = Command(
        f'{word}-dialogues-mbart-{cell}',
        configs=_END_TO_END.configs(variant),
        flags=(f'--config.data.root={root}',),
        sized={
            'sample': (
                '--config.data.sample=False',
                '--config.data.vocabulary={root}/sample_clidsum.model',
            )
        },
        after=tuple(command.name for command in translations),
    )
    chain = Command(
        f'{word}-mbart-{cell}', 'chain', folder=f'{word}-mbart', sized=_VOCABULARIES, limited=True,
        flags=(
            f'translate:{engine}', f'{{{summariser.name}}}', f'--task={task}',
            f'--system={translator} + mBART', '--root={root}',
        ),
    )  # fmt: skip
    return [*translations, summariser, chain]


def _cells() -> list[tuple[str, str]]:
    return list(itertools.product(_CORPORA, _TARGETS))


def _translators() -> tuple[list[Command], list[Experiment]]:
    """Experiments of table 4, on the test set of WMT20."""
    commands, experiments = [], []
    for name, (word, _) in _TRANSLATORS.items():
        cells = [f'trans_wmt-{lang}' for lang in _TARGETS]
        if word != 'trans_wmt':
            scored = [
                Command(
                    f'{word}-wmt20-{lang}', 'chain', folder=f'{word}-wmt20', limited=True,
                    flags=(
                        f'translate:{_translator(name, lang)}',
                        f'--task={TRANSLATION.task_name("wmt20", CLIDSUM.pivot, lang)}',
                        f'--system={name}',
                        f'--like={{trans_wmt-{lang}}}',
                    ),
                )
                for lang in _TARGETS
            ]  # fmt: skip
            commands += scored
            cells = [command.name for command in scored]
        key = {'model': name, 'task': 'wmt20'}
        experiments.append(Experiment(f'{name} on WMT20', name, name, tuple(cells), key))
    return commands, experiments


# ------------------------------------------------------------------------------------ end to end


def _end_to_end() -> tuple[list[Command], list[Experiment]]:
    """mBART, with pseudo-data (DA) too; mDialBART stands among the ablations, but for its DA."""
    commands = [
        Command(
            f'end_to_end-{corpus}-{lang}',
            configs=_END_TO_END.configs(f'corpus={corpus},target={lang}'),
        )
        for corpus, lang in _cells()
    ]
    for lang in _TARGETS:
        corpus = '{root}/clidsum/MediaSum424k'
        commands += [
            Command(
                f'pseudo-{lang}', 'translate', after=(_SAMPLE.name,),
                flags=(
                    f'--engine={_translator("Trans-WMT", lang)}', '--source_lang=en',
                    f'--target_lang={lang}', '--lower', f'--input={corpus}/news_dialogue.json',
                    '--field=summary', '--keep=id', f'--output={corpus}/summaries.{lang}.jsonl',
                ),
                seeded=False,
            ),
            Command(
                f'end_to_end_da-{lang}',
                configs=_END_TO_END.configs(f'scenario=semi,target={lang}'),
                after=(f'pseudo-{lang}',),
            ),
            Command(
                f'mdialbart_da-{lang}',
                configs=_MDIALBART.configs(f'stages=finetuning,scenario=semi,target={lang}'),
                flags=(f'--config.init_from={{{_pretraining(_WHOLE, lang)}}}',),
                after=(f'pseudo-{lang}',),
            ),
        ]  # fmt: skip
    rows = {
        'mBART': ('mBART', [f'end_to_end-{corpus}-{lang}' for corpus, lang in _cells()]),
        'mBART + DA': ('mBART', [f'end_to_end_da-{lang}' for lang in _TARGETS]),
        'mDialBART + DA': ('mBART', [f'mdialbart_da-{lang}' for lang in _TARGETS]),
    }
    return commands, [
        Experiment(n, n, label, tuple(of), {'model': n}) for n, (label, of) in rows.items()
    ]


def _pretraining(words: str, lang: str) -> str:
    """Its name; without translation it does not depend on the target."""
    return f'pretraining-{words}' + (f'-{lang}' if 'mt' in words.split('+') else '')


def _ablations() -> tuple[list[Command], list[Experiment]]:
    """Each combination of the tasks of the second pre-training, and the fine-tuning after it."""
    commands: dict[str, Command] = {}
    experiments = []
    for count in range(1, len(_WORDS) + 1):
        for chosen in itertools.combinations(_WORDS, count):
            words, cells = '+'.join(chosen), []
            for lang in _TARGETS:
                first, last = _pretraining(words, lang), f'mdialbart-{words}-{lang}'
                of_target = f',target={lang}' if 'mt' in chosen else ''
                variant = f'pretraining={words},stages=pretraining{of_target}'
                has_actions = 'aci' in chosen
                commands[first] = Command(
                    first, configs=_MDIALBART.configs(variant), after=('triples',) * has_actions,
                    sized={'sample': (f'--config.data.root={_ACTIONS}',) * has_actions},
                )  # fmt: skip
                commands[last] = Command(
                    last,
                    configs=_MDIALBART.configs(
                        f'pretraining={words},stages=finetuning,target={lang}'
                    ),
                    flags=(f'--config.init_from={{{first}}}',),
                )
                cells.append(last)
            name = 'mDialBART' if words == _WHOLE else _ablation(chosen)
            key = {'model': name.replace('+', ' + ')}
            experiments.append(Experiment(name, name, 'mBART', tuple(cells), key))
    return list(commands.values()), experiments


def _ablation(words: tuple[str, ...]) -> str:
    """As the paper calls it. Example: ('aci', 'mt') -> 'mBART+AcI+MT'."""
    return ''.join(['mBART', *('+' + {'aci': 'AcI'}.get(word, word.upper()) for word in words)])


_PARTS = (_sum_trans(), _trans_sum(), _end_to_end(), _ablations(), _translators())

RECIPE = Recipe.of(
    CLIDSUM,
    [_SAMPLE, *_TRIPLES, *_summarisers(), *_wmt(), *(one for part in _PARTS for one in part[0])],
    [experiment for part in _PARTS for experiment in part[1]],
    engines={'OPUS-MT': {'paper': 'Helsinki-NLP/opus-mt-en-{lang}'}, 'Google Trans.': {}},
    notes={
        'mBART + DA': 'The pseudo-data of DA are translated by Trans-WMT here, by Google in the '
        'paper.',
    },
)
