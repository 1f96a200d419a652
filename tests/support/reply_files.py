"""Small files of messages and replies in the official layouts, for tests of what reads them."""

import pathlib

import mtg_files
from put_files import put

from xlbench.benchmarks import MRS

# MRS's languages of which mtg_files has no words borrow those of another one.
_WORDS_OF = {'pt': 'es', 'ja': 'zh', 'it': 'fr', 'sv': 'de', 'nl': 'de', 'ru': 'en'}
_WORDS_OF |= {'id': 'fr', 'ko': 'zh'}  # Of XPersona.
FOLDERS = ('train', 'valid', 'test', 'mt_train', 'gmr_valid', 'mt_valid')


def text(lang: str, seed: int, words: int = 6) -> str:
    """A message or reply that `seed` decides."""
    return mtg_files.sentence(_WORDS_OF.get(lang, lang), seed, words)


def pair(lang: str, folder: str, number: int) -> tuple[str, str]:
    """Pair `number` of a folder, over all its files."""
    seed = 1000 * (FOLDERS.index(folder) + 1) + 2 * number
    return text(lang, seed), text(lang, seed + 1, 4)


def responses(lang: str, count: int = 5) -> list[str]:
    """Texts of the response set."""
    return [f'{number} {text(lang, -number, 3)}' for number in range(count)]


def write_mrs(root, sizes=None, langs=MRS.languages, with_mapping=('de',)) -> None:
    """Writes <root>/mrs in microsoft/MRS's layout; sizes: {folder: (pairs of each file, ...)}."""
    base = pathlib.Path(root) / 'mrs'
    for lang in langs:
        for folder, files in (sizes or {'train': (4, 3), 'valid': (2,)}).items():
            numbers = iter(range(sum(files)))
            for index, size in enumerate(files):
                pairs = [pair(lang, folder, next(numbers)) for _ in range(size)]
                lines = [f'{message}\t{reply}\tx\t\n' for message, reply in pairs]
                put(base, f'{folder}/{lang}/part{index}.tsv', ''.join(lines))
        found = responses(lang)
        lines = [f'{-1.5 - n}\t{text}\tc{n // 2}\n' for n, text in enumerate(found)]
        put(base, f'rsp_set/{lang}/response_lm_cluster.txt', ''.join(lines))
        if lang in with_mapping:
            lines = [f'{text}\t{text}!\n' for text in found]
            put(base, f'rsp_map/{lang}/response.mapping.txt', ''.join(lines))
