"""The scores and sizes that papers print, read from the tables of paper_scores/."""

import csv
import functools
import pathlib

_FOLDER = pathlib.Path(__file__).with_name('paper_scores')


@functools.cache
def printed_scores(
    name: str, fractions: tuple[str, ...]
) -> dict[tuple[str, ...], tuple[dict[str, float], tuple[str, ...]]]:
    """The scores that the paper of a benchmark prints, from 0 to 100.

    Args:
        name: Of the benchmark.
        fractions: The scores that it prints between 0 and 1.

    Returns:
        {(scenario, task, model, source, target): ({score: value}, the scores that are doubtful)};
        none without a table of it.
    """
    table = {}
    path = _FOLDER / f'{name}.csv'
    if not path.is_file():
        return {}
    with path.open(encoding='utf-8', newline='') as file:
        for row in csv.DictReader(file):
            keys = ('scenario', 'task', 'model', 'source', 'target')
            key = tuple(row.pop(k) for k in keys)
            doubtful = tuple((row.pop('doubtful', None) or '').split())
            scores = {s: _on_our_scale(text, s in fractions) for s, text in row.items() if text}
            table[key] = scores, doubtful
    return table


@functools.cache
def printed_rows(name: str) -> tuple[dict[str, str], ...]:
    """The lines of a table of a paper, as texts, by the names of its columns.

    Args:
        name: Of its file, such as mtg_stages.
    """
    with (_FOLDER / f'{name}.csv').open(encoding='utf-8', newline='') as file:
        return tuple(csv.DictReader(file))


@functools.cache
def printed_sizes(name: str) -> dict[tuple[str, str, str], int]:
    """Counts examples by (task, language, split), as the paper does; none without a file of it."""
    path = _FOLDER / f'{name}_sizes.csv'
    if not path.is_file():
        return {}
    with path.open(encoding='utf-8', newline='') as file:
        rows = csv.DictReader(file)
        return {(r['task'], r['language'], r['split']): int(r['examples']) for r in rows}


def _on_our_scale(printed: str, is_fraction: bool) -> float:
    # Rounded, because 0.967 * 100 is 96.7 only after rounding.
    return round(float(printed) * 100, 6) if is_fraction else float(printed)
