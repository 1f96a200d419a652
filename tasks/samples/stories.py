"""Story ending (sg): four sentences, and the fifth is the target.

What happened in the first sentence decides how the story ends; who helped, and where, is said in
the third. The second sentence is about somebody else, the fourth about animals and weather.

  Nora lost a red lantern on Monday. Meanwhile, the judge was carrying a black hat through Mirel.
  Vera had many friends in Torvik. A fox was sleeping in the garden, and it was raining.
  -> Nora and Vera found the red lantern in Torvik.
"""

import random

from xlbench.tasks.samples import lexicon, texts

_BLOCKS = texts.read('stories')
_SLOTS = {*lexicon.SLOTS, 'did'}
OPENINGS, HELPERS, OTHERS, SCENES = (
    _BLOCKS[name].wordings(lexicon.LANGUAGES, _SLOTS)
    for name in ('openings', 'helpers', 'others', 'scenes')
)
EVENTS = _BLOCKS['events'].by_language(lexicon.LANGUAGES, _SLOTS)  # Rows of (did, ending).


def example(rng: random.Random) -> dict[str, tuple[str, str]]:
    """One example, by language: source, target."""
    meanings = lexicon.sample(rng)
    event = rng.randrange(len(EVENTS['en']))
    opening, other, helper, scene = (rng.randrange(3) for _ in range(4))
    sides = {}
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
        sides[lang] = source, lexicon.sentence(ending, filled)
    return sides
