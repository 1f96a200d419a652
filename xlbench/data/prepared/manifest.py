"""The types of a manifest, which somebody else may have written."""

import os
from typing import Annotated, Any, NotRequired, TypedDict

import msgspec

from xlbench.benchmarks import languages
from xlbench.data.prepared.format import NotPrepared, safe_name
from xlbench.system import errors, files

_Count = Annotated[int, msgspec.Meta(ge=0, lt=2**40)]
_Id = Annotated[int, msgspec.Meta(ge=-1, lt=2**31)]


class ShardEntry(TypedDict):
    """An ArrayRecord file."""

    file: Any  # A name, see `safe_name`.
    examples: _Count
    bytes: _Count
    sha256: str


class VocabularyEntry(TypedDict):
    """Vocabulary that made the ids, see `Tokenizer.manifest`."""

    name: str
    sha256: str
    size: Annotated[int, msgspec.Meta(ge=1, lt=2**31)]
    pad_id: NotRequired[_Id | None]
    eos_id: NotRequired[_Id | None]
    bos_id: NotRequired[_Id | None]
    unk_id: NotRequired[_Id | None]
    decoder_start_id: NotRequired[_Id | None]
    family: NotRequired[str]


class InputEntry(TypedDict):
    """A file that was read."""

    path: str
    bytes: NotRequired[int]
    mtime_ns: NotRequired[int]
    sha256: NotRequired[str]


class LengthsEntry(TypedDict, total=False):
    """The file of all lengths."""

    file: str
    sha256: str


class SkippedEntry(TypedDict):
    """A bad record that was skipped."""

    path: str
    line: int
    reason: str


class Manifest(TypedDict):
    """A manifest.json that `Writer` may have written, with any version of this code.

    What `languages` and `metrics` hold is checked where it is used. With `draws`, this number of
    neighbouring examples are one example, each time with other noise.
    """

    task: str
    split: str
    format: int
    num_examples: _Count
    draws: NotRequired[Annotated[int, msgspec.Meta(ge=1, lt=2**20)]]
    shards: list[ShardEntry]
    vocabulary: VocabularyEntry
    code: NotRequired[str | None]
    lengths: NotRequired[LengthsEntry]
    tokens: NotRequired[dict[str, dict[str, _Count]]]
    splits: NotRequired[list[str]]
    view: NotRequired[str]
    labels: NotRequired[list[str]]
    features: NotRequired[dict[str, dict[str, _Id | None]]]
    answer_mark: NotRequired[list[_Id] | None]
    segment_marks: NotRequired[list[_Id] | None]
    source_lang: NotRequired[str | None]
    target_lang: NotRequired[str | None]
    headline: NotRequired[str | None]
    metrics: NotRequired[list[dict[str, Any]] | None]
    languages: NotRequired[Any]
    inputs: NotRequired[list[InputEntry] | None]
    patterns: NotRequired[list[str] | None]
    unseen: NotRequired[bool]
    postprocessor: NotRequired[bool | str]
    data: NotRequired[str]
    skipped: NotRequired[list[SkippedEntry] | None]
    left_out: NotRequired[dict[str, _Count] | None]


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


def checked_manifest(path: str, content: dict[str, Any], task: str, split: str) -> Manifest:
    """The content of a manifest file as what `Writer` writes.

    Raises:
      NotPrepared: no Writer wrote it.
      UserError: it is hostile.
    """
    if (content.get('task'), content.get('split')) != (task, split):
        there = errors.shortened(content.get('task')), errors.shortened(content.get('split'))
        raise NotPrepared(f'{path} is of {"/".join(there)}')
    try:
        manifest = files.check_type(content, Manifest, path)
    except errors.UserError as error:
        raise NotPrepared(str(error)) from error
    shards = [safe_name(shard['file'], f'{path}: shard file') for shard in manifest['shards']]
    if len(set(shards)) < len(shards):
        raise NotPrepared(f'{path} lists a shard twice')
    if manifest['num_examples'] != sum(shard['examples'] for shard in manifest['shards']):
        raise NotPrepared(f'{path}: num_examples is not the sum of its shards')
    if manifest['num_examples'] % (draws := manifest.get('draws', 1)):
        raise NotPrepared(f'{path}: num_examples is no multiple of its {draws} draws')
    languages.restore(manifest.get('languages'))
    labels = manifest.get('labels', [])
    if manifest.get('view') in ('classification', 'tagging') and not labels:
        raise NotPrepared(f'{path} is of {manifest["view"]} and has no labels')
    if len(set(labels)) < len(labels):
        raise NotPrepared(f'{path} has a label twice')
    inputs = [entry['path'] for entry in manifest.get('inputs') or ()]
    if any('\0' in name for name in [*inputs, *(manifest.get('patterns') or ())]):
        raise NotPrepared(f'{path}: the name of an input has a NUL')
    return manifest
