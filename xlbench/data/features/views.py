"""The arrays of a batch that a model reads: one function for each kind of task.

Each takes the rows of a batch, and a layout. A row is a list of examples, a single example, or an
empty list, which is padding. Encoder-decoders and language models read several examples in a row,
all others one. Segment ids, [batch, width] int32, are 1, 2, ... for the examples within a row and 0
on padding; row_weights, [batch] float32, are 1 for examples and 0 for padding rows.
"""

import dataclasses
import functools
import zlib
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from xlbench.data import vocabularies
from xlbench.data.features import arrays
from xlbench.data.features.arrays import Conventions, Row
from xlbench.data.prepared import Prepared
from xlbench.system.errors import UserError, check_known


@dataclasses.dataclass(frozen=True)
class Layout:
    """Widths of a batch's arrays, and the meaning of their ids."""

    lengths: Mapping[str, int]  # Widths: `inputs`, and `targets` where targets are texts.
    conventions: Conventions
    limits: Mapping[str, int] | None = None  # Of each example; None: as `lengths`.

    def limit(self, name: str) -> int:
        """Returns the most tokens of an example's `inputs` or `targets`."""
        return (self.limits or self.lengths)[name]


def generation(rows: Sequence[Row], layout: Layout) -> dict[str, np.ndarray]:
    """Returns the features of an encoder-decoder; inputs are trimmed by `trim_passage`.

    Returns:
      encoder_input_tokens, encoder_segment_ids, encoder_positions: [batch, inputs] int32.
      decoder_input_tokens (targets shifted right inside their segment), decoder_target_tokens,
      decoder_segment_ids, decoder_positions: [batch, targets] int32.
      decoder_loss_weights: [batch, targets] float32, 1 on targets (eos included), 0 on padding.
      encoder_language_ids [batch, inputs], decoder_language_ids [batch, targets] int32, of an XLM's
      vocabulary: see `Placement.encoder`.
      Where the language is last, the first id of inputs and of targets goes behind their end, and
      is the first decoder input; with a closing id, targets have that behind their end.

    Example: one row of two examples, inputs [5, 1] and [6, 7, 1], targets [8, 1] and [9, 1] ->
      encoder_input_tokens   5 1 6 7 1 0     decoder_target_tokens  8 1 9 1
      encoder_segment_ids    1 1 2 2 2 0     decoder_input_tokens   0 8 0 9
      encoder_positions      0 1 0 1 2 0     decoder_loss_weights   1 1 1 1
    """
    return _both_sides(rows, layout)


def language_start(rows: Sequence[Row], layout: Layout) -> dict[str, np.ndarray]:
    """Does `generation`, but targets' first id, their language, is a decoder input alone.

    So krystalan/ClidSum trains and decodes mBART-50 (run_XMediaSum40k.py).

    Example: targets [8, 5, 1] -> decoder_input_tokens 8 5, decoder_target_tokens 5 1
    """
    return _both_sides(rows, layout, from_language=True)


def language_model(rows: Sequence[Row], layout: Layout) -> dict[str, np.ndarray]:
    """Returns the features of a decoder-only model, whose targets go on where the inputs end.

    The last token of an example's inputs, which in most tasks is the end of a text, is the first
    decoder input; without inputs that is `conventions.decoder_start_id`.

    Returns:
      The features of `generation`, of inputs without their last token, and
      prompt_target_tokens: [batch, inputs] int32, what follows each token of the inputs.
      prompt_loss_weights: [batch, inputs] float32, 1 on inputs, 0 on padding.

    Example: one row, inputs [5, 6, 1], targets [8, 1] ->
      encoder_input_tokens  5 6 0     decoder_input_tokens   1 8
      prompt_target_tokens  6 1 0     decoder_target_tokens  8 1
      prompt_loss_weights   1 1 0     decoder_loss_weights   1 1
    """
    return _both_sides(rows, layout, continued=True)


def _both_sides(
    rows: Sequence[Row], layout: Layout, continued: bool = False, from_language: bool = False
) -> dict[str, np.ndarray]:
    """Makes the features of `generation`, of `language_model` (continued) or `language_start`."""
    lengths, conventions = layout.lengths, layout.conventions
    counts, examples = arrays.in_rows(rows)
    eos_id, mark = conventions.eos_id, conventions.answer_mark
    most = layout.limit('inputs')
    parts = [arrays.trim_passage(example['inputs'], most, eos_id, mark) for example in examples]
    if conventions.language_last:
        parts = [np.roll(part, -1) for part in parts]
    starts: int | list[int] = conventions.decoder_start_id
    following = [part[1:] for part in parts]
    if continued:
        first = conventions.decoder_start_id
        starts = [int(part[-1]) if len(part) else first for part in parts]
        parts = [part[:-1] for part in parts]
    place = arrays.Placement(parts, counts, lengths['inputs'], conventions)
    features = place.encoder(examples)
    features['encoder_positions'] = place.fill(place.positions, 0)
    if continued:
        tokens = arrays.joined(following, conventions)
        features['prompt_target_tokens'] = place.fill_tokens(tokens)
        features['prompt_loss_weights'] = place.fill(np.float32(1), 0, np.float32)
    most = layout.limit('targets')
    targets = [arrays.trim(example['targets'], most, eos_id) for example in examples]
    if conventions.language_last:
        starts = [int(part[0]) for part in targets]
        targets = [np.roll(part, -1) for part in targets]
        if conventions.closing_id is not None:
            for part in targets:
                part[-1:] = conventions.closing_id
    elif from_language:
        starts = [int(part[0]) for part in targets]
        targets = [part[min(1, len(part) - 1) :] for part in targets]  # Not of an end alone.
    place = arrays.Placement(targets, counts, lengths['targets'], conventions)
    return features | place.decoder(examples, starts)


def multi_view(rows: Sequence[Row], layout: Layout) -> dict[str, np.ndarray]:
    """Returns the features of an encoder-decoder that reads two views of a text (arXiv:2010.01672).

    `inputs` are both views one behind the other, each with its end, or a single one. A view is
    trimmed to half of the limit of `inputs`.

    Returns:
      The features of `generation`, with segment 1 for the first view and 2 for the second, whose
      positions begin anew, and encoder_marks: [batch, inputs] int32, 1 where a segment begins.

    Example: inputs [40, 5, 1, 40, 5, 40, 6, 1] with the mark 40 ->
      encoder_segment_ids 1 1 1 2 2 2 2 2, encoder_marks 1 0 0 1 0 1 0 0
    """
    lengths, conventions = layout.lengths, layout.conventions
    counts, examples = arrays.one_a_row(rows)
    eos_id, most = conventions.eos_id, layout.limit('inputs')
    views = [arrays.trim_views(example['inputs'], most, eos_id) for example in examples]
    counts_of_views = counts.copy()
    counts_of_views[counts > 0] = [len(parts) for parts in views]
    parts = [part for both in views for part in both]
    place = arrays.Placement(parts, counts_of_views, lengths['inputs'], conventions)
    features = place.encoder()
    features['encoder_positions'] = place.fill(place.positions, 0)
    marks = np.isin(features['encoder_input_tokens'], conventions.segment_marks)
    marks &= features['encoder_segment_ids'] > 0
    features['encoder_marks'] = marks.astype(np.int32)
    most = layout.limit('targets')
    targets = [arrays.trim(example['targets'], most, eos_id) for example in examples]
    place = arrays.Placement(targets, counts, lengths['targets'], conventions)
    return features | place.decoder()


def retrieval(rows: Sequence[Row], layout: Layout) -> dict[str, np.ndarray]:
    """Returns the features of a dual encoder: messages (`inputs`) left, replies (`targets`) right.

    Returns:
      left_encoder_input_tokens, left_encoder_segment_ids: [batch, inputs] int32, and
      right_encoder_input_tokens, right_encoder_segment_ids: [batch, targets] int32.
      reply_key: [batch] int32, the same for equal replies (as trimmed), -1 for padding rows. Among
      n different replies some two share a key by chance with probability n^2 / 2^32.
      row_weights.
    """
    conventions = layout.conventions
    counts, examples = arrays.one_a_row(rows)
    features: dict[str, np.ndarray] = {}
    for name, side in (('inputs', 'left'), ('targets', 'right')):
        most = layout.limit(name)
        parts = [arrays.trim(example[name], most, conventions.eos_id) for example in examples]
        place = arrays.Placement(parts, counts, layout.lengths[name], conventions)
        features |= {f'{side}_{feature}': array for feature, array in place.encoder().items()}
    keys = np.full(len(counts), -1, np.int32)
    keys[counts > 0] = [zlib.crc32(reply.astype('<i4').tobytes()) & 0x7FFFFFFF for reply in parts]
    return features | {'reply_key': keys, 'row_weights': counts.astype(np.float32)}


def classification(rows: Sequence[Row], layout: Layout) -> dict[str, np.ndarray]:
    """Returns the features of a classifier of texts, or pairs of texts.

    `targets` is one label, and `piece_counts` are the ids of each text, without special ones. The
    longer text of a pair that is too long is cut (`trim_pair`).

    Returns:
      encoder_input_tokens, encoder_segment_ids: [batch, inputs] int32.
      encoder_type_ids: [batch, inputs] int32, see `trim_pair`; 0 on padding.
      encoder_language_ids: [batch, inputs] int32, of an XLM's vocabulary; see `generation`.
      labels: [batch] int32, 0 for padding rows; and row_weights.
    """
    lengths, conventions, limit = layout.lengths, layout.conventions, layout.limit('inputs')
    counts, examples = arrays.one_a_row(rows)
    pairs = [
        arrays.trim_pair(example['inputs'], example['piece_counts'], limit, conventions.eos_id)
        for example in examples
    ]
    parts, types = [ids for ids, _ in pairs], [of_ids for _, of_ids in pairs]
    labels = np.zeros(len(counts), np.int32)
    labels[counts > 0] = [example['targets'][0] for example in examples]
    place = arrays.Placement(parts, counts, lengths['inputs'], conventions)
    return place.encoder(examples) | {
        'encoder_type_ids': place.fill(np.concatenate(types) if types else 0, 0),
        'labels': labels,
        'row_weights': counts.astype(np.float32),
    }


def tagging(rows: Sequence[Row], layout: Layout, piece: str = 'last') -> dict[str, np.ndarray]:
    """Returns the features of a tagger: each word's tag stands at its last piece.

    `targets` are the tags of the words, and `piece_counts` the ids of each. A word that loses its
    last piece to a limit has no label. It is tagged by the state of `piece`, see `word_features`.

    Returns:
      encoder_input_tokens, encoder_segment_ids: [batch, inputs] int32.
      labels: [batch, inputs] int32, 0 where there is none.
      label_weights: [batch, inputs] float32, 1 on labels, 0 elsewhere.
      encoder_word_tails: [batch, inputs] int32, encoder_word_weights: [batch, inputs] float32, but
      for 'last': see `word_features`.

    Example: pieces [1, 2], [CLS] 5 6 7 [SEP], tags [3, 4] -> labels 0 3 0 4 0, weights 0 1 0 1 0
    """
    lengths, conventions, limit = layout.lengths, layout.conventions, layout.limit('inputs')
    counts, examples = arrays.one_a_row(rows)
    parts = [arrays.trim(example['inputs'], limit, conventions.eos_id) for example in examples]
    labels = [np.zeros(len(part), np.int32) for part in parts]
    weights = [np.zeros(len(part), np.float32) for part in parts]
    for example, tags, weight in zip(examples, labels, weights, strict=True):
        places = arrays.tag_places(example, limit)
        tags[places] = example['targets'][: len(places)]
        weight[places] = 1
    place = arrays.Placement(parts, counts, lengths['inputs'], conventions)
    features = place.encoder(examples)
    if piece != 'last':
        each = [arrays.word_features(example, limit, piece, conventions) for example in examples]
        tails, shares = [np.concatenate(x) for x in zip(*each, strict=True)] if each else (0, 0)
        features['encoder_word_tails'] = place.fill(tails, 0)
        features['encoder_word_weights'] = place.fill(shares, 0, np.float32)
    return features | {
        'labels': place.fill(np.concatenate(labels) if labels else 0, 0),
        'label_weights': place.fill(np.concatenate(weights) if weights else 0, 0, np.float32),
    }


@dataclasses.dataclass(frozen=True)
class View:
    """Batch format of a kind of task, and its options."""

    # Makes the arrays of a batch from its rows: one of the functions above.
    make: Callable[[Sequence[Row], Layout], dict[str, np.ndarray]]
    sides: tuple[str, ...] = ('inputs',)  # Of the arrays whose length a mesh may cut.
    packs: bool = False  # Whether a row may hold several examples.
    labels: str = ''  # What a label is of, 'text' or 'word'; '' where targets are texts.
    sums_tasks: bool = False  # Whether `task_weights` make the loss a sum over tasks.
    prepared: str = ''  # The view that a task is prepared for, where that is another one.

    def __call__(self, rows: Sequence[Row], layout: Layout) -> dict[str, np.ndarray]:
        """Makes the arrays of a batch."""
        return self.make(rows, layout)


# What an objective says its batches are (`view`), and what a task is prepared for.
_written = functools.partial(View, sides=('inputs', 'targets'))
VIEWS = {
    'generation': _written(generation, packs=True, sums_tasks=True),
    'language_start': _written(language_start, packs=True, sums_tasks=True, prepared='generation'),
    'language_model': _written(language_model, packs=True, prepared='generation'),
    'multi_view': _written(multi_view, prepared='generation'),
    'retrieval': View(retrieval),  # Replies have a length of their own.
    'classification': View(classification, labels='text'),
    'tagging': View(tagging, labels='word'),
}
for _piece in arrays.WORD_PIECES[1:]:
    _tagging = functools.partial(tagging, piece=_piece)
    VIEWS[f'tagging_{_piece}'] = View(_tagging, labels='word', prepared='tagging')


def check_view(view: str, prepared: Sequence[Prepared], packing: bool = False) -> View:
    """Returns the view of VIEWS; UserError if tasks are prepared for another one."""
    check_known('view', view, VIEWS)
    needed = VIEWS[view].prepared or view
    for task in prepared:
        made_for = task.manifest.get('view', 'generation')
        if made_for != needed:
            raise UserError(
                f'{task.name} is prepared for {made_for}, and the objective is {view}; name a task '
                'of that kind, or change config.objective.name'
            )
        if view == 'language_start':
            family = vocabularies.FAMILIES.get(task.manifest['vocabulary'].get('family') or '')
            if not (family and family.needs_languages and family.target):
                raise UserError(
                    f'targets of {task.name} do not begin with a language in its vocabulary; set '
                    "config.objective.decoder_start='family', or take the vocabulary of mBART-50"
                )
        if view == 'multi_view' and not task.manifest.get('segment_marks'):
            raise UserError(
                f'{task.name} has inputs of one view, or a vocabulary that cannot spell |, and the '
                f'objective {view} weighs two views by the marks in them; name a task of views '
                'such as clidsum_xsamsumviews_en_en, or change config.objective.name'
            )
    if packing and not VIEWS[view].packs:
        raise UserError(
            f'packing puts several examples into a row, and a model for {view} reads one; set '
            'packing=False'
        )
    return VIEWS[view]
