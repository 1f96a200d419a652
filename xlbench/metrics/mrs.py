"""Scores of suggested replies, as MRS has them: ROUGE, distinct-n, ranks (arXiv:2106.02017).

  MrsRouge('en')(['see you later'], [['bye', 'see you', 'later']])  # The best of three counts.
    -> {'mrs_rouge': 35.6, 'mrs_rouge_1': 80.0, 'mrs_rouge_2': 66.7, ..., 'dist_1': 100.0, ...}

Reimplemented from the behaviour of microsoft/MRS eval.py with the package rouge, which it scores
with: words are taken after a split at every '.', and no F1 quite reaches 1. Of the versions of that
package, 1.0.1 compares sets of n-grams and 1.0.0 counts them; the paper does not say which it used.
"""

import collections
import dataclasses
import itertools
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from xlbench.benchmarks import languages
from xlbench.metrics import contract, words
from xlbench.metrics.contract import Prediction, Scored, Scores
from xlbench.system import errors

NGRAMS = ('set', 'multiset')
WEIGHTS = (1 / 6, 1 / 3, 1 / 2)  # Of ROUGE-1, -2 and -3 (arXiv:2106.02017, equation 2).
DENOMINATORS = ('words', 'bigrams')

_EMPTY = '<empty>'  # Stands for a prediction without words.
# Of ROUGE-1, -2 and -3 in the validation of microsoft/MRS retrieval_rs, with the digits it has.
_VALIDATION_WEIGHTS = (0.166667, 0.333333, 0.5)
# Our scores by eval.py's names.
_NAMES = {
    'mrs_rouge': 'rouge-weighted',
    'mrs_rouge_1': 'rouge-1',
    'mrs_rouge_2': 'rouge-2',
    'mrs_rouge_3': 'rouge-3',
    'mrs_rouge_l': 'rouge-l',
}


class Rouge(NamedTuple):
    """F1, precision and recall, 0 to 1."""

    f: float
    p: float
    r: float


class Best(NamedTuple):
    """The prediction of an example that counts."""

    reference: str  # In words with spaces between them.
    prediction: str  # Likewise, as far as it is scored.
    rouge: dict[str, Rouge]  # rouge-1, rouge-2, rouge-3, rouge-l; the weighted sum of three.


@dataclasses.dataclass(frozen=True)
class MrsRouge(contract.OfTexts):
    """Weighted ROUGE of the best of several replies, and distinct-n of these best ones, 0 to 100.

    mrs_rouge is ROUGE-1 / 6 + ROUGE-2 / 3 + ROUGE-3 / 2, of F1. A reference that is empty, made of
    dots or not within the limits is left out, as are empty predictions behind the last other one.
    """

    lang: str  # ISO code; decides how words are split.
    nbest: int = 3  # Predictions to score; the first with the highest score counts.
    max_hyp_len: int = 100  # Words that are kept of a prediction.
    min_tgt_len: int = 0  # Words; shorter references are left out.
    max_tgt_len: int = 100  # Likewise longer ones.
    # Counts a repeated n-gram once, as a 'multiset' as often as it occurs; ROUGE-L is of sets.
    ngrams: str = 'set'
    # dist_2 is distinct bigrams over all 'words' (arXiv:1510.03055), or over all 'bigrams'. eval.py
    # divides by a name it never defines.
    dist2_denominator: str = 'words'
    several_references: ClassVar[bool] = False

    def __post_init__(self):
        languages.get(self.lang)  # An unknown one shall be said now, not after a day of training.
        errors.check_known('kind of n-grams', self.ngrams, NGRAMS)
        errors.check_known('denominator of dist_2', self.dist2_denominator, DENOMINATORS)
        if self.nbest < 1 or self.max_hyp_len < 1:
            raise errors.UserError(
                f'nbest is {self.nbest} and max_hyp_len {self.max_hyp_len}; both count from 1'
            )

    @property
    def num_predictions(self) -> int:
        """Number of predictions of each example that `metrics.score` receives."""
        return self.nbest

    @property
    def signature(self) -> str:
        return (
            f'mrs_rouge|lang:{self.lang}|case:lower|{words.signature(self.lang)}|'
            f'nbest:{self.nbest}|hyp:{self.max_hyp_len}|tgt:{self.min_tgt_len}-{self.max_tgt_len}|'
            f'ngrams:{self.ngrams}|dist2:{self.dist2_denominator}|version:1'
        )

    def with_examples(self, targets: Sequence[str], predictions: Sequence[Prediction]) -> Scored:
        """Means over the examples that count, and distinct-n of the corpus; ROUGE of each example.

        The predictions of an example are a list, best first, or a single text. The scores are
        mrs_rouge, mrs_rouge_1, mrs_rouge_2, mrs_rouge_3, mrs_rouge_l, dist_1 and dist_2; each
        example has the first five, or none where it is left out.
        """
        best = self.choose(targets, predictions)
        fractions: dict[str, Any] = self.summarise(best)
        scores = {name: fractions[official]['f'] for name, official in _NAMES.items()}
        scores |= {f'dist_{n}': fractions[f'distinct-{n}'] for n in (1, 2)}
        examples = [
            {name: 100.0 * row.rouge[official].f for name, official in _NAMES.items() if row}
            for row in best
        ]
        return {name: 100.0 * value for name, value in scores.items()}, examples

    def choose(
        self, targets: Sequence[str], predictions: Sequence[Prediction]
    ) -> list[Best | None]:
        """The best prediction of each example; None where the example is left out."""
        rows = contract.check_n_best(targets, predictions)
        return [self._best(target, row) for target, row in zip(targets, rows, strict=True)]

    def summarise(self, best: Iterable[Best | None]) -> dict[str, dict[str, float] | float]:
        """Computes what eval.py prints, 0 to 1.

        Example: {'rouge-1': {'f': 0.5, 'p': ..., 'r': ...}, 'rouge-2', 'rouge-3', 'rouge-l',
        'rouge-weighted', 'n_examples': 7, 'distinct-1': 0.8, 'distinct-2': 0.9}
        """
        kept = [row for row in best if row]
        if not kept:
            raise errors.UserError(
                'no example is left to score: every reference is empty, made of dots, or not '
                f'between {self.min_tgt_len} and {self.max_tgt_len} words long'
            )
        scores = {
            name: {
                part: sum(getattr(row.rouge[name], part) for row in kept) / len(kept)
                for part in Rouge._fields
            }
            for name in _NAMES.values()
        }
        texts = [row.prediction.split() for row in kept]
        unigrams = [word for text in texts for word in text]
        bigrams = [bigram for text in texts for bigram in itertools.pairwise(text)]
        total = len(unigrams if self.dist2_denominator == 'words' else bigrams)
        return scores | {
            'n_examples': len(kept),
            'distinct-1': len(set(unigrams)) / max(len(unigrams), 1),
            'distinct-2': len(set(bigrams)) / max(total, 1),
        }

    def _best(self, target: str, predictions: Sequence[str]) -> Best | None:
        tokenize = words.load(self.lang)
        reference = tokenize(target.lower())
        sentences = _sentences(reference)
        if not sentences or not self.min_tgt_len <= len(reference.split()) <= self.max_tgt_len:
            return None
        texts = [text.lower() for text in predictions]
        while texts and not texts[-1].strip():
            texts.pop()  # The end of a line is stripped before it is split into columns.
        texts = [self._cut(tokenize(text)) for text in texts[: self.nbest]] or [_EMPTY]
        target_ngrams = _ngrams(sentences, self.ngrams)
        rouges = [_rouge_n(_ngrams(_sentences(text), self.ngrams), target_ngrams) for text in texts]
        sums = [_weighted([rouge.f for rouge in row]) for row in rouges]
        best = sums.index(max(sums))  # The first of equals.
        rouge_n = rouges[best]
        rouge = {
            'rouge-1': rouge_n[0],
            'rouge-2': rouge_n[1],
            'rouge-3': rouge_n[2],
            'rouge-l': _rouge_l(_sentences(texts[best]), sentences),
            'rouge-weighted': Rouge(*map(_weighted, zip(*rouge_n, strict=True))),
        }
        return Best(reference, texts[best], rouge)

    def _cut(self, text: str) -> str:
        """Cuts to max_hyp_len words; a text of dots alone counts as empty."""
        if not _sentences(text):
            return _EMPTY
        parts = text.split()
        return ' '.join(parts[: self.max_hyp_len]) if len(parts) > self.max_hyp_len else text


@dataclasses.dataclass(frozen=True)
class MrsValidationRouge:
    """The ROUGE that MRS's retriever was selected by in training, 0 to 100.

    Unlike `MrsRouge` it takes the best of the three replies for ROUGE-1, -2 and -3 apart, words
    are those of `words.generic`, and only examples with exactly three replies count.
    """

    num_predictions: ClassVar[int] = 3
    signature: ClassVar[str] = (
        'mrs_validation_rouge|case:lower|tok:generic|nbest:3|ngrams:set|version:1'
    )

    def __call__(self, targets: Sequence[str], predictions: Sequence[Sequence[str]]) -> Scores:
        """Computes mrs_validation_rouge, weighted as MrsRouge, and mrs_validation_rouge_uniform."""
        scores = [score for score in self.per_example(targets, predictions) if score]
        if not scores:
            raise errors.UserError(
                'no example has three predictions, and only such count; '
                'let the system give three (num_suggestions or num_return is 3)'
            )
        return contract.mean(scores)

    def per_example(
        self, targets: Sequence[str], predictions: Sequence[Sequence[str]]
    ) -> list[Scores]:
        """The scores of each example; {} where there are not three predictions."""
        rows = contract.check_n_best(targets, predictions)
        return [
            _validation_rouge(target, row) if len(row) == self.num_predictions else {}
            for target, row in zip(targets, rows, strict=True)
        ]


def reply_ngrams(text: str, lang: str) -> list[set[tuple[str, ...]]]:
    """The n-grams of a reply that `MrsRouge` compares, for n = 1, 2, 3."""
    return _ngrams(_sentences(words.load(lang)(text.lower())), 'set')


def _validation_rouge(target: str, predictions: Sequence[str]) -> Scores:
    def ngrams(text: str) -> list[set]:
        text = words.generic(text)
        # Of what is empty or a single dot, every character is a word.
        return _ngrams(_sentences(text) or list(text or _EMPTY), 'set')

    reference = ngrams(target)
    rouges = [_rouge_n(ngrams(text), reference) for text in predictions]
    best = [100.0 * max(rouge.f for rouge in each) for each in zip(*rouges, strict=True)]
    return {
        'mrs_validation_rouge': sum(
            weight * score for weight, score in zip(_VALIDATION_WEIGHTS, best, strict=True)
        ),
        'mrs_validation_rouge_uniform': sum(best) / len(best),
    }


def _sentences(text: str) -> list[list[str]]:
    """The words between dots. A piece of nothing but spaces is a sentence of one empty word."""
    return [' '.join(piece.split()).split(' ') for piece in text.split('.') if piece]


def _ngrams(sentences: Iterable[Iterable[str]], kind: str) -> list[Any]:
    """The n-grams for n = 1, 2, 3. They run on from one sentence to the next."""
    tokens = [token for sentence in sentences for token in sentence]
    collect = set if kind == 'set' else collections.Counter
    return [collect(zip(*(tokens[i:] for i in range(n)), strict=False)) for n in (1, 2, 3)]


def _rouge_n(ngrams: Sequence[Any], reference: Sequence[Any]) -> list[Rouge]:
    """ROUGE-1, -2 and -3 of a prediction with the n-grams of a reference."""
    return [
        _rouge(_size(of_text & other), _size(of_text), _size(other))
        for of_text, other in zip(ngrams, reference, strict=True)
    ]


def _weighted(scores: Iterable[float]) -> float:
    """The sum of ROUGE-1, -2 and -3."""
    return sum(weight * score for weight, score in zip(WEIGHTS, scores, strict=True))


def _size(ngrams: set | collections.Counter) -> int:
    return ngrams.total() if isinstance(ngrams, collections.Counter) else len(ngrams)


def _rouge(overlap: int, size: int, reference_size: int) -> Rouge:
    p, r = overlap / max(size, 1), overlap / max(reference_size, 1)
    return Rouge(2.0 * (p * r / (p + r + 1e-8)), p, r)


def _rouge_l(sentences: Sequence[list[str]], reference: Sequence[list[str]]) -> Rouge:
    """Different words in common subsequences of any two sentences, over all different words."""
    common = [_common_subsequence(theirs, ours) for theirs in reference for ours in sentences]
    sides = (sentences, reference)
    sizes = [len({word for sentence in side for word in sentence}) for side in sides]
    return _rouge(len(set().union(*common)), *sizes)


def _common_subsequence(x: Sequence[str], y: Sequence[str]) -> set[str]:
    """The words of a longest common subsequence; which one, is as the package rouge chooses."""
    if set(x).isdisjoint(y):
        return set()
    # lengths[i][j]: of the longest one of x[:i] and y[:j].
    lengths = [[0] * (len(y) + 1)]
    for word in x:
        above, row = lengths[-1], [0]
        for j, other in enumerate(y):
            row.append(above[j] + 1 if word == other else max(above[j + 1], row[j]))
        lengths.append(row)
    common, i, j = set(), len(x), len(y)
    while i and j:
        if x[i - 1] == y[j - 1]:
            i, j = i - 1, j - 1
            common.add(x[i])
        elif lengths[i - 1][j] > lengths[i][j - 1]:
            i -= 1
        else:
            j -= 1
    return common


# ---------------------------------------------------------------------------------------------
# Ranks of the right reply, 0 to 100, in two readings of the same names, which differ a lot. The
# textbook's is the rank among all responses of the set; macro averages over the responses that are
# right for some example. microsoft/MRS takes the rank among the few suggestions, where a miss still
# gets 1 / (their number + 1); its "p_at_k" is a hit among the first three, and its macro divides by
# the whole set.


def gold_ids(responses: Sequence[str], references: Sequence[str]) -> np.ndarray:
    """The place [len(references)] of each reference among the responses; -1 where it is not there.

    They are compared in `words.generic`, so that 'Yes, 25' is 'yes, 1234'; the first equal counts.
    """
    places: dict[str, int] = {}
    for i, text in enumerate(responses):
        places.setdefault(words.generic(text), i)
    return np.array([places.get(words.generic(text), -1) for text in references], np.int64)


def ranks_in_set(ranks: Sequence[int], gold: Sequence[int]) -> dict[str, float]:
    """Computes set_mrr, set_p_at_1 and set_macro_mrr of the examples whose reply is in the set.

    Args:
      ranks: [n], of each example's own reply among all responses; 1 is best.
      gold: [n], its response id; the macro average is over the different ones of these.
    """
    places = np.asarray(ranks)
    reciprocal = 1.0 / places
    return {
        'set_mrr': 100.0 * float(reciprocal.mean()),
        'set_p_at_1': 100.0 * float((places == 1).mean()),
        'set_macro_mrr': 100.0 * float(_means(reciprocal, gold).mean()),
    }


def suggested_ranks(
    gold: Sequence[int], suggestions: Sequence[Sequence[int]], set_size: int
) -> dict[str, float]:
    """Computes what microsoft/MRS logs; nothing if no example counts.

    That is mrr_code, p_at_3_code, macro_mrr_code, and mrr_f1_code, the harmonic mean of mrr_code
    and macro_mrr_code.

    Args:
      gold: [n], response ids of the right replies.
      suggestions: [n], response ids of the suggestions, best first. Examples with fewer than
        three of them are left out.
      set_size: how many responses the set has.
    """
    kept = [i for i, ids in enumerate(suggestions) if len(ids) == 3]
    if not kept:
        return {}
    reciprocal, hits = np.array(
        [reciprocal_rank(gold[i], suggestions[i], 3) for i in kept], np.float64
    ).T
    mrr = float(reciprocal.mean())
    macro = float(_means(reciprocal, [gold[i] for i in kept]).sum()) / set_size
    scores = {
        'mrr_code': mrr,
        'p_at_3_code': float(hits.mean()),
        'macro_mrr_code': macro,
        'mrr_f1_code': 2.0 * mrr * macro / (mrr + macro),
    }
    return {name: 100.0 * value for name, value in scores.items()}


def reciprocal_rank(gold: int, ranked: Sequence[int], k: int) -> tuple[float, float]:
    """1 / rank, or 1 / (len + 1) on a miss; and 1.0 if gold is among the first k, else 0.0."""
    ranked = list(ranked)
    rank = ranked.index(gold) if gold in ranked else len(ranked)
    return 1.0 / (rank + 1), float(gold in ranked[:k])


def _means(values: np.ndarray, groups: Sequence[int]) -> np.ndarray:
    """The mean of the values [n] of each group."""
    _, places = np.unique(np.asarray(groups), return_inverse=True)
    return np.bincount(places, weights=values) / np.bincount(places)
