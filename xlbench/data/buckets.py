r"""Buckets: the few shots of arXiv:2012.15682, 40 of each task, number of shots and language.

  python -m xlbench.buckets check DATA/buckets
  python -m xlbench.buckets sample --task=udpos --lang=de --shots=1,2,4 --output=DATA/buckets \
      train-de.tsv

A path of `check` is a file of buckets or a folder that has some anywhere below it, in one of the
two forms in which they are published (fsxlt/buckets), .gz or not:

  TASK/K-shots/LANGUAGE/I-th/sampled.json   xnli pawsx mldoc marc: label -> list of K examples
  TASK/K-shots/LANGUAGE/I-th/train.tsv      panx udpos: word TAB tag, blank line between sentences
  TASK/K-shots/LANGUAGE.jsonl               a bucket on each line: {"bucket", "file", "data"}

It prints a line for whatever is not as the paper says, and a table. Nothing of it stops a run: the
published buckets are what everybody adapts on, and most of those for tagging are not minimal. It
looks for:

  empty        the bucket has no example
  shots        a label has more or fewer than K examples (classification)
  shared       an example is in another bucket of the same K and language (classification)
  criterion 1  a tag is on fewer than K words. Its tags are those of all buckets of the language and
               K that are checked, so check them together (tagging)
  criterion 2  a sentence could be left out and criterion 1 would still hold (tagging)
  rare         buckets of another K have a tag that none of this language and K has (tagging)
  repeated     a sentence, or an example, is twice in the bucket

`sample` writes buckets in the official form. Its files are what the shots are drawn from: the dev
files of xnli and pawsx, else train files (see labelled.py and conllu.py; .conllu and
.iob2 are read as such). The same files, options and seed give the same buckets. Classification
takes K examples of each label, and no example into two buckets. Tagging takes sentences until each
tag is on K words, and then leaves out what is not needed (appendix C, Minimum-Including); different
buckets may share sentences. A label that is too rare is reported and taken as often as it is there.

Tasks of a user's own need no such files: pipeline.Shots draws their buckets from their training
data, by the same rules, and configs/fewshot_any.py is a sweep over them.
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

from xlbench import errors, files, locks
from xlbench.benchmarks import languages
from xlbench.data import conllu, labelled, readers
from xlbench.data.readers import BadRecord, LeftOut, Record
from xlbench.errors import UserError

TAGGING = ('panx', 'udpos')
TASKS = (*labelled.LABELS, *TAGGING)
COUNT = 40

_PLACE = re.compile(
    r'(?P<task>[^/]+)/(?P<shots>[1-9][0-9]{0,4})-shots/(?P<lang>[^/]+?)'
    r'(?:\.jsonl|/(?P<index>0|[1-9][0-9]{0,5})-th/(?:sampled\.json|train\.tsv))(?:\.gz)?$'
)
KINDS = ('empty', 'shots', 'shared', 'criterion 1', 'criterion 2', 'rare', 'repeated')


# The content of files. Other keys of theirs are left out.


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
    """The examples that one adaptation trains on.

    Attributes:
        task: One of TASKS.
        shots: K, examples of each label; for tagging the least number of words with each tag.
        lang: ISO code.
        index: 0 to 39.
        examples: Records of text fields; none in an empty bucket. Classification: uid, text_a,
            text_b ('' for single texts), label, in the order of the labels. Tagging: words and
            tags, each separated by single spaces.
    """

    task: str
    shots: int
    lang: str
    index: int
    examples: tuple[Record, ...]

    @property
    def name(self) -> str:
        """Its folder: 'xnli/1-shots/german/0-th'."""
        lang = self.lang if self.task in TAGGING else languages.get(self.lang).name
        return f'{self.task}/{self.shots}-shots/{lang}/{self.index}-th'


# ---------------------------------------------------------------------------------------------
# Files.


def find(path: str) -> list[str]:
    """The files of buckets at a path, or anywhere below it, in the order of their places.

    A packed file beside its unpacked self is not read a second time.
    """
    if os.path.isfile(path):
        _place(path)  # A name that says nothing is an error.
        return [path]
    there = [os.path.join(folder, name) for folder, _, names in os.walk(path) for name in names]
    paths = {file for file in there if _PLACE.search(_absolute(file))}
    if not paths:
        what = 'there are no files of buckets below' if os.path.isdir(path) else 'there is no'
        raise UserError(f'{what} {path}; one is TASK/K-shots/LANGUAGE/I-th/sampled.json')
    twins = {f'{file}.gz' for file in paths}
    return sorted(paths - twins, key=_place)


def read(path: str) -> list[Bucket]:
    """The buckets of one file. A file of 0 bytes is an empty bucket, as some published ones are."""
    task, shots, lang, index = _place(path)
    if task not in TASKS:
        raise errors.unknown('task of buckets', task, TASKS)
    lang = labelled.language_code(lang)
    if index >= 0:
        if task in TAGGING:
            examples = _sentences(path, enumerate(readers.lines(path), 1))
        else:
            data = readers.read_whole(path) or b'{}'
            examples = _pairs(task, files.parse_json(data, _Examples, path), path)
        return [Bucket(task, shots, lang, index, tuple(examples))]
    buckets: dict[int, Bucket] = {}
    for number, line in enumerate(_good(readers.lines(path)), 1):
        place = f'{path}:{number}'
        if task in TAGGING:
            content: Any = files.parse_json(line, _Tagged, place)
            if '\r' in content.data.replace('\r\n', '\n') or '\0' in content.data:
                raise UserError(f'{place}: the data has a \\r inside a line, or a NUL')
            examples = _sentences(place, enumerate(content.data.split('\n'), 1))
        else:
            content = files.parse_json(line, _Labelled, place)
            examples = _pairs(task, content.data, place)
        if content.bucket in buckets:
            raise UserError(f'{place}: bucket {content.bucket} is on an earlier line already')
        buckets[content.bucket] = Bucket(task, shots, lang, content.bucket, tuple(examples))
    return list(buckets.values())


def load(root: str, task: str, lang: str, shots: int) -> list[Bucket]:
    """All buckets of a task, language and number of shots, in order.

    Args:
        root: The folder that holds TASK/K-shots.
        task: One of TASKS.
        lang: ISO code; the folder may have the language's English name.
        shots: K.
    """
    folder = os.path.join(root, task, f'{shots}-shots')
    for name in (lang, languages.get(lang).name):
        for path in (name, f'{name}.jsonl', f'{name}.jsonl.gz'):
            path = os.path.join(folder, path)
            if os.path.exists(path):
                buckets = [bucket for file in find(path) for bucket in read(file)]
                return sorted(buckets, key=lambda bucket: bucket.index)
    there = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    raise UserError(
        f'no {shots}-shot buckets of {task} in {lang}: {folder} '
        + (f'has {", ".join(there[:50])}' if there else 'is not there')
    )


def write(bucket: Bucket, root: str) -> str:
    """Writes a bucket below `root` in the official form; gives the path of its file."""
    return _write_file(bucket, os.path.join(root, *bucket.name.split('/')))


def _write_file(bucket: Bucket, folder: str) -> str:
    os.makedirs(folder, exist_ok=True)
    if bucket.task in TAGGING:
        path, text = os.path.join(folder, 'train.tsv'), conllu.write_tagged(bucket.examples)
    else:
        path = os.path.join(folder, 'sampled.json')
        text = json.dumps(_official(bucket), ensure_ascii=False)
    with open(path, 'w', encoding='utf-8', newline='\n') as file:
        file.write(text)
    return path


def _official(bucket: Bucket) -> dict[str, list[dict[str, Any]]]:
    """The content of sampled.json."""
    records: dict[str, list[dict[str, Any]]] = {label: [] for label in labelled.LABELS[bucket.task]}
    for example in bucket.examples:
        label = example['label']
        records[label].append(
            {
                'uid': example['uid'],
                'text_a': example['text_a'],
                # Keys of JSON are texts, but the labels of MARC are numbers of stars.
                'label': int(label) if bucket.task == 'marc' else label,
                'portion_identifier': -1,
                'text_b': example['text_b'] or None,
            }
        )
    return records


def _sentences(place: str, lines: Iterable[conllu.Numbered]) -> Iterator[Record]:
    """The records of a bucket for tagging."""
    return _good(conllu.read_tagged_lines(place, lines))


def _pairs(task: str, data: Mapping[str, Sequence[_Example]], place: str) -> Iterator[Record]:
    """The records of a bucket for classification; UserError if it is none."""
    texts_of: dict[str, Record] = {}
    for label, examples in data.items():
        if label not in labelled.LABELS[task]:
            raise errors.unknown(f'label in {place}', label, labelled.LABELS[task])
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
            # The same example twice is what `check` reports; this is two of the same name.
            if texts_of.setdefault(example.uid, texts) != texts:
                raise UserError(f'{place}: {uid} is there twice, with different texts or labels')
            yield texts


def _good(records: Iterable[Any]) -> Iterator[Any]:
    """Records, or lines; the first bad one is a UserError."""
    for record in records:
        if isinstance(record, BadRecord):
            raise UserError(str(record))
        if not isinstance(record, LeftOut):
            yield record


def _absolute(path: str) -> str:
    return os.path.abspath(path).replace(os.sep, '/')


def _place(path: str) -> tuple[str, int, str, int]:
    """Task, shots, name of the language, and index; -1 for a file with all buckets."""
    match = _PLACE.search(_absolute(path))
    if not match:
        raise UserError(
            f'{path} is not named like a file of buckets: TASK/K-shots/LANGUAGE/I-th/sampled.json, '
            'the same with train.tsv, or TASK/K-shots/LANGUAGE.jsonl'
        )
    return match['task'], int(match['shots']), match['lang'], int(match['index'] or -1)


# ---------------------------------------------------------------------------------------------
# The dev sets of tasks whose shots are dev examples.


def dev_rows(task: str, lang: str, buckets: Iterable[Bucket], num_rows: int) -> list[int]:
    """The rows of a language's dev set that are in none of the buckets.

    To be called with all buckets of a language and number of shots: each of them is adapted and
    selected on the same dev set. Shots that come from a train set take nothing away.

    Args:
        task: One of TASKS.
        lang: ISO code.
        buckets: Those of the task and language.
        num_rows: Rows of the dev set, the language's own, without a header.

    Returns:
        Their numbers from 0, rising. Three shots of 40 buckets leave 2490 - 40 * 3 of XNLI.
    """
    taken = set()
    for bucket in buckets:
        if (bucket.task, bucket.lang) != (task, lang):
            raise UserError(f'{bucket.name} is not a bucket of {task} in {lang}')
        for example in bucket.examples if task not in TAGGING else ():
            uid = labelled.Uid.parse(example['uid'])
            if uid.split != 'val':
                continue
            row = uid.row(task)
            if uid.lang != lang or row >= num_rows:
                raise UserError(f'{bucket.name}: {uid} is not in a dev set of {num_rows} rows')
            taken.add(row)
    return [row for row in range(num_rows) if row not in taken]


# ---------------------------------------------------------------------------------------------
# Criteria.


@dataclasses.dataclass(frozen=True)
class Criteria:
    """What arXiv:2012.15682, section 4.1, asks of a bucket for tagging.

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
    """Whether a bucket is minimal and sufficient.

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
    """What is not right in buckets of any tasks, numbers of shots and languages."""
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
    """The tags in any of these buckets."""
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
    found = criteria([e['tags'].split(' ') for e in bucket.examples], labels, bucket.shots)
    if found.missing:
        listed = ', '.join(f'{label} {found.counts[label]}' for label in found.missing)
        yield Problem(bucket.name, 'criterion 1', f'fewer than {bucket.shots}: {listed}')
    if found.removable:
        listed = ', '.join(str(i + 1) for i in found.removable)
        yield Problem(bucket.name, 'criterion 2', f'not needed: sentence {listed}')
    if rare:
        yield Problem(bucket.name, 'rare', f'only buckets of another K have {", ".join(rare)}')
    yield from _repeated(bucket, collections.Counter(e['words'] for e in bucket.examples))


def _repeated(bucket: Bucket, counts: Mapping[str, int]) -> Iterator[Problem]:
    for text, count in counts.items():
        if count > 1:
            yield Problem(bucket.name, 'repeated', f'{count} times: {text}')


# ---------------------------------------------------------------------------------------------
# Sampling.


def sample(
    task: str,
    lang: str,
    examples: Sequence[Record],
    shots: int,
    count: int = COUNT,
    seed: int = 0,
) -> list[Bucket]:
    """New buckets; see the head of this file.

    Args:
        task: One of TASKS.
        lang: ISO code of the examples.
        examples: What is drawn from, records as in `Bucket.examples`.
        shots: K.
        count: How many buckets.
        seed: Another seed gives other buckets. Those of a task, language and K do not depend on
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
    """N-way K-shot: K examples of each label for each bucket, and none for two buckets.

    Args:
        labels: The label of each example.
        ways: The N labels.
        shots: K.
        count: How many buckets.
        draw: Random numbers.

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
    """A line for each label that the examples have too few of for such buckets."""
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
    """The examples of files of a task, those that cannot be used left out.

    Args:
        task: One of TASKS.
        lang: ISO code.
        paths: Official files; for tagging also .conllu and .iob2. Each may end in .gz.
        bad: Takes those that cannot be used; by default one of them is a UserError.
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


# ---------------------------------------------------------------------------------------------
# Commands.


def main(argv: Sequence[str]) -> int:
    """The command line, the program's name first."""
    flags = _parser().parse_args(argv[1:])
    return flags.run(flags)


def _parser() -> argparse.ArgumentParser:
    parser = errors.ArgumentParser('python -m xlbench.buckets', __doc__)
    commands = parser.add_subparsers(required=True, metavar='check | sample')
    check = _command(commands, 'check', 'list what is not as the paper says')
    check.add_argument('paths', nargs='+', metavar='PATH', help='a file or folder of buckets')
    check.set_defaults(run=_check)
    new = _command(commands, 'sample', 'make new buckets')
    add = new.add_argument
    add('files', nargs='+', metavar='FILE', help='what is drawn from, in the official form')
    add('--task', required=True, choices=TASKS)
    add('--lang', required=True, help='code of the language, such as de')
    add('--output', required=True, help='folder for TASK/K-shots/LANGUAGE')
    add('--shots', type=_shots, help='K; default: 1,2,4,8, for tagging 1,2,4, as in the paper')
    add('--count', type=_whole, default=COUNT, help='buckets of each; default: %(default)s')
    add('--seed', type=int, default=0, help='default: %(default)s')
    add('--skip_bad', type=int, default=0, help='skip up to N records that cannot be used')
    new.set_defaults(run=_sample)
    return parser


def _command(commands: Any, name: str, what: str) -> argparse.ArgumentParser:
    return commands.add_parser(name, help=what, description=what)


def _whole(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f'{text!r} is not a whole number above 0')
    return int(text)


def _shots(text: str) -> tuple[int, ...]:
    return tuple(_whole(part) for part in text.split(','))


def _check(flags: argparse.Namespace) -> int:
    """Prints what is not right, and a table; 1 if a file cannot be read."""
    paths = dict.fromkeys(file for path in flags.paths for file in find(path))
    buckets: list[Bucket] = []
    unreadable = 0
    for file in paths:
        try:
            buckets += read(file)
        except UserError as error:
            unreadable += 1
            print(f'{file}\tunreadable\t{error}')
    found = list(problems(buckets))
    for problem in found:
        print(problem.bucket, problem.kind, problem.detail, sep='\t')
    print(_table(buckets, found))
    print(
        f'{len(paths)} files, {unreadable} of them unreadable; {len(buckets)} buckets, '
        f'{len({problem.bucket for problem in found})} of them not as the paper says'
    )
    return 1 if unreadable else 0


def _table(buckets: Sequence[Bucket], found: Sequence[Problem]) -> str:
    """Of each task and K: buckets, examples, and buckets with each kind of problem."""
    having = {(problem.bucket, problem.kind) for problem in found}
    wrong = {problem.bucket for problem in found}
    groups = collections.defaultdict(list)
    for bucket in buckets:
        groups[bucket.task, bucket.shots].append(bucket)
    rows = [('task', 'K', 'languages', 'buckets', 'examples', 'as the paper', *KINDS)]
    for (task, shots), group in sorted(groups.items()):
        names = [bucket.name for bucket in group]
        numbers = [
            shots,
            len({bucket.lang for bucket in group}),
            len(group),
            sum(len(bucket.examples) for bucket in group),
            sum(name not in wrong for name in names),
            *(sum((name, kind) in having for name in names) for kind in KINDS),
        ]
        rows.append((task, *map(str, numbers)))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return '\n'.join(
        '  '.join(
            [cells[0].ljust(widths[0])]
            + [cell.rjust(width) for cell, width in zip(cells[1:], widths[1:], strict=True)]
        )
        for cells in rows
    )


def _sample(flags: argparse.Namespace) -> int:
    """Writes new buckets, and says what they lack."""
    lang = languages.get(flags.lang).code
    bad = readers.BadRecords(lambda: len(bad.skipped) < flags.skip_bad)
    examples = read_examples(flags.task, lang, flags.files, bad)
    for record in bad.skipped:
        print(f'skipped {record}')
    for reason, count in bad.left_out.items():
        print(f'left out {count}: {reason}')
    all_shots = flags.shots or ((1, 2, 4) if flags.task in TAGGING else (1, 2, 4, 8))
    made = {
        shots: sample(flags.task, lang, examples, shots, flags.count, flags.seed)
        for shots in all_shots
    }
    folders = {
        shots: os.path.join(flags.output, os.path.dirname(buckets[0].name))
        for shots, buckets in made.items()
    }
    for folder in folders.values():
        if os.path.exists(folder):
            raise UserError(f'{folder} is there already; remove it, or choose another --output')
    for shots, buckets in made.items():
        with locks.appearing(folders[shots]) as folder:
            for bucket in buckets:
                _write_file(bucket, os.path.join(folder, os.path.basename(bucket.name)))
        for line in shortages(flags.task, examples, shots, flags.count):
            print(f'{shots}-shot: {line}')
        sizes = sorted(len(bucket.examples) for bucket in buckets)
        print(
            f'{folders[shots]}: {len(buckets)} buckets of {sizes[0]} to {sizes[-1]} examples, '
            f'from {len(examples)}'
        )
    return 0

