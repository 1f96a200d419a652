"""The outcome of commands: the tables of a paper from their runs, as text and files, and its gaps.

Scores that a table shows and finished runs lack are added to the runs before.
"""

import dataclasses
import functools
import pathlib
import re
from collections.abc import Iterable, Mapping, Sequence

from xlbench import benchmarks
from xlbench.benchmarks import FEWSHOT, Scenario
from xlbench.benchmarks.paper import PaperTable
from xlbench.benchmarks.recipe import Recipe
from xlbench.fewshot import report as fewshot_report
from xlbench.fewshot.analysis import systems as sweep_systems, tables as sweep_tables
from xlbench.fewshot.analysis.sweeps import Sweep
from xlbench.fewshot.results import PROMPT, Group
from xlbench.reporting import render, results
from xlbench.reporting.paper_tables import making
from xlbench.reporting.paper_tables.material import Material, RatedText
from xlbench.reporting.results import Result, Run
from xlbench.reporting.tables import Table
from xlbench.reproduce import steps as steps_lib
from xlbench.reproduce.running import State
from xlbench.reproduce.steps import Settings
from xlbench.system import files
from xlbench.system.command_line import say
from xlbench.system.errors import UserError

Made = Mapping[str, Sequence[pathlib.Path]]  # Experiment -> the folders of its finished runs.
Results = Mapping[tuple[str, str], Result]  # By task and split.

_SEED = re.compile(r'_seed\d+$')  # As xlbench.evaluate writes the names of workdirs.
# The tables, their text in Markdown, and what stands below them.
Written = tuple[Sequence[Table], str, Sequence[str]]


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The results of the commands of experiments; `gaps` says of a step why it has none."""

    recipe: Recipe
    experiments: Sequence[str]
    settings: Settings
    state: State
    gaps: Mapping[str, str]

    def written(self, table: PaperTable, metrics: Sequence[str]) -> Written:
        """A table; its files are written, too; `metrics` are names that the user gives."""
        benchmark = self.recipe.benchmark
        finished: list[Table] = []
        lacking: list[str] = []
        parts = self.heading(table)
        chosen = [name for name in table.experiments if name in set(self.experiments)]
        rated = self.settings.rated if table.is_judged else ()
        if not table.experiments or (table.instead and not rated):
            parts.append(f'Not made here: {table.instead}.')
        else:
            made = self.folders(chosen)
            lacking = fill(self.recipe, table, made, metrics)
            figures = self.state.folder / 'figures' / benchmark
            tables, drawn = shown(self.recipe, table, made, figures, rated)
            parts += [*map(render.markdown, tables), *(f'figure: {path}' for path in drawn)]
            finished = [one for one in tables if not one.missing]
            parts += [render.items(lacking)] if lacking else []
        parts += (notes := self.notes(chosen))
        name = f'{benchmark}-{table.name.replace(" ", "-")}'
        text = write(self.state.folder / 'tables' / name, parts, finished)
        return finished, text + '\n', (*lacking, *notes)

    def folders(self, experiments: Iterable[str]) -> dict[str, list[pathlib.Path]]:
        """The folders of the runs of each experiment, of those that are finished."""
        made: dict[str, dict[pathlib.Path, None]] = {}
        for name in experiments:
            for command in self.recipe.experiments[name].commands:
                for step in steps_lib.step_names(self.recipe, command, self.settings):
                    if step not in self.gaps:
                        made.setdefault(name, {})[self.state.steps[step].folder] = None
        return {name: list(of_one) for name, of_one in made.items()}

    def heading(self, table: PaperTable) -> list[str]:
        """The title, and what has to be known before the numbers are."""
        title = f'# {self.recipe.benchmark}, {table.name}: {table.title}'
        if self.settings.size == 'paper':
            return [title]
        said = 'Embedded sample corpora and small models: scores cannot be compared with the paper.'
        if self.settings.steps != 1:
            share = f'{self.settings.steps:g}'
            said += f' Trained for {share} of the steps: the scores are meaningless.'
        if self.settings.examples:
            said += f' Scored on {self.settings.examples} examples of each task.'
        return [title, said]

    def notes(self, experiments: Sequence[str]) -> list[str]:
        """Gaps with their reasons, and notes on models."""
        recipe, settings = self.recipe, self.settings
        lacking: dict[str, dict[str, None]] = {}  # Reason -> experiments.
        engines: set[str] = set()
        for name in experiments:
            for command in recipe.experiments[name].commands:
                flags = ' '.join(recipe.commands[command].flags)
                engines |= {one for one in recipe.stand_ins if f'{{engine {one} ' in flags}
                for step in steps_lib.step_names(recipe, command, settings):
                    if step in self.gaps:
                        reason = re.sub('^(it needs [^ ]+: )+', '', self.gaps[step])
                        lacking.setdefault(reason, {})[name] = None
        lines = [f'{", ".join(names)}: {reason}' for reason, names in lacking.items()]
        blocks = ['Missing:\n\n' + render.items(lines)] if lines else []
        for one in sorted(engines):
            theirs = recipe.stand_ins[one].rstrip('.')
            blocks.append(f"Stand-in: {one} translates in place of the paper's {theirs}.")
        named = {recipe.experiments[name].model for name in experiments}
        notes = [note for model, note in recipe.notes.items() if model in named]
        return [*blocks, *([render.items(notes)] if notes and settings.size == 'paper' else [])]


def write(path: pathlib.Path, parts: Iterable[str], tables: Sequence[Table]) -> str:
    """Writes `parts` as Markdown, and the tables alone as LaTeX and CSV; gives the Markdown."""
    text = '\n\n'.join(filter(None, parts)) + '\n'
    path.parent.mkdir(parents=True, exist_ok=True)
    files.write(f'{path}.md', text)
    for suffix, text_of in render.FORMATS.values() if tables else ():
        if suffix != 'md':
            files.write(f'{path}.{suffix}', text_of(tables))
    return text


def shown(
    recipe: Recipe,
    table: PaperTable,
    made: Made,
    output: pathlib.Path,
    rated: Sequence[RatedText] = (),
) -> tuple[list[Table], list[pathlib.Path]]:
    """A table or figure of a paper from finished runs or sweeps: tables, and files of pictures.

    A table that cannot be made says why. Pictures are written into `output`; `rated` are texts of
    the runs, with the ratings of judges.
    """
    if recipe.benchmark == 'fewshot':
        return _of_sweeps(table, made, output)
    runs = read(recipe, table, made)
    if not runs:
        return [], []
    material = Material(
        benchmarks.get(recipe.benchmark), runs, rated=rated, tasks=table.values('task')
    )
    tables, figures = making.parted(making.make(material, table))
    return tables, making.write_figures(figures, output)


def read(recipe: Recipe, table: PaperTable, made: Made) -> list[Run]:
    """The runs of experiments, each with its place in the paper's tables.

    A run is shown as if it followed the scenario of its experiment, which may be another one that
    trains on the same examples; results that this does not evaluate are left out. Variants do not
    name the seed of the model that ranked their candidates, so that the runs of other seeds have
    them, too. Example: test-rerank-mBERT_multi_seed1 -> test-rerank-mBERT_multi.
    """
    benchmark = benchmarks.get(recipe.benchmark)
    runs: dict[tuple[pathlib.Path, str, str], Run] = {}
    for name, folders in made.items():
        experiment = recipe.experiments[name]
        scenario = benchmarks.parse_mixture(experiment.mixture) if experiment.mixture else None

        def kept(by_task: Results, scenario: Scenario | None = scenario) -> Results:
            # Those that may choose a step are others.
            covered = {'validation': scenario.select} if scenario else {}
            return {
                (task, _SEED.sub('', split) if table.variants else split): result
                for (task, split), result in by_task.items()
                if not scenario or task in covered.get(split, scenario.evaluate)
            }

        for run in map(results.read_run, folders):
            has_own = run.system or run.config.get('init_from') or not benchmark.paper_checkpoints
            run = dataclasses.replace(
                run,
                place={**experiment.key, 'name': name},
                model=run.model if has_own else experiment.model,  # As in the sample.
                mixture=experiment.mixture,
                evaluations={step: kept(of_step) for step, of_step in run.evaluations.items()},
                baselines={key: kept(of_one) for key, of_one in run.baselines.items()},
            )
            # A run may be shown in two scenarios.
            runs[run.workdir, run.model, run.mixture] = run
    return list(runs.values())


def of_sweep(
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


def folders_of(made: Made) -> list[pathlib.Path]:
    """The folders of the runs of all experiments, each once."""
    return list(dict.fromkeys(folder for of_one in made.values() for folder in of_one))


def read_sweeps(made: Made) -> list[Sweep]:
    """The sweeps of experiments; others have trained source models alone."""
    folders = (folder for folder in folders_of(made) if (folder / 'results.jsonl').is_file())
    return [Sweep(folder) for folder in folders]


def _of_sweeps(
    table: PaperTable, made: Made, output: pathlib.Path
) -> tuple[list[Table], list[pathlib.Path]]:
    """The tables and figures of sweeps, and of other source models, of few-shot transfer."""
    sweeps = read_sweeps(made)
    if 'attention' in table.made_by and sweeps:
        from xlbench.fewshot import attention  # With jax, which no other table needs.

        return [attention.of_paper(sweeps[0])], []
    others = [str(one) for one in folders_of(made) if not (one / 'results.jsonl').is_file()]
    systems = sweep_systems.systems(sweeps, others) if sweeps else []
    makers = [sweep_tables.MAKERS[n] for n in table.made_by if n in sweep_tables.MAKERS]
    tables = [
        dataclasses.replace(made_of, title=f'{system.title}: {made_of.title}')
        for make in makers
        for system in systems
        for made_of in [make(system)]
    ]
    figures = [name for name in table.made_by if name not in sweep_tables.MAKERS]
    if figures and sweeps:
        fewshot_report.write(sweeps, str(output))
        drawn = [path for name in figures for path in sorted(output.glob(f'{name}-*'))]
        why = f'these sweeps are not sufficient for it; {output / "report.md"} says why'
        return tables if drawn else [*tables, Table(table.title, missing=why)], drawn
    by_task = {system.task: system for system in systems}
    if table.printed != 'fewshot_scores' or len(by_task) < len(systems):
        return tables, []
    said = dict.fromkeys(note for one in tables for note in one.notes)
    value = functools.partial(of_sweep, by_task)
    filled = making.fill(FEWSHOT, table, value, 'our sweeps', tuple(said))
    is_official = any(system.data == 'official' for system in systems)
    return [filled, *(making.of_paper(FEWSHOT, table.number) if is_official else [])], []


def fill(recipe: Recipe, table: PaperTable, made: Made, metrics: Sequence[str]) -> list[str]:
    """Adds the scores of a table to the test results of all its runs.

    The user may give metrics, each for the scores of the metric that its name begins with. Returns
    a line for each score that stays away, with what to type for it.
    """
    if recipe.benchmark == 'fewshot':
        return []
    from xlbench.reporting import adding

    given = {name.partition('=')[0].removesuffix('_clidsum'): name for name in metrics}
    lines: dict[str, None] = {}
    known = benchmarks.get(recipe.benchmark).metrics  # Of scores that the tasks do not give.
    for score, usual in ((score, known[score]) for score in table.scores if score in known):
        for folder in folders_of(made):
            try:
                if adding.add(folder, [given.get(score, usual)], say=say):
                    say(f'{folder}: added {score}')
            except UserError as error:
                reason = str(error)
                if score == 'fitted_rating' and 'takes a file' in reason:
                    reason = 'no fitted rating is published; --metrics=fitted_rating=FILE takes '
                    reason += 'your own'
                elif ': task ' in reason:  # Of a task and its folder: what holds for all.
                    reason = reason.rpartition(': task ')[2].partition(': ')[2]
                lines[f'{score}: {reason}'] = None
    return list(lines)
