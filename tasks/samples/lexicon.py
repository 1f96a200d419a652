"""The words of the sample corpora: the closed lists of lexicon.txt, a row a meaning.

`sample` draws the meanings of one example; `forms` spells them in one language, as phrases that
fit into a sentence as they are. A row keeps what the spelling needs: gender, and the adjective's
stem for German. Names and towns are the same in all languages and start with a consonant, so
French never elides before them.
"""

import random

from xlbench.tasks.samples import texts

LANGUAGES = ('en', 'de', 'fr', 'es')

_BLOCKS = texts.read('lexicon')
WOMEN, MEN, TOWNS = (_BLOCKS[name].words() for name in ('women', 'men', 'towns'))
NAMES = (*WOMEN, *MEN)
# Of objects, German: gender, stem of the adjective, noun. French, Spanish: gender, phrase.
OBJECTS, JOBS, THINGS, ANIMALS, TIMES, WEATHER, NUMBERS = (
    _BLOCKS[name].table()
    for name in ('objects', 'jobs', 'things', 'animals', 'times', 'weather', 'numbers')
)

_VOWELS = 'aeiouyéèêâîôœ'


def english_article(phrase: str) -> str:
    """'old clock' -> 'an old clock'."""
    return ('an ' if phrase[0] in 'aeio' else 'a ') + phrase


def french_article(gender: str, phrase: str) -> str:
    """('f', 'écharpe chaude') -> "l'écharpe chaude"."""
    if phrase[0] in _VOWELS:
        return "l'" + phrase
    return ('la ' if gender == 'f' else 'le ') + phrase


def french_of(noun: str) -> str:
    """'œufs' -> "d'œufs"; 'livres' -> 'de livres'."""
    return ("d'" if noun[0] in _VOWELS else 'de ') + noun


def object_forms(lang: str, index: int) -> tuple[str, str, str]:
    """An object as direct object: with 'a', with 'the', and as a headline has it.

    Example: 'm schwarz Hut' -> 'einen schwarzen Hut', 'den schwarzen Hut', 'schwarzen Hut'.
    """
    cell = OBJECTS[index][LANGUAGES.index(lang)]
    if lang == 'en':
        return english_article(cell), f'the {cell}', cell
    if lang == 'de':
        gender, stem, noun = cell.split()
        strong = {'m': 'en', 'f': 'e', 'n': 'es'}[gender]
        weak = {'m': 'en', 'f': 'e', 'n': 'e'}[gender]
        a = {'m': 'einen', 'f': 'eine', 'n': 'ein'}[gender]
        the = {'m': 'den', 'f': 'die', 'n': 'das'}[gender]
        bare = f'{stem}{strong} {noun}'
        return f'{a} {bare}', f'{the} {stem}{weak} {noun}', bare
    gender, phrase = cell.split(maxsplit=1)
    if lang == 'fr':
        a = ('une ' if gender == 'f' else 'un ') + phrase
        return a, french_article(gender, phrase), a
    a = ('una ' if gender == 'f' else 'un ') + phrase
    return a, ('la ' if gender == 'f' else 'el ') + phrase, a


def job_forms(lang: str, index: int, woman: bool) -> tuple[str, str]:
    """A job as subject: with 'the', and as a headline has it.

    Example: 'engineer' -> "l'ingénieure", 'ingénieure' for a woman in French.
    """
    job = JOBS[index][LANGUAGES.index(lang)].split(', ')[-1 if woman else 0]
    if lang == 'en':
        return f'the {job}', job
    if lang == 'de':
        return ('die ' if woman else 'der ') + job, job
    if lang == 'fr':
        return french_article('f' if woman else 'm', job), job
    return ('la ' if woman else 'el ') + job, job


def sample(rng: random.Random) -> dict[str, int]:
    """The meanings of one example, as row numbers; a key with 2 is another one of the kind.

    Every task draws all of them, so that the tasks differ in their sentences only.
    """
    name, name2 = rng.sample(range(len(NAMES)), 2)
    town, town2 = rng.sample(range(len(TOWNS)), 2)
    thing, thing2 = rng.sample(range(len(OBJECTS)), 2)
    job, job2 = rng.sample(range(len(JOBS)), 2)
    return {
        'name': name,
        'name2': name2,
        'town': town,
        'town2': town2,
        'object': thing,
        'object2': thing2,
        'job': job,
        'job2': job2,
        'woman2': rng.randrange(2),
        'things': rng.randrange(len(THINGS)),
        'animal': rng.randrange(len(ANIMALS)),
        'time': rng.randrange(len(TIMES)),
        'weather': rng.randrange(len(WEATHER)),
        'number': rng.randrange(len(NUMBERS)),
    }


def forms(lang: str, meanings: dict[str, int]) -> dict[str, str]:
    """Looks up the meanings in one language, for templates."""
    column = LANGUAGES.index(lang)
    filled = {key: NAMES[meanings[key]] for key in ('name', 'name2')}
    filled |= {key: TOWNS[meanings[key]] for key in ('town', 'town2')}
    for key, rows in (
        ('animal', ANIMALS),
        ('time', TIMES),
        ('weather', WEATHER),
        ('number', NUMBERS),
        ('things', THINGS),
    ):
        filled[key] = rows[meanings[key]][column]
    filled['things'] = filled['things'].split()[-1]  # Without the gender that Spanish rows have.
    filled['a_object'], filled['the_object'], filled['headline_object'] = object_forms(
        lang, meanings['object']
    )
    filled['a_object2'] = object_forms(lang, meanings['object2'])[0]
    women = len(WOMEN)
    filled['the_job'], filled['job'] = job_forms(lang, meanings['job'], meanings['name'] < women)
    # As object: Spanish puts 'a' before a person, and joins it with 'el'.
    to_job = 'a ' + filled['the_job'] if lang == 'es' else filled['the_job']
    filled['to_the_job'] = to_job.replace('a el ', 'al ')
    filled['the_job2'], _ = job_forms(lang, meanings['job2'], bool(meanings['woman2']))
    return filled


def sentence(template: str, filled: dict[str, str]) -> str:
    """A filled template that starts with a capital letter, also after an inverted mark."""
    text = template.format_map(filled)
    start = 1 if text.startswith('¿') else 0
    return text[:start] + text[start].upper() + text[start + 1 :]
