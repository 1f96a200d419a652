"""ConvSumX (arXiv:2307.04018): English conversations -> summaries in en, zh, fr, uk.

Reads below the data root the files of cylnlp/convsumx, plain or packed (.gz), an object a line, for
the splits train, validation (dev) and test:

  convsumx/DialogSumX/dialogsumx.{train,dev,test}.jsonl
      {"fname": "dev_1", "en_dialogue": "#Person1#: Hi.\\n...", "en_summary": "...",
       "zh_summary": "...", "fr_summary": "...", "uk_summary": "..."}
  convsumx/QMSumX/qmsumx.{train,dev,test}.jsonl
      {"fname": "academic_1", "dialogue": "grad a: Hi.\\n...", "en_query": "Summarize ...",
       "zh_query": "...", "en_summary": "...", "zh_summary": "...", "ukr_summary": "...", ...}

Tasks are convsumx_<corpus>_en_<target>, corpus dialogsumx or qmsumx. A meeting is summed up in
answer to a query, which stands on the line before it, so that a model which cuts a long meeting
still reads it. convsumx_<corpus>summary_en_<target> goes from the English summary to the other one.

DialogSumX's training and validation dialogues are from the validation split of DialogSum, those of
its test split from DialogSum's test split: what was trained on the one has seen the other.
"""

from collections.abc import Iterator

from xlbench import pipeline
from xlbench.benchmarks import CONVSUMX
from xlbench.data import readers, rows

FOLDERS = {'dialogsumx': 'DialogSumX', 'qmsumx': 'QMSumX'}
SPLITS = {'train': 'train', 'validation': 'dev', 'test': 'test'}  # As files call them.
DIALOGUES = {'dialogsumx': ('en_dialogue',), 'qmsumx': ('en_query', 'dialogue')}
FIELDS = ('id', 'inputs', 'targets')


def summary(corpus: str, lang: str) -> str:
    """The key of the summaries in a language."""
    return f'{"ukr" if (corpus, lang) == ("qmsumx", "uk") else lang}_summary'


def files(task: str, source: str, target: str, split: str) -> list[str]:
    """The file of a split, below the data root."""
    corpus = task.removesuffix('summary')
    return [f'convsumx/{FOLDERS[corpus]}/{corpus}.{SPLITS[split]}.jsonl']


def read(task: str, source: str, target: str, split: str, path: str) -> Iterator[readers.Item]:
    """The pairs of a split: the values of some keys, a line each, and that of another."""
    corpus = task.removesuffix('summary')
    inputs = DIALOGUES[corpus] if task == corpus else (summary(corpus, source),)
    keys = ['fname', *inputs, summary(corpus, target)]
    seen: set[str] = set()

    def pair(_: int, values: rows.Values) -> Iterator[readers.Record]:
        name, *texts = (rows.text(value, key) for key, value in values.items())
        if name in seen:
            raise ValueError(f'fname {name!r} is there twice')
        seen.add(name)
        *texts, last = (text.strip() for text in texts)
        yield dict(zip(FIELDS, (name, '\n'.join(texts), last), strict=True))

    return readers.convert(path, rows.read(path, keys, rows.Layout('jsonl')), pair)


pipeline.add_text_tasks(
    CONVSUMX,
    read,
    files,
    tuple(SPLITS),
    FIELDS,
    hint='python -m xlbench.data list convsumx says how to get it',
    keep=['id'],
)
