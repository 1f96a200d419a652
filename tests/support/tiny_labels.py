"""A tiny prepared data root of labelled texts and tagged words, and configs; see tiny.py."""

import pathlib
import random
from collections.abc import Sequence
from unittest import mock

import ml_collections
import numpy as np
import sentencepiece

from xlbench.benchmarks import FEWSHOT
from xlbench.configs import fewshot_source
from xlbench.data import buckets, labelled, prepared, tokenizers

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
    """Texts of 1 to 12 words of 1 to 3 pieces; a word's last piece says its tag.

    The label of a text is the tag of all its words. Some texts do not fit into LENGTHS.
    """
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


@mock.patch.object(prepared.freshness, 'code_fingerprint', lambda name: None)  # No code made these.
def write_root(root: pathlib.Path) -> None:
    """Writes a vocabulary, every task and split, and the mixtures, as xlbench.prepare would."""
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(['the ids of words are made up, and this is never read'] * 9),
        model_prefix=str(root / 'sample'),
        vocab_size=50,
        pad_id=0, eos_id=END, unk_id=START, bos_id=-1,
        hard_vocab_limit=False,
        minloglevel=2,
    )  # fmt: skip
    (root / 'sample.vocab').unlink()
    vocabulary = tokenizers.load('sample', str(root)).manifest() | {'size': 50}
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
    lang = task.rpartition('_')[2]
    manifest = {
        'task': task,
        'split': split,
        'view': view,
        'labels': list(labels or LABELS[view]),
        'features': {n: {'pad_id': 0, 'eos_id': END} for n in ('inputs', 'targets')},
        'vocabulary': vocabulary,
        'source_lang': lang,
        'target_lang': lang,
        'metrics': [{'metric': metric, 'kwargs': {}} for metric in METRICS[view]],
        'inputs': [],
        'data': 'sample',
        'skipped': [],
        'left_out': dict(left_out),
    }
    place = prepared.folder(str(root), name, task, split)
    with (
        mock.patch.object(prepared.freshness, 'code_fingerprint', lambda name: None),
        prepared.Writer(place, manifest=manifest, shard_examples=60) as writer,
    ):
        writer.write_batch(rows)
    return prepared.open_task(str(root), name, task, split)


def tiny_config(root: pathlib.Path, view: str, **overrides) -> ml_collections.ConfigDict:
    """configs/fewshot_source.py:sample on the tiny root, small enough for seconds on a CPU.

    Args:
      root: what `write_root` has filled.
      view: 'classification' or 'tagging'.
      **overrides: keys with dots written as double underscores: batches__batch_size=8.
    """
    c = fewshot_source.get_config('task=' + {'classification': 'xnli', 'tagging': 'udpos'}[view])
    c.data = dict(root=str(root), vocabulary='sample', sample=False)
    with c.unlocked():
        c.model.update(
            emb_dim=32, num_heads=2, head_dim=16, mlp_dim=64, num_layers=1, max_positions=32
        )
    c.batches.update(batch_size=16, lengths=LENGTHS)
    c.stages.source.update(
        mixture=f'fewshot_zero_shot_{TASKS[view][0].split("_")[1]}', num_steps=60
    )
    c.stages.source.optimizer.update(learning_rate=1e-2, warmup_steps=4 / 60)
    for name, every, tasks in (('dev', 20, TASKS[view][:1]), ('test', 0, TASKS[view])):
        c.evals[name].update(tasks=tasks, every=every, batch_size=16, lengths=LENGTHS)
    c.checkpoints.every = 20
    c.log_every = 1
    with c.unlocked():
        c.update_from_flattened_dict({k.replace('__', '.'): v for k, v in overrides.items()})
    return c
