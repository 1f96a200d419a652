"""The trivial systems of xlbench/data/baselines.py, scored as a model is."""

import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from xlbench import metrics
from xlbench.data import baselines, postprocess
from xlbench.data.prepared import Prepared
from xlbench.evaluators.base import write_result
from xlbench.reporting import results
from xlbench.system.files import Json

# Training examples, evenly spaced, that choose the best constant.
_JUDGING = 100


def score(
    workdir: str,
    names: Sequence[str],
    task: Prepared,
    train_task: Prepared | None,
    examples: np.ndarray | None = None,
) -> None:
    """Writes <workdir>/eval/baselines/<name>/<split>/<task>/metrics.json of each name.

    They learn from `train_task`, if they learn at all, and predict the examples of `task` with the
    numbers `examples`, the model's own; by default all.
    """
    records = task.read(range(len(task)) if examples is None else examples)
    pairs = _pairs(task, records)
    train_pairs = []
    if train_task is not None and any(name in baselines.LEARNING for name in names):
        train_pairs = _pairs(train_task, train_task.read(range(len(train_task))))
    process = postprocess.Postprocess(task)
    suite = metrics.Suite(task.name, task.manifest.get('metrics'))
    references = postprocess.references(task, records)
    signatures = suite.signatures(list(map(len, references)))
    sources, targets = ([pair[side] for pair in pairs] for side in (0, 1))
    for name in names:
        started = time.monotonic()
        judge = _judge(suite, train_task) if name == 'best_constant' and train_task else None
        n_best = baselines.predict(name, train_pairs, sources, suite.num_predictions, judge)
        result = {
            'step': None,
            'stage': 'baseline',
            'num_examples': len(targets),
            'scores': suite.score(*process(records, n_best))[0],
            'signatures': signatures,
            'decoding': {},
            'seconds': round(time.monotonic() - started, 3),
        }
        write_result(workdir, f'baselines/{name}', task, result, [])


def _judge(suite: metrics.Suite, task: Prepared) -> Callable[[str], float]:
    """Makes the function that scores one text as the answer to at most `_JUDGING` examples."""
    numbers = range(0, len(task), -(-len(task) // _JUDGING))
    records, process = task.read(numbers), postprocess.Postprocess(task)

    def compared(text: str) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
        return process(records, [[text]] * len(records))

    sample = compared(records[0]['targets_pretokenized'])
    main = results.main_score(task.manifest.get('headline') or '', suite.score(*sample)[0])
    if not (function := suite.function(main, *sample)):
        raise ValueError(f'no metric of {task.name} gives {main}')
    return lambda text: function(*compared(text))


def _pairs(task: Prepared, records: Sequence[Mapping[str, Json]]) -> list[tuple[str, str]]:
    """(input, target) texts; the language tag is for the model, no person would read it."""
    tag = f'<{task.manifest["target_lang"]}> '
    return [
        (record['inputs_pretokenized'].removeprefix(tag), record['targets_pretokenized'])
        for record in records
    ]
