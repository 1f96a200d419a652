"""Buckets: the few shots of arXiv:2012.15682, 40 of each task, number of shots and language.

command.py says in which forms they are published, what is checked and how they are drawn.
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
    KINDS,
    MinimumIncluding,
    Problem,
    criteria,
    n_way,
    problems,
    read_examples,
    sample,
    shortages,
)
