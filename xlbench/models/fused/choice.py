"""Choice of attention: plain, or fused, for which TPUs and GPUs have kernels and CPUs blocks.

Both give the same. The fused one holds no array [queries, keys] in the device's memory.
"""

import math
import re
from typing import Any

import flax.linen as nn
import jax

from xlbench.system.errors import UserError

LANES = 128  # Numbers side by side in a TPU's register.
# Features of a head that a tile of a GPU's kernel takes; of 256, it does not fit the shared memory.
POWERS = (16, 32, 64, 128)
# The fewest logits of a head for which 'auto' takes the fused kernel: fewer cost little memory
# and would not fill its blocks. On a CPU, whose cache holds more, fewer are as fast at once.
MIN_LOGITS = {'tpu': 1 << 16, 'gpu': 1 << 12, 'cpu': 1 << 22}
# Most queries and keys together: so far it was compiled that what the kernels hold of a bias fits.
MAX_LENGTH = 1 << 13
# Whose kernels other devices run, in jax's interpreter and slowly: 'tpu' or 'gpu', for tests.
INTERPRETED = ''
Sizes = Any  # A layers.TransformerConfig, which this file must not import.


def platform() -> str:
    """Returns the platform of the mesh's devices, or of the default ones."""
    device = jax.sharding.get_abstract_mesh().abstract_device
    return device.platform if device else jax.default_backend()


def parts(axis: str) -> int:
    """Into how many parts the mesh cuts what lies along a logical axis."""
    (axes,) = nn.logical_to_mesh_axes((axis,)) or ((),)
    sizes = jax.sharding.get_abstract_mesh().shape
    names = (axes,) if isinstance(axes, str) else axes or ()
    return math.prod(sizes.get(name, 1) for name in names)


def kernels() -> str:
    """Whose kernels these devices run: 'cpu', 'gpu' or 'tpu'."""
    here = platform()
    return INTERPRETED or here if here == 'cpu' else here


def why_unsupported(cfg: Sizes, train: bool) -> str:
    """Says why a model cannot have fused attention on the devices at hand; '' where it can."""
    if parts('length') > 1:
        return f'config.mesh.sequence={parts("length")} cuts texts, which its kernel needs whole'
    if kernels() not in MIN_LOGITS:
        return f'there are no kernels for {kernels()} devices'
    heads, cut = cfg.num_heads, parts('heads')
    on_each = f' of which a device has {heads / cut:g}' if cut > 1 else ''
    whole = cfg.head_dim % LANES == 0 or LANES % cfg.head_dim == 0
    if kernels() == 'tpu' and (not whole or heads % cut or heads // cut * cfg.head_dim % LANES):
        return (
            f'its kernel takes heads that together fill {LANES} features, which {heads} heads of '
            f'{cfg.head_dim}{on_each} do not'
        )
    if kernels() == 'gpu' and (cfg.head_dim not in POWERS or heads % cut):
        return (
            f'its kernels take whole heads of {", ".join(map(str, POWERS[:-1]))} or {POWERS[-1]} '
            f'features, and these are {heads} heads of {cfg.head_dim}{on_each}'
        )
    if train and not cfg.shared_dropout:
        return 'config.model.shared_dropout=False drops single weights, which its kernel does not'
    return ''


def takes_fused(cfg: Sizes, rows: int, queries: int, keys: int, train: bool) -> bool:
    """Returns whether attention of these sizes is fused."""
    if cfg.attention == 'plain' or rows % parts('batch'):
        return False
    if cfg.attention == 'auto' and queries * keys < MIN_LOGITS.get(kernels(), 0):
        return False
    if kernels() == 'tpu' and queries + keys > MAX_LENGTH:
        return False
    return not why_unsupported(cfg, train)


def share_of_peak(kernel: str) -> float | None:
    """Returns a kernel's useful share of the matrix units' peak; None for other operations.

    A kernel is known by the name that a compiled program gives it. Units take products of few
    features as long as those of LANES. The rest is from the schedules that libtpu 0.0.42 writes for
    heads of 64 on a v5p: 12,200 cycles for 10,200 of products in a step of the backward kernel,
    5,600 for 4,100 in one of the forward kernel.
    """
    match = re.search(r'attention_(?:for|back)ward_of_(\d+)', kernel)
    return 0.8 * min(1.0, int(match[1]) / LANES) if match else None


def check(cfg: Sizes) -> None:
    """Raises UserError where a config asks for fused attention that cannot be."""
    if cfg.attention == 'fused' and (why := why_unsupported(cfg, train=True)):
        raise UserError(
            f"config.model.attention='fused' is impossible: {why}; with 'auto' the run takes plain "
            'attention instead'
        )


def describe(cfg: Sizes) -> str:
    """Says which attention a training run takes; '' where there is no choice and none was made."""
    if cfg.attention == 'plain':
        return 'attention: plain, as config.model.attention says'
    if cfg.attention == 'auto' and kernels() == 'cpu':
        return ''  # Few texts are so long that it matters.
    if why := why_unsupported(cfg, train=True):
        return f'attention: plain; the fused one is not possible, because {why}'
    fewest = f'{MIN_LOGITS[kernels()]:,} pairs of query and key'
    return 'attention: fused' + (f'; plain below {fewest}' if cfg.attention == 'auto' else '')
