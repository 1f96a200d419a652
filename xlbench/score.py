r"""Scores predictions of any system, read from a file.

  python -m xlbench.score answers.txt --task=mtg_qg_de_de --like=RUNS/mtg --workdir=RUNS/other
  python -m xlbench.score out.jsonl --field=answer --task=news_title_de --workdir=RUNS/other
  python -m xlbench.score out.txt --references=ref1.txt,ref2.txt --lang=de --metrics=sacrebleu,chrf
  python -m xlbench.score out.de.txt --references=test.de.txt --benchmark=clidsum --lang=de
  python -m xlbench.score replies.tsv --format=mrs --lang=de
  python -m xlbench.score RUNS/mtg --metrics=meteor,bertscore

The references are those of a prepared task and split, which is prepared if it is missing (--like
takes data root and vocabulary from a run), or of files: several files, with commas between them,
give several references for each example. A file has one text on each line, and an empty line is an
empty text. JSONL has `prediction` or `predictions` (--field), and `target`, a text or a list of
texts (--reference_field). .conll and .conllu have words with their tags. Records on both sides are
matched by their `id` (--id_field) if they have one, otherwise by their order. The ids of a prepared
split are those of its records, or the numbers from 0 that predictions.jsonl has.

--format=mrs reads the files of microsoft/MRS: message, reference and replies, with TABs between
them. --rouge_csv writes what the official multilingual ROUGE command prints: low, mid and high of
1,000 bootstrap means, here with a seed; --rouge_examples writes its lines of single examples.
--n_best reads lines that begin with the number of their example and a TAB, and --scores those with
a score and a TAB before the text, as xlbench.predict writes both.

The metrics are the task's, or those that --metrics names; your own function is tasks/FILE.py:NAME.
With --references, --task names any task that is declared, and none of its data is read. --benchmark
takes the metrics of its first task in --lang, or of --task, and the further ones of the paper's
tables; one whose model is not here is left out, with a line that says how to get it. Without a
task, texts are scored with multilingual_rouge, sacrebleu, chrf and distinct, and tags with chunk_f1
and tag_accuracy. With several references, sacrebleu, chrf and ter compute what sacreBLEU computes,
and multilingual_rouge, meteor, bertscore and bleurt take the best reference for each of their
scores. Metrics that support only one reference refuse more.

With --workdir the scores are also written to WORKDIR/eval/STEP/SPLIT/TASK/, as by an evaluation;
several calls may add several tasks, and xlbench.report shows the system beside runs. Folders of the
same --system and with different --seed are a row of means.

The workdir of a finished run, of xlbench.score or of a chain in place of a file adds the scores of
--metrics to its evaluations of --split (at all steps, also of other decoding), or of --task alone;
--lang is for tasks that do not say their language. Earlier scores stay, and a score of the same
name from another signature is refused. If the command is killed, repeat it.
"""

import argparse
import contextlib
import os
import pathlib
import re
import sys
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from xlbench.config import commands

if __name__ == '__main__':  # A slip is answered before the imports below, which take a second.
    commands.check_first(commands.SCORE.parse, sys.argv[1:])

from xlbench import benchmarks, config as config_lib
from xlbench.data import features, outputs, prepared
from xlbench.reporting import scored
from xlbench.system import errors, files, locks
from xlbench.system.command_line import say
from xlbench.system.errors import UserError
from xlbench.system.files import Json

if TYPE_CHECKING:  # They load for half a second, which a slip need not wait for.
    from xlbench import metrics
    from xlbench.metrics.contract import Target

_TAG_FORMATS = ('conll', 'conllu')
_TAG_METRICS = ('chunk_f1', 'tag_accuracy')
_TEXT_METRICS = ('multilingual_rouge', 'sacrebleu', 'chrf', 'distinct')


class _Asked(NamedTuple):
    """The examples that are scored, and how."""

    task: str
    references: outputs.References
    specs: Sequence[Json] | None  # The task's own metrics; None where nothing says them.
    lang: str | None
    tags: bool  # Whether the texts are tags of words.
    headline: str = ''  # The score that stands for the task, if one was named.
    source: prepared.Prepared | None = None  # None for references of files.


def main(argv: Sequence[str], made_by: Mapping[str, Json] | None = None) -> int:
    """Scores what a command line without the program's name says; see `--help`.

    metrics.json has `made_by` as the decoding that the predictions are from; by default 'file'.
    """
    args = commands.SCORE.parse(argv)
    if os.path.isdir(args.predictions):
        _add(args)
        return 0
    started = time.monotonic()
    workdir = pathlib.Path(args.workdir) if args.workdir else None
    if workdir:
        scored.check(workdir, args.system or workdir.name, args.seed)
    _check_names(args)
    if args.format == 'mrs':
        references, system = outputs.read_mrs(args.predictions)
        asked = _asked(args, references, tags=False)
    else:
        asked = _of_files(args) if args.references else _of_task(args)
        names = ('format', 'field', 'id_field', 'n_best', 'scores')
        form = {name: getattr(args, name) for name in names}
        system = outputs.read_outputs(args.predictions, tags=asked.tags, **form)
    asked = asked._replace(references=asked.references.first(args.num_examples))
    n_best = system.for_references(asked.references)
    suite = _suite(args, asked)
    counts = list(map(len, asked.references.targets))
    targets, texts = _compared(asked, n_best)
    scores, per_example = suite.score(targets, texts)
    signatures = suite.signatures(counts)
    note = _about_texts(asked, n_best)
    folder = None
    if workdir:
        origin = {'file': args.predictions, 'sha256': outputs.sha256(args.predictions)}
        result = {
            'step': args.step,
            'stage': 'score',
            **({'note': note} if note else {}),
            'num_examples': len(n_best),
            'scores': scores,
            'signatures': signatures,
            'metrics': list(suite.written),
            'seconds': round(time.monotonic() - started, 3),
            'decoding': {**(made_by or {'method': 'file'}), **origin},
            'headline': asked.headline if asked.headline in scores else '',
            **asked.references.facts,
        }
        lines = _lines(asked.references, n_best, per_example)
        system_name = args.system or workdir.name
        # Other tasks of the system may be scored at the same time; all are noted in one file.
        with locks.folder(workdir, wait=say):
            scored.check(workdir, system_name, args.seed)
            files.remove_leftovers(workdir)
            who = dict(system=system_name, seed=args.seed, origin=origin)
            folder = scored.write(workdir, asked.task, args.split, result, lines, **who)
    for name, value in scores.items():
        print(f'{name:<24} {value:.2f}')
    for name, signature in signatures.items():
        print(f'{name}: {signature}')
    if note:
        print(note)
    _write_rouge(args, suite, targets, texts)
    if empty := sum(not row for row in n_best):
        print(f'{empty} of {len(n_best)} examples have no prediction, and were scored as empty')
    if folder:
        print(f'wrote {folder}')
    return 0


def _add(args: argparse.Namespace) -> None:
    """Adds scores to the evaluations of a workdir."""
    from xlbench.reporting import adding  # It loads metrics, for half a second.

    defaults = vars(commands.SCORE.parse(['']))
    taken = ('predictions', 'metrics', 'task', 'split', 'lang')
    for name, value in vars(args).items():
        if name not in taken and value != defaults[name]:
            raise UserError(f'--{name} is for files of predictions; {args.predictions} is a folder')
    if not args.metrics:
        raise UserError(f'{args.predictions} is a folder; name the metrics to add with --metrics')
    flags = dict(split=args.split, task=args.task, lang=args.lang or '', say=say)
    changed = adding.add(args.predictions, args.metrics, **flags)
    for folder in changed:
        print(f'added to {folder}')
    if not changed:
        print(f'{args.predictions} has all these scores')


def _write_rouge(
    args: argparse.Namespace,
    suite: 'metrics.Suite',
    targets: 'Sequence[Target]',
    n_best: Sequence[Sequence[str]],
) -> None:
    """Writes the CSV files of the official multilingual ROUGE command that are asked for."""
    if not (args.rouge_csv or args.rouge_examples):
        return
    from xlbench.metrics import rouge

    rouges = [m for m in suite.metrics if isinstance(m, rouge.MultilingualRouge)]
    if not rouges:
        raise UserError('--rouge_csv and --rouge_examples are of multilingual_rouge; see --metrics')
    rows = rouges[0].score_pairs(targets, [texts[0] if texts else '' for texts in n_best])
    for path, aggregate in ((args.rouge_csv, True), (args.rouge_examples, False)):
        if path:
            files.check_own(path, 'of multilingual ROUGE', heads=['score_type,low', 'id,rouge'])
            files.write(path, rouge.official_csv(rows, aggregate))
            print(f'wrote {path}')


def _about_texts(asked: _Asked, n_best: Sequence[Sequence[str]]) -> str:
    """Warns where all references are alike, or nearly all predictions."""
    from xlbench.metrics import contract, distinct

    firsts = [texts[0] if texts else '' for texts in n_best]
    name = asked.references.name
    targets = asked.references.targets
    few = distinct.collapse(name, [row[0] for row in targets], firsts)
    seen = {text for row in targets for text in row}
    if asked.tags:
        seen = {tag for text in seen for tag in text.split()}
    return ' '.join(filter(None, (contract.about_targets(name, len(targets), seen), few)))


def _check_names(args: argparse.Namespace) -> None:
    """Raises UserError for slips that shall not wait for a preparation."""
    prepared.folder('', 'none', args.task or 'task', args.split)  # Refuses what is no plain name.
    if not os.path.isfile(args.predictions):
        raise UserError(f'there is no file {args.predictions}')
    if args.format == 'mrs' and args.references:
        raise UserError('--format=mrs has the references in the same file; leave out --references')
    if args.benchmark and not (args.references or args.format == 'mrs'):
        raise UserError('--benchmark scores files; name the references with --references=FILE')
    if args.metrics:
        from xlbench.metrics import suite as suite_lib  # It loads for half a second.

        for name in args.metrics:
            suite_lib.check_name(name)


def _of_files(args: argparse.Namespace) -> _Asked:
    """References of files."""
    for name in ('like', 'vocabulary', 'sample'):
        if getattr(args, name):
            raise UserError(f'--{name} is for prepared data; leave it out, or --references')
    tags = outputs.format_of(args.references[0]) in _TAG_FORMATS
    tags |= bool(args.metrics) and set(args.metrics) <= set(_TAG_METRICS)
    references = outputs.read_references(
        args.references, field=args.reference_field, id_field=args.id_field, tags=tags
    )
    return _asked(args, references, tags)


def _asked(args: argparse.Namespace, references: outputs.References, tags: bool) -> _Asked:
    """References of files with the metrics of a task or a benchmark, if one is named."""
    stem = pathlib.Path(references.facts['references'][0]['file']).name.partition('.')[0]
    task = args.task or re.sub(r'\W+', '_', stem, flags=re.ASCII).strip('_') or 'task'
    about = {} if args.metrics else _described(args.task)
    if args.benchmark:
        about = _of_benchmark(args)
    lang = about.get('target_lang')
    if not lang:
        with contextlib.suppress(UserError):
            lang = benchmarks.parse_task(task).target
    headline = str(about.get('headline') or '')
    return _Asked(task, references, about.get('metrics'), args.lang or lang, tags, headline)


def _described(task: str) -> dict[str, Json]:
    """Reads how a declared task is scored, with or without its data; {} for other names."""
    try:
        config_lib.check_task(task, 'task', '', '')
    except UserError:
        return {}
    from xlbench import pipeline

    return pipeline.described(task)


def _of_benchmark(args: argparse.Namespace) -> dict[str, Json]:
    """Reads how a benchmark scores: as one of its tasks, and with what its tables add."""
    from xlbench import metrics
    from xlbench.metrics import suite as suite_lib

    benchmark, task = benchmarks.get(args.benchmark), args.task
    if args.metrics:
        raise UserError('--metrics and --benchmark both name metrics; leave out one of them')
    if not task and len({*map(benchmark.main_score, benchmark.tasks)}) > 1:
        raise UserError(
            f'{benchmark.name} does not score all its tasks alike; name one with --task, such as '
            f'{benchmark.task_names()[0]}'
        )
    if not task:
        tasks = [benchmarks.parse_task(name) for name in benchmark.task_names()]
        task = next(('_'.join(one) for one in tasks if one.target == args.lang), '')
    if not task:
        raise UserError(f'--benchmark needs --lang, one of {", ".join(benchmark.languages)}')
    about = _described(task)
    for name in benchmark.metrics.values():
        if name in suite_lib.NAMES:  # A rating that was fitted is the user's own file.
            spec = suite_lib.named(name, str(about.get('target_lang')))
            if lines := metrics.Suite(task, [spec]).missing():
                say(f'without {name}: {lines[0]}')
            elif spec not in about['metrics']:
                about = about | {'metrics': [*about['metrics'], spec]}
    return about


def _of_task(args: argparse.Namespace) -> _Asked:
    """References of a prepared task and split."""
    if not args.task:
        raise UserError('name the references: --task=NAME of a prepared task, or --references=FILE')
    if args.reference_field != 'target':
        raise UserError('--reference_field is for --references; a prepared task has one target')
    place = {name: getattr(args, name) for name in ('like', 'root', 'vocabulary', 'sample')}
    task = config_lib.open_task(args.task, args.split, **place)
    manifest = task.manifest
    return _Asked(
        args.task,
        outputs.prepared_references(task, args.id_field),
        manifest.get('metrics'),
        args.lang or manifest.get('target_lang'),
        features.VIEWS[manifest.get('view', 'generation')].labels == 'word',
        str(manifest.get('headline') or ''),
        task,
    )


def _compared(
    asked: _Asked, n_best: Sequence[Sequence[str]]
) -> 'tuple[list[Target], list[list[str]]]':
    """Targets and predictions as metrics take them: what a task's postprocessor makes of them."""
    targets = asked.references.targets
    if asked.source is not None:
        from xlbench.data.postprocess import Postprocess

        if process := Postprocess(asked.source):
            return process(asked.source.read(range(len(targets))), n_best)
    several = max(map(len, targets)) > 1
    return [row if several else row[0] for row in targets], [list(texts) for texts in n_best]


def _suite(args: argparse.Namespace, asked: _Asked) -> 'metrics.Suite':
    """The metrics that are named, or the task's."""
    from xlbench import metrics  # They load for half a second, which a slip need not wait for.
    from xlbench.metrics import suite as suite_lib

    if args.metrics or asked.specs is None:
        usual = ('mrs_rouge',) if args.format == 'mrs' else _TEXT_METRICS
        chosen = args.metrics or (_TAG_METRICS if asked.tags else usual)
        specs: Sequence[Json] = [suite_lib.named(name, asked.lang) for name in chosen]
    else:
        specs = asked.specs
    if not specs:
        raise UserError(f'{asked.task} has no metrics; name some of {", ".join(suite_lib.NAMES)}')
    suite = metrics.Suite(asked.task, specs)
    suite.require()
    most = max(map(len, asked.references.targets))
    if most > 1 and suite.of_one_reference:
        raise UserError(
            f'{suite.of_one_reference[0]} compares with one reference, and {asked.references.name} '
            f'has up to {most}; leave it out of --metrics, or give one file of references'
        )
    return suite


def _lines(
    references: outputs.References,
    n_best: Sequence[Sequence[str]],
    per_example: Sequence[Mapping[str, float]],
) -> list[dict[str, Json]]:
    """The lines of predictions.jsonl."""
    lines = []
    for i, (texts, scores) in enumerate(zip(n_best, per_example, strict=True)):
        targets = references.targets[i]
        line: dict[str, Json] = {
            'id': references.ids[i],
            'input': references.inputs[i],
            'target': targets[0],
            'prediction': texts[0] if texts else '',
            'scores': dict(scores),
        }
        line |= {'references': list(targets)} if len(targets) > 1 else {}
        line |= {'n_best': [{'prediction': text} for text in texts]} if len(texts) > 1 else {}
        lines.append(line)
    return lines


if __name__ == '__main__':
    sys.exit(errors.run_main(main, sys.argv[1:]))
