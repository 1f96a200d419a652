"""The first step: English originals -> those that people correct, and those that stay rough.

Originals are the files that MTG is made of:

  sg   ROCStories' CSV, columns sentence1 to sentence5      ('the first four', 'the fifth')
  qg   SQuAD 1.1's JSON                                     ('passage', 'answer', 'question')
  tg   JSON lines of articles, as ByteCup has them          ('article', 'title')
  summ documents and summaries, in version 2 alone          ('text', 'summary')

or rows of JSONL, JSON, CSV, TSV or Parquet whose keys are the names of the fields. White space of a
text, line ends and all, becomes single spaces.

  WORK/read/rough/000000.jsonl.gz     ["passage", "answer", "question"], some hundred a file
  WORK/read/sample/000000.jsonl.gz    likewise, in the order in which splits are filled
  WORK/read/counts.json

Examples with the same passage (or story, or article) are one group, and stay together: no passage
of the sample is in the rough data, and none is in two of train, validation and test. The order of
groups, and of the examples of one, comes from a hash of the seed and the texts alone.
"""

import collections
import gzip
import hashlib
import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import msgspec

from xlbench.data import readers, rows
from xlbench.data.readers import BadRecord
from xlbench.data.rows import Layout
from xlbench.system import files, locks
from xlbench.system.errors import UserError
from xlbench.system.progress import Progress
from xlbench.tasks.building.builds import Options

_EXAMPLES = 512  # Of a file, which is a job of translation; a kill costs a worker that much.

Example = tuple[str, ...]  # A text of each field, in order.
T = TypeVar('T')


def _story(sentences: Sequence[str]) -> Example:
    return ' '.join(sentences[:-1]), sentences[-1]


# Task -> columns of known files -> what makes an example of their texts. The first columns have the
# names of the task's fields, the target last.
KINDS: dict[str, dict[tuple[str, ...], Callable[[Sequence[str]], Example]]] = {
    'sg': {('story', 'ending'): tuple, tuple(f'sentence{n}' for n in range(1, 6)): _story},
    'qg': {('passage', 'answer', 'question'): tuple},
    'tg': {('article', 'title'): tuple, ('content', 'title'): tuple},
    'summ': {('text', 'summary'): tuple},
}


def fields(task: str) -> tuple[str, ...]:
    """The names of an example's fields, the target last."""
    return next(iter(KINDS[task]))


def _examples(
    options: Options, paths: Sequence[str], counts: collections.Counter[str]
) -> Iterator[Example]:
    """Reads the examples of files, each once, and counts those `read`, `repeated` and `bad`.

    UserError if a file is broken, or too many examples are bad.
    """
    seen: set[bytes] = set()
    first: BadRecord | None = None
    for item in itertools.chain.from_iterable(_items(options.task, path) for path in paths):
        if isinstance(item, BadRecord):
            if not options.max_bad:
                raise UserError(str(item))
            first = first or item
            counts['bad'] += 1
        elif (key := digest(*item)) in seen:
            counts['repeated'] += 1
        else:
            seen.add(key)
            counts['read'] += 1
            yield item
    every = counts['read'] + counts['bad']
    if first and counts['bad'] > options.max_bad * every:
        raise UserError(
            f'{first}; and {counts["bad"] - 1:,} more of {every:,} examples are bad, which is more '
            'than --max_bad allows'
        )


def _items(task: str, path: str) -> Iterator[Example | BadRecord]:
    unpacked = path.removesuffix('.gz')
    if task == 'qg' and unpacked.endswith('.json'):
        for record in readers.read_squad(path):
            if isinstance(record, BadRecord):
                yield record
            else:
                yield _clean([record['context'], record['answer'], record['question']])
        return
    layout = Layout('jsonl') if unpacked.endswith('.txt') else Layout()
    layouts = KINDS[task].items()
    known = ((columns, make) for columns, make in layouts if _has(path, columns, layout))
    columns, make = next(known, next(iter(layouts)))  # Whose complaint names the fields.

    def example(_: int, values: rows.Values) -> Iterator[Example]:
        texts = _clean([rows.text(values[key], key) for key in columns])
        if empty := [k for k, text in zip(columns, texts, strict=True) if not text]:
            raise ValueError(f'{empty[0]} is empty')
        yield make(texts)

    yield from readers.convert(path, rows.read(path, columns, layout), example)


def _has(path: str, columns: Sequence[str], layout: Layout) -> bool:
    """True if a file's first row has these columns."""
    try:
        return not isinstance(next(rows.read(path, columns, layout), None), BadRecord)
    except UserError:  # Of a table without them.
        return False


def _clean(texts: Sequence[str]) -> Example:
    return tuple(' '.join(text.split()) for text in texts)


def digest(*texts: str) -> bytes:
    """A hash of texts, the same on every machine."""
    return hashlib.blake2b('\0'.join(texts).encode(), digest_size=16).digest()


class Counts(msgspec.Struct):
    """Numbers of originals."""

    read: int  # Examples of all files, each counted once.
    repeated: int  # Those that were there before.
    bad: int  # Those that could not be read.
    rough: int  # Those that are filtered.
    sample: int  # Those that people correct.
    # Left out, because their passage is in the sample, or was when a split of it was full.
    with_sample: int
    files: dict[str, int]  # Of each part.


def fill(groups: Iterable[Sequence[T]], sizes: Sequence[int]) -> list[list[T]]:
    """Fills splits of some sizes, one after another, with groups of which none may be in two.

    The rest of a group is left out. The last splits are short if there are too few examples.

    Example: ['ab', 'cde', 'f'], [3, 1] -> [['a', 'b', 'c'], ['f']]
    """
    remaining = iter(groups)
    splits: list[list[T]] = []
    for size in sizes:
        split: list[T] = []
        while len(split) < size and (group := next(remaining, None)) is not None:
            split += group[: size - len(split)]
        splits.append(split)
    return splits


def sample(examples: Iterable[Example], sizes: Sequence[int], seed: int) -> list[bytes]:
    """The digests of a sample of some examples, in its order, for splits of these sizes."""
    groups: dict[bytes, list[bytes]] = collections.defaultdict(list)
    for example in examples:
        groups[digest(f'{seed}', example[0])].append(digest(f'{seed}', *example))
    ordered = (sorted(groups[key]) for key in sorted(groups))
    return [name for split in fill(ordered, sizes) for name in split]


def read(options: Options) -> Counts:
    """Does the first step, if it is not done; UserError if a file is broken or too small."""
    folder = os.path.join(options.work, 'read')
    if not os.path.exists(folder):
        with locks.atomic_folder(folder) as new:
            counts = _read(options, str(new))
            files.write(new / 'counts.json', msgspec.json.encode(counts))
    return files.read_json(os.path.join(folder, 'counts.json'), Counts)


def path(folder: str, part: str, number: int) -> str:
    """The file of some examples, in the folder of a step."""
    return os.path.join(folder, part, f'{number:06d}.jsonl.gz')


def write_lines(path: str, lines: Iterable[object]) -> None:
    """Writes a packed file of JSON lines."""
    # No name and no time: the same bytes for the same lines.
    with files.replacing(path) as file, gzip.GzipFile('', 'wb', 6, file, mtime=0) as packed:
        packed.writelines(msgspec.json.encode(line) + b'\n' for line in lines)


def read_lines(path: str, kind: type[T]) -> Iterator[T]:
    """The lines of such a file, decoded."""
    with gzip.open(path) as packed:
        for line in packed:
            yield msgspec.json.decode(line, type=kind)


def _read(options: Options, folder: str) -> Counts:
    counts: collections.Counter[str] = collections.Counter()
    sizes = (*options.sizes, options.spare)
    with Progress(f'read {options.task}', unit='examples') as progress:

        def counted(examples: Iterable[Example]) -> Iterator[Example]:
            for example in examples:
                progress.add()
                yield example

        def held_out() -> Iterator[Example]:
            return _examples(options, options.held_out or options.originals, collections.Counter())

        order = sample(counted(held_out()), sizes, options.sample_seed) if sum(sizes) else []
        if len(order) < sum(sizes):
            raise UserError(
                f'{options.task}: {len(order):,} originals for a sample of {sum(sizes):,}; name '
                'more files, or smaller --sizes'
            )
        places = {name: place for place, name in enumerate(order)}
        chosen: dict[int, Example] = {}
        passages = set()
        for example in held_out() if order else ():
            place = places.get(digest(f'{options.sample_seed}', *example))
            if place is not None:
                chosen[place] = example
                passages.add(digest(example[0]))
        originals = counted(_examples(options, options.originals, counts))
        others = (one for one in originals if digest(one[0]) not in passages)
        rough, num_rough_files = _write_files(folder, 'rough', others)
    if not counts['read']:
        raise UserError(f'{", ".join(options.originals)}: no examples; is it empty?')
    in_order = (chosen[place] for place in sorted(chosen))
    _, num_files = _write_files(folder, 'sample', in_order)
    in_both = 0 if options.held_out else len(chosen)
    return Counts(
        read=counts['read'],
        repeated=counts['repeated'],
        bad=counts['bad'],
        rough=rough,
        sample=len(chosen),
        with_sample=counts['read'] - rough - in_both,
        files={'rough': num_rough_files, 'sample': num_files},
    )


def _write_files(folder: str, part: str, examples: Iterator[Example]) -> tuple[int, int]:
    """Writes examples into files of one size; returns the numbers of both."""
    os.mkdir(os.path.join(folder, part))
    count = number = 0
    while some := list(itertools.islice(examples, _EXAMPLES)):
        write_lines(path(folder, part, number), some)
        count, number = count + len(some), number + 1
    return count, number
