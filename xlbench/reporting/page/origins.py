"""Where the numbers come from: speed, cost, config, data and versions of every run, folded away."""

import json
import statistics
import warnings

from xlbench.reporting import command_lines, costs, notes
from xlbench.reporting.page.curves import training_series
from xlbench.reporting.page.markup import Markup, element, join, preformatted
from xlbench.reporting.page.tables import Tables
from xlbench.reporting.results import Run
from xlbench.reporting.sections import Section
from xlbench.reporting.systems import Pick
from xlbench.reporting.tables import Cell, Column, Row, Table, clean
from xlbench.system import errors, sessions
from xlbench.system.files import Json
from xlbench.system.progress import duration

_COLUMNS = (
    ('', 'parameters'), ('training', 'examples/s'), ('training', 'tokens/s'),
    ('all sessions', 'wall time'), ('all sessions', 'processor time'), ('', 'peak GiB'),
    ('', 'device'),
)  # fmt: skip


def section(section: Section, name: str, title: str, tables: Tables) -> Markup:
    """Speed and cost of all runs as a table, then everything that is known of each run.

    Args:
        section: Whose runs.
        name: Of the part of the page.
        title: Its heading.
        tables: Of the page.
    """
    picks = list({id(pick.run): pick for pick in section.picks}.values())
    if not picks:
        return Markup()
    rows = tuple(Row(_name(pick.run), 'run', _speed(pick.run)) for pick in picks)
    columns = tuple(Column(*pair) for pair in _COLUMNS)
    said = ('Speeds are medians over the steps that were logged.',)
    table = Table('Speed and cost', columns, rows, 'run', said)
    return element(
        'details',
        element('summary', title),
        tables.table(table, 4),
        element('h4', 'Runs'),
        *map(_of_run, picks),
        class_='origins',
        id=name,
    )


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


def _of_run(pick: Pick) -> Markup:
    run = pick.run
    signatures = {
        f'{task}, {metric}': signature
        for task, result in sorted(pick.results.items())
        for metric, signature in sorted(result.signatures.items())
    }
    facts = notes.provenance(pick)
    if recorded := _sessions(run):
        facts |= costs.facts([run.workdir])
    commands = [
        command_lines.command(one.command, str(run.info.get('cwd') or '')) for one in recorded
    ]
    parts = [element('dl', *_pairs(facts))]
    if commands := list(dict.fromkeys(filter(None, commands))):
        parts += [_block('Commands', '\n'.join(commands))]
    if signatures:
        parts += [_folded('Signatures of metrics', element('dl', *_pairs(signatures)))]
    parts += [_folded('Config', _pre(_as_json(dict(run.config))))]
    return _folded(_name(run), join(parts))


def _as_json(value: Json) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False, sort_keys=True, default=str)


def _pairs(facts: dict[str, str]) -> list[Markup]:
    return [
        part for key, fact in facts.items() for part in (element('dt', key), element('dd', fact))
    ]


def _block(title: str, text: str) -> Markup:
    return join([element('h5', title), _pre(text)])


def _pre(text: str) -> Markup:
    return element('pre', preformatted(text), tabindex=0)


def _folded(title: str, content: str) -> Markup:
    return element('details', element('summary', title), content)
