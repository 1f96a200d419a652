"""Which attention a model takes: the plain one, or the fused one of TPUs.

Both give the same. The fused one holds no array [queries, keys] in the device's memory.
"""

import math
import re
from typing import Protocol

import flax.linen as nn
import jax

from xlbench.errors import UserError

KINDS = ('auto', 'plain', 'fused')
LANES = 128  # Numbers side by side in a TPU's register.
# From so many logits of a head on 'auto' takes the fused one: fewer are no burden, and would not
# fill its blocks.
WORTH = 1 << 16
# Most queries and keys together: so far it was compiled that what the kernels hold of a bias fits.
MOST = 1 << 13
# Whether devices that are no TPUs run the kernels, in jax's interpreter and slowly: for tests.
INTERPRETED = False


class Sizes(Protocol):
    """What the choice depends on of a model's config, see `transformer.TransformerConfig`."""

    @property
    def attention(self) -> str:
        """One of KINDS."""

    @property
    def num_heads(self) -> int:
        """Heads of each attention."""

    @property
    def head_dim(self) -> int:
        """Features of each head."""

    @property
    def shared_dropout(self) -> bool:
        """Whether dropout is that of values, for all queries."""


def platform() -> str:
    """Of the devices that a program is traced for: those of the mesh, or the default ones."""
    device = jax.sharding.get_abstract_mesh().abstract_device
    return device.platform if device else jax.default_backend()


def parts(axis: str) -> int:
    """Into how many parts the mesh cuts what lies along a logical axis."""
    axes = nn.logical_to_mesh_axes((axis,))[0] or ()
    sizes = jax.sharding.get_abstract_mesh().shape
    return math.prod(sizes.get(name, 1) for name in ((axes,) if isinstance(axes, str) else axes))


def obstacle(cfg: Sizes, train: bool) -> str:
    """Why a model cannot have fused attention on the devices at hand; '' where it can."""
    here, heads, cut = platform(), cfg.num_heads, parts('heads')
    if here != 'tpu' and not INTERPRETED:
        return f'its kernel is for TPUs, and these are {here} devices'
    if parts('length') > 1:
        return f'config.mesh.sequence={parts("length")} cuts texts, which its kernel needs whole'
    whole = cfg.head_dim % LANES == 0 or LANES % cfg.head_dim == 0
    if not whole or heads % cut or heads // cut * cfg.head_dim % LANES:
        on_each = f' of which a device has {heads / cut:g}' if cut > 1 else ''
        return (
            f'its kernel takes heads that together fill {LANES} features, which {heads} heads of '
            f'{cfg.head_dim}{on_each} do not'
        )
    if train and not cfg.shared_dropout:
        return 'config.model.shared_dropout=False drops single weights, which its kernel does not'
    return ''


def takes_fused(cfg: Sizes, rows: int, queries: int, keys: int, train: bool) -> bool:
    """Whether one attention over so many rows, queries and keys is the fused one."""
    if cfg.attention == 'plain' or rows % parts('batch') or queries + keys > MOST:
        return False
    if cfg.attention == 'auto' and queries * keys < WORTH:
        return False
    return not obstacle(cfg, train)


def share_of_peak(kernel: str) -> float | None:
    """Of what matrix units could do in the time of a kernel, what its products are.

    Units take products of few features as long as those of LANES. The rest is from the schedules
    that libtpu 0.0.42 writes for heads of 64 on a v5p: 12,200 cycles for 10,200 of products in a
    step of the backward kernel, 5,600 for 4,100 in one of the forward kernel.

    Args:
      kernel: the name of an operation, as a compiled program has it.

    Returns:
      The share, or None for an operation that is not one of these kernels.
    """
    match = re.search(r'attention_(?:for|back)ward_of_(\d+)', kernel)
    return 0.8 * min(1.0, int(match[1]) / LANES) if match else None


def check(cfg: Sizes) -> None:
    """Raises UserError where a config asks for fused attention that cannot be."""
    if cfg.attention == 'fused' and (why := obstacle(cfg, train=True)):
        raise UserError(
            f"config.model.attention='fused' is impossible: {why}; with 'auto' the run takes plain "
            'attention instead'
        )


def describe(cfg: Sizes) -> str:
    """Says which attention a training run takes."""
    if cfg.attention == 'plain':
        return 'attention: plain, as config.model.attention says'
    if why := obstacle(cfg, train=True):
        return f'attention: plain; the fused one is not possible, because {why}'
    short = f'; plain below {WORTH:,} pairs of query and key' if cfg.attention == 'auto' else ''
    return f'attention: fused, one kernel that holds no array of queries x keys{short}'
