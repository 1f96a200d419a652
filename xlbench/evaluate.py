r"""Scores a checkpoint of a run on any tasks.

  python -m xlbench.evaluate RUNS/mtg --split=test
  python -m xlbench.evaluate RUNS/mtg --tasks=mtg_qg_en_de,mtg_qg_en_fr --step=last
  python -m xlbench.evaluate RUNS/mtg --num_beams=4 --length_penalty=0.6
  python -m xlbench.evaluate RUNS/mtg --metrics=meteor,bertscore

The scores are written beside the run's own evaluations, to WORKDIR/eval/STEP/SPLIT/TASK/, and
printed as a table. By default, the command evaluates the run's best checkpoint with the tasks, the
number of examples and the decoding of the run's final evaluation.

Results with other settings than the config's are stored and reported as a split of their own, and
never replace or join the run's own results: --num_examples=20 as SPLIT-first20, --num_examples=0 as
SPLIT-all where the config takes less, --num_beams=4 as SPLIT-beam-num_beams4; `python -m
xlbench.report WORKDIR --split=test-first20` shows them again, and --variants shows all of them
beside the run's own results. If the model writes texts, they can be ranked again before they are
scored, as in xlbench.predict: --rerank=RUNS/retriever is stored as SPLIT-rerank-retriever, and
--mmi_model=RUNS/reverse as SPLIT-mmi-reverse.

Several processes share the work as in training (MODULE=xlbench.evaluate launch/local.sh 2 ...), and
--mesh=data=2,tensor=4 uses other devices than the run did. After SIGTERM the command ends with code
75, and after Ctrl-C with 130; tasks that were complete keep their scores.

Only one process can write to a workdir at a time. With --output=FOLDER nothing is written into the
workdir, which may be somebody else's: the scores go to FOLDER/eval/..., beside a copy of
config.json, and `python -m xlbench.report FOLDER` shows them.

A retriever is evaluated with the settings of the config's evaluation, including the response sets.
The decoding flags, and --metrics (further ones beside the tasks' own, in place of those of the
config), are only for models that write texts.
"""

import argparse
import dataclasses
import pathlib
import re
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import cast

from xlbench.config import commands

if __name__ == '__main__':  # A slip is answered before the imports below, which take seconds.
    commands.check_first(commands.parse_evaluate, sys.argv)

import jax
from ml_collections import ConfigDict

from xlbench import config as config_lib, runs
from xlbench.config import RUN_KEYS, data_root, read_run
from xlbench.evaluators import generation
from xlbench.inference.reranking import Mmi, Relevance, of_flags
from xlbench.parallel import cluster, partitioning, programs
from xlbench.parallel.preemption import Interrupted, Interruption
from xlbench.reporting import layout
from xlbench.settings import decoding as decoding_lib
from xlbench.system import files, locks, untrusted
from xlbench.system.errors import UserError
from xlbench.system.files import Setting
from xlbench.training import checkpoints as checkpoints_lib, memory, objectives
from xlbench.training.checkpoints import find_step


def main(argv: Sequence[str]) -> None:
    """The command line, the program's name first."""
    args = commands.parse_evaluate(argv)
    cluster.join()
    cluster.keep_programs()
    programs.run_inline()
    evaluate(args)


def evaluate(args: argparse.Namespace) -> tuple[int, str]:
    """Scores what `commands.parse_evaluate` has read, and prints the table.

    Returns:
      The step, and the split that the scores are filed under.

    Raises:
      UserError: the run, its data or the mesh cannot be had, or another process writes there.
      Interrupted: the process was told to end.
    """
    first = jax.process_index() == 0
    output = args.output or args.workdir
    with locks.folder(output, active=first):
        if first:
            files.remove_leftovers(output)
            if args.output:
                untrusted.check_tree(args.workdir, args.workdir)  # It may be somebody else's.
                _copy_config(args.workdir, args.output)
        return _evaluate(args, output, first)


def _copy_config(workdir: str, output: str) -> None:
    """Has a folder of results say which run they are of; UserError if they are of another run."""
    config, copy = (pathlib.Path(folder, 'config.json') for folder in (workdir, output))
    content = untrusted.read_bytes(config)
    if not copy.exists():
        files.write(copy, content)
    elif untrusted.read_bytes(copy) != content:
        raise UserError(
            f'{output} holds results of another run than {workdir}; name another --output'
        )


def _evaluate(args: argparse.Namespace, output: str, first: bool) -> tuple[int, str]:
    """Evaluates; the first process writes to `output`, and speaks."""
    about = read_run(args.workdir, RUN_KEYS)
    config = ConfigDict(about['config'])
    step = find_step(args.workdir, args.step)
    name = _eval_name(config, args.like)
    block = config.evals[name]
    split = args.split or block.split
    own = [b for b in (block, *config.evals.values()) if b.split == split]
    # Of the run's own result on the split; 0: all.
    own_number = own[0].get('num_examples', 0) if own else 0
    number = own_number if args.num_examples is None else args.num_examples
    decoding, decoded = _decoding(config, block, decoding_lib.given_options(args))
    ranking, keep, decoding = _ranking(args, decoding)
    decoded += ranking.words if ranking else []
    changes = {
        'tasks': args.tasks or tuple(block.tasks),
        'split': split,
        'every': 0,
        'batch_size': args.batch_size or block.batch_size,
        'num_examples': number,
    }
    if args.tasks or args.split:  # What is asked for by name must be there.
        changes['optional'] = False
    # Workdirs of earlier versions have this key; metrics/specs.py says what is allowed now.
    kept = {key: value for key, value in block.items() if key != 'allow_metrics'}
    if args.metrics:
        kept['metrics'] = args.metrics
    with config.ignore_type():  # What stood there may have been of any.
        config.evals = {name: kept | changes | decoding}
        config.stages = {}
        config.baselines, config.accumulate = (), 1  # Of no training.
        config.mesh = args.mesh or config.mesh
    config_lib.check_evaluations(config)
    config.batches.batch_size = changes['batch_size']
    try:
        partitioning.make_mesh(**config.mesh)
    except UserError as error:
        raise UserError(f'{error} Here --mesh=data=-1 replaces it.') from None
    config.data.root = data_root(about, args.root)
    parts = runs.build(config, args.workdir)
    trained, labels = about.get('labels') or [], runs.labels_of(parts.data, config.model)
    if labels != trained:
        raise UserError(
            f'{args.workdir} was trained with the labels {", ".join(trained) or "none"}, but these '
            f'have {", ".join(labels) or "none"}; name tasks with the same ones'
        )
    params = checkpoints_lib.load_params(args.workdir, step, parts.shapes, parts.shardings)
    evaluator, _ = parts.evals[name]
    if ranking:
        writer = cast(generation.GenerationEvaluator, evaluator)
        writer.ranker, writer.keep = ranking, keep
    counted = [f'first{number}' if number else 'all'] if number != own_number else []
    filed = '-'.join([split, *counted, *decoded])
    if first:
        print(f'step {step} of {args.workdir} on {len(changes["tasks"])} tasks, {filed}')
        for note in evaluator.notes.values():
            print(note)
    with Interruption([signal.SIGTERM]) as interruption:  # Ctrl-C ends it at once: code 130.
        try:
            with memory.advising(f'take a smaller --batch_size (now {changes["batch_size"]:,})'):
                evaluator.run(params, step, output, 'evaluate', filed, interruption.check)
        except Interrupted as error:
            rest = 'tasks that were complete keep their scores; the same command scores all anew'
            raise Interrupted(f'{error}: {rest}') from None
    if first:
        print('\n' + layout.screen(output, step, filed))
    return step, filed


def _decoding(
    config: ConfigDict, block: ConfigDict, given: Mapping[str, Setting]
) -> tuple[dict[str, Setting], list[str]]:
    """Returns a block's decoding settings, and their differences as words of a folder's name."""
    if not objectives.build(**config.objective).writes_text:
        if given:
            raise UserError(
                f'--{next(iter(given))} is for models that write texts, and this is one for '
                f'{config.objective.name}; leave it out'
            )
        return {}, []
    configured = decoding_lib.make(block.get('decoding'), block.lengths['targets'])
    options = configured.changed(given)
    after, before = dataclasses.asdict(options), dataclasses.asdict(configured)
    words = [
        f'{"" if name == "method" else name}{re.sub("[^A-Za-z0-9.]+", "_", str(after[name]))}'
        for name in after
        if after[name] != before[name]
    ]
    return {'decode': True, 'decoding': after}, words


def _ranking(
    args: argparse.Namespace, decoding: dict[str, Setting]
) -> tuple[Mmi | Relevance | None, int, dict[str, Setting]]:
    """Returns the ranker of texts, None unless a flag names one; texts that stay; the decoding."""
    flag = '--rerank' if args.rerank else '--mmi_model' if args.mmi_model else ''
    if flag and not decoding:
        raise UserError(f'{flag} ranks texts that a model writes, and this one writes none')
    if flag and jax.process_count() > 1:
        raise UserError(f'{flag} works in one process; start the evaluation once')
    if not (reranker := of_flags(args, {})):
        return None, 1, decoding
    options = decoding_lib.Options(**decoding['decoding'])
    changed = {'decoding': dataclasses.asdict(reranker.candidates(options))}
    return reranker, options.num_return, decoding | changed


def _eval_name(config: ConfigDict, like: str | None) -> str:
    if not config.evals:
        raise UserError('the config of this run has no evals to take batch size and lengths from')
    for name, block in config.evals.items():
        for key in ('tasks', 'split', 'every', 'batch_size', 'lengths'):
            if key not in block:
                raise UserError(f'config.evals.{name} of this run lacks {key!r}')
    if like:  # It is there: `commands.parse_evaluate` has looked.
        return like
    final = [name for name, block in config.evals.items() if not block.every]
    return (final or list(config.evals))[0]


if __name__ == '__main__':
    sys.exit(cluster.run_main(main, sys.argv))
