r"""Builds MTG from English texts by round-trip translation (arXiv:2108.07140, 3.3).

  python -m xlbench.data mtg_build build --sg=ROCStories.csv --qg=train-v1.1.json \
      --qg_held_out=dev-v1.1.json --tg=articles.jsonl --languages=de,fr,es \
      --engine=Helsinki-NLP/opus-mt-{source}-{target} --output=DATA
  python -m xlbench.data mtg_build correct corrected-*.json --output=DATA

`build` reads English stories, questions and headlines: the CSV of ROCStories, the JSON of SQuAD
1.1, JSON lines with `article` (or `content`, as in ByteCup) and `title`, or rows of JSONL, JSON,
CSV, TSV or Parquet with the columns story and ending, passage, answer and question, article and
title.

Each text is translated into each language and back, by any engine of xlbench.translate: `apertium`,
a command, a server, file:PATH, or a model. {source} and {target} in its name stand for the codes of
the languages. --unit=sentence translates long texts sentence by sentence.

The overlap of a text is the share of its words and other signs that come back. An example is left
out if one of its texts has an overlap below --threshold in one of the languages. The command
prints how many examples stay at the thresholds of the paper's Table 6; what stays at others is in
rough_train.about.json. What stays is the split rough_train, parallel in all languages:

  DATA/mtg/qg/en/rough_train.src, .trg        and so on: the files that tasks/mtg.py reads
  DATA/mtg/qg/rough_train.about.json          inputs, engines, settings, counts, hashes

A random sample, of the sizes of train, validation and test together (--sizes), is translated as
well, and left for people to correct. It is taken from --qg_held_out, or, if that is not given, from
the originals, and no passage of it is in the rough data. DATA/mtg_build/qg/sheets/es/ has pages
for people, each with --per_sheet examples, which work offline in a browser and save files.

`correct` takes those files and writes the splits train, validation and test. An example counts when
it is corrected in every language; --spare has more of them corrected, in place of those that people
leave out. --uncorrected takes the machine's text where nobody has corrected it.

`python -m xlbench.data statistics TASK --root=DATA` counts the examples of each split, and measures
their texts, as Table 2 of the paper.

--benchmark=mtg2 makes the files of version 2 of the data, in DATA/mtg2: --summ has documents and
summaries (columns text and summary), and --languages any that the engine knows, such as zh.

The same command goes on after an interruption and gives the same files, whatever the number of
workers. With --beam the jobs run on Apache Beam, and what stands behind -- is for its runner. Files
on the way are in DATA/mtg_build; they hold each back-translation, too, and may be removed when all
is corrected. With --redo, another --ngram or --threshold translates nothing again.
"""

import argparse
import os
from collections.abc import Sequence

from xlbench.benchmarks import MTG, languages, mtg
from xlbench.data import outputs
from xlbench.judgement import corrections
from xlbench.prepare import stages
from xlbench.prepare.stages import Engine
from xlbench.settings import decoding
from xlbench.system import errors, files, locks
from xlbench.system.command_line import CommandLine, engine_flags, flag, say, share, whole
from xlbench.system.errors import UserError
from xlbench.tasks.building import builds
from xlbench.tasks.building.builds import ENGLISH, TRANSLATED, Options, Setting, Settings
from xlbench.tasks.mtg_build import correcting, originals, publishing
from xlbench.tasks.mtg_build.originals import KINDS
from xlbench.tasks.mtg_build.publishing import About
from xlbench.translate import jobs as translation_jobs

_READERS = {'read': (f'{TRANSLATED}*', 'rough', 'sheets'), TRANSLATED: ('rough', 'sheets')}
_SIZES = tuple(MTG.split_sizes['sg'][split] for split in correcting.SPLITS)


def main(argv: Sequence[str]) -> int:
    """The command line, the program's name first."""
    args = stages.parse(COMMAND, argv[1:])
    args.work = args.work or os.path.join(args.output, f'{args.benchmark}_build')
    return args.run(args)


def _build(args: argparse.Namespace) -> int:
    tasks = [task for task in KINDS if getattr(args, task)]
    if not tasks:
        raise UserError(f'no originals; name files with {", ".join(f"--{task}" for task in KINDS)}')
    if unknown := [task for task in tasks if task not in MTG.tasks and args.benchmark == MTG.name]:
        raise UserError(f'--{unknown[0]} is a task of version 2 of MTG; add --benchmark=mtg2')
    both_ways = [pair for lang in args.languages for pair in _pairs(lang)]
    args.engine = translation_jobs.template_of(args, both_ways)
    args.spare *= bool(sum(args.sizes))
    every = [_options(args, task) for task in tasks]
    for options in every:  # What is wrong is said before hours of work.
        options.originals = getattr(args, options.task)
        options.held_out = getattr(args, f'{options.task}_held_out')
        builds.check_files([*options.originals, *options.held_out])
    abouts = {o.task: _built(o, stages.of_flags(args, o.work, 1)) for o in every}
    print(publishing.table(abouts))
    failed = sum(sum(about.failures.values()) for about in abouts.values())
    return 1 if failed else 0


def _options(args: argparse.Namespace, task: str) -> Options:
    """The options of one task."""
    flags = {name: value for name, value in vars(args).items() if name != 'run'}
    return Options(**flags | {'task': task, 'work': os.path.join(args.work, task)})


def _settings(options: Options) -> Settings:
    """The settings of all steps; neither folders nor workers are among them.

    UserError if an engine is not there.
    """
    translated: Settings = {}
    for lang in options.languages:
        errors.check_known('language in --languages', lang, languages.LANGUAGES)
        identities = [options.engine.job(*pair).identity for pair in _pairs(lang)]
        translated[f'{TRANSLATED}{lang}'] = {'engine': identities, 'unit': options.unit}
    instead: dict[str, Setting] = {
        # By name and contents, in the order that was given.
        name: [f'{os.path.basename(p)} sha256 {outputs.sha256(p)[:16]}' for p in paths]
        for name, paths in (
            (options.task, options.originals),
            (f'{options.task}_held_out', options.held_out),
        )
    }
    steps = {
        'read': (*instead, 'max_bad', 'sizes', 'spare', 'sample_seed'),
        'rough': ('ngram', 'threshold', 'languages'),
        'sheets': ('per_sheet',),
    }
    return builds.settings(options, steps, instead) | translated


def _pairs(lang: str) -> list[tuple[str, str]]:
    """(source, target) of both translations, there and back."""
    return [(ENGLISH, lang), (lang, ENGLISH)]


def _built(options: Options, engine: Engine) -> About:
    """Does what is left of the build of one task; each step goes on where it was interrupted.

      WORK/read              originals, and the sample of them for people
      WORK/translated_LANG   translations of both, those of the rough data there and back
      WORK/rough             rough data at the threshold
      WORK/sheets            sheets for people
      OUTPUT/mtg/TASK        the files that tasks/mtg.py reads

    With `redo`, work of other options is thrown away, and what they have published is replaced.
    Returns the note about the rough data.
    """
    options.settings = _settings(options)
    with locks.folder(options.work), engine:
        builds.begin(options.work, options.settings, options.redo, _READERS)
        counts = originals.read(options)
        say(f'{options.task}: {counts.rough:,} examples, {counts.sample:,} for people')
        publishing.translate(options, counts, engine)
        about = publishing.publish(options, counts)
        say(f'{options.task}: {about.counts["kept"]:,} examples stay; {publishing.final(options)}')
        folder = correcting.write_sheets(options, counts)
        if counts.sample:
            say(f'{options.task}: sheets for people are in {folder}')
    return about


def _correct(args: argparse.Namespace) -> int:
    by_sheet = corrections.merged([corrections.read(path) for path in args.corrected])
    known = set()
    with_sheets = [t for t in KINDS if files.names(os.path.join(args.work, t, 'sheets'))]
    chosen = []
    for task in with_sheets:
        options = _options(args, task)
        settings = files.read_json(os.path.join(options.work, 'settings.json'), Settings)
        options.settings, options.languages = settings, settings['rough']['languages']
        options.sizes = args.sizes or settings['read']['sizes']
        sheets = correcting.sheets(options)
        ids = {numbered.sheet.id for of_lang in sheets.values() for numbered in of_lang}
        known |= ids
        if args.uncorrected or ids & by_sheet.keys():
            chosen.append((options, sheets))
    for sheet, one in by_sheet.items():
        if sheet not in known:
            raise UserError(
                f'{one.path} corrects sheet {errors.shortened(one.name)}, which is none of '
                f'{args.work}; name the --output of its build'
            )
    if not chosen:
        raise UserError(
            f'nothing to do for the sheets in {args.work}; name the files that people sent back'
        )
    for options, sheets in chosen:
        about = correcting.correct(options, sheets, by_sheet)
        made = zip(correcting.SPLITS, options.sizes, strict=True)
        sizes = ', '.join(f'{name} {size:,}' for name, size in made)
        counts = ', '.join(f'{about.counts[f"corrected_{c}"]:,} {c}' for c in options.languages)
        print(f'{publishing.final(options)}: {sizes}; corrected by people: {counts}')
    return 0


def _sizes(text: str) -> tuple[int, int, int]:
    sizes = tuple(map(whole(0), text.split(',')))
    if len(sizes) != len(correcting.SPLITS):
        raise argparse.ArgumentTypeError(
            f'{text!r} is not three numbers: {", ".join(correcting.SPLITS)}'
        )
    return sizes


def _languages(text: str) -> tuple[str, ...]:
    if ENGLISH in (codes := builds.codes(text)):
        raise argparse.ArgumentTypeError(f'{text!r} has {ENGLISH}, which is what is translated')
    return codes


_PLACE = (
    flag('--output', 'data root, for mtg/TASK', required=True),
    flag('--work', 'default: OUTPUT/mtg_build', ''),
    flag('--benchmark', 'version to write', MTG.name, choices=tuple(mtg.VARIABLES)),
)
_REDO = flag('--redo', 'redo changed steps', False)
_ORIGINALS = tuple(
    (
        flag(f'--{task}', ', '.join(originals.fields(task)), [], nargs='+', metavar='FILE'),
        flag(f'--{task}_held_out', 'files of the sample', [], nargs='+', metavar='FILE'),
    )
    for task in KINDS
)
_OTHERS = tuple(lang for lang in MTG.languages if lang != ENGLISH)
_BUILD = (
    _PLACE,
    _REDO,
    _ORIGINALS,
    flag(
        '--languages', f'target languages; default: {",".join(_OTHERS)}', _OTHERS, type=_languages,
    ),
    flag('--unit', 'translate texts or sentences', 'text', choices=builds.UNITS),
    flag('--ngram', 'length of n-grams', 1, choices=(1, 2, 3, 4)),
    flag('--threshold', 'least overlap of rough data', 0.5, type=share),
    flag(
        '--sizes', f'default: {",".join(map(str, _SIZES))}; 0,0,0: no sample', _SIZES, type=_sizes,
    ),
    flag('--spare', 'more examples for people', 0, type=whole(0)),
    flag('--per_sheet', 'examples of a sheet', 100, type=whole(1)),
    flag('--sample_seed', 'seed of the sample', 0, type=whole(0)),
    flag('--max_bad', 'largest share of bad examples', 0.0, type=share),
    stages.FLAGS,
    engine_flags(required=True),
    decoding.FLAGS,
)  # fmt: skip
_CORRECT = (
    _PLACE,
    _REDO,
    flag('corrected', 'files that people sent back', nargs='*'),
    flag('--sizes', "sizes of the splits; default: the build's", (), type=_sizes),
    flag('--uncorrected', 'keep uncorrected texts', False),
)
COMMAND = CommandLine(
    'data mtg_build',
    __doc__,
    commands={
        'build': ('Builds rough data and sheets for people.', _BUILD, _build),
        'correct': ('Writes the splits that people have corrected.', _CORRECT, _correct),
    },
)
