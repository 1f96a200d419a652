"""The feed: the same batches on any number of processes, exact resume, every example, the rates."""

import collections
import itertools
import threading

import feeds
import numpy as np
import pytest
from feeds import LENGTHS, VOCABULARY, assert_equal_batches, ids_of, make_task
from nightly import by_day

from xlbench.data import batches, orders, prepared
from xlbench.system.errors import UserError

MODES = feeds.MODES | {
    'equal_rows': {'packing': False, 'length_buckets': 3, 'equal_rows': True},
    'one_task_packed_buckets': {'packing': True, 'length_buckets': 3, 'one_task': True},
}
EACH = {
    'each_task': {'packing': False, 'each_task': True, 'batch_size': 12},
    'each_task_packed': {'packing': True, 'each_task': True, 'batch_size': 12},
}
PARTS = {'curriculum': [['demo_b', 'demo_c'], ['demo_a']]}
EPOCHS = {
    'epochs': {'packing': False, **PARTS},
    'epochs_packed_buckets': {'packing': True, 'length_buckets': 3, **PARTS},
    'epochs_of_one_task': {'packing': False, 'one_task': True, **PARTS},
}
ALL = MODES | EACH | EPOCHS
# Their parts, and both in epochs, are tested by day.
SLOW = 'packed_buckets', 'one_task_packed_buckets'
OFTEN = by_day([mode for mode in ALL if mode not in SLOW], ALL)


@pytest.fixture(scope='module')
def tasks(tmp_path_factory) -> list[prepared.Prepared]:
    root = tmp_path_factory.mktemp('data')
    sizes = {'demo_a': (200, 1000), 'demo_b': (60, 2000), 'demo_c': (15, 3000)}
    return [make_task(root, name, *size) for name, size in sizes.items()]


RATES = [200.0, 60.0, 15.0]


def feed(tasks, rates=RATES, **kwargs) -> batches.TrainBatches:
    options = {'batch_size': 8, 'lengths': LENGTHS, 'seed': 3, 'row_multiple': 4} | kwargs
    return batches.TrainBatches(tasks, rates, **options)


def take(tasks, count: int, **kwargs) -> list[dict]:
    with feed(tasks, **kwargs) as stream:
        return [next(stream) for _ in range(count)]


def joined(parts) -> list[dict]:
    """The batches of several processes as those of one."""
    return [
        {name: np.concatenate([part[name] for part in step]) for name in step[0]}
        for step in zip(*parts, strict=True)
    ]


def window_ids(tasks, windows: int, **kwargs) -> list[list[int]]:
    with feed(tasks, **kwargs) as stream:
        found: list[list[int]] = [[] for _ in range(windows)]
        while (at := stream.position()['window']) < windows:
            found[at] += ids_of(next(stream))
    return found


# ------------------------------------------------------------------------------------- training


@pytest.mark.parametrize('mode', OFTEN)
def test_resuming_is_exact_at_every_position(tasks, mode):
    options = ALL[mode] | {'window': 64, 'prefetch': 0}
    with feed(tasks, **options) as stream:
        positions, expected = [], []
        while stream.position()['window'] < 3:
            positions.append(stream.position())
            expected.append(next(stream))
        positions.append(stream.position())
        expected.append(next(stream))
    assert all(isinstance(value, int) for p in positions for value in p.values())
    for index, position in enumerate(positions):
        with feed(tasks, position=position, **options) as stream:
            assert stream.position() == position
            again = [next(stream) for _ in expected[index : index + 2]]
        assert_equal_batches(again, expected[index : index + 2])


@pytest.mark.parametrize('prefetch', [1, 5])
def test_prefetching_changes_nothing(tasks, prefetch):
    with feed(tasks, prefetch=0) as plain, feed(tasks, prefetch=prefetch) as ahead:
        for _ in range(30):
            assert_equal_batches([next(ahead)], [next(plain)])
            assert ahead.position() == plain.position()


@pytest.mark.parametrize('mode', OFTEN)
def test_any_number_of_processes_makes_the_same_batches(tasks, mode):
    def run(count: int, position=None, steps: int = 12):
        options = ALL[mode] | {'process_count': count, 'position': position, 'window': 64}
        parts = []
        for index in range(count):
            with feed(tasks, process_index=index, **options) as stream:
                parts.append([next(stream) for _ in range(steps)])
                end = stream.position()
        return joined(parts), end

    one, end = run(1)
    for count in (2, 4):
        many, many_end = run(count)
        assert_equal_batches(many, one)
        assert many_end == end
    # The number of processes changes at a resume.
    beginning, middle = run(2, steps=5)
    rest, _ = run(4, position=middle, steps=7)
    assert_equal_batches(beginning + rest, one)


@pytest.mark.parametrize('mode', MODES)
def test_every_example_of_a_window_comes_exactly_once(tasks, mode):
    """Windows of one pass of the mixture: with proportional rates, each example once in each."""
    everyone = sorted([*range(1000, 1200), *range(2000, 2060), *range(3000, 3015)])
    found = window_ids(tasks, 4, window=len(everyone), **MODES[mode])
    # A pass of a task may begin within a window, so whole tasks are compared over all windows.
    counts = collections.Counter(number for ids in found for number in ids)
    assert [len(ids) for ids in found] == [len(everyone)] * 4
    assert set(counts) == set(everyone)
    assert min(counts.values()) >= 3 and max(counts.values()) <= 5


def test_a_pass_over_one_task_has_each_example_once_and_each_pass_another_order(tasks):
    found = window_ids(tasks[:1], 3, rates=[1.0], window=200, packing=False)
    for ids in found:
        assert sorted(ids) == list(range(1000, 1200))
    assert found[0] != found[1] != found[2]
    assert sorted(found[0]) != found[0]


def test_each_pass_reads_the_next_draw_of_each_example(tasks, tmp_path):
    """12 examples in 3 draws beside a task without: epochs and rates count examples."""
    noisy = make_task(tmp_path, 'demo_n', 36, 1000, draws=3)
    assert (len(noisy), noisy.pass_size) == (36, 12)
    found = window_ids([noisy], 7, rates=[1.0], window=12, packing=False, batch_size=4)
    for number, ids in enumerate(found):
        assert sorted(ids) == [1000 + 3 * i + number % 3 for i in range(12)]
    examples = [[(n - 1000) // 3 for n in ids] for ids in found]
    assert examples[0] != examples[3]  # Each pass has an order of its own, too.
    plain = make_task(tmp_path, 'demo_o', 24, 2000)
    with feed([noisy, plain], [1, 2], packing=False, batch_size=4) as stream:
        told = stream.describe(18)
    assert [(share.examples, share.epochs) for share in told] == [(12, 2.0), (24, 2.0)]
    both = window_ids([noisy, plain], 3, rates=[1, 2], window=36, packing=False, batch_size=4)
    numbers = [number - 1000 for ids in both for number in ids if number < 2000]
    assert len(numbers) == 36 and len(set(numbers)) == 36
    options = dict(each_task=True, window=24, packing=False, batch_size=4)
    for number, ids in enumerate(window_ids([noisy, plain], 4, rates=[1, 2], **options)):
        assert sorted(ids)[:12] == [1000 + 3 * i + number % 3 for i in range(12)]
        assert len(ids) == 24


def test_a_manifest_with_impossible_draws_is_no_preparation(tmp_path):
    for draws in (0, 5, 'x'):
        with pytest.raises(prepared.NotPrepared, match='draws'):
            make_task(tmp_path, 'demo_n', 36, 1000, draws=draws)


def test_rates_are_respected_everywhere_in_the_stream(tasks):
    rates = [1.0, 2.0, 7.0]
    found = window_ids(tasks, 5, rates=rates, window=100, packing=False, batch_size=4)
    for ids in found:
        counts = collections.Counter(number // 1000 for number in ids)
        for task, rate in zip((1, 2, 3), rates, strict=True):
            assert abs(counts[task] - 10 * rate) <= 2
    # The small task is repeated, each pass of it complete.
    small = [number for ids in found for number in ids if number >= 3000]
    for start in range(0, len(small) - 15, 15):
        assert sorted(small[start : start + 15]) == list(range(3000, 3015))


def test_the_stream_is_the_same_in_pieces_of_any_size(tasks):
    stream = orders.Stream(tasks, [0.3, 0.6999, 0.0001], seed=5)
    whole = stream(0, 5000)
    for size in (1, 7, 640):
        pieces = [stream(at, at + size) for at in range(0, 640, size)]
        np.testing.assert_array_equal(np.concatenate(pieces)[:640], whole[:640])
    np.testing.assert_array_equal(stream(4321, 4999), whole[4321:4999])
    far = 10**12
    np.testing.assert_array_equal(stream(far, far + 99)[50:], stream(far + 50, far + 99))


def test_seeds_and_only_seeds_change_the_order(tasks):
    found, again, other = (take(tasks, 9, seed=seed) for seed in (3, 3, 4))
    assert_equal_batches(found, again)
    assert [ids_of(b) for b in found] != [ids_of(b) for b in other]


def test_parts_of_a_permutation_are_those_of_the_whole(monkeypatch):
    # A golden value: a resumed run must go on as it began, in any release.
    assert orders.permutation(8, 1, 2).tolist() == [5, 6, 3, 2, 1, 0, 4, 7]
    monkeypatch.setattr(orders, '_CHUNK', 100)
    rng = np.random.default_rng(0)
    for count, block in ((0, 8), (1, 8), (7, 8), (8, 8), (1000, 8), (1000, 64), (1000, 2000)):
        whole = orders.permutation(count, 3, 4)
        part = orders.Permutation(count, 3, 4, block=block)
        np.testing.assert_array_equal(part(np.arange(count)), whole)
        for size in (1, 5, 40) if count else ():
            places = rng.integers(0, count, size)
            np.testing.assert_array_equal(part(places), whole[places])


@pytest.mark.parametrize('mode', MODES)
def test_batches_have_the_announced_shapes_and_real_tokens(tasks, mode):
    with feed(tasks, **MODES[mode]) as stream:
        shapes, share = stream.shapes, stream.real_share
        real = positions = 0
        while stream.position()['window'] == 0:
            batch = next(stream)
            rows, inputs = batch['encoder_input_tokens'].shape
            assert (rows, inputs, batch['decoder_target_tokens'].shape[1]) in shapes
            for side in ('encoder', 'decoder'):
                segments = batch[f'{side}_segment_ids']
                real += (segments > 0).sum()
                positions += segments.size
        assert share == pytest.approx(real / positions)
        assert 0.3 < share <= 1
        assert len(shapes) == (3 if 'length_buckets' in MODES[mode] else 1)
        if mode == 'equal_rows':
            assert {rows for rows, _, _ in shapes} == {8}
        lines = stream.shape_lines()
        assert len(lines) == len(shapes) + 1 and 'real tokens' in lines[-1]


@pytest.mark.parametrize('mode', ['one_task', 'one_task_packed_buckets'])
def test_a_batch_of_one_task(tasks, mode):
    with feed(tasks, window=275, **MODES[mode]) as stream:
        found = []
        while stream.position()['window'] < 2:
            found.append(ids_of(next(stream)))
    of_task = [{number // 1000 for number in ids} for ids in found]
    assert all(len(numbers) <= 1 for numbers in of_task)
    order_of_tasks = [numbers.pop() for numbers in of_task if numbers]
    assert set(order_of_tasks) == {1, 2, 3}
    changes = sum(a != b for a, b in itertools.pairwise(order_of_tasks))
    assert changes > 6  # Mixed, not one task after another.
    if mode == 'one_task':
        # Only the last batch of a task can have empty rows, and shares them with the others.
        rows = np.array([len(ids) for ids in found])
        assert rows.sum() == 550 and len(rows) == 2 * (25 + 8 + 2)
        assert rows.min() >= 7


@pytest.mark.parametrize('mode', EACH)
def test_a_batch_with_rows_of_each_task(tasks, mode):
    """Four rows of each task, each task in passes of its own, each example once in a pass."""
    with feed(tasks, **EACH[mode]) as stream:
        examples = {share.task: share.examples for share in stream.describe(1)}
        weights, seen = [], collections.Counter()
        while stream.position()['window'] < 2:
            batch = next(stream)
            first = batch['encoder_input_tokens'][:, 0] // 1000
            of_row = np.repeat([1, 2, 3], 4)
            assert ((first == of_row) | (batch['decoder_segment_ids'][:, 0] == 0)).all()
            seen.update(ids_of(batch))
            tokens = batch['decoder_loss_weights'].sum(1)
            of_task = tokens.reshape(3, 4).sum(1)
            expected = np.where(of_task, tokens.sum() / np.maximum(of_task, 1), 0)
            np.testing.assert_allclose(
                batch['task_weights'], np.repeat(np.diag(expected), 4, axis=0), rtol=1e-6
            )
            weights.append(of_task)
        assert seen.total() == 2 * stream.window
        passes = dict(zip(examples, stream._windows.passes(seen.total()), strict=True))
    for (name, size), start in zip(examples.items(), (1000, 2000, 3000), strict=True):
        counts = [seen[number] for number in range(start, start + size)]
        assert max(counts) - min(counts) <= 1  # The last pass may have begun.
        assert sum(counts) / size == pytest.approx(passes[name])
    empty = (np.array(weights) == 0).mean()
    assert empty < 0.1 if mode == 'each_task_packed' else empty == 0


def test_batches_of_one_task_make_room_for_the_last_of_each(tasks):
    for one_task, window in ((False, 2 * 64), (True, 276)):  # All 275 examples, in whole batches.
        with feed(tasks, packing=False, batch_size=2, one_task=one_task) as stream:
            assert stream.window == window


def test_packing_has_far_fewer_padding_positions(tasks):
    with feed(tasks, packing=False) as plain, feed(tasks) as packed:
        assert packed.real_share > 1.8 * plain.real_share
        assert packed.examples_per_step > 1.8 * plain.examples_per_step


def test_long_examples_are_trimmed_and_counted(tasks):
    with feed(tasks, lengths={'inputs': 5, 'targets': 3}, packing=False) as stream:
        batch = next(stream)
        assert stream.trimmed['inputs'] > 100 and stream.trimmed['targets'] > 100
        assert 'are truncated' in stream.shape_lines()[-1]
    full = batch['encoder_segment_ids'][:, -1] > 0
    assert full.any() and (batch['encoder_input_tokens'][full, -1] == 1).all()


def test_the_description_counts_passes(tasks):
    with feed(tasks, [1, 1, 2], packing=False, batch_size=8) as stream:
        told = stream.describe(100)
        shares = [('demo_a', 200, 0.25), ('demo_b', 60, 0.25), ('demo_c', 15, 0.5)]
        assert [tuple(share[:3]) for share in told] == shares
        expected = [800 * 0.25 / 200, 800 * 0.25 / 60, 800 * 0.5 / 15]
        assert [share.epochs for share in told] == pytest.approx(expected)


@pytest.mark.parametrize(
    ('mode', 'count'), by_day([(mode, 2) for mode in ALL], itertools.product(ALL, [1, 2]))
)
def test_the_examples_of_a_position_are_those_of_the_batch(tasks, mode, count):
    options = ALL[mode] | {'process_count': count, 'window': 64}
    first = {task.name: number for task, number in zip(tasks, (1000, 2000, 3000), strict=True)}
    with feed(tasks, process_index=0, **options) as one:
        parts = [one]
        if count == 2:
            parts.append(feed(tasks, process_index=1, **options))
        positions, expected = [], []
        while one.position()['window'] < 2 or len(expected) < 25:
            positions.append(one.position())
            batch = [id_ for part in parts for id_ in ids_of(next(part))]
            assert [first[task] + n for task, _, n in one.examples(positions[-1])] == batch
            expected.append(batch)
        assert positions[-1]['window'] >= 2 and {s for _, s, _ in one.examples()} == {'train'}
        # Of earlier ones as well, which the threads have left behind.
        for position, batch in zip(positions, expected, strict=True):
            assert [first[task] + n for task, _, n in one.examples(position)] == batch
        for part in parts[1:]:
            part.close()


def test_a_position_of_another_feed_is_refused(tasks):
    with feed(tasks) as stream:
        next(stream)
        position = stream.position()
    for change in (
        {'seed': 4}, {'batch_size': 16}, {'packing': False}, {'rates': [1, 1, 1]},
        {'lengths': {'inputs': 47, 'targets': 16}}, {'one_task': True},
        {'each_task': True, 'batch_size': 12}, {'tasks': tasks[:2], 'rates': RATES[:2]},
    ):  # fmt: skip
        with pytest.raises(UserError, match='another feed'):
            feed(**{'tasks': tasks, 'position': position} | change)


@pytest.mark.parametrize(
    ('changes', 'message'),
    [
        ({'position': {'window': 0, 'batch': 10**6}}, 'no batch at position'),
        ({'position': {'window': -1, 'batch': 0}}, 'no batch at position'),
        ({'widths': 3}, 'widths=3 is for batches of pairs'),
        ({'view': 'language_start'}, r"demo_a do not begin with a language.*start='family'"),
        ({'view': 'retrieval', 'packing': False}, 'demo_a is prepared for gen.* is retrieval'),
        ({'batch_size': 9, 'process_count': 2}, 'batch_size 9 cannot be shared by 2 processes'),
        ({'batch_size': 0}, 'batch_size is 0'),
        ({'lengths': {'inputs': 5}}, 'needs inputs and targets'),
        ({'lengths': {'inputs': 5, 'targets': 1}}, '2 tokens or more'),
        ({'length_buckets': 0}, 'length_buckets is 0'),
        ({'window': 0}, 'window is 0'),
        ({'each_task': True}, 'batch_size 8 cannot be shared by 3 tasks'),
        ({'each_task': True, 'one_task': True, 'batch_size': 9}, 'set one_task=False'),
        ({'each_task': True, 'length_buckets': 2, 'batch_size': 9}, 'set length_buckets=1'),
        ({'each_task': True, 'view': 'retrieval', 'packing': False}, 'prepared for generation'),
        ({'prefetch': -1}, 'prefetch is -1'),
        ({'length_buckets': 2, 'row_multiple': 2, 'process_count': 4}, 'row_multiple 2 cannot be'),
    ],
)
def test_mistakes_are_told(tasks, changes, message):
    with pytest.raises(UserError, match=message):
        feed(tasks, **changes)


def test_tasks_that_cannot_be_mixed(tasks, tmp_path):
    empty = make_task(tmp_path, 'demo_d', 0, 0)
    other = make_task(tmp_path, 'demo_e', 5, 10, VOCABULARY | {'name': 'w'})
    for mixed, message in (
        ([], 'no task'),
        ([tasks[0], tasks[0]], 'twice'),
        ([empty], 'has no examples'),
        ([tasks[0], other], 'prepare both with the same one'),
    ):
        with pytest.raises(UserError, match=message):
            feed(mixed, [1] * len(mixed))


def test_less_data_than_a_batch(tasks):
    for mode in MODES.values():
        for batch in take(tasks[2:], 6, rates=[1.0], batch_size=64, row_multiple=8, **mode):
            assert set(ids_of(batch)) <= set(range(3000, 3015))


@pytest.mark.parametrize('prefetch', [0, 3])
def test_errors_of_the_thread_reach_the_loop(tmp_path, prefetch):
    task = make_task(tmp_path, 'demo_a', 100, 1000)
    with feed([task], [1.0], prefetch=prefetch) as stream:
        next(stream)

        def fail(indices):
            raise UserError('a broken disk')

        object.__setattr__(task, 'read', fail)
        with pytest.raises(UserError, match='broken disk'):
            for _ in range(20):
                next(stream)
        # Nothing was skipped: the feed goes on where it failed.
        object.__delattr__(task, 'read')
        position = stream.position()
        batch = next(stream)
    with feed([task], [1.0], position=position) as again:
        assert_equal_batches([next(again)], [batch])


def test_the_first_batch_may_be_seen_before_it_is_taken(tasks):
    plain = take(tasks, 3)
    with feed(tasks) as stream:
        position = stream.position()
        assert_equal_batches([stream.first()], plain[:1])
        assert stream.position() == position
        assert_equal_batches([next(stream) for _ in range(3)], plain)


def test_closing_ends_the_threads(tasks):
    before = set(threading.enumerate())
    stream = feed(tasks, prefetch=4)
    next(stream)
    assert set(threading.enumerate()) > before
    stream.close()
    stream.close()
    assert set(threading.enumerate()) <= before


# ------------------------------------------------------------------------------- two texts a row


@pytest.fixture(scope='module')
def pairs(tmp_path_factory) -> list[prepared.Prepared]:
    root = tmp_path_factory.mktemp('pairs')
    sizes = {'demo_a': (40, 1000), 'demo_b': (21, 2000)}
    return [make_task(root, name, *size, view='retrieval') for name, size in sizes.items()]


def test_a_view_decides_what_a_batch_holds(pairs):
    with pytest.raises(UserError, match='with this objective set each_task=False'):
        feed(pairs, [40, 21], packing=False, view='retrieval', each_task=True)
    options = {'packing': False, 'view': 'retrieval', 'one_task': True, 'window': 61}
    whole = take(pairs, 9, rates=[40, 21], **options)
    options |= {'rates': [40, 21], 'process_count': 2}
    parts = [take(pairs, 9, process_index=i, **options) for i in range(2)]
    assert_equal_batches(joined(parts), whole)
    seen = []
    for batch in whole[:8]:  # 5 batches of demo_a and 3 of demo_b are a pass.
        real = batch['row_weights'] > 0
        left = batch['left_encoder_input_tokens'][:, 0]
        np.testing.assert_array_equal(left, batch['right_encoder_input_tokens'][:, 0])
        assert (left[~real] == 0).all() and len(set((left[real] // 1000).tolist())) == 1
        seen += left[real].tolist()
    assert sorted(seen) == [*range(1000, 1040), *range(2000, 2021)]


def test_processes_agree_whether_a_batch_has_rows_of_several_widths(pairs):
    options = {'packing': False, 'view': 'retrieval', 'widths': 2, 'rates': [40, 21]}
    parts = [take(pairs, 9, process_index=i, process_count=2, **options) for i in range(2)]
    kinds = [{'left_place' in batch for batch in step} for step in zip(*parts, strict=True)]
    assert all(len(kind) == 1 for kind in kinds) and {True} in kinds
    plain = take(pairs, 9, **options | {'widths': 1})
    for found, whole in zip(joined(parts), plain, strict=True):
        if 'left_place' in found:  # In parts of the process's shares, one after the other.
            names = [f'left_encoder_segment_ids.{i}' for i in range(2)]
            counts = np.concatenate([(found[n] > 0).sum(1) for n in names if n in found])
            lengths = (whole['left_encoder_segment_ids'] > 0).sum(1)
            np.testing.assert_array_equal(counts[found['left_place']], lengths)


def test_evaluation_takes_a_view_too(pairs):
    found = list(evaluate(pairs[1], view='retrieval'))
    assert [batch['row_weights'].sum() for batch in found] == [8, 8, 5]
    for batch in found:
        real = batch['example_index'] >= 0
        np.testing.assert_array_equal(batch['row_weights'] > 0, real)
        left = batch['left_encoder_input_tokens'][real, 0]
        np.testing.assert_array_equal(left - 2000, batch['example_index'][real])


def test_a_view_is_checked(pairs):
    with pytest.raises(UserError, match=r'demo_b is prepared for retrieval, and .* is generation'):
        evaluate(pairs[1])
    with pytest.raises(UserError, match='packing=False'):
        feed(pairs, rates=[1, 1], view='retrieval')
    with pytest.raises(UserError, match="unknown view 'retrival'; nearest: retrieval"):
        feed(pairs, rates=[1, 1], view='retrival')


# ----------------------------------------------------------------------------------- evaluation


def evaluate(task, **kwargs) -> batches.EvalBatches:
    options = {'batch_size': 8, 'lengths': LENGTHS} | kwargs
    return batches.EvalBatches(task, **options)


def test_evaluation_has_every_example_once_the_widest_and_longest_first(tasks):
    feed_ = evaluate(tasks[0], batch_size=16, lengths={'inputs': 24, 'targets': 16})
    seen, lengths = [], tasks[0].lengths()
    found = list(feed_)
    assert len(found) == len(feed_) == 13
    for batch in found:
        rows, width = batch['encoder_input_tokens'].shape
        assert (rows, width, 16) in feed_.shapes
        for row, index in enumerate(batch['example_index'].tolist()):
            segments = batch['encoder_segment_ids'][row]
            if index < 0:
                assert not segments.any() and not batch['decoder_loss_weights'][row].any()
                continue
            seen.append(index)
            assert batch['encoder_input_tokens'][row, 0] == 1000 + index
            assert segments.sum() == min(24, lengths[index, 0])
            assert batch['decoder_loss_weights'][row].sum() == min(16, lengths[index, 1])
    assert sorted(seen) == list(range(200))
    widths = np.array([8, 16, 24])  # Multiples of 8 near quarters of 24.
    needed = np.searchsorted(widths, np.minimum(lengths[seen, 0], 24))
    assert (np.diff(needed) <= 0).all()
    for width in np.unique(needed):
        assert (np.diff(lengths[seen, 1][needed == width]) <= 0).all()
    assert feed_.trimmed == {'inputs': int((lengths[:, 0] > 24).sum()), 'targets': 0}
    assert feed_.trimmed['inputs'] > 0
    assert 1 < len(feed_.shapes) <= 4
    assert_equal_batches(list(feed_), found)  # It can be iterated again.


def test_shapes_that_fit_the_examples_of_an_evaluation(tasks):
    limits = {'inputs': 24, 'targets': 16}
    shapes = batches.best_shapes(tasks, limits)
    assert 1 < len(shapes) <= 6 and list(shapes) == sorted(shapes)
    longest = np.minimum(np.concatenate([task.lengths() for task in tasks]).max(0), (24, 16))
    assert (np.array(shapes[-1]) >= longest).all() and shapes[-1] <= (24, 16)
    feed_ = evaluate(tasks[0], lengths=limits, allowed=shapes)
    whole = evaluate(tasks[0], lengths=limits)
    assert {shape[1:] for shape in feed_.shapes} <= set(shapes)
    real, positions = zip(*map(tokens, (feed_, whole)), strict=True)
    assert real[0] == real[1] and positions[0] < positions[1]


def tokens(feed_):
    """The real tokens of all batches, and their positions."""
    segments = [batch[f'{side}_segment_ids'] for batch in feed_ for side in ('encoder', 'decoder')]
    return sum((x > 0).sum() for x in segments), sum(x.size for x in segments)


@pytest.mark.parametrize('count', [2, 4])
def test_evaluation_is_shared_row_by_row(tasks, count):
    whole = list(evaluate(tasks[1]))
    parts = [evaluate(tasks[1], process_index=i, process_count=count) for i in range(count)]
    assert all(part.shapes == evaluate(tasks[1]).shapes for part in parts)
    assert_equal_batches(joined(parts), whole)


def test_evaluation_of_the_first_examples(tasks):
    feed_ = evaluate(tasks[0], num_examples=10)
    indices = np.concatenate([batch['example_index'] for batch in feed_])
    assert sorted(indices[indices >= 0].tolist()) == list(range(10))
    assert (feed_.num_examples, len(feed_)) == (10, 2)
    assert evaluate(tasks[2], num_examples=10**6).num_examples == 15


def test_evaluation_can_be_left_early(tasks):
    before = set(threading.enumerate())
    for batch in evaluate(tasks[0]):
        assert batch['example_index'].shape == (8,)
        break
    assert set(threading.enumerate()) <= before


def test_mistakes_in_evaluation_are_told(tasks):
    with pytest.raises(UserError, match='batch_size 9 cannot be shared'):
        evaluate(tasks[0], batch_size=9, process_count=2)
    with pytest.raises(UserError, match='needs inputs and targets'):
        evaluate(tasks[0], lengths={})
