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

mDialBART (section 5.1 of the paper) is trained further on four tasks: translation, as above, and

  clidsum_xsamsumsummarize_en_en     '[summarize] anna: hi!...' -> 'anna greets ben.'; its
      fine-tuning has the same mark: clidsum_xsamsumsummarize_en_de
  clidsum_xsamsumpermutation_en_en   the dialogue's utterances in another order -> the dialogue
  clidsum_xsamsuminfilling_en_en     with <mask> for spans of what is done by whom -> the dialogue

For the last, clidsum/XSAMSum/train.triples.tsv and so on, plain or packed, have what CoreNLP's
OpenIE prints with -format reverb for the sentences of the dialogues, in any order. The training
split of the last two has each dialogue DRAWS times, with other noise each time, and a pass over it
reads one of them; xlbench/data/noise says how it is drawn.
"""

import functools
import itertools
from collections.abc import Iterable, Iterator

import seqio

from xlbench import pipeline
from xlbench.benchmarks import CLIDSUM
from xlbench.benchmarks.clidsum import SUMMARIZE
from xlbench.data import noise, readers, rows
from xlbench.metrics import bleu, rouge

FOLDERS = {'xsamsum': 'XSAMSum', 'xmediasum40k': 'XMediaSum40k'}
SPLITS = {'train': 'train', 'validation': 'val', 'test': 'test'}  # As files call them.
SUMMARIES = {'en': 'summary', 'de': 'summary_de', 'zh': 'summary_zh'}
FIELDS = ('id', 'inputs', 'targets')
NOISY = ('infilling', 'permutation')
# How often a dialogue of training comes with other noise. Pass p reads draw p % DRAWS. The paper's
# pre-training has about 19 passes, so that each draw is read four times; so often repeated data is
# almost as good as new (arXiv:2305.16264). A draw of a dialogue of 1,000 words takes about 7 kB.
DRAWS = 5
_SEED = 0
_LAYOUT = rows.Layout('json')


def files(corpus: str, kind: str, split: str) -> list[str]:
    """The files of a split, below the data root."""
    path = f'clidsum/{FOLDERS[corpus]}/{SPLITS[split]}'
    return [f'{path}.json'] + ([f'{path}.triples.tsv'] if kind == 'infilling' else [])


def draws(kind: str, split: str) -> int:
    """How many records are made of one object."""
    return DRAWS if kind in NOISY and split == 'train' else 1


def read(
    kind: str, inputs: str, targets: str, split: str, path: str, *triples: str
) -> Iterator[readers.Item]:
    """The pairs of a split: two fields of each object, `id` its place, from 1."""
    bad: list[readers.BadRecord] = []
    known = itertools.chain.from_iterable(map(readers.read_triples, triples))
    actions = noise.actions_of(_good(known, bad))
    yield from bad
    for row in rows.read(path, list(dict.fromkeys((inputs, targets))), _LAYOUT):
        if isinstance(row, readers.BadRecord):
            yield row
            continue
        try:
            texts = [rows.text(row.values[key], key).lower() for key in (inputs, targets)]
        except ValueError as error:
            yield readers.BadRecord(path, 0, f'object {row.number}: {error}')
            continue
        for draw in range(draws(kind, split)):
            number = f'{row.number}.{draw}' if draw else f'{row.number}'
            source = _source(kind, texts[0], actions, row.number, draw)
            yield dict(zip(FIELDS, (number, source, texts[1]), strict=True))


def _good(items: Iterable[readers.Item], bad: list[readers.BadRecord]) -> Iterator[readers.Record]:
    """The records; what is none is put into `bad`."""
    for item in items:
        if isinstance(item, readers.BadRecord):
            bad.append(item)
        elif isinstance(item, dict):
            yield item


def _source(kind: str, text: str, actions: noise.Actions, number: int, draw: int) -> str:
    """What a model reads of a text."""
    numbers = noise.generator(_SEED, draw, number)
    if kind == 'infilling':
        return noise.infill(text, actions, numbers)
    if kind == 'permutation':
        return noise.permute(text, numbers)
    return f'{SUMMARIZE} {text}' if kind == 'summarize' else text


def count(kind: str, split: str, path: str, *triples: str) -> int:
    """The number of objects of a split."""
    del kind, split, triples
    return rows.count(path, _LAYOUT)


def register(task: str, source: str, target: str) -> seqio.Task:
    """Adds one task in one pair of languages."""
    corpus = next(name for name in FOLDERS if task.startswith(name))
    kind = task.removeprefix(corpus)
    denoised = ('dialogue', 'dialogue')
    fields = {
        '': ('dialogue', SUMMARIES[target]),
        'summarize': ('dialogue', SUMMARIES[target]),
        'dialogue': denoised,
        'infilling': denoised,
        'permutation': denoised,
        'summary': (SUMMARIES[source], SUMMARIES[target]),
    }
    hint = (
        'put the folders XSAMSum and XMediaSum40k of krystalan/ClidSum, which its authors '
        'give out, into the folder clidsum below it'
    )
    if kind == 'infilling':
        hint += "; a file of triples is what CoreNLP's OpenIE prints with -format reverb"
    return seqio.TaskRegistry.add(
        CLIDSUM.task_name(task, source, target),
        source=pipeline.RecordSource(
            functools.partial(read, kind, *fields[kind]),
            functools.partial(files, corpus, kind),
            tuple(SPLITS),
            FIELDS,
            source_lang=source,
            target_lang=target,
            count=functools.partial(count, kind),
            hint=hint,
            draws=functools.partial(draws, kind),
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
