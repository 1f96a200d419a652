"""Engines behind the HTTP interface of LibreTranslate (https://docs.libretranslate.com)."""

import json
import os
import time
import urllib.request
from collections.abc import Mapping, Sequence
from typing import TypeVar

import msgspec

from xlbench.system import errors, web
from xlbench.system.errors import UserError
from xlbench.translation.engines import Failure, Halving, Refused

KEY = 'XLBENCH_TRANSLATE_KEY'  # The environment variable of a server's API key.
_PAUSES = (1.0, 4.0, 16.0)  # Seconds before each further try.
_MOST_BYTES = 1 << 26  # Of an answer.
_BATCH = 64  # Texts.
_BUSY = (429, 500, 502, 503, 504)  # Status codes that a further try may change.


class _Language(msgspec.Struct):
    code: str
    targets: list[str] = []


class _Translations(msgspec.Struct):
    translatedText: list[str]  # As the server calls it.


class _Complaint(msgspec.Struct):
    error: str | dict[str, object] = ''  # OpenAI's is an object with a message.


T = TypeVar('T')


class LibreTranslate:
    """A server with LibreTranslate's interface, on this machine or elsewhere.

    Args:
      url: its address.
      version: part of the identity; the server does not say its own.
      timeout: seconds for a batch.
    """

    batch_size = _BATCH
    num_cut = 0

    def __init__(self, url: str, *, version: str = '', timeout: float = 600.0):
        self.name = self._url = url.rstrip('/')
        self._version, self._timeout = version, timeout
        self._halving = Halving(self.name, timeout, self.batch_size)

    def check(self, source: str, target: str) -> None:
        """Raises UserError if the server does not answer, or does not know the languages."""
        try:
            known = ask(f'{self._url}/languages', None, list[_Language], self._timeout)
        except Refused as error:
            raise UserError(f'{self._url} is not a LibreTranslate server: it {error}') from None
        targets = {language.code: language.targets for language in known}
        if source not in targets:
            raise errors.unknown(f'source language of {self._url}', source, targets)
        if target not in targets[source]:
            raise errors.unknown(
                f'target language of {self._url} from {source}', target, targets[source]
            )

    def identity(self, source: str, target: str) -> str:
        """The address, and the version that the user gave."""
        version = f' version {self._version}' if self._version else ''
        return f'LibreTranslate {self._url}{version} {source}-{target}'

    def translate(self, texts: Sequence[str], source: str, target: str) -> Sequence[str | Failure]:
        """See Engine.translate; a batch that the server refuses is halved down to the text."""
        def run(texts: Sequence[str], seconds: float) -> list[str]:
            body = {'q': list(texts), 'source': source, 'target': target, 'format': 'text'}
            if key := os.environ.get(KEY):
                body['api_key'] = key
            answers = ask(f'{self._url}/translate', body, _Translations, seconds).translatedText
            if len(answers) != len(texts):
                raise Refused(f'gave {len(answers)} translations for {len(texts)} texts')
            return answers

        return self._halving.ask(run, texts, self._url)


def ask(
    address: str,
    body: Mapping[str, object] | None,
    kind: type[T],
    seconds: float,
    *,
    headers: Mapping[str, str] = {},
) -> T:
    """The answer of a server, in JSON; one that is busy or silent is asked again.

    Args:
      address: of the question.
      body: JSON to post; None asks without any.
      kind: the type of the answer.
      seconds: for it.
      headers: further ones of HTTP.

    Raises:
      Refused: the server answers, but not with that.
      UserError: it does not answer, however often it is asked.
    """
    data = None if body is None else json.dumps(body).encode()
    known = {'Content-Type': 'application/json', 'Accept': 'application/json'}
    try:
        request = urllib.request.Request(address, data, known | dict(headers))
    except ValueError as error:
        raise UserError(f'{address} is not an address of a server: {error}') from None
    why = ''
    for pause in (0.0, *_PAUSES):
        time.sleep(pause)
        try:
            status, content = web.ask(request, seconds, _MOST_BYTES)
        except OSError as error:
            why = str(getattr(error, 'reason', '') or error)
        else:
            if status in _BUSY:
                why = f'HTTP {status}{_complaint(content)}'
                continue
            if status >= 300:
                raise Refused(f'answered HTTP {status}{_complaint(content)}')
            if len(content) > _MOST_BYTES:
                raise Refused(f'wrote more than {_MOST_BYTES:,} bytes')
            try:
                return msgspec.json.decode(content, type=kind)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
                raise Refused(f'gave an unexpected answer: {error}') from None
    raise UserError(
        f'{address} gave no answer in {1 + len(_PAUSES)} tries: {errors.printable(why)}; start the '
        'server, then the same command again: what it has answered is kept'
    )


def _complaint(content: bytes) -> str:
    """Returns what the server says of an error, after a colon."""
    try:
        error = msgspec.json.decode(content, type=_Complaint).error
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return ''
    said = error.get('message') if isinstance(error, dict) else error
    return f': {errors.printable(str(said))}' if said else ''
