"""Files of buckets in both published forms (fsxlt/buckets): those of command.py, and in one file

  TASK/K-shots/LANGUAGE.jsonl   a bucket on each line: {"bucket", "file", "data"}
"""

import dataclasses
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

import msgspec

from xlbench.benchmarks import languages
from xlbench.data import conllu, labelled, readers
from xlbench.data.readers import Record
from xlbench.system import errors, files
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
    """The examples that one adaptation trains on.

    Attributes:
      task: one of TASKS.
      shots: K, examples of each label; for tagging the least number of words with each tag.
      lang: ISO code.
      index: 0 to 39.
      examples: records of text fields; none in an empty bucket. Classification: uid, text_a,
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


def find(path: str) -> list[str]:
    """Returns the files of buckets at a path, or anywhere below it, in the order of their places.

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
            examples = readers.good(conllu.read_tagged_lines(place, lines))
        else:
            content = files.parse_json(line, _Labelled, place)
            examples = _pairs(task, content.data, place)
        if content.bucket in buckets:
            raise UserError(f'{place}: bucket {content.bucket} is on an earlier line already')
        buckets[content.bucket] = Bucket(task, shots, lang, content.bucket, tuple(examples))
    return list(buckets.values())


def load(root: str, task: str, lang: str, shots: int) -> list[Bucket]:
    """Returns all buckets of a task, language and number of shots, in order.

    Args:
      root: the folder that holds TASK/K-shots.
      task: one of TASKS.
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


def encode(bucket: Bucket) -> tuple[str, bytes]:
    """Returns the path of a bucket below a root in the official form, and the bytes of its file."""
    if bucket.task in TAGGING:
        return f'{bucket.name}/train.tsv', conllu.write_tagged(bucket.examples).encode()
    text = json.dumps(_official(bucket), ensure_ascii=False)
    return f'{bucket.name}/sampled.json', text.encode()


def _official(bucket: Bucket) -> dict[str, list[dict[str, readers.Json]]]:
    records: dict[str, list[dict[str, readers.Json]]] = {
        label: [] for label in labelled.LABELS[bucket.task]
    }
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


def _pairs(task: str, data: Mapping[str, Sequence[_Example]], place: str) -> Iterator[Record]:
    """Yields the records of a bucket for classification; UserError if it is none."""
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


def _absolute(path: str) -> str:
    return os.path.abspath(path).replace(os.sep, '/')


def _place(path: str) -> tuple[str, int, str, int]:
    """Returns task, shots, name of the language, and index; -1 for a file with all buckets."""
    match = _PLACE.search(_absolute(path))
    if not match:
        raise UserError(
            f'{path} is not named like a file of buckets: TASK/K-shots/LANGUAGE/I-th/sampled.json, '
            'the same with train.tsv, or TASK/K-shots/LANGUAGE.jsonl'
        )
    return match['task'], int(match['shots']), match['lang'], int(match['index'] or -1)
