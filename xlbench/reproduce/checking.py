"""Scores bundles again from their predictions, without the models, and says what agrees."""

import dataclasses
import itertools
import json
import os
import pathlib
import re
import statistics
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from xlbench import benchmarks, metrics
from xlbench.benchmarks import RECIPES, topics
from xlbench.benchmarks.recipe import Experiment
from xlbench.fewshot import settings as sweep_settings
from xlbench.fewshot.analysis.sweeps import Sweep
from xlbench.fewshot.results import SEPARATOR, Row
from xlbench.metrics import specs
from xlbench.reporting import render, results
from xlbench.reporting.page import document
from xlbench.reporting.results import Result
from xlbench.reporting.tables import Cell, Column, Row as BoardRow, Table
from xlbench.reproduce import beside, bundles
from xlbench.reproduce.bundles import Contents
from xlbench.system import errors, files, untrusted
from xlbench.system.errors import UserError, printable, shortened
from xlbench.system.files import Json

_CLOSE = 1e-3  # Scores in metrics.json may be rounded.
_NAMED = 5  # Examples of one member that are named; more are counted.
# Arguments of metrics that name files or models; a stranger may name a model of the hub alone.
_FILES = ('baseline', 'checkpoint', 'function_words', 'model', 'paraphrases')
_HUB = re.compile(r'\w[\w.-]*(/\w[\w.-]*)?')
_WORDS = {True: 'agrees', False: 'DIFFERS', None: 'not checked'}


class Check(NamedTuple):
    """One finding; `agrees` is None for what cannot be checked here."""

    agrees: bool | None
    text: str

    def __str__(self) -> str:
        return printable(f'{_WORDS[self.agrees]}: {self.text}', 400)


@dataclasses.dataclass(frozen=True)
class Checked:
    """The findings of a check, in its order."""

    manifest: Contents | None  # None if the bundle cannot be read.
    lines: Sequence[Check]
    scores: Mapping[str, tuple[str, float]]  # Ours: 'RUN TASK' -> (name of its main score, value).

    @property
    def agrees(self) -> bool:
        """Says whether nothing differs."""
        return not any(line.agrees is False for line in self.lines)


def check(path: str) -> Checked:
    """Checks a stranger's file; what is wrong with it is a line, too."""
    scores: dict[str, tuple[str, float]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        try:
            manifest = bundles.unpack(path, folder)
        except UserError as error:
            return Checked(None, [Check(False, str(error).replace(name, path))], {})
        lines: list[Check] = []
        try:
            lines += _hashes(folder, manifest)
            runs = files.names(folder / 'runs')
            for run in runs:
                place = folder / 'runs' / run
                is_sweep = (place / 'results.jsonl').is_file()
                if is_sweep:
                    _keep_inside(place)
                lines += (_sweep if is_sweep else _run)(place, scores)
            lines += [] if runs else [Check(False, 'there are no runs')]
            lines += _table(folder, manifest)
        except (UserError, LookupError, TypeError, ValueError, AttributeError) as error:
            said = str(error) if isinstance(error, UserError) else errors.located(error)
            lines.append(Check(False, f'the check ended: {said.replace(name, path)}'))
        lines.append(_code(manifest))
    shown = {run for of in manifest.experiments.values() for run in of.runs}
    of_shown = {key: of for key, of in scores.items() if key.partition(' ')[0] in shown}
    return Checked(manifest, lines, of_shown)


def _hashes(folder: pathlib.Path, manifest: Contents) -> Iterator[Check]:
    """Compares the members with their hashes."""
    there = {str(path.relative_to(folder)) for path in files.below(folder)} - {bundles.NAME}
    for name in sorted(there ^ manifest.hashes.keys()):
        yield Check(False, f'{name} is {"not in bundle.json" if name in there else "missing"}')
    same = 0
    for name in sorted(there & manifest.hashes.keys()):
        if bundles.sha((folder / name).read_bytes()) == manifest.hashes[name]:
            same += 1
        else:
            yield Check(False, f'{name}: not what its hash is of')
    yield Check(True, f'{same} of {len(manifest.hashes)} members have their hashes')


# ---------------------------------------------------------------------------------------- runs


def _run(folder: pathlib.Path, scores: dict[str, tuple[str, float]]) -> Iterator[Check]:
    run = results.read_run(folder)
    found = run.info.get('manifests')
    manifests = found.values() if isinstance(found, dict) else ()
    hashes = dict.fromkeys(str(one)[:12] for one in manifests)
    data = f'SHA-256 {", ".join(hashes)}' if hashes else 'without a hash'
    yield Check(None, f'{folder.name}: the data of its references, {data}')
    for step, of_step in run.evaluations.items():
        for result in of_step.values():
            place = f'{folder.name}, step {step}, {result.task}, {result.split}'
            again, lines = _scored_again(result, place)
            yield from lines
            if step == max(run.evaluations) and result.split == 'test':
                name = result.main_score
                if name in again:
                    scores[f'{folder.name} {result.task}'] = name, again[name]


def _scored_again(result: Result, place: str) -> tuple[dict[str, float], list[Check]]:
    """The scores of a result, from its predictions; and what agrees."""
    has_texts = untrusted.file(result.folder, 'predictions.jsonl') is not None
    used, left_out = list[Json](), list[Json]()
    for spec in result.metrics:
        (left_out if _needs_more(spec) else used).append(spec)
    said = [Check(None, f'{place}: {shortened(s.get("metric"))}, not here') for s in left_out]
    if not has_texts or not used:
        return {}, [*said, Check(None, f'{place}: no predictions or metrics that can be used here')]
    lines = results.read_lines(result.folder)
    try:
        texts = list(map(results.texts, lines))
    except KeyError:
        return {}, [*said, Check(None, f'{place}: its predictions are no texts')]
    suite = metrics.Suite(result.task, used)
    if missing := suite.missing():
        return {}, [*said, Check(None, f'{place}: {missing[0]}')]
    targets = results.references(lines)
    again, rows = suite.score(targets, texts)
    counts = [1 if isinstance(target, str) else len(target) for target in targets]
    if len(lines) != result.num_examples:
        said.append(
            Check(False, f'{place}: {len(lines)} predictions, and {result.num_examples} scored')
        )
    for label, signature in suite.signatures(counts).items():
        if (written := result.signatures.get(label)) != signature:
            said.append(Check(False, f'{place}: signature of {label}: {written}; here {signature}'))
    for name, value in again.items():
        before = result.scores.get(name)
        agrees = before is not None and abs(before - value) <= _CLOSE
        shown = 'no number' if before is None else f'{before:.4f}'
        here = '' if agrees else f'; here {value:.4f}'
        said.append(Check(agrees, f'{place}: {name} {shown}{here}'))
    others = [name for name in result.scores if name not in again]
    said += [Check(None, f'{place}: {", ".join(others)}: the model gives them')] if others else []
    return again, [*said, *_examples(place, lines, rows)]


def _needs_more(spec: Json) -> bool:
    """Says whether a metric is not one of xlbench's, or reads a file that a stranger names."""
    if not isinstance(spec.get('metric'), str) or specs.is_foreign(spec):
        return True
    kwargs = spec.get('kwargs')
    given = kwargs if isinstance(kwargs, dict) else {}
    named = [text for name, text in given.items() if name in _FILES and text]
    return any(
        not isinstance(text, str) or not _HUB.fullmatch(text) or os.path.lexists(text)
        for text in named
    ) or 'path' in given


def _examples(
    place: str, lines: Sequence[Mapping[str, Json]], rows: Sequence[Mapping[str, float]]
) -> Iterator[Check]:
    """Names the examples whose own scores are not those of their texts."""
    changed = [
        str(line.get('id', number))
        for number, (line, row) in enumerate(zip(lines, rows, strict=True))
        if any(
            name in line.get('scores', {}) and abs(line['scores'][name] - value) > _CLOSE
            for name, value in row.items()
        )
    ]
    if changed:
        more = f' and {len(changed) - _NAMED} more' if len(changed) > _NAMED else ''
        named = ', '.join(map(shortened, changed[:_NAMED])) + more
        yield Check(False, f'{place}: scores of the prediction of example {named}')


def _keep_inside(folder: pathlib.Path) -> None:
    """Lets a sweep find its source model in the bundle, and nowhere else."""
    about: dict[str, Json] = files.read_json(folder / 'config.json', dict)
    source = pathlib.PurePath(str(about['config'].get('source_workdir') or '')).name
    about['config']['source_workdir'] = str(folder.parent / (source or 'source'))
    files.write(folder / 'config.json', json.dumps(about))


def _sweep(folder: pathlib.Path, scores: dict[str, tuple[str, float]]) -> Iterator[Check]:
    """Scores the predicted labels of every adaptation of a sweep again."""
    sweep = Sweep(folder)
    rows, checked, values = sweep.rows, 0, list[float]()
    for row in rows:
        if row.score is None:
            continue
        values.append(value := _of_labels(sweep, row))
        if abs(value - row.score) > _CLOSE:
            where = f'{row.task} {row.group.name}, bucket {row.bucket}, seed {row.seed}'
            yield Check(False, f'{folder.name}: {where}: {row.score:.4f}; here {value:.4f}')
        else:
            checked += 1
    yield Check(True, f'{folder.name}: {checked} of {len(rows)} adaptations have their scores')
    if values:
        metric = topics.main_score(sweep.task)
        scores[f'{folder.name} {sweep.task}'] = metric, statistics.fmean(values)


def _of_labels(sweep: Sweep, row: Row) -> float:
    gold, predicted = (
        np.where(labels == SEPARATOR, -1, labels.astype(int))
        for labels in (sweep.gold(row.language), sweep.predicted(row))
    )
    labels = sweep.test_set(row.language).labels
    return sweep_settings.score(topics.is_tagging(row.task), labels, gold, predicted)


# --------------------------------------------------------------------------------------- table


def _table(folder: pathlib.Path, manifest: Contents) -> Iterator[Check]:
    """Sets the table again from the runs, and compares its rows."""
    recipe = RECIPES.get(manifest.benchmark)
    tables = [t for t in recipe.tables if t.name == f'table {manifest.table}'] if recipe else []
    if not recipe or not tables or not (folder / 'table.csv').is_file():
        yield Check(None, f'table {shortened(manifest.table)}: not set again')
        return
    made, experiments = {}, dict(recipe.experiments)
    for name, of in manifest.experiments.items():
        model = of.key.get('model', '')
        experiments[name] = Experiment(name, model, (), of.key, of.mixture)
        known = files.names(folder / 'runs')
        made[name] = [folder / 'runs' / run for run in of.runs if run in known]
    recipe = dataclasses.replace(recipe, experiments=experiments)
    set_again = beside.shown(recipe, tables[0], manifest.systems, made, {}).tables
    again = ''.join(map(render.table_csv, set_again)).splitlines()
    written = (folder / 'table.csv').read_text(encoding='utf-8').splitlines()
    pairs = itertools.zip_longest(again, written[: len(again)], fillvalue='nothing')
    for number, (row, before) in enumerate(pairs, 1):
        if before != row:
            yield Check(False, f'table.csv, line {number}: {before}; here {row}')
    same = sum(map(str.__eq__, again, written))
    name = f'{benchmarks.get(manifest.benchmark).name}, table {manifest.table}'
    yield Check(same == len(again) == len(written), f'{name}: {same} of {len(written)} lines')


def _code(manifest: Contents) -> Check:
    here, there = bundles.code(), manifest.code
    if here['hash'] == there.get('hash'):
        return Check(True, f'code {here["hash"][:12]}')
    version = shortened(there.get('version'))
    return Check(None, f'code of version {version}, which is not the code here')


# --------------------------------------------------------------------------------------- board

MARK = 'xlbench leaderboard: made by python -m xlbench.reproduce, may be overwritten'
_HEADS = ('main score', 'runs and tasks', 'differences found', 'agree', 'not checked', 'check')


def write_board(path: str, names: Sequence[str], checked: Sequence[Checked]) -> None:
    """Writes a leaderboard: one page that loads nothing, a row for each bundle with its check."""
    groups: dict[str, list[BoardRow]] = {}
    leads: dict[str, dict[str, None]] = {}
    for name, one in zip(names, checked, strict=True):
        about, file = one.manifest, pathlib.Path(name).name
        title, system = 'Not read', file
        if about is not None:
            title = f'{about.benchmark}, table {about.table}, size {about.size}'
            system = f'{", ".join(about.systems)} ({file})'
            leads.setdefault(title, {}).update(dict.fromkeys(s for s, _ in one.scores.values()))
        groups.setdefault(title, []).append(_row(system, one))
    sections = []
    for title, rows in sorted(groups.items()):
        scores = ', '.join(leads.get(title, ())) or 'no score'
        rows.sort(key=lambda row: -(row.cells[0].value or 0))
        table = Table(
            'Systems', Column.named(_HEADS), tuple(rows), 'system',
            (f'Main score: the mean over runs and tasks of {scores}, from 0 to 100, computed here '
             'from the predictions of the bundle.',),
        )  # fmt: skip
        said = f'{len(rows)} bundle{"s" if len(rows) > 1 else ""}, each scored again'
        sections.append((title, said, table))
    text = document.of_tables('Leaderboard', sections, MARK, 'xlbench.reproduce --board')
    pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
    files.write(path, text)


def _row(system: str, one: Checked) -> BoardRow:
    values = [value for _, value in one.scores.values()]
    counts = [sum(line.agrees is kind for line in one.lines) for kind in (False, True, None)]
    first = next((str(line) for line in one.lines if line.agrees is False), 'agrees')
    cells = (
        Cell(statistics.fmean(values)) if values else Cell(),
        *(Cell(float(count), decimals=0) for count in (len(values), *counts)),
        Cell(text=first),
    )
    return BoardRow(system, 'run', cells)
