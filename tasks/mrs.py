"""MRS, multilingual reply suggestion (arXiv:2106.02017): ten languages, three views of each pair.

Reads below the data root, in the layout of microsoft/MRS:

  mrs/{train,valid,test,mt_train,mt_valid}/de/*.tsv*, mrs/gmr_valid/de/*
      Hast du Zeit?<TAB>Ja, um drei.<TAB>...<TAB>...  message, reply, two columns that are not used
  mrs/rsp_set/de/response_lm_cluster.txt
      -3.5<TAB>Ja, gern.<TAB>17                       score of a language model, text, cluster
  mrs/rsp_map/de/response.mapping.txt                 if it is there: text, TAB, text to show for it

Every file may also be packed (.gz). A split may have any number of files; they are read in the
order of their names. `mt_train` holds English training pairs that were machine-translated,
`mt_valid` (split mt_validation) such validation pairs, `gmr_valid` (split gmr_validation) pairs
whose reply is in the response set.

The split `responses` is the response set: message and reply are both the text of a response.

Tasks are mrs_retrieval_<lang>_<lang>, mrs_generation_<lang>_<lang> and mrs_reverse_<lang>_<lang>:

  inputs 'Hast du Zeit?', targets 'Ja, um drei.'      generation writes '<de> ' before the input
  inputs '<de> Ja, um drei.', targets 'Hast du Zeit?' reverse, for a model that ranks replies
"""

import functools
from collections.abc import Iterator

from xlbench import pipeline
from xlbench.benchmarks import MRS
from xlbench.data import readers

# Split -> the files of its pairs.
PAIRS = {
    'train': 'mrs/train/{lang}/*.tsv*',
    'validation': 'mrs/valid/{lang}/*.tsv*',
    'test': 'mrs/test/{lang}/*.tsv*',
    'mt_train': 'mrs/mt_train/{lang}/*.tsv*',
    'mt_validation': 'mrs/mt_valid/{lang}/*.tsv*',
    'gmr_validation': 'mrs/gmr_valid/{lang}/*',
}
RESPONSES = 'responses'


def files(lang: str, split: str) -> list[str]:
    """The files of a split, below the data root."""
    if split == RESPONSES:
        return [f'mrs/rsp_set/{lang}/response_lm_cluster.txt']
    return [PAIRS[split].format(lang=lang)]


def mapping(lang: str, split: str) -> list[str]:
    """Reads the shown form of each response; without the file, it is the response itself."""
    return [f'mrs/rsp_map/{lang}/response.mapping.txt'] if split == RESPONSES else []


def read(split: str, *paths: str) -> Iterator[readers.Record | readers.BadRecord]:
    """The pairs of a split, or the response set."""
    if split == RESPONSES:
        for record in readers.read_responses(*paths):
            bad = isinstance(record, readers.BadRecord)
            yield record if bad else record | {'message': record['reply']}
        return
    for path in paths:
        for record in readers.read_pairs(path):
            yield record if isinstance(record, readers.BadRecord) else pipeline.PAIR | record


def count(split: str, *paths: str) -> int:
    """The number of lines."""
    return sum(map(readers.count_lines, paths[:1] if split == RESPONSES else paths))


for _lang in MRS.languages:
    pipeline.add_reply_tasks(
        MRS.name,
        _lang,
        pipeline.RecordSource(
            read,
            functools.partial(files, _lang),
            (*PAIRS, RESPONSES),
            pipeline.REPLY_FIELDS,
            source_lang=_lang,
            target_lang=_lang,
            count=count,
            optional=functools.partial(mapping, _lang),
            hint='python -m xlbench.data list mrs says how to get it',
            apart=lambda split: split != RESPONSES,
        ),
        reverse=True,
    )

pipeline.add_scenarios(MRS)
