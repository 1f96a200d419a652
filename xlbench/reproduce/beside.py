"""A paper's table with new systems among its rows, what is significant, cards and costs."""

import dataclasses
import itertools
import pathlib
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from xlbench import benchmarks, config as config_lib
from xlbench.benchmarks import FEWSHOT, RECIPES
from xlbench.benchmarks.paper import OUR_NAMES, Key, Line, PaperTable
from xlbench.benchmarks.recipe import Recipe
from xlbench.fewshot.analysis import systems as sweep_systems, tables as sweep_tables
from xlbench.fewshot.analysis.sweeps import Sweep
from xlbench.fewshot.results import PROMPT, Group
from xlbench.reporting import comparisons, origins, render, results
from xlbench.reporting.paper_tables import form
from xlbench.reporting.paper_tables.form import Systems
from xlbench.reporting.statistics import t_test, table as table_of
from xlbench.reporting.tables import Column, Table
from xlbench.reproduce import bundles, outcome as outcome_lib, running, steps as steps_lib
from xlbench.reproduce.outcome import Made, Outcome, Written
from xlbench.reproduce.running import State
from xlbench.system import files
from xlbench.system.command_line import say
from xlbench.system.errors import UserError
from xlbench.system.progress import duration

_TEST = 'bootstrap'


class Beside(NamedTuple):
    """A table with rows of new systems; none where only the paper's own systems were scored."""

    tables: list[Table]  # The table in the paper's form.
    differences: list[Table]  # Of tests.
    notes: Sequence[str] = ()  # On the tests, where no table has them below it.


def written(
    outcome: Outcome, table: PaperTable, names: Sequence[str], metrics: Sequence[str], bundle: str
) -> Written:
    """A table with new systems; its files, cards, and a bundle that is named, are written."""
    recipe, settings, state = outcome.recipe, outcome.settings, outcome.state
    made = outcome.folders(outcome.experiments)
    lacking = outcome_lib.fill(recipe, table, made, metrics)
    beside = shown(recipe, table, names, made, _own(outcome, table))
    folders = list(dict.fromkeys(folder for of_one in made.values() for folder in of_one))
    place = state.folder / 'added' / f'{table.name} {" ".join(names)}'.replace(' ', '-')
    trained = [step.folder for step in state.steps.values() if step.command.program == 'train']
    every = dict.fromkeys([*folders, *trained])
    carded = [one for one in every if (one / 'config.json').is_file()]
    cards = _write_cards(carded, place / 'cards')
    took = sum(state.record(step).seconds for step in state.steps.values())
    cost = _cost(folders, took)
    said = [*lacking, *beside.notes, cost]
    said += [f'{len(cards)} model card(s): {place / "cards"}.'] if cards else []
    parts = [*outcome.heading(table), *map(render.markdown, (*beside.tables, *beside.differences))]
    parts += [render.items(said), *outcome.notes(outcome.experiments)]
    text = outcome_lib.write(place / 'table', parts, beside.tables)
    if bundle:
        texts = {f'cards/{path.name}': path.read_text() for path in cards}
        experiments = {name: recipe.experiments[name] for name in made}
        about = bundles.Contents(
            format=bundles.FORMAT, benchmark=recipe.benchmark, table=table.number, cost=cost,
            size=settings.size, systems=list(names), code=bundles.code(),
            experiments={
                name: bundles.ExperimentRuns(
                    dict(one.key), one.mixture, [folder.name for folder in made[name]]
                )
                for name, one in experiments.items()
            },
        )  # fmt: skip
        texts |= {'table.md': text, 'table.csv': render.FORMATS['csv'][1](beside.tables)}
        bundles.write(bundle, about, carded, texts)
        say(f'wrote {bundle}')
    return beside.tables, text, ()


def _own(outcome: Outcome, table: PaperTable) -> dict[str, list[pathlib.Path]]:
    """The finished runs of a table's other experiments, with the same seeds or their own."""
    recipe = outcome.recipe
    (of_paper,) = [one for one in RECIPES[recipe.benchmark].tables if one.name == table.name]
    found: dict[str, list[pathlib.Path]] = {}
    for way in (outcome.settings, dataclasses.replace(outcome.settings, seeds=())):
        for name in of_paper.experiments:
            if name in found or name not in recipe.experiments:
                continue
            state = State(way.workdir, steps_lib.steps(recipe, [name], way))
            undone = {
                one: 'not run'
                for one, step in state.steps.items()
                if running.standing(step, state, {})[0] != 'done'
            }
            found |= Outcome(recipe, [name], way, state, undone).folders([name])
    return found


def shown(recipe: Recipe, table: PaperTable, names: Sequence[str], made: Made, own: Made) -> Beside:
    """New systems beside the paper's; those with names of its rows have its released outputs.

    The recipe has their experiments, `made`; `own` are finished ones of other systems of the table.
    """
    released = [name for name in names if name in models(table)]
    names = [name for name in names if name not in released]
    if recipe.benchmark == 'fewshot':
        return _of_sweeps(recipe, table, names, made, own)
    runs = outcome_lib.read(recipe, table, {**own, **made})
    systems, said, _ = form.placed(table, runs)
    tests = list(differences(table, names, systems, released))
    said = (*said, *notes(table, released, systems, names))
    if not names:
        return Beside([], tests, said)
    benchmark = benchmarks.get(recipe.benchmark)
    mine = {place: one for place, one in systems.items() if place[0] in names}
    whole, whose = with_rows(table, names), _whose(recipe, names)
    return Beside([form.of_systems(benchmark, whole, mine, said, names, whose)], tests)


def _whose(recipe: Recipe, names: Sequence[str]) -> str:
    arxiv = benchmarks.get(recipe.benchmark).arxiv
    return f'{", ".join(names)} beside what arXiv:{arxiv} prints'


def _of_sweeps(
    recipe: Recipe, table: PaperTable, names: Sequence[str], made: Made, own: Made
) -> Beside:
    by_name: dict[str, Made] = {
        name: {one: of for one, of in made.items() if recipe.experiments[one].model == name}
        for name in names
    }
    by_task: dict[str, dict[str, sweep_systems.System]] = {}
    known: dict[str, None] = {}
    for name, of_name in by_name.items():
        systems = sweep_systems.systems(_read_sweeps(of_name))
        by_task[name] = {one.task: one for one in systems}
        known |= dict.fromkeys(note for one in systems for note in sweep_tables.scores(one).notes)
    whole = with_rows(table, names)

    def value(key: Key, score: str) -> str | None:
        if key.get('model') in names:
            return outcome_lib.of_sweep(by_task[key['model']], key, score)
        return whole.printed_value(key, score)

    whose = _whose(recipe, names)
    filled = form.fill(FEWSHOT, whole, value, whose, tuple(known), models=names)
    rows = _of_buckets({'our sweep': own, **by_name})
    return Beside([filled], list(_bucket_tests(rows, names)))


def _read_sweeps(made: Made) -> list[Sweep]:
    folders = dict.fromkeys(folder for of_one in made.values() for folder in of_one)
    return [Sweep(str(one)) for one in folders if (one / 'results.jsonl').is_file()]


def _of_buckets(made: Mapping[str, Made]) -> dict[str, dict[tuple[str, Group], dict[str, float]]]:
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


def _bucket_tests(
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
                t_test(scores[new].get((task, g), {}), scores[other].get((task, g), {}))
                for g in groups
            ]
            for new, other in pairs
        }
        if rows and groups:
            columns = [Column(f'K={g.shots}', f'{g.language} {g.method}') for g in groups]
            title = f'Differences of {task} over buckets'
            yield table_of(title, columns, rows, 't-test', 2)


def _cost(folders: Sequence[pathlib.Path], seconds: float) -> str:
    """The line of what new systems took: their runs, and all commands that were started here."""
    timed = [folder for folder in folders if (folder / 'sessions.jsonl').is_file()]
    facts = origins.costs(timed) if timed else {}
    said = [f'commands {duration(seconds)}', *(f'{name} {of}' for name, of in facts.items())]
    return f'Cost: {"; ".join(said)}.'


def _write_cards(folders: Sequence[pathlib.Path], target: pathlib.Path) -> list[pathlib.Path]:
    """Writes a model card for each run into a folder, and returns their files."""
    written = []
    for folder in folders:
        try:
            text = _card(folder)
        except UserError as error:
            say(f'{folder}: no model card: {error}')
            continue
        path = target / f'{folder.name}.md'
        path.parent.mkdir(parents=True, exist_ok=True)
        files.write(path, text)
        written.append(path)
    return written


def _card(folder: pathlib.Path) -> str:
    about = config_lib.read_about(str(folder))
    if 'scored' not in about and 'adapt' not in about['config']:
        from xlbench.inference import conversion  # With jax, which a slip need not wait for.

        return conversion.card(str(folder))
    lines = [f'# {render.markdown_text(str(about["config"].get("system") or folder.name))}', '']
    if 'scored' not in about:  # A sweep: its source model has a card of its own.
        lines += ['Adaptations of a source model. Config:', '']
        pairs = config_lib.leaves(about['config'])
        lines += [f'- {key}: {render.markdown_text(str(of))}' for key, of in pairs]
        return origins.without_places('\n'.join([*lines, '']))
    lines += ['Texts that were scored by xlbench; the model is not known here.', '']
    run = results.read_run(folder)
    for of_step in run.evaluations.values():
        for result in of_step.values():
            lines += [f'## {result.task}, {result.split}', '']
            lines += [f'- {name}: {value:.2f}' for name, value in result.scores.items()]
            signatures = result.signatures.values()
            lines += [f'- signature: {render.markdown_text(line)}' for line in signatures]
            lines.append('')
    return origins.without_places('\n'.join(lines))


def models(table: PaperTable) -> tuple[str, ...]:
    """The paper's names of the systems that have rows."""
    return tuple(dict.fromkeys(row.key['model'] for row in table.rows if 'model' in row.key))


def with_rows(table: PaperTable, names: Sequence[str]) -> PaperTable:
    """A table with rows of new systems beside the paper's; their keys name the systems."""
    of_rows, rows = models(table), list[Line]()
    if not of_rows:  # Each row has its own below it.
        for row in table.rows:
            rows.append(row._replace(labels=(*row.labels, 'paper')))
            rows += [
                row._replace(labels=(*row.labels, n), key={**row.key, 'model': n}) for n in names
            ]
        return dataclasses.replace(table, rows=tuple(rows), labels=(*table.labels, 'system'))
    like = next((m for m in of_rows if any(m in row.labels for row in table.rows)), of_rows[0])
    groups: dict[str, list[Line]] = {}
    for row in table.rows:
        first = row.labels[0]
        group = '' if table.labels[0] == '#' or first in of_rows else first
        groups.setdefault(group, []).append(row)
    for of_group in groups.values():
        alike = [row for row in of_group if row.key['model'] == like]
        copies = [_copy(table, row, like, name) for name in names for row in alike]
        rows += [*of_group, *copies]
    return dataclasses.replace(table, rows=tuple(rows))


def _copy(table: PaperTable, row: Line, like: str, name: str) -> Line:
    pairs = zip(table.labels, row.labels, strict=True)
    labels = ['+' if head == '#' else label for head, label in pairs]
    if like in labels:
        labels[labels.index(like)] = name
    else:
        labels = [name, *[''] * (len(labels) - 1)]
    return Line(tuple(labels), {**row.key, 'model': name}, row.section and 'Added')


def best_row(table: PaperTable) -> tuple[str, str, float] | None:
    """The paper's best system: its name, the score that says so, and its mean over the table."""
    scores = [name for head in table.columns for name in head.scores]
    found: dict[str, list[float]] = {}
    for row, head in itertools.product(table.rows, table.columns):
        key = table.key | row.key | head.key
        key = {name: text.format_map(key) for name, text in key.items()}
        if scores and scores[0] in head.scores and 'model' in row.key:
            text = table.printed_value(key, scores[0])
            if text and text.strip('- '):
                found.setdefault(key['model'], []).append(float(text))
    most = max(map(len, found.values()), default=0)
    means = {name: statistics.fmean(of) for name, of in found.items() if len(of) == most}
    if not means:
        return None
    name = max(means, key=means.__getitem__)
    return name, scores[0], means[name]


def differences(
    table: PaperTable, names: Sequence[str], systems: Systems, released: Sequence[str]
) -> Iterator[Table]:
    """Tests each new system against the paper's best row, or else against all of our own.

    The best row is tested if its outputs are `released`, and so among the systems.
    """
    best = best_row(table)
    against = [best[0]] if best and best[0] in released else []
    whose = "the paper's best row, by its released outputs" if against else 'runs of our own'
    scenarios = dict.fromkeys(scenario for name, scenario in systems if name in names)
    for scenario in scenarios:
        new = {n: systems[n, scenario] for n in names if (n, scenario) in systems}
        others = {m: s for (m, of), s in systems.items() if m not in names and of == scenario}
        others = {m: s for m, s in others.items() if not against or m in against}
        pairs = [
            (f'{name} minus {other}', first, second)
            for (name, first), (other, second) in itertools.product(new.items(), others.items())
        ] + [
            (f'{second} minus {first}', new[second], new[first])
            for first, second in itertools.combinations(new, 2)
        ]
        if not pairs:
            continue
        tasks = sorted(set.intersection(*(s.tasks for s in (*new.values(), *others.values()))))
        picks = pairs[0][1].picks
        found = [pick.results[t] for t in tasks for pick in picks if t in pick.results]
        if not found:
            continue
        score = found[0].main_score
        columns = [Column('', task, (task,)) for task in tasks]
        columns += [Column('', 'average', tuple(tasks))] if len(tasks) > 1 else []
        where = f' ({scenario})' if len(scenarios) > 1 else ''
        title = f'Differences of {score} to {whose}{where}'
        yield comparisons.of_pairs(title, score, _TEST, pairs, columns)


def notes(
    table: PaperTable, released: Sequence[str], systems: Systems, names: Sequence[str]
) -> list[str]:
    """Says what the tests are of, and what they lack."""
    said = []
    if (best := best_row(table)) and best[0] not in released:
        said.append(
            f"The paper's best row by {OUR_NAMES.get(best[1], best[1])} is {best[0]} (mean "
            f'{best[2]:.3g}). Its outputs are not here, so that no difference to it is tested; '
            f"--add='{best[0]}=FOLDER' takes its released outputs."
        )
    if not any(name not in names for name, _ in systems):
        said.append(
            'No run of another system of this table is finished in this workdir; the same table '
            'without --add makes them, and differences are tested then.'
        )
    return said
