"""Few-shot cross-lingual transfer (arXiv:2012.15682): six tasks in up to 40 languages.

Reads below <data root>/fewshot the official files, each packed (.gz) or not; where several are
named, the first that is there:

  xnli   train       xnli/train.tsv (MNLI, from GLUE; also train_split.tsv)   xnli/train-en.tsv
         validation  xnli/xnli.dev.tsv                                        xnli/dev-de.tsv
         test        xnli/xnli.test.tsv                                       xnli/test-de.tsv
  pawsx  train       pawsx/en/train.tsv                                       pawsx/train-en.tsv
         validation  pawsx/de/dev_2k.tsv                                      pawsx/dev-de.tsv
         test        pawsx/de/test_2k.tsv                                     pawsx/test-de.tsv
  mldoc  train       mldoc/de/de.train.10000                      mldoc/german.train.10000
         validation  mldoc/de/de.dev                              mldoc/german.dev
         test        mldoc/de/de.test                             mldoc/german.test
  marc   train       marc/train/dataset_de_train.json    and so on with dev and test
  udpos  train       udpos/train-de.tsv                  udpos/de_*-ud-train.conllu
         validation  udpos/dev-de.tsv                    udpos/de_*-ud-dev.conllu
         test        udpos/test-de.tsv                   udpos/de_*-ud-test.conllu
  panx   as udpos    panx/train-de.tsv                   panx/de_*-ud-train.iob2

tasks/dev_split makes training and test files of xnli and pawsx from dev files alone. Where no file
of udpos or panx is there, what TensorFlow Datasets hosts below <data root>/tfds is read: see
tasks/xtreme.py, which also downloads it.

The files of the last column with a language behind a - are those of google-research/xtreme; test
files need their labels. CoNLL-U files are those of Universal Dependencies, several treebanks of a
language are read one after another, and .iob2 are those of Universal NER: other sentences and
domains than WikiANN's, with the same tags. Tasks are fewshot_<task>_<lang>_<lang>, such as
fewshot_udpos_ta_ta; xnli and pawsx have a split 'train' in English alone. What a reader makes of a
line is in xlbench/data/labelled.py and xlbench/data/conllu.py.

The splits shots_1, shots_2, shots_4 and, of texts, shots_8 are the buckets of few shots, one behind
another, in one of the two forms that xlbench/data/buckets.py reads:

  texts   buckets/xnli/4-shots/german/0-th/sampled.json and so on  buckets/xnli/4-shots/german.jsonl
  words   buckets/udpos/4-shots/ta/0-th/train.tsv and so on        buckets/udpos/4-shots/ta.jsonl

A language's code and its English name are both known. A record says in `bucket` which bucket it is
of, and has '' there in other splits; buckets without an example count as left out.

The official code has a further class '<PAD>' of words, which is never right; here there is none,
unless config.model.pad_label adds one.
"""

import functools
import os
from collections.abc import Iterator
from typing import Any

from xlbench import pipeline
from xlbench.benchmarks import FEWSHOT, languages
from xlbench.data import buckets, conllu, labelled, readers
from xlbench.metrics import classification, tagging
from xlbench.tasks import xtreme

SPLITS = {'train': 'train', 'validation': 'dev', 'test': 'test'}  # As files call them.
_UID_SPLITS = {'train': 'trn', 'validation': 'val', 'test': 'tst'}
_TEXTS = {
    task: ('text_a',) if task == 'mldoc' else ('text_a', 'text_b') for task in labelled.LABELS
}
TAGS = {
    'udpos': (
        'ADJ', 'ADP', 'ADV', 'AUX', 'CCONJ', 'DET', 'INTJ', 'NOUN', 'NUM', 'PART', 'PRON', 'PROPN',
        'PUNCT', 'SCONJ', 'SYM', 'VERB', 'X',
    ),
    'panx': ('B-LOC', 'B-ORG', 'B-PER', 'I-LOC', 'I-ORG', 'I-PER', 'O'),
}  # fmt: skip
# Task -> split, or '*' for all others -> the files, the first first. {split} is dev, {name} german.
FILES: dict[str, dict[str, tuple[str, ...]]] = {
    'xnli': {
        'train': ('train.tsv', 'train_split.tsv', 'train-{lang}.tsv'),
        '*': ('xnli.{split}.tsv', '{split}-{lang}.tsv'),
    },
    'pawsx': {
        'train': ('{lang}/train.tsv', 'train-{lang}.tsv'),
        '*': ('{lang}/{split}_2k.tsv', '{split}-{lang}.tsv'),
    },
    'mldoc': {
        'train': ('{lang}/{lang}.train.10000', '{name}.train.10000'),
        '*': ('{lang}/{lang}.{split}', '{name}.{split}'),
    },
    'marc': {'*': ('{split}/dataset_{lang}_{split}.json',)},
    'udpos': {'*': ('{split}-{lang}.tsv', '{lang}_*-ud-{split}.conllu*')},
    'panx': {'*': ('{split}-{lang}.tsv', '{lang}_*-ud-{split}.iob2*')},
}


def shots(split: str) -> int:
    """The number of shots of a split, 0 if it has no buckets. Example: 'shots_4' -> 4."""
    return int(split.removeprefix('shots_')) if split.startswith('shots_') else 0


def files(task: str, lang: str, split: str) -> list[str]:
    """The files of a split, below the data root: the first of FILES that is there.

    If there is none, those of TensorFlow Datasets below `tfds`; else the first of FILES.
    """
    if shots(split):
        return bucket_files(task, lang, shots(split))
    names = {'lang': lang, 'name': languages.get(lang).name, 'split': SPLITS[split]}
    patterns = FILES[task].get(split, FILES[task].get('*', ()))
    paths = [f'fewshot/{task}/{pattern.format(**names)}' for pattern in patterns]
    for path in paths:
        if readers.find(os.path.join(pipeline.root(), path)):
            return [path]
    # The folder into which `python -m xlbench.data xtreme` downloads.
    return xtreme.files(task, lang, split, os.path.join(pipeline.root(), 'tfds')) or paths[:1]


def bucket_files(task: str, lang: str, shots: int) -> list[str]:
    """The files of the buckets of a language."""
    return buckets.find(bucket_place(task, lang, shots))


def further_files(task: str, lang: str, split: str) -> list[str]:
    """The place of the next bucket: if it comes, what was prepared without it is stale."""
    place = bucket_place(task, lang, shots(split)) if shots(split) else ''
    if not os.path.isdir(place):
        return []
    name = 'train.tsv' if task in TAGS else 'sampled.json'
    return [os.path.join(place, f'{len(buckets.find(place))}-th', name)]


def bucket_place(task: str, lang: str, shots: int) -> str:
    """The folder or file of a language's buckets, the first that is there."""
    folder = os.path.join(pipeline.root(), f'fewshot/buckets/{task}/{shots}-shots')
    names = [os.path.join(folder, name) for name in (lang, languages.get(lang).name)]
    places = [f'{name}{end}' for name in names for end in ('', '.jsonl', '.jsonl.gz')]
    return next(filter(os.path.exists, places), names[task not in TAGS])


def read(task: str, lang: str, split: str, *paths: str) -> Iterator[Any]:
    """The records of a split, tagged sentences with a tag of the task for every word."""
    hosted = os.path.basename(paths[0]) == xtreme.INFO
    # Of a data set of TFDS the first file stands for all.
    for path in paths[:1] if hosted else paths:
        found = xtreme.read(task, lang, split, path) if hosted else None
        for record in found or _read_file(task, lang, split, path):
            if not isinstance(record, dict):
                yield record
                continue
            record = {'bucket': '', **record}
            yield _known(record, path, TAGS[task]) if task in TAGS else record


def _read_file(task: str, lang: str, split: str, path: str) -> Iterator[Any]:
    """Reads one file: examples of buckets, labelled texts, or tagged sentences."""
    if shots(split):
        for bucket in buckets.read(path):
            if not bucket.examples:
                yield readers.LeftOut('empty buckets')
            yield from ({**example, 'bucket': str(bucket.index)} for example in bucket.examples)
    elif task not in TAGS:
        yield from labelled.READERS[task](path, lang, _UID_SPLITS[split])
    else:
        formats = {'.conllu': conllu.read_conllu, '.iob2': conllu.read_iob2}
        suffix = os.path.splitext(path.removesuffix('.gz'))[1]
        yield from formats.get(suffix, conllu.read_tagged)(path)


def _known(record: readers.Record, path: str, tags: tuple[str, ...]) -> Any:
    """The record, or a BadRecord if it has another tag than `tags`."""
    for word, tag in conllu.words_of(record):
        if tag not in tags:
            start = record['words'][:40]
            reason = f'{tag} of {word!r} in the sentence {start!r} is not one of {", ".join(tags)}'
            return readers.BadRecord(path, 0, reason)
    return record


def register(task: str, lang: str) -> pipeline.DeclaredTask:
    """Adds one task in one language."""
    if task in TAGS:
        fields, labels, view = ('words', 'tags', 'bucket'), TAGS[task], 'tagging'
        steps = pipeline.tagging_preprocessors(labels, keep=['bucket'])
        metrics = [tagging.ChunkF1(), tagging.TagAccuracy()]
    else:
        fields = ('uid', *_TEXTS[task], 'label', 'bucket')
        labels, view = labelled.LABELS[task], 'classification'
        steps = pipeline.classification_preprocessors(labels, _TEXTS[task], ['uid', 'bucket'])
        metrics = [classification.Classification(labels)]
    has_train = lang in FEWSHOT.train_languages(task)
    splits = [split for split in SPLITS if has_train or split != 'train']

    return pipeline.add_task(
        FEWSHOT.task_name(task, lang),
        source=pipeline.RecordSource(
            functools.partial(read, task, lang),
            functools.partial(files, task, lang),
            [*splits, *(f'shots_{number}' for number in FEWSHOT.shots(task))],
            fields,
            source_lang=lang,
            target_lang=lang,
            optional=functools.partial(further_files, task, lang),
            hint='the files that are looked for are listed at the top of tasks/fewshot.py',
        ),
        preprocessors=steps,
        output_features=pipeline.label_features(labels, view),
        metric_fns=metrics,
    )


for _task in FEWSHOT.tasks:
    for _lang in FEWSHOT.task_languages[_task]:
        register(_task, _lang)

pipeline.add_scenarios(FEWSHOT)
