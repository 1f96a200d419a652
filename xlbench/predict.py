r"""Text in, text out, with a trained model.

  python -m xlbench.predict RUNS/mtg --target_lang=de < questions.txt > answers.txt
  python -m xlbench.predict RUNS/mtg@last --input=in.jsonl --field=inputs --output=out.jsonl
  python -m xlbench.predict Helsinki-NLP/opus-mt-en-de --num_beams=6 --num_return=3 --scores

The model is a workdir (of a run or of xlbench.convert: its best checkpoint, or WORKDIR@STEP,
WORKDIR@last), a folder in the form of Hugging Face, or a hub name. A workdir needs its config.json,
checkpoint and vocabulary, none of the training data; lengths and decoding are those of its final
evaluation. The input is one text a line, or JSONL; a JSONL record may name its own target_lang and
source_lang, and its fields are kept. Texts are what a task gives the model as `inputs`; the mark of
the target language is put before them here. Answers come in the order of the input, while later
ones are computed.

Plain output has a line for each input. With --scores the score and a TAB stand before the text.
With n-best, --num_return=N, there are N lines for each input, which begin with its number (from 1)
and a TAB. Line ends inside an answer become spaces. JSONL output has `prediction`, and with
--scores `score` and `log_probability`; n-best has `predictions`, a list of such objects. They
replace fields of the same name.

A run whose objective is retrieval suggests three replies to each message, as n-best:

  python -m xlbench.predict RUNS/retriever --target_lang=de < messages.txt
  python -m xlbench.predict RUNS/retriever --responses=replies.txt --num_return=5 < messages.txt

They are from the response set that the run was evaluated with in that language, which is prepared
if it is missing; or from a file (text, or log-likelihood TAB text TAB cluster, a response a line),
for messages in any language. Its vectors are computed once and kept in RUNS/retriever/responses.
--lm_weight weighs a response's log-likelihood. An empty message has no replies.

A retriever also ranks what a generator writes (arXiv:2106.02017, section 6), all its beams or
samples, by (1 - W) * score of the generator + W * score of the retriever, --rerank_weight=W:

  python -m xlbench.predict RUNS/generator --rerank=RUNS/retriever --target_lang=de \
      --num_beams=6 --num_groups=3 --diversity_penalty=1 --num_return=3 < messages.txt

From Python:

  from xlbench import predict

  model = predict.load('RUNS/mtg')
  texts = model.generate(['Rome is an old city. <answer> Rome'], target_lang='de', num_beams=4)
  retriever = predict.load('RUNS/retriever')
  replies = retriever.suggest(['Wann fährt der Zug?'], lang='de')
"""

import argparse
import codecs
import collections
import contextlib
import functools
import gzip
import json
import os
import queue
import re
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import IO, Any, NamedTuple

from xlbench import errors, partitioning, processes
from xlbench.answers import (
    BATCH_SIZE,
    CHUNK_BATCHES,
    Example,
    Prediction,
    Reranker,
    Suggestion,
)
from xlbench.decoding import flags
from xlbench.errors import UserError
from xlbench.predictor import Mmi, Model, load
from xlbench.suggester import NUM_SUGGESTIONS, Relevance, Suggester

__all__ = ['Mmi', 'Model', 'Prediction', 'Relevance', 'Suggester', 'Suggestion', 'load']

Answer = Prediction | Suggestion

# Seconds without a further line after which the answers to those before it are made.
PAUSE = 0.05
PROGRESS_EVERY = 10.0  # Seconds.


def main(argv: Sequence[str]) -> int:
    """The command line, the program's name first."""
    args = _parse(argv[1:])
    place = processes.find(os.environ)
    if place and place.count > 1:
        raise UserError(
            f'predict runs in one process, on all devices of its machine, and not in {place.count} '
            f'({place.found}); start it once, or each with XLBENCH_PROCESSES=1 and its own input'
        )
    if args.output and os.path.exists(args.output):
        raise UserError(f'{args.output} exists already; name another --output, or remove it')
    records_in = args.field is not None or args.input.endswith('.jsonl')
    records_out = args.format == 'jsonl' if args.format else records_in
    file = _open_input(args.input)
    processes.keep_programs()
    langs = args.source_lang, args.target_lang
    asked = _ask(args, None if records_in else langs)
    field = (args.field or 'inputs') if records_in else None
    inputs = _Inputs(file, args.input or 'stdin', asked.model, field, *langs)
    show = functools.partial(
        _record if records_out else _lines, scores=args.scores, n_best=asked.count > 1
    )
    progress = _Progress(asked)
    try:
        with _opened(args.output) as write:
            for found in asked.stream(inputs):
                progress.add()
                write(show(progress.texts, inputs.records.popleft(), found).encode())
            progress.end()
            if inputs.error:
                raise inputs.error
    except BrokenPipeError:  # Whoever reads the answers has enough; nothing is left to flush to.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return 0


class _Asked(NamedTuple):
    """What the command line asks for.

    Attributes:
      model: that answers.
      stream: examples -> the answers to each.
      count: answers to each.
      method: how they come about, in a word or two.
      models: all that write or read texts token by token, whose programs are counted.
    """

    model: Model | Suggester
    stream: Callable[[Iterable[Example | None]], Iterator[Sequence[Answer]]]
    count: int
    method: str
    models: Sequence[Model]


def _ask(args: argparse.Namespace, langs: tuple[str | None, str | None] | None) -> _Asked:
    """Loads what the command line names; `langs` are those of all texts, if that is known.

    Raises:
      UserError: models, languages and flags do not go together.
    """
    sizes = dict(mesh=args.mesh, batch_size=args.batch_size, dtype=args.dtype)
    own = dict(responses=args.responses, lm_weight=args.lm_weight)
    model = load(args.model, max_input_length=args.max_input_length, **own, **sizes)
    given = flags.given(args)
    if isinstance(model, Suggester):
        count = given.pop('num_return', NUM_SUGGESTIONS)
        given |= {name: True for name in ('rerank', 'mmi_model') if getattr(args, name)}
        if given:
            raise UserError(
                f'--{next(iter(given))} is for models that write their answers, and {args.model} '
                'retrieves them; it takes --num_return, --responses and --lm_weight'
            )
        if langs or args.responses:
            model.ready(args.target_lang)
        stream = functools.partial(model.stream, count=count)
        return _Asked(model, stream, count, 'retrieval', ())
    options = flags.changed(model.options, given)
    reranker = _reranker(args, sizes)
    if reranker:
        reranker.candidates(options)
    reverse = [reranker.model] if isinstance(reranker, Mmi) else []
    if langs:
        model.mark(*langs)
        for other in reverse:
            other.mark(*reversed(langs))
    stream = functools.partial(model.stream, options=options, reranker=reranker)
    return _Asked(model, stream, options.num_return, options.method, [model, *reverse])


def _reranker(args: argparse.Namespace, sizes: Mapping[str, Any]) -> Reranker | None:
    """What ranks the answers of a generator anew."""
    if args.mmi_model and args.rerank:
        raise UserError('--mmi_model and --rerank both rank the answers; leave out one of them')
    if args.mmi_model:
        reverse = load(args.mmi_model, **sizes)
        if isinstance(reverse, Suggester):
            raise UserError(f'--mmi_model={args.mmi_model} is a retriever; --rerank takes those')
        return Mmi(reverse, args.mmi_weight, args.mmi_length_weight)
    if args.rerank:
        retriever = load(args.rerank, **sizes)
        if not isinstance(retriever, Suggester):
            raise UserError(f'--rerank={args.rerank} is no run whose objective is retrieval')
        return Relevance(retriever, args.rerank_weight)
    return None


class _Inputs:
    """The inputs as examples, read by a thread as they come; None where the next takes a while.

    Args:
      file: binary, with a text or a record a line.
      name: of the file, for messages.
      model: knows which languages there are.
      field: of a record that has the text; None: lines are texts.
      source_lang, target_lang: where a record does not name its own.

    Attributes:
      records: of the examples that were given out; whoever writes their answers removes them.
      error: what ended the reading before its time.
    """

    def __init__(
        self,
        file: IO[bytes],
        name: str,
        model: Model | Suggester,
        field: str | None,
        source_lang: str | None,
        target_lang: str | None,
    ):
        self.records: collections.deque[dict[str, Any]] = collections.deque()
        self.error: UserError | None = None
        self._file, self._name, self._model = file, name, model
        self._field, self._langs = field, (source_lang, target_lang)
        self._lines: queue.Queue = queue.Queue(CHUNK_BATCHES * model.batch_size)
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        try:
            for line in self._file:
                self._lines.put(line)
            self._lines.put(None)
        except (OSError, EOFError) as error:
            self._lines.put(error)

    def __iter__(self) -> Iterator[Example | None]:
        number = 0
        while True:
            try:
                line = self._lines.get(timeout=PAUSE)
            except queue.Empty:
                yield None
                line = self._lines.get()
            if line is None:
                return
            number += 1
            try:
                if isinstance(line, Exception):
                    raise ValueError(f'cannot be read: {line}')
                record, example = self._parse(line, number)
            except (UserError, ValueError) as error:
                # The answers to the lines before it come first.
                self.error = UserError(f'{self._name}:{number}: {error}')
                return
            self.records.append(record)
            yield example

    def _parse(self, line: bytes, number: int) -> tuple[dict[str, Any], Example]:
        """ValueError or UserError for what is no input."""
        if number == 1:
            line = line.removeprefix(codecs.BOM_UTF8)
        try:
            text = line.removesuffix(b'\n').removesuffix(b'\r').decode()
        except UnicodeDecodeError as error:
            byte = line[error.start]
            raise ValueError(f'not UTF-8: byte 0x{byte:02x} at byte {error.start}') from None
        if self._field is None:
            return {'inputs': text}, Example(text, *self._langs)
        try:
            record = json.loads(text)
        except json.JSONDecodeError as error:
            raise ValueError(f'not JSON: {error.msg} at column {error.colno}') from None
        except RecursionError:
            raise ValueError('not JSON: nested too deeply') from None
        if not isinstance(record, dict):
            raise ValueError('not a JSON object')
        if self._field not in record:
            raise errors.unknown('field', self._field, record, 'Set --field')
        langs = self._langs
        if self._model.languages.allowed:
            names = ('source_lang', 'target_lang')
            langs = tuple(record.get(n) or lang for n, lang in zip(names, langs, strict=True))
        example = Example(record[self._field], *langs)
        for name, value in zip((self._field, 'source_lang', 'target_lang'), example, strict=True):
            if not isinstance(value, str) and (value is not None or name == self._field):
                raise ValueError(f'{name} is {value!r}, not a text')
        example.text.encode()  # UnicodeEncodeError, a ValueError, for half a character.
        self._model.mark(*langs)
        return record, example


def _lines(
    number: int,
    record: Mapping[str, Any],
    found: Sequence[Answer],
    *,
    scores: bool,
    n_best: bool,
) -> str:
    """Plain output of one input, see the top of this file."""
    del record
    lines = []
    for answer in found if n_best else _first(found):
        text = re.sub(r'[\r\n]+', ' ', answer.text)
        score = [f'{answer.score:.4f}'] if scores else []
        lines.append('\t'.join([*([str(number)] if n_best else []), *score, text]) + '\n')
    return ''.join(lines)


def _record(
    number: int,
    record: Mapping[str, Any],
    found: Sequence[Answer],
    *,
    scores: bool,
    n_best: bool,
) -> str:
    """JSONL output of one input."""
    del number
    answers = [
        {'prediction': answer.text}
        | {
            name: round(getattr(answer, name), 6)
            for name in ('score', 'log_probability')
            if scores and hasattr(answer, name)
        }
        for answer in (found if n_best else _first(found))
    ]
    added = {'predictions': answers} if n_best else answers[0]
    return json.dumps({**record, **added}, ensure_ascii=False) + '\n'


def _first(found: Sequence[Answer]) -> Sequence[Answer]:
    """The one answer of an output that has one for each input."""
    return found or [Suggestion('', 0.0)]


class _Progress:
    """Says on standard error how far it is; on nothing else, which is for the answers."""

    def __init__(self, asked: _Asked):
        self._asked = asked
        self.texts = 0
        self._start = self._said = time.monotonic()
        most = sum(model.max_programs for model in asked.models)
        programs = f', compiles at most {most} programs' if most else ''
        _say(f'{asked.model.name}: {asked.method}{programs}')

    def add(self) -> None:
        """One more answer."""
        self.texts += 1
        if time.monotonic() > self._said + PROGRESS_EVERY:
            self._said = time.monotonic()
            self._line()

    def end(self) -> None:
        """The last words."""
        self._line()
        model = self._asked.model
        if cut := model.num_cut:
            _say(f'{cut} of {self.texts} inputs {model.what_is_cut}')

    def _line(self) -> None:
        rate = self.texts / max(time.monotonic() - self._start, 1e-9)
        programs = sum(model.num_programs for model in self._asked.models)
        more = f', {programs} programs' if self._asked.models else ''
        _say(f'{self.texts} texts, {rate:.1f} texts/s{more}')


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _open_input(path: str) -> IO[bytes]:
    """The file, or standard input for ''."""
    if not path:
        # Not sys.stdin.buffer, whose lock a waiting thread would hold when the program ends.
        return open(sys.stdin.fileno(), 'rb', closefd=False)
    try:
        return gzip.open(path) if path.endswith('.gz') else open(path, 'rb')
    except OSError as error:
        raise UserError(f'{path} cannot be read: {error.strerror or error}') from None


@contextlib.contextmanager
def _opened(path: str) -> Iterator[Callable[[bytes], None]]:
    """Writes at once: to standard output, or to PATH.part, which becomes PATH when it is whole."""
    if not path:
        yield lambda data: (sys.stdout.buffer.write(data), sys.stdout.buffer.flush())
        return
    part = f'{path}.part'
    try:
        with open(part, 'wb', buffering=0) as file:
            yield file.write
    except OSError as error:
        raise UserError(f'{part} cannot be written: {error.strerror or error}') from None
    os.replace(part, path)


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = errors.ArgumentParser('python -m xlbench.predict', __doc__)
    parser.add_argument('model', help='workdir, WORKDIR@STEP, folder or hub name')
    parser.add_argument('--input', default='', help='text or .jsonl; default: standard input')
    parser.add_argument('--field', help='of JSONL input, that has the text (default: inputs)')
    parser.add_argument('--output', default='', help='file; default: standard output')
    parser.add_argument('--format', choices=('text', 'jsonl'), help="default: the input's")
    parser.add_argument('--scores', action='store_true', help='beside each text')
    parser.add_argument('--target_lang', help='ISO code')
    parser.add_argument('--source_lang', help='ISO code, for models that are told it')
    parser.add_argument('--batch_size', type=int, default=BATCH_SIZE, help='default: %(default)s')
    parser.add_argument(
        '--max_input_length', type=int, default=0, help="tokens; default: the run's, or 512"
    )
    parser.add_argument(
        '--mesh', type=partitioning.mesh_sizes, default={}, help='like data=2,tensor=2'
    )
    parser.add_argument('--dtype', default='', help="of activations; default: the model's")
    parser.add_argument(
        '--mmi_model', help='from answers to inputs, to rank all beams anew (arXiv:1510.03055)'
    )
    parser.add_argument('--mmi_weight', type=float, default=0.5, help='default: %(default)s')
    parser.add_argument(
        '--mmi_length_weight', type=float, default=0.0, help='for a token; default: %(default)s'
    )
    parser.add_argument('--rerank', help='a retriever, to rank all beams or samples anew')
    parser.add_argument(
        '--rerank_weight', type=float, default=1.0, help='of the retriever; default: %(default)s'
    )
    parser.add_argument(
        '--responses', default='', help="of a retriever: file; default: the run's response sets"
    )
    parser.add_argument(
        '--lm_weight', type=float, help="of a response's log-likelihood; default: the run's"
    )
    flags.add_flags(parser)
    return parser.parse_args(argv)


if __name__ == '__main__':
    sys.exit(errors.run_main(main, sys.argv))
