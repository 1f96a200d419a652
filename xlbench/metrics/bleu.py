"""BLEU, chrF, chrF++ and TER by sacrebleu (arXiv:1804.08771), with its own signatures."""

import dataclasses
import functools
import itertools
from collections.abc import Sequence
from typing import ClassVar

import sacrebleu.metrics

from xlbench.benchmarks import languages
from xlbench.metrics import contract
from xlbench.metrics.contract import Scores, Targets
from xlbench.system import errors

Scorer = sacrebleu.metrics.BLEU | sacrebleu.metrics.CHRF | sacrebleu.metrics.TER
# Those of sacrebleu that need neither another package nor a download.
TOKENIZERS = ('13a', 'char', 'intl', 'none', 'zh')


@dataclasses.dataclass(frozen=True)
class _OfSacreBleu:
    """A metric of sacrebleu; its fields are the scorer's options."""

    several_references: ClassVar[bool] = True
    scorer: ClassVar[type[Scorer]]
    score_name: ClassVar[str]

    @property
    def signature(self) -> str:
        """sacrebleu's signature, such as nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|..."""
        return self.signature_of([1])

    def signature_of(self, counts: Sequence[int]) -> str:
        scorer = self.corpus_scorer()
        # sacrebleu knows the number of references only after it has scored something.
        _corpus_score(scorer, [['a'] * count for count in counts], ['a'] * len(counts))
        return str(scorer.get_signature())

    def __call__(self, targets: Targets, predictions: Sequence[str]) -> Scores:
        """The score of the corpus: not the mean over examples."""
        return {self.score_name: _corpus_score(self.corpus_scorer(), targets, predictions)}

    def per_example(self, targets: Targets, predictions: Sequence[str]) -> list[Scores]:
        rows = contract.check_references(targets, predictions)
        scorer = self.corpus_scorer(of_texts=True)
        return [
            {self.score_name: scorer.sentence_score(prediction, row).score}
            for row, prediction in zip(rows, predictions, strict=True)
        ]

    def corpus_scorer(self, of_texts: bool = False) -> Scorer:
        return _made(type(self).scorer, tuple(self._options(of_texts).items()))

    def _options(self, of_texts: bool) -> dict[str, str | int]:
        del of_texts  # Segments are scored as corpora are.
        return dataclasses.asdict(self)


@dataclasses.dataclass(frozen=True)
class SacreBleu(_OfSacreBleu):
    """Corpus BLEU-4, 0 to 100, cased, exponential smoothing.

    A target may be several references: a list of texts, not necessarily equally many everywhere.

    It is 0 for a corpus in which no four words in a row match: also when all texts are identical
    but shorter than four words. Of a sentence n-grams are only as long as the sentence has.
    """

    scorer: ClassVar[type[Scorer]] = sacrebleu.metrics.BLEU
    score_name: ClassVar[str] = 'bleu'

    tokenize: str = '13a'  # One of TOKENIZERS.

    def __post_init__(self):
        errors.check_known('tokenizer of sacrebleu', self.tokenize, TOKENIZERS)

    @classmethod
    def for_language(cls, lang: str) -> 'SacreBleu':
        """zh for Chinese, char for other languages without spaces between words, else 13a.

        WMT scores Japanese with MeCab (ja-mecab, another package): not comparable with char.
        """
        if languages.get(lang).spaces:
            return cls('13a')
        return cls('zh' if lang == 'zh' else 'char')

    def _options(self, of_texts: bool) -> dict[str, str | int]:
        # 'force' spares its warning about texts that look tokenised, one in every evaluation.
        return {'tokenize': self.tokenize, 'effective_order': of_texts, 'force': True}


@dataclasses.dataclass(frozen=True)
class ChrF(_OfSacreBleu):
    """Corpus chrF, 0 to 100: F-score of character n-grams (Popovic 2015, W15-3049).

    A target may be several references, as for SacreBleu; the best one counts.
    """

    scorer: ClassVar[type[Scorer]] = sacrebleu.metrics.CHRF

    char_order: int = 6  # Longest n-grams of characters.
    word_order: int = 0  # Longest n-grams of words; 0 counts none.
    beta: int = 2  # How often recall counts as much as precision.
    lowercase: bool = False
    whitespace: bool = False  # N-grams of characters have white space in them.
    eps_smoothing: bool = False  # As NLTK and Moses have it, in place of the effective order.

    @property
    def score_name(self) -> str:  # type: ignore[override]  # Of the others it is a constant.
        """With words among the n-grams it is chrF++."""
        return 'chrfpp' if self.word_order else 'chrf'


@dataclasses.dataclass(frozen=True)
class ChrFPlusPlus(ChrF):
    """chrF++, 0 to 100: chrF with single words and pairs of them (Popovic 2017, W17-4770)."""

    word_order: int = 2


@dataclasses.dataclass(frozen=True)
class Ter(_OfSacreBleu):
    """Translation edit rate (Snover et al. 2006), in percent: lower is better, and 100 no limit.

    Edits, moves of blocks among them, over the mean length of the references; of several references
    the one with the fewest edits counts.
    """

    scorer: ClassVar[type[Scorer]] = sacrebleu.metrics.TER
    score_name: ClassVar[str] = 'ter'

    normalized: bool = False  # Tercom's tokenisation splits off punctuation.
    no_punct: bool = False  # Punctuation is removed.
    # `normalized` cuts Chinese and Japanese into characters, `no_punct` removes full-width marks.
    asian_support: bool = False
    case_sensitive: bool = False

    @classmethod
    def for_language(cls, lang: str) -> 'Ter':
        """Characters as words in languages without spaces between words, sacrebleu's way else."""
        cut = not languages.get(lang).spaces
        return cls(normalized=cut, asian_support=cut)


@functools.cache
def _made(kind: type, options: tuple[tuple[str, str | int], ...]) -> Scorer:
    return kind(**dict(options))


def _corpus_score(metric: Scorer, targets: Targets, predictions: Sequence[str]) -> float:
    rows = contract.check_references(targets, predictions)
    # A stream for the first references, one for the second, ...; None where there is none.
    streams = list(map(list, itertools.zip_longest(*rows)))
    return metric.corpus_score(list(predictions), streams).score
