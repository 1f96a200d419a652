"""Facts on the training of a run, read from its config, which may be foreign and incomplete."""

import collections
from collections.abc import Mapping

from xlbench.system.files import Json


def choosing_split(config: Mapping[str, Json]) -> str:
    """The split of the evaluation that chooses the best checkpoint; '' if none does."""
    best, evals = (config.get(key) for key in ('best', 'evals'))
    score = best.get('score') if isinstance(best, dict) else ''
    block = evals.get(str(score).partition('/')[0]) if isinstance(evals, dict) else None
    return str(block.get('split')) if isinstance(block, dict) else ''


def mixture_names(config: Mapping[str, Json]) -> list[str]:
    """Strings of the config that may name what is trained on, the likeliest first.

    Breadth first, and a key called mixture before one called task: evaluators name tasks too, but
    deeper down.
    """
    names: dict[str, list[str]] = {'mixture': [], 'task': []}
    queue = collections.deque([config])
    while queue:
        block = queue.popleft()
        for key, value in block.items():
            if isinstance(value, dict):
                queue.append(value)
            elif isinstance(value, list):
                queue.extend(item for item in value if isinstance(item, dict))
            elif isinstance(value, str) and key in names:
                names[key].append(value)
    return names['mixture'] + names['task']
