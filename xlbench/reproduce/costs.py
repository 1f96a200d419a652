"""The estimated cost of steps: hours on given GPUs, or minutes by what similar steps took."""

import json
import statistics
from collections.abc import Mapping, Sequence

from ml_collections import ConfigDict

from xlbench import config as config_lib, names
from xlbench.reproduce.state import State
from xlbench.reproduce.steps import Step, config_of
from xlbench.system.errors import UserError

# What a step of training depends on: all but how many steps there are, and on which texts.
_DECISIVE = ('model', 'batches', 'objective', 'mesh', 'accumulate', 'trainable', 'lora')


def num_steps(step: Step) -> int:
    """The steps of a training; 0 for other programs."""
    if step.command.program != 'train' or step.missing:
        return 0
    return _length(config_of(step.arguments))


def hours(steps: Sequence[Step], topology: str) -> dict[str, float]:
    """Estimates the hours of trainings, as python -m xlbench.plan does.

    Configs that differ in their data and their lengths alone are planned once.

    Args:
        steps: Of which the trainings are planned.
        topology: GPUs, such as h100:8.

    Returns:
        Name of a step -> hours.

    Raises:
        UserError: The topology is not one of GPUs, or a config cannot be planned.
    """
    # They load jax, which nothing else here needs.
    from xlbench.plan import devices
    from xlbench.plan.__main__ import make_plan

    if not devices.is_gpu(topology):
        raise UserError(
            f'--topology={topology} is not one of a100:N, h100:N, h200:N; python -m xlbench.plan '
            'compiles a config for TPUs, one at a time'
        )
    seconds: dict[str, float] = {}
    planned: dict[str, float] = {}
    for step in steps:
        if step.command.program != 'train' or step.missing:
            continue
        config = config_of(step.arguments)
        known = config_lib.to_dict(config)
        key = json.dumps([known.get(name) for name in _DECISIVE], sort_keys=True, default=str)
        if key not in seconds:
            estimate = make_plan(config, topology, with_decoding=False, tries=0)['hours']
            seconds[key] = estimate['step_seconds'] if estimate else 0.0
        planned[step.name] = seconds[key] * _length(config) / 3600
    return planned


def rates(steps: Sequence[Step], state: State) -> Mapping[str, float]:
    """Measures seconds a step of training, by config file, of the trainings that are finished."""
    measured: dict[str, list[float]] = {}
    for step in steps:
        if (length := num_steps(step)) and (took := state.seconds(step)) and state.is_done(step):
            measured.setdefault(_file(step), []).append(took / length)
    return {name: statistics.median(values) for name, values in measured.items()}


def guess(step: Step, measured: Mapping[str, float]) -> float:
    """The seconds that a training takes by what others of its config file took; 0 if unknown."""
    return num_steps(step) * measured.get(_file(step), 0.0) if step.arguments else 0.0


def _file(step: Step) -> str:
    return step.arguments[0].partition(':')[0]


def _length(config: ConfigDict) -> int:
    if names.is_sweep(config):
        return 0
    return sum(stage.num_steps for stage in config.stages.values())
