"""Command lines of the programs whose imports take seconds, and the checks before these imports.

Each program calls `check_first` at its top, above its slow imports, so that --help and mistakes are
answered at once. Its `main` then reads the same command line in the same way.
"""

import argparse
import dataclasses
import os
import pathlib
import re
from collections.abc import Callable, Sequence

from ml_collections import ConfigDict

from xlbench import config as config_lib
from xlbench.config import arguments
from xlbench.settings import decoding_flags
from xlbench.settings.blocks import Mesh
from xlbench.system import errors, machine
from xlbench.system.errors import UserError

BATCH_SIZE = 32  # Texts that xlbench.predict answers at once.
DTYPES = ('float32', 'bfloat16', 'float16')  # Of exported weights.
# Of xlbench.predict. A .tsv may also be a text, with pairs on its lines; --input_format says it.
FORMATS = ('text', 'jsonl', 'csv', 'tsv', 'parquet', 'conll', 'conllu')
# Endings of files whose lines are no inputs: of headers, cells and brackets.
_NO_TEXTS = ('.json', '.arrow', '.xlsx', '.zip')


def check_first(
    check: Callable[[Sequence[str], str], object], argv: Sequence[str], doc: str
) -> None:
    """Answers --help and what is wrong with a command line, and ends the program; else returns.

    To be called at the top of a program, above the imports of what takes seconds. Ctrl-C during
    them is one line as well, and garbage is collected late: a program that works for long calls
    `machine.collect_as_ever` when it has begun.

    Args:
      check: of a command line and the program's docstring: raises UserError for a slip.
      argv: the program's name and arguments.
      doc: of the program.
    """

    def main(argv: Sequence[str]) -> None:
        check(argv, doc)
        if reason := machine.too_few_files() or machine.too_little_memory():
            raise UserError(reason)

    machine.put_off_collecting()
    if code := errors.run_main(main, argv):
        raise SystemExit(code)
    errors.end_on_interrupt()


def run(argv: Sequence[str], doc: str) -> config_lib.Command:
    """A command line of xlbench.train, with every name that it and its config give checked."""
    command = config_lib.parse_command(argv, doc=doc, dry_run=True)
    check_run(command.config, command.workdir)
    return command


def check_run(config: ConfigDict, workdir: str) -> None:
    """Raises UserError for a name in a config that nothing has, or for the workdir of another run.

    Args:
        config: of the run.
        workdir: that it is to have, or has already.
    """
    config_lib.check_config(config)
    if not config_lib.check_workdir(workdir, config):  # A run that goes on has all.
        config_lib.check_places(config)


def plan(argv: Sequence[str], doc: str) -> tuple[argparse.Namespace, ConfigDict]:
    """The flags of a plan, and the config, whose names are checked.

    Args:
      argv: the program's name and arguments.
      doc: what --help prints.
    """
    parser = errors.ArgumentParser('python -m xlbench.plan', doc)
    parser.add_argument(
        '--topology', default='local', help='devices: v5p:4x4x4, cpu:8, h100:8, local'
    )
    parser.add_argument('--vocab_size', type=int, default=0, help='rows of the vocabulary')
    parser.add_argument('--num_labels', type=int, default=0, help='labels of a classifier')
    parser.add_argument('--memory', type=float, help='GiB of a device')
    parser.add_argument('--tries', type=int, default=8, help='smaller settings to try')
    parser.add_argument('--no_decode', action='store_true', help='plan the train step only')
    parser.add_argument('--mfu', type=arguments.share, default=0.4, help="share of GPUs' peak")
    parser.add_argument('--output', default='', help='JSON file of all figures')
    parser.add_argument('--hlo', default='', help='folder for the compiled programs')
    args, rest = parser.parse_known_args(argv[1:])
    if not args.mfu:
        raise UserError('--mfu is 0; give a share above 0, up to 1')
    config, *_ = config_lib.parse_command([argv[0], *rest], doc=doc)
    config_lib.check_config(config)
    return args, config


def evaluate(argv: Sequence[str], doc: str) -> argparse.Namespace:
    """A command line of xlbench.evaluate; the run, the checkpoint and the tasks are there."""
    parser = errors.ArgumentParser('python -m xlbench.evaluate', doc)
    parser.add_argument('workdir', nargs='?', help='folder of the run')
    parser.add_argument('--workdir', dest='named', metavar='WORKDIR', help='the same')
    parser.add_argument('--tasks', help="names, with commas; default: the final evaluation's")
    parser.add_argument('--split', help="default: the final evaluation's, usually test")
    parser.add_argument('--step', default='best', help='best, last or a number (default: best)')
    parser.add_argument('--like', help='evaluation of the config whose settings are used')
    parser.add_argument('--batch_size', type=int, default=0, help="default: the block's")
    parser.add_argument(
        '--num_examples', type=int, help="examples of each task, 0: all; default: the config's"
    )
    parser.add_argument(
        '--mesh', type=mesh_sizes, help="sizes of the mesh: data=2,tensor=2; default: the run's"
    )
    parser.add_argument('--root', default='', help="data root; default: the run's")
    parser.add_argument('--output', default='', help='folder for the results; default: the workdir')
    parser.add_argument('--metrics', default='', help="further metrics; default: the config's")
    _add_reranking(parser)
    decoding_flags.add_flags(parser)
    args = parser.parse_args(argv[1:])
    if bool(args.workdir) == bool(args.named):
        raise UserError('name one workdir: xlbench evaluate WORKDIR')
    args.workdir = args.workdir or args.named
    config_lib.check_run(args.workdir, 'workdir', args.step)
    for kind in ('--mmi_model', '--rerank'):
        if spec := getattr(args, kind.lstrip('-')):
            config_lib.check_source(spec, kind)
    config = config_lib.read_config(args.workdir)
    if args.like and args.like not in config.evals:
        raise errors.unknown('evaluation of the config', args.like, config.evals)
    for task in args.tasks.split(',') if args.tasks else ():
        config_lib.check_task(
            task, 'task in --tasks', args.root or config.data.root, config.data.vocabulary
        )
    return args


def _add_reranking(parser: argparse.ArgumentParser) -> None:
    """Adds the flags of what ranks the texts of a generator anew."""
    parser.add_argument(
        '--mmi_model', help='reverse model that reranks the beams (arXiv:1510.03055)'
    )
    parser.add_argument(
        '--mmi_weight', type=float, default=0.5, help='its weight'
    )
    parser.add_argument(
        '--mmi_length_weight', type=float, default=0.0, help='bonus per token'
    )
    parser.add_argument('--rerank', help='retriever that reranks the beams or samples')
    parser.add_argument(
        '--rerank_weight', type=float, default=1.0, help='its weight'
    )


def predict_flags(argv: Sequence[str], doc: str) -> argparse.Namespace:
    """A command line of xlbench.predict; what it names is not looked for."""
    parser = errors.ArgumentParser('python -m xlbench.predict', doc)
    parser.add_argument('model', help='workdir, WORKDIR@STEP, folder or hub name')
    parser.add_argument(
        '--input',
        default='',
        help='text, .jsonl, .csv, .parquet, .conll, .conllu; default: standard input',
    )
    parser.add_argument(
        '--input_format', choices=FORMATS, help="default: by the file's name"
    )
    parser.add_argument(
        '--field', help='key or column of the text (default: inputs, text or tokens, by model)'
    )
    parser.add_argument('--output', default='', help='file; default: standard output')
    parser.add_argument(
        '--format', choices=FORMATS, help="default: by the name of the output, or the input's"
    )
    parser.add_argument('--scores', action='store_true', help="also write each prediction's score")
    parser.add_argument('--target_lang', help='ISO code of the predictions')
    parser.add_argument('--source_lang', help='ISO code of the inputs, if the model reads it')
    parser.add_argument(
        '--batch_size', type=int, default=BATCH_SIZE, help='texts'
    )
    parser.add_argument(
        '--max_input_length', type=int, default=0, help="tokens; default: the run's, or 512"
    )
    parser.add_argument(
        '--mesh', type=mesh_sizes, default={}, help='sizes of the mesh: data=2,tensor=2'
    )
    parser.add_argument('--dtype', default='', help="type of activations; default: the model's")
    _add_reranking(parser)
    parser.add_argument(
        '--responses', default='', help="file of replies; default: the run's response sets"
    )
    parser.add_argument(
        '--lm_weight', type=float, help="weight of a reply's log-likelihood; default: the run's"
    )
    decoding_flags.add_flags(parser)
    args = parser.parse_args(argv[1:])
    ending = os.path.splitext(args.input.removesuffix('.gz'))[1]
    if ending in _NO_TEXTS and args.field is None and not args.input_format:
        raise UserError(
            f'--input={args.input} does not look like a text or JSONL, with an input on each line; '
            'if it is one, say so with --input_format=text or jsonl'
        )
    return args


def predict(argv: Sequence[str], doc: str) -> argparse.Namespace:
    """A command line of xlbench.predict; the models are there."""
    args = predict_flags(argv, doc)
    for kind in ('model', '--mmi_model', '--rerank'):
        if spec := getattr(args, kind.lstrip('-')):
            config_lib.check_source(spec, kind)
    return args


def convert(argv: Sequence[str], doc: str) -> argparse.Namespace:
    """A command line of xlbench.convert; the source is there, the target is not."""
    parser = errors.ArgumentParser('python -m xlbench.convert', doc)
    parser.add_argument('source', help='workdir, Hugging Face folder, or hub name[@REVISION]')
    parser.add_argument('target', help='a folder that does not exist yet')
    parser.add_argument('--step', help='step of a workdir: best, last or a number (default: best)')
    parser.add_argument('--dtype', choices=DTYPES, help='type of the weights (default: float32)')
    parser.add_argument(
        '--vocab_size', type=int, help='rows of the vocabulary to keep (default: all)'
    )
    parser.add_argument('--lora', choices=('merged', 'separate'), help='adapters (default: merged)')
    parser.add_argument('--extra_tokens', help="tokens to add to a new workdir: '[summarize]'")
    parser.add_argument(
        '--tokens_of', metavar='TASKS', help='keep only tokens of their training data'
    )
    parser.add_argument(
        '--root', default='data', help='data root of --tokens_of'
    )
    args = parser.parse_args(argv[1:])
    if os.path.exists(args.target):
        raise UserError(f'{args.target} exists already; name a target that does not')
    config_lib.check_source(args.source, 'source')
    if args.step and (pathlib.Path(args.source) / 'checkpoints').is_dir():
        config_lib.check_run(args.source, 'source', args.step)
    return args


def mesh_sizes(text: str) -> dict[str, int]:
    """Parses the sizes of a mesh, 'data=2,tensor=2', into arguments of `make_mesh`.

    Raises:
      UserError: it is something else, or there is no such axis.
    """
    sizes = {}
    axes = [field.name for field in dataclasses.fields(Mesh)]
    for name, _, size in (part.partition('=') for part in text.split(',')):
        if not re.fullmatch(r'-?\d+', size):
            raise UserError(f'--mesh={text} is not sizes of axes like data=2,tensor=2')
        if name not in axes:
            raise errors.unknown('axis in --mesh', name, axes)
        sizes[name] = int(size)
    return sizes
