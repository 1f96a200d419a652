"""Lengths of dialogues and their summaries: tables 1 and 2 of arXiv:2202.05599, for any data.

A turn is a line that is not empty, and its speaker is the text before its first ': '. Words are
separated by spaces; in languages without spaces, such as Chinese, characters are counted.

  add('Anna: Hi!\\nBen: Hi, Anna.', ['安娜向本问好。'], ('en', 'zh'))
    -> turns 2, speakers 2, source 5 words, target 7 characters
"""

import dataclasses
from collections.abc import Sequence

from xlbench.benchmarks import languages
from xlbench.data import readers, rows
from xlbench.data.tokenizers import Tokenizer
from xlbench.system import errors

Langs = tuple[str | None, str | None]  # ISO codes of inputs and targets; None: nothing says it.
_LONGEST_NAME = 80  # Characters; a longer text before ': ' is not a name.


@dataclasses.dataclass
class Statistics:
    """Sums over examples; every mean is one of these divided by `examples`."""

    examples: int = 0
    turns: int = 0  # Of the inputs.
    speakers: int = 0  # Different ones in each input.
    source: int = 0  # Words or characters of the inputs.
    target: float = 0  # The same of the targets; the mean of several references.
    source_tokens: int = 0  # Of a vocabulary, without special tokens.
    target_tokens: float = 0

    def add(
        self, source: str, targets: Sequence[str], langs: Langs, tokenizer: Tokenizer | None = None
    ) -> None:
        """Counts an input and all its references; without an ISO code, words are counted."""
        said = turns(source)
        names = {name for name, _ in said} - {''}
        self.examples += 1
        self.turns += len(said)
        self.speakers += len(names)
        self.source += length(source, langs[0])
        self.target += sum(length(text, langs[1]) for text in targets) / len(targets)
        if tokenizer is not None:
            counts = [len(ids) for ids in tokenizer.encode_batch([source, *targets])]
            self.source_tokens += counts[0]
            self.target_tokens += sum(counts[1:]) / len(targets)

    def means(self) -> dict[str, float]:
        """Returns the mean of every count but `examples`; 0 without examples."""
        names = [field.name for field in dataclasses.fields(self) if field.name != 'examples']
        return {name: getattr(self, name) / max(self.examples, 1) for name in names}


def turns(text: str) -> list[tuple[str, str]]:
    """Returns the turns of a dialogue: (speaker, utterance), with '' for an unknown speaker."""
    said = []
    for line in filter(None, map(str.strip, text.split('\n'))):
        name, mark, words = line.partition(': ')
        named = mark and len(name) <= _LONGEST_NAME
        said.append((name, words) if named else ('', line))
    return said


def length(text: str, lang: str | None) -> int:
    """Counts the words of a text, or its characters in a language without spaces."""
    parts = text.split()
    return len(parts) if in_words(lang) else sum(map(len, parts))


def in_words(lang: str | None) -> bool:
    """Returns whether texts of a language are counted in words."""
    return lang not in languages.LANGUAGES or languages.LANGUAGES[lang].spaces


def of_file(
    path: str, keys: tuple[str, str], langs: Langs, tokenizer: Tokenizer | None = None
) -> Statistics:
    """Returns the statistics of a file of JSON, JSONL, CSV, TSV or Parquet.

    `keys` are those of inputs and targets; an input may be a list of turns, see `rows.dialogue`.
    """
    counts = Statistics()
    source, target = keys
    for row in readers.good(rows.read(path, list(dict.fromkeys(keys)), rows.Layout())):
        try:
            text = rows.dialogue(row.values[source], source)
            summary = rows.text(row.values[target], target)
        except ValueError as error:
            raise errors.UserError(f'{path}:{row.number}: {error}') from None
        counts.add(text, [summary], langs, tokenizer)
    if not counts.examples:
        raise errors.UserError(f'{path} has no examples; is it empty?')
    return counts
