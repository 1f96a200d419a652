"""Tables in the form of a paper: all scores of a task side by side, and systems in groups."""

import dataclasses
import itertools
from collections.abc import Mapping, Sequence

SUM_TRANS, TRANS_SUM, END_TO_END = 'Sum-Trans', 'Trans-Sum', 'End-to-end'
NO_PRETRAINING = 'mBART'  # As the paper calls a model without a second pre-training.
# The tasks of mDialBART's second pre-training, by how the names of their SeqIO tasks end.
PRETRAINING = {
    'infilling_en_en': 'AcI',
    'permutation_en_en': 'UP',
    'summarize_en_en': 'MDS',
    'summary_en_de': 'MT',
    'summary_en_zh': 'MT',
}


@dataclasses.dataclass(frozen=True)
class Page:
    """A table of a paper.

    Attributes:
        title: Of the table.
        by: What puts a system into a group: 'paradigm', the way from a dialogue to a
            summary, or 'pretraining', what it
            was pre-trained on.
        groups: Name of a group -> the paper's systems in it, as (model, scenario).
        tasks: Those that have columns.
    """

    title: str
    by: str
    groups: Mapping[str, tuple[tuple[str, str], ...]] = dataclasses.field(hash=False)
    tasks: tuple[str, ...]


def pretraining_label(tasks: Sequence[str]) -> str:
    """Names the tasks of a second pre-training. Example: [] -> mBART, ['UP', 'MT'] -> +UP+MT."""
    order = tuple(dict.fromkeys(PRETRAINING.values()))
    if set(tasks) == set(order):
        return 'mDialBART'
    return ''.join(f'+{task}' for task in order if task in tasks) or NO_PRETRAINING


def ablations(title: str, sizes: Sequence[int], tasks: tuple[str, ...]) -> Page:
    """A page of what so many of the four tasks of pre-training are worth together."""
    order = tuple(dict.fromkeys(PRETRAINING.values()))
    groups = {}
    for size in sizes:
        for chosen in itertools.combinations(order, size):
            label = pretraining_label(chosen)
            model = label if size in (0, len(order)) else ' + '.join((NO_PRETRAINING, *chosen))
            groups[label] = ((model, 'semi' if chosen else 'cross'),)
    return Page(title, 'pretraining', groups, tasks)
