"""Examples in columns: checked and packed many at once, which takes a fraction of the time."""

import dataclasses
from collections.abc import Sequence

import msgpack
import numpy as np

from xlbench.data.prepared.format import SIDES, Record, checked_size, encode


@dataclasses.dataclass(frozen=True)
class Ids:
    """The ids of many examples, one row behind another.

    Attributes:
      values: [total] int32.
      stops: [rows] int64, where each row ends.
    """

    values: np.ndarray
    stops: np.ndarray

    @classmethod
    def joined(
        cls, rows: Sequence[np.ndarray], before: Sequence[int] = (), behind: Sequence[int] = ()
    ) -> 'Ids':
        """The rows, each [length] int32, with the ids that stand before and behind each of them."""
        head, tail = (np.array(ids, np.int32).tobytes() for ids in (before, behind))
        sizes = np.fromiter(map(len, rows), np.int64, len(rows)) + len(before) + len(behind)
        # Arrays are joined as bytes, which is faster than as arrays.
        data = b''.join((head, (tail + head).join(rows), tail)) if len(rows) else b''
        return cls(np.frombuffer(data, np.int32), np.cumsum(sizes))

    def __len__(self) -> int:
        return len(self.stops)

    def sizes(self) -> np.ndarray:
        """Returns the number of ids of each row, [rows] int64."""
        return np.diff(self.stops, prepend=0)

    def rows(self) -> list[np.ndarray]:
        """Each row, [length] int32."""
        stops = self.stops.tolist()
        return [self.values[a:b] for a, b in zip([0, *stops], stops, strict=False)]

    def row_bytes(self) -> list[bytes]:
        """Each row as little-endian int32."""
        data = self.values.astype('<i4', copy=False).tobytes()
        stops = (4 * self.stops).tolist()
        return [data[a:b] for a, b in zip([0, *stops], stops, strict=False)]


# The texts or the ids of each example by name, all of one length.
Columns = dict[str, Sequence[str] | Ids]


def records(columns: Columns) -> list[Record]:
    """The examples of columns one by one."""
    names = tuple(columns)
    values = [x.rows() if isinstance(x, Ids) else x for x in columns.values()]
    return [dict(zip(names, row, strict=True)) for row in zip(*values, strict=True)]


@dataclasses.dataclass(frozen=True)
class Packed:
    """Examples as bytes, with what their writer has to know of them.

    Attributes:
      data: the bytes of each example, see `format.encode`.
      lengths: [examples, 2] int32, how many ids inputs and targets have.
      largest: the largest id of the inputs and of the targets.
    """

    data: list[bytes]
    lengths: np.ndarray
    largest: tuple[int, int]

    def __len__(self) -> int:
        return len(self.data)

    def part(self, start: int, stop: int) -> 'Packed':
        """The examples from `start` to before `stop`."""
        return Packed(self.data[start:stop], self.lengths[start:stop], self.largest)


def pack(examples: Columns | Sequence[Record]) -> Packed:
    """Packs examples; ValueError if one of them cannot be packed."""
    columns = examples if isinstance(examples, dict) else _as_columns(examples)
    if columns is None:
        data = [encode(record) for record in examples]
        rows = ([np.asarray(record[side], np.int32) for record in examples] for side in SIDES)
        sides = [Ids.joined(side) for side in rows]
    else:
        data = _pack_columns(columns)
        sides = [columns[side] for side in SIDES]
    lengths = np.stack([ids.sizes() for ids in sides], axis=1).astype(np.int32)
    return Packed(data, lengths, tuple(int(ids.values.max(initial=0)) for ids in sides))


def _pack_columns(columns: Columns) -> list[bytes]:
    """The bytes of examples, as `encode` makes them of each."""
    names, values = sorted(columns), []
    for name in names:
        column = columns[name]
        if isinstance(column, Ids):
            if column.values.min(initial=0) < 0:
                raise ValueError(f'feature {name!r} has ids outside 0..2**31-1')
            column = column.row_bytes()
        values.append(column)
    packer = msgpack.Packer(use_bin_type=True)
    rows = zip(*values, strict=True)
    return [checked_size(packer.pack(dict(zip(names, row, strict=True)))) for row in rows]


_PLAIN = {(np.dtype('<i4'), 1, True)}  # Type, dimensions, contiguous.


def _as_columns(examples: Sequence[Record]) -> Columns | None:
    """Records of one kind as columns; None if they need a look at each of them."""
    names = tuple(examples[0]) if examples else ()
    if not set(SIDES) <= set(names) or any(len(record) != len(names) for record in examples):
        return None
    columns: Columns = {}
    for name in names:
        values = [record.get(name) for record in examples]
        kinds = set(map(type, values))
        if kinds == {str}:
            columns[name] = values
        elif kinds == {np.ndarray} and {
            (x.dtype, x.ndim, x.flags.c_contiguous) for x in values
        } == _PLAIN:  # fmt: skip
            columns[name] = Ids.joined(values)
        else:
            return None
    return columns
