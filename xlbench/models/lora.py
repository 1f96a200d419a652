"""LoRA (arXiv:2106.09685): kernels stay fixed, and a product of two thin matrices is learnt.

A kernel W [out, in] of a chosen layer gives W x + (alpha / rank) B A x, with A [rank, in] normal
and B [out, rank] zero at first, so that training starts from the model as it was. The three leaves
`lora_a`, `lora_b` and `lora_scale` stand beside the `kernel` in the tree of parameters; a `Dense`
that finds them uses them. So every family can be adapted, and no model knows of it.

In a config: `c.lora = dict(rank=8, alpha=16.0)`. A fused kernel (q, k and v in one array) has an A
and a B for each of its parts. With `languages`, a run trains an adapter for each of them, which lie
along a leading axis of the leaves; `Lora.of` is the model with one of them.
"""

import dataclasses
import re
from collections.abc import Sequence
from typing import Annotated

import flax.linen as nn
import jax
import jax.numpy as jnp
from flax import traverse_util

from xlbench.system.errors import UserError, unknown
from xlbench.system.ranges import Block, Meta
from xlbench.system.trees import Arrays, Mask, Tree

Boxed = Tree[nn.LogicallyPartitioned]
LEAVES = ('lora_a', 'lora_b', 'lora_scale')


@dataclasses.dataclass(frozen=True)
class Lora(Block, where='config.lora'):
    """Adapted kernels and their rank: the block config.lora.

    Attributes:
      rank: columns of B and rows of A; 0 adapts nothing.
      alpha: the product is scaled by alpha / rank.
      targets: regular expressions for whole names of kernels, but for that of an output layer; by
        default all of attention (table 5 of the paper: spread over all four is best at one budget).
      also_train: regular expressions for whole names of other parameters that are trained as well,
        such as a new head's; with `languages` all of them share these.
      languages: ISO codes; a task is trained and scored with the adapter of the language of its
        targets. Without any, all tasks share one adapter.

    Raises:
      UserError: a negative rank, languages without a rank or named twice, or something that is no
        regular expression.
    """

    rank: Annotated[int, Meta(ge=0, le=2**16)] = 0
    alpha: Annotated[float, Meta(gt=0)] = 16.0
    targets: Sequence[str] = ('.*attention/.*kernel',)
    also_train: Sequence[str] = ()
    languages: Sequence[str] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.languages and not self.rank:
            raise UserError('config.lora.languages needs adapters; set config.lora.rank, e.g. to 8')
        if len(set(self.languages)) < len(self.languages):
            raise UserError(f'config.lora.languages names one twice: {", ".join(self.languages)}')
        try:
            for pattern in (*self.targets, *self.also_train):
                re.compile(pattern)
        except re.error as error:
            patterns = [*self.targets, *self.also_train]
            raise UserError(f'config.lora: {error} in {patterns}') from error

    def place(self, lang: str | None) -> int:
        """The place of a language's adapter along the leading axis; UserError if it has none."""
        if lang is None or lang not in self.languages:
            raise unknown('language of config.lora.languages', str(lang), self.languages)
        return list(self.languages).index(lang)

    def named(self, workdir: str, lang: str) -> int:
        """The place of the adapter that WORKDIR@STEP:LANG names; UserError unless there is one."""
        if not self.languages and lang:
            raise UserError(f'{workdir} has no adapters of single languages; leave out :{lang}')
        if self.languages and not lang:
            raise UserError(
                f'{workdir} has an adapter for each of {", ".join(self.languages)}; name one as '
                f'{workdir}@best:{self.languages[0]}'
            )
        return self.place(lang) if lang else 0

    def of(self, params: Arrays, place: int | jax.Array) -> Arrays:
        """The model with the adapter at a place, as if it had been trained alone."""
        if not self.languages:
            return params
        flat = traverse_util.flatten_dict(dict(params))
        for path in [path for path in flat if path[-1] in ('lora_a', 'lora_b')]:
            flat[path] = jax.lax.dynamic_index_in_dim(flat[path], place, keepdims=False)
        return traverse_util.unflatten_dict(flat)

    def add(self, boxed_params: Boxed, rng: jax.Array) -> Boxed:
        """Fresh leaves beside every target; the adapters of all languages begin alike.

        The parameters are as Linen's `init` gives them, with their logical axes.

        Raises:
          UserError: a target matches no kernel.
        """
        if not self.rank:
            return boxed_params
        flat = dict(traverse_util.flatten_dict(boxed_params, sep='/'))
        kernels = [n for n in flat if n.endswith('/kernel') and 'logits_dense' not in n]
        chosen = _matching(kernels, self.targets, 'kernel pattern in config.lora.targets')
        for index, name in enumerate(sorted(chosen)):
            value, axes = flat[name].value, flat[name].names
            *stack, out, features = value.shape
            *stack_axes, out_axis, in_axis = axes
            a = _draw(jax.random.fold_in(rng, index), (*stack, self.rank, features))
            b = jnp.zeros((*stack, out, self.rank))
            leaves = {
                'lora_a': (a, (*stack_axes, 'lora_rank', in_axis)),
                'lora_b': (b, (*stack_axes, out_axis, 'lora_rank')),
                'lora_scale': (jnp.asarray(self.alpha / self.rank, jnp.float32), ()),
            }
            scope = name.rpartition('/')[0]
            for leaf, (array, names) in leaves.items():
                if self.languages and leaf != 'lora_scale':
                    array = jnp.broadcast_to(array, (len(self.languages), *array.shape))
                    names = ('adapters', *names)
                flat[f'{scope}/{leaf}'] = nn.LogicallyPartitioned(array, names)
        return traverse_util.unflatten_dict(flat, sep='/')

    def restrict(self, mask: Mask) -> Mask:
        """Restricts the trainable parameters (a tree of bools) to LoRA's."""
        if not self.rank:
            return mask
        flat = traverse_util.flatten_dict(mask, sep='/')
        others = [name for name in flat if name.rpartition('/')[2] not in LEAVES]
        trained = _matching(others, self.also_train, 'pattern in config.lora.also_train')
        trained |= {name for name in flat if name.endswith(('/lora_a', '/lora_b'))}
        return traverse_util.unflatten_dict(
            {name: bool(value and name in trained) for name, value in flat.items()}, sep='/'
        )


def drawn(params: Arrays, rng: jax.Array) -> Arrays:
    """The same tree, where LoRA's leaves are fresh: A is drawn as in `Lora.add`, and B is zero."""
    flat = traverse_util.flatten_dict(dict(params), sep='/')
    for index, name in enumerate(sorted(name for name in flat if name.endswith('/lora_a'))):
        flat[name] = _draw(jax.random.fold_in(rng, index), flat[name].shape)
        other = f'{name.removesuffix("a")}b'
        flat[other] = jnp.zeros_like(flat[other])
    return traverse_util.unflatten_dict(flat, sep='/')


def _draw(rng: jax.Array, shape: Sequence[int]) -> jax.Array:
    return jax.random.normal(rng, shape) * shape[-1] ** -0.5


def _matching(names: Sequence[str], patterns: Sequence[str], kind: str) -> set[str]:
    """The names that match a pattern; every pattern has to match one."""
    chosen: set[str] = set()
    for pattern in patterns:
        matched = {name for name in names if re.fullmatch(pattern, name)}
        if not matched:
            raise unknown(kind, pattern, names)
        chosen |= matched
    return chosen


def merge(params: Arrays) -> Arrays:
    """W + scale B A in place of each adapted kernel; the same model without LoRA's leaves."""
    flat = traverse_util.flatten_dict(dict(params))
    merged = {path: value for path, value in flat.items() if path[-1] not in LEAVES}
    for *scope, leaf in flat:
        if leaf == 'lora_a':
            a, b, scale = (flat[*scope, name] for name in LEAVES)
            kernel = flat[*scope, 'kernel']
            delta = scale * jnp.matmul(b, a, precision=jax.lax.Precision.HIGHEST)
            merged[*scope, 'kernel'] = (kernel + delta).astype(kernel.dtype)
    return traverse_util.unflatten_dict(merged)
