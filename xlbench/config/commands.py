"""Command lines of the programs whose imports take seconds, and the checks before these imports.

Each program calls `check_first` above its slow imports, so that --help and mistakes are answered at
once. Its `main` then reads the same command line in the same way.
"""

import argparse
import dataclasses
import os
import pathlib
import re
from collections.abc import Callable, Sequence

from ml_collections import ConfigDict

from xlbench import config as config_lib
from xlbench.config import flags as config_flags
from xlbench.settings import decoding
from xlbench.settings.blocks import Mesh
from xlbench.system import errors, machine
from xlbench.system.command_line import RERANKING, TASK_DATA, CommandLine, flag, share, whole, words
from xlbench.system.errors import UserError

BATCH_SIZE = 32  # Texts that xlbench.predict answers at once.
DTYPES = ('float32', 'bfloat16', 'float16')  # Of exported weights.
# Of xlbench.predict. A .tsv may also be a text, with pairs on its lines; --input_format says it.
FORMATS = ('text', 'jsonl', 'csv', 'tsv', 'parquet', 'conll', 'conllu')
_SCORED = ('', 'text', 'jsonl', 'conll', 'conllu', 'mrs')  # Forms that xlbench.score reads.
# Endings of files whose lines are no inputs: of headers, cells and brackets.
_NO_TEXTS = ('.json', '.arrow', '.xlsx', '.zip')


def mesh_sizes(text: str) -> dict[str, int]:
    """Parses 'data=2,tensor=2' into arguments of `make_mesh`; UserError for anything else."""
    sizes = {}
    axes = [field.name for field in dataclasses.fields(Mesh)]
    for name, _, size in (part.partition('=') for part in text.split(',')):
        if not re.fullmatch(r'-?\d+', size):
            raise UserError(f'--mesh={text} is not sizes of axes like data=2,tensor=2')
        errors.check_known('axis in --mesh', name, axes)
        sizes[name] = int(size)
    return sizes


PLAN = CommandLine('plan', flags=(
    config_flags.FLAGS,
    flag('--topology', 'devices: v5p:4x4x4, cpu:8, h100:8, local', 'local'),
    flag('--vocab_size', 'where config.model.vocab_size is 0; default: the published size', 0),
    flag('--num_labels', 'where config.model.num_labels is 0', 0),
    flag('--memory', 'GiB of a device; default: as its maker says', type=float),
    flag('--tries', 'smaller settings to compile if the config does not fit; 0: none', 8),
    flag('--no_decode', 'plan the train step only', False),
    flag('--mfu', "share of GPUs' peak that a step reaches", 0.4, type=share),
    flag('--output', 'file for all figures, as JSON', ''),
))  # fmt: skip
EVALUATE = CommandLine('evaluate', flags=(
    flag('workdir', 'folder of the run', nargs='?'),
    flag('--workdir', 'the same', dest='named', metavar='WORKDIR'),
    flag('--tasks', "names, with commas; default: the final evaluation's", (), type=words),
    flag('--split', "default: the final evaluation's, usually test"),
    flag('--step', 'best, last or a number (default: best)', 'best'),
    flag('--like', 'evaluation of the config whose settings are used'),
    flag('--batch_size', "default: the block's", 0),
    flag('--num_examples', "examples of each task, 0: all; default: the config's", type=int),
    flag('--mesh', "sizes of the mesh: data=2,tensor=2; default: the run's", type=mesh_sizes),
    flag('--root', "data root; default: the run's", ''),
    flag('--output', 'folder for the results; default: the workdir', ''),
    flag('--metrics', "further metrics; default: the config's", (), type=words),
    RERANKING,
    decoding.FLAGS,
))  # fmt: skip
PREDICT = CommandLine('predict', flags=(
    flag('model', 'workdir, WORKDIR@STEP, folder or hub name'),
    flag('--input', 'text, .jsonl, .csv, .parquet, .conll, .conllu; default: standard input', ''),
    flag('--input_format', "default: by the file's name", choices=FORMATS),
    flag('--field', 'key or column of the text (default: inputs, text or tokens, by model)'),
    flag('--output', 'file; default: standard output', ''),
    flag('--format', "default: by the name of the output, or the input's", choices=FORMATS),
    flag('--scores', "also write each prediction's score", False),
    flag('--target_lang', 'ISO code of the predictions'),
    flag('--source_lang', 'ISO code of the inputs, if the model reads it'),
    flag('--batch_size', 'texts', BATCH_SIZE),
    flag('--max_input_length', "tokens; default: the run's, or 512", 0),
    flag('--mesh', 'sizes of the mesh: data=2,tensor=2', {}, type=mesh_sizes),
    flag('--dtype', "type of activations; default: the model's", ''),
    RERANKING,
    flag('--responses', "file of replies; default: the run's response sets", ''),
    flag('--lm_weight', "weight of a reply's log-likelihood; default: the run's", type=float),
    decoding.FLAGS,
))  # fmt: skip
CONVERT = CommandLine('convert', flags=(
    flag('source', 'workdir, Hugging Face folder, or hub name[@REVISION]'),
    flag('target', 'a folder that does not exist yet'),
    flag('--step', 'step of a workdir: best (default), last, a number, or best:LANG'),
    flag('--dtype', 'type of the weights (default: float32)', choices=DTYPES),
    flag('--lora', 'adapters (default: merged)', choices=('merged', 'separate')),
    flag('--extra_tokens', "tokens to add to a new workdir: '[summarize]'"),
))  # fmt: skip
REPORT = CommandLine('report', flags=(
    flag('workdir', 'folder of a training run', nargs='+'),
    flag('--output', 'folder to write the report into'),
    flag('--format', 'markdown, csv, latex, html, mtg; with commas', (), type=words),
    flag('--step', 'last, best, the name of a stage, or a step', 'last'),
    flag('--split', 'split (default: test, else validation)'),
    flag('--variants', 'add results of xlbench.evaluate', False),
    flag('--intervals', 'show 95 %% intervals instead of standard deviations', False),
    flag('--plots', 'write plots: SVG, PNG and PDF', False),
    flag(
        '--significance', 'test differences between runs',
        choices=('t-test', 'bootstrap', 'randomization'),
    ),
    flag('--scores', 'scores to test; default: the main score', (), type=words),
    flag('--against', 'compare each run with itself at this step', ''),
    flag('--table', 'tables of the paper: 3,5 or all', ''),
    flag('--figure', 'figures of the paper: 2,7 or all', ''),
    flag('--ratings', 'FILE,FILE: rated texts, of xlbench.annotate score', (), type=words),
    flag('--metrics', 'scores to correlate with the ratings', (), type=words),
    flag('--fitted_rating', 'file of xlbench.annotate fit, which predicts ratings', ''),
    flag('--rough', 'data root that `xlbench data mtg_build` has built', ''),
))  # fmt: skip
SCORE = CommandLine('score', flags=(
    flag('predictions', 'file of predictions, or a workdir'),
    flag('--task', 'task to score; it names files of references', ''),
    flag('--benchmark', 'score files as this benchmark does', ''),
    flag('--split', 'split of the task', 'test'),
    TASK_DATA,
    flag('--sample', 'make sample corpora in --root', False),
    flag('--references', 'files of references, with commas', (), type=words),
    flag('--reference_field', 'field of JSONL references', 'target'),
    flag('--lang', "ISO code of the texts (default: the task's)"),
    flag('--metrics', "names, with commas (default: the task's)", (), type=words),
    flag('--format', 'form (default: by the name)', '', choices=_SCORED),
    flag('--field', 'field of JSONL predictions', ''),
    flag('--id_field', "field of ids; '' keeps the lines' order", 'id'),
    flag('--n_best', 'lines begin with a number', False),
    flag('--scores', 'a score precedes each text', False),
    flag('--num_examples', 'examples to score; 0: all', 0),
    flag('--rouge_csv', 'file for the bootstrap of ROUGE', ''),
    flag('--rouge_examples', "file for the examples' ROUGE", ''),
    flag('--workdir', 'folder to write scores to', ''),
    flag('--system', "name in reports (default: the workdir's)", ''),
    flag('--seed', 'seed of the system, if any', 0),
    flag('--step', 'step of its training (default: 0)', 0, type=whole(0)),
))  # fmt: skip


def check_first(check: Callable[[Sequence[str]], object], argv: Sequence[str]) -> None:
    """Answers --help and what is wrong with a command line, and ends the program; else returns.

    `check` raises UserError for a slip. Ctrl-C during the imports that follow is one line as well,
    and garbage is collected late: a program that works for long calls `machine.collect_as_ever`
    when it has begun.
    """

    def main(argv: Sequence[str]) -> None:
        check(argv)
        if reason := machine.too_little():
            raise UserError(reason)

    machine.put_off_collecting()
    if code := errors.run_main(main, argv):
        raise SystemExit(code)
    errors.end_on_interrupt()


def parse_train(argv: Sequence[str]) -> config_lib.Command:
    """Reads a command line of xlbench.train, and checks every name that it and its config give."""
    command = config_lib.parse_command(argv)
    check_train(command.config, command.workdir)
    return command


def check_train(config: ConfigDict, workdir: str) -> None:
    """Raises UserError for a name in a config that nothing has, or another run's workdir."""
    config_lib.check_run_names(config)
    if not config_lib.check_workdir(workdir, config):  # A run that goes on has all.
        config_lib.check_places(config)


def parse_plan(argv: Sequence[str]) -> tuple[argparse.Namespace, ConfigDict]:
    """Reads the flags of a plan, and the config, whose names are checked."""
    config, _, args = config_lib.parse_command(argv, line=PLAN)
    if not args.mfu:
        raise UserError('--mfu is 0; give a share above 0, up to 1')
    config_lib.check_run_names(config)
    return args, config


def parse_evaluate(argv: Sequence[str]) -> argparse.Namespace:
    """Reads a command line of xlbench.evaluate; UserError without its run, checkpoint or tasks."""
    args = EVALUATE.parse(argv[1:])
    if bool(args.workdir) == bool(args.named):
        raise UserError('name one workdir: xlbench evaluate WORKDIR')
    args.workdir = args.workdir or args.named
    config_lib.check_checkpoint(args.workdir, 'workdir', args.step)
    _check_sources(args, '--mmi_model', '--rerank')
    config = config_lib.read_config(args.workdir)
    if args.like and args.like not in config.evals:
        raise errors.unknown('evaluation of the config', args.like, config.evals)
    for task in args.tasks:
        config_lib.check_task(
            task, 'task in --tasks', args.root or config.data.root, config.data.vocabulary
        )
    return args


def parse_predict(argv: Sequence[str]) -> argparse.Namespace:
    """Reads a command line of xlbench.predict; see `check_predict` for the models that it names."""
    args = PREDICT.parse(argv[1:])
    ending = os.path.splitext(args.input.removesuffix('.gz'))[1]
    if ending in _NO_TEXTS and args.field is None and not args.input_format:
        raise UserError(
            f'--input={args.input} does not look like a text or JSONL, with an input on each line; '
            'if it is one, say so with --input_format=text or jsonl'
        )
    return args


def check_predict(argv: Sequence[str]) -> None:
    """Raises UserError for a command line of xlbench.predict, or a model of it that is missing."""
    _check_sources(parse_predict(argv), 'model', '--mmi_model', '--rerank')


def parse_convert(argv: Sequence[str]) -> argparse.Namespace:
    """Reads a command line of xlbench.convert; UserError without a source, or with a target."""
    args = CONVERT.parse(argv[1:])
    if os.path.exists(args.target):
        raise UserError(f'{args.target} exists already; name a target that does not')
    _check_sources(args, 'source')
    if args.step and (pathlib.Path(args.source) / 'checkpoints').is_dir():
        config_lib.check_checkpoint(args.source, 'source', args.step)
    return args


def _check_sources(args: argparse.Namespace, *flags: str) -> None:
    for name in flags:
        if spec := getattr(args, name.lstrip('-')):
            config_lib.check_source(spec, name)
