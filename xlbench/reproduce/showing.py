"""The tables of a paper from the runs that were made for them, with what is missing named.

Scores that a table shows and finished runs lack are added to the runs before.
"""

import dataclasses
import functools
import itertools
import pathlib
import re
import statistics
from collections.abc import Callable, Mapping, Sequence

from xlbench import benchmarks
from xlbench.benchmarks import FEWSHOT, MRS
from xlbench.benchmarks.paper import Head, Key, Line, PaperTable
from xlbench.benchmarks.recipe import Recipe
from xlbench.fewshot import report as fewshot_report
from xlbench.fewshot.analysis import systems as sweep_systems, tables as sweep_tables
from xlbench.fewshot.analysis.sweeps import Sweep
from xlbench.fewshot.results import PROMPT, Group
from xlbench.reporting import layout, predictions, printed, results, sections as sections_lib
from xlbench.reporting.notes import SAMPLE_DATA, signatures
from xlbench.reporting.paper_tables import making
from xlbench.reporting.paper_tables.ratings import RatedText
from xlbench.reporting.printed import Sheet
from xlbench.reporting.results import Result, Run
from xlbench.reporting.systems import System, joined
from xlbench.reporting.tables import Table
from xlbench.system.errors import UserError

# What shows scores of runs, by model, scenario and task, so that they fill a paper's form.
_OF_SCORES = ('', 'scores', 'by_language')

_MESSAGES = 4  # That table 2 of MRS shows.

_Key = tuple[pathlib.Path, str, str]
_LANGUAGE = re.compile(r'^<\w+> ')  # What a generator reads before a message.
_SEED = re.compile(r'_seed\d+$')  # As xlbench.evaluate writes the names of workdirs.


@dataclasses.dataclass(frozen=True)
class Shown:
    """Holds the results that exist for a table.

    Attributes:
      tables: with their notes; those that cannot be made say why.
      files: pictures that were drawn.
      sheets: the tables in the paper's own form, which stand in their place.
      notes: what stands below all of them.
    """

    tables: tuple[Table, ...] = ()
    files: tuple[pathlib.Path, ...] = ()
    sheets: tuple[Sheet, ...] = ()
    notes: tuple[str, ...] = ()


def shown(
    recipe: Recipe,
    table: PaperTable,
    made: Mapping[str, Sequence[pathlib.Path]],
    output: pathlib.Path,
    rated: Sequence[RatedText] = (),
) -> Shown:
    """The tables of a report of finished runs or sweeps, in the form of the paper.

    Args:
      recipe: of the benchmark.
      table: of the paper.
      made: experiment -> the folders of its runs, without those that are not finished.
      output: a folder for figures.
      rated: texts of the runs, with the ratings of judges.
    """
    if recipe.benchmark == 'fewshot':
        return _of_sweeps(table, made, output)
    benchmark = benchmarks.get(recipe.benchmark)
    runs, places = read(recipe, table, made)
    if not runs:
        return Shown()
    if table.is_judged and table.shows != 'ratings':
        return _judged(recipe, table, made, rated)
    if table.shows == 'replies':
        return Shown(sheets=(_replies(table, list(runs.values())),))
    if table.rows and table.shows in _OF_SCORES:
        return Shown(sheets=_sheets(recipe, table, list(runs.values()), places))
    if table.shows in making.MAKERS:
        material = making.Material(
            benchmark, list(runs.values()), rated=rated, tasks=table.values('task')
        )
        section = making.section(material, [table])
        drawn = making.write_figures(section.figures, output)
        return Shown(section.besides, tuple(drawn))
    sections = sections_lib.sections(list(runs.values()), variants=table.variants)
    return Shown(tuple(itertools.chain.from_iterable(map(layout.tables, sections))))


def read(
    recipe: Recipe, table: PaperTable, made: Mapping[str, Sequence[pathlib.Path]]
) -> tuple[dict[_Key, Run], dict[_Key, Key]]:
    """The runs of experiments, see `shown`, and the key of the experiment of each."""
    benchmark = benchmarks.get(recipe.benchmark)
    runs: dict[_Key, Run] = {}
    places: dict[_Key, Key] = {}
    for name, folders in made.items():
        experiment = recipe.experiments[name]
        for folder in folders:
            run = results.read_run(folder)
            if benchmark.paper_checkpoints and not (run.system or run.config.get('init_from')):
                run = dataclasses.replace(run, model=experiment.model)  # As in the sample.
            run = _in_scenario(run, experiment.mixture) if experiment.mixture else run
            run = _without_seeds(run) if table.variants else run
            runs[_key(run)] = run
            places[_key(run)] = experiment.key
    return runs, places


def _sheets(
    recipe: Recipe, table: PaperTable, runs: list[Run], places: Mapping[_Key, Key]
) -> tuple[Sheet, ...]:
    """A table in the paper's own form, and the paper's numbers below it on official data."""
    benchmark = benchmarks.get(recipe.benchmark)
    systems, notes, official = systems_of(table, runs, places)
    made = printed.of_systems(benchmark, table, systems, notes)
    theirs = printed.of_paper(benchmark, table.number) if official else []
    return made, *theirs


def systems_of(
    table: PaperTable, runs: Sequence[Run], places: Mapping[_Key, Key]
) -> tuple[dict[tuple[str, str], System], tuple[str, ...], bool]:
    """The systems of runs, by model and scenario; notes; whether the data is the official test."""
    groups: dict[tuple[str, str], list[System]] = {}
    notes: dict[str, None] = {}
    official = False
    for section in sections_lib.sections(runs):
        for system in section.systems:
            run = system.picks[0].run if system.picks else None
            if run and (key := places.get(_key(run))):
                scenario = _scenario(run, key)
                groups.setdefault((key['model'], scenario), []).append(system)
        notes |= dict.fromkeys(section.notes[:1])
        scores = [score for head in table.columns for score in head.scores]
        notes |= dict.fromkeys(signatures(section.picks, scores, shared=True))
        official |= section.data == 'official' and section.split == 'test'
    systems = {place: _one(place[0], members) for place, members in groups.items()}
    return systems, tuple(notes), official


def _scenario(run: Run, key: Key) -> str:
    """The column of a run, where its experiment is of one; scored texts do not know theirs."""
    if 'scenario' not in key:
        return ''
    return run.scenario.name if run.scenario else key['scenario'] if run.system else ''


def _replies(table: PaperTable, runs: Sequence[Run]) -> Sheet:
    """Messages with the replies of both models: table 2 of arXiv:2106.02017, with our texts."""
    written: dict[str, dict[str, str]] = {'generation': {}, 'retrieval': {}}
    for run in runs:
        for (task, split), result in run.evaluations[max(run.evaluations)].items():
            kind = benchmarks.parse_task(task).task
            if split == 'test' and kind in written:
                found = predictions.of_result(result).values()
                written[kind] |= {_LANGUAGE.sub('', row.input): row.texts(1)[0] for row in found}
    both = [message for message in written['generation'] if message in written['retrieval']]
    replies = [
        {'message': m, **{kind: of[m] for kind, of in written.items()}} for m in both[:_MESSAGES]
    ]
    rows = tuple(
        Line((f'{part.capitalize()}:',), {'place': str(place), 'score': part})
        for place, texts in enumerate(replies)
        for part in texts
    )
    form = dataclasses.replace(table, labels=('',), rows=rows, columns=(Head(('',), {}),))
    cells = form.cells(lambda key, part: replies[int(key['place'])][part])
    said = () if both else ('No message has replies of both models.',)
    return Sheet(MRS.name, form, cells, said, 'our runs')


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


def _of_groups(
    table: PaperTable, systems: Sequence[sweep_systems.System], notes: Sequence[str]
) -> tuple[Sheet, ...]:
    """Scores of sweeps in the paper's own form, and the paper's below them on official data."""
    by_task = {system.task: system for system in systems}
    if table.printed != 'fewshot_scores' or len(by_task) < len(systems):
        return ()
    value = functools.partial(of_sweep, by_task)
    cells = table.cells(value)
    said = (*table.notes, *printed.gaps(table, cells), *notes)
    made = Sheet(FEWSHOT.name, table, cells, said, 'our sweeps')
    official = any(system.data == 'official' for system in systems)
    theirs = printed.of_paper(FEWSHOT, table.number) if official else []
    return made, *theirs


def _judged(
    recipe: Recipe,
    table: PaperTable,
    made: Mapping[str, Sequence[pathlib.Path]],
    rated: Sequence[RatedText],
) -> Shown:
    """The mean of what judges say, by system; a system has the name of an experiment or a run.

    Best-worst scores are means: 1 for the best text, -1 for the worst (arXiv:2202.05599, 6.3). An
    aspect is known by the beginning of its name: Gram., or grammar.
    """
    names = {}
    for name, folders in made.items():
        model = recipe.experiments[name].key['model']
        names[model] = {name, *(folder.name for folder in folders)}

    def value(key: Mapping[str, str], score: str) -> str | None:
        texts = [text for text in rated if text.system in names.get(key['model'], ())]
        aspects = texts[0].ratings if texts else ()
        known = [a for a in aspects if score.startswith(a.lower().rstrip('.'))]
        if not known:
            return None
        mean = statistics.fmean(text.ratings[known[0]] for text in texts)
        return f'{mean:.{table.decimals(score)}f}'

    known = set().union(*names.values())
    unknown = dict.fromkeys(text.system for text in rated if text.system not in known)
    said = [f'{len(rated)} judged texts.']
    said += [f'Systems that the table does not have: {", ".join(unknown)}.'] if unknown else []
    said += [SAMPLE_DATA] if any(text.data == 'sample' for text in rated) else []
    cells = table.cells(value)
    said += printed.gaps(table, cells)
    sheet = Sheet(recipe.benchmark, table, cells, tuple(said), 'our judges')
    return Shown(sheets=(sheet,))


def _in_scenario(run: Run, mixture: str) -> Run:
    """A run as if it followed another scenario that trains on the same examples.

    Its results that this scenario does not evaluate are left out.
    """
    scenario = benchmarks.parse_mixture(mixture)

    def within(by_task: Mapping[tuple[str, str], Result]) -> dict[tuple[str, str], Result]:
        covered = {'validation': scenario.select}  # Which may choose a step.
        return {
            (task, split): result
            for (task, split), result in by_task.items()
            if task in covered.get(split, scenario.evaluate)
        }

    return dataclasses.replace(
        run,
        mixture=mixture,
        evaluations={step: within(of_step) for step, of_step in run.evaluations.items()},
        baselines={name: within(of_name) for name, of_name in run.baselines.items()},
    )


def _without_seeds(run: Run) -> Run:
    """A run whose variants do not name the seed of the model that ranked its candidates.

    Example: test-rerank-mBERT_multi_seed1 -> test-rerank-mBERT_multi, of which the runs of other
    seeds have one, too.
    """
    evaluations = {
        step: {(task, _SEED.sub('', split)): result for (task, split), result in of_step.items()}
        for step, of_step in run.evaluations.items()
    }
    return dataclasses.replace(run, evaluations=evaluations)


def _key(run: Run) -> _Key:
    """Tells runs apart, and one that is shown in two scenarios from itself."""
    return run.workdir, run.model, run.mixture


def _one(label: str, systems: Sequence[System]) -> System:
    """Systems that score different tasks as one, seed by seed."""
    of_seeds = joined(system.results for system in systems)
    picks = tuple(pick for system in systems for pick in system.picks)
    name = label + (f' ({len(of_seeds)} seeds)' if len(of_seeds) > 1 else '')
    return System(name, 'run', of_seeds, picks)


def _of_sweeps(
    table: PaperTable, made: Mapping[str, Sequence[pathlib.Path]], output: pathlib.Path
) -> Shown:
    """The tables and figures of sweeps, and of other source models, of few-shot transfer."""
    folders = list(dict.fromkeys(folder for of_one in made.values() for folder in of_one))
    searched = [str(folder) for folder in folders if not (folder / 'results.jsonl').is_file()]
    sweeps = [Sweep.read(str(folder)) for folder in folders if str(folder) not in searched]
    if 'attention' in table.made_by and sweeps:
        from xlbench.fewshot import attention  # With jax, which no other table needs.

        return Shown((attention.of_paper(sweeps[0]),))
    systems = sweep_systems.systems(sweeps, searched) if sweeps else []
    makers = [sweep_tables.MAKERS[n] for n in table.made_by if n in sweep_tables.MAKERS]
    tables = tuple(
        dataclasses.replace(made_of, title=f'{system.title}: {made_of.title}')
        for make in makers
        for system in systems
        for made_of in [make(system)]
    )
    figures = [name for name in table.made_by if name not in sweep_tables.MAKERS]
    if not figures or not sweeps:
        said = dict.fromkeys(note for one in tables for note in one.notes)
        return Shown(tables, sheets=_of_groups(table, systems, tuple(said)))
    fewshot_report.write(sweeps, str(output))
    drawn = [path for name in figures for path in sorted(output.glob(f'{name}-*'))]
    why = f'these sweeps are not sufficient for it; {output / "report.md"} says why'
    missing = Table(table.title, missing=why)
    return Shown(tables if drawn else (*tables, missing), tuple(drawn))


def fill(
    recipe: Recipe,
    table: PaperTable,
    made: Mapping[str, Sequence[pathlib.Path]],
    metrics: Sequence[str],
    say: Callable[[str], None],
) -> list[str]:
    """Adds scores to the test results of all runs of a table.

    Args:
      recipe: of the benchmark.
      table: of the paper.
      made: experiment -> the folders of its runs, without those that are not finished.
      metrics: names that the user gives, each for the scores of the metric that it begins with.
      say: takes a line on each run that has more scores now.

    Returns:
      A line for each score that stays away, with what to type for it.
    """
    if recipe.benchmark == 'fewshot':
        return []
    from xlbench.reporting import adding

    given = {name.partition('=')[0].removesuffix('_clidsum'): name for name in metrics}
    lines: dict[str, None] = {}
    known = benchmarks.get(recipe.benchmark).metrics  # Of scores that the tasks do not give.
    for score, usual in ((score, known[score]) for score in table.scores if score in known):
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
