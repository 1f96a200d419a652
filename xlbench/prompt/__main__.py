r"""Prompts a language model with K examples, as one more system of a benchmark.

  python -m xlbench.prompt http://localhost:8000/v1#qwen3 --task=xnli --languages=de+fr \
      --shots=0+4 --buckets=40 --workdir=RUNS/prompted_xnli
  python -m xlbench.fewshot report RUNS/prompted_xnli --output=RUNS/report

asks for the label of each test example behind the shots of each bucket: the same buckets that the
methods of few-shot transfer adapt to. The workdir is that of a sweep, for reports and bundles.

  python -m xlbench.prompt models/llama --task=mtg_qg_de_de --shots=4 --workdir=RUNS/prompted_qg

answers a task of texts, with K training examples that --seed draws, and scores the answers.
`xlbench reproduce BENCHMARK --table=N --add=NAME=prompt:ENGINE` does either for a paper's table.

The engine is the address of a server of OpenAI's form (vLLM, llama.cpp, a provider) up to /v1, with
its name of the model behind a #; chat+http://... sends prompts as messages, one a request. The
variable XLBENCH_PROMPT_KEY is the server's key. Or it is a model as xlbench.predict takes it. A
label is chosen by the log-probabilities of what may be answered, by the text where there are none.

Answers are kept by prompt and engine (--cache, by default DATA/prompts): a command that was stopped
continues, and nothing is asked twice. Templates are in English, or with --template_lang=own in the
language of the task; --templates=FILE.yaml has your own:

  en:
    instruction: Is the review good or bad?
    example: "Review: $inputs\nAnswer:"
    labels: {positive: good, negative: bad}

Places are $inputs, $text_a and $text_b of pairs, and $language.
"""

import argparse
import functools
import os
import pathlib
import sys
from collections.abc import Sequence

from xlbench.system import command_line, errors, files, locks
from xlbench.system.command_line import CommandLine, flag, say
from xlbench.system.errors import UserError
from xlbench.system.files import Setting

FLAGS = (
    flag('engine', 'ADDRESS#MODEL of a server, or a model', type=command_line.engine_name),
    flag('--task', 'xnli, udpos, ..., or a task of texts such as mtg_qg_de_de', required=True),
    flag('--languages', 'of a task of labels: de+fr', ''),
    flag('--shots', 'numbers of examples in a prompt: 0+4', '4'),
    flag('--buckets', 'the first of the buckets', 40, type=command_line.whole(1)),
    flag('--seed', 'of the examples of a task of texts', 0),
    flag('--template_lang', 'language of the templates: en, own, ...', 'en'),
    flag('--templates', 'your own templates, YAML', ''),
    flag('--max_tokens', 'of an answer of texts', 128, type=command_line.whole(1)),
    flag('--num_examples', 'test examples; 0: all', 0, type=command_line.whole(0)),
    flag('--batch_size', 'prompts that a model answers at once', 8, type=command_line.whole(1)),
    flag('--engine_version', 'version of the server', ''),
    flag('--timeout', 'seconds for a batch', 600.0, type=command_line.positive),
    flag('--cache', 'folder of the answers (default: DATA/prompts)', ''),
    command_line.TASK_DATA,
    flag('--system', "name in reports; default: the workdir's", ''),
    flag('--workdir', 'folder for the results', required=True),
)
COMMAND = CommandLine('prompt', __doc__, FLAGS)


def main(argv: Sequence[str]) -> None:
    """The command line, the program's name first."""
    args = COMMAND.parse(argv[1:])
    shots = args.shots.split('+')
    if not all(text.isdecimal() for text in shots):
        raise UserError(f'--shots={args.shots} is not numbers with a + between them, such as 0+4')
    args.shots = sorted({*map(int, shots)})
    args.cache = args.cache or os.path.join(command_line.chosen_root(args.root), 'prompts')
    if not args.like:
        args.root = command_line.chosen_root(args.root)
    from xlbench.benchmarks import topics

    if topics.declared(args.task):
        _labels(args)
    elif args.languages:
        raise errors.unknown('task of labels', args.task, topics.names())
    else:
        _texts(args)


def _labels(args: argparse.Namespace) -> None:
    """A sweep over languages, numbers of shots and buckets."""
    import msgspec
    from ml_collections import ConfigDict

    from xlbench import config as config_lib
    from xlbench.benchmarks import topics
    from xlbench.fewshot import results
    from xlbench.prompt import engines, sweeps, templates
    from xlbench.translate.jobs import Job

    languages = [lang for lang in args.languages.split('+') if lang]
    if not languages:
        raise UserError(f'--languages is missing: those of {args.task}, such as --languages=de+fr')
    own = args.template_lang == templates.OWN
    chosen = {
        lang: templates.load(args.task, lang if own else args.template_lang, args.templates)
        for lang in languages
    }
    allowed = topics.shots(args.task)
    for k in args.shots:
        if k and k not in allowed:
            raise errors.unknown(f'number of shots of {args.task}', str(k), map(str, allowed))
    buckets = range(args.buckets)
    where = _where(args)
    open_split = functools.partial(config_lib.open_task, **where)
    data = {
        lang: sweeps.Language(open_split, args.task, lang, args.shots, args.num_examples)
        for lang in languages
    }
    engine = engines.of_flags(args)
    jobs = {lang: Job(engine, lang, lang, cache=args.cache) for lang in languages}
    config = ConfigDict({
        'task': args.task,
        'adapt': {
            'languages': languages, 'shots': args.shots, 'methods': [results.PROMPT],
            'starts': [sweeps.START], 'buckets': args.buckets, 'dev': 'none',
            'test_examples': args.num_examples, 'lengths': {'inputs': 1 << 20},
        },
        'source': {'data': {'root': args.root, 'vocabulary': where['vocabulary']}},
        'source_workdir': '',
        'prompt': {
            'engines': {lang: job.identity for lang, job in jobs.items()},
            'templates': {lang: msgspec.to_builtins(one) for lang, one in chosen.items()},
        },
    })  # fmt: skip
    contents = {name: of for one in data.values() for name, of in one.contents.items()}
    kind = 'sample' if where['sample'] else 'files'
    about = {'data': kind, 'contents': contents, 'cwd': os.getcwd(), **config_lib.facts()}
    with locks.folder(args.workdir):
        config_lib.claim_workdir(args.workdir, config, about)
        journal = results.Journal(args.workdir)
        rows = sweeps.rows(args.task, languages, args.shots, buckets)
        sweeps.run(journal, rows, data, chosen, jobs)
        places = {row.key: place for place, row in enumerate(rows)}
        ordered = sorted(journal.rows, key=lambda row: places.get(row.key, len(places)))
        results.write_csv(ordered, pathlib.Path(args.workdir) / 'results.csv')
    for lang in languages:
        for k in args.shots:
            scores = [r.score for r in journal.rows if (r.language, r.shots) == (lang, k)]
            found = [score for score in scores if score is not None]
            mean = f'{sum(found) / len(found):.2f}' if found else 'no example'
            print(f'{args.task} {lang} K={k}: {mean}, {len(found)} of {len(scores)} rows')


def _where(args: argparse.Namespace) -> dict[str, Setting]:
    """The place of the data; of a sample it is made if it is missing."""
    vocabulary = args.vocabulary or ('' if args.like else 'bytes')
    sample = vocabulary.startswith('sample')
    return dict(like=args.like, root=args.root, vocabulary=vocabulary, sample=sample)


def _texts(args: argparse.Namespace) -> None:
    """Answers to a task of texts, scored."""
    from xlbench import benchmarks, config as config_lib, score
    from xlbench.prompt import engines, templates
    from xlbench.translate.jobs import Job

    task = benchmarks.parse_task(args.task)
    source, target = task.source, task.target
    if len(args.shots) > 1:
        raise UserError(f'--shots of {args.task} is one number, and a workdir has one system')
    lang = target if args.template_lang == templates.OWN else args.template_lang
    template = templates.load(f'{task.benchmark}_{task.task}', lang, args.templates)
    (shots,) = args.shots
    where = _where(args)
    test = config_lib.open_task(args.task, 'test', **where)
    train = config_lib.open_task(args.task, 'train', **where) if shots else None
    job = Job(engines.of_flags(args), source, target, cache=args.cache)
    requests = templates.requests(
        test, train, template, target, shots=shots, seed=args.seed,
        num_examples=args.num_examples, max_tokens=args.max_tokens,
    )  # fmt: skip
    say(f'{job.identity}, kept in {args.cache}')
    answers = engines.ask(job, requests)
    given = {name: getattr(args, name) for name in ('like', 'num_examples', 'system', 'seed')}
    given |= {'root': args.root, 'vocabulary': where['vocabulary']}
    chosen = [f'--{name}={value}' for name, value in given.items() if value]
    name = os.path.basename(os.path.abspath(args.workdir))
    output = os.path.join(args.cache, f'{name}-{args.task}.txt')  # What is scored is named so.
    files.write(output, ''.join(f'{answer}\n' for answer in answers))
    score.main([output, f'--task={args.task}', f'--workdir={args.workdir}', *chosen])


if __name__ == '__main__':
    sys.exit(errors.run_main(main, sys.argv))
