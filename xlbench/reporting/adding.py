"""Adds the scores of further metrics to evaluations that a run or a scored system has finished.

Predictions and references are read from predictions.jsonl, so that no model runs again. Scores that
are there stay. An interrupted call leaves whole files, and the same call ends with the bytes of one
that was not interrupted: predictions.jsonl is replaced before metrics.json, which alone says that a
metric is there.
"""

import os
import pathlib
from collections.abc import Callable, Sequence

from xlbench import benchmarks, metrics
from xlbench.data import prepared
from xlbench.metrics import suite as suite_lib
from xlbench.reporting import results, scored
from xlbench.reporting.results import Result
from xlbench.settings import blocks, workdirs
from xlbench.system import files, locks
from xlbench.system.errors import UserError
from xlbench.system.files import Json

_PREDICTIONS = 'predictions.jsonl'


def add(
    workdir: str | os.PathLike,
    names: Sequence[str],
    *,
    split: str = 'test',
    task: str = '',
    lang: str = '',
    say: Callable[[str], None] | None = None,
) -> list[pathlib.Path]:
    """Adds scores to all evaluations of a split, at every step, and of the baselines.

    The metrics have the names of `xlbench.metrics.suite`. Results that are filed beside a split, as
    SPLIT-beam-num_beams4, belong to it. Without a task all are meant, and without a language each
    task's. `say` takes the line that another writer is waited for.

    Returns:
      The folders that have changed.

    Raises:
      UserError: there is no such evaluation, a metric lacks a model or a table, or a score of its
        name has another signature. Nothing has been written then.
    """
    for name in names:
        suite_lib.check_name(name)
    if not pathlib.Path(workdir, 'config.json').is_file():
        raise UserError(f'{workdir} has no config.json, so it is no workdir of a finished run')
    with locks.folder(workdir, wait=say):
        files.remove_leftovers(workdir)
        run = results.read_run(workdir)
        groups = [*run.evaluations.values(), *run.baselines.values()]
        found = [
            result
            for group in groups
            for result in group.values()
            if (result.split == split or result.split.startswith(f'{split}-'))
            and task in ('', result.task)
            and (result.folder / _PREDICTIONS).is_file()
        ]
        if not found:
            place = f'{split} of {task}' if task else split
            there = sorted({f'{s} of {t}' for group in groups for t, s in group})
            raise UserError(
                f'{workdir} has no predictions on {place}; it has {", ".join(there) or "none"}'
            )
        jobs = [(result, _suite(workdir, result, names, lang)) for result in found]
        return [result.folder for result, suite in jobs if suite and _write(result, suite)]


def _suite(
    workdir: str | os.PathLike, result: Result, names: Sequence[str], lang: str
) -> metrics.Suite | None:
    """Returns the metrics that a result lacks; None if it has all.

    Raises:
      UserError: a score is there from another signature, or a metric cannot score.
    """
    specs = [suite_lib.named(n, lang or _lang(workdir, result.task)) for n in names]
    targets = results.references(_lines(result))
    counts = _counts(targets)
    lacking = []
    for spec in specs:
        ((label, signature),) = metrics.Suite(result.task, [], [spec]).signatures(counts).items()
        before = result.signatures.get(label)
        if before not in (None, signature):
            raise UserError(f'{result.folder} has the scores of {label} already, from {before}')
        if before is None:
            lacking.append(spec)
    if not lacking:
        return None
    suite = metrics.Suite(result.task, [], lacking)
    if max(counts) > 1 and suite.of_one_reference:
        raise UserError(
            f'{suite.of_one_reference[0]} compares with one reference, and {result.task} has up to '
            f'{max(counts)}; leave it out'
        )
    try:
        first = [target if isinstance(target, str) else target[0] for target in targets]
        suite.check(lambda number: first[:number], 1, result.scores)
    except UserError as error:
        raise UserError(f'{result.folder}: {error}') from None
    return suite


def _lang(workdir: str | os.PathLike, task: str) -> str | None:
    """Returns the language of a task's texts, by its name or else by its preparation."""
    try:
        return benchmarks.parse_task(task).target
    except UserError:
        about: dict[str, Json] = files.read_json(pathlib.Path(workdir) / 'config.json', dict)
        if 'scored' in about:  # Of files, which say nothing of their language.
            return None
    about = workdirs.read_run(str(workdir), needed=['data'])
    data = about['config']['data']
    where = dict(root=workdirs.data_root(about), vocabulary=data['vocabulary'])
    sample = bool(data.get('sample'))
    prepared.ensure([(task, 'test')], blocks.Data(**where, sample=sample), to_stderr=True)
    manifest = prepared.open_task(**where, task=task, split='test').manifest
    if manifest.get('postprocessor') is True:
        raise UserError(
            f'{task} has a postprocessor, of which predictions.jsonl knows nothing; name metrics '
            'in config.evals.test.metrics, or in xlbench.evaluate --metrics'
        ) from None
    return manifest.get('target_lang')


def _lines(result: Result) -> list[dict[str, Json]]:
    lines = results.read_lines(result.folder)
    whole = all(isinstance(line.get('prediction'), str) for line in lines)
    if not whole or len(lines) != result.num_examples:
        raise UserError(
            f'{result.folder / _PREDICTIONS} does not have the {result.num_examples} predictions '
            'that its metrics.json scores; evaluate again'
        )
    return lines


def _counts(targets: Sequence[str | Sequence[str]]) -> list[int]:
    """How many references each example has."""
    return [1 if isinstance(target, str) else len(target) for target in targets]


def _write(result: Result, suite: metrics.Suite) -> bool:
    """Scores a result and replaces its two files, the one that says so last."""
    lines = _lines(result)
    targets = results.references(lines)
    scores, examples = suite.score(targets, list(map(results.texts, lines)))
    for line, of_example in zip(lines, examples, strict=True):
        line['scores'] = {**line.get('scores', {}), **of_example}
    facts: dict[str, Json] = files.read_json(result.folder / 'metrics.json', dict)
    more = {'scores': scores, **suite.facts(_counts(targets))}
    scored.write_files(result.folder, {**facts, **scored.joined(facts, more)}, lines)
    return True
