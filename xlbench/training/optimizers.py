"""Optimizers and learning-rate schedules by name, and which parameters they touch.

Every optimizer here is a thin function over optax; a new one is a function, a line in _MAKERS, and
the class of its block in settings/optimizer.py.
"""

import functools
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import optax
from ml_collections import ConfigDict

from xlbench.settings import optimizer as settings
from xlbench.settings.blocks import Stage
from xlbench.system import ranges
from xlbench.system.errors import UserError, unknown
from xlbench.system.files import Setting
from xlbench.system.trees import Mask, Params, Shapes

# A transformation of gradients, and the learning rate by step that it multiplies with.
Scheduled: TypeAlias = tuple[optax.GradientTransformation, optax.Schedule]
# The ends of the names of biases and of the scales of norms.
_UNDECAYED = re.compile('(^|[/_])(bias|scale)$')


def build(name: str = 'adamw', *, num_steps: int, **options: Setting) -> Scheduled:
    """Builds the gradient transformation and the learning rate per step.

    `schedule(step)` is what `tx` multiplies with at that step, from 0; a decay ends at `num_steps`.
    The other arguments are the block, see settings/optimizer.py.

    Raises:
      UserError: no such optimizer, option or value, or a warm-up longer than num_steps.
    """
    block = settings.make(name, **options)
    ranges.check(ranges.fields_of(Stage)['num_steps'].type, num_steps, 'num_steps')
    rate = _schedule(block, num_steps)
    tx = _MAKERS[type(block)](rate, block)
    if block.faster:
        tx = optax.chain(tx, multiply(block.faster, block.faster_by))
    if block.clip_norm:
        tx = optax.chain(optax.clip_by_global_norm(block.clip_norm), tx)
    return tx, rate


def of_stage(config: ConfigDict, stage: str) -> Scheduled:
    """The optimizer of a stage of a config, and its learning rate by step."""
    block = config.stages[stage]
    options = {k: tuple(v) if isinstance(v, list) else v for k, v in block.optimizer.items()}
    return _of_stage(bool(config.nonfinite.skip), num_steps=block.num_steps, **options)


@functools.lru_cache(8)  # What is compiled is shared by runs whose optimizer is the same object.
def _of_stage(skips: bool, **options: Any) -> Scheduled:
    tx, schedule = build(**options)
    return (skip_nonfinite(tx) if skips else tx), schedule


class Skipping(NamedTuple):
    """The state of an optimizer that leaves steps out; see `skip_nonfinite`."""

    inner: optax.OptState
    skipped: jax.Array  # [], steps that were left out.


def skip_nonfinite(tx: optax.GradientTransformation) -> optax.GradientTransformation:
    """An optimizer of which a step that is not `finite` moves no parameter, moment or schedule.

    In the compiled step every update then waits for the norm of all gradients, as it does with
    clip_norm, so this is for runs that ask for it.
    """

    def init(params: Params) -> Skipping:
        return Skipping(tx.init(params), jnp.zeros((), jnp.int32))

    def update(
        updates: optax.Updates, state: Skipping, params: Params | None = None, *, finite: jax.Array
    ) -> tuple[optax.Updates, Skipping]:
        updates, inner = tx.update(updates, state.inner, params)
        updates = jax.tree.map(lambda x: jnp.where(finite, x, jnp.zeros_like(x)), updates)
        inner = jax.tree.map(lambda new, old: jnp.where(finite, new, old), inner, state.inner)
        return updates, Skipping(inner, state.skipped + ~finite)

    return optax.GradientTransformationExtraArgs(init, update)


def multiply(patterns: Sequence[str], factor: float) -> optax.GradientTransformation:
    """Multiplies the updates of the parameters whose whole names some pattern matches.

    Its update raises UserError for a pattern that matches none of them.
    """

    def update(updates: Params, params: Params | None) -> Params:
        del params
        mask = trainable_mask(updates, patterns, 'config.stages.NAME.optimizer.faster')
        return jax.tree.map(lambda x, is_one: x * factor if is_one else x, updates, mask)

    return optax.stateless(update)


def count_warmup_steps(warmup_steps: float, num_steps: int) -> int:
    """The steps of a warm-up that is given in steps, or below 1 as a share of num_steps.

    Raises:
      UserError: it is longer than num_steps, or neither a number of steps nor a share.
    """
    if 0 < warmup_steps < 1:
        return round(warmup_steps * num_steps)
    if warmup_steps != warmup_steps // 1:
        raise UserError(
            f'warmup_steps is {warmup_steps}; give a whole number of steps, 0 or more, or a '
            'fraction of the stage below 1'
        )
    if warmup_steps > num_steps:
        raise UserError(
            f'warmup_steps is {warmup_steps:g}, but the stage has {num_steps} steps and would end '
            f'during its warm-up; set it to a fraction such as 0.1, or to {num_steps} or less'
        )
    return int(warmup_steps)


def _schedule(block: settings.Optimizer, num_steps: int) -> optax.Schedule:
    """The learning rate by step of a stage."""
    warmup_steps = count_warmup_steps(block.warmup_steps, num_steps)
    peak, first = block.learning_rate, max(1, warmup_steps)
    left_steps = max(1, num_steps - warmup_steps)
    after = {
        'constant': optax.constant_schedule(peak),
        'linear': optax.linear_schedule(peak, peak * block.final_fraction, left_steps),
        'cosine': optax.cosine_decay_schedule(peak, left_steps, block.final_fraction),
        # Asked for steps before the warm-up's end as well; what it says there is not used.
        'inverse_sqrt': lambda step: peak * (first / (jnp.maximum(step, 0) + first)) ** 0.5,
        # The first step after the warm-up is one below the peak, as in the code that it comes from.
        'exponential': lambda step: peak * block.decay_rate ** ((step + 1) / block.decay_steps),
    }[block.schedule]
    if not warmup_steps:
        return after
    # The first step already moves: a rate of exactly 0 would waste it.
    return optax.join_schedules(
        [lambda step: peak * ((step + 1) / warmup_steps), after], [warmup_steps]
    )


def _adamw(rate: optax.Schedule, block: settings.AdamW) -> optax.GradientTransformation:
    return optax.adamw(
        rate,
        block.b1,
        block.b2,
        block.eps,
        mu_dtype=block.moments_dtype,
        weight_decay=block.weight_decay,
        mask=decayed,
    )


def _adafactor(rate: optax.Schedule, block: settings.Adafactor) -> optax.GradientTransformation:
    # A fused kernel (q, k and v in one array) shares one update clipping and one parameter scale;
    # its second moments are factored for each part alone.
    return optax.adafactor(
        rate,
        min_dim_size_to_factor=block.min_dim_size_to_factor,
        decay_rate=block.decay_exponent,
        multiply_by_parameter_scale=block.multiply_by_parameter_scale,
        clipping_threshold=block.clipping_threshold,
        momentum=block.momentum,
        dtype_momentum=jnp.dtype(block.moments_dtype),
        weight_decay_rate=block.weight_decay_rate,
        weight_decay_mask=decayed,
    )


_MAKERS: dict[type[settings.Optimizer], Callable[..., optax.GradientTransformation]] = {
    settings.AdamW: _adamw,
    settings.Adam: lambda rate, block: optax.adam(
        rate, block.b1, block.b2, block.eps, mu_dtype=block.moments_dtype
    ),
    settings.Adafactor: _adafactor,
    settings.Sgd: lambda rate, block: optax.sgd(rate, block.momentum or None),
}


def decayed(params: Params | Shapes) -> Mask:
    """A tree of bools: False for biases and scales, which weight decay leaves alone.

    They are known by the end of their names, because the biases of a fused projection (q, k and v
    in one array) are no vector: attention/qkv/bias is [3, features]. Vectors of other names are
    left alone, too.

    Example: {'qkv/kernel': [3, 8, 8], 'qkv/bias': [3, 8], 'norm/scale': [8]} ->
      {'qkv/kernel': True, 'qkv/bias': False, 'norm/scale': False}
    """
    return jax.tree_util.tree_map_with_path(
        lambda path, leaf: len(leaf.shape) > 1 and not _UNDECAYED.search(str(path[-1].key)), params
    )


def trainable_mask(
    params: Params | Shapes, patterns: Sequence[str] = ('.*',), where: str = 'config.trainable'
) -> Mask:
    """A tree of bools: True where some pattern matches the whole parameter name.

    A name joins the keys with '/'; messages say that the patterns are those of `where`.

    Example: patterns ('decoder/.*',) on {'encoder/...', 'decoder/...'} -> only the decoder moves.

    Raises:
      UserError: a pattern matches nothing, or is no regular expression.
    """
    names = jax.tree_util.tree_map_with_path(
        lambda path, _: '/'.join(str(key.key) for key in path), params
    )
    flat = jax.tree.leaves(names)
    try:
        compiled = [re.compile(pattern) for pattern in patterns]
    except re.error as error:
        raise UserError(f'{where}: {error} in {list(patterns)}') from error
    for pattern in compiled:
        if not any(pattern.fullmatch(name) for name in flat):
            raise unknown(f'parameter pattern in {where}', pattern.pattern, flat)
    return jax.tree.map(lambda name: any(p.fullmatch(name) for p in compiled), names)
