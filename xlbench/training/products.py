"""The operations of a traced program: what its products need, whatever compiles them."""

import math
from collections.abc import Iterator

from jax.extend.core import Jaxpr, JaxprEqn


def matmul_flops(jaxpr: Jaxpr, trips: int = 1) -> int:
    """Counts the FLOPs of all products over all devices: 2 for a multiplication and addition.

    Args:
      jaxpr: whole, with those inside it.
      trips: what a loop of unknown length counts as.
    """
    total = 0
    for eqn in jaxpr.eqns:
        if eqn.primitive.name == 'dot_general':
            (contracted, _), _ = eqn.params['dimension_numbers']
            left = eqn.invars[0].aval.shape
            total += (
                2
                * math.prod(eqn.outvars[0].aval.shape)
                * math.prod(left[axis] for axis in contracted)
            )
            continue
        cost = eqn.params.get('cost_estimate')  # Of a kernel that says it.
        if cost is not None:
            total += cost.flops
            continue
        inside = [matmul_flops(program, trips) for program in inner(eqn)]
        if eqn.primitive.name == 'cond':
            total += max(inside, default=0)
        else:
            times = {'scan': eqn.params.get('length', 1), 'while': trips}
            if eqn.primitive.name == 'pallas_call':  # What is inside runs for each tile.
                times['pallas_call'] = math.prod(eqn.params['grid_mapping'].grid)
            if eqn.primitive.name == 'shard_map':  # What is inside is what one device does.
                times['shard_map'] = eqn.params['mesh'].size
            total += times.get(eqn.primitive.name, 1) * sum(inside)
    return total


def inner(eqn: JaxprEqn) -> Iterator[Jaxpr]:
    """Yields the programs inside an operation: of a loop, a branch, a kernel."""
    for value in eqn.params.values():
        for item in value if isinstance(value, tuple | list) else (value,):
            if hasattr(item, 'jaxpr'):
                yield item.jaxpr
            elif hasattr(item, 'eqns'):
                yield item
