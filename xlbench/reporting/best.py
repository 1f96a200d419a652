"""Which systems have the best score of a column: runs and baselines, as their scores are shown."""

import re
from collections.abc import Sequence

from xlbench.reporting.results import LOSSES
from xlbench.reporting.systems import System

# Scores that are best at 100, those that have no such end, and error rates. Of a user's own score
# nobody knows which it is.
_HIGHER = re.compile(
    r'(rouge|bleu|chrf|chrfpp|meteor|bertscore|distinct|dist|mrs|accuracy|macro_f1|chunk|'
    r'tag_accuracy|mrr|p_at|recall|set|macro_mrr)(_.*)?'
)
_UNBOUNDED = re.compile(r'bleurt(_.*)?')
_LOWER = re.compile('|'.join([*LOSSES, 'ter(_.*)?']))


def ends_at_100(score: str) -> bool:
    """Returns whether a score is best at 100, so that what lacks to it is an error."""
    return _HIGHER.fullmatch(score) is not None


def direction(score: str) -> int:
    """1 where a higher score is better, -1 where a lower one is, 0 for a user's own."""
    if _LOWER.fullmatch(score):
        return -1
    return int(any(kind.fullmatch(score) for kind in (_HIGHER, _UNBOUNDED)))


def winners(systems: Sequence[System], score: str, tasks: Sequence[str], decimals: int) -> set[int]:
    """The places of the systems with the best score of tasks, of runs and baselines.

    There is none where fewer than two have it, where they were scored on different numbers of
    examples, or where the score is a user's own.
    """
    if not direction(score):
        return set()
    values = {
        number: round(value, decimals)
        for number, system in enumerate(systems)
        if system.kind != 'paper' and (value := system.cell(score, tasks).value) is not None
    }
    counts = {systems[number].count(tasks) for number in values}
    if len(values) < 2 or len(counts) > 1:
        return set()
    top = (min if direction(score) < 0 else max)(values.values())
    return {number for number, value in values.items() if value == top}
