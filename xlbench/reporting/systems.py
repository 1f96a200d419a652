"""The systems that are compared: runs at the reported step, baselines, and the paper's systems.

Runs that differ only in the seed are one system. Most benchmarks have a row for each system. Those
that say so (`Benchmark.tables`) have, as in their paper, a row for each language and a few scores
of each training setting side by side: there a run fills one part of a column.
"""

import dataclasses
import itertools
import json
import pathlib
import re
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence

from xlbench import benchmarks
from xlbench.benchmarks import SETTING_TITLES
from xlbench.data import baselines as baselines_lib
from xlbench.reporting.results import Result, Run
from xlbench.reporting.statistics import half_width
from xlbench.reporting.tables import Cell, Column, Row, Table, clean
from xlbench.settings import blocks

_NUMBER = re.compile(r'[-_.]?(seed)?\d+$')  # Of a seed, at the end of a folder's name.
_MOST_KEYS, _LONGEST_SETTING = 30, 60  # Rows and characters of a table of configs.


@dataclasses.dataclass(frozen=True)
class Pick:
    """One run at the step that is reported."""

    run: Run
    step: int
    split: str
    results: Mapping[str, Result]  # By task.
    variant: str = ''  # In what other way it was evaluated than its config says.

    @property
    def chain(self) -> list[str]:
        """The stages of a chain of models. Example: ['RUNS/bart', 'translate:RUNS/wmt']."""
        decodings = (result.decoding or {} for result in self.results.values())
        chained = (d.get('stages') for d in decodings if d.get('method') == 'chain')
        stages = next((one for one in chained if isinstance(one, dict)), {})
        return [name.partition(' ')[2] for name in sorted(stages)]  # '1 RUNS/bart', ...


@dataclasses.dataclass(frozen=True)
class System:
    """One row of a table, or one setting of a table with a row a language.

    Attributes:
      kind: 'run', 'baseline' or 'paper'.
      results: for each seed the results by task; those of a paper are of no examples.
      picks: the runs, for the kind 'run'.
      has_intervals: whether what follows ± is half of the 95 % interval over seeds, and not their
        standard deviation.
    """

    name: str
    kind: str
    results: tuple[Mapping[str, Result], ...]
    picks: tuple[Pick, ...] = ()
    has_intervals: bool = False

    @property
    def tasks(self) -> set[str]:
        """The tasks that it was scored on, with any seed."""
        return set().union(*self.results)

    @property
    def scores(self) -> list[str]:
        """The names of all its scores."""
        every = (result.scores for of_seed in self.results for result in of_seed.values())
        return list(dict.fromkeys(name for scores in every for name in scores))

    def examples(self, task: str) -> list[int]:
        """The numbers of examples that it was scored on, one for each seed that has the task."""
        return [of_seed[task].num_examples for of_seed in self.results if task in of_seed]

    def count(self, tasks: Sequence[str]) -> str:
        """Counts the examples of all tasks; '-' if one of them has no count."""
        counts = [self.examples(task) for task in tasks]
        if not all(min(numbers, default=0) for numbers in counts):
            return '-'
        low, high = (sum(map(choose, counts)) for choose in (min, max))
        return str(low) if low == high else f'{low}-{high}'

    def values(self, score: str, tasks: Sequence[str]) -> list[float]:
        """The mean of a score over tasks of each run that has them; none if one lacks the score."""
        values = []
        for of_seed in self.results:
            if not all(task in of_seed for task in tasks):
                continue  # Some languages of a column may have more seeds than others.
            of_tasks = [of_seed[task].scores for task in tasks]
            if not all(score in scores for scores in of_tasks):
                return []
            values.append(statistics.fmean(scores[score] for scores in of_tasks))
        return values

    def cell(self, score: str, tasks: Sequence[str], decimals: int = 1) -> Cell:
        """The mean of a score over tasks and runs; missing if the system lacks one of them."""
        cell = Cell.of(values := self.values(score, tasks), decimals)
        return cell._replace(spread=half_width(values)) if self.has_intervals else cell


def joined(parts: Iterable[Sequence[Mapping[str, Result]]]) -> tuple[Mapping[str, Result], ...]:
    """The results of parts that were scored on different tasks, as those of one system."""
    together = itertools.zip_longest(*parts, fillvalue={})
    return tuple({t: r for part in of_seed for t, r in part.items()} for of_seed in together)


def runs(picks: list[Pick]) -> list[System]:
    """Makes rows of the runs; those with the same config and another seed together."""
    groups = _seeds(picks)[0]
    systems = []
    for name, members in zip(_group_names(groups), groups, strict=True):
        name += f' ({len(members)} seeds)' if len(members) > 1 else ''
        systems.append(System(name, 'run', tuple(p.results for p in members), tuple(members)))
    return systems


def settings(picks: list[Pick]) -> tuple[list[System], list[str]]:
    """Columns of the runs, a training setting each; and what has to be said about them.

    Runs of one setting share a column as long as they score different languages: a monolingual
    column takes a run a language. Others of that setting are a column of their own, each run put
    to the one that it shares most of its config with.
    """
    by_setting: dict[str, list[Pick]] = {}
    for pick in picks:
        for name, part in _with_setting(pick):
            by_setting.setdefault(name, []).append(part)
    order = list(SETTING_TITLES.values())

    def place(name: str) -> tuple[int, bool]:
        setting, _, variant = name.partition(', ')
        return order.index(setting) if setting in order else len(order), bool(variant)

    names = sorted(by_setting, key=place)
    systems = [system for name in names for system in columns(name, by_setting[name])]
    notes = [
        f'The configs of the runs of {system.name} differ in {differing}.'
        for system in systems
        if (differing := _differing(system.picks))
    ]
    return systems, notes


def columns(name: str, picks: list[Pick]) -> list[System]:
    """Puts runs of one kind together, as long as they score different tasks.

    Runs that differ in the seed only count as one. Where there are several systems, each has the
    folder of its first run behind the name.
    """
    made = []
    shared = _share_columns(_seeds(picks)[0])
    folders = _distinct_names([dataclasses.replace(c[0][0], variant='') for c in shared])
    for folder, column in zip(folders, shared, strict=True):
        label = clean(f'{name} ({folder})' if len(shared) > 1 else name)
        results = joined([[pick.results for pick in run] for run in column])
        members = tuple(pick for run in column for pick in run)
        made.append(System(label, 'run', results, members))
    return made


def baselines(split: str, picks: list[Pick]) -> list[System]:
    """Makes rows of the baselines; a task's scores come from the first run that has them."""
    by_name: dict[str, dict[str, Result]] = {name: {} for name in baselines_lib.NAMES}
    for pick in picks:
        for name, results in pick.run.baselines.items():
            for (task, s), result in results.items():
                if s == split and task in pick.results:
                    by_name.setdefault(name, {}).setdefault(task, result)
    return [
        System(clean(name), 'baseline', (results,)) for name, results in by_name.items() if results
    ]


def papers(benchmark: benchmarks.Benchmark, picks: list[Pick]) -> tuple[list[System], list[str]]:
    """Makes rows of the paper's models in the scenarios of the runs; says what to know of them."""
    tasks = {task for pick in picks for task in pick.results}
    followed = [pick.run.scenario for pick in picks if not pick.run.system]
    # Where systems stand by themselves, what they were scored on says what they compare with.
    followed = followed or [benchmarks.parse_mixture(task) for task in sorted(tasks)]
    lacks = [(scenario, benchmark.paper_lacks(scenario)) for scenario in dict.fromkeys(followed)]
    notes = [why for _, why in lacks if why]
    systems = [
        paper(benchmark, model, name, tasks, f'{model} (paper, {name})')
        for name in dict.fromkeys(s.name for s, why in lacks if s and not why)
        for model in benchmark.paper_models
    ]
    return systems, [*notes, *([benchmark.paper_note] if systems else [])]


def paper(
    benchmark: benchmarks.Benchmark, model: str, scenario: str, tasks: Iterable[str], name: str
) -> System:
    """A model of a paper in a scenario, with the scores that are printed of SeqIO tasks."""
    printed = {
        task: Result(task=task, scores=scores, folder=pathlib.Path())
        for task in tasks
        if (scores := benchmark.paper_scores(model, scenario, *benchmarks.parse_task(task)[1:]))
    }
    return System(name, 'paper', (printed,))


def paper_settings(
    benchmark: benchmarks.Benchmark, model: str, picks: list[Pick]
) -> tuple[list[System], list[str]]:
    """The paper's figures for the settings that the runs follow.

    The paper's model that started from the same checkpoint; all its models where none did.
    """
    settings = {pick.run.scenario.name for pick in picks if pick.run.scenario}
    same = [m for m in benchmark.paper_models if benchmark.paper_checkpoints.get(m) == model]
    tasks = dict.fromkeys(name for pick in picks for name in pick.results)
    every = (
        paper(benchmark, m, setting, tasks, f'{SETTING_TITLES[setting]} ({m}, paper)')
        for m in same or benchmark.paper_models
        for setting in SETTING_TITLES
        if setting in settings
    )
    systems = [system for system in every if system.tasks]
    return systems, [benchmark.paper_note] if systems else []


def model_name(run: Run) -> str:
    """The name of what a run's parameters come from: a checkpoint, or family and size."""
    if run.system:
        return ''
    model = run.config.get('model')
    model = model if isinstance(model, dict) else {}
    fresh = f'{model.get("family", "")} {model.get("size", "")}'.strip() or 'unknown model'
    start = run.config.get('init_from')
    if not isinstance(start, str) or not start:
        return clean(run.model or fresh)
    return clean(pathlib.PurePath(start).name.partition('@')[0])  # Without the revision.


def _with_setting(pick: Pick) -> Iterator[tuple[str, Pick]]:
    """A run's setting with its results; apart those in languages that are no part of it.

    Example: a monolingual run in de that also scores ja -> 'Monolingual' (de), 'Monolingual de'
    (ja: transfer from de). Zero-shot runs may score the language that they were trained on.
    """
    scenario = pick.run.scenario
    if scenario is None:
        yield _with_variant(pick, pick.run.name), pick
        return
    title = SETTING_TITLES.get(scenario.name, scenario.name)
    variant = f', {pick.variant}' if pick.variant else ''
    covered = {*scenario.train, *scenario.evaluate}
    lora = pick.run.config.get('lora')
    if isinstance(lora, dict) and lora.get('languages'):  # Each language has its own adapter.
        covered.update(pick.results)
    inside = {task: r for task, r in pick.results.items() if task in covered}
    other = {task: r for task, r in pick.results.items() if task not in covered}
    for name, results in ((title, inside), (f'{title} {scenario.source}', other)):
        if results:
            yield f'{name}{variant}', dataclasses.replace(pick, results=results)


def _share_columns(runs: list[list[Pick]]) -> list[list[list[Pick]]]:
    """Runs (with their seeds) in as few columns as their languages allow."""
    columns: list[list[list[Pick]]] = []
    for members in runs:
        scored = set(members[0].results)
        free = [c for c in columns if not any(scored & set(other[0].results) for other in c)]
        if free:
            facts = _facts(members[0])
            max(free, key=lambda c: len(facts & _facts(c[0][0]))).append(members)
        else:
            columns.append([members])
    return columns


def repeats(picks: list[Pick]) -> list[str]:
    """Says of each run with the config and the seed of another one, whether their scores differ."""
    notes = []
    for again, first in _seeds(picks)[1]:
        said = 'all scores are equal'
        if again.step != first.step:
            said = f'not comparable, as it ends at step {again.step} and the other at {first.step}'
        elif any(r.scores != first.results[task].scores for task, r in again.results.items()):
            said = 'scores differ'
        notes.append(
            f'{_place(again)} repeats {_place(first)}, seed {first.run.seed}, and is left out of '
            f'means over seeds. Check of determinism: {said}.'
        )
    return notes


def _place(pick: Pick) -> str:
    folder = pick.run.workdir.resolve()
    return clean(f'{folder.parent.name}/{folder.name}')


def config_table(picks: Sequence[Pick]) -> Table | None:
    """The config keys in which runs differ, a column a config; None where they do not."""
    distinct: dict[str, list[Pick]] = {}
    for pick in picks:
        if not pick.run.system:
            distinct.setdefault(pick.run.config_hash, []).append(pick)
    groups = [[dataclasses.replace(p, variant='') for p in of_one] for of_one in distinct.values()]
    texts = [
        {
            key: value if isinstance(value, str) else json.dumps(value, default=str)
            for key, value in blocks.leaves(of_one[0].run.config)
            if key.rpartition('.')[2] not in ('seed', 'workdir')
        }
        for of_one in groups
    ]
    every = dict.fromkeys(key for of_one in texts for key in of_one)
    keys = [key for key in every if len({of_one.get(key) for of_one in texts}) > 1]
    if not keys:
        return None
    rows = tuple(
        Row(clean(key), 'config', tuple(Cell(text=_setting(t.get(key))) for t in texts))
        for key in keys[:_MOST_KEYS]
    )
    more = len(keys) - _MOST_KEYS
    return Table(
        'Config keys that differ',
        Column.named(_group_names(groups)),
        rows,
        'key',
        (f'{more} more keys differ.',) if more > 0 else (),
    )


def _setting(text: str | None) -> str:
    if text is None:
        return '-'
    text = clean(text)
    return text if len(text) <= _LONGEST_SETTING else f'{text[: _LONGEST_SETTING - 1]}…'


def _seeds(picks: list[Pick]) -> tuple[list[list[Pick]], list[tuple[Pick, Pick]]]:
    """The runs by config and tasks, one a seed; and the repeats of a seed, each with its first."""
    groups: dict[tuple[str, ...], dict[str, Pick]] = {}
    again = []
    for pick in picks:
        # Runs with different tasks, or decoded in different ways, have no common mean.
        run = pick.run
        key = (run.config_hash, run.model, run.mixture, pick.variant, *sorted(pick.results))
        first = groups.setdefault(key, {}).setdefault(str(pick.run.seed), pick)
        if first is not pick:
            again.append((pick, first))
    return [list(group.values()) for group in groups.values()], again


def _facts(pick: Pick) -> set[tuple[str, str]]:
    """The leaves of a run's config, but for those that name its language: (key, value)."""
    language = {'seed', 'mixture', 'tasks'}
    return {
        (key, json.dumps(value, default=str))
        for key, value in blocks.leaves(pick.run.config)
        if key.rpartition('.')[2] not in language
    }


def _differing(picks: Sequence[Pick]) -> str:
    """Keys in which the configs of runs differ, but for their seeds; '' if they do not."""
    facts = [_facts(members[0]) for members in _seeds([*picks])[0]]
    keys = sorted({key for key, _ in facts[0].union(*facts) - facts[0].intersection(*facts)})
    return ', '.join(keys[:4]) + (f' and {len(keys) - 4} more keys' if len(keys) > 4 else '')


def _group_names(groups: list[list[Pick]]) -> list[str]:
    """Names groups of runs: RUNS/mt5_1 and RUNS/mt5_2 are mt5, if nothing else has that name."""
    names = _distinct_names([members[0] for members in groups])
    shared = [
        {_with_variant(pick, _NUMBER.sub('', pick.run.name)) for pick in members}
        for members in groups
    ]
    for place, (members, of_members) in enumerate(zip(groups, shared, strict=True)):
        name = min(of_members)
        is_free = shared.count(of_members) == 1 and name not in names
        if len(members) > 1 and len(of_members) == 1 and name and is_free:
            names[place] = name
    return names


def _distinct_names(picks: list[Pick]) -> list[str]:
    """Names runs by their folders; those of equal names with the folder above, too."""
    names = [_with_variant(pick, pick.run.name) for pick in picks]
    told = list(names)
    for place, pick in enumerate(picks):
        if names.count(names[place]) > 1:
            folder = pick.run.workdir.resolve()
            # The name of a system is its owner's.
            known = (f'{names[place]} ({folder.name})', f'{folder.parent.name}/{names[place]}')
            told[place] = clean(known[0] if pick.run.system else known[1])
    return told


def _with_variant(pick: Pick, name: str) -> str:
    """Example: RUNS/mtg, filed as test-beam-num_beams4 -> 'mtg, beam-num_beams4'."""
    return f'{name}, {clean(pick.variant)}' if pick.variant else name
