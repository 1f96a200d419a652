"""Epochs in parts: their order, and sizes that do not divide; batches_test.py resumes them."""

import itertools

import numpy as np
import pytest
from feeds import LENGTHS, MODES, ids_of, make_task

from xlbench.data import batches, orders
from xlbench.data.orders import Curriculum
from xlbench.system.errors import UserError

# 83 + 22 pseudo examples in draws of their own, then 30 real ones: no multiples of 8 rows.
SIZES = {'demo_p': (83, 1000), 'demo_q': (22, 2000), 'demo_r': (30, 3000)}
PARTS = [['demo_p', 'demo_q'], ['demo_r']]


@pytest.fixture(scope='module')
def tasks(tmp_path_factory):
    root = tmp_path_factory.mktemp('data')
    return [make_task(root, name, *size) for name, size in SIZES.items()]


def feed(tasks, **kwargs) -> batches.TrainBatches:
    options = {'batch_size': 8, 'lengths': LENGTHS, 'seed': 3, 'row_multiple': 4, 'window': 40}
    options |= {'curriculum': PARTS, 'prefetch': 0}
    return batches.TrainBatches(tasks, [1.0] * len(tasks), **options | kwargs)


def names(batch_ids: list[int]) -> set[str]:
    """The tasks of example numbers."""
    return {'demo_' + 'pqr'[number // 1000 - 1] for number in batch_ids}


def epochs(tasks, count: int, **kwargs) -> list[list[list[int]]]:
    """The numbers of the examples of each batch of each epoch."""
    total = sum(size for size, _ in SIZES.values())
    found: list[list[list[int]]] = []
    with feed(tasks, **kwargs) as stream:
        for _ in range(count):
            found.append([])
            while sum(map(len, found[-1])) < total:
                found[-1].append(ids_of(next(stream)))
    return found


@pytest.mark.parametrize('mode', MODES)
def test_each_epoch_has_each_example_once_part_after_part(tasks, mode):
    everyone = sorted(first + i for size, first in SIZES.values() for i in range(size))
    found = epochs(tasks, 3, **MODES[mode])
    for epoch in found:
        assert sorted(itertools.chain(*epoch)) == everyone
        parts = [names(batch) for batch in epoch]
        assert all(part == {'demo_r'} or 'demo_r' not in part for part in parts)
        real = [part == {'demo_r'} for part in parts]
        assert real == sorted(real) and real.count(True) < real.count(False)
    assert found[0] != found[1] != found[2]
    if mode == 'plain':  # As few batches as there may be.
        assert [len(epoch) for epoch in found] == [-(-105 // 8) + -(-30 // 8)] * 3
    if mode != 'one_task':  # The tasks of a part are mixed all over it.
        assert sum(names(batch) == {'demo_p', 'demo_q'} for batch in found[0]) > 5


def test_what_is_said_of_a_curriculum_is_exact(tasks):
    with feed(tasks, packing=False) as stream:
        assert (stream.steps_per_epoch, stream.examples_per_step) == (14 + 4, 135 / 18)
        shares = stream.describe(36)
        assert [(share.examples, share.epochs) for share in shares] == [(83, 2), (22, 2), (30, 2)]
        for _ in range(18 + 14 + 2):  # Into the second part of the second epoch.
            next(stream)
        assert {name for name, _, _ in stream.examples()} == {'demo_r'}
        assert stream._windows.passes(0) == [0, 0, 0]
        assert stream._windows.passes(135 + 105 + 15) == [2, 2, 1.5]


def test_the_order_depends_on_parts_and_seed_alone(tasks):
    """Not on the window; another order of the parts is another feed."""
    whole = [orders.Stream([tasks[2]], [1.0], 3)(start, start + 30) for start in (0, 30)]
    for size in (8, 40, 1000):
        windows = Curriculum(tasks, [[0, 1], [2]], size=size, rows=8, seed=3)
        number, found = 0, []
        while sum(map(len, found)) < 2 * 135:
            found.append(windows(number))
            number += 1
            assert len(found[-1]) <= size
        stream = np.concatenate(found)
        for epoch, order in enumerate(whole):
            real = stream[epoch * 135 + 105 : (epoch + 1) * 135]
            np.testing.assert_array_equal(real, order + 105)
    with feed(tasks) as stream:
        position = stream.position()
    with pytest.raises(UserError, match=r'of another feed: .*curriculum'):
        feed(tasks, curriculum=PARTS[::-1], position=position)
    with pytest.raises(UserError, match='of another feed'):
        feed(tasks, curriculum=(), position=position)


def test_each_epoch_reads_the_next_draw_of_noise(tmp_path):
    noisy = make_task(tmp_path, 'demo_n', 36, 1000, draws=3)
    plain = make_task(tmp_path, 'demo_o', 10, 2000)
    windows = Curriculum([noisy, plain], [[0], [1]], size=12, rows=4, seed=0)
    for epoch in range(4):
        assert sorted(windows(2 * epoch)) == [3 * i + epoch % 3 for i in range(12)]
        assert sorted(windows(2 * epoch + 1)) == [*range(36, 46)]


@pytest.mark.parametrize(
    ('options', 'message'),
    [
        ({'curriculum': [['demo_p'], ['demo_r']]}, 'lacks demo_q of the mixture'),
        ({'curriculum': [['demo_p', 'demo_q'], ['demo_q', 'demo_r']]}, 'demo_q in two parts'),
        ({'curriculum': [*PARTS, ['demo_x']]}, 'has demo_x, which is not in the mixture'),
        ({'curriculum': [*PARTS, []]}, 'has a part without a task'),
        ({'each_task': True, 'batch_size': 12}, 'set each_task=False, or leave out the curriculum'),
    ],
)
def test_curricula_that_cannot_be(tasks, options, message):
    with pytest.raises(UserError, match=message) as caught:
        feed(tasks, **options)
    assert '\n' not in str(caught.value)
