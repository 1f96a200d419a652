"""Languages, a row of languages.csv each: its code, its names in other tools, how it is written.

  LANGUAGES['de'].name -> 'german', as the multilingual ROUGE scorer and NLTK call it
  LANGUAGES['de'].mbart -> 'de_DE', its token in mBART-50

A language that is not in the table is a call, in a task file before its tasks:

  languages.register('lo', 'lao', 'lao', segmenter='characters')

Whatever is prepared or trained with it keeps its row, so that evaluations and predictions know the
language without the task file.
"""

import csv
import dataclasses
import pathlib
import re
from collections.abc import Callable, Iterable, Mapping

from xlbench.benchmarks import task_files
from xlbench.system import errors
from xlbench.system.files import Json


@dataclasses.dataclass(frozen=True)
class Language:
    """One language.

    Attributes:
      code: ISO 639-1 code, as in the names of tasks; ISO 639-3 of a language without one.
      name: English name in lower case.
      script: ISO 15924 name of the script it is usually written in.
      family: language family, and the branch of the Indo-European ones.
      mbart: its language token in mBART-50 (arXiv:2008.00401, table 6); None if it has none.
      alpha3: ISO 639-3 code, of the macrolanguage where there is one; in Marian's tokens.
      spaces: whether words are separated by spaces.
      segmenter: of a language that was registered, see `register`; '' of those of the table.
    """

    code: str
    name: str
    script: str
    family: str
    mbart: str | None
    alpha3: str
    spaces: bool
    segmenter: str = ''

    @property
    def direction(self) -> str:
        """The direction of its script, 'ltr' or 'rtl'."""
        return 'rtl' if self.script in _RIGHT_TO_LEFT else 'ltr'

    @property
    def flores(self) -> str:
        """Its code in FLORES-200 and NLLB (arXiv:2207.04672, table 1): 'deu_Latn' of German."""
        alpha3 = _ROWS.get(self.code, {}).get('flores') or self.alpha3
        return f'{alpha3}_{_SCRIPTS.get(self.script, self.script)}'


# What ISO 15924 calls them.
_SCRIPTS = dict(
    latin='Latn', arabic='Arab', cyrillic='Cyrl', bengali='Beng', greek='Grek', gujarati='Gujr',
    hebrew='Hebr', devanagari='Deva', japanese='Jpan', georgian='Geor', khmer='Khmr', hangul='Hang',
    malayalam='Mlym', myanmar='Mymr', sinhala='Sinh', tamil='Taml', telugu='Telu', thai='Thai',
    han='Hans', ethiopic='Ethi',
)  # fmt: skip


_RIGHT_TO_LEFT = ('arabic', 'hebrew')  # Scripts.
_NO_SPACES = ('zh', 'ja', 'th', 'my', 'km')  # Korean and Vietnamese do write spaces.

# languages.csv: `flores` is where FLORES-200 has a language of a macrolanguage. A new language goes
# to the end: multilingual BERT's language tokens (xlbench/data/tokenizers) count the rows. Its last
# columns are features of the World Atlas of Language Structures (https://wals.info), as table 9 of
# arXiv:2012.15682 gives them: 81A order of subject, object and verb; 85A adpositions; and the order
# of a noun with its 86A genitive, 87A adjective, 88A demonstrative, 89A numeral. 'none' is no
# dominant order, which two languages can share; '-' is unknown.
with pathlib.Path(__file__).with_suffix('.csv').open(encoding='utf-8', newline='') as _file:
    _ROWS = {row['code']: row for row in csv.DictReader(_file)}
_FEATURES = ('order', 'adpositions', 'genitive', 'adjective', 'demonstrative', 'numeral')

LANGUAGES: dict[str, Language] = {
    code: Language(
        code=code,
        name=row['name'],
        script=row['script'],
        family=row['family'],
        mbart=row['mbart'] or None,
        alpha3=row['alpha3'],
        spaces=code not in _NO_SPACES,
    )
    for code, row in _ROWS.items()
}

# Those of the table, in its order, which tokens of multilingual BERT count by.
TABLE = tuple(LANGUAGES)

WALS: dict[str, tuple[str, ...]] = {
    code: tuple(row[name] for name in _FEATURES) for code, row in _ROWS.items() if row['order']
}


HOW_TO_ADD = (
    'another language is added in a task file: '
    "languages.register('lo', 'lao', 'lao', segmenter='characters')"
)


def shared_features(code: str, other: str = 'en') -> int | None:
    """Counts which of the six WALS features two languages have in common; None if none is known.

    A feature that is unknown of one of the two does not count. arXiv:2012.15682 counts in the same
    way: only so do its tables 9, 12 and 13 give the correlations of its table 3.
    """
    pairs = list(zip(WALS.get(code, ()), WALS.get(other, ()), strict=False))
    known = [pair for pair in pairs if '-' not in pair]
    return sum(a == b for a, b in known) if known else None


def get(code: str) -> Language:
    """The language of an ISO code; a UserError names the nearest ones if there is no such row."""
    if code not in LANGUAGES:
        hint = f'A code, such as de, not a name; {HOW_TO_ADD}'
        raise errors.unknown('language', code, LANGUAGES, hint=hint)
    return LANGUAGES[code]


# ---------------------------------------------------------------------------------------------
# Languages that the table lacks.

SEGMENTERS = ('spaces', 'characters', 'ja', 'th', 'zh')
_FUNCTION = re.compile(r'(?:tasks/[^\W\d]\w*\.py|[^\W\d][\w.]*):[^\W\d]\w*')


def register(
    code: str,
    name: str,
    script: str,
    *,
    segmenter: str | Callable[[str], list[str]] = 'spaces',
    family: str = '',
    alpha3: str = '',
) -> Language:
    """Adds a language that the table lacks; to be called in a task file, more than once if need be.

    Args:
      code: ISO 639-1 or 639-3 code, as in the names of tasks.
      name: English name in lower case.
      script: ISO 15924 name of its script in lower case: 'latin', 'arabic', 'lao'.
      segmenter: what parts a text into words for metrics: 'spaces'; 'characters', each of which
        is a word then; 'ja', 'th' or 'zh', the segmenter of that language; or a function from a
        text to its words, at the top of a task file or of a module (see metrics/specs.py).
      family: language family.
      alpha3: ISO 639-3 code, in Marian's tokens.
    """
    if callable(segmenter):
        module = getattr(segmenter, '__module__', '') or ''
        file = getattr(getattr(segmenter, '__code__', None), 'co_filename', None)
        segmenter = f'{task_files.name_of(file) or module}:{getattr(segmenter, "__qualname__", "")}'
    elif segmenter not in SEGMENTERS:
        raise errors.unknown(f'segmenter of {code}', str(segmenter), SEGMENTERS)
    return _add(
        code=code, name=name, script=script, segmenter=segmenter, family=family, alpha3=alpha3
    )


# What is kept of a language that the table lacks, and its form.
_FORMS = {
    'code': '[a-z]{2,3}',
    'name': "[a-z][a-z' -]*",
    'script': '[a-z][a-z -]*',
    'segmenter': f'{"|".join(SEGMENTERS)}|{_FUNCTION.pattern}',
    'family': '[a-z -]*',
    'alpha3': '([a-z]{3})?',
}


def _add(**row: str) -> Language:
    for what, form in _FORMS.items():
        if not isinstance(row[what], str) or not re.fullmatch(form, row[what]):
            example = "register('lo', 'lao', 'lao', segmenter='characters')"
            form = 'not what a function may be' if what == 'segmenter' else 'not in small letters'
            raise errors.UserError(
                f'{what} {row[what]!r} of a language is empty or {form}; an example is {example}'
            )
    code, name = row['code'], row['name']
    if code in TABLE:
        raise errors.UserError(f'language {code} is in the table already: {LANGUAGES[code].name}')
    for other in LANGUAGES.values():
        if other.name == name and other.code != code:
            raise errors.UserError(f'{name} is the language {other.code} already')
    row['alpha3'] = row['alpha3'] or (code if len(code) == 3 else '')
    LANGUAGES[code] = Language(**row, mbart=None, spaces=row['segmenter'] == 'spaces')
    return LANGUAGES[code]


def registered(codes: Iterable[str | None]) -> list[dict[str, str]]:
    """Returns those of the languages that the table lacks, as plain JSON for `restore`."""
    added = sorted({code for code in codes if code in LANGUAGES and code not in TABLE})
    return [{key: getattr(LANGUAGES[code], key) for key in _FORMS} for code in added]


def restore(kept: Json) -> None:
    """Adds what `registered` gave; what this process has registered itself counts before it.

    The value is read from a file: UserError for one that is no such list.
    """
    for row in kept if isinstance(kept, list) else ():
        if not isinstance(row, Mapping) or set(row) != {*_FORMS}:
            raise errors.UserError(f'{row!r} is not a language that languages.register has made')
        if f'{row["code"]}' not in LANGUAGES:
            _add(**row)
