"""Scores of tags, one for each word: chunk F1 and accuracy (arXiv:2012.15682, section 4.1).

The tags of a sentence travel as one text, separated by single spaces, so that targets and
predictions are lists of strings as for every other metric:

  ChunkF1()(['B-PER I-PER O B-LOC'], ['B-PER I-PER O O'])
    -> {'chunk_f1': 66.7, 'chunk_precision': 100.0, 'chunk_recall': 50.0}

A prediction has a tag for every word of the target. Words that do not count are left out on both
sides, as if the sentence had been written without them: those whose own tag is in UNSCORED, and
those that did not fit the model, for which the prediction has CUT (data.features.tag_places).

`Chunks` does the same on arrays of tag numbers, for the predictions of many models at once.
"""

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

import numpy as np

from xlbench.metrics import contract
from xlbench.metrics.contract import Scored, Scores
from xlbench.system import errors

# Tags that fsxlt/code neither trains nor scores (data_loader/bert_formatting.py).
UNSCORED = ('-NONE-', 'NFP', 'AFX')
CUT = '<CUT>'
PAD = '<PAD>'  # The class of fsxlt/code's taggers that no word has; see HeadConfig.pad_label.
Array = Any  # Of numpy, or of jax.
_SEQEVAL = '0.0.12'  # The version whose chunks are counted; it is of the time of the paper.


class Chunks:
    """Chunks of tag sequences, as the package seqeval finds them.

    A tag is a letter and a type: B-PER is B and PER. B and S begin a chunk, E and S end one, O and
    '.' are outside, and otherwise a chunk goes on while the type stays. A tag without '-', such as
    the part of speech NOUN, is a type as a whole, so that a run of equal tags is a chunk; only
    SCONJ and SYM begin one each time. (Since version 1.0 its first letter is no part of the type,
    and SCONJ and CCONJ are of one type.) All sentences are one sequence with an O between them.
    """

    def __init__(self, tags: Sequence[str]):
        """Tag i is `tags[i]`; -1 is an O, between sentences too."""
        states = [_state(tag) for tag in tags]
        # The last two rows: what is before the first tag, and the O that -1 stands for.
        states += [('O', ''), _state('O')]
        self._before_all = len(tags)
        kinds = {kind: i for i, kind in enumerate(dict.fromkeys(kind for _, kind in states))}
        self._kinds = np.array([kinds[kind] for _, kind in states])
        self._begins = np.array([[_begins(a, b) for b in states] for a in states])
        self._ends = np.array([[_ends(a, b) for b in states] for a in states])

    def compare(
        self,
        gold: Array,
        predicted: Array,
        xp: Any = np,
        cummax: Callable[[Array, int], Array] = np.maximum.accumulate,
    ) -> tuple[Array, Array, Array]:
        """Says which chunks are right, at the places where chunks end.

        Args:
          gold: [..., words] tag numbers, sentence behind sentence with a -1 after each. Words
            that do not count must be taken out: a -1 in their place would part a chunk.
          predicted: [..., words], likewise; leading axes are broadcast.
          xp: jax.numpy for arrays on a device.
          cummax: jax.lax.cummax for them.

        Returns:
          Booleans [..., words]: a chunk ends here that both have; predicted has; gold has. Their
          sums over the words are what `f1` takes.
        """
        kinds, begins, ends = map(xp.asarray, (self._kinds, self._begins, self._ends))

        def spans(tags):
            """[..., words]: where the chunk of each word began, and whether it ends here."""
            border = xp.full_like(tags[..., :1], -1)
            before = xp.concatenate([xp.full_like(border, self._before_all), tags], -1)
            after = xp.concatenate([tags, border], -1)
            places = xp.where(begins[before, after], xp.arange(after.shape[-1]), 0)
            return cummax(places, places.ndim - 1)[..., :-1], ends[before, after][..., 1:]

        gold, predicted = xp.asarray(gold), xp.asarray(predicted)
        (gold_begins, gold_ends), (own_begins, own_ends) = spans(gold), spans(predicted)
        correct = gold_ends & own_ends & (gold_begins == own_begins)
        return correct & (kinds[gold] == kinds[predicted]), own_ends, gold_ends


def _state(tag: str) -> tuple[str, str]:
    """The letter and the type of a tag."""
    return tag[0], tag.rpartition('-')[2]


def _begins(before: tuple[str, str], tag: tuple[str, str]) -> bool:
    return (
        tag[0] in 'BS'
        or (before[0] in 'ESO' and tag[0] in 'EI')
        or (tag[0] not in 'O.' and before[1] != tag[1])
    )


def _ends(tag: tuple[str, str], after: tuple[str, str]) -> bool:
    return (
        tag[0] in 'ES'
        or (tag[0] in 'BI' and after[0] in 'BSO')
        or (tag[0] not in 'O.' and tag[1] != after[1])
    )


def f1(
    correct: np.ndarray, predicted: np.ndarray, gold: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """F1, precision and recall, 0 to 1, from numbers of chunks, [...] each; 0 without chunks."""
    precision = correct / np.maximum(predicted, 1)
    recall = correct / np.maximum(gold, 1)
    total = precision + recall
    return 2.0 * precision * recall / np.where(total > 0, total, 1.0), precision, recall


@dataclasses.dataclass(frozen=True)
class ChunkF1(contract.OfTexts):
    """F1, precision and recall of chunks, 0 to 100, over all sentences together.

    The benchmark calls this F1 for parts of speech too, where it is neither accuracy nor macro-F1.
    No chunk on either side gives 0.
    """

    seqeval: str = _SEQEVAL  # As manifests have it.
    several_references: ClassVar[bool] = False

    def __post_init__(self):
        errors.check_known('version of seqeval', self.seqeval, [_SEQEVAL])

    @property
    def signature(self) -> str:
        return (
            f'chunk_f1|chunks:seqeval-{self.seqeval}|average:micro|'
            f'unscored:{",".join(UNSCORED)}|cut:left-out|version:1'
        )

    def with_examples(self, targets: Sequence[str], predictions: Sequence[str]) -> Scored:
        """Computes chunk_f1, chunk_precision and chunk_recall of all sentences, and of each."""
        sentences = scored(targets, predictions)
        tags = sorted({tag for sentence in sentences for pair in sentence for tag in pair})
        numbers = {tag: number for number, tag in enumerate(tags)} | {'': -1}
        # An O behind every sentence.
        pairs = [pair for sentence in sentences for pair in (*sentence, ('', ''))]
        gold, predicted = np.array([[numbers[tag] for tag in pair] for pair in pairs]).T
        compared = Chunks(tags).compare(gold, predicted)
        firsts = np.cumsum([0, *(len(sentence) + 1 for sentence in sentences[:-1])])
        counts = np.stack([np.add.reduceat(where.astype(int), firsts) for where in compared])
        examples = np.stack(f1(*counts), -1)
        return _chunk_scores(f1(*counts.sum(-1))), [_chunk_scores(row) for row in examples]


def _chunk_scores(values: Iterable[Any]) -> Scores:
    names = ('chunk_f1', 'chunk_precision', 'chunk_recall')
    return {name: 100.0 * float(value) for name, value in zip(names, values, strict=True)}


@dataclasses.dataclass(frozen=True)
class TagAccuracy:
    """The share of words with the right tag, 0 to 100, over all words together.

    `per_tag` adds the share among the words of each tag, under names such as tag_accuracy_NOUN.
    """

    per_tag: bool = True

    @property
    def signature(self) -> str:
        return f'tag_accuracy|unscored:{",".join(UNSCORED)}|cut:left-out|version:1'

    def __call__(self, targets: Sequence[str], predictions: Sequence[str]) -> Scores:
        """Computes tag_accuracy; tag_scored, the share of all words that count; and by tag."""
        words = [pair for sentence in scored(targets, predictions) for pair in sentence]
        total = sum(len(target.split()) for target in targets)
        scores = {'tag_accuracy': _share(words), 'tag_scored': 100.0 * len(words) / max(total, 1)}
        if self.per_tag:
            by_tag: dict[str, list[tuple[str, str]]] = {}
            for pair in words:
                by_tag.setdefault(pair[0], []).append(pair)
            scores |= {f'tag_accuracy_{tag}': _share(by_tag[tag]) for tag in sorted(by_tag)}
        return scores

    def per_example(self, targets: Sequence[str], predictions: Sequence[str]) -> list[Scores]:
        """Computes tag_accuracy of each sentence; 0 for one of which no word counts."""
        return [{'tag_accuracy': _share(pair)} for pair in scored(targets, predictions)]


def _share(words: Sequence[tuple[str, str]]) -> float:
    return 100.0 * sum(gold == tag for gold, tag in words) / len(words) if words else 0.0


def scored(targets: Sequence[str], predictions: Sequence[str]) -> list[list[tuple[str, str]]]:
    """The words of each sentence that count, as pairs of right and predicted tag.

    Example: ['DET NFP NOUN NOUN'], ['DET X VERB <CUT>'] -> [[('DET', 'DET'), ('NOUN', 'VERB')]]
    """
    contract.check(targets, predictions)
    sentences = []
    for i, texts in enumerate(zip(targets, predictions, strict=True)):
        gold, predicted = map(str.split, texts)
        if len(gold) != len(predicted):
            raise errors.UserError(
                f'predictions[{i}] has {len(predicted)} tags but its target has {len(gold)}; every '
                f'word needs one, {CUT} where it did not fit the model'
            )
        words = zip(gold, predicted, strict=True)
        sentences.append([pair for pair in words if pair[0] not in UNSCORED and pair[1] != CUT])
    return sentences
