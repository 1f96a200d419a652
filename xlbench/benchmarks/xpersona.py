"""XPersona: dialogues of personas (arXiv:2003.07568)."""

from xlbench.benchmarks.replies import RANKING_SCORES, REPLY_SCORES, TASKS, ReplyBenchmark

XPERSONA = ReplyBenchmark(
    name='xpersona',
    tasks=tuple(TASKS),
    languages=('en', 'fr', 'it', 'ja'),
    task_titles=TASKS,
    scores=REPLY_SCORES + RANKING_SCORES,
    title='XPersona: Evaluating Multilingual Personalized Chatbot',
    arxiv='2003.07568',
    multi=('en', 'fr', 'it', 'ja'),
)
