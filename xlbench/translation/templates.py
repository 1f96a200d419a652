"""An engine for each pair of languages, from one name with {source} and {target} in it."""

import argparse
import dataclasses
import functools
from collections.abc import Sequence

from xlbench import config as config_lib
from xlbench.settings import decoding_flags
from xlbench.system.files import Setting
from xlbench.translation import engines
from xlbench.translation.engines import Engine
from xlbench.translation.jobs import Job


@dataclasses.dataclass(frozen=True)
class Template:
    """An engine whose model or file may be another one for each pair of languages.

    Attributes:
      spec: its name as `engines.find` takes it, where {source} and {target} stand for the codes of
        the languages; a command fills them in itself.
      version, timeout, prefix, batch_size: see `engines.find`.
      decoding: options of a model's decoding, by name.
    """

    spec: str
    version: str = ''
    timeout: float = 600.0
    prefix: str = ''
    batch_size: int = 0
    decoding: tuple[tuple[str, Setting], ...] = ()

    def name(self, source: str, target: str) -> str:
        """The engine's name for a pair of languages."""
        if self.spec.startswith('command:'):
            return self.spec
        return self.spec.replace('{source}', source).replace('{target}', target)

    def engine(self, source: str, target: str) -> Engine:
        """The engine for a pair of languages; a process keeps the last two."""
        return _engine(dataclasses.replace(self, spec=self.name(source, target)))

    def job(self, source: str, target: str) -> Job:
        """A job without a folder of kept translations; a process keeps the last two.

        Raises:
          UserError: the engine is not there, or does not know the languages.
        """
        return _job(dataclasses.replace(self, spec=self.name(source, target)), source, target)


@functools.lru_cache(maxsize=2)
def _engine(named: Template) -> Engine:
    settings = vars(named) | dict(named.decoding)
    del settings['decoding']
    return engines.find(**settings)


# There and back: the models of other pairs leave the memory.
@functools.lru_cache(maxsize=2)
def _job(named: Template, source: str, target: str) -> Job:
    return Job(_engine(named), source, target)


def of_flags(args: argparse.Namespace, pairs: Sequence[tuple[str, str]]) -> Template:
    """The engine that a command line names, for some pairs of languages.

    Raises:
      UserError: it does not take the settings, or a model that it stands for is not there.
    """
    decoding = decoding_flags.given(args)
    engines.check_settings(args.engine, args.prefix, args.batch_size, decoding)
    settings = args.engine_version, args.timeout, args.prefix, args.batch_size
    template = Template(args.engine, *settings, tuple(sorted(decoding.items())))
    for name in dict.fromkeys(template.name(*pair) for pair in pairs):
        if engines.is_model(name):
            config_lib.check_source(name, '--engine')
    return template
