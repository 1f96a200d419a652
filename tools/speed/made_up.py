"""Made-up examples for the scripts here: ids of random tokens, with the lengths of real tasks.

Both sides of a measurement read the same ids: xlbench as a preparation, the others from ids.json.
"""

import json
import pathlib
from typing import NamedTuple

VOCABULARY = {
    'name': 'made_up', 'sha256': '0' * 64, 'pad_id': 0, 'eos_id': 1, 'unk_id': 2,
    'decoder_start_id': 0,
}  # fmt: skip
FILE = 'ids.json'
TASK = 'made_up'


class Lengths(NamedTuple):
    """How long examples are, in tokens: lengths are log-normal, cut at the limits."""

    inputs: tuple[float, float]  # median, and the standard deviation of its logarithm
    targets: tuple[float, float]
    limits: tuple[int, int]


# Messages and answers; dialogues and summaries or answers; long texts and summaries.
MESSAGES = Lengths((60, 0.6), (26, 0.5), (256, 64))
DIALOGUES = Lengths((153, 0.6), (26, 0.5), (512, 128))
LONG = Lengths((471, 0.6), (65, 0.5), (1024, 128))


def manifest_of(task: str, split: str, vocab_size: int = 1000, **extra) -> dict:
    """What a preparation of made-up ids says of itself."""
    return {
        'task': task, 'split': split, 'vocabulary': {**VOCABULARY, 'size': vocab_size},
        'features': {name: {'pad_id': 0, 'eos_id': 1} for name in ('inputs', 'targets')},
        'metrics': [], 'inputs': [], 'data': 'files', 'skipped': [], **extra,
    }  # fmt: skip


def write(folder: str, count: int, lengths: Lengths, vocab_size: int, seed: int = 0) -> None:
    """Writes examples with ids from 3 to `vocab_size`, as a preparation and as FILE."""
    import numpy as np

    from xlbench.data import prepared

    rng = np.random.default_rng(seed)
    columns = []
    for (median, sigma), limit in zip(lengths[:2], lengths.limits, strict=True):
        sizes = np.exp(rng.normal(np.log(median), sigma, count)).astype(int).clip(4, limit)
        columns.append([[*rng.integers(3, vocab_size, n - 1).tolist(), 1] for n in sizes])
    examples = list(zip(*columns, strict=True))
    (pathlib.Path(folder) / FILE).write_text(json.dumps(examples), 'utf-8')
    manifest = manifest_of(TASK, 'train', vocab_size, source_lang='en', target_lang='en')
    texts = {'inputs_pretokenized': 'made up', 'targets_pretokenized': 'made up'}
    place = prepared.folder(folder, 'made_up', TASK, 'train')
    with prepared.Writer(place, manifest=manifest) as writer:
        writer.write_batch([{'inputs': a, 'targets': b, **texts} for a, b in examples])


def read(folder: str) -> list[tuple[list[int], list[int]]]:
    """(ids of inputs, ids of targets) of each example, as `write` has left them."""
    return json.loads((pathlib.Path(folder) / FILE).read_text('utf-8'))


def open_prepared(folder: str):
    """The preparation that `write` has left."""
    from xlbench.data import prepared

    return prepared.open_task(folder, 'made_up', TASK, 'train')
