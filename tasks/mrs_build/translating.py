"""The step behind splitting: English pairs and responses in the other languages.

  WORK/translated_es/train/000003-0000      the first block of the English pairs of a partition
  WORK/translated_es/valid/000003-0000
  WORK/translated_es/responses/000000-0000  the first block of the English responses

A file is a shard with one key: lines of message, reply, t1_ name of the English reply and its day,
or of a response. What an engine does not translate, or translates to nothing, is left out and
counted. A job is one block in one language.
"""

import collections
import functools
import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from xlbench import benchmarks
from xlbench.prepare import shards, stages
from xlbench.prepare.stages import Engine
from xlbench.system import errors
from xlbench.system.command_line import say
from xlbench.tasks.building import builds
from xlbench.tasks.building.builds import ENGLISH, TRANSLATED, Options
from xlbench.tasks.mrs_build import dumps, pairs
from xlbench.translate.engines import Failure

BLOCK = 1024  # Pairs or responses of a job.
RESPONSES = 'responses'
Translated = Mapping[tuple[str, str], Sequence[str]]  # Language and part -> its files, in order.


class Block(NamedTuple):
    """One job: some lines of a partition, or some responses."""

    part: str  # 'train', 'valid' or 'responses'.
    partition: int  # Of the pairs; 0 for responses.
    number: int  # Of the block in it.
    size: int  # Its lines.

    @property
    def place(self) -> slice:
        """The place of its lines."""
        return slice(self.number * BLOCK, self.number * BLOCK + self.size)

    def path(self, options: Options, lang: str) -> str:
        """Its file in a language."""
        name = f'{self.partition:06d}-{self.number:04d}'
        return os.path.join(options.work, f'{TRANSLATED}{lang}', self.part, name)


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
    blocks = _blocks(options, split, len(responses))
    of_responses = [block for block in blocks if block.part == RESPONSES]
    texts = {block: responses[block.place] for block in of_responses}
    made = {
        block.path(options, lang): (lang, block, texts.get(block, ()))
        for lang in options.translated_languages
        for block in blocks
    }
    work = functools.partial(_translate, options, split)
    if cut := stages.make(engine, 'translate', work, made, 'blocks'):
        say(f'translate: {cut:,} texts were longer than the model reads, and cut')
    translated: dict[tuple[str, str], list[str]] = {}
    for path, (lang, block, _) in made.items():
        translated.setdefault((lang, block.part), []).append(path)
    return translated


def _blocks(options: Options, split: Sequence[str], num_responses: int) -> list[Block]:
    """All jobs of a language, in the order of their lines."""
    sizes = []
    for part, limit in (('train', options.mt_pairs), ('valid', options.mt_valid_pairs)):
        counts = [shards.counts(path)[f'pairs/{part}/{ENGLISH}'] for path in split]
        sizes += [(part, number, size) for number, size in enumerate(quotas(counts, limit))]
    sizes.append((RESPONSES, 0, num_responses))
    return [
        Block(part, partition, number, min(BLOCK, size - number * BLOCK))
        for part, partition, size in sizes
        for number in range(-(-size // BLOCK))
    ]


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
    block: Block,
    responses: Sequence[str],
    path: str,
) -> int:
    """Does one job; returns how many texts were too long for a model."""
    rows: list[tuple[str, ...]] = [(text,) for text in responses]
    if not rows:
        key = pairs.keys(options.languages).index(f'{block.part}/{ENGLISH}')
        lines = list(shards.lines(split[block.partition], key))
        rows = [tuple(line.split('\t')) for line in lines[block.place]]
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
