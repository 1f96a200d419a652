"""MasakhaNER 2.0 (arXiv:2210.12391): persons, places, organisations and dates in 20 languages.

Reads below the data root the files of MasakhaNER2.0/data in masakhane-io/masakhane-ner, plain or
packed (.gz), by the languages' ISO 639-3 codes:

  masakhaner2/hau/{train,dev,test}.txt      and so on

a word and its tag on each line, a space between them, and an empty line between sentences:

  Musa B-PER
  Bello I-PER
  yana O
  Kano B-LOC

Tasks are masakhaner2_ner_ha_ha. The splits shots_1, ... are 40 buckets of sentences that are drawn
from the training file, for configs/fewshot_any.py:encoder,task=masakhaner2,objective=tagging.
"""

from xlbench import pipeline
from xlbench.benchmarks import MASAKHANER2, languages

TAGS = (
    'B-DATE', 'B-LOC', 'B-ORG', 'B-PER', 'I-DATE', 'I-LOC', 'I-ORG', 'I-PER', 'O',
)  # fmt: skip
SPLITS = {'train': 'train', 'validation': 'dev', 'test': 'test'}  # As the files call them.

for _lang in MASAKHANER2.languages:
    _folder = f'masakhaner2/{languages.get(_lang).alpha3}'
    pipeline.register_tagging_task(
        MASAKHANER2.task_name('ner', _lang),
        files={split: f'{_folder}/{name}.txt' for split, name in SPLITS.items()},
        labels=TAGS,
        lang=_lang,
        shots=pipeline.Shots(MASAKHANER2.shots('ner')),
    )

pipeline.add_scenarios(MASAKHANER2)
