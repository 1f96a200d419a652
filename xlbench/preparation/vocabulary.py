"""Trains a vocabulary on the texts of tasks."""

import functools
import os
from collections.abc import Sequence

from xlbench import errors, files, locks, pipeline
from xlbench.data import tokenizers
from xlbench.preparation import examples, planning


def make_vocabulary(
    mixtures: str | Sequence[str],
    splits: str | Sequence[str],
    path: str,
    *,
    root: str,
    size: int,
    if_missing: bool = False,
) -> None:
    """Trains a SentencePiece vocabulary on the texts of tasks, into a new file.

    Args:
      mixtures: names, comma-separated or a sequence; NAME:SPLIT takes that split alone.
      splits: of the other names, likewise.
      path: of the model file; one that is there is kept, and the command stops.
      root: the data root.
      size: pieces at most.
      if_missing: one that is there is no error.
    """
    if not 0 < size < 2**31:
        raise errors.UserError(f'--vocabulary_size is {size}; give a number of pieces like 8000')
    with locks.file(path, wait=functools.partial(print, flush=True)):
        if os.path.exists(path):
            if not if_missing:
                raise errors.UserError(f'{path} exists and is kept; name another --new_vocabulary')
            print(f'{path} is there already', flush=True)
            return
        _make(mixtures, splits, path, root, size)


def _make(
    mixtures: str | Sequence[str], splits: str | Sequence[str], path: str, root: str, size: int
) -> None:
    with pipeline.bound(None, root):
        jobs = planning.resolve(mixtures, splits).jobs
        tasks = {job: pipeline.get(job.task) for job in jobs}
        langs = {
            lang
            for task in tasks.values()
            for side in ('source_lang', 'target_lang')
            if (lang := getattr(task.source, side, None))
        }
        # The same text stands in many tasks, such as one for each target language.
        lines = dict.fromkeys(
            text for job, task in tasks.items() for text in examples.texts(task, job.split)
        )
    symbols = [*(f'<{lang}>' for lang in sorted(langs)), pipeline.ANSWER_SEPARATOR.strip()]
    files.write(path, tokenizers.train_sentencepiece(lines, size=size, symbols=symbols))
    print(f'a vocabulary of at most {size} pieces from {len(lines):,} texts -> {path}')
