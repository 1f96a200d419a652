"""Buckets of K shots, drawn as arXiv:2012.15682, appendix C, says."""

import collections
import itertools
import random
from collections.abc import Iterable, Iterator, Sequence

from xlbench.data import conllu, labelled, readers
from xlbench.data.buckets.bucket_files import COUNT, TAGGING, Bucket
from xlbench.data.readers import BadRecord, LeftOut, Record
from xlbench.system.errors import UserError


def sample(
    task: str,
    lang: str,
    examples: Sequence[Record],
    shots: int,
    count: int = COUNT,
    seed: int = 0,
) -> list[Bucket]:
    """Returns new buckets.

    Args:
      task: one of TASKS.
      lang: ISO code of the examples.
      examples: what is drawn from, records as in `Bucket.examples`.
      shots: K.
      count: how many buckets.
      seed: another seed gives other buckets. Those of a task, language and K do not depend on
        what else is sampled.
    """
    if not examples:
        raise UserError(f'nothing to sample {task} buckets in {lang} from')
    draw = random.Random(f'{seed}/{task}/{lang}/{shots}')
    if task in TAGGING:
        tags = [example['tags'].split(' ') for example in examples]
        pool = MinimumIncluding(tags, shots)
        chosen = [pool.sample(draw) for _ in range(count)]
    else:
        labels = [example['label'] for example in examples]
        chosen = n_way(labels, labelled.LABELS[task], shots, count, draw)
    return [
        Bucket(task, shots, lang, index, tuple(examples[i] for i in numbers))
        for index, numbers in enumerate(chosen)
    ]


def n_way(
    labels: Sequence[str], ways: Sequence[str], shots: int, count: int, draw: random.Random
) -> list[list[int]]:
    """Returns n-way K-shot: K examples of each label for each bucket, and none for two buckets.

    Args:
      labels: the label of each example.
      ways: the N labels.
      shots: K.
      count: how many buckets.
      draw: random numbers.

    Returns:
      The numbers of the examples of each bucket, label by label. Where a label runs out, later
      buckets have fewer of it.
    """
    chosen: list[list[int]] = [[] for _ in range(count)]
    for way in ways:
        numbers = _shuffled([i for i, label in enumerate(labels) if label == way], draw)
        for index, bucket in enumerate(chosen):
            bucket += numbers[index * shots : (index + 1) * shots]
    return chosen


class MinimumIncluding:
    """Samples sentences so that each label is on K words and no sentence is without need.

    The Minimum-Including algorithm of arXiv:2012.15682, appendix C. A label with fewer than K words
    in all sentences together must be on every one of them.
    """

    def __init__(self, tags: Sequence[Sequence[str]], shots: int):
        """Sentence i has the tags `tags[i]`."""
        self._counts = [collections.Counter(row) for row in tags]
        total = collections.Counter(itertools.chain.from_iterable(tags))
        self._needed = {label: min(shots, count) for label, count in total.items()}
        # The rarest first: their sentences bring many of the frequent ones. The paper leaves it
        # open; the result is minimal in any order.
        self._labels = sorted(total, key=lambda label: (total[label], label))
        self._sentences = {
            label: [i for i, count in enumerate(self._counts) if label in count] for label in total
        }

    def sample(self, draw: random.Random) -> list[int]:
        """The numbers of the sentences of one bucket, in the order in which they were drawn."""
        have: collections.Counter[str] = collections.Counter()
        chosen: dict[int, None] = {}
        for label in self._labels:
            sentences = self._sentences[label]
            while have[label] < self._needed[label]:
                number = sentences[int(draw.random() * len(sentences))]
                if number not in chosen:
                    chosen[number] = None
                    have.update(self._counts[number])
        # Once is enough: leaving one out makes no other more dispensable.
        for number in _shuffled(list(chosen), draw):
            count = self._counts[number]
            if all(have[label] - n >= self._needed[label] for label, n in count.items()):
                del chosen[number]
                have.subtract(count)
        return list(chosen)


def shortages(task: str, examples: Sequence[Record], shots: int, count: int = COUNT) -> list[str]:
    """Returns a line for each label that the examples have too few of for such buckets."""
    if task in TAGGING:
        there = collections.Counter(
            itertools.chain.from_iterable(example['tags'].split(' ') for example in examples)
        )
        return [
            f'{label} is on {there[label]} words only, fewer than {shots}'
            for label in sorted(there)
            if there[label] < shots
        ]
    there = collections.Counter(example['label'] for example in examples)
    return [
        f'{label} has {there[label]} examples; buckets from {there[label] // shots} on have fewer '
        f'than {shots}'
        for label in labelled.LABELS[task]
        if there[label] < shots * count
    ]


def _shuffled(numbers: list[int], draw: random.Random) -> list[int]:
    # Python promises that random() stays the same from release to release, not that shuffle() does.
    return [number for _, number in sorted((draw.random(), number) for number in numbers)]


def read_examples(
    task: str, lang: str, paths: Iterable[str], bad: readers.BadRecords | None = None
) -> list[Record]:
    """Reads the examples of a task's files, without those that cannot be used.

    Args:
      task: one of TASKS.
      lang: ISO code.
      paths: official files; for tagging also .conllu and .iob2. Each may end in .gz.
      bad: takes those that cannot be used; by default one of them is a UserError.
    """
    bad = bad or readers.BadRecords()
    examples = []
    for path in paths:
        for record in _reader(task, lang, path):
            if isinstance(record, BadRecord):
                bad.add(record)
            elif isinstance(record, LeftOut):
                bad.left_out[record.reason] += 1
            else:
                examples.append(record)
    return examples


def _reader(task: str, lang: str, path: str) -> Iterator[Record | BadRecord | LeftOut]:
    if task not in TAGGING:
        return labelled.READERS[task](path, lang)
    plain = path.removesuffix('.gz')
    if plain.endswith('.conllu'):
        return conllu.read_conllu(path)
    return conllu.read_iob2(path) if plain.endswith('.iob2') else conllu.read_tagged(path)
