"""CrossSum: summaries of BBC articles in another language (arXiv:2112.08804)."""

from xlbench.benchmarks import languages
from xlbench.benchmarks.parallel import PairBenchmark

_LANGUAGES = (
    'en', 'am', 'ar', 'az', 'bn', 'my', 'zh', 'fr', 'gu', 'ha', 'hi', 'ig', 'id', 'ja', 'rn', 'ko',
    'mr', 'ne', 'om', 'ps', 'fa', 'pcm', 'pt', 'ru', 'si', 'so', 'es', 'sw', 'ta', 'te', 'th', 'ti',
    'tr', 'uk', 'ur', 'vi', 'yo',
)  # fmt: skip
# Of the 1,500 pairs those with English on a side, and each language with itself.
CROSSSUM = PairBenchmark(
    name='crosssum',
    languages=_LANGUAGES,
    task_titles={'news': 'summary of a news article'},
    scores=('rouge_l', 'rouge_2', 'rouge_1'),
    title='CrossSum: Beyond English-Centric Cross-Lingual Summarization for 1,500+ Language Pairs',
    arxiv='2112.08804',
    pairs={
        'news': (
            *(('en', lang) for lang in _LANGUAGES),
            *((lang, 'en') for lang in _LANGUAGES[1:]),
            *((lang, lang) for lang in _LANGUAGES[1:]),
        )
    },
)

# What files call some languages; the others have their English names.
_NAMES = {'zh': 'chinese_simplified', 'rn': 'kirundi', 'pcm': 'pidgin'}


def file_pair(source: str, target: str) -> str:
    """The name of a pair in those of files. Example: 'en', 'rn' -> 'english-kirundi'."""
    return '-'.join(_NAMES.get(lang, languages.get(lang).name) for lang in (source, target))


def file_pairs() -> list[str]:
    """Lists the names of all pairs."""
    return [file_pair(*pair) for pair in CROSSSUM.pairs['news']]
