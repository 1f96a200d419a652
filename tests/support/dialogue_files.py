"""Made-up files in the forms of XDailyDialog and XPersona."""

import json

import reply_files
from put_files import put

from xlbench.benchmarks import XDAILYDIALOG, XPERSONA


def utterances(lang, dialogue, turns=4):
    return [reply_files.text(lang, 100 * dialogue + turn) for turn in range(turns)]


def write_xdailydialog(root):
    """Three training dialogues; each held-out file has one of training and two of its own."""
    folder = root / 'xdailydialog'
    for lang in XDAILYDIALOG.languages:
        train = [' __eou__ '.join(utterances(lang, d)) for d in range(3)]
        place = folder if lang == 'it' else folder / '1k_part_data'
        put(place, f'dialogues_text_{lang.title()}.txt', '\n'.join(train) + '\n')
        for number, split in enumerate(('dev', 'test'), 1):
            dialogues = [utterances(lang, d) for d in (10 * number, 10 * number + 1)]
            dialogues = [[f'{u.capitalize()} !' for u in utterances(lang, 0)], *dialogues]
            lines = ['__eou__ '.join(d) + ' __eou__\t1\t1 2\t0 0\n' for d in dialogues]
            put(folder, f'{lang}_{split}_human.txt.gz', ''.join(lines))


def dialogues_json(lang, numbers):
    """XPersona's form; English opens with __SILENCE__."""
    content = []
    for number in numbers:
        texts = utterances(lang, number)
        pairs = [texts[:2], texts[2:]]
        if lang == 'en':
            pairs = [['__SILENCE__', texts[0]], texts[1:3]]
        content.append({'persona': ['I like tea .'], 'dialogue': pairs})
    return json.dumps(content, ensure_ascii=False)


def write_xpersona(root):
    for lang in XPERSONA.languages:
        prefix = {'ja': 'Jp'}.get(lang, lang.title())
        for split, count in (('valid', 12), ('test', 3)):
            name = f'{prefix}_persona_split_{split}_human_annotated.json'
            if lang == 'en':
                name = f'En_persona_{split}.json'
            # Not the same dialogues, so that none is left out.
            numbers = range(count) if split == 'valid' else range(100, 100 + count)
            put(root / 'xpersona', name, dialogues_json(lang, numbers))
