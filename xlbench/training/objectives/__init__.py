"""Objectives of training, one file each; contract.py says what an objective is.

A new objective is a file: `ranking.py` with the class `Ranking` is what the config
objective=dict(name='ranking') trains for, and the dataclass `Options` in it is that block.
"""

import importlib
from typing import TYPE_CHECKING

from xlbench.settings import source
from xlbench.system.errors import check_known

if TYPE_CHECKING:  # It imports jax, which those that only look names up do not need.
    from xlbench.training.objectives.contract import Objective


def build(name: str = 'generation', **options: float | str | bool | None) -> 'Objective':
    """The objective of that name with these options; UserError if there is none."""
    classes = source.catalog(__name__)
    check_known('objective', name, classes)
    module = importlib.import_module(f'{__name__}.{name}')
    return getattr(module, classes[name])(module.Options(**options))
