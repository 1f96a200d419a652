"""Chats and interviews in English, with summaries in English, German and Chinese.

Who does what, and who is for something, is decided over several turns, so a summary needs all of
the dialogue. In a chat, two to five people share the work for a plan and agree on a time:

  Anna: Hi all! We still have to plan a film night.       -> Anna and Leo plan a film night. Anna
  Leo: I am in.                                              will order the pizza because Leo has
  Anna: Leo, can you order the pizza?                        to work late. They will meet on Monday.
  Leo: Sorry, I have to work late.
  Anna: Then I will do it. Let's meet on Monday.
  Leo: Fine.

In an interview, a host asks two to eight guests about a topic. Some of them change their minds,
and one says what will be done.
"""

import functools
import random
import re
from collections.abc import Sequence

from xlbench.data import actions
from xlbench.tasks.samples import texts

LANGUAGES = ('en', 'de', 'zh')

_BLOCKS = texts.read('talks')
NAMES = _BLOCKS['names'].table()
_CHINESE_NAME = re.compile('|'.join(name for _, name in NAMES))
# The meanings that fill a slot: rows of (en, de, zh).
TABLES = {
    slot: _BLOCKS[name].table()
    for slot, name in {
        'plan': 'plans',
        'job': 'jobs',
        'duty': 'duties',
        'time': 'times',
        'topic': 'topics',
        'measure': 'measures',
    }.items()
}
# A piece of a wording, and who does what in it; see the text file.
ACTIONS = _BLOCKS['actions'].table()
_SAID = ('greetings', 'joining', 'chatter', 'asking', 'accepting', 'refusing', 'replacing',
         'calling', 'volunteering', 'suggesting', 'agreeing', 'objecting', 'welcomes', 'questions',
         'supporting', 'opposing', 'turning', 'ends', 'announcing')  # fmt: skip
UTTERANCES = {name: _BLOCKS[name].wordings()['en'] for name in _SAID}
_TOLD = ('planning', 'doing', 'standing_in', 'meeting', 'talking', 'sides', 'outcome', 'lists')
SENTENCES = {name: _BLOCKS[name].wordings() for name in _TOLD}

_DONE = ('job', 'duty', 'measure')
_OBJECT = re.compile(r' (?=(?:the|an?|bed)\b)')

# Shares of what may happen.
_REFUSED, _CALLED, _OBJECTED, _TURNED, _CHATTER = 0.5, 0.25, 0.4, 0.25, 0.3

People = list[int]  # Rows of NAMES.


class Talk:
    """A dialogue in the making, and what its summaries say.

    Attributes:
      turns: (who speaks, what they say).
      summary: the sentences so far, by language.
      triples: who does what in the turns, a line each; see xlbench.data.actions.
    """

    def __init__(self, rng: random.Random):
        self.rng = rng
        self.turns: list[tuple[int, str]] = []
        self.summary: dict[str, list[str]] = {lang: [] for lang in LANGUAGES}
        self.triples: list[str] = []

    def draw(self, slot: str, count: int) -> list[int]:
        """Draws different rows of a table."""
        return self.rng.sample(range(len(TABLES[slot])), count)

    def say(self, speaker: int, kind: str, name: int | None = None, **meanings: int) -> None:
        """Adds a turn, in one of the wordings of its kind."""
        filled = {slot: TABLES[slot][row][0] for slot, row in meanings.items()}
        if name is not None:
            filled['name'] = NAMES[name][0]
        wording = self.rng.choice(UTTERANCES[kind])
        self.turns.append((speaker, wording.format(**filled)))
        self.triples += _triples(wording, tuple(filled.items()))

    def tell(self, kind: str, people: People, wording: int = 0, **meanings: int) -> None:
        """Adds a sentence to the summaries, about one or several people."""
        for at, lang in enumerate(LANGUAGES):
            names = [NAMES[person][lang == 'zh'] for person in people]
            filled = {slot: TABLES[slot][row][at] for slot, row in meanings.items()}
            filled |= {'name': names[0], 'other': names[-1], 'names': _list(names, lang)}
            self.summary[lang].append(SENTENCES[kind][lang][wording].format(**filled))

    def texts(self, host: int | None = None) -> dict[str, str]:
        """The dialogue, a line a turn, and its summary in each language, as the files have them."""
        lines = [
            f'{NAMES[who][0].upper()}, HOST: {said}' if who == host else f'{NAMES[who][0]}: {said}'
            for who, said in self.turns
        ]
        summaries = {
            lang: ('' if lang == 'zh' else ' ').join(sentences)
            for lang, sentences in self.summary.items()
        }
        return {'dialogue': '\n'.join(lines), 'triples': ''.join(self.triples)} | summaries


def names_apart(chinese: str) -> str:
    """Puts commas around names, since without spaces a piece might hold one and what follows it."""
    return _CHINESE_NAME.sub(r'，\g<0>，', chinese)


def _list(names: Sequence[str], lang: str) -> str:
    """Names as a list. Example: 'Anna, Leo and Tim'."""
    text = names[0]
    for at, name in enumerate(names[1:], 2):
        text = SENTENCES['lists'][lang][at == len(names)].format(name=text, other=name)
    return text


@functools.cache  # Few different utterances are said again and again.
def _triples(wording: str, slots: tuple[tuple[str, str], ...]) -> list[str]:
    """Lists the triples of an utterance, a line each."""
    filled = dict(slots)
    done = next((filled[slot] for slot in _DONE if slot in filled), '')
    # Example: 'look for the key' -> 'look for', 'the key'; 'work late' has no object.
    does, _, what = _OBJECT.sub('|', done, count=1).partition('|')
    lines = []
    for piece, *phrases in ACTIONS:
        if piece not in wording:
            continue
        names = {**filled, 'does': does, 'what': what}
        subject, relation, target = (phrase.format(**names) for phrase in phrases)
        for number, tokens in enumerate(actions.sentences(wording.format(**filled))):
            at = actions.find(subject, tokens)
            verb = at and actions.find(relation, tokens, at[1])
            if verb:
                behind = actions.find(target, tokens, verb[1]) if target else None
                triple = actions.Triple(at, verb, behind or (0, 0))
                tags = ['_'] * len(tokens)
                lines.append(actions.line(actions.OF_SAMPLE, number, tokens, tags, triple))
    return lines


def chat(rng: random.Random) -> dict[str, str]:
    """One chat: `dialogue`, `triples`, and a summary by language."""
    talk = Talk(rng)
    people = rng.sample(range(len(NAMES)), rng.choice((2, 2, 3, 3, 4, 5)))
    first, *others = people
    (plan,) = talk.draw('plan', 1)
    talk.say(first, 'greetings', plan=plan)
    for person in others:
        talk.say(person, 'joining')
    talk.tell('planning', people, plan=plan)
    for job in talk.draw('job', rng.choice((1, 2))):
        if rng.random() < _CHATTER:
            talk.say(rng.choice(people), 'chatter')
        _share(talk, people, job)
    time, later = talk.draw('time', 2)
    one, two = rng.sample(people, 2)
    talk.say(one, 'suggesting', time=time)
    if rng.random() < _OBJECTED:
        talk.say(two, 'objecting', time=later)
        one, two, time = two, one, later
    talk.say(two, 'agreeing')
    talk.tell('meeting', people, time=time)
    return talk.texts()


def _share(talk: Talk, people: People, job: int) -> None:
    """Somebody takes a job: the one who is asked, another one instead, or a volunteer."""
    rng = talk.rng
    one, two = rng.sample(people, 2)
    if rng.random() < _CALLED:
        talk.say(one, 'calling', job=job)
        talk.say(two, 'volunteering')
        talk.tell('doing', [two], job=job)
        return
    talk.say(one, 'asking', two, job=job)
    if rng.random() < _REFUSED:
        (duty,) = talk.draw('duty', 1)
        talk.say(two, 'refusing', duty=duty)
        helper = rng.choice([person for person in people if person != two])
        talk.say(helper, 'replacing')
        talk.tell('standing_in', [helper, two], job=job, duty=duty)
    else:
        talk.say(two, 'accepting')
        talk.tell('doing', [two], job=job)


def interview(rng: random.Random) -> dict[str, str]:
    """One interview: `dialogue`, `triples`, and a summary by language."""
    talk = Talk(rng)
    host, *guests = rng.sample(range(len(NAMES)), rng.choice((3, 3, 4, 4, 5, 6, 7, 8, 9)))
    (topic,) = talk.draw('topic', 1)
    talk.say(host, 'welcomes', topic=topic)
    talk.tell('talking', [host], topic=topic)
    supports = {guest: rng.random() < 0.5 for guest in guests}
    for guest in guests:
        if rng.random() < _CHATTER:
            talk.say(host, 'questions', guest)
        talk.say(guest, 'supporting' if supports[guest] else 'opposing')
    if rng.random() < _TURNED:
        turned = rng.choice(guests[:-1])
        talk.say(turned, 'turning')
        supports[turned] = not supports[turned]
    for side in (True, False):
        group = [guest for guest in guests if supports[guest] == side]
        if group:
            talk.tell('sides', group, (0 if side else 2) + (len(group) > 1))
    (measure,) = talk.draw('measure', 1)
    last = rng.choice(guests)
    talk.say(host, 'ends', last)
    talk.say(last, 'announcing', measure=measure)
    talk.tell('outcome', [last], measure=measure)
    return talk.texts(host)
