"""Records of steps whose loss or gradients are not finite."""

import pathlib
from collections.abc import Iterable, Mapping, Sequence

import jax

from xlbench.data.prepared import Prepared
from xlbench.system import files, logs


def write(
    workdir: str,
    step: int,
    metrics: Mapping[str, jax.Array],
    tasks: Sequence[Prepared],
    examples: Iterable[tuple[str, str, int]],
) -> tuple[str, pathlib.Path]:
    """Writes <workdir>/nonfinite/step-<step>.json: the numbers of a step, and its examples.

    Args:
      workdir: of the run; process 0 writes.
      step: that was not finite.
      metrics: of the step: 'loss' and 'weight' are sums.
      tasks: that the examples are of.
      examples: (task, split, number) of those of the step's batch, of all processes.

    Returns:
      What there is to say, and the file.
    """
    loss, weight, norm = (float(metrics[key]) for key in ('loss', 'weight', 'grad_norm'))
    loss /= max(weight, 1.0)
    path = pathlib.Path(workdir, 'nonfinite', f'step-{step}.json')
    if jax.process_index() == 0:
        of_name = {(task.name, task.split): task for task in tasks}
        shown = [
            {
                'task': name,
                'split': split,
                'number': number,
                'input': of_name[name, split][number]['inputs_pretokenized'][:200],
                'target': of_name[name, split][number]['targets_pretokenized'][:200],
            }
            for name, split, number in examples
        ]
        facts = {'step': step, 'loss': str(loss), 'grad_norm': str(norm), 'examples': shown}
        path.parent.mkdir(exist_ok=True)
        files.write(path, logs.as_json(facts))
    return f'step {step}: the loss is {loss} and the norm of the gradients {norm}', path
