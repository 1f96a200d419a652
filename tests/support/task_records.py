"""What the source of a registered task reads, and what its preprocessors make of it."""

from typing import Any

from xlbench import pipeline
from xlbench.data.readers import BadRecord, Item
from xlbench.system.errors import UserError


def read(name: str, split: str = 'train') -> list[Item]:
    """All records of a split, and beside them what is bad or left out."""
    source = pipeline.get(name).source
    return list(source.read(split, *source.paths(split)))


def bad(name: str, split: str = 'train') -> list[str]:
    """The messages of the bad records of a split, or of a broken file."""
    try:
        return [str(record) for record in read(name, split) if isinstance(record, BadRecord)]
    except UserError as error:
        return [str(error)]


def examples(name: str, split: str) -> list[dict[str, Any]]:
    """The examples of a split, as the preprocessors leave them."""
    dataset = pipeline.get(name).get_dataset(
        sequence_length=None, split=split, shuffle=False, try_in_mem_cache=False
    )
    return list(dataset.as_numpy_iterator())
