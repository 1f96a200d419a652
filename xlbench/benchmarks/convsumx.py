"""ConvSumX: English conversations and summaries of them in four languages (arXiv:2307.04018)."""

from xlbench.benchmarks.parallel import PairBenchmark

_SUMMARIES = (('en', 'en'), ('en', 'zh'), ('en', 'fr'), ('en', 'uk'))
# The published files; of the meetings there is no published number of the other splits.
_SIZES = {
    'dialogsumx': {'train': 400, 'validation': 100, 'test': 500},
    'qmsumx': {'validation': 40},
}
_TITLES = {'dialogsumx': 'everyday dialogues', 'qmsumx': 'meetings, asked about with a query'}

# What a task reads and writes: a conversation and its summary; with summary behind its name, the
# English summary and that in another language.
CONVSUMX = PairBenchmark(
    name='convsumx',
    languages=('en', 'zh', 'fr', 'uk'),
    task_titles={
        f'{corpus}{kind}': form.format(title)
        for kind, form in (('', 'summary of {}'), ('summary', 'translated summary of {}'))
        for corpus, title in _TITLES.items()
    },
    scores=('rouge_1', 'rouge_2', 'rouge_l', 'bleu'),
    title='Revisiting Cross-Lingual Summarization: A Corpus-based Study and A New Benchmark with '
    'Improved Annotation',
    arxiv='2307.04018',
    split_sizes={
        f'{corpus}{kind}': sizes for kind in ('', 'summary') for corpus, sizes in _SIZES.items()
    },
    pairs={
        f'{corpus}{kind}': pairs
        for kind, pairs in (('', _SUMMARIES), ('summary', _SUMMARIES[1:]))
        for corpus in _SIZES
    },
)
