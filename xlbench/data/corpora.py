"""The corpora that the benchmarks read: official address, licence, and the files below a data root.

There are three ways to get a corpus: single files of a fixed version, whose hashes are known
(files.csv); an archive; or by hand, where its owner wants an agreement or a form. Of some corpora,
single files are known, and an archive has the others.
"""

import csv
import dataclasses
import functools
import pathlib
from collections.abc import Sequence

from xlbench.benchmarks import (
    CROSSSUM,
    FEWSHOT,
    MASAKHANER2,
    MASAKHANEWS,
    SIB200,
    XDAILYDIALOG,
    XPERSONA,
    XQUAD,
    crosssum,
)
from xlbench.benchmarks.benchmark import Benchmark


@dataclasses.dataclass(frozen=True)
class File:
    """One published file.

    Attributes:
      path: where it belongs, below the data root.
      sha256: of its content.
      bytes: of its content.
      address: the version whose hash this is.
    """

    path: str
    sha256: str
    bytes: int
    address: str


@dataclasses.dataclass(frozen=True)
class Archive:
    """A published archive (.zip, .tgz) of files whose hashes we do not know.

    Attributes:
      address: of the archive.
      member: pattern of the members to unpack, matched against their whole names.
      path: where a member belongs, below the data root, with the groups of `member`.
      bytes: how much one member may hold.
    """

    address: str
    member: str
    path: str
    bytes: int = 8 << 30


@dataclasses.dataclass(frozen=True)
class Corpus:
    """Name, origin, licence and files of a corpus.

    Attributes:
      name: of it here.
      benchmark: the first word of the tasks that read it.
      title: what it is, in a few words.
      address: where its owners describe it.
      licence: as its owners state it.
      archives: what is unpacked, besides single files.
      by_hand: how a person gets it, where a machine may not.
      tasks: tasks and splits that `verify` reads, as xlbench.prepare names them.
    """

    name: str
    benchmark: str
    title: str
    address: str
    licence: str
    archives: Sequence[Archive] = ()
    by_hand: str = ''
    tasks: Sequence[str] = ()

    @functools.cached_property
    def files(self) -> list[File]:
        """The files of known content, in the order of files.csv."""
        return [file for name, file in _files() if name == self.name]

    @property
    def way(self) -> str:
        """The way to get it: 'files', 'archive' or 'by hand'."""
        return 'files' if self.files else 'archive' if self.archives else 'by hand'


@functools.cache
def _files() -> list[tuple[str, File]]:
    path = pathlib.Path(__file__).with_name('files.csv')
    with open(path, encoding='utf-8', newline='') as file:
        return [
            (row['corpus'], File(row['path'], row['sha256'], int(row['bytes']), row['address']))
            for row in csv.DictReader(file)
        ]


def _tasks(benchmark: Benchmark, task: str, splits: Sequence[str]) -> list[str]:
    """A task in each of its languages and each of these splits, as `Corpus.tasks` names them."""
    return [
        f'{benchmark.task_name(task, lang)}:{split}'
        for lang in benchmark.languages_of(task)
        for split in splits
    ]


_HELD_OUT = ('validation', 'test')
_SPLITS = ('train', *_HELD_OUT)
_TREEBANKS = ('en', 'de', 'zh', 'ta', 'mr', 'tr')

CORPORA = {
    corpus.name: corpus
    for corpus in (
        Corpus(
            'mtg',
            'mtg',
            'stories, questions and titles in en, de, fr, es',
            'https://github.com/zide05/MTG',
            'stated by its owners at that address',
            by_hand='follow the link to the archive, and lay its files out as the top of '
            'tasks/mtg.py says; XLBENCH_MTG_FILES names other file names',
            tasks=[
                f'mtg_{task}_{lang}_{lang}:{split}'
                for task in ('sg', 'qg', 'tg')
                for lang in ('en', 'de', 'fr', 'es')
                for split in ('rough_train', 'train', 'validation', 'test')
            ],
        ),
        Corpus(
            'clidsum',
            'clidsum',
            'English dialogues with summaries in en, de and zh',
            'https://github.com/krystalan/ClidSum',
            'stated by its owners at that address',
            by_hand='follow the link to the data, and put its folders XSAMSum and XMediaSum40k '
            'into the folder clidsum of the data root',
            tasks=[
                f'clidsum_{corpus}_en_{lang}:{split}'
                for corpus in ('xsamsum', 'xmediasum40k')
                for lang in ('en', 'de', 'zh')
                for split in ('train', 'validation', 'test')
            ],
        ),
        Corpus(
            'mediasum424k',
            'clidsum',
            'English interviews with summaries, for the semi-supervised setting of ClidSum',
            'https://github.com/zcgzcgzcg1/MediaSum',
            'stated by its owners at that address: for research alone',
            by_hand='follow the link to the data, and put news_dialogue.json and the '
            'train_val_test_split.40k.json of https://github.com/krystalan/ClidSum into the folder '
            'clidsum/MediaSum424k of the data root',
            tasks=['clidsum_mediasum424k_en_en:train'],
        ),
        Corpus(
            'convsumx',
            'convsumx',
            'English dialogues and meetings with summaries in en, zh, fr and uk',
            'https://github.com/cylnlp/convsumx',
            'none stated; built on DialogSum (CC BY-NC-SA 4.0) and QMSum (MIT)',
            tasks=[
                f'convsumx_{corpus}_en_{lang}:{split}'
                for corpus, splits in (
                    ('dialogsumx', ('train', 'validation', 'test')),
                    ('qmsumx', ('validation',)),
                )
                for lang in ('en', 'zh', 'fr', 'uk')
                for split in splits
            ],
        ),
        Corpus(
            'dialogsum',
            'dialogsum',
            'English dialogues with summaries and topics; the training file is to be had by hand',
            'https://github.com/cylnlp/dialogsum',
            'CC BY-NC-SA 4.0',
            tasks=[
                *(f'dialogsum_summary_en_en:{split}' for split in ('validation', 'test')),
                *(f'dialogsum_topic_en_en:{split}' for split in ('validation', 'test', 'hidden')),
            ],
        ),
        Corpus(
            'wmt20',
            'translation',
            'parallel texts of English with German and Chinese, and news to test translators',
            'https://www.statmt.org/wmt20/translation-task.html',
            'one for each corpus, stated at that address',
            by_hand='download the parallel corpora of that page; python -m xlbench.data clean '
            'makes translation/wmt20/en-de/train.tsv of them. The package sacrebleu has the test '
            'sets: sacrebleu --test-set=wmt20 --language-pair=en-de --echo src ref writes what '
            'belongs into test.tsv, and --test-set=wmt19 what belongs into validation.tsv',
            tasks=[
                f'translation_wmt20_en_{lang}:{split}'
                for lang in ('de', 'zh')
                for split in ('train', 'validation', 'test')
            ],
        ),
        Corpus(
            'mrs',
            'mrs',
            'messages and replies in ten languages',
            'https://github.com/zhangmozhi/mrs',
            'stated by its owners at that address; the texts are Reddit comments',
            archives=[
                Archive(
                    'https://obj.umiacs.umd.edu/mrs/mrs.tgz',
                    r'(?:.*/)?((?:train|valid|test|mt_train|gmr_valid|rsp_set|rsp_map)'
                    r'/[a-z]{2}/[^/]+)',
                    r'mrs/\1',
                    64 << 30,
                )
            ],
            tasks=[
                f'mrs_retrieval_{lang}_{lang}:{split}'
                for lang in ('en', 'es', 'de', 'pt', 'fr', 'ja', 'sv', 'it', 'nl', 'ru')
                for split in ('train', 'validation', 'test', 'responses')
            ],
        ),
        Corpus(
            'xnli',
            'fewshot',
            'entailment: 15 languages for validation and test, English (MNLI) for training',
            'https://github.com/facebookresearch/XNLI',
            'CC BY-NC 4.0; MNLI has several, stated in its paper',
            archives=[
                Archive(
                    'https://dl.fbaipublicfiles.com/XNLI/XNLI-1.0.zip',
                    r'XNLI-1\.0/(xnli\.(?:dev|test)\.tsv)',
                    r'fewshot/xnli/\1',
                ),
                Archive(
                    'https://dl.fbaipublicfiles.com/glue/data/MNLI.zip',
                    r'MNLI/(train\.tsv)',
                    r'fewshot/xnli/\1',
                ),
            ],
            tasks=['fewshot_xnli_en_en:train', *_tasks(FEWSHOT, 'xnli', _HELD_OUT)],
        ),
        Corpus(
            'pawsx',
            'fewshot',
            'paraphrases in seven languages',
            'https://github.com/google-research-datasets/paws/tree/master/pawsx',
            'free for any purpose, attribution appreciated',
            archives=[
                Archive(
                    'https://storage.googleapis.com/paws/pawsx/x-final.tar.gz',
                    r'(?:\./)?x-final/([a-z]{2}/(?:train|dev_2k|test_2k)\.tsv)',
                    r'fewshot/pawsx/\1',
                )
            ],
            tasks=['fewshot_pawsx_en_en:train', *_tasks(FEWSHOT, 'pawsx', _HELD_OUT)],
        ),
        Corpus(
            'mldoc',
            'fewshot',
            'news by topic in eight languages',
            'https://github.com/facebookresearch/MLDoc',
            "the texts are Reuters', under an agreement with NIST",
            by_hand='sign the agreement at https://trec.nist.gov/data/reuters/reuters.html, make '
            'the files with the scripts there, and put them into fewshot/mldoc',
            tasks=_tasks(FEWSHOT, 'mldoc', _SPLITS),
        ),
        Corpus(
            'marc',
            'fewshot',
            'reviews with one to five stars in six languages',
            'https://docs.opendata.aws/amazon-reviews-ml/readme.html',
            'research only',
            by_hand='take a copy that you obtained from its owner (see whether the page still '
            'offers it) and put {train,dev,test}/dataset_LANG_*.json into fewshot/marc',
            tasks=_tasks(FEWSHOT, 'marc', _SPLITS),
        ),
        Corpus(
            'udpos',
            'fewshot',
            'parts of speech in 29 languages (Universal Dependencies 2.5)',
            'https://github.com/google-research/xtreme',
            'one for each treebank, mostly CC BY-SA or CC BY-NC-SA',
            by_hand='python -m xlbench.data xtreme --task=udpos downloads the copy of TensorFlow '
            'Datasets; or run scripts/download_data.sh from there, keep the labels of the '
            'test files, and put {train,dev,test}-LANG.tsv into fewshot/udpos',
            tasks=_tasks(FEWSHOT, 'udpos', _SPLITS),
        ),
        Corpus(
            'panx',
            'fewshot',
            'names of persons, places and organisations in 40 languages (WikiANN)',
            'https://github.com/google-research/xtreme',
            'stated by its owners at that address',
            by_hand='python -m xlbench.data xtreme --task=panx downloads the copy of TensorFlow '
            'Datasets; or run scripts/download_data.sh from there, keep the labels of the '
            'test files, and put {train,dev,test}-LANG.tsv into fewshot/panx',
            tasks=_tasks(FEWSHOT, 'panx', _SPLITS),
        ),
        Corpus(
            'buckets',
            'fewshot',
            '40 buckets of K shots for each task and language',
            'https://github.com/fsxlt/buckets',
            'none is stated; each text has the licence of its corpus',
            archives=[
                Archive(
                    'https://github.com/fsxlt/buckets/archive/'
                    '80e5e81703bbe02e4ff9ab9c3abe3b7109e9e26d.zip',
                    r'buckets-[0-9a-f]{40}/([a-z]+/[0-9]-shots/[a-z]+/[0-9]+-th/'
                    r'(?:sampled\.json|train\.tsv))',
                    r'fewshot/buckets/\1',
                )
            ],
            tasks=['fewshot_udpos_de_de:shots_1', 'fewshot_xnli_de_de:shots_1'],
        ),
        Corpus(
            'xquad',
            'xquad',
            'passages, questions and answers in twelve languages',
            'https://github.com/google-deepmind/xquad',
            'CC BY-SA 4.0',
            archives=[
                Archive(
                    'https://github.com/google-deepmind/xquad/archive/'
                    '7d30520c717524000f0d9d2f9c10a069acd9d285.zip',
                    r'xquad-[0-9a-f]{40}/(xquad\.(?:ar|el|hi|ro|ru|th|tr|vi)\.json)',
                    r'xquad/\1',
                )
            ],
            tasks=_tasks(XQUAD, 'qg', _SPLITS),
        ),
        Corpus(
            'xdailydialog',
            'xdailydialog',
            'everyday dialogues in en, de, it, zh',
            'https://github.com/liuzeming01/XDailyDialog',
            'Apache-2.0 (repository), CC BY-NC-SA 4.0 (texts)',
            archives=[
                Archive(
                    'https://github.com/liuzeming01/XDailyDialog/archive/'
                    '6e7ecf54c9f169215b4b8c18995c7aac74117127.zip',
                    r'XDailyDialog-[0-9a-f]{40}/data/'
                    r'(dialogues_text_It\.txt|it_(?:dev|test)_human\.txt)',
                    r'xdailydialog/\1',
                )
            ],
            tasks=_tasks(XDAILYDIALOG, 'retrieval', _SPLITS),
        ),
        Corpus(
            'xpersona',
            'xpersona',
            'dialogues of invented persons in seven languages',
            'https://github.com/HLTCHKUST/Xpersona',
            'MIT (repository)',
            archives=[
                Archive(
                    'https://github.com/HLTCHKUST/Xpersona/archive/'
                    '1da049a1bbf3b01548f98cc23ba75ef871416e50.zip',
                    r'Xpersona-[0-9a-f]{40}/dataset/(En_persona_test\.json'
                    r'|(?:Id|Ko|Zh)_persona_split_(?:valid|test)_human_annotated\.json)',
                    r'xpersona/\1',
                )
            ],
            tasks=_tasks(XPERSONA, 'retrieval', _SPLITS),
        ),
        Corpus(
            'masakhanews',
            'masakhanews',
            'news articles and their headlines in sixteen languages',
            'https://github.com/masakhane-io/masakhane-news',
            'none is stated; the articles belong to their publishers',
            archives=[
                Archive(
                    'https://github.com/masakhane-io/masakhane-news/archive/'
                    '819be052e79e0a600e0ed4a7356594681cb5c4f3.zip',
                    r'masakhane-news-[0-9a-f]{40}/data/([a-z]{3}/(?:train|dev|test)\.tsv)',
                    r'masakhanews/\1',
                )
            ],
            tasks=_tasks(MASAKHANEWS, 'tg', _SPLITS),
        ),
        Corpus(
            'masakhaner2',
            'masakhaner2',
            'names of persons, places and organisations, and dates, in 20 African languages',
            'https://github.com/masakhane-io/masakhane-ner',
            'CC BY-NC 4.0',
            archives=[
                Archive(
                    'https://github.com/masakhane-io/masakhane-ner/archive/'
                    '204fbd64b1fbbbec5bf2ee04cf0d688b68d59279.zip',
                    r'masakhane-ner-[0-9a-f]{40}/MasakhaNER2\.0/data/([a-z]{3}/(?:train|dev|test)\.txt)',
                    r'masakhaner2/\1',
                )
            ],
            tasks=_tasks(MASAKHANER2, 'ner', _SPLITS),
        ),
        Corpus(
            'sib200',
            'sib200',
            'sentences of FLORES-200 with one of seven topics, in 71 languages',
            'https://github.com/dadelani/sib-200',
            'Apache-2.0, the texts CC BY-SA 4.0',
            archives=[
                Archive(
                    'https://github.com/dadelani/sib-200/archive/'
                    '593cea88519930f776c1a4a1980b6a35b39dca57.zip',
                    r'sib-200-[0-9a-f]{40}/data/annotated/'
                    r'([a-z]{3}_[A-Z][a-z]{3}/(?:train|dev|test)\.tsv)',
                    r'sib200/\1',
                )
            ],
            tasks=_tasks(SIB200, 'topic', _SPLITS),
        ),
        Corpus(
            'crosssum',
            'crosssum',
            'BBC articles with summaries in another language; those from and into English',
            'https://github.com/csebuetnlp/CrossSum',
            'CC BY-NC-SA 4.0',
            archives=[
                Archive(
                    'https://huggingface.co/datasets/csebuetnlp/CrossSum/resolve/main/data/'
                    f'{pair}_CrossSum.tar.bz2',
                    r'(?:\./)?([a-z_]+-[a-z_]+_(?:train|val|test)\.jsonl)',
                    r'crosssum/\1',
                )
                for pair in crosssum.file_pairs()
            ],
            tasks=[f'{name}:{split}' for name in CROSSSUM.task_names() for split in _SPLITS],
        ),
        Corpus(
            'ud',
            'fewshot',
            'the treebanks that configs/fewshot.py:ud reads',
            'https://universaldependencies.org',
            'one for each treebank: CC BY-SA 4.0, CC BY-NC-SA 3.0',
            tasks=[
                'fewshot_udpos_en_en:train',
                *(f'fewshot_udpos_{lang}_{lang}:test' for lang in _TREEBANKS),
            ],
        ),
    )
}
