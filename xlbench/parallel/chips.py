"""The chips that runs use or are planned for, with the figures that their makers give."""

from typing import NamedTuple


class Chip(NamedTuple):
    """The figures of one chip."""

    peak: float  # Dense bfloat16 FLOP/s.
    memory: int | None  # Bytes; None where there are several sizes, and the device says its own.
    memory_speed: float  # Bytes/s.
    link_speed: float  # Bytes/s that it sends over all its links; half of the "bidirectional".
    # Cycles/s: peak FLOP/s over those of its matrix units in a cycle, as the page says.
    clock: float | None
    source: str  # The page of these numbers.


_DOCS = 'cloud.google.com/tpu/docs/'
_V4 = _DOCS + 'v4, arXiv:2304.01433 table 4'
# By the beginning of what jax calls the devices.
CHIPS = {
    'TPU v4': Chip(275e12, 32 << 30, 1200e9, 300e9, 1.05e9, _V4),
    # 197e12 FLOP/s = 4 units x 128 x 128 x 2 x clock; v5p has twice four.
    'TPU v5 lite': Chip(197e12, 16 << 30, 819e9, 200e9, 1.5e9, _DOCS + 'v5e'),
    'TPU v5': Chip(459e12, 95 << 30, 2765e9, 600e9, 1.75e9, _DOCS + 'v5p'),
    'TPU v6 lite': Chip(918e12, 32 << 30, 1638e9, 400e9, None, _DOCS + 'v6e'),
    'NVIDIA A100': Chip(312e12, None, 2039e9, 300e9, None, 'NVIDIA A100 80GB SXM data sheet'),
    'NVIDIA H100': Chip(989e12, None, 3350e9, 450e9, None, 'NVIDIA H100 SXM data sheet'),
    'NVIDIA H200': Chip(989e12, None, 4800e9, 450e9, None, 'NVIDIA H200 SXM data sheet'),
}


def find(kind: str) -> Chip | None:
    """The chip of a kind of device, as jax calls it; None where there is no row for it."""
    names = [name for name in CHIPS if kind.startswith(name)]
    return CHIPS[max(names, key=len)] if names else None
