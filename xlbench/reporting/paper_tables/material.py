"""The material of a paper's tables and figures: runs by setting and model, and ratings of texts.

A system is a setting and a model: a multilingual run, or the monolingual runs of one model in all
languages together. Their baselines, and what the paper prints, are apart.
"""

import dataclasses
import functools
import hashlib
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

import msgspec

from xlbench.benchmarks import Benchmark, PaperTable, ParallelBenchmark
from xlbench.benchmarks.paper import RATING
from xlbench.data import readers
from xlbench.metrics import fitted_rating
from xlbench.reporting import predictions, sections as sections_lib, systems as systems_lib, tables
from xlbench.reporting.results import Result, Run, task_name
from xlbench.reporting.sections import Section
from xlbench.reporting.statistics import Correlation
from xlbench.reporting.systems import Pick, System
from xlbench.reporting.tables import Cell, Column, Row, Table
from xlbench.system import errors, files

Key = tuple[str, str]  # A setting and a model.
MEAN = 'mean'  # Of all aspects.


class RatedText(msgspec.Struct):
    """A line of ratings.jsonl, as `python -m xlbench.annotate score` writes it.

    The ratings are the mean of the judges by aspect. The study is known by its title and hash; data
    is 'sample' where the example is made up.
    """

    task: str
    id: str
    prediction: str
    references: Annotated[list[str], msgspec.Meta(min_length=1)]
    ratings: Annotated[dict[str, float], msgspec.Meta(min_length=1)]
    lang: str = ''
    study: str = ''
    data: str = 'files'
    system: str = ''


def read_texts(paths: Sequence[str], lang: str = '') -> tuple[list[RatedText], str]:
    """Reads files of rated texts; `lang` is the language of those that do not say theirs.

    Returns:
      The texts, and the SHA-256 of their lines.

    Raises:
      UserError: a line is no rated text, or lines differ in their aspects.
    """
    texts: list[RatedText] = []
    digest = hashlib.sha256()
    for path in paths:
        for number, line in readers.good(readers.numbered(path)):
            text = files.parse_json(line, RatedText, f'{path}:{number}')
            if texts and text.ratings.keys() != texts[0].ratings.keys():
                raise errors.UserError(f'{path}:{number}: it has other aspects than the first text')
            text.lang = text.lang or lang
            if not text.lang:
                raise errors.UserError(f'{path}:{number}: nothing says its language; set --lang=de')
            texts.append(text)
            digest.update(f'{line}\n'.encode())
    if not texts:
        raise errors.UserError(f'{paths[0]} has no rated texts')
    return texts, digest.hexdigest()


@dataclasses.dataclass(frozen=True)
class Fits:
    """Correlations of regressors and scores with ratings, by target: an aspect, or 'mean'.

    Attributes:
      regressors: target -> regressor -> Pearson's correlation on the texts that choose one.
      scores: target -> score -> correlation on the texts that test; fitted_rating is that of the
        regressor that was chosen for the target.
      notes: what they were fitted on.
    """

    regressors: Mapping[str, Mapping[str, float]] = dataclasses.field(default_factory=dict)
    scores: Mapping[str, Mapping[str, Correlation]] = dataclasses.field(default_factory=dict)
    notes: tuple[str, ...] = ()


def compared(
    labels: Sequence[str], cells: Iterable[Cell], printed: Iterable[Cell] = (), kind: str = 'run'
) -> list[Row]:
    """Our row, such as ('qg', 'mT5', 'en-de'), and below it the paper's, if anything is in it."""
    name = ' '.join(filter(None, labels))
    ours = Row(name, kind, tuple(cells), tuple(labels))
    paper = Row(f'{name} (paper)', 'paper', tuple(printed))
    return [ours] if paper.is_missing else [ours, paper]


@dataclasses.dataclass(frozen=True)
class Material:
    """The inputs of a paper's tables and figures. What lacks its material says so.

    Attributes:
      benchmark: whose paper has them.
      runs: finished runs, and chains that were scored. Those that have a `place` in the paper's
        tables fill these in the paper's own form.
      step: the one that is shown: 'last', 'best', the name of a stage, or a number.
      split: that is shown; by default the test split where it was scored.
      rating: file of a fitted rating, which is predicted for every text; '' for none.
      rated: texts with the ratings of judges.
      fits: how regressors and scores correlate with ratings.
      rough: data root of rough data that was built; '' for none.
      tasks: those whose stages are compared; none: all.
    """

    benchmark: Benchmark
    runs: Sequence[Run]
    step: str | int = 'last'
    split: str | None = None
    rating: str = ''
    rated: Sequence[RatedText] = ()
    fits: Fits = dataclasses.field(default_factory=Fits)
    rough: str = ''
    tasks: tuple[str, ...] = ()

    @functools.cached_property
    def sections(self) -> list[Section]:
        """The sections of the benchmark, as a report of the runs has them."""
        every = sections_lib.sections(self.runs, self.step, self.split)
        return [section for section in every if section.benchmark is self.benchmark]

    @functools.cached_property
    def section(self) -> Section:
        """The only section, that of all that has settings.

        Raises:
          UserError: no run is of the benchmark, or they were scored on different splits.
        """
        if not self.sections:
            raise errors.UserError(
                f'none of the runs has results on tasks of {self.benchmark.name}'
            )
        if len(self.sections) > 1:
            splits = ', '.join(section.split for section in self.sections)
            raise errors.UserError(
                f'the runs were scored on different splits ({splits}); choose one with --split'
            )
        return self.sections[0]

    @property
    def parallel(self) -> ParallelBenchmark:
        """The benchmark; UserError if its tasks are not in parallel languages."""
        if not isinstance(self.benchmark, ParallelBenchmark):
            raise errors.UserError(f'{self.benchmark.name} has no settings of parallel languages')
        return self.benchmark

    @property
    def is_official(self) -> bool:
        """Returns True if the paper's numbers may stand beside ours."""
        return self.section.data == 'official' and self.section.split == 'test'

    @property
    def notes(self) -> tuple[str, ...]:
        """The sentences on the data and the paper, that about the data first."""
        of_paper = (self.benchmark.paper_note,) if self.is_official else ()
        return (self.section.data_note, *of_paper)

    @functools.cached_property
    def systems(self) -> dict[Key, System]:
        """The systems by setting and model; in the end chains of models, whose setting is ''."""
        groups: dict[Key, list[Pick]] = {}
        for pick in self.section.picks:
            key = self._key(pick)
            if self.rating:
                rated = {task: _with_rating(r, self.rating) for task, r in pick.results.items()}
                pick = dataclasses.replace(pick, results=rated)
            if key is not None:
                groups.setdefault(key, []).append(inside(pick) if key[0] else pick)
        return {
            (scenario, system.name): system
            for (scenario, model), picks in sorted(groups.items(), key=lambda item: not item[0][0])
            for system in systems_lib.columns(model, picks)
        }

    @property
    def picks(self) -> list[Pick]:
        """The runs of all systems."""
        return [pick for system in self.systems.values() for pick in system.picks]

    def _key(self, pick: Pick) -> Key | None:
        """The setting and the model of a run; None for what follows no setting."""
        scenario, chain = pick.run.scenario, pick.chain
        if chain[1:] and chain[-1].startswith('translate:'):
            return '', self._model_of_chain(chain[0])
        is_ours = scenario and scenario.mixture.startswith(f'{self.parallel.name}_')
        if pick.run.system or scenario is None or not is_ours:
            return None
        return scenario.name, model_of(self.benchmark, pick.run)

    def _model_of_chain(self, first: str) -> str:
        """The model of its first stage: that of the run whose workdir it names, else the name."""
        folder = first.partition('@')[0].rstrip('/').rpartition('/')[2]
        for pick in self.section.picks:
            if pick.run.workdir.resolve().name == folder:
                return model_of(self.benchmark, pick.run)
        parts = self.benchmark.paper_checkpoints.items()
        return next((model for model, part in parts if part in first.lower()), first)

    @functools.cached_property
    def stages(self) -> tuple[str, str]:
        """The names of the first stage and of the last, of the runs that have two."""
        names = [tuple(run.stages) for run in self.runs if len(run.stages) > 1]
        return (names[0][0], names[0][-1]) if names else ('stage1', 'stage2')

    @functools.cached_property
    def first(self) -> 'Material | None':
        """The runs after their first stage; None if none was scored then."""
        stage, split = self.stages[0], self.section.split
        runs = [
            run
            for run in self.runs
            if any(run.stage_of(step) == stage and run.at(step, split) for step in run.evaluations)
        ]
        return dataclasses.replace(self, runs=runs, step=stage, split=split) if runs else None

    def models(self, scenarios: Sequence[str] = ()) -> tuple[str, ...]:
        """The models that have a run in one of some settings, or that the paper has."""
        ours = (m for s, m in self.systems if s and (not scenarios or s in scenarios))
        return tuple(dict.fromkeys((*self.benchmark.paper_models, *ours)))

    def tasks_of(self, scenario: str, task: str) -> tuple[str, ...]:
        """The SeqIO tasks of a setting: one of the benchmark's tasks in all its languages."""
        pairs = self.parallel.pairs(scenario)
        return tuple(self.benchmark.task_name(task, *pair) for pair in pairs)

    def cell(self, key: Key, tasks: Sequence[str], score: str, decimals: int = 2) -> Cell:
        """The mean of a score over tasks and seeds; missing if one of the tasks was not scored."""
        system = self.systems.get(key)
        return system.cell(score, tasks, decimals) if system else Cell()

    def both(
        self, places: Sequence[tuple[Key, Sequence[str]]], score: str, decimals: int = 2
    ) -> tuple[list[Cell], list[Cell]]:
        """The cells of places, each a key and tasks, and the paper's beside official data.

        Its ensemble metric stands where ours is a fitted rating.
        """
        theirs, printed = [Cell()] * len(places), 'ensemble' if score == RATING else score
        for number, ((scenario, model), tasks) in enumerate(places):
            if self.is_official and model in self.benchmark.paper_models:
                paper = systems_lib.paper(self.benchmark, model, scenario, tasks, model)
                theirs[number] = paper.cell(printed, tasks, decimals)
        return [self.cell(*place, score, decimals) for place in places], theirs

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
        rows: Sequence[list[Row]],  # Each as `compared` makes it.
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
        ours = [row for row, *_ in rows if row.kind == 'run']
        empty = [[cell.is_missing for cell in row.cells] for row in ours]
        if all(map(all, empty)):
            names = paper_table.values('scenario')
            return Table(paper_table.short, missing=f'no run follows {" or ".join(names)}')
        gaps = tables.gaps([row.labels for row in ours], [[head.label] for head in columns], empty)
        every = (pick for pick in self.section.picks if self._key(pick) is None)
        others = dict.fromkeys(pick.run.system or str(pick.run.workdir) for pick in every)
        left_out = f'Left out, as they follow no setting: {", ".join(others)}.'
        return Table(
            paper_table.heading,
            tuple(columns),
            tuple(r for of in rows if is_whole or not all(r.is_missing for r in of) for r in of),
            head,
            (*self.notes, *said, *gaps, *([left_out] if others else [])),
            about,
        )

    @functools.cached_property
    def main_score(self) -> str:
        """The score that stands for a text: the fitted rating, else the benchmark's main one."""
        results = [result for pick in self.picks for result in pick.results.values()]
        has_rating = results and all(RATING in result.scores for result in results)
        return RATING if has_rating else self.benchmark.scores[0]


def model_of(benchmark: Benchmark, run: Run) -> str:
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
