r"""The official files of the four benchmarks as data sets of TensorFlow Datasets.

  import tensorflow_datasets as tfds
  from xlbench.tasks import tfds_builders  # Registers them.

  data = tfds.load('xlbench_mtg/qg_en_de', data_dir='TFDS', **tfds_builders.reading('DATA'))

'DATA' is a data root, with files as `python -m xlbench.data list` says; 'TFDS' is where TFDS keeps
what it prepares. Nothing is downloaded, because the owner of a corpus decides how to get it; if a
file is missing, the error says where to look. The names of configs are those of our tasks, without
the benchmark and without a second language that is the first one:

  xlbench_mtg/qg_en_de         passage, answer, target                   task mtg_qg_en_de
  xlbench_mrs/de               message, reply, and what REPLY_FIELDS has  mrs_retrieval_de_de
  xlbench_clidsum/xsamsum_en_de       id, dialogue, summary              clidsum_xsamsum_en_de
  xlbench_fewshot/xnli_de      uid, text_a, text_b, label, bucket        fewshot_xnli_de_de
  xlbench_fewshot/udpos_de     words and tags, of the same length, bucket

Examples are those that the tasks read, in the same order, before a vocabulary is chosen. Splits are
those whose files are there. TFDS keeps what it has prepared: where the files have changed since,
remove its folder.
"""

import os
import sys
from collections.abc import Iterator, Mapping
from typing import ClassVar

from xlbench import pipeline
from xlbench.benchmarks import CLIDSUM, FEWSHOT, MRS, MTG
from xlbench.data import conllu
from xlbench.data.corpora import CORPORA
from xlbench.system import errors
from xlbench.tasks import xtreme

tfds = xtreme.tensorflow_datasets()
_VERSION = '1.0.0'
_CORPORA_OF_CLIDSUM = ('xsamsum', 'xmediasum40k', 'mediasum424k')
_OFFICIAL = {'inputs': 'dialogue', 'targets': 'summary'}  # Names of ClidSum's files.
_TAGGED = ('words', 'tags')

Example = Mapping[str, str | list[str]]


def reading(root: str) -> dict[str, dict[str, object]]:
    """The arguments of tfds.load that say where the official files are.

    Args:
      root: the data root.
    """
    config = tfds.download.DownloadConfig(manual_dir=os.path.abspath(os.path.expanduser(root)))
    return {'download_and_prepare_kwargs': {'download_config': config}}


class _Config(tfds.core.BuilderConfig):
    """One task in one language or pair of languages.

    Args:
      name: of the config.
      task: the SeqIO task that reads the files.
    """

    def __init__(self, name: str, task: str):
        super().__init__(name=name, description=f'As the task {task}.')
        self.task = task


class _Official(tfds.core.GeneratorBasedBuilder, skip_registration=True):
    """The files of one benchmark, as the source of a SeqIO task reads them."""

    VERSION = tfds.core.Version(_VERSION)
    RELEASE_NOTES: ClassVar[dict[str, str]] = {_VERSION: 'The fields of the official files.'}
    _TITLE, _CORPUS = '', ''

    def _info(self) -> tfds.core.DatasetInfo:
        kinds = {name: tfds.features.Text() for name in self._names().values()}
        if _is_tagged(kinds):
            kinds |= {name: tfds.features.Sequence(tfds.features.Text()) for name in _TAGGED}
        return tfds.core.DatasetInfo(
            builder=self,
            description=self._TITLE,
            features=tfds.features.FeaturesDict(kinds),
            homepage=CORPORA[self._CORPUS].address,
            disable_shuffling=True,  # In the order of the files.
        )

    def _names(self) -> dict[str, str]:
        """Name of a field in our tasks -> its name in the data set."""
        fields = pipeline.get(self.builder_config.task).source.fields
        return {name: _OFFICIAL.get(name, name) for name in fields}

    def _split_generators(
        self, dl_manager: tfds.download.DownloadManager
    ) -> dict[str, Iterator[tuple[int, Example]]]:
        source = pipeline.get(self.builder_config.task).source
        root = str(dl_manager.manual_dir)
        splits, missing = {}, []
        with pipeline.bound(None, root):
            for split in source.splits:
                try:
                    splits[split] = source.paths(split)
                except errors.UserError as error:
                    missing.append((split, error))
        if not splits:
            raise missing[0][1]
        for split, _ in missing:
            print(f'{self.name}/{self.builder_config.name}: no files of {split}', file=sys.stderr)
        return {name: self._generate_examples(name, paths) for name, paths in splits.items()}

    def _generate_examples(self, split: str, paths: list[str]) -> Iterator[tuple[int, Example]]:
        names = self._names()
        number = 0
        for chunk in pipeline.get(self.builder_config.task).source.chunks(split, paths):
            for values in zip(*chunk.values(), strict=True):
                record = dict(zip(chunk, values, strict=True))
                example: dict[str, str | list[str]] = {names[key]: record[key] for key in record}
                if _is_tagged(record):
                    pairs = zip(*conllu.words_of(record), strict=True)
                    example |= {key: list(side) for key, side in zip(_TAGGED, pairs, strict=True)}
                yield number, example
                number += 1


def _is_tagged(names: Mapping[str, object]) -> bool:
    return all(name in names for name in _TAGGED)


class XlbenchMtg(_Official):
    """MTG (arXiv:2108.07140)."""

    _TITLE, _CORPUS = MTG.title, 'mtg'
    MANUAL_DOWNLOAD_INSTRUCTIONS = CORPORA['mtg'].by_hand
    BUILDER_CONFIGS: ClassVar[list[_Config]] = [
        _Config(f'{task}_{source}_{target}', MTG.task_name(task, source, target))
        for task in MTG.tasks
        for source in MTG.languages
        for target in MTG.languages
    ]


class XlbenchMrs(_Official):
    """MRS (arXiv:2106.02017)."""

    _TITLE, _CORPUS = MRS.title, 'mrs'
    MANUAL_DOWNLOAD_INSTRUCTIONS = 'python -m xlbench.data list mrs'
    BUILDER_CONFIGS: ClassVar[list[_Config]] = [
        _Config(lang, f'mrs_retrieval_{lang}_{lang}') for lang in MRS.languages
    ]


class XlbenchClidsum(_Official):
    """ClidSum (arXiv:2202.05599)."""

    _TITLE, _CORPUS = CLIDSUM.title, 'clidsum'
    MANUAL_DOWNLOAD_INSTRUCTIONS = CORPORA['clidsum'].by_hand
    BUILDER_CONFIGS: ClassVar[list[_Config]] = [
        _Config(f'{corpus}_{source}_{target}', CLIDSUM.task_name(corpus, source, target))
        for corpus in _CORPORA_OF_CLIDSUM
        for source, target in CLIDSUM.pairs[corpus]
    ]


class XlbenchFewshot(_Official):
    """Few-shot transfer (arXiv:2012.15682)."""

    _TITLE, _CORPUS = FEWSHOT.title, 'xnli'
    MANUAL_DOWNLOAD_INSTRUCTIONS = 'python -m xlbench.data list'
    BUILDER_CONFIGS: ClassVar[list[_Config]] = [
        _Config(f'{task}_{lang}', FEWSHOT.task_name(task, lang))
        for task in FEWSHOT.tasks
        for lang in FEWSHOT.task_languages[task]
    ]
