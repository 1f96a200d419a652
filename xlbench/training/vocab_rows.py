"""Rows of the token tables that a run trains: config.embedding_rows, see rows.py."""

from collections.abc import Sequence

import jax
import numpy as np
from flax import traverse_util
from ml_collections import ConfigDict

from xlbench.data.prepared import Prepared
from xlbench.data.tokenizers import Tokenizer
from xlbench.models.transformer import TransformerConfig
from xlbench.system.progress import Progress
from xlbench.training.experiment import Data, stage_data
from xlbench.training.rows import Rows
from xlbench.trees import Mask, Shapes

# The tables of a family that are only looked up: one that also gives the logits moves as a whole.
_TABLES = {
    'sequence_classifier': ('encoder/token_embedder/embedding',),
    'token_classifier': ('encoder/token_embedder/embedding',),
    'dual_encoder': ('left/token_embedder/embedding', 'right/token_embedder/embedding'),
    'encoder_decoder': ('encoder/token_embedder/embedding',),
}
_AT_ONCE = 4096  # Examples that are read together.


def trained_vocab_rows(
    config: ConfigDict,
    data: Data,
    shapes: Shapes,
    mask: Mask,
    of_model: TransformerConfig,
    vocabulary: Tokenizer,
) -> Rows:
    """Finds the rows that a run trains; reads its training data where only some of them are.

    Args:
      config: of the run.
      data: all that it names.
      shapes: of the parameters.
      mask: the parameters that are trained.
      of_model: the model's config.
      vocabulary: of the run.
    """
    if config.get('embedding_rows') != 'occurring':
        return Rows()
    family = config.model.family
    flat_mask = traverse_util.flatten_dict(mask, sep='/')
    flat = traverse_util.flatten_dict(shapes, sep='/')
    sizes = {name: flat[name].shape[0] for name in _TABLES[family] if flat_mask.get(name)}
    if not sizes:
        return Rows()
    tasks = {
        (task.name, task.split): task
        for stage in config.stages.values()
        for task in stage_data(data, stage)[0]
    }
    sides = ('inputs', 'targets') if family == 'dual_encoder' else ('inputs',)
    seen_ids = ids_seen(list(tasks.values()), sides)
    # What batches and models add to examples.
    for side in ('left', 'right'):
        seen_ids[list(getattr(of_model, f'{side}_prefix', ()))] = True
    for number in (0, vocabulary.pad_id, vocabulary.eos_id, vocabulary.bos_id, vocabulary.unk_id):
        if number is not None and number >= 0:
            seen_ids[number] = True
    return Rows.of(np.flatnonzero(seen_ids), sizes)


def ids_seen(tasks: Sequence[Prepared], sides: Sequence[str]) -> np.ndarray:
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
