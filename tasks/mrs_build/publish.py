"""The last step of a build: shards of lines -> the final files, which appear together.

A response set is chosen from counted replies (arXiv:2106.02017, section 2.1).
"""

import collections
import math
import os
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import regex

from xlbench.metrics import words
from xlbench.prepare import shards
from xlbench.system import files, locks
from xlbench.system.command_line import say
from xlbench.system.progress import Progress
from xlbench.tasks.building.builds import ENGLISH, Options, Settings
from xlbench.tasks.mrs_build import pairs
from xlbench.tasks.mrs_build.dumps import Dump
from xlbench.tasks.mrs_build.translating import RESPONSES, Translated

_APOSTROPHE = regex.compile(r"['’ʼ`´]")
_SIGNS = regex.compile(r'[^\p{L}\p{M}\p{N}]+')

_COLUMNS = ('language', *pairs.SPLITS, 'tokens', 'responses', 'translated', 'duplicates', 'toxic')
# Where English pairs were translated.
_TRANSLATED = ('mt_train', 'mt_valid', 'untranslated pairs')


# The content of stats.json: `settings` by step; `dumps`, each with its name, its lines, the number
# of lines that are no comments by reason, and what damaged its end; `comments` and `replies`, how
# many were read, and dropped by reason; `languages`, each with the pairs of its splits.
Stats = dict[str, Any]


def cluster_key(text: str) -> str:
    """Reduces a text so that those that differ in case, width and punctuation only are equal.

    Signs alone stand for themselves: ':)' is not ':('.

    Example: 'Don’t be so-so!' -> 'dont be so so'
    """
    plain = unicodedata.normalize('NFKC', text).casefold()
    return _SIGNS.sub(' ', _APOSTROPHE.sub('', plain)).strip() or plain


def english_responses(options: Options, split: Sequence[str], stats: Stats) -> list[str]:
    """The texts of the English response set, for translation; none if nothing is translated."""
    if not options.translated_languages:
        return []
    contents = _contents(options, split, f'replies/{ENGLISH}')
    return list(_responses(options, contents, ENGLISH, (), stats))


def publish(
    options: Options, final: str, split: Sequence[str], translated: Translated, stats: Stats
) -> None:
    """Writes the final files, which appear together.

    The statistics of all steps before get those of the response sets and of translated pairs.
    """
    names = pairs.keys(options.languages)
    languages = options.translated_languages
    progress = Progress('publish', len(names) + len(languages), 'files')
    with locks.atomic_folder(final) as part, progress:
        for name in names:
            contents = _contents(options, split, name)
            kind, lang = name.split('/')
            if kind == 'replies':
                others = list(dict.fromkeys(_lines(_data(translated.get((lang, RESPONSES), ())))))
                chosen = _responses(options, contents, lang, others, stats)
                valid = _contents(options, split, f'valid/{lang}')
                _write_responses(str(part), lang, chosen, valid, stats)
            else:
                _write(os.path.join(part, kind, lang, 'pairs.tsv'), contents)
            progress.add()
        for lang in languages:
            _write_translated(str(part), lang, translated, stats)
            progress.add()
        _write(os.path.join(part, 'stats.json'), [files.as_json(stats).encode()])
    say(f'publish: {final}')


def _contents(options: Options, split: Sequence[str], name: str) -> Iterator[bytes]:
    """The lines of a key, of all partitions."""
    return _data(split, pairs.keys(options.languages).index(name))


def _data(paths: Iterable[str], key: int = 0) -> Iterator[bytes]:
    return (shards.data(path, key) for path in paths)


def _responses(
    options: Options, contents: Iterable[bytes], lang: str, translated: Sequence[str], stats: Stats
) -> dict[str, str]:
    """The response set, {text: its line}: frequent replies, then translated ones; counts them.

    The score is ln((count + 1) / (replies + size of the set)), as translated ones may not occur.
    """
    of_lang = stats['languages'][lang]
    column, places = 1, pairs.SPLITS
    if options.response_pairs == 'train':
        column, places = 0, pairs.SPLITS[:1]
    counts = collections.Counter(dict.fromkeys(translated, 0))
    for row in (line.split('\t') for line in _lines(contents)):
        count, text = int(row[column]), row[2]
        if count >= options.min_count or text in counts:
            counts[text] = count
    frequent = [text for text, count in counts.items() if count >= options.min_count]
    frequent.sort(key=lambda text: (-counts[text], text))
    texts = list(dict.fromkeys([*frequent, *translated]))
    allowed = pairs.not_toxic(options, texts, lang, [lang == ENGLISH] * len(texts))
    kept = [text for text, keep in zip(texts, allowed, strict=True) if keep]
    kept = kept[: options.max_responses]
    of_lang['responses'] = len(kept)
    of_lang['translated responses'] = len(set(kept).intersection(translated))
    of_lang['toxic responses'] = allowed.count(False)
    total = sum(of_lang[place] for place in places) + len(kept)
    lines: dict[str, str] = {}
    clusters: dict[str, int] = {}
    for text in kept:
        cluster = clusters.setdefault(cluster_key(text), len(clusters))
        lines[text] = f'{math.log((counts[text] + 1) / total):.6f}\t{text}\t{cluster}'
    return lines


def _write_responses(
    folder: str, lang: str, chosen: Mapping[str, str], valid: Iterable[bytes], stats: Stats
) -> None:
    """Writes a response set, and those lines of validation pairs whose reply is in it."""
    known = set(map(words.generic, chosen))  # Compared as `mrs.gold_ids` does.
    kept = [line for line in _lines(valid) if words.generic(line.split('\t')[1]) in known]
    stats['languages'][lang]['gmr_valid'] = len(kept)
    for name, lines in (
        (f'gmr_valid/{lang}/pairs.tsv', kept),
        (f'rsp_set/{lang}/response_lm_cluster.txt', chosen.values()),
        (f'rsp_map/{lang}/response.mapping.txt', (f'{text}\t{text}' for text in chosen)),
    ):
        _write(os.path.join(folder, name), (f'{line}\n'.encode() for line in lines))


def _write_translated(folder: str, lang: str, translated: Translated, stats: Stats) -> None:
    """Writes the translated pairs of a language, and counts them."""
    untranslated = 0
    for part in ('train', 'valid'):
        paths = translated.get((lang, part), ())
        _write(os.path.join(folder, f'mt_{part}', lang, 'pairs.tsv'), _data(paths))
        counts = shards.total(paths)
        stats['languages'][lang][f'mt_{part}'] = counts['translated']
        untranslated += counts['untranslated']
    stats['languages'][lang]['untranslated pairs'] = untranslated
    of_responses = shards.total(translated.get((lang, RESPONSES), ()))
    stats['languages'][lang]['untranslated responses'] = of_responses['untranslated']


def _lines(contents: Iterable[bytes]) -> Iterator[str]:
    for data in contents:
        yield from data.decode().split('\n')[:-1]


def _write(path: str, contents: Iterable[bytes]) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, 'wb') as file:
        file.writelines(contents)
        file.flush()
        os.fsync(file.fileno())


def count(
    options: Options,
    settings: Settings,
    scanned: Sequence[Dump],
    paired: Sequence[str],
    split: Sequence[str],
) -> Stats:
    """The statistics of all steps before the response sets, from their shards."""
    by_dump = sorted((dump.name, dump.counts(), dump.read.damage) for dump in scanned)
    scan = sum((counts for _, counts, _ in by_dump), collections.Counter())
    pair, final = shards.total(paired), shards.total(split)
    return {
        'settings': settings,
        'dumps': [
            {
                'name': name,
                'lines': counts['lines'],
                'malformed': shards.reasons(counts, 'malformed'),
                'damage': damage,
            }
            for name, counts, damage in by_dump
        ],
        'comments': {'read': scan['comments'], 'dropped': shards.reasons(scan, 'dropped')},
        'replies': {
            'read': pair['replies'],
            'copies of comments': pair['repeated comments'],
            'dropped': shards.reasons(pair, 'dropped'),
        },
        'languages': {
            lang: {
                **{place: final[f'pairs/{place}/{lang}'] for place in pairs.SPLITS},
                'tokens': final[f'tokens/{lang}'],
                'dropped': shards.reasons(final, f'dropped/{lang}'),
            }
            for lang in options.languages
        },
    }


def table(stats: Stats) -> str:
    """The statistics for people to read, like the paper's Table 1."""
    built = stats['languages'].values()
    more = [name for name in _TRANSLATED if any(name in of_lang for of_lang in built)]
    rows = [(*_COLUMNS, *more)]
    for lang, of_lang in stats['languages'].items():
        dropped = of_lang['dropped']
        numbers = [of_lang[name] for name in (*pairs.SPLITS, 'tokens', 'responses')]
        numbers += [of_lang['translated responses'], dropped.get('duplicate', 0)]
        numbers += [dropped.get('toxic', 0), *(of_lang.get(name, 0) for name in more)]
        rows.append((lang, *(f'{n:,}' for n in numbers)))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    form = '  '.join(f'%{-width if i == 0 else width}s' for i, width in enumerate(widths))
    lines = [form % row for row in rows]
    malformed: collections.Counter[str] = collections.Counter()
    for dump in stats['dumps']:
        malformed.update(dump['malformed'])
    for what, number, reasons in (
        ('lines', sum(dump['lines'] for dump in stats['dumps']), malformed),
        ('comments', stats['comments']['read'], stats['comments']['dropped']),
        ('replies', stats['replies']['read'], stats['replies']['dropped']),
    ):
        left_out = ', '.join(f'{count:,} {reason}' for reason, count in reasons.items())
        lines.append(f'{number:,} {what}; left out: {left_out or "none"}')
    for dump in stats['dumps']:
        if dump['damage']:
            lines.append(f'{dump["name"]} is damaged at its end: {dump["damage"]}')
    return '\n'.join(lines)
