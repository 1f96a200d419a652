r"""Lists, downloads and verifies the corpora; cleans parallel text.

  python -m xlbench.data list                       every corpus; what of it is in the data root
  python -m xlbench.data list mrs                   one of them: address, licence, how to get it
  python -m xlbench.data get xquad --root=data      downloads what is missing, with checksums
  python -m xlbench.data verify xquad --root=data   reads all of it: checksums, records, counts
  python -m xlbench.data statistics clidsum_xsamsum_en_de --root=data     lengths, turns, speakers
  python -m xlbench.data statistics chats.jsonl --inputs=dialogue --targets=summary --lang=en
  python -m xlbench.data clean --source_lang=en --target_lang=de --output=train.tsv \
      memory.tmx pairs.tsv.gz news.en,news.de       pairs of texts: normalised, filtered, each once

Statistics are tables 1 and 2 of arXiv:2202.05599 of any tasks that read a text and write one, or of
files of one's own: JSONL, JSON, CSV, TSV or Parquet, with --inputs and --targets, the keys or
columns, and --lang or --source_lang and --target_lang. --splits=train,test takes some splits of
tasks, by default all that are there. With --vocabulary, tokens are counted as well. --format=csv
prints more decimals than Markdown does.

`clean` reads TMX, tables with TABs (pairs.tsv:2,1 has the source text in its second column) and two
files whose lines belong together, all of them also packed (.gz). It says what each rule dropped.
"""

import argparse
import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence

from xlbench import benchmarks
from xlbench.data import bitext, download, readers, statistics, tokenizers
from xlbench.data.corpora import CORPORA, Corpus
from xlbench.data.statistics import Langs, Statistics
from xlbench.system import errors

_WAYS = {
    'files': 'xlbench.data get, single files with checksums',
    'archive': 'xlbench.data get, an archive',
    'by hand': 'by hand',
}


def main(argv: Sequence[str]) -> int:
    """The command line, the program's name first; 1 if `verify` misses something."""
    flags = _parser().parse_args(list(argv[1:]))
    if flags.command == 'clean':
        return _clean(flags)
    root = flags.root or os.environ.get('XLBENCH_DATA') or 'data'
    if flags.command == 'list':
        for line in _details(_corpus(flags.corpus), root) if flags.corpus else _list(root):
            print(line)
        return 0
    if flags.command == 'statistics':
        print(_statistics(flags, root), end='')
        return 0
    corpus = _corpus(flags.corpus)
    if flags.command == 'get':
        print(f'{corpus.name}: {corpus.title}; licence: {corpus.licence}')
        for line in download.get(corpus, root, flags.mirror_url):
            print(line, flush=True)
        return 0
    complete = True
    for line, good in _verify(corpus, root):
        print(line, flush=True)
        complete &= good
    print(f'{corpus.name} is {"complete" if complete else "not complete"} in {root}')
    return 0 if complete else 1


_COMMANDS = {
    'list': 'Lists the corpora; of one, the address, the licence and the way to get it.',
    'get': 'Downloads the missing files of a corpus and checks their checksums.',
    'verify': 'Reads a whole corpus: checksums, records, counts.',
    'statistics': 'Counts examples, lengths, turns and speakers of tasks or files.',
    'clean': 'Filters pairs of texts: normalised, each once, without those that break a rule.',
}


def _parser() -> argparse.ArgumentParser:
    parser = errors.ArgumentParser('python -m xlbench.data', __doc__)
    metavar = '|'.join(_COMMANDS)
    commands = parser.add_subparsers(dest='command', required=True, metavar=metavar)

    def add_command(name: str) -> argparse.ArgumentParser:
        about = _COMMANDS[name]
        help_ = about[0].lower() + about[1:-1]
        return commands.add_parser(
            name, prog=f'{parser.prog} {name}', help=help_, description=about
        )

    for name in ('list', 'get', 'verify'):
        command = add_command(name)
        command.add_argument('corpus', nargs='?' if name == 'list' else None, metavar='CORPUS')
        command.add_argument('--root', metavar='FOLDER', help='default: XLBENCH_DATA, else data')
        if name == 'get':
            command.add_argument(
                '--mirror_url',
                metavar='ADDRESS',
                default='',
                help='download HOST/PATH of each address from this server',
            )
    command = add_command('statistics')
    command.add_argument('names', nargs='+', metavar='TASK_OR_FILE')
    command.add_argument('--root', metavar='FOLDER', help='default: XLBENCH_DATA, else data')
    command.add_argument('--splits', default='', help='splits of tasks, with commas')
    command.add_argument('--inputs', default='dialogue', help='key or column of inputs')
    command.add_argument('--targets', default='summary', help='key or column of targets')
    command.add_argument('--lang', help='ISO code of the texts of a file')
    command.add_argument('--source_lang', help='ISO code of the inputs, in place of --lang')
    command.add_argument('--target_lang', help='ISO code of the targets, in place of --lang')
    command.add_argument('--vocabulary', default='', help='also count its tokens, such as mt5')
    command.add_argument('--format', choices=('markdown', 'csv'), default='markdown')
    _add_clean(add_command('clean').add_argument)
    return parser


def _add_clean(add: Callable[..., argparse.Action]) -> None:
    add('inputs', nargs='+', metavar='INPUT', help='FILE.tmx, FILE.tsv, FILE.tsv:2,1 or FILE,FILE')
    add('--source_lang', metavar='CODE', required=True, help='ISO code, such as en')
    add('--target_lang', metavar='CODE', required=True, help='ISO code, such as de')
    add('--output', metavar='FILE', required=True, help='new file: source TAB target')
    words, ratio = bitext.Rules.max_length, bitext.Rules.max_ratio
    add('--max_length', metavar='N', type=int, default=words, help='most words of a text')
    add(
        '--max_ratio',
        metavar='N',
        type=float,
        default=ratio,
        help='largest ratio of both lengths, each plus five words',
    )
    add('--any_language', action='store_true', help='keep texts in other languages')
    add('--workers', metavar='N', type=int, default=1, help='processes (default: 1)')


def _clean(flags: argparse.Namespace) -> int:
    if flags.workers < 1:
        raise errors.UserError(f'--workers is {flags.workers}; give 1 or more')
    rules = bitext.Rules(
        flags.source_lang,
        flags.target_lang,
        flags.max_length,
        flags.max_ratio,
        identify=not flags.any_language,
    )
    inputs = [bitext.Input.parse(text) for text in flags.inputs]
    try:
        report = bitext.clean(inputs, flags.output, rules, flags.workers)
    except KeyboardInterrupt:
        print(f'error: stopped by Ctrl-C; {flags.output} is not written', file=sys.stderr)
        return 130
    for line in report.lines():
        print(line)
    print(f'-> {flags.output}, and {flags.output}.about.json')
    return 0


def _corpus(name: str) -> Corpus:
    if name not in CORPORA:
        raise errors.unknown('corpus', name, CORPORA)
    return CORPORA[name]


def _list(root: str) -> Iterator[str]:
    """A line for each corpus."""
    width = max(map(len, CORPORA))
    for corpus in CORPORA.values():
        columns = corpus.name.ljust(width), corpus.way.ljust(7), _state(corpus, root), corpus.title
        yield '  '.join(columns)
    yield f'the data root is {root}; python -m xlbench.data list CORPUS says more'


def _state(corpus: Corpus, root: str) -> str:
    if not corpus.files:
        return '-    '
    count = sum(bool(readers.find(os.path.join(root, file.path))) for file in corpus.files)
    # A + stands for the files of an archive, which are not counted.
    return (f'{count}/{len(corpus.files)}' + '+' * bool(corpus.archives)).ljust(5)


def _details(corpus: Corpus, root: str) -> Iterator[str]:
    """All that is known of one corpus."""
    yield f'{corpus.name}: {corpus.title}'
    yield f'address   {corpus.address}'
    yield f'licence   {corpus.licence}'
    more = ', and an archive with the others' if corpus.files and corpus.archives else ''
    yield f'how       {_WAYS[corpus.way]}{more}'
    if corpus.by_hand:
        yield f'          {corpus.by_hand}'
    for archive in corpus.archives:
        yield f'archive   {archive.address}'
    for file in corpus.files:
        there = readers.find(os.path.join(root, file.path))
        yield f'file      {file.path}, {file.bytes:,} bytes, {"there" if there else "missing"}'
    yield f'read by   tasks/{corpus.benchmark}.py'


def _statistics(flags: argparse.Namespace, root: str) -> str:
    """The table of some tasks or files, as text."""
    rows: dict[str, tuple[Statistics, Langs]] = {}
    for name in flags.names:
        if os.path.sep in name or os.path.isfile(name):
            langs = flags.source_lang or flags.lang, flags.target_lang or flags.lang
            tokenizer = tokenizers.load(flags.vocabulary, root) if flags.vocabulary else None
            measured = statistics.of_file(name, (flags.inputs, flags.targets), langs, tokenizer)
            rows[name] = measured, langs
            continue
        from xlbench.preparation import measuring

        splits = tuple(filter(None, flags.splits.split(',')))
        measured, langs = measuring.measure(name, root, splits, flags.vocabulary)
        rows |= {f'{name} {split}': (counts, langs) for split, counts in measured.items()}
    from xlbench.reporting import lengths

    if flags.format == 'csv':
        return lengths.comma_separated(rows)
    return lengths.markdown(rows, bool(flags.vocabulary))


def _verify(corpus: Corpus, root: str) -> Iterator[tuple[str, bool]]:
    """Checks a corpus in a data root: (what was seen, whether it is as published)."""
    for file in corpus.files:
        try:
            path = download.present(file, root)
        except errors.UserError as error:
            yield str(error), False
            continue
        state = f'{file.path}: ' + ('missing' if path is None else 'the published content')
        yield state, path is not None
    from xlbench import pipeline  # Late: `list` and `get` do not need it.

    pipeline.use_root(root)
    for name in corpus.tasks:
        task_name, _, split = name.partition(':')
        try:
            task = pipeline.get(task_name)
            policy = readers.BadRecords(lambda: True)
            with pipeline.bad_records(policy):
                paths = task.source.paths(split)
                chunks = task.source.chunks(split, paths)
                count = sum(len(next(iter(chunk.values()))) for chunk in chunks)
        except errors.UserError as error:
            yield f'{name}: {error}', False
            continue
        yield _counted(name, count, policy)


def _counted(name: str, count: int, policy: readers.BadRecords) -> tuple[str, bool]:
    task_name, _, split = name.partition(':')
    parts = benchmarks.parse_task(task_name)
    benchmark = benchmarks.get(parts.benchmark)
    line, good = f'{name}: {count:,} records', count > 0 and not policy.skipped
    if size := benchmark.official_size(parts.task, split, parts.source):
        official = benchmark.is_official(parts.task, split, count, parts.source)
        line += ', as published' if official else f', published are {size:,}'
        good &= official
    for bad in policy.skipped[:3]:
        line += f'; {bad}'
    if len(policy.skipped) > 3:
        line += f'; and {len(policy.skipped) - 3:,} more bad records'
    return line, good


if __name__ == '__main__':
    with contextlib.suppress(BrokenPipeError):
        sys.exit(errors.run_main(main, sys.argv))
