"""A made-up study, and answers to it as a page would save them."""

import json
import pathlib
import zlib

from xlbench.judgement import sources, studies

WORDS = [
    'Zug', 'Haus', 'Brücke', 'See', 'Wald', 'Berg', 'Turm', 'Fluss', 'Weg', 'Tor', 'Uhr', 'Boot'
]  # fmt: skip


def source(name: str, ending: str, count: int = 12) -> sources.Source:
    """A system that writes a question, with an ending of its own."""
    rows = {
        str(i): sources.Prediction(
            prediction=f'Wo ist {word}{ending}', input=f'{word} ist hier.', target=f'Wo ist {word}?'
        )
        for i, word in enumerate(WORDS[:count])
    }
    return sources.Source(name, f'{name}.jsonl', {'news_qg_de': rows})


def study(kind: str = 'ratings', systems: int = 2, judges=('anna', 'ben'), **kwargs):
    """Twelve items of some systems."""
    endings = ('?', ' <b>denn</b>?', '', ' ist ist')
    chosen = [source(f'system-{i}', endings[i]) for i in range(systems)]
    langs = kwargs.pop('langs', ('de', 'de'))
    scale = studies.SCALES[kind]
    return studies.make(chosen, scale, judges, items=0, seed=5, langs=langs, **kwargs)


def answers(study, judge: str, choose) -> dict:
    """What a page saves of one judge, all items answered by `choose`.

    It gets (system, aspect, item) and gives 1 to 5; of choices (systems, ...) -> (best, worst)."""
    sheet = next(sheet for sheet in study.sheets if sheet.judge == judge)
    rows = []
    for number, (index, systems) in enumerate(zip(sheet.order, sheet.slots, strict=True), 1):
        for aspect in (aspect.name for aspect in study.scale.aspects):
            place = {'item': number, 'aspect': aspect}
            if study.scale.kind == 'ratings':
                rows += [
                    {**place, 'text': letter, 'rating': choose(system, aspect, index)}
                    for letter, system in zip(studies.LETTERS, systems, strict=False)
                ]
            else:
                chosen = zip(('best', 'worst'), choose(systems, aspect, index), strict=True)
                rows += [
                    {**place, 'choice': choice, 'text': studies.LETTERS[systems.index(system)]}
                    for choice, system in chosen
                ]
    return signed(
        {
            'format': 'xlbench answers 1', 'study': study.id, 'judge': judge, 'page': sheet.page,
            'saved': '2026-01-01T00:00:00.000Z', 'answers': rows,
        }
    )  # fmt: skip


def signed(file: dict) -> dict:
    """The file with the checksum that belongs to it."""
    lines = [
        '\t'.join(str(a.get(k)) for k in ('item', 'aspect', 'text'))
        + f'\t{a.get("rating") or a.get("choice")}'
        for a in file['answers']
    ]
    text = '\n'.join([file['page'], *lines])
    return file | {'checksum': f'{zlib.crc32(text.encode()):08x}'}


def write(folder: pathlib.Path, name: str, file: dict) -> str:
    path = folder / name
    path.write_text(json.dumps(file), encoding='utf-8')
    return str(path)
