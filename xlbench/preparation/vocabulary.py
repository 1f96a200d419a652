"""Trains a vocabulary on the texts of tasks."""

import functools
import os
import zlib
from collections.abc import Sequence

from xlbench import pipeline
from xlbench.data import tokenizers
from xlbench.preparation import examples, planning
from xlbench.system import errors, files, locks

_MOST_EXAMPLES = 10_000_000  # Their texts are held in memory.


def make_vocabulary(
    mixtures: str | Sequence[str],
    splits: str | Sequence[str],
    path: str,
    *,
    root: str,
    size: int,
    model_type: str = 'unigram',
    if_missing: bool = False,
) -> None:
    """Trains a SentencePiece vocabulary on the texts of tasks, into a new file.

    Args:
      mixtures: names, comma-separated or a sequence; NAME:SPLIT takes that split alone.
      splits: of the other names, likewise.
      path: of the model file; one that is there is kept, and the command stops.
      root: the data root.
      size: pieces at most.
      model_type: 'unigram' or 'bpe'.
      if_missing: one that is there is no error.
    """
    if not 0 < size < 2**31:
        raise errors.UserError(f'--vocabulary_size is {size}; give a number of pieces like 8000')
    with locks.file(path, wait=functools.partial(print, flush=True)):
        if os.path.exists(path):
            if not if_missing:
                raise errors.UserError(
                    f'{path} exists and is kept; name another --new_vocabulary, or go on with this '
                    'one: --if_missing'
                )
            print(f'{path} is there already', flush=True)
            return
        _make(mixtures, splits, path, root, size, model_type)


def _make(
    mixtures: str | Sequence[str],
    splits: str | Sequence[str],
    path: str,
    root: str,
    size: int,
    model_type: str,
) -> None:
    with pipeline.bound(None, root):
        plan = planning.resolve(mixtures, splits)
        tasks = {job: pipeline.get(job.task) for job in plan.jobs}
        # Of more texts than a vocabulary gets better by, an even share, the same each time.
        share = 1 + sum(job.examples for job in plan.sizes.values()) // _MOST_EXAMPLES
        langs = {
            lang
            for task in tasks.values()
            for side in ('source_lang', 'target_lang')
            if (lang := getattr(task.source, side, None))
        }
        # The same text stands in many tasks, such as one for each target language.
        lines = dict.fromkeys(
            text
            for job, task in tasks.items()
            for text in examples.texts(task, job.split)
            if share == 1 or zlib.crc32(text.encode()) % share == 0
        )
    symbols = [*(f'<{lang}>' for lang in sorted(langs)), pipeline.ANSWER_SEPARATOR.strip()]
    # BPE is for texts that stay as they are, as in arXiv:1508.07909.
    normalization = 'identity' if model_type == 'bpe' else 'nmt_nfkc'
    model = tokenizers.train_sentencepiece(
        lines, size=size, symbols=symbols, model_type=model_type, normalization=normalization
    )
    files.write(path, model)
    print(f'a vocabulary of at most {size} pieces from {len(lines):,} texts -> {path}')
