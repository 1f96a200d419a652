"""A row per language: its code, its names in other tools, how it is written.

  LANGUAGES['de'].name -> 'german', as the multilingual ROUGE scorer and NLTK call it
  LANGUAGES['de'].mbart -> 'de_DE', its token in mBART-50

A new language is one more line in `_ROWS`.
"""

import dataclasses

from xlbench import errors


@dataclasses.dataclass(frozen=True)
class Language:
    """One language.

    Attributes:
        code: ISO 639-1 code, as in the names of tasks.
        name: English name in lower case.
        script: ISO 15924 name of the script it is usually written in.
        family: Language family, and the branch of the Indo-European ones.
        mbart: Its language token in mBART-50 (arXiv:2008.00401, table 6); None if it has none.
        direction: 'ltr' or 'rtl', the direction of its script.
        spaces: Whether words are separated by spaces.
    """

    code: str
    name: str
    script: str
    family: str
    mbart: str | None
    direction: str
    spaces: bool


_RIGHT_TO_LEFT = ('arabic', 'hebrew')  # Scripts.
_NO_SPACES = ('zh', 'ja', 'th', 'my', 'km')  # Korean and Vietnamese do write spaces.

# code, name, script, family, mBART-50 token or -
_ROWS = """
af  afrikaans    latin       germanic       af_ZA
ar  arabic       arabic      semitic        ar_AR
az  azerbaijani  latin       turkic         az_AZ
bg  bulgarian    cyrillic    slavic         -
bn  bengali      bengali     indo-aryan     bn_IN
cs  czech        latin       slavic         cs_CZ
da  danish       latin       germanic       -
de  german       latin       germanic       de_DE
el  greek        greek       hellenic       -
en  english      latin       germanic       en_XX
es  spanish      latin       romance        es_XX
et  estonian     latin       uralic         et_EE
eu  basque       latin       isolate        -
fa  persian      arabic      iranian        fa_IR
fi  finnish      latin       uralic         fi_FI
fr  french       latin       romance        fr_XX
gl  galician     latin       romance        gl_ES
gu  gujarati     gujarati    indo-aryan     gu_IN
he  hebrew       hebrew      semitic        he_IL
hi  hindi        devanagari  indo-aryan     hi_IN
hr  croatian     latin       slavic         hr_HR
hu  hungarian    latin       uralic         -
id  indonesian   latin       austronesian   id_ID
it  italian      latin       romance        it_IT
ja  japanese     japanese    japonic        ja_XX
jv  javanese     latin       austronesian   -
ka  georgian     georgian    kartvelian     ka_GE
kk  kazakh       cyrillic    turkic         kk_KZ
km  khmer        khmer       austroasiatic  km_KH
ko  korean       hangul      koreanic       ko_KR
lt  lithuanian   latin       baltic         lt_LT
lv  latvian      latin       baltic         lv_LV
mk  macedonian   cyrillic    slavic         mk_MK
ml  malayalam    malayalam   dravidian      ml_IN
mn  mongolian    cyrillic    mongolic       mn_MN
mr  marathi      devanagari  indo-aryan     mr_IN
ms  malay        latin       austronesian   -
my  burmese      myanmar     sino-tibetan   my_MM
ne  nepali       devanagari  indo-aryan     ne_NP
nl  dutch        latin       germanic       nl_XX
no  norwegian    latin       germanic       -
pl  polish       latin       slavic         pl_PL
ps  pashto       arabic      iranian        ps_AF
pt  portuguese   latin       romance        pt_XX
ro  romanian     latin       romance        ro_RO
ru  russian      cyrillic    slavic         ru_RU
si  sinhala      sinhala     indo-aryan     si_LK
sl  slovene      latin       slavic         sl_SI
sv  swedish      latin       germanic       sv_SE
sw  swahili      latin       bantu          sw_KE
ta  tamil        tamil       dravidian      ta_IN
te  telugu       telugu      dravidian      te_IN
th  thai         thai        kra-dai        th_TH
tl  tagalog      latin       austronesian   tl_XX
tr  turkish      latin       turkic         tr_TR
uk  ukrainian    cyrillic    slavic         uk_UA
ur  urdu         arabic      indo-aryan     ur_PK
vi  vietnamese   latin       austroasiatic  vi_VN
xh  xhosa        latin       bantu          xh_ZA
yo  yoruba       latin       volta-niger    -
zh  chinese      han         sino-tibetan   zh_CN
"""


def _parse(row: str) -> Language:
    code, name, script, family, mbart = row.split()
    return Language(
        code=code,
        name=name,
        script=script,
        family=family,
        mbart=None if mbart == '-' else mbart,
        direction='rtl' if script in _RIGHT_TO_LEFT else 'ltr',
        spaces=code not in _NO_SPACES,
    )


LANGUAGES: dict[str, Language] = {
    language.code: language for language in map(_parse, _ROWS.strip().splitlines())
}


def get(code: str) -> Language:
    """The language of an ISO code; a UserError names the nearest ones if there is no such row."""
    if code not in LANGUAGES:
        raise errors.unknown('language', code, LANGUAGES, hint='A code, such as de, not a name')
    return LANGUAGES[code]
