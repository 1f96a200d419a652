"""Vectors in the order of the texts, the same however they are batched and shared."""

import re

import jax
import numpy as np
import pytest
import references

from xlbench import models
from xlbench.data import features
from xlbench.parallel import partitioning
from xlbench.retrieval import text_encoder
from xlbench.system import progress
from xlbench.system.errors import UserError
from xlbench.training import objectives

CONVENTIONS = features.Conventions(pad_id=0, eos_id=1, decoder_start_id=0, vocab_size=64)


@pytest.fixture(scope='module')
def parts():
    """A tiny dual encoder with two different sides, and its parameters."""
    model = models.build(
        'dual_encoder', vocab_size=64, emb_dim=16, num_heads=2, head_dim=8, mlp_dim=32,
        num_layers=1, max_positions=32, shared=False, dropout_rate=0.0,
    )  # fmt: skip
    return model, references.drawn(model, *objectives.build('retrieval').example_inputs())


def texts(count, longest=20):
    rng = np.random.default_rng(0)
    return [
        np.array([*rng.integers(2, 64, rng.integers(0, longest)), 1], np.int32)
        for _ in range(count)
    ]


def make(model, devices=1, side='right', batch_size=8, max_length=32):
    mesh = partitioning.make_mesh(data=-1, devices=jax.devices()[:devices])
    return text_encoder.TextEncoder(
        model, mesh, side, batch_size=batch_size, max_length=max_length, conventions=CONVENTIONS
    )


@pytest.fixture(scope='module')
def expected(parts):
    """{side: vectors of texts(21)}, all of them in one batch of one width."""
    model, params = parts
    rows = texts(21)
    tokens = np.stack([np.pad(row, (0, 24 - len(row))) for row in rows])
    segments = np.stack([np.arange(24) < len(row) for row in rows]).astype(np.int32)
    return {
        side: jax.jit(model.apply, static_argnums=1, static_argnames='method')(
            {'params': params}, side, tokens, segments, method='encode'
        )
        for side in text_encoder.SIDES
    }


@pytest.mark.parametrize(
    'side, devices, batch_size',
    [('left', 1, 8), ('right', 1, 32), ('right', 8, 8), ('left', 4, 8)],
)
def test_the_same_vectors_however_batched_and_shared(parts, expected, side, devices, batch_size):
    """21 texts of lengths that no width or number of rows divides."""
    model, params = parts
    encode = make(model, devices, side, batch_size)
    found = encode(params, texts(21))
    np.testing.assert_allclose(found, expected[side], atol=1e-5)
    assert (found.dtype, found.shape) == (np.float32, (21, 16))


def test_the_sides_differ_and_need_few_programs(parts, expected):
    assert np.abs(expected['left'] - expected['right']).max() > 0.1
    model, params = parts
    encode = make(model, batch_size=4)
    for count in (1, 4, 21):
        encode(params, texts(count))
    assert encode._encode._cache_size() <= 8


def test_long_texts_are_cut_as_in_training(parts):
    model, params = parts
    rows = texts(21)
    encode = make(model, max_length=10)
    cut = [features.trim(row, 10, 1) for row in rows]
    np.testing.assert_array_equal(encode(params, rows), encode(params, cut))
    assert any(len(row) > 10 for row in rows)


def test_progress_is_said(parts, capsys, monkeypatch):
    model, params = parts
    monkeypatch.setattr(progress, 'EVERY', 0.0)
    monkeypatch.setattr(progress, '_TICK', 0.0001)
    make(model)(params, texts(21))
    lines = capsys.readouterr().err.splitlines()
    assert lines and all(re.match(r'encoded: \d+ of 21 replies(, .*s left)?$', x) for x in lines)


def test_mistakes(parts):
    model, params = parts
    with pytest.raises(UserError, match="unknown side of a dual encoder 'lef'; nearest: left"):
        make(model, side='lef')
    with pytest.raises(UserError, match='a batch of 6 rows cannot be split'):
        make(model, devices=4, batch_size=6)
    with pytest.raises(UserError, match='the token id 64, but the vocabulary has 64 ids'):
        make(model)(params, [np.array([64, 1], np.int32)])
    with pytest.raises(ValueError, match='there are no replies'):
        make(model)(params, [])
    broken = jax.tree.map(lambda x: x * np.nan, params)
    with pytest.raises(UserError, match='the vectors of replies are not finite'):
        make(model)(broken, texts(3))
