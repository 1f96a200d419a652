"""Buckets: the few shots of arXiv:2012.15682, 40 of each task, number of shots and language.

bucket_files.py says in which forms they are published, command.py how they are drawn.
"""

from xlbench.data.buckets.bucket_files import (
    COUNT,
    TAGGING,
    TASKS,
    Bucket,
    encode,
    find,
    load,
    read,
)
from xlbench.data.buckets.rules import (
    MinimumIncluding,
    n_way,
    read_examples,
    sample,
    shortages,
)
