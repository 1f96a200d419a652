"""Conventions for ids: which of them are special."""

import dataclasses
from collections.abc import Sequence
from typing import TypeVar

from xlbench.data import vocabularies
from xlbench.data.prepared import Manifest
from xlbench.data.tokenizers import Tokenizer
from xlbench.system.errors import UserError

_Ids = TypeVar('_Ids')


@dataclasses.dataclass(frozen=True)
class Conventions:
    """Meanings of ids: from a manifest, mostly its `vocabulary` entry.

    Attributes:
      pad_id, eos_id, decoder_start_id: ids of padding, of the end, of the first decoder input.
      vocab_size: every id is below it.
      answer_mark: what stands in an input before the answer that is to be asked for, see
        `trim_passage`; empty if the vocabulary cannot spell it.
      segment_marks: each of them begins a segment of an input that has views, see `multi_view`;
        empty where inputs have none.
      language_last: whether the first id of inputs and of targets, their language, goes behind
        their end, see `vocabularies.Family`.
      closing_id: what targets have behind their end in place of the language that goes there; None
        leaves the language.
      has_languages: whether batches say which language a token is of: that of an XLM's vocabulary.
    """

    pad_id: int
    eos_id: int
    decoder_start_id: int
    vocab_size: int
    answer_mark: tuple[int, ...] = ()
    segment_marks: tuple[int, ...] = ()
    language_last: bool = False
    closing_id: int | None = None
    has_languages: bool = False

    @classmethod
    def of(cls, manifest: Manifest) -> 'Conventions':
        """Reads the conventions of one preparation."""
        vocabulary = manifest['vocabulary']
        names = ('pad_id', 'eos_id', 'decoder_start_id', 'size')
        values = [vocabulary.get(name) for name in names]
        if not all(isinstance(value, int) and 0 <= value < 2**31 for value in values):
            raise UserError(
                f'the manifest of {manifest.get("task")} has no valid {", ".join(names)} in its '
                'vocabulary; prepare it again with --force'
            )
        marks = []
        for key in ('answer_mark', 'segment_marks'):
            mark = manifest.get(key) or ()
            if not (isinstance(mark, list | tuple) and all(isinstance(i, int) for i in mark)):
                raise UserError(
                    f'the manifest of {manifest.get("task")} has {key} that is not a list of ids; '
                    'prepare it again with --force'
                )
            marks.append(tuple(mark))
        closing = vocabulary.get('closing_id')
        if closing is not None and not (isinstance(closing, int) and 0 <= closing < values[-1]):
            raise UserError(
                f'the manifest of {manifest.get("task")} has no valid closing_id in its '
                'vocabulary; prepare it again with --force'
            )
        last, rows = _language_last(vocabulary.get('family')), vocabulary.get('language_rows')
        return cls(*values, *marks, last, closing, bool(rows))

    @classmethod
    def of_tokenizer(
        cls,
        tokenizer: Tokenizer,
        vocab_size: int,
        answer_mark: Sequence[int] = (),
        segment_marks: Sequence[int] = (),
    ) -> 'Conventions':
        """Takes the conventions of unprepared texts from their tokenizer."""
        ids = tokenizer.pad_id, tokenizer.eos_id, tokenizer.decoder_start_id
        marks = tuple(answer_mark), tuple(segment_marks)
        last = _language_last(tokenizer.family)
        closing, rows = tokenizer.closing_id, tokenizer.language_rows
        return cls(*ids, vocab_size, *marks, last, closing, bool(rows))

    def begin(self, languages: _Ids | None, view: str) -> tuple[_Ids | int, _Ids | None]:
        """Returns the first input of the decoder, and its forced first output.

        Args:
          languages: [batch] int32, Tokenizer.forced_first of each text, or None.
          view: of the objective, see `features.VIEWS`.
        """
        if (self.language_last or view == 'language_start') and languages is not None:
            return languages, None
        return self.decoder_start_id, languages


def _language_last(family: str | None) -> bool:
    known = vocabularies.FAMILIES.get(family)
    return known is not None and known.language_last
