r"""Annotates dialogues for BART(D_ALL): keywords, redundant utterances, topics.

  python -m xlbench.data mark --model=microsoft/DialoGPT-large \
      --input=data/clidsum/XSAMSum/train.json --output=marked/clidsum/XSAMSum/train.json

The marks follow from what a model that was trained on dialogues does not expect (Feng et al. 2021,
aclanthology.org/2021.acl-long.117); xlbench/data/marks.py has the rules. The model is any
GPT-2 or DialoGPT that xlbench.predict takes. A dialogue becomes one line:

  Anna : Hi , Ben ! | Ben : Hello | [TS] | Anna : [RD] Bye #KEY# Anna Ben Hi

The input is a JSON array or JSONL of objects, packed (.gz) or not; the dialogue is a text with a
line for each utterance ('Anna: Hi, Ben!'), or a list of turns. Everything else in an object stays
the same, and the name of the output, .json or .jsonl, decides its form. A summariser can therefore
be trained on the output as on the original: here with --config.data.root=marked, and in general as
a task of pipeline.register_summarisation_tasks.

The defaults are those for chats. For meetings the authors take --keywords=0.04 --redundancy=0.95
--topics=0.05. --official also repeats a mistake of their code: if the share of a short dialogue is
less than one word, all its words become keywords.

The output appears when it is whole. Until then, OUTPUT.part has the finished dialogues, and the
same command continues from there.
"""

import argparse
import contextlib
import gzip
import hashlib
import itertools
import json
import os
from collections.abc import Iterator, Sequence
from typing import IO

from xlbench.commands import BATCH_SIZE
from xlbench.data.marks import KINDS, Settings
from xlbench.system import errors, files, locks
from xlbench.system.command_line import CommandLine, flag
from xlbench.system.errors import UserError
from xlbench.system.files import Json
from xlbench.system.progress import Progress


def main(argv: Sequence[str]) -> None:
    """The command line, the program's name first."""
    args = CommandLine('data mark', __doc__, FLAGS).parse(argv[1:])
    files.check_new(args.output)
    with locks.file(args.output):
        files.check_new(args.output)  # Another process may have written it since.
        count = _mark(args)
    print(f'wrote {args.output}: {count:,} dialogues', flush=True)


def _mark(args: argparse.Namespace) -> int:
    """Marks what is not marked yet, and writes the output; returns how many dialogues there are."""
    # These load for a second; a slip need not wait.
    from xlbench.inference.dialogue_annotator import DialogueAnnotator
    from xlbench.inference.language_model import LanguageModel
    from xlbench.inference.loading import load

    settings = Settings(
        keywords=args.keywords,
        redundancy=args.redundancy,
        topics=args.topics,
        official=args.official,
    )
    total = sum(1 for _ in _objects(args))  # And whatever is wrong with the file is said now.
    if not total:
        raise UserError(f'{args.input} has no dialogues')
    model = load(args.model, batch_size=args.batch_size, dtype=args.dtype)
    if not isinstance(model, LanguageModel):
        raise UserError(
            f'--model={args.model} has an encoder, or writes no texts; name a GPT-2, such as '
            'microsoft/DialoGPT-large'
        )
    annotator = DialogueAnnotator(model, settings, args.marks)
    part = f'{args.output}.part'
    made_by = _digest(args, model.digest)
    done = _done(part, made_by)
    with Progress('marked', total, 'dialogues') as progress, open(part, 'ab') as file:
        if not done:
            file.truncate(0)
            _append(file, made_by)
            done = 1
        progress.skip(done - 1)
        rest, again = itertools.tee(itertools.islice(_objects(args), done - 1, None))
        marked = annotator.annotate(value[args.field] for value in again)
        for value, text in zip(rest, marked, strict=True):
            _append(file, value | {args.field: text})
            progress.add()
        os.fsync(file.fileno())
    _write(args.output, part)
    with contextlib.suppress(OSError):  # The output is whole.
        os.remove(part)
    return total


def _append(file: IO[bytes], value: Json) -> None:
    file.write(json.dumps(value, ensure_ascii=False).encode() + b'\n')
    file.flush()


def _digest(args: argparse.Namespace, model: str) -> str:
    """A text that differs where the marks of a dialogue may."""
    from xlbench.data import outputs

    asked = [getattr(args, name) for name in ('field', 'speaker', 'text', 'keywords', 'redundancy')]
    asked += [args.topics, args.official, args.dtype, sorted(args.marks), 'objects']
    whole = json.dumps([model, outputs.sha256(args.input), asked])
    return hashlib.sha256(whole.encode()).hexdigest()


def _done(part: str, made_by: str) -> int:
    """How many whole lines there are of the same job, its name included; cuts what follows them."""
    if not os.path.isfile(part):
        return 0
    count = end = 0
    with open(part, 'rb+') as file:
        for line in file:
            if not line.endswith(b'\n'):
                break
            if not count and line != f'{json.dumps(made_by)}\n'.encode():
                return 0
            count, end = count + 1, end + len(line)
        file.truncate(end)
    return count


def _objects(args: argparse.Namespace) -> Iterator[dict[str, Json]]:
    """The objects of the input with their dialogues as texts; UserError for what is none."""
    from xlbench.data import readers, rows

    array = args.input.removesuffix('.gz').endswith('.json')
    items = (readers.json_items if array else readers.json_lines)(args.input)
    for number, value in readers.good(items):
        try:
            if not isinstance(value, dict):
                raise ValueError(f'{readers.kind_of(value)}, not an object')
            readers.check_keys(value, (args.field,))
            text = rows.dialogue(value[args.field], args.field, args.speaker, args.text)
        except ValueError as error:
            raise UserError(f'{args.input}: object {number}: {error}') from None
        yield value | {args.field: text}


def _write(output: str, part: str) -> None:
    """Writes the objects of `part` in the form of the output."""
    array = output.removesuffix('.gz').endswith('.json')
    before, between, after = (b'[\n', b',\n', b'\n]\n') if array else (b'', b'\n', b'\n')
    with open(part, 'rb') as lines, files.replacing(output) as file:
        next(lines)  # What made them.
        packed = gzip.GzipFile('', 'wb', fileobj=file, mtime=0) if output.endswith('.gz') else file
        for number, line in enumerate(lines):
            packed.write((between if number else before) + line.removesuffix(b'\n'))
        packed.write(after)
        if packed is not file:
            packed.close()


def _marks(text: str) -> tuple[str, ...]:
    chosen = tuple(filter(None, text.split(',')))
    for name in chosen:
        if name not in KINDS:
            raise errors.unknown('kind of marks in --marks', name, KINDS)
    return chosen


FLAGS = (
    flag('--model', 'workdir, folder or hub name', required=True),
    flag('--input', 'JSON array or JSONL', required=True),
    flag('--output', 'a file that does not exist yet', required=True),
    flag('--field', 'key of the dialogue', 'dialogue'),
    flag('--speaker', 'key of a turn that is an object', 'speaker'),
    flag('--text', 'key of its text', 'text'),
    flag('--marks', 'which of keywords,redundancy,topics; all', KINDS, type=_marks),
    flag('--keywords', 'share of the words', 0.15),
    flag('--redundancy', 'least cosine', 0.99),
    flag('--topics', 'share of the utterances', 0.15),
    flag('--official', 'see above', False),
    flag('--batch_size', 'texts at a time', BATCH_SIZE),
    flag('--dtype', 'type of activations', '', choices=('', 'float32', 'bfloat16')),
)
