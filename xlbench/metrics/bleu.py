"""BLEU and chrF by sacrebleu (arXiv:1804.08771), with its own signatures."""

import dataclasses
import functools
import itertools
from collections.abc import Sequence
from typing import ClassVar

import sacrebleu.metrics

from xlbench import errors
from xlbench.benchmarks import languages
from xlbench.metrics import pairs

Targets = Sequence[str | Sequence[str]]
# Those of sacrebleu that need neither another package nor a download.
TOKENIZERS = ('13a', 'char', 'intl', 'none', 'zh')


@dataclasses.dataclass(frozen=True)
class SacreBleu:
    """Corpus BLEU-4, 0 to 100, cased, exponential smoothing.

    A target may be several references: a list of texts, not necessarily equally many everywhere.

    It is 0 for a corpus in which no four words in a row match: also when all texts are identical
    but shorter than four words.

    Attributes:
        tokenize: sacrebleu's tokenizer: 13a (default), zh, char, intl or none.
    """

    tokenize: str = '13a'
    several_references: ClassVar[bool] = True

    def __post_init__(self):
        if self.tokenize not in TOKENIZERS:
            raise errors.unknown('tokenizer of sacrebleu', self.tokenize, TOKENIZERS)

    @classmethod
    def for_language(cls, lang: str) -> 'SacreBleu':
        """zh for Chinese, char for other languages without spaces between words, else 13a.

        WMT scores Japanese with MeCab (ja-mecab, another package): not comparable with char.
        """
        if languages.get(lang).spaces:
            return cls('13a')
        return cls('zh' if lang == 'zh' else 'char')

    @property
    def signature(self) -> str:
        """sacrebleu's signature, such as nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|..."""
        return self.signature_of([1])

    def signature_of(self, counts: Sequence[int]) -> str:
        """The signature where examples have so many references each."""
        return _signature(_bleu(self.tokenize, effective_order=False), counts)

    def __call__(self, targets: Targets, predictions: Sequence[str]) -> dict[str, float]:
        """BLEU of the corpus: not the mean over examples."""
        metric = _bleu(self.tokenize, effective_order=False)
        return {'bleu': _corpus_score(metric, targets, predictions)}

    def per_example(self, targets: Targets, predictions: Sequence[str]) -> list[dict[str, float]]:
        """BLEU of each sentence, with n-grams only as long as the sentence has."""
        rows = pairs.check_references(targets, predictions)
        metric = _bleu(self.tokenize, effective_order=True)
        return [
            {'bleu': metric.sentence_score(prediction, row).score}
            for row, prediction in zip(rows, predictions, strict=True)
        ]


@dataclasses.dataclass(frozen=True)
class ChrF:
    """Corpus chrF2, 0 to 100: F-score of character n-grams (Popovic 2015, W15-3049).

    A target may be several references, as for SacreBleu; the best one counts.
    """

    several_references: ClassVar[bool] = True

    @property
    def signature(self) -> str:
        """sacrebleu's signature, such as nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|..."""
        return self.signature_of([1])

    def signature_of(self, counts: Sequence[int]) -> str:
        """The signature where examples have so many references each."""
        return _signature(_chrf(), counts)

    def __call__(self, targets: Targets, predictions: Sequence[str]) -> dict[str, float]:
        """chrF of the corpus: not the mean over examples."""
        return {'chrf': _corpus_score(_chrf(), targets, predictions)}

    def per_example(self, targets: Targets, predictions: Sequence[str]) -> list[dict[str, float]]:
        """chrF of each sentence."""
        rows = pairs.check_references(targets, predictions)
        return [
            {'chrf': _chrf().sentence_score(prediction, row).score}
            for row, prediction in zip(rows, predictions, strict=True)
        ]


@functools.cache
def _bleu(tokenize: str, effective_order: bool) -> sacrebleu.metrics.BLEU:
    return sacrebleu.metrics.BLEU(
        tokenize=tokenize,
        effective_order=effective_order,
        force=True,  # Only its warning about texts that look tokenised, one in every evaluation.
    )


@functools.cache
def _chrf() -> sacrebleu.metrics.CHRF:
    return sacrebleu.metrics.CHRF()


def _corpus_score(metric, targets: Targets, predictions: Sequence[str]) -> float:
    rows = pairs.check_references(targets, predictions)
    # A stream for the first references, one for the second, ...; None where there is none.
    streams = list(map(list, itertools.zip_longest(*rows)))
    return metric.corpus_score(list(predictions), streams).score


def _signature(metric, counts: Sequence[int]) -> str:
    # sacrebleu knows the number of references only after it has scored something.
    _corpus_score(metric, [['a'] * count for count in counts], ['a'] * len(counts))
    return str(metric.get_signature())
