"""Version 2 of MTG: the tasks and languages that the data root has, up to Chinese and summaries.

Reads the same form as tasks/mtg.py, below mtg2/ (another pattern: XLBENCH_MTG2_FILES):

  mtg2/summ/zh/train.src    a document
  mtg2/summ/zh/train.trg    its summary

A folder mtg2/TASK/LANG/ with test.src makes one of the four tasks, and a language;
xlbench/benchmarks/mtg.py looks for them below XLBENCH_DATA, by default below data. Without any, the
names are those of all that was published: sg, qg, tg and summ in en, de, fr, es and zh.
"""

from xlbench.benchmarks import MTG2
from xlbench.tasks import mtg

mtg.register_all(MTG2)
