"""Prepared tasks of made-up numbers, and what is in batches of them."""

import numpy as np

from xlbench.data import prepared

VOCABULARY = {'name': 'v', 'sha256': 'ab', 'size': 30_000, 'pad_id': 0, 'eos_id': 1, 'unk_id': 2}
VOCABULARY['decoder_start_id'] = 0
LENGTHS = {'inputs': 48, 'targets': 16}
MODES = {
    'plain': {'packing': False},
    'packed': {'packing': True},
    'buckets': {'packing': False, 'length_buckets': 3},
    'packed_buckets': {'packing': True, 'length_buckets': 3},
    'one_task': {'packing': False, 'one_task': True},
}


def make_task(
    root, name: str, count: int, first: int, vocabulary=VOCABULARY, **more
) -> prepared.Prepared:
    """Examples whose first input and target id is their own number, from `first` on."""
    rng = np.random.default_rng(first)
    manifest = {'task': name, 'split': 'train', 'vocabulary': vocabulary, 'inputs': []} | more
    with prepared.Writer(
        prepared.folder(str(root), 'v', name, 'train'), manifest=manifest, shard_examples=50
    ) as writer:
        writer.write_batch(
            [
                {'inputs': [first + i] * min(60, 2 + int(rng.lognormal(2.3, 0.6))) + [1],
                 'targets': [first + i] * rng.integers(1, 10) + [1]}
                for i in range(count)
            ]
        )  # fmt: skip
    return prepared.open_task(str(root), 'v', name, 'train')


def assert_equal_batches(left, right) -> None:
    assert len(left) == len(right)
    for one, other in zip(left, right, strict=True):
        assert one.keys() == other.keys()
        for name in one:
            np.testing.assert_array_equal(one[name], other[name], name)


def ids_of(batch) -> list[int]:
    """The numbers of the examples in a batch: the first input id of each segment."""
    first = (batch['encoder_positions'] == 0) & (batch['encoder_segment_ids'] > 0)
    return batch['encoder_input_tokens'][first].tolist()
