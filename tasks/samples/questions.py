"""Question generation (qg): a passage, TAB, an answer from it; the target asks for the answer.

The kind of answer decides the question word. Only the one fact is asked for; the passage also says
what somebody else did, and what animals and weather did.

  Everyone knew that the judge was keeping a black hat in Mirel. In Torvik, Nora bought a red
  lantern on Monday. It was raining, and behind the house a fox was looking for food.<TAB>Nora
  -> Who bought the red lantern in Torvik on Monday?
"""

import random

from xlbench.tasks.samples import lexicon, stories, texts

ROLES = ('who', 'what', 'where', 'when', 'how_many')

_BLOCKS = texts.read('questions')
_SLOTS = {*lexicon.SLOTS, 'did', 'do', 'did_plural', 'of_things', 'pronoun', 'how_many', 'what'}
FACTS = _BLOCKS['facts'].wordings(lexicon.LANGUAGES, _SLOTS)
QUESTIONS = {role: _BLOCKS[role].wordings(lexicon.LANGUAGES, _SLOTS, alike=False) for role in ROLES}
VERBS = _BLOCKS['verbs'].table('.+, .+', '.+', '.+, .+', '.+')
ANSWERS = {'who': '{name}', 'what': '{a_object}', 'when': '{time}', 'how_many': '{number}'}
PLACE = _BLOCKS['place'].wordings(lexicon.LANGUAGES, _SLOTS)  # The answer to where.


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
    sides = {}
    for lang in lexicon.LANGUAGES:
        filled = _forms(lang, meanings, verb, role)
        facts = [FACTS[lang][fact], stories.OTHERS[lang][other]]
        passage = (*(facts if fact_first else facts[::-1]), stories.SCENES[lang][scene])
        answer = PLACE[lang][0] if role == 'where' else ANSWERS[role]
        source = ' '.join(lexicon.sentence(template, filled) for template in passage)
        question = lexicon.sentence(QUESTIONS[role][lang][0], filled)
        sides[lang] = f'{source}\t{answer.format_map(filled)}', question
    return sides
