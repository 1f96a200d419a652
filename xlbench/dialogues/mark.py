r"""Annotates dialogues for BART(D_ALL): keywords, redundant utterances, topics.

  python -m xlbench.data mark --model=microsoft/DialoGPT-large \
      --input=data/clidsum/XSAMSum/train.json --output=marked/clidsum/XSAMSum/train.json

The marks come from the losses and states of a model for dialogues (Feng et al. 2021,
aclanthology.org/2021.acl-long.117): any GPT-2 or DialoGPT that xlbench.predict takes.
xlbench/data/marks.py has the rules. A dialogue becomes one line:

  Anna : Hi , Ben ! | Ben : Hello | [TS] | Anna : [RD] Bye #KEY# Anna Ben Hi

The input is a JSON array, JSONL or a table, packed (.gz) or not; the dialogue is a text with a line
for each utterance ('Anna: Hi, Ben!'), or a list of turns. All else in an object stays, and the name
of the output, .json or .jsonl, decides its form. A summariser is trained on the output as on the
original: here with --config.data.root=marked, and in general as a task of
pipeline.register_summarisation_tasks.

The defaults are those for chats. For meetings the authors take --keywords=0.04 --redundancy=0.95
--topics=0.05. --official also repeats a mistake of their code: if the share of a short dialogue is
less than one word, all its words become keywords.

The output appears when it is complete. Until then, OUTPUT.part has the finished dialogues, and the
same command continues from there.
"""

import argparse
import contextlib
import dataclasses
import hashlib
import itertools
import json
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import IO, TYPE_CHECKING

import numpy as np

from xlbench.config.commands import BATCH_SIZE
from xlbench.data import marks, readers, rows
from xlbench.data.marks import KINDS, Settings
from xlbench.system import errors, files, locks
from xlbench.system.command_line import CommandLine, flag, words
from xlbench.system.errors import UserError
from xlbench.system.files import Json
from xlbench.system.progress import Progress

if TYPE_CHECKING:
    from xlbench.inference.generator import LanguageModel

_CHUNK = 32  # Dialogues that are sorted by length together.


def main(argv: Sequence[str]) -> None:
    """Runs the command line, the program's name first."""
    args = CommandLine('data mark', __doc__, FLAGS).parse(argv[1:])
    files.check_new(args.output)
    with locks.file(args.output):
        files.check_new(args.output)  # Another process may have written it since.
        count = _mark(args)
    print(f'wrote {args.output}: {count:,} dialogues', flush=True)


def _mark(args: argparse.Namespace) -> int:
    """Marks the remaining dialogues and writes the output; returns the number of all dialogues."""
    # These load for a second; a slip need not wait.
    from xlbench.inference.generator import LanguageModel
    from xlbench.inference.loading import load

    thresholds = ('keywords', 'redundancy', 'topics', 'official')
    settings = Settings(**{name: getattr(args, name) for name in thresholds})
    total = sum(1 for _ in _objects(args))  # A fault of the file ends the command now.
    if not total:
        raise UserError(f'{args.input} has no dialogues')
    model = load(args.model, batch_size=args.batch_size, dtype=args.dtype)
    if not isinstance(model, LanguageModel):
        raise UserError(
            f'--model={args.model} has an encoder, or writes no texts; name a GPT-2, such as '
            'microsoft/DialoGPT-large'
        )
    part = f'{args.output}.part'
    with Progress('marked', total, 'dialogues') as progress, open(part, 'ab+') as file:
        done = _begun(file, _digest(args, model.digest))
        progress.skip(done)
        rest, again = itertools.tee(itertools.islice(_objects(args), done, None))
        marked = annotate(model, (dialogue for _, dialogue in again), settings, args.marks)
        for (value, _), text in zip(rest, marked, strict=True):
            line = json.dumps({**value, args.field: text}, ensure_ascii=False)
            file.write(f'{line}\n'.encode())
            file.flush()
            progress.add()
        os.fsync(file.fileno())
    _write(args.output, part)
    with contextlib.suppress(OSError):  # The output is whole.
        os.remove(part)
    return total


def annotate(
    reader: 'LanguageModel', dialogues: Iterable[str], settings: Settings, kinds: Collection[str]
) -> Iterator[str]:
    """Each dialogue, a line an utterance such as 'Anna: Hi!', on one line with its marks.

    An utterance is read with the one before it: its losses are of its tokens given that one and an
    end of text, without names of speakers. Its state, at the end of text behind it, is of the
    whole dialogue; of one that is longer than the model's positions, of the part of whole
    utterances that it is in.
    """
    remaining = iter(dialogues)
    while chunk := list(itertools.islice(remaining, _CHUNK)):
        read = [marks.utterances_of(dialogue) for dialogue in chunk]
        # The ids of each word, as they are behind the colon after a name.
        pieces = [[_ids(reader, u.words) for u in utterances] for utterances in read]
        losses = iter(_losses(reader, pieces))
        states: Sequence[np.ndarray | None] = [None] * len(chunk)
        if 'redundancy' in kinds:
            states = _states(reader, pieces)
        for utterances, of_dialogue, vectors in zip(read, pieces, states, strict=True):
            scored = utterances[:1]
            for utterance, ids in zip(utterances[1:], of_dialogue[1:], strict=True):
                of_words = marks.word_losses(next(losses).tolist(), [*map(len, ids)])
                scored.append(dataclasses.replace(utterance, losses=of_words))
            cosines = [] if vectors is None else marks.similarities(vectors)
            yield marks.marked_text(
                scored,
                marks.keywords(scored, settings) if 'keywords' in kinds else None,
                marks.topic_starts(scored, settings) if 'topics' in kinds else (),
                marks.redundant(cosines, settings),
            )


def _ids(reader: 'LanguageModel', spoken: Sequence[str]) -> list[np.ndarray]:
    return reader.tokenizer.encode_batch([f' {word}' for word in spoken]) if spoken else []


def _losses(
    reader: 'LanguageModel', pieces: Sequence[Sequence[Sequence[np.ndarray]]]
) -> list[np.ndarray]:
    """The loss of each piece of every utterance but the first of a dialogue, in order."""
    room, end = min(reader.max_input_length, reader.max_positions // 2), reader.tokenizer.eos_id
    examples = [
        {'inputs': np.append(before[-(room - 1) :], end), 'targets': reply[:room]}
        for dialogue in pieces
        for before, reply in itertools.pairwise(map(_joined, dialogue))
    ]
    scored = iter(reader.losses_of_ids([one for one in examples if one['targets'].size]))
    return [next(scored) if one['targets'].size else np.zeros(0) for one in examples]


def _states(
    reader: 'LanguageModel', pieces: Sequence[Sequence[Sequence[np.ndarray]]]
) -> list[np.ndarray]:
    """The state at the end of each utterance, [utterances, features] of each dialogue."""
    parts: list[tuple[int, list[np.ndarray]]] = []  # (number of its dialogue, utterances)
    for number, dialogue in enumerate(pieces):
        used = reader.max_positions  # Each part is within them; a longer utterance keeps its end.
        for utterance in dialogue:
            ids = np.append(_joined(utterance), reader.tokenizer.eos_id)[-reader.max_positions :]
            used += len(ids)
            if used > reader.max_positions:
                parts.append((number, []))
                used = len(ids)
            parts[-1][1].append(ids)
    texts = [np.concatenate(part) for _, part in parts]
    ends = [np.cumsum([len(utterance) for utterance in part]) - 1 for _, part in parts]
    states: list[list[np.ndarray]] = [[] for _ in pieces]
    for (number, _), of_part in zip(parts, reader.states_of_ids(texts, ends), strict=True):
        states[number].append(of_part)
    return [np.concatenate(of) if of else np.zeros((0, 1)) for of in states]


def _joined(pieces: Sequence[np.ndarray]) -> np.ndarray:
    return np.concatenate([np.zeros(0, np.int32), *pieces])


def _digest(args: argparse.Namespace, model: str) -> str:
    """Hashes all that the marks depend on."""
    asked = [getattr(args, name) for name in ('field', 'speaker', 'text', 'keywords', 'redundancy')]
    asked += [args.topics, args.official, args.dtype, sorted(args.marks), 'objects']
    whole = json.dumps([model, readers.sha256(args.input), asked])
    return hashlib.sha256(whole.encode()).hexdigest()


def _begun(file: IO[bytes], made_by: str) -> int:
    """Keeps the whole lines of the same job, whose first one is its name; counts the dialogues."""
    count, end, name = -1, 0, f'{json.dumps(made_by)}\n'.encode()
    file.seek(0)
    for line in file:
        if not line.endswith(b'\n') or (not end and line != name):
            break
        count, end = count + 1, end + len(line)
    file.truncate(end)
    if not end:
        file.write(name)
    return max(count, 0)


def _objects(args: argparse.Namespace) -> Iterator[tuple[Mapping[str, Json], str]]:
    return rows.dialogues(args.input, args.field, args.speaker, args.text)


def _write(output: str, part: str) -> None:
    """Writes the objects of `part` in the format of the output."""
    array = output.removesuffix('.gz').endswith('.json')
    before, between, after = (b'[\n', b',\n', b'\n]\n') if array else (b'', b'\n', b'\n')
    with open(part, 'rb') as lines, files.replacing(output) as file:
        next(lines)  # The job's name.
        with files.packing(file, output) as packed:
            for number, line in enumerate(lines):
                packed.write((between if number else before) + line.removesuffix(b'\n'))
            packed.write(after)


def _marks(text: str) -> tuple[str, ...]:
    chosen = words(text)
    for name in chosen:
        errors.check_known('kind of marks in --marks', name, KINDS)
    return chosen


FLAGS = (
    flag('--model', 'workdir, folder or hub name', required=True),
    flag('--input', 'file of dialogues', required=True),
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
