"""METEOR 1.5 (Denkowski and Lavie 2014, W14-3348): an alignment of words, its precision and recall.

Equal to the Java program, segment by segment; see alignment.py for how it gets there, and tables.py
for the files that it needs.
"""

import dataclasses
import functools
import importlib.metadata
import math
import pathlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from xlbench.benchmarks import languages
from xlbench.metrics import contract
from xlbench.metrics.contract import Scored, Targets
from xlbench.metrics.meteor import alignment, tables
from xlbench.metrics.words import load_nltk
from xlbench.system import errors

MODULES = ('exact', 'stem', 'synonym', 'paraphrase')
# METEOR's names of languages that are not ISO codes.
NAMES = {'cs': 'cz', 'sv': 'se'}
STEMMERS = {
    'da': 'danish', 'de': 'german', 'en': 'english', 'es': 'spanish', 'fi': 'finnish',
    'fr': 'french', 'hu': 'hungarian', 'it': 'italian', 'nl': 'dutch', 'no': 'norwegian',
    'pt': 'portuguese', 'ro': 'romanian', 'ru': 'russian', 'se': 'swedish',
}  # fmt: skip
LANGUAGES = tuple(sorted({*STEMMERS, 'cz', 'tr', 'other'}))
_TEXTS = {'norm': 'norm', 'lower': 'lc_only', 'raw': 'no_norm'}  # As the tool identifies them.
# Languages with rules of their own; English apostrophes belong to the right, French to the left.
_NORMALISED = ('cz', 'de', 'en', 'es', 'fr', 'ru')
_PHRASES = ('exact', 'stem', 'paraphrase')


class Setting(NamedTuple):
    """Parameters of a language: alpha, beta, gamma, delta; weights by a module's place."""

    parameters: tuple[float, float, float, float]
    modules: tuple[str, ...]
    weights: tuple[float, ...]


# edu.cmu.meteor.util.Constants of the jar: the task `rank` of the languages that have it.
_SETTINGS = {
    'en': Setting((0.85, 0.20, 0.60, 0.75), MODULES, (1.0, 0.6, 0.8, 0.6)),
    'cz': Setting((0.95, 0.20, 0.60, 0.80), ('exact', 'paraphrase'), (1.0, 0.4)),
    'fr': Setting((0.90, 1.40, 0.60, 0.65), _PHRASES, (1.0, 0.2, 0.4)),
    'es': Setting((0.65, 1.30, 0.50, 0.80), _PHRASES, (1.0, 0.8, 0.6)),
    'de': Setting((0.95, 1.00, 0.55, 0.55), _PHRASES, (1.0, 0.8, 0.2)),
    'ru': Setting((0.75, 1.40, 0.70, 0.50), _PHRASES, (1.0, 0.5, 0.5)),
}


def setting_of(lang: str) -> Setting:
    """The tool's parameters for a language; others have those of the task `li`."""
    modules = ('exact',) if lang == 'other' else ('exact', 'stem')
    others = Setting((0.75, 1.40, 0.70, 0.50), modules, (1.0, 0.5, 0.5, 0.5))
    return _SETTINGS.get(lang, others)


class Statistics(NamedTuple):
    """Sufficient statistics of a score, of one text or of many.

    The lengths and the modules' counts have four numbers in a row: content words of the hypothesis
    and of the reference, function words of the hypothesis and of the reference.
    """

    lengths: tuple[int, ...]  # Of the texts.
    modules: tuple[tuple[int, ...], ...]  # Of the words that each module has matched.
    matched: tuple[int, int]  # Words of both sides.
    chunks: int  # Runs of matches; none of a text that matches as a whole.

    def plus(self, other: 'Statistics') -> 'Statistics':
        """Adds the statistics of two sets of texts."""
        rows = zip((self.lengths, *self.modules), (other.lengths, *other.modules), strict=True)
        lengths, *modules = (tuple(map(sum, zip(*row, strict=True))) for row in rows)
        matched = self.matched[0] + other.matched[0], self.matched[1] + other.matched[1]
        return Statistics(lengths, tuple(modules), matched, self.chunks + other.chunks)

    def score(self, setting: Setting) -> float:
        """The score, 0 to 1, by equations 1 to 5 of W14-3348, as the tool computes them."""
        alpha, beta, gamma, delta = setting.parameters
        sides = []
        for side in (0, 1):
            length = delta * self.lengths[side] + (1 - delta) * self.lengths[side + 2]
            matched = sum(
                weight * (delta * module[side] + (1 - delta) * module[side + 2])
                for weight, module in zip(setting.weights, self.modules, strict=False)
            )
            sides.append(matched / length if length else math.nan)
        precision, recall = sides
        mean = math.nan
        if precision > 0 and recall > 0:
            mean = 1 / ((1 - alpha) / precision + alpha / recall)
        words = sum(self.matched) / 2
        fragments = self.chunks / words if words else math.nan
        score = max(0.0, mean * (1 - gamma * fragments**beta))
        return 0.0 if math.isnan(score) else score


def count(
    hypothesis: Sequence[str], reference: Sequence[str], aligned: alignment.Alignment
) -> Statistics:
    """The statistics of one text."""

    def row(*sides: Iterable[str]) -> tuple[int, ...]:
        kinds = [[word.lower() in tables.FUNCTION_WORDS for word in words] for words in sides]
        return tuple(of_side.count(kind) for kind in (False, True) for of_side in kinds)

    of_module: list[tuple[list[str], list[str]]] = [([], []) for _ in MODULES]
    for match in aligned.matches:
        words, others = of_module[match.module]
        words += hypothesis[match.other : match.other + match.other_length]
        others += reference[match.start : match.start + match.length]
    matched = (sum(len(words) for words, _ in of_module), sum(len(o) for _, o in of_module))
    whole = matched == (len(hypothesis), len(reference)) and aligned.chunks == 1
    modules = tuple(row(*sides) for sides in of_module)
    return Statistics(row(hypothesis, reference), modules, matched, 0 if whole else aligned.chunks)


@dataclasses.dataclass(frozen=True)
class Meteor(contract.OfTexts):
    """METEOR 1.5, 0 to 100, of the corpus: its statistics are added up, and no mean is taken.

    The score is called `meteor` where everything is as the tool has it for the language. With other
    modules, or without the tool's files, it gets another name, such as meteor_exact_stem.

    A target may be several references: a list of texts; the one with the best score counts.
    """

    lang: str  # ISO code, METEOR's own (cz, se), or 'other' for words with spaces between them.
    modules: Sequence[str] = ()  # The tool's -m; () are the language's own.
    # 'norm' (the tool's -norm), 'lower' or 'raw', which neither sets punctuation apart nor changes
    # case; '' is 'norm' where the tool can, and else 'lower'.
    text: str = ''

    def __post_init__(self):
        object.__setattr__(self, 'modules', tuple(self.modules))
        hint = "Texts in words are 'other'"
        errors.check_known('language of METEOR', self._lang, LANGUAGES, hint)
        if self.text:
            errors.check_known('text of METEOR', self.text, _TEXTS)
        if self.text == 'norm' and self._lang not in _NORMALISED:
            raise errors.UserError(
                f'METEOR cannot normalise {self.lang}, only {", ".join(_NORMALISED)}; '
                "take text='lower' with words that have spaces between them"
            )
        for module in self.modules:
            errors.check_known('module of METEOR', module, MODULES)
        setting = self._setting
        if 'synonym' in setting.modules and self._lang != 'en':
            raise errors.UserError(f'METEOR has synonyms of English only, none of {self.lang}')
        if 'stem' in setting.modules and self._lang not in STEMMERS:
            raise errors.UserError(
                f"METEOR's stems of {self.lang} are not here; take modules=('exact',)"
            )
        if len(setting.weights) < len(setting.modules):
            raise errors.UserError(
                f'METEOR has {len(setting.weights)} weights for {self.lang}, too few for '
                f'{", ".join(setting.modules)}'
            )

    @classmethod
    def for_language(cls, lang: str, modules: Sequence[str] = ()) -> 'Meteor':
        """METEOR of a language; with spaces between words but not METEOR's own, it is 'other'."""
        row = languages.LANGUAGES.get(lang)
        is_known = NAMES.get(lang, lang) in LANGUAGES
        return cls('other' if row and row.spaces and not is_known else lang, modules=modules)

    @classmethod
    def without_tables(cls, lang: str) -> 'Meteor':
        """Equal words and equal stems alone, which need none of METEOR's tables."""
        name = NAMES.get(lang, lang)
        modules = ('exact', 'stem') if name in STEMMERS else ('exact',)
        return cls.for_language(lang, modules)

    @property
    def signature(self) -> str:
        """The tool's own identifier, and which of its tables were there."""
        setting, has_jar = self._setting, tables.find() is not None
        identifier = [
            'meteor-1.5',
            'wo',
            self._lang,
            _TEXTS[self._text],
            '_'.join(str(float(number)) for number in setting.parameters),
            '_'.join(module[:2] for module in setting.modules),
            '_'.join(str(float(number)) for number in setting.weights[: len(setting.modules)]),
        ]
        parts = ['-'.join(identifier)]
        if 'stem' in setting.modules:
            parts.append(f'stems:nltk-{importlib.metadata.version("nltk")}')
        if 'synonym' in setting.modules:
            parts.append(f'synonyms:{"wordnet-3.0" if has_jar else "none"}')
        if 'paraphrase' in setting.modules:
            path = self._paraphrase_file
            parts.append(f'paraphrases:{path.name if path else "none"}')
        if self._text == 'norm':
            parts.append(f'prefixes:{"meteor" if has_jar else "own"}')
        return '|'.join([*parts, 'function_words:en', f'beam:{alignment.BEAM}', 'equal:by-hash'])

    @property
    def score_name(self) -> str:
        """`meteor`, or another name where it is not the tool's own score of the language."""
        name = 'meteor'
        if self._setting.modules != setting_of(self._lang).modules:
            name += ''.join(f'_{module}' for module in self._setting.modules)
        if self._text == 'norm' and tables.find() is None:
            name += '_no_tables'
        return name

    def missing(self) -> list[str]:
        modules, lines = self._setting.modules, []
        lacks_synonyms = 'synonym' in modules and tables.find() is None
        lacks_phrases = 'paraphrase' in modules and self._paraphrase_file is None
        if lacks_synonyms or lacks_phrases:
            without = [module for module in modules if module in ('exact', 'stem')]
            lines.append(
                f'{tables.missing(self._lang)}. Without them modules={without} works, which is '
                'another score'
            )
        return lines

    def with_examples(self, targets: Targets, predictions: Sequence[str]) -> Scored:
        """METEOR of the corpus, which is not the mean over texts, and of each text."""
        statistics = self.statistics(targets, predictions)
        name, setting = self.score_name, self._setting
        total = functools.reduce(Statistics.plus, statistics)
        rows = [{name: 100 * one.score(setting)} for one in statistics]
        return {name: 100 * total.score(setting)}, rows

    def statistics(self, targets: Targets, predictions: Sequence[str]) -> list[Statistics]:
        """Computes the statistics of each text against the reference that scores highest."""
        rows = self.references(targets, predictions)
        words = functools.cache(self._words)
        predicted = [words(text) for text in predictions]
        references = [[words(text) for text in row] for row in rows]
        matchers = self._matchers(predicted, references)
        setting = self._setting
        best = []
        for hypothesis, several in zip(predicted, references, strict=True):
            scored = (
                count(hypothesis, one, alignment.align(hypothesis, one, matchers))
                for one in several
            )
            best.append(max(scored, key=lambda one: one.score(setting)))
        return best

    @property
    def _lang(self) -> str:
        return NAMES.get(self.lang, self.lang)

    @property
    def _text(self) -> str:
        return self.text or ('norm' if self._lang in _NORMALISED else 'lower')

    @functools.cached_property
    def _setting(self) -> Setting:
        setting = setting_of(self._lang)
        return setting._replace(modules=tuple(self.modules) or setting.modules)

    @property
    def _paraphrase_file(self) -> pathlib.Path | None:
        return tables.paraphrase_file(tables.find(), self._lang)

    def _words(self, text: str) -> tuple[str, ...]:
        if self._text == 'lower':
            text = text.lower()
        elif self._text != 'raw':
            text = normalize(text, self._lang, tables.prefixes(tables.find(), self._lang))
        return tuple(split(text))

    def _matchers(
        self, hypotheses: Sequence[Sequence[str]], references: Sequence[Sequence[Sequence[str]]]
    ) -> list[alignment.Matcher]:
        """The modules; of paraphrases those that these texts can have."""
        made: list[alignment.Matcher] = []
        for module in self._setting.modules:
            if module == 'exact':
                made.append(alignment.exact)
            elif module == 'stem':
                made.append(alignment.stems(_stemmer(STEMMERS[self._lang])))
            elif module == 'synonym':
                made.append(alignment.synonyms(tables.synonyms(tables.find())))
            elif path := self._paraphrase_file:
                texts = {*hypotheses, *(row for several in references for row in several)}
                made.append(alignment.paraphrases(tables.read_paraphrases(path, texts)))
        return made


class _Cased(str):
    """A word that NLTK's stemmers do not lower-case, as the tool's do not."""

    def lower(self) -> str:
        return self


@functools.cache
def _stemmer(language: str) -> Callable[[str], str]:
    load_nltk()
    from nltk.stem import SnowballStemmer

    stem = SnowballStemmer(language).stem
    return functools.cache(lambda word: str(stem(_Cased(word))))


# ------------------------------------------------------------------------ text as the tool sets it

# What counts as a letter: Latin and Cyrillic.
_LETTERS = 'A-Za-zŠŽšžŸÀ-ÖØ-öø-ž\u0400-\u04ff\u0500-\u0527\ua640-\ua66e\ua67e-\ua697\u1d00-\u1d7f'
_SPACE = ' \\t\\n\\x0b\\f\\r'
_OTHER = re.compile(f"[^{_LETTERS}0-9{_SPACE}.'`,\\-‘’]")
_DOTS = re.compile(r'\.{2,}')
_COMMAS = [
    re.compile(pattern) for pattern in ('([^0-9]),([^0-9])', '([0-9]),([^0-9])', '([^0-9]),([0-9])')
]
_DASH = re.compile(f'([{_LETTERS}0-9.])-([{_LETTERS}0-9])')
_BETWEEN = re.compile(f"([{_LETTERS}])'([{_LETTERS}])")
_APOSTROPHES = [
    re.compile(pattern)
    for pattern in (
        f"([^{_LETTERS}])'([^{_LETTERS}])",
        f"([^{_LETTERS}0-9])'([{_LETTERS}])",
        f"([{_LETTERS}])'([^{_LETTERS}])",
    )
]
_FRENCH = [_APOSTROPHES[0], re.compile(f"([^{_LETTERS}])'([{_LETTERS}])"), _APOSTROPHES[2]]
_DECADE = re.compile("([0-9])'s")
_LETTER = re.compile(f'[{_LETTERS}]')
_WIDE = re.compile('[ \u00a0\u2000-\u200a\u202f\u205f\u3000]+')
_TRIMMED = ''.join(map(chr, range(0x21)))  # What Java's trim() takes from the ends of a line.
_ASCII_SPACE = re.compile('[ \\t\\n\\f\\r]+')
_KEPT_DOTS = '\ue000'  # A run of dots while single ones are looked at; n of them stand for n dots.


def split(text: str) -> list[str]:
    """A line's words: between white space of ASCII, as Java's StringTokenizer has it."""
    return [word for word in _ASCII_SPACE.split(text) if word]


def normalize(text: str, lang: str, prefixes: Mapping[str, bool]) -> str:
    """A line, as the tool's -norm prints it: punctuation set apart, then lower case.

    normalize("Don't go, it's 5,000 U.S. dollars.", 'en', prefixes)
      -> "don 't go , it 's 5,000 us dollars ."

    The prefixes are words that a dot belongs to; True: before a number only.
    """
    text = _OTHER.sub(r' \g<0> ', f' {text} ')
    text = _DOTS.sub(lambda match: f' {_KEPT_DOTS * len(match[0])} ', text)
    for pattern in _COMMAS:
        text = pattern.sub(r'\1 , \2', text)
    text = text.replace('`', "'").replace('‘', "'").replace('’', "'")
    text = text.replace("''", ' " ').replace('“', ' " ').replace('”', ' " ')
    text = text.replace('–', '-').replace('--', '-')
    text = _DASH.sub(r'\1 \2', text)
    text = _apart(text, lang)
    words = split(text)
    text = ' '.join(_dotted(place, words, prefixes) for place in range(len(words)))
    text = text.replace(_KEPT_DOTS, '.')
    return _WIDE.sub(' ', text).strip(_TRIMMED).lower()


def _apart(text: str, lang: str) -> str:
    """Apostrophes, each with the word it belongs to."""
    if lang not in ('en', 'fr'):
        return text.replace("'", " ' ")
    for pattern in _APOSTROPHES if lang == 'en' else _FRENCH:
        text = pattern.sub(r"\1 ' \2", text)
    if lang == 'fr':
        return _BETWEEN.sub(r"\1' \2", text)
    return _DECADE.sub(r"\1 's", _BETWEEN.sub(r"\1 '\2", text))


def _dotted(place: int, words: list[str], prefixes: Mapping[str, bool]) -> str:
    """A word, its last dot set apart where it ends a sentence."""
    word = words[place]
    if not word.endswith('.') or word == '.':
        return word
    rest, following = word[:-1], words[place + 1][0] if place + 1 < len(words) else ''
    if '.' in rest and _LETTER.search(rest):
        return word.replace('.', '')
    before_number = prefixes.get(rest)
    if before_number is False or 'a' <= following <= 'z':
        return word
    return word if before_number and '0' <= following <= '9' else f'{rest} .'
