"""The model families. A model knows arrays and sizes: no loss, optimizer, vocabulary or mesh."""

from xlbench.models.families import (
    ENCODERS,
    FAMILIES,
    MODEL_TYPES,
    SIZES,
    build,
    check_name,
    config,
    fields_of,
    of_config,
)

__all__ = [
    'ENCODERS', 'FAMILIES', 'MODEL_TYPES', 'SIZES', 'build', 'check_name', 'config', 'fields_of',
    'of_config',
]  # fmt: skip
