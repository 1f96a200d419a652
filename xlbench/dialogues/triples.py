r"""Extracts (subject, relation, object) triples with a tagger.

  python -m xlbench.data triples data/clidsum/XSAMSum/train.json --tagger=RUNS/pos
  python -m xlbench.data triples data/clidsum/MediaSum424k/news_dialogue.json --tagger=RUNS/pos

The tagger is a run or an exported folder that gives universal part-of-speech tags (UPOS), such as
configs/fewshot_source.py trains on Universal Dependencies. The triples are written beside a file,
train.triples.tsv beside train.json, in the format of CoreNLP's OpenIE (-format reverb), whose own
files tasks read, too. This extractor is simpler than OpenIE: xlbench/data/actions.py has its rules,
and the first column of each line names it and the tagger.

A file is a JSON array of objects, JSONL or a table. The key `dialogue` (--field) has a line for
each utterance, `Anna: Hi!`, or a list of turns; or there are lists `utt` and `speaker`, as in
MediaSum.
"""

import argparse
import itertools
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from xlbench import config as config_lib
from xlbench.data import actions, rows
from xlbench.system import files, locks, progress
from xlbench.system.command_line import CommandLine, flag
from xlbench.system.errors import UserError

if TYPE_CHECKING:
    from xlbench.inference.labeller import Tagger

_AT_ONCE = 4096  # Sentences.
_NEEDED = ('VERB', 'NOUN')
FLAGS = (
    flag('files', 'files of dialogues', nargs='+', metavar='FILE'),
    flag('--tagger', 'a run, or an exported folder', required=True, metavar='WORKDIR'),
    flag('--output', 'file of the triples (default: beside FILE)', ''),
    flag('--field', 'key of the dialogues', 'dialogue'),
    flag('--batch_size', 'sentences that the tagger reads at once', 32),
)


def main(argv: Sequence[str]) -> int:
    """Runs the command line, the program's name first."""
    flags = CommandLine('data triples', __doc__, FLAGS).parse(argv[1:])
    if flags.output and len(flags.files) > 1:
        raise UserError(f'--output={flags.output} is for one file; leave it out for several')
    for path in flags.files:
        if not os.path.isfile(path):
            raise UserError(f'there is no file {path}')
    stems = (path.removesuffix('.gz').removesuffix('.json') for path in flags.files)
    targets = [flags.output or f'{stem}.triples.tsv' for stem in stems]
    for target in targets:
        _check_own(target)
    config_lib.check_source(flags.tagger, '--tagger')
    from xlbench.inference import loading  # Behind all checks: it imports jax, which takes seconds.
    from xlbench.inference.labeller import Tagger

    tagger = loading.load(flags.tagger, batch_size=flags.batch_size)
    if not isinstance(tagger, Tagger):
        raise UserError(
            f'--tagger={flags.tagger} is not a tagger; train one with objective tagging'
        )
    if lacking := [tag for tag in _NEEDED if tag not in tagger.labels]:
        raise UserError(
            f'--tagger={flags.tagger} has no tag {", ".join(lacking)}; triples need the universal '
            'tags of parts of speech (UPOS), as of the task fewshot_udpos_en_en'
        )
    for path, target in zip(flags.files, targets, strict=True):
        with locks.file(target):
            _check_own(target)
            sentences, triples = _write(path, target, tagger, flags)
        print(f'{target}: {triples:,} triples of {sentences:,} sentences', flush=True)
    return 0


def _check_own(path: str) -> None:
    heads = (actions.BY_TAGGER, actions.OF_SAMPLE)
    files.check_own(path, 'a file of xlbench.data triples or of a sample', heads=heads)


def _write(path: str, target: str, tagger: 'Tagger', flags: argparse.Namespace) -> tuple[int, int]:
    """Writes the triples of a file; returns the numbers of its sentences and triples."""
    maker = f'{actions.BY_TAGGER}{flags.tagger}'
    count = written = 0
    with files.replacing(target) as file, progress.Progress('tagged', unit='sentences') as bar:
        sentences = _sentences(path, flags.field)
        while chunk := list(itertools.islice(sentences, _AT_ONCE)):
            tagged = tagger.tag([tokens for _, tokens in chunk])
            for number, ((speaker, tokens), answer) in enumerate(zip(chunk, tagged, strict=True)):
                for triple in actions.extract(tokens, answer.tags, speaker):
                    line = actions.line(maker, count + number, tokens, answer.tags, triple)
                    file.write(line.encode())
                    written += 1
            count += len(chunk)
            bar.add(len(chunk))
    return count, written


def _sentences(path: str, field: str) -> Iterator[tuple[str, list[str]]]:
    """Yields the speaker ('' if unknown) and the tokens of each sentence of a file's dialogues."""
    for _, dialogue in rows.dialogues(path, field, may_be_empty=True):
        for line in dialogue.splitlines():
            speaker, mark, text = line.partition(': ')
            speaker, text = (speaker.partition(',')[0], text) if mark else ('', line)  # ANN, HOST
            for tokens in actions.sentences(text):
                yield speaker, tokens
