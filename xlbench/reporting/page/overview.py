"""A section in words: what was compared, the answer, and where its numbers come from."""

import json
import statistics
import warnings
from collections.abc import Sequence
from typing import NamedTuple

from xlbench.reporting import command_lines, costs, notes
from xlbench.reporting.page.plots import training_series
from xlbench.reporting.page.style import Style
from xlbench.reporting.results import Run
from xlbench.reporting.sections import Section, direction
from xlbench.reporting.statistics import half_width
from xlbench.reporting.systems import Pick, System
from xlbench.reporting.tables import Cell, Column, Row, Table, clean
from xlbench.system import errors, sessions
from xlbench.system.progress import duration

_COSTS = (
    ('', 'parameters'), ('training', 'examples/s'), ('training', 'tokens/s'),
    ('all sessions', 'wall time'), ('all sessions', 'processor time'), ('', 'peak GiB'),
    ('', 'device'),
)  # fmt: skip


class Headline(NamedTuple):
    """The best run, and what it is compared with.

    Attributes:
      system: its name.
      mark: the class of its mark.
      value: its main score.
      score: name of that.
      where: what the score is of.
      others: 'best baseline' and so on, with its name, its score, the gain over it, and 'gain',
        'loss' or None where that is not known.
    """

    system: str
    mark: str
    value: str
    score: str
    where: str
    others: Sequence[tuple[str, str, str, str, str | None]]


def answer(section: Section, style: Style) -> Headline | None:
    """The main score of the best run beside the next one, the best baseline and the paper."""
    if style.column is None or not style.ranked:
        return None
    score, tasks, best = section.scores[0], style.column.tasks, style.ranked[0]
    decimals, sign = section.decimals_of(score), direction(score)
    cells = {s.name: s.cell(score, tasks, decimals) for s in section.systems}
    if (value := cells[best.name].value) is None:
        return None
    others = []
    kinds = (('run', 'next best'), ('baseline', 'best baseline'), ('paper', "the paper's best"))
    for kind, label in kinds:
        known = [
            s for s in section.systems
            if s.kind == kind and s is not best and cells[s.name].value is not None
            # The notes say of others that they do not compare.
            and (kind == 'paper' or s.count(tasks) == best.count(tasks))
        ]  # fmt: skip
        if known:
            top = max(known, key=lambda system: (sign or 1) * cells[system.name].value)
            gain = value - cells[top.name].value
            tone = None if not gain * sign else 'gain' if gain * sign > 0 else 'loss'
            shown = f'{gain:+.{decimals}f}'
            others.append((label, top.name, str(cells[top.name]), shown, tone))
    where = _where(style, [s for s in style.ranked if not cells[s.name].is_missing])
    seeds = best.values(score, tasks)
    if len(seeds) > 1:
        where += f', {len(seeds)} seeds, 95 % interval ±{half_width(seeds):.{decimals}f}'
    else:
        where += ', one seed'
    return Headline(best.name, style.mark(best), f'{value:.{decimals}f}', score, where, others)


def compared(section: Section) -> str:
    """A line of what is compared. Example: '3 systems, 9 runs, 4 tasks, 1,200 examples'."""
    kinds = [system.kind for system in section.systems]
    runs, number = kinds.count('run'), len({id(pick.run) for pick in section.picks})
    counts = {
        'system': runs,
        'run': number if number != runs else 0,
        'baseline': kinds.count('baseline'),
        'published system': kinds.count('paper'),
        'task and language pair': len({t for column in section.columns for t in column.tasks}),
    }
    return ', '.join(f'{n:,} {noun}{"s" if n != 1 else ""}' for noun, n in counts.items() if n)


def _where(style: Style, scored: Sequence[System]) -> str:
    """Returns what the score is of. Example: 'mean over 4 tasks and languages of qg'."""
    column = style.column
    if len(column.tasks) > 1:
        of = f' of {column.group}' if column.group else ''
        where = f'mean over {len(column.tasks)} tasks and languages{of}'
    else:
        where = f'{column.group} {column.label}'.strip()
    every = len(style.ranked)
    if len(scored) < every:
        where += f' ({len(scored)} of {every} systems have this score)'
    counts = [system.count(column.tasks) for system in scored]
    if len(alike := [count for count in counts if count == counts[0]]) < len(counts):
        where += f', best of the {len(alike)} scored on {counts[0]} examples'
    return where


def costs_table(section: Section) -> Table:
    """Speed and cost of all runs of a section."""
    rows = tuple(Row(_name(pick.run), 'run', _speed(pick.run)) for pick in _picks(section))
    columns = tuple(Column(*pair) for pair in _COSTS)
    said = ('Speeds are medians over the steps that were logged.',)
    return Table('Speed and cost', columns, rows, 'run', said)


def runs(section: Section) -> list[dict[str, str | dict[str, str]]]:
    """The facts that are known of each run: its name, facts, commands, signatures and config."""
    return [_of_run(pick) for pick in _picks(section)]


def _picks(section: Section) -> list[Pick]:
    return list({id(pick.run): pick for pick in section.picks}.values())


def _name(run: Run) -> str:
    return clean(run.system or run.workdir.resolve().name)


def _speed(run: Run) -> tuple[Cell, ...]:
    recorded = _sessions(run)
    parameters = run.info.get('parameters')
    peaks = [one.peak_bytes for one in recorded if one.peak_bytes]
    wall, processor = (
        Cell(text=duration(sum(getattr(one, key) for one in recorded))) if recorded else Cell()
        for key in ('wall_seconds', 'processor_seconds')
    )
    devices = run.info.get('devices')
    return (
        Cell(text=f'{parameters:,}') if isinstance(parameters, int) else Cell(),
        _median(run, 'examples_per_second'),
        _median(run, 'tokens_per_second'),
        wall,
        processor,
        Cell(max(peaks) / 2**30) if peaks else Cell(),
        Cell(text=clean(devices)) if isinstance(devices, str) else Cell(),
    )


def _sessions(run: Run) -> list[sessions.Session]:
    """The run's sessions; none where the file is not ours, which must not keep a page away."""
    try:
        return sessions.read(run.workdir)
    except errors.UserError as error:
        warnings.warn(f'the page has no costs of {run.workdir}: {error}', stacklevel=2)
        return []


def _median(run: Run, name: str) -> Cell:
    values = [value for _, value in training_series(run, name)]
    return Cell(statistics.median(values), decimals=0) if values else Cell()


def _of_run(pick: Pick) -> dict[str, str | dict[str, str]]:
    run = pick.run
    signatures = {
        f'{task}, {metric}': signature
        for task, result in sorted(pick.results.items())
        for metric, signature in sorted(result.signatures.items())
    }
    facts = notes.provenance(pick)
    if recorded := _sessions(run):
        facts |= costs.facts([run.workdir])
    cwd = str(run.info.get('cwd') or '')
    commands = dict.fromkeys(command_lines.command(one.command, cwd) for one in recorded)
    config = json.dumps(run.config, indent=1, ensure_ascii=False, sort_keys=True, default=str)
    return {
        'name': _name(run),
        'facts': facts,
        'commands': '\n'.join(filter(None, commands)),
        'signatures': signatures,
        'config': config,
    }
