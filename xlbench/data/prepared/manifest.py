"""The types of a manifest, which somebody else may have written."""

import os
from typing import Annotated, Any

import msgspec

from xlbench import errors, files
from xlbench.benchmarks import languages
from xlbench.data.prepared.format import LENGTHS, NotPrepared, safe_name

_Count = Annotated[int, msgspec.Meta(ge=0, lt=2**40)]
_Id = Annotated[int, msgspec.Meta(ge=-1, lt=2**31)]


class _ShardEntry(msgspec.Struct):
    file: Any  # See `safe_name`.
    examples: _Count
    bytes: _Count
    sha256: str


class _VocabularyEntry(msgspec.Struct):
    name: str
    sha256: str
    size: Annotated[int, msgspec.Meta(ge=1, lt=2**31)]
    pad_id: _Id | None = None
    eos_id: _Id | None = None
    bos_id: _Id | None = None
    unk_id: _Id | None = None
    decoder_start_id: _Id | None = None
    family: str = ''


class _InputEntry(msgspec.Struct):
    path: str
    bytes: int = 0
    mtime_ns: int = 0
    sha256: str = ''


class _LengthsEntry(msgspec.Struct, frozen=True):
    file: str = LENGTHS
    sha256: str = ''


class _SkippedEntry(msgspec.Struct):
    path: str
    line: int
    reason: str


class _Manifest(msgspec.Struct):
    """The types of a manifest.json that `Writer` may have written, with any version of this code.

    What `languages` and `metrics` hold is checked where it is used.
    """

    task: str
    split: str
    format: int
    num_examples: _Count
    shards: list[_ShardEntry]
    vocabulary: _VocabularyEntry
    code: str | None = None
    lengths: _LengthsEntry = _LengthsEntry()
    tokens: dict[str, dict[str, _Count]] = {}
    splits: list[str] = []
    view: str = 'generation'
    labels: list[str] = []
    features: dict[str, dict[str, _Id | None]] = {}
    answer_mark: list[_Id] | None = None
    source_lang: str | None = None
    target_lang: str | None = None
    headline: str | None = None
    metrics: list[dict[str, Any]] | None = None
    inputs: list[_InputEntry] | None = None
    patterns: list[str] | None = None
    unseen: bool = False
    postprocessor: bool = False
    data: str = ''
    skipped: list[_SkippedEntry] | None = None
    left_out: dict[str, _Count] | None = None


def read_json(path: str) -> dict[str, Any]:
    """The content of a manifest or mixture file; NotPrepared if it is missing or broken."""
    if not os.path.isfile(path):
        raise NotPrepared(f'{path} does not exist')
    try:
        return files.read_json(path, dict[str, Any])
    except errors.Unreadable:
        raise  # It may be as it was, so nothing is prepared in its place.
    except errors.UserError as error:
        raise NotPrepared(str(error)) from error


def check_manifest(path: str, manifest: dict[str, Any], task: str, split: str) -> None:
    """Raises NotPrepared on a manifest that no Writer wrote, UserError on one that is hostile."""
    if (manifest.get('task'), manifest.get('split')) != (task, split):
        there = errors.shortened(manifest.get('task')), errors.shortened(manifest.get('split'))
        raise NotPrepared(f'{path} is of {"/".join(there)}')
    try:
        typed = files.check_type(manifest, _Manifest, path)
    except errors.UserError as error:
        raise NotPrepared(str(error)) from error
    for shard in typed.shards:
        safe_name(shard.file, f'{path}: shard file')
    if len({shard.file for shard in typed.shards}) < len(typed.shards):
        raise NotPrepared(f'{path} lists a shard twice')
    if typed.num_examples != sum(shard.examples for shard in typed.shards):
        raise NotPrepared(f'{path}: num_examples is not the sum of its shards')
    languages.restore(manifest.get('languages'))
    if typed.view in ('classification', 'tagging') and not typed.labels:
        raise NotPrepared(f'{path} is of {typed.view} and has no labels')
    if len(set(typed.labels)) < len(typed.labels):
        raise NotPrepared(f'{path} has a label twice')
    names = [*(entry.path for entry in typed.inputs or ()), *(typed.patterns or ())]
    if any('\0' in name for name in names):
        raise NotPrepared(f'{path}: the name of an input has a NUL')
