"""MTG: story endings, questions and titles in four languages (arXiv:2108.07140).

Version 2 of the data adds Chinese and summaries. Its tasks and languages are those that the data
root has files of, so that a part of it, or more of the same form, is a benchmark as well; its tasks
are called mtg2_qg_en_zh and so on.
"""

import glob
import os
import re
from collections.abc import Collection
from typing import Any

from xlbench.benchmarks import languages
from xlbench.benchmarks.paper import RATING, Head, Key, Line, PaperTable, heads
from xlbench.benchmarks.parallel import SCENARIO_TITLES, ParallelBenchmark

FILES = '{task}/{lang}/{split}.{side}'  # Of a version, below its own folder.
VARIABLES = {'mtg': 'XLBENCH_MTG_FILES', 'mtg2': 'XLBENCH_MTG2_FILES'}  # That name other ones.
_TASK_TITLES = {'sg': 'story ending', 'qg': 'question', 'tg': 'title', 'summ': 'summary'}
_LANGUAGES = ('en', 'de', 'fr', 'es', 'zh')

_MODELS = ('M-BERT', 'XLM', 'mBART', 'mT5')
_SCORES = (
    *heads({'BLEU': 'bleu', 'ROUGE-L': 'rouge_l', 'METEOR': 'meteor'}, 'N-gram-based'),
    *heads({'BERTScore': 'bertscore', 'BLEURT': 'bleurt'}, 'Embedding-based'),
    *heads({'Distant-1': 'distinct_1'}, 'Others'),
    *heads({'Ensemble': 'ensemble'}, 'Ours'),
)
_AVERAGED = heads({
    'BLEU': 'bleu', 'R-1': 'rouge_1', 'R-2': 'rouge_2', 'R-L': 'rouge_l', 'METEOR': 'meteor',
    'BERTScore': 'bertscore', 'D-1': 'distinct_1', 'D-2': 'distinct_2', 'Ensemble': 'ensemble',
})  # fmt: skip
_RATED = heads({'Gram.': 'grammar', 'Flu.': 'fluency', 'Rel.': 'relevance'})
_FOUR = ('mono', 'multi', 'mono_multitask', 'multi_multitask')
_REGRESSORS = {
    'AdaBoost': 'AdaBoost', 'Bagging': 'Bagging', 'DecisionTree': 'DecisionTree',
    'ExtraTree': 'ExtraTrees', 'GradientBoosting': 'GradientBoosting',
    'Kneighbors': 'KNeighbors', 'Linear': 'LinearRegression', 'RandomForest': 'RandomForest',
    'SVR': 'SVR',
}  # fmt: skip
_ASPECTS = {'Grammar': 'Grammar', 'Fluency': 'Fluency', 'Logical': 'Relevance', 'Avg': 'mean'}
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


def _tables(benchmark: ParallelBenchmark) -> tuple[PaperTable, ...]:
    """The paper's tables and figures, of the tasks and languages of a version of MTG."""

    def by_pair(number: int, title: str, scenario: str, source: str = '') -> PaperTable:
        rows = tuple(
            Line((task.upper(), model, f'{a}->{b}'),
                 {'task': task, 'model': model, 'source': a, 'target': b})
            for task in benchmark.tasks
            for model in _MODELS
            for a, b in benchmark.pairs(scenario, (source,) if source else ())
        )  # fmt: skip
        return PaperTable(
            f'table {number}', title, 'scores', 'mtg', ('Task', 'Model', 'Language'), rows, _SCORES,
            {'scenario': scenario},
        )  # fmt: skip

    def rated(number: int, texts: str, task: str, scenarios: Collection[str]) -> PaperTable:
        rows = tuple(
            Line((SCENARIO_TITLES[s], model), {'scenario': s, 'model': model})
            for s in scenarios
            for model in _MODELS
        )
        return PaperTable(
            f'table {number}', f'Human ratings of {texts}, from 1 to 5', 'ratings', 'mtg_human',
            ('Setting', 'Model'), rows, _RATED, {'task': task},
            ('Averaged over four languages.',), instead=_JUDGES, is_judged=True,
        )  # fmt: skip

    def figure(number: int, title: str, shows: str, *where: Key, **more: Any) -> PaperTable:
        return PaperTable(f'figure {number}', title, shows, where=where, **more)

    stages = {'task': 'qg', 'model': 'mBART'}
    sources = {lang: languages.LANGUAGES[lang].name.capitalize() for lang in benchmark.languages}
    return (
        PaperTable('table 1', 'Tasks and corpora', instead='it describes the corpora'),
        PaperTable(
            'table 2', 'Sizes of the data',
            instead='python -m xlbench.data statistics counts the data that is there',
        ),
        PaperTable(
            'table 3', 'Pearson correlation of regressors with human ratings', 'regressors',
            'mtg_regressors', ('Human score',),
            tuple(Line((label,), {'target': aspect}) for label, aspect in _ASPECTS.items()),
            heads(_REGRESSORS), instead=_RATINGS,
        ),
        PaperTable(
            'table 4', 'Zero-shot transfer, averaged over targets', 'scores', 'mtg_zero_shot',
            ('Setting', 'Model'),
            tuple(
                Line((task.upper(), model), {'task': task, 'model': model})
                for task in benchmark.tasks for model in _MODELS
            ),
            _AVERAGED, {'scenario': 'zero_shot'},
        ),
        rated(5, 'titles', 'tg', ('mono', 'multi', 'cross', 'zero_shot')),
        PaperTable(
            'table 6', 'Examples that the filter of back-translation leaves, by its threshold',
            'thresholds', 'mtg_thresholds', ('Threshold',),
            tuple(Line((t,), {'threshold': t}) for t in ('0', '0.3', '0.4', '0.5', '0.6')),
            heads({'QG': 'qg', 'TG': 'tg', 'SG': 'sg'}),
            instead='python -m xlbench.data mtg_build counts it while it builds the data',
        ),
        PaperTable(
            'table 7', 'After the first stage and after the second', 'stages', 'mtg_stages', ('',),
            tuple(
                Line((label,), {'score': label.replace('-', '_').lower()})
                for label in ('stage1', 'stage2', 'p-value')
            ),
            tuple(Head((title,), {'scenario': s}) for s, title in SCENARIO_TITLES.items()),
            stages, ('The ensemble metric of mBART in question generation.',),
        ),
        *(
            rated(number, texts, task, SCENARIO_TITLES)
            for number, task, texts in (
                (8, 'qg', 'questions'), (9, 'tg', 'titles'), (10, 'sg', 'story endings'),
            )
        ),
        by_pair(11, 'Monolingual training', 'mono'),
        by_pair(12, 'Multilingual training', 'multi'),
        by_pair(13, 'Monolingual multitask training', 'mono_multitask'),
        by_pair(14, 'Multilingual multitask training', 'multi_multitask'),
        *(
            by_pair(number, f'Cross-lingual training from {sources[lang]}', 'cross', lang)
            for number, lang in enumerate(('en', 'de', 'fr', 'es'), 15)
            if lang in sources
        ),
        by_pair(19, 'Zero-shot transfer', 'zero_shot'),
        figure(1, 'An example', '', instead='illustration, not reproducible'),
        figure(
            2, 'Correlation of scores with ratings', 'correlations',
            shown=('bleu', 'rouge_l', 'bertscore', RATING), instead=_RATINGS,
        ),
        figure(3, 'Four settings', 'settings', *({'scenario': s} for s in _FOUR)),
        figure(
            4, 'From each language into each', 'matrices',
            {'scenario': 'mono'}, {'scenario': 'cross'},
        ),
        figure(
            5, 'After the first stage and after the second', 'stage_bars',
            *(stages | {'scenario': s} for s in SCENARIO_TITLES), printed='mtg_stages',
        ),
        figure(
            6, 'Cross-lingual generation, and generation with translation behind it',
            'translation', {'scenario': 'cross', 'source': 'en'},
            {'scenario': 'mono', 'source': 'en'},  # What is translated.
            {'scenario': 'translated'},
        ),
        figure(7, 'Correlation of all scores with ratings', 'correlations', instead=_RATINGS),
    )  # fmt: skip


_CHECKPOINTS = dict(zip(_MODELS, ('bert-base-multilingual', 'xlm', 'mbart', 'mt5'), strict=True))

MTG = ParallelBenchmark(
    name='mtg',
    tasks=('sg', 'qg', 'tg'),
    languages=('en', 'de', 'fr', 'es'),
    task_titles={task: _TASK_TITLES[task] for task in ('sg', 'qg', 'tg')},
    scores=('rouge_l', 'bleu', 'distinct_1'),
    metrics={name: name for name in ('meteor', 'bertscore', 'bleurt', 'fitted_rating')},
    title='MTG: A Benchmarking Suite for Multilingual Text Generation',
    arxiv='2108.07140',
    paper_models=_MODELS,
    paper_checkpoints=_CHECKPOINTS,
    fractions=('meteor', 'bertscore', 'distinct_1', 'distinct_2'),
    declare_tables=_tables,
    # Annotated: table 2 of the paper. Rough: the row of threshold 0.5 in table 6.
    split_sizes={
        'sg': {'rough_train': 87_003, 'train': 5_000, 'validation': 2_000, 'test': 3_000},
        'qg': {'rough_train': 71_819, 'train': 5_000, 'validation': 2_000, 'test': 3_000},
        'tg': {'rough_train': 280_376, 'train': 5_000, 'validation': 2_000, 'test': 3_000},
    },
    paper_note='Rows marked paper are printed in arXiv:2108.07140, which names neither the tools '
    'nor the versions that scored them.',
    paper_gaps={
        ('cross', True, True): 'The paper trains no model on one pair alone: '
        'no scores of the paper.',
        ('cross', False, False): 'The paper trains one model per source language, this run one on '
        'all pairs: no scores of the paper. Narrow the scenario to a source to compare.',
    },
)


def file_pattern(name: str) -> str:
    """The pattern of the files of 'mtg' or 'mtg2', below the data root."""
    return os.environ.get(VARIABLES[name]) or f'{name}/{FILES}'


def version_2(root: str) -> ParallelBenchmark:
    """Version 2 of MTG, with the tasks and languages that a data root has.

    Languages are those that all tasks have test files in. Where there are no files, all that was
    published is there: four tasks in five languages.

    Args:
      root: the data root.
    """
    tasks, langs = _there(root, file_pattern('mtg2'))
    return ParallelBenchmark(
        name='mtg2',
        tasks=tasks or tuple(_TASK_TITLES),
        languages=langs or _LANGUAGES,
        task_titles={task: _TASK_TITLES.get(task, task) for task in tasks or _TASK_TITLES},
        scores=MTG.scores,
        title='MTG, version 2',
        arxiv=MTG.arxiv,
        # English is what zero-shot transfer is trained in, unless the files lack it.
        pivot=(langs or _LANGUAGES)[0],
        paper_checkpoints=_CHECKPOINTS,
        fractions=MTG.fractions,
        declare_tables=_tables,
    )


def _there(root: str, pattern: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The tasks with test files, and the languages that all of them have; known ones first."""
    fields = {'task': '*', 'lang': '*', 'split': 'test', 'side': 'src'}
    groups = {'task': '(?P<task>[a-z0-9]+)', 'lang': '(?P<lang>[a-z]+)'}
    try:
        paths = glob.glob(os.path.join(glob.escape(root), pattern.format(**fields)))
        shape = os.path.join(re.escape(root), re.escape(pattern))
    except (KeyError, IndexError, ValueError, AttributeError):
        return (), ()  # Whoever reads the files says that it is no pattern.
    for name, text in (fields | groups).items():
        place, again = rf'\{{{name}\}}', f'(?P={name})' if name in groups else text
        shape = shape.replace(place, text, 1).replace(place, again)
    by_task: dict[str, set[str]] = {}
    for path in paths:
        match = re.fullmatch(shape, path)
        if match and match['lang'] in languages.LANGUAGES:
            by_task.setdefault(match['task'], set()).add(match['lang'])
    shared = set.intersection(*by_task.values()) if by_task else set[str]()
    if not shared:
        return (), ()
    return _in_order(by_task, tuple(_TASK_TITLES)), _in_order(shared, _LANGUAGES)


def _in_order(names: Collection[str], known: tuple[str, ...]) -> tuple[str, ...]:
    """Known names in their order, then others by the alphabet."""
    return (*(name for name in known if name in names), *sorted(set(names) - set(known)))


MTG2 = version_2(os.environ.get('XLBENCH_DATA') or 'data')
