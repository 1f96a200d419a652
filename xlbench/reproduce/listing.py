"""Lists the tables of a paper, their needs, the finished steps, and the cost of the others."""

from collections.abc import Iterator, Mapping, Sequence

from xlbench import benchmarks
from xlbench.benchmarks.paper import PaperTable
from xlbench.benchmarks.recipe import Recipe
from xlbench.reproduce import costs, running
from xlbench.reproduce.state import State
from xlbench.reproduce.steps import Settings, Step, steps as steps_of
from xlbench.system.errors import UserError


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
        steps: In their order.
        state: What is done.
        topology: GPUs to plan with; '' plans nothing.
        size: 'sample' or 'paper'.
    """
    planned = costs.hours(steps, topology) if topology else {}
    gaps: dict[str, str] = {}
    measured = costs.rates(steps, state) if size == 'sample' else {}
    total = 0.0
    done = 0
    for step in steps:
        words = _standing(step, state, gaps)
        done += words == 'done'
        if step.name in planned:
            total += 0.0 if words == 'done' else planned[step.name]
            words += f', {planned[step.name]:.1f} hours on {topology}'
        elif words.startswith(('to do', 'failed')) and (length := costs.num_steps(step)):
            words += f', {length:,} steps'
            if seconds := costs.guess(step, measured):
                words += f', about {seconds:.0f} s'
                total += seconds / 3600
        needs = f' (after {", ".join(step.needs)})' if step.needs and step.name not in gaps else ''
        yield f'{step.name:<36} {step.command.program:<7} {words}{needs}'
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
