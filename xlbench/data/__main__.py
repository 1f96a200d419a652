r"""Lists, downloads and verifies the corpora; annotates, samples and builds data.

  python -m xlbench.data list                       every corpus; what of it is in the data root
  python -m xlbench.data list mrs                   one of them: address, licence, how to get it
  python -m xlbench.data get xquad --root=data      downloads what is missing, with checksums
  python -m xlbench.data verify xquad --root=data   reads all of it: checksums, records, counts
  python -m xlbench.data statistics clidsum_xsamsum_en_de --root=data     lengths, turns, speakers
  python -m xlbench.data statistics chats.jsonl --inputs=dialogue --targets=summary --lang=en

`statistics` prints tables 1 and 2 of arXiv:2202.05599 for any text-to-text tasks, or for your own
files: JSONL, JSON, CSV, TSV or Parquet, with the keys or columns --inputs and --targets, and --lang
or --source_lang and --target_lang. --splits=train,test selects splits of tasks; by default all are
read. --vocabulary also counts tokens. --format=csv prints more decimals than Markdown.

The other commands make data of other data: `segment`, `mark` and `triples` annotate dialogues for
ClidSum; `buckets`, `dev_split` and `xtreme` are for few-shot transfer; `mrs_build` and `mtg_build`
build benchmarks. See `xlbench data COMMAND --help`.
"""

import argparse
import os
import sys
from collections.abc import Iterator

from xlbench import benchmarks
from xlbench.data import corpora, readers
from xlbench.data.corpora import CORPORA, Corpus
from xlbench.system import errors
from xlbench.system.command_line import ROOT, CommandLine, chosen_root, flag

_WAYS = {
    'files': 'xlbench.data get, single files with checksums',
    'archive': 'xlbench.data get, an archive',
    'by hand': 'by hand',
}


def _print_corpora(flags: argparse.Namespace) -> None:
    root = chosen_root(flags.root)
    for line in _details(_corpus(flags.corpus), root) if flags.corpus else _list(root):
        print(line)


def _get(flags: argparse.Namespace) -> None:
    corpus = _corpus(flags.corpus)
    print(f'{corpus.name}: {corpus.title}; licence: {corpus.licence}')
    for line in corpora.get(corpus, chosen_root(flags.root), flags.mirror_url):
        print(line, flush=True)


def _verify(flags: argparse.Namespace) -> int:
    """Returns 1 if the corpus is not complete."""
    corpus, root = _corpus(flags.corpus), chosen_root(flags.root)
    complete = True
    for line, good in _verified(corpus, root):
        print(line, flush=True)
        complete &= good
    print(f'{corpus.name} is {"complete" if complete else "not complete"} in {root}')
    return 0 if complete else 1


def _corpus(name: str) -> Corpus:
    errors.check_known('corpus', name, CORPORA)
    return CORPORA[name]


def _list(root: str) -> Iterator[str]:
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


def _statistics(flags: argparse.Namespace) -> None:
    from xlbench.data import statistics, tokenizers  # They load for half a second.

    root, rows = chosen_root(flags.root), {}
    for name in flags.names:
        if os.path.sep in name or os.path.isfile(name):
            langs = flags.source_lang or flags.lang, flags.target_lang or flags.lang
            tokenizer = tokenizers.load(flags.vocabulary, root) if flags.vocabulary else None
            counts = statistics.of_file(name, (flags.inputs, flags.targets), langs, tokenizer)
            rows[name] = counts, langs
            continue
        from xlbench.prepare import examples

        splits = tuple(filter(None, flags.splits.split(',')))
        measured, langs = examples.measure(name, root, splits, flags.vocabulary)
        rows |= {f'{name} {split}': (of_split, langs) for split, of_split in measured.items()}
    from xlbench.reporting import lengths

    as_csv = flags.format == 'csv'
    with_tokens = bool(flags.vocabulary)
    print(lengths.comma_separated(rows) if as_csv else lengths.markdown(rows, with_tokens), end='')


def _verified(corpus: Corpus, root: str) -> Iterator[tuple[str, bool]]:
    """Yields lines about a corpus in a data root, and whether each is as published."""
    for file in corpus.files:
        try:
            path = corpora.present(file, root)
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
            task = pipeline.registry.task(task_name)
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


_CORPUS = (flag('corpus', 'name of the corpus', metavar='CORPUS'), ROOT)
_LIST = (flag('corpus', 'name of one corpus', nargs='?', metavar='CORPUS'), ROOT)
_MIRROR = flag('--mirror_url', 'server to download HOST/PATH of each address from', '')
_STATISTICS = (
    flag('names', 'tasks or files', nargs='+', metavar='TASK_OR_FILE'),
    ROOT,
    flag('--splits', 'splits of tasks, with commas', ''),
    flag('--inputs', 'key or column of inputs', 'dialogue'),
    flag('--targets', 'key or column of targets', 'summary'),
    flag('--lang', 'ISO code of the texts of a file'),
    flag('--source_lang', 'ISO code of the inputs, in place of --lang'),
    flag('--target_lang', 'ISO code of the targets, in place of --lang'),
    flag('--vocabulary', 'also count its tokens, such as mt5', ''),
    flag('--format', 'form of the table', 'markdown', choices=('markdown', 'csv')),
)
COMMAND = CommandLine(
    'data',
    __doc__,
    commands={
        'list': ('Lists the corpora; of one, address, licence and files.', _LIST, _print_corpora),
        'get': ('Downloads the missing files of a corpus.', (_CORPUS, _MIRROR), _get),
        'verify': ('Reads a whole corpus: checksums, records, counts.', _CORPUS, _verify),
        'statistics': ('Counts examples, lengths, turns, speakers.', _STATISTICS, _statistics),
        'segment': 'xlbench.dialogues.segment',
        'mark': 'xlbench.dialogues.mark',
        'triples': 'xlbench.dialogues.triples',
        'buckets': 'xlbench.data.buckets',
        'dev_split': 'xlbench.tasks.dev_split',
        'xtreme': 'xlbench.tasks.xtreme',
        'mrs_build': 'xlbench.tasks.mrs_build.command',
        'mtg_build': 'xlbench.tasks.mtg_build.command',
    },
)
main = COMMAND.main

if __name__ == '__main__':
    sys.exit(errors.run_main(main, sys.argv))
