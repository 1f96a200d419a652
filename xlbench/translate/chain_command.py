r"""Runs and scores a chain of models, such as a summariser and a translator.

  python -m xlbench.translate chain RUNS/summariser translate:RUNS/translator \
      --task=clidsum_xsamsum_en_de --workdir=RUNS/sum_trans
  python -m xlbench.translate chain translate:apertium 'RUNS/summariser_es --num_beams=5' \
      --task=meetings_summary_en_es --workdir=RUNS/trans_sum

The chain reads the inputs of a task's split, and each stage reads the output of the stage before
it. A stage is a model that writes texts, as xlbench.predict takes it: the workdir of a run
(RUNS/summariser@STEP), a folder in the form of Hugging Face or a hub name. Or it is translate:
before an engine, as xlbench.translate takes it: apertium, 'command:PROGRAM ARGUMENTS', the address
of a LibreTranslate server, file:PATH, or a model. Put a stage with its own flags in quotes. The
flags follow the name, but come before a command: '--timeout=60 translate:command:PROGRAM'. They are
the decoding flags of xlbench.predict, and

  --target_lang=LANG     what the stage writes; by default a model writes the language that it
                         reads, and a translator translates into the task's
  --prefix=TEXT          before each text that a model reads, such as '[summarize] '
  --batch_size=N         of a model; --max_input_length=N of one that does not translate
  --unit=text            translates texts as a whole; by default a text of several lines is a
                         dialogue: its lines are translated one by one, without the names before
                         them, which stay
  --engine_version=TEXT, --timeout=SECONDS    of a program or a server

All stages are opened, and their languages checked, before the first one starts. The outputs of each
stage are files in WORKDIR/stages/TASK/SPLIT. Answers are cached by text and model (--cache, by
default DATA/translations): a killed command continues where it was, and several chains with one
summariser summarise once. With --failed=empty, a text that an engine does not translate becomes
empty; otherwise the chain ends there.

The output of the last stage is scored with the task's metrics, as by xlbench.score, and with those
that --metrics names besides: `python -m
xlbench.report RUNS/end_to_end RUNS/sum_trans` shows the chain beside runs. --system names it (by
default after its stages: `bart + opus-mt-en-de`), and --seed is the seed of its models; chains of
one system with several seeds, each with its own workdir, become a row of means. A workdir may hold
other tasks of the system, such as other target languages.

The task's data is that of the first run in the chain, of --like=WORKDIR, or of --root and
--vocabulary. --num_examples=N takes the first N examples. --input_task names another task with the
same examples, whose inputs are read, such as clidsum_xsamsumviews_en_en where the first stage is an
MV-BART. With --target_lang=LANG the chain writes another language than the task's targets are in;
nothing is scored then.
"""

import argparse
import contextlib
import os
import pathlib
from collections.abc import Iterator, Sequence

from xlbench import benchmarks, config as config_lib
from xlbench.data import outputs, prepared
from xlbench.reporting import scored
from xlbench.system import locks
from xlbench.system.command_line import CACHE, TASK_DATA, CommandLine, chosen_root, flag, say
from xlbench.system.errors import UserError
from xlbench.translate import chains
from xlbench.translate.chains import Stage

FLAGS = (
    flag('stages', 'a model, or translate:ENGINE', nargs='+', metavar='STAGE'),
    flag('--task', 'task to read and score', required=True),
    flag('--input_task', 'task whose inputs are read instead', ''),
    flag('--split', 'split of the task', 'test'),
    flag('--workdir', 'folder for outputs and scores', required=True),
    flag('--system', 'name in reports', ''),
    flag('--seed', 'seed of its models', 0),
    TASK_DATA,
    flag('--source_lang', "default: the task's", ''),
    flag('--target_lang', "language to write (default: the task's)", ''),
    flag('--num_examples', 'most examples to take; 0: all', 0),
    flag('--metrics', "metrics beside the task's", ''),
    CACHE,
    flag(
        '--failed', 'at a text without translation: stop, or leave it empty', 'stop',
        choices=('stop', 'empty'),
    ),
)  # fmt: skip


def main(argv: Sequence[str]) -> int:
    """The command line; a space keeps argparse from the flags that a stage begins with."""
    words = [f' {x}' if x[:2] == '--' and f' {chains.TRANSLATE}' in x else x for x in argv[1:]]
    args = CommandLine('translate chain', __doc__, FLAGS).parse(words)
    stages = [chains.parse(text.strip()) for text in args.stages]
    _check(args, stages)
    source, target = args.source_lang, args.target_lang
    with contextlib.suppress(UserError):  # The name of a task of the user's own says nothing.
        named = benchmarks.parse_task(args.task)
        source, target = source or named.source, target or named.target
    if source and target:  # What cannot be is said before the task is prepared.
        chains.plan(stages, source, target)
    task = _open(args, args.task)
    source, target = (_lang(args, task, side) for side in ('source', 'target'))
    chain = chains.plan(stages, source, target)
    rows = [chains.Row(number, [text]) for number, text in _inputs(args, task)]
    opened = chains.Chain(chain, args.cache)
    with locks.folder(args.workdir, wait=say):
        scored.check(args.workdir, args.system, args.seed)
        scored.claim(args.workdir, args.system, args.seed)
    folder = pathlib.Path(args.workdir) / 'stages' / args.task / args.split
    last = opened.run(rows, folder, accept_failures=args.failed == 'empty', say=say)
    if task.manifest.get('target_lang') in (target, None):
        _score(args, last, opened.facts)
    else:
        say(f'{args.task} has no references in {target}: nothing was scored; wrote {last}')
    return 0


def _check(args: argparse.Namespace, stages: Sequence[Stage]) -> None:
    """Checks the flags against each other and the stages, and fills in the defaults."""
    models = {number: stage.spec for number, stage in enumerate(stages, 1) if stage.is_model}
    for number, spec in models.items():
        config_lib.check_source(spec, f'stage {number}')
    if not (args.like or args.root or args.vocabulary):  # The first run with data of its own.
        folders = (x if os.path.isdir(x) else x.rpartition('@')[0] for x in models.values())
        runs = (x for x in folders if os.path.isdir(os.path.join(x, 'checkpoints')))
        args.like = next(runs, '')
    args.system = args.system or ' + '.join(stage.title for stage in stages)
    args.cache = args.cache or os.path.join(chosen_root(args.root), 'translations')
    prepared.folder('', 'none', args.task, args.split)  # Refuses what is no plain name.
    scored.check(args.workdir, args.system, args.seed)
    if args.metrics:
        from xlbench.metrics import suite as suite_lib  # It loads for half a second.

        for name in args.metrics.split(','):
            suite_lib.check_name(name)


def _lang(args: argparse.Namespace, task: prepared.Prepared, side: str) -> str:
    """The language of the task's 'source' or 'target'."""
    lang = getattr(args, f'{side}_lang') or task.manifest.get(f'{side}_lang')
    if not lang:
        raise UserError(f'{args.task} does not say its {side} language; set --{side}_lang=en')
    return str(lang)


def _open(args: argparse.Namespace, name: str) -> prepared.Prepared:
    return config_lib.open_task(
        name, args.split, like=args.like, root=args.root, vocabulary=args.vocabulary
    )


def _inputs(args: argparse.Namespace, task: prepared.Prepared) -> Iterator[tuple[str, str]]:
    """The id and the text of each example that the first stage reads."""
    examples = outputs.prepared_references(task).first(args.num_examples)
    other = _open(args, args.input_task) if args.input_task else task
    inputs = outputs.prepared_references(other).first(args.num_examples)
    if inputs.ids != examples.ids:
        raise UserError(
            f'{inputs.name} and {examples.name} do not have the same ids in the same order; name '
            'an --input_task with the examples of the task'
        )
    return zip(inputs.ids, outputs.unmarked(other, inputs.inputs), strict=True)


def _score(args: argparse.Namespace, output: pathlib.Path, made_by: dict[str, str]) -> None:
    """Scores the output of the last stage, as xlbench.score does."""
    from xlbench import score  # A program, which nothing else here needs.

    names = ['task', 'split', 'workdir', 'system', 'seed', 'like', 'root', 'vocabulary']
    given = [f'--{x}={getattr(args, x)}' for x in [*names, 'num_examples'] if getattr(args, x)]
    score.main([str(output), '--field=texts', *given], {'method': 'chain', 'stages': made_by})
    if args.metrics:
        added = [f'--{name}={getattr(args, name)}' for name in ('metrics', 'task', 'split')]
        score.main([args.workdir, *added])
