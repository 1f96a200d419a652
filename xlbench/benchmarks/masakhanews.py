"""MasakhaNEWS: titles of news articles (arXiv:2304.09972)."""

from xlbench.benchmarks.monolingual import MonolingualBenchmark

# The corpus is made for topics; here are the titles of its articles. Nobody's official title
# generation: no published scores to compare with.
MASAKHANEWS = MonolingualBenchmark(
    name='masakhanews',
    languages=(
        'en', 'fr', 'am', 'ha', 'ig', 'lg', 'ln', 'om', 'pcm', 'rn', 'sn', 'so', 'sw', 'ti', 'xh',
        'yo',
    ),
    task_titles={'tg': 'title', 'tgdev': 'title, of the dev files alone'},
    scores=('rouge_l', 'bleu', 'distinct_1', 'distinct_texts', 'bertscore'),
    metrics={'bertscore': 'bertscore'},
    title='MasakhaNEWS: News Topic Classification for African languages',
    arxiv='2304.09972',
)  # fmt: skip
