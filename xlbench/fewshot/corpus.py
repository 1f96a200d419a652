"""The few shots of one language as arrays: its buckets, and the dev and test sets around them.

A task of tasks/fewshot.py in one language has splits shots_1, shots_2, ... with the examples of all
its buckets. `Corpus` turns them into arrays of one shape for every bucket of a number of shots, so
that many buckets train side by side, and dev and test set into `EvalSet`s, whose predictions are
compared with the right labels by a single look-up.

Few ids of a vocabulary occur in the few shots of one language, and fewer in its buckets. All arrays
therefore have compact ids, where 0 is padding. `Corpus.ids_of` gives the ids that a number of shots
needs, those of its buckets first. For an adaptation, an embedding table of 119 547 rows (mBERT)
becomes one of some thousands.

The arrays of a number of shots do not depend on the buckets or the other numbers of shots that are
asked for: a sweep that grows keeps the programs, shapes and random numbers that it started with.
"""

import dataclasses
import functools
import itertools
import pathlib
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence

import jax
import numpy as np
from flax import struct

from xlbench.benchmarks import topics
from xlbench.data import batches as batches_lib, features, packing, prepared
from xlbench.data.features import Example
from xlbench.fewshot import results
from xlbench.fewshot.settings import Adapt
from xlbench.metrics import contract, tagging
from xlbench.system.errors import UserError

DEV_SETS = ('validation', 'other_shots', 'none')
_ROWS = 64  # Rows of embedding tables come in multiples of it: few programs.
PLACES = 8  # Rows of a batch and places of a row come in multiples of it: few programs.
_PARTS = 4  # Widths that the batches of a set of texts may have.
# Sentences share rows of at least this length: few places are left empty, and attention, which sees
# all places of a row, costs little beside the layers.
_PACKED_WIDTH = 128


@struct.dataclass
class EvalSet:
    """A dev or test set; predictions of all its batches, flat and joined, are read at `take`.

    W is the number of examples for classification. For tagging it is that of words, sentence after
    sentence, and a separator behind each sentence, as metrics.tagging.Chunks.compare takes them;
    words that are not scored, because they did not fit or by their tag, are left out.
    """

    # Features of the view, [batches, rows, ...] of each shape; rows without an example are empty.
    batches: tuple[dict[str, np.ndarray], ...]  # Arrays of jax once they are on devices.
    gold: np.ndarray  # [W] int32, the right labels; -1 at separators.
    # [W] int32, where each is predicted: in the [rows] of all batches one after another, for
    # tagging in their [rows * width]; -1 at separators.
    take: np.ndarray

    def each(self) -> Iterator[dict[str, np.ndarray]]:
        """Yields the batches one by one."""
        for stack in self.batches:
            for i in range(len(stack['labels'])):
                yield {name: array[i] for name, array in stack.items()}


def needed(
    task: str, lang: str, shots: Sequence[int], dev: str, root: str = ''
) -> list[tuple[str, str]]:
    """Lists the pairs of task and split that a `Corpus` is made of.

    Published buckets that are missing in the data root make no dev examples.
    """
    # The dev set of a number of shots must not depend on which others are asked for.
    numbers = {*shots}
    if dev == 'other_shots':
        published = pathlib.Path(root) / 'fewshot' / 'buckets' / task
        allowed = topics.shots(task) or shots
        there = [k for k in allowed if (published / f'{k}-shots').is_dir()]
        numbers |= {*(there or allowed)}
    splits = ['test', *(f'shots_{number}' for number in sorted(numbers))]
    splits += ['validation'] if dev == 'validation' else []
    return [(topics.task_name(task, lang), split) for split in splits]


class Corpus:
    """Buckets, dev sets and test set of one task in one language, from the splits of `needed`.

    The dev set of a number of shots K is that of `adapt.dev`: 'validation', the split of that name,
    without the shots of this K (of all buckets) where shots are dev examples (xnli, pawsx);
    'other_shots', the examples of buckets of other K that are in no bucket of this K, each once,
    for languages without a dev file; or 'none'.

    Attributes:
      name: the SeqIO task.
      labels: the labels' texts, by id; a model may have further ones behind those of the task.
      of_words: whether each word has a label, and not the text.
      token_ids: [U] int32, the vocabulary's id of each compact id.
      test_size: number of examples of `test`.
    """

    def __init__(
        self,
        splits: Mapping[str, prepared.Prepared],
        adapt: Adapt,
        view: str,
        labels: Sequence[str] = (),
    ):
        test = splits['test']
        for other in splits.values():
            for key in ('vocabulary', 'labels', 'view'):
                if other.manifest.get(key) != test.manifest.get(key):
                    raise UserError(
                        f'{test.name}: splits {other.split} and test have been prepared with '
                        f'another {key}; prepare both again with --force'
                    )
        self.name, self.labels = test.name, [*(labels or test.manifest['labels'])]
        self._adapt, self._view, self._test = adapt, view, test
        self.of_words = features.VIEWS[view].labels == 'word'
        self._limit = adapt.lengths['inputs']
        self._conventions = features.Conventions.of(test.manifest)
        self._records = {name: split.read(range(len(split))) for name, split in splits.items()}
        self._buckets = {k: self._by_bucket(splits[f'shots_{k}']) for k in adapt.shots}
        ids = np.append(self._ids(self._records.values()), self._conventions.eos_id)
        pad = np.array([self._conventions.pad_id])
        self.token_ids = np.concatenate([pad, np.setdiff1d(ids, pad)]).astype(np.int32)
        self._compact = np.zeros(self._conventions.vocab_size, np.int32)
        self._compact[self.token_ids] = np.arange(len(self.token_ids))
        self._ids_of: dict[int, tuple[np.ndarray, int]] = {}
        self.test_size = len(results.drawn(len(test), adapt.test_examples))

    @property
    def about_test(self) -> str:
        """Returns a line that warns of placeholders in place of the test set's labels; else ''."""
        records = self._records['test']
        seen = np.unique(np.concatenate([record['targets'] for record in records] or [[]]))
        labels = [self.labels[int(number)] for number in seen]
        return contract.about_targets(f'{self.name}/test', len(records), labels)

    def ids_of(self, shots: int) -> tuple[np.ndarray, int]:
        """Returns the compact ids that adaptations to a number of shots read: [N] int32.

        Padding is first, then those of its buckets, then those of dev and test sets alone. The
        second value is how many, from the first on, suffice for its buckets: a multiple of 64
        unless there are fewer, so that the same programs fit many languages.
        """
        if shots not in self._ids_of:
            others = self._adapt.dev == 'other_shots'
            evaluated = (s for s in self._records if others or not s.startswith('shots_'))
            rest = self._ids(self._records[split] for split in evaluated)
            first = self._ids([self._records[f'shots_{shots}']])
            first = np.append(first, self._conventions.eos_id)
            first = np.setdiff1d(self._compact[first], [0])
            rest = np.setdiff1d(self._compact[rest], np.append(first, 0))
            ids = np.concatenate([[0], first, rest]).astype(np.int32)
            self._ids_of[shots] = ids, min(up_to(_ROWS, 1 + len(first)), len(ids))
        return self._ids_of[shots]

    def bucket_arrays(self, shots: int, packed: bool = False) -> dict[str, np.ndarray]:
        """Stacks all buckets of a number of shots.

        The arrays are {feature: [buckets, N, ...], 'examples': [buckets]}. N is the number of rows
        of the largest bucket, and rows are as wide as the longest example: masks of dropout depend
        on shapes, so that these are of all buckets that there are, whichever are asked for. A row
        holds an example, or several if `packed`, see `pack_rows`. Rows without one are empty, with
        weight 0.
        """
        buckets = self._buckets[shots]
        most = max(map(len, buckets))
        longest = max(len(record['inputs']) for record in self._records[f'shots_{shots}'])
        rows: list[Example | list[Example]] = []
        for bucket in buckets:
            rows += [*bucket, *[[]] * (most - len(bucket))]
        width = min(up_to(PLACES, longest), self._limit)
        arrays = {
            name: array.reshape(len(buckets), most, *array.shape[1:])
            for name, array in compacted(self._features(rows, width), self._compact).items()
        }
        arrays = pack_rows(arrays) if packed else arrays
        return arrays | {'examples': np.array(self.bucket_sizes(shots), np.int32)}

    def bucket_sizes(self, shots: int) -> list[int]:
        """Counts the examples of each bucket that there is; some published ones are empty."""
        return [len(bucket) for bucket in self._buckets[shots]]

    def num_examples(self, row: results.Row) -> int:
        """Counts the examples of the bucket of an adaptation; 0 without one."""
        return 0 if row.bucket is None else len(self._buckets[row.shots][row.bucket])

    def dev(self, shots: int) -> EvalSet | None:
        """Returns the dev set that stops adaptations with this number of shots; None for 'none'."""
        records = self._dev_records(shots)
        return self._eval_set(records) if records else None

    def dev_size(self, shots: int) -> int:
        """Counts the examples of `dev`, without making its arrays."""
        return len(self._dev_records(shots))

    def _dev_records(self, shots: int) -> list[Example]:
        if self._adapt.dev == 'none':
            return []
        choose = self._other_shots if self._adapt.dev == 'other_shots' else self._without
        if not (records := choose(self._records[f'shots_{shots}'])):
            raise UserError(
                f'{self.name}: the buckets of {shots} shots leave no example for dev '
                f'{self._adapt.dev!r}; the dev sets are {", ".join(DEV_SETS)}'
            )
        return [records[i] for i in results.drawn(len(records), self._adapt.dev_examples)]

    @functools.cached_property
    def test(self) -> EvalSet:
        """Returns the test set, or what is taken of it."""
        numbers = results.drawn(len(self._records['test']), self._adapt.test_examples)
        return self._eval_set([self._records['test'][i] for i in numbers])

    def _by_bucket(self, split: prepared.Prepared) -> list[list[Example]]:
        """Returns the examples of each bucket; UserError if one is asked for that there is not."""
        each: dict[int, list[Example]] = {}
        for record in self._records[split.split]:
            each.setdefault(int(record['bucket']), []).append(record)
        # Empty buckets alone are left out of such a split.
        num_empty = sum((split.manifest.get('left_out') or {}).values())
        count = max(1 + max(each, default=-1), len(each) + num_empty)
        missing = [number for number in self._adapt.numbers if number not in each]
        if len(missing) > num_empty or any(number >= count for number in missing):
            raise UserError(
                f'bucket {missing[-1]} of {split.name}/{split.split} was requested, but there are '
                f'{len(each) + num_empty}, counted from 0; request fewer, or make more with '
                '`python -m xlbench.data buckets sample`'
            )
        return [each.get(number, []) for number in range(count)]

    def _without(self, taken: Sequence[Example]) -> list[Example]:
        """Returns the validation split without shots that stand in it, as "left,dev.pkl" has it."""
        # 2490 - 40 * 3 * K examples of XNLI, and 2000 - 40 * 2 * K of PAWS-X.
        texts = {shot['uid']: _letters(shot) for shot in taken if 'uid' in shot}
        records = []
        for record in self._records['validation']:
            uid = record.get('uid')
            if uid not in texts:
                records.append(record)
            elif texts[uid] != _letters(record):
                raise UserError(
                    f'{self.name}: {uid} of the buckets has another text in the validation split; '
                    'use the dev file that the buckets were drawn from'
                )
        there = {record.get('uid') for record in self._records['validation']}
        if lost := [uid for uid in texts if uid.endswith('-val') and uid not in there]:
            raise UserError(
                f'{self.name}: the buckets have {lost[0]}, but the validation split has no such '
                'example, so it may have the shots under other ids; use the dev file that the '
                "buckets were drawn from, or config.adapt.dev='other_shots'"
            )
        return records

    def _other_shots(self, taken: Sequence[Example]) -> list[Example]:
        """Returns the examples of buckets that are none of `taken`, each once."""
        texts = {record['inputs_pretokenized'] for record in taken}
        others: dict[str, Example] = {}
        for split, records in self._records.items():
            for record in records if split.startswith('shots_') else ():
                if (text := record['inputs_pretokenized']) not in texts:
                    others.setdefault(text, record)
        return list(others.values())

    def _eval_set(self, records: Sequence[Example]) -> EvalSet:
        """Makes batches: of sentences in shared rows, or of texts in rows of their own."""
        # [examples], where in all rows the predictions of each begin.
        if self.of_words:
            stacks, starts = self._packed(records)
            gold, take = self._words(records, starts)
        else:
            examples = _Records(self._test.folder, self._test.manifest, records=records)
            stacks, starts = self._apart(examples)
            gold, take = np.array([record['targets'][0] for record in records]), starts
        made = tuple(compacted(stack, self._compact) for stack in stacks)
        return EvalSet(made, gold.astype(np.int32), take.astype(np.int32))

    def _apart(self, examples: '_Records') -> tuple[list[dict[str, np.ndarray]], np.ndarray]:
        """Returns batches of nearly equal sizes, longest texts first; and where each text is."""
        # Small sets are parted as well: short texts need not be as wide as the longest one.
        parts, most = min(_PARTS, -(-len(examples) // PLACES)), self._adapt.eval_batch_size
        num_batches = max(-(-len(examples) // most), parts)
        num_rows = up_to(PLACES, -(-len(examples) // num_batches))
        longest = int(examples.lengths()[:, 0].max(initial=1))
        made = batches_lib.EvalBatches(
            examples,
            batch_size=min(num_rows, most),
            lengths={'inputs': min(up_to(PLACES, longest), self._limit), 'targets': self._limit},
            view=self._view,
            widths=_PARTS,
        )
        batches = list(map(made.build, range(len(made))))
        starts, before = np.zeros(len(examples), np.int64), 0
        for batch in batches:
            index = batch.pop('example_index')
            [filled] = np.nonzero(index >= 0)
            starts[index[filled]] = before + filled
            before += len(index)
        of_shapes = itertools.groupby(batches, lambda batch: batch['encoder_input_tokens'].shape)
        return [jax.tree.map(lambda *x: np.stack(x), *alike) for _, alike in of_shapes], starts

    def _packed(self, records: Sequence[Example]) -> tuple[list[dict[str, np.ndarray]], np.ndarray]:
        """Returns batches [batches, rows, width] of several sentences a row; where each begins."""
        lengths = np.array([min(len(record['inputs']), self._limit) for record in records], int)
        widest = max(int(lengths.max(initial=1)), min(int(lengths.sum()), _PACKED_WIDTH))
        width, most = min(up_to(PLACES, widest), self._limit), self._adapt.eval_batch_size
        rows = plan_rows(lengths, width)
        num_batches = max(-(-len(rows) // most), 1)
        num_rows = -(-len(rows) // num_batches)
        if num_rows > 8 * PLACES:  # Of few rows, those that were added would be many.
            num_rows = min(up_to(PLACES, num_rows), most)
        arrays = self._features([[record] for record in records], width)
        packed, starts = side_by_side(arrays, rows, num_batches * num_rows)
        stack = {name: x.reshape(num_batches, num_rows, width) for name, x in packed.items()}
        return [stack], starts

    def _words(self, records: Sequence[Example], starts: np.ndarray) -> np.ndarray:
        """Returns [2, words and separators]: gold and take, of one label a word."""
        labels = self._test.manifest['labels']
        is_scored = np.array([label not in tagging.UNSCORED for label in labels])
        columns = []
        for record, start in zip(records, starts, strict=True):
            places = features.tag_places(record, self._limit)
            tags = record['targets'][: len(places)]
            scored = is_scored[tags]
            columns += [np.stack([tags[scored], start + places[scored]]), np.full((2, 1), -1)]
        return np.concatenate(columns, axis=1)

    def _features(
        self, rows: Sequence[Example | Sequence[Example]], width: int
    ) -> dict[str, np.ndarray]:
        """Returns the features of rows of examples, [rows, ...]."""
        layout = features.Layout({'inputs': width}, self._conventions, {'inputs': self._limit})
        return features.VIEWS[self._view](rows, layout)

    @staticmethod
    def _ids(groups: Iterable[Sequence[Example]]) -> np.ndarray:
        """Returns the different ids of records, rising."""
        parts = [record['inputs'] for records in groups for record in records]
        return np.unique(np.concatenate(parts)) if parts else np.zeros(0, np.int32)


@dataclasses.dataclass(frozen=True)
class _Records(prepared.Prepared):
    """Examples like those of a prepared split, in memory, as EvalBatches reads the split itself."""

    records: Sequence[Example] = ()

    def __len__(self) -> int:
        return len(self.records)

    def lengths(self) -> np.ndarray:
        """Returns [examples, 2] int32: tokens of inputs and targets."""
        return np.array([[len(r['inputs']), len(r['targets'])] for r in self.records], np.int32)

    def read(self, indices: Iterable[int]) -> list[Example]:
        """Reads the examples with these numbers."""
        return [self.records[i] for i in indices]


def plan_rows(lengths: np.ndarray, width: int) -> list[list[int]]:
    """Returns the examples of each row of a width, as few rows as hold them.

    `lengths` [examples] are in tokens, `width` at most; examples of length 0 are in no row.
    """
    [real] = np.nonzero(lengths)
    sizes = np.stack([lengths[real], np.ones_like(real)], axis=-1)
    rows = packing.pack(sizes, [packing.Shape(width, width)]) if len(real) else []
    return [real[row].tolist() for row in rows]


def side_by_side(
    arrays: Mapping[str, np.ndarray], rows: Sequence[Sequence[int]], num_rows: int
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Returns the features of tagging, [examples, width], in `num_rows` rows that examples share.

    They are [num_rows, width], those of each row as `plan_rows` has it, where 'encoder_segment_ids'
    number the examples of a row from 1, and 'encoder_positions' count the tokens of each from 0.
    The second value is [examples], where each begins in the rows one after another.
    """
    lengths = np.count_nonzero(arrays['encoder_segment_ids'], axis=-1)
    width = arrays['encoder_segment_ids'].shape[-1]
    packed = {name: np.zeros((num_rows, width), array.dtype) for name, array in arrays.items()}
    packed['encoder_positions'] = np.zeros((num_rows, width), np.int32)
    starts = np.zeros(len(lengths), np.int64)
    for row, of_row in enumerate(rows):
        start = 0
        for segment, example in enumerate(of_row, 1):
            size = lengths[example]
            here = row, slice(start, start + size)
            for name, array in arrays.items():
                packed[name][here] = array[example, :size]
            packed['encoder_segment_ids'][here] = segment
            packed['encoder_positions'][here] = np.arange(size)
            starts[example] = row * width + start
            start += size
    return packed, starts


def pack_rows(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Puts the examples of each bucket side by side, in as few rows of the same width as hold them.

    The features of tagging are [buckets, examples, width] before, and [buckets, rows, width] after;
    see `side_by_side`.
    """
    lengths = np.count_nonzero(arrays['encoder_segment_ids'], axis=-1)  # [buckets, examples]
    width = arrays['encoder_segment_ids'].shape[-1]
    plans = [plan_rows(of_bucket, width) for of_bucket in lengths]
    most = max(map(len, plans))
    packed = []
    for bucket, rows in enumerate(plans):
        of_bucket = {name: array[bucket] for name, array in arrays.items()}
        packed.append(side_by_side(of_bucket, rows, most)[0])
    return {name: np.stack([arrays[name] for arrays in packed]) for name in packed[0]}


def compacted(arrays: Mapping[str, np.ndarray], compact: np.ndarray) -> dict[str, np.ndarray]:
    """Renumbers the tokens of features: `compact` [vocabulary] has their new numbers."""
    name = 'encoder_input_tokens'
    return {**arrays, name: compact[arrays[name]]}


def up_to(multiple: int, number: int) -> int:
    """Rounds up to the next multiple. Example: 8, 17 -> 24."""
    return -(-number // multiple) * multiple


def _letters(record: Example) -> str:
    """Letters and digits of the texts: dev files are spaced and quoted in more than one way."""
    text = record['inputs_pretokenized'].casefold()
    return ''.join(c for c in text if unicodedata.category(c)[0] in 'LN')
