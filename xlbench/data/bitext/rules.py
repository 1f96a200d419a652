"""Rules for pairs of texts that are no translations, or are useless."""

import dataclasses
import functools
from collections.abc import Sequence

import regex

from xlbench.benchmarks import languages
from xlbench.data import identification
from xlbench.data.bitext import texts
from xlbench.system.errors import UserError

# The rules, in their order. The first two are of records that a reader refuses or leaves out, the
# last one of pairs that were there before.
RULES = (
    'unreadable', 'not both languages', 'no letters', 'length', 'length ratio', 'copy', 'script',
    'language', 'duplicate',
)  # fmt: skip
_LEEWAY = 5  # Words that are added to both lengths: 'Yes.' may well be 'Ja, das stimmt.'
_SCRIPT_SHARE = 0.5  # Smallest share of letters in the language's script.
# Letters that the identifier needs, of scripts with spaces and without: it guesses at shorter ones.
_LETTERS = 25, 8
_LETTER = regex.compile(r'\p{L}')
_SCRIPTS = {'japanese': r'\p{Han}\p{Hiragana}\p{Katakana}', 'korean': r'\p{Hangul}\p{Han}'}

Pair = tuple[str, str]


@dataclasses.dataclass(frozen=True)
class Rules:
    """Limits that a pair must meet to be kept.

    Attributes:
        source_lang: ISO code of the first text.
        target_lang: ISO code of the second.
        max_length: Words that a text may have; a language without spaces has 1.6 characters a word.
        max_ratio: How many times as long as the other one a text may be, when five words are added
            to both.
        identify: Whether fastText has to take each text for one in its language.
    """

    source_lang: str
    target_lang: str
    max_length: int = 250
    max_ratio: float = 2.0
    identify: bool = True

    def __post_init__(self):
        if self.source_lang == self.target_lang:
            raise UserError(f'both languages are {self.source_lang!r}; name two')
        for lang in self.langs:
            languages.get(lang)
        if self.max_length < 1:
            raise UserError(f'max_length is {self.max_length}; give 1 word or more')
        if not self.max_ratio >= 1:
            raise UserError(f'max_ratio is {self.max_ratio}; give 1 or more')

    @property
    def langs(self) -> Pair:
        """Returns both languages."""
        return self.source_lang, self.target_lang

    def verdicts(self, pairs: Sequence[Pair]) -> list[str]:
        """Returns for each pair of normalised texts the first rule that it breaks; '' if none."""
        broken = [self._broken(pair) for pair in pairs]
        if not self.identify:
            return broken
        for side, lang in enumerate(self.langs):
            least = _LETTERS[0] if languages.get(lang).spaces else _LETTERS[1]
            asked = [
                i for i, rule in enumerate(broken)
                if not rule and len(_LETTER.findall(pairs[i][side])) >= least
            ]  # fmt: skip
            said = identification.identify([pairs[i][side] for i in asked])
            for i, answer in zip(asked, said, strict=True):
                if answer != lang:
                    broken[i] = 'language'
        return broken

    def _broken(self, pair: Pair) -> str:
        alone = [_LETTER.findall(text) for text in pair]
        if not all(alone):
            return 'no letters'
        lengths = [texts.length(t, lang) for t, lang in zip(pair, self.langs, strict=True)]
        if max(lengths) > self.max_length:
            return 'length'
        if max(lengths) + _LEEWAY > self.max_ratio * (min(lengths) + _LEEWAY):
            return 'length ratio'
        if texts.letters(pair[0]) == texts.letters(pair[1]):
            return 'copy'
        for found, lang in zip(alone, self.langs, strict=True):
            script = _script(lang)
            if script and len(script.findall(''.join(found))) < _SCRIPT_SHARE * len(found):
                return 'script'
        return ''


@functools.cache
def _script(lang: str) -> 'regex.Pattern[str] | None':
    """Compiles a letter of a language's script; None if Unicode has no such script."""
    name = languages.get(lang).script
    try:
        return regex.compile(f'[{_SCRIPTS.get(name, rf"{chr(92)}p{{{name}}}")}]')
    except regex.error:
        return None
