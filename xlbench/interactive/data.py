"""Lists tasks; reads their examples as texts and as what a model is given."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from ml_collections import ConfigDict

from xlbench import benchmarks, config as config_lib
from xlbench.data import prepared, tokenizers
from xlbench.data.prepared import Record
from xlbench.interactive.calling import Cell, frame, plainly
from xlbench.settings import blocks
from xlbench.system import errors

if TYPE_CHECKING:
    import pandas as pd

_SPLITS = ('rough_train', 'train', 'validation', 'test')
_TEXT = '_pretokenized'  # What the names of texts end with, beside their tokens.


@plainly
def list_tasks(benchmark: str = '') -> 'pd.DataFrame':
    """Lists the tasks of a benchmark, or of all of them, a row each.

    Returns:
      A frame by task: benchmark, what the task is about, source and target language, and the
      published numbers of examples of its splits, where the paper has them.
    """
    chosen = [benchmarks.get(benchmark)] if benchmark else benchmarks.BENCHMARKS.values()
    rows: list[dict[str, Cell]] = []
    for one in chosen:
        for name in one.task_names():
            _, task, source, target = benchmarks.parse_task(name)
            sizes = {split: one.official_size(task, split, source) for split in _SPLITS}
            splits = ', '.join(f'{split} {size:,}' for split, size in sizes.items() if size)
            about = {'task': name, 'benchmark': one.name, 'about': one.task_titles[task]}
            rows.append({**about, 'source': source, 'target': target, 'splits': splits})
    return frame(rows, index=('task',))


@plainly
def read_examples(
    config: ConfigDict, task: str, split: str = 'train', count: int = 5
) -> 'pd.DataFrame':
    """Reads the first examples of a task: their texts, and the tokens that a model reads.

    What is not prepared yet is prepared, as a run with this config would do it.

    Returns:
      A frame with a row for each example: `inputs` and `targets` are texts; `inputs_tokens` and
      `targets_tokens` are lists of tokens, the end of a text among them. Labels of a text or of
      its words are numbers. A mixture has `count` examples of each task, and a column `task`.
    """
    data = config.data
    config_lib.check_task(task, 'task', data.root, data.vocabulary)
    _prepare(config, [(task, split)])
    tasks, _ = prepared.open_mixture(data.root, data.vocabulary, task, split)
    pieces = tokenizers.load(data.vocabulary, data.root).pieces()
    rows = []
    for opened in tasks:
        named = ('inputs',) if opened.manifest.get('labels') else ('inputs', 'targets')
        about = {'task': opened.name} if len(tasks) > 1 else {}
        for record in opened.read(range(min(count, len(opened)))):
            rows.append(about | _example(record, pieces, named if pieces else ()))
    return frame(rows)


def _prepare(config: ConfigDict, needed: Sequence[tuple[str, str]]) -> None:
    """Makes what is not prepared yet, with the vocabulary that the config trains, if it does."""
    texts = config_lib.needed_splits(config)[:1]
    prepared.ensure(needed, blocks.Data(**config.data), texts=texts)


def _example(record: Record, pieces: Sequence[str], of_pieces: Sequence[str]) -> dict[str, Cell]:
    """A record as a row: its texts first, then its arrays, some of which are tokens."""
    texts = {k.removesuffix(_TEXT): v for k, v in record.items() if isinstance(v, str)}
    row: dict[str, Cell] = {**texts}
    for name, value in record.items():
        if name in of_pieces:
            row[f'{name}_tokens'] = [pieces[i] if i < len(pieces) else f'<{i}>' for i in value]
        elif not isinstance(value, str):
            row[name if name not in texts else f'{name}_ids'] = np.asarray(value).tolist()
    return row


@plainly
def read_batch(config: ConfigDict, stage: str = '') -> dict[str, np.ndarray]:
    """Reads the first batch that a stage of a run, by default the first, trains on.

    Returns:
      Feature to array [rows, length]; segment ids tell the examples of a row apart.
    """
    from xlbench import runs  # It loads jax, which lists and texts do not need.
    from xlbench.parallel import partitioning
    from xlbench.training import objectives
    from xlbench.training.experiment import stage_batches

    runs.check_config(config)
    config_lib.check_places(config)
    stage = stage or next(iter(sorted(config.stages)))
    errors.check_known('stage', stage, config.stages)
    block = config.stages[stage]
    pairs = [(name, block.split) for name in (block.mixture, *(block.get('curriculum') or ()))]
    _prepare(config, pairs)
    root, vocabulary = config.data.root, config.data.vocabulary
    data = {pair: prepared.open_mixture(root, vocabulary, *pair) for pair in pairs}
    mesh, view = partitioning.make_mesh(**config.mesh), objectives.build(**config.objective).view
    with stage_batches(config, stage, data, mesh, view, prefetch=0) as batches:
        return next(batches)
