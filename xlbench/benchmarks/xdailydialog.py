"""XDailyDialog: parallel dialogues."""

from xlbench.benchmarks.monolingual import ReplyBenchmark

# Dialogues whose consecutive utterances are pairs of message and reply. Nobody's official reply
# suggestion: no published scores to compare with.
XDAILYDIALOG = ReplyBenchmark(
    name='xdailydialog',
    languages=('en', 'de', 'it', 'zh'),
    title='XDailyDialog: A Multilingual Parallel Dialogue Corpus',
    arxiv='',
)
