r"""Downloads tagged sentences of few-shot transfer from TensorFlow Datasets.

    python -m xlbench.data xtreme --root=data --task=udpos,panx         # downloads it to data/tfds

Nothing is downloaded in any other way; xnli and pawsx come by `python -m xlbench.data get`. The
records are those of xlbench/data/conllu.py; `pip install conllu` is needed to download parts of
speech. By task:

  udpos   xtreme_pos   Universal Dependencies 2.5, all treebanks of a language, and also the words
                       that nobody wrote (8.1 in CoNLL-U)
  panx    wikiann      the sentences of the official files

TFDS's xtreme_pos finds a treebank by the end of its name, so that it has Ancient Greek among the
Greek, and likewise Old French, Old Russian, Classical Chinese and Swiss German: el, fr, ru, zh and
the test set of de are not taken from it.

TFDS stores examples in the order of a hash of their keys. These are the numbers of the sentences,
by which they get the order of the official files back.
"""

import importlib.resources.abc
import importlib.util
import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from xlbench.benchmarks import FEWSHOT
from xlbench.data import conllu
from xlbench.data.readers import BadRecord, LeftOut, Record
from xlbench.system import command_line, errors, files as files_lib
from xlbench.system.command_line import ROOT, CommandLine, chosen_root, flag

INFO = 'dataset_info.json'
_VERSION = '1.0.0'  # Of both data sets.
_Info = dict[str, Any]  # What is read of INFO is its `splits`, each with a name.


class Hosted(NamedTuple):
    """The place of one split of a task in TFDS."""

    name: str  # Dataset and configuration.
    split: str
    first: int  # The key of the first sentence.


# Task -> dataset and configuration, and the key of the first sentence.
HOSTED = {'udpos': ('xtreme_pos/xtreme_pos_{lang}', 0), 'panx': ('wikiann/{lang}', 1)}
# xtreme_pos 1.0.0 calls Tamil "tl" and Tagalog "ta".
_CODES = {('udpos', 'ta'): 'tl'}
_SPLITS = ('train', 'validation', 'test')
# With sentences of another language among them.
_MIXED = {('udpos', lang): _SPLITS for lang in ('el', 'fr', 'ru', 'zh')}
_MIXED['udpos', 'de'] = ('test',)


def tensorflow_datasets() -> Any:
    """The package, imported late because it takes seconds."""
    # Version 4.9.10 imports importlib_resources, and asks for it below Python 3.9 alone.
    if importlib.util.find_spec('importlib_resources') is None:
        sys.modules['importlib_resources'] = importlib.resources
    return importlib.import_module('tensorflow_datasets')


def files(task: str, lang: str, split: str, data_dir: str) -> list[str]:
    """The files of a split below TFDS's data folder, or patterns of them; INFO is the first.

    There are none if the split is not there in a form like the official one.
    """
    hosted = _hosted(task, lang, split)
    folder = os.path.join(data_dir, hosted.name, _VERSION) if hosted else ''
    info = os.path.join(folder, INFO)
    if not hosted or not os.path.isfile(info):
        return []
    splits = {split['name'] for split in files_lib.read_json(info, _Info)['splits']}
    # Tagalog has no train split, whatever it is called.
    if hosted.split not in splits or (task == 'udpos' and 'train' not in splits):
        return []
    return [info, os.path.join(folder, f'*-{hosted.split}.*-of-*')]


def read(task: str, lang: str, split: str, info: str) -> Iterator[Record | BadRecord | LeftOut]:
    """The records of a split that `files` has found, in the order of the official file."""
    hosted = _hosted(task, lang, split)
    tfds, folder = tensorflow_datasets(), os.path.dirname(info)
    builder = tfds.builder_from_directory(folder)
    # One file after another: the order in which it was written.
    config = tfds.ReadConfig(interleave_cycle_length=1, try_autocache=False)
    dataset = builder.as_dataset(split=hosted.split, read_config=config)
    count = builder.info.splits[hosted.split].num_examples
    hash_key = importlib.import_module('tensorflow_datasets.core.hashing').Hasher(hosted.split)
    keys = sorted(range(hosted.first, hosted.first + count), key=hash_key.hash_key)
    found = dict(zip(keys, dataset.as_numpy_iterator(), strict=True))
    field = 'upos' if task == 'udpos' else 'tags'
    tag_of = builder.info.features[field].feature.int2str
    for number, key in enumerate(sorted(found), 1):
        words = [word.decode() for word in found[key]['tokens']]
        if task == 'udpos':  # As conllu.read_conllu.
            words = [word.replace('\u200c', '') for word in words]
        pairs = zip(words, map(tag_of, found[key][field].tolist()), strict=True)
        lines = [(number, f'{word}\t{tag}') for word, tag in pairs]
        if not lines:
            yield LeftOut('no word has a text, or none has a tag')
        yield from conllu.read_tagged(folder, lines)


def _hosted(task: str, lang: str, split: str) -> Hosted | None:
    """The place of a split in TFDS; None if it has none, or none without foreign sentences."""
    if task not in HOSTED or lang not in FEWSHOT.task_languages[task]:
        return None
    if split == 'train' and lang not in FEWSHOT.train_languages(task):
        return None
    if split not in _SPLITS or split in _MIXED.get((task, lang), ()):
        return None
    name, first = HOSTED[task]
    there = 'dev' if (task, split) == ('udpos', 'validation') else split
    return Hosted(name.format(lang=_CODES.get((task, lang), lang)), there, first)


# ---------------------------------------------------------------------------------------------
# The command.


def download(tasks: Sequence[str], langs: Sequence[str], data_dir: str) -> None:
    """Downloads and prepares what `read` reads, and says what.

    Without languages, all that a task has. English is always among them, for training.
    """
    tfds = tensorflow_datasets()
    names: dict[str, None] = {}
    for task in tasks:
        errors.check_known('task', task, HOSTED)
        for lang in dict.fromkeys([FEWSHOT.pivot, *(langs or FEWSHOT.task_languages[task])]):
            errors.check_known(f'language of {task}', lang, FEWSHOT.task_languages[task])
            for split in _SPLITS:
                if hosted := _hosted(task, lang, split):
                    names[hosted.name] = None
    for name in names:
        print(f'{name} -> {os.path.join(data_dir, name, _VERSION)}', flush=True)
        try:
            tfds.builder(f'{name}:{_VERSION}', data_dir=data_dir).download_and_prepare()
        except Exception as error:  # Of any kind: network, disk, a package that is missing.
            said = ' '.join(str(error).split())[:300]
            raise errors.UserError(
                f'{name} cannot be downloaded to {data_dir}: {type(error).__name__}: {said}'
            ) from error


FLAGS = (
    ROOT,
    flag('--task', f'with commas between: {", ".join(HOSTED)}', required=True),
    flag('--lang', 'codes with commas between (default: all)', ''),
)


def main(argv: Sequence[str]) -> None:
    """The command line, the program's name first."""
    args = CommandLine('data xtreme', __doc__, FLAGS).parse(argv[1:])
    langs = args.lang.split(',') if args.lang else ()
    download(args.task.split(','), langs, os.path.join(chosen_root(args.root), 'tfds'))


if __name__ == '__main__':
    command_line.former('tasks.xtreme', sys.argv[1:])
