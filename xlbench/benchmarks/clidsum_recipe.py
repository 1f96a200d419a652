"""The commands behind ClidSum's tables: pipelines, end-to-end systems and mDialBART's ablations.

A pipeline is a chain of a summariser and a translator, each of which is trained once. The user has
to provide Google's translations. A row of table 3 has up to four cells, each of a run of its own.
"""

import dataclasses
import itertools
from collections.abc import Iterator, Sequence

from xlbench.benchmarks.clidsum import CLIDSUM, CORPORA, INTERVIEWS, PARTS, pretraining_label
from xlbench.benchmarks.recipe import Command, Experiment, Model, Recipe
from xlbench.benchmarks.translation import TRANSLATION

_TARGETS = tuple(lang for lang in CLIDSUM.languages if lang != CLIDSUM.pivot)
_CELLS = tuple(itertools.product(CORPORA, _TARGETS))
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
        f'--mixture={CLIDSUM.task_name(INTERVIEWS, CLIDSUM.pivot)}',
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
        'triples', 'data triples', after=('actions',), flags=('--tagger={tagger}',), seeded=False,
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
    return f'{root}/clidsum/{CORPORA[corpus]}/{split}.json'


def _translator(name: str, lang: str) -> str:
    return _TRANSLATORS[name][1].format(lang=lang)


_TRANS_WMT = [
    Command(f'trans_wmt-{lang}', configs=_WMT.configs(f'target={lang}'), seeded=False)
    for lang in _TARGETS
]

# ------------------------------------------------------------------------------------- pipelines


def _summarisers() -> Iterator[Command]:
    """An experiment for each model and corpus, and what two of them read besides official files."""
    for corpus in CORPORA:
        yield Command(
            f'views-{corpus}', 'data segment', sizes=('paper',), seeded=False,
            flags=tuple(_file(corpus, split) for split in _SPLITS),
        )  # fmt: skip
        for split in _SPLITS:
            yield Command(
                f'marks-{corpus}-{split}', 'data mark', seeded=False,
                flags=(
                    '--model=microsoft/DialoGPT-large',
                    f'--input={_file(corpus, split)}',
                    f'--output={_file(corpus, split, _MARKED)}',
                ),
                missing={'sample': 'its marks are made by a DialoGPT, and the sample has none'},
            )  # fmt: skip
        for name, (word, model) in _SUMMARISERS.items():
            after, flags = tuple[str, ...](), tuple[str, ...]()
            if name == 'MV-BART':
                after = (f'views-{corpus}',)
            elif name == 'BART(D_ALL)':
                after = tuple(f'marks-{corpus}-{split}' for split in _SPLITS)
                flags = (f'--config.data.root={_MARKED}',)
            configs = _SUMMARISER.configs(f'model={model},corpus={corpus}')
            yield Command(f'{word}-{corpus}', configs=configs, flags=flags, after=after)


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
    return Command(name, 'translate chain', flags=tuple(flags), folder=system, limited=True)


def _row(
    name: str, cells: Sequence[Command], label: str = '', title: str = '', **key: str
) -> list[Command | Experiment]:
    """A row of table 3 or 4, each cell of which is a run of a command."""
    names = tuple(command.name for command in cells)
    return [*cells, Experiment(title or name, name, label or name, names, {'model': name, **key})]


def _sum_trans() -> Iterator[Command | Experiment]:
    for summariser, translator in itertools.product(_SUMMARISERS, _TRANSLATORS):
        chains = [_chain(summariser, translator, *pair) for pair in _CELLS]
        yield from _row(f'{summariser} + {translator}', chains)


def _trans_sum() -> Iterator[Command | Experiment]:
    """Systems that translate first; each translator's dialogues have a summariser of their own."""
    for translator, (word, _) in _TRANSLATORS.items():
        made = [_translated_first(translator, word, *pair) for pair in _CELLS]
        yield from itertools.chain.from_iterable(made)
        yield from _row(f'{translator} + mBART', [of_cell[-1] for of_cell in made])


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
                f'--output={root}/clidsum/{CORPORA[corpus]}/{name}.translated.{lang}.jsonl',
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
        f'{word}-mbart-{cell}', 'translate chain', folder=f'{word}-mbart', sized=_VOCABULARIES,
        limited=True, flags=(
            f'translate:{engine}', f'{{{summariser.name}}}', f'--task={task}',
            f'--system={translator} + mBART', '--root={root}',
        ),
    )  # fmt: skip
    return [*translations, summariser, chain]


def _translators() -> Iterator[Command | Experiment]:
    """Experiments of table 4, on the test set of WMT20."""
    for name, (word, _) in _TRANSLATORS.items():
        cells = _TRANS_WMT
        if word != 'trans_wmt':
            cells = [
                Command(
                    f'{word}-wmt20-{lang}', 'translate chain', folder=f'{word}-wmt20', limited=True,
                    flags=(
                        f'translate:{_translator(name, lang)}',
                        f'--task={TRANSLATION.task_name("wmt20", CLIDSUM.pivot, lang)}',
                        f'--system={name}',
                        f'--like={{trans_wmt-{lang}}}',
                    ),
                )
                for lang in _TARGETS
            ]  # fmt: skip
        yield from _row(name, cells, title=f'{name} on WMT20', task='wmt20')


# ------------------------------------------------------------------------------------ end to end


def _end_to_end() -> Iterator[Command | Experiment]:
    """mBART, with pseudo-data (DA) too; mDialBART stands among the ablations, but for its DA."""
    corpus = '{root}/clidsum/MediaSum424k'
    pseudo = [
        Command(
            f'pseudo-{lang}', 'translate', after=(_SAMPLE.name,),
            flags=(
                f'--engine={_translator("Trans-WMT", lang)}', '--source_lang=en',
                f'--target_lang={lang}', '--lower', f'--input={corpus}/news_dialogue.json',
                '--field=summary', '--keep=id', f'--output={corpus}/summaries.{lang}.jsonl',
            ),
            seeded=False,
        )
        for lang in _TARGETS
    ]  # fmt: skip
    rows = {
        'mBART': [
            Command(
                f'end_to_end-{corpus}-{lang}',
                configs=_END_TO_END.configs(f'corpus={corpus},target={lang}'),
            )
            for corpus, lang in _CELLS
        ],
        'mBART + DA': [
            Command(
                f'end_to_end_da-{lang}',
                configs=_END_TO_END.configs(f'scenario=semi,target={lang}'),
                after=(f'pseudo-{lang}',),
            )
            for lang in _TARGETS
        ],
        'mDialBART + DA': [
            Command(
                f'mdialbart_da-{lang}',
                configs=_MDIALBART.configs(f'stages=finetuning,scenario=semi,target={lang}'),
                flags=(f'--config.init_from={{{_pretraining(_WHOLE, lang)}}}',),
                after=(f'pseudo-{lang}',),
            )
            for lang in _TARGETS
        ],
    }
    yield from pseudo
    for name, cells in rows.items():
        yield from _row(name, cells, 'mBART')


def _pretraining(words: str, lang: str) -> str:
    """Its name; without translation it does not depend on the target."""
    return f'pretraining-{words}' + (f'-{lang}' if 'mt' in words.split('+') else '')


def _ablations() -> Iterator[Command | Experiment]:
    """Each combination of the tasks of the second pre-training, and the fine-tuning after it."""
    for count in range(1, len(_WORDS) + 1):
        for chosen in itertools.combinations(_WORDS, count):
            words, cells = '+'.join(chosen), []
            for lang in _TARGETS:
                first, last = _pretraining(words, lang), f'mdialbart-{words}-{lang}'
                of_target = f',target={lang}' if 'mt' in chosen else ''
                variant = f'pretraining={words},stages=pretraining{of_target}'
                has_actions = 'aci' in chosen
                yield Command(
                    first, configs=_MDIALBART.configs(variant), after=('triples',) * has_actions,
                    sized={'sample': (f'--config.data.root={_ACTIONS}',) * has_actions},
                )  # fmt: skip
                yield Command(
                    last,
                    configs=_MDIALBART.configs(
                        f'pretraining={words},stages=finetuning,target={lang}'
                    ),
                    flags=(f'--config.init_from={{{first}}}',),
                )
                cells.append(last)
            label = pretraining_label([PARTS[_WORDS.index(word)] for word in chosen])
            name = label if words == _WHOLE else f'mBART{label}'
            key = {'model': name.replace('+', ' + ')}
            yield Experiment(name, name, 'mBART', tuple(cells), key)


_ITEMS = (
    _SAMPLE, *_TRIPLES, *_summarisers(), *_TRANS_WMT,
    *_sum_trans(), *_trans_sum(), *_end_to_end(), *_ablations(), *_translators(),
)  # fmt: skip
RECIPE = Recipe.of(
    CLIDSUM,
    (item for item in _ITEMS if isinstance(item, Command)),
    (item for item in _ITEMS if isinstance(item, Experiment)),
    engines={'OPUS-MT': {'paper': 'Helsinki-NLP/opus-mt-en-{lang}'}, 'Google Trans.': {}},
    notes={
        'mBART + DA': 'The pseudo-data of DA are translated by Trans-WMT here, by Google in the '
        'paper.',
    },
)
