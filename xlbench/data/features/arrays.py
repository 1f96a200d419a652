"""Ids of examples: which of them are special, how they are cut, and one array for a batch."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from xlbench.data import vocabularies
from xlbench.data.prepared import Prepared, Record
from xlbench.data.tokenizers import Tokenizer, with_letters
from xlbench.system.errors import UserError

_Ids = TypeVar('_Ids')


@dataclasses.dataclass(frozen=True)
class Conventions:
    """Meanings of ids: from a manifest, mostly its `vocabulary` entry."""

    pad_id: int
    eos_id: int
    decoder_start_id: int  # The first decoder input.
    vocab_size: int  # Every id is below it.
    answer_mark: tuple[int, ...] = ()  # Ids before the answer in an input, see `trim_passage`.
    segment_marks: tuple[int, ...] = ()  # Ids that begin a segment of a view, see `multi_view`.
    # Whether the first id of inputs and of targets, their language, goes behind their end.
    language_last: bool = False
    closing_id: int | None = None  # Behind the end of targets, in place of the language.
    has_languages: bool = False  # Whether batches have the language of each token, as an XLM asks.
    vocabulary: str = ''  # Its sha256; '' if unknown.

    @classmethod
    def of(cls, manifest: Mapping[str, Any]) -> 'Conventions':
        """Reads the conventions of one preparation, of whose manifest these keys are enough."""
        vocabulary = manifest['vocabulary']
        family = vocabularies.FAMILIES.get(vocabulary.get('family') or '')
        return cls(
            vocabulary['pad_id'],
            vocabulary['eos_id'],
            vocabulary['decoder_start_id'],
            vocabulary['size'],
            answer_mark=tuple(manifest.get('answer_mark') or ()),
            segment_marks=tuple(manifest.get('segment_marks') or ()),
            language_last=family is not None and family.language_last,
            closing_id=vocabulary.get('closing_id'),
            has_languages=bool(vocabulary.get('language_rows')),
            vocabulary=vocabulary['sha256'],
        )

    @classmethod
    def of_tasks(cls, prepared: Sequence[Prepared]) -> 'Conventions':
        """Returns those of tasks that fit into one batch; UserError if they do not."""
        if not prepared:
            raise UserError('there is no task to make batches from')
        for task in prepared:
            if not len(task):
                where = f'{task.name}/{task.split}'
                raise UserError(f'{where} has no examples; remove it from the mixture')
        labels = [(task.name, task.split) for task in prepared]
        if len(set(labels)) < len(labels):
            raise UserError(f'a task is twice in {", ".join(name for name, _ in labels)}')
        first = prepared[0].manifest['vocabulary']
        for task in prepared[1:]:
            other = task.manifest['vocabulary']
            if other != first:
                named, known = (f'{v["name"]!r} ({v["sha256"][:8]})' for v in (other, first))
                raise UserError(
                    f'{task.name} was prepared with vocabulary {named}, {prepared[0].name} with '
                    f'{known}; prepare both with the same one'
                )
        return cls.of(prepared[0].manifest)

    @classmethod
    def of_tokenizer(cls, tokenizer: Tokenizer, vocab_size: int) -> 'Conventions':
        """Takes the conventions of unprepared texts from their tokenizer."""
        marks = dict(answer_mark=tokenizer.answer_mark(), segment_marks=tokenizer.segment_marks())
        return cls.of(marks | {'vocabulary': tokenizer.manifest() | {'size': vocab_size}})

    def begin(self, languages: _Ids | None, view: str) -> tuple[_Ids | int, _Ids | None]:
        """Returns the first input of the decoder, and its forced first output.

        `languages` [batch] int32 are Tokenizer.forced_first of each text, or None; `view` is that
        of the objective, a key of `features.VIEWS`.
        """
        if (self.language_last or view == 'language_start') and languages is not None:
            return languages, None
        return self.decoder_start_id, languages


def trim(ids: np.ndarray, length: int, eos_id: int) -> np.ndarray:
    """Cuts ids to `length` and keeps eos if there is one: length 3, [7, 8, 9, 1] -> [7, 8, 1]."""
    if len(ids) <= length:
        return ids
    trimmed = ids[:length].copy()
    if ids[-1] == eos_id:  # Some tasks end their inputs without it.
        trimmed[-1] = eos_id
    return trimmed


def trim_views(ids: np.ndarray, length: int, eos_id: int) -> list[np.ndarray]:
    """Cuts the two texts of an input, each ending in eos, to half the length; or its one.

    Example: length 6, [7, 8, 9, 5, 1, 7, 1] -> [7, 8, 1], [7, 1]
    """
    first = int(np.flatnonzero(ids == eos_id)[:1].sum()) + 1
    views = [ids] if first in (1, len(ids)) else [ids[:first], ids[first:]]
    return [trim(view, length // 2, eos_id) for view in views]


# Ids before a text: BERT's [CLS] and its language token are the most that a family has.
_PREFIX = 2


def trim_passage(
    ids: np.ndarray, length: int, eos_id: int, answer_mark: Sequence[int]
) -> np.ndarray:
    """Cuts the passage of inputs of question generation, whose answer stands last.

    Ids without the mark, and answers that are too long by themselves, are cut at their end. Of
    several marks the last one counts.

    Example: length 6, mark [40], [90, 7, 8, 9, 10, 40, 5, 1] -> [90, 7, 8, 40, 5, 1]
    """
    mark = np.asarray(answer_mark, ids.dtype)
    if len(ids) <= length or not mark.size or len(ids) < mark.size:
        return trim(ids, length, eos_id)
    places = np.lib.stride_tricks.sliding_window_view(ids, mark.size)
    marks = np.flatnonzero((places == mark).all(axis=1))
    if not marks.size:
        return trim(ids, length, eos_id)
    start = int(marks[-1])
    head = min(max(length - (len(ids) - start), _PREFIX), start)
    return trim(np.concatenate([ids[:head], ids[start:]]), length, eos_id)


def trim_pair(
    ids: np.ndarray, piece_counts: Sequence[int], length: int, eos_id: int
) -> tuple[np.ndarray, np.ndarray]:
    """Cuts a pair of texts to `length` ids: the longer is cut until both are equally long.

    So do arXiv:1810.04805's code and transformers' "longest_first". A single text is cut as by
    `trim`. Special tokens stay: what stands before, between and behind the texts.

    Example: pieces [5, 2], length 8, [CLS] a b c d e [SEP] x y [SEP] -> [CLS] a b c [SEP] x y [SEP]
      and 0 0 0 0 0 1 1 1

    Returns:
      The ids, and the type of each: 1 from the second text on, 0 before it (arXiv:1810.04805,
      section 3, and transformers' token_type_ids). A single text has type 0, and so has a pair of
      XLM-R's vocabulary, which is known by the four ids around its texts.
    """
    types = np.zeros(min(len(ids), length), np.int32)
    if len(piece_counts) != 2:
        return trim(ids, length, eos_id), types
    first, second = (int(count) for count in piece_counts)
    special = len(ids) - first - second
    start = int(special > 2)  # BERT and XLM-R have a token before, T5 has none.
    room = max(length - special, 0)
    kept_second = min(second, max(room // 2, room - first))
    kept_first = min(first, room - kept_second)
    if special < 4:
        types[-1 - kept_second :] = 1
    between = ids[start + first : len(ids) - 1 - second + kept_second]
    kept = np.concatenate([ids[: start + kept_first], between, ids[-1:]])
    return trim(kept, length, eos_id), types


def tag_places(example: Record, limit: int) -> np.ndarray:
    """Returns [words]: the places of their last pieces, and so of their tags, in a row.

    Words are the first ones that fit into `limit` ids.
    """
    ends = np.cumsum(example['piece_counts'], dtype=np.int64)
    before = len(example['inputs']) - int(ends[-1]) - 1  # The last id is the end.
    places = before + ends - 1
    return places[places < limit - 1]


WORD_PIECES = ('last', 'first', 'first_letter', 'mean')


def word_features(
    example: Record, limit: int, piece: str, conventions: Conventions
) -> tuple[np.ndarray, np.ndarray]:
    """Returns which pieces of a row of `limit` ids represent their words.

    `piece` is 'first', 'first_letter' (the first with a letter; the last if none has) or 'mean'.

    Returns:
      [ids] int32: 1 + the number of pieces of the same word behind this one; 0 if it belongs to no
      word that fits.
      [ids] float32: the weight of a piece in the state of its word; a word's weights sum to 1.
    """
    places, size = tag_places(example, limit), min(len(example['inputs']), limit)
    tails, weights = np.zeros(size, np.int32), np.zeros(size, np.float32)
    if not len(places):
        return tails, weights
    counts = np.asarray(example['piece_counts'][: len(places)])
    firsts = places - counts + 1
    every = np.arange(firsts[0], places[-1] + 1)  # The words stand side by side.
    tails[every] = np.repeat(places, counts) - every + 1
    if piece == 'mean':
        weights[every] = np.repeat(1 / counts, counts)
    elif piece == 'first':
        weights[firsts] = 1
    else:
        is_letter = with_letters(conventions.vocabulary)[example['inputs'][every]]
        found = np.minimum.reduceat(np.where(is_letter, every, size), firsts - firsts[0])
        weights[np.where(found < size, found, places)] = 1
    return tails, weights


Row = Sequence[Record] | Record  # Examples of a row, or its one example.


def in_rows(rows: Sequence[Row]) -> tuple[np.ndarray, list[Record]]:
    """Returns the number of examples in each row, [batch], and the examples."""
    listed = [[row] if isinstance(row, Mapping) else row for row in rows]
    counts = np.array([len(row) for row in listed], np.int64)
    return counts, [example for row in listed for example in row]


def one_a_row(rows: Sequence[Row]) -> tuple[np.ndarray, list[Record]]:
    """Does `in_rows` for a model that reads at most one example in a row."""
    counts, examples = in_rows(rows)
    if counts.max(initial=0) > 1:
        raise ValueError(f'a row of {counts.max()} examples; this model reads one a row')
    return counts, examples


def joined(parts: Sequence[np.ndarray], conventions: Conventions) -> np.ndarray:
    """Joins all ids of a batch; UserError if the model cannot know one of them."""
    tokens = np.concatenate(parts) if parts else np.zeros(0, np.int32)
    if tokens.size and (tokens.max() >= conventions.vocab_size or tokens.min() < 0):
        raise UserError(
            f'a batch holds id {tokens.max()}, beyond a vocabulary of {conventions.vocab_size}; '
            'prepare the data again with --force'
        )
    return tokens


class Placement:
    """The places of the tokens of one side of a batch, for all of its arrays.

    `parts` are the ids of all examples, row after row; `counts` [batch] the examples of each row.
    """

    def __init__(
        self, parts: Sequence[np.ndarray], counts: np.ndarray, width: int, conventions: Conventions
    ):
        self.sizes = sizes = np.array([len(part) for part in parts], np.int64)
        ends = np.cumsum(sizes)
        row = np.repeat(np.arange(len(counts)), counts)
        # Tokens before each row, and examples before each row.
        used = np.bincount(row, sizes, len(counts)).astype(np.int64)
        if used.max(initial=0) > width:
            raise ValueError(f'a row of {used.max()} tokens does not fit into {width}')
        tokens_before = np.cumsum(used) - used
        examples_before = np.cumsum(counts) - counts
        self._shape = (len(counts), width)
        self.starts = ends - sizes  # [examples], first token of each in the concatenation.
        self.positions = np.arange(sizes.sum()) - np.repeat(self.starts, sizes)
        self.segments = np.repeat(np.arange(len(parts)) - examples_before[row] + 1, sizes)
        self._target = self.positions + np.repeat(
            row * width + self.starts - tokens_before[row], sizes
        )
        self.tokens, self._conventions = joined(parts, conventions), conventions

    def fill(
        self, values: np.ndarray | np.generic | int, empty: int, dtype: npt.DTypeLike = np.int32
    ) -> np.ndarray:
        """Fills [batch, width] of `empty` with `values` (one a token, in order)."""
        array = np.full(self._shape[0] * self._shape[1], empty, dtype)
        array[self._target] = values
        return array.reshape(self._shape)

    def fill_tokens(self, tokens: np.ndarray) -> np.ndarray:
        """Fills [batch, width] of padding with ids (one a token, in order)."""
        return self.fill(tokens, self._conventions.pad_id)

    def encoder(self, examples: Sequence[Record] | None = None) -> dict[str, np.ndarray]:
        """Returns the encoder's inputs; examples are given where their language counts."""
        features = {'encoder_input_tokens': self.fill_tokens(self.tokens)}
        return features | self._both('encoder', examples)

    def decoder(
        self, examples: Sequence[Record] | None = None, starts: int | Sequence[int] | None = None
    ) -> dict[str, np.ndarray]:
        """Returns the decoder's inputs, targets and loss weights; for the examples see `encoder`.

        `starts` are the first inputs of the examples, in place of the conventions'.
        """
        shifted = np.roll(self.tokens, 1)
        shifted[self.starts] = self._conventions.decoder_start_id if starts is None else starts
        return {
            'decoder_input_tokens': self.fill_tokens(shifted),
            'decoder_target_tokens': self.fill_tokens(self.tokens),
            'decoder_loss_weights': self.fill(np.float32(1), 0, np.float32),
            'decoder_positions': self.fill(self.positions, 0),
        } | self._both('decoder', examples)

    def _both(self, side: str, examples: Sequence[Record] | None) -> dict[str, np.ndarray]:
        """Returns segment ids, and language ids: 1 + the row of a language in a table, or 0."""
        features = {f'{side}_segment_ids': self.fill(self.segments, 0)}
        if examples is not None and self._conventions.has_languages:
            # An example's `languages`, if it has any, are those of its inputs and of its targets.
            at = ('encoder', 'decoder').index(side)
            known = [int(e['languages'][at]) if 'languages' in e else 0 for e in examples]
            ids = np.repeat(np.array(known, np.int32), self.sizes)
            features[f'{side}_language_ids'] = self.fill(ids, 0)
        return features
