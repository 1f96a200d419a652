"""Optimizers and learning-rate schedules by name, and which parameters they touch.

Every function here is a thin name over optax; a new optimizer is a new function and a line in
OPTIMIZERS.
"""

import inspect
import re
from collections.abc import Sequence
from typing import Annotated

import jax
import jax.numpy as jnp
import optax

from xlbench.config import ranges
from xlbench.errors import UserError, unknown
from xlbench.trees import Mask, Params, Shapes

# The ends of the names of biases and of the scales of norms.
_UNDECAYED = re.compile('(^|[/_])(bias|scale)$')


def build(
    name: str = 'adamw',
    *,
    learning_rate: Annotated[float, '0 or more'] = 1e-3,
    schedule: str = 'linear',
    warmup_steps: Annotated[float, '0 or more'] = 0,
    num_steps: Annotated[int, '1 or more'],
    final_fraction: Annotated[float, '0 to 1'] = 0.0,
    decay_rate: Annotated[float, 'above 0, up to 1'] = 0.999,
    decay_steps: Annotated[int, '1 or more'] = 5000,
    clip_norm: Annotated[float, '0 or more'] = 0.0,
    **options: float | str | bool | None,
) -> tuple[optax.GradientTransformation, optax.Schedule]:
    """The gradient transformation and the learning rate per step.

    Args:
      name: 'adamw', 'adam', 'adafactor' or 'sgd'.
      learning_rate: the peak, reached after the warm-up.
      schedule: what follows the warm-up: 'constant', 'linear' or 'cosine' (both down to
        final_fraction x learning_rate at num_steps), 'inverse_sqrt' (x sqrt(warmup / step)), or
        'exponential' (x decay_rate for every decay_steps steps, little by little).
      warmup_steps: steps of a linear rise from 0; below 1 it is a share of num_steps: 0.1 is a
        tenth of them. It must not be longer than they are.
      num_steps: the length of the stage in steps; a decay ends there.
      final_fraction: what a linear or cosine decay leaves of the peak.
      decay_rate: of 'exponential'; 0.999 in arXiv:2106.02017's code (microsoft/MRS train.sh).
      decay_steps: of 'exponential'; 5000 there.
      clip_norm: gradients are scaled down to this global norm; 0 leaves them.
      **options: keyword arguments of the optimizer's own function below.

    Returns:
      (tx, schedule): `schedule(step)` is what `tx` multiplies with at that step, from 0.
    """
    given = locals()
    if name not in OPTIMIZERS:
        raise unknown('optimizer', name, OPTIMIZERS)
    ranges.check_own(build, given)
    ranges.check_own(OPTIMIZERS[name], options)
    warmup = count_warmup_steps(warmup_steps, num_steps)
    rate = make_schedule(
        schedule, learning_rate, warmup, num_steps, final_fraction, decay_rate, decay_steps
    )
    specific, common = (
        list(inspect.signature(function).parameters)[1:] for function in (OPTIMIZERS[name], build)
    )
    allowed = {*specific, *common} - {'num_steps', 'options'}
    for key in options:
        if key not in specific:
            raise unknown(f'key of optimizer {name!r}', key, allowed)
    tx = OPTIMIZERS[name](rate, **options)
    if clip_norm:
        tx = optax.chain(optax.clip_by_global_norm(clip_norm), tx)
    return tx, rate


def count_warmup_steps(warmup_steps: float, num_steps: int) -> int:
    """The steps of a warm-up that is given in steps, or below 1 as a share of num_steps.

    Raises:
      UserError: it is longer than num_steps, or neither a number of steps nor a share.
    """
    if 0 < warmup_steps < 1:
        return round(warmup_steps * num_steps)
    if not (warmup_steps >= 0 and warmup_steps == warmup_steps // 1):  # nan is neither.
        raise UserError(
            f'warmup_steps is {warmup_steps}; allowed are whole numbers from 0, of steps, and '
            'shares of the stage below 1'
        )
    if warmup_steps > num_steps:
        raise UserError(
            f'warmup_steps is {warmup_steps:g}, but the stage has {num_steps} steps and would end '
            f'within its warm-up; set it to a share of them such as 0.1, or to {num_steps} or less'
        )
    return int(warmup_steps)


def make_schedule(
    name: str,
    peak: float,
    warmup_steps: int,
    num_steps: int,
    final_fraction: float = 0.0,
    decay_rate: float = 0.999,
    decay_steps: int = 5000,
) -> optax.Schedule:
    """The learning rate by step; see `build`."""
    left_steps = max(1, num_steps - warmup_steps)
    schedules = {
        'constant': lambda: optax.constant_schedule(peak),
        'linear': lambda: optax.linear_schedule(peak, peak * final_fraction, left_steps),
        'cosine': lambda: optax.cosine_decay_schedule(peak, left_steps, final_fraction),
        'inverse_sqrt': lambda: (
            lambda step: (
                # Asked for steps before the warm-up's end as well; what it says there is not used.
                peak * (max(1, warmup_steps) / (jnp.maximum(step, 0) + max(1, warmup_steps))) ** 0.5
            )
        ),
        # The first step after the warm-up is one below the peak, as in the code that it comes from.
        'exponential': lambda: lambda step: peak * decay_rate ** ((step + 1) / decay_steps),
    }
    if name not in schedules:
        raise unknown('schedule', name, schedules)
    after = schedules[name]()
    if not warmup_steps:
        return after
    # The first step already moves: a rate of exactly 0 would waste it.
    return optax.join_schedules(
        [lambda step: peak * ((step + 1) / warmup_steps), after], [warmup_steps]
    )


def adamw(
    learning_rate: optax.Schedule,
    *,
    b1: Annotated[float, '0 or more, below 1'] = 0.9,
    b2: Annotated[float, '0 or more, below 1'] = 0.999,
    eps: Annotated[float, 'above 0'] = 1e-8,
    weight_decay: Annotated[float, '0 or more'] = 0.01,
    moments_dtype: str = 'float32',
) -> optax.GradientTransformation:
    """AdamW (arXiv:1711.05101); biases and the scales of norms are not decayed, see `decayed`.

    With moments_dtype='bfloat16' the first moment is kept in it: 6 bytes of state for a parameter
    in place of 8. It is added to in float32 and rounded after use. The second moment stays float32:
    a step changes it by 1 - b2 of itself, 0.001, less than the last bit of a bfloat16.
    """
    dtype = _moments(moments_dtype)
    return optax.adamw(
        learning_rate, b1, b2, eps, mu_dtype=dtype, weight_decay=weight_decay, mask=decayed
    )


def adam(
    learning_rate: optax.Schedule,
    *,
    b1: Annotated[float, '0 or more, below 1'] = 0.9,
    b2: Annotated[float, '0 or more, below 1'] = 0.999,
    eps: Annotated[float, 'above 0'] = 1e-8,
    moments_dtype: str = 'float32',
) -> optax.GradientTransformation:
    """Adam (arXiv:1412.6980); moments_dtype as for AdamW."""
    return optax.adam(learning_rate, b1, b2, eps, mu_dtype=_moments(moments_dtype))


def adafactor(
    learning_rate: optax.Schedule,
    *,
    decay_exponent: Annotated[float, 'above 0, up to 1'] = 0.8,
    clipping_threshold: Annotated[float, 'above 0'] | None = 1.0,
    multiply_by_parameter_scale: bool = True,
    momentum: Annotated[float, '0 or more, below 1'] | None = None,
    weight_decay_rate: Annotated[float, '0 or more, below 1'] | None = None,
    min_dim_size_to_factor: Annotated[int, '1 or more'] = 128,
    moments_dtype: str = 'float32',
) -> optax.GradientTransformation:
    """Adafactor (arXiv:1804.04235) as T5 uses it: relative steps, no momentum (arXiv:1910.10683).

    A fused kernel (q, k and v in one array) shares one update clipping and one parameter scale;
    its second moments are factored for each part alone.

    moments_dtype is the type that the momentum is kept in, where there is one; it is added to in
    float32. The second moments stay float32: a row and a column of each matrix, and all of a
    vector or of a matrix with a side below min_dim_size_to_factor.

    weight_decay_rate is what every step takes off a parameter, whatever the learning rate; biases
    and the scales of norms keep theirs, see `decayed`.
    """
    dtype = _moments(moments_dtype)
    if momentum is None and dtype != jnp.float32:
        raise UserError(
            f'moments_dtype={moments_dtype!r} is the type of the momentum, and this adafactor has '
            'none; leave it out, or set momentum, for example to 0.9'
        )
    return optax.adafactor(
        learning_rate,
        min_dim_size_to_factor=min_dim_size_to_factor,
        decay_rate=decay_exponent,
        multiply_by_parameter_scale=multiply_by_parameter_scale,
        clipping_threshold=clipping_threshold,
        momentum=momentum,
        dtype_momentum=dtype,
        weight_decay_rate=weight_decay_rate,
        weight_decay_mask=decayed,
    )


def sgd(
    learning_rate: optax.Schedule, *, momentum: Annotated[float, '0 or more, below 1'] = 0.0
) -> optax.GradientTransformation:
    """Gradient descent, for tests and for the textbook."""
    return optax.sgd(learning_rate, momentum or None)


OPTIMIZERS = {'adamw': adamw, 'adam': adam, 'adafactor': adafactor, 'sgd': sgd}


def _moments(name: str) -> jnp.dtype:
    """The type of the first moments."""
    allowed = ('float32', 'bfloat16')
    if name not in allowed:
        raise unknown('moments_dtype', name, allowed)
    return jnp.dtype(name)


def decayed(params: Params | Shapes) -> Mask:
    """A tree of bools: False for biases and scales, which weight decay leaves alone.

    They are known by the end of their names, because the biases of a fused projection (q, k and v
    in one array) are no vector: attention/qkv/bias is [3, features]. Vectors of other names are
    left alone, too.

    Example: {'qkv/kernel': [3, 8, 8], 'qkv/bias': [3, 8], 'norm/scale': [8]} ->
      {'qkv/kernel': True, 'qkv/bias': False, 'norm/scale': False}

    Args:
      params: dict of arrays or shapes, nested, or flat with names such as 'a/b/c'.
    """
    return jax.tree_util.tree_map_with_path(
        lambda path, leaf: len(leaf.shape) > 1 and not _UNDECAYED.search(str(path[-1].key)), params
    )


def trainable_mask(params: Params | Shapes, patterns: Sequence[str] = ('.*',)) -> Mask:
    """A tree of bools: True where some pattern matches the whole parameter name.

    Example: patterns ('decoder/.*',) on {'encoder/...', 'decoder/...'} -> only the decoder moves.

    Args:
      params: nested dict of arrays or shapes; a name joins the keys with '/'.
      patterns: regular expressions.

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
        raise UserError(f'config.trainable: {error} in {list(patterns)}') from error
    for pattern in compiled:
        if not any(pattern.fullmatch(name) for name in flat):
            raise unknown('parameter pattern in config.trainable', pattern.pattern, flat)
    return jax.tree.map(lambda name: any(p.fullmatch(name) for p in compiled), names)
