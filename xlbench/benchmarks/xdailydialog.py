"""XDailyDialog: parallel dialogues."""

from xlbench.benchmarks.monolingual import RANKING_SCORES, REPLY_SCORES, TASKS, ReplyBenchmark

# Dialogues whose consecutive utterances are pairs of message and reply. Nobody's official reply
# suggestion: no published scores to compare with.
XDAILYDIALOG = ReplyBenchmark(
    name='xdailydialog',
    tasks=tuple(TASKS),
    languages=('en', 'de', 'it', 'zh'),
    task_titles=TASKS,
    scores=REPLY_SCORES + RANKING_SCORES,
    title='XDailyDialog: A Multilingual Parallel Dialogue Corpus',
    arxiv='',
    multi=('en', 'de', 'it', 'zh'),
)
