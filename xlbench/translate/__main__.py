r"""Translates files of texts with any engine, each text once; or runs a chain of models.

  python -m xlbench.translate --engine=apertium --source_lang=en --target_lang=es \
      --input=english.txt --output=spanish.txt
  python -m xlbench.translate --engine=Helsinki-NLP/opus-mt-en-de --source_lang=en \
      --target_lang=de --input=train.jsonl --field=inputs,targets --output=train.de.jsonl

An engine is `apertium` (apt-get install apertium apertium-eng-spa ...), a program of yours that
reads and writes lines ('command:my_engine --from={source} --to={target}'), the address of a server
with LibreTranslate's interface (http://localhost:5000; XLBENCH_TRANSLATE_KEY is its key), a file of
translations that were made elsewhere (file:PATH, TSV of text and translation, or JSONL with
`source` and `translation`), or a model as xlbench.predict takes it, with the flags of decoding.

The input has one text on each line, or is JSONL, a JSON array of objects (which becomes JSONL), or
TSV. --field names the fields to translate: keys of objects, or numbers of columns from 1. Other
fields are kept; of objects, --keep can select some of them. A pattern (--input='train/en/*.tsv')
reads several files one after another. Names that end in .gz are packed. --input_task in place of
--input translates the `inputs` of the examples of that task and --split: the output is JSONL with
id, inputs and targets, a corpus to train on.

--unit=turn translates a dialogue turn by turn: each line of a text is translated by itself, and the
name at its beginning is kept. This is the default for the examples of a task; otherwise a text is
translated as a whole (--unit=text).

--workers=N has N processes that translate batches, each with an engine of its own; with --beam they
are workers of Apache Beam. The output stays the same.

Translations are cached by text and engine (--cache, by default DATA/translations), so that no
command translates a text twice, and a killed command continues where it was. The file
OUTPUT.about.json (in place of OUTPUT's own ending) says how OUTPUT was made, and which texts were
not translated, and why. Such texts become empty, or with --failed=drop their records are left out;
in both cases the exit code is 1.

`chain` runs and scores a chain of models, such as a summariser and a translator, or generation in
English that is followed by translation (arXiv:2108.07140, Figure 6):

  python -m xlbench.translate chain RUNS/summariser translate:RUNS/translator \
      --task=clidsum_xsamsum_en_de --workdir=RUNS/sum_trans
"""

import argparse
import contextlib
import itertools
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from xlbench import config as config_lib
from xlbench.prepare import stages
from xlbench.settings import decoding
from xlbench.system import errors, files, locks
from xlbench.system.command_line import (
    CACHE,
    TASK_DATA,
    CommandLine,
    chosen_root,
    engine_flags,
    flag,
    say,
    words,
)
from xlbench.system.errors import UserError
from xlbench.system.progress import Progress
from xlbench.translate import engines, jobs as translation_jobs
from xlbench.translate.jobs import Job

if TYPE_CHECKING:  # It loads for a second, which a slip need not wait for.
    from xlbench.translate.records import Failed, Form, Record


FLAGS = (
    engine_flags(required=True),
    flag('--source_lang', 'ISO code of the texts', required=True),
    flag('--target_lang', 'ISO code of the translations', required=True),
    flag('--input', 'file, or pattern of files', ''),
    flag('--input_task', 'task whose examples are translated', ''),
    flag('--output', 'new file', required=True),
    flag('--field', 'keys, or numbers of TSV columns, to translate', (), type=words),
    flag('--keep', 'other keys of objects to write', (), type=words),
    flag('--lower', 'lower-case texts first', False),
    flag('--format', "default: by the input's name", choices=('text', 'jsonl', 'json', 'tsv')),
    flag('--unit', 'translate texts or turns', choices=('text', 'turn')),
    CACHE,
    stages.FLAGS,
    flag(
        '--failed', 'a text without translation is empty, or its record dropped', 'empty',
        choices=('empty', 'drop'),
    ),
    flag('--split', 'split of the task', 'test'),
    TASK_DATA,
    flag('--num_examples', 'most examples of a task; 0: all', 0),
    decoding.FLAGS,
)  # fmt: skip
COMMAND = CommandLine('translate', __doc__, FLAGS, {'chain': 'xlbench.translate.chain_command'})


def main(argv: Sequence[str]) -> int:
    """The command line, the program's name first; 1 if a text was not translated."""
    if argv[1:2] == ['chain']:
        return COMMAND.main(argv)
    args = stages.parse(COMMAND, argv[1:])
    _check(args)
    from xlbench.translate import records  # It loads for a second; a slip need not wait.

    form, texts, hashes = _examples(args) if not args.input else _files(args)
    # With several workers, each of them opens the engine; this process only asks about it.
    runner = stages.of_flags(args, args.cache, 1) if args.beam or (args.workers or 1) > 1 else None
    pair = args.source_lang, args.target_lang
    engines.check_languages(*pair)
    template = translation_jobs.template_of(args, [pair])
    workers = (runner, template.engine) if runner else None
    job = Job(template.engine(*pair), *pair, cache=args.cache, workers=workers)
    say(f'{job.identity}, kept in {args.cache}')
    failed = records.Failed()
    with locks.file(args.output), runner or contextlib.nullcontext():
        _check_free(args.output)
        files.remove_leftovers_of(_about_path(args.output))
        unit = args.unit or ('text' if args.input else 'turn')
        drop = args.failed == 'drop'
        lines = records.translated(form, texts, job, failed, unit=unit, drop=drop)
        counts = job.counts
        progress = Progress('translated', count=lambda: counts.kept + counts.made, unit='texts')
        with job.telling_of_cuts(say), progress, files.replacing(args.output) as file:
            count = 0
            with files.packing(file, args.output) as packed:
                for line in lines:
                    packed.write(f'{line}\n'.encode())
                    count += 1
            file.flush()  # Its hash is noted beside it.
            about = _about(args, hashes, job, failed, file.name)
            about |= {'unit': unit, 'records': count}
            # Before the output is there, which a killed command would leave without it.
            files.write(_about_path(args.output), json.dumps(about, indent=1, ensure_ascii=False))
    done = f'{counts.kept:,} from the cache, {counts.made:,} translated'
    done += f', {counts.failed:,} failed' if counts.failed else ''
    say(f'{counts.texts:,} texts: {done}; wrote {args.output} and {_about_path(args.output)}')
    for place, text, reason in failed.first[:3]:
        say(f'{place}: not translated: {errors.shortened(text)}: {reason}')
    if failed.count:
        say(
            f'not translated: {failed.count:,} of {counts.texts:,} texts; remove {args.output} '
            'and repeat the command to try them again'
        )
        return 1
    return 0


def _check(args: argparse.Namespace) -> None:
    """Raises UserError for flags that contradict each other, and fills in the defaults."""
    args.cache = args.cache or os.path.join(chosen_root(args.root), 'translations')
    if bool(args.input) == bool(args.input_task):
        raise UserError('name what is translated: --input=FILE, or a task with --input_task')
    if not args.input and (args.field or args.format or args.keep or args.lower):
        raise UserError(
            '--field, --format, --keep and --lower are for files; of a task the inputs are '
            'translated'
        )
    for name in ('like', 'vocabulary', 'num_examples'):
        if getattr(args, name) and args.input:
            raise UserError(f'--{name} is for the examples of a task; name it with --input_task')
    _check_free(args.output)


def _check_free(output: str) -> None:
    files.check_new(output)
    files.check_own(_about_path(output), 'a note of xlbench.translate', heads=['{\n "engine": '])


def _about_path(output: str) -> str:
    return f'{os.path.splitext(output.removesuffix(".gz"))[0]}.about.json'


def _files(args: argparse.Namespace) -> tuple['Form', Iterator['Record'], dict[str, str]]:
    """The records of --input, their form, and the hash of each file."""
    from xlbench.data import outputs, readers
    from xlbench.translate import records

    name = args.format or records.format_of(args.input)
    form = records.Form(name, args.field, keep=args.keep, lower=args.lower)
    paths = readers.find(args.input)
    if not paths:
        raise UserError(f'there is no file {args.input}')
    texts = itertools.chain.from_iterable(map(form.read, paths))
    return form, texts, {path: outputs.sha256(path) for path in paths}


def _examples(args: argparse.Namespace) -> tuple['Form', Iterator['Record'], dict[str, str]]:
    """The examples of --input_task as records, their form, and the hash of what was prepared."""
    from xlbench.data import outputs
    from xlbench.translate import records

    task = config_lib.open_task(
        args.input_task, args.split, like=args.like, root=args.root, vocabulary=args.vocabulary
    )
    examples = outputs.prepared_references(task).first(args.num_examples)
    texts = records.of_examples(examples, outputs.unmarked(task, examples.inputs))
    return records.Form('jsonl', ['inputs']), texts, {examples.name: task.sha256}


def _about(
    args: argparse.Namespace, hashes: Mapping[str, str], job: Job, failed: 'Failed', output: str
) -> dict[str, object]:
    """Returns what made the output, which is in a file that does not have its name yet."""
    from xlbench.data import outputs

    names = ('place', 'text', 'reason')
    return {
        'engine': args.engine,
        'identity': job.identity,
        'source_lang': args.source_lang,
        'target_lang': args.target_lang,
        'inputs': dict(hashes),
        'sha256': outputs.sha256(output),
        'fields': ','.join(args.field),
        'texts': job.counts.texts,
        'translated_before': job.counts.kept,
        'translated_now': job.counts.made,
        'failed': failed.count,
        'failures': [dict(zip(names, row, strict=True)) for row in failed.first],
        **config_lib.facts(),
    }


if __name__ == '__main__':
    sys.exit(errors.run_main(main, sys.argv))
