"""Comments of a partition -> message-reply pairs with a language, by reply.

All comments of a thread are in one partition, so a reply that finds no parent there has none in
the dumps.
"""

import collections
import itertools
import re
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from xlbench.tasks.mrs_build import shards
from xlbench.tasks.mrs_build.dumps import Comment

BATCH = 1024  # Texts for one call of a plug-in.
_CODE = re.compile('[a-z]{2,3}')


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


def join(
    sources: Sequence[str],
    partition: int,
    num_partitions: int,
    path: str,
    *,
    languages: Sequence[str],
    identify: Callable[[Sequence[str]], Sequence[tuple[str, float]]],
    min_confidence: float,
    english_years: Sequence[int],
) -> collections.Counter[str]:
    """One partition of comments -> a shard of pairs by reply.

    Args:
      sources: shards of comments.
      partition: of comments.
      num_partitions: of comments, and of pairs.
      path: of the new shard.
      languages: those that are kept; none: all whose code has two or three letters.
      identify: texts -> (language, confidence) of each.
      min_confidence: a pair is kept above it.
      english_years: years of English replies that are kept; none: all.

    Returns:
      Counts: repeated comments, replies, pairs/LANG, dropped/REASON.
    """
    counts: collections.Counter[str] = collections.Counter()
    comments = _comments(sources, partition, counts)
    writer = shards.Writer(path, num_partitions)
    pairs = _replies(comments, counts)
    while batch := list(itertools.islice(pairs, BATCH)):
        identified = identify([pair.text for pair in batch])
        for pair, (lang, confidence) in zip(batch, identified, strict=True):
            if confidence <= min_confidence:
                counts['dropped/language not sure'] += 1
            elif not (lang in languages if languages else _CODE.fullmatch(lang)):
                counts['dropped/another language'] += 1
            elif lang == 'en' and english_years and pair.year not in english_years:
                counts['dropped/English of another year'] += 1
            else:
                counts[f'pairs/{lang}'] += 1
                key = zlib.crc32(pair.reply.encode()) % num_partitions
                writer.add(key, '\t'.join(pair._replace(lang=lang)))
    writer.close(counts)
    return counts


def _comments(
    sources: Iterable[str], partition: int, counts: collections.Counter[str]
) -> dict[str, Comment]:
    """The comments by id.

    Of several copies one that is dropped counts, since somebody took that comment back or voted it
    down; else the first in the order of their fields. So the order of files does not matter.
    """
    comments: dict[str, Comment] = {}
    for source in sources:
        for line in shards.lines(source, partition):
            comment = Comment(*line.split('\t'))
            if old := comments.get(comment.id):
                counts['repeated comments'] += 1
                comment = min(old, comment, key=lambda copy: (not copy.dropped, copy))
            comments[comment.id] = comment
    return comments


def _replies(comments: dict[str, Comment], counts: collections.Counter[str]) -> Iterator[Pair]:
    """Pairs without a language, in the order of ids."""
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
