"""Data of the browser of examples: inputs, references and every system's text, side by side.

A text may be in any script and hold anything. It reaches the page as JSON, and the page shows it as
text; only what no browser can show is replaced.
"""

import contextlib
import re
from collections.abc import Sequence

from xlbench.benchmarks import languages
from xlbench.reporting import predictions
from xlbench.reporting.page.plots import Style
from xlbench.reporting.predictions import Prediction
from xlbench.reporting.results import Result, task_name
from xlbench.reporting.sections import Section
from xlbench.reporting.tables import clean
from xlbench.system.errors import UserError
from xlbench.system.files import Json

MOST = 10_000  # Examples on a page.
_CHARACTERS = 30_000_000  # Of all texts on a page: what a phone still opens.
_MOST_SYSTEMS = 8
_LONGEST = 20_000  # Characters of one text.
_NOTHING = Prediction()  # Of a system that has not answered.
# Its task and id, what was to be answered, and the line of each system.
_Example = tuple[str, str, Prediction, Sequence[Prediction]]
_UNSHOWN = re.compile('[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]')


def content(section: Section, style: Style) -> dict[str, Json] | None:
    """The examples of a section as the page's script reads them; None without any.

    They are read from the predictions of its runs: of each system those of the first seed. Where
    there are too many, they are chosen evenly.
    """
    written: list[dict[tuple[str, str], Prediction]] = []  # Of each system by (task, id).
    first: dict[tuple[str, str], Prediction] = {}  # That of the first system which has it.
    marks: list[dict[str, str]] = []
    for system in style.ranked:
        if len(marks) == _MOST_SYSTEMS:
            break
        results: dict[str, Result] = {}
        for pick in system.picks:
            results = dict(pick.results) | results
        rows = {
            (task, key): row
            for task, result in sorted(results.items())
            for key, row in predictions.of_result(result, MOST, is_strict=False).items()
        }
        if rows:
            written.append(rows)
            marks.append({'name': system.name, 'mark': style.mark(system)})
        for place, row in rows.items():
            first.setdefault(place, row)
    if not first:
        return None
    order = {task: i for i, task in enumerate(t for c in section.columns for t in c.tasks)}
    every = [
        (*place, first[place], [rows.get(place, _NOTHING) for rows in written])
        for place in sorted(first, key=lambda place: order.get(place[0], len(order)))
    ]
    scores = [row.scores for rows in written for row in rows.values()]
    known = (s for s in section.scores if any(one.get(s) is not None for one in scores))
    score = next(known, '')  # The main one, unless single examples have another alone.
    shown = _chosen(every)
    tasks = list(dict.fromkeys(task for task, *_ in shown))
    return {
        'score': score,
        'systems': marks,
        'tasks': [_task(task) for task in tasks],
        'total': len(every),
        'examples': [
            [
                tasks.index(task),
                _shown(key),
                _shown(asked.input),
                list(map(_shown, asked.references or [asked.target] * bool(asked.target))),
                [None if row.prediction is None else _shown(row.prediction) for row in rows],
                [None if (x := row.scores.get(score)) is None else round(x, 4) for row in rows],
                [_others(row) for row in rows],
            ]
            for task, key, asked, rows in shown
        ],
    }


def _others(row: Prediction) -> list[str]:
    """The texts that a system would have written next; none of a foreign list."""
    with contextlib.suppress(UserError):
        return list(map(_shown, row.texts(None)[1:]))
    return []


def _chosen(every: Sequence[_Example]) -> list[_Example]:
    """All examples, or evenly spaced ones, as many as a page may have."""
    characters = sum(
        len(text)
        for _, _, asked, rows in every
        for text in (asked.input, *(asked.references or [asked.target]),
                     *(row.prediction or '' for row in rows))
    )  # fmt: skip
    count = min(len(every), MOST, len(every) * _CHARACTERS // max(characters, 1))
    return [every[i * len(every) // count] for i in range(count)]


def _task(task: str) -> dict[str, Json]:
    """A task's name and languages, each with its direction."""
    source, target = task_name(task)[2:]
    return {
        'name': clean(task), 'source': source, 'target': target,
        'sourceDir': _direction(source), 'targetDir': _direction(target),
    }  # fmt: skip


def _direction(lang: str) -> str:
    """HTML's dir; unless the language says it, the browser finds that of each text itself."""
    return 'rtl' if lang and languages.get(lang).direction == 'rtl' else 'auto'


def _shown(text: str) -> str:
    """A text as the page may have it: no control characters, and no more than a page holds."""
    cut = text if len(text) <= _LONGEST else f'{text[:_LONGEST]} […]'
    return _UNSHOWN.sub('\ufffd', cut.replace('\r\n', '\n').replace('\r', '\n'))
