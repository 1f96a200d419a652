"""The keys of config.json that several families read in the same way."""

from collections.abc import Mapping
from typing import Any

from xlbench.system.errors import UserError, shortened
from xlbench.system.files import Json

# Name in config.json -> in models.layers.ACTIVATIONS; of several names the first is written.
ACTIVATIONS = {
    'relu': 'relu',
    'gelu': 'gelu',
    'gelu_new': 'gelu_tanh',
    'gelu_pytorch_tanh': 'gelu_tanh',
    'swish': 'swish',
    'silu': 'swish',
    'tanh': 'tanh',
}
# Our field -> the key of config.json with the same meaning; of several, with spaces between them,
# all must agree.
Keys = Mapping[str, str]


def expect(
    config: Mapping[str, Json], key: str, value: Json, why: str = '', prefix: str = ''
) -> None:
    """Raises UserError where a key is there and has another value; `why` ends the sentence."""
    if config.get(key, value) != value:
        given = shortened(config[key])
        raise UserError(f'config.json: {prefix}{key} is {given}; supported: {value!r}{why}')


def fields_of(
    config: Mapping[str, Json], keys: Keys, fixed: Mapping[str, Json], kind: str
) -> dict[str, Json]:
    """Our fields that keys of config.json give, with head_dim and activation; see `sizes_of`."""
    fields = sizes_of(config, keys, fixed, kind)
    activation = config['activation_function']
    if activation not in ACTIVATIONS:
        raise UserError(
            f'config.json: activation_function is {shortened(activation)}; supported: '
            f'{", ".join(ACTIVATIONS)}'
        )
    return {'activation': ACTIVATIONS[activation], **fields}


def read(config: Mapping[str, Json], keys: Keys, kind: str, prefix: str = '') -> dict[str, Json]:
    """Our fields that keys of config.json give; see `sizes_of`."""
    fields = {}
    for ours, names in keys.items():
        first, *others = names.split()
        for key in (first, *others):
            if config.get(key) is None:
                raise UserError(f'config.json lacks {prefix + key!r}, which {kind} needs')
            expect(config, key, config[first], f', as {first} is', prefix)
        fields[ours] = config[first]
    return fields


def written(config: Any, keys: Keys) -> dict[str, Json]:
    """The keys of config.json that a model's config gives; the inverse of `read`."""
    return {key: getattr(config, ours) for ours, names in keys.items() for key in names.split()}


def sizes_of(
    config: Mapping[str, Json], keys: Keys, fixed: Mapping[str, Json], kind: str, prefix: str = ''
) -> dict[str, Json]:
    """Our fields that keys of config.json give, with head_dim.

    Args:
      config: the content of config.json, with its defaults.
      keys: which, those of emb_dim and num_heads among them.
      fixed: keys with the only value that there is a model for.
      kind: of model, for messages: 'a GPT-2'.
      prefix: of the keys, for messages, where config.json describes two models.

    Raises:
      UserError: a key that is missing, or a value that the model does not have.
    """
    fields = read(config, keys, kind, prefix)
    for key, value in fixed.items():
        expect(config, key, value, prefix=prefix)
    width, heads = (keys[name].split()[0] for name in ('emb_dim', 'num_heads'))
    if fields['emb_dim'] % fields['num_heads']:
        raise UserError(
            f'config.json: {prefix}{width} is {fields["emb_dim"]}; supported: multiples of '
            f'{heads}, {fields["num_heads"]}'
        )
    return {'head_dim': fields['emb_dim'] // fields['num_heads'], **fields}


def activation_key(activation: str, *preferred: str) -> str:
    """The name in config.json of one in models.layers.ACTIVATIONS."""
    return next(key for key in (*preferred, *ACTIVATIONS) if ACTIVATIONS[key] == activation)
