"""Printed scores of arXiv:2012.15682, and the sizes of its data.

The numbers are in benchmarks/paper_scores/fewshot_*.csv.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from xlbench.benchmarks.paper import printed_rows

CHECKPOINT = 'bert-base-multilingual-cased'
BUCKETS = 40  # Of each language and K.
SCORES_IN = {'udpos': 'table 12', 'panx': 'table 13'}  # Others are in table 2.

# Sentences that belong where its numbers are shown.
LEARNING_RATES = 'the paper has the best of 1e-5, 3e-5, 5e-5 and 7e-5'
MLDOC_BUCKETS = "The paper's buckets of MLDoc are not published: these are different ones."
SCRIPTS_OF_PANX = (
    "The paper's numbers are those of its table 13 if Indonesian is counted among the other "
    'scripts; with Indonesian as a language in Latin script, the table gives +3.8 and +5.6.'
)
DOUBTFUL_GAPS = (
    'Differences with a ? are as printed in table 4, but table 11 minus table 12 gives other '
    'values; they are the differences from the scores with K=2.'
)
CORRELATIONS_K = (
    "The paper's correlations are over all its languages. It does not state their K: those with "
    'features match its tables if gains are averaged over K, and those with overlap are shown '
    'beside K=2, which gives its figures for named entities.'
)


Value = TypeVar('Value')
Line = Mapping[str, str]  # Of a CSV file.


def _printed(
    name: str, keys: Sequence[str], value: Callable[[Line], Value]
) -> Callable[[], dict[tuple[str | int, ...], Value]]:
    """Reads printed rows once, when it is called: columns -> a value; shots are numbers."""

    @functools.cache
    def read() -> dict[tuple[str | int, ...], Value]:
        rows = printed_rows(f'fewshot_{name}')
        return {tuple(int(r[k]) if k == 'shots' else r[k] for k in keys): value(r) for r in rows}

    return read


_OF_SHOTS = ('task', 'language', 'shots')
# Tables 2, 6, 11, 12 and 13 by task and Group: mean and deviation; 6 repeats a part of 2.
scores = _printed('scores', (*_OF_SHOTS, 'method', 'start'), lambda r: (r['mean'], r['deviation']))
# Table 4: the difference without source training, with a ? at what table 11 contradicts.
gaps = _printed('gaps', _OF_SHOTS, lambda row: row['difference'] + '?' * bool(row['doubtful']))
# Table 3 by task and factor: Spearman and Pearson.
correlations = _printed(
    'correlations', ('task', 'factor'), lambda row: (row['spearman'], row['pearson'])
)
# Table 14.
overlaps = _printed('overlap', _OF_SHOTS, lambda row: row['overlap'])
# Table 1 by task: metric, labels, target_training_sets and languages.
tasks = _printed('tasks', ('task',), dict)
# Table 7 by task: English dev score of the source model, and its learning rate.
source = _printed('source', ('task',), lambda row: (row['dev_score'], row['learning_rate']))
# Section 5.2 by task and K: the mean gains in Latin script and in others.
scripts = _printed('scripts', ('task', 'shots'), lambda row: (row['latin'], row['other']))
