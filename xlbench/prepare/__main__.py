r"""Tokenises tasks for training, once, and writes them to disk.

  python -m xlbench.prepare --sample --mixture=mtg_multi_qg
  python -m xlbench.prepare --mixture=mtg_cross_qg_en,mtg_qg_en_en --split=train,validation \
      --root=/data --vocabulary=mt5

Data that is up to date is not prepared again, so the same command continues after an interruption.
A record that cannot be used stops it with `file:line: reason`. If another process is preparing the
same data, the command waits for it and uses the result, so that any number of runs may start at
once on the same data.
"""

import argparse
import functools
import importlib
import os
import sys
from collections.abc import Collection, Sequence
from typing import Any

from xlbench import config as config_lib
from xlbench.data import prepared, tokenizers
from xlbench.prepare import stages
from xlbench.system import errors, machine
from xlbench.system.command_line import CommandLine, flag

SAMPLES = ('mtg', 'mrs', 'labels', 'clidsum', 'translation')  # Modules of tasks/samples.


def make_sample(root: str, samples: Sequence[str] = SAMPLES) -> None:
    """Writes sample corpora and their vocabularies into a data root, unless they are there."""
    modules = [importlib.import_module(f'xlbench.tasks.samples.{name}') for name in samples]
    written = [module.write(root) for module in modules]
    if any(written):
        print(f'wrote the sample corpora into {root}', flush=True)


def _samples_of(names: Collection[str], vocabulary: str) -> list[str]:
    """The sample corpora that are read and that a vocabulary is of; all where nobody knows."""
    if not names:  # All take twenty seconds to make, and most runs read one of them.
        return [*SAMPLES]
    words = {name.partition('_')[0] for name in names}
    if vocabulary in tokenizers.SAMPLE_FILES:
        words.add(vocabulary.partition('_')[2] or 'mtg')
    read = {'labels' if word == 'fewshot' else word for word in words}
    return [name for name in SAMPLES if name in read] if read <= set(SAMPLES) else [*SAMPLES]


FLAGS = (
    flag(
        '--mixture',
        'mixtures or tasks, with commas; NAME:SPLIT takes one split, NAME:SPLIT? skips tasks '
        'without it', metavar='NAMES',
    ),
    flag(
        '--split', 'splits, with commas (default: train,validation)', 'train,validation',
        metavar='NAMES',
    ),
    flag(
        '--root', 'data root (default: XLBENCH_DATA, else data; with --sample data/sample)',
        metavar='FOLDER',
    ),
    flag(
        '--vocabulary',
        'sample, sample_mrs, sample_fewshot, sample_clidsum, sample_translation, bytes, a '
        'SentencePiece .model, a folder with the vocabulary files of a model, or a name such as '
        'mt5 or google/mt5-base (default: sample)', metavar='NAME',
    ),
    flag('--sample', 'write the sample corpora first, if they are missing', False),
    flag(
        '--skip_bad',
        'skip at most N bad records in this run, and list them (default: 0, the first stops)', 0,
        metavar='N',
    ),
    flag(
        '--new_vocabulary',
        'train a SentencePiece vocabulary on the texts of the tasks; prepare nothing',
        metavar='FILE.model',
    ),
    flag(
        '--texts', 'tasks to train --new_vocabulary on; --mixture is then prepared with it',
        metavar='NAMES',
    ),
    flag('--if_missing', 'keep the file of --new_vocabulary if it exists', False),
    flag('--vocabulary_size', 'its size (default: 8000)', 8000, metavar='N'),
    flag('--vocabulary_type', 'its type (default: unigram)', 'unigram', choices=('unigram', 'bpe')),
    stages.FLAGS,
    flag('--force', 'also prepare data that is up to date', False),
    flag(
        '--tasks', 'your own task file, or a folder of them (default: XLBENCH_TASKS, else ./tasks)',
        metavar='PLACE',
    ),
)  # fmt: skip


def _check_texts(flags: argparse.Namespace) -> None:
    if not flags.texts:
        return
    if not (flags.new_vocabulary and flags.mixture):
        raise errors.UserError(
            '--texts goes with --new_vocabulary and --mixture, which is prepared; to train a '
            'vocabulary alone, name its tasks in --mixture'
        )
    if flags.vocabulary and os.path.expanduser(flags.vocabulary) != flags.new_vocabulary:
        raise errors.UserError(
            f'--vocabulary is {flags.vocabulary!r}, but --mixture is prepared with the '
            f'--new_vocabulary {flags.new_vocabulary!r}; leave --vocabulary out'
        )


def main(argv: Sequence[str]) -> int:
    """Runs the command; `argv[0]` is the program."""
    flags = stages.parse(CommandLine('prepare', __doc__, FLAGS), argv[1:])
    if flags.beam and flags.new_vocabulary:
        raise errors.UserError('--beam goes without --new_vocabulary; train that first')
    if reason := machine.too_little():
        raise errors.UserError(reason)
    root = flags.root or ('data/sample' if flags.sample else os.environ.get('XLBENCH_DATA', 'data'))
    # This process only reads text; the accelerator may be in use by the one that trains.
    os.environ['CUDA_VISIBLE_DEVICES'] = '-1'
    if flags.tasks:
        os.environ['XLBENCH_TASKS'] = flags.tasks
    _check_texts(flags)
    if flags.vocabulary is None:
        flags.vocabulary = flags.new_vocabulary if flags.texts else 'sample'
    named = f'{flags.mixture or ""},{flags.texts or ""}'.split(',')
    mentioned = [name.partition(':')[0] for name in named if name]
    for name in mentioned:
        config_lib.check_task(name, 'task or mixture', root, flags.vocabulary)
    if flags.mixture and not flags.new_vocabulary:
        tokenizers.check_name(flags.vocabulary)
    try:
        if flags.sample:
            make_sample(root, samples=_samples_of(mentioned, flags.vocabulary))
            if not flags.mixture:
                return 0
        from xlbench.prepare import distributed, mixtures  # They load for a second.

        if flags.new_vocabulary:
            names = flags.texts or flags.mixture or ''
            mixtures.make_vocabulary(
                names, flags.split, flags.new_vocabulary, root=root, size=flags.vocabulary_size,
                model_type=flags.vocabulary_type, if_missing=flags.if_missing,
            )  # fmt: skip
            if not flags.texts:
                return 0
        chosen: dict[str, Any] = {'root': root, 'vocabulary': flags.vocabulary}
        chosen |= {'skip_bad': flags.skip_bad, 'force': flags.force}
        if flags.beam:
            scratch = os.path.join(root, 'prepared', prepared.vocabulary_folder(flags.vocabulary))
            engine = stages.of_flags(flags, scratch, 1)
            chosen['elsewhere'] = functools.partial(distributed.run, **chosen, engine=engine)
        mixtures.prepare(flags.mixture or '', flags.split, workers=flags.workers, **chosen)
    except KeyboardInterrupt:
        line = 'stopped by Ctrl-C; finished data stays, and the same command continues'
        print(f'error: {line}', file=sys.stderr)
        return 130
    return 0


if __name__ == '__main__':
    sys.exit(errors.run_main(main, sys.argv))
