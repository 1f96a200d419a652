"""The marks of BART(D_ALL): keywords, redundant utterances, topics.

Feng et al. 2021 (aclanthology.org/2021.acl-long.117, github.com/xcfcode/PLM_annotator) take them
from DialoGPT: words with a high loss are keywords, an utterance with a high mean loss begins a
topic, and an utterance that hardly changes the model's state is redundant. This file has the rules;
xlbench/dialogues/mark.py runs the model.

The words of a marked utterance are separated by spaces: `Anna : See you at eight`.
"""

import dataclasses
import re
import string
from collections.abc import Collection, Sequence

import numpy as np

from xlbench.data.segments import MARK
from xlbench.system.errors import UserError

KINDS = ('keywords', 'redundancy', 'topics')
KEYWORDS, REDUNDANT, TOPIC = '#KEY#', '[RD]', '[TS]'
_WORD = re.compile(r"\w+(?:[.'’-]\w+)*|[^\w\s]")
_SPEAKER = re.compile(r'\s*([^:]*?)\s*:(?=\s|$)')


@dataclasses.dataclass(frozen=True)
class Utterance:
    """An utterance of a speaker."""

    speaker: str  # '': unknown.
    words: tuple[str, ...]
    # Of the words, in nats, see `word_losses`. There are none in the first utterance, nor for words
    # beyond the length that the model reads.
    losses: tuple[float, ...] = ()

    @property
    def loss(self) -> float:
        """The mean of the losses, 0 without any."""
        return sum(self.losses) / max(len(self.losses), 1)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """Thresholds of marks; the defaults are for chats (SAMSum).

    For meetings (AMI) the authors take 0.04, 0.95 and 0.05.
    """

    keywords: float = 0.15  # Share of the words that become keywords.
    redundancy: float = 0.99  # Least cosine of two states between which nothing new was said.
    topics: float = 0.15  # Share of the utterances that begin a topic.
    official: bool = False  # As in the authors' code, a share below one word selects all words.

    def __post_init__(self):
        for name, least in (('keywords', 0.0), ('topics', 0.0), ('redundancy', -1.0)):
            if not least <= getattr(self, name) <= 1:
                raise UserError(f'{name} is {getattr(self, name)}; {least:g} to 1 is allowed')


def utterances_of(dialogue: str) -> list[Utterance]:
    """Returns the lines of a dialogue that are not empty as utterances.

    Example: 'Anna: Hi, Ben!' -> Utterance('Anna', ('Hi', ',', 'Ben', '!'))
    """
    utterances = []
    for line in dialogue.splitlines():
        name = _SPEAKER.match(line)
        text = line[name.end() :] if name else line
        if line.strip():
            words = tuple(_WORD.findall(text))
            utterances.append(Utterance(' '.join(name[1].split()) if name else '', words))
    return utterances


def word_losses(piece_losses: Sequence[float], piece_counts: Sequence[int]) -> tuple[float, ...]:
    """Returns the mean loss, in nats, of each word whose pieces all have one.

    Example: [2, 4, 1.5], [2, 1] -> (3.0, 1.5)
    """
    losses, start = [], 0
    for count in piece_counts:
        pieces = piece_losses[start : start + count]
        if len(pieces) < count or not count:
            break
        losses.append(float(sum(pieces)) / count)
        start += count
    return tuple(losses)


def keywords(utterances: Sequence[Utterance], settings: Settings) -> list[str]:
    """Returns names of speakers, words of the first utterance, and words with the highest losses.

    The latter are chosen among all words but the first of each utterance, and keep the order of the
    text. Punctuation is dropped. Of equal losses the later one counts as higher.
    """
    names = list(dict.fromkeys(u.speaker for u in utterances if u.speaker))
    first = [word for u in utterances[:1] for word in u.words if word not in names]
    scored = [
        pair
        for utterance in utterances[1:]
        for pair in list(zip(utterance.losses, utterance.words, strict=False))[1:]
    ]
    count = int(len(scored) * settings.keywords)
    if settings.official and not count:
        count = len(scored)
    ordered = sorted(range(len(scored)), key=lambda i: scored[i][0])
    chosen = sorted(ordered[len(scored) - count :])
    said = [*first, *(scored[i][1] for i in chosen)]
    return [word for word in (*names, *said) if word not in string.punctuation]


def topic_starts(utterances: Sequence[Utterance], settings: Settings) -> list[int]:
    """Returns the utterances that begin a topic, by falling loss; never the first two."""
    count = int(len(utterances) * settings.topics)
    later = range(2, len(utterances))
    return sorted(later, key=lambda i: utterances[i].loss, reverse=True)[:count]


def similarities(states: np.ndarray) -> list[list[float]]:
    """Returns the cosines of states [utterances, features] with those of all utterances before.

    There is a list for each utterance but the first, from the last one backwards.
    """
    states = states.astype(np.float64)
    states = states / np.maximum(np.linalg.norm(states, axis=1, keepdims=True), 1e-12)
    cosines = states @ states.T
    return [cosines[i, :i].tolist() for i in range(len(states) - 1, 0, -1)]


def redundant(cosines: Sequence[Sequence[float]], settings: Settings) -> list[int]:
    """Returns the redundant utterances, ascending, from the cosines of `similarities`.

    Each utterance is compared with those before it, backwards. As long as the states are similar,
    the utterances in between are redundant.
    """
    marked = set()
    for row in cosines:
        for before in range(len(row) - 1, -1, -1):
            if row[before] < settings.redundancy:
                break
            marked.add(before + 1)
    return sorted(marked)


def marked_text(
    utterances: Sequence[Utterance],
    key_words: Sequence[str] | None = None,
    topics: Collection[int] = (),
    unneeded: Collection[int] = (),
) -> str:
    """Returns a dialogue on one line, with its marks.

    `key_words` are written behind it, with None without their mark; `topics` are the utterances
    that begin a topic, and `unneeded` the redundant ones.

    Example: 'Anna : Hi | Ben : Hello | [TS] | Anna : [RD] Bye #KEY# Anna Ben Hi'
    """
    parts = []
    for i, utterance in enumerate(utterances):
        name = [utterance.speaker, ':'] if utterance.speaker else []
        parts += [TOPIC] if i in topics else []
        parts.append(' '.join([*name, *([REDUNDANT] if i in unneeded else []), *utterance.words]))
    text = f'{MARK} '.join(parts)
    return text if key_words is None else ' '.join([text, KEYWORDS, *key_words])
