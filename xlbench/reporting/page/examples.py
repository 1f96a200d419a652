"""Data of the browser of examples: inputs, references and every system's text, side by side.

A text may be in any script and hold anything. It reaches the page as JSON, and the page shows it as
text; only what no browser can show is replaced.
"""

import contextlib
import dataclasses
import re
from collections.abc import Sequence

from xlbench.benchmarks import languages
from xlbench.reporting import predictions
from xlbench.reporting.page.style import Style
from xlbench.reporting.results import Result, task_name
from xlbench.reporting.sections import Section
from xlbench.reporting.systems import System
from xlbench.reporting.tables import clean
from xlbench.system.errors import UserError
from xlbench.system.files import Json

MOST = 10_000  # Examples on a page.
_CHARACTERS = 30_000_000  # Of all texts on a page: what a phone still opens.
_MOST_SYSTEMS = 8
_LONGEST = 20_000  # Characters of one text.
_UNSHOWN = re.compile('[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]')


@dataclasses.dataclass
class Example:
    """An example of a task.

    Attributes:
      task: SeqIO task name.
      id: of the example in its split.
      input: what was to be answered.
      references: what was expected, one or more.
      texts: system -> what it wrote.
      scores: system -> the score of that; where the predictions have one.
      others: system -> the texts that it would have written next.
    """

    task: str
    id: str
    input: str
    references: list[str]
    texts: dict[str, str] = dataclasses.field(default_factory=dict)
    scores: dict[str, float] = dataclasses.field(default_factory=dict)
    others: dict[str, list[str]] = dataclasses.field(default_factory=dict)

    @property
    def characters(self) -> int:
        """How long all texts are together."""
        return sum(map(len, (self.input, *self.references, *self.texts.values())))


def content(section: Section, style: Style) -> dict[str, Json] | None:
    """The examples of a section as the page's script reads them; None without any.

    They are read from the predictions of its runs: of each system those of the first seed. Where
    there are too many, they are chosen evenly.
    """
    with_texts: list[System] = []
    score = _score(section)
    examples: dict[tuple[str, str], Example] = {}
    for system in style.ranked:
        if len(with_texts) == _MOST_SYSTEMS:
            break
        results: dict[str, Result] = {}
        for pick in system.picks:
            results = dict(pick.results) | results
        added = [_add(examples, system, result, score) for _, result in sorted(results.items())]
        if any(added):
            with_texts.append(system)
    if not examples:
        return None
    order = {task: i for i, task in enumerate(t for c in section.columns for t in c.tasks)}
    every = sorted(examples.values(), key=lambda example: order.get(example.task, len(order)))
    shown = _chosen(every)
    tasks = list(dict.fromkeys(example.task for example in shown))
    names = [system.name for system in with_texts]
    return {
        'score': score,
        'systems': [{'name': system.name, 'mark': style.mark(system)} for system in with_texts],
        'tasks': [_task(task) for task in tasks],
        'total': len(every),
        'examples': [
            [
                tasks.index(example.task),
                _shown(example.id),
                _shown(example.input),
                [_shown(text) for text in example.references],
                [_shown(example.texts[n]) if n in example.texts else None for n in names],
                [round(example.scores[n], 4) if n in example.scores else None for n in names],
                [[_shown(text) for text in example.others.get(n, ())] for n in names],
            ]
            for example in shown
        ],
    }


def _add(
    examples: dict[tuple[str, str], Example], system: System, result: Result, score: str
) -> bool:
    """Adds what a system wrote for a task; whether it wrote anything."""
    rows = predictions.readable(result, MOST)
    for key, row in rows.items():
        references = row.references or [row.target] * bool(row.target)
        example = examples.setdefault(
            (result.task, key), Example(result.task, key, row.input, references)
        )
        if row.prediction is not None:
            example.texts[system.name] = row.prediction
        if (value := row.scores.get(score)) is not None:
            example.scores[system.name] = value
        with contextlib.suppress(UserError):  # Of a foreign list.
            example.others[system.name] = row.texts(None)[1:]
    return bool(rows)


def _score(section: Section) -> str:
    """The score that single examples have: the main one, else the next of the section's."""
    results = [result for pick in section.picks for result in pick.results.values()]
    first = [row for result in results for row in predictions.readable(result, 1).values()]
    known = (s for s in section.scores if any(r.scores.get(s) is not None for r in first))
    return next(known, '')


def _chosen(every: Sequence[Example]) -> list[Example]:
    """All examples, or evenly spaced ones, as many as a page may have."""
    characters = sum(example.characters for example in every)
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
