r"""MasakhaNEWS titles (arXiv:2304.09972): a news article -> its headline, in 16 languages.

Reads below the data root the files of masakhane-io/masakhane-news, plain or packed (.gz):

  masakhanews/eng/{train,dev,test}.tsv      and so on, by ISO 639-3 codes: fra, amh, hau, ibo, lug,
                                            lin, orm, pcm, run, sna, som, swa, tir, xho, yor

a table with a header, TABs and quoted cells, whose articles have line breaks in them:

  category<TAB>headline<TAB>text<TAB>url
  sports<TAB>Team wins<TAB>"First line.
  Second line."<TAB>https://example.org/1      ->
  inputs '<en> First line. Second line.', targets 'Team wins'

Line breaks and repeated spaces become one space. Tasks are masakhanews_tg_en_en and _fr_fr; the
articles are not parallel. masakhanews_tgdev_en_en has splits of the dev files alone, which are
small and the only ones that some have: there every tenth article is for validation, every tenth
for test, the others for training.
"""

from collections.abc import Iterator

from xlbench import pipeline
from xlbench.benchmarks import MASAKHANEWS
from xlbench.benchmarks.languages import LANGUAGES
from xlbench.data import readers, rows

SPLITS = {'train': 'train', 'validation': 'dev', 'test': 'test'}  # As the files call them.
_KEYS = ('headline', 'text')


def split_of(article: int) -> str:
    """The split of an article of a dev file, by its 0-based position there."""
    return {8: 'validation', 9: 'test'}.get(article % 10, 'train')


def files(task: str, lang: str, target: str, split: str) -> list[str]:
    """The file of a split, below the data root."""
    part = 'dev' if task == 'tgdev' else SPLITS[split]
    return [f'masakhanews/{LANGUAGES[lang].alpha3}/{part}.tsv']


def read(task: str, source: str, target: str, split: str, path: str) -> Iterator[readers.Item]:
    """The articles of a split and their headlines."""
    for article, row in enumerate(rows.read(path, _KEYS, rows.Layout('tsv'))):
        if isinstance(row, readers.BadRecord):
            yield row
        elif task != 'tgdev' or split_of(article) == split:
            try:
                yield {key: ' '.join(rows.text(row.values[key], key).split()) for key in _KEYS}
            except ValueError as error:
                yield readers.BadRecord(path, row.number, str(error))


pipeline.add_text_tasks(
    MASAKHANEWS,
    read,
    files,
    tuple(SPLITS),
    _KEYS,
    hint='python -m xlbench.data list masakhanews says how to get it',
    inputs='{text}',
    targets='{headline}',
)
