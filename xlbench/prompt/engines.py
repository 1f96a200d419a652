"""Engines that answer prompts: servers with OpenAI's interface, and generators of this project.

A request is a prompt with the answers to choose from, or none for a free text. Engines have the
contract of those of translation, with requests as texts, and share their cache and retries.
"""

import argparse
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from xlbench.system.errors import UserError
from xlbench.translate import external
from xlbench.translate.engines import Failure, Outside, Refused
from xlbench.translate.jobs import Job

KEY = 'XLBENCH_PROMPT_KEY'  # The environment variable of a server's API key.
_BATCH = 32
_ALTERNATIVES = 20  # First tokens with log-probabilities; servers allow no more.


class Request(NamedTuple):
    """A prompt, and the answers to choose from; none for a free text."""

    prompt: str
    answers: tuple[str, ...] = ()
    max_tokens: int = 16


class _Answer(msgspec.Struct, omit_defaults=True):
    """The part of an answer that is kept."""

    text: str = ''
    first: dict[str, float] = {}  # Log-probabilities of the likeliest first tokens.
    scores: list[float] = []  # Log-probability of each answer, if the engine gives them.


def ask(job: Job, requests: Sequence[Request]) -> list[str]:
    """Returns the answer to each request: its text, or the chosen one of the answers.

    Raises:
      UserError: a request was not answered; answers to others are kept.
    """
    kept = list(job.run(msgspec.json.encode(request).decode() for request in requests))
    if failed := [answer for answer in kept if isinstance(answer, Failure)]:
        raise UserError(
            f'{len(failed)} of {len(requests)} prompts were not answered, the first because '
            f'{failed[0].reason}; start the same command again: the other answers are kept'
        )
    made = [msgspec.json.decode(answer, type=_Answer) for answer in kept if isinstance(answer, str)]
    return [
        choose(answer.text, answer.first, answer.scores, request.answers)
        for answer, request in zip(made, requests, strict=True)
    ]


def choose(
    text: str,  # Of the model.
    first: Mapping[str, float],  # Log-probabilities of first tokens.
    scores: Sequence[float],  # Log-probability of each answer, if known.
    answers: Sequence[str],
) -> str:
    """Chooses one of the answers: by the scores, else by the first token, else by the text.

    An answer has the score of the best first token that begins it. It is '' if the text has none of
    them. Where there are none, it is the first paragraph of the text as one line.
    """
    line = ' '.join(text.strip().partition('\n\n')[0].split())
    if not answers:
        return line
    if not scores:
        tokens = {token.strip().casefold(): value for token, value in first.items()}
        scores = [
            max((tokens[t] for t in tokens if t and a.casefold().startswith(t)), default=-math.inf)
            for a in answers
        ]
    best = max(scores)
    if best > -math.inf and list(scores).count(best) == 1:
        return answers[list(scores).index(best)]
    found = [a for a in answers if line.casefold().startswith(a.casefold())]
    found = found or [a for a in answers if a.casefold() in line.casefold()]
    return max(found, key=len, default='')


class _Choice(msgspec.Struct):
    index: int = 0
    text: str = ''
    message: dict[str, object] = {}
    logprobs: dict[str, object] | None = None


class _Choices(msgspec.Struct):
    choices: list[_Choice]


def of_flags(args: argparse.Namespace) -> 'Server | Generator':
    """Makes the engine that a command line names."""
    address = args.engine.removeprefix('chat+')
    if not address.startswith(('http://', 'https://')):
        return Generator(args.engine, batch_size=args.batch_size)
    url, _, model = address.partition('#')
    if not model:
        raise UserError(f'{args.engine} names no model; write it behind the address: {url}#qwen3')
    is_chat = address != args.engine
    settings = dict(version=args.engine_version, timeout=args.timeout)
    return Server(url, model, is_chat=is_chat, **settings)


class Server(Outside):
    """A server with OpenAI's interface, such as vLLM, llama.cpp or a provider's."""

    def __init__(
        self,
        url: str,  # Address up to /v1.
        model: str,  # Name on the server.
        *,
        is_chat: bool = False,  # Prompts are messages (/chat/completions), one in a request.
        version: str = '',
        timeout: float = 600.0,
    ):
        super().__init__(url.rstrip('/'), version, timeout)
        self.batch_size = 1 if is_chat else _BATCH
        self._model, self._is_chat = model, is_chat

    def check(self, source: str, target: str) -> None:
        """See Engine.check; the first prompt checks the server."""

    def identity(self, source: str, target: str) -> str:
        """Returns address, model and the user's version."""
        form = 'chat completions' if self._is_chat else 'completions'
        return f'{form} of {self.name} model {self._model}{self._version}, greedy'

    def translate(self, texts: Sequence[str], source: str, target: str) -> Sequence[str | Failure]:
        """Answers requests as JSON."""
        return self._ask(self._answers, texts, self.name)

    def _answers(self, texts: Sequence[str], seconds: float) -> list[str]:
        requests = [msgspec.json.decode(text, type=Request) for text in texts]
        body: dict[str, object] = {
            'model': self._model,
            'temperature': 0,
            'max_tokens': max(request.max_tokens for request in requests),
        }
        if self._is_chat:
            (request,) = requests
            body['messages'] = [{'role': 'user', 'content': request.prompt}]
            path = 'chat/completions'
            if request.answers:
                body |= {'logprobs': True, 'top_logprobs': _ALTERNATIVES}
        else:
            path = 'completions'
            body |= {'prompt': [request.prompt for request in requests], 'stop': ['\n\n']}
            if any(request.answers for request in requests):
                body['logprobs'] = _ALTERNATIVES
        key = os.environ.get(KEY)
        headers = {'Authorization': f'Bearer {key}'} if key else {}
        url = f'{self.name}/{path}'
        found = external.ask(url, body, _Choices, seconds, headers=headers).choices
        by_place = {choice.index: choice for choice in found}
        if sorted(by_place) != [*range(len(texts))] or len(found) != len(texts):
            raise Refused(f'gave {len(found)} answers to {len(texts)} prompts')
        return [_kept(by_place[place]) for place in range(len(texts))]


def _kept(choice: _Choice) -> str:
    content = choice.message.get('content')
    text = content if isinstance(content, str) else choice.text
    return msgspec.json.encode(_Answer(text, _first_tokens(choice.logprobs or {}))).decode()


def _first_tokens(given: Mapping[str, Any]) -> dict[str, float]:
    """Returns the log-probabilities of first tokens, if any, of either form of answer."""
    try:
        if content := given.get('content'):
            rows = content[0]['top_logprobs']
            return {str(row['token']): float(row['logprob']) for row in rows}
        tops = given.get('top_logprobs')
        return {str(token): float(value) for token, value in tops[0].items()} if tops else {}
    except (LookupError, TypeError, ValueError, AttributeError):
        raise Refused('gave log-probabilities in another form than OpenAI') from None


class Generator:
    """A model that writes texts: a workdir, a Hugging Face folder or a hub name."""

    def __init__(self, spec: str, *, batch_size: int = _BATCH):
        from xlbench.inference import loading
        from xlbench.inference.generator import Model

        self.name, self.batch_size = spec, batch_size
        model = loading.load(spec, batch_size=batch_size)
        if not isinstance(model, Model):
            raise UserError(f'{spec} does not write texts, so it answers no prompts')
        self._model = model

    @property
    def num_cut(self) -> int:
        """The number of prompts so far that were too long for the model."""
        return self._model.num_cut

    def check(self, source: str, target: str) -> None:
        """See Engine.check; loading the model has checked it."""

    def identity(self, source: str, target: str) -> str:
        """Returns the model with the hash of its parameters."""
        return f'model {self._model.digest} {source}-{target}, greedy'

    def translate(self, texts: Sequence[str], source: str, target: str) -> Sequence[str | Failure]:
        """Answers requests as JSON: scores of the given answers, or a text."""
        from xlbench.evaluators.generation import Example

        requests = [msgspec.json.decode(text, type=Request) for text in texts]
        langs = (source, target) if self._model.languages.allowed else (None, None)
        examples = [Example(one.prompt, *langs) for one in requests for _ in one.answers]
        answers = [answer for request in requests for answer in request.answers]
        scores = iter(self._model.log_probabilities(examples, answers) if answers else ())
        free = [request for request in requests if not request.answers]
        written: Iterator[str] = iter(())
        if free:
            prompts = [request.prompt for request in free]
            length = max(request.max_tokens for request in free)
            texts = self._model.generate(
                prompts, source_lang=langs[0], target_lang=langs[1], max_length=length
            )
            written = iter(texts)
        made = [
            _Answer(scores=[float(next(scores)) for _ in request.answers])
            if request.answers
            else _Answer(next(written))
            for request in requests
        ]
        return [msgspec.json.encode(answer).decode() for answer in made]
