r"""Downloads the data of few-shot transfer from TensorFlow Datasets.

    python -m xlbench.data xtreme --root=data --task=pawsx,panx         # downloads it to data/tfds

Nothing is downloaded in any other way. The records are those of xlbench/data/labelled.py and
xlbench/data/conllu.py; `pip install conllu` is needed to download parts of speech. By task:

  xnli   train       glue/mnli    the rows of MNLI's train.tsv
         the others  xnli         the texts before they were split into words, which is how
                                  arXiv:2012.15682 takes them; their rows are lost, so that no few
                                  shots can be taken out of this dev set
  pawsx              paws_x_wiki  the rows of the official files
  udpos              xtreme_pos   Universal Dependencies 2.5, all treebanks of a language, and also
                                  the words that nobody wrote (8.1 in CoNLL-U)
  panx               wikiann      the sentences of the official files

TFDS's own xtreme_xnli and xtreme_pawsx hold machine translations of the training sets alone, which
few-shot transfer does without. Its xtreme_pos finds a treebank by the end of its name, so that it
has Ancient Greek among the Greek, and likewise Old French, Old Russian, Classical Chinese and Swiss
German: el, fr, ru, zh and the test set of de are not taken from it.

TFDS stores examples in the order of a hash of their keys. Where the keys are the numbers of the
rows, examples get their rows back: `uid` of arXiv:2012.15682's few shots is a row of the dev set.
"""

import dataclasses
import importlib.resources.abc
import importlib.util
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from xlbench.benchmarks import FEWSHOT
from xlbench.data import conllu, labelled
from xlbench.data.readers import BadRecord, LeftOut, Record
from xlbench.system import command_line, errors, files as files_lib, flags as shared
from xlbench.system.command_line import CommandLine, flag

INFO = 'dataset_info.json'


@dataclasses.dataclass(frozen=True)
class Hosted:
    """Where TFDS has one split of a task.

    Attributes:
      name: dataset and configuration, with {lang} in it.
      version: of the dataset.
      split: its name there; '' if it is called as here.
      first: the key of the first row; None where keys are no numbers of rows.
      rows: how many rows there must be, so that none was dropped and the keys are without gaps;
        0 where no row is.
    """

    name: str
    version: str = '1.0.0'
    split: str = ''
    first: int | None = None
    rows: int = 0


_PAWSX = Hosted('paws_x_wiki/{lang}', first=1, rows=2_000)
_UDPOS = Hosted('xtreme_pos/xtreme_pos_{lang}', first=0)
# Task -> split, or '*' for all others.
HOSTED: dict[str, dict[str, Hosted]] = {
    'xnli': {'train': Hosted('glue/mnli', '2.0.0'), '*': Hosted('xnli', '1.1.0')},
    'pawsx': {'train': dataclasses.replace(_PAWSX, rows=49_401), '*': _PAWSX},
    'udpos': {'validation': dataclasses.replace(_UDPOS, split='dev'), '*': _UDPOS},
    'panx': {'*': Hosted('wikiann/{lang}', first=1)},
}
# xtreme_pos 1.0.0 calls Tamil "tl" and Tagalog "ta".
_CODES = {('udpos', 'ta'): 'tl'}
# With sentences of another language among them.
_MIXED = {('udpos', lang): ('train', 'validation', 'test') for lang in ('el', 'fr', 'ru', 'zh')}
_MIXED['udpos', 'de'] = ('test',)
_LABELS = {'different_meaning': '0', 'paraphrase': '1'}  # Of PAWS-X; the others are as here.
_UID_SPLITS = {'train': 'trn', 'validation': 'val', 'test': 'tst'}


def tensorflow_datasets() -> Any:
    """The package, imported late because it takes seconds."""
    # Version 4.9.10 imports importlib_resources, and asks for it below Python 3.9 alone.
    if importlib.util.find_spec('importlib_resources') is None:
        sys.modules['importlib_resources'] = importlib.resources
    return importlib.import_module('tensorflow_datasets')


def available(task: str, lang: str, split: str, data_dir: str) -> bool:
    """Returns whether a split lies below TFDS's data folder, in a form like the official one."""
    hosted = _hosted(task, lang, split)
    if hosted is None:
        return False
    splits = _splits(_folder(hosted, data_dir))
    # Tagalog has no train split, whatever it is called.
    return hosted.split in splits and (task != 'udpos' or 'train' in splits)


def files(task: str, lang: str, split: str, data_dir: str) -> list[str]:
    """The files of a split, or patterns of them; INFO is the first."""
    hosted = _known(task, lang, split)
    folder = _folder(hosted, data_dir)
    return [os.path.join(folder, name) for name in (INFO, f'*-{hosted.split}.*-of-*')]


def read(task: str, lang: str, split: str, data_dir: str) -> Iterator[Record | BadRecord | LeftOut]:
    """The records of a split, in the order of the official file where it is known.

    Raises:
      UserError: TFDS has no such split, or it does not lie below `data_dir`.
    """
    hosted = _known(task, lang, split)
    folder = _folder(hosted, data_dir)
    if not available(task, lang, split, data_dir):
        raise errors.UserError(
            f'{folder} has no split {hosted.split}; python -m xlbench.data xtreme --root=FOLDER '
            f'--task={task} --lang={lang} downloads it to FOLDER/tfds'
        )
    examples = _examples(hosted, folder)
    if task in labelled.LABELS:
        return _texts(task, lang, split, folder, examples)
    return _words(task, folder, examples)


def _known(task: str, lang: str, split: str) -> Hosted:
    if hosted := _hosted(task, lang, split):
        return hosted
    raise errors.UserError(
        f'TensorFlow Datasets has no {split} of {task} in {lang} that stands for the official one; '
        'what it has is listed at the top of tasks/xtreme.py'
    )


def _hosted(task: str, lang: str, split: str) -> Hosted | None:
    """Where TFDS has a split; None if it has none, or none without foreign sentences."""
    if task not in HOSTED or lang not in FEWSHOT.task_languages[task]:
        return None
    if split == 'train' and lang not in FEWSHOT.train_languages(task):
        return None
    if split not in _UID_SPLITS or split in _MIXED.get((task, lang), ()):
        return None
    found = HOSTED[task].get(split) or HOSTED[task]['*']
    name = found.name.format(lang=_CODES.get((task, lang), lang))
    return dataclasses.replace(found, name=name, split=found.split or split)


def _folder(hosted: Hosted, data_dir: str) -> str:
    return os.path.join(data_dir, hosted.name, hosted.version)


def _splits(folder: str) -> set[str]:
    """The splits of a dataset that lies in a folder; none if there is no such dataset."""
    path = os.path.join(folder, INFO)
    if not os.path.isfile(path):
        return set()
    return {split.name for split in files_lib.read_json(path, _Info).splits}


class _Split(msgspec.Struct):
    name: str


class _Info(msgspec.Struct):
    """Fields that are read of a dataset_info.json."""

    splits: list[_Split]


def _examples(hosted: Hosted, folder: str) -> Iterator[tuple[int | None, dict[str, Any]]]:
    """TFDS's examples with their rows, or with None, with names in place of numbers of labels."""
    tfds = tensorflow_datasets()
    builder = tfds.builder_from_directory(folder)
    # One file after another: the order in which it was written.
    config = tfds.ReadConfig(interleave_cycle_length=1, try_autocache=False)
    dataset = builder.as_dataset(split=hosted.split, read_config=config)
    features = builder.info.features
    examples = (_named(example, features) for example in dataset.as_numpy_iterator())
    count = builder.info.splits[hosted.split].num_examples
    if hosted.first is None or hosted.rows not in (0, count):
        yield from ((example.get('idx'), example) for example in examples)
        return
    hashing = importlib.import_module('tensorflow_datasets.core.hashing')
    hash_key = hashing.Hasher(hosted.split).hash_key
    keys = sorted(range(hosted.first, hosted.first + count), key=hash_key)
    found = dict(zip(keys, examples, strict=True))
    yield from ((key - hosted.first, found[key]) for key in sorted(found))


def _named(example: Mapping[str, Any], features: Mapping[str, Any]) -> dict[str, Any]:
    """An example with the names of its labels, one or a list."""
    named = dict(example)
    for name in example.keys() & {'label', 'tags', 'upos'}:
        feature = getattr(features[name], 'feature', features[name])
        numbers = example[name].tolist()
        if isinstance(numbers, list):
            named[name] = [feature.int2str(number) for number in numbers]
        else:
            named[name] = feature.int2str(numbers)
    return named


def _texts(
    task: str, lang: str, split: str, folder: str, examples: Iterator[tuple[int | None, dict]]
) -> Iterator[Record | BadRecord]:
    for number, (row, example) in enumerate(examples):
        text_a, text_b = _pair(example, lang)
        if not text_a.strip() or not text_b.strip():
            yield BadRecord(folder, number + 1, 'a text is empty')
            continue
        # A uid that no few shot has, where it is unknown which of the rows this is.
        uid = f'tfds/{split}/{number}'
        if row is not None:
            uid = str(labelled.Uid.of_row(task, lang, int(row), _UID_SPLITS[split]))
        label = _LABELS.get(example['label'], example['label'])
        yield {'uid': uid, 'text_a': text_a, 'text_b': text_b, 'label': label}


def _pair(example: Mapping[str, Any], lang: str) -> tuple[str, str]:
    """The two texts of an example in one language."""
    if 'sentence1' in example:  # PAWS-X.
        return example['sentence1'].decode(), example['sentence2'].decode()
    premise, hypothesis = example['premise'], example['hypothesis']
    if isinstance(premise, bytes):  # MNLI.
        return premise.decode(), hypothesis.decode()
    texts = dict(zip(hypothesis['language'], hypothesis['translation'], strict=True))
    return premise[lang].decode(), texts.get(lang.encode(), b'').decode()


def _words(
    task: str, folder: str, examples: Iterator[tuple[int | None, dict]]
) -> Iterator[Record | BadRecord | LeftOut]:
    for number, (_, example) in enumerate(examples, 1):
        words = [word.decode() for word in example['tokens']]
        if task == 'udpos':  # As conllu.read_conllu.
            words = [word.replace('\u200c', '') for word in words]
        pairs = zip(words, example['upos' if task == 'udpos' else 'tags'], strict=True)
        lines = [(number, f'{word}\t{tag}') for word, tag in pairs]
        if not lines:
            yield LeftOut('no word has a text, or none has a tag')
        yield from conllu.read_tagged_lines(folder, lines)


# ---------------------------------------------------------------------------------------------
# The command.


def download(tasks: Sequence[str], langs: Sequence[str], data_dir: str) -> None:
    """Downloads and prepares what `read` reads, and says what.

    Args:
      tasks: keys of HOSTED.
      langs: ISO codes; none: all that a task has. English is always among them, for training.
      data_dir: TFDS's data folder.
    """
    tfds = tensorflow_datasets()
    found: dict[str, Hosted] = {}
    for task in tasks:
        if task not in HOSTED:
            raise errors.unknown('task', task, HOSTED)
        for lang in dict.fromkeys([FEWSHOT.pivot, *(langs or FEWSHOT.task_languages[task])]):
            if lang not in FEWSHOT.task_languages[task]:
                raise errors.unknown(f'language of {task}', lang, FEWSHOT.task_languages[task])
            for split in _UID_SPLITS:
                if hosted := _hosted(task, lang, split):
                    found[hosted.name] = hosted
    for name, hosted in found.items():
        print(f'{name} -> {_folder(hosted, data_dir)}', flush=True)
        try:
            tfds.builder(f'{name}:{hosted.version}', data_dir=data_dir).download_and_prepare()
        except Exception as error:  # Of any kind: network, disk, a package that is missing.
            said = ' '.join(str(error).split())[:300]
            raise errors.UserError(
                f'{name} cannot be downloaded to {data_dir}: {type(error).__name__}: {said}'
            ) from error


FLAGS = (
    shared.ROOT,
    flag('--task', f'with commas between: {", ".join(HOSTED)}', required=True),
    flag('--lang', 'codes with commas between (default: all)', ''),
)


def main(argv: Sequence[str]) -> None:
    """The command line, the program's name first."""
    args = CommandLine('data xtreme', __doc__, FLAGS).parse(argv[1:])
    langs = args.lang.split(',') if args.lang else ()
    download(args.task.split(','), langs, os.path.join(shared.chosen_root(args.root), 'tfds'))


if __name__ == '__main__':
    command_line.former('tasks.xtreme', sys.argv[1:])
