"""ClidSum (arXiv:2202.05599): English dialogues -> summaries in English, German and Chinese.

Reads below the data root the files of krystalan/ClidSum, plain or packed (.gz), and for the
semi-supervised setting those of zcgzcgzcg1/MediaSum, of which MediaSum424k is all that the split
file of krystalan/ClidSum does not name, with the split train alone:

  clidsum/{XSAMSum,XMediaSum40k}/{train,val,test}.json
      [{"dialogue": "Anna: Hi!\\r\\nBen: Hello.", "summary": "Anna greets Ben.",
        "summary_de": "Anna grüßt Ben.", "summary_zh": "安娜向本问好。"}, ...]
  clidsum/MediaSum424k/news_dialogue.json
      [{"id": "NPR-1", "utt": ["Hello.", "Hi."], "speaker": ["ANN, host", "BEN"],
        "summary": "Ann greets Ben.", ...}, ...]
  clidsum/MediaSum424k/train_val_test_split.40k.json     {"train": ["NPR-2", ...], "val": ...}

Tasks are clidsum_<corpus>_en_<target>, corpus xsamsum, xmediasum40k or mediasum424k (which has the
target en alone); clidsum_xsamsum_en_de:

  inputs 'anna: hi!\\r\\nben: hello.', targets 'anna grüßt ben.'      T5 reads '<de> ' before inputs

Further tasks have the same texts in other places: clidsum_xsamsumdialogue_en_en the dialogue on
both sides, for denoising, and clidsum_xsamsumsummary_en_de the English summary and the German one,
for translation. Texts are lower-cased, as the official code does, which leaves line breaks alone.

Pseudo-data (section 6.1 of the paper) is clidsum_mediasum424kpseudo_en_<target>: dialogues of
MediaSum424k with summaries that a machine has translated, in the file that xlbench.translate makes:

  clidsum/MediaSum424k/summaries.de.jsonl     {"id": "NPR-1", "summary": "Ann grüßt Ben."}, ...

A dialogue whose summary was not translated is left out.

For systems that translate first, clidsum_xsamsumtranslated_de_de has dialogues that a machine has
translated, with the German summaries, in the files that xlbench.translate makes of a task:

  clidsum/XSAMSum/{train,val,test}.translated.de.jsonl
      {"id": "1", "inputs": "anna: hallo!", "targets": "anna grüßt ben."}, ...

mDialBART (section 5.1 of the paper) is trained further on four tasks: translation, as above, and

  clidsum_xsamsumsummarize_en_en     '[summarize] anna: hi!...' -> 'anna greets ben.'; its
      fine-tuning has the same mark: clidsum_xsamsumsummarize_en_de, and on pseudo-data
      clidsum_mediasum424kpseudosummarize_en_de
  clidsum_xsamsumpermutation_en_en   the dialogue's utterances in another order -> the dialogue
  clidsum_xsamsuminfilling_en_en     with <mask> for spans of what is done by whom -> the dialogue

For the last, clidsum/XSAMSum/train.triples.tsv and so on, plain or packed, have what CoreNLP's
OpenIE prints with -format reverb for the sentences of the dialogues, in any order. The training
split of the last two has each dialogue DRAWS times, with other noise each time, and a pass over it
reads one of them; xlbench/data/noise says how it is drawn.

MV-BART reads a dialogue in two views with a tab between them, cut into topics and cut into stages:

  clidsum_xsamsumviews_en_en         ' | anna: hi! ben: hello.\\t | anna: hi! | ben: hello.' ->
      'anna greets ben.'

clidsum/XSAMSum/train.views.jsonl and so on say where; python -m xlbench.data segment makes them.
"""

import functools
import itertools
from collections.abc import Iterable, Iterator, Sequence

from xlbench import pipeline
from xlbench.benchmarks import CLIDSUM
from xlbench.benchmarks.clidsum import SUMMARIZE
from xlbench.data import noise, readers, rows, segments
from xlbench.metrics import bleu, rouge

MONOLINGUAL = 'mediasum424k'
FOLDERS = {'xsamsum': 'XSAMSum', 'xmediasum40k': 'XMediaSum40k', MONOLINGUAL: 'MediaSum424k'}
SPLITS = {'train': 'train', 'validation': 'val', 'test': 'test'}  # As files call them.
SUMMARIES = {'en': 'summary', 'de': 'summary_de', 'zh': 'summary_zh'}
FIELDS = ('id', 'inputs', 'targets')
NOISY = ('infilling', 'permutation')
TRANSLATED = 'translated'
# How often a dialogue of training comes with other noise. Pass p reads draw p % DRAWS. The paper's
# pre-training has about 19 passes, so that each draw is read four times; so often repeated data is
# almost as good as new (arXiv:2305.16264). On the disk, a draw of a dialogue takes about 8 kB for
# 1,000 words; those of MediaSum424k, of 1,550 words on average, some 26 GB for each of the two.
DRAWS = 5
# What denoisers read and write of a dialogue: the 1,024 pieces of appendix A.4, less marks. Cut
# before the noise, so that no word is to be restored that the model has not read.
_PIECES = 1024 - 8
_SEED = 0


def files(corpus: str, kind: str, target: str, split: str) -> list[str]:
    """The files of a split, below the data root: those of the corpus, then those of the kind."""
    folder = f'clidsum/{FOLDERS[corpus]}'
    name = SPLITS[split]
    if kind == TRANSLATED:
        return [f'{folder}/{name}.{TRANSLATED}.{target}.jsonl']
    paths = [f'{folder}/{name}.json']
    if corpus == MONOLINGUAL:
        name = 'news_dialogue'
        paths = [f'{folder}/{name}.json', f'{folder}/train_val_test_split.40k.json']
    if kind.startswith('pseudo'):
        paths.append(f'{folder}/summaries.{target}.jsonl')
    further = {'infilling': 'triples.tsv', 'views': 'views.jsonl'}.get(kind)
    return paths + ([f'{folder}/{name}.{further}'] if further else [])


def draws(kind: str, split: str) -> int:
    """Returns how many records are made of one object."""
    return DRAWS if kind in NOISY and split == 'train' else 1


def read(
    corpus: str, kind: str, inputs: str, targets: str, split: str, path: str, *others: str
) -> Iterator[readers.Item]:
    """The pairs of a split: two fields of each object, `id` its place, from 1."""
    actions: noise.Actions = {}
    if kind == 'infilling':
        triples, others = others[-1], others[:-1]
        bad: list[readers.BadRecord] = []
        actions = noise.actions_of(_good(readers.read_triples(triples), bad))
        yield from bad
    keys = list(dict.fromkeys((inputs, targets)))
    for item in _interviews(path, *others) if corpus == MONOLINGUAL else _objects(path, keys):
        if not isinstance(item, tuple):
            yield item
            continue
        place, fields = item
        texts = [fields[key].lower() for key in (inputs, targets)]
        if kind in NOISY and (encode := getattr(pipeline.tokenizer(), 'encode_batch', None)):
            texts = [noise.cut(texts[0], _PIECES, encode)] * 2
        spans = noise.dialogue_spans(texts[0], actions) if kind == 'infilling' else []
        for draw in range(draws(kind, split)):
            number = f'{place}.{draw}' if draw else f'{place}'
            source = texts[0]
            if kind == 'infilling':
                source = noise.infill_spans(source, spans, noise.generator(_SEED, draw, place))
            elif kind == 'permutation':
                source = noise.permute(source, noise.generator(_SEED, draw, place))
            elif kind.endswith('summarize'):
                source = f'{SUMMARIZE} {source}'
            yield dict(zip(FIELDS, (number, source, texts[1]), strict=True))


def read_in_views(
    corpus: str, fields: tuple[str, str], split: str, path: str, views: str
) -> Iterator[readers.Item]:
    """The pairs of a split, each dialogue in the two views that another file has of it."""
    lines = list(segments.read_views(views))
    for item in read(corpus, '', *fields, split, path):
        if not isinstance(item, dict):
            yield item
            continue
        number, utterances = int(item['id']), segments.utterances(item['inputs'])
        line = lines[number - 1] if number <= len(lines) else None
        if isinstance(line, readers.BadRecord):
            yield line
        elif line is None or {len(labels) for labels in line} != {len(utterances)}:
            reason = f'the views are not of object {number} of {path}'
            hint = f'make them: python -m xlbench.data segment {path}'
            yield readers.BadRecord(views, number, f'{reason}; {hint}')
        else:
            yield item | {'inputs': line.text(utterances)}


def read_translated(_: str, path: str) -> Iterator[readers.Item]:
    """The pairs of a split whose dialogues a machine has translated; a few it may have missed."""
    for item in readers.read_jsonl(path, dict(zip(FIELDS, FIELDS, strict=True)), ('inputs',)):
        if isinstance(item, readers.BadRecord) or item['inputs']:
            yield item
        else:
            yield readers.LeftOut('whose dialogue is not translated')


Object = tuple[int, readers.Record]  # Its place in the file, from 1, and its texts.


def _objects(path: str, keys: Sequence[str]) -> Iterator[Object | readers.BadRecord]:
    """The texts of each object of a file with summaries in three languages."""

    def texts(number: int, values: rows.Values) -> Iterator[Object]:
        yield number, {key: rows.text(values[key], key) for key in keys}

    return readers.convert(path, rows.read(path, keys, rows.Layout('json')), texts, 'object')


def _interviews(
    path: str, ids: str, *translations: str
) -> Iterator[Object | readers.BadRecord | readers.LeftOut]:
    """The dialogue and the summary, perhaps a translated one, of each interview of MediaSum424k."""
    others = readers.read_split_ids(ids)
    summaries: dict[str, str] = {}
    for item in itertools.chain.from_iterable(map(readers.read_translations, translations)):
        if isinstance(item, readers.BadRecord):
            yield item
        else:
            summaries[item['id']] = item['summary']
    for place, item in enumerate(readers.read_interviews(path, others), 1):
        if not isinstance(item, dict):
            yield item
        elif not translations:
            yield place, item
        elif item['id'] in summaries:
            yield place, item | {'summary': summaries[item['id']]}
        else:
            yield readers.LeftOut('whose summary is not translated')


def _good(items: Iterable[readers.Item], bad: list[readers.BadRecord]) -> Iterator[readers.Record]:
    """The records; what is none is put into `bad`."""
    for item in items:
        if isinstance(item, readers.BadRecord):
            bad.append(item)
        elif isinstance(item, dict):
            yield item


def count(corpus: str, split: str, path: str, *others: str) -> int:
    """The number of dialogues of a split, without the noise that takes long."""
    items = _interviews(path, others[0]) if corpus == MONOLINGUAL else _objects(path, ['dialogue'])
    return sum(isinstance(item, tuple) for item in items)


def hint(corpus: str, kind: str, target: str) -> str:
    """Says how to get the files of a task; {root} stands for the data root."""
    published = MONOLINGUAL if corpus == MONOLINGUAL else CLIDSUM.name
    said = f'python -m xlbench.data list {published} says how to get it'
    folder = f'{{root}}/clidsum/{FOLDERS[corpus]}'
    translate = (
        f'python -m xlbench.translate --engine=ENGINE --source_lang=en --target_lang={target}'
    )
    if kind == TRANSLATED:
        task = CLIDSUM.task_name(corpus, CLIDSUM.pivot, target)
        said += (
            f'; {{train,val,test}}.{TRANSLATED}.{target}.jsonl are made by {translate} '
            f'--input_task={task} --root={{root}} --split=train '
            f'--output={folder}/train.{TRANSLATED}.{target}.jsonl, and so on'
        )
    elif kind == 'views':
        said += f'; views are made by python -m xlbench.data segment {folder}/*.json'
    elif kind.startswith('pseudo'):
        said += (
            f'; summaries.{target}.jsonl is made by {translate} --input={folder}/news_dialogue.json'
            f' --field=summary --keep=id --output={folder}/summaries.{target}.jsonl'
        )
    elif kind == 'infilling':
        said += (
            '; triples are written by python -m xlbench.data triples FILE.json --tagger=WORKDIR, '
            "or by CoreNLP's OpenIE with -format reverb"
        )
    return said


def register(task: str, source: str, target: str) -> pipeline.DeclaredTask:
    """Adds one task in one pair of languages."""
    corpus = next(name for name in FOLDERS if task.startswith(name))
    kind = task.removeprefix(corpus)
    fields = ('dialogue', SUMMARIES[target])
    if kind in ('dialogue', *NOISY):
        fields = ('dialogue', 'dialogue')
    elif kind == 'summary':
        fields = (SUMMARIES[source], SUMMARIES[target])
    elif corpus == MONOLINGUAL:
        fields = ('dialogue', 'summary')  # Also where it is a translation.
    reading = functools.partial(read, corpus, kind, *fields)
    if kind == TRANSLATED:
        reading = read_translated
    steps = pipeline.text_preprocessors(
        '{inputs}', '{targets}', target, keep=['id'], source_lang=source
    )
    if kind == 'views':
        reading = functools.partial(read_in_views, corpus, fields)
        steps = pipeline.view_preprocessors('{inputs}', '{targets}', target, keep=['id'])
    return pipeline.add_task(
        CLIDSUM.task_name(task, source, target),
        source=pipeline.RecordSource(
            reading,
            functools.partial(files, corpus, kind, target),
            tuple(CLIDSUM.split_sizes[task]),
            FIELDS,
            source_lang=source,
            target_lang=target,
            count=functools.partial(count, corpus) if kind in NOISY else None,
            hint=hint(corpus, kind, target),
            draws=functools.partial(draws, kind),
        ),
        preprocessors=steps,
        output_features=pipeline.text_features(),
        # The official command line stems.
        metric_fns=[
            rouge.MultilingualRouge(target, stem=True),
            bleu.SacreBleu.for_language(target),
        ],
    )


for _name in CLIDSUM.task_names():
    register(*_name.split('_')[1:])

pipeline.add_scenarios(CLIDSUM)
