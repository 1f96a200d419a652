"""The texts of a task that a command line names: as inputs, or as references."""

import os
import pathlib
from typing import TYPE_CHECKING

from xlbench import config as config_lib
from xlbench.names import places
from xlbench.system import files
from xlbench.system.errors import UserError
from xlbench.system.files import Json

if TYPE_CHECKING:
    from xlbench.data import prepared


def open_task(
    task: str,
    split: str,
    *,
    like: str = '',
    root: str = '',
    vocabulary: str = '',
    sample: bool = False,
) -> 'prepared.Prepared':
    """The prepared task and split, of whichever vocabulary: its texts are the same.

    Args:
      task: its name.
      split: of the task.
      like: workdir of a run, whose data root and vocabulary are taken where none are given.
      root: of the data; by default that of XLBENCH_DATA, or data.
      vocabulary: to prepare the task with, if it is not prepared.
      sample: whether the sample corpora are made in the root.

    Raises:
      UserError: there is no such task, or nothing says with which vocabulary to prepare it.
    """
    from xlbench.data import prepared  # Slow to import.

    if like:
        about: dict[str, Json] = files.read_json(pathlib.Path(like) / 'config.json', dict)
        config = about.get('config')
        data = config.get('data') if isinstance(config, dict) else None
        if not isinstance(data, dict) or not isinstance(data.get('root'), str):
            raise UserError(f'--like={like}: its config.json names no data; give --root')
        sample = sample or bool(data.get('sample'))
        root = config_lib.data_root({**about, 'config': {'data': data | {'sample': sample}}}, root)
        vocabulary = vocabulary or str(data.get('vocabulary') or '')
    root = root or os.environ.get('XLBENCH_DATA') or 'data'
    if vocabulary:
        places.check_task(task, 'task in --task', root, vocabulary)
        pairs = [(task, split)]
        prepared.ensure(pairs, root=root, vocabulary=vocabulary, sample=sample, to_stderr=True)
        return prepared.open_task(root, vocabulary, task, split)
    reasons = []
    place = pathlib.Path(root) / 'prepared'
    for name in files.names(place):
        try:
            return prepared.open_task(root, name, task, split)
        except prepared.NotPrepared as error:
            if (place / name / task / split).is_dir():
                reasons.append(error.reason)
    if not reasons:
        places.check_task(task, 'task in --task', root, 'sample')
    why = reasons[0] if reasons else f'{task}/{split} is not prepared in {root}'
    raise UserError(
        f'{why}; name a vocabulary to prepare it with, --vocabulary=mt5, a run that has it, '
        '--like=WORKDIR, or a file of --references'
    )
