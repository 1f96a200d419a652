"""The contract of an engine that translates, and which engine a name stands for."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from xlbench import benchmarks
from xlbench.system import errors
from xlbench.system.files import Block, Setting


class Failure(NamedTuple):
    """Stands in the place of a translation that an engine did not give.

    Attributes:
      reason: why, in plain words.
    """

    reason: str


def given(answers: Sequence[str], texts: Sequence[str], name: str) -> list[str | Failure]:
    """The answers of an engine that is no model of ours: an empty one is no translation.

    Args:
      answers: of `texts`, in order.
      texts: without empty ones.
      name: of the engine.
    """
    empty = Failure(f'{name} gave an empty translation')
    return [
        answer if answer.strip() or not text.strip() else empty
        for answer, text in zip(answers, texts, strict=True)
    ]


class Engine(Protocol):
    """Translates texts from one language to another.

    Attributes:
      name: as the user called it.
      batch_size: how many texts it takes at once.
      num_cut: how many texts so far were longer than it reads.
    """

    name: str
    batch_size: int
    num_cut: int

    def check(self, source: str, target: str) -> None:
        """Raises UserError if the engine is not there, or does not know the two languages."""
        ...

    def identity(self, source: str, target: str) -> str:
        """One line that says what makes the translations: name, version and settings.

        A translation is made once for each identity; another version of an engine is another one.
        """
        ...

    def translate(self, texts: Sequence[str], source: str, target: str) -> list[str | Failure]:
        """The translation of each text, in order; a Failure where there is none.

        Args:
          texts: without empty ones, at most `batch_size`.
          source: ISO 639-1 code of their language.
          target: that of the translations.

        Raises:
          UserError: the engine as a whole does not work.
        """
        ...


def check_languages(source: str, target: str) -> None:
    """Raises UserError unless both are languages that the project knows, and differ."""
    for flag, code in (('source_lang', source), ('target_lang', target)):
        if code not in benchmarks.languages.LANGUAGES:
            raise errors.unknown(f'language in --{flag}', code, benchmarks.languages.LANGUAGES)
    if source == target:
        raise errors.UserError(
            f'--source_lang and --target_lang are both {source}; name two languages'
        )


def is_model(spec: str) -> bool:
    """Returns whether a name stands for an encoder-decoder."""
    return spec != 'apertium' and spec.partition(':')[0] not in ('command', 'http', 'https', 'file')


def check_settings(spec: str, prefix: str, batch_size: int, options: Block) -> None:
    """Raises UserError for settings that an engine does not take; see `find`."""
    if not is_model(spec) and (prefix or batch_size or options):
        raise errors.UserError(
            '--prefix, --batch_size and the decoding flags are for models, and '
            f'{spec} is not a model; leave them out'
        )
    if 'num_return' in options:
        raise errors.UserError('a translation is one text; leave out --num_return')


def find(
    spec: str,
    *,
    version: str = '',
    timeout: float = 600.0,
    prefix: str = '',
    batch_size: int = 0,
    **options: Setting,
) -> Engine:
    """The engine that a name stands for, without looking whether it is there.

    Args:
      spec: 'apertium'; 'command:PROGRAM ARGUMENTS'; the address of a LibreTranslate server
        ('http://localhost:5000'); 'file:PATH' of translations; otherwise a model, as
        xlbench.predict takes it: a workdir, a folder in the form of Hugging Face or a hub name.
      version: part of the identity of an engine that cannot say its version.
      timeout: seconds that a program or server has for a batch.
      prefix, batch_size, **options: of a model, see `neural.Neural`.

    Raises:
      UserError: the engine does not take the settings.
    """
    check_settings(spec, prefix, batch_size, options)
    if is_model(spec):
        from xlbench.translation import neural  # It loads jax.

        return neural.Neural(spec, prefix=prefix, batch_size=batch_size, **options)
    kind, _, rest = spec.partition(':')
    if kind == 'file':
        from xlbench.translation import tables

        return tables.Table(rest)
    if kind in ('http', 'https'):
        from xlbench.translation import servers

        return servers.LibreTranslate(spec, version=version, timeout=timeout)
    from xlbench.translation import programs

    if kind == 'command':
        return programs.Program(rest, version=version, timeout=timeout)
    return programs.Apertium(timeout=timeout)
