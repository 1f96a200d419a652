"""The blocks of optimizers: learning rate and schedule, and what each optimizer takes besides.

A new optimizer is a class here and a function of training/optimizers.py.
"""

import dataclasses
from collections.abc import Sequence
from typing import Annotated, Literal

from msgspec import Meta

from xlbench.system import errors
from xlbench.system.errors import UserError
from xlbench.system.files import Setting
from xlbench.system.ranges import Block, check_keys, fields_of


@dataclasses.dataclass(frozen=True, kw_only=True)
class Optimizer(Block):
    """The keys that the block of every optimizer has.

    Attributes:
      learning_rate: the peak, reached after the warm-up.
      schedule: what follows the warm-up: 'constant', 'linear' or 'cosine' (both down to
        final_fraction x learning_rate at num_steps), 'inverse_sqrt' (x sqrt(warmup / step)), or
        'exponential' (x decay_rate for every decay_steps steps, little by little).
      warmup_steps: steps of a linear rise: step n, from 1, has n / warmup_steps of the peak. Below
        1 it is a share of the stage: 0.1 is a tenth of its steps. It must not be longer than they
        are.
      final_fraction: what a linear or cosine decay leaves of the peak.
      decay_rate: factor of schedule='exponential'; 0.999 in arXiv:2106.02017's code (train.sh).
      decay_steps: steps for each factor of decay_rate; 5000 in that code.
      clip_norm: gradients are scaled down to this global norm; 0 leaves them.
      faster: regular expressions for whole names of parameters whose learning rate is another.
      faster_by: factor on the learning rate of these parameters.
    """

    learning_rate: Annotated[float, Meta(ge=0)] = 1e-3
    schedule: Literal['constant', 'linear', 'cosine', 'inverse_sqrt', 'exponential'] = 'linear'
    warmup_steps: Annotated[float, Meta(ge=0)] = 0
    final_fraction: Annotated[float, Meta(ge=0, le=1)] = 0.0
    decay_rate: Annotated[float, Meta(gt=0, le=1)] = 0.999
    decay_steps: Annotated[int, Meta(ge=1)] = 5000
    clip_norm: Annotated[float, Meta(ge=0)] = 0.0
    faster: Sequence[str] = ()
    faster_by: Annotated[float, Meta(gt=0)] = 1.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Adam(Optimizer):
    """Adam (arXiv:1412.6980).

    Attributes:
      b1: decay of the first moment.
      b2: decay of the second moment.
      eps: added to the root of the second moment.
      moments_dtype: 'bfloat16' keeps the first moment in it: 6 bytes of state for a parameter in
        place of 8. It is added to in float32 and rounded after use. The second moment stays
        float32: a step changes it by 1 - b2 of itself, 0.001, less than the last bit of a bfloat16.
    """

    b1: Annotated[float, Meta(ge=0, lt=1)] = 0.9
    b2: Annotated[float, Meta(ge=0, lt=1)] = 0.999
    eps: Annotated[float, Meta(gt=0)] = 1e-8
    moments_dtype: Literal['float32', 'bfloat16'] = 'float32'


@dataclasses.dataclass(frozen=True, kw_only=True)
class AdamW(Adam):
    """AdamW (arXiv:1711.05101).

    Attributes:
      weight_decay: times the learning rate, what a step takes off a parameter; biases and the
        scales of norms are not decayed.
    """

    weight_decay: Annotated[float, Meta(ge=0)] = 0.01


@dataclasses.dataclass(frozen=True, kw_only=True)
class Adafactor(Optimizer):
    """Adafactor (arXiv:1804.04235) as T5 uses it: relative steps, no momentum (arXiv:1910.10683).

    Attributes:
      decay_exponent: of the second moments' decay, 1 - step^-decay_exponent.
      clipping_threshold: largest root mean square of an update; None clips none.
      multiply_by_parameter_scale: whether a step is relative to the size of the parameter.
      momentum: decay of the first moment; None keeps none.
      weight_decay_rate: what every step takes off a parameter, whatever the learning rate; biases
        and the scales of norms keep theirs.
      min_dim_size_to_factor: a matrix with a shorter side has all of its second moments, others a
        row and a column; they are float32.
      moments_dtype: type that the momentum is kept in; it is added to in float32.
    """

    decay_exponent: Annotated[float, Meta(gt=0, le=1)] = 0.8
    clipping_threshold: Annotated[float, Meta(gt=0)] | None = 1.0
    multiply_by_parameter_scale: bool = True
    momentum: Annotated[float, Meta(ge=0, lt=1)] | None = None
    weight_decay_rate: Annotated[float, Meta(ge=0, lt=1)] | None = None
    min_dim_size_to_factor: Annotated[int, Meta(ge=1)] = 128
    moments_dtype: Literal['float32', 'bfloat16'] = 'float32'

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.momentum is None and self.moments_dtype != 'float32':
            raise UserError(
                f'moments_dtype={self.moments_dtype!r} is the type of the momentum, and this '
                'adafactor has none; leave it out, or set momentum, for example to 0.9'
            )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sgd(Optimizer):
    """Gradient descent, for tests and for the textbook.

    Attributes:
      momentum: decay of the sum of gradients; 0 keeps none.
    """

    momentum: Annotated[float, Meta(ge=0, lt=1)] = 0.0


OPTIMIZERS: dict[str, type[Optimizer]] = {
    'adamw': AdamW, 'adam': Adam, 'adafactor': Adafactor, 'sgd': Sgd
}  # fmt: skip


def make(name: str = 'adamw', **options: Setting) -> Optimizer:
    """Returns the checked block of an optimizer.

    Raises:
      UserError: there is no such optimizer, it has no such option, or not with this value.
    """
    errors.check_known('optimizer', name, OPTIMIZERS)
    check_keys(options, (), f'optimizer {name!r}', fields_of(OPTIMIZERS[name]))
    return OPTIMIZERS[name](**options)
