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

The files of the last column with a language behind a - are those of google-research/xtreme; test
files need their labels. CoNLL-U files are those of Universal Dependencies, several treebanks of a
language are read one after another, and .iob2 are those of Universal NER: other sentences and
domains than WikiANN's, with the same tags. Tasks are fewshot_<task>_<lang>_<lang>, such as
fewshot_udpos_ta_ta; xnli and pawsx have a split 'train' in English alone. What a reader makes of a
line is in xlbench/labelled.py and xlbench/conllu.py.

The official code has a further class '<PAD>' of words, which is never right; here there is none.
"""

import functools
import os
from collections.abc import Iterator
from typing import Any

import seqio

from xlbench import conllu, labelled, languages, pipeline, readers
from xlbench.benchmarks import FEWSHOT
from xlbench.metrics import classification, tagging

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


def files(task: str, lang: str, split: str) -> list[str]:
    """The files of a split, below the data root: the first of FILES that is there, or the first."""
    names = {'lang': lang, 'name': languages.get(lang).name, 'split': SPLITS[split]}
    patterns = FILES[task].get(split, FILES[task].get('*', ()))
    paths = [f'fewshot/{task}/{pattern.format(**names)}' for pattern in patterns]
    there = (path for path in paths if readers.find(os.path.join(pipeline.root(), path)))
    return [next(there, paths[0])]


def read_texts(task: str, lang: str, split: str, *paths: str) -> Iterator[Any]:
    """Labelled texts; see labelled.READERS."""
    for path in paths:
        yield from labelled.READERS[task](path, lang, _UID_SPLITS[split])


def read_words(task: str, split: str, *paths: str) -> Iterator[Any]:
    """Tagged sentences, each with a tag of the task for every word."""
    formats = {'.conllu': conllu.read_conllu, '.iob2': conllu.read_iob2}
    for path in paths:
        suffix = os.path.splitext(path.removesuffix('.gz'))[1]
        for record in formats.get(suffix, conllu.read_tagged)(path):
            yield _known(record, path, TAGS[task]) if isinstance(record, dict) else record


def _known(record: readers.Record, path: str, tags: tuple[str, ...]) -> Any:
    """The record, or a BadRecord if it has another tag than `tags`."""
    for word, tag in conllu.words_of(record):
        if tag not in tags:
            start = record['words'][:40]
            reason = f'{tag} of {word!r} in the sentence {start!r} is not one of {", ".join(tags)}'
            return readers.BadRecord(path, 0, reason)
    return record


def register(task: str, lang: str) -> seqio.Task:
    """Adds one task in one language."""
    if task in TAGS:
        read, fields = functools.partial(read_words, task), ('words', 'tags')
        labels, view = TAGS[task], 'tagging'
        steps = pipeline.tagging_preprocessors(labels)
        metrics = [tagging.ChunkF1(), tagging.TagAccuracy()]
    else:
        read = functools.partial(read_texts, task, lang)
        fields = ('uid', *_TEXTS[task], 'label')
        labels, view = labelled.LABELS[task], 'classification'
        steps = pipeline.classification_preprocessors(labels, _TEXTS[task], keep=['uid'])
        metrics = [classification.Classification(labels)]
    has_train = lang in FEWSHOT.train_languages(task)

    def count(split: str, *paths: str) -> int:
        return sum(isinstance(record, dict) for record in read(split, *paths))

    return seqio.TaskRegistry.add(
        FEWSHOT.task_name(task, lang),
        source=pipeline.RecordSource(
            read,
            functools.partial(files, task, lang),
            [split for split in SPLITS if has_train or split != 'train'],
            fields,
            source_lang=lang,
            target_lang=lang,
            count=count,
            hint='the files that are looked for are listed at the top of tasks/fewshot.py',
        ),
        preprocessors=steps,
        output_features=pipeline.label_features(labels, view),
        metric_fns=metrics,
    )


for _task in FEWSHOT.tasks:
    for _lang in FEWSHOT.task_languages[_task]:
        register(_task, _lang)

for _scenario in FEWSHOT.scenarios():
    pipeline.add_mixture(_scenario.mixture, _scenario.train)
