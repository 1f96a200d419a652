"""The last steps of a build: English lines in other languages, and the files of all shards.

  WORK/translated_es/train/000003-0000      the first block of the English pairs of a partition
  WORK/translated_es/valid/000003-0000
  WORK/translated_es/responses/000000-0000  the first block of the English responses

A file is a shard with one key: lines of message, reply, t1_ name of the English reply and its day,
or of a response. What an engine does not translate, or translates to nothing, is left out and
counted. A job is one block in one language.

The final files appear together. A response set is chosen from counted replies (arXiv:2106.02017,
section 2.1).
"""

import collections
import functools
import itertools
import math
import os
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import regex

from xlbench import benchmarks
from xlbench.metrics import words
from xlbench.prepare import shards, stages
from xlbench.prepare.stages import Engine
from xlbench.system import errors, files, locks
from xlbench.system.command_line import say
from xlbench.system.progress import Progress
from xlbench.tasks.building import builds
from xlbench.tasks.building.builds import ENGLISH, TRANSLATED, Options, Settings
from xlbench.tasks.mrs_build import dumps, pairs
from xlbench.tasks.mrs_build.dumps import Dump
from xlbench.translate.engines import Failure

BLOCK = 1024  # Pairs or responses of a job of translation.
RESPONSES = 'responses'
Translated = Mapping[tuple[str, str], Sequence[str]]  # Language and part -> its files, in order.

_APOSTROPHE = regex.compile(r"['’ʼ`´]")
_SIGNS = regex.compile(r'[^\p{L}\p{M}\p{N}]+')

_COLUMNS = ('language', *pairs.SPLITS, 'tokens', 'responses', 'translated', 'duplicates', 'toxic')
# Where English pairs were translated.
_TRANSLATED = ('mt_train', 'mt_valid', 'untranslated pairs')


# The content of stats.json: `settings` by step; `dumps`, each with its name, its lines, the number
# of lines that are no comments by reason, and what damaged its end; `comments` and `replies`, how
# many were read, and dropped by reason; `languages`, each with the pairs of its splits.
Stats = dict[str, Any]


def check(options: Options) -> None:
    """Raises UserError for languages that cannot be translated into."""
    others = [lang for lang in options.languages if lang != ENGLISH]
    for lang in options.translated_languages:
        for known in (benchmarks.languages.LANGUAGES, others):
            errors.check_known('language in --mt_languages', lang, known)
    if options.engine and ENGLISH not in options.languages:
        raise errors.UserError('--engine translates English pairs; add en to --languages')


def translate(
    options: Options, split: Sequence[str], responses: Sequence[str], engine: Engine
) -> Translated:
    """Translates the English pairs and responses that are not translated yet."""
    if not options.translated_languages:
        return {}
    sizes = []
    for part, limit in (('train', options.mt_pairs), ('valid', options.mt_valid_pairs)):
        counts = [shards.counts(path)[f'pairs/{part}/{ENGLISH}'] for path in split]
        sizes += [(part, number, size) for number, size in enumerate(quotas(counts, limit))]
    sizes.append((RESPONSES, 0, len(responses)))
    blocks = [
        (part, number, range(start, min(start + BLOCK, size)))
        for part, number, size in sizes
        for start in range(0, size, BLOCK)
    ]
    made: dict[str, tuple[object, ...]] = {}
    translated: dict[tuple[str, str], list[str]] = {}
    for lang in options.translated_languages:
        for part, number, lines in blocks:
            name = f'{part}/{number:06d}-{lines.start // BLOCK:04d}'
            path = os.path.join(options.work, f'{TRANSLATED}{lang}', name)
            texts = responses[lines.start : lines.stop] if part == RESPONSES else ()
            made[path] = (lang, part, number, lines, texts)
            translated.setdefault((lang, part), []).append(path)
    work = functools.partial(_translate, options, split)
    if cut := stages.make(engine, 'translate', work, made, 'blocks'):
        say(f'translate: {cut:,} texts were longer than the model reads, and cut')
    return translated


def quotas(counts: Sequence[int], limit: int) -> list[int]:
    """Divides `limit` among partitions in proportion to their counts.

    Example: [10, 30, 20], 6 -> [1, 3, 2]
    """
    total = max(sum(counts), 1)
    limit, before, taken = min(limit, total), 0, []
    for count in counts:
        taken.append(limit * (before + count) // total - limit * before // total)
        before += count
    return taken


def _translate(
    options: Options,
    split: Sequence[str],
    lang: str,
    part: str,
    partition: int,
    place: range,
    responses: Sequence[str],
    path: str,
) -> int:
    """Translates one block, lines of a partition or responses; returns how many a model cut."""
    rows: list[tuple[str, ...]] = [(text,) for text in responses]
    if not rows:
        key = pairs.keys(options.languages).index(f'{part}/{ENGLISH}')
        lines = itertools.islice(shards.lines(split[partition], key), place.start, place.stop)
        rows = [tuple(line.split('\t')) for line in lines]
    width = min(len(rows[0]), 2)  # Message and reply, or a response.
    trips, num_cut = builds.translated(options.engine, [row[:width] for row in rows], lang)
    writer = shards.Writer(path, 1)
    counts = collections.Counter({'translated': 0, 'untranslated': 0})
    for row, of_row in zip(rows, trips, strict=True):
        texts = ['' if isinstance(t, Failure) else dumps.clean(t.translation) for t in of_row]
        counts['translated' if all(texts) else 'untranslated'] += 1
        if all(texts):
            writer.add(0, '\t'.join((*texts, *row[width:])))
    writer.close(counts)
    return num_cut


# ---------------------------------------------------------------------------------------------
# Response sets, and the final files.


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
