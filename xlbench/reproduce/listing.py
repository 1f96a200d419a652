"""Lists the tables of a paper, their needs, the finished steps, and the hours of the others."""

import collections
import json
from collections.abc import Iterator, Mapping, Sequence

from ml_collections import ConfigDict

from xlbench import benchmarks, config as config_lib
from xlbench.benchmarks.recipe import Recipe
from xlbench.reproduce import running
from xlbench.reproduce.running import State
from xlbench.reproduce.steps import Settings, Step, config_of, steps as steps_of
from xlbench.system.errors import UserError

# What a step of training depends on: all but how many steps there are, and on which texts.
_DECISIVE = ('model', 'batches', 'objective', 'mesh', 'accumulate', 'trainable', 'lora')


def of_paper(recipe: Recipe, size: str) -> Iterator[str]:
    """Lists the tables and figures of a paper, a line each."""
    benchmark = benchmarks.get(recipe.benchmark)
    yield f'{benchmark.title} (arXiv:{benchmark.arxiv}), at the size {size}'
    for table in recipe.tables:
        needs = [_counted(recipe, table.experiments, size)] if table.experiments else []
        needs += [table.instead] if table.instead else []
        yield f'{table.name:<9} {table.title}: {"; then ".join(needs)}'
    yield f'all       {_counted(recipe, tuple(recipe.experiments), size)}'
    yield from (f'note: {note}' for note in recipe.notes.values())


def _counted(recipe: Recipe, experiments: Sequence[str], size: str) -> str:
    """Example: 48 experiments, 12 of each of M-BERT, XLM, mBART, mT5 = 48 train."""
    models = collections.Counter(recipe.experiments[name].model for name in experiments)
    counts = set(models.values())
    of_each = ''
    if len(models) > 1 and len(counts) == 1 and counts != {1}:
        of_each = f', {counts.pop()} of each of {", ".join(models)}'
    steps = steps_of(recipe, experiments, Settings('.', size))
    programs = collections.Counter(step.command.program for step in steps)
    missing = sum(bool(step.missing) for step in steps)
    kinds = ', '.join(f'{count} {name}' for name, count in programs.items())
    lost = f'; {missing} cannot run at size {size}' if missing else ''
    return f'{_plural(len(experiments), "experiment")}{of_each} = {kinds}{lost}'


def _plural(count: int, noun: str) -> str:
    return f'{count} {noun}' + ('' if count == 1 else 's')


def of_steps(steps: Sequence[Step], state: State, topology: str) -> Iterator[str]:
    """Lists which steps are done, and what the others would cost on the GPUs of a topology."""
    trained = [step for step in steps if step.command.program == 'train' and not step.missing]
    # A key that no config has ends it here.
    configs = {step.name: config_of(step.arguments) for step in trained}
    planned = _hours(configs, topology) if topology else {}
    gaps: dict[str, str] = {}
    total = 0.0
    done = 0
    for step in steps:
        words, reason = running.standing(step, state, gaps)
        if words == 'to do' and (reason := state.record(step).failed):
            words = 'failed'
        words += f': {reason}' if reason else ''
        done += words == 'done'
        if step.name in planned:
            total += 0.0 if words == 'done' else planned[step.name]
            words += f', {planned[step.name]:.1f} hours on {topology}'
        elif words.startswith(('to do', 'failed')) and step.name in configs:
            words += f', {_num_steps(configs[step.name]):,} steps'
        needs = f' (after {", ".join(step.needs)})' if step.needs and step.name not in gaps else ''
        yield f'{step.name:<36} {step.command.program:<15} {words}{needs}'
    left = f'; the remaining trainings take about {total:.0f} hours on {topology} (40 % MFU)'
    yield f'{done} of {_plural(len(steps), "command")} done{left if total else ""}'


def _num_steps(config: ConfigDict) -> int:
    return sum(stage.num_steps for stage in config.stages.values())


def _hours(configs: Mapping[str, ConfigDict], topology: str) -> dict[str, float]:
    """Estimates the hours of trainings by the names of steps, as python -m xlbench.plan does.

    Configs that differ in their data and their lengths alone are planned once. UserError if the
    topology, such as h100:8, is not one of GPUs, or a config cannot be planned.
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
    for name, config in configs.items():
        known = config_lib.to_dict(config)
        key = json.dumps([known.get(part) for part in _DECISIVE], sort_keys=True, default=str)
        if key not in seconds:
            estimate = make_plan(config, topology, with_decoding=False, tries=0)['hours']
            seconds[key] = estimate['step_seconds'] if estimate else 0.0
        planned[name] = seconds[key] * _num_steps(config) / 3600
    return planned
