"""The options of a build, and the settings on which the files of each step depend."""

import functools
import hashlib
import os
from typing import IO

from xlbench.system.errors import UserError
from xlbench.tasks.building import builds
from xlbench.tasks.building.builds import ENGLISH, TRANSLATED, Setting, Settings
from xlbench.tasks.mrs_build import plugins

# Bytes of the dumps, as they are on disk, for one partition; it is held in memory as a whole.
_PARTITION = 16 * 2**20
_MIN_PARTITIONS, _MAX_PARTITIONS = 16, 4096


class Options(builds.Options):
    """The flags of the command; `engine` is a Template, and `languages` may be empty until the
    largest ones are known.
    """

    @property
    def translated_languages(self) -> tuple[str, ...]:
        """The languages that are translated into."""
        if self.engine is None:
            return ()
        others = tuple(lang for lang in self.languages if lang != ENGLISH)
        return self.mt_languages or others

    @functools.cached_property
    def sizes(self) -> dict[str, int]:
        """Bytes of each dump."""
        return {path: os.path.getsize(path) for path in self.dumps}

    @functools.cached_property
    def num_partitions(self) -> int:
        """The number of partitions: as given, or by the size of the dumps."""
        by_size = sum(self.sizes.values()) // _PARTITION
        return self.partitions or min(max(by_size, _MIN_PARTITIONS), _MAX_PARTITIONS)


STEPS = {
    'scan': ('dumps', 'partitions'),
    'pair': ('languages', 'language_model', 'min_confidence', 'english_years'),
    'split': (
        'toxicity', 'toxic_label', 'max_toxicity', 'strict_toxicity', 'max_strict_toxicity',
        'split_by',
    ),
    'publish': ('min_count', 'max_responses', 'response_pairs'),
}  # fmt: skip


def settings(options: Options) -> Settings:
    """The settings that decide about the files of each step, by the names of flags.

    Neither folders nor the order of dumps nor the number of workers are among it.
    """
    dumps = sorted(map(dump_name, options.dumps))
    if len(set(dumps)) < len(dumps):
        raise UserError('a dump is given twice; name each of them once')
    by_content: dict[str, Setting] = {
        'dumps': dumps,
        'partitions': options.num_partitions,
        'languages': list(options.languages),
        'english_years': list(options.english_years),
        'language_model': _identifier(options.language_model),
        'toxicity': _scorer(options.toxicity),
        'strict_toxicity': _scorer(options.strict_toxicity),
    }
    of_steps: Settings = {
        step: {name: by_content.get(name, getattr(options, name)) for name in names}
        for step, names in STEPS.items()
    }
    if not options.languages:
        largest = {name: getattr(options, name) for name in ('num_languages', 'min_pairs')}
        of_steps['split'] |= largest
    return of_steps


def translated_settings(options: Options) -> Settings:
    """The settings of what is translated into each language; see `settings`.

    Raises:
      UserError: the engine is not there, or does not know a language.
    """
    return {
        f'{TRANSLATED}{lang}': {
            'engine': options.engine.job(ENGLISH, lang).identity,
            'mt_pairs': options.mt_pairs,
            'mt_valid_pairs': options.mt_valid_pairs,
        }
        for lang in options.translated_languages
    }


def _scorer(spec: str) -> str:
    """A function by its name, a classifier by a hash of its contents."""
    if not spec or plugins.is_function(spec):
        return spec
    return f'classifier {plugins.model_digest(spec)[:16]}'


def _identifier(spec: str) -> str:
    """A function by its name, a model's file by a hash of its contents."""
    if plugins.is_function(spec):
        return spec
    with _opened(spec) as file:
        return f'sha256 {hashlib.file_digest(file, "sha256").hexdigest()[:16]}'


def dump_name(dump: str) -> str:
    """The name of a dump, and a hash of its size and of the first and last MiB of it.

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
