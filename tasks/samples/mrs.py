"""Sample corpora of MRS: made-up messages and replies in the benchmark's layout, made from a seed.

Writes below `<root>/mrs`, for ten languages, what `tasks/mrs.py` reads: pairs, response sets, and
for two languages what is shown for a response. The splits say the same in all languages, line by
line. `mt_train` and `mt_valid` say what the first English training pairs and the English validation
pairs say, with the slips of a translating machine.

A frame says one thing in ten languages, in one or two wordings; frames.txt holds them with their
replies, a short and a long one, and phrases.txt what fills their slots:

  de: Das Treffen ist nicht {hour2}, sondern {hour}.
  de: Okay, {hour}. | Okay, ich bin {hour} da.

The meaning alone decides the reply, never the words: {hour} is what holds and {hour2} what does
not, wherever they stand, and other frames have nearly the same words (who helps whom, the next week
or the last one, the first or the last of two). Around it stand sentences that say nothing about it,
with one exception: beside a sentence of haste the reply is the first, short wording.
"""

import collections
import itertools
import math
import os
import random
import re
from collections.abc import Sequence
from typing import NamedTuple

from xlbench.data import tokenizers
from xlbench.tasks.samples import corpus, texts

LANGUAGES = ('en', 'es', 'de', 'pt', 'fr', 'ja', 'it', 'sv', 'nl', 'ru')
# Pairs of each split in each language.
SPLITS = {'train': 1800, 'valid': 120, 'test': 150}
MT_PAIRS = 600
# Files of the training split, of these languages; of the others there is one.
_PARTS = {'en': 3, 'ja': 2}
# A response occurs so often in the training split (20 times in the 1.4 to 49 million of the paper).
_MIN_COUNT = 2
_MAPPED = ('en', 'de')  # The languages whose exclamations are shown with a face.

# How many of the translated pairs have a slip: sentences left in English, messages, replies.
_UNTRANSLATED, _MESSAGE_SLIPS, _REPLY_SLIPS = 0.1, 0.2, 0.1

_SLOT = re.compile(r'{(([a-z]+)\d?)}')
_SENTENCE = re.compile(r'(?:^|(?<=[.?!] ))[¿¡]?\w')
# How often a frame is drawn, by whether it tells two of a kind apart, has slots, or has none.
_PAIR_WEIGHT, _SLOTS_WEIGHT, _PLAIN_WEIGHT = 8, 2, 1
_SECOND, _HURRY = 0.6, 0.5  # How often a second sentence stands beside, and one of haste.

Pair = tuple[str, str]  # Message, reply.


class Frame(NamedTuple):
    """A message and its replies, in every language."""

    messages: dict[str, tuple[str, ...]]  # By language, its wordings.
    replies: dict[str, tuple[str, ...]]  # By language, the short and the long answer.
    says: str  # The name of the frame that first has these replies.
    slots: dict[str, str]  # Slot of the messages -> what fills it: {'day2': 'day'}

    @property
    def weight(self) -> int:
        """Relative frequency of drawing it."""
        if len(self.slots) > len({*self.slots.values()}):
            return _PAIR_WEIGHT
        return _SLOTS_WEIGHT if self.slots else _PLAIN_WEIGHT


def _frames() -> dict[str, Frame]:
    frames: dict[str, Frame] = {}
    for header, block in texts.read('frames').items():
        name, _, says = header.partition(' = ')
        rows = block.by_language()
        of_places = zip(*rows.values(), strict=True)
        messages, *replies = (dict(zip(rows, of_place, strict=True)) for of_place in of_places)
        said = frames[says].replies if says else replies[0]
        slots = dict(_SLOT.findall(' '.join(messages['en'])))
        frames[name] = Frame(messages, said, says or name, slots)
    return frames


PHRASES = {name: block.wordings() for name, block in texts.read('phrases').items()}
FRAME = _frames()


class Meaning(NamedTuple):
    """Meaning of one pair, in no language."""

    frame: str
    wording: int  # Number of the message's wording.
    rows: dict[str, int]  # Slot -> number of the phrase that fills it.
    beside: tuple['Beside', ...]  # The sentences around.
    place: int  # How many of them stand before the message.

    @property
    def short(self) -> bool:
        """True if the answer is the short one."""
        return any(sentence.kind == 'hurry' for sentence in self.beside)


class Beside(NamedTuple):
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
    """The message in one language, and the sentences around it in that or another one."""
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


def make_splits(seed: int) -> dict[str, list[Meaning]]:
    """Draws every split's pairs; no message occurs twice, in any language or split."""
    return corpus.draw_splits(
        'mrs',
        SPLITS,
        seed,
        lambda rng, _: sample(rng),
        lambda meaning: ((lang, message(meaning, lang)) for lang in LANGUAGES),
    )


def translated(
    meanings: Sequence[Meaning], lang: str, seed: int, split: str = 'mt_train'
) -> list[Pair]:
    """English pairs as a machine would translate them, for `mt_train` or `mt_valid`."""
    rng = random.Random(f'mrs/{split}/{lang}/{seed}')
    pairs = []
    for meaning in meanings:
        beside = 'en' if rng.random() < _UNTRANSLATED else lang
        said, answer = message(meaning, lang, beside), reply(meaning, lang)[0]
        said = _slip(said, lang, rng) if rng.random() < _MESSAGE_SLIPS else said
        answer = _slip(answer, lang, rng) if rng.random() < _REPLY_SLIPS else answer
        pairs.append((said, answer))
    return pairs


def _slip(text: str, lang: str, rng: random.Random) -> str:
    """Leaves a short word out, in Japanese a particle; see `corpus.slip`."""
    if lang == 'ja':
        places = [i for i, character in enumerate(text) if character in 'はがをにで']
        at = rng.choice(places) if places else len(text)
        return text[:at] + text[at + 1 :]
    return corpus.slip(text, rng, lambda word: len(word) <= 3 and word.isalpha())


def response_set(pairs: Sequence[tuple[str, tuple]]) -> list[tuple[float, str, str]]:
    """The frequent replies of pairs (reply, what it says), most frequent first.

    Each has the logarithm of its relative frequency, text and cluster; one cluster says one thing.
    """
    counts = collections.Counter(text for text, _ in pairs)
    says = dict(pairs)
    clusters: dict[tuple, str] = {}
    rows = []
    for text, count in counts.most_common():
        if count >= _MIN_COUNT:
            cluster = clusters.setdefault(says[text], f'c{len(clusters)}')
            rows.append((round(math.log(count / len(pairs)), 4), text, cluster))
    return rows


def _write_corpora(folder: str, seed: int) -> None:
    splits = make_splits(seed)
    for lang in LANGUAGES:
        said = {
            split: [(message(m, lang), *reply(m, lang)) for m in meanings]
            for split, meanings in splits.items()
        }
        pairs = {split: [row[:2] for row in rows] for split, rows in said.items()}
        responses = response_set([row[1:] for row in said['train']])
        known = {text for _, text, _ in responses}
        pairs['gmr_valid'] = [pair for pair in pairs['valid'] if pair[1] in known]
        if lang != 'en':
            pairs['mt_train'] = translated(splits['train'][:MT_PAIRS], lang, seed)
            pairs['mt_valid'] = translated(splits['valid'], lang, seed, 'mt_valid')
        for split, rows in pairs.items():
            parts = _PARTS.get(lang, 1) if split == 'train' else 1
            ends = [len(rows) * part // parts for part in range(parts + 1)]
            for part, (start, end) in enumerate(itertools.pairwise(ends)):
                # The last two columns are in the official files, and nobody reads them.
                lines = [(*row, '0', '0') for row in rows[start:end]]
                _write_rows(folder, split, lang, f'{part:03}.tsv', lines)
        _write_rows(folder, 'rsp_set', lang, 'response_lm_cluster.txt', responses)
        if lang in _MAPPED:
            shown = [(text, f'{text} 🙂' if text[-1] == '!' else text) for _, text, _ in responses]
            _write_rows(folder, 'rsp_map', lang, 'response.mapping.txt', shown)


def _write_rows(folder: str, kind: str, lang: str, name: str, rows: Sequence[Sequence]) -> None:
    text = ''.join('\t'.join(map(str, row)) + '\n' for row in rows)
    corpus.write_text(os.path.join(folder, kind, lang, name), text)


def _train(folder: str) -> bytes:
    """Trained on the training pairs; the words are few, so most become one piece."""
    lines = [
        text
        for lang in LANGUAGES
        for name in sorted(os.listdir(os.path.join(folder, 'train', lang)))
        for line in corpus.lines(folder, 'train', lang, name)
        for text in line.split('\t')[:2]
    ]
    symbols = [f'<{lang}>' for lang in LANGUAGES]
    return tokenizers.train_sentencepiece(lines, size=4000, symbols=symbols, model_type='bpe')


SAMPLE = corpus.Sample(
    name='mrs',
    generator=2,
    texts=('frames', 'phrases'),
    vocabulary=tokenizers.SAMPLE_FILES['sample_mrs'],
    fill=_write_corpora,
    train=_train,
)
write = SAMPLE.write
