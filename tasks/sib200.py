r"""SIB-200 (arXiv:2309.07445): a sentence -> one of seven topics, in 71 languages.

Reads below the data root the files of dadelani/sib-200, plain or packed (.gz), by the languages'
codes in FLORES-200:

  sib200/deu_Latn/{train,dev,test}.tsv      and so on

  index_id<TAB>category<TAB>text
  548<TAB>sports<TAB>"They ran ""the quarter""."

Tasks are sib200_topic_de_de. The splits shots_1, shots_2 and shots_4 are ten buckets of K sentences
of each topic that are drawn from the training file, for configs/fewshot_any.py:encoder,task=sib200;
there are too few sentences of a topic for more.
"""

from xlbench import pipeline
from xlbench.benchmarks import SIB200, languages

TOPICS = (
    'science/technology', 'travel', 'politics', 'sports', 'health', 'entertainment', 'geography',
)  # fmt: skip
SPLITS = {'train': 'train', 'validation': 'dev', 'test': 'test'}  # As the files call them.

for _lang in SIB200.languages:
    _folder = f'sib200/{languages.get(_lang).flores}'
    pipeline.register_classification_task(
        SIB200.task_name('topic', _lang),
        files={split: f'{_folder}/{name}.tsv' for split, name in SPLITS.items()},
        label='category',
        labels=TOPICS,
        keep=['index_id'],
        lang=_lang,
        shots=pipeline.Shots(SIB200.shots('topic'), buckets=10),
    )

pipeline.add_scenarios(SIB200)
