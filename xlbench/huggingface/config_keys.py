"""The keys of config.json that several families read in the same way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from xlbench.huggingface.mapping import Special
from xlbench.models.families import Fields
from xlbench.system.errors import UserError, shortened
from xlbench.system.files import Json

if TYPE_CHECKING:  # A config.json is read without jax.
    from xlbench.models.bert import BertConfig

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
    """The name in config.json of one in models.dense.ACTIVATIONS."""
    return next(key for key in (*preferred, *ACTIVATIONS) if ACTIVATIONS[key] == activation)


# Our family -> the class of transformers, behind the name of the encoder.
CLASSES = {
    'bert': 'Model',
    'sequence_classifier': 'ForSequenceClassification',
    'token_classifier': 'ForTokenClassification',
}


def head_fields(config: Mapping[str, Json], encoder: str, key: str, rate: float) -> Fields:
    """The family of an encoder, and the fields of the head over it, if it has one.

    Args:
      config: the content of config.json.
      encoder: what the name of its class begins with; '' where it may be any.
      key: of the head's dropout rate.
      rate: where the key is null or not there.
    """
    architecture = (config.get('architectures') or [''])[0]
    names = {encoder + name: family for family, name in CLASSES.items()}
    family = next((names[name] for name in names if architecture.endswith(name)), 'bert')
    if family == 'bert':
        return {'family': family}
    labels = config.get('id2label') or range(config.get('num_labels') or 2)
    rate = rate if config.get(key) is None else config[key]
    return {'family': family, 'num_labels': len(labels), 'classifier_dropout_rate': rate}


def head_keys(family: str, config: BertConfig, ids: Special, key: str) -> dict[str, Json]:
    """The keys of config.json that describe a head; the inverse of `head_fields`."""
    if family == 'bert':
        return {}
    names = ids.get('labels') or [f'LABEL_{i}' for i in range(config.num_labels)]
    labels = {str(i): name for i, name in enumerate(names)}
    numbers = {label: int(i) for i, label in labels.items()}
    return {'id2label': labels, 'label2id': numbers, key: config.classifier_dropout_rate}
