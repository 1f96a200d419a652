"""MasakhaNER 2.0: named entities in twenty African languages (arXiv:2210.12391)."""

from xlbench.benchmarks import languages
from xlbench.benchmarks.fewshot import LabelBenchmark

for _code, _name, _family, _alpha3 in (
    ('bm', 'bambara', 'mande', 'bam'),
    ('bbj', 'ghomala', 'bantoid', 'bbj'),
    ('ee', 'ewe', 'kwa', 'ewe'),
    ('fon', 'fon', 'volta-niger', 'fon'),
    ('rw', 'kinyarwanda', 'bantu', 'kin'),
    ('luo', 'luo', 'nilotic', 'luo'),
    ('mos', 'mossi', 'gur', 'mos'),
    ('ny', 'chichewa', 'bantu', 'nya'),
    ('tn', 'setswana', 'bantu', 'tsn'),
    ('tw', 'twi', 'kwa', 'twi'),
    ('wo', 'wolof', 'senegambian', 'wol'),
    ('zu', 'zulu', 'bantu', 'zul'),
):
    languages.register(_code, _name, 'latin', family=_family, alpha3=_alpha3)

# No English: its source of transfer in the paper is CoNLL 2003, whose texts need an agreement. The
# pivot is the language of the table with the most speakers.
MASAKHANER2 = LabelBenchmark(
    name='masakhaner2',
    languages=(
        'sw', 'bm', 'bbj', 'ee', 'fon', 'ha', 'ig', 'rw', 'lg', 'luo', 'mos', 'ny', 'pcm', 'sn',
        'tn', 'tw', 'wo', 'xh', 'yo', 'zu',
    ),
    task_titles={'ner': 'named entities'},
    scores=('chunk_f1', 'tag_accuracy'),
    title='MasakhaNER 2.0: Africa-centric Transfer Learning for Named Entity Recognition',
    arxiv='2210.12391',
    pivot='sw',
    tables=(('chunk_f1',),),
    tagging=('ner',),
)  # fmt: skip
