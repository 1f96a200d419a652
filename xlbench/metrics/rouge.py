"""ROUGE as the multilingual scorer of XL-Sum computes it (arXiv:2106.13822).

It differs from the usual ROUGE in its words: any script counts, with a segmenter for Chinese,
Japanese and Thai and a stemmer per language. Reimplemented from its behaviour.

  Tokenizer('german').tokenize('Größere Häuser: 300.000 €') -> größere häuser 300 000 €
  MultilingualRouge('de')(['ein kleiner test'], ['ein test'])
    -> {'rouge_1': 80.0, 'rouge_2': 0.0, 'rouge_l': 80.0}
"""

import dataclasses
import functools
import importlib.metadata
import unicodedata
from collections.abc import Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import regex

from xlbench.benchmarks import languages
from xlbench.metrics import contract, stemmers, words
from xlbench.metrics.contract import Scores
from xlbench.system import errors

if TYPE_CHECKING:
    from rouge_score.rouge_scorer import RougeScorer

TYPES = ('rouge1', 'rouge2', 'rougeL')
Numbers = dict[str, dict[str, float]]  # Type of ROUGE -> precision, recall and fmeasure, 0 to 1.

# Names that the official scorer takes for a language beside its usual one.
_ALIASES = {
    'bangla': 'bengali',
    'turkce': 'turkish',
    'chinese_simplified': 'chinese',
    'chinese_traditional': 'chinese',
    'mundo': 'spanish',
}
_REMEMBERED = 1024  # Texts whose tokens are kept.
_MIN_STEM_LENGTH = 4  # Characters; shorter words are not stemmed.

# Words of languages with spaces: letters, digits and symbols part, marks stay with what they
# follow. A mark after a space stands on a placeholder, which becomes part of the word.
_SPACE_PLACEHOLDER = '％0020'
_LONE_MARK = regex.compile(r'(?<=\s)(?=\p{M})')
_WORD = regex.compile(_SPACE_PLACEHOLDER + r'\p{M}+|\p{N}[\p{N}\p{M}]*|\p{L}[\p{L}\p{M}]*|\S\p{M}*')
_IDEOGRAPH = regex.compile(
    r'([\u4E00-\u9FFF\u3400-\u4DBF\U00020000-\U0002A6DF\U0002A700-\U0002CEAF'
    r'\uF900-\uFAFF\U0002F800-\U0002FA1F])'
)


# U+200D is the joiner inside emoji, which so fall apart.
_CHARACTERS = words.Table(
    lambda char: ' ' if words.is_mark(char) else words.cleaned(char).replace('\u200d', '')
)


def sanitize(text: str) -> str:
    """Drops control characters; punctuation and whitespace become single spaces.

    Example: "Betty's, no.\\n" -> "Betty s no"
    """
    return ' '.join(text.translate(_CHARACTERS).split())


@dataclasses.dataclass(frozen=True)
class Tokenizer:
    """Cuts text into the tokens that ROUGE counts.

    `language` is the scorer's English name, such as 'german'. None stands for plain English ROUGE;
    a name it does not know has neither segmenter nor stemmer.
    """

    language: str | None
    stem: bool = False

    @property
    def canonical(self) -> str | None:
        """The language with aliases resolved."""
        return _ALIASES.get(self.language or '', self.language)

    def tokenize(self, text: str) -> list[str]:
        """The tokens of a text, such as "Stand-ups!" -> ['stand', 'ups']."""
        text = sanitize(text.lower())
        segment = words.segmenter(self.canonical)
        tokens = (segment(text) if segment else []) or _words(text)
        stem = stemmers.load(self.canonical) if self.stem else None
        if stem:
            tokens = [stem(t) if len(t) >= _MIN_STEM_LENGTH else t for t in tokens]
        return [token for token in tokens if token]


def _words(text: str) -> list[str]:
    words = _WORD.findall(_LONE_MARK.sub(_SPACE_PLACEHOLDER, text))
    return _IDEOGRAPH.sub(r' \1 ', ' '.join(words)).split()


@functools.cache
def _scorer(tokenizer: Tokenizer) -> 'RougeScorer':
    words.load_nltk()  # rouge_score imports it.
    from rouge_score import rouge_scorer

    # The tokens of the last texts are kept, for the next system's scores.
    kept = SimpleNamespace(tokenize=functools.lru_cache(_REMEMBERED)(tokenizer.tokenize))
    return rouge_scorer.RougeScorer(TYPES, tokenizer=kept)


def score_pair(target: str, prediction: str, tokenizer: Tokenizer) -> Numbers:
    """Precision, recall and fmeasure of each type, 0 to 1; 0 where a side has no tokens."""
    scores = _scorer(tokenizer).score(target, prediction)
    return {kind: dict(scores[kind]._asdict()) for kind in TYPES}


@dataclasses.dataclass(frozen=True)
class MultilingualRouge(contract.OfTexts):
    """F1 of ROUGE-1, ROUGE-2 and ROUGE-L, 0 to 100: the plain mean over examples.

    A target may be several references, a list of texts: of each score the one with the best F1
    counts, as in rouge_score's score_multi.

    (The official command line prints the median of bootstrap means instead: see `official_csv`.)
    """

    # ISO code such as 'de', or the scorer's English name such as 'german'. None takes words like
    # any language with spaces, and the Porter stemmer.
    lang: str | None = None
    stem: bool = False  # Words are stemmed. Languages without a stemmer, such as zh, ignore it.
    _chosen: ClassVar[str] = 'best-f1'  # Of several references.
    _suffix: ClassVar[str] = ''  # Of the scores' names.

    def __post_init__(self):
        # What is missing for a language shall be said now, and not after a day of training. The
        # stemmer waits for the two examples that are scored before a run: NLTK takes a second.
        _ = self.tokenizer

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer of the texts."""
        return Tokenizer(_scorer_name(self.lang), self.stem)

    @property
    def signature(self) -> str:
        return self.signature_of([1])

    def signature_of(self, counts: Sequence[int]) -> str:
        """The signature for these numbers of references of the examples."""
        several = '-'.join(map(str, sorted({min(counts), max(counts)})))
        references = f'nrefs:{several}|refs:{self._chosen}|' if max(counts) > 1 else ''
        language = self.tokenizer.canonical
        stems = stemmers.signature(language) if self.stem else 'stem:no'
        version = importlib.metadata.version
        return (
            f'multilingual_rouge|lang:{language or "none"}|case:lower|punct:removed|'
            f'{words.segmenter_signature(language)}|{stems}|score:mean-f1|{references}'
            f'regex:{version("regex")}|unicode:{unicodedata.unidata_version}|'
            f'rouge_score:{version("rouge-score")}|version:1'
        )

    def per_example(self, targets: Sequence[str], predictions: Sequence[str]) -> list[Scores]:
        """Computes rouge_1, rouge_2 and rouge_l of each example."""
        names = {'rouge1': 'rouge_1', 'rouge2': 'rouge_2', 'rougeL': 'rouge_l'}
        return [
            {names[kind] + self._suffix: 100.0 * scores[kind]['fmeasure'] for kind in names}
            for scores in self.score_pairs(targets, predictions)
        ]

    def score_pairs(
        self, targets: Sequence[str | Sequence[str]], predictions: Sequence[str]
    ) -> list[Numbers]:
        """Computes all numbers of each example, 0 to 1; a target is one text or several.

        Example: {'rouge1': {'precision': p, 'recall': r, 'fmeasure': f}, 'rouge2', 'rougeL'}
        """
        rows, tokenizer = contract.check_references(targets, predictions), self.tokenizer
        return [
            self._of_all([score_pair(target, prediction, tokenizer) for target in row])
            for row, prediction in zip(rows, predictions, strict=True)
        ]

    @staticmethod
    def _of_all(scores: Sequence[Numbers]) -> Numbers:
        """Chooses the scores with the best F1 of each type, the first of equal ones."""
        return {
            kind: max((s[kind] for s in scores), key=lambda s: s['fmeasure']) for kind in scores[0]
        }


@dataclasses.dataclass(frozen=True)
class MeanRouge(MultilingualRouge):
    """The same of several references, each counted alike: their mean in place of the best one.

    The scores are rouge_1_mean, rouge_2_mean and rouge_l_mean.
    """

    _chosen: ClassVar[str] = 'mean'
    _suffix: ClassVar[str] = '_mean'

    @staticmethod
    def _of_all(scores: Sequence[Numbers]) -> Numbers:
        return {kind: contract.mean([s[kind] for s in scores]) for kind in scores[0]}


def official_csv(scores: Sequence[Numbers], aggregate: bool = True, seed: int = 1234) -> str:
    """The CSV that the official command line writes, from what `score_pairs` gives.

    As with its --aggregate: low, mid and high of 1,000 bootstrap means, mid being their median;
    else a line for each example. The command leaves NumPy's generator unseeded.
    """
    fields = {'R': 'recall', 'P': 'precision', 'F': 'fmeasure'}
    if not aggregate:
        columns = [(kind, letter) for kind in scores[0] for letter in 'PRF']
        lines = [['id', *map('-'.join, columns)]]
        for i, row in enumerate(scores):
            lines.append([str(i), *(f'{row[k][fields[c]]:f}' for k, c in columns)])
        return '\n'.join(map(','.join, lines)) + '\n'
    words.load_nltk()  # rouge_score imports it.
    from rouge_score import scoring

    aggregator, before = scoring.BootstrapAggregator(), np.random.get_state()
    for row in scores:
        aggregator.add_scores({kind: scoring.Score(**values) for kind, values in row.items()})
    np.random.seed(seed)  # The aggregator draws from the generator that all share.
    try:
        drawn = aggregator.aggregate()
    finally:
        np.random.set_state(before)
    lines = [['score_type', 'low', 'mid', 'high']]
    for kind, levels in drawn.items():
        for letter, field in fields.items():
            lines.append([f'{kind}-{letter}', *(f'{getattr(level, field):f}' for level in levels)])
    return '\n'.join(map(','.join, lines)) + '\n'


def _scorer_name(lang: str | None) -> str | None:
    names = {language.name for language in languages.LANGUAGES.values()}
    if lang is None or lang in names or lang in _ALIASES:
        return lang
    hint = f'A{languages.HOW_TO_ADD[1:]}'
    errors.check_known('language', lang, [*languages.LANGUAGES, *names], hint)
    return languages.LANGUAGES[lang].name
