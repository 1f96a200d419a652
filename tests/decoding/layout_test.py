"""Texts that are written where fsdp cuts parameters: no step gathers the model."""

import functools
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
from unittest import mock

import jax
import numpy as np
import pytest
import tiny
from jax.sharding import PartitionSpec as P

from xlbench import decoding
from xlbench.decoding import layout as layout_lib
from xlbench.parallel import partitioning
from xlbench.plan import devices as devices_lib, hlo
from xlbench.training import objectives, train_step

TESTS = pathlib.Path(__file__).parents[1]
TRIPS = 1000  # What a loop of unknown length counts as.
# As the compiler writes those of the model below.
KERNELS = ('[16,32]', '[32,16]', '[3,32,16]', '[2,32,16]', '[128,16]')


MODEL = tiny.tiny_model(num_heads=8, head_dim=4)
TOKENS = np.random.default_rng(0).integers(2, 128, (8, 12)).astype(np.int32)
BATCH = {'encoder_input_tokens': TOKENS, 'encoder_segment_ids': np.ones_like(TOKENS)}


@functools.cache
def mesh_and_params():
    """Parameters of the model, cut by fsdp."""
    mesh = partitioning.make_mesh(data=2, fsdp=4, devices=jax.devices()[:8])
    objective = objectives.build('generation')
    return mesh, train_step.init_params(MODEL, objective, mesh, jax.random.key(0))


def compiled(mesh, params, batch, layout):
    """The program, and which kernels and tables the loop over tokens gathers."""
    options = decoding.Options(method='beam', num_beams=2, max_length=8)
    decode = functools.partial(
        decoding.decode, MODEL, options=options, start_id=0, eos_id=1, pad_id=0, layout=layout
    )
    with partitioning.activate(mesh):
        program = jax.jit(decode).lower(params, batch).compile()
    collectives = hlo.parse(program.as_text(), mesh.size, unknown_trips=TRIPS).collectives
    of_steps = [c.type for c in collectives if c.kind == 'all-gather' and c.times >= TRIPS]
    return program, [kind for kind in of_steps if kind.endswith(KERNELS)]


@functools.cache
def written(kind):
    """The texts with parameters laid out by `layout_of`, or as they are in training."""
    mesh, params = mesh_and_params()
    layout = decoding.layout_of(MODEL, params) if kind != 'as_trained' else layout_lib.AS_TRAINED
    assert layout.kind == kind
    batch = partitioning.put_batch(BATCH, mesh)
    program, gathered = compiled(mesh, params, batch, layout)
    assert not gathered  # XLA:CPU itself gathers before the loop.
    return jax.device_get(program(params, batch))


def assert_same_texts(kind):
    expected, decoded = written('as_trained'), written(kind)
    np.testing.assert_array_equal(decoded.tokens, expected.tokens)
    np.testing.assert_allclose(decoded.scores, expected.scores, rtol=1e-5)
    assert len(np.unique(decoded.tokens[:, 0], axis=0)) > 1


def test_few_parameters_are_gathered_before_the_first_token():
    assert_same_texts('whole')


def test_many_parameters_are_cut_along_heads(monkeypatch):
    monkeypatch.setattr(layout_lib, 'FEW', 0)
    assert_same_texts('by_heads')


def print_gathers_on_tpus():
    """Prints in which layouts the loop over tokens gathers kernels when it is compiled for TPUs."""
    mesh = partitioning.make_mesh(data=2, fsdp=4, devices=devices_lib.devices_of('v5e:2x4'))
    like = train_step.params_like(MODEL, objectives.build('generation'), mesh)
    params = train_step.placed(*like)
    layouts = [layout_lib.AS_TRAINED, decoding.layout_of(MODEL, params)]
    with mock.patch.object(layout_lib, 'FEW', 0):
        layouts.append(decoding.layout_of(MODEL, params))
    batch = {
        name: jax.ShapeDtypeStruct(
            x.shape, x.dtype, sharding=partitioning.batch_sharding(mesh, x.shape)
        )
        for name, x in BATCH.items()
    }
    gathers = {one.kind: bool(compiled(mesh, params, batch, one)[1]) for one in layouts}
    print(json.dumps(gathers))


@pytest.mark.skipif(not importlib.util.find_spec('libtpu'), reason='needs the package libtpu')
def test_no_step_gathers_parameters_on_tpus():
    """In a process of its own, because libtpu stays loaded."""
    code = 'import layout_test; layout_test.print_gathers_on_tpus()'
    folders = (TESTS / 'decoding', TESTS / 'support')
    child = subprocess.run(
        [sys.executable, '-c', code],
        env=os.environ | {'PYTHONPATH': os.pathsep.join(map(str, folders))},
        capture_output=True,
        text=True,
    )
    assert child.returncode == 0, child.stderr
    said = json.loads(child.stdout.splitlines()[-1])
    assert said == {'as_trained': True, 'whole': False, 'by_heads': False}


def test_which_layout_parameters_get(monkeypatch):
    _, params = mesh_and_params()
    assert all('fsdp' not in spec for spec in decoding.layout_of(MODEL, params).specs)
    six = tiny.tiny_model(num_heads=6, head_dim=4)  # fsdp=4 does not divide its heads.
    monkeypatch.setattr(layout_lib, 'FEW', 0)
    assert decoding.layout_of(six, params).kind == 'whole'
    monkeypatch.setattr(layout_lib, 'MOST', 0)
    assert decoding.layout_of(six, params) == layout_lib.AS_TRAINED
    layout = decoding.layout_of(MODEL, params)
    names = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(params)]
    specs = dict(zip(names, layout.specs, strict=True))
    assert specs["['decoder']['layers_0']['mlp']['wi']['kernel']"] == P(
        None, ('tensor', 'fsdp'), None
    )
    assert specs["['decoder']['layers_0']['mlp']['wo']['kernel']"] == P(None, ('tensor', 'fsdp'))
    assert specs["['logits_dense']['kernel']"] == P(('tensor', 'fsdp'), None)
    alone = jax.device_put(params, jax.devices()[0])
    assert decoding.layout_of(MODEL, alone) == layout_lib.AS_TRAINED
