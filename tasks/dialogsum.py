r"""DialogSum (arXiv:2105.06762): English dialogues -> summaries, or topics.

Reads below the data root the files of cylnlp/dialogsum, plain or packed (.gz), an object a line:

  dialogsum/dialogsum.{train,dev}.jsonl
      {"fname": "dev_0", "dialogue": "#Person1#: Hi.\n#Person2#: Hello.", "summary": "Two people
       greet.", "topic": "greeting"}
  dialogsum/dialogsum.test.jsonl       three of each: "summary1", "topic1", "summary2", ...

Tasks are dialogsum_summary_en_en and dialogsum_topic_en_en. All three references of a test
dialogue are scored: rouge_1 is that of the best one, rouge_1_mean the mean over the three; a loss
is that of the first. The topic has a split more, hidden, whose dialogues and topics are in two
files, dialogsum.hiddentest.dialogue.jsonl and dialogsum.hiddentest.topic.jsonl; there are no
summaries of it. This is how a model writes some:

  python -m xlbench.predict RUNS/dialogsum --field=dialogue --output=out.jsonl \
      --input=data/dialogsum/dialogsum.hiddentest.dialogue.jsonl
"""

import functools
import json
from collections.abc import Iterator

from xlbench import pipeline
from xlbench.benchmarks import DIALOGSUM
from xlbench.data import postprocess, readers, rows
from xlbench.metrics import bleu, rouge

SPLITS = {'train': 'train', 'validation': 'dev', 'test': 'test'}  # As files call them.
HIDDEN = 'hidden'
FIELDS = ('id', 'inputs', 'targets', postprocess.REFERENCES)


def files(split: str) -> list[str]:
    """The files of a split, below the data root."""
    parts = ('hiddentest.dialogue', 'hiddentest.topic') if split == HIDDEN else (SPLITS[split],)
    return [f'dialogsum/dialogsum.{part}.jsonl' for part in parts]


def read(task: str, split: str, path: str, *others: str) -> Iterator[readers.Item]:
    """The examples of a split: dialogues with all their references."""
    keys = [f'{task}{i}' for i in (1, 2, 3)] if split == 'test' else [task]
    known: dict[str, tuple[str, ...]] = {}
    for other in others:
        for item in _texts(other, ['fname', *keys]):
            if isinstance(item, readers.BadRecord):
                yield item
            else:
                known[item[1][0]] = item[1][1:]
    for item in _texts(path, ['fname', 'dialogue', *([] if others else keys)]):
        if isinstance(item, readers.BadRecord):
            yield item
            continue
        number, (name, dialogue, *references) = item
        if others and name not in known:
            yield readers.BadRecord(path, number, f'fname {name!r} is not in {others[0]}')
            continue
        references = references or known[name]
        texts = name, dialogue, references[0], json.dumps(list(references), ensure_ascii=False)
        yield dict(zip(FIELDS, texts, strict=True))


def _texts(path: str, keys: list[str]) -> Iterator[tuple[int, tuple[str, ...]] | readers.BadRecord]:
    """The line and the texts of each object, the first of which is in one line alone."""
    seen: set[str] = set()

    def of_object(number: int, values: rows.Values) -> Iterator[tuple[int, tuple[str, ...]]]:
        texts = tuple(rows.text(values[key], key).strip() for key in keys)
        if texts[0] in seen:
            raise ValueError(f'{keys[0]} {texts[0]!r} is there twice')
        seen.add(texts[0])
        yield number, texts

    return readers.convert(path, rows.read(path, keys, rows.Layout('jsonl')), of_object)


for _task in DIALOGSUM.tasks:
    pipeline.add_text_task(
        DIALOGSUM.task_name(_task, 'en'),
        source=pipeline.RecordSource(
            functools.partial(read, _task),
            files,
            (*SPLITS, *([HIDDEN] if _task == 'topic' else [])),
            FIELDS,
            source_lang='en',
            target_lang='en',
            hint='python -m xlbench.data list dialogsum says how to get it; the training file '
            'is in the folder DialogSum_Data there, and belongs into the folder dialogsum',
        ),
        keep=['id', postprocess.REFERENCES],
        metrics=[
            rouge.MultilingualRouge('en'),
            rouge.MeanRouge('en'),
            bleu.SacreBleu.for_language('en'),
        ],
        postprocess_fn=postprocess.all_references,
    )
