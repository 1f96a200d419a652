r"""Segments dialogues into topics and stages, the two views of MV-BART.

  python -m xlbench.data segment data/clidsum/XSAMSum/*.json
  python -m xlbench.data segment data/clidsum/XSAMSum/*.json --encoder=sentence-transformers/NAME

Each file of dialogues (JSON, JSONL, CSV, ...; --dialogue names the key) gets a file of views beside
it, train.views.jsonl for train.json, with the topic and the stage of each utterance (each line of
a dialogue). Topics are cut by C99, stages by a hidden Markov model that is fitted to all files
together (arXiv:2010.01672), so give all splits at once.

Both use a vector of each utterance. By default it has the weights of its words (TF-IDF), without a
model. --encoder=NAME takes the vectors of an encoder: the workdir of a retrieval run, or a BERT,
RoBERTa or XLM-R as a Hugging Face folder or hub name, such as the authors'
sentence-transformers/bert-base-nli-stsb-mean-tokens. The vectors stay beside each file of dialogues
(train.vectors.npz), so that a killed command continues after the last finished file; you may remove
them afterwards.

--topics=official cuts like the authors' code, in which each short dialogue shrinks the window for
good; by default every dialogue has the whole window.
"""

import argparse
import hashlib
import itertools
import os
import zipfile
import zlib
from collections.abc import Sequence

import numpy as np

from xlbench.data import rows, segments
from xlbench.system import files, locks
from xlbench.system.command_line import CommandLine, flag
from xlbench.system.errors import UserError

WORDS = 'words'
FLAGS = (
    flag('files', 'files of dialogues', nargs='+'),
    flag('--encoder', 'run, folder or hub name that gives the vectors', WORDS),
    flag('--topics', 'the window of C99', 'fresh', choices=('fresh', 'official')),
    flag('--dialogue', 'key of the dialogue', 'dialogue'),
    flag('--speaker', 'key of a turn that is an object', 'speaker'),
    flag('--text', 'key of its text', 'text'),
    flag('--batch_size', 'utterances that an encoder reads at once', 64),
)


def main(argv: Sequence[str]) -> int:
    """Runs the command line, the program's name first."""
    args = CommandLine('data segment', __doc__, FLAGS).parse(argv[1:])
    targets = [segments.views_path(path) for path in args.files]
    for target in targets:
        if targets.count(target) > 1:
            raise UserError(f'two of the files would have their views in {target}')
        files.check_own(target, 'a file of xlbench.data segment', heads=['{"topics": '])
    corpora = []
    for path in args.files:
        read = rows.dialogues(path, args.dialogue, args.speaker, args.text)
        corpora.append([segments.utterances(text) for _, text in read])
        if not corpora[-1]:
            raise UserError(f'{path} has no dialogues')
    if args.encoder == WORDS:
        flat = segments.word_vectors([dialogue for corpus in corpora for dialogue in corpus])
    else:
        flat = _encoded(args, corpora)
    rest = iter(flat)
    splits = [list(itertools.islice(rest, len(corpus))) for corpus in corpora]
    views = segments.views_of(splits, official_window=args.topics == 'official')
    for target, part in zip(targets, views, strict=True):
        with locks.file(target):
            segments.write_views(target, part)
        counts = [[len(set(labels)) for labels in one] for one in part]  # [dialogues, kinds]
        means = '{:.1f} topics and {:.1f} stages on average'.format(*np.mean(counts, axis=0))
        print(f'{target}: {len(part):,} dialogues; {means}', flush=True)
    return 0


def _encoded(
    args: argparse.Namespace, corpora: Sequence[Sequence[Sequence[str]]]
) -> list[np.ndarray]:
    """Encodes each dialogue of all files; the vectors of a file are kept beside it."""
    from xlbench.inference.loading import SentenceEncoder  # jax takes a second to load.

    encoder = SentenceEncoder(args.encoder, args.batch_size)
    vectors: list[np.ndarray] = []
    for path, dialogues in zip(args.files, corpora, strict=True):
        texts = [text for dialogue in dialogues for text in dialogue]
        digest = hashlib.sha256('\n'.join([encoder.digest, *texts]).encode()).hexdigest()
        kept = segments.views_path(path).replace('.views.jsonl', '.vectors.npz')
        with locks.file(kept):
            array = read_vectors(kept, digest)
            if array is None:
                array = encoder(texts)
                with files.replacing(kept) as file:
                    np.savez(file, vectors=array, digest=np.array(digest))
            else:
                print(f'{kept} is up to date', flush=True)
        ends = np.cumsum([len(dialogue) for dialogue in dialogues])[:-1]
        vectors += np.split(array, ends)
    return vectors


def read_vectors(path: str, digest: str) -> np.ndarray | None:
    """Reads the vectors of a file; None if it has none of these texts."""
    if not os.path.isfile(path):
        return None
    try:
        with np.load(path, allow_pickle=False) as stored:
            return stored['vectors'] if str(stored['digest']) == digest else None
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error):
        return None
