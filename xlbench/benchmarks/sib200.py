"""SIB-200: topics of sentences in 71 of its 205 languages and dialects (arXiv:2309.07445)."""

from xlbench.benchmarks import languages
from xlbench.benchmarks.fewshot import LabelBenchmark

# The same sentences of FLORES-200 in every language; their English topics hold for all of them.
# FLORES-200 has all languages of the table but Nigerian Pidgin.
SIB200 = LabelBenchmark(
    name='sib200',
    languages=('en', *(code for code in languages.TABLE if code not in ('en', 'pcm'))),
    task_titles={'topic': 'topic of a sentence'},
    scores=('accuracy', 'macro_f1'),
    title='SIB-200: A Simple, Inclusive, and Big Evaluation Dataset for Topic Classification in '
    '200+ Languages and Dialects',
    arxiv='2309.07445',
    tables=(('accuracy',),),
    most_shots=4,  # Its rarest topic has 58 sentences for training.
    split_sizes={'topic': {'train': 701, 'validation': 99, 'test': 204}},
)
