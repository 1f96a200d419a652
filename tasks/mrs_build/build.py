"""The steps of a build, each of which goes on where it was interrupted.

  WORK/scan/FILE/BLOCK    comments of a block of a dump, by thread
  WORK/pair/PARTITION     pairs of the threads of a partition, by reply
  WORK/split/PARTITION    what of the final files belongs to the replies of a partition
  OUTPUT/mrs              the final files, which appear together

A step is a set of jobs, and a job is done when its file is there: it appears when it is whole, and
holds the same whoever wrote it.
"""

import collections
import dataclasses
import functools
import hashlib
import itertools
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import IO, Any

from xlbench import files, locks
from xlbench.errors import UserError
from xlbench.tasks.mrs_build import (
    dumps,
    pairs,
    plugins,
    pool as pool_lib,
    responses,
    shards,
    splits,
)

# Bytes of the dumps, as they are on disk, for one partition; it is held in memory as a whole.
_PARTITION = 16 * 2**20
_MIN_PARTITIONS, _MAX_PARTITIONS = 16, 4096


@dataclasses.dataclass(frozen=True)
class Options:
    """The command line, see __main__.py.

    Attributes:
      translations: a file for each language that has one.
      mapping: likewise.
    """

    dumps: tuple[str, ...]
    output: str
    work: str
    workers: int
    languages: tuple[str, ...]
    language_model: str
    min_confidence: float
    english_years: tuple[int, ...]
    toxicity: str
    max_toxicity: float
    strict_toxicity: str
    max_strict_toxicity: float
    min_count: int
    max_responses: int
    response_pairs: str
    translations: Mapping[str, str]
    mapping: Mapping[str, str]
    max_bad: float
    partitions: int

    @functools.cached_property
    def sizes(self) -> dict[str, int]:
        """Bytes of each dump."""
        return {path: os.path.getsize(path) for path in self.dumps}

    @functools.cached_property
    def num_partitions(self) -> int:
        """As given, or by the size of the dumps."""
        by_size = sum(self.sizes.values()) // _PARTITION
        return self.partitions or min(max(by_size, _MIN_PARTITIONS), _MAX_PARTITIONS)


STEPS = {
    'scan': ('dumps', 'partitions'),
    'pair': ('languages', 'language_model', 'min_confidence', 'english_years'),
    'split': ('toxicity', 'max_toxicity', 'strict_toxicity', 'max_strict_toxicity'),
    'publish': ('min_count', 'max_responses', 'response_pairs', 'translations', 'mapping'),
}


def settings(options: Options) -> dict[str, dict[str, Any]]:
    """What decides about the files of each step, by the names of flags.

    Neither folders nor the order of dumps nor the number of workers are among it.
    """
    named = sorted(map(_named, options.dumps))
    if len(set(named)) < len(named):
        raise UserError('a dump is given twice; name each of them once')
    told = {
        'dumps': named,
        'partitions': options.num_partitions,
        'languages': list(options.languages),
        'english_years': list(options.english_years),
        'translations': {lang: _told(path) for lang, path in options.translations.items()},
        'mapping': {lang: _told(path) for lang, path in options.mapping.items()},
    }
    for name in ('language_model', 'toxicity', 'strict_toxicity'):
        told[name] = _told(getattr(options, name))
    return {
        step: {name: told.get(name, getattr(options, name)) for name in names}
        for step, names in STEPS.items()
    }


def _told(spec: str) -> str:
    """A function by its name, a file by a hash of its contents."""
    if not spec or plugins.is_function(spec):
        return spec
    with _opened(spec) as file:
        return f'sha256 {hashlib.file_digest(file, "sha256").hexdigest()[:16]}'


def _named(dump: str) -> str:
    """Its name, and a hash of its size and of the first and last MiB of it.

    Example: /data/RC_2018-01.zst -> RC_2018-01.zst 0b5aa1ba3d2c4f01
    """
    with _opened(dump) as file:
        size = file.seek(0, os.SEEK_END)
        digest = hashlib.sha256(str(size).encode())
        for start in (0, max(0, size - 2**20)):
            file.seek(start)
            digest.update(file.read(2**20))
    return f'{os.path.basename(dump)} {digest.hexdigest()[:16]}'


def _opened(path: str) -> IO[bytes]:
    try:
        return open(path, 'rb')
    except OSError as error:
        raise UserError(f'{path} cannot be read: {error.strerror or error}') from None


def build(options: Options, redo: bool) -> dict[str, Any]:
    """Does what is left to do.

    Args:
      options: what is to be built.
      redo: work of other options is thrown away, from the first step that they change.

    Returns:
      The statistics, as in OUTPUT/mrs/stats.json.

    Raises:
      UserError: an input is wrong, or a folder holds the work of other options.
    """
    told = settings(options)
    final = os.path.join(options.output, 'mrs')
    if os.path.exists(final):
        return _finished(final, told)
    with locks.folder(options.work), pool_lib.Pool(options.workers) as pool:
        _begin(options.work, told, redo)
        # What can be wrong about the user's own files is told before hours of work.
        plugins.identifier(options.language_model)
        options = _with_indexed_scores(options, told['split'])
        translated = {lang: _translated(path) for lang, path in options.translations.items()}
        mapping = {lang: _mapping(path) for lang, path in options.mapping.items()}
        scanned = _scan(options, pool)
        paired = _pair(options, [path for file in scanned for path in file.shards()], pool)
        split = _split(options, paired, pool)
        stats = {'settings': told, **_counted(options, scanned, paired, split)}
        _publish(options, final, split, translated, mapping, stats)
    return stats


# ---------------------------------------------------------------------------------------------
# Folders.


def _finished(final: str, told: Mapping[str, Any]) -> dict[str, Any]:
    try:
        with open(os.path.join(final, 'stats.json'), encoding='utf-8') as file:
            stats = json.load(file)
        if stats['settings'] == told:
            return stats
    except (OSError, ValueError, KeyError, TypeError):
        pass
    raise UserError(
        f'{final} exists already and was not built by this command; name another --output, or '
        'move it away'
    )


def _begin(work: str, told: Mapping[str, Any], redo: bool) -> None:
    """Checks that the work folder is of these settings, or makes it so."""
    path = os.path.join(work, 'settings.json')
    try:
        with open(path, encoding='utf-8') as file:
            before = json.load(file)
    except FileNotFoundError:
        # Earlier versions had a visible lock, and visible parts of files.
        others = [n for n in os.listdir(work) if n[0] != '.' and n != 'lock' and n[-5:] != '.part']
        if others:
            raise UserError(
                f'{work} holds {min(others)!r} but no build; name another --work'
            ) from None
        before = told
    changed = {
        step: _difference(before.get(step, {}), told[step])
        for step in STEPS
        if before.get(step) != told[step]
    }
    if changed and not redo:
        raise UserError(
            f'{work} was begun by another command: {"; ".join(changed.values())}; repeat that '
            'command, name another --output, or let --redo do again what this changes'
        )
    if changed:
        for step in list(STEPS)[list(STEPS).index(next(iter(changed))) :]:
            shutil.rmtree(os.path.join(work, step), ignore_errors=True)
    files.remove_leftovers(work)
    if changed or not os.path.exists(path):
        files.write(path, json.dumps(told, indent=1))
    for step in STEPS:
        if step != 'publish':
            os.makedirs(os.path.join(work, step), exist_ok=True)


def _difference(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Example: --min_confidence was 0.7 and is 0.8"""
    return ', '.join(
        f'--{name} was {_plain(before.get(name))} and is {_plain(now[name])}'
        for name in now
        if before.get(name) != now[name]
    )


def _plain(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _with_indexed_scores(options: Options, told: Mapping[str, Any]) -> Options:
    """The options with files of scores replaced by folders that processes share."""
    folders = {}
    for name in ('toxicity', 'strict_toxicity'):
        spec = getattr(options, name)
        if plugins.is_function(spec):
            plugins.scorer(spec)
        elif spec:
            folders[name] = os.path.join(options.work, f'scores {told[name]}')
            if not os.path.exists(folders[name]):
                with locks.appearing(folders[name]) as new:
                    plugins.index_scores(spec, str(new))
    return dataclasses.replace(options, **folders)


def _translated(path: str) -> list[str]:
    """The second column: English TAB translation."""
    texts = [dumps.clean(translation) for _, (_, translation) in plugins.columns(path)]
    return [text for text in dict.fromkeys(texts) if text]


def _mapping(path: str) -> dict[str, str]:
    """Response TAB what is shown for it."""
    rows = (map(dumps.clean, row) for _, row in plugins.columns(path))
    return {text: shown for text, shown in rows if shown}


# ---------------------------------------------------------------------------------------------
# Steps.


class _Dump:
    """A dump, and what has been made of it.

    Args:
      path: of the dump.
      folder: for its shards.
    """

    def __init__(self, path: str, folder: str):
        self.path = path
        self.name = os.path.basename(path)
        self.folder = folder
        self.position = 0
        self._read = os.path.join(folder, 'read.json')
        os.makedirs(folder, exist_ok=True)

    def shard(self, number: int) -> str:
        """The file of a block."""
        return os.path.join(self.folder, f'{number:06d}')

    def shards(self) -> list[str]:
        """The files of all blocks, once it was read to its end."""
        return [self.shard(number) for number in range(self.read['blocks'])]

    @functools.cached_property
    def read(self) -> dict[str, Any]:
        """What reading it to its end found."""
        with open(self._read, encoding='utf-8') as file:
            return json.load(file)

    @property
    def done(self) -> bool:
        """Whether all its shards are there."""
        return os.path.exists(self._read) and all(map(os.path.exists, self.shards()))

    def __iter__(self) -> Iterator[tuple[str, bytes]]:
        """The blocks that have no shard yet: (file of the shard, lines)."""
        reader = dumps.Reader(self.path)
        blocks = 0
        for blocks, data in enumerate(reader, 1):
            self.position = reader.position
            path = self.shard(blocks - 1)
            if not os.path.exists(path):
                yield path, data
        unread = os.path.getsize(self.path) - reader.position
        found = {'blocks': blocks, 'damage': reader.damage, 'unread': unread}
        with files.replacing(self._read) as file:
            file.write(json.dumps(found).encode())

    def counts(self) -> collections.Counter[str]:
        """Of all its blocks."""
        return _sum(self.shards())

    def check(self, max_bad: float) -> None:
        """Raises UserError if too many lines are no comments, or too much could not be read."""
        read, size = self.read, os.path.getsize(self.path)
        if read['damage'] and read['unread'] > max_bad * size:
            raise UserError(
                f'{self.path} is damaged ({read["damage"]}): {read["unread"]:,} of its {size:,} '
                'bytes cannot be read; mend it, or raise --max_bad'
            )
        counts = self.counts()
        malformed = _below(counts, 'malformed')
        bad, lines = sum(malformed.values()), counts['lines']
        if bad > max_bad * lines:
            reasons = ', '.join(f'{count:,} {reason}' for reason, count in malformed.most_common(3))
            raise UserError(
                f'{self.path}: {bad:,} of {lines:,} lines are no comments ({reasons}), more than '
                f'{max_bad:.2%}; if it is a dump of comments, raise --max_bad'
            )


def _scan(options: Options, pool: pool_lib.Pool) -> list[_Dump]:
    """The dumps, all of them scanned."""
    found = [
        _Dump(path, os.path.join(options.work, 'scan', _named(path))) for path in options.dumps
    ]
    waiting = [dump for dump in found if not dump.done]
    for dump in found:
        if dump not in waiting:
            dump.check(options.max_bad)
    progress = pool_lib.Progress('scan', sum(options.sizes.values()) // 10**6, 'MB')
    # A dump written with --long=31 takes 2 GiB to read, so those are read one at a time.
    long = [dump for dump in waiting if dump.name.endswith('.zst')]
    others = [dump for dump in waiting if dump not in long]
    blocks = itertools.chain(pool_lib.merged(others, min(options.workers, len(others))), *long)
    jobs = ((data, path, options.num_partitions) for path, data in blocks)
    for _ in pool.run(dumps.scan, jobs):
        for dump in [dump for dump in waiting if dump.done]:  # Told now, not after a hundred more.
            dump.check(options.max_bad)
            waiting.remove(dump)
        read = sum(dump.position if dump in waiting else options.sizes[dump.path] for dump in found)
        progress.at(read // 10**6)
    for dump in waiting:
        dump.check(options.max_bad)
    progress.end(f'{sum(dump.read["blocks"] for dump in found):,} blocks of {len(found)} dumps')
    return found


def _pair(options: Options, sources: Sequence[str], pool: pool_lib.Pool) -> list[str]:
    """Shards of comments -> shards of pairs."""
    return _partitions(options, 'pair', functools.partial(_join, options, sources), pool)


def _join(options: Options, sources: Sequence[str], partition: int, path: str) -> None:
    pairs.join(
        sources,
        partition,
        options.num_partitions,
        path,
        languages=options.languages,
        identify=plugins.identifier(options.language_model),
        min_confidence=options.min_confidence,
        english_years=options.english_years,
    )


def _split(options: Options, sources: Sequence[str], pool: pool_lib.Pool) -> list[str]:
    """Shards of pairs -> shards of lines of the final files."""
    return _partitions(options, 'split', functools.partial(_sort, options, sources), pool)


def _sort(options: Options, sources: Sequence[str], partition: int, path: str) -> None:
    splits.split(sources, partition, path, languages=options.languages, toxicity=_filter(options))


def _filter(options: Options) -> splits.Filter:
    return splits.Filter(
        options.toxicity,
        options.max_toxicity,
        options.strict_toxicity,
        options.max_strict_toxicity,
    )


def _partitions(
    options: Options, step: str, work: Callable[[int, str], None], pool: pool_lib.Pool
) -> list[str]:
    """The shards of a step, one of each partition; those that are not there are made."""
    count = options.num_partitions
    paths = [os.path.join(options.work, step, f'{number:06d}') for number in range(count)]
    jobs = [(n, path) for n, path in enumerate(paths) if not os.path.exists(path)]
    progress = pool_lib.Progress(step, count, 'partitions')
    progress.at(count - len(jobs))
    for done, _ in enumerate(pool.run(work, jobs), count - len(jobs) + 1):
        progress.at(done)
    progress.end(f'{count:,} partitions')
    return paths


# ---------------------------------------------------------------------------------------------
# The final files.


def _counted(
    options: Options, scanned: Sequence[_Dump], paired: Sequence[str], split: Sequence[str]
) -> dict[str, Any]:
    """The statistics of all steps before the response sets."""
    by_dump = sorted([dump.name, dump.counts(), dump.read['damage']] for dump in scanned)
    scan = sum((counts for _, counts, _ in by_dump), collections.Counter())
    pair, final = _sum(paired), _sum(split)
    return {
        'dumps': [
            {
                'name': name,
                'lines': counts['lines'],
                'malformed': _below(counts, 'malformed'),
                'damage': damage,
            }
            for name, counts, damage in by_dump
        ],
        'comments': {'read': scan['comments'], 'dropped': _below(scan, 'dropped')},
        'replies': {
            'read': pair['replies'],
            'copies of comments': pair['repeated comments'],
            'dropped': _below(pair, 'dropped'),
        },
        'languages': {
            lang: {
                **{place: final[f'pairs/{place}/{lang}'] for place in splits.SPLITS},
                'tokens': final[f'tokens/{lang}'],
                'dropped': _below(final, f'dropped/{lang}'),
                'without a toxicity score': final[f'unscored/{lang}'],
            }
            for lang in options.languages
        },
    }


def _publish(
    options: Options,
    final: str,
    split: Sequence[str],
    translated: Mapping[str, Sequence[str]],
    mapping: Mapping[str, Mapping[str, str]],
    stats: dict[str, Any],
) -> None:
    """Writes the final files, which appear together; adds the response sets to the statistics."""
    names = splits.keys(options.languages)
    progress = pool_lib.Progress('publish', len(names), 'files')
    with locks.appearing(final) as part:
        _write_files(options, str(part), names, progress, split, translated, mapping, stats)
    progress.end(final)


def _write_files(
    options: Options,
    part: str,
    names: Sequence[str],
    progress: pool_lib.Progress,
    split: Sequence[str],
    translated: Mapping[str, Sequence[str]],
    mapping: Mapping[str, Mapping[str, str]],
    stats: dict[str, Any],
) -> None:
    """Writes the final files into a folder; see `_publish`."""
    for number, name in enumerate(names):
        progress.at(number)
        contents = (shards.data(path, number) for path in split)
        kind, lang = name.split('/')
        if kind != 'replies':
            _write(os.path.join(part, kind, lang, 'pairs.tsv'), contents)
            continue
        chosen = _responses(options, contents, translated.get(lang, ()), lang, stats)
        lines = (f'{response}\n'.encode() for response in chosen)
        _write(os.path.join(part, 'rsp_set', lang, 'response_lm_cluster.txt'), lines)
        shown = mapping.get(lang, {})
        lines = (f'{r.text}\t{shown.get(r.text, r.text)}\n'.encode() for r in chosen)
        _write(os.path.join(part, 'rsp_map', lang, 'response.mapping.txt'), lines)
    text = json.dumps(stats, ensure_ascii=False, indent=1)
    _write(os.path.join(part, 'stats.json'), [f'{text}\n'.encode()])


def _responses(
    options: Options,
    contents: Iterable[bytes],
    translated: Sequence[str],
    lang: str,
    stats: dict[str, Any],
) -> list[responses.Response]:
    """The response set of a language, from the lines that splits.split wrote."""
    column = 0 if options.response_pairs == 'train' else 1
    counted = (
        (int(line[column]), line[2])
        for data in contents
        for line in (row.split('\t') for row in data.decode().split('\n')[:-1])
    )
    found: collections.Counter[str] = collections.Counter()
    told = stats['languages'][lang]
    places = splits.SPLITS[:1] if options.response_pairs == 'train' else splits.SPLITS
    chosen = responses.choose(
        counted,
        translated,
        sum(told[place] for place in places),
        min_count=options.min_count,
        max_responses=options.max_responses,
        allowed=lambda texts: _filter(options).allowed(
            texts, texts, lang, [lang == 'en'] * len(texts), found
        ),
    )
    told['responses'] = len(chosen)
    told['translated responses'] = len({r.text for r in chosen}.intersection(translated))
    told['toxic responses'] = found['toxic']
    told['responses without a toxicity score'] = found['unscored']
    return chosen


def _write(path: str, contents: Iterable[bytes]) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, 'wb') as file:
        file.writelines(contents)
        file.flush()
        os.fsync(file.fileno())


def _below(counts: Mapping[str, int], name: str) -> collections.Counter[str]:
    """The counts of NAME/REASON by reason, without zeros."""
    start = f'{name}/'
    return collections.Counter(
        {
            key.removeprefix(start): n
            for key, n in sorted(counts.items())
            if key.startswith(start) and n
        }
    )


def _sum(paths: Iterable[str]) -> collections.Counter[str]:
    """The counts of several shards."""
    counts: collections.Counter[str] = collections.Counter()
    for path in paths:
        counts.update(shards.counts(path))
    return counts
