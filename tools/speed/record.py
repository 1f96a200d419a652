"""The record of all figures: merged with an older one, shown as a table, held against another."""

import json
import pathlib
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
    """What `docs/speed.json` holds."""

    machine: machine.Machine
    runs: list[Run]


def load(path: pathlib.Path) -> Record | None:
    """The record in a file, or None where there is none."""
    return json.loads(path.read_text(encoding='utf-8')) if path.exists() else None


def save(path: pathlib.Path, record: Record) -> None:
    """Writes a record, replacing the file."""
    path.write_text(json.dumps(record, indent=1, ensure_ascii=False) + '\n', encoding='utf-8')


def merge(old: Record | None, new: Record, order: Sequence[str]) -> Record:
    """A record with the runs of both.

    A new run replaces the one of its name, unless it was left out and the older one was not.

    Args:
      old: an earlier record, if there is one. It must be of the same machine.
      new: what was run now.
      order: names of all runs that exist. Older runs of other names are dropped.

    Raises:
      SystemExit: the records are of two machines.
    """
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


def table(record: Record) -> str:
    """All figures as Markdown: comparisons, figures without a peer, series, what is missing."""
    ratios, values, missing = [], [], []
    series: dict[tuple[str, ...], list[str]] = {}
    for run in record['runs']:
        name = f'`{run["name"]}`'
        for row in run['rows']:
            if 'series' in row:
                key = (row['series']['work'], row['unit'], row['series']['size'], name)
                point = f'{row["series"]["at"]:,}: {_number(row["value"])}'
                series.setdefault(key, []).append(point)
            elif 'value' in row:
                cells = (row['work'], f'{_number(row["value"])} {row["unit"]}', row['note'], name)
                values.append(cells)
            else:
                numbers = (f'{row[key]:.2f}' for key in ('medians', 'fastest', 'paired'))
                ratios.append((row['work'], row['against'], *numbers, row['note'], name))
        if run['left_out']:
            missing.append(f'- {name} was left out: {run["left_out"]}')
    parts = []
    if ratios:
        heads = ('work', 'against', 'medians', 'fastest', 'paired', 'note', 'run')
        parts.append(_markdown(heads, ratios, right=(2, 3, 4)))
    if values:
        heads = ('figures without a peer', 'value', 'note', 'run')
        parts.append(_markdown(heads, values, right=(1,)))
    if series:
        heads = ('figures as a size grows', 'unit', 'size', 'figure at each size', 'run')
        rows = [(*key[:3], '; '.join(points), key[3]) for key, points in series.items()]
        parts.append(_markdown(heads, rows, right=()))
    if missing:
        parts.append('\n'.join(missing))
    return '\n\n'.join([*parts, _origin(record)])


def _markdown(heads: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int]) -> str:
    """A table; the column of notes is left out where no row has one."""
    kept = [i for i, head in enumerate(heads) if head != 'note' or any(row[i] for row in rows)]
    lines = [
        [heads[i] for i in kept],
        ['---:' if i in right else '---' for i in kept],
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
    """The page with `text` between its two marks.

    Raises:
      SystemExit: the page has no marks.
    """
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
