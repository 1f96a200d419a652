"""CrossSum (arXiv:2112.08804): a BBC article -> its summary in the same or another language.

Reads below the data root the files of csebuetnlp/CrossSum, plain or packed (.gz), an object a line:

  crosssum/english-hausa_{train,val,test}.jsonl      and so on

  {"source_url": "...", "target_url": "...", "summary": "An yi ruwa.", "text": "It rained. ..."}

Tasks are crosssum_news_en_ha, crosssum_news_ha_en and crosssum_news_ha_ha. Chinese is the
simplified one.
"""

from xlbench import pipeline
from xlbench.benchmarks import CROSSSUM, crosssum

SPLITS = {'train': 'train', 'validation': 'val', 'test': 'test'}  # As the files call them.

for _source, _target in CROSSSUM.pairs['news']:
    _pair = crosssum.file_pair(_source, _target)
    pipeline.register_text_task(
        CROSSSUM.task_name('news', _source, _target),
        files={split: f'crosssum/{_pair}_{part}.jsonl' for split, part in SPLITS.items()},
        fields={'inputs': 'text', 'targets': 'summary', 'id': 'source_url'},
        source_lang=_source,
        target_lang=_target,
    )

pipeline.add_scenarios(CROSSSUM)
