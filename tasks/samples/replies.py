"""The grammar of the sample replies: a message of what a friend might write, and what one answers.

A frame says one thing in ten languages, in one or two wordings; frames.txt holds them with their
replies, a short and a long one, and phrases.txt what fills their slots:

  de: Das Treffen ist nicht {hour2}, sondern {hour}.
  de: Okay, {hour}. | Okay, ich bin {hour} da.

The meaning alone decides the reply, never the words: {hour} is what holds and {hour2} what does
not, wherever they stand, and other frames have nearly the same words (who helps whom, the next week
or the last one, the first or the last of two). Around it stand sentences that say nothing about it,
with one exception: beside a sentence of haste the reply is the first, short wording.
"""

import dataclasses
import random
import re

from xlbench.tasks.samples import texts

LANGUAGES = ('en', 'es', 'de', 'pt', 'fr', 'ja', 'it', 'sv', 'nl', 'ru')

_SLOT = re.compile(r'{(([a-z]+)\d?)}')
_SENTENCE = re.compile(r'(?:^|(?<=[.?!] ))[¿¡]?\w')
# How often a frame is drawn, by whether it tells two of a kind apart, has slots, or has none.
_PAIR_WEIGHT, _SLOTS_WEIGHT, _PLAIN_WEIGHT = 8, 2, 1
_SECOND, _HURRY = 0.6, 0.5  # How often a second sentence stands beside, and one of haste.


@dataclasses.dataclass(frozen=True)
class Frame:
    """One thing to say.

    Attributes:
      messages: by language, its wordings.
      replies: by language, the short and the long answer.
      says: the name of the frame that first has these replies.
      slots: {'day2': 'day'} for the slots of the messages and what they are filled with.
    """

    messages: dict[str, tuple[str, ...]]
    replies: dict[str, tuple[str, ...]]
    says: str
    slots: dict[str, str]

    @property
    def weight(self) -> int:
        """Relative frequency of drawing it."""
        if len(self.slots) > len({*self.slots.values()}):
            return _PAIR_WEIGHT
        return _SLOTS_WEIGHT if self.slots else _PLAIN_WEIGHT


def _phrases() -> dict[str, dict[str, texts.Cells]]:
    blocks = texts.read('phrases')
    return {name: block.wordings(LANGUAGES, blocks) for name, block in blocks.items()}


def _frames() -> dict[str, Frame]:
    frames: dict[str, Frame] = {}
    known = {f'{name}{number}' for name in PHRASES for number in ('', '2')}
    for header, block in texts.read('frames').items():
        name, _, says = header.partition(' = ')
        if says and says not in frames:
            block.error(block.line, f'has the replies of {says}, which is no block above')
        rows = block.by_language(LANGUAGES, known)
        if len(rows['en']) != (1 if says else 2) or (not says and len(rows['en'][1]) != 2):
            block.error(
                block.line,
                'needs a row of messages in each language, and a row of the short and the long '
                'reply; [NAME = OTHER] needs the messages alone',
            )
        messages = {lang: of_lang[0] for lang, of_lang in rows.items()}
        replies = (
            frames[says].replies if says else {lang: of_lang[1] for lang, of_lang in rows.items()}
        )
        slots = dict(_SLOT.findall(' '.join(messages['en'])))
        frames[name] = Frame(messages, replies, says or name, slots)
    return frames


PHRASES = _phrases()
FRAME = _frames()


@dataclasses.dataclass(frozen=True)
class Meaning:
    """Meaning of one pair, in no language.

    Attributes:
      frame: its name.
      wording: number of the message's wording.
      rows: slot -> number of the phrase that fills it.
      beside: the sentences around, each with the phrases in its own slots.
      place: how many of them stand before the message.
    """

    frame: str
    wording: int
    rows: dict[str, int]
    beside: tuple['Beside', ...]
    place: int

    @property
    def short(self) -> bool:
        """True if the answer is the short one."""
        return any(sentence.kind == 'hurry' for sentence in self.beside)


@dataclasses.dataclass(frozen=True)
class Beside:
    """A sentence beside the message: 'chat' or 'hurry', its number, the rows of its slots."""

    kind: str
    number: int
    rows: dict[str, int]


def sample(rng: random.Random) -> Meaning:
    """Draws a meaning; slots of one kind get different phrases, also in the sentences beside."""
    names = list(FRAME)
    (name,) = rng.choices(names, [FRAME[name].weight for name in names])
    wording = rng.randrange(len(FRAME[name].messages['en']))
    free = {kind: rng.sample(range(len(p['en'])), len(p['en'])) for kind, p in PHRASES.items()}
    rows = {slot: free[kind].pop() for slot, kind in sorted(FRAME[name].slots.items())}
    kinds = ['chat', 'chat'] if rng.random() < _SECOND else ['chat']
    if rng.random() < _HURRY:
        kinds[rng.randrange(len(kinds))] = 'hurry'
    beside = []
    for kind in kinds:
        number = free[kind].pop()
        slots = _SLOT.findall(PHRASES[kind]['en'][number])
        beside.append(Beside(kind, number, {slot: free[of].pop() for slot, of in slots}))
    return Meaning(name, wording, rows, tuple(beside), rng.randint(0, len(beside)))


def message(meaning: Meaning, lang: str, beside_lang: str = '') -> str:
    """The message in one language.

    Args:
        meaning: What it says.
        lang: Its language.
        beside_lang: The language of the sentences around it, if it is another.
    """
    other = beside_lang or lang
    sentences = [_fill(PHRASES[b.kind][other][b.number], b.rows, other) for b in meaning.beside]
    core = FRAME[meaning.frame].messages[lang][meaning.wording]
    sentences.insert(meaning.place, _fill(core, meaning.rows, lang))
    return ('' if lang == 'ja' else ' ').join(sentences)


def reply(meaning: Meaning, lang: str) -> tuple[str, tuple]:
    """The reply in one language, and what it says: equal for replies that say the same."""
    frame = FRAME[meaning.frame]
    template = frame.replies[lang][0 if meaning.short else 1]
    said = {slot: meaning.rows[slot] for slot, _ in _SLOT.findall(template)}
    return _fill(template, meaning.rows, lang), (frame.says, *sorted(said.items()))


def _fill(template: str, rows: dict[str, int], lang: str) -> str:
    """A template with its slots filled, each sentence with a capital letter."""
    filled = _SLOT.sub(lambda m: PHRASES[m[2]][lang][rows[m[1]]], template)
    return _SENTENCE.sub(lambda m: m[0].upper(), filled)
