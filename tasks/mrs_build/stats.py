"""The statistics of a build, as OUTPUT/mrs/stats.json has them, and as people read them."""

import collections
from collections.abc import Sequence
from typing import Any

from xlbench.jobs import shards
from xlbench.tasks.mrs_build import pairs
from xlbench.tasks.mrs_build.dumps import Dump
from xlbench.tasks.mrs_build.options import Options, Settings

_COLUMNS = ('language', *pairs.SPLITS, 'tokens', 'responses', 'translated', 'duplicates', 'toxic')
# Where English pairs were translated.
_TRANSLATED = ('mt_train', 'mt_valid', 'untranslated pairs')


# What stats.json holds: `settings` by step; `dumps`, each with its name, its lines, those that are
# no comments by reason, and what damaged its end; `comments` and `replies`, those that were read
# and those dropped, by reason; `languages`, each with the pairs of its splits and their fate.
Stats = dict[str, Any]


def count(
    options: Options,
    settings: Settings,
    scanned: Sequence[Dump],
    paired: Sequence[str],
    split: Sequence[str],
) -> Stats:
    """The statistics of all steps before the response sets.

    Args:
      options: of the build.
      settings: of its steps.
      scanned: the dumps.
      paired: shards of pairs.
      split: shards of lines of the final files.
    """
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
    lines = []
    for name, *cells in rows:
        right = [c.rjust(w) for c, w in zip(cells, widths[1:], strict=True)]
        lines.append('  '.join([name.ljust(widths[0]), *right]))
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
