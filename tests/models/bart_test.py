import functools
import pathlib

import flax.linen as nn
import jax
import jax.numpy as jnp
import named_weights
import numpy as np
import pytest
from flax import traverse_util
from jax.sharding import NamedSharding, PartitionSpec as P

from xlbench import decoding, models
from xlbench.huggingface import bart as bart_names
from xlbench.models import positions
from xlbench.parallel import partitioning
from xlbench.system import errors
from xlbench.training import losses

GOLDENS = pathlib.Path(__file__).parents[1] / 'goldens'
FAMILIES = ('bart', 'mbart', 'pegasus', 'marian')
TINY = dict(emb_dim=32, num_heads=4, head_dim=8, mlp_dim=40, vocab_size=61, max_positions=40)
NO_DROPOUT = dict(dropout_rate=0.0, attention_dropout_rate=0.0, activation_dropout_rate=0.0)
IDS = dict(pad_id=1, bos_id=0, eos_id=2, decoder_start_id=2, forced_bos_id=59, forced_eos_id=2)


def tiny(family, **overrides):
    return models.build(family, 'sample', **TINY | NO_DROPOUT | overrides)


def shallow(family, **overrides):
    """A model of one layer in each stack: quick to compile, and the golden parameters fit."""
    return tiny(family, num_encoder_layers=1, num_decoder_layers=1, **overrides)


class Golden:
    """What transformers makes of a tiny random model; see tools/goldens/make_bart.py."""

    def __init__(self, family):
        stored = dict(np.load(GOLDENS / f'{family}.npz'))
        self.family = family
        self.values = {k: v for k, v in stored.items() if '/' not in k}
        self.gradients = {k[10:]: v for k, v in stored.items() if k.startswith('gradients/')}
        self.weights = {
            k[8:]: v.astype(np.float32) for k, v in stored.items() if k.startswith('weights/')
        }
        self.model = tiny(family)
        self.run = jax.jit(self.model.apply, static_argnames=('method', 'max_length', 'beams'))
        self.names = bart_names.names(family, self.model.config)
        self.params = named_weights.to_params(self.names, self.weights)
        self.variables = {'params': self.params}
        self.inputs, self.decoder_inputs = self.values['inputs'], self.values['decoder_inputs']
        self.targets = self.values['targets']
        self.start, self.eos, self.pad = (
            int(self.values[f'{name}_token_id']) for name in ('decoder_start', 'eos', 'pad')
        )
        self.segments = (self.inputs != self.pad).astype(np.int32)

    def loss(self, model, params):
        variables = {'params': params}
        hidden = model.apply(
            variables, self.inputs, self.decoder_inputs, self.segments, method='hidden'
        )
        out = losses.softmax_cross_entropy(
            hidden.reshape(-1, hidden.shape[-1]),
            model.apply(variables, method='output_embedding'),
            self.targets.reshape(-1),
            (self.targets != self.pad).reshape(-1),
            bias=model.apply(variables, method='output_bias'),
        )
        return out.loss / out.weight

    def loss_and_gradients(self, model):
        return jax.jit(jax.value_and_grad(functools.partial(self.loss, model)))(self.params)


golden_of = functools.cache(Golden)


@pytest.fixture(scope='module', params=FAMILIES)
def golden(request):
    return golden_of(request.param)


def test_logits_equal_transformers(golden):
    run = functools.partial(golden.run, golden.variables, golden.inputs, golden.decoder_inputs)
    logits = run(golden.segments)
    np.testing.assert_allclose(logits[:, ::3], golden.values['logits'], atol=1e-4, rtol=0)
    expected = golden.values['logits_without_mask']
    logits = run(np.ones_like(golden.segments))
    np.testing.assert_allclose(logits[:, ::6], expected, atol=1e-4, rtol=0)
    if golden.family == 'bart':
        np.testing.assert_allclose(run(None)[:, ::6], expected, atol=1e-4, rtol=0)


def test_loss_and_gradients_equal_transformers(golden):
    loss, gradients = golden.loss_and_gradients(golden.model)
    np.testing.assert_allclose(loss, golden.values['loss'], rtol=1e-5)
    # The same mapping names the gradients.
    gradients = named_weights.from_params(golden.names, jax.tree.map(np.array, gradients))
    assert len(golden.gradients) >= 11
    if golden.start == golden.pad:
        # The row that decoding starts with: PyTorch lets no gradient through the lookup of padding.
        for table in (gradients['model.shared.weight'], golden.gradients['model.shared.weight']):
            table[golden.pad] = 0.0
    for name, expected in golden.gradients.items():
        np.testing.assert_allclose(gradients[name], expected, atol=2e-5, err_msg=name)
    assert not gradients['final_logits_bias'].any()


@pytest.fixture(scope='module')
def exact():
    """Loss and gradients of a shallow model in float32."""
    return golden_of('mbart').loss_and_gradients(shallow('mbart'))


@pytest.mark.parametrize('remat', ['dots', 'full'])
def test_rematerialisation_changes_no_gradient(exact, remat):
    again = golden_of('mbart').loss_and_gradients(shallow('mbart', remat=remat))
    jax.tree.map(functools.partial(np.testing.assert_allclose, atol=1e-5), again, exact)


@pytest.mark.parametrize(
    'types, near', [(('float32', 'bfloat16'), 0.99), (('bfloat16', None), 0.97)]
)
def test_bfloat16_is_near_float32(exact, types, near):
    model = shallow('mbart', dtype=types[0], matmul_dtype=types[1])
    loss, gradients = golden_of('mbart').loss_and_gradients(model)
    np.testing.assert_allclose(loss, exact[0], rtol=0.02)
    pairs = zip(jax.tree.leaves(gradients), jax.tree.leaves(exact[1]), strict=True)
    for ours, expected in pairs:
        assert ours.dtype == jnp.float32
        # The bias of the logits has no gradient, and the second layer is not there.
        if expected.any():
            size = np.linalg.norm(ours) * np.linalg.norm(expected)
            assert near < np.vdot(ours, expected) / size < 1 - 1e-6


def test_greedy_decoding_equals_transformers(golden):
    expected = golden.values['greedy']
    assert (expected == golden.eos).any()  # Some rows end.
    forced = golden.values.get('forced_bos_token_id')
    batch = {
        'encoder_input_tokens': golden.inputs,
        'encoder_segment_ids': golden.segments,
        'encoder_positions': np.broadcast_to(np.arange(40, dtype=np.int32), (3, 40)),
    }
    decode = functools.partial(
        decoding.decode,
        golden.model,
        options=decoding.Options(method='greedy', max_length=24),
        start_id=golden.start,
        eos_id=golden.eos,
        pad_id=golden.pad,
        forced_first=None if forced is None else np.full(3, forced, np.int32),
    )
    found = jax.jit(decode)(golden.params, batch)
    np.testing.assert_array_equal(found.tokens[:, 0, : expected.shape[1]], expected)


def test_cached_decoding_equals_the_full_pass(golden):
    run, beams = functools.partial(golden.run, golden.variables), 3
    full = run(golden.inputs, golden.decoder_inputs, golden.segments)
    encoded = run(golden.inputs, golden.segments, method='encode')
    cache = run(encoded, golden.segments, max_length=33, beams=beams, method='init_cache')
    assert cache['self'][0]['key'].shape == (3, 4, 8, 33 * beams)
    assert cache['cross'][0]['key'].shape == (3, 4, 8, 40)
    for position in range(20):
        # Equal hypotheses get equal logits.
        tokens = np.repeat(golden.decoder_inputs[:, position], beams)
        logits, cache = run(cache, tokens, method='decode_step')
        assert logits.dtype == jnp.float32
        expected = np.repeat(full[:, position], beams, axis=0)
        np.testing.assert_allclose(logits, expected, atol=3e-5)


def test_cache_without_segments_sees_everything():
    golden = golden_of('bart')
    run = functools.partial(golden.run, golden.variables)
    full = run(golden.inputs, golden.decoder_inputs, None)
    encoded = run(golden.inputs, method='encode')
    cache = run(encoded, None, max_length=4, method='init_cache')
    logits, cache = run(cache, golden.decoder_inputs[:, 0], method='decode_step')
    np.testing.assert_allclose(logits, full[:, 0], atol=3e-5)


@pytest.mark.parametrize('family', ['bart', 'pegasus'])
def test_packing_changes_no_logits(family):
    """Three examples in one row, two and padding in another, against one a row."""
    golden = golden_of(family)
    input_lengths = golden.segments.sum(axis=1)
    target_lengths = (golden.targets != golden.pad).sum(axis=1)
    alone = golden.run(golden.variables, golden.inputs, golden.decoder_inputs, golden.segments)
    features = {
        name: np.zeros((2, length), np.int32)
        for side, length in (('encoder', 70), ('decoder', 36))
        for name in (f'{side}_input_tokens', f'{side}_segment_ids', f'{side}_positions')
    }
    # The rows are longer than any example.
    model = tiny(family, max_positions=80)
    places = []
    for row, examples in enumerate(((0, 1, 2), (2, 1))):
        i = j = 0
        for segment, example in enumerate(examples, 1):
            lengths = input_lengths[example], target_lengths[example]
            for side, tokens, at, n in (
                ('encoder', golden.inputs, i, lengths[0]),
                ('decoder', golden.decoder_inputs, j, lengths[1]),
            ):
                where = row, slice(at, at + n)
                features[f'{side}_input_tokens'][where] = tokens[example, :n]
                features[f'{side}_segment_ids'][where] = segment
                features[f'{side}_positions'][where] = np.arange(n)
            places.append((row, j, example, lengths[1]))
            i, j = i + lengths[0], j + lengths[1]
    params = jax.tree.map(np.copy, golden.params)
    if model.config.learned_positions:
        for stack in ('encoder', 'decoder'):
            table = params[stack]['position_embedder']
            table['embedding'] = np.pad(table['embedding'], ((0, 40), (0, 0)))
    logits = jax.jit(model.apply)({'params': params}, **features)
    assert np.isfinite(logits).all()
    for row, start, example, length in places:
        found = logits[row, start : start + length]
        np.testing.assert_allclose(found, alone[example, :length], atol=3e-5)


@functools.partial(jax.jit, static_argnums=(0, 2))
def hidden(model, key, train):
    tokens = np.arange(2, 26, dtype=np.int32).reshape(2, 12)
    return model.apply(
        golden_of('bart').variables, tokens, tokens, train=train,
        rngs={'dropout': jax.random.key(key)}, method='hidden',
    )  # fmt: skip


@pytest.mark.parametrize(
    'rate, shared',
    [
        ('dropout_rate', True),
        ('activation_dropout_rate', False),
        ('attention_dropout_rate', True),
        ('attention_dropout_rate', False),
    ],
)
def test_dropout_draws_with_the_key_and_only_in_training(rate, shared):
    model = shallow('bart', **{rate: 0.5}, shared_dropout=shared)
    one = hidden(model, 1, True)
    np.testing.assert_array_equal(one, hidden(model, 1, True))
    assert not np.allclose(one, hidden(model, 2, True))
    exact = hidden(shallow('bart'), 1, False)
    np.testing.assert_allclose(hidden(model, 1, False), exact, atol=1e-6)
    assert not np.allclose(one, exact)


def test_huggingface_names_survive_the_round_trip(golden):
    back = named_weights.from_params(golden.names, golden.params)
    assert back.keys() == golden.weights.keys()
    for name, value in back.items():
        np.testing.assert_array_equal(value, golden.weights[name])
    flat = traverse_util.flatten_dict(abstract(golden.model), sep='/')
    assert golden.names.keys() == flat.keys()


def test_names_of_headless_checkpoints_get_their_first_word():
    rename = bart_names.rename
    assert rename('encoder.layers.0.fc1.weight') == 'model.encoder.layers.0.fc1.weight'
    assert rename('shared.weight') == 'model.shared.weight'
    for name in ('model.decoder.embed_tokens.weight', 'lm_head.weight', 'final_logits_bias'):
        assert rename(name) == name


@pytest.mark.parametrize('family', FAMILIES)
def test_config_survives_the_round_trip(family):
    for size in models.SIZES[family]:
        config = models.config(family, size)
        written = bart_names.to_config(family, config, IDS)
        assert written['model_type'] == family and written['forced_bos_token_id'] == 59
        back = bart_names.from_config(written)
        assert back.pop('family') == family
        assert models.config(family, **back) == config


def abstract(model, boxed=False):
    tokens = jax.ShapeDtypeStruct((1, 4), jnp.int32)
    params = jax.eval_shape(model.init, jax.random.key(0), tokens, tokens)['params']
    return params if boxed else nn.unbox(params)


@pytest.mark.parametrize(
    'family, size, parameters',
    # Counted by transformers from the public configurations.
    [
        ('bart', 'base', 139_420_416),
        ('bart', 'large', 406_291_456),
        ('mbart', 'large_50', 610_879_488),
        # Less the sinusoidal positions of both stacks, 2 x 1024 x 1024 and 2 x 512 x 512.
        ('pegasus', 'large', 570_797_056 - 2_097_152),
        ('marian', 'base', 74_410_496 - 524_288),
    ],
)
def test_parameter_counts_of_public_sizes(family, size, parameters):
    model = models.build(family, size)
    count = sum(leaf.size for leaf in jax.tree.leaves(abstract(model)))
    # transformers does not count the bias of the logits, a buffer there.
    assert count - model.config.vocab_size == parameters


@pytest.mark.parametrize('family', FAMILIES)
def test_parameter_names_and_shapes_of_the_sample_size(family):
    model = models.build(family, 'sample', vocab_size=1000)
    cfg = model.config

    def dense(name, *shape):
        return {f'{name}/kernel': shape, f'{name}/bias': shape[:-1]}

    def norm(name):
        return {f'{name}/scale': (128,), f'{name}/bias': (128,)}

    expected = {'token_embedder/embedding': (1000, 128), 'final_logits_bias': (1000,)}
    for stack in ('encoder', 'decoder'):
        if family in ('bart', 'mbart'):
            expected |= norm(f'{stack}/embeddings_norm')
            expected[f'{stack}/position_embedder/embedding'] = (cfg.max_positions + 2, 128)
        if family in ('mbart', 'pegasus'):
            expected |= norm(f'{stack}/final_norm')
        for i in range(2):
            layer = f'{stack}/layers_{i}'
            own = f'{layer}/{"attention" if stack == "encoder" else "self_attention"}'
            cross = f'{layer}/encoder_decoder_attention'
            expected |= dense(f'{own}/qkv', 3, 128, 128) | dense(f'{own}/out', 128, 128)
            expected |= norm(f'{own}_norm') | norm(f'{layer}/mlp_norm')
            expected |= dense(f'{layer}/mlp/wi', 256, 128) | dense(f'{layer}/mlp/wo', 128, 256)
            if stack == 'decoder':
                expected |= dense(f'{cross}/query', 128, 128) | dense(f'{cross}/kv', 2, 128, 128)
                expected |= dense(f'{cross}/out', 128, 128) | norm(f'{cross}_norm')
    flat = traverse_util.flatten_dict(abstract(model), sep='/')
    assert {name: leaf.shape for name, leaf in flat.items()} == expected


def test_fresh_parameters_have_the_spread_of_the_config():
    model, tokens = shallow('mbart', vocab_size=2000), np.zeros((1, 4), np.int32)
    params = nn.unbox(jax.jit(model.init)(jax.random.key(0), tokens, tokens))['params']
    for name, value in traverse_util.flatten_dict(params, sep='/').items():
        if name.endswith(('kernel', 'embedding')):
            np.testing.assert_allclose(np.std(value), 0.02, rtol=0.1, err_msg=name)
        else:
            assert (value == float(name.endswith('scale'))).all(), name


def test_four_devices_equal_one():
    model = shallow('mbart', vocab_size=64)
    rng = np.random.default_rng(0)
    inputs, targets = (rng.integers(2, 61, (4, n)).astype(np.int32) for n in (16, 12))
    positions = [np.broadcast_to(np.arange(n, dtype=np.int32), (4, n)) for n in (16, 12)]
    batch = (inputs, targets, np.ones_like(inputs), np.ones_like(targets), *positions)

    def loss(params, *batch):
        variables = {'params': params}
        hidden = model.apply(variables, *batch, method='hidden')
        out = losses.softmax_cross_entropy(
            hidden.reshape(-1, hidden.shape[-1]),
            model.apply(variables, method='output_embedding'),
            batch[1].reshape(-1),
            jnp.ones(batch[1].size),
            bias=model.apply(variables, method='output_bias'),
            groups=2,
        )
        return out.loss / out.weight

    boxed = abstract(model, boxed=True)
    draw = lambda leaf: 0.1 * rng.standard_normal(leaf.shape, np.float32)  # noqa: E731
    params = jax.tree.map(draw, nn.unbox(boxed))
    expected, slopes = jax.jit(jax.value_and_grad(loss))(params, *batch)
    mesh = partitioning.make_mesh(fsdp=2, tensor=2, devices=jax.devices()[:4])
    shardings = partitioning.param_shardings(boxed, mesh)
    placed = jax.device_put(params, shardings)
    rows = NamedSharding(mesh, partitioning.BATCH_SPEC)
    with partitioning.activate(mesh):
        step = jax.jit(jax.value_and_grad(loss), out_shardings=(None, shardings))
        value, gradients = step(placed, *jax.device_put(batch, rows))
    np.testing.assert_allclose(value, expected, rtol=1e-5)
    jax.tree.map(functools.partial(np.testing.assert_allclose, atol=1e-5), gradients, slopes)
    assert placed['encoder']['layers_0']['attention']['qkv']['bias'].sharding.spec == P(
        None, 'tensor'
    )
    assert placed['decoder']['position_embedder']['embedding'].sharding.spec == P(None, 'fsdp')


@pytest.mark.parametrize('family', FAMILIES)
def test_every_parameter_has_logical_axes(family):
    rules = dict(partitioning.LOGICAL_AXIS_RULES)
    is_box = lambda leaf: isinstance(leaf, nn.meta.AxisMetadata)  # noqa: E731
    for box in jax.tree.leaves(abstract(tiny(family), boxed=True), is_leaf=is_box):
        assert is_box(box) and len(box.names) == box.value.ndim
        assert set(box.names) <= rules.keys()


def test_sinusoids_are_sines_then_cosines():
    table = positions.sinusoids(40, 6)
    assert table.shape == (40, 6) and table.dtype == np.float32
    angle = 7 / 10000 ** (2 / 6)
    np.testing.assert_allclose(table[7, [1, 4]], [np.sin(angle), np.cos(angle)], rtol=1e-6)
    np.testing.assert_array_equal(table[0], [0, 0, 0, 1, 1, 1])


def test_a_sequence_beyond_the_learned_positions_is_one_plain_error():
    tokens = jax.ShapeDtypeStruct((1, 41), jnp.int32)
    few = jax.ShapeDtypeStruct((1, 4), jnp.int32)
    run = lambda family, *args: jax.eval_shape(  # noqa: E731
        tiny(family).init, jax.random.key(0), *args
    )
    for args in ((tokens, few), (few, tokens)):
        with pytest.raises(errors.UserError, match=r'41 tokens does not fit .* 40 learned'):
            run('bart', *args)
        run('marian', *args)  # Sinusoidal positions have no end.
    golden = golden_of('mbart')
    encoded = np.zeros((1, 4, 32), np.float32)
    with pytest.raises(errors.UserError, match='41 tokens'):
        golden.run(golden.variables, encoded, None, max_length=41, method='init_cache')


@pytest.mark.parametrize(
    'change, message',
    [
        ({'decoder_attention_heads': 2}, 'decoder_attention_heads is 2; supported: 4, as encoder_'),
        ({'decoder_ffn_dim': 64}, 'decoder_ffn_dim is 64; supported: 256, as encoder_ffn_dim is'),
        ({'share_encoder_decoder_embeddings': False}, 'embeddings is False; supported: True'),
        ({'decoder_vocab_size': 7}, 'decoder_vocab_size is 7; supported: 58101, as vocab_size is'),
        ({'tie_word_embeddings': False}, 'tie_word_embeddings is False; supported: True'),
        ({'activation_function': 'mish'}, "is 'mish'; supported: relu, gelu, gelu_new, gelu_py"),
        ({'encoder_layerdrop': 0.1}, 'encoder_layerdrop is 0.1; supported: 0.0'),
        ({'d_model': 130}, 'd_model is 130; supported: multiples of encoder_attention_heads, 4'),
        ({'d_model': None}, "config.json lacks 'd_model', which a marian model needs"),
    ],
)
def test_unsupported_configs_are_named(change, message):
    config = bart_names.to_config('marian', models.config('marian', 'sample'), IDS)
    with pytest.raises(errors.UserError) as error:
        bart_names.from_config(config | change)
    assert message in str(error.value)


def test_what_old_configs_leave_out_is_filled_in():
    config = bart_names.to_config('bart', models.config('bart', 'base'), IDS)
    for key in ('scale_embedding', 'init_std', 'dropout', 'tie_word_embeddings'):
        del config[key]
    built = models.build(**bart_names.from_config(config | {'normalize_before': False}))
    assert built.config == models.config('bart', 'base')


@pytest.mark.parametrize(
    'overrides, message',
    [
        ({'activation': 'mish'}, "unknown activation 'mish'; nearest: swish"),
        ({'attention_dropout_rate': 1.0}, 'attention_dropout_rate is 1.0; it must be 0 or more'),
        ({'remat': 'all'}, "unknown remat 'all'; nearest: full"),
    ],
)
def test_mistakes_are_named(overrides, message):
    with pytest.raises(errors.UserError) as error:
        models.build('bart', 'base', **overrides)
    assert message in str(error.value)


def test_models_that_transformers_lacks_are_not_written():
    for field, value in {'pre_norm': True, 'head_dim': 16}.items():
        with pytest.raises(errors.UserError, match=f'a bart model with {field}={value} cannot be'):
            bart_names.to_config('bart', models.config('bart', 'sample', **{field: value}), IDS)
