"""Scores of sweeps in the cells of a paper's table, and which of their differences count."""

import functools
import pathlib
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence

from xlbench.benchmarks.paper import Key
from xlbench.fewshot.analysis import systems as sweep_systems, tables as sweep_tables
from xlbench.fewshot.analysis.sweeps import Sweep
from xlbench.fewshot.results import PROMPT, Group
from xlbench.reporting import statistics as tests
from xlbench.reporting.tables import Column, Table


def value(
    by_task: Mapping[str, sweep_systems.System], key: Mapping[str, str], score: str
) -> str | None:
    """The text of a score of a sweep, for the cells of a table; None for none."""
    system, shots = by_task.get(key['task']), int(key['shots'])
    if system is None:
        return None
    group = Group(key['language'], shots, key['method'], key['start'])
    prompted = Group(group.language, shots, PROMPT if shots else group.method, 'none')
    stats = system.groups.get(group) or system.groups.get(prompted)
    if stats is None and (key['language'], shots) == (system.source_language, 0):
        number = None if isinstance(system.source_score, str) else system.source_score[0]
    else:
        number = getattr(stats, score) if stats and stats.rows else None
    return None if number is None else f'{number:.2f}'


def _read_sweeps(made: Mapping[str, Sequence[pathlib.Path]]) -> list[Sweep]:
    folders = dict.fromkeys(folder for of_one in made.values() for folder in of_one)
    return [Sweep.read(str(one)) for one in folders if (one / 'results.jsonl').is_file()]


def of_groups(
    made: Mapping[str, Sequence[pathlib.Path]],
) -> tuple[Callable[[Key, str], str | None], tuple[str, ...]]:
    """A function that gives the text of a sweep's score by the key of its cell; and notes."""
    systems = sweep_systems.systems(_read_sweeps(made), [])
    notes = dict.fromkeys(note for one in systems for note in sweep_tables.scores(one).notes)
    return functools.partial(value, {one.task: one for one in systems}), tuple(notes)


def of_buckets(
    made: Mapping[str, Mapping[str, Sequence[pathlib.Path]]],
) -> dict[str, dict[tuple[str, Group], dict[str, float]]]:
    """System -> (task, group) -> bucket -> its score, the mean over seeds."""
    found: dict[str, dict[tuple[str, Group], dict[str, list[float]]]] = {}
    for name, of_name in made.items():
        for sweep in _read_sweeps(of_name):
            for row in sweep.rows:
                if row.bucket is not None and row.score is not None:
                    # What is prompted with a bucket competes with what is adapted to it as a whole.
                    is_prompted = row.method == PROMPT
                    group = Group(row.language, row.shots) if is_prompted else row.group
                    groups = found.setdefault(name, {}).setdefault((row.task, group), {})
                    groups.setdefault(str(row.bucket), []).append(row.score)
    return {
        name: {
            group: {bucket: statistics.fmean(of) for bucket, of in buckets.items()}
            for group, buckets in groups.items()
        }
        for name, groups in found.items()
    }


def bucket_tests(
    scores: Mapping[str, Mapping[tuple[str, Group], Mapping[str, float]]], names: Sequence[str]
) -> Iterator[Table]:
    """Tests new systems against others over the buckets that both were adapted to, by task."""
    others = [name for name in scores if name not in names]
    for task in dict.fromkeys(task for of_name in scores.values() for task, _ in of_name):
        pairs = [(n, o) for n in names if n in scores for o in others]
        groups = [
            group
            for group in dict.fromkeys(g for n in names for t, g in scores.get(n, ()) if t == task)
            if any((task, group) in scores[other] for other in others)
        ]
        rows = {
            f'{new} minus {other}': [
                tests.t_test(scores[new].get((task, g), {}), scores[other].get((task, g), {}))
                for g in groups
            ]
            for new, other in pairs
        }
        if rows and groups:
            columns = [Column(f'K={g.shots}', f'{g.language} {g.method}') for g in groups]
            title = f'Differences of {task} over buckets'
            yield tests.table(title, columns, rows, 't-test', 2)
