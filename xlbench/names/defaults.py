"""The values of the keys that a config leaves out, wherever these are known without the data."""

import dataclasses
from collections.abc import Sequence

from xlbench import models
from xlbench.config import blocks, signatures
from xlbench.names.keys import is_sweep, taken
from xlbench.system.errors import UserError
from xlbench.system.files import Json, Setting


def left_out(config: Json, path: Sequence[str]) -> dict[str, Json]:
    """Gives the defaults of a block, for what reads it: {key: value as JSON has it}.

    Args:
      config: of a run or a sweep, of this version or an earlier one.
      path: the block's keys: 'stages', 'stage1', 'optimizer'; none for the config itself.

    Example: of config.evals.test.decoding -> {'method': 'greedy', 'num_beams': 1, ...}
    """
    try:
        return {key: _as_json(value) for key, value in _defaults(config, path).items()}
    except (UserError, KeyError, AttributeError, TypeError):  # It is not a config of ours.
        return {}


def _defaults(config: dict[str, Json], path: Sequence[str]) -> dict[str, Setting]:
    if is_sweep(config) and path[:1] == ('source',):
        return _defaults(config['source'], path[1:])
    if not path:
        return {} if is_sweep(config) else dict(signatures.of_class(blocks.Run).defaults)
    if path == ('model',):
        return _of_model(**config['model'])
    signature = taken(config, *path)
    known = dict(signature.defaults) if signature else {}
    if path[:1] == ('stages',) and path[2:] == ('batches',):  # What differs from config.batches.
        known |= config['batches']
    if path[:1] == ('evals',) and path[2:] == ('decoding',):
        known['max_length'] = config['evals'][path[1]]['lengths']['targets']
    return known


def _of_model(family: str, size: str = '', **fields: Setting) -> dict[str, Setting]:
    """The fields of a model; what is 0 becomes the vocabulary's size, or the data's labels."""
    known = dataclasses.asdict(models.config(family, size, **fields))
    return known | dict.fromkeys(known.keys() & {'vocab_size', 'num_labels'}, 0)


def _as_json(value: Setting) -> Json:
    return [_as_json(part) for part in value] if isinstance(value, list | tuple) else value
