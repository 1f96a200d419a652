"""A study: its questions, and which texts which judge sees in which order, on which page.

  key.json          all of the study; it stays with those who ask, or the judges are not blind
  pages/NAME.html   one page a judge, which loads nothing and sends nothing, see page/template.py

The orders depend only on the seed, the study's name and each judge's name: the same command makes
the same study. A page has numbers for its items and letters for its texts; only `Sheet` says which
examples and systems they stand for.
"""

import hashlib
import json
import os
import pathlib
import random
import re
import zlib
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

import msgspec

from xlbench.benchmarks import languages
from xlbench.judgement.sources import Prediction, Source
from xlbench.reporting.page import template
from xlbench.reporting.results import task_name
from xlbench.system import errors, files
from xlbench.system.errors import UserError, shortened

FORMAT = 'xlbench study 1'
MOST_SHOWN = 9  # Texts of an item: a key of the keyboard chooses one.
LETTERS = 'ABCDEFGHI'
_Index = Annotated[int, msgspec.Meta(ge=0, lt=10**7)]
_Line = Annotated[str, msgspec.Meta(min_length=1, max_length=2000)]


class Aspect(msgspec.Struct, forbid_unknown_fields=True):
    """One aspect of a text, with the question that judges ask themselves.

    Attributes:
      levels: the meaning of each rating, the lowest first; none where the best and the worst text
        are chosen.
    """

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=40)]
    question: _Line
    levels: Annotated[list[_Line], msgspec.Meta(max_length=9)] = []


class Scale(msgspec.Struct, forbid_unknown_fields=True):
    """Aspects, in the order of the page, and how they are judged.

    Attributes:
      kind: 'ratings' of each text, or 'best_worst': the best and the worst of several.
      instructions: paragraphs at the top of the guidelines.
    """

    kind: Literal['ratings', 'best_worst']
    aspects: Annotated[list[Aspect], msgspec.Meta(min_length=1, max_length=20)]
    instructions: Annotated[list[_Line], msgspec.Meta(max_length=20)] = []


# Ratings of the aspects of appendix B of arXiv:2108.07140; best and worst by those of section 6.3
# of arXiv:2202.05599; replies by the question of section 3.3 of arXiv:2106.02017.
SCALES: dict[str, Scale] = files.read_json(
    pathlib.Path(__file__).with_name('scales.json'), dict[str, Scale]
)


def load_scale(name: str) -> Scale:
    """A scale by its name, or from a JSON file of that form.

    Raises:
      UserError: there is no such scale, or the file is not one.
    """
    if name in SCALES:
        return SCALES[name]
    if not os.path.isfile(name):
        raise errors.unknown(
            'scale', name, SCALES, 'Name one of them, or a JSON file with an own one'
        )
    scale = files.read_json(name, Scale)
    counts = {len(aspect.levels) for aspect in scale.aspects}
    if scale.kind == 'ratings' and (len(counts) > 1 or min(counts) < 2):
        raise UserError(f'{name}: every aspect needs as many levels, from 2 to 9')
    if len({aspect.name for aspect in scale.aspects}) < len(scale.aspects):
        raise UserError(f'{name}: two aspects have the same name')
    if any(not aspect.name.isprintable() for aspect in scale.aspects):
        raise UserError(f'{name}: the name of an aspect is one line without control characters')
    return scale


# -----------------------------------------------------------------------------------------------
# The texts.


class Item(msgspec.Struct):
    """One example, and what the systems wrote for it.

    Attributes:
      id: of the example in the predictions.
      source_lang: ISO code of the input; '' if nobody knows.
      lang: ISO code of the texts.
      shown: the systems whose texts are shown.
      texts: by system.
      scores: by system, automatic ones.
    """

    task: str
    id: str
    source_lang: str
    lang: str
    input: str
    references: list[str]
    shown: list[str]
    texts: dict[str, str]
    scores: dict[str, dict[str, float | None]] = {}


class Sheet(msgspec.Struct):
    """Items of one judge.

    Attributes:
      page: hash of what the page shows, so that answers of another page are told apart.
      order: the items' numbers in the order of the page.
      slots: for each of them the systems behind the letters A, B, ...
    """

    judge: str
    page: str
    order: list[_Index]
    slots: list[list[str]]


class Study(msgspec.Struct):
    """All of a study, as its key.json has it.

    Attributes:
      id: hash of the items and the scale.
      seed: of samples and orders.
      items: in the order of tasks.
      data: 'sample' where the texts are about made-up examples.
      places: system -> where its predictions were read from.
    """

    format: str
    id: str
    title: str
    seed: int
    scale: Scale
    systems: list[str]
    items: list[Item]
    sheets: list[Sheet]
    data: str = 'files'
    places: dict[str, str] = {}


def make(
    sources: Sequence[Source],
    scale: Scale,
    judges: Sequence[str],
    *,
    items: int,
    shown: int = 0,
    seed: int = 0,
    title: str = '',
    langs: tuple[str, str] = ('', ''),
) -> Study:
    """Chooses the items, and puts them and the systems of each into a random order.

    There are two systems or more for best and worst, else one or more. Of each task it chooses
    `items` examples, and an item shows the texts of `shown` systems; 0 is all. The languages of
    input and texts are `langs` where the name of the task does not say them.

    Raises:
      UserError: the systems have no example in common, or different inputs for one.
    """
    if items < 0:
        raise UserError(f'--items={items}; 0 or more is allowed')
    names = [source.name for source in sources]
    shown = shown or len(names)
    least = 2 if scale.kind == 'best_worst' else 1
    if not least <= shown <= min(MOST_SHOWN, len(names)):
        raise UserError(
            f'an item would show {shown} of {len(names)} systems; it can show from {least} to '
            f'{MOST_SHOWN} that are there: see --shown'
        )
    chosen = _chosen(sources, items, shown, seed, langs)
    if not chosen:
        raise UserError(
            f'{", ".join(names)} have no example of the same task and id in common; --task names '
            'the task of files as the runs call it'
        )
    content = msgspec.json.encode((scale, chosen, seed, title))
    data = 'sample' if any(source.data == 'sample' for source in sources) else 'files'
    study = Study(
        format=FORMAT, id=hashlib.sha256(content).hexdigest()[:12], seed=seed, scale=scale,
        title=title or 'Which text is better?', systems=names, items=chosen, sheets=[], data=data,
        places={source.name: source.place for source in sources},
    )  # fmt: skip
    study.sheets = [_sheet(study, judge) for judge in judges]
    return study


def read(path: str) -> Study:
    """Reads a key.json.

    Raises:
      UserError: it is none, or what it says does not fit together.
    """
    study = files.read_json(path, Study)
    if study.format != FORMAT:
        raise UserError(f'{path} is not a key of a study: its format is {shortened(study.format)}')
    whole = list(range(len(study.items)))
    for sheet in study.sheets:
        systems = [sorted(study.items[i].shown) for i in sheet.order if i < len(study.items)]
        if sorted(sheet.order) != whole or [sorted(names) for names in sheet.slots] != systems:
            raise UserError(f'{path}: the sheet of {shortened(sheet.judge)} does not fit its items')
    if any(set(item.shown) - set(study.systems) for item in study.items) or any(
        set(item.texts) != set(item.shown) for item in study.items
    ):
        raise UserError(f'{path}: an item has other systems than the study')
    return study


def encode(study: Study) -> bytes:
    """A study as its key.json has it."""
    return msgspec.json.format(msgspec.json.encode(study), indent=1) + b'\n'


def _page_content(
    study: Study, judge: str, order: Sequence[int], slots: Sequence[Sequence[str]]
) -> dict:
    """Builds the content of a page, without any trace of which system is which."""
    items = [
        {
            'label': 'Input',
            'input': item.input,
            'texts': [item.texts[name] for name in systems],
            'langs': (item.source_lang, item.lang),
        }
        for item, systems in zip((study.items[i] for i in order), slots, strict=True)
    ]
    scale = msgspec.to_builtins(study.scale)
    return {'study': study.id, 'title': study.title, 'judge': judge, **scale, 'items': items}


def _sheet(study: Study, judge: str) -> Sheet:
    rng = random.Random(f'{judge} {study.id} {study.seed}')
    order = rng.sample(range(len(study.items)), len(study.items))
    slots = [rng.sample(study.items[i].shown, len(study.items[i].shown)) for i in order]
    data = _page_content(study, judge, order, slots)
    page = hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:16]
    return Sheet(judge, page, order, slots)


def _chosen(
    sources: Sequence[Source], items: int, shown: int, seed: int, langs: tuple[str, str]
) -> list[Item]:
    """A sample of each task, and of the systems of each item."""
    names = [source.name for source in sources]
    rng = random.Random(f'items {seed}')
    chosen = []
    for task in sorted(set.intersection(*(set(source.tasks) for source in sources))):
        of_task = _items(task, sources, langs)
        if 0 < items < len(of_task):
            of_task = sorted(rng.sample(of_task, items), key=of_task.index)
        for item in of_task:
            item.shown = rng.sample(names, shown) if shown < len(names) else names
            item.texts = {name: item.texts[name] for name in item.shown}
            item.scores = {name: item.scores[name] for name in item.shown}
        chosen += of_task
    return chosen


def _items(task: str, sources: Sequence[Source], langs: tuple[str, str]) -> list[Item]:
    """The examples of a task that all systems have, in the order of the first one."""
    rows = [source.tasks[task] for source in sources]
    known = task_name(task)[2:]
    source_lang, lang = (named or of_task for named, of_task in zip(langs, known, strict=True))
    items = []
    for key in rows[0]:
        if not all(key in of_source for of_source in rows):
            continue
        predictions = {s.name: of_source[key] for s, of_source in zip(sources, rows, strict=True)}
        references = (row.references or [row.target] for row in predictions.values())
        same_input = _same_input(task, key, predictions, lang)
        texts = {name: row.prediction or '' for name, row in predictions.items()}
        scores = {name: row.scores for name, row in predictions.items()}
        about = task, key, source_lang, lang, same_input, next(filter(any, references), [])
        items.append(Item(*about, shown=[], texts=texts, scores=scores))
    return items


def _for_judges(text: str, lang: str) -> str:
    """An input without the marks that are for models: `<de> ` before it, `<answer>` within it."""
    passage, mark, answer = text.removeprefix(f'<{lang}> ').rpartition(' <answer> ')
    return f'{passage}\n\nAnswer: {answer}' if mark else answer


def _same_input(task: str, key: str, predictions: dict[str, Prediction], lang: str) -> str:
    """The input that all systems agree on, as far as they have it, as judges read it."""
    said = {n: _for_judges(row.input, lang) for n, row in predictions.items() if row.input}
    first = next(iter(said), '')
    if others := [name for name in said if said[name] != said[first]]:
        raise UserError(
            f'{first} and {others[0]} have different inputs for example {shortened(key)} of '
            f'{task}; they can be judged together only on the same examples'
        )
    return next(iter(said.values()), '')


# -----------------------------------------------------------------------------------------------
# The pages.


def document(study: Study, sheet: Sheet) -> str:
    """The page of one judge."""
    data = _page_content(study, sheet.judge, sheet.order, sheet.slots)
    for item in data['items']:
        source, target = map(language, item.pop('langs'))
        item |= {'inputLang': source[0], 'inputDir': source[1], 'lang': target[0], 'dir': target[1]}
    data |= {'page': sheet.page, 'file': answers_name(study, sheet)}
    return html_page('page.js', data, study.title, sheet.judge)


def html_page(script_name: str, data: Mapping[str, object], title: str, name: str) -> str:
    """A page with its script behind the shared one; beside its title stands a name."""
    scripts = ('page.common.js', script_name)
    return template.render(__package__, scripts, data, title=title, judge=name)


def check_unchanged(path: str, checksum: str, lines: Sequence[str], judge: str = '') -> None:
    """Raises UserError unless a file that a page saved has the checksum of its lines."""
    if checksum != f'{zlib.crc32(chr(10).join(lines).encode()):08x}':
        asked = f'{shortened(judge)} ' if judge else ''
        raise UserError(
            f'{path} was changed after its page saved it: the checksum does not fit. Ask '
            f'{asked}for the file as it was'
        )


def page_name(sheet: Sheet) -> str:
    """The name of a judge's page."""
    return f'{_file_name(sheet.judge)}.html'


def answers_name(study: Study, sheet: Sheet) -> str:
    """Names the file in which a page saves its answers."""
    return f'answers-{study.id}-{_file_name(sheet.judge)}.json'


def _file_name(judge: str) -> str:
    return re.sub(r'[^\w-]+', '-', judge).strip('-') or 'judge'


def language(code: str) -> tuple[str, str]:
    """HTML's lang and dir; the browser finds the direction of an unknown language itself."""
    try:
        return code, languages.get(code).direction
    except UserError:
        return '', 'auto'
