"""The report as one HTML page: tables, plots as inline SVG, some predictions, provenance.

Nothing is loaded from elsewhere. All text comes from files that anyone may have written, so every
piece of it goes through `_text`; plots go through matplotlib's own escaping.
"""

import html
import io
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence

import matplotlib
from matplotlib.figure import Figure

from xlbench import benchmarks, errors
from xlbench.benchmarks import languages
from xlbench.reporting import layout, notes
from xlbench.reporting.results import Run, read_predictions
from xlbench.reporting.sections import Section
from xlbench.reporting.tables import Table, clean

_PREDICTIONS = 3  # Examples shown for each task.
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 75rem; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse; margin: 1rem 0; display: block; overflow-x: auto }
th, td { padding: .2rem .6rem; text-align: right; border-bottom: 1px solid #ddd }
th:first-child, td:first-child { text-align: left }
td.best { font-weight: 600 }
tr.paper td, tr.count td { color: #555 } tr.error td { border-top: 2px solid #888 }
.note { background: #fff6d6; padding: .4rem .8rem; margin: .4rem 0 }
.signature, dd, dt { font: 13px/1.5 ui-monospace, monospace; overflow-wrap: anywhere }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 0 1rem } dd { margin: 0 }
.example { border-left: 3px solid #ccc; padding-left: .8rem; margin: .8rem 0 }
svg { max-width: 100%; height: auto }
"""

Series = list[tuple[float, float]]  # Points (step, value).


def document(sections: Sequence[Section], mark: str) -> str:
    """The page.

    Args:
        sections: What to show.
        mark: A comment at its start that says where the file comes from.
    """
    parts = [
        '<!doctype html>',
        f'<!-- {_text(mark)} -->',
        '<html lang="en"><head><meta charset="utf-8"><title>Results</title>',
        f'<style>{_STYLE}</style></head><body><h1>Results</h1>',
    ]
    for section in sections:
        parts.append(f'<h2>{_text(section.title)}: {_text(section.split)} split</h2>')
        parts += [f'<p class="note">{_text(note)}</p>' for note in section.notes]
        for table in layout.tables(section):
            parts += [f'<h3>{_text(table.title)}</h3>', _table(table)]
            parts += _pictures(section, table)
            parts += [f'<p class="signature">{_text(note)}</p>' for note in table.notes]
        parts += _plots(section)
        parts += _examples(section)
        parts.append('<h3>Provenance</h3>')
        parts += [_definitions(notes.provenance(pick)) for pick in section.picks]
    return '\n'.join([*parts, '</body></html>\n'])


def training_series(run: Run, name: str) -> Series:
    """A value that was logged in training, by step."""
    return _series((row.step, row.values.get(name)) for row in run.log if row.kind == 'train')


def eval_series(run: Run, score: str) -> dict[str, Series]:
    """The mean of a score over tasks by step, for each evaluation (or split) that has it.

    From the lines called NAME/mean of the log; without any, from the results.
    """
    series: dict[str, Series] = {}
    for row in run.log:
        name, _, last = row.name.rpartition('/')
        if row.kind == 'eval' and last == 'mean':
            points = _series([(row.step, row.values.get(score))])
            series.setdefault(name, []).extend(points)
    if not any(series.values()):
        for split in run.splits():
            values = {step: run.at(step, split).values() for step in sorted(run.evaluations)}
            series[split] = [
                (step, statistics.fmean(r.scores[score] for r in of_step))
                for step, of_step in values.items()
                if of_step and all(score in r.scores for r in of_step)
            ]
    return {name: points for name, points in series.items() if points}


def plot(title: str, label: str, lines: Mapping[str, Series]) -> str:
    """One plot over steps as an SVG element; '' if there is no point to draw."""
    lines = {name: points for name, points in lines.items() if points}
    if not lines:
        return ''
    settings = {
        'svg.fonttype': 'none',  # Text stays text: smaller, and it can be searched.
        'svg.hashsalt': title,  # The same numbers give the same bytes.
        'text.parse_math': False,  # A dollar sign in a name is a dollar sign.
        'font.family': 'sans-serif',
    }
    with matplotlib.rc_context(settings):
        figure = Figure(figsize=(7.5, 3.2), layout='constrained')  # No pyplot: no global state.
        axes = figure.subplots()
        handles = [
            axes.plot(*zip(*points, strict=True), marker='.', markersize=4)[0]
            for points in lines.values()
        ]
        # A space before the name: matplotlib hides labels that begin with an underscore.
        axes.legend(handles, [f' {name}' for name in lines], fontsize='small', frameon=False)
        axes.set(title=title, xlabel='step', ylabel=label)
        axes.grid(alpha=0.3)
        out = io.StringIO()
        figure.savefig(out, format='svg', metadata={'Date': None, 'Creator': None})
    svg = out.getvalue()
    return svg[svg.index('<svg') :]  # Without the XML declaration, which HTML does not have.


def _series(points: Iterable[tuple[float, object]]) -> Series:
    return [
        (step, float(value))
        for step, value in points
        if isinstance(value, int | float) and math.isfinite(value)
    ]


def _plots(section: Section) -> list[str]:
    runs = {}
    for pick in section.picks:
        if any(run is pick.run for run in runs.values()):
            continue  # Its results are shared between two columns.
        name = clean(pick.run.workdir.resolve().name)
        runs[name if name not in runs else clean(pick.run.workdir)] = pick.run
    training = {name: training_series(run, 'loss') for name, run in runs.items()}
    plots = [plot('Training loss', section.loss_unit, training)]
    for score in dict.fromkeys(('loss', *section.scores[:1])):
        label = section.loss_unit if score == 'loss' else score
        lines = {
            f'{name} {eval_name}': points
            for name, run in runs.items()
            for eval_name, points in eval_series(run, score).items()
        }
        plots.append(plot(f'Evaluation: {score}, mean over tasks', label, lines))
    return [f'<figure>{svg}</figure>' for svg in plots if svg]


def _pictures(section: Section, table: Table) -> list[str]:
    """The figure that a table has the numbers of, if it is one."""
    drawn = (figure for figure in section.figures if figure.numbers is table)
    return [f'<figure>{figure.svg()}</figure>' for figure in drawn]


def _examples(section: Section) -> list[str]:
    """A few predictions of the first run, with the languages they are in."""
    parts = []
    results = section.picks[0].results if section.picks else {}
    for task, result in sorted(results.items()):
        records = read_predictions(result, _PREDICTIONS)
        if not records:
            continue
        source, target = _languages(task)
        parts.append(f'<h4>{_text(task)}</h4>')
        for record in records:
            parts.append('<div class="example">')
            texts = [(key, record.get(key, '')) for key in ('input', 'target', 'prediction')]
            for key, text in [*texts, *(('or', text) for text in _alternatives(record))]:
                lang = source if key == 'input' else target
                parts.append(f'<p><b>{key}</b> <span{lang}>{_text(text)}</span></p>')
            parts.append('</div>')
    if not parts:
        return []
    return ['<details><summary>Examples of predictions</summary>', *parts, '</details>']


def _alternatives(record: Mapping[str, object]) -> list[object]:
    """The predictions beside the first text: other suggested replies, or the rest of a beam."""
    lists = [
        (record.get(name), key) for name, key in (('suggestions', 'text'), ('n_best', 'prediction'))
    ]
    return [
        item.get(key, '')
        for items, key in lists
        if isinstance(items, list)
        for item in items[1:]
        if isinstance(item, dict)
    ]


def _languages(task: str) -> tuple[str, str]:
    """HTML attributes of the source and target text: fonts and direction follow them."""
    try:
        name = benchmarks.parse_task(task)
    except errors.UserError:
        return ' dir="auto"', ' dir="auto"'
    return tuple(
        f' lang="{code}" dir="{languages.get(code).direction}"'
        for code in (name.source, name.target)
    )


def _table(table: Table) -> str:
    if table.missing:
        return f'<p class="note">Left out: {_text(table.missing)}.</p>'
    heads = ''.join(
        f'<th colspan="{span}">{_text(group or "all")}</th>' for group, span in table.groups
    )
    labels = ''.join(f'<th>{_text(column.label)}</th>' for column in table.columns)
    rows = [
        f'<tr class="{_text(kind)}"><td>{_text(name)}</td>'
        + ''.join(f'<td{" class=best" if cell.best else ""}>{_text(cell)}</td>' for cell in cells)
        + '</tr>'
        for name, kind, cells in table.rows
    ]
    return '\n'.join(
        [
            f'<table><thead><tr><th></th>{heads}</tr>',
            f'<tr><th>{_text(table.head)}</th>{labels}</tr></thead><tbody>',
            *rows,
            '</tbody></table>',
        ]
    )


def _definitions(facts: Mapping[str, str]) -> str:
    return (
        '<dl>'
        + ''.join(f'<dt>{_text(k)}</dt><dd>{_text(v)}</dd>' for k, v in facts.items())
        + '</dl>'
    )


def _text(value: object) -> str:
    return html.escape(clean(value), quote=True)
