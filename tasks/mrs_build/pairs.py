"""Comments -> message-reply pairs with a language -> distinct ones by split that are not toxic.

All comments of a thread are in one partition, so a reply that finds no parent there has none in
the dumps. All pairs with the same reply are in one partition of pairs, so duplicates meet there,
and so do all occurrences of a reply.
"""

import collections
import hashlib
import itertools
import os
import re
import time
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import regex

from xlbench.prepare import shards
from xlbench.tasks.building.builds import ENGLISH, Options
from xlbench.tasks.mrs_build import plugins
from xlbench.tasks.mrs_build.dumps import Comment

_CODE = re.compile('[a-z]{2,3}')
SPLITS = ('train', 'valid', 'test')
_CJK = r'\p{Han}\p{Hiragana}\p{Katakana}'
_TOKEN = regex.compile(rf'[{_CJK}]|[\p{{L}}\p{{M}}\p{{N}}--{_CJK}]+|\S', regex.V1)
_ASCII_TOKEN = re.compile(r'[A-Za-z0-9]+|[!-~]')  # The same, faster.


class Pair(NamedTuple):
    """One message and its reply; all text."""

    lang: str
    message: str
    reply: str
    id: str  # Of the reply.
    thread: str
    created: str  # Of the reply, seconds since 1970.

    @property
    def text(self) -> str:
        """The text that languages and toxicity are found by."""
        return f'{self.message} {self.reply}'

    @property
    def year(self) -> int:
        """The year of the reply, UTC."""
        return time.gmtime(int(self.created)).tm_year


def join(options: Options, sources: Sequence[str], partition: int, path: str) -> None:
    """Joins a partition of shards of comments to a shard of pairs by reply.

    Without languages, all whose code has two or three letters are kept. Its counts: repeated
    comments, replies, pairs/LANG, dropped/REASON.
    """
    identify = plugins.identifier(options.language_model)
    languages, years = options.languages, options.english_years
    counts: collections.Counter[str] = collections.Counter()
    writer = shards.Writer(path, options.num_partitions)
    pairs = itertools.chain.from_iterable(
        _replies(lines, counts)
        for lines in _groups(options, sources, partition, column=2)  # Of a thread together.
    )
    while batch := list(itertools.islice(pairs, plugins.BATCH)):
        identified = identify([pair.text for pair in batch])
        for pair, (lang, confidence) in zip(batch, identified, strict=True):
            if confidence <= options.min_confidence:
                counts['dropped/language not sure'] += 1
            elif not (lang in languages if languages else _CODE.fullmatch(lang)):
                counts['dropped/another language'] += 1
            elif lang == ENGLISH and years and pair.year not in years:
                counts['dropped/English of another year'] += 1
            else:
                counts[f'pairs/{lang}'] += 1
                key = zlib.crc32(pair.reply.encode()) % options.num_partitions
                writer.add(key, '\t'.join(pair._replace(lang=lang)))
    writer.close(counts)


def _groups(
    options: Options, sources: Sequence[str], partition: int, column: int
) -> Iterator[list[str]]:
    """The lines of a partition, in groups that fit into memory and share no text of a column."""

    def read() -> Iterator[str]:
        return itertools.chain.from_iterable(shards.lines(path, partition) for path in sources)

    def key(line: str) -> int:
        return zlib.crc32(line.split('\t')[column].encode()) // options.num_partitions

    return shards.groups(read, key, int(options.memory * 2**30))


def _replies(lines: Iterable[str], counts: collections.Counter[str]) -> Iterator[Pair]:
    """Joins comments to pairs without a language, in the order of ids."""
    comments: dict[str, Comment] = {}
    for line in lines:
        comment = Comment(*line.split('\t'))
        if old := comments.get(comment.id):
            counts['repeated comments'] += 1
            # A dropped copy counts: somebody took it back or voted it down. Else the first by its
            # fields, so that the order of files does not matter.
            comment = min(old, comment, key=lambda copy: (not copy.dropped, copy))
        comments[comment.id] = comment
    for name in sorted(comments):
        reply = comments[name]
        if reply.dropped or not reply.parent:
            continue
        counts['replies'] += 1
        message = comments.get(reply.parent)
        if message is None or message.thread != reply.thread or message is reply:
            counts['dropped/no parent in the dumps'] += 1
        elif message.dropped:
            counts[f'dropped/parent: {message.dropped}'] += 1
        else:
            yield Pair('', message.text, reply.text, name, reply.thread, reply.created)


def split_of(thread: str) -> str:
    """80 % train, 10 % valid, 10 % test, by the id of a thread alone.

    So no thread is in two splits, and a thread keeps its split in any other set of dumps.
    """
    digest = hashlib.blake2b(thread.encode(), digest_size=8, person=b'mrs split').digest()
    return SPLITS[max(0, int.from_bytes(digest, 'big') % 10 - 7)]


def num_tokens(text: str) -> int:
    """Words, and other signs one by one; so are characters of Chinese and Japanese.

    The tokeniser behind the paper's Table 1 is not named there.

    Example: "Ça va, 2018?" -> 5
    """
    return len((_ASCII_TOKEN if text.isascii() else _TOKEN).findall(text))


def keys(languages: Sequence[str]) -> list[str]:
    """The keys of a shard: SPLIT/LANG, and replies/LANG."""
    return [f'{part}/{lang}' for part in (*SPLITS, 'replies') for lang in languages]


def split(options: Options, sources: Sequence[str], partition: int, path: str) -> None:
    """Splits a partition of pairs to a shard by `keys` of the languages.

    The lines of SPLIT/LANG are those of the final files: message, reply, t1_ name of the reply,
    its day; in an order that mixes threads. The lines of replies/LANG tell how often a reply occurs
    in the training pairs, in all pairs, and the reply, if it occurs more than once.

    Its counts: pairs/SPLIT/LANG, tokens/LANG, dropped/LANG/REASON.
    """
    counts: collections.Counter[str] = collections.Counter()
    names = {name: number for number, name in enumerate(keys(options.languages))}
    writer = shards.Writer(path, len(names))
    runs = shards.Runs(os.path.dirname(path), _mixed)
    for lines in _groups(options, sources, partition, column=2):  # Of a reply together.
        runs.begin()
        rows = [Pair(*line.split('\t')) for line in lines]
        # Of equal pairs the earliest stays.
        rows.sort(key=lambda pair: (int(pair.created), pair.id))
        for lang in options.languages:
            of_lang = [pair for pair in rows if pair.lang == lang]
            pairs = _kept(options, of_lang, lang, counts)
            everywhere = collections.Counter(pair.reply for pair, _ in pairs)
            train = collections.Counter(pair.reply for pair, place in pairs if place == 'train')
            for reply, count in everywhere.items():
                if count > 1:
                    writer.add(names[f'replies/{lang}'], f'{train[reply]}\t{count}\t{reply}')
            for pair, place in pairs:
                counts[f'pairs/{place}/{lang}'] += 1
                counts[f'tokens/{lang}'] += num_tokens(pair.text)
                day = time.strftime('%Y-%m-%d', time.gmtime(int(pair.created)))
                line = f'{pair.message}\t{pair.reply}\tt1_{pair.id}\t{day}'
                runs.add(names[f'{place}/{lang}'], line)
    for key, line in runs:
        writer.add(key, line)
    writer.close(counts)


def _mixed(line: str) -> tuple[int, str]:
    """The order of lines in the final files: neighbours are of other threads and times."""
    name = line.split('\t')[2].removeprefix('t1_')
    return zlib.crc32(name.encode()), name


def _kept(
    options: Options, pairs: Sequence[Pair], lang: str, counts: collections.Counter[str]
) -> list[tuple[Pair, str]]:
    """The distinct pairs that are not toxic, with their splits, in a mixed order."""
    distinct: dict[tuple[str, str], Pair] = {}
    for pair in pairs:
        distinct.setdefault((pair.message, pair.reply), pair)
    counts[f'dropped/{lang}/duplicate'] += len(pairs) - len(distinct)
    # Neighbours are of different threads and times.
    pairs = sorted(distinct.values(), key=lambda pair: (zlib.crc32(pair.id.encode()), pair.id))
    # A pair goes with its thread, or by itself (arXiv:2106.02017, section 2).
    by_thread = options.split_by == 'thread'
    places = [split_of(pair.thread if by_thread else f't1_{pair.id}') for pair in pairs]
    strict = [lang == ENGLISH and place != 'train' for place in places]
    kept = not_toxic(options, [pair.text for pair in pairs], lang, strict)
    counts[f'dropped/{lang}/toxic'] += kept.count(False)
    return [(p, place) for p, place, keep in zip(pairs, places, kept, strict=True) if keep]


def not_toxic(
    options: Options, texts: Sequence[str], lang: str, strict: Sequence[bool]
) -> list[bool]:
    """Says which texts of a language are kept (arXiv:2106.02017, section 2.2).

    Those of `strict`, on which English is evaluated, the second scorer judges, too.
    """
    kept = [True] * len(texts)
    for spec, most, judged in (
        (options.toxicity, options.max_toxicity, [True] * len(texts)),
        (options.strict_toxicity, options.max_strict_toxicity, strict),
    ):
        chosen = [i for i, keep in enumerate(kept) if keep and judged[i]] if spec else []
        for start in range(0, len(chosen), plugins.BATCH):
            batch = chosen[start : start + plugins.BATCH]
            score = plugins.scorer(spec, options.toxic_label)
            for i, value in zip(batch, score([texts[i] for i in batch], lang), strict=True):
                kept[i] = value <= most
    return kept
