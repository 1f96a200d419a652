"""Title generation (tg): a short news article, its title is the target.

What the first sentence reports decides the form of the title. The article also has a crowd or a
price, somebody else, and animals and weather.

  The baker Nora sold a red lantern in Torvik on Monday. The buyer paid twelve euros. In Mirel, the
  judge only wanted to look at a black hat. A fox ran across the street, and it was raining.
  -> Baker Nora sells red lantern for twelve euros
"""

import random

from xlbench.tasks.samples import lexicon, stories, texts

_BLOCKS = texts.read('titles')
_SLOTS = {*lexicon.SLOTS, 'did'}
LEADS, PRICES, CROWDS = (
    _BLOCKS[name].wordings(lexicon.LANGUAGES, _SLOTS) for name in ('leads', 'price', 'crowds')
)
# Rows of (did, title); titles of some languages have an article where others have none.
EVENTS = _BLOCKS['events'].by_language(lexicon.LANGUAGES, _SLOTS, alike=False)


def example(rng: random.Random) -> dict[str, tuple[str, str]]:
    """One example, by language: source, target."""
    meanings = lexicon.sample(rng)
    event = rng.randrange(len(EVENTS['en']))
    lead, crowd, other, scene = (rng.randrange(3) for _ in range(4))
    sides = {}
    for lang in lexicon.LANGUAGES:
        did, title = EVENTS[lang][event]
        filled = lexicon.forms(lang, meanings) | {'did': did}
        article = (
            LEADS[lang][lead],
            PRICES[lang][0] if event == 0 else CROWDS[lang][crowd],
            stories.OTHERS[lang][other],
            stories.SCENES[lang][scene],
        )
        source = ' '.join(lexicon.sentence(template, filled) for template in article)
        sides[lang] = source, lexicon.sentence(title, filled)
    return sides
