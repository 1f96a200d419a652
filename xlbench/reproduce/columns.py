"""Adds the scores that a paper's table shows to finished runs that lack them."""

import pathlib
from collections.abc import Callable, Iterable, Mapping, Sequence

from xlbench import benchmarks
from xlbench.benchmarks.paper import PaperTable
from xlbench.benchmarks.recipe import Recipe
from xlbench.system.errors import UserError


def check(metrics: Iterable[str]) -> None:
    """Raises UserError for a name that no metric has."""
    from xlbench.metrics import (
        suite as suite_lib,  # It loads for half a second, which a slip need not wait for.
    )

    for name in metrics:
        suite_lib.check_name(name)


def fill(
    recipe: Recipe,
    table: PaperTable,
    made: Mapping[str, Sequence[pathlib.Path]],
    metrics: Sequence[str],
    say: Callable[[str], None],
) -> list[str]:
    """Adds scores to the test results of all runs of a table.

    Args:
        recipe: Of the benchmark.
        table: Of the paper.
        made: Experiment -> the folders of its runs, without those that are not finished.
        metrics: Names that the user gives, each for the scores of the metric that it begins with.
        say: Takes a line on each run that has more scores now.

    Returns:
        A line for each score that stays away, with what to type for it.
    """
    if recipe.benchmark == 'fewshot':
        return []
    from xlbench.reporting import adding

    given = {name.partition('=')[0].removesuffix('_clidsum'): name for name in metrics}
    lines: dict[str, None] = {}
    for score, usual in _shown(recipe.benchmark, table).items():
        for folder in dict.fromkeys(folder for of_one in made.values() for folder in of_one):
            try:
                if adding.add(folder, [given.get(score, usual)], say=say):
                    say(f'{folder}: added {score}')
            except UserError as error:
                lines[f'{score}: {_reason(score, str(error))}'] = None
    return list(lines)


def _reason(score: str, reason: str) -> str:
    """Says what a gap is for; of a task and its folder, only the part that holds for all."""
    if score == 'fitted_rating' and 'takes a file' in reason:
        return 'no fitted rating is published; --metrics=fitted_rating=FILE takes your own'
    return reason.rpartition(': task ')[2].partition(': ')[2] if ': task ' in reason else reason


def _shown(benchmark: str, table: PaperTable) -> dict[str, str]:
    """Returns the scores of a table that the tasks do not give -> names of metrics."""
    metrics = benchmarks.get(benchmark).metrics
    return {s: metrics[s] for s in table.scores if s in metrics}
