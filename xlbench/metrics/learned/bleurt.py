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
# Checkpoints there, the first four in bleurt-oss-21 (google-research/bleurt, checkpoints.md).
_PUBLISHED = (
    'BLEURT-20', 'BLEURT-20-D12', 'BLEURT-20-D6', 'BLEURT-20-D3',
    'bleurt-tiny-128', 'bleurt-tiny-512', 'bleurt-base-128', 'bleurt-base-512',
    'bleurt-large-128', 'bleurt-large-512',
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Bleurt(contract.OfTexts):
    """BLEURT as its checkpoints give it: most are near 0 to 1, and no number is out of bounds.

    It is not multiplied by 100, unlike the other scores.
    """

    # A folder with a published checkpoint, unpacked, or one for transformers; or a hub's name.
    checkpoint: str = 'BLEURT-20'

    def __post_init__(self):
        if not self.checkpoint:
            raise errors.UserError('BLEURT takes a checkpoint, such as a folder BLEURT-20')

    @property
    def signature(self) -> str:
        """The checkpoint's name, and what it equals."""
        path = pathlib.Path(self.checkpoint).expanduser()
        name = path.name if path.is_dir() else self.checkpoint
        return f'bleurt:{name}|equals:google-research/bleurt@cebe7e6|xlbench-{xlbench.__version__}'

    def missing(self) -> list[str]:
        name = pathlib.PurePath(self.checkpoint).name
        if name in _PUBLISHED and not pathlib.Path(self.checkpoint).expanduser().is_dir():
            place = f'{_ZIPS}{"-21" if name[:2] == "BL" else ""}/{name}.zip'
            return [
                f'BLEURT needs the checkpoint {self.checkpoint}, which is not here: curl -LO '
                f'{place} && unzip {name}.zip'
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
