"""XPersona: dialogues of personas (arXiv:2003.07568)."""

from xlbench.benchmarks.monolingual import RANKING_SCORES, REPLY_SCORES, TASKS, ReplyBenchmark

_LANGUAGES = ('en', 'fr', 'id', 'it', 'ja', 'ko', 'zh')
XPERSONA = ReplyBenchmark(
    name='xpersona',
    tasks=tuple(TASKS),
    languages=_LANGUAGES,
    task_titles=TASKS,
    scores=REPLY_SCORES + RANKING_SCORES,
    title='XPersona: Evaluating Multilingual Personalized Chatbot',
    arxiv='2003.07568',
    multi=_LANGUAGES,
)
