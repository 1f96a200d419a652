"""Where tests find real data and golden values; both are optional."""

import json
import os
import pathlib

# Before jax is imported anywhere: eight fake devices, so that sharding is tested on any CPU.
os.environ.setdefault('JAX_PLATFORMS', 'cpu')
if '--xla_force_host_platform_device_count' not in os.environ.get('XLA_FLAGS', ''):
    os.environ['XLA_FLAGS'] = (
        os.environ.get('XLA_FLAGS', '') + ' --xla_force_host_platform_device_count=8'
    ).strip()

import pytest


@pytest.fixture(scope='session')
def dev_data() -> pathlib.Path:
    """The folder of real development data that XLBENCH_DEV_DATA names."""
    folder = os.environ.get('XLBENCH_DEV_DATA', '')
    if not folder or not pathlib.Path(folder).is_dir():
        pytest.skip('needs real data: set XLBENCH_DEV_DATA to a folder of it')
    return pathlib.Path(folder)


@pytest.fixture(scope='session')
def golden(dev_data):
    """A function from a name prefix to the golden cases recorded from the official code."""
    path = dev_data.parent / 'specs' / 'golden.json'
    if not path.is_file():
        pytest.skip(f'needs golden values of the official code beside the data: {path.name}')
    cases = json.loads(path.read_text(encoding='utf-8'))

    def select(prefix: str) -> list[dict]:
        chosen = [case for case in cases if case['name'].startswith(prefix)]
        assert chosen, f'no golden case starts with {prefix!r}'
        return chosen

    return select
