"""A row per language: its code, its names in other tools, how it is written.

  LANGUAGES['de'].name -> 'german', as the multilingual ROUGE scorer and NLTK call it
  LANGUAGES['de'].mbart -> 'de_DE', its token in mBART-50

A language that is not in the table is a call, in a task file before its tasks:

  languages.register('lo', 'lao', 'lao', segmenter='characters')

Whatever is prepared or trained with it keeps its row, so that evaluations and predictions know the
language without the task file.
"""

import dataclasses
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
      direction: 'ltr' or 'rtl', the direction of its script.
      spaces: whether words are separated by spaces.
      segmenter: of a language that was registered, see `register`; '' of those of the table.
    """

    code: str
    name: str
    script: str
    family: str
    mbart: str | None
    alpha3: str
    direction: str
    spaces: bool
    segmenter: str = ''

    @property
    def flores(self) -> str:
        """Its code in FLORES-200 and NLLB (arXiv:2207.04672, table 1): 'deu_Latn' of German."""
        return f'{_FLORES.get(self.code, self.alpha3)}_{_SCRIPTS.get(self.script, self.script)}'


# Where FLORES-200 has a language of a macrolanguage; and what ISO 15924 calls scripts.
_FLORES = dict(
    ar='arb', az='azj', fa='pes', lv='lvs', mn='khk', ms='zsm', ne='npi', no='nob', ps='pbt',
    sw='swh', om='gaz',
)  # fmt: skip
_SCRIPTS = dict(
    latin='Latn', arabic='Arab', cyrillic='Cyrl', bengali='Beng', greek='Grek', gujarati='Gujr',
    hebrew='Hebr', devanagari='Deva', japanese='Jpan', georgian='Geor', khmer='Khmr', hangul='Hang',
    malayalam='Mlym', myanmar='Mymr', sinhala='Sinh', tamil='Taml', telugu='Telu', thai='Thai',
    han='Hans', ethiopic='Ethi',
)  # fmt: skip


_RIGHT_TO_LEFT = ('arabic', 'hebrew')  # Scripts.
_NO_SPACES = ('zh', 'ja', 'th', 'my', 'km')  # Korean and Vietnamese do write spaces.

# code, name, script, family, mBART-50 token or -, ISO 639-3 code. A new language goes to the end:
# multilingual BERT's language tokens (xlbench/data/tokenizers) count the rows.
_ROWS = """
af  afrikaans    latin       germanic       af_ZA  afr
ar  arabic       arabic      semitic        ar_AR  ara
az  azerbaijani  latin       turkic         az_AZ  aze
bg  bulgarian    cyrillic    slavic         -      bul
bn  bengali      bengali     indo-aryan     bn_IN  ben
cs  czech        latin       slavic         cs_CZ  ces
da  danish       latin       germanic       -      dan
de  german       latin       germanic       de_DE  deu
el  greek        greek       hellenic       -      ell
en  english      latin       germanic       en_XX  eng
es  spanish      latin       romance        es_XX  spa
et  estonian     latin       uralic         et_EE  est
eu  basque       latin       isolate        -      eus
fa  persian      arabic      iranian        fa_IR  fas
fi  finnish      latin       uralic         fi_FI  fin
fr  french       latin       romance        fr_XX  fra
gl  galician     latin       romance        gl_ES  glg
gu  gujarati     gujarati    indo-aryan     gu_IN  guj
he  hebrew       hebrew      semitic        he_IL  heb
hi  hindi        devanagari  indo-aryan     hi_IN  hin
hr  croatian     latin       slavic         hr_HR  hrv
hu  hungarian    latin       uralic         -      hun
id  indonesian   latin       austronesian   id_ID  ind
it  italian      latin       romance        it_IT  ita
ja  japanese     japanese    japonic        ja_XX  jpn
jv  javanese     latin       austronesian   -      jav
ka  georgian     georgian    kartvelian     ka_GE  kat
kk  kazakh       cyrillic    turkic         kk_KZ  kaz
km  khmer        khmer       austroasiatic  km_KH  khm
ko  korean       hangul      koreanic       ko_KR  kor
lt  lithuanian   latin       baltic         lt_LT  lit
lv  latvian      latin       baltic         lv_LV  lav
mk  macedonian   cyrillic    slavic         mk_MK  mkd
ml  malayalam    malayalam   dravidian      ml_IN  mal
mn  mongolian    cyrillic    mongolic       mn_MN  mon
mr  marathi      devanagari  indo-aryan     mr_IN  mar
ms  malay        latin       austronesian   -      msa
my  burmese      myanmar     sino-tibetan   my_MM  mya
ne  nepali       devanagari  indo-aryan     ne_NP  nep
nl  dutch        latin       germanic       nl_XX  nld
no  norwegian    latin       germanic       -      nor
pl  polish       latin       slavic         pl_PL  pol
ps  pashto       arabic      iranian        ps_AF  pus
pt  portuguese   latin       romance        pt_XX  por
ro  romanian     latin       romance        ro_RO  ron
ru  russian      cyrillic    slavic         ru_RU  rus
si  sinhala      sinhala     indo-aryan     si_LK  sin
sl  slovene      latin       slavic         sl_SI  slv
sv  swedish      latin       germanic       sv_SE  swe
sw  swahili      latin       bantu          sw_KE  swa
ta  tamil        tamil       dravidian      ta_IN  tam
te  telugu       telugu      dravidian      te_IN  tel
th  thai         thai        kra-dai        th_TH  tha
tl  tagalog      latin       austronesian   tl_XX  tgl
tr  turkish      latin       turkic         tr_TR  tur
uk  ukrainian    cyrillic    slavic         uk_UA  ukr
ur  urdu         arabic      indo-aryan     ur_PK  urd
vi  vietnamese   latin       austroasiatic  vi_VN  vie
xh  xhosa        latin       bantu          xh_ZA  xho
yo  yoruba       latin       volta-niger    -      yor
zh  chinese      han         sino-tibetan   zh_CN  zho
am  amharic      ethiopic    semitic        -      amh
ha  hausa        latin       chadic         -      hau
ig  igbo         latin       volta-niger    -      ibo
lg  luganda      latin       bantu          -      lug
ln  lingala      latin       bantu          -      lin
om  oromo        latin       cushitic       -      orm
pcm nigerian-pidgin  latin   creole         -      pcm
rn  rundi        latin       bantu          -      run
sn  shona        latin       bantu          -      sna
so  somali       latin       cushitic       -      som
ti  tigrinya     ethiopic    semitic        -      tir
"""


# Features of the World Atlas of Language Structures (https://wals.info), as table 9 of
# arXiv:2012.15682 gives them: 81A order of subject, object and verb; 85A adpositions; and the order
# of a noun with its 86A genitive, 87A adjective, 88A demonstrative, 89A numeral. 'none' is no
# dominant order, which two languages can share; '-' is unknown.
_WALS = """
af  -     -     -         -         -         -
ar  vso   prep  noun-gen  noun-adj  dem-noun  num-noun
bg  svo   prep  none      adj-noun  dem-noun  num-noun
bn  sov   -     -         -         -         -
de  none  prep  noun-gen  adj-noun  dem-noun  num-noun
el  none  prep  noun-gen  adj-noun  dem-noun  num-noun
en  svo   prep  none      adj-noun  dem-noun  num-noun
es  svo   prep  noun-gen  noun-adj  dem-noun  num-noun
et  svo   post  gen-noun  adj-noun  dem-noun  num-noun
eu  sov   post  gen-noun  noun-adj  noun-dem  num-noun
fa  sov   prep  noun-gen  noun-adj  dem-noun  num-noun
fi  svo   post  gen-noun  adj-noun  dem-noun  num-noun
fr  svo   prep  noun-gen  noun-adj  dem-noun  num-noun
he  svo   prep  noun-gen  noun-adj  noun-dem  num-noun
hi  sov   post  gen-noun  adj-noun  dem-noun  num-noun
hu  none  post  gen-noun  adj-noun  dem-noun  num-noun
id  svo   prep  noun-gen  noun-adj  noun-dem  num-noun
it  svo   prep  noun-gen  noun-adj  dem-noun  num-noun
ja  sov   post  gen-noun  adj-noun  dem-noun  num-noun
jv  -     -     -         -         -         -
ka  sov   post  gen-noun  adj-noun  dem-noun  num-noun
kk  -     -     -         -         -         -
ko  sov   post  gen-noun  adj-noun  dem-noun  num-noun
ml  sov   -     gen-noun  adj-noun  dem-noun  num-noun
mr  sov   post  gen-noun  adj-noun  dem-noun  num-noun
ms  -     -     -         -         -         -
my  sov   post  gen-noun  noun-adj  dem-noun  noun-num
nl  none  prep  noun-gen  adj-noun  dem-noun  num-noun
pt  svo   prep  noun-gen  noun-adj  dem-noun  -
ru  svo   prep  noun-gen  adj-noun  dem-noun  num-noun
sw  svo   prep  noun-gen  noun-adj  noun-dem  noun-num
ta  sov   post  gen-noun  adj-noun  dem-noun  num-noun
te  sov   post  gen-noun  adj-noun  dem-noun  num-noun
th  svo   prep  noun-gen  noun-adj  noun-dem  noun-num
tl  vso   -     noun-gen  none      mixed     num-noun
tr  sov   post  gen-noun  adj-noun  dem-noun  num-noun
ur  sov   post  gen-noun  adj-noun  dem-noun  num-noun
vi  svo   prep  noun-gen  noun-adj  noun-dem  num-noun
yo  svo   prep  noun-gen  noun-adj  noun-dem  noun-num
zh  svo   none  gen-noun  adj-noun  dem-noun  num-noun
"""


def _parse(row: str) -> Language:
    code, name, script, family, mbart, alpha3 = row.split()
    return Language(
        code=code,
        name=name,
        script=script,
        family=family,
        mbart=None if mbart == '-' else mbart,
        alpha3=alpha3,
        direction='rtl' if script in _RIGHT_TO_LEFT else 'ltr',
        spaces=code not in _NO_SPACES,
    )


LANGUAGES: dict[str, Language] = {
    language.code: language for language in map(_parse, _ROWS.strip().splitlines())
}

# Those of the table, in its order, which tokens of multilingual BERT count by.
TABLE = tuple(LANGUAGES)

WALS: dict[str, tuple[str, ...]] = {
    code: tuple(features) for code, *features in map(str.split, _WALS.strip().splitlines())
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
    """Adds a language that the table lacks, to be called in a task file; again is harmless.

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
    return _add(code, name, script, segmenter, family, alpha3)


def _add(code: str, name: str, script: str, segmenter: str, family: str, alpha3: str) -> Language:
    for what, value, form in (
        ('code', code, '[a-z]{2,3}'),
        ('name', name, "[a-z][a-z' -]*"),
        ('script', script, '[a-z][a-z -]*'),
        ('family', family, '[a-z -]*'),
        ('alpha3', alpha3, '([a-z]{3})?'),
        ('segmenter', segmenter, f'{"|".join(SEGMENTERS)}|{_FUNCTION.pattern}'),
    ):
        if not isinstance(value, str) or not re.fullmatch(form, value):
            example = "register('lo', 'lao', 'lao', segmenter='characters')"
            form = 'not what a function may be' if what == 'segmenter' else 'not in small letters'
            raise errors.UserError(
                f'{what} {value!r} of a language is empty or {form}; an example is {example}'
            )
    if code in TABLE:
        raise errors.UserError(f'language {code} is in the table already: {LANGUAGES[code].name}')
    for other in LANGUAGES.values():
        if other.name == name and other.code != code:
            raise errors.UserError(f'{name} is the language {other.code} already')
    LANGUAGES[code] = Language(
        code=code,
        name=name,
        script=script,
        family=family,
        mbart=None,
        alpha3=alpha3 or (code if len(code) == 3 else ''),
        direction='rtl' if script in _RIGHT_TO_LEFT else 'ltr',
        spaces=segmenter == 'spaces',
        segmenter=segmenter,
    )
    return LANGUAGES[code]


_KEPT = ('code', 'name', 'script', 'segmenter', 'family', 'alpha3')


def registered(codes: Iterable[str | None]) -> list[dict[str, str]]:
    """Returns those of the languages that the table lacks, as plain JSON for `restore`."""
    added = sorted({code for code in codes if code in LANGUAGES and code not in TABLE})
    return [{key: getattr(LANGUAGES[code], key) for key in _KEPT} for code in added]


def restore(kept: Json) -> None:
    """Adds what `registered` gave; what this process has registered itself counts before it.

    The value is read from a file: UserError for one that is no such list.
    """
    for row in kept if isinstance(kept, list) else ():
        is_row = isinstance(row, Mapping) and set(row) == {*_KEPT}
        if not is_row or not all(isinstance(value, str) for value in row.values()):
            raise errors.UserError(f'{row!r} is not a language that languages.register has made')
        if row['code'] not in LANGUAGES:
            _add(*(row[key] for key in _KEPT))
