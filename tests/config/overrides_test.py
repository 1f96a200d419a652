"""Random overrides of every shipped config: accepted and right, or one plain line; no trace."""

import json
import pathlib
import random
import time

import encoder_folders
import jax
import pytest
from ml_collections import ConfigDict
from nightly import by_day

import configs
from xlbench import config as config_lib, models, runs
from xlbench.fewshot import sweep
from xlbench.parallel import partitioning
from xlbench.settings import epochs
from xlbench.settings.checks import fields_to_set
from xlbench.system.errors import UserError
from xlbench.training import memory, optimizers

NEEDED = {
    'finetune': ':tiny,objective=generation,mixture=mtg_multi_qg',
    'fewshot_any': ':tiny,objective=tagging,task=udpos,languages=de+fr',
}
# Those that take an encoder of the user's own by default.
BROUGHT = ('masakhanews_bert2bert', 'xpersona', 'xquad_bert2bert')
FILES = [
    path.stem + NEEDED.get(path.stem, '')
    for path in sorted(pathlib.Path(configs.__file__).parent.glob('[a-z]*.py'))
]
# What a hurried user, a shell or a script may write behind the =.
VALUES = (
    '', '0', '-1', '1', '3', '0.5', '-0.5', '1e-3', '1e30', 'nan', 'inf', '-inf', '1e999', 'True',
    'False', 'true', 'None', 'none', 'null', 'base', 'sample', 'x', 'mtg_qg_en_de', '../x', '~',
    '()', '[]', '{}', "('a',)", "['a', 'b']", '(1, 2)', '(1,', '[1', '{"a": 1}', 'a,b', 'a b',
    '1_000', '0x10', '1e3', '١', '²', '9' * 40, '1000000000', '10' * 6, '-9223372036854775809',
    'ä', '日本', '\ud800', '\x00', '\n', 'a\nb', '%s', '{seed}', '$(x)', '(' * 300, '1.0.0', '--x',
    'adamw', 'adafactor', 'cosine', 'dev/mean/loss', 'loss', '.*', '(', '*', 'float16', 'bfloat16',
)  # fmt: skip
# Behind the keys that a config has.
SLIPS = ('x', '', 'seed', '0', 'name.x', '..', 'items', '__class__', 'é', 'a[0]')


def leaves(config: ConfigDict, prefix: str = '') -> list[str]:
    found = []
    for key, value in config.items():
        below = leaves(value, f'{prefix}{key}.') if isinstance(value, ConfigDict) else []
        found += [f'{prefix}{key}', *below]
    return found


def settable(config: ConfigDict) -> list[str]:
    """Keys that the config has, and those that its blocks may hold."""
    found = leaves(config)
    for key in list(found):
        found += [f'{key}.{name}' for name in fields_to_set(config, key.split('.'))]
    return sorted(set(found))


def near(value: object, choose: random.Random) -> str:
    """Something of the same kind."""
    if isinstance(value, bool):
        return str(choose.random() < 0.5)
    if isinstance(value, int):
        return str(choose.choice((value + 1, value - 1, 2 * value, -value, 7, 1000, 10**7)))
    if isinstance(value, float):
        return str(choose.choice((value / 2, 2 * value, -value, 0.9, 1.0, 1e-8)))
    if isinstance(value, tuple):
        return repr(choose.choice((value[:1], value[1:], (*value, *value), value[::-1])))
    return choose.choice((f'{value}', f'{value}x', 'sample', 'cosine', 'adam', 'full', 'sgd'))


def overrides(plain: ConfigDict, keys: list[str], choose: random.Random) -> list[str]:
    """One to three of them."""
    found = []
    for _ in range(choose.choice((1, 1, 1, 2, 3))):
        key = choose.choice(keys)
        if choose.random() < 0.1:
            key = f'{key}.{choose.choice(SLIPS)}'
        elif choose.random() < 0.1:
            place = choose.randrange(len(key))
            key = key[:place] + key[place + 1 :]
        form = choose.random()
        if form < 0.05:
            found.append(f'--noconfig.{key}')
        elif form < 0.1:
            found.append(f'--config.{key}')
        elif form < 0.15:
            found += [f'--config.{key}', choose.choice(VALUES)]
        else:
            value = choose.choice(VALUES)
            if choose.random() < 0.5:
                value = near(dict(config_lib.leaves(plain)).get(key), choose)
            found.append(f'--config.{key}={value}')
    return found


def check(file: str, given: list[str]) -> ConfigDict:
    """As the programs do it, up to where data is read."""
    config, *_ = config_lib.parse_command(['train', f'--config={file}', *given])
    (sweep.checked_adapt if config_lib.is_sweep(config) else runs.check_config)(config)
    run = config.source if config_lib.is_sweep(config) else config
    memory.check(run, partitioning.make_mesh(**run.mesh))
    return config


def assert_is_right(config: ConfigDict) -> None:
    """What was accepted builds, and is written down."""
    config_lib.to_dict(config)
    json.dumps(config_lib.to_dict(config), allow_nan=False)
    run = config.source if config_lib.is_sweep(config) else config
    for stage in epochs.as_steps(run).stages.values():
        tx, schedule = optimizers.build(**stage.optimizer, num_steps=stage.num_steps)
        jax.eval_shape(tx.init, {'kernel': jax.ShapeDtypeStruct((2, 3), 'float32')})
        float(schedule(0))
    models.build(**{**run.model, 'vocab_size': 64, 'num_labels': 2} if 'num_labels' in run.model
                 else {**run.model, 'vocab_size': 64})  # fmt: skip


@pytest.fixture(scope='module')
def encoder(tmp_path_factory):
    return encoder_folders.write(tmp_path_factory.mktemp('encoders') / 'encoder')


@pytest.mark.parametrize('file', by_day(FILES[::4], FILES))
def test_random_overrides_are_accepted_or_one_line(file, encoder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    always = [f'--config.model.from={encoder}'] if file in BROUGHT else []
    plain = check(file, always)
    keys, choose, accepted = settable(plain), random.Random(file), 0
    for draw in range(200):
        if draw >= 60 and accepted > 4:  # Among 60 there may be fewer that are right, by chance.
            break
        given = overrides(plain, keys, choose)
        began = time.process_time()
        try:
            config = check(file, always + given)
        except UserError as error:
            assert '\n' not in str(error) and str(error).strip(), given
            assert len(str(error)) < 1500, given
        except Exception as error:
            raise AssertionError(f'{given} ends in a trace') from error
        else:
            accepted += 1
            assert_is_right(config)
        assert time.process_time() - began < 5, given
    assert accepted > 4
    assert list(tmp_path.iterdir()) == []
