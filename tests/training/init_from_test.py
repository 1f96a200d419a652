"""First parameters from elsewhere: what is loaded, what stays fresh, what is refused."""

import json

import harm
import jax
import numpy as np
import pytest
import safetensors.numpy
import tiny
from edits import refused
from flax import traverse_util
from nightly import nightly

from xlbench import models, train
from xlbench.huggingface import bert, checkpoint, tensors
from xlbench.models import lora
from xlbench.parallel import partitioning
from xlbench.system import errors
from xlbench.training import checkpoints, init_from

SIZES = dict(emb_dim=16, num_heads=2, head_dim=8, mlp_dim=32, vocab_size=64)
IDS = dict(pad_id=0, eos_id=1, bos_id=2, decoder_start_id=0)


def build(family, **fields):
    return models.build(family, 'sample', **SIZES | fields)


def random_params(model, seed=0):
    """{name: values}, all different."""
    boxes = checkpoint.boxed_params(model)
    return {
        name: np.random.default_rng([seed, i]).normal(size=box.value.shape).astype(np.float32)
        for i, (name, box) in enumerate(boxes.items())
    }


def nested(flat):
    return traverse_util.unflatten_dict(flat, sep='/')


def save_folder(folder, family, model, params):
    checkpoint.save(folder, family, model.config, nested(params), IDS, ())
    return str(folder)


def save_workdir(folder, family, params, steps=(5,), best=None, **fields):
    """A run's workdir; the parameters of step s are shifted by s."""
    folder.mkdir()
    block = {'family': family, 'size': 'sample', **SIZES, **fields}
    tensors.write_json(folder / 'config.json', {'config': {'model': block}})
    for step in steps:
        shifted = {name: value + np.float32(step) for name, value in params.items()}
        checkpoints.save_params(str(folder), step, nested(shifted))
        if best and best <= step:
            harm.edit_progress(folder, step, best={'step': best, 'score': 1.0})
    return str(folder)


def place(model, flat, mesh):
    """The parameters on the mesh, cut as a run cuts them."""
    boxes = nested(checkpoint.boxed_params(model))
    shardings = traverse_util.flatten_dict(partitioning.param_shardings(boxes, mesh), sep='/')
    replicated = partitioning.replicated(mesh)
    placed = {n: jax.device_put(v, shardings.get(n, replicated)) for n, v in flat.items()}
    return nested(placed)


def load(spec, family, model, mesh=None, extra=None):
    """(what the run begins with, what was fresh, the plan)."""
    mesh = mesh or partitioning.make_mesh(data=8)
    fresh = random_params(model, seed=9) | (extra or {})
    plan = init_from.Plan(spec, family, model, nested(fresh))
    loaded = plan.load(place(model, fresh, mesh))
    return traverse_util.flatten_dict(loaded, sep='/'), fresh, plan


def assert_same(left, right):
    assert left.keys() == right.keys()
    for name in left:
        np.testing.assert_array_equal(left[name], right[name], err_msg=name)


# ------------------------------------------------------------------------------- what is loaded


@pytest.mark.parametrize(
    'mesh', [dict(data=2, fsdp=2, tensor=2), *nightly(dict(data=8), dict(fsdp=8, data=1))]
)
def test_everything_from_a_folder(tmp_path, mesh):
    model = build('mt5')
    params = random_params(model)
    folder = save_folder(tmp_path / 'hf', 'mt5', model, params)
    loaded, _, plan = load(folder, 'mt5', model, partitioning.make_mesh(**mesh))
    assert_same(loaded, params)
    count = len(params)
    assert plan.lines[0].startswith(f'init_from {folder}: {count} of {count} parameters (')
    assert len(plan.lines) == 1
    assert plan.facts['initialised_from'] == folder
    boxes = nested(checkpoint.boxed_params(model))
    shardings = partitioning.param_shardings(boxes, partitioning.make_mesh(**mesh))
    for name, sharding in traverse_util.flatten_dict(shardings, sep='/').items():
        assert loaded[name].sharding == sharding


def test_everything_from_a_workdir(tmp_path):
    model = build('mt5')
    params = random_params(model)
    workdir = save_workdir(tmp_path / 'run', 'mt5', params, steps=(3, 5, 9), best=5)
    for spec, step in ((workdir, 5), (f'{workdir}@3', 3), (f'{workdir}@last', 9)):
        loaded, _, plan = load(spec, 'mt5', model)
        assert_same(loaded, {name: value + np.float32(step) for name, value in params.items()})
        assert plan.facts['initialised_from'] == f'{workdir}, step {step}'
    with pytest.raises(errors.UserError, match="no checkpoint '4'; it has best, last, 3, 5, 9"):
        load(f'{workdir}@4', 'mt5', model)


@pytest.mark.parametrize('mesh', [dict(data=1, fsdp=4, tensor=2), *nightly(dict(data=8))])
@pytest.mark.parametrize('theirs, ours', [(64, 96), (96, 64)])
def test_vocabularies_of_different_length(tmp_path, theirs, ours, mesh):
    source, model = build('mt5', vocab_size=theirs), build('mt5', vocab_size=ours)
    params = random_params(source)
    folder = save_folder(tmp_path / 'hf', 'mt5', source, params)
    loaded, fresh, plan = load(folder, 'mt5', model, partitioning.make_mesh(**mesh))
    tables = ('token_embedder/embedding', 'logits_dense/kernel')
    for name in tables:
        np.testing.assert_array_equal(loaded[name][:64], params[name][:64])
        np.testing.assert_array_equal(loaded[name][64:], fresh[name][64:])
    assert_same(
        {n: v for n, v in loaded.items() if n not in tables},
        {n: v for n, v in params.items() if n not in tables},
    )
    rest = f'the others {"stay random" if ours > theirs else "are dropped"}'
    for name in tables:
        assert f'  in part: {name}, 64 of 96 rows; {rest}' in plan.lines
    assert plan.facts['initialised_in_part'] == sorted(tables)


def test_positions_of_different_length(tmp_path):
    source, model = build('bart', max_positions=10), build('bart', max_positions=14)
    params = random_params(source)
    folder = save_folder(tmp_path / 'hf', 'bart', source, params)
    loaded, fresh, plan = load(folder, 'bart', model)
    for stack in ('encoder', 'decoder'):
        name = f'{stack}/position_embedder/embedding'
        np.testing.assert_array_equal(loaded[name][:12], params[name])
        np.testing.assert_array_equal(loaded[name][12:], fresh[name][12:])
        assert f'  in part: {name}, 12 of 16 rows; the others stay random' in plan.lines


def test_more_and_fewer_layers(tmp_path):
    source, model = build('mt5', num_decoder_layers=1), build('mt5', num_encoder_layers=1)
    params = random_params(source)
    folder = save_folder(tmp_path / 'hf', 'mt5', source, params)
    loaded, fresh, plan = load(folder, 'mt5', model)
    lacking = [name for name in loaded if name.startswith('decoder/layers_1/')]
    assert_same(loaded, {n: fresh[n] if n in lacking else params[n] for n in fresh})
    assert plan.facts['initialised_fresh'] == lacking
    ignored = sorted(name for name in params if name.startswith('encoder/layers_1/'))
    assert plan.facts['ignored_of_source'] == ignored
    assert plan.lines[1].startswith(f'  newly initialised: {len(lacking)}, decoder/layers_*/')
    assert plan.lines[2].startswith(f'  ignored: {len(ignored)}, encoder/layers_*/')


def encoder(tmp_path, head=False):
    """(a folder of BERT, its parameters); with a masked-language model's head if asked."""
    model = build('bert')
    params = random_params(model)
    folder = save_folder(tmp_path / 'bert', 'bert', model, params)
    if head:
        file = tmp_path / 'bert' / 'model.safetensors'
        arrays = safetensors.numpy.load_file(str(file))
        rng = np.random.default_rng(5)
        for path, entry in bert.lm_head_names(model.config).items():
            shape = (64,) if path == 'lm_head/bias' else (16, 16)[: 2 if 'kernel' in path else 1]
            arrays[entry.tensors[0]] = params[path] = rng.normal(size=shape).astype('f4')
        arrays['cls.seq_relationship.bias'] = np.zeros(2, np.float32)
        safetensors.numpy.save_file(arrays, str(file))
    return folder, params


def test_an_encoder_fills_both_halves_of_an_encoder_decoder(tmp_path):
    folder, params = encoder(tmp_path, head=True)
    loaded, fresh, plan = load(folder, 'encoder_decoder', build('encoder_decoder'))
    crosses = 0
    for name, value in loaded.items():
        if 'cross_attention' in name:
            np.testing.assert_array_equal(value, fresh[name])
            crosses += 1
        else:
            stem = name.removeprefix('encoder/').removeprefix('decoder/')
            np.testing.assert_array_equal(value, params[stem], err_msg=name)
    assert plan.facts['initialised_fresh'] == [n for n in loaded if 'cross_attention' in n]
    assert len(plan.facts['initialised_fresh']) == crosses > 0
    ignored = ['pooler/bias', 'pooler/kernel', 'cls.seq_relationship.bias']
    assert plan.facts['ignored_of_source'] == ignored
    assert plan.lines[-1] == f'  ignored: 3, {", ".join(ignored)}'


def test_an_xlm_fills_both_halves_of_an_encoder_decoder(tmp_path):
    """All but the head, which an XLM has in another form, and attention over the source."""
    fields = dict(type_vocab_size=0, num_languages=3, mlp_dim=64, has_pooler=False)
    model = build('bert', **fields)
    params = random_params(model)
    folder = save_folder(tmp_path / 'xlm', 'bert', model, params)
    loaded, fresh, plan = load(folder, 'encoder_decoder', build('encoder_decoder', **fields))
    for name, value in loaded.items():
        is_new = 'cross_attention' in name or name.startswith('lm_head/')
        stem = name.removeprefix('encoder/').removeprefix('decoder/')
        np.testing.assert_array_equal(value, fresh[name] if is_new else params[stem], err_msg=name)
    assert 'decoder/language_embedder/embedding' in loaded
    assert plan.facts['ignored_of_source'] == []


@pytest.mark.parametrize('shared', [False, True])
def test_an_encoder_fills_a_dual_encoder(tmp_path, shared):
    folder, params = encoder(tmp_path)
    model = build('dual_encoder', shared=shared, projection_dim=8)
    loaded, fresh, plan = load(folder, 'dual_encoder', model)
    sides = ('left',) if shared else ('left', 'right')
    projections = [f'{side}_projection/kernel' for side in sides]
    expected = {f'{side}/{name}': value for side in sides for name, value in params.items()}
    assert_same(loaded, expected | {name: fresh[name] for name in projections})
    assert sorted(plan.facts['initialised_fresh']) == projections


def test_heads(tmp_path):
    """An encoder under a new head; the same head again; a head of other labels; back to none."""
    folder, params = encoder(tmp_path)
    three, five = (build('sequence_classifier', num_labels=number) for number in (3, 5))
    loaded, fresh, plan = load(folder, 'sequence_classifier', three)
    expected = {f'encoder/{name}': value for name, value in params.items()}
    head = [name for name in loaded if not name.startswith('encoder/')]
    assert_same(loaded, expected | {name: fresh[name] for name in head})
    assert plan.facts['initialised_fresh'] == head
    params = random_params(three, seed=2)
    source = save_folder(tmp_path / 'three', 'sequence_classifier', three, params)
    assert_same(load(source, 'sequence_classifier', three)[0], params)
    loaded, fresh, plan = load(source, 'sequence_classifier', five)
    assert_same(loaded, params | {name: fresh[name] for name in head})
    assert sorted(plan.facts['ignored_of_source']) == sorted(head)
    loaded, _, _ = load(source, 'bert', build('bert'))
    assert_same(loaded, {n[8:]: v for n, v in params.items() if n.startswith('encoder/')})


def adapted(model, seed=3, rank=2):
    """LoRA's leaves beside every kernel of attention."""
    rng, leaves = np.random.default_rng(seed), {}
    for name, value in random_params(model).items():
        if 'attention/' in name and name.endswith('/kernel'):
            *stack, out, into = value.shape
            scope = name.removesuffix('/kernel')
            leaves[f'{scope}/lora_a'] = rng.normal(size=(*stack, rank, into)).astype('f4')
            leaves[f'{scope}/lora_b'] = rng.normal(size=(*stack, out, rank)).astype('f4')
            leaves[f'{scope}/lora_scale'] = np.full((), 0.5, np.float32)
    return leaves


def test_lora(tmp_path):
    """Onto a plain source its leaves stay fresh; from an adapted one they are taken, or merged."""
    model = build('mt5', num_encoder_layers=1, num_decoder_layers=1)
    params, leaves, fresh = random_params(model), adapted(model), adapted(model, seed=4)
    plain = save_workdir(tmp_path / 'plain', 'mt5', params, steps=(0,))
    loaded, _, plan = load(plain, 'mt5', model, extra=fresh)
    assert_same(loaded, params | fresh)
    assert any('lora_a' in line and line.startswith('  newly initialised') for line in plan.lines)
    source = save_workdir(tmp_path / 'adapted', 'mt5', params | leaves, steps=(0,))
    loaded, _, _ = load(source, 'mt5', model, extra=fresh)
    assert_same(loaded, params | leaves)
    loaded, _, plan = load(source, 'mt5', model)
    merged = traverse_util.flatten_dict(lora.merge(nested(params | leaves)), sep='/')
    assert loaded.keys() == params.keys()
    for name in loaded:
        np.testing.assert_allclose(loaded[name], merged[name], rtol=1e-6, err_msg=name)
    assert 'with its LoRA merged' in plan.lines[0]


def test_a_fresh_head_that_no_step_changes_is_named(tmp_path):
    folder, _ = encoder(tmp_path)
    loaded, _, plan = load(folder, 'sequence_classifier', build('sequence_classifier'))
    everything = nested(dict.fromkeys(loaded, True))
    assert plan.notes(everything) == plan.lines
    encoder_only = nested({name: not name.startswith('classifier') for name in loaded})
    *lines, warning = plan.notes(encoder_only)
    assert lines == plan.lines
    assert warning.startswith('  warning: newly initialised, but not trained: classifier/')
    assert 'config.lora.also_train' in warning


# ------------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    'source, fields, target, message',
    [
        ('mt5', dict(mlp_dim=48), 'mt5', r'\S*mlp\S* has shape \[2, 32, 16\], but .*\[2, 48, 16\]'),
        ('mt5', dict(num_heads=4, head_dim=4), 'mt5', 'relpos_bias/rel_embedding has shape'),
        ('bart', dict(num_heads=4, head_dim=4), 'bart', 'num_heads=2, but .* has num_heads=4; set'),
        ('mt5', dict(relpos_max_distance=64), 'mt5', 'relpos_max_distance=128, but .*=64'),
        ('bart', {}, 'mbart', 'pre_norm=True, but .* has pre_norm=False'),
        ('bart', {}, 'mt5', 'is a bart model, whose parameters do not fit into a mt5 model'),
    ],
)
def test_what_does_not_fit(tmp_path, source, fields, target, message):
    theirs = build(source, **fields)
    workdir = save_workdir(tmp_path / 'run', source, random_params(theirs), **fields)
    with refused(message):
        load(workdir, target, build(target))


def test_dropout_and_types_may_differ(tmp_path):
    model = build('mt5', dropout_rate=0.3, dtype='bfloat16', remat='full')
    params = random_params(model)
    folder = save_folder(tmp_path / 'hf', 'mt5', build('mt5'), params)
    assert_same(load(folder, 'mt5', model)[0], params)


def test_nothing_to_load(tmp_path):
    model = build('mt5')
    workdir = save_workdir(tmp_path / 'run', 'mt5', {'other/kernel': np.ones((2, 2), np.float32)})
    with pytest.raises(errors.UserError, match='has none of the parameters of this model'):
        load(workdir, 'mt5', model)
    for spec in ('no/such/thing', str(tmp_path / 'nothing')):
        with pytest.raises(errors.UserError, match='is neither a folder nor a hub name'):
            load(spec, 'mt5', model)


# ------------------------------------------------------------------------------------- whole runs


def config(root, **overrides):
    """A few steps without evaluations."""
    c = tiny.tiny_config(root, **overrides)
    c.evals, c.baselines, c.best.score = {}, (), ''
    del c.stages['stage2']
    c.stages.stage1.num_steps = 2
    # Nothing moves, so that what the run ends with is what it began with.
    c.stages.stage1.optimizer = dict(name='adamw', learning_rate=0.0, schedule='constant')
    return c


def test_a_run_begins_with_what_it_is_given(tiny_root, tmp_path, capsys):
    layers = dict(num_encoder_layers=1, num_decoder_layers=1, vocab_size=128)
    params = random_params(build('mt5', **layers))
    source = save_workdir(tmp_path / 'one', 'mt5', params, **layers)
    c = config(tiny_root, init_from=source)
    train.train(c, str(tmp_path / 'two'))
    assert f'init_from {source}, step 5: ' in capsys.readouterr().out
    about = json.loads((tmp_path / 'two' / 'config.json').read_text())
    assert about['config']['init_from'] == source
    assert about['initialised_from'] == f'{source}, step 5'
    one = checkpoints.read_params(source, 5, list(params))
    assert_same(checkpoints.read_params(str(tmp_path / 'two'), 2, list(params)), one)
    # A resumed run has parameters of its own: its source may be gone.
    (tmp_path / 'one').rename(tmp_path / 'elsewhere')
    (tmp_path / 'two' / 'DONE').unlink()
    train.train(c, str(tmp_path / 'two'))
    said = capsys.readouterr().out
    assert 'resumed at step 2' in said and 'init_from' not in said


def test_mistakes_cost_nothing(tiny_root, tmp_path):
    with pytest.raises(errors.UserError, match='is neither a folder nor a hub name'):
        train.train(config(tiny_root, init_from=str(tmp_path / 'nothing')), str(tmp_path / 'run'))
    assert not list(tmp_path.iterdir())
