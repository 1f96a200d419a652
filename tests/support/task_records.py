"""What the source of a registered task reads, before any preprocessor."""

from xlbench import pipeline
from xlbench.data.readers import BadRecord, Item


def read(name: str, split: str = 'train') -> list[Item]:
    """All records of a split, and beside them what is bad or left out."""
    source = pipeline.get(name).source
    return list(source._read(split, *source.paths(split)))


def bad(name: str, split: str = 'train') -> list[BadRecord]:
    """The bad records of a split."""
    return [record for record in read(name, split) if isinstance(record, BadRecord)]
