"""MTG: story endings, questions and titles in four languages (arXiv:2108.07140).

Version 2 of the data adds Chinese and summaries. Its tasks and languages are those that the data
root has files of, so that a part of it, or further languages, make a benchmark as well. Its tasks
are called mtg2_qg_en_zh and so on.
"""

import os

from xlbench.benchmarks import languages, paper
from xlbench.benchmarks.paper import PaperTable
from xlbench.benchmarks.parallel import SCENARIOS, ParallelBenchmark

FILES = '{task}/{lang}/{split}.{side}'  # Of a version, below its own folder.
VARIABLES = {'mtg': 'XLBENCH_MTG_FILES', 'mtg2': 'XLBENCH_MTG2_FILES'}  # That name other ones.
_TASK_TITLES = {'sg': 'story ending', 'qg': 'question', 'tg': 'title', 'summ': 'summary'}
_LANGUAGES = ('en', 'de', 'fr', 'es', 'zh')

_MODELS = ('M-BERT', 'XLM', 'mBART', 'mT5')

def _tables(benchmark: ParallelBenchmark) -> tuple[PaperTable, ...]:
    """The paper's tables and figures, of the tasks and languages of a version of MTG."""
    pairs = {name: benchmark.pairs(name) for name in SCENARIOS}
    pairs |= {f'cross-{lang}': benchmark.pairs('cross', (lang,)) for lang in MTG.languages}
    axes = {name: [{'a': a, 'b': b} for a, b in of] for name, of in pairs.items()}
    return paper.tables('mtg', task=benchmark.tasks, **axes)


_CHECKPOINTS = dict(zip(_MODELS, ('bert-base-multilingual', 'xlm', 'mbart', 'mt5'), strict=True))

MTG = ParallelBenchmark(
    name='mtg',
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
    """
    known = (*_LANGUAGES, *sorted(languages.LANGUAGES.keys() - set(_LANGUAGES)))
    there = {task: {lang for lang in known if _is_there(root, task, lang)} for task in _TASK_TITLES}
    tasks = [task for task in there if there[task]]
    langs = tuple(lang for lang in known if tasks and all(lang in there[task] for task in tasks))
    if not langs:
        tasks, langs = [*_TASK_TITLES], _LANGUAGES
    return ParallelBenchmark(
        name='mtg2',
        languages=langs,
        task_titles={task: _TASK_TITLES[task] for task in tasks},
        scores=MTG.scores,
        title='MTG, version 2',
        arxiv=MTG.arxiv,
        # English is what zero-shot transfer is trained in, unless the files lack it.
        pivot=langs[0],
        paper_checkpoints=_CHECKPOINTS,
        fractions=MTG.fractions,
        declare_tables=_tables,
    )


def _is_there(root: str, task: str, lang: str) -> bool:
    try:
        name = file_pattern('mtg2').format(task=task, lang=lang, split='test', side='src')
    except (KeyError, IndexError, ValueError, AttributeError):
        return False  # Whoever reads the files says that it is no pattern.
    return os.path.exists(os.path.join(root, name))


MTG2 = version_2(os.environ.get('XLBENCH_DATA') or 'data')
