"""The phrases of the sample corpora of MTG and of labels: the closed lists of lexicon.txt.

`sample` draws the meanings of one example; `phrases` are the words that say them in one language,
each with its part of speech, and `forms` the same as plain text, for templates.
"""

import functools
import random
import re

from xlbench.tasks.samples import texts

LANGUAGES = ('en', 'de', 'fr', 'es')

_BLOCKS = texts.read('lexicon')
WOMEN, MEN, TOWNS = (_BLOCKS[name].words() for name in ('women', 'men', 'towns'))
NAMES = (*WOMEN, *MEN)

# Kind of meaning -> language -> the forms of each.
MEANINGS = {
    kind: _BLOCKS[kind].by_language(*LANGUAGES)
    for kind in ('object', 'job', 'things', 'animal', 'time', 'weather', 'number')
}
_SIZES = {'name': len(NAMES), 'town': len(TOWNS)}
_SIZES |= {kind: len(rows['en']) for kind, rows in MEANINGS.items()}


def sample(rng: random.Random) -> dict[str, int]:
    """The meanings of one example, as row numbers; a key with 2 is another one of the kind.

    Every task draws all of them, so that the tasks differ in their sentences only.
    """
    meanings: dict[str, int] = {}
    for kind in ('name', 'town', 'object', 'job'):
        meanings[kind], meanings[f'{kind}2'] = rng.sample(range(_SIZES[kind]), 2)
    meanings['woman2'] = rng.randrange(2)
    for kind in ('things', 'animal', 'time', 'weather', 'number'):
        meanings[kind] = rng.randrange(_SIZES[kind])
    return meanings


def phrases(lang: str, meanings: dict[str, int]) -> dict[str, str]:
    """Looks up the meanings in one language: slot -> words, each with its part of speech.

    Example, fr: {'name': 'Nora/PROPN', 'the_object': "l'/DET écharpe/NOUN chaude/ADJ", ...}
    """

    def said(slot: str) -> texts.Cells:
        return MEANINGS[slot.removesuffix('2')][lang][meanings[slot]]

    filled = {slot: f'{NAMES[meanings[slot]]}/PROPN' for slot in ('name', 'name2')}
    filled |= {slot: f'{TOWNS[meanings[slot]]}/PROPN' for slot in ('town', 'town2')}
    filled |= {slot: said(slot)[0] for slot in ('animal', 'time', 'weather', 'number')}
    filled['things'], filled['how_many'] = said('things')
    filled['a_object'], filled['the_object'] = said('object')
    filled['a_object2'], _ = said('object2')
    # In a headline, English and German have no article.
    bare = filled['a_object'].partition(' ')[2]
    filled['headline_object'] = bare if lang in ('en', 'de') else filled['a_object']
    filled['the_job'] = said('job')[meanings['name'] < len(WOMEN)]
    filled['job'] = filled['the_job'].partition(' ')[2]
    filled['the_job2'] = said('job2')[meanings['woman2']]
    return filled


@functools.cache
def plain(phrase: str) -> str:
    """The text of tagged words. Example: "l'/DET écharpe/NOUN" -> "l'écharpe"."""
    return re.sub('/[A-Z]+', '', phrase).replace("' ", "'")


def forms(lang: str, meanings: dict[str, int]) -> dict[str, str]:
    """`phrases` as plain text, for templates."""
    filled = {slot: plain(phrase) for slot, phrase in phrases(lang, meanings).items()}
    # As object: Spanish puts 'a' before a person, and joins it with 'el'.
    to_job = f'a {filled["the_job"]}' if lang == 'es' else filled['the_job']
    return filled | {'to_the_job': to_job.replace('a el ', 'al ')}


def sentence(template: str, filled: dict[str, str]) -> str:
    """A filled template that starts with a capital letter, also after an inverted mark."""
    text = template.format_map(filled)
    start = 1 if text.startswith('¿') else 0
    return text[:start] + text[start].upper() + text[start + 1 :]
