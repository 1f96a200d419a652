"""ClidSum (arXiv:2202.05599): English dialogues -> summaries in English, German and Chinese.

Reads below the data root the files of krystalan/ClidSum, plain or packed (.gz), for the splits
train, validation and test:

  clidsum/{XSAMSum,XMediaSum40k}/{train,val,test}.json
      [{"dialogue": "Anna: Hi!\\r\\nBen: Hello.", "summary": "Anna greets Ben.",
        "summary_de": "Anna grüßt Ben.", "summary_zh": "安娜向本问好。"}, ...]

Tasks are clidsum_<corpus>_en_<target>, corpus xsamsum or xmediasum40k; clidsum_xsamsum_en_de:

  inputs 'anna: hi!\\r\\nben: hello.', targets 'anna grüßt ben.'      T5 reads '<de> ' before inputs

Further tasks have the same texts in other places: clidsum_xsamsumdialogue_en_en the dialogue on
both sides, for denoising, and clidsum_xsamsumsummary_en_de the English summary and the German one,
for translation. Texts are lower-cased, as the official code does, which leaves line breaks alone.
"""

import functools
from collections.abc import Iterator

import seqio

from xlbench import pipeline
from xlbench.benchmarks import CLIDSUM
from xlbench.data import readers, rows
from xlbench.metrics import bleu, rouge

FOLDERS = {'xsamsum': 'XSAMSum', 'xmediasum40k': 'XMediaSum40k'}
SPLITS = {'train': 'train', 'validation': 'val', 'test': 'test'}  # As files call them.
SUMMARIES = {'en': 'summary', 'de': 'summary_de', 'zh': 'summary_zh'}
FIELDS = ('id', 'inputs', 'targets')
_LAYOUT = rows.Layout('json')


def files(corpus: str, split: str) -> list[str]:
    """The file of a split, below the data root."""
    return [f'clidsum/{FOLDERS[corpus]}/{SPLITS[split]}.json']


def read(inputs: str, targets: str, split: str, path: str) -> Iterator[readers.Item]:
    """The pairs of a split: two fields of each object, `id` its place, from 1."""
    for row in rows.read(path, list(dict.fromkeys((inputs, targets))), _LAYOUT):
        if isinstance(row, readers.BadRecord):
            yield row
            continue
        try:
            texts = [rows.text(row.values[key], key).lower() for key in (inputs, targets)]
        except ValueError as error:
            yield readers.BadRecord(path, 0, f'object {row.number}: {error}')
        else:
            yield dict(zip(FIELDS, (str(row.number), *texts), strict=True))


def count(split: str, path: str) -> int:
    """The number of objects."""
    return rows.count(path, _LAYOUT)


def register(task: str, source: str, target: str) -> seqio.Task:
    """Adds one task in one pair of languages."""
    corpus = task.removesuffix('dialogue').removesuffix('summary')
    kind = task.removeprefix(corpus)
    fields = {
        '': ('dialogue', SUMMARIES[target]),
        'dialogue': ('dialogue', 'dialogue'),
        'summary': (SUMMARIES[source], SUMMARIES[target]),
    }
    return seqio.TaskRegistry.add(
        CLIDSUM.task_name(task, source, target),
        source=pipeline.RecordSource(
            functools.partial(read, *fields[kind]),
            functools.partial(files, corpus),
            tuple(SPLITS),
            FIELDS,
            source_lang=source,
            target_lang=target,
            count=count,
            hint='put the folders XSAMSum and XMediaSum40k of krystalan/ClidSum, which its authors '
            'give out, into the folder clidsum below it',
        ),
        preprocessors=pipeline.text_preprocessors(
            '{inputs}', '{targets}', target, keep=['id'], source_lang=source
        ),
        output_features=pipeline.text_features(),
        # The official command line stems.
        metric_fns=[
            rouge.MultilingualRouge(target, stem=True),
            bleu.SacreBleu.for_language(target),
        ],
    )


for _task in CLIDSUM.tasks:
    for _pair in CLIDSUM.pairs[_task]:
        register(_task, *_pair)

for _scenario in CLIDSUM.scenarios():
    pipeline.add_mixture(_scenario.mixture, _scenario.train)
