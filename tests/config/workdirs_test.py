"""Whose a workdir is: what of a config may differ when a run goes on, and what a missing key is."""

import functools
import json

import pytest
from edits import refused
from ml_collections import ConfigDict

from xlbench import config as config_lib
from xlbench.configs import clidsum_mbart, fewshot, mtg_mt5
from xlbench.system.errors import UserError


def config(**changes) -> ConfigDict:
    return ConfigDict({'seed': 0, 'tasks': ('x', 'y'), 'optimizer': {'rate': 0.1}} | changes)


def test_a_workdir_belongs_to_one_config(tmp_path):
    workdir = str(tmp_path / 'new' / 'run')
    assert config_lib.check_workdir(workdir, config()) is False
    assert not (tmp_path / 'new').exists()
    config_lib.claim_workdir(workdir, config(), {'parameters': 7})
    path = tmp_path / 'new' / 'run' / 'config.json'
    content = json.loads(path.read_text())
    assert content['config']['tasks'] == ['x', 'y'] and content['parameters'] == 7
    before = path.stat().st_mtime_ns
    config_lib.claim_workdir(workdir, config(), {'parameters': 8})  # Begun before: left alone.
    assert path.stat().st_mtime_ns == before
    assert config_lib.check_workdir(workdir, config()) is True
    (path.parent / 'log.txt').write_text('hello')
    assert config_lib.check_workdir(workdir, config()) is True
    path.write_text(json.dumps({'config': {'system': 'other'}, 'scored': {}}))
    with pytest.raises(UserError, match="holds a system's scores of"):
        config_lib.check_workdir(workdir, config())


@pytest.mark.parametrize(
    'changes, message',
    [
        (dict(seed=1), 'seed was 0, now 1'),
        (dict(optimizer={'rate': 0.2}), 'optimizer.rate was 0.1, now 0.2'),
        (dict(tasks=('x',)), "tasks was ['x', 'y'], now ['x']"),
        (dict(extra=5), "extra was 'absent', now 5"),
        ({f'k{i}': i for i in range(9)}, 'and 4 more'),
    ],
)
def test_the_difference_of_two_configs_is_shown(tmp_path, changes, message):
    config_lib.claim_workdir(str(tmp_path), config(), {})
    for check in (config_lib.check_workdir, functools.partial(config_lib.claim_workdir, about={})):
        with pytest.raises(UserError) as error:
            check(str(tmp_path), config(**changes))
        assert message in str(error.value) and 'choose another --workdir' in str(error.value)


def test_a_run_may_go_on_on_other_devices(tmp_path):
    workdir = str(tmp_path)
    config_lib.claim_workdir(workdir, config(mesh={'data': 8, 'fsdp': 1}), {})
    other = config(mesh={'data': 4, 'fsdp': 2, 'tensor': 2})
    assert config_lib.check_workdir(workdir, other) is True
    config_lib.claim_workdir(workdir, other, {})
    assert config_lib.read_config(workdir).mesh.data == 8
    assert config_lib.begun_with(workdir, config(mesh={'data': 8, 'fsdp': 1})) == ''
    assert config_lib.begun_with(workdir, other) == (
        'mesh.data was 8, now 4; mesh.fsdp was 1, now 2; mesh.tensor was 1, now 2'
    )
    with pytest.raises(UserError, match=r'another config: seed was 0, now 1; choose'):
        config_lib.check_workdir(workdir, config(mesh={'data': 4}, seed=1))


def test_a_run_may_go_on_with_its_layers_in_a_loop_and_back(tmp_path):
    workdir = str(tmp_path)
    config_lib.claim_workdir(workdir, config(model={'family': 'mt5'}), {})
    looped = config(model={'family': 'mt5', 'scan_layers': 2})
    assert config_lib.check_workdir(workdir, looped) is True
    assert config_lib.begun_with(workdir, looped).startswith('model.scan_layers was ')
    with pytest.raises(UserError, match=r'another config: model\.remat was'):
        config_lib.check_workdir(workdir, config(model={'family': 'mt5', 'remat': 'full'}))


def test_a_run_does_not_go_on_with_other_data(tmp_path):
    workdir = str(tmp_path)
    config_lib.claim_workdir(workdir, config(), {'contents': {'a/train': 'x', 'a/test': 'y'}})
    config_lib.claim_workdir(workdir, config(), {'contents': {'a/train': 'x', 'a/test': 'y'}})
    config_lib.claim_workdir(workdir, config(), {})
    with pytest.raises(UserError, match=r'^a/test holds other examples than when \S+ was begun;'):
        config_lib.claim_workdir(workdir, config(), {'contents': {'a/train': 'x', 'a/test': 'z'}})


def test_somebody_else_s_folder_is_left_alone(tmp_path):
    (tmp_path / '.config.json.tmp').write_text('{')  # Ours, of a process that was killed.
    assert config_lib.check_workdir(str(tmp_path), config()) is False
    (tmp_path / 'thesis.tex').write_text('mine')
    with pytest.raises(UserError, match='is not empty and holds no run of ours'):
        config_lib.claim_workdir(str(tmp_path), config(), {})
    assert sorted(path.name for path in tmp_path.iterdir()) == ['.config.json.tmp', 'thesis.tex']


@pytest.mark.parametrize(
    'text',
    [
        '{"config": ', '[]', '{"config": 3}',
        *('{"config": ' + '{"a": ' * deep + '1' + '}' * (deep + 1) for deep in (100, 5000)),
    ],
)
def test_a_broken_config_json_is_named(tmp_path, text):
    (tmp_path / 'config.json').write_text(text)
    with refused(r'config\.json'):
        config_lib.check_workdir(str(tmp_path), config())


def test_a_workdir_is_no_file(tmp_path):
    (tmp_path / 'notes.txt').write_text('mine')
    with pytest.raises(UserError, match=r'notes\.txt is a file and no folder; choose another'):
        config_lib.check_workdir(str(tmp_path / 'notes.txt'), config())


LEFT_OUT = {
    'embedding_rows': 'all',
    'nonfinite': {'skip': 0},
    'lora.alpha': 16.0,
    'trainable': ('.*',),
    'model.dropout_rate': 0.1,
    'model.vocab_size': 0,
    'objective.z_loss': 0.0,
    'evals.test.decoding.max_length': 64,
    'evals.test.decoding.num_beams': 1,
    'evals.test.num_examples': 0,
    'stages.train.optimizer.weight_decay_rate': None,
    'stages.train.batches': {},
    'evals.test.type': '',
}


LACKING = object()


def changed(config: ConfigDict, key: str, value: object = LACKING) -> ConfigDict:
    """The config with another value for a key with dots, or without it."""
    whole = block = config_lib.to_dict(config)
    *path, last = key.split('.')
    for name in path:
        block = block[name]
    block.pop(last, None)
    if value is not LACKING:
        block[last] = value
    return ConfigDict(whole)


@pytest.mark.parametrize('key', LEFT_OUT)
def test_a_missing_key_is_its_default(tmp_path, key):
    """Both ways: the run of an earlier version that lacks it, and one of a config that does."""
    config = changed(clidsum_mbart.get_config(), 'evals.test.decoding', {})
    without, with_it = changed(config, key), changed(config, key, LEFT_OUT[key])
    other = changed(config, key, {'batch_size': 3} if key.endswith('batches') else 0.7)
    for number, (before, now) in enumerate([(with_it, without), (without, with_it)]):
        workdir = str(tmp_path / str(number))
        config_lib.claim_workdir(workdir, before, {})
        assert config_lib.check_workdir(workdir, now) is True
        with pytest.raises(UserError, match=rf'another config: {key}\S* was .*, now '):
            config_lib.check_workdir(workdir, other)


def test_a_run_with_keys_of_earlier_versions_goes_on(tmp_path):
    config = changed(clidsum_mbart.get_config(), 'evals.test.metrics')
    old = changed(changed(config, 'evals.test.bertscore', 'enc'), 'evals.test.bertscore_layer', 9)
    config_lib.claim_workdir(str(tmp_path), old, {})
    now = changed(config, 'evals.test.metrics', ('bertscore=enc@9',))
    assert config_lib.check_workdir(str(tmp_path), now) is True
    assert list(config_lib.read_config(str(tmp_path)).evals.test.metrics) == ['bertscore=enc@9']
    with pytest.raises(UserError, match=r'another config: evals\.test\.metrics was'):
        config_lib.check_workdir(str(tmp_path), config)


def test_a_missing_key_of_a_sweep_is_its_default(tmp_path):
    now = fewshot.get_config()
    before = changed(changed(now, 'source.embedding_rows'), 'source.lora')
    config_lib.claim_workdir(str(tmp_path), before, {})
    assert config_lib.check_workdir(str(tmp_path), now) is True
    with pytest.raises(UserError, match=r"source\.embedding_rows was 'all', now 'occurring'"):
        config_lib.check_workdir(str(tmp_path), changed(now, 'source.embedding_rows', 'occurring'))


def test_a_run_that_was_begun_without_a_later_key_has_its_default_workdir(tmp_path):
    config = mtg_mt5.get_config()
    text = json.dumps(config_lib.for_hash(config_lib.to_dict(config)))
    assert 'embedding_rows' not in text
    config.embedding_rows = 'occurring'
    assert 'embedding_rows' in config_lib.for_hash(config_lib.to_dict(config))
    sweep = config_lib.for_hash(config_lib.to_dict(fewshot.get_config()))
    assert 'embedding_rows' not in json.dumps(sweep)


@pytest.mark.parametrize(('make', 'block'), [(mtg_mt5, ''), (fewshot, 'source.')])
def test_other_trackers_are_no_other_run(tmp_path, make, block):
    config = make.get_config()
    before = changed(changed(config, f'{block}trackers'), f'{block}tracked_samples')
    config_lib.claim_workdir(str(tmp_path), before, {})
    other = changed(config, f'{block}trackers', ['wandb', 'mlflow'])
    assert config_lib.check_workdir(str(tmp_path), other) is True
    hashes = [config_lib.for_hash(config_lib.to_dict(one)) for one in (config, before, other)]
    assert hashes[0] == hashes[1] == hashes[2]
