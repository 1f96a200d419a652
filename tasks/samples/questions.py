"""Question generation (qg): a passage, TAB, an answer from it; the target asks for the answer.

The kind of answer decides the question word. Only the one fact is asked for; the passage also says
what somebody else did, and what animals and weather did.

  Everyone knew that the judge was keeping a black hat in Mirel. In Torvik, Nora bought a red
  lantern on Monday. It was raining, and behind the house a fox was looking for food.<TAB>Nora
  -> Who bought the red lantern in Torvik on Monday?
"""

import random

from xlbench.tasks.samples import lexicon, stories

ROLES = ('who', 'what', 'where', 'when', 'how_many')

FACTS = {
    'en': (
        '{name} {did} {what} in {town} {time}.',
        'In {town}, {name} {did} {what} {time}.',
        '{time}, {name} {did} {what} in {town}.',
    ),
    'de': (
        '{name} {did} {time} {what} in {town}.',
        'In {town} {did} {name} {time} {what}.',
        '{time} {did} {name} {what} in {town}.',
    ),
    'fr': (
        '{name} a {did} {what} à {town} {time}.',
        'À {town}, {name} a {did} {what} {time}.',
        '{time}, {name} a {did} {what} à {town}.',
    ),
    'es': (
        '{name} {did} {what} en {town} {time}.',
        'En {town}, {name} {did} {what} {time}.',
        '{time}, {name} {did} {what} en {town}.',
    ),
}
# French: a direct object before the participle makes it agree, hence did_plural.
QUESTIONS = {
    'en': {
        'who': 'Who {did} {the_object} in {town} {time}?',
        'what': 'What did {name} {do} in {town} {time}?',
        'where': 'Where did {name} {do} {the_object} {time}?',
        'when': 'When did {name} {do} {the_object} in {town}?',
        'how_many': 'How many {things} did {name} {do} in {town} {time}?',
    },
    'de': {
        'who': 'Wer {did} {time} {the_object} in {town}?',
        'what': 'Was {did} {name} {time} in {town}?',
        'where': 'Wo {did} {name} {time} {the_object}?',
        'when': 'Wann {did} {name} {the_object} in {town}?',
        'how_many': 'Wie viele {things} {did} {name} {time} in {town}?',
    },
    'fr': {
        'who': 'Qui a {did} {the_object} à {town} {time} ?',
        'what': "Qu'a {did} {name} à {town} {time} ?",
        'where': 'Où {name} a-t-{pronoun} {did} {the_object} {time} ?',
        'when': 'Quand {name} a-t-{pronoun} {did} {the_object} à {town} ?',
        'how_many': 'Combien {of_things} {name} a-t-{pronoun} {did_plural} à {town} {time} ?',
    },
    'es': {
        'who': '¿Quién {did} {the_object} en {town} {time}?',
        'what': '¿Qué {did} {name} en {town} {time}?',
        'where': '¿Dónde {did} {name} {the_object} {time}?',
        'when': '¿Cuándo {did} {name} {the_object} en {town}?',
        'how_many': '¿{how_many} {things} {did} {name} en {town} {time}?',
    },
}
# en: past, infinitive; de, es: past; fr: participle, its plural.
VERBS = lexicon.table("""
bought, buy | kaufte | acheté, achetés | compró
sold, sell | verkaufte | vendu, vendus | vendió
found, find | fand | trouvé, trouvés | encontró
lost, lose | verlor | perdu, perdus | perdió
hid, hide | versteckte | caché, cachés | escondió
photographed, photograph | fotografierte | photographié, photographiés | fotografió
drew, draw | zeichnete | dessiné, dessinés | dibujó
cleaned, clean | putzte | nettoyé, nettoyés | limpió
stole, steal | stahl | volé, volés | robó
""")
ANSWERS = {
    'who': '{name}',
    'what': '{a_object}',
    'where': {'en': 'in {town}', 'de': 'in {town}', 'fr': 'à {town}', 'es': 'en {town}'},
    'when': '{time}',
    'how_many': '{number}',
}


def _forms(lang: str, meanings: dict[str, int], verb: int, role: str) -> dict[str, str]:
    """The words of the passage and the question in one language."""
    column = lexicon.LANGUAGES.index(lang)
    filled = lexicon.forms(lang, meanings)
    verb_forms = VERBS[verb][column].split(', ')
    filled['did'] = verb_forms[0]
    filled['do'] = filled['did_plural'] = verb_forms[-1]
    filled['of_things'] = lexicon.french_of(filled['things'])
    # The French question repeats its subject after the verb.
    filled['pronoun'] = 'elle' if meanings['name'] < len(lexicon.WOMEN) else 'il'
    feminine = lexicon.THINGS[meanings['things']][3].startswith('f ')
    filled['how_many'] = 'Cuántas' if feminine else 'Cuántos'
    filled['what'] = (
        '{number} {things}'.format_map(filled) if role == 'how_many' else filled['a_object']
    )
    return filled


def example(rng: random.Random) -> dict[str, tuple[str, str]]:
    """One example, by language: source (passage, TAB, answer), target."""
    meanings = lexicon.sample(rng)
    role = rng.choice(ROLES)
    verb = rng.randrange(len(VERBS))
    fact, other, scene = (rng.randrange(3) for _ in range(3))
    fact_first = rng.random() < 0.5
    texts = {}
    for lang in lexicon.LANGUAGES:
        filled = _forms(lang, meanings, verb, role)
        told = [FACTS[lang][fact], stories.OTHERS[lang][other]]
        passage = (*(told if fact_first else told[::-1]), stories.SCENES[lang][scene])
        answer = ANSWERS[role][lang] if role == 'where' else ANSWERS[role]
        source = ' '.join(lexicon.sentence(template, filled) for template in passage)
        question = lexicon.sentence(QUESTIONS[lang][role], filled)
        texts[lang] = f'{source}\t{answer.format_map(filled)}', question
    return texts
