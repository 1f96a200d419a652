"""Dialogues with the marks of BART(D_ALL), by what a model such as DialoGPT expects."""

import dataclasses
import itertools
from collections.abc import Collection, Iterable, Iterator, Sequence

import numpy as np

from xlbench.data import marks as marks_lib
from xlbench.data.marks import KINDS, Settings, Utterance
from xlbench.inference.language_model import LanguageModel
from xlbench.system.errors import UserError

_CHUNK = 32  # Dialogues that are sorted by length together.


class DialogueAnnotator:
    """Marks dialogues with one decoder-only model.

    An utterance is read with the one before it: its losses are of its tokens given that one and an
    end of text, without names of speakers. Its state, at the end of text behind it, is of the
    whole dialogue; of one that is longer than the model's positions, of the part of whole
    utterances that it is in.

    Raises:
      UserError: one of `kinds` is none of KINDS.
    """

    def __init__(
        self,
        reader: LanguageModel,
        settings: Settings | None = None,
        kinds: Collection[str] = KINDS,
    ):
        if strange := [kind for kind in kinds if kind not in KINDS]:
            raise UserError(f'there are no marks of {strange[0]!r}; allowed: {", ".join(KINDS)}')
        self._reader, self._settings, self._kinds = reader, settings or Settings(), kinds

    def annotate(self, dialogues: Iterable[str]) -> Iterator[str]:
        """Each dialogue, a line an utterance such as 'Anna: Hi!', on one line with its marks."""
        remaining = iter(dialogues)
        while chunk := list(itertools.islice(remaining, _CHUNK)):
            read = [marks_lib.utterances_of(dialogue) for dialogue in chunk]
            pieces = [[self._pieces(u) for u in utterances] for utterances in read]
            losses = iter(self._losses(pieces))
            states = self._states(pieces) if 'redundancy' in self._kinds else itertools.repeat(None)
            for utterances, of_dialogue, vectors in zip(read, pieces, states, strict=False):
                scored = utterances[:1] + [
                    dataclasses.replace(
                        utterance,
                        losses=marks_lib.word_losses(next(losses).tolist(), [*map(len, words)]),
                    )
                    for utterance, words in zip(utterances[1:], of_dialogue[1:], strict=True)
                ]
                yield self._marked(scored, vectors)

    def _marked(self, utterances: Sequence[Utterance], states: np.ndarray | None) -> str:
        settings, kinds = self._settings, self._kinds
        cosines = [] if states is None else marks_lib.similarities(states)
        return marks_lib.marked_text(
            utterances,
            marks_lib.keywords(utterances, settings) if 'keywords' in kinds else None,
            marks_lib.topic_starts(utterances, settings) if 'topics' in kinds else (),
            marks_lib.redundant(cosines, settings),
        )

    def _pieces(self, utterance: Utterance) -> list[np.ndarray]:
        """The ids of each word, as they are behind the colon after a name."""
        words = [f' {word}' for word in utterance.words]
        return self._reader.tokenizer.encode_batch(words) if words else []

    def _losses(self, pieces: Sequence[Sequence[Sequence[np.ndarray]]]) -> list[np.ndarray]:
        """The loss of each piece of every utterance but the first of a dialogue, in order."""
        ids = [[_joined(words) for words in dialogue] for dialogue in pieces]
        pairs = [pair for dialogue in ids for pair in itertools.pairwise(dialogue)]
        reader = self._reader
        room = min(reader.max_input_length, reader.max_positions // 2)
        end = [reader.tokenizer.eos_id]
        examples = [
            {'inputs': np.append(before[-(room - 1) :], end), 'targets': reply[:room]}
            for before, reply in pairs
        ]
        scored = [i for i, example in enumerate(examples) if example['targets'].size]
        losses = [np.zeros(0)] * len(examples)
        of_scored = self._reader.losses_of_ids([examples[i] for i in scored])
        for i, of_example in zip(scored, of_scored, strict=True):
            losses[i] = of_example
        return losses

    def _states(self, pieces: Sequence[Sequence[Sequence[np.ndarray]]]) -> list[np.ndarray]:
        """The state at the end of each utterance, [utterances, features] of each dialogue."""
        end = self._reader.tokenizer.eos_id
        parts, owners = [], []
        for owner, dialogue in enumerate(pieces):
            ended = [np.append(_joined(words), end) for words in dialogue]
            windows = list(_windows(ended, self._reader.max_positions))
            parts += windows
            owners += [owner] * len(windows)
        states: list[list[np.ndarray]] = [[] for _ in pieces]
        texts = [np.concatenate(part) for part in parts]
        ends = [np.cumsum([len(utterance) for utterance in part]) - 1 for part in parts]
        for owner, of_part in zip(owners, self._reader.states_of_ids(texts, ends), strict=True):
            states[owner].append(of_part)
        return [np.concatenate(of) if of else np.zeros((0, 1)) for of in states]


def _joined(words: Sequence[np.ndarray]) -> np.ndarray:
    return np.concatenate([np.zeros(0, np.int32), *words])


def _windows(ended: Sequence[np.ndarray], most: int) -> Iterator[list[np.ndarray]]:
    """Parts of a dialogue within a number of ids; a longer utterance keeps its end."""
    window: list[np.ndarray] = []
    used = 0
    for utterance in ended:
        utterance = utterance[-most:]
        if window and used + len(utterance) > most:
            yield window
            window, used = [], 0
        window.append(utterance)
        used += len(utterance)
    if window:
        yield window
