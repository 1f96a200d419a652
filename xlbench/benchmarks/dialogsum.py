"""DialogSum: English dialogues, their summaries and their topics (arXiv:2105.06762)."""

from xlbench.benchmarks.parallel import PairBenchmark

_TASKS = {'summary': 'summary of everyday dialogues', 'topic': 'their topic, in a few words'}

DIALOGSUM = PairBenchmark(
    name='dialogsum',
    languages=('en',),
    task_titles=_TASKS,
    # Of the three references of a test dialogue the best one; the mean over them.
    scores=('rouge_1', 'rouge_2', 'rouge_l', 'rouge_1_mean', 'rouge_2_mean', 'rouge_l_mean'),
    title='DialogSum: A Real-Life Scenario Dialogue Summarization Dataset',
    arxiv='2105.06762',
    split_sizes={task: {'train': 12_460, 'validation': 500, 'test': 500} for task in _TASKS},
    scenario_names=('mono',),
    pairs=dict.fromkeys(_TASKS, (('en', 'en'),)),
)
