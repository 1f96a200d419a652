"""Workdirs of few-shot sweeps with made-up scores; see xlbench/fewshot/results.py."""

import json
import pathlib
from collections.abc import Iterable, Sequence
from typing import Any

from xlbench.fewshot.results import ZERO_SHOT, Journal, Row


def row(
    language: str,
    shots: int,
    bucket: int | None,
    score: float | None,
    dev_score: float | None = 50.0,
    *,
    task: str = 'udpos',
    method: str = 'full',
    start: str = 'source',
    learning_rate: float | None = 1e-5,
    seed: int | None = 42,
) -> Row:
    """One adaptation; without a score, that of an empty bucket."""
    done = score is not None
    return Row(
        task=task, language=language, shots=shots, bucket=bucket, method=method, start=start,
        learning_rate=learning_rate, seed=seed, score=score,
        metric='chunk_f1' if task in ('udpos', 'panx') else 'accuracy',
        dev_score=dev_score if done else None, best_epoch=1 if done else None,
        epochs=3 if done else None, examples=5 if done else 0, status='done' if done else 'empty',
        curve=(40.0, 50.0, 45.0) if done else (),
    )  # fmt: skip


def zero_shot(language: str, score: float, start: str = 'source', task: str = 'udpos') -> Row:
    """The score of a model that is not adapted."""
    found = row(
        language, 0, None, score, None, task=task, method=ZERO_SHOT, start=start,
        learning_rate=None, seed=None,
    )  # fmt: skip
    return found.__class__(**{**vars(found), 'best_epoch': None, 'epochs': None, 'curve': ()})


def group(language: str, shots: int, scores: Sequence[float], **fields: Any) -> list[Row]:
    """The adaptations to buckets 0, 1, ... with these scores."""
    return [row(language, shots, i, score, **fields) for i, score in enumerate(scores)]


def write(folder: pathlib.Path, rows: Iterable[Row], **info: Any) -> pathlib.Path:
    """A workdir with these rows; `info` goes into config.json."""
    folder.mkdir(parents=True)
    about = {
        'data': 'sample',
        'config': {
            'source': {'seed': 0, 'data': {'root': str(folder), 'vocabulary': 'none'}},
            'source_workdir': '',
            'adapt': {'buckets': 0, 'dev': 'validation', 'lengths': {'inputs': 32}},
        },
    }
    (folder / 'config.json').write_text(json.dumps(about | info), encoding='utf-8')
    journal = Journal(folder)
    for one in rows:
        journal.add(one)
    return folder
