"""The record of a checkpoint: how far its run had come, and checksums of all that is in it.

  <workdir>/checkpoints/<step>/checkpoint.json
    {"sha256": "...",                                   of every byte behind this line
     "progress": {"stage": "stage1", "position": {"window": 3, "batch": 17, ...}, ...},
     "sums": {"params/a/b float32": 123, ...},           of the numbers of each array
     "files": {"state/_METADATA": [912, "..."], ...}}    bytes and sha256 of each file

The files that hold arrays have no sha256 here: their numbers have checksums, which are computed on
the devices and compared when they are read. Everything else of a checkpoint that anybody reads is
covered by the first line, so that no altered bit passes.

Earlier versions wrote `progress/metadata`, `sums/metadata` and `files.json` ({name: bytes}), which
no checksum covers. They are read still; what can be checked of them is checked.
"""

import errno
import hashlib
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Annotated, TypeVar

import jax
import jax.numpy as jnp
import msgspec
import numpy as np

from xlbench.system import errors, files, untrusted
from xlbench.system.errors import UserError
from xlbench.system.trees import Arrays
from xlbench.training.train_step import TrainState

NAME = 'checkpoint.json'
EARLIER = 'files.json'  # In its place, in checkpoints of earlier versions.
# How the checksums of arrays are computed; those of another formula are not compared.
FORMULA = 1

# Steps, windows, batches: as many as an int32 on a device can count.
Count = Annotated[int, msgspec.Meta(ge=0, lt=2**31)]
Sum = Annotated[int, msgspec.Meta(ge=0, lt=2**32)]
_Parsed = TypeVar('_Parsed')
_Size = Annotated[int, msgspec.Meta(ge=0, lt=2**62)]


class Position(msgspec.Struct):
    """The place of the next batch in the feed of a stage; see `TrainBatches.position`."""

    window: Count
    batch: Count  # In the window.
    # A fingerprint of the data and the settings; earlier versions had none.
    feed: Sum | msgspec.UnsetType = msgspec.UNSET

    def place(self) -> dict[str, int]:
        """The position as `TrainBatches` takes it."""
        return msgspec.to_builtins(self)


class Best(msgspec.Struct):
    """The checkpoint with the best score of a stage so far, by config.best.score."""

    step: Count
    score: float


class Progress(msgspec.Struct):
    """The progress of a run, saved with every checkpoint.

    Attributes:
      stage: the one that is trained; '' if no run of ours has trained the parameters.
      position: of the input; None before the stage's first batch.
      best: of this stage.
      stale: evaluations since the best one.
      due: evaluations of this very step that are still to be done.
      skipped: steps that were left out because they were not finite.
      chosen: of each stage that is complete, its evaluations at the end included, the step that
          those took.
    """

    stage: str = ''
    position: Position | None = None
    best: Best | None = None
    stale: Count = 0
    due: list[str] = []
    skipped: Count = 0
    chosen: dict[str, Count] = {}

    def split_best_by_stage(self, stage: str, begun: Mapping[str, int]) -> str:
        """Gives the best checkpoint of all stages, which earlier versions kept, to its stage.

        A best checkpoint of an earlier stage stays that stage's, and the `stage` that is trained
        has none yet. Returns the change in a line, '' if there is none.
        """
        best = self.best
        if not best or best.step > begun[stage]:
            return ''
        owner = [name for name, step in begun.items() if step < best.step][-1]
        self.best, self.stale = None, 0
        self.chosen = {owner: best.step, **self.chosen}
        return (
            f'the best checkpoint so far, step {best.step}, is of stage {owner}: an earlier '
            f'version kept one for all stages; stage {stage} now selects among its own steps'
        )


class Record(msgspec.Struct):
    """All that stands in the file."""

    progress: Progress
    sums: dict[str, Sum] = {}  # {name and type of an array: its checksum}
    formula: int = FORMULA
    # {name in the checkpoint's folder: (bytes, sha256)}, '' for those that hold arrays.
    files: dict[str, tuple[_Size, str]] = {}


class Damage(ValueError):
    """The error of a checkpoint whose files differ from those written; its text names the part."""


def folder_of(workdir: str, step: int) -> pathlib.Path:
    """The folder of a checkpoint."""
    return pathlib.Path(workdir).absolute() / 'checkpoints' / str(step)


def write(folder: pathlib.Path, progress: Progress, sums: Mapping[str, int]) -> None:
    """Writes the record of a checkpoint whose other files are all there, and are not changed again.

    Files beside the folders in it are Orbax's own, and nobody reads them. `sums` are those of
    `sums_of`.
    """
    names = sorted(
        str(path.relative_to(folder))
        for inner in files.names(folder)
        for path in files.below(folder / inner)
        if path.is_file()
    )
    notes = {name: (_size(folder, name), _digest(folder, name)) for name in names}
    _write(folder, Record(progress, dict(sums), FORMULA, notes))


def renew(folder: pathlib.Path, progress: Progress) -> None:
    """Writes another progress into the record of a complete checkpoint, if it is another one."""
    record = read(folder)
    if record.progress != progress:
        _write(folder, msgspec.structs.replace(record, progress=progress))


def _write(folder: pathlib.Path, record: Record) -> None:
    body = msgspec.json.format(msgspec.json.encode(record), indent=1)[1:] + b'\n'
    files.write(folder / NAME, _first_line(body) + body)


def _first_line(body: bytes) -> bytes:
    return b'{"sha256": "%s",' % hashlib.sha256(body).hexdigest().encode()


_FIRST_LINE = len(_first_line(b''))


def is_earlier(folder: pathlib.Path) -> bool:
    """True if an earlier version wrote the checkpoint, without a checksum of its record."""
    # Where there is neither, it is the new one that is missing.
    return not (folder / NAME).exists() and (folder / 'progress' / 'metadata').exists()


def read(folder: pathlib.Path) -> Record:
    """The record of a checkpoint.

    Raises:
      Damage: it is missing, or is not what was written.
    """
    return _read_earlier(folder) if is_earlier(folder) else parse(_bytes(folder, NAME))


def parse(data: bytes) -> Record:
    """The content of the file; Damage if a single bit of it is not as it was written."""
    if data[:_FIRST_LINE] != _first_line(data[_FIRST_LINE:]):
        raise Damage(f'{NAME} is not what was written (its checksum differs)')
    return _parse(data, Record, NAME)


def _read_earlier(folder: pathlib.Path) -> Record:
    """Reads the three files of earlier versions, of which two may be missing."""
    progress = _parse(_bytes(folder, 'progress/metadata'), Progress, 'progress/metadata')
    sums: dict[str, int] = {}
    sizes: dict[str, int] = {}
    if (folder / 'sums').exists():
        sums = _parse(_bytes(folder, 'sums/metadata'), dict[str, Sum], 'sums/metadata')
    if (folder / EARLIER).exists():
        sizes = _parse(_bytes(folder, EARLIER), dict[str, _Size], EARLIER)
    notes = {name: (size, '') for name, size in sizes.items()}
    return Record(progress, sums, sums.pop('formula', 0), notes)


def damage(workdir: str, step: int) -> str:
    """Says in words how a checkpoint is damaged; '' if all of it but the arrays is as written.

    Raises:
      OSError, Unreadable: the disk or the system does not give one of its files, which may be
        whole.
      UserError: one of its files is a link that leads out of the workdir, or no file.
    """
    folder = folder_of(workdir, step)
    untrusted.check_tree(workdir, folder)
    try:
        for name, (size, digest) in read(folder).files.items():
            if (there := _size(folder, name)) != size:
                return f'{name} has {there} bytes instead of {size}'
            if digest and digest != _digest(folder, name):
                return f'{name} is not what was written (its checksum differs)'
        return ''
    except FileNotFoundError as error:
        return f'{_relative(error, folder)} is missing'
    except errors.Unreadable:
        raise
    except OSError as error:
        if errors.is_withheld(error):
            raise
        return f'{_relative(error, folder)} cannot be read ({error.strerror})'
    except (Damage, UserError) as error:
        return str(error)


def array_name(path: jax.tree_util.KeyPath) -> str:
    """The name of an array from its place in a tree, 'params/a/b'."""
    return jax.tree_util.keystr(path, simple=True, separator='/')


@jax.jit
def array_sums(leaves: Sequence[jax.Array]) -> jax.Array:
    """[leaves] uint32: of each array the sum of its elements' bits, mixed with their places.

    One altered element always alters its sum, any other damage but for one chance in 2**32. Whole
    numbers add up to the same in any order, so that a sum does not depend on how an array is cut.
    """
    sums = []
    for leaf in leaves:
        if leaf.dtype != jnp.bool_:
            leaf = jax.lax.bitcast_convert_type(leaf, f'uint{8 * leaf.dtype.itemsize}')
        place = jnp.zeros(leaf.shape, jnp.uint32)
        for axis, size in enumerate(leaf.shape):
            place = place * np.uint32(size) + jax.lax.broadcasted_iota(jnp.uint32, leaf.shape, axis)
        # The last steps of MurmurHash3, a bijection (github.com/aappleby/smhasher, fmix32).
        mixed = leaf.astype(jnp.uint32) ^ (place * np.uint32(0x9E3779B9))
        mixed = (mixed ^ (mixed >> 16)) * np.uint32(0x85EBCA6B)
        mixed = (mixed ^ (mixed >> 13)) * np.uint32(0xC2B2AE35)
        sums.append(jnp.sum(mixed ^ (mixed >> 16), dtype=jnp.uint32))
    return jnp.stack(sums)


def sums_of(state: TrainState | Arrays) -> dict[str, int]:
    """{name and type of an array: its checksum}, by the devices; the same on all processes."""
    named = jax.tree_util.tree_leaves_with_path(state)
    names = [f'{array_name(path)} {leaf.dtype}' for path, leaf in named]
    sums = jax.device_get(array_sums([leaf for _, leaf in named]))
    return dict(zip(names, sums.tolist(), strict=True))


def check_sums(record: Record, state: TrainState | Arrays) -> None:
    """Raises Damage if an array of the state, or of a part of it, is not what was saved."""
    if record.formula != FORMULA or not record.sums:
        return  # Checkpoints of earlier versions may have none.
    for name, number in sums_of(state).items():
        if number != record.sums.get(name, number):  # Read as another type, it has other bits.
            raise Damage(f'{name} is not what was saved (its checksum differs)')


def _relative(error: OSError, folder: pathlib.Path) -> str:
    return os.path.relpath(os.fsdecode(error.filename), folder) if error.filename else 'a file'


def _size(folder: pathlib.Path, name: str) -> int:
    """Bytes of a file; UserError if it is none, or leads out of the folder."""
    if (path := untrusted.file(folder, name)) is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(folder / name))
    return path.stat().st_size


def _digest(folder: pathlib.Path, name: str) -> str:
    """sha256 of a file; '' of one that holds arrays, or an index of them with sums of its own."""
    if pathlib.PurePath(name).parent.name == 'd':
        return ''
    return hashlib.sha256((folder / name).read_bytes()).hexdigest()


def _bytes(folder: pathlib.Path, name: str) -> bytes:
    try:
        if (path := untrusted.file(folder, name)) is None:
            raise Damage(f'{name} is missing')
        return untrusted.read_bytes(path)
    except errors.Unreadable:
        raise
    except UserError as error:
        raise Damage(str(error)) from None


def _parse(data: bytes, kind: type[_Parsed], name: str) -> _Parsed:
    try:
        return files.parse_json(data, kind, name)
    except UserError as error:
        raise Damage(str(error)) from None
