"""Fused attention, run by jax's interpreter of kernels, against the plain one."""

import functools
import importlib.util
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import references

from xlbench import models
from xlbench.models import attention as attention_lib, masks, positions
from xlbench.models.fused import attention as fused_lib, choice, cpu, tpu
from xlbench.parallel import partitioning
from xlbench.system.errors import UserError

Q, K = 200, 300  # Neither is a multiple of a block.


@pytest.fixture(autouse=True)
def _interpreted(monkeypatch):
    """Kernels run here, on tiles that are small enough for several of them."""
    monkeypatch.setattr(choice, 'INTERPRETED', 'tpu')
    monkeypatch.setattr(tpu, 'FORWARD_BLOCKS', (128, 128))
    monkeypatch.setattr(tpu, 'BACKWARD_BLOCKS', (128, 128))


def segments(rng, batch: int, length: int) -> np.ndarray:
    """Three texts a row, one behind the other, and padding."""
    ends = np.sort(rng.integers(1, length - 20, (batch, 3)), axis=1)
    ids = (np.arange(length)[None, :, None] >= ends[:, None]).sum(-1) + 1
    return np.where(np.arange(length) >= length - 20, 0, ids).astype(np.int32)


def both(seen, queries, keys, bias=False, heads=2, head_dim=64, dtype='float32', batch=2):
    """[(result, gradients of q, k, v and, with `bias`, of its table)] of plain and fused."""
    rng = np.random.default_rng(0)
    width = heads * head_dim
    q, k, v, g = (
        jnp.asarray(rng.normal(size=(batch, n, width)), dtype)
        for n in (queries, keys, keys, queries)
    )
    q = q * head_dim**-0.5
    relative = positions.RelativePositions(heads, 32, 128, bidirectional=not seen.causal)
    table = {'params': {'rel_embedding': jnp.asarray(rng.normal(size=(heads, 32)), jnp.float32)}}

    def plain(q, k, v, table):
        added = relative.apply(table, queries, keys) if bias else None
        split = [attention_lib.split_heads(x, heads, None) for x in (q, k, v)]
        out = attention_lib.dot_product_attention(*split, added, seen.array(keys), dtype)
        return attention_lib.join_heads(out)

    def fused(q, k, v, table):
        added = None
        if bias:
            added = relative.apply(table, queries, keys, method='by_difference')
        return fused_lib.fused_attention(q, k, v, added, seen, head_dim, dtype)

    def run(f):
        out, pull = jax.vjp(f, q, k, v, table)
        return out, pull(g)

    results = [jax.tree.leaves(jax.jit(functools.partial(run, f))()) for f in (plain, fused)]
    return results if bias else [leaves[:4] for leaves in results]


def close(results, tolerance: float) -> None:
    """Both are as near as this, relative to the largest number of each array."""
    plain, fused = results
    for a, b in zip(plain, fused, strict=True):
        a, b = (np.asarray(x, np.float32) for x in (a, b))
        np.testing.assert_allclose(b, a, rtol=0, atol=tolerance * np.abs(a).max())


def packed(rng_seed: int = 1):
    """Segments of queries and keys."""
    rng = np.random.default_rng(rng_seed)
    return segments(rng, 2, Q), segments(rng, 2, K)


@functools.cache
def packed_texts(dtype: str):
    """Both attentions of packed texts with relative positions."""
    ids = packed()[1]
    return both(masks.MaskSpec(ids, ids), K, K, bias=True, dtype=dtype)


@pytest.mark.parametrize('kernels', ['tpu', 'cpu', 'gpu'])
def test_kernels_of_all_devices(kernels, monkeypatch):
    """Relative positions, packed texts, causal, a source some of whose readers see nothing."""
    monkeypatch.setattr(choice, 'INTERPRETED', kernels)
    monkeypatch.setattr(cpu, 'BLOCK', 64)
    ids, source = packed()
    whole = functools.partial(both, masks.MaskSpec(source, source), K, K, bias=True)
    close(packed_texts('float32') if kernels == 'tpu' else whole(), 1e-5)
    one_head = dict(heads=1, head_dim=128 if kernels == 'tpu' else 32)
    close(both(masks.MaskSpec(source, source, True), K, K, bias=True, **one_head), 1e-5)
    source = np.minimum(source, 2)  # So that the third text of a row has no source.
    source[source == 0] = 2  # Nor has padding: it sees nothing at all.
    assert not (ids[:, :, None] == source[:, None]).any(-1).all()
    close(both(masks.MaskSpec(ids, source), Q, K, **one_head), 1e-5)


def test_bfloat16_within_its_noise():
    exact, halves = packed_texts('float32')[0], packed_texts('bfloat16')
    for whole, plain, fused in zip(exact, *halves, strict=True):
        noise, ours = (
            np.abs(np.asarray(x, np.float32) - np.asarray(whole)).max() for x in (plain, fused)
        )
        assert 0 < ours < 1.5 * noise


def test_a_source_with_padding_and_one_without():
    source = packed()[1]
    for known in (source, None):
        close(both(masks.MaskSpec(None, known), Q, K, heads=1, head_dim=128), 1e-5)


TINY = dict(
    emb_dim=32, num_heads=2, head_dim=128, mlp_dim=16, vocab_size=64, num_encoder_layers=1,
    num_decoder_layers=1,
)  # fmt: skip


def test_a_model_on_four_devices_with_dropout_and_recomputation():
    """The loss of packed rows and its gradients are those of plain attention on one device."""
    ids, inputs = packed()
    rng = np.random.default_rng(0)
    tokens, source = rng.integers(2, 64, (2, Q)), rng.integers(2, 64, (2, K))
    plain = models.build('mt5', 'sample', **TINY)
    params = references.drawn(plain, source[:1, :4], tokens[:1, :4], scale=0.2)
    traced = {}

    def gradients(attention, devices, **fields):
        model = models.build('mt5', 'sample', **TINY, attention=attention, **fields)

        @jax.value_and_grad
        def loss(params):
            hidden = model.apply(
                {'params': params}, source, tokens, inputs, ids, train=True, method='hidden',
                rngs={'dropout': jax.random.key(1)},
            )  # fmt: skip
            return jnp.sum(jnp.sin(hidden) * (ids > 0)[..., None])

        mesh = partitioning.make_mesh(
            data=devices // 2 or 1, tensor=-1, devices=jax.devices()[:devices]
        )
        with partitioning.activate(mesh):
            step = jax.jit(loss).trace(params)
            traced[attention] = str(step.jaxpr)
            return jax.tree.leaves(step.lower().compile()(params))

    close((gradients('plain', 1), gradients('fused', 4, remat='dots')), 1e-4)
    assert 'pallas_call' not in traced['plain']
    assert f'{K},{K}]' in traced['plain'] and f'{K},{K}]' not in traced['fused']


def test_what_a_model_takes(monkeypatch):
    """By device, mesh, sizes and length; a config that asks for the impossible is told why."""

    def cfg(**fields):
        return models.config('mt5', 'sample', **dict(num_heads=6, head_dim=64) | fields)

    sizes = 4, 512, 512, True
    assert choice.takes_fused(cfg(), *sizes)
    assert choice.takes_fused(cfg(attention='fused'), 4, 16, 16, True)
    assert not choice.takes_fused(cfg(), 4, 128, 128, True)
    assert not choice.takes_fused(cfg(attention='plain'), *sizes)
    assert not choice.takes_fused(cfg(shared_dropout=False), *sizes)
    assert choice.takes_fused(cfg(shared_dropout=False), 4, 512, 512, False)
    assert choice.describe(cfg()).startswith('attention: fused; ')
    for fields, axes, words in (
        (dict(head_dim=80), {}, '6 heads of 80 do not'),
        ({}, dict(tensor=2), 'of which a device has 3 do not'),
        ({}, dict(sequence=2), 'config.mesh.sequence=2 cuts texts'),
        (dict(shared_dropout=False), {}, 'shared_dropout=False'),
    ):
        mesh = partitioning.make_mesh(**axes, devices=jax.devices()[:2])
        with partitioning.activate(mesh):
            assert choice.describe(cfg(**fields)).startswith('attention: plain; ')
            with pytest.raises(UserError, match=f"'fused' is impossible: .*{words}"):
                choice.check(cfg(attention='fused', **fields))
    with partitioning.activate(partitioning.make_mesh(data=2, devices=jax.devices()[:2])):
        assert not choice.takes_fused(cfg(), 3, 512, 512, True)  # Rows that do not divide.
    monkeypatch.setattr(choice, 'INTERPRETED', '')  # On a CPU, any heads may be fused.
    assert choice.takes_fused(cfg(attention='fused', head_dim=80), 4, 16, 16, True)
    assert not choice.takes_fused(cfg(), 4, 1024, 1024, True)
    assert choice.takes_fused(cfg(), 4, 2048, 2048, True)
    assert not choice.takes_fused(cfg(shared_dropout=False), 4, 2048, 2048, True)
    assert choice.describe(cfg()) == ''
    assert 'as config.model.attention says' in choice.describe(cfg(attention='plain'))
    choice.check(cfg(attention='fused'))


def test_gpus_take_their_kernels(monkeypatch):
    """What would be compiled for them has the kernels, and no array of queries x keys."""
    monkeypatch.setattr(choice, 'platform', lambda: 'gpu')
    sizes = 4, 512, 512, True
    config = functools.partial(models.config, 'mt5', 'sample', num_heads=6)
    assert choice.takes_fused(config(), *sizes)
    assert choice.takes_fused(config(), 4, 64, 64, True)
    assert not choice.takes_fused(config(), 4, 32, 32, True)
    assert not choice.takes_fused(config(attention='plain'), *sizes)
    assert choice.describe(config()) == 'attention: fused; plain below 4,096 pairs of query and key'
    with pytest.raises(UserError, match=r'whole heads of .*, and these are 6 heads of 80'):
        choice.check(config(attention='fused', head_dim=80))
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(choice, 'platform', lambda: 'metal')
        assert not choice.takes_fused(config(), *sizes)
        assert 'no kernels for metal' in choice.describe(config())

    def loss(x, bias, ids):
        out = fused_lib.fused_attention(
            x, x, x, bias, masks.MaskSpec(ids, ids, True), 64, 'bfloat16'
        )
        return jnp.sum(out.astype(jnp.float32))

    shapes = ((2, 640, 128), 'bfloat16'), ((2, 1280), 'float32'), ((2, 640), 'int32')
    shapes = [jax.ShapeDtypeStruct(*shape) for shape in shapes]
    device = jax.sharding.AbstractDevice('NVIDIA H100 80GB HBM3', 132, 'gpu')
    mesh = jax.sharding.AbstractMesh((1,), ('data',), abstract_device=device)
    with jax.sharding.use_abstract_mesh(mesh):
        traced = jax.jit(jax.grad(loss, (0, 1))).trace(*shapes)
        text = traced.lower(lowering_platforms=('cuda',)).as_text()
    assert text.count('@__gpu$xla.gpu.triton') == 4 and '640x640' not in text


ON_TPU = """
import jax, jax.numpy as jnp
from xlbench.models import masks
from xlbench.models.fused.attention import fused_attention
from xlbench.parallel import partitioning
from xlbench.plan import devices, hlo

for topology in ('v5p:2x2x1', 'v6e:2x2'):
    mesh = partitioning.make_mesh(data=2, tensor=2, devices=devices.devices_of(topology)[:4])

    def loss(x, bias, ids):
        out = fused_attention(x, x, x, bias, masks.MaskSpec(ids, ids, True), 64, jnp.bfloat16)
        return jnp.sum(out.astype(jnp.float32))

    shapes = ((4, 640, 256), 'bfloat16'), ((4, 1280), 'float32'), ((4, 640), 'int32')
    with partitioning.activate(mesh):
        whole = partitioning.replicated(mesh)
        shapes = [jax.ShapeDtypeStruct(*shape, sharding=whole) for shape in shapes]
        text = jax.jit(jax.grad(loss, (0, 1))).lower(*shapes).compile().as_text()
    print(len(hlo.parse(text, 4).kernels), '640,640]' in text)
"""


def test_tpus_take_the_kernels():
    """Compiled ahead of time, in a process of its own, because libtpu stays loaded."""
    if importlib.util.find_spec('libtpu') is None:
        pytest.skip("needs libtpu to compile for a TPU: pip install 'jax[tpu]'")
    run = subprocess.run(
        [sys.executable, '-c', ON_TPU], capture_output=True, text=True, check=False
    )
    assert run.stdout.split('\n')[:2] == ['2 False', '2 False'], run.stderr[-2000:]
