"""MasakhaNEWS: titles of news articles (arXiv:2304.09972)."""

from xlbench.benchmarks.monolingual import MonolingualBenchmark

# The corpus is made for topics, in sixteen languages; here are the two with most articles, and
# their titles. Nobody's official title generation: no published scores to compare with.
MASAKHANEWS = MonolingualBenchmark(
    name='masakhanews',
    tasks=('tg', 'tgdev'),
    languages=('en', 'fr'),
    task_titles={'tg': 'title', 'tgdev': 'title, of the dev files alone'},
    scores=('rouge_l', 'bleu', 'distinct_1', 'bertscore'),
    title='MasakhaNEWS: News Topic Classification for African languages',
    arxiv='2304.09972',
    multi=('en', 'fr'),
)
