"""Lists the tables of a paper, their needs, the finished steps, and the cost of the others.

The cost is hours on given GPUs, or minutes by what similar steps took.
"""

import json
import statistics
from collections.abc import Iterator, Mapping, Sequence

from ml_collections import ConfigDict

from xlbench import benchmarks, config as config_lib
from xlbench.benchmarks.paper import PaperTable
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
        yield f'{table.name:<9} {table.title}: {_needs(recipe, table, size)}'
    yield f'all       {_counted(recipe, tuple(recipe.experiments), size)}'
    yield from (f'note: {note}' for note in recipe.notes.values())


def _needs(recipe: Recipe, table: PaperTable, size: str) -> str:
    experiments = table.experiments
    if not experiments:
        return table.instead
    counted = _counted(recipe, experiments, size)
    return f'{counted}; then {table.instead}' if table.instead else counted


def _counted(recipe: Recipe, experiments: Sequence[str], size: str) -> str:
    """Example: 48 experiments, 12 of each of M-BERT, XLM, mBART, mT5 = 48 train."""
    models: dict[str, int] = {}
    for name in experiments:
        model = recipe.experiments[name].model
        models[model] = models.get(model, 0) + 1
    counts = set(models.values())
    of_each = ''
    if len(models) > 1 and len(counts) == 1 and counts != {1}:
        of_each = f', {counts.pop()} of each of {", ".join(models)}'
    programs: dict[str, int] = {}
    missing = 0
    for step in steps_of(recipe, experiments, Settings('.', size)):
        programs[step.command.program] = programs.get(step.command.program, 0) + 1
        missing += bool(step.missing)
    kinds = ', '.join(f'{count} {name}' for name, count in programs.items())
    lost = f'; {missing} cannot run at size {size}' if missing else ''
    return f'{_plural(len(experiments), "experiment")}{of_each} = {kinds}{lost}'


def _plural(count: int, noun: str) -> str:
    return f'{count} {noun}' + ('' if count == 1 else 's')


def of_steps(steps: Sequence[Step], state: State, topology: str, size: str) -> Iterator[str]:
    """Lists steps with what is done, and what the others would cost.

    Args:
      steps: in their order.
      state: what is done.
      topology: GPUs to plan with; '' plans nothing.
      size: 'sample' or 'paper'.
    """
    planned = _hours(steps, topology) if topology else {}
    gaps: dict[str, str] = {}
    measured = _rates(steps, state) if size == 'sample' else {}
    total = 0.0
    done = 0
    for step in steps:
        words = _standing(step, state, gaps)
        done += words == 'done'
        if step.name in planned:
            total += 0.0 if words == 'done' else planned[step.name]
            words += f', {planned[step.name]:.1f} hours on {topology}'
        elif words.startswith(('to do', 'failed')) and (length := _num_steps(step)):
            words += f', {length:,} steps'
            if seconds := length * measured.get(_file(step), 0.0):  # As others of its config file.
                words += f', about {seconds:.0f} s'
                total += seconds / 3600
        needs = f' (after {", ".join(step.needs)})' if step.needs and step.name not in gaps else ''
        yield f'{step.name:<36} {step.command.program:<15} {words}{needs}'
    yield f'{done} of {_plural(len(steps), "command")} done{_sum(total, topology, measured)}'


def _standing(step: Step, state: State, gaps: dict[str, str]) -> str:
    """'done', 'to do', or why not; what cannot be done is put into `gaps`."""
    if reason := running.why_not(step, gaps):
        gaps[step.name] = reason
        return f'cannot be run: {reason}'
    try:
        done = state.is_done(step)
    except UserError as error:
        gaps[step.name] = str(error)
        return f'refused: {error}'
    if done:
        return 'done'
    failed = state.failure(step)
    return f'failed: {failed}' if failed else 'to do'


def _sum(hours: float, topology: str, measured: Mapping[str, float]) -> str:
    if not hours:
        return ''
    if topology:
        return f'; the remaining trainings take about {hours:.0f} hours on {topology} (40 % MFU)'
    return f'; trainings like finished ones take about {hours * 60:.0f} minutes'


def _num_steps(step: Step) -> int:
    """The steps of a training; 0 for other programs."""
    if step.command.program != 'train' or step.missing:
        return 0
    return _length(config_of(step.arguments))


def _hours(steps: Sequence[Step], topology: str) -> dict[str, float]:
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


def _rates(steps: Sequence[Step], state: State) -> Mapping[str, float]:
    """Measures seconds a step of training, by config file, of the trainings that are finished."""
    measured: dict[str, list[float]] = {}
    for step in steps:
        if (length := _num_steps(step)) and (took := state.seconds(step)) and state.is_done(step):
            measured.setdefault(_file(step), []).append(took / length)
    return {name: statistics.median(values) for name, values in measured.items()}


def _file(step: Step) -> str:
    return step.arguments[0].partition(':')[0]


def _length(config: ConfigDict) -> int:
    if config_lib.is_sweep(config):
        return 0
    return sum(stage.num_steps for stage in config.stages.values())
