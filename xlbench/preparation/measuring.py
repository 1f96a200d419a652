"""The lengths of a task's texts, read as a preparation reads them."""

import functools
import json

from xlbench import pipeline
from xlbench.data import postprocess, tokenizers
from xlbench.data.readers import Record
from xlbench.data.statistics import Langs, Statistics
from xlbench.pipeline import seqio_tasks
from xlbench.preparation import examples
from xlbench.system import errors
from xlbench.system.progress import Progress


def measure(
    name: str, root: str, splits: tuple[str, ...], vocabulary: str
) -> tuple[dict[str, Statistics], Langs]:
    """The statistics of a task, by split, and its source and target languages.

    Args:
      name: of the task.
      root: the data root.
      splits: of the task; none: all whose files are there.
      vocabulary: whose tokens are counted; '' counts none.

    Raises:
      UserError: an unknown task or split, a missing file, or a task of other things than texts.
    """
    tokenizer = tokenizers.load(vocabulary, root) if vocabulary else None
    measured = {}
    with pipeline.bound(None, root):
        task = pipeline.get(name)
        for split in splits:
            if split not in task.splits:
                raise errors.unknown(f'split of {name}', split, task.splits)
        source, target = (getattr(task.source, f'{s}_lang', None) for s in ('source', 'target'))
        for split in splits or filter(functools.partial(_is_there, task), task.splits):
            measured[split] = Statistics()
            with Progress(f'{name}/{split}', unit='examples') as progress:
                for row in examples.text_rows(task, split):
                    targets = _references(task, row)
                    measured[split].add(row['inputs'], source, targets, target, tokenizer)
                    progress.add()
    if not measured:
        raise errors.UserError(f'no file of task {name} is in {root}; name the data root: --root')
    return measured, (source, target)


def _is_there(task: pipeline.DeclaredTask, split: str) -> bool:
    try:
        return bool(seqio_tasks.source_paths(task, split))
    except errors.UserError:
        return False


def _references(task: pipeline.DeclaredTask, row: Record) -> list[str]:
    if task.postprocessor is postprocess.all_references:
        return json.loads(row[postprocess.REFERENCES])
    return [row['targets']]
