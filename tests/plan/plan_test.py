"""Plans for devices that nobody owns, held to the steps that really run."""

import functools
import importlib.util
import itertools
import json
import math
import os
import pathlib
import subprocess
import sys

import jax
import jax.numpy as jnp
import ml_collections
import pytest
import tiny
import tiny_replies
from edits import refused
from jax.experimental import pallas as pl

from xlbench import config as config_lib, runs
from xlbench.configs import mrs_retriever, mtg_mbart, mtg_mt5
from xlbench.parallel import partitioning, programs
from xlbench.plan import (
    __main__ as plan,
    devices as devices_lib,
    figures,
    hlo,
    study as study_lib,
)
from xlbench.system import files, machine
from xlbench.system.errors import UserError
from xlbench.training import optimizers, train_step

PROJECT = pathlib.Path(__file__).parents[2]
DEVICE = dict(count=8, kind='cpu', peak=None, memory_speed=None, link_speed=None, clock=None)

# Four devices in two groups; a loop of three rounds, one of unknown length, and a fusion as libtpu
# writes asynchronous collectives: begun, carried on, ended.
PROGRAM = """HloModule jit_step, is_scheduled=true, num_partitions=4

%add.1 (x: f32[], y: f32[]) -> f32[] {
  ROOT %add.2 = f32[] add(%x, %y)
}

%fused_computation.1 (p: bf16[8,4]) -> bf16[16,4] {
  %all-gather.1 = bf16[16,4]{1,0:T(8,128)(2,1)} all-gather(%p), channel_id=5, replica_groups=mesh['a'=2,'b'=2] {'a'}, dimensions={0}
  ROOT %custom-call.1 = (bf16[8,4]{1,0}, bf16[16,4]{1,0}) custom-call(%all-gather.1), custom_call_target="AsyncCollectiveStart"
}

%async_collective_fusion.2 (p: bf16[8,4]) -> bf16[16,4] {
  %all-gather.2 = bf16[16,4]{1,0:T(8,128)(2,1)} all-gather(%p), channel_id=5, replica_groups=mesh['a'=2,'b'=2] {'a'}, dimensions={0}
}

%fused_computation.3 (p: bf16[8,4]) -> bf16[16,4] {
  %all-gather.3 = bf16[16,4]{1,0:T(8,128)(2,1)} all-gather(%p), channel_id=5, replica_groups=mesh['a'=2,'b'=2] {'a'}, dimensions={0}
  ROOT %custom-call.3 = bf16[16,4]{1,0} custom-call(%all-gather.3), custom_call_target="AsyncCollectiveDone"
}

%all-reduce-scatter.4 (p: f32[64]) -> f32[32] {
  %all-reduce.4 = f32[64]{0} all-reduce(%p), channel_id=1, replica_groups=[2,2]<=[4], to_apply=%add.1
  ROOT %dynamic-slice.4 = f32[32]{0} dynamic-slice(%all-reduce.4, %i)
}

%body.1 (t: (s32[], f32[10])) -> (s32[], f32[10]) {
  %all-reduce.5 = (f32[10]{0}, f32[2,5]{1,0}) all-reduce(%a, %b), channel_id=2, replica_groups={{0,1},{2,3}}, to_apply=%add.1
  %fusion.5 = f32[10]{0} fusion(%a), kind=kLoop, calls=%add.1, backend_config={"estimated_cycles":"7"}
}

%condition.1 (t: (s32[], f32[10])) -> pred[] {
  ROOT %compare.1 = pred[] compare(%i, %n), direction=LT
}

%body.2 (t: (s32[], f32[10])) -> (s32[], f32[10]) {
  %collective-permute.6 = f32[10]{0} collective-permute(%a), channel_id=3, source_target_pairs={{0,1},{1,0}}
}

ENTRY %main.1_spmd (p: bf16[8,4], q: f32[64]) -> f32[1000,8] {
  %p = bf16[8,4]{1,0} parameter(0)
  %copy.1 = bf16[8,4]{1,0} copy(%p), backend_config={"estimated_cycles":"9223372036854775807"}
  %all-to-all.9 = f32[1,6]{1,0} all-to-all(%y), channel_id=11, replica_groups=mesh['a'=2,'b'=1,'c'=2], device_ids=([2,2]T(1,0)) {'b', 'c'}, dimensions={0}
  %fusion.1 = bf16[16,4]{1,0} fusion(%p), kind=kCustom, calls=%fused_computation.1
  %fusion.2 = bf16[16,4]{1,0} fusion(%p), kind=kCustom, calls=%async_collective_fusion.2
  %fusion.3 = bf16[16,4]{1,0} fusion(%p), kind=kCustom, calls=%fused_computation.3
  %fusion.4 = f32[32]{0} fusion(%q), kind=kCustom, calls=%all-reduce-scatter.4
  %all-gather-start.7 = (f32[8]{0}, f32[32]{0}) all-gather-start(%x), channel_id=9, replica_groups={}, dimensions={0}
  %all-gather-done.7 = f32[32]{0} all-gather-done(%all-gather-start.7)
  %send.8 = (f32[16,8]{1,0:T(8,128)}, u32[], token[]) send(%q, %after-all), channel_id=18, is_host_transfer=true, frontend_attributes={_xla_host_transfer_handler_name="xla_megascale_runtime",_xla_megascale_reduce_operation="SUM",_xla_megascale_target="{1:3,5}x{0:3}",_xla_megascale_transfer_type="ALL_REDUCE"}
  %while.1 = (s32[], f32[10]{0}) while(%t), condition=%condition.1, body=%body.1, backend_config={"known_trip_count":{"n":"3"}}
  %while.2 = (s32[], f32[10]{0}) while(%t), condition=%condition.1, body=%body.2
  ROOT %dot.1 = f32[1000,8]{1,0} dot(%m, %n), metadata={op_name="jit(step)/logits"}, backend_config={"estimated_cycles":"100"}
}
"""  # noqa: E501


def test_collectives_of_a_small_program():
    program = hlo.parse(PROGRAM, 4, unknown_trips=5)
    (between,) = (c for c in program.collectives if c.between_slices)
    assert between == hlo.Collective('all-reduce', 512, 4, 1, 'f32[16,8]', '', True)
    within = [c for c in program.collectives if c != between]
    found = sorted((c.kind, c.bytes, c.devices, c.times) for c in within)
    assert found == [
        ('all-gather', 16 * 4 * 2, 2, 1),  # Once, though it stands in three fusions.
        ('all-gather', 32 * 4, 4, 1),
        ('all-reduce', 80, 2, 3),
        ('all-to-all', 24, 2, 1),
        ('collective-permute', 40, 2, 5),
        ('reduce-scatter', 64 * 4, 2, 1),
    ]
    assert program.unknown_loops == 1
    assert program.cycles == 100 + 3 * 7
    rows = study_lib.by_kind(program.collectives)
    sent = {(row['kind'], row['between_slices']): row['wire_bytes'] for row in rows}
    assert sent['all-reduce', True] == 512 and sent['all-reduce', False] == 3 * 80
    ranked = study_lib.largest_collectives(within)
    assert [(row['type'], row['count'], row['wire_bytes']) for row in ranked[:2]] == [
        ('f32[10], f32[2,5]', 3, 3 * 80),
        ('f32[10]', 5, 5 * 40),
    ]


def test_a_ring_sends_all_but_an_own_part():
    assert hlo.Collective('all-gather', 800, 4, 1).wire_bytes == 600
    assert hlo.Collective('reduce-scatter', 800, 4, 1).wire_bytes == 600
    assert hlo.Collective('all-reduce', 800, 4, 1).wire_bytes == 1200
    assert hlo.Collective('collective-permute', 800, 2, 1).wire_bytes == 800


def test_collectives_that_this_compiler_writes():
    mesh = partitioning.make_mesh(data=2, fsdp=4, devices=jax.devices()[:8])
    cut = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec('data', 'fsdp'))
    x = jax.ShapeDtypeStruct((64, 64), jnp.float32, sharding=cut)

    def squared(x):
        return jax.lax.scan(lambda c, _: (x @ c, None), x, None, length=6)[0].sum()

    text = jax.jit(squared).lower(x).compile().as_text()
    program = hlo.parse(text, 8)
    assert program.unknown_loops == 0
    assert any(one.times == 6 for one in program.collectives)
    assert all(2 <= one.devices <= 8 and one.bytes > 0 for one in program.collectives)


def test_products_are_counted_with_their_loops():
    def f(x, w):
        x = jax.lax.scan(lambda c, _: (c @ w, None), x, None, length=10)[0]
        return jax.lax.while_loop(lambda c: c.sum() > 0, lambda c: jax.nn.relu(c) @ w, x)

    x, w = jnp.zeros((3, 8)), jnp.zeros((8, 8))
    assert programs.matmul_flops(jax.make_jaxpr(f)(x, w).jaxpr, trips=4) == 14 * 2 * 3 * 8 * 8


def test_products_of_a_kernel_are_counted_where_it_does_not_say_its_cost():
    def kernel(x, w, out):
        out[...] = x[...] @ w[...]

    rows, whole = pl.BlockSpec((2, 8), lambda i: (i, 0)), pl.BlockSpec((8, 8), lambda i: (0, 0))
    like = jax.ShapeDtypeStruct((6, 8), jnp.float32)
    x, w = jnp.zeros((6, 8)), jnp.zeros((8, 8))
    for cost, flops in ((None, 2 * 6 * 8 * 8), (pl.CostEstimate(7, 0, 0), 7)):
        product = pl.pallas_call(
            kernel, like, grid=3, in_specs=[rows, whole], out_specs=rows, cost_estimate=cost
        )
        assert programs.matmul_flops(jax.make_jaxpr(product)(x, w).jaxpr) == flops


def plan_of(config, **options) -> dict:
    return plan.make_plan(config, 'cpu:8', vocab_size=128, **options)


def job_of(config):
    return study_lib.Job(config, devices_lib.devices_of('cpu:8'), 128, 2)


@pytest.fixture(scope='module')
def small_plan(tiny_root) -> dict:
    return plan_of(tiny.tiny_config(tiny_root, mesh__data=4, mesh__fsdp=2))


def test_the_plan_is_of_the_step_that_runs(tiny_root, small_plan):
    config = tiny.tiny_config(tiny_root, mesh__data=4, mesh__fsdp=2)
    job = job_of(config)
    stage = config.stages.stage1
    tx, schedule = optimizers.build(**stage.optimizer, num_steps=stage.num_steps)
    rng = jax.random.key(0)
    params = train_step.init_params(job.model, job.objective, job.mesh, rng)
    state = train_step.init_state(tx, params, job.mask)
    planned = jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype, leaf.sharding), job.state)
    assert planned == jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype, leaf.sharding), state)

    step = train_step.make_train_step(job.model, job.objective, tx, schedule, job.mask)
    step = train_step.TrainStep(step, rng)
    batch = tiny.packed_batches(tiny_root, 1)[0]
    assert {k: (v.shape, v.dtype) for k, v in batch.items()} == {
        k: (v.shape, v.dtype) for k, v in job.batch.items()
    }
    step(state, partitioning.put_batch(batch, job.mesh))
    found = small_plan['plan']['programs'][0]
    assert found['matmul_flops'] == step.flops
    for name in ('argument', 'output', 'alias', 'temp'):
        assert found['memory'][name] == getattr(step.memory, f'{name}_size_in_bytes')
    sizes = small_plan['plan']['device_bytes']
    # Beside the state the step takes the key, and what it reads of the batch.
    assert abs(found['memory']['argument'] - sum(sizes.values())) <= sizes['batch']
    assert any(row['kind'] in ('all-reduce', 'all-gather') for row in found['collectives'])


@pytest.fixture
def traced_only(small_plan, monkeypatch):
    """Programs are traced, and have the figures of another one that was compiled."""

    def study(name, jitted, args, job, device, **options):
        with partitioning.activate(job.mesh):
            jitted.trace(*args)
        return small_plan['plan']['programs'][0] | {'name': name}

    monkeypatch.setattr(study_lib, 'study', study)


@pytest.mark.usefixtures('traced_only')
def test_adapters_of_languages_need_the_products_of_one(tiny_root, monkeypatch):
    options = dict(mesh__data=8, batches__packing=False, batches__each_task=True, lora__rank=2)
    config = functools.partial(tiny.brief_config, tiny_root, batches__batch_size=16, **options)
    monkeypatch.setattr(devices_lib, 'CUDA', 'no_such_package')  # So that nothing is compiled.
    whole = plan.make_plan(config(), 'h100:8', vocab_size=128)['plan']
    each = plan_of(config(lora__languages=('de', 'en')))['plan']
    names = [program['name'] for program in each['programs']]
    assert names == ['the train step', 'decoding of test']
    assert each['model_flops'] == whole['model_flops']
    assert each['device_bytes']['parameters'] > whole['device_bytes']['parameters']


def test_a_plan_as_json_and_in_words(small_plan):
    read = json.loads(files.as_json(small_plan))
    assert read == small_plan
    assert read['format'] == plan.FORMAT
    assert read['device']['capacity'] is None and read['fits'] is None
    step, decode = read['plan']['programs']
    assert (step['name'], decode['name']) == ('the train step', 'decoding of test')
    assert decode['beside'] == read['plan']['device_bytes']['optimizer_state'] > 0
    assert decode['unknown_loops'] >= 1
    # A step is three forward passes, but for the look-up of relative positions, a small product
    # with a constant, which has one gradient. What its loss computes anew comes on top.
    assert 0.998 < step['matmul_flops'] / read['plan']['model_flops'] < 1.2
    assert step['estimate']['compiler_source'] == 'not given'
    text = '\n'.join(figures.lines_of(read))
    for words in ('mesh data 4 x fsdp 2 x tensor 1', 'per device: parameters', 'the train step',
                  'in a ring', 'decoding of test', 'is not known'):  # fmt: skip
        assert words in text


def test_devices_of_a_cpu_share_the_memory_of_the_process(tiny_root, monkeypatch):
    config = tiny.tiny_config(tiny_root, mesh__data=4, mesh__fsdp=2)
    monkeypatch.setattr(machine, 'held_memory', lambda: 8 * devices_lib.GIB)
    results = [
        plan_of(config, with_decoding=False, memory=memory, tries=0) for memory in (0.9, 1.1)
    ]
    assert [result['fits'] for result in results] == [False, True]
    memory = results[0]['plan']['programs'][0]['memory']
    arrays = memory['argument'] + memory['output'] + memory['temp'] - memory['alias']
    assert memory['process'] == devices_lib.GIB
    assert memory['needed'] == arrays + memory['generated_code'] + devices_lib.GIB
    lines = '\n'.join(figures.lines_of(results[0]))
    assert 'share of 8 in the process (Python, jax, compiled programs) 1 GiB; together' in lines


def test_a_program_that_cannot_be_read_is_said(small_plan):
    read = json.loads(files.as_json(small_plan))
    read['plan']['programs'][0] |= {'collectives': None, 'unreadable': 'INTERNAL: async-update'}
    lines = list(figures.lines_of(read))
    assert any('collectives: not given' in x and 'INTERNAL: async-update' in x for x in lines)
    assert hlo.parse('', 8).collectives == ()


def test_what_does_not_fit_is_made_smaller_in_order(tiny_root, small_plan, monkeypatch):
    seen = []

    def study(name, jitted, args, job, device, **options):
        seen.append((job.config.model.get('remat', 'none'), job.config.accumulate))
        needed = {('full', 2): 1, ('full', 1): 2}.get(seen[-1], 3) * devices_lib.GIB
        return small_plan['plan']['programs'][0] | {
            'memory': small_plan['plan']['programs'][0]['memory'] | {'needed': needed},
            'fits': needed <= device.capacity,
        }

    monkeypatch.setattr(study_lib, 'study', study)
    config = tiny.tiny_config(tiny_root, mesh__data=4, mesh__fsdp=2, batches__batch_size=16)
    result = plan_of(config, with_decoding=False, memory=1.5)
    assert seen == [('none', 1), ('dots', 1), ('full', 1), ('full', 2)]
    assert (result['fits'], result['suggested_plan']['fits']) == (False, True)
    suggestion = '--config.model.remat=full --config.accumulate=2'
    lines = list(figures.lines_of(result))
    assert f'the first that fits: {suggestion}' in lines
    said = any("add remat='full' to its model there" in line for line in lines)
    assert said == ('remat' not in config.model)
    assert [entry['fits'] for entry in result['tried']] == [False, False, True]
    result = plan_of(config, with_decoding=False, memory=1.5, tries=2)
    assert (len(result['tried']), result['suggestion']) == (2, None)
    assert list(figures.lines_of(result))[-1].endswith('there are more, set --tries higher')


def test_what_cannot_fit_is_not_compiled(tiny_root, monkeypatch):
    monkeypatch.setattr(study_lib, 'study', None)
    smaller = plan.smaller
    monkeypatch.setattr(plan, 'smaller', lambda *args: itertools.islice(smaller(*args), 5))
    result = plan_of(tiny.tiny_config(tiny_root), memory=1e-6)
    assert result['plan'] is None and result['suggestion'] is None
    assert all(entry['state'] for entry in result['tried'])
    assert list(figures.lines_of(result))[-1] == 'no setting that was tried fits'


def test_the_order_of_what_is_tried():
    config = ml_collections.ConfigDict(dict(
        mesh=dict(data=1, fsdp=-1, tensor=1), model=dict(remat='dots'), accumulate=1,
        batches=dict(batch_size=64), objective=dict(name='retrieval', chunk_rows=0),
    ))  # fmt: skip
    tried = [plan.flags(changes) for changes in plan.smaller(config, 4)]
    rows = [f'--config.model.remat=full --config.objective.chunk_rows={n}' for n in (32, 16)]
    assert tried[:3] == ['--config.model.remat=full', *rows]
    assert '--config.mesh.data=1 --config.mesh.fsdp=2 --config.mesh.tensor=2' in tried
    assert not any('fsdp=4' in words for words in tried)  # That is the config's own mesh.
    assert len(set(tried)) == len(tried)
    assert tried[-1].endswith('--config.batches.batch_size=8')
    changed = plan.changed(config, {'objective.chunk_rows': 8, 'model.new': 1})
    assert (changed.objective.chunk_rows, changed.model.new) == (8, 1)
    assert config.objective.chunk_rows == 0


def test_gpus_by_name_are_counted_for_and_nothing_is_compiled(tiny_root, small_plan, monkeypatch):
    monkeypatch.setattr(devices_lib, 'CUDA', 'no_such_package')
    config = tiny.tiny_config(tiny_root, mesh__data=4, mesh__fsdp=2)
    result = plan.make_plan(config, 'h100:8', vocab_size=128, mfu=0.5)
    assert json.loads(files.as_json(result)) == result
    flops, hours = small_plan['plan']['model_flops'], result['hours']
    assert result['plan']['model_flops'] == flops and result['plan']['programs'] == []
    assert hours['step_seconds'] == pytest.approx(flops / (0.5 * 8 * 989e12))
    stages = {name: stage.num_steps for name, stage in config.stages.items()}
    for name, steps in stages.items():
        assert hours['stages'][name] == pytest.approx(steps * hours['step_seconds'] / 3600)
    text = '\n'.join(figures.lines_of(result))
    assert '8 NVIDIA H100 devices' in text and 'at an MFU of 50%, which is assumed' in text
    assert 'cpu' not in text and all(f'{name}: ' in text for name in stages)
    assert 'nothing is compiled without the package' in text and "'jax[cuda13]'" in text


@pytest.mark.skipif(
    importlib.util.find_spec(devices_lib.CUDA) is None, reason="needs jax[cuda13], and no GPU"
)
def test_a_step_is_compiled_for_gpus_that_are_not_there(tmp_path):
    """In a process of its own: the compiler's flags are read once."""
    output = tmp_path / 'plan.json'
    command = [sys.executable, '-m', 'xlbench.plan', '--config=mtg_mt5', '--topology=h100:8']
    command += ['--no_decode', '--vocab_size=2000', f'--output={output}']
    subprocess.run(command, check=True)
    plan = json.loads(output.read_text())
    (step,) = plan['plan']['programs']
    assert plan['fits'] and plan['device']['kind'] == 'NVIDIA H100' and plan['device']['count'] == 8
    assert step['memory']['temp'] > 0 and step['collectives'] and plan['hours']['stages']


def test_what_every_device_holds_whole_is_said(tiny_root, small_plan, monkeypatch):
    monkeypatch.setattr(partitioning, 'MIB', 1)
    config = tiny.tiny_config(tiny_root, mesh__data=1, mesh__fsdp=8)
    job = job_of(config)
    found = partitioning.held_whole(job.state)
    assert any(line.startswith('params/') for line in found), found
    result = json.loads(files.as_json(small_plan))
    result['plan']['held_whole'] = found
    lines = list(figures.lines_of(result))
    assert f'held whole by every device: {found[0]}' in lines
    rest = lines[lines.index(f'held whole by every device: {found[4]}') + 1]
    assert rest == f'  and {len(found) - 5} smaller ones'


def test_long_texts_are_cut_over_the_devices(tiny_root):
    config = plan.changed(tiny.tiny_config(tiny_root), {'mesh.data': 4, 'mesh.sequence': 2})
    job = job_of(config)
    rows, length = config.batches.batch_size, config.batches.lengths.inputs
    tokens = job.batch['encoder_input_tokens']
    assert tokens.sharding.shard_shape(tokens.shape) == (rows // 4, length // 2)
    assert 'sequence 2' in partitioning.describe(job.mesh)
    with pytest.raises(UserError, match=r'sequence=2 does not divide lengths\.inputs=33'):
        job_of(plan.changed(config, {'batches.lengths.inputs': 33}))


def test_parts_narrower_than_a_tile_are_found(tiny_root):
    config = tiny.tiny_config(tiny_root, mesh__data=2, mesh__fsdp=4)
    job = job_of(config)
    assert plan.narrowest(job) == config.model.emb_dim // 4
    notes = list(plan.remarks(job, None))
    assert not any('lanes' in line for line in notes)  # These are CPUs.
    assert 'decoding gathers the parameters that fsdp cuts, once a batch' in notes
    assert plan.narrowest(job_of(tiny.tiny_config(tiny_root))) == plan.LANES


@pytest.mark.parametrize(
    'variant',
    [f'{m.__name__.rpartition(".")[2]}:{s}' for m in (mtg_mt5, mtg_mbart, mrs_retriever)
     for s in m.SLICES],
)  # fmt: skip
def test_configs_for_a_slice_have_its_mesh(variant):
    config, *_ = config_lib.parse_command(['plan', f'--config={variant}'])
    runs.check_config(config)
    chips = math.prod(map(int, variant.rpartition('_')[2].split('x')))
    mesh = jax.sharding.AbstractMesh(
        (1, *(n if n > 0 else chips for n in map(config.mesh.get, ('data', 'fsdp', 'tensor')))),
        ('replica', 'data', 'fsdp', 'tensor'),
    )
    assert mesh.size == chips
    partitioning.check_batch_size(config.batches.batch_size, mesh, config.accumulate)
    for block in config.evals.values():
        partitioning.check_batch_size(block.batch_size, mesh)


@pytest.mark.usefixtures('traced_only')
def test_retrieval_has_no_decoding(replies_root):
    config = tiny_replies.tiny_config(replies_root)
    config.batches.batch_size, config.model.num_layers = 64, 1
    result = plan_of(config)
    assert [program['name'] for program in result['plan']['programs']] == ['the train step']


def test_what_libtpu_says_of_too_large_a_program():
    found = study_lib.refused(
        'RESOURCE_EXHAUSTED: E1000: CompileTimeHbmOom: Ran out of memory on HBM, the total memory '
        'required for HLO temporaries (67.5G) exceeds available HBM (15.75G). HLO module: jit_x.'
    )
    assert found['needed'] == 67.5 * devices_lib.GIB and found['limit'] == 15.75 * devices_lib.GIB
    older = 'RESOURCE_EXHAUSTED: ... Used 20.25G of 15.75G hbm. Exceeded hbm capacity by 4.50G.'
    assert study_lib.refused(older)['needed'] == 20.25 * devices_lib.GIB
    assert study_lib.refused('RESOURCE_EXHAUSTED: in new words')['needed'] is None
    with pytest.raises(UserError, match='compiler failed: INTERNAL'):
        study_lib.refused('INTERNAL: something else')


@pytest.mark.parametrize(
    'argument, words',
    [
        ('--topology=v9z:4x4', "unknown topology 'v9z:4x4'"),
        ('--topology=cpu:0', 'cpu:DEVICES'),
        ('--topology=v5p:huge', 'NAME:AxB'),
        ('--topology=cpu:4 --config.mesh.data=3', 'mesh data=3 x fsdp=1 x tensor=1 needs 3'),
        ('--topology=cpu:4 --config.batches.batch_size=6', 'a batch of 6 rows cannot be split'),
        ('--topology=cpu:4 --config.model.emb_dimm=1', 'unknown key in config.model'),
        ('--topology=cpu:4 --memory=much', 'invalid float value'),
        ('--topology=h100:8 --mfu=0', '--mfu is 0; give a share above 0, up to 1'),
        ('--topology=h100:0', 'GPUs are NAME:GPUS'),
    ],
)
def test_mistakes_are_said_in_a_line(argument, words):
    argv = ['plan', f'--config={PROJECT}/configs/mtg_mt5.py', *argument.split()]
    with refused(words):
        plan.main(argv)


def test_a_tpu_without_libtpu(monkeypatch):
    monkeypatch.setattr(importlib.util, 'find_spec', lambda name: None)
    with pytest.raises(UserError, match=r'the package libtpu.*pip install'):
        devices_lib.devices_of('v5e:2x2')


def planned_apart(config, topology, tmp_path, **environment):
    """What the command prints and writes in a process of its own."""
    path, output = tiny.write_config(tmp_path / 'tiny.py', config), tmp_path / 'plan.json'
    command = [sys.executable, '-m', 'xlbench.plan', f'--config={path}', f'--topology={topology}']
    run = subprocess.run(
        [*command, '--vocab_size=128', '--no_decode', f'--output={output}'],
        cwd=PROJECT, capture_output=True, text=True, check=False, env=os.environ | environment,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    return run.stdout, json.loads(output.read_text())


def test_the_command_in_a_process_of_its_own(tiny_root, tmp_path):
    """With a number of devices that this process does not have."""
    config = tiny.tiny_config(tiny_root)
    said, found = planned_apart(config, 'cpu:2', tmp_path, JAX_PLATFORMS='')
    assert 'mesh data 2 x fsdp 1 x tensor 1' in said
    assert found['device']['count'] == 2
    # Python and jax alone are that much.
    assert found['plan']['programs'][0]['memory']['process'] > 50e6


@pytest.mark.parametrize(
    'chips, mesh, words',
    [
        ('v5e:2x2', dict(mesh__data=2, mesh__fsdp=2), 'mesh data 2 x fsdp 2 x tensor 1 on 4'),
        (
            '2xv5e:2x2', dict(mesh__replica=2, mesh__data=1, mesh__fsdp=4),
            'in 2 slices, with replica across them',
        ),
    ],
)  # fmt: skip
def test_a_tpu_that_nobody_owns(tiny_root, tmp_path, chips, mesh, words):
    """In a process of its own, because libtpu stays loaded."""
    spec = importlib.util.find_spec('libtpu')
    if spec is None or spec.origin is None:
        pytest.skip("needs libtpu to compile for a TPU: pip install 'jax[tpu]'")
    small = tiny.tiny_config(tiny_root, model__dtype='bfloat16', **mesh)
    said, found = planned_apart(small, chips, tmp_path)
    assert words in said
    assert found['device']['count'] == (4 if chips == 'v5e:2x2' else 8)
    assert found['device']['capacity'] == 16 * devices_lib.GIB and found['fits']
    step = found['plan']['programs'][0]
    assert step['memory']['process'] == 0  # It has the memory of its machine.
    assert step['estimate']['compiler_seconds'] > 0
    at_peak = found['plan']['model_flops'] / (found['device']['peak'] * found['device']['count'])
    assert 0 < at_peak < max(step['estimate']['at_peaks'].values())
    assert '(MFU ' in said
    assert {row['kind'] for row in step['collectives']} & {'all-gather', 'all-reduce'}
    between = [row['kind'] for row in step['collectives'] if row['between_slices']]
    assert between == ([] if chips == 'v5e:2x2' else ['all-reduce'])
