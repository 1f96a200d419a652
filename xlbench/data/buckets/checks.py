"""Checks of a bucket of K shots, by the rules of the paper."""

import collections
import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence

from xlbench.data import labelled
from xlbench.data.buckets.bucket_files import TAGGING, Bucket
from xlbench.system import errors

KINDS = ('empty', 'shots', 'shared', 'criterion 1', 'criterion 2', 'rare', 'repeated')


@dataclasses.dataclass(frozen=True)
class Criteria:
    """Criteria of arXiv:2012.15682, section 4.1, for a tagging bucket.

    Attributes:
        counts: How often each label occurs.
        missing: Labels that occur fewer than K times; none if criterion 1 holds.
        removable: Numbers of the sentences of which any single one could be left out, so that all
            labels would still occur K times; none if criterion 2 holds.
    """

    counts: Mapping[str, int]
    missing: tuple[str, ...]
    removable: tuple[int, ...]


def criteria(
    tags: Sequence[Sequence[str]], labels: Iterable[str], shots: int, unit: str = 'words'
) -> Criteria:
    """Tests if a bucket is minimal and sufficient.

    Args:
        tags: The tags of each sentence.
        labels: Every label that must occur.
        shots: K.
        unit: What is counted: 'words' with a label, as in the paper, or 'sentences' that have it,
            as the tool does that the method comes from (AtmaHou/MetaDialog).

    Example: [['A', 'B'], ['C'], ['A']], labels A B C, 1 shot -> A 2, B 1, C 1; removable (2,)
    """
    if unit not in ('words', 'sentences'):
        raise errors.unknown('unit', unit, ('words', 'sentences'))
    each = [collections.Counter(row if unit == 'words' else set(row)) for row in tags]
    counts = {label: sum(count[label] for count in each) for label in labels}
    removable = [
        i for i, count in enumerate(each) if all(n - count[lb] >= shots for lb, n in counts.items())
    ]
    missing = [label for label, count in counts.items() if count < shots]
    return Criteria(counts, tuple(missing), tuple(removable))


@dataclasses.dataclass(frozen=True)
class Problem:
    """One way in which a bucket is not as the paper says.

    Attributes:
        bucket: Its name.
        kind: One of KINDS.
        detail: What exactly.
    """

    bucket: str
    kind: str
    detail: str


def problems(buckets: Iterable[Bucket]) -> Iterator[Problem]:
    """Yields the faults of buckets of any tasks, numbers of shots and languages."""
    groups = collections.defaultdict(list)
    for bucket in buckets:
        groups[bucket.task, bucket.lang, bucket.shots].append(bucket)
    tags = {key: _tags(group) for key, group in groups.items()}
    for (task, lang, shots), group in groups.items():
        if task not in TAGGING:
            yield from _classification_problems(group)
            continue
        labels = tags[task, lang, shots]
        others = {t for key, there in tags.items() if key[:2] == (task, lang) for t in there}
        for bucket in group:
            yield from _tagging_problems(bucket, labels, sorted(others.difference(labels)))


def _tags(buckets: Iterable[Bucket]) -> list[str]:
    """Returns the tags in any of these buckets."""
    texts = {example.get('tags', '') for bucket in buckets for example in bucket.examples}
    return sorted({tag for text in texts for tag in text.split()})


def _classification_problems(buckets: Sequence[Bucket]) -> Iterator[Problem]:
    first: dict[str, Bucket] = {}
    for bucket in buckets:
        if not bucket.examples:
            yield Problem(bucket.name, 'empty', 'no example')
        counts = collections.Counter(example['label'] for example in bucket.examples)
        labels = labelled.LABELS[bucket.task]
        wrong = [f'{label}: {counts[label]}' for label in labels if counts[label] != bucket.shots]
        if wrong:
            yield Problem(bucket.name, 'shots', f'not {bucket.shots} of {", ".join(wrong)}')
        uids = collections.Counter(example['uid'] for example in bucket.examples)
        yield from _repeated(bucket, uids)
        for uid in uids:
            other = first.setdefault(uid, bucket)
            if other is not bucket:
                yield Problem(bucket.name, 'shared', f'{uid} is in bucket {other.index} too')


def _tagging_problems(
    bucket: Bucket, labels: Sequence[str], rare: Sequence[str]
) -> Iterator[Problem]:
    if not bucket.examples:
        yield Problem(bucket.name, 'empty', 'no sentence')
    failures = criteria([e['tags'].split(' ') for e in bucket.examples], labels, bucket.shots)
    if failures.missing:
        listed = ', '.join(f'{label} {failures.counts[label]}' for label in failures.missing)
        yield Problem(bucket.name, 'criterion 1', f'fewer than {bucket.shots}: {listed}')
    if failures.removable:
        listed = ', '.join(str(i + 1) for i in failures.removable)
        yield Problem(bucket.name, 'criterion 2', f'not needed: sentence {listed}')
    if rare:
        yield Problem(bucket.name, 'rare', f'only buckets of another K have {", ".join(rare)}')
    yield from _repeated(bucket, collections.Counter(e['words'] for e in bucket.examples))


def _repeated(bucket: Bucket, counts: Mapping[str, int]) -> Iterator[Problem]:
    for text, count in counts.items():
        if count > 1:
            yield Problem(bucket.name, 'repeated', f'{count} times: {text}')
