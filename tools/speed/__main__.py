"""Runs all scripts of this folder in turn, and keeps their figures as JSON and as a table.

    make speed                            # all of them, over an hour; writes into docs/speed/
    python tools/speed --list
    python tools/speed --only=search,beam_search_32k
    python tools/speed --only=search --output=/tmp/new.json --against=docs/speed/PROCESSOR.json

The machine should have nothing else to do: the cores that are at work are counted before each
script, and the record says how many there were. PyTorch and the other libraries that we compare
with live in an environment of their own, which --torch_python or the environment variable
XLBENCH_TORCH_PYTHON names:

    pip install torch==2.13.0 transformers==5.23.0 sentence-transformers==6.2.0 \
        accelerate datasets faiss-cpu sentencepiece numpy

A script whose peers are missing is left out, and the table says so. Each processor has a file in
docs/speed/. What was run replaces its older figures there; all others stay, those of other
processors, too. The table of docs/results.md is written anew, with a column for each processor.
"""

import argparse
import os
import pathlib

import catalog
import machine
import record

RECORDS = catalog.PROJECT / 'docs' / 'speed'
PAGE = catalog.PROJECT / 'docs' / 'results.md'


def main() -> None:
    parser = argparse.ArgumentParser(
        prog='python tools/speed',
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument('--only', default='', metavar='NAMES', help='runs or scripts, with commas')
    own = RECORDS / record.name_of(machine.facts())
    parser.add_argument('--output', type=pathlib.Path, default=own, metavar='FILE')
    parser.add_argument('--against', type=pathlib.Path, metavar='FILE', help='an older record')
    python = os.environ.get(catalog.VARIABLE, '')
    parser.add_argument('--torch_python', default=python, metavar='FILE')
    parser.add_argument('--list', action='store_true', help='print the commands, and run nothing')
    parser.add_argument('--table', action='store_true', help='run nothing, print what is there')
    args = parser.parse_args()
    scripts = catalog.chosen(args.only)
    if args.list:
        print('\n'.join(f'{script.name:<20} {script.line()}' for script in scripts))
        return
    order = [script.name for script in catalog.SCRIPTS]
    before = record.load(args.against) if args.against else None
    if args.against and not before:
        parser.error(f'{args.against} does not exist')
    kept: record.Record = record.load(args.output) or {'machine': machine.facts(), 'runs': []}
    if not args.table:
        record.merge(kept, {'machine': machine.facts(), 'runs': []}, order)  # Same machine?
        for script in scripts:
            new: record.Record = {
                'machine': machine.facts(),
                'runs': [catalog.run(script, args.torch_python)],
            }
            kept = record.merge(kept, new, order)
            record.save(args.output, kept)  # After each, so that nothing is lost.
    print(f'\n{record.table([kept])}')
    if args.output.resolve().parent == RECORDS:
        text = record.table([record.load(path) for path in sorted(RECORDS.glob('*.json'))])
        page = record.replace_section(PAGE.read_text(encoding='utf-8'), text)
        PAGE.write_text(page, encoding='utf-8')
    if before:
        lines = record.changes(before, kept)
        print('\n' + '\n'.join(lines or [f'nothing changed beyond noise against {args.against}']))


if __name__ == '__main__':
    main()
