"""Where the numbers come from: speed, cost, config, data and versions of every run, folded away."""

import json
import statistics
import warnings

from xlbench.reporting import command_lines, costs, notes
from xlbench.reporting.page.curves import training_series
from xlbench.reporting.results import Run
from xlbench.reporting.sections import Section
from xlbench.reporting.systems import Pick
from xlbench.reporting.tables import Cell, Column, Row, Table, clean
from xlbench.system import errors, sessions
from xlbench.system.progress import duration

_COLUMNS = (
    ('', 'parameters'), ('training', 'examples/s'), ('training', 'tokens/s'),
    ('all sessions', 'wall time'), ('all sessions', 'processor time'), ('', 'peak GiB'),
    ('', 'device'),
)  # fmt: skip


def costs_table(section: Section) -> Table:
    """Speed and cost of all runs of a section."""
    rows = tuple(Row(_name(pick.run), 'run', _speed(pick.run)) for pick in _picks(section))
    columns = tuple(Column(*pair) for pair in _COLUMNS)
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
