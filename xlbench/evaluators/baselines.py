"""The trivial systems of xlbench/baselines.py, scored as a model is."""

import time
from collections.abc import Sequence

from xlbench import baselines, metrics
from xlbench.evaluators.loop import write_result
from xlbench.prepared import Prepared


def score(workdir: str, names: Sequence[str], task: Prepared, train_task: Prepared | None) -> None:
    """Writes <workdir>/eval/baselines/<name>/<split>/<task>/metrics.json.

    Args:
      workdir: of the run that the baselines are compared with.
      names: of xlbench/baselines.py.
      task: the examples to predict.
      train_task: the examples to learn from; may be None if no name needs any.
    """
    pairs = _pairs(task)
    train_pairs = _pairs(train_task) if names and train_task is not None else []
    task_metrics = [metrics.from_spec(spec) for spec in task.manifest['metrics']]
    targets = [target for _, target in pairs]
    count = max((getattr(metric, 'num_predictions', 1) for metric in task_metrics), default=1)
    for name in names:
        started = time.monotonic()
        n_best = baselines.predict(name, train_pairs, [source for source, _ in pairs], count)
        scores: dict[str, float] = {}
        for metric in task_metrics:
            scores |= metrics.score(metric, targets, n_best)[0]
        result = {
            'step': None,
            'stage': 'baseline',
            'num_examples': len(targets),
            'scores': scores,
            'signatures': {type(metric).__name__: metric.signature for metric in task_metrics},
            'decoding': {},
            'seconds': round(time.monotonic() - started, 3),
        }
        write_result(workdir, f'baselines/{name}', task, result, [])


def _pairs(task: Prepared) -> list[tuple[str, str]]:
    """(input, target) texts; the language tag is for the model, no person would read it."""
    tag = f'<{task.manifest["target_lang"]}> '
    return [
        (record['inputs_pretokenized'].removeprefix(tag), record['targets_pretokenized'])
        for record in task.read(range(len(task)))
    ]
