"""Messages and replies of MRS, and its response sets."""

import itertools
import math
from collections.abc import Iterator

from xlbench.data.readers.parallel import fields, unequal_lines
from xlbench.data.readers.records import BadRecord, Record
from xlbench.data.readers.text_lines import lines
from xlbench.errors import shortened


def read_pairs(path: str) -> Iterator[Record | BadRecord]:
    """MRS's pairs: four TAB-separated columns, message, reply and two that are not used.

    Texts are stripped. microsoft/MRS drops pairs with an empty text and reads on past lines of any
    other number of columns; here each of them is a BadRecord.

    Example: 'Hast du Zeit?\\tJa, um drei.\\t1\\t2' -> {'message': 'Hast du Zeit?', 'reply': 'Ja, um
      drei.'}
    """
    for number, line in enumerate(lines(path), 1):
        if isinstance(line, BadRecord):
            yield line
        else:
            yield fields(path, number, line, ('message', 'reply'), unused=2, strip=True)


def read_responses(path: str, mapping: str | None = None) -> Iterator[Record | BadRecord]:
    """MRS's response set: TAB-separated score of a language model, text, cluster, maybe more.

    Args:
      path: response_lm_cluster.txt; no text may occur twice.
      mapping: response.mapping.txt: on line n the text of line n, TAB, the text to show for it.

    Example: '-3.5\\tOkay!\\t17', mapping 'Okay!\\tOK' ->
      {'lm_score': '-3.5', 'reply': 'Okay!', 'cluster': '17', 'display': 'OK'}; without a mapping
      display is ''.
    """
    if mapping and (unequal := unequal_lines(path, mapping)):
        yield unequal
        return
    first: dict[str, int] = {}
    shown = lines(mapping) if mapping else itertools.repeat(None)
    for number, (line, other) in enumerate(zip(lines(path), shown, strict=False), 1):
        record = line if isinstance(line, BadRecord) else _response(path, number, line)
        if isinstance(record, BadRecord):
            yield record
            continue
        text = record['reply']
        display: Record | BadRecord = {'display': ''}
        if other is not None:
            display = _display(mapping, number, other, text)
        if isinstance(display, BadRecord):
            yield display
        elif text in first:
            reason = f'{text!r} is on line {first[text]} already; responses must differ'
            yield BadRecord(path, number, reason)
        else:
            first[text] = number
            yield record | display


def _response(path: str, number: int, line: str) -> Record | BadRecord:
    """One line of a response set."""
    columns = ('lm_score', 'reply', 'cluster')
    unused = max(line.count('\t') + 1 - len(columns), 0)
    record = fields(path, number, line, columns, unused=unused, strip=True)
    if isinstance(record, BadRecord):
        return record
    try:
        finite = math.isfinite(float(record['lm_score']))
    except ValueError:
        finite = False
    if not finite:
        return BadRecord(path, number, f'lm_score is {shortened(record["lm_score"])}, not a number')
    return record


def _display(path: str, number: int, line: str | BadRecord, text: str) -> Record | BadRecord:
    """The text to show for a response, from one line of the mapping."""
    if isinstance(line, BadRecord):
        return line
    record = fields(path, number, line, ('response', 'display'), strip=True)
    if isinstance(record, BadRecord):
        return record
    if record['response'] != text:
        reason = f'maps {record["response"]!r}, but this line of the response set has {text!r}'
        return BadRecord(path, number, reason, fatal=True)
    return {'display': record['display']}
