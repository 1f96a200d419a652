r"""Predicts texts, replies, labels or tags with a trained model.

  python -m xlbench.predict RUNS/mtg --target_lang=de < questions.txt > answers.txt
  python -m xlbench.predict RUNS/mtg@last --input=in.jsonl --field=inputs --output=out.jsonl
  python -m xlbench.predict Helsinki-NLP/opus-mt-en-de --num_beams=6 --num_return=3 --scores

The model is a workdir (of a run or of xlbench.convert: its best checkpoint, or WORKDIR@STEP,
WORKDIR@last, of several adapters WORKDIR@best:LANG), a folder in the form of Hugging Face, or a hub
name. A workdir needs its config.json, checkpoint and vocabulary, but not the training data; lengths
and decoding are those of its final evaluation. The texts have the form that a task gives the model
as `inputs`, without the mark of the target language, which is added here.

The input has one text on each line, or is JSONL, whose records may name their own target_lang and
source_lang, or a table (CSV, TSV, Parquet) of which --field names the column. The name of --output,
or --format, sets the format of the output. Plain output has a line for each input; with --scores,
the score and a TAB come before the text, and with --num_return=N (n-best), the N lines of an input
begin with its number (from 1) and a TAB. Line ends inside a text become spaces. JSONL and tables
keep their fields, and get `prediction`, with --scores `score` and `log_probability`; n-best output
has `predictions`, a list of such objects, or the columns `prediction_1`, `prediction_2`, ...

A run whose objective is retrieval suggests three replies to each message, as n-best:

  python -m xlbench.predict RUNS/retriever --target_lang=de < messages.txt
  python -m xlbench.predict RUNS/retriever --responses=replies.txt --num_return=5 < messages.txt

The replies come from the response set with which the run was evaluated in that language, or from a
file, which has on each line a text, or a log-likelihood, TAB, a text, TAB and a cluster. Their
vectors are computed once, and kept in RUNS/retriever/responses. An empty message gets no replies. A
retriever can also rank all beams or samples of a generator (arXiv:2106.02017, section 6), by (1 -
W) * score of the generator + W * score of the retriever:

  python -m xlbench.predict RUNS/generator --rerank=RUNS/retriever --rerank_weight=0.5 \
      --target_lang=de --num_beams=6 --num_groups=3 --diversity_penalty=1 < messages.txt

A run with the objective classification gives each text, or each pair of texts, its likeliest label,
or with --num_return=N the N likeliest. A pair is a line with a TAB in it, or two fields, by default
text_a and text_b; the field of a single text is text:

  python -m xlbench.predict RUNS/xnli --scores < pairs.tsv
  python -m xlbench.predict RUNS/xnli --input=pairs.jsonl --field=premise,hypothesis

A run with the objective tagging gives each word its likeliest tag. In CoNLL, with a word on each
line and a blank line after each sentence, the tag follows the other columns; in CoNLL-U it replaces
UPOS. Words that do not fit into the model's length get the tag <CUT>.

  python -m xlbench.predict RUNS/pos < sentences.txt               # words with spaces between them
  python -m xlbench.predict RUNS/ner --input=test.conll --output=tagged.conll
"""

import argparse
import contextlib
import functools
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import IO, NamedTuple

from xlbench.config import commands

if __name__ == '__main__':  # A slip is answered before the imports below, which take seconds.
    commands.check_first(commands.check_predict, sys.argv)

from xlbench.data import readers, rows
from xlbench.evaluators.generation import Prediction
from xlbench.inference import answer_lines, reranking
from xlbench.inference.answer_lines import Answered, Asked
from xlbench.inference.answering import Classified, Suggestion, Tagged
from xlbench.inference.generator import Model
from xlbench.inference.labeller import Classifier, Tagger
from xlbench.inference.loading import Answering, load
from xlbench.inference.reranking import Mmi, Relevance
from xlbench.inference.retriever import NUM_SUGGESTIONS, Retriever
from xlbench.parallel import cluster, programs
from xlbench.settings import decoding
from xlbench.system import errors, files, locks
from xlbench.system.command_line import say
from xlbench.system.errors import UserError
from xlbench.system.progress import Progress
from xlbench.training import memory

__all__ = [
    'Classified', 'Classifier', 'Mmi', 'Model', 'Prediction', 'Relevance', 'Retriever',
    'Suggestion', 'Tagged', 'Tagger', 'load',
]  # fmt: skip


def main(argv: Sequence[str]) -> int:
    """The command line, the program's name first."""
    args = commands.parse_predict(argv)
    if cluster.is_one_of_several():
        raise UserError(
            'predict runs in one process, on all devices of its machine, and here are several; '
            'start it once, or each with XLBENCH_PROCESSES=1 and its own input'
        )
    if args.output:
        files.check_new(args.output)
    given = args.input_format or answer_lines.format_of(args.input)
    if args.field is not None and not args.input_format and given not in answer_lines.TABLES:
        given = 'tsv' if args.input.removesuffix('.gz').endswith('.tsv') else 'jsonl'
    columns: list[str] = []
    if given in answer_lines.TABLES:
        if not args.input:
            raise UserError(
                f'{given} is read from a file, and not from standard input: give --input'
            )
        columns = rows.columns(args.input, rows.Layout(given))
    file = _open_input(args.input)
    cluster.keep_programs()
    programs.run_inline()
    langs = args.source_lang, args.target_lang
    asked = _ask(args, langs if given in ('text', 'conll', 'conllu') else None)
    model = asked.model
    parse = answer_lines.parser(model, given, args.field, langs)
    format = args.format or answer_lines.output_format(args.output, given)
    if format == 'parquet' and not args.output:
        raise UserError('--format=parquet is written to a file: give --output')
    writer = answer_lines.AnswerWriter(
        model, args.input, given, format, columns, args.scores, asked.num_answers
    )
    inputs = answer_lines.Inputs(file, args.input or 'stdin', given, parse, model.batch_size)
    say(f'{model.name}: {asked.method}')
    live = bool(args.output) or not sys.stdout.isatty()
    progress = Progress('answered', unit='texts', live=live)
    advice = f'take a smaller --batch_size (now {args.batch_size:,}) or --num_beams'
    with memory.advising(advice), _opened(args.output) as file, writer.begin(file) as write:
        with progress:
            for answer in asked.stream(inputs):
                progress.add()
                write(inputs.records.popleft(), answer)
        speed = progress.done / max(progress.seconds, 1e-9)
        say(f'{progress.done} texts, {speed:.1f} texts/s')
        if model.num_cut:
            say(f'{model.num_cut} of {progress.done} inputs {model.what_is_cut}')
        if inputs.error:
            raise inputs.error
    return 0


class _Asked(NamedTuple):
    """A command line, with its models loaded."""

    model: Answering
    stream: Callable[[Iterable[Asked | None]], Iterator[Answered]]
    num_answers: int  # To each example.
    method: str  # For a line on the screen: 'beam', 'retrieval', 'tagger of 17 labels'.


def _ask(args: argparse.Namespace, langs: tuple[str | None, str | None] | None) -> _Asked:
    """Loads what the command line names; `langs` are those of all texts, if that is known."""
    sizes = dict(mesh=args.mesh, batch_size=args.batch_size, dtype=args.dtype)
    of_retriever = dict(responses=args.responses, lm_weight=args.lm_weight)
    model = load(args.model, max_input_length=args.max_input_length, **of_retriever, **sizes)
    given = decoding.given_options(args)
    named = [name for name in ('target_lang', 'rerank', 'mmi_model') if getattr(args, name)]
    if isinstance(model, Classifier | Tagger):
        kind = 'classifier' if isinstance(model, Classifier) else 'tagger'
        count = given.pop('num_return', 1) if kind == 'classifier' else 1
        model.check_lang(args.source_lang)
        if strange := [*given, *named]:
            takes = '--scores and --num_return' if kind == 'classifier' else '--scores'
            raise UserError(
                f'--{strange[0]} is for models that write or find texts, and {args.model} is a '
                f'{kind}; it takes {takes}'
            )
        labels = len(model.labels)
        if not 1 <= count <= labels:
            raise UserError(
                f'--num_return={count}; {args.model} has {labels} labels: 1 to {labels} are allowed'
            )
        stream = functools.partial(model.stream, lang=args.source_lang)
        return _Asked(model, stream, count, f'{kind} of {labels} labels')
    if isinstance(model, Retriever):
        count = given.pop('num_return', NUM_SUGGESTIONS)
        if strange := [*given, *(name for name in named if name != 'target_lang')]:
            raise UserError(
                f'--{strange[0]} is for models that write their answers, and {args.model} '
                'retrieves them; it takes --num_return, --responses and --lm_weight'
            )
        if langs or args.responses:
            model.ready(args.target_lang)
        return _Asked(model, functools.partial(model.stream, count=count), count, 'retrieval')
    options = model.options.changed(given)
    reranker = reranking.of_flags(args, sizes)
    if reranker:
        reranker.candidates(options)
    if langs:
        model.mark(*langs)
        if isinstance(reranker, Mmi):
            reranker.model.mark(*reversed(langs))
    written = functools.partial(model.stream, options=options, reranker=reranker)
    return _Asked(model, written, options.num_return, options.method)


def _open_input(path: str) -> IO[bytes]:
    """The file, or standard input for ''."""
    if not path:
        # Not sys.stdin.buffer, whose lock a waiting thread would hold when the program ends.
        return open(sys.stdin.fileno(), 'rb', closefd=False)
    return readers.open_binary(path)


@contextlib.contextmanager
def _opened(path: str) -> Iterator[IO[bytes]]:
    """Opens standard output, or PATH.part, which becomes PATH when it is whole."""
    if not path:
        yield sys.stdout.buffer
        return
    part = f'{path}.part'
    with locks.file(path):
        files.check_new(path)  # Another process may have written it since.
        try:
            with open(part, 'wb', buffering=0) as file:
                yield file
                os.fsync(file.fileno())
        except OSError as error:
            raise UserError(f'{part} cannot be written: {error.strerror or error}') from None
        os.replace(part, path)
        files.sync_folder(os.path.dirname(os.path.abspath(path)))


if __name__ == '__main__':
    sys.exit(errors.run_main(main, sys.argv))
