"""The keys of config.json that several families read in the same way."""

from collections.abc import Mapping, Sequence

from xlbench.system.errors import UserError, shortened
from xlbench.system.files import Json

# Name in config.json -> in models.dense.ACTIVATIONS; of several names the first is written.
ACTIVATIONS = {
    'relu': 'relu',
    'gelu': 'gelu',
    'gelu_new': 'gelu_tanh',
    'gelu_pytorch_tanh': 'gelu_tanh',
    'swish': 'swish',
    'silu': 'swish',
    'tanh': 'tanh',
}
# Our field -> the keys of config.json with the same meaning; where they are several, they must
# agree.
Keys = Mapping[str, Sequence[str]]


def expect(config: Mapping[str, Json], key: str, value: Json, why: str = '') -> None:
    """Raises UserError where a key is there and has another value; `why` ends the sentence."""
    if config.get(key, value) != value:
        given = shortened(config[key])
        raise UserError(f'config.json: {key} is {given}; supported: {value}{why}')


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


def sizes_of(
    config: Mapping[str, Json], keys: Keys, fixed: Mapping[str, Json], kind: str
) -> dict[str, Json]:
    """Our fields that keys of config.json give, with head_dim.

    Args:
      config: the content of config.json, with its defaults.
      keys: which, those of emb_dim and num_heads among them.
      fixed: keys with the only value that there is a model for.
      kind: of model, for messages: 'a GPT-2'.

    Raises:
      UserError: a key that is missing, or a value that the model does not have.
    """
    for names in keys.values():
        for key in names:
            if key not in config:
                raise UserError(f'config.json lacks {key!r}, which {kind} needs')
            expect(config, key, config[names[0]], f', as {names[0]} is')
    for key, value in fixed.items():
        expect(config, key, value)
    fields = {ours: config[names[0]] for ours, names in keys.items()}
    width, heads = keys['emb_dim'][0], keys['num_heads'][0]
    if fields['emb_dim'] % fields['num_heads']:
        raise UserError(
            f'config.json: {width} is {fields["emb_dim"]}; supported: multiples of {heads}, '
            f'{fields["num_heads"]}'
        )
    return {'head_dim': fields['emb_dim'] // fields['num_heads'], **fields}


def activation_key(activation: str, *preferred: str) -> str:
    """The name in config.json of one in models.dense.ACTIVATIONS."""
    return next(key for key in (*preferred, *ACTIVATIONS) if ACTIVATIONS[key] == activation)
