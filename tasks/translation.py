"""Translation of English texts into German and Chinese, and back.

wmt20: what ClidSum's translator Trans-WMT is trained and tested on (arXiv:2202.05599, A.2). Reads
below the data root, plain or packed (.gz), a pair on each line with a TAB between, English first:

  translation/wmt20/en-de/{train,validation,test}.tsv       Good morning.<TAB>Guten Morgen.

`python -m xlbench.data list wmt20` says how they are made.

xdailydialog: the utterances of XDailyDialog (liuzeming01/XDailyDialog), from the files that
tasks/xdailydialog.py reads. Training has the dialogues of 1k_part_data and those of the dev files
but the last hundred, which are the validation. Validation and test leave out utterances that
training has on the source side, case and punctuation aside.

Tasks are translation_<corpus>_en_de, and so on; translation_wmt20_en_de:

  inputs 'Good morning.', targets 'Guten Morgen.'                  '<de> ' stands before inputs
"""

import functools
from collections.abc import Iterator

from xlbench import pipeline
from xlbench.benchmarks import TRANSLATION
from xlbench.data import readers

SPLITS = ('train', 'validation', 'test')
HELD_OUT = 895  # Of the dev files' 995 dialogues, the first one of validation.


def news_files(source: str, target: str, split: str) -> list[str]:
    """The file of a split of WMT's, below the data root."""
    other = target if source == TRANSLATION.pivot else source
    return [f'translation/wmt20/{TRANSLATION.pivot}-{other}/{split}.tsv']


def read_news(source: str, _: str, path: str) -> Iterator[readers.Item]:
    """The pairs of a split of WMT's."""
    columns = ('inputs', 'targets')
    return readers.read_tsv(path, columns if source == TRANSLATION.pivot else columns[::-1])


def dialogue_files(source: str, target: str, split: str) -> list[str]:
    """The files of a split of XDailyDialog, by twos; behind its own those of training."""
    train = [f'xdailydialog/1k_part_data/dialogues_text_{x.title()}.txt' for x in (source, target)]
    dev, test = (
        [f'xdailydialog/{lang}_{part}_human.txt' for lang in (source, target)]
        for part in ('dev', 'test')
    )
    return (test if split == 'test' else []) + dev + train


def read_dialogues(split: str, *paths: str) -> Iterator[readers.Item]:
    """The pairs of utterances of a split of XDailyDialog."""
    by_twos = zip(paths[::2], paths[1::2], strict=True)
    *test, dev, train = (readers.read_parallel_dialogues(*two) for two in by_twos)
    validation, training = [], list(train)
    for item in dev:
        is_late = isinstance(item, dict) and int(item['dialogue']) >= HELD_OUT
        (validation if is_late else training).append(item)
    if split == 'train':
        yield from map(_pair, training)
        return
    # Bad records of 'train' are reported when it is read itself.
    learnt = {readers.letters(item['source']) for item in training if isinstance(item, dict)}
    for item in test[0] if test else validation:
        if isinstance(item, dict) and readers.letters(item['source']) in learnt:
            yield readers.LeftOut('utterances that training has')
        else:
            yield _pair(item)


def _pair(item: readers.Record | readers.BadRecord) -> readers.Record | readers.BadRecord:
    if isinstance(item, readers.BadRecord):
        return item
    return {'inputs': item['source'], 'targets': item['target']}


for _name in TRANSLATION.task_names():
    _, _task, _source, _target = _name.split('_')
    _files, _read, _count = dialogue_files, read_dialogues, None
    if _task == 'wmt20':
        _files, _read = news_files, functools.partial(read_news, _source)
        _count = pipeline.count_lines
    pipeline.add_text_task(
        _name,
        pipeline.RecordSource(
            _read,
            functools.partial(_files, _source, _target),
            SPLITS,
            ('inputs', 'targets'),
            source_lang=_source,
            target_lang=_target,
            count=_count,
            hint=f'python -m xlbench.data list {_task} says how to get it',
        ),
        metrics=pipeline.translation_metrics(_target),
        default='bleu',
    )

pipeline.add_scenarios(TRANSLATION)
