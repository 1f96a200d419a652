"""Strict readers of official files: a generator of records for each format, no TensorFlow.

A reader yields records, `{field: text}`, and a `BadRecord` with place and reason for each that
cannot be used; the caller decides whether that is an error. A fault after which nothing in a file
can be trusted is a UserError, as is a missing file.

Files of lines are split at \\n alone (\\r\\n is accepted), so that a form feed or a Unicode line
separator inside a text never shifts the lines after it. A \\r inside a line is refused, because
other programs end a line there, and so is a NUL; a byte order mark is dropped from the first line
only. One line is in memory at a time. .gz is unpacked on the way. xlbench/system/untrusted.py has
the limits.
"""

from xlbench.data.readers.dialogues import (
    read_dialogues,
    read_dialogues_json,
    read_interviews,
    read_pairs,
    read_parallel_dialogues,
    read_responses,
    read_split_ids,
    read_translations,
    read_triples,
)
from xlbench.data.readers.json_files import (
    Json,
    check_keys,
    json_items,
    json_lines,
    kind_of,
    parse_json,
    read_jsonl,
    read_squad,
    text_field,
)
from xlbench.data.readers.parallel import read_parallel, read_tmx, read_tsv
from xlbench.data.readers.text_lines import (
    BROKEN,
    CR_INSIDE,
    BadRecord,
    BadRecords,
    Item,
    LeftOut,
    Record,
    Records,
    broken,
    broken_file,
    convert,
    count_lines,
    decoded,
    find,
    good,
    letters,
    numbered,
    open_binary,
    raw_lines,
    read_whole,
    sha256,
)
