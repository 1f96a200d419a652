"""Story ending (sg): four sentences, and the fifth is the target.

What happened in the first sentence decides how the story ends; who helped, and where, is said in
the third. The second sentence is about somebody else, the fourth about animals and weather.

  Nora lost a red lantern on Monday. Meanwhile, the judge was carrying a black hat through Mirel.
  Vera had many friends in Torvik. A fox was sleeping in the garden, and it was raining.
  -> Nora and Vera found the red lantern in Torvik.
"""

import random

from xlbench.tasks.samples import lexicon

# How something happens to an object, in three wordings; the same in questions about a passage.
OPENINGS = {
    'en': (
        '{name} {did} {a_object} {time}.',
        '{time}, {name} {did} {a_object}.',
        'People say that {name} {did} {a_object} {time}.',
    ),
    'de': (
        '{name} {did} {time} {a_object}.',
        '{time} {did} {name} {a_object}.',
        'Man sagt, dass {name} {time} {a_object} {did}.',
    ),
    'fr': (
        '{name} {did} {a_object} {time}.',
        '{time}, {name} {did} {a_object}.',
        'On dit que {name} {did} {a_object} {time}.',
    ),
    'es': (
        '{name} {did} {a_object} {time}.',
        '{time}, {name} {did} {a_object}.',
        'Dicen que {name} {did} {a_object} {time}.',
    ),
}
HELPERS = {
    'en': (
        '{name2} had many friends in {town}.',
        'The next day, {name2} wrote a letter from {town}.',
        'In {town}, {name2} offered help at once.',
    ),
    'de': (
        '{name2} hatte viele Freunde in {town}.',
        'Am nächsten Tag schrieb {name2} einen Brief aus {town}.',
        'In {town} bot {name2} sofort Hilfe an.',
    ),
    'fr': (
        "{name2} avait beaucoup d'amis à {town}.",
        'Le lendemain, {name2} a écrit une lettre depuis {town}.',
        'À {town}, {name2} a tout de suite proposé son aide.',
    ),
    'es': (
        '{name2} tenía muchos amigos en {town}.',
        'Al día siguiente, {name2} escribió una carta desde {town}.',
        'En {town}, {name2} ofreció ayuda enseguida.',
    ),
}
# Somebody else with another object in another town: nothing of it belongs into a target.
OTHERS = {
    'en': (
        'Meanwhile, {the_job2} was carrying {a_object2} through {town2}.',
        'In {town2}, {the_job2} only wanted to look at {a_object2}.',
        'Everyone knew that {the_job2} was keeping {a_object2} in {town2}.',
    ),
    'de': (
        'Unterdessen trug {the_job2} {a_object2} durch {town2}.',
        'In {town2} wollte {the_job2} nur {a_object2} ansehen.',
        'Alle wussten, dass {the_job2} in {town2} {a_object2} aufbewahrte.',
    ),
    'fr': (
        'Pendant ce temps, {the_job2} portait {a_object2} dans les rues de {town2}.',
        'À {town2}, {the_job2} voulait seulement regarder {a_object2}.',
        'Tout le monde savait que {the_job2} gardait {a_object2} à {town2}.',
    ),
    'es': (
        'Mientras tanto, {the_job2} llevaba {a_object2} por las calles de {town2}.',
        'En {town2}, {the_job2} solo quería mirar {a_object2}.',
        'Todo el mundo sabía que {the_job2} guardaba {a_object2} en {town2}.',
    ),
}
SCENES = {
    'en': (
        '{animal} was sleeping in the garden, and {weather}.',
        '{animal} ran across the street, and {weather}.',
        '{weather}, and behind the house {animal} was looking for food.',
    ),
    'de': (
        '{animal} schlief im Garten, und {weather}.',
        '{animal} lief über die Straße, und {weather}.',
        '{weather}, und hinter dem Haus suchte {animal} nach Futter.',
    ),
    'fr': (
        '{animal} dormait dans le jardin et {weather}.',
        '{animal} traversait la rue et {weather}.',
        '{weather}, et derrière la maison {animal} cherchait à manger.',
    ),
    'es': (
        '{animal} dormía en el jardín y {weather}.',
        '{animal} cruzaba la calle y {weather}.',
        '{weather}, y detrás de la casa {animal} buscaba comida.',
    ),
}
# What happened, and how the story ends: a row an event.
EVENTS = {
    'en': (
        ('lost', '{name} and {name2} found {the_object} in {town}.'),
        ('damaged', '{name2} repaired {the_object} for {name} in {town}.'),
        ('forgot', 'From {town}, {name2} brought {name} {the_object}.'),
        ('bought', 'In {town}, {name} gave {name2} {the_object}.'),
        ('painted', '{name2} showed {the_object} by {name} in {town}.'),
    ),
    'de': (
        ('verlor', '{name} und {name2} fanden {the_object} in {town}.'),
        ('beschädigte', '{name2} reparierte {the_object} für {name} in {town}.'),
        ('vergaß', 'Aus {town} brachte {name2} {name} {the_object}.'),
        ('kaufte', 'In {town} schenkte {name} {name2} {the_object}.'),
        ('bemalte', '{name2} zeigte {the_object} von {name} in {town}.'),
    ),
    'fr': (
        ('a perdu', '{name} et {name2} ont trouvé {the_object} à {town}.'),
        ('a abîmé', '{name2} a réparé {the_object} pour {name} à {town}.'),
        ('a oublié', 'De {town}, {name2} a apporté {the_object} à {name}.'),
        ('a acheté', 'À {town}, {name} a offert {the_object} à {name2}.'),
        ('a peint', '{name2} a montré {the_object} de {name} à {town}.'),
    ),
    'es': (
        ('perdió', '{name} y {name2} encontraron {the_object} en {town}.'),
        ('dañó', '{name2} reparó {the_object} para {name} en {town}.'),
        ('olvidó', 'Desde {town}, {name2} le llevó {the_object} a {name}.'),
        ('compró', 'En {town}, {name} le regaló {the_object} a {name2}.'),
        ('pintó', '{name2} mostró {the_object} de {name} en {town}.'),
    ),
}


def example(rng: random.Random) -> dict[str, tuple[str, str]]:
    """One example, by language: source, target."""
    meanings = lexicon.sample(rng)
    event = rng.randrange(len(EVENTS['en']))
    opening, other, helper, scene = (rng.randrange(3) for _ in range(4))
    texts = {}
    for lang in lexicon.LANGUAGES:
        did, ending = EVENTS[lang][event]
        filled = lexicon.forms(lang, meanings) | {'did': did}
        story = (
            OPENINGS[lang][opening],
            OTHERS[lang][other],
            HELPERS[lang][helper],
            SCENES[lang][scene],
        )
        source = ' '.join(lexicon.sentence(template, filled) for template in story)
        texts[lang] = source, lexicon.sentence(ending, filled)
    return texts
