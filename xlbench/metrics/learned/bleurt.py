"""BLEURT (arXiv:2004.04696; google-research/bleurt): a model that was trained to rate like people.

Its public checkpoints are folders of TensorFlow, which are read as they are, or those that others
made of them for transformers.
"""

import dataclasses
import functools
import pathlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

import xlbench
from xlbench.metrics import contract
from xlbench.metrics.contract import Scores, Targets
from xlbench.metrics.learned import weights
from xlbench.system import errors

if TYPE_CHECKING:
    from xlbench.metrics.learned.regressor import Regressor

_ZIPS = 'https://storage.googleapis.com/bleurt-oss'
# Checkpoint -> its file there (google-research/bleurt, checkpoints.md).
_PUBLISHED = {
    'BLEURT-20': '-21/BLEURT-20.zip',
    'BLEURT-20-D12': '-21/BLEURT-20-D12.zip',
    'BLEURT-20-D6': '-21/BLEURT-20-D6.zip',
    'BLEURT-20-D3': '-21/BLEURT-20-D3.zip',
    'bleurt-tiny-128': '/bleurt-tiny-128.zip',
    'bleurt-tiny-512': '/bleurt-tiny-512.zip',
    'bleurt-base-128': '/bleurt-base-128.zip',
    'bleurt-base-512': '/bleurt-base-512.zip',
    'bleurt-large-128': '/bleurt-large-128.zip',
    'bleurt-large-512': '/bleurt-large-512.zip',
}


@dataclasses.dataclass(frozen=True)
class Bleurt(contract.OfTexts):
    """BLEURT as its checkpoints give it: most are near 0 to 1, and no number is out of bounds.

    It is not multiplied by 100, unlike the other scores.

    Attributes:
      checkpoint: a folder with a published checkpoint, unpacked, or one for transformers; or a
        name of the Hugging Face hub with such a one.
    """

    checkpoint: str = 'BLEURT-20'

    def __post_init__(self):
        if not self.checkpoint:
            raise errors.UserError('BLEURT takes a checkpoint, such as a folder BLEURT-20')

    @property
    def signature(self) -> str:
        """The checkpoint's name, and what it equals."""
        name = pathlib.PurePath(self.checkpoint.rstrip('/')).name
        if not pathlib.Path(self.checkpoint).expanduser().is_dir():
            name = self.checkpoint
        return f'bleurt:{name}|equals:google-research/bleurt@cebe7e6|xlbench-{xlbench.__version__}'

    def missing(self) -> list[str]:
        """Lists missing files, a line each, with the command to type."""
        name = pathlib.PurePath(self.checkpoint).name
        if name in _PUBLISHED and not pathlib.Path(self.checkpoint).expanduser().is_dir():
            return [
                f'BLEURT needs the checkpoint {self.checkpoint}, which is not here: curl -LO '
                f'{_ZIPS}{_PUBLISHED[name]} && unzip {name}.zip'
            ]
        return weights.missing('BLEURT', self.checkpoint)

    def per_example(self, targets: Targets, predictions: Sequence[str]) -> list[Scores]:
        """BLEURT of each text; with several references, the highest."""
        rows = self.references(targets, predictions)
        model = _regressor(str(weights.folder(self.checkpoint)))
        asked = [
            (reference, prediction)
            for row, prediction in zip(rows, predictions, strict=True)
            for reference in row
        ]
        values = iter(model(asked))
        return [{'bleurt': max(next(values) for _ in row)} for row in rows]


@functools.lru_cache(maxsize=2)
def _regressor(folder: str) -> 'Regressor':
    from xlbench.metrics.learned.regressor import Regressor

    return Regressor(pathlib.Path(folder))
