"""Runs by the setting that they follow and the model that they begin from, as a paper has them.

A system of a board is a setting and a model: a multilingual run, or the monolingual runs of one
model in all languages together. Their baselines, and what the paper prints, are apart.
"""

import dataclasses
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from xlbench import benchmarks
from xlbench.benchmarks import PaperTable, ParallelBenchmark
from xlbench.benchmarks.paper import RATING
from xlbench.metrics import fitted_rating
from xlbench.reporting import predictions, systems as systems_lib, tables
from xlbench.reporting.results import Result, Run, task_name
from xlbench.reporting.sections import Section
from xlbench.reporting.systems import Pick, System
from xlbench.reporting.tables import Cell, Column, Row, Table
from xlbench.system import errors

Key = tuple[str, str]  # A setting and a model.


class Compared(NamedTuple):
    """Our cells of a row such as ('qg', 'mT5', 'en-de'), and those of the paper, if it compares."""

    labels: Sequence[str]
    cells: Sequence[Cell]
    printed: Sequence[Cell] = ()
    kind: str = 'run'

    @property
    def rows(self) -> list[Row]:
        """Our row, and below it the paper's, if there is anything in it."""
        name = ' '.join(filter(None, self.labels))
        paper = Row(f'{name} (paper)', 'paper', tuple(self.printed))
        ours = Row(name, self.kind, tuple(self.cells))
        return [ours] if paper.is_missing else [ours, paper]


@dataclasses.dataclass(frozen=True)
class Board:
    """The systems of a benchmark, each under its setting and model.

    Attributes:
      chains: by model, systems that generate in one language and translate what they wrote.
      data: 'sample', 'official' or 'other'.
      notes: what has to be said of the data and the runs, about the data first.
      others: systems and runs that follow no setting, by name.
    """

    benchmark: ParallelBenchmark
    systems: Mapping[Key, System]
    chains: Mapping[str, System]
    data: str
    split: str
    notes: tuple[str, ...]
    others: tuple[str, ...] = ()

    @property
    def is_official(self) -> bool:
        """Returns True if the paper's numbers may stand beside ours."""
        return self.data == 'official' and self.split == 'test'

    @property
    def picks(self) -> tuple[Pick, ...]:
        """The runs of all systems."""
        return tuple(p for s in (*self.systems.values(), *self.chains.values()) for p in s.picks)

    def models(self, scenarios: Sequence[str] = ()) -> tuple[str, ...]:
        """The models that have a run in one of some settings, or that the paper has."""
        ours = {m: None for (s, m) in self.systems if not scenarios or s in scenarios}
        theirs = self.benchmark.paper_models
        return (*theirs, *(model for model in ours if model not in theirs))

    def tasks(self, scenario: str, task: str) -> tuple[str, ...]:
        """The SeqIO tasks of a setting: one of the benchmark's tasks in all its languages."""
        pairs = self.benchmark.pairs(scenario)
        return tuple(self.benchmark.task_name(task, *pair) for pair in pairs)

    def cell(self, key: Key, tasks: Sequence[str], score: str, decimals: int = 1) -> Cell:
        """The mean of a score over tasks and seeds; missing if one of the tasks was not scored."""
        system = self.systems.get(key)
        return system.cell(score, tasks, decimals) if system else Cell()

    def paper_cell(self, key: Key, tasks: Sequence[str], score: str, decimals: int = 1) -> Cell:
        """The mean of a score of the paper in the same place, beside official data.

        Its ensemble metric stands where ours is a fitted rating.
        """
        scenario, model = key
        if not self.is_official or model not in self.benchmark.paper_models:
            return Cell()
        paper = systems_lib.paper(self.benchmark, model, scenario, tasks, model)
        return paper.cell('ensemble' if score == RATING else score, tasks, decimals)

    def printed(
        self, paper_table: PaperTable, places: Iterable[tuple[Mapping[str, str], str]]
    ) -> list[Cell]:
        """Returns what a table of the paper prints, by key and score, beside official data."""
        texts = [paper_table.printed_value(*place) for place in places] if self.is_official else []
        return [Cell(text=text or '-') for text in texts]

    def table(
        self,
        paper_table: PaperTable,
        columns: Sequence[Column],
        rows: Sequence[Compared],
        said: Sequence[str],
        head: str = 'task, model',
        *,
        about: str = '',
        is_whole: bool = False,
    ) -> Table:
        """A table of scores, with notes on it and on what no run fills.

        A table that `is_whole` shows the rows without anything, too. For `head` and `about` see
        `Table`.
        """
        ours = [row for row in rows if row.kind == 'run']
        empty = [[cell.is_missing for cell in row.cells] for row in ours]
        if all(map(all, empty)):
            names = paper_table.values('scenario')
            return Table(paper_table.short, missing=f'no run follows {" or ".join(names)}')
        gaps = tables.gaps([row.labels for row in ours], [[head.label] for head in columns], empty)
        others = f'Left out, as they follow no setting: {", ".join(self.others)}.'
        made = [row.rows for row in rows]
        return Table(
            paper_table.heading,
            tuple(columns),
            tuple(r for of in made if is_whole or not all(r.is_missing for r in of) for r in of),
            head,
            (*self.notes, *said, *gaps, *([others] if self.others else [])),
            about,
        )

    def scores(self) -> tuple[str, ...]:
        """The scores that every result has, those that the benchmark shows first."""
        of_results = [list(r.scores) for pick in self.picks for r in pick.results.values()]
        shared = [s for s in (of_results or [[]])[0] if all(s in names for names in of_results)]
        first = [score for score in self.benchmark.scores if score in shared]
        return tuple(dict.fromkeys([*first, *shared]))

    def main_score(self) -> str:
        """The score that stands for a text: the fitted rating, else the benchmark's main one."""
        return RATING if RATING in self.scores() else self.benchmark.scores[0]


def read(sections: Sequence[Section], benchmark: ParallelBenchmark, rating: str) -> Board:
    """Sorts the runs of a benchmark, and chains of models, by setting and model.

    `rating` is the file of a fitted rating, which is predicted for every text; '' for none.

    Raises:
      UserError: no run is of the benchmark, or they were scored on different splits.
    """
    if not sections:
        raise errors.UserError(f'none of the runs has results on tasks of {benchmark.name}')
    if len(sections) > 1:
        splits = ', '.join(section.split for section in sections)
        raise errors.UserError(
            f'the runs were scored on different splits ({splits}); choose one with --split'
        )
    (section,) = sections
    groups: dict[Key, list[Pick]] = {}
    chained: dict[str, list[Pick]] = {}
    others = []
    for pick in section.picks:
        if rating:
            rated = {task: _with_rating(r, rating) for task, r in pick.results.items()}
            pick = dataclasses.replace(pick, results=rated)
        if pick.chain[1:] and pick.chain[-1].startswith('translate:'):
            model = _model_of_chain(benchmark, pick.chain[0], section.picks)
            chained.setdefault(model, []).append(pick)
        elif (key := _key(benchmark, pick.run)) is None:
            others.append(pick.run.system or str(pick.run.workdir))
        else:
            groups.setdefault(key, []).append(inside(pick))
    systems = {}
    for (scenario, model), picks in groups.items():
        for system, _ in systems_lib.columns(model, picks):
            systems[scenario, system.name] = system
    chains = {s.name: s for model, p in chained.items() for s, _ in systems_lib.columns(model, p)}
    official = section.data == 'official' and section.split == 'test'
    return Board(
        benchmark,
        systems,
        chains,
        section.data,
        section.split,
        (section.data_note, *([benchmark.paper_note] if official else [])),
        tuple(dict.fromkeys(others)),
    )


def model_of(benchmark: benchmarks.Benchmark, run: Run) -> str:
    """The model of a run as the paper calls it, else what its parameters come from.

    Example: a run from google/mt5-base -> mT5. A run of the sample begins from random parameters;
    xlbench.reproduce names its folder after the model, and has a folder of records beside it.
    """
    if not run.config.get('init_from') and (run.workdir.parent / 'reproduce').is_dir():
        for model in benchmark.paper_models:
            if run.workdir.name.startswith(f'{model}-'):
                return model
    name = systems_lib.model_name(run)
    for model, part in benchmark.paper_checkpoints.items():
        if part in name.lower():
            return model
    return name


def inside(pick: Pick) -> Pick:
    """A run with the results of its own setting alone; it may have scored others besides."""
    tasks = pick.run.scenario.evaluate if pick.run.scenario else ()
    return dataclasses.replace(pick, results={t: r for t, r in pick.results.items() if t in tasks})


def _key(benchmark: benchmarks.Benchmark, run: Run) -> Key | None:
    scenario = run.scenario
    if run.system or scenario is None or not scenario.mixture.startswith(f'{benchmark.name}_'):
        return None
    return scenario.name, model_of(benchmark, run)


def _model_of_chain(benchmark: benchmarks.Benchmark, first: str, picks: Sequence[Pick]) -> str:
    """The model of a chain's first stage: that of the run whose workdir it names, else the name."""
    place = first.partition('@')[0]
    for pick in picks:
        if pick.run.workdir.resolve().name == place.rstrip('/').rpartition('/')[2]:
            return model_of(benchmark, pick.run)
    known = (m for m, part in benchmark.paper_checkpoints.items() if part in first.lower())
    return next(known, first)


def _with_rating(result: Result, path: str) -> Result:
    """A result with the rating among its scores and those of its examples."""
    rows = predictions.of_result(result)
    if not rows or any(row.prediction is None for row in rows.values()):
        return result  # It has no texts, or not those of a system that writes some.
    if not (lang := task_name(result.task).target):  # A task of the user's own.
        return result
    references = [row.references or [row.target] for row in rows.values()]
    is_single = all(len(texts) == 1 for texts in references)
    targets: Sequence[Any] = [texts[0] for texts in references] if is_single else references
    rating = fitted_rating.FittedRating(path, lang)
    texts = [row.prediction or '' for row in rows.values()]
    values = [of_text[RATING] for of_text in rating.per_example(targets, texts)]
    return msgspec.structs.replace(
        result,
        scores={**result.scores, RATING: statistics.fmean(values)},
        signatures={**result.signatures, 'FittedRating': rating.signature},
        added={RATING: dict(zip(rows, values, strict=True))},
    )
