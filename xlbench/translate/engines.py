"""The contract of an engine that translates, and which engine a name stands for."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from xlbench import benchmarks
from xlbench.system import errors
from xlbench.system.files import Block, Setting

_LEAST_SECONDS = 30.0  # That a part of a batch has, where the whole one has more.
_MOST_REFUSED = 20  # Batches in a row; the search for one bad text of 256 has 9.


class Failure(NamedTuple):
    """Stands in the place of a translation that an engine did not give."""

    reason: str


class Refused(Exception):
    """A batch that an engine did not translate; the message goes on behind the engine's name."""


class Outside:
    """An engine that is not ours, and may refuse a batch or take too long for it.

    A batch that it refuses is halved, down to the text that is at fault. An empty answer is no
    translation, and an engine that refuses again and again is given up. A batch of `batch_size`
    texts has `timeout` seconds. The version is the user's: such an engine may not say it.
    """

    batch_size: int
    num_cut = 0

    def __init__(self, name: str, version: str, timeout: float):
        self.name = name
        self._version = f' version {version}' if version else ''
        self._timeout = timeout
        self._refused = 0  # In a row.

    def _ask(
        self, run: Callable[[Sequence[str], float], list[str]], texts: Sequence[str], label: str
    ) -> list[str | Failure]:
        """The translation of each text, in order.

        `run` translates texts within a number of seconds, or raises Refused; `label` is the name of
        the engine in the reason of a failure.

        Raises:
          UserError: the engine refuses all that it is asked.
        """
        share = self._timeout * len(texts) / self.batch_size
        try:
            answers = run(texts, max(share, min(self._timeout, _LEAST_SECONDS)))
        except Refused as error:
            self._refused += 1
            if self._refused >= _MOST_REFUSED:
                raise errors.UserError(
                    f'{self.name} failed {self._refused} times in a row; the last time it {error}.'
                    ' Start the same command again when it works: finished translations are kept'
                ) from None
            if len(texts) == 1:
                return [Failure(f'{label} {error}')]
            middle = len(texts) // 2
            first = self._ask(run, texts[:middle], label)
            return first + self._ask(run, texts[middle:], label)
        self._refused = 0
        empty = Failure(f'{label} gave an empty translation')
        return [
            answer if answer.strip() or not text.strip() else empty
            for answer, text in zip(answers, texts, strict=True)
        ]


class Engine(Protocol):
    """Translates texts from one language to another; languages are ISO 639-1 codes."""

    name: str  # As the user called it.
    batch_size: int  # Texts that it takes at once.

    @property
    def num_cut(self) -> int:
        """The number of texts so far that were longer than the engine reads."""
        ...

    def check(self, source: str, target: str) -> None:
        """Raises UserError if the engine is not there, or does not know the two languages."""
        ...

    def identity(self, source: str, target: str) -> str:
        """One line that says what makes the translations, once each: name, version and settings."""
        ...

    def translate(self, texts: Sequence[str], source: str, target: str) -> Sequence[str | Failure]:
        """The translation of each of at most `batch_size` texts, in order; a Failure without one.

        Raises:
          UserError: the engine as a whole does not work.
        """
        ...


def check_languages(source: str, target: str) -> None:
    """Raises UserError unless both are languages that the project knows, and differ."""
    for flag, code in (('source_lang', source), ('target_lang', target)):
        errors.check_known(f'language in --{flag}', code, benchmarks.languages.LANGUAGES)
    if source == target:
        raise errors.UserError(
            f'--source_lang and --target_lang are both {source}; name two languages'
        )


def is_model(spec: str) -> bool:
    """True if a name stands for an encoder-decoder."""
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
        from xlbench.translate import neural  # It loads jax.

        return neural.Neural(spec, prefix=prefix, batch_size=batch_size, **options)
    from xlbench.translate import external

    kind, _, rest = spec.partition(':')
    if kind == 'file':
        return external.Table(rest)
    if kind in ('http', 'https'):
        return external.LibreTranslate(spec, version=version, timeout=timeout)
    if kind == 'command':
        return external.Program(rest, version=version, timeout=timeout)
    return external.Apertium(timeout=timeout)
