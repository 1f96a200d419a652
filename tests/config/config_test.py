"""From the command line to checked blocks."""

import contextlib
import json
import re

import pytest
from edits import refused

from xlbench import config as config_lib
from xlbench.config.flags import FLAGS
from xlbench.system.command_line import CommandLine
from xlbench.system.errors import UserError
from xlbench.system.ranges import Field, check_block

FILE = """
import ml_collections

from xlbench import config as config_lib


def get_config(variant=''):
    chosen = config_lib.variant(variant, ('small', 'large'), task=None)
    return ml_collections.ConfigDict(dict(
        seed=0, rate=0.5, name='a', flag=True, tasks=('x', 'y'),
        model=dict(size=chosen['size'], task=chosen['task'] or 'none', inner=dict(depth=2)),
    ))
"""


@pytest.fixture
def path(tmp_path):
    file = tmp_path / 'demo.py'
    file.write_text(FILE)
    return str(file)


def parse(path, *arguments):
    argv = ['train', f'--config={path}', *arguments]
    return config_lib.parse_command(argv)[:2]


def test_overrides_have_the_types_of_the_file(path):
    config, workdir = parse(
        f'{path}:large,task=qg', '--config.seed=3', '--config.rate=1e-2', '--noconfig.flag',
        '--config.model.inner.depth=5', "--config.tasks=('z',)", '--workdir=somewhere',
    )  # fmt: skip
    assert workdir == 'somewhere'
    assert (config.seed, config.rate, config.flag, config.tasks) == (3, 0.01, False, ('z',))
    assert config.model.to_dict() == {'size': 'large', 'task': 'qg', 'inner': {'depth': 5}}
    assert config_lib.to_dict(config)['tasks'] == ['z']
    with pytest.raises(AttributeError):
        config.sede = 1
    assert config_lib.parse_command(['train', '--config', path, '--config.seed=4'])[0].seed == 4
    assert parse(path, '--config.seed', '-5', '--config.flag', 'False')[0].seed == -5


def test_the_same_command_has_the_same_workdir(path):
    workdirs = [
        parse(path, *arguments)[1]
        for arguments in ([], [], ['--config.seed=0'], ['--config.seed=1'], ['--config.rate=2'])
    ]
    assert workdirs[0] == workdirs[1] == workdirs[2]  # Setting a key to what it is changes nothing.
    assert len(set(workdirs)) == 3
    assert all(name.startswith('runs/demo-') for name in workdirs)
    assert parse(f'{path}:large,task=qg')[1].startswith('runs/demo-large-task-qg-')


@pytest.mark.parametrize(
    'arguments, message',
    [
        (['--config.sed=1'], "unknown key in config 'sed'; nearest: seed"),
        (['-config.model.siez=1'], "unknown key in config.model 'siez'; nearest: size"),
        (['--noconfig.flga'], "unknown key in config 'flga'; nearest: flag"),
        (['--config.model.size.x=1'], "config.model.size is 'small' and has no keys"),
        (['--config.model=1'], 'config.model is a block; set one of inner, size, task in it'),
        (['--config.seed=1.5'], "config.seed is '1.5'; it must be a whole number"),
        (['--config.rate=x'], "config.rate is 'x'; it must be a number"),
        (['--config.flag=perhaps'], "config.flag is 'perhaps'; it must be True or False"),
        (['--noconfig.seed'], 'config.seed is not True or False; --config.seed=VALUE sets it'),
        (['--noconfig.flag', 'True'], 'unrecognized arguments: True; see xlbench train --help'),
        (['--config.seed'], 'config.seed has no value'),
        (['--config.seed', '--workdir=x'], 'config.seed has no value'),
        (['--nonsense=1'], 'unrecognized arguments: --nonsense=1; see xlbench train --help'),
        (['left', 'over'], 'unrecognized arguments: left over; see xlbench train --help'),
    ],
)
def test_slips_on_the_command_line(path, arguments, message):
    with refused(re.escape(message)):
        parse(path, *arguments)


def test_slips_in_the_path(path, tmp_path):
    (tmp_path / 'notes.txt').write_text('a = 1')
    for argv, message in (
        ([f'--config={tmp_path}/dmeo.py'], r'unknown config file .*nearest: .*demo\.py'),
        ([f'--config={tmp_path}/notes.txt'], r'notes\.txt is not a config file; it is Python'),
        ([], r'no config; try --config='),
        ([f'--config={path}:lagre'], r"unknown size .*'lagre'; nearest: large"),
    ):
        with refused(message):
            config_lib.parse_command(['train', *argv])


def test_help(path, capsys):
    with pytest.raises(SystemExit) as end:
        line = CommandLine('train', 'What it does.', FLAGS)
        config_lib.parse_command(['train', '--help'], line=line)
    assert end.value.code == 0 and 'What it does.' in capsys.readouterr().out


@pytest.mark.parametrize(
    'content, variant, message',
    [
        ('x = 1\ny = undefined_name\n', '', ":2: NameError: name 'undefined_name' is not defined"),
        ('def get_config(:\n', '', ':1: SyntaxError: '),
        ('import no_such_module\n', '', ":1: ModuleNotFoundError: No module named 'no_such_mod"),
        ('def get_config():\n    c = {}\n    return c["seed"]\n', '', ":3: KeyError: 'seed'"),
        ('def get_config():\n    return 1 / 0\n', '', ':2: ZeroDivisionError: division by zero'),
        ('def get_config():\n    import json\n    json.loads("{")\n', '', ':3: JSONDecodeError: '),
        ('def config():\n    return {}\n', '', 'has no function get_config'),
        ('def get_config():\n    return None\n', '', 'returns NoneType; it returns a ConfigDict'),
        ('def get_config():\n    return {}\n', ':base', "takes nothing after the colon, not '"),
        ('def get_config(size):\n    return {}\n', '', 'needs a variant: it has get_config(size)'),
        ('def get_config():\n    return {"a.b": 1}\n', '', 'get_config of '),
        ('def get_config(\0):\n', '', 'SyntaxError: '),
        ('raise SystemError("lines\\nof text")\n', '', ':1: SystemError: lines of text'),
    ],
)
def test_an_own_config_file_with_a_bug_is_one_line(tmp_path, content, variant, message):
    path = tmp_path / 'mine.py'
    path.write_text(content)
    with refused(re.escape(message)) as error:
        parse(f'{path}{variant}')
    assert str(path) in str(error.value)


def test_lists_and_tuples_are_one_thing(tmp_path):
    path = tmp_path / 'mine.py'
    given = '{"a": ["x", ["y"]], "b": {"c": ("z",), "d": []}}'
    path.write_text(f'def get_config():\n    return {given}\n')
    config, _ = parse(path)
    assert config.to_dict() == {'a': ('x', ('y',)), 'b': {'c': ('z',), 'd': ()}}
    config, _ = parse(
        path, "--config.a=['u', 'v']", "--config.b.c=('u', 'v')", '--config.b.d=1', '--config.b.d=2'
    )
    assert config.to_dict() == {'a': ('u', 'v'), 'b': {'c': ('u', 'v'), 'd': (1, 2)}}
    config, _ = parse(path, '--config.a=', '--config.b.c=()', '--config.b.d=[1]')
    assert config.to_dict() == {'a': (), 'b': {'c': (), 'd': (1,)}}


def test_a_block_that_stands_in_two_places_is_set_in_one(tmp_path):
    path = tmp_path / 'mine.py'
    path.write_text(
        'from ml_collections import ConfigDict\n'
        'def get_config():\n'
        '    lengths = ConfigDict({"inputs": 8})\n'
        '    shared = {"lengths": lengths}\n'
        '    return {"lengths": lengths, "evals": {"dev": shared, "test": shared}}\n'
    )
    config, _ = parse(path, '--config.evals.test.lengths.inputs=4')
    inputs = [block.lengths.inputs for block in (config, config.evals.dev, config.evals.test)]
    assert inputs == [8, 8, 4]


def test_placeholders_have_a_type_and_references_follow(tmp_path):
    path = tmp_path / 'mine.py'
    path.write_text(
        'from ml_collections import ConfigDict, config_dict\n'
        'def get_config():\n'
        '    size = config_dict.FieldReference(3)\n'
        '    return ConfigDict({"a": size, "b": size, "c": config_dict.placeholder(int)})\n'
    )
    config, _ = parse(path, '--config.a=4', '--config.c=5')
    assert config.to_dict() == {'a': 4, 'b': 4, 'c': 5}
    with pytest.raises(UserError, match=r"config\.c is 'x'; it must be"):
        parse(path, '--config.c=x')


@pytest.mark.parametrize('value', ['nan', 'inf', '-1e999'])
def test_numbers_that_no_setting_has(path, value):
    with pytest.raises(UserError, match=r'^config\.rate is .*; give a finite number$'):
        parse(path, f'--config.rate={value}')
    with pytest.raises(UserError, match=r'^config\.seed has more than 64 bits'):
        parse(path, f'--config.seed={2**64}')


@pytest.mark.parametrize(
    'text, expected',
    [
        ('', {'size': 'sample', 'task': None, 'rate': 'proportional'}),
        ('base', {'size': 'base', 'task': None, 'rate': 'proportional'}),
        ('task=qg,base', {'size': 'base', 'task': 'qg', 'rate': 'proportional'}),
        ('base,dev=b', {'size': 'base', 'task': None, 'rate': 'proportional', 'dev': 'b'}),
        ('size=base,rate=equal,', {'size': 'base', 'task': None, 'rate': 'equal'}),
    ],
)
def test_variants(text, expected):
    defaults = dict(task=None, rate='proportional', dev=('a', 'b'))
    assert config_lib.variant(text, ('sample', 'base'), **defaults) == {'dev': 'a'} | expected


@pytest.mark.parametrize(
    'text, message',
    [
        ('taks=qg', "unknown key after the colon of --config 'taks'.*: task"),
        ('task', "unknown size after the colon .*'task'"),
        ('dev=c', "unknown dev after the colon .*'c'; allowed: a, b"),
    ],
)
def test_unknown_variants(text, message):
    with pytest.raises(UserError, match=message):
        config_lib.variant(text, ('sample',), task=None, dev=('a', 'b'))


@pytest.mark.parametrize(
    'block, message',
    [
        ({'third': 3}, ''),
        ({'first': 1, 'second': 2, 'third': 3}, ''),
        ({'secnd': 1, 'third': 3}, "unknown key in b 'secnd'; nearest: second"),
        ({'second': 1}, "b lacks 'third'; it needs third"),
    ],
)
def test_a_block_has_known_keys(block, message):
    fields = {'first': Field(int, 1), 'second': Field(int, 2), 'third': Field(int)}
    with refused(message) if message else contextlib.nullcontext():
        check_block(fields, block, 'b')


def test_where_a_result_comes_from():
    facts = config_lib.facts()
    assert {'python', 'jax', 'flax', 'orbax-checkpoint'} <= set(facts['versions'])
    assert isinstance(facts['git'], str) and facts['argv']


def test_a_run_whose_batches_have_no_lengths(tmp_path):
    """As in a workdir that was harmed; an evaluation asks for them."""
    data = {'root': '', 'vocabulary': 'bytes', 'sample': False}
    about = {'config': {'data': data, 'batches': {}}}
    (tmp_path / 'config.json').write_text(json.dumps(about))
    with pytest.raises(UserError, match=r'config.json: .*missing required field `lengths`'):
        config_lib.read_run(str(tmp_path))
