"""Our models and the checkpoints of Hugging Face: one table, read in both directions.

kinds.toml is the table: for each kind of checkpoint the tensors of our parameters, and the keys of
config.json for our fields. generators.py, bert.py and marian_files.py have what is no table:

  from_config(config)             the content of a config.json -> arguments of models.build
  to_config(family, config, ids)  its inverse, with the ids and labels that are known

and raises UserError where a key is missing, where a value is one that the model does not have, and
where transformers has no such model. Arrays pass through unchanged but for stacking and
transposing, so a round trip is bit-exact.
"""

from __future__ import annotations

import dataclasses
import importlib
import itertools
import pathlib
import re
import tomllib
from collections.abc import Callable, Collection, Mapping, Sequence
from types import ModuleType
from typing import Any, TypedDict, TypeVar

import msgspec
import numpy as np

from xlbench.models.families import MODEL_TYPES, Fields
from xlbench.system import errors
from xlbench.system.errors import UserError, shortened
from xlbench.system.files import Json

_Choice = TypeVar('_Choice')
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
# Of our parameters -> of transformers' layers, norms and tables.
_LEAVES = {
    'kernel': 'weight',
    'scale': 'weight',
    'bias': 'bias',
    'embedding': 'weight',
    'rel_embedding': 'weight',
}


@dataclasses.dataclass(frozen=True)
class Entry:
    """The place of one of our parameters in a Hugging Face checkpoint.

    Attributes:
      tensors: their names; several are stacked along a new leading axis.
      form: 'same'; 'transposed' (theirs is the transpose); 'row' (theirs is [1, n], ours [n]);
        'joined' (theirs is the transpose of the query, key and value of ours, side by side).
      tied: further names under which the same tensor may be stored again.
      default: what fills the parameter where the file lacks it; None: it may not lack it.
    """

    tensors: tuple[str, ...]
    form: str = 'same'
    tied: tuple[str, ...] = ()
    default: float | None = None

    def join(self, parts: list[np.ndarray]) -> np.ndarray:
        """The tensors, in order -> our parameter."""
        value = np.stack(parts) if len(self.tensors) > 1 else parts[0]
        if self.form in ('transposed', 'joined'):
            value = np.ascontiguousarray(value.T)
            return value.reshape(3, -1, *value.shape[1:]) if self.form == 'joined' else value
        return value.reshape(value.shape[1:]) if self.form == 'row' else value

    def split(self, value: np.ndarray) -> list[np.ndarray]:
        """Our parameter -> the tensors, in order."""
        if self.form == 'joined':
            value = value.reshape(-1, *value.shape[2:])
        if self.form in ('transposed', 'joined'):
            value = value.T
        elif self.form == 'row':
            value = value[None]
        return list(value) if len(self.tensors) > 1 else [value]

    def renamed(self, rename: Callable[[str], str]) -> Entry:
        """The entry with other names of its tensors."""
        both = tuple(map(rename, self.tensors)), tuple(map(rename, self.tied))
        return dataclasses.replace(self, tensors=both[0], tied=both[1])

    def shape(self, ours: tuple[int, ...]) -> tuple[int, ...]:
        """The shape that each of the tensors has for a parameter of ours of this shape."""
        # A byte each: a config.json may ask for more than numpy counts in float32.
        return self.split(np.broadcast_to(np.int8(0), ours))[0].shape


Rows = dict[str, str | Entry]


class Kind(msgspec.Struct, frozen=True):
    """One kind of checkpoint: a row of kinds.toml.

    `top`, `layer` and `above` have the tensors of our parts, such as 'attention/qkv', or of single
    parameters. Of a layer {i} is the number, {n} one more, and {last} the number of parts before
    the MLP. {leaf} is how they call a kernel or a bias, and stands at the end, behind a dot, where
    it is not written; {ours} is how we call it. [a|b] are two tensors that we have in one.

    Attributes:
      top: outside the layers.
      layer: of a layer of any stack.
      above: what is written behind the layers.
      when: rows that count where a field of the model's config is true.
      sides: what stands before the names of ours, and of theirs.
      leaves: theirs, where not transformers'.
      keys: our field -> the key of config.json with the same meaning; of several, with spaces
        between them, all must agree.
      defaults: of keys that files may leave out, as transformers has them.
      fixed: keys with the only value that our model has.
      file: the one beside this that has what is no table; of encoders, that of BERT's row.
      architectures: the class of transformers for a model_type; {} of encoders.
      classes: of an encoder, what the names of its classes in transformers begin with.
      base: an encoder's name below a head.
      head: tensors over a text, where there is no pooler; {} where heads cannot be written.
      lm_head: those of a masked-language model.
      fields: of ours that no key says.
      form: fields that transformers' class has at these values alone.
      dropout_key, dropout: the key of a head's dropout rate, and the rate without it; None: the
        encoder's.
      special: ids that config.json names.
      ignored: patterns of tensors that the model has no place for.
      outermost: a word that begins the names, which some files leave out -> what they then begin
        with.
    """

    top: Rows
    layer: Rows
    keys: dict[str, str]
    defaults: dict[str, Json]
    fixed: dict[str, Json] = {}
    above: Rows = {}
    when: dict[str, Rows] = {}
    sides: dict[str, str] = {}
    leaves: dict[str, str] = {}
    file: str = 'generators'
    architectures: dict[str, str] = {}
    classes: str = ''
    base: str = ''
    head: Rows = {}
    lm_head: Rows = {}
    fields: Fields = {}
    form: dict[str, bool | float] = {}
    dropout_key: str = 'classifier_dropout'
    dropout: float | None = None
    special: tuple[str, ...] = ('pad_token_id',)
    ignored: tuple[str, ...] = ()
    outermost: dict[str, tuple[str, ...]] = {}

    def rename(self, name: str) -> str:
        """The name of a stored tensor as the table spells it.

        'encoder.layers.0.fc1.weight' -> 'model.encoder.layers.0.fc1.weight'
        """
        return next((w + name for w, rest in self.outermost.items() if name.startswith(rest)), name)

    def names(
        self, params: Collection[str], config: object, sides: Mapping[str, str] | None = None
    ) -> dict[str, Entry]:
        """Our parameter -> its tensors.

        Args:
          params: those of a model.
          config: of the model, whose fields `when` asks for.
          sides: other ones than the kind's.
        """
        chosen = [rows for field, rows in self.when.items() if getattr(config, field)]
        changed = {part: row for rows in chosen for part, row in rows.items()}
        top, layer = (
            {part: changed.get(part, row) for part, row in rows.items()}
            for rows in (self.top, self.layer)
        )
        found: dict[str, Entry] = {}
        for ours, theirs in (sides or self.sides or {'': ''}).items():
            found |= self.entries(top, params, ours, theirs)
            for i in itertools.count():
                own = self.entries(layer, params, f'{ours}layers_{i}/', theirs, i)
                if not own:
                    break
                found |= own
            found |= self.entries(self.above, params, ours, theirs)
        return found

    def entries(
        self, rows: Rows, params: Collection[str], ours: str = '', theirs: str = '', i: int = 0
    ) -> dict[str, Entry]:
        """The tensors of those parameters that some rows name, see `names`."""
        words: dict[str, int | str] = dict(i=i, n=i + 1, last=1 + ours.startswith('decoder/'))
        found = {}
        for part, row in rows.items():
            entry = Entry((row,)) if isinstance(row, str) else row
            for leaf, their_leaf in (_LEAVES | self.leaves | {'': ''}).items():
                param = f'{ours}{part}/{leaf}' if leaf else ours + part
                if param in params:
                    words |= dict(leaf=their_leaf, ours=leaf)
                    tensors = [
                        theirs + each.format(**words)
                        for pattern in entry.tensors
                        for each in _each(pattern, bool(leaf))
                    ]
                    found[param] = dataclasses.replace(entry, tensors=tuple(tensors))
        return found

    def filled(self, config: Mapping[str, Json]) -> dict[str, Json]:
        """The content of a config.json, with what it leaves out."""
        return self.defaults | {key: value for key, value in config.items() if value is not None}

    def read(
        self,
        config: Mapping[str, Json],
        fixed: Mapping[str, Json] | None = None,
        prefix: str = '',
    ) -> dict[str, Json]:
        """Our fields that keys of a filled config.json give, with head_dim.

        Args:
          config: the content of config.json.
          fixed: in place of the kind's.
          prefix: of the keys in messages, where config.json describes two models.

        Raises:
          UserError: a key that is missing, or a value that the model does not have.
        """
        fields = {}
        for ours, names in self.keys.items():
            first, *others = names.split()
            for key in (first, *others):
                if config.get(key) is None:
                    raise UserError(
                        f'config.json lacks {prefix + key!r}, which models of type '
                        f'{config["model_type"]} need'
                    )
                expect(config, key, config[first], f', as {first} is', prefix)
            fields[ours] = config[first]
        for key, value in (self.fixed if fixed is None else fixed).items():
            expect(config, key, value, prefix=prefix)
        if 'head_dim' in fields:
            return fields
        width, heads = (self.keys[name].split()[0] for name in ('emb_dim', 'num_heads'))
        if fields['emb_dim'] % fields['num_heads']:
            raise UserError(
                f'config.json: {prefix}{width} is {fields["emb_dim"]}; supported: multiples of '
                f'{heads}, {fields["num_heads"]}'
            )
        return {'head_dim': fields['emb_dim'] // fields['num_heads'], **fields}

    def written(self, config: Any) -> dict[str, Json]:
        """The keys of config.json that a model's config gives; the inverse of `read`."""
        rows = self.keys.items()
        return {key: getattr(config, ours) for ours, names in rows for key in names.split()}


def expect(
    config: Mapping[str, Json], key: str, value: Json, why: str = '', prefix: str = ''
) -> None:
    """Raises UserError where a key is there and has another value; `why` ends the sentence."""
    if config.get(key, value) != value:
        given = shortened(config[key])
        raise UserError(f'config.json: {prefix}{key} is {given}; supported: {value!r}{why}')


def chosen(config: Mapping[str, Json], key: str, options: Mapping[str, _Choice]) -> _Choice:
    """The option that a key of config.json names; UserError where it names none."""
    if config[key] not in options:
        supported = ', '.join(options)
        raise UserError(f'config.json: {key} is {shortened(config[key])}; supported: {supported}')
    return options[config[key]]


def activation_key(activation: str, *preferred: str) -> str:
    """The name in config.json of one in models.layers.ACTIVATIONS."""
    return next(key for key in (*preferred, *ACTIVATIONS) if ACTIVATIONS[key] == activation)


def _each(pattern: str, with_leaf: bool) -> list[str]:
    """'self.[query|key]' -> ['self.query.{leaf}', 'self.key.{leaf}']"""
    before, _, rest = pattern.partition('[')
    options, _, after = rest.partition(']')
    if with_leaf and not re.search('{leaf}|{ours}', pattern):
        after += '.{leaf}'
    return [f'{before}{option}{after}' for option in options.split('|')]


_TABLE = tomllib.loads(pathlib.Path(__file__).with_name('kinds.toml').read_text('utf-8'))
for _row in _TABLE.values():
    if 'like' in _row:
        _row |= _TABLE[_row.pop('like')] | _row
KINDS = msgspec.convert(_TABLE, dict[str, Kind])


class Special(TypedDict, total=False):
    """The keys of config.json that come from a vocabulary, and the names of labels."""

    pad_id: int
    eos_id: int
    bos_id: int | None
    decoder_start_id: int | None
    forced_bos_id: int | None
    forced_eos_id: int | None
    labels: Sequence[str]
    model_type: str  # 'roberta', where it is that and no XLM-R.


def check_written(family: str, config: Any, fixed: Mapping[str, Json]) -> None:
    """Raises UserError for a model with other fields than transformers' class has."""
    for field, value in fixed.items():
        if getattr(config, field) != value:
            raise UserError(
                f'a {family} model with {field}={getattr(config, field)} cannot be written for '
                f'transformers, where it is {value}'
            )


def token_ids(ids: Special, *names: str) -> dict[str, Json]:
    """Keys of config.json, like {'pad_token_id': 0} for 'pad'."""
    return {f'{name}_token_id': ids.get(f'{name}_id') for name in names}


def file_of(model_type: str) -> ModuleType:
    """The file beside this one for a model_type of config.json.

    Raises:
      UserError: there is none.
    """
    errors.check_known('model_type in config.json', model_type, MODEL_TYPES)
    file = KINDS[MODEL_TYPES[model_type].tensors].file
    return importlib.import_module(f'xlbench.huggingface.{file}')


def fields(config: Mapping[str, Json]) -> Fields:
    """The content of a config.json -> arguments of models.build, for whichever family."""
    return file_of(config['model_type']).from_config(config)
