"""The trivial systems of xlbench/data/baselines.py, scored as a model is."""

import time
from collections.abc import Mapping, Sequence

from xlbench import metrics
from xlbench.data import baselines, postprocess
from xlbench.data.prepared import Prepared
from xlbench.evaluators.base import write_result
from xlbench.files import Json


def score(
    workdir: str,
    names: Sequence[str],
    task: Prepared,
    train_task: Prepared | None,
    examples: Sequence[int] | None = None,
) -> None:
    """Writes <workdir>/eval/baselines/<name>/<split>/<task>/metrics.json.

    Args:
      workdir: of the run that the baselines are compared with.
      names: of xlbench/data/baselines.py.
      task: the examples to predict.
      train_task: the examples to learn from; may be None if no name needs any.
      examples: the numbers of those to predict, the model's own; all of them by default.
    """
    records = task.read(range(len(task)) if examples is None else examples)
    pairs = _pairs(task, records)
    learns = train_task is not None and any(name in baselines.LEARNING for name in names)
    train_pairs = _pairs(train_task, train_task.read(range(len(train_task)))) if learns else []
    process = postprocess.Postprocess(task)
    suite = metrics.Suite(task.name, task.manifest.get('metrics'))
    references = postprocess.references(task, records)
    signatures = suite.signatures_of(list(map(len, references)))
    sources, targets = ([pair[side] for pair in pairs] for side in (0, 1))
    for name in names:
        started = time.monotonic()
        n_best = baselines.predict(name, train_pairs, sources, suite.num_predictions)
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


def _pairs(task: Prepared, records: Sequence[Mapping[str, Json]]) -> list[tuple[str, str]]:
    """(input, target) texts; the language tag is for the model, no person would read it."""
    tag = f'<{task.manifest["target_lang"]}> '
    return [
        (record['inputs_pretokenized'].removeprefix(tag), record['targets_pretokenized'])
        for record in records
    ]
