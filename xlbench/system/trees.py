"""Types of the trees of arrays that models, optimizers and checkpoints are made of."""

from collections.abc import Mapping
from typing import TypeAlias, TypeVar, Union

import jax

Leaf = TypeVar('Leaf')
# Nested dicts with a leaf for each array: itself, its shape, its sharding, whether it is trained.
Tree: TypeAlias = Mapping[str, Union[Leaf, 'Tree[Leaf]']]
Arrays: TypeAlias = Tree[jax.Array]
Params: TypeAlias = Arrays
Shapes: TypeAlias = Tree[jax.ShapeDtypeStruct]
Shardings: TypeAlias = Tree[jax.sharding.NamedSharding]
Mask: TypeAlias = Tree[bool]
