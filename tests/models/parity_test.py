"""Every encoder-decoder computes what transformers does, alone, packed and from a cache."""

import functools

import jax
import jax.numpy as jnp
import named_weights
import numpy as np
import pytest
import references
from nightly import by_day, nightly

PAIRS = ('bert2bert', 'xlmr2xlmr')
FORCED = {'mbart': 59}


def shallow(name):
    """The fields of one layer a stack, which is quick to compile."""
    return (
        {'num_layers': 1} if name in PAIRS else {'num_encoder_layers': 1, 'num_decoder_layers': 1}
    )


@pytest.fixture(scope='module', params=references.ROWS)
def reference(request):
    return references.of(request.param)


# One of each kind of layers.
FEW = by_day(('t5', 'mt5', 'bart', 'xlmr2xlmr'), references.ROWS)


def test_logits_equal_transformers(reference):
    logits = reference.run(reference.inputs, reference.decoder_inputs, reference.segments)
    every = -(-logits.shape[1] // reference.values['logits'].shape[1])
    ours, theirs = logits[:, ::every], reference.values['logits']
    if reference.name in PAIRS:  # There padding is hidden from padding, too.
        real = (reference.targets != reference.ids['pad_id'])[:, ::every, None]
        ours, theirs = ours * real, theirs * real
    np.testing.assert_allclose(ours, theirs, atol=1e-4, rtol=0)


@pytest.mark.parametrize('name', ['marian', *nightly('bart', 'mbart', 'pegasus')])
def test_logits_without_a_mask_equal_transformers(name):
    known = references.of(name)
    for segments in (None, np.ones_like(known.segments)):
        logits = known.run(known.inputs, known.decoder_inputs, segments)
        expected = known.values['logits_without_mask']
        np.testing.assert_allclose(logits[:, ::6], expected, atol=1e-4, rtol=0)


@pytest.mark.parametrize('reference', FEW, indirect=True)
def test_loss_and_gradients_equal_transformers(reference):
    loss, gradients = reference.loss_and_gradients(reference.model)
    np.testing.assert_allclose(loss, reference.values['loss'], rtol=1e-5)
    # The same mapping names the gradients.
    gradients = named_weights.from_params(reference.names, jax.tree.map(np.array, gradients))
    assert len(reference.gradients) >= 9
    if reference.name in ('pegasus', 'marian'):
        # The row that decoding starts with: PyTorch lets no gradient through the lookup of padding.
        for tables in (gradients, reference.gradients):
            tables['model.shared.weight'][reference.ids['pad_id']] = 0.0
    atol, rtol = (1e-4, 1e-4) if reference.name in PAIRS else (2e-5, 1e-7)
    for name, expected in reference.gradients.items():
        np.testing.assert_allclose(gradients[name], expected, rtol, atol, err_msg=name)
    if 'final_logits_bias' in gradients:  # A buffer.
        assert not gradients['final_logits_bias'].any()


def test_huggingface_names_survive_the_round_trip(reference):
    back = named_weights.from_params(reference.names, reference.params)
    assert back.keys() == reference.weights.keys()
    for name, value in back.items():
        np.testing.assert_array_equal(value, reference.weights[name])
    fields = references.ROWS[reference.name][1]
    assert reference.names.keys() == references.boxed(reference.family, **fields).keys()


@pytest.mark.parametrize(
    'name, remat',
    [('mt5', 'full'), ('mt5', 'dots'), *nightly(('mbart', 'full'), ('bert2bert', 'dots'))],
)
def test_rematerialisation_changes_no_gradient(name, remat):
    known = references.of(name)
    one, other = (
        known.loss_and_gradients(known.like(**shallow(name), remat=kind))
        for kind in ('none', remat)
    )
    jax.tree.map(functools.partial(np.testing.assert_allclose, atol=1e-5), one, other)


@pytest.mark.parametrize('name', ['mt5', *nightly('mbart', 'xlmr2xlmr')])
@pytest.mark.parametrize(
    'types, near', [(('float32', 'bfloat16'), 0.99), (('bfloat16', None), 0.97)]
)
def test_bfloat16_is_near_float32(name, types, near):
    known = references.of(name)
    exact = known.loss_and_gradients(known.like(**shallow(name)))
    model = known.like(**shallow(name), dtype=types[0], matmul_dtype=types[1])
    loss, gradients = known.loss_and_gradients(model)
    np.testing.assert_allclose(loss, exact[0], rtol=0.03)
    for ours, expected in zip(jax.tree.leaves(gradients), jax.tree.leaves(exact[1]), strict=True):
        assert ours.dtype == jnp.float32
        # The bias of the logits has no gradient, nor a layer that is not there.
        if expected.any():
            size = np.linalg.norm(ours) * np.linalg.norm(expected)
            assert near < np.vdot(ours, expected) / size < 1 - 1e-6


@pytest.mark.parametrize('reference', FEW, indirect=True)
def test_greedy_decoding_equals_transformers(reference):
    expected, ids = reference.values['greedy'], reference.ids
    assert (expected == ids['eos_id']).any()  # Some rows end.
    forced = FORCED.get(reference.name)
    forced = None if forced is None else np.full(3, forced, np.int32)
    decode = references.decoder(
        reference.model, **ids, forced_first=forced, method='greedy', max_length=24
    )
    batch = references.as_batch(reference.inputs, ids['pad_id'])
    found = jax.device_get(decode(reference.params, batch))
    tokens = found.tokens[:, 0]
    np.testing.assert_array_equal(tokens, expected)
    # Its log-probability is that of the text under the uncached model.
    logits = reference.run(reference.inputs, reference.shifted(tokens), reference.segments)
    each = np.take_along_axis(jax.nn.log_softmax(logits), tokens[..., None], -1)[..., 0]
    ends = tokens == ids['eos_id']
    total = (each * (np.cumsum(ends, axis=1) - ends == 0)).sum(-1)
    np.testing.assert_allclose(found.log_probabilities[:, 0], total, rtol=1e-4)


@pytest.mark.parametrize('reference', FEW, indirect=True)
def test_cached_decoding_with_beams_equals_the_full_pass(reference):
    run, beams, length = reference.run, 2, 36
    inputs, segments = reference.inputs, reference.segments
    rows = beams * len(inputs)
    tokens = np.random.default_rng(0).integers(4, 61, (rows, length)).astype(np.int32)
    full = run(np.repeat(inputs, beams, 0), tokens, np.repeat(segments, beams, 0))
    encoded = run(inputs, segments, method='encode')
    cache = run(encoded, segments, max_length=39, beams=beams, method='init_cache')
    config = reference.model.config
    heads = config.num_heads, config.head_dim
    assert cache['self'][0]['key'].shape == (len(inputs), *heads, 39 * beams)
    assert cache['cross'][0]['key'].shape == (len(inputs), *heads, inputs.shape[1])
    swap = np.arange(rows) ^ 1  # The two hypotheses of each example change places after step 5.
    for position in range(length):
        if position == 6:
            cache['origin'] = cache['origin'][:, ::-1]
            tokens, full = tokens[swap], full[swap]
        logits, cache = run(cache, tokens[:, position], method='decode_step')
        assert logits.dtype == jnp.float32
        np.testing.assert_allclose(logits, full[:, position], atol=3e-5)


def test_a_cache_without_segments_sees_everything():
    known = references.of('bart')
    full = known.run(known.inputs, known.decoder_inputs, None)
    encoded = known.run(known.inputs, method='encode')
    cache = known.run(encoded, None, max_length=4, method='init_cache')
    logits, cache = known.run(cache, known.decoder_inputs[:, 0], method='decode_step')
    np.testing.assert_allclose(logits, full[:, 0], atol=3e-5)


def features(examples, rows, **lengths):
    """Rows of (inputs, decoder inputs) by their numbers, each behind the one before it."""
    batch = {
        f'{side}_{kind}': np.zeros((len(rows), lengths[side]), np.int32)
        for side in lengths
        for kind in ('input_tokens', 'segment_ids', 'positions')
    }
    for row, numbers in enumerate(rows):
        ends = dict.fromkeys(lengths, 0)
        for segment, number in enumerate(numbers, 1):
            for side, tokens in zip(lengths, examples[number], strict=True):
                place = row, slice(ends[side], ends[side] + len(tokens))
                batch[f'{side}_input_tokens'][place] = tokens
                batch[f'{side}_segment_ids'][place] = segment
                batch[f'{side}_positions'][place] = np.arange(len(tokens))
                ends[side] += len(tokens)
    return batch


def some_examples(known):
    """(inputs, decoder inputs) of three examples, which fit in a row as long as the positions."""
    most = getattr(known.model.config, 'max_positions', 120) // 3
    rng = np.random.default_rng(5)
    sizes = ((most, 9), (5, 1), (most - 4, most - 1))
    return [[rng.integers(3, 60, n).astype(np.int32) for n in size] for size in sizes]


@pytest.mark.parametrize('name', ['bart', 'mt5', *nightly('pegasus', 't5', 'xlmr2xlmr')])
def test_packing_padding_and_batch_size_change_no_logits(name):
    known = references.of(name)
    run = functools.partial(jax.jit(known.like(**shallow(name)).apply), {'params': known.params})
    examples = some_examples(known)
    alone = [run(*(tokens[None] for tokens in example))[0] for example in examples]
    most = getattr(known.model.config, 'max_positions', 120)
    rows = (0, 1, 2), (2, 1), (0,), (1,), (2,), (), ()
    logits = run(**features(examples, rows, encoder=most, decoder=most - 3))
    assert np.isfinite(logits).all()
    for row, numbers in zip(logits, rows, strict=True):
        if numbers:
            expected = np.concatenate([alone[number] for number in numbers])
            np.testing.assert_allclose(row[: len(expected)], expected, rtol=1e-5, atol=3e-5)


def test_padding_gives_no_gradient_and_no_nan():
    known = references.of('mt5')
    examples, model = some_examples(known), known.like(**shallow('mt5'))

    @jax.jit
    @jax.grad
    def gradient(params, batch):
        logits = model.apply({'params': params}, **batch)
        each = jax.nn.log_softmax(logits)[..., 5]
        return -jnp.sum(each * (batch['decoder_segment_ids'] > 0))

    packed = (0, 1, 2)
    compact = gradient(known.params, features(examples, [packed], encoder=81, decoder=49))
    rows = [packed, (0,), (1,), (2,), ()]
    wide = gradient(known.params, features(examples, rows, encoder=120, decoder=60))
    # Over a few hundred tokens the sums reach 100; float32 leaves 1e-4 of that.
    close = functools.partial(np.testing.assert_allclose, rtol=1e-4, atol=3e-4)
    jax.tree.map(lambda twice, once: close(twice / 2, once), wide, compact)


@pytest.mark.parametrize(
    'name, fields',
    [
        ('bart', dict(activation_dropout_rate=0.5, shared_dropout=False)),
        ('bart', dict(attention_dropout_rate=0.5, shared_dropout=True)),
        ('mt5', dict(dropout_rate=0.5)),
        *nightly(
            ('bart', dict(dropout_rate=0.5, shared_dropout=True)),
            ('bart', dict(attention_dropout_rate=0.5, shared_dropout=False)),
            ('bert2bert', dict(dropout_rate=0.3, attention_dropout_rate=0.3)),
        ),
    ],
)
def test_dropout_draws_with_the_key_and_only_in_training(name, fields):
    known = references.of(name)
    apply = jax.jit(
        known.like(**shallow(name), **fields).apply, static_argnames=('train', 'method')
    )
    tokens = np.arange(4, 28, dtype=np.int32).reshape(2, 12)

    def draw(key, train):
        rngs = {'dropout': jax.random.key(key)}
        return apply(
            {'params': known.params}, tokens, tokens, train=train, rngs=rngs, method='hidden'
        )

    exact = jax.jit(known.like(**shallow(name)).apply, static_argnames='method')(
        {'params': known.params}, tokens, tokens, method='hidden'
    )
    np.testing.assert_allclose(draw(1, False), exact, atol=1e-5)
    one, same, other = (draw(key, True) for key in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert not np.allclose(one, other) and not np.allclose(one, exact)
    if name == 'mt5':  # Shared over positions: what is dropped at the end is so in all of the row.
        gone = np.asarray(one == 0)
        assert 0.3 < gone.mean() < 0.7
        assert (gone == gone[:, :1]).all() and not (gone[0] == gone[1]).all()
