import functools
import pathlib

import flax.linen as nn
import jax
import jax.numpy as jnp
import named_weights
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec as P

from xlbench import models
from xlbench.decoding.greedy import one_by_one
from xlbench.huggingface import t5 as t5_names
from xlbench.system import errors
from xlbench.training import losses

GOLDENS = pathlib.Path(__file__).parents[1] / 'goldens'
FAMILIES = ('t5', 't5_1_1', 'mt5')


def shift_right(targets):
    return np.pad(targets[:, :-1], ((0, 0), (1, 0)))


@functools.cache
def tiny(family='mt5', **overrides):
    sizes = dict(emb_dim=32, num_heads=4, head_dim=8, mlp_dim=48, vocab_size=61)
    return models.build(family, 'sample', **sizes, **overrides)


@functools.cache
def random_params(family='mt5', seed=0):
    tokens = jnp.ones((1, 4), jnp.int32)
    init = jax.jit(tiny(family).init)
    params = nn.unbox(init(jax.random.key(seed), tokens, tokens))['params']
    # Relative biases at the scale of trained models, so that their absence would be seen.
    for stack in ('encoder', 'decoder'):
        params[stack]['relpos_bias']['rel_embedding'] *= 5.0
    return params


class Golden:
    """What transformers makes of a tiny random model; see tools/goldens/make_t5.py."""

    def __init__(self, family):
        stored = dict(np.load(GOLDENS / f'{family}.npz'))
        self.values = {k: v for k, v in stored.items() if '/' not in k}
        self.gradients = {k[10:]: v for k, v in stored.items() if k.startswith('gradients/')}
        self.weights = {k[8:]: v for k, v in stored.items() if k.startswith('weights/')}
        self.model = tiny(family, dropout_rate=0.0)
        self.names = t5_names.names(family, self.model.config)
        self.params = named_weights.to_params(self.names, self.weights)
        self.inputs, self.targets = self.values['inputs'], self.values['targets']
        self.segments = (self.inputs > 0).astype(np.int32)

    def loss(self, params, model=None):
        model = model or self.model
        variables = {'params': params}
        hidden = model.apply(
            variables,
            self.inputs,
            shift_right(self.targets),
            self.segments,
            method='hidden',
        )
        out = losses.softmax_cross_entropy(
            hidden.reshape(-1, hidden.shape[-1]),
            model.apply(variables, method='output_embedding'),
            self.targets.reshape(-1),
            (self.targets > 0).reshape(-1),
            chunk_size=50,
        )
        return out.loss / out.weight


@pytest.fixture(scope='module', params=FAMILIES)
def golden(request):
    return Golden(request.param)


def test_logits_equal_transformers(golden):
    decoder_tokens = shift_right(golden.targets)
    logits = jax.jit(golden.model.apply)(
        {'params': golden.params}, golden.inputs, decoder_tokens, golden.segments
    )
    np.testing.assert_allclose(logits[:, ::3], golden.values['logits'], atol=1e-4, rtol=0)


def test_loss_and_gradients_equal_transformers(golden):
    loss, gradients = jax.jit(jax.value_and_grad(golden.loss))(golden.params)
    np.testing.assert_allclose(loss, golden.values['loss'], rtol=1e-5)
    # The same mapping names the gradients.
    gradients = named_weights.from_params(golden.names, gradients)
    assert len(golden.gradients) >= 9
    for name, expected in golden.gradients.items():
        np.testing.assert_allclose(gradients[name], expected, atol=2e-5, err_msg=name)


@pytest.mark.parametrize('remat', ['dots', 'full'])
def test_rematerialisation_changes_no_gradient(remat):
    golden = Golden('mt5')
    model = tiny('mt5', dropout_rate=0.0, remat=remat)
    gradients = jax.jit(jax.grad(golden.loss))(golden.params)
    again = jax.jit(jax.grad(functools.partial(golden.loss, model=model)))(golden.params)
    jax.tree.map(functools.partial(np.testing.assert_allclose, atol=1e-5), gradients, again)


@pytest.mark.parametrize(
    'types, near', [(('float32', 'bfloat16'), 0.99), (('bfloat16', None), 0.97)]
)
def test_bfloat16_is_near_float32(types, near):
    golden = Golden('mt5')
    model = tiny('mt5', dropout_rate=0.0, dtype=types[0], matmul_dtype=types[1])
    loss, gradients = jax.jit(jax.value_and_grad(functools.partial(golden.loss, model=model)))(
        golden.params
    )
    np.testing.assert_allclose(loss, golden.values['loss'], rtol=0.02)
    exact = jax.jit(jax.grad(golden.loss))(golden.params)
    for ours, expected in zip(jax.tree.leaves(gradients), jax.tree.leaves(exact), strict=True):
        assert ours.dtype == jnp.float32
        cosine = np.vdot(ours, expected) / np.linalg.norm(ours) / np.linalg.norm(expected)
        assert near < cosine < 1 - 1e-6


def test_huggingface_names_survive_the_round_trip(golden):
    back = named_weights.from_params(golden.names, golden.params)
    assert back.keys() == golden.weights.keys()
    for name, value in back.items():
        np.testing.assert_array_equal(value, golden.weights[name])


def greedy(model, params, inputs, segments, max_length, cache_length=None):
    variables = {'params': params}
    encoded = model.apply(variables, inputs, segments, method='encode')
    cache = model.apply(
        variables, encoded, segments, cache_length or max_length, method='init_cache'
    )
    tokens, scores = one_by_one(
        functools.partial(model.apply, variables, method='decode_step'),
        cache,
        batch_size=len(inputs),
        max_length=max_length,
        start_id=0,
        eos_id=1,
        pad_id=0,
    )
    return tokens[:, 0], scores[:, 0]


def test_greedy_decoding_equals_transformers(golden):
    decode = jax.jit(functools.partial(greedy, golden.model, max_length=24))
    tokens, scores = decode(golden.params, golden.inputs, golden.segments)
    expected = golden.values['greedy']
    assert (expected == 1).any()  # Some rows end.
    np.testing.assert_array_equal(tokens[:, : expected.shape[1]], expected)
    assert not tokens[:, expected.shape[1] :].any()
    # The score is the log-probability of the text under the uncached model.
    logits = golden.model.apply(
        {'params': golden.params}, golden.inputs, shift_right(np.asarray(tokens)), golden.segments
    )
    each = np.take_along_axis(jax.nn.log_softmax(logits), np.asarray(tokens)[..., None], -1)
    np.testing.assert_allclose(scores, (each[..., 0] * (tokens > 0)).sum(-1), rtol=1e-4)


@pytest.mark.parametrize('family', FAMILIES)
def test_cached_decoding_equals_the_full_pass(family):
    model, variables = tiny(family), {'params': random_params(family)}
    rng = np.random.default_rng(0)
    inputs = rng.integers(2, 61, (2, 9)).astype(np.int32)
    segments = np.array([[1] * 9, [1] * 4 + [0] * 5], np.int32)
    tokens = rng.integers(2, 61, (2, 40)).astype(np.int32)
    full = model.apply(variables, inputs, tokens, segments)
    encoded = model.apply(variables, inputs, segments, method='encode')
    cache = model.apply(variables, encoded, segments, 45, method='init_cache')
    step = jax.jit(functools.partial(model.apply, variables, method='decode_step'))
    for position in range(40):
        logits, cache = step(cache, tokens[:, position])
        assert logits.dtype == jnp.float32
        np.testing.assert_allclose(logits, full[:, position], atol=1e-5)


def token_losses(model, params, batch):
    """The loss of each target token [batch, targets]."""
    logits = jax.jit(model.apply)({'params': params}, *batch[:4])
    each = jnp.take_along_axis(jax.nn.log_softmax(logits), batch[4][..., None], -1)
    return -np.asarray(each[..., 0])


def padded(examples, input_length, target_length, rows=None):
    """One example a row."""
    rows = rows or len(examples)
    batch = [np.zeros((rows, n), np.int32) for n in (input_length, target_length) * 2]
    labels = np.zeros((rows, target_length), np.int32)
    for row, (inputs, targets) in enumerate(examples):
        batch[0][row, : len(inputs)] = inputs
        batch[1][row, : len(targets)] = shift_right(targets[None])[0]
        batch[2][row, : len(inputs)] = 1
        batch[3][row, : len(targets)] = 1
        labels[row, : len(targets)] = targets
    return *batch, labels


def packed(examples, input_length, target_length):
    """All examples in one row."""
    batch = [np.zeros((1, n), np.int32) for n in (input_length, target_length) * 2]
    labels = np.zeros((1, target_length), np.int32)
    i = j = 0
    for segment, (inputs, targets) in enumerate(examples, 1):
        ends = i + len(inputs), j + len(targets)
        batch[0][0, i : ends[0]] = inputs
        batch[1][0, j : ends[1]] = shift_right(targets[None])[0]
        batch[2][0, i : ends[0]] = segment
        batch[3][0, j : ends[1]] = segment
        labels[0, j : ends[1]] = targets
        i, j = ends
    return *batch, labels


def some_examples():
    rng = np.random.default_rng(5)
    lengths = ((40, 9), (5, 1), (23, 30))
    draw = lambda n: rng.integers(1, 61, n).astype(np.int32)  # noqa: E731
    return [(draw(n), draw(m)) for n, m in lengths]


@pytest.mark.parametrize('family', ['t5', 'mt5'])
def test_packing_padding_and_batch_size_change_no_loss(family):
    model, params, examples = tiny(family), random_params(family), some_examples()
    alone = []
    for inputs, targets in examples:
        everything_seen = (inputs[None], shift_right(targets[None]), None, None, targets[None])
        alone.append(token_losses(model, params, everything_seen)[0])
    row = token_losses(model, params, packed(examples, 80, 50))[0]
    rows = token_losses(model, params, padded(examples, 64, 33, rows=5))
    start = 0
    for expected, in_row in zip(alone, rows, strict=False):
        np.testing.assert_allclose(row[start : start + len(expected)], expected, atol=1e-5)
        np.testing.assert_allclose(in_row[: len(expected)], expected, atol=1e-5)
        start += len(expected)
    assert np.isfinite(row).all() and np.isfinite(rows).all()


def test_padding_gives_no_gradient_and_no_nan():
    model, params, examples = tiny(), random_params(), some_examples()

    def gradient(batch):
        weights = (batch[3] > 0).astype(np.float32)

        def loss(params):
            logits = model.apply({'params': params}, *batch[:4])
            each = jnp.take_along_axis(jax.nn.log_softmax(logits), batch[4][..., None], -1)
            return -jnp.sum(each[..., 0] * weights)

        return jax.jit(jax.grad(loss))(params)

    compact = gradient(packed(examples, 68, 40))
    for batch in (packed(examples, 90, 60), padded(examples, 50, 33, rows=4)):
        # Over a few hundred tokens the sums reach 100; float32 leaves 1e-4 of that.
        jax.tree.map(
            functools.partial(np.testing.assert_allclose, atol=3e-4), gradient(batch), compact
        )


def test_dropout_draws_with_the_key_and_only_in_training():
    model, variables = tiny(dropout_rate=0.5), {'params': random_params()}
    tokens = np.arange(2, 26, dtype=np.int32).reshape(2, 12)
    apply = functools.partial(model.apply, variables, tokens, tokens, method='hidden')
    exact = tiny(dropout_rate=0.0).apply(variables, tokens, tokens, method='hidden')
    np.testing.assert_array_equal(apply(train=False), exact)
    one, same, other = (apply(train=True, rngs={'dropout': jax.random.key(n)}) for n in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert not np.allclose(one, other)
    # Shared over positions: a feature dropped at the end is dropped everywhere in that row.
    gone = np.asarray(one == 0)
    assert 0.3 < gone.mean() < 0.7
    assert (gone == gone[:, :1]).all() and not (gone[0] == gone[1]).all()
    apart = tiny(dropout_rate=0.5, shared_dropout=False).apply(
        variables, tokens, tokens, method='hidden', train=True, rngs={'dropout': jax.random.key(1)}
    )
    gone = np.asarray(apart == 0)
    assert not (gone == gone[:, :1]).all()


# The rules of a usual mesh; the real table is the trainer's.
RULES = (
    ('batch', ('data', 'fsdp')),
    ('vocab', 'tensor'),
    ('embed', 'fsdp'),
    ('mlp', 'tensor'),
    ('joined_kv', 'tensor'),
    ('heads', 'tensor'),
    ('length', None),
    ('stack', None),
    ('relpos_buckets', None),
)


def test_eight_devices_equal_one():
    model = models.build(
        'mt5', 'sample', emb_dim=32, num_heads=4, head_dim=8, mlp_dim=48, vocab_size=64
    )
    rng = np.random.default_rng(0)
    inputs = rng.integers(2, 61, (8, 16)).astype(np.int32)
    targets = rng.integers(2, 61, (8, 12)).astype(np.int32)
    batch = (inputs, shift_right(targets), np.ones_like(inputs), np.ones_like(targets), targets)

    def loss(variables, *batch):
        hidden = model.apply(variables, *batch[:4], method='hidden')
        table = model.apply(variables, method='output_embedding')
        out = losses.softmax_cross_entropy(
            hidden.reshape(-1, hidden.shape[-1]),
            table,
            batch[4].reshape(-1),
            jnp.ones(batch[4].size),
            chunk_size=48,
            groups=4,
        )
        return out.loss / out.weight

    boxed = jax.jit(model.init)(jax.random.key(0), inputs, targets)
    variables = nn.unbox(boxed)
    expected, slopes = jax.jit(jax.value_and_grad(loss))(variables, *batch)
    axes = ('data', 'fsdp', 'tensor')
    mesh = jax.make_mesh((2, 2, 2), axes, axis_types=(jax.sharding.AxisType.Auto,) * 3)
    specs = nn.get_partition_spec(boxed)
    shardings = nn.logical_to_mesh_sharding(specs, mesh, RULES)
    placed = jax.device_put(variables, shardings)
    rows = NamedSharding(mesh, P(('data', 'fsdp')))
    with jax.set_mesh(mesh), nn.logical_axis_rules(RULES):
        step = jax.jit(jax.value_and_grad(loss), out_shardings=(None, shardings))
        value, gradients = step(placed, *jax.device_put(batch, rows))
    np.testing.assert_allclose(value, expected, rtol=1e-5)
    jax.tree.map(functools.partial(np.testing.assert_allclose, atol=1e-5), gradients, slopes)
    kernel = placed['params']['encoder']['layers_0']['attention']['qkv']['kernel']
    assert kernel.sharding.spec == P(None, 'tensor', 'fsdp')


def shapes(params):
    flat = jax.tree_util.tree_flatten_with_path(params)[0]
    return {'/'.join(key.key for key in path): leaf.shape for path, leaf in flat}


def abstract_params(model):
    tokens = jax.ShapeDtypeStruct((1, 4), jnp.int32)
    variables = jax.eval_shape(model.init, jax.random.key(0), tokens, tokens)
    return nn.unbox(variables)['params']


def test_parameter_names_and_shapes_of_the_sample_size():
    model = models.build('mt5', 'sample', vocab_size=1000)
    expected = {
        'token_embedder/embedding': (1000, 128),
        'logits_dense/kernel': (1000, 128),
        'encoder/relpos_bias/rel_embedding': (4, 32),
        'encoder/encoder_norm/scale': (128,),
        'decoder/relpos_bias/rel_embedding': (4, 32),
        'decoder/decoder_norm/scale': (128,),
    }
    for i in range(2):
        expected |= {
            f'encoder/layers_{i}/pre_attention_layer_norm/scale': (128,),
            f'encoder/layers_{i}/attention/qkv/kernel': (3, 128, 128),
            f'encoder/layers_{i}/attention/out/kernel': (128, 128),
            f'encoder/layers_{i}/pre_mlp_layer_norm/scale': (128,),
            f'encoder/layers_{i}/mlp/wi/kernel': (2, 256, 128),
            f'encoder/layers_{i}/mlp/wo/kernel': (128, 256),
            f'decoder/layers_{i}/pre_self_attention_layer_norm/scale': (128,),
            f'decoder/layers_{i}/self_attention/qkv/kernel': (3, 128, 128),
            f'decoder/layers_{i}/self_attention/out/kernel': (128, 128),
            f'decoder/layers_{i}/pre_cross_attention_layer_norm/scale': (128,),
            f'decoder/layers_{i}/encoder_decoder_attention/query/kernel': (128, 128),
            f'decoder/layers_{i}/encoder_decoder_attention/kv/kernel': (2, 128, 128),
            f'decoder/layers_{i}/encoder_decoder_attention/out/kernel': (128, 128),
            f'decoder/layers_{i}/pre_mlp_layer_norm/scale': (128,),
            f'decoder/layers_{i}/mlp/wi/kernel': (2, 256, 128),
            f'decoder/layers_{i}/mlp/wo/kernel': (128, 256),
        }
    assert shapes(abstract_params(model)) == expected
    plain = shapes(abstract_params(models.build('t5', 'sample', vocab_size=1000)))
    assert plain['encoder/layers_0/mlp/wi/kernel'] == (256, 128)
    assert 'logits_dense/kernel' not in plain


@pytest.mark.parametrize(
    'family, size, parameters',
    # Counted by transformers from the public configurations.
    [('t5', 'small', 60_506_624), ('t5', 'base', 222_903_552), ('mt5', 'small', 300_176_768)],
)
def test_parameter_counts_of_public_sizes(family, size, parameters):
    leaves = jax.tree.leaves(abstract_params(models.build(family, size)))
    assert sum(leaf.size for leaf in leaves) == parameters


def test_every_size_can_be_built():
    for family in ('t5', 't5_1_1', 'mt5'):
        for size, fields in models.SIZES[family].items():
            assert models.build(family, size).config.emb_dim == fields['emb_dim']


@pytest.mark.parametrize(
    'arguments, overrides, message',
    [
        (('mt6', 'base'), {}, "unknown model family 'mt6'; nearest: mt5"),
        (('mt5', 'bas'), {}, "unknown size of mt5 'bas'; nearest: base"),
        (('mt5', 'base'), {'droput_rate': 0.1}, "'droput_rate'; nearest: dropout_rate"),
        (('mt5', 'base'), {'dtype': 'fp32'}, "unknown dtype 'fp32'; "),
        (('mt5', 'base'), {'remat': 'all'}, "unknown remat 'all'; nearest: full"),
        (('mt5', 'base'), {'dropout_rate': 1.0}, 'dropout_rate is 1.0; it must be 0'),
    ],
)
def test_mistakes_are_named(arguments, overrides, message):
    with pytest.raises(errors.UserError) as error:
        models.build(*arguments, **overrides)
    assert message in str(error.value)
