"""MRS: replies to messages in ten languages (arXiv:2106.02017).

recipes/mrs.toml has what makes its tables, and two tables of ours of what its section 6 proposes
without trying it.
"""

from xlbench.benchmarks.paper import Line, PaperTable, heads
from xlbench.benchmarks.replies import (
    RANKING_SCORES,
    REPLY_SCENARIOS,
    REPLY_SCORES,
    SETTING_TITLES,
    TASKS,
    ReplyBenchmark,
)

_MODELS = {'mBERT': 'retrieval', 'XLM-R': 'retrieval', 'Unicoder-xDAE': 'generation'}
_FURTHER = ('rerank', 'mmi', 'diverse', 'adapters')  # Ways of our own to choose replies.


def _tables(benchmark: ReplyBenchmark) -> tuple[PaperTable, ...]:
    """The paper's tables and figures; it does not number table 5, which is in its appendix A."""

    def replies(number: int, title: str, model: str, dist: str) -> PaperTable:
        names = {'ROUGE': 'mrs_rouge', f'{dist}1': 'dist_1', f'{dist}2': 'dist_2'}
        columns = (h for s in _settings(model) for h in heads(names, SETTING_TITLES[s], scenario=s))
        return PaperTable(
            f'table {number}', title, 'by_language', 'mrs', ('',),
            tuple(Line((lang,), {'source': lang, 'target': lang}) for lang in benchmark.languages),
            tuple(columns), {'task': _MODELS[model], 'model': model}, leading_zero=False,
            models=(model,),
        )  # fmt: skip

    def of_ours(name: str, title: str, model: str, *settings: str) -> PaperTable:
        where = tuple({'model': model, 'scenario': setting} for setting in settings)
        return PaperTable(f'table section6-{name}', title, where=where, variants=True)

    both = tuple(
        {'model': model, 'scenario': 'mono', 'source': benchmark.pivot, 'task': _MODELS[model]}
        for model in ('Unicoder-xDAE', 'mBERT')
    )
    illustration = 'illustration, not reproducible'
    return (
        PaperTable(
            'table 1', 'Sizes of the data',
            instead='python -m xlbench.data statistics counts the data that is there',
        ),
        PaperTable('table 2', 'Replies of both models to a few messages', 'replies', where=both),
        replies(3, 'Retrieval with mBERT', 'mBERT', 'Dist-'),
        replies(4, 'Generation', 'Unicoder-xDAE', 'Dist'),
        replies(5, 'Retrieval with XLM-R', 'XLM-R', 'Dist-'),
        of_ours(
            'retrieval', 'English pairs, translated pairs, and both, mBERT', 'mBERT',
            'zero_shot', 'mt', 'mixed',
        ),
        of_ours(
            'generation',
            'Translated pairs, and English ones with them; ranked candidates, adapters',
            'Unicoder-xDAE', 'mt', 'mixed', 'multi', *_FURTHER,
        ),
        PaperTable('figure 1', 'An example', instead=illustration),
        PaperTable(
            'figure 2', 'Generation and retrieval in English (without the judgement of people)',
            'preference', where=both, shown=REPLY_SCORES,
        ),
    )  # fmt: skip


def _settings(model: str) -> list[str]:
    """The settings that the paper has of a model."""
    is_retriever = _MODELS[model] == 'retrieval'
    return [s for s in ('mono', 'zero_shot', 'mt', 'multi') if is_retriever or s != 'zero_shot']


MRS = ReplyBenchmark(
    name='mrs',
    tasks=(*TASKS, 'reverse'),
    languages=('en', 'es', 'de', 'pt', 'fr', 'ja', 'it', 'sv', 'nl', 'ru'),
    # `reverse` is of a model that ranks replies by the message that they answer (arXiv:1510.03055).
    task_titles=TASKS | {'reverse': 'message to a reply'},
    scores=REPLY_SCORES + RANKING_SCORES,
    title='A Dataset and Baselines for Multilingual Reply Suggestion',
    arxiv='2106.02017',
    multi=('en', 'es', 'de', 'pt', 'fr'),
    scenario_names=REPLY_SCENARIOS,
    paper_models=tuple(_MODELS),
    fractions=REPLY_SCORES,
    paper_checkpoints={'mBERT': 'bert-base-multilingual-cased', 'XLM-R': 'xlm-roberta-base'},
    # Table 1 of the paper, columns Examples and Response Set; section 3.2 for what is translated.
    num_pairs={
        'en': 48_750_948, 'es': 2_325_877, 'de': 1_864_688, 'pt': 1_822_594, 'fr': 1_396_806,
        'ja': 727_668, 'it': 736_296, 'sv': 738_254, 'nl': 638_634, 'ru': 516_739,
    },
    # Section 2. The counts of the splits themselves are not published, and readers drop pairs with
    # an empty side. A tolerance below 1 % would refuse what a random split of the smallest
    # language, ru, may well have (one standard deviation of its test split is 0.4 %).
    shares={'train': 0.8, 'validation': 0.1, 'test': 0.1},
    size_tolerance=0.01,
    num_responses={
        'en': 36_997, 'es': 45_152, 'de': 34_747, 'pt': 45_225, 'fr': 32_350,
        'ja': 38_817, 'it': 31_855, 'sv': 32_165, 'nl': 32_293, 'ru': 31_475,
    },
    num_mt_pairs=19_000_000,
    paper_note='Columns marked paper are printed in arXiv:2106.02017. Its code pins no version of '
    'its rouge package and leaves undefined what dist_1 and dist_2 divide by. For Japanese alone '
    'dist_1 is near or above dist_2 (mBERT but for Monolingual, Unicoder-xDAE in MT): two columns '
    'seem to have been swapped.',
    declare_tables=_tables,
)  # fmt: skip
