r"""Samples few-shot buckets as in arXiv:2012.15682: 40 for each task, K and language.

  python -m xlbench.data buckets sample --task=udpos --lang=de --shots=1,2,4 --output=DATA/buckets \
      train-de.tsv

The buckets have the official form:

  TASK/K-shots/LANGUAGE/I-th/sampled.json   xnli pawsx mldoc marc: label -> list of K examples
  TASK/K-shots/LANGUAGE/I-th/train.tsv      panx udpos: word TAB tag, blank line between sentences

Published ones may also be in one file (fsxlt/buckets):

  TASK/K-shots/LANGUAGE.jsonl   a bucket on each line: {"bucket", "file", "data"}

Examples are drawn from the given files: the dev files of xnli and pawsx, else train files (.conllu
and .iob2, too). The same files, options and seed give the same buckets. In classification a bucket
has K examples of each label, and no example is in two buckets. In tagging it has sentences until
each tag is on K words, without needless ones (appendix C, Minimum-Including); buckets may share
sentences. If a label is too rare, all its examples are taken, and a line says so.

Your own tasks need no such files: pipeline.Shots draws their buckets from their training data by
the same rules, and configs/fewshot_any.py is a sweep over them.
"""

import argparse
import collections
import dataclasses
import itertools
import json
import os
import random
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any

import msgspec

from xlbench.benchmarks import languages
from xlbench.data import conllu, labelled, readers
from xlbench.data.readers import Item, Record
from xlbench.system import errors, files, locks
from xlbench.system.command_line import CommandLine, flag, whole
from xlbench.system.errors import UserError

TAGGING = ('panx', 'udpos')
TASKS = (*labelled.LABELS, *TAGGING)
COUNT = 40
_PLACE = re.compile(
    r'(?P<task>[^/]+)/(?P<shots>[1-9][0-9]{0,4})-shots/(?P<lang>[^/]+?)'
    r'(?:\.jsonl|/(?P<index>0|[1-9][0-9]{0,5})-th/(?:sampled\.json|train\.tsv))(?:\.gz)?$'
)


class _Example(msgspec.Struct):
    uid: str
    text_a: str
    label: str | int
    text_b: str | None = None


_Examples = dict[str, list[_Example]]
_Index = Annotated[int, msgspec.Meta(ge=0, lt=1_000_000)]


class _Labelled(msgspec.Struct):
    bucket: _Index
    data: _Examples


class _Tagged(msgspec.Struct):
    bucket: _Index
    data: str


@dataclasses.dataclass(frozen=True)
class Bucket:
    """The training examples of one adaptation."""

    task: str  # One of TASKS.
    shots: int  # K, examples of each label; in tagging the least number of words with each tag.
    lang: str
    index: int  # 0 to 39.
    # Of classification: uid, text_a, text_b ('' for single texts) and label, in the order of the
    # labels. Of tagging: words and tags, separated by single spaces.
    examples: tuple[Record, ...]

    @property
    def name(self) -> str:
        """The bucket's folder: 'xnli/1-shots/german/0-th'."""
        lang = self.lang if self.task in TAGGING else languages.get(self.lang).name
        return f'{self.task}/{self.shots}-shots/{lang}/{self.index}-th'


def find(path: str) -> list[str]:
    """Returns the files of buckets at or below a path in order, packed ones only if alone."""
    if os.path.isfile(path):
        _place(path)  # Another name is an error.
        return [path]
    there = [os.path.join(folder, name) for folder, _, names in os.walk(path) for name in names]
    paths = set(filter(_match, there))
    if not paths:
        what = 'there are no files of buckets below' if os.path.isdir(path) else 'there is no'
        raise UserError(f'{what} {path}; one is TASK/K-shots/LANGUAGE/I-th/sampled.json')
    twins = {f'{file}.gz' for file in paths}
    return sorted(paths - twins, key=_place)


def read(path: str) -> list[Bucket]:
    """Reads the buckets of a file; 0 bytes are an empty bucket, as some published ones are."""
    task, shots, lang, index = _place(path)
    errors.check_known('task of buckets', task, TASKS)
    lang = labelled.language_code(lang)
    if index >= 0:
        if task in TAGGING:
            examples = readers.good(conllu.read_tagged(path))
        else:
            data = readers.read_whole(path) or b'{}'
            examples = _pairs(task, files.parse_json(data, _Examples, path), path)
        return [Bucket(task, shots, lang, index, tuple(examples))]
    buckets: dict[int, Bucket] = {}
    for number, line in readers.good(readers.numbered(path)):
        place = f'{path}:{number}'
        if task in TAGGING:
            content: Any = files.parse_json(line, _Tagged, place)
            if '\r' in content.data.replace('\r\n', '\n') or '\0' in content.data:
                raise UserError(f'{place}: the data has a \\r inside a line, or a NUL')
            lines = enumerate(content.data.split('\n'), 1)
            examples = readers.good(conllu.read_tagged(place, lines))
        else:
            content = files.parse_json(line, _Labelled, place)
            examples = _pairs(task, content.data, place)
        if content.bucket in buckets:
            raise UserError(f'{place}: bucket {content.bucket} is on an earlier line already')
        buckets[content.bucket] = Bucket(task, shots, lang, content.bucket, tuple(examples))
    return list(buckets.values())


def encode(bucket: Bucket) -> tuple[str, bytes]:
    """Returns the official path of a bucket below a root, and the bytes of its file."""
    if bucket.task in TAGGING:
        return f'{bucket.name}/train.tsv', conllu.write_tagged(bucket.examples).encode()
    records: dict[str, list[dict[str, readers.Json]]]
    records = {label: [] for label in labelled.LABELS[bucket.task]}
    for example in bucket.examples:
        label = example['label']
        record: dict[str, readers.Json] = {name: example[name] for name in ('uid', 'text_a')}
        # MARC's labels are numbers of stars; keys of JSON are texts.
        record['label'] = int(label) if bucket.task == 'marc' else label
        record |= {'portion_identifier': -1, 'text_b': example['text_b'] or None}
        records[label].append(record)
    return f'{bucket.name}/sampled.json', json.dumps(records, ensure_ascii=False).encode()


def _pairs(task: str, data: Mapping[str, Sequence[_Example]], place: str) -> Iterator[Record]:
    """Yields the records of a bucket for classification; UserError if they are not right."""
    texts_of: dict[str, Record] = {}
    for label, examples in data.items():
        errors.check_known(f'label in {place}', label, labelled.LABELS[task])
        for example in examples:
            uid = errors.shortened(example.uid)
            if str(example.label) != label:
                named = errors.shortened(example.label)
                raise UserError(f'{place}: {uid} is {named}, not {label!r}')
            labelled.Uid.parse(example.uid)
            texts = {'uid': example.uid, 'text_a': example.text_a}
            texts |= {'text_b': example.text_b or '', 'label': label}
            is_pair = task in ('xnli', 'pawsx') or texts['text_b']
            for name in ('text_a', 'text_b') if is_pair else ('text_a',):
                try:
                    readers.text_field(texts[name], name)
                except ValueError as error:
                    raise UserError(f'{place}: {uid}: {error}') from None
            # Two examples with one uid are a fault; the same example twice is not.
            if texts_of.setdefault(example.uid, texts) != texts:
                raise UserError(f'{place}: {uid} is there twice, with different texts or labels')
            yield texts


def _match(path: str) -> re.Match[str] | None:
    return _PLACE.search(os.path.abspath(path).replace(os.sep, '/'))


def _place(path: str) -> tuple[str, int, str, int]:
    """Returns task, shots, language and index (-1 for a file of all buckets) of a path."""
    match = _match(path)
    if not match:
        raise UserError(
            f'{path} is not named like a file of buckets: TASK/K-shots/LANGUAGE/I-th/sampled.json, '
            'the same with train.tsv, or TASK/K-shots/LANGUAGE.jsonl'
        )
    return match['task'], int(match['shots']), match['lang'], int(match['index'] or -1)


# ---------------------------------------------------------------------------------------------
# Sampling: appendix C.


def sample(
    task: str, lang: str, examples: Sequence[Record], shots: int, count: int = COUNT, seed: int = 0
) -> list[Bucket]:
    """Samples `count` buckets of K = `shots` from examples like those of `Bucket`.

    The buckets of a task, language, K and seed do not depend on other samples.
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
    """Samples N-way K-shot buckets: K examples of each label, and no example in two buckets.

    `labels` are those of the examples, `ways` the N labels, `shots` K, `count` the buckets.

    Returns:
      The numbers of the examples of each bucket, label by label; later buckets have fewer examples
      of a label that runs out.
    """
    chosen: list[list[int]] = [[] for _ in range(count)]
    for way in ways:
        numbers = _shuffled([i for i, label in enumerate(labels) if label == way], draw)
        for index, bucket in enumerate(chosen):
            bucket += numbers[index * shots : (index + 1) * shots]
    return chosen


class MinimumIncluding:
    """Samples sentences so that each label is on K words and no sentence is needless.

    The Minimum-Including algorithm of arXiv:2012.15682, appendix C. `tags` are those of the words
    of each sentence. Of a label with fewer than K words, all are needed.
    """

    def __init__(self, tags: Sequence[Sequence[str]], shots: int):
        self._counts = [collections.Counter(row) for row in tags]
        total = collections.Counter(itertools.chain.from_iterable(tags))
        self._needed = {label: min(shots, count) for label, count in total.items()}
        # The rarest first, because their sentences have many frequent ones; the paper leaves the
        # order open, and the result is always minimal.
        self._labels = sorted(total, key=lambda label: (total[label], label))
        self._sentences = {
            label: [i for i, count in enumerate(self._counts) if label in count] for label in total
        }

    def sample(self, draw: random.Random) -> list[int]:
        """Returns the numbers of the sentences of a bucket in the order of drawing."""
        have: collections.Counter[str] = collections.Counter()
        chosen: dict[int, None] = {}
        for label in self._labels:
            sentences = self._sentences[label]
            while have[label] < self._needed[label]:
                number = sentences[int(draw.random() * len(sentences))]
                if number not in chosen:
                    chosen[number] = None
                    have.update(self._counts[number])
        # One pass is enough: without a sentence, the others are only needed more.
        for number in _shuffled(list(chosen), draw):
            count = self._counts[number]
            if all(have[label] - n >= self._needed[label] for label, n in count.items()):
                del chosen[number]
                have.subtract(count)
        return list(chosen)


def shortages(task: str, examples: Sequence[Record], shots: int, count: int = COUNT) -> list[str]:
    """Describes each label that is too rare in the examples for such buckets."""
    if task in TAGGING:
        there = collections.Counter(tag for row in examples for tag in row['tags'].split(' '))
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
    # random() stays the same in all releases of Python, shuffle() need not.
    return [number for _, number in sorted((draw.random(), number) for number in numbers)]


def read_examples(
    task: str, lang: str, paths: Iterable[str], bad: readers.BadRecords | None = None
) -> list[Record]:
    """Reads the usable examples of a task's official files (tagging: also .conllu and .iob2).

    `bad` takes the other examples; by default they are UserErrors.
    """
    bad = bad or readers.BadRecords()
    return [example for path in paths for example in bad.usable(_reader(task, lang, path))]


def _reader(task: str, lang: str, path: str) -> Iterator[Item]:
    if task not in TAGGING:
        return labelled.READERS[task](path, lang)
    plain = path.removesuffix('.gz')
    if plain.endswith('.conllu'):
        return conllu.read_conllu(path)
    return conllu.read_iob2(path) if plain.endswith('.iob2') else conllu.read_tagged(path)


# ---------------------------------------------------------------------------------------------
# The program.


def _shots(text: str) -> tuple[int, ...]:
    return tuple(map(whole(1), text.split(',')))


def _sample(flags: argparse.Namespace) -> int:
    lang = languages.get(flags.lang).code
    bad = readers.BadRecords(lambda: len(bad.skipped) < flags.skip_bad)
    examples = read_examples(flags.task, lang, flags.files, bad)
    for record in bad.skipped:
        print(f'skipped {record}')
    for reason, count in bad.left_out.items():
        print(f'left out {count}: {reason}')
    made: dict[str, tuple[int, list[Bucket], dict[str, bytes]]] = {}
    for shots in flags.shots or ((1, 2, 4) if flags.task in TAGGING else (1, 2, 4, 8)):
        buckets = sample(flags.task, lang, examples, shots, flags.count, flags.seed)
        place = os.path.dirname(buckets[0].name)
        folder = os.path.join(flags.output, place)
        contents = {os.path.relpath(path, place): data for path, data in map(encode, buckets)}
        # A killed command may have written some of them.
        there = {str(p.relative_to(folder)): p.read_bytes() for p in files.below(folder)}
        if os.path.exists(folder) and there != contents:
            raise UserError(f'{folder} is there already; remove it, or choose another --output')
        made[folder] = shots, buckets, {} if there else contents
    for folder, (shots, buckets, contents) in made.items():
        if contents:
            with locks.atomic_folder(folder) as hidden:
                for path, data in contents.items():
                    (hidden / path).parent.mkdir()
                    files.write(hidden / path, data)
        for line in shortages(flags.task, examples, shots, flags.count):
            print(f'{shots}-shot: {line}')
        sizes = sorted(len(bucket.examples) for bucket in buckets)
        print(
            f'{folder}: {len(buckets)} buckets of {sizes[0]} to {sizes[-1]} examples, '
            f'from {len(examples)}'
        )
    return 0


_FLAGS = (
    flag('files', 'examples to draw from, in the official form', nargs='+', metavar='FILE'),
    flag('--task', 'task of the examples', required=True, choices=TASKS),
    flag('--lang', 'code of the language, such as de', required=True),
    flag('--output', 'folder for TASK/K-shots/LANGUAGE', required=True),
    flag('--shots', 'K; default: 1,2,4,8, for tagging 1,2,4, as in the paper', type=_shots),
    flag('--count', 'buckets of each', COUNT, type=whole(1)),
    flag('--seed', 'seed of the draws', 0),
    flag('--skip_bad', 'skip up to N records that cannot be used', 0),
)
COMMAND = CommandLine(
    'data buckets', __doc__, commands={'sample': ('Makes new buckets.', _FLAGS, _sample)}
)
main = COMMAND.main
