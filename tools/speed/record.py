"""The records of figures, a file for each processor: merged, shown as a table, compared."""

import json
import pathlib
import re
import statistics
from collections.abc import Iterator, Sequence
from typing import TypedDict

import interleaved
import machine

BEGIN = '<!-- speed: from here to the next such line `make speed` writes -->'
END = '<!-- speed: end -->'
# Medians of two runs of the same program on an idle machine differ by this much.
NOISE = 0.05
NOISE_WITHOUT_ROUNDS = 0.1

Figure = interleaved.Row | interleaved.Value


class Run(TypedDict):
    """One script in one of its configurations."""

    name: str
    command: str
    date: str  # 2026-11-23 04:50
    load: float  # Cores at work before it began.
    seconds: float  # The whole script.
    versions: dict[str, str]
    rows: list[Figure]
    left_out: str  # Why there are no rows, or ''.


class Record(TypedDict):
    """What a file of `docs/speed/` holds: the figures of one processor."""

    machine: machine.Machine
    runs: list[Run]


def name_of(facts: machine.Machine) -> str:
    """The file of a processor's record. Example: 'amd-epyc-family-26-model-2.json'."""
    return f'{re.sub("[^a-z0-9]+", "-", facts["cpu"].lower()).strip("-")}.json'


def load(path: pathlib.Path) -> Record | None:
    """The record in a file, or None where there is none."""
    return json.loads(path.read_text(encoding='utf-8')) if path.exists() else None


def save(path: pathlib.Path, record: Record) -> None:
    """Writes a record, replacing the file."""
    path.write_text(json.dumps(record, indent=1, ensure_ascii=False) + '\n', encoding='utf-8')


def merge(old: Record | None, new: Record, order: Sequence[str]) -> Record:
    """A record with the runs of both, in an order; new ones replace old ones unless left out."""
    if old and old['machine'] != new['machine']:
        raise SystemExit(
            f'the record is of another machine ({facts_line(old)}); this is {facts_line(new)}: '
            'name another file with --output'
        )
    runs = {run['name']: run for run in old['runs']} if old else {}
    for run in new['runs']:
        if not run['left_out'] or not runs.get(run['name'], run)['rows']:
            runs[run['name']] = run
    return {'machine': new['machine'], 'runs': [runs[name] for name in order if name in runs]}


def facts_line(record: Record) -> str:
    """The machine in words."""
    facts = record['machine']
    return f'{facts["cpu"]}, {facts["cores"]} cores, {facts["memory_gb"]} GB, {facts["os"]}'


def table(records: Sequence[Record]) -> str:
    """All figures as Markdown, with a column for each processor, and what is missing."""
    ratios, values, series = _Grid(len(records)), _Grid(len(records)), _Grid(len(records))
    missing = []
    for place, record in enumerate(records):
        for run in record['runs']:
            name = f'`{run["name"]}`'
            for row in run['rows']:
                if 'series' in row:
                    key = (row['series']['work'], row['unit'], row['series']['size'])
                    point = f'{row["series"]["at"]:,}: {_number(row["value"])}'
                    series.add(key, place, point, '', name)
                elif 'value' in row:
                    value = f'{_number(row["value"])} {row["unit"]}'
                    values.add((row['work'],), place, value, row['note'], name)
                else:
                    key = (row['work'], row['against'])
                    ratios.add(key, place, f'{row["medians"]:.2f}', row['note'], name)
            if run['left_out']:
                where = f' on {record["machine"]["cpu"]}' if len(records) > 1 else ''
                missing.append(f'- {name} was left out{where}: {run["left_out"]}')
    processors = [record['machine']['cpu'] for record in records]
    parts = [
        _markdown((*heads, *processors, 'note', 'run'), grid.rows(), len(heads), right)
        for grid, heads, right in (
            (ratios, ('work', 'against'), len(records)),
            (values, ('figures without a peer',), len(records)),
            (series, ('figures as a size grows', 'unit', 'size'), 0),
        )
        if grid.cells
    ]
    if missing:
        parts.append('\n'.join(missing))
    return '\n\n'.join([*parts, *map(_origin, records)])


class _Grid:
    """A table with a row for each key and a column for each processor."""

    def __init__(self, columns: int):
        self.cells: dict[tuple[str, ...], list[list[str]]] = {}
        self._columns, self._notes = columns, {}

    def add(self, key: tuple[str, ...], column: int, text: str, note: str, run: str) -> None:
        """Adds a text to a cell, and a note to its row."""
        key = (*key, run)
        self.cells.setdefault(key, [[] for _ in range(self._columns)])[column].append(text)
        self._notes.setdefault(key, {})[note] = None

    def rows(self) -> list[tuple[str, ...]]:
        """The key of each row, its cells, its notes, and the run."""
        return [
            (*key[:-1], *map('; '.join, cells), '; '.join(filter(None, self._notes[key])), key[-1])
            for key, cells in self.cells.items()
        ]


def _markdown(
    heads: Sequence[str], rows: Sequence[Sequence[str]], first: int, right: int
) -> str:
    """A table, with numbers in `right` columns from `first` on; notes only if there are any."""
    kept = [i for i, head in enumerate(heads) if head != 'note' or any(row[i] for row in rows)]
    lines = [
        [heads[i] for i in kept],
        ['---:' if first <= i < first + right else '---' for i in kept],
        *([row[i].replace('|', '\\|') for i in kept] for row in rows),
    ]
    return '\n'.join(f'| {" | ".join(line)} |'.replace('|  |', '| |') for line in lines)


def _number(value: float) -> str:
    """Three digits: 1234567 -> 1,234,567; 12.34 -> 12.3; 0.01234 -> 0.0123."""
    return f'{value:,.0f}' if abs(value) >= 1000 else f'{value:.3g}'


def _origin(record: Record) -> str:
    """A paragraph: when, where, with which versions, and what ran beside it."""
    runs = [run for run in record['runs'] if run['rows']]
    if not runs:
        return 'Nothing has been measured yet.'
    dates = sorted({run['date'].split()[0] for run in runs})
    when = ' to '.join(dict.fromkeys((dates[0], dates[-1])))
    versions: dict[str, list[str]] = {}
    for run in runs:
        for name, version in run['versions'].items():
            if version not in versions.setdefault(name, []):
                versions[name].append(version)
    names = ', '.join(f'{name} {" and ".join(several)}' for name, several in versions.items())
    load = max(run['load'] for run in runs)
    return (
        f'Measured on {when} on {facts_line(record)}, with {names}. Before a script began, at most '
        f'{load:.2f} cores were at work.'
    )


def replace_section(page: str, text: str) -> str:
    """The page with `text` between its two marks; SystemExit without them."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f'the page has no lines "{BEGIN}" and "{END}"')
    return f'{before}{BEGIN}\n\n{text}\n\n{END}{after}'


def section(page: str) -> str:
    """What stands between the two marks of a page."""
    return page.partition(BEGIN)[2].partition(END)[0].strip()


def changes(old: Record, new: Record) -> list[str]:
    """A line for every figure that changed beyond noise, appeared or went.

    Comparisons changed if their paired ratios differ by more than NOISE and the middle halves of
    the ratios of their rounds do not overlap; figures without rounds, by NOISE_WITHOUT_ROUNDS.
    """
    before, after = dict(_figures(old)), dict(_figures(new))
    lines = [f'gone: {_words(key)}' for key in before if key not in after]
    for key, row in after.items():
        if key not in before:
            lines.append(f'new: {_words(key)}')
        elif text := _change(before[key], row):
            lines.append(f'{_words(key)}: {text}')
    return lines


def _figures(record: Record) -> Iterator[tuple[tuple[str, str, str], Figure]]:
    """(what identifies a figure, the figure) of all runs that were not left out."""
    for run in record['runs']:
        for row in run['rows']:
            yield (run['name'], row['work'], row.get('against', '')), row


def _words(key: tuple[str, str, str]) -> str:
    """A figure's name."""
    run, work, against = key
    return f'{run}: {work}' + (f', against {against}' if against else '')


def _change(old: Figure, new: Figure) -> str:
    """Words for a change beyond noise, or ''."""
    name, noise = ('value', NOISE_WITHOUT_ROUNDS) if 'value' in new else ('paired', NOISE)
    if name not in old:
        return 'was measured otherwise'
    if abs(new[name] - old[name]) <= noise * abs(old[name]):
        return ''
    if name == 'paired':
        (old_low, old_high), (new_low, new_high) = _middle_half(old), _middle_half(new)
        if old_low <= new_high and new_low <= old_high:
            return ''
    return f'{_number(old[name])} -> {_number(new[name])}'


def _middle_half(row: interleaved.Row) -> tuple[float, float]:
    """The quartiles of the ratios of all rounds."""
    theirs, ours = row['seconds'].values()
    ratios = [a / b for a, b in zip(theirs, ours, strict=True)]
    if len(ratios) < 2:
        return ratios[0], ratios[0]
    low, _, high = statistics.quantiles(ratios, n=4, method='inclusive')
    return low, high
