"""XPersona: dialogues of personas (arXiv:2003.07568)."""

from xlbench.benchmarks.monolingual import ReplyBenchmark

XPERSONA = ReplyBenchmark(
    name='xpersona',
    languages=('en', 'fr', 'id', 'it', 'ja', 'ko', 'zh'),
    title='XPersona: Evaluating Multilingual Personalized Chatbot',
    arxiv='2003.07568',
)
