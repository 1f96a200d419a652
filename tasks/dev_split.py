r"""Splits multilingual dev sets into a small training set and test sets.

  python -m xlbench.data dev_split --root=data --task=xnli,pawsx --output=data/dev_split

XNLI's and PAWS-X's dev sets have the same pairs in every language and are small; their English
training sets are large. This program cuts the pairs into two parts; pairs with the same first
English text are in the same part. The English pairs of the first part, two thirds, become the
training set. The pairs of the other part become the test set of each language whose dev set is
there, so no test pair is a translation of a training pair. Pairs in a language's published few
shots, and pairs that nobody translated, are left out of its test set; the files of few shots are
copied. The folder is a data root like any other:

  python -m xlbench.fewshot --config=configs/fewshot.py:encoder,task=xnli,languages=de+es+sw+zh \
      --config.source.model.from=FOLDER --config.source.data.root=data/dev_split --workdir=RUNS/xnli

Scores on it can be compared with each other, but not with published ones. The same files give the
same cut.
"""

import os
import pathlib
import shutil
import sys
from collections.abc import Sequence

import numpy as np

from xlbench import pipeline
from xlbench.benchmarks import FEWSHOT
from xlbench.data import labelled, readers
from xlbench.data.readers import Record
from xlbench.system import command_line, errors, files as files_lib
from xlbench.system.command_line import ROOT, CommandLine, chosen_root, flag
from xlbench.tasks import fewshot

TASKS = ('xnli', 'pawsx')
FLAGS = (
    ROOT,
    flag('--task', f'with commas between: {", ".join(TASKS)}', required=True),
    flag('--output', 'the new data root, a folder of its own', required=True),
)
TRAIN_SHARE = 2 / 3  # Of the English first texts.
_UNTRANSLATED = 'NS'  # Both texts of such a pair of PAWS-X.


def split(task: str, output: str | pathlib.Path) -> list[str]:
    """Writes the sets of one of TASKS into another data root, and returns a line on each.

    UserError if there is no English dev set, or another one than few shots were drawn from.
    """
    errors.check_known('task with dev sets of the same pairs', task, TASKS)
    languages = FEWSHOT.task_languages[task]
    pairs = {lang: found for lang in languages if (found := _pairs(task, lang, 'validation'))}
    if FEWSHOT.pivot not in pairs:
        raise errors.UserError(
            f'{pipeline.root()} has no English dev set of {task}: the files that are looked for '
            'are listed at the top of tasks/fewshot.py'
        )
    english = pairs[FEWSHOT.pivot]
    trained = _trained_rows(english)
    folder = pathlib.Path(output) / 'fewshot' / task
    folder.mkdir(parents=True, exist_ok=True)
    train = [record for row, record in english.items() if row in trained]
    said = [_write(folder / f'train-{FEWSHOT.pivot}.tsv', train)]
    for lang, records in pairs.items():
        shots = _shot_rows(task, lang, records)
        test = [
            record
            for row, record in records.items()
            if row not in trained | shots and record['text_a'] != _UNTRANSLATED
        ]
        said.append(_write(folder / f'test-{lang}.tsv', test))
        for path in (path for shots in _shots(task) for path in _files(task, lang, shots)):
            place = pathlib.Path(output) / os.path.relpath(path, pipeline.root())
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, place)
    return said


def _shots(task: str) -> list[str]:
    return [f'shots_{number}' for number in FEWSHOT.shots(task)]


def _files(task: str, lang: str, split: str) -> list[str]:
    """The files of a split; none where it is not there."""
    number = fewshot.shots(split)
    if number and not os.path.exists(fewshot.bucket_place(task, lang, number)):
        return []
    names = (os.path.join(pipeline.root(), name) for name in fewshot.files(task, lang, split))
    return [path for name in names for path in readers.find(name)]


def _pairs(task: str, lang: str, split: str) -> dict[int, Record]:
    """{row: pair} of a split; UserError for a line that is none."""
    paths = _files(task, lang, split)
    records = readers.good(fewshot.read(task, lang, split, *paths)) if paths else ()
    return {labelled.Uid.parse(record['uid']).row(task): record for record in records}


def _trained_rows(english: dict[int, Record]) -> set[int]:
    """The rows of English pairs to train on."""
    texts = list(dict.fromkeys(record['text_a'] for record in english.values()))
    drawn = np.random.default_rng(0).permutation(len(texts))[: round(TRAIN_SHARE * len(texts))]
    chosen = {texts[i] for i in drawn}
    return {row for row, record in english.items() if record['text_a'] in chosen}


def _shot_rows(task: str, lang: str, pairs: dict[int, Record]) -> set[int]:
    """The rows of a language's few shots, of whatever K."""
    rows: set[int] = set()
    for shots in _shots(task):
        found = _pairs(task, lang, shots)
        if strange := [row for row in found if row not in pairs]:
            raise errors.UserError(
                f'the dev set of {task} in {lang} has no row {strange[0]}, which a bucket of '
                f'{fewshot.shots(shots)} shots has; take the file that the buckets were drawn from'
            )
        rows |= found.keys()
    return rows


def _write(path: pathlib.Path, pairs: Sequence[Record]) -> str:
    """Writes pairs in XTREME's form; gives a line on them."""
    lines = ('\t'.join((r['text_a'], r['text_b'], r['label'])) for r in pairs)
    files_lib.write(path, ''.join(f'{line}\n' for line in lines))
    return f'{path}: {len(pairs):,} pairs'


def main(argv: Sequence[str]) -> None:
    """The command line, the program's name first."""
    args = CommandLine('data dev_split', __doc__, FLAGS).parse(argv[1:])
    args.root = chosen_root(args.root)
    if os.path.realpath(args.output) == os.path.realpath(args.root):
        raise errors.UserError(
            f'--output={args.output} is the data root; give another folder, so that nobody takes '
            'these sets for the official ones'
        )
    pipeline.use_root(args.root)
    for task in args.task.split(','):
        print('\n'.join(split(task, args.output)), flush=True)


if __name__ == '__main__':
    command_line.former('tasks.dev_split', sys.argv[1:])
