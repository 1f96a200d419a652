"""Triples of subject, relation and object, as CoreNLP's OpenIE prints them."""

from collections.abc import Iterator

from xlbench.data.readers.records import BadRecord, Record
from xlbench.data.readers.text_lines import lines

# Where each stands among the 17 columns of `-format reverb`, from 0.
_COLUMNS = {'subject': 2, 'relation': 3, 'object': 4, 'sentence': 12}
_NUM_COLUMNS = 17
_NUMBERS = (1, *range(5, 11))  # Of the sentence; where the three phrases begin and end.


def read_triples(path: str) -> Iterator[Record | BadRecord]:
    """A triple on each line, with the sentence that it is from.

    It is what `java edu.stanford.nlp.naturalli.OpenIE -format reverb FILE` prints
    (stanfordnlp.github.io/CoreNLP/openie.html): document, sentence number, subject, relation,
    object, where each of the three begins and ends, confidence, the sentence's tokens and tags, and
    the lemmas of the three.

    Args:
      path: the file.

    Example, its first columns, | for TAB: f|0|I|send|it|2|3|4|5|5|6|1.0|Sure , I will send it ->
      {'subject': 'I', 'relation': 'send', 'object': 'it', 'sentence': 'Sure , I will send it'}
    """
    for number, line in enumerate(lines(path), 1):
        if isinstance(line, BadRecord):
            yield line
            continue
        parts = line.split('\t')
        if len(parts) != _NUM_COLUMNS:
            yield BadRecord(
                path,
                number,
                f'{len(parts)} TAB-separated columns instead of {_NUM_COLUMNS}; OpenIE prints them '
                'with -format reverb',
            )
            continue
        wrong = [place for place in _NUMBERS if not parts[place].removeprefix('-').isdecimal()]
        if wrong:
            yield BadRecord(
                path, number, f'column {wrong[0] + 1} is {parts[wrong[0]]!r}, not a whole number'
            )
        elif not parts[_COLUMNS['sentence']].strip():
            yield BadRecord(path, number, 'the sentence (column 13) is empty')
        else:
            yield {name: parts[place] for name, place in _COLUMNS.items()}
