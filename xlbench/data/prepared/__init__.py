"""Prepared examples on disk: one folder for each task and split, written once, read at random.

  <root>/prepared/<vocabulary>/<task>/<split>/
    manifest.json               what is here, made from what, with which vocabulary and metrics
    lengths.npy                 [num_examples, 2] int32: tokens of inputs and of targets
    00000-of-00004.array_record the examples; a record is a msgpack map, see `pack`
  <root>/prepared/<vocabulary>/<mixture>.json   {"name", "code", split: {task: rate}}

The same inputs give the same bytes. A folder is complete or absent: `Writer` fills a hidden folder
beside the target and renames it when every byte is on disk.

Prepared data may have been downloaded, so nothing in it is trusted: JSON, msgpack and plain numpy
only, every size is checked, and no name in it can lead out of its folder.
"""

from xlbench.data.prepared.format import (
    SIDES,
    Columns,
    Ids,
    InputEntry,
    Manifest,
    NotPrepared,
    Packed,
    Record,
    ShardEntry,
    SkippedEntry,
    decode,
    folder,
    pack,
    vocabulary_folder,
)
from xlbench.data.prepared.on_demand import ensure, stale_at_once, wait_for
from xlbench.data.prepared.reader import (
    Prepared,
    is_there,
    language_places,
    members,
    open_mixture,
    open_optional,
    open_task,
)
from xlbench.data.prepared.writer import (
    SHARD_EXAMPLES,
    Writer,
    alone,
    scratch,
    write_mixture,
    write_shard,
)
