"""Which rows of the token tables a run trains: config.embedding_rows, see rows.py."""

from collections.abc import Sequence

import jax
import numpy as np
from flax import traverse_util
from ml_collections import ConfigDict

from xlbench.data.prepared import Prepared
from xlbench.progress import Progress
from xlbench.training.experiment import Experiment, stage_data
from xlbench.training.rows import Rows

# The tables of a family that are only looked up: one that also gives the logits moves as a whole.
_TABLES = {
    'sequence_classifier': ('encoder/token_embedder/embedding',),
    'token_classifier': ('encoder/token_embedder/embedding',),
    'dual_encoder': ('left/token_embedder/embedding', 'right/token_embedder/embedding'),
    'encoder_decoder': ('encoder/token_embedder/embedding',),
}
_AT_ONCE = 4096  # Examples that are read together.


def rows(config: ConfigDict, experiment: Experiment) -> Rows:
    """The rows that a run trains; reads its training data where only some of them are."""
    if config.get('embedding_rows') != 'occurring':
        return Rows()
    family = config.model.family
    mask = traverse_util.flatten_dict(experiment.mask, sep='/')
    shapes = traverse_util.flatten_dict(experiment.shapes, sep='/')
    sizes = {name: shapes[name].shape[0] for name in _TABLES[family] if mask.get(name)}
    if not sizes:
        return Rows()
    tasks = {
        (task.name, task.split): task
        for stage in config.stages.values()
        for task in stage_data(experiment.data, stage)[0]
    }
    sides = ('inputs', 'targets') if family == 'dual_encoder' else ('inputs',)
    seen_ids = seen(list(tasks.values()), sides)
    # What batches and models add to examples.
    of_model, vocabulary = experiment.model.config, experiment.tokenizer
    for side in ('left', 'right'):
        seen_ids[list(getattr(of_model, f'{side}_prefix', ()))] = True
    for number in (0, vocabulary.pad_id, vocabulary.eos_id, vocabulary.bos_id, vocabulary.unk_id):
        if number is not None and number >= 0:
            seen_ids[number] = True
    return Rows.of(np.flatnonzero(seen_ids), sizes)


def seen(tasks: Sequence[Prepared], sides: Sequence[str]) -> np.ndarray:
    """[vocabulary] bool: whether an id stands in some example's `sides`, as far as it has them."""
    ids = np.zeros(tasks[0].manifest['vocabulary']['size'], bool)
    total = sum(len(task) for task in tasks)
    with Progress('read', total, 'examples', active=jax.process_index() == 0) as progress:
        for task in tasks:
            for start in range(0, len(task), _AT_ONCE):
                records = task.read(range(start, min(start + _AT_ONCE, len(task))))
                for record in records:
                    for side in sides:
                        if side in record:
                            ids[record[side]] = True
                progress.add(len(records))
    return ids
