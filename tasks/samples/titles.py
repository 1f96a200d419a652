"""Title generation (tg): a short news article, its title is the target.

What the first sentence reports decides the form of the title. The article also has a crowd or a
price, somebody else, and animals and weather.

  The baker Nora sold a red lantern in Torvik on Monday. The buyer paid twelve euros. In Mirel, the
  judge only wanted to look at a black hat. A fox ran across the street, and it was raining.
  -> Baker Nora sells red lantern for twelve euros
"""

import random

from xlbench.tasks.samples import lexicon, stories

LEADS = {
    'en': (
        '{the_job} {name} {did} {a_object} in {town} {time}.',
        'In {town}, {the_job} {name} {did} {a_object} {time}.',
        '{time}, {the_job} {name} {did} {a_object} in {town}.',
    ),
    'de': (
        '{the_job} {name} {did} {time} {a_object} in {town}.',
        'In {town} {did} {the_job} {name} {time} {a_object}.',
        '{time} {did} {the_job} {name} {a_object} in {town}.',
    ),
    'fr': (
        '{the_job} {name} a {did} {a_object} à {town} {time}.',
        'À {town}, {the_job} {name} a {did} {a_object} {time}.',
        '{time}, {the_job} {name} a {did} {a_object} à {town}.',
    ),
    'es': (
        '{the_job} {name} {did} {a_object} en {town} {time}.',
        'En {town}, {the_job} {name} {did} {a_object} {time}.',
        '{time}, {the_job} {name} {did} {a_object} en {town}.',
    ),
}
PRICES = {
    'en': 'The buyer paid {number} euros.',
    'de': 'Die Käuferin zahlte {number} Euro.',
    'fr': "L'acheteuse a payé {number} euros.",
    'es': 'La compradora pagó {number} euros.',
}
CROWDS = {
    'en': (
        'About {number} people were there.',
        'Soon {number} neighbours were talking about it.',
        'There are {number} photos of it.',
    ),
    'de': (
        'Etwa {number} Personen waren dabei.',
        'Bald sprachen {number} Nachbarn darüber.',
        'Es gibt {number} Fotos davon.',
    ),
    'fr': (
        'Environ {number} personnes étaient là.',
        'Bientôt, {number} voisins en parlaient.',
        'Il en existe {number} photos.',
    ),
    'es': (
        'Unas {number} personas estaban allí.',
        'Pronto {number} vecinos hablaban de ello.',
        'Existen {number} fotos de ello.',
    ),
}
# What the lead reports, and the title: a row an event. The first is the one with a price.
EVENTS = {
    'en': (
        ('sold', '{job} {name} sells {headline_object} for {number} euros'),
        ('discovered', '{job} {name} finds {headline_object} in {town}'),
        ('lost', '{town}: {job} {name} misses {headline_object}'),
        ('won', '{name} from {town} wins {headline_object}'),
        ('stole', 'Police arrest {job} {name} in {town}'),
    ),
    'de': (
        ('verkaufte', '{job} {name} verkauft {headline_object} für {number} Euro'),
        ('entdeckte', '{job} {name} findet {headline_object} in {town}'),
        ('verlor', '{town}: {job} {name} vermisst {headline_object}'),
        ('gewann', '{name} aus {town} gewinnt {headline_object}'),
        ('stahl', 'Polizei verhaftet {job} {name} in {town}'),
    ),
    'fr': (
        ('vendu', '{the_job} {name} vend {headline_object} pour {number} euros'),
        ('découvert', '{the_job} {name} trouve {headline_object} à {town}'),
        ('perdu', '{town} : {the_job} {name} cherche {headline_object}'),
        ('gagné', '{name} de {town} gagne {headline_object}'),
        ('volé', 'La police arrête {the_job} {name} à {town}'),
    ),
    'es': (
        ('vendió', '{the_job} {name} vende {headline_object} por {number} euros'),
        ('descubrió', '{the_job} {name} encuentra {headline_object} en {town}'),
        ('perdió', '{town}: {the_job} {name} busca {headline_object}'),
        ('ganó', '{name} de {town} gana {headline_object}'),
        ('robó', 'La policía detiene {to_the_job} {name} en {town}'),
    ),
}


def example(rng: random.Random) -> dict[str, tuple[str, str]]:
    """One example, by language: source, target."""
    meanings = lexicon.sample(rng)
    event = rng.randrange(len(EVENTS['en']))
    lead, crowd, other, scene = (rng.randrange(3) for _ in range(4))
    texts = {}
    for lang in lexicon.LANGUAGES:
        did, title = EVENTS[lang][event]
        filled = lexicon.forms(lang, meanings) | {'did': did}
        article = (
            LEADS[lang][lead],
            PRICES[lang] if event == 0 else CROWDS[lang][crowd],
            stories.OTHERS[lang][other],
            stories.SCENES[lang][scene],
        )
        source = ' '.join(lexicon.sentence(template, filled) for template in article)
        texts[lang] = source, lexicon.sentence(title, filled)
    return texts
