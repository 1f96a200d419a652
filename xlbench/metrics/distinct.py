"""Distinct-n: how varied the generated text is (arXiv:1510.03055).

The papers print "Distinct-1" without saying over which texts. Two readings differ a lot:
  distinct_1         the share of distinct words of one hypothesis, averaged over hypotheses
  distinct_1_corpus  the distinct words of all hypotheses over all their words
MTG (arXiv:2108.07140) prints 90 to 99 over 3,000 outputs; only the first can be that high. A system
that answers every input with one text can reach 100 in it, so a third number stands beside it:
  distinct_texts     the share of different hypotheses
"""

import dataclasses
from collections.abc import Hashable, Sequence

from xlbench.benchmarks import languages
from xlbench.metrics import contract
from xlbench.metrics.contract import Scored, Scores, Targets
from xlbench.system import errors

_TOKENIZERS = {
    'words': str.split,
    'characters': lambda text: list(''.join(text.split())),
}


@dataclasses.dataclass(frozen=True)
class Distinct(contract.OfTexts):
    """Distinct-1 and distinct-2, 0 to 100, of the predictions; the targets do not matter.

    A hypothesis without any n-gram (an empty one; for n = 2 a single word too) counts as 0 in the
    mean over hypotheses: leaving it out would let a system gain by saying nothing.
    """

    tokenize: str = 'words'  # At whitespace; 'characters' takes every character but whitespace.

    def __post_init__(self):
        errors.check_known('tokenizer of Distinct', self.tokenize, _TOKENIZERS)

    @classmethod
    def for_language(cls, lang: str) -> 'Distinct':
        """Characters for languages without spaces between words, else words."""
        return cls('words' if languages.get(lang).spaces else 'characters')

    @property
    def signature(self) -> str:
        return f'distinct|tok:{self.tokenize}|case:mixed|empty:0|version:1'

    def with_examples(self, targets: Targets, predictions: Sequence[str]) -> Scored:
        """Mean over hypotheses, and over the corpus; distinct_1 and distinct_2 of each hypothesis.

        Example: predictions ['a b a b'] -> distinct_1 50, distinct_2 66.7, both corpus alike.
        """
        contract.check_references(targets, predictions)
        rows: list[Scores] = [
            {f'distinct_{n}': _share(self._ngrams(text, n)) for n in (1, 2)} for text in predictions
        ]
        scores = contract.mean(rows)
        for n in (1, 2):
            ngrams = [ngram for text in predictions for ngram in self._ngrams(text, n)]
            scores[f'distinct_{n}_corpus'] = _share(ngrams)
        return scores | {'distinct_texts': _share(predictions)}, rows

    def _ngrams(self, text: str, n: int) -> list[tuple[str, ...]]:
        tokens = _TOKENIZERS[self.tokenize](text)
        return [tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1)]


def collapse(task: str, targets: Sequence[str], predictions: Sequence[str]) -> str:
    """Describes a system that answers many inputs with few texts; '' if it does not.

    It does so if at least 20 predictions have a tenth of the targets' different texts or fewer, or
    only one.
    """
    found, right = len(set(predictions)), len(set(targets))
    if len(predictions) < 20 or right == 1 or found > max(1, right // 10):
        return ''
    texts = 'only one text' if found == 1 else f'only {found} different texts'
    return f'{task}: {texts} for {len(predictions):,} inputs, whose targets have {right:,}.'


def _share(items: Sequence[Hashable]) -> float:
    return 100.0 * len(set(items)) / len(items) if items else 0.0
