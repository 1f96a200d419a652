"""Translation: parallel texts, as ClidSum's Trans-WMT is trained on them (arXiv:2202.05599)."""

from xlbench.benchmarks.parallel import PairBenchmark

# The sizes of newstest2020: statmt.org/wmt20/translation-task.html, and the same in sacrebleu. The
# pairs that the paper trained on are not published.
_TASKS = {'wmt20': 'news of WMT20', 'xdailydialog': 'utterances of XDailyDialog'}
TRANSLATION = PairBenchmark(
    name='translation',
    languages=('en', 'de', 'zh'),
    task_titles=_TASKS,
    scores=('bleu', 'ter', 'chrf'),
    title='A Benchmark Dataset for Cross-Lingual Dialogue Summarization',
    arxiv='2202.05599',
    paper_models=('Trans-WMT', 'OPUS-MT', 'Google Trans.'),
    paper_note='Rows of the paper are those of Table 4 of arXiv:2202.05599, on newstest2020. It '
    'does not say how its TER cuts Chinese into words; here it does so by character.',
    has_unpublished_sizes=True,
    scenario_names=('cross',),
    pairs=dict.fromkeys(_TASKS, (('en', 'de'), ('en', 'zh'), ('de', 'en'), ('zh', 'en'))),
)
