"""A tiny prepared data root of labelled texts and tagged words, and configs; see tiny.py."""

import pathlib
import random
from collections.abc import Sequence

import ml_collections
import numpy as np
import prepared_files

from xlbench.benchmarks import FEWSHOT
from xlbench.configs import fewshot_source
from xlbench.data import buckets, labelled, prepared

VOCABULARY = {
    'name': 'none', 'sha256': 'none', 'size': 50, 'pad_id': 0, 'eos_id': 1, 'decoder_start_id': 0
}  # fmt: skip
LABELS = {'classification': ['bad', 'fair', 'good'], 'tagging': ['NOUN', 'VERB', 'X']}
METRICS = {
    'classification': ['xlbench.metrics.classification:Classification'],
    'tagging': ['xlbench.metrics.tagging:ChunkF1', 'xlbench.metrics.tagging:TagAccuracy'],
}
TASKS = {
    view: tuple(f'fewshot_{task}_{lang}_{lang}' for lang in ('en', 'de'))
    for view, task in (('classification', 'mldoc'), ('tagging', 'udpos'))
}
# Nothing here is a round number, so that no batch size divides it.
SIZES = {'train': 211, 'validation': 37, 'test': 45}
LENGTHS = {'inputs': 20, 'targets': 20}
START, END = 2, 1
# Of the German tasks and each number of shots; the last one of 1 shot is empty.
BUCKETS = 5


def record(view: str, words: Sequence[Sequence[int]], labels: Sequence[int]) -> dict:
    """A prepared record: words as ids, and the label of the text or of each word."""
    names = [LABELS[view][label] for label in labels]
    pieces = [len(word) for word in words]
    return {
        'inputs': np.array([START, *(i for word in words for i in word), END], np.int32),
        'targets': np.array(labels, np.int32),
        'piece_counts': np.array(pieces if view == 'tagging' else [sum(pieces)], np.int32),
        'inputs_pretokenized': ' '.join('-'.join(map(str, word)) for word in words),
        'targets_pretokenized': ' '.join(names),
    }


def records(view: str, task: str, split: str) -> list[dict]:
    """Texts of 1 to 12 words, some too long for LENGTHS; a word's last piece says its tag."""
    rng = random.Random(f'{task} {split}')
    found = []
    for _ in range(SIZES[split]):
        tags = [rng.randrange(3) for _ in range(rng.randint(1, 12))]
        if view == 'classification':
            tags = tags[:1] * len(tags)
        words = [
            [
                *(rng.randrange(30, 50) for _ in range(rng.randrange(3))),
                3 + 3 * rng.randrange(9) + t,
            ]
            for t in tags
        ]
        found.append(record(view, words, tags if view == 'tagging' else tags[:1]))
    return named(view, task, split, found)


def named(view: str, task: str, split: str, rows: Sequence[dict]) -> list[dict]:
    """The same records with the fields that tasks/fewshot.py keeps."""
    _, task, lang, _ = task.split('_')
    short = {'train': 'trn', 'validation': 'val', 'test': 'tst'}[split]
    uids = [str(labelled.Uid.of_row(task, lang, row, short)) for row in range(len(rows))]
    more = [{'uid': uid} if view == 'classification' else {} for uid in uids]
    return [row | {'bucket': ''} | own for row, own in zip(rows, more, strict=True)]


def few_shots(view: str, rows: Sequence[dict], shots: int, count: int, seed: str) -> list[dict]:
    """The records of all buckets that are drawn from `rows`, one bucket after another."""
    draw, labels = random.Random(seed), [row['targets_pretokenized'] for row in rows]
    if view == 'tagging':
        pool = buckets.MinimumIncluding([tags.split() for tags in labels], shots)
        chosen = [pool.sample(draw) for _ in range(count)]
    else:
        chosen = buckets.n_way(labels, LABELS[view], shots, count, draw)
    return [rows[i] | {'bucket': str(n)} for n, numbers in enumerate(chosen) for i in numbers]


def shot_records(view: str, task: str, shots: int) -> list[dict]:
    """BUCKETS buckets of a task, drawn from its split 'train'."""
    found = few_shots(view, records(view, task, 'train'), shots, BUCKETS, f'{task} {shots}')
    return [row for row in found if shots > 1 or row['bucket'] != str(BUCKETS - 1)]


@prepared_files.by_no_code()
def write_root(root: pathlib.Path) -> None:
    """Writes a vocabulary, every task and split, and the mixtures, as xlbench.prepare would."""
    texts = ['the ids of words are made up, and this is never read'] * 9
    tokenizer = prepared_files.train_vocabulary(root, texts, 50, eos_id=END, unk_id=START)
    vocabulary = tokenizer.manifest() | {'size': 50}
    for view, tasks in TASKS.items():
        for split in SIZES:
            for task in tasks:
                write_task(root, view, task, split, records(view, task, split), vocabulary)
            name = f'fewshot_zero_shot_{tasks[0].split("_")[1]}'
            prepared.write_mixture(str(root), 'sample', name, split, {tasks[0]: 1.0})
        for shots in FEWSHOT.shots(name.split('_')[-1]):
            rows = shot_records(view, tasks[1], shots)
            empty = {'empty buckets': 1} if shots == 1 else {}
            write_task(root, view, tasks[1], f'shots_{shots}', rows, vocabulary, left_out=empty)


def write_task(
    root, view, task, split, rows, vocabulary=VOCABULARY, left_out=(), name='sample', labels=()
) -> prepared.Prepared:
    """One preparation, with the vocabulary that users call `name`, and LABELS or other labels."""
    metrics = [{'metric': metric, 'kwargs': {}} for metric in METRICS[view]]
    return prepared_files.write(
        root, task, split, rows, name=name, eos_id=END, view=view, vocabulary=vocabulary,
        labels=list(labels or LABELS[view]), metrics=metrics, left_out=dict(left_out),
    )  # fmt: skip


def tiny_config(root: pathlib.Path, view: str, **overrides) -> ml_collections.ConfigDict:
    """configs/fewshot_source.py:sample on the tiny root, as `tiny.tiny_config`."""
    c = fewshot_source.get_config('task=' + {'classification': 'xnli', 'tagging': 'udpos'}[view])
    prepared_files.make_encoder_tiny(c, root, LENGTHS, 60)
    c.stages.source.mixture = f'fewshot_zero_shot_{TASKS[view][0].split("_")[1]}'
    c.evals.dev.tasks, c.evals.test.tasks = TASKS[view][:1], TASKS[view]
    c.checkpoints.every = 20
    return prepared_files.changed(c, overrides)
