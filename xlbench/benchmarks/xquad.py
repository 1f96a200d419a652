"""XQuAD: questions from parallel passages (arXiv:1910.11856)."""

from xlbench.benchmarks.parallel import ParallelBenchmark

# Questions from passages that are parallel in more languages than MTG has, Chinese among them. The
# published set is one file of 1190 questions a language, without splits; nobody's official
# question generation, so there are neither split sizes nor paper scores to compare with.
XQUAD = ParallelBenchmark(
    name='xquad',
    languages=('en', 'ar', 'de', 'el', 'es', 'hi', 'ro', 'ru', 'th', 'tr', 'vi', 'zh'),
    task_titles={'qg': 'question'},
    scores=('rouge_l', 'bleu', 'distinct_1', 'distinct_texts', 'bertscore'),
    metrics={'bertscore': 'bertscore'},
    title='On the Cross-lingual Transferability of Monolingual Representations',
    arxiv='1910.11856',
)
