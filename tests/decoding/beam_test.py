"""What decoding makes of an example depends on nothing else; see also beam_texts_test."""

import functools

import decoding_goldens as goldens
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import references
import tiny
from nightly import nightly

from xlbench import decoding
from xlbench.decoding import loop, top
from xlbench.models import generator
from xlbench.parallel import partitioning


def test_blocks_change_nothing(monkeypatch):
    """The tiny vocabularies have one block; here they have seven, and a rest of five."""
    monkeypatch.setattr(top, 'BLOCK', 8)
    known = goldens.golden('mt5')
    options = dict(known.cases['all'], method='beam', max_length=goldens.MAX_LENGTH, num_beams=2)
    forced = jnp.array(options.pop('forced_first'))
    run = lambda: decoding.decode(  # noqa: E731
        known.model, known.params, known.batch, decoding.Options(**options), **known.ids,
        forced_first=forced,
    )  # fmt: skip
    found = jax.jit(lambda: run())()
    monkeypatch.setattr(top, 'BLOCK', 1000)
    expected = jax.jit(lambda: run())()
    np.testing.assert_array_equal(found.tokens, expected.tokens)
    np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-5)


@pytest.fixture(scope='module')
def model():
    """A model whose texts depend on their source and end at different lengths, with a batch."""
    model = tiny.tiny_model(vocab_size=64)
    tokens = jnp.ones((1, 4), jnp.int32)
    boxed = jax.jit(model.init)(jax.random.key(3), tokens, tokens)
    params = jax.tree.map(lambda x: 1.7 * x, nn.unbox(boxed)['params'])
    params['logits_dense']['kernel'] = params['logits_dense']['kernel'].at[1].multiply(6.0)
    shardings = partitioning.param_shardings(
        boxed['params'], partitioning.make_mesh(data=2, fsdp=2, tensor=2)
    )
    inputs = np.random.default_rng(0).integers(2, 64, (8, 12)).astype(np.int32)
    for row, length in enumerate((12, 3, 7, 12, 1, 9, 0, 0)):  # Two rows of padding.
        inputs[row, length:] = 0
    return model, params, shardings, references.as_batch(inputs, 0)


METHODS = {
    'beam': dict(method='beam', num_beams=3, num_return=2),
    'diverse': dict(method='diverse_beam', num_beams=4, num_groups=2, diversity_penalty=0.5,
                    num_return=4, no_repeat_ngram=2),
    'sample': dict(method='sample', num_return=2, top_k=20, top_p=0.9, seed=5),
}  # fmt: skip


@functools.cache
def program(model, name):
    ids = dict(start_id=0, eos_id=1, pad_id=0)
    return references.decoder(model, **ids, **METHODS[name], max_length=10)


@pytest.mark.parametrize('name', ['beam', 'sample', *nightly('diverse')])
def test_batch_size_padding_and_devices_change_nothing(model, name):
    model, params, shardings, batch = model
    whole = jax.device_get(program(model, name)(params, batch))
    assert len(np.unique(whole.tokens[:6].reshape(6, -1), axis=0)) == 6
    assert (whole.tokens[:6] == 1).any() and not whole.tokens[6:].any()

    def same(found, rows):
        np.testing.assert_array_equal(found.tokens[: len(rows)], whole.tokens[rows])
        for ours, expected in zip(found[1:], whole[1:], strict=True):
            np.testing.assert_allclose(ours[: len(rows)], expected[rows], rtol=1e-4, atol=1e-4)

    # Alone in a batch of two, wider by five places of padding.
    rows = np.array([4, 6])
    part = {key: np.pad(value[rows], ((0, 0), (0, 5))) for key, value in batch.items()}
    if name == 'sample':  # Samples follow the number of the example.
        part['example_index'] = rows.astype(np.int32)
    same(program(model, name)(params, part), rows[:1])
    mesh = partitioning.make_mesh(data=2, fsdp=2, tensor=2)
    with partitioning.activate(mesh):
        placed = jax.device_put(params, shardings)
        run = program(model, name).lower(placed, partitioning.put_batch(batch, mesh)).compile()
        same(run(placed, partitioning.put_batch(batch, mesh)), np.arange(6))
    # The caches of an example stay where its rows are: no device holds those of all 8 examples.
    count = METHODS[name].get('num_beams', 2)
    assert f'f32[{8 * count},1,10,8]' not in run.as_text()
    assert f'f32[{8 * count},2,10,8]' not in run.as_text()


class Counting:
    """A model that notes of each step its rows, and for how many tokens the cache has room."""

    decoder_only = False
    reads_languages = False
    fixed = ('cross', 'cross_mask', 'positions')

    def __init__(self, model):
        self.model, self.rows, self.rooms = model, [], []

    def apply(self, *args, method, **named):
        return self.model.apply(*args, method=method, **named)

    def steps(self, *args):
        step = self.model.steps(*args)

        def noted(cache, tokens):
            room = cache['origin'].shape[-1]
            jax.debug.callback(functools.partial(self.note, len(tokens), room))
            return step(cache, tokens)

        return noted

    def note(self, rows, room):
        self.rows.append(rows)
        self.rooms.append(room)

    def decode(self, params, batch, forced_first=None, **options):
        """The texts of a batch, and the rows of each step."""
        ids = dict(start_id=0, eos_id=1, pad_id=0, forced_first=forced_first)
        options = decoding.Options(**options)
        run = jax.jit(lambda params, batch: decoding.decode(self, params, batch, options, **ids))
        found = jax.block_until_ready(run(params, batch))
        jax.effects_barrier()
        return jax.device_get(found), self.rows


def test_it_stops_when_every_example_is_closed(model):
    """Rows of padding are not waited for."""
    model, params, _, batch = model
    batch = {key: value[np.array([0, 5, 6, 7])] for key, value in batch.items()}
    options = dict(method='beam', num_beams=3, early_stopping=True, max_length=60)
    found, steps = Counting(model).decode(params, batch, **options)
    longest = int(np.max(np.sum(found.tokens != 0, axis=-1)))
    assert longest <= len(steps) < 60


@pytest.mark.parametrize('name', ['beam', 'sample', *nightly('diverse')])
def test_complete_examples_leave_and_the_others_get_the_same_texts(model, name, monkeypatch):
    """With kernels as they are; while all stay, with kernels that are laid out for few rows."""
    model, params, _, batch = model
    options = dict(METHODS[name], max_length=24, forced_first=jnp.arange(2, 10))
    count = options.get('num_beams', options['num_return'])
    monkeypatch.setattr(generator, 'FEW_ROWS', 100)
    monkeypatch.setattr(generator, 'MANY_STEPS', 1)
    stayed, all_rows = Counting(model).decode(params, batch, **options)
    assert set(all_rows) == {8 * count}
    monkeypatch.setattr(generator, 'FEW_ROWS', 0)
    monkeypatch.setattr(loop, 'WORTH_A_LOOP', 0)
    left, rows = Counting(model).decode(params, batch, **options)
    np.testing.assert_array_equal(left.tokens, stayed.tokens)
    for ours, expected in zip(left[1:], stayed[1:], strict=True):
        np.testing.assert_allclose(ours, expected, rtol=1e-5)
    assert len(rows) == len(all_rows) and rows == sorted(rows, reverse=True)
    assert {8 * count} < set(rows) <= {8 * count, 4 * count, 2 * count, count}
    with partitioning.activate(partitioning.make_mesh(data=2, fsdp=2, tensor=2)):
        assert loop.sizes(params, 8, 40) == []  # Every device has rows of its own.


@pytest.mark.parametrize('name', ['beam', *nightly('sample', 'diverse')])
def test_a_cache_that_grows_gives_the_same_texts(model, name, monkeypatch):
    model, params, _, batch = model
    options = dict(METHODS[name], max_length=24, min_length=15)
    whole, counting = Counting(model), Counting(model)
    expected, _ = whole.decode(params, batch, **options)
    assert set(whole.rooms) == {24}
    monkeypatch.setattr(loop, 'WORTH_A_CACHE', 0)
    found, steps = counting.decode(params, batch, **options)
    np.testing.assert_array_equal(found.tokens, expected.tokens)
    for ours, theirs in zip(found[1:], expected[1:], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)
    assert len(steps) == len(whole.rows) >= 15
    smallest = [min(room for room in (1, 3, 6, 12, 24) if room > i) for i in range(len(steps))]
    assert counting.rooms == smallest
    with partitioning.activate(partitioning.make_mesh(data=2, fsdp=2, tensor=2)):
        assert loop.lengths({}, 24) == []


def test_batches_may_share_the_copies_of_kernels(model):
    model, params, _, batch = model
    options = decoding.Options(**METHODS['beam'], max_length=16)
    ids = dict(start_id=0, eos_id=1, pad_id=0)
    decode = references.decoder(model, **ids, **METHODS['beam'], max_length=16)
    alone = partitioning.make_mesh(devices=jax.devices()[:1])
    copies = decoding.copies(model, params, options, alone)
    assert copies(8) is copies(15) and copies(16) is None  # 24, 45 and 48 rows.
    shared, own = decode(params, batch, copies=copies(8)), decode(params, batch)
    jax.tree.map(np.testing.assert_array_equal, shared, own)
    turned = jax.tree.map(lambda copy: -copy, copies(8))
    assert (decode(params, batch, copies=turned).tokens != own.tokens).any()  # They are read.
    assert decoding.copies(model, params, options, partitioning.make_mesh(data=8))(8) is None
