"""A tensor in a file, whose numbers are read when they are needed."""

import dataclasses
import math
import pathlib
from collections.abc import Iterator, Sequence

import ml_dtypes
import numpy as np

from xlbench.system.errors import UserError

# The types of numbers, as safetensors calls them, and the storage classes that torch pickles.
TYPES = {
    'F64': ('DoubleStorage', np.float64),
    'F32': ('FloatStorage', np.float32),
    'F16': ('HalfStorage', np.float16),
    'BF16': ('BFloat16Storage', ml_dtypes.bfloat16),
    'I64': ('LongStorage', np.int64),
    'I32': ('IntStorage', np.int32),
    'I16': ('ShortStorage', np.int16),
    'I8': ('CharStorage', np.int8),
    'U8': ('ByteStorage', np.uint8),
    'BOOL': ('BoolStorage', np.bool_),
}
MOST_AXES = 64  # numpy's own limit.
LONGEST_NAME = 255  # Of a tensor or a file; file systems take no more bytes.
_BLOCK = 1 << 26  # Bytes compared at once.


@dataclasses.dataclass(frozen=True)
class Stored:
    """A tensor in a file, not read yet."""

    file: pathlib.Path
    name: str  # As the file calls it.
    dtype: np.dtype  # Of the file's numbers.
    shape: tuple[int, ...]
    start: int  # Byte of the file at which its first number lies.
    strides: tuple[int, ...]  # Numbers to pass for a step along each axis.
    multiplier: float | None = None  # Of its numbers before they were rounded; None: they were not.

    def __post_init__(self):
        if self.start + self.span * self.dtype.itemsize > self.file.stat().st_size:
            raise self.broken('ends beyond the file, which must be cut short')

    @property
    def span(self) -> int:
        """Numbers from its first to its last, in the file."""
        return span(self.shape, self.strides)

    def broken(self, what: str) -> UserError:
        """The error that names file and tensor."""
        return UserError(f'{self.file}: tensor {self.name} {what}; fetch or write the file again')

    def read(self) -> np.ndarray:
        """The tensor, in the file's type; in float32 if it was rounded."""
        numbers = np.fromfile(self.file, self.dtype, self.span, offset=self.start)
        if numbers.size != self.span:
            raise self.broken('is not whole')
        strides = [stride * self.dtype.itemsize for stride in self.strides]
        value = np.lib.stride_tricks.as_strided(numbers, self.shape, strides)
        return value if self.multiplier is None else value / np.float32(self.multiplier)

    def equals(self, other: 'Stored') -> bool:
        """Returns whether both hold the same numbers; reads them in blocks, if they lie apart."""
        if self.shape != other.shape:
            return False
        place = ('file', 'start', 'strides', 'dtype')
        if all(getattr(self, key) == getattr(other, key) for key in place):
            return True
        blocks = zip(self._blocks(), other._blocks(), strict=True)
        return all(np.array_equal(mine, theirs) for mine, theirs in blocks)

    def _blocks(self) -> Iterator[np.ndarray]:
        if not self.shape:
            yield self.read()
            return
        rows = max(_BLOCK // (4 * max(math.prod(self.shape[1:]), 1)), 1)
        for row in range(0, self.shape[0], rows):
            shape = (min(rows, self.shape[0] - row), *self.shape[1:])
            start = self.start + row * self.strides[0] * self.dtype.itemsize
            yield dataclasses.replace(self, shape=shape, start=start).read()


def span(shape: Sequence[int], strides: Sequence[int]) -> int:
    """Numbers from the first to the last of a tensor; the strides count numbers, too."""
    if 0 in shape:
        return 0
    return 1 + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))


def check_name(file: pathlib.Path, name: str) -> None:
    """Raises UserError for what is not a name of a tensor in this file."""
    if not name.isprintable() or len(name) > LONGEST_NAME:
        raise UserError(f'{file}: {name[:80]!r} is not a name of a tensor')
