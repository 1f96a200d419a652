"""Initial parameters of a run: from a Hugging Face checkpoint or another run, as far as they fit.

`config.init_from` is one of

  ''                       none: all parameters are fresh
  google/mt5-base          hub name (or NAME@REVISION), or a folder in the form of Hugging Face
  RUNS/mtg, RUNS/mtg@300   workdir of a run or of xlbench.convert: its best checkpoint, or a step;
                           of one of several adapters RUNS/mtg@best:de

Parameters are found by their names. An encoder on its own also fills the encoder of a model with a
head, both halves of an encoder-decoder and both encoders of a dual encoder. Of vocabularies and
position tables of different length the common rows are taken; a head with other labels stays
fresh. Any other difference of shape, and any difference of what the model computes, is an error.
"""

import collections
import dataclasses
import functools
import math
import pathlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import flax.linen as nn
import jax
import numpy as np
from flax import traverse_util

from xlbench import models
from xlbench.huggingface import bert as bert_names, checkpoint as hf_checkpoint
from xlbench.models import lora
from xlbench.models.layers import TransformerConfig
from xlbench.settings import workdirs
from xlbench.system.errors import UserError
from xlbench.system.progress import quantity
from xlbench.system.trees import Mask, Params, Shapes
from xlbench.training import checkpoints

# Logical axes along which a parameter may be longer or shorter than its source.
_ROWS = ('vocab', 'positions')
_MOST_AT_ONCE = 1 << 22  # Parameters of a checkpoint that are read together, and kept.
# Fields of a model's config that may differ although no shape shows it.
_FREE = re.compile(
    '.*dropout.*|dtype|matmul_dtype|remat|scan_layers|init_std|vocab_.*|max_positions|'
    'num_(.*_)?layers|has_pooler'
)


@dataclasses.dataclass(frozen=True)
class Source:
    """Parameters that are somewhere else, by 'a/b/c' names."""

    name: str  # As the user wrote it, or more exact.
    model: Mapping[str, Any]  # Arguments of models.build.
    shapes: Mapping[str, tuple[int, ...]]
    read: Callable[[str], np.ndarray]  # From a name to a parameter in the host's memory.
    surplus: tuple[str, ...] = ()  # Names of what no model of ours has.
    # Of a run; with `languages`, the parameters hold the adapters of all of them.
    adapters: lora.Lora = dataclasses.field(default_factory=lora.Lora)

    @property
    def num_parameters(self) -> int:
        """The numbers in all parameters."""
        return sum(math.prod(shape) for shape in self.shapes.values())

    @property
    def is_adapted(self) -> bool:
        """True if it has LoRA's leaves."""
        return any(name.endswith('/lora_a') for name in self.shapes)


def open_source(spec: str) -> Source:
    """Opens the parameters that `spec` names; see the top of this file.

    Raises:
      UserError: it names none.
    """
    workdir, step = workdirs.split_step(spec)
    if (workdir / 'checkpoints').is_dir():
        return open_workdir(str(workdir), step or 'best')
    public = hf_checkpoint.open(spec)
    public.check_tied()
    missing, surplus = public.missing(), set(public.surplus())
    shapes = {path: shape for path, shape in public.shapes.items() if path not in missing}
    # A masked-language model's head is no part of an encoder, but a decoder's may begin with it.
    head: dict[str, str] = {}
    if public.family == 'bert':
        fields: dict[str, Any] = dict(public.model)
        config: Any = models.config(**fields)
        entries = bert_names.lm_head_names(config).items()
        head = {path: e.tensors[0] for path, e in entries if e.tensors[0] in surplus}
        shapes |= {path: public.shape(tensor) for path, tensor in head.items()}

    def read(path: str) -> np.ndarray:
        return public.read(head[path]) if path in head else public.read_param(path)

    name = spec if pathlib.Path(spec).expanduser() == public.folder else f'{spec} ({public.folder})'
    return Source(name, public.model, shapes, read, tuple(sorted(surplus - set(head.values()))))


def open_workdir(workdir: str, step: str = 'best') -> Source:
    """A checkpoint of a run, or of xlbench.convert: 'best', 'last' or a number.

    Of a run with adapters of several languages, 'best:de' is the model with one of them.
    """
    step, _, lang = step.partition(':')
    config = workdirs.read_config(workdir)
    number = checkpoints.find_step(workdir, step or 'best')
    shapes = checkpoints.param_shapes(workdir, number)

    few = sum(map(math.prod, shapes.values())) < _MOST_AT_ONCE
    whole = functools.cache(lambda: checkpoints.read_params(workdir, number, list(shapes)))

    def read(name: str) -> np.ndarray:
        return (whole() if few else checkpoints.read_params(workdir, number, [name]))[name]

    name, adapters = f'{workdir}, step {number}', lora.Lora(**config.get('lora', {}))
    source = Source(name, config.model.to_dict(), shapes, read, adapters=adapters)
    return _of_language(source, workdir, lang) if lang else source


def _of_language(source: Source, workdir: str, lang: str) -> Source:
    """The same model with the adapter of one language."""
    place = source.adapters.named(workdir, lang)
    several = {name for name in source.shapes if name.endswith(('/lora_a', '/lora_b'))}
    shapes = {name: s[1:] if name in several else s for name, s in source.shapes.items()}

    def read(name: str) -> np.ndarray:
        return source.read(name)[place] if name in several else source.read(name)

    name = f'{source.name} with the adapter of {lang}'
    return dataclasses.replace(source, name=name, shapes=shapes, read=read, adapters=lora.Lora())


def without_lora(source: Source) -> Source:
    """The same model with LoRA merged into its kernels; UserError for adapters of several."""
    source.adapters.named(source.name.partition(',')[0], '')
    shapes = {n: s for n, s in source.shapes.items() if n.rpartition('/')[2] not in lora.LEAVES}

    def read(name: str) -> np.ndarray:
        scope, _, leaf = name.rpartition('/')
        if leaf != 'kernel' or f'{scope}/lora_a' not in source.shapes:
            return source.read(name)
        leaves: Any = {leaf: source.read(f'{scope}/{leaf}') for leaf in ('kernel', *lora.LEAVES)}
        return np.asarray(lora.merge(leaves)['kernel'])

    return dataclasses.replace(
        source, name=f'{source.name} with its LoRA merged', shapes=shapes, read=read
    )


class Plan:
    """A plan of which parameters of a run come from where, made from names and shapes alone.

    `shapes` is the tree of the run's parameters, LoRA's among them.

    Attributes:
      lines: what is loaded, initialised and ignored.
      facts: the same for config.json.

    Raises:
      UserError: the source does not fit, or gives nothing.
    """

    def __init__(self, spec: str, family: str, model: nn.Module, shapes: Shapes):
        self._shapes = {n: s.shape for n, s in traverse_util.flatten_dict(shapes, sep='/').items()}
        source = open_source(spec)
        if source.is_adapted and not any(name.endswith('/lora_a') for name in self._shapes):
            source = without_lora(source)
        self._source = source
        theirs = models.config(**source.model)
        if _base(theirs) is not _base(model.config):
            raise UserError(
                f'config.init_from={spec} is a {source.model["family"]} model, whose parameters '
                f'do not fit into a {family} model'
            )
        boxes = hf_checkpoint.boxed_params(model)
        self._from: dict[str, str] = {}
        fresh, partial = [], {}
        for name, shape in self._shapes.items():
            origin = self._find(name, family)
            their_shape = shape if origin is None else source.shapes[origin]
            axes = boxes[name].names if name in boxes else ()
            differing = _differing(shape, their_shape, axes)
            if origin is None or 'labels' in differing:
                fresh.append(name)
                continue
            if not differing <= set(_ROWS):
                raise UserError(
                    f'parameter {name} has shape {list(shape)}, but {origin} of {source.name} has '
                    f'{list(their_shape)}; set config.model to the size of the source'
                )
            self._from[name] = origin
            if differing:
                partial[name] = their_shape
        if not self._from:
            raise UserError(f'config.init_from={spec} has none of the parameters of this model')
        _check_fields(model.config, theirs, source.name)
        ignored = [*sorted(source.shapes.keys() - set(self._from.values())), *source.surplus]
        self.lines = list(self._describe(fresh, partial, ignored))
        self.facts = {
            'initialised_from': source.name,
            'initialised_fresh': fresh,
            'initialised_in_part': sorted(partial),
            'ignored_of_source': ignored,
        }

    def _find(self, name: str, family: str) -> str | None:
        """The source's parameter for one of ours: of that name, or of its encoder."""
        if name in self._source.shapes:
            return name
        theirs = models.FAMILIES[self._source.model['family']].encoders
        for prefix in models.FAMILIES[family].encoders:
            if theirs and name.startswith(prefix):
                other = theirs[0] + name.removeprefix(prefix)
                if other in self._source.shapes:
                    return other
        return None

    def _describe(
        self, fresh: list[str], partial: Mapping[str, tuple[int, ...]], ignored: list[str]
    ) -> Iterator[str]:
        count = sum(int(np.prod(self._shapes[name])) for name in self._from)
        yield (
            f'init_from {self._source.name}: {len(self._from)} of {len(self._shapes)} parameters '
            f'({quantity(count)} numbers) are loaded'
        )
        for name, theirs in partial.items():
            rows = [(a, b) for a, b in zip(self._shapes[name], theirs, strict=True) if a != b]
            ours, source = rows[0]
            what = 'the others stay random' if ours > source else 'the others are dropped'
            yield f'  in part: {name}, {min(ours, source)} of {max(ours, source)} rows; {what}'
        for what, names in (('newly initialised', fresh), ('ignored', ignored)):
            if names:
                yield f'  {what}: {len(names)}, {", ".join(_summary(names))}'

    def notes(self, mask: Mask) -> list[str]:
        """Lists what is loaded, a line each, and the fresh parameters that no step changes."""
        trained = traverse_util.flatten_dict(mask, sep='/')
        fixed = [name for name in self.facts['initialised_fresh'] if not trained[name]]
        # LoRA's scale is a constant.
        fixed = [name for name in fixed if name.rpartition('/')[2] not in lora.LEAVES]
        if not fixed:
            return self.lines
        return [
            *self.lines,
            f'  warning: newly initialised, but not trained: {", ".join(_summary(fixed))}; they '
            'stay random unless a pattern in config.trainable, or with LoRA in '
            'config.lora.also_train, matches them',
        ]

    def load(self, params: Params) -> Params:
        """Puts what the source has in place of fresh parameters, which it consumes."""
        flat = traverse_util.flatten_dict(params, sep='/')
        for name, origin in self._from.items():
            fresh = flat[name]
            flat[name] = _placed(self._source.read(origin), fresh)
            fresh.delete()  # So that one parameter at a time is there twice.
        return traverse_util.unflatten_dict(flat, sep='/')


def _base(config: TransformerConfig) -> type[TransformerConfig]:
    """The class that the configs of kindred families have in common, below that of all."""
    bases = [kind for kind in type(config).__mro__ if issubclass(kind, TransformerConfig)]
    return bases[-2]


def _differing(
    ours: tuple[int, ...], theirs: tuple[int, ...], axes: Iterable[str | None]
) -> set[str | None]:
    """The logical axes along which two shapes differ; {None} if they are not known."""
    axes = tuple(axes)
    if ours == theirs:
        return set()
    if not len(ours) == len(theirs) == len(axes):
        return {None}
    return {axis for axis, a, b in zip(axes, ours, theirs, strict=True) if a != b}


def _check_fields(ours: TransformerConfig, theirs: TransformerConfig, source: str) -> None:
    """Raises UserError if equal shapes hide another model: heads, activation, order of norms."""
    for field in dataclasses.fields(_base(ours)):
        mine, other = getattr(ours, field.name), getattr(theirs, field.name)
        if mine != other and not _FREE.fullmatch(field.name):
            raise UserError(
                f'config.model gives {field.name}={mine}, but {source} has {field.name}={other}; '
                f'set config.model.{field.name} to it'
            )


def _summary(names: Iterable[str]) -> list[str]:
    """Names with the numbers of layers as *, and how many of each there are."""
    counts = collections.Counter(re.sub(r'layers_\d+', 'layers_*', name) for name in names)
    return [name if count == 1 else f'{name} ({count})' for name, count in counts.items()]


def _placed(value: np.ndarray, fresh: jax.Array) -> jax.Array:
    """The value, cut over the devices as `fresh` is; where it is shorter, `fresh` goes on."""
    value = value[tuple(map(slice, fresh.shape))]
    parts = {str(shard.index): shard.data for shard in fresh.addressable_shards}

    def part(index: Any) -> np.ndarray:
        if value.shape == fresh.shape:
            return value[index].astype(fresh.dtype, copy=False)
        mine = np.array(parts[str(index)])
        theirs = value[index]
        mine[tuple(map(slice, theirs.shape))] = theirs
        return mine

    return jax.make_array_from_callback(fresh.shape, fresh.sharding, part)
