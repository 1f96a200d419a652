r"""Samples few-shot buckets: 40 for each task, K and language.

  python -m xlbench.data buckets sample --task=udpos --lang=de --shots=1,2,4 --output=DATA/buckets \
      train-de.tsv

It writes buckets in the official form:

  TASK/K-shots/LANGUAGE/I-th/sampled.json   xnli pawsx mldoc marc: label -> list of K examples
  TASK/K-shots/LANGUAGE/I-th/train.tsv      panx udpos: word TAB tag, blank line between sentences

The files are what the shots are drawn from: the dev files of xnli and pawsx, else train files (see
labelled.py and conllu.py; .conllu and .iob2 are read as such). The same files, options and seed
give the same buckets. Classification takes K examples of each label, and no example into two
buckets. Tagging takes sentences until each tag is on K words, and then leaves out what is not
needed (appendix C, Minimum-Including); different buckets may share sentences. If a label is too
rare, this is reported, and all its examples are taken.

Your own tasks need no such files: pipeline.Shots draws their buckets from their training data by
the same rules, and configs/fewshot_any.py is a sweep over them.
"""

import argparse
import os
from collections.abc import Sequence

from xlbench.benchmarks import languages
from xlbench.data import readers
from xlbench.data.buckets.bucket_files import COUNT, TAGGING, TASKS, Bucket, encode
from xlbench.data.buckets.rules import read_examples, sample, shortages
from xlbench.system import files, locks
from xlbench.system.command_line import CommandLine, flag
from xlbench.system.errors import UserError
from xlbench.system.flags import whole


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
    all_shots = flags.shots or ((1, 2, 4) if flags.task in TAGGING else (1, 2, 4, 8))
    made = {
        shots: sample(flags.task, lang, examples, shots, flags.count, flags.seed)
        for shots in all_shots
    }
    folders = {
        shots: os.path.join(flags.output, os.path.dirname(buckets[0].name))
        for shots, buckets in made.items()
    }
    # A command that was killed may have written some of them.
    there = [shots for shots, folder in folders.items() if os.path.exists(folder)]
    for shots in there:
        if not _holds(folders[shots], made[shots]):
            raise UserError(
                f'{folders[shots]} is there already; remove it, or choose another --output'
            )
    for shots, buckets in made.items():
        if shots not in there:
            with locks.atomic_folder(folders[shots]) as folder:
                for path, content in map(encode, buckets):
                    place = folder / os.path.relpath(path, os.path.dirname(buckets[0].name))
                    place.parent.mkdir()
                    files.write(place, content)
        for line in shortages(flags.task, examples, shots, flags.count):
            print(f'{shots}-shot: {line}')
        sizes = sorted(len(bucket.examples) for bucket in buckets)
        print(
            f'{folders[shots]}: {len(buckets)} buckets of {sizes[0]} to {sizes[-1]} examples, '
            f'from {len(examples)}'
        )
    return 0


def _holds(folder: str, buckets: Sequence[Bucket]) -> bool:
    """Says whether a folder has these buckets of one K and language, and nothing else."""
    contents = dict(map(encode, buckets))
    root = folder.removesuffix(os.path.dirname(buckets[0].name))
    paths = {path.relative_to(root).as_posix(): path for path in files.below(folder)}
    return paths.keys() == contents.keys() and all(
        path.read_bytes() == contents[place] for place, path in paths.items()
    )


_FLAGS = (
    flag('files', 'examples to draw from, in the official form', nargs='+', metavar='FILE'),
    flag('--task', 'whose examples they are', required=True, choices=TASKS),
    flag('--lang', 'code of the language, such as de', required=True),
    flag('--output', 'folder for TASK/K-shots/LANGUAGE', required=True),
    flag('--shots', 'K; default: 1,2,4,8, for tagging 1,2,4, as in the paper', type=_shots),
    flag('--count', 'buckets of each', COUNT, type=whole(1)),
    flag('--seed', 'seed of the draws', 0),
    flag('--skip_bad', 'skip up to N records that cannot be used', 0),
)
COMMAND = CommandLine(
    'data buckets',
    __doc__,
    commands={'sample': ('Makes new buckets.', _FLAGS, _sample)},
)
main = COMMAND.main
