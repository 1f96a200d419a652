"""Opens a Hugging Face folder as parameters of xlbench, and saves parameters as such a folder."""

import dataclasses
import functools
import pathlib
import re
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
from flax import traverse_util
from jax.typing import ArrayLike

from xlbench import models
from xlbench.huggingface import bert, generators, hub, marian_files, sentence_files, tensors
from xlbench.huggingface.described import read_config
from xlbench.huggingface.mapping import KINDS, Entry, Special, file_of
from xlbench.models.bert import BertConfig
from xlbench.models.dual_encoder import DualEncoder, DualEncoderConfig
from xlbench.models.families import FAMILIES, MODEL_TYPES, Fields
from xlbench.models.generator import Generator
from xlbench.models.layers import TransformerConfig
from xlbench.system import files, locks, untrusted
from xlbench.system.errors import UserError
from xlbench.system.files import Json
from xlbench.system.trees import Tree

# Fields of a config with the number of layers of a stack.
_DEPTHS = ('num_layers', 'num_encoder_layers', 'num_decoder_layers')
_SIDES = ('left', 'right')  # Of a dual encoder.
_FLOATS = tuple(map(np.dtype, (np.float32, np.float16, ml_dtypes.bfloat16)))
_MOST_LACKING = 100  # Tensors beyond as many as there are: a head, or a decoder.
_POOLERS = {'pooler.dense.weight', 'encoder.pooler.dense.weight'}
# Keys of config.json that transformers looks for in generation_config.json.
_GENERATION_KEYS = (
    'bos_token_id', 'eos_token_id', 'pad_token_id', 'decoder_start_token_id',
    'forced_bos_token_id', 'forced_eos_token_id',
)  # fmt: skip


class Checkpoint:
    """A folder with config.json and weights, of which nothing but the headers is read yet.

    Attributes:
      folder: where it is.
      config: the content of config.json.
      model: arguments of models.build for its model.
      family: of that model.
      shapes: of our parameters, by 'a/b/c' names.

    Raises:
      UserError: a model or a file that cannot be read.
    """

    def __init__(self, folder: pathlib.Path):
        self.folder = folder
        if marian := marian_files.find(folder):
            self.config, found = marian_files.read(marian)
        else:
            if not untrusted.file(folder, hub.CONFIG):
                why = f'has no {hub.CONFIG}, so it holds no Hugging Face checkpoint'
                raise UserError(f'{folder} {why}')
            self.config, found = read_config(folder / hub.CONFIG), None
        module = file_of(self.config['model_type'])
        self.model: Fields = module.from_config(self.config)
        self.family: str = self.model['family']
        kind = KINDS[MODEL_TYPES[self.config['model_type']].tensors]
        self._ignored = kind.ignored
        rename = bert.rename if module is bert else kind.rename
        self._stored: dict[str, tensors.Stored] = {}
        for name, stored in (tensors.find(folder) if found is None else found).items():
            name = rename(name)
            if name in self._stored and not self._stored[name].equals(stored):
                raise stored.broken(f'is also there as {self._stored[name].name}, and differs')
            self._stored[name] = stored
        if (layer := sentence_files.pooler(folder)) and found is None:
            of_layer = tensors.find(layer)
            for leaf in ('weight', 'bias'):
                if f'linear.{leaf}' not in of_layer:
                    raise UserError(f'{layer} lacks the tensor linear.{leaf}')
                self._stored[f'pooler.dense.{leaf}'] = of_layer[f'linear.{leaf}']
        # Only the tensors show if there is a pooler: no config.json has a key for it.
        if self.family in ('bert', 'encoder_decoder'):
            self.model['has_pooler'] = bool(self._stored.keys() & _POOLERS)
        model = models.build(**self.model)
        entries = names(self.family, model.config)
        self._entries = {path: entry.renamed(rename) for path, entry in entries.items()}
        # A config.json may describe any size; its files are to speak of it, too.
        lacking = sum(len(names) for names in self.missing().values())
        if lacking > len(self._stored) + _MOST_LACKING:
            raise UserError(
                f'{folder / hub.CONFIG} describes a model with {lacking} tensors more than the '
                f'{len(self._stored)} in the files of {folder}'
            )
        self.shapes = {path: leaf.value.shape for path, leaf in boxed_params(model).items()}

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a tensor in the files."""
        return self._stored[name].shape

    def read(self, name: str) -> np.ndarray:
        """A tensor as float32, which holds every number of the smaller types."""
        stored = self._stored[name]
        if stored.dtype not in _FLOATS and stored.multiplier is None:
            allowed = ', '.join(dtype.name for dtype in _FLOATS)
            raise stored.broken(f'is of type {stored.dtype}; parameters are of {allowed}')
        return stored.read().astype(np.float32, copy=False)

    def read_param(self, path: str) -> np.ndarray:
        """A parameter of ours, float32.

        Raises:
          UserError: the files lack a tensor of it, or have it in another shape.
        """
        entry, shape = self._entries[path], self.shapes[path]
        names = self._names_of(entry)
        missing = [name for name in names if name not in self._stored]
        if missing and entry.default is not None:
            return np.full(shape, entry.default, np.float32)
        if missing:
            raise UserError(f'{self.folder}: tensor {missing[0]} is missing, of which {path} is')
        for name in names:
            expected = entry.shape(shape)
            if self._stored[name].shape != expected:
                raise self._stored[name].broken(
                    f'has shape {list(self._stored[name].shape)}, but config.json makes it '
                    f'{list(expected)}'
                )
        return entry.join([self.read(name) for name in names])

    def missing(self) -> dict[str, list[str]]:
        """Our parameters that the files do not give, with the tensors that they lack."""
        lacking = {
            path: [name for name in self._names_of(entry) if name not in self._stored]
            for path, entry in self._entries.items()
            if entry.default is None
        }
        return {path: names for path, names in lacking.items() if names}

    def surplus(self) -> list[str]:
        """Tensors that our model has no place for, whether or not that is as it should be."""
        placed = {name for e in self._entries.values() for name in (*e.tensors, *e.tied)}
        return sorted(self._stored.keys() - placed)

    def check(self) -> None:
        """Raises UserError unless the files hold exactly this model; reads tied copies alone."""
        missing = [name for names in self.missing().values() for name in names]
        surplus = [
            name
            for name in self.surplus()
            if not any(re.fullmatch(pattern, name) for pattern in self._ignored)
        ]
        for names, what in (
            (missing, f'lacks tensors that {self.family} models have'),
            (surplus, f'has tensors that {self.family} models do not have'),
        ):
            if names:
                more = f' and {len(names) - 3} more' if len(names) > 3 else ''
                raise UserError(f'{self.folder} {what}: {", ".join(names[:3])}{more}')
        self.check_tied()

    def check_tied(self) -> None:
        """Raises UserError if copies that the model has once are not equal."""
        for entry in self._entries.values():
            copies = [self._stored[n] for n in (*entry.tensors, *entry.tied) if n in self._stored]
            for copy in copies[1:] if entry.tied else ():
                if not copies[0].equals(copy):
                    raise copy.broken(f'must equal {copies[0].name}, to which the model ties it')

    def _names_of(self, entry: Entry) -> Sequence[str]:
        """The names of a parameter's tensors: a tied copy stands in for what is not there."""
        if entry.tied and entry.tensors[0] not in self._stored:
            return [name for name in entry.tied if name in self._stored][:1] or entry.tensors
        return entry.tensors


class Pair(Checkpoint):
    """Two encoders in the subfolders left/ and right/, opened as one dual encoder.

    Tensors have their side before their names, but those of an encoder that both sides share.

    Args:
      folder: with the subfolders, or an encoder that both sides share.
      fields: of the dual encoder's config, those for which an encoder's config.json has no place.
      encoder: the one that both sides share, where it is open already.
    """

    def __init__(
        self,
        folder: pathlib.Path,
        fields: Mapping[str, Json] | None = None,
        encoder: Checkpoint | None = None,
    ):
        self.folder, self.family = folder, 'dual_encoder'
        fields = dict(fields or {'shared': False})
        places = {'left': folder} if fields.get('shared') else {s: folder / s for s in _SIDES}
        sides = {side: encoder or Checkpoint(place) for side, place in places.items()}
        left, *others = sides.values()
        if left.family != 'bert' or any(left.model != right.model for right in others):
            raise UserError(f'{folder}: left and right are not two encoders of the same size')
        self.config, self.model = left.config, left.model | {'family': self.family} | fields
        self._ignored = tuple(f'((left|right)/)?({pattern})' for pattern in left._ignored)
        self._stored, self._entries, self.shapes = {}, {}, {}
        for side, one in sides.items():
            before = f'{side}/'.__add__
            theirs: Callable[[str], str] = before if others else str
            self._stored |= {theirs(name): stored for name, stored in one._stored.items()}
            self._entries |= {before(p): e.renamed(theirs) for p, e in one._entries.items()}
            self.shapes |= {before(path): shape for path, shape in one.shapes.items()}


def labels(checkpoint: Checkpoint) -> tuple[str, ...]:
    """The labels of a classifier or tagger, in the order of their ids; () for other models.

    Where config.json does not name them they are LABEL_0, LABEL_1, ..., as in transformers.

    Raises:
      UserError: the head is not one that chooses a single label, or id2label is not a text for each
        of 0, 1, 2, ...
    """
    if checkpoint.family not in ('sequence_classifier', 'token_classifier'):
        return ()
    kind, count = checkpoint.config.get('problem_type'), checkpoint.model['num_labels']
    if kind in ('regression', 'multi_label_classification') or count < 2:
        why = f'its problem_type is {kind}' if kind else f'it has {count} label, for regression'
        raise UserError(f'{checkpoint.folder} chooses no single label: {why}')
    given = checkpoint.config.get('id2label') or {str(i): f'LABEL_{i}' for i in range(count)}
    if given.keys() != {str(i) for i in range(len(given))}:
        raise UserError('config.json: id2label is not an object with a text for each of 0, 1, ...')
    return tuple(given[str(i)] for i in range(len(given)))


def open(spec: str, dual_encoder: Mapping[str, Json] | None = None) -> Checkpoint:
    """The checkpoint in a folder or behind a hub name; see hub.py.

    `dual_encoder` has fields of the config of the dual encoder that it is known to be, see Pair.
    """
    folder = hub.local_folder(spec)
    pair = all(untrusted.file(folder, f'{side}/{hub.CONFIG}') for side in _SIDES)
    return Pair(folder, dual_encoder) if pair or dual_encoder else Checkpoint(folder)


def load_params(checkpoint: Checkpoint) -> Tree[np.ndarray]:
    """All parameters, as a tree of float32 arrays.

    Raises:
      UserError: files and model do not fit each other exactly.
    """
    checkpoint.check()
    flat = {path: checkpoint.read_param(path) for path in checkpoint.shapes}
    return traverse_util.unflatten_dict(flat, sep='/')


def names(family: str, config: TransformerConfig) -> dict[str, Entry]:
    """Our parameter -> its tensors, for a model of that family and config."""
    if (head := getattr(config, 'head', 'linear')) != 'linear':
        raise UserError(
            f'a head of cosines ({head=}) cannot be written for transformers, which '
            'has none; heads that are linear can'
        )
    check_family(family)
    params = boxed_params(models.of_config(family, config))
    if (kind := FAMILIES[family].tensors) == 'bert':
        return bert.names(family, config, params)
    return KINDS[kind].names(params, config)


def check_family(family: str) -> None:
    """Raises UserError for a family of ours that Hugging Face has no form of."""
    if not FAMILIES[family].tensors:
        raise UserError(
            f'transformers has no model like {family}, so there is no form to write it in; '
            'xlbench.predict and xlbench.evaluate read the workdir itself'
        )


@functools.lru_cache(maxsize=32)  # A conversion asks several times, and tracing takes a while.
def boxed_params(model: nn.Module) -> dict[str, nn.LogicallyPartitioned]:
    """{name of a parameter: a box with its shape in `.value` and its logical axes in `.names`}."""
    depths = {name: getattr(model.config, name) for name in _DEPTHS if hasattr(model.config, name)}
    config = dataclasses.replace(model.config, **dict.fromkeys(depths, 1))
    tokens = [jnp.zeros((1, 4), jnp.int32)] * (1 + isinstance(model, (Generator, DualEncoder)))
    boxed = jax.eval_shape(model.clone(config=config).init, jax.random.key(0), *tokens)['params']
    found = {}
    for path, box in traverse_util.flatten_dict(dict(boxed), sep='/').items():
        stack, layer, part = path.partition('layers_0/')  # All layers of a stack are alike.
        depth = depths.get(f'num_{stack.strip("/")}_layers', depths.get('num_layers', 1))
        for i in range(depth if layer else 1):
            found[f'{stack}layers_{i}/{part}' if layer else path] = box
    return dict(sorted(found.items()))


def save(
    folder: pathlib.Path,
    family: str,
    config: TransformerConfig,
    params: Mapping[str, Any],
    ids: Special,
    tokenizer_files: Iterable[pathlib.Path],
    *,
    dtype: str = 'float32',
    max_shard: int = tensors.MAX_SHARD,
    generation: Mapping[str, Json] | None = None,
) -> list[str]:
    """Writes a folder that transformers loads; it appears when it is whole.

    Args:
      folder: does not exist yet.
      family: of the model.
      config: the model's.
      params: tree of arrays; one at a time is brought to the host and written.
      ids: special ids, see `to_config` of the families.
      tokenizer_files: and what else is copied; into both folders of a pair of encoders, too.
      dtype: of the weights: 'float32', 'bfloat16' or 'float16'.
      max_shard: bytes in a file of weights.
      generation: further keys of generation_config.json.

    Returns:
      The names of the files.

    Raises:
      UserError: the folder exists.
    """
    tokenizer_files = list(tokenizer_files)
    with locks.atomic_folder(folder) as temporary:
        if isinstance(config, DualEncoderConfig):
            fields = [field.name for field in dataclasses.fields(BertConfig)]
            encoder = models.config('bert', **{name: getattr(config, name) for name in fields})
            for side, place in bert.folders(config).items():
                (temporary / place).mkdir(exist_ok=True)
                _write(temporary / place, 'bert', encoder, params[side], ids, dtype, max_shard, {})
                for file in tokenizer_files:
                    if file.name in hub.TOKENIZER_FILES:
                        shutil.copyfile(file, temporary / place / file.name)
        else:
            _write(temporary, family, config, params, ids, dtype, max_shard, generation or {})
        for file in tokenizer_files:
            if file.is_dir():  # left/ and right/ of a pair have their weights by now.
                shutil.copytree(file, temporary / file.name, dirs_exist_ok=True)
            else:
                shutil.copyfile(file, temporary / file.name)
        names = files.names(temporary)  # What fails from now on would fail beside a whole folder.
    return names


def _write(
    folder: pathlib.Path,
    family: str,
    config: TransformerConfig,
    params: Tree[ArrayLike],
    ids: Special,
    dtype: str,
    max_shard: int,
    generation: Mapping[str, Json],
) -> None:
    """config.json, generation_config.json and weights of one model."""
    flat = traverse_util.flatten_dict(dict(params), sep='/')
    specs = {}
    for path, entry in names(family, config).items():
        shape = entry.shape(flat[path].shape)
        for index, name in enumerate(entry.tensors):
            specs[name] = tensors.Spec(shape, functools.partial(_part, entry, flat[path], index))
    if family == marian_files.MODEL_TYPE:
        marian_files.write(folder / marian_files.MODEL, config, specs)
        return
    file = bert if FAMILIES[family].tensors == 'bert' else generators
    content = file.to_config(family, config, ids) | {'dtype': dtype}
    tensors.write_json(folder / hub.CONFIG, content)
    if generation or content.get('is_encoder_decoder'):
        kept = {key: content[key] for key in _GENERATION_KEYS if content.get(key) is not None}
        tensors.write_json(folder / hub.GENERATION_CONFIG, {**kept, **generation})
    tensors.write(folder, specs, dtype, max_shard)


def _part(entry: Entry, value: ArrayLike, index: int) -> np.ndarray:
    """One of the tensors that a parameter becomes."""
    return entry.split(np.asarray(value))[index]


def save_adapter(
    folder: pathlib.Path, entries: Mapping[str, Entry], leaves: Mapping[str, np.ndarray], base: str
) -> None:
    """Writes LoRA adapters as the PEFT library stores them: two matrices for each linear layer.

    `PeftModel.from_pretrained` puts the folder onto the base model. What a fused kernel of ours
    holds becomes one adapter a part.

    Args:
      folder: does not exist yet.
      entries: the family's table, our parameter -> its tensors.
      leaves: beside each adapted kernel, lora_a [parts?, rank, in], lora_b [parts?, out, rank] and
        lora_scale [], by their names.
      base: name or folder of the model that the adapter belongs to.

    Raises:
      UserError: an adapted kernel is no linear layer of the public model, such as those of GPT-2,
        which are transposed and hold queries, keys and values in one.
    """
    specs: dict[str, tensors.Spec] = {}
    modules: list[str] = []
    rank, scale = 0, 0.0
    for scope in sorted({name.rpartition('/')[0] for name in leaves}):
        name = f'{scope}/kernel'
        if name not in entries or entries[name].form != 'same':
            raise UserError(
                f'--lora=separate writes adapters of linear layers alone, and the public model has '
                f'none for {name}; leave the flag out, and the adapter is merged into the weights'
            )
        parts = entries[name].tensors
        a, b = (leaves[f'{scope}/lora_{side}'] for side in 'ab')
        rank, scale = a.shape[-2], float(leaves[f'{scope}/lora_scale'])
        for i, tensor in enumerate(parts):
            modules.append(tensor.removesuffix('.weight'))
            for side, value in (('A', a), ('B', b)):
                part = np.asarray(value[i] if len(parts) > 1 else value)
                name = f'base_model.model.{modules[-1]}.lora_{side}.weight'
                specs[name] = tensors.Spec(part.shape, part.view)
    config = {
        'peft_type': 'LORA',
        'base_model_name_or_path': base,
        'r': rank,
        'lora_alpha': scale * rank,
        'lora_dropout': 0.0,
        'bias': 'none',
        'target_modules': modules,
        'inference_mode': True,
    }
    with locks.atomic_folder(folder) as temporary:
        tensors.write_json(temporary / 'adapter_config.json', config)
        tensors.write_file(temporary / 'adapter_model.safetensors', specs)
